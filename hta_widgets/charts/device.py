"""Charts of device time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.charts.chart import chart, defines
from hta_widgets.charts.data import spread_over_ranks, top_rows
from hta_widgets.charts.definition import definition
from hta_widgets.charts.figure import (
    add_tooltip,
    display_in_notebooks,
    join_sentences,
    keep_fitting,
    models,
    new_figure,
)
from hta_widgets.charts.rows import Bars, Column, Tooltip, Whiskers, extremes_text, selection_box
from hta_widgets.charts.theme import Theme
from hta_widgets.text import count, duration, plural, share
from hta_widgets.trace.names import disambiguate, short_name


@defines("breakdown")
def temporal_breakdown(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw the activity of each rank's device, as shares of its span.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.temporal_breakdown`, or traces to analyse. If the result has
        a column ``exposed_wait_ns`` (the part of ``exposed_communication_ns`` that is spent waiting
        for the last rank), communication is split into transfer and, hatched, waits.

    Returns
    -------
    bokeh.plotting.figure
        One bar per rank; its source has the frame's rows.
    """
    return frame


@defines("kernel_types", "kernel_type", "sum_ns")
def kernel_type_breakdown(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw the busy time of each kind of kernel, and of kinds that run at the same time."""
    if "rank" not in frame:
        return frame
    sums = frame.groupby("kernel_type", sort=False, observed=True)["sum_ns"].sum()
    data = sums.sort_values(ascending=False, kind="stable").reset_index()
    data["share"] = data["sum_ns"] / max(1, data["sum_ns"].sum())
    data.attrs = {**frame.attrs, "together": 1}
    return data


@defines("overlap")
def comm_comp_overlap(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw each rank's communication: time hidden behind compute, and exposed time."""
    return frame


@defines("idle_streams")
def idle_time_breakdown(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw each stream's idle time, split by cause.

    Returns
    -------
    bokeh.plotting.figure
        One bar per stream; its source has the frame's rows.
    """
    return frame


@defines("idle")
def device_idle_breakdown(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw the idle time of each rank's whole device, split by cause."""
    return frame


_MEASURES = ("count", "sum_ns", "min_ns", "max_ns")


@chart("Top kernels", "rank", "kind", "name", *_MEASURES)
def kernel_breakdown(frame: pd.DataFrame, theme: Theme, *, top: int = 12) -> dict[str, Any]:
    """Draw the kernels with most time.

    Parameters
    ----------
    top : int, default 12
        Number of kernels; the others share one bar, which is labelled with their number.

    Returns
    -------
    bokeh.plotting.figure
        One bar per kernel; its source has columns ``kind, name, count, sum_ns, mean_ns, min_ns,
        max_ns`` over all ranks, and ``per_rank_ns``, the length of the bar. The lines are from
        ``least_ns`` to ``most_ns``, the smallest and the largest sum of a rank.
    """
    ranks = frame["rank"].nunique()
    grouped = frame.groupby(["kind", "name"], observed=True)
    sums = {"count": "sum", "sum_ns": "sum", "min_ns": "min", "max_ns": "max"}
    data, names = top_rows(grouped.agg(sums).reset_index(), "sum_ns", top, "kernel", short_name)
    data = spread_over_ranks(frame, data, ["kind", "name"])
    data["mean_ns"] = data["sum_ns"] / data["count"]
    data["per_rank_ns"] = data["sum_ns"] / ranks
    data["share"] = data["sum_ns"] / (float(frame["sum_ns"].sum()) or 1.0)
    data["fill"] = [theme.kind.get(str(kind), theme.idle) for kind in data["kind"]]
    several = ranks > 1
    measure = "mean of ranks, line: least to most of a rank" if several else "summed durations"
    return {
        "data": data,
        "names": disambiguate(names, list(data["name"]), [str(kind) for kind in data["kind"]]),
        "marks": [
            Bars(0.0, "per_rank_ns", "@fill"),
            *[Whiskers("least_ns", "most_ns", theme.ink2)] * several,
        ],
        "end_ns": float(max(data["per_rank_ns"].max(), data["most_ns"].max() if several else 0)),
        "subtitle": [
            f"device time by name, {measure}",
            f"{plural(int(data['names'].sum()), 'name')} on {plural(ranks, 'rank')}",
        ],
        "head": "kernel",
        "columns": [
            Column("total", "{per_rank_ns:duration}"),
            Column("share", "{share:share}", 480),
            Column("count", "{count:count}", 620),
            Column("mean", "{mean_ns:duration}", 620),
        ],
        "legend": [
            Bars(0.0, "per_rank_ns", theme.kind[kind], kind)
            for kind in ("compute", "communication", "memory", "other")
            if (data["kind"].astype(str) == kind).any()
        ],
        "tooltip": Tooltip(
            "@{name}",
            [
                ("kind", "@{kind}"),
                ("total a rank", "{per_rank_ns:duration}"),
                ("least and most of a rank", "{least_ns:duration} – {most_ns:duration}"),
                ("of all device time", "{share:share}"),
                ("kernels, all ranks", "{count:count}"),
                ("mean", "{mean_ns:duration}"),
                ("shortest and longest", "{min_ns:duration} – {max_ns:duration}"),
            ],
        ),
    }


def _durations_title(name: str | None, **_: Any) -> str:
    look = definition("kernel_durations")
    return str(look["title"]) if name is None else short_name(name)


@chart(_durations_title, *definition("kernel_durations")["needs"], folds=True)
def kernel_duration_by_rank(
    frame: pd.DataFrame,
    theme: Theme,
    *,
    name: str | None = None,
    top: int = 12,
    late: Iterable[int] | None = None,
) -> Any:
    """Draw how long kernels take on each rank.

    With a `name`, or on one rank: bars of the mean with lines from shortest to longest. Otherwise
    one row per kernel, with a dot for each rank's mean against the median rank's. The scale ends at
    the farthest dot of kernels other than communication, but at 10 % at least and 100 % at most;
    ranks beyond it are arrow heads at its ends. The farthest dot of such a kernel is dark if it
    differs from the median by 5 %, and by 1 % of a rank's kernel time.

    Parameters
    ----------
    name : str, optional
        The full name of one kernel.
    top : int, default 12
        Number of kernels, those with most time.
    late : iterable of int, optional
        Ranks to draw in red, as in `step_phases`.
    """
    chosen = frame if name is None else frame[frame["name"].astype(str) == name]
    if chosen.empty:
        return "no kernel has this name"
    if name is not None or len(chosen["rank"].unique()) == 1:
        return _mean_duration_bars(chosen, theme, name, top)
    data = frame.assign(kind=frame["kind"].astype(str) if "kind" in frame else "")
    data["name"] = data["name"].astype(str)
    of = data.groupby(["name", "kind"], sort=False).ngroup()
    total = (data["mean_ns"] * data["count"]).groupby(of).sum()
    order = total.sort_values(ascending=False, kind="stable").index
    place = of.map({number: row for row, number in enumerate(order[:top])})
    data = data[place.notna()].iloc[place.dropna().argsort(kind="stable")]
    if "short" not in data:
        data["short"] = [short_name(each) for each in data["name"]]
    data.attrs = {**frame.attrs, "drawn": top, "others": max(0, len(total) - top)}
    data.attrs |= {} if late is None else {"late_ranks": list(late)}
    return "kernel_durations", data


def _mean_duration_bars(
    chosen: pd.DataFrame, theme: Theme, name: str | None, top: int
) -> dict[str, Any]:
    data = chosen.reset_index(drop=True)
    if name is None:
        order = (data["mean_ns"] * data["count"]).sort_values(ascending=False, kind="stable").index
        data = data.loc[order[:top]].reset_index(drop=True)
        full = [str(each) for each in data["name"]]
        names = disambiguate([short_name(each) for each in full], full)
        left = len(order) - top
        said = (
            f"the {count(top)} with most time; {plural(left, 'other')} not drawn"
            if left > 0
            else ""
        )
    else:
        names = [f"rank {rank}" for rank in data["rank"]]
        said = extremes_text(names, data["mean_ns"], duration)
    kinds = data["kind"].astype(str) if "kind" in data else ["compute"] * len(data)
    data["fill"] = [theme.kind.get(kind, theme.kind["other"]) for kind in kinds]
    return {
        "data": data,
        "names": names,
        "marks": [Bars(0.0, "mean_ns", "@fill"), Whiskers("min_ns", "max_ns", theme.ink2)],
        "end_ns": float(data["max_ns"].max()),
        "subtitle": ["bar: mean duration, line: shortest to longest", said],
        "head": "kernel" if name is None else " ",
        "columns": [
            Column("mean", "{mean_ns:duration}"),
            Column("longest", "{max_ns:duration}", 480),
            Column("count", "{count:count}", 620),
        ],
        "tooltip": Tooltip(
            "@{name}",
            [
                ("rank", "@{rank}"),
                ("mean", "{mean_ns:duration}"),
                ("shortest and longest", "{min_ns:duration} – {max_ns:duration}"),
                ("kernels", "{count:count}"),
            ],
        ),
    }


#: Number of bars per decade of durations.
_BINS_PER_DECADE = 8


@chart("Launches", "launch_delay_ns", "cpu_dur_ns", "gpu_dur_ns")
def launch_stats(
    frame: pd.DataFrame,
    theme: Theme,
    *,
    runtime_cutoff_ns: int = 50_000,
    launch_delay_cutoff_ns: int = 100_000,
) -> dict[str, Any]:
    """Draw histograms of launch delays, durations of launch calls and durations of kernels.

    Parameters
    ----------
    runtime_cutoff_ns : int, default 50 000
        Longer launch calls are drawn solid.
    launch_delay_cutoff_ns : int, default 100 000
        Longer launch delays are drawn solid.

    Returns
    -------
    bokeh.models.Column
        Three histograms: launch delays, durations of launch calls, and durations of device events,
        solid for those shorter than their launch call. Sources have columns ``from_ns, to_ns,
        count, solid``.
    """
    delay, call = frame["launch_delay_ns"].to_numpy(), frame["cpu_dur_ns"].to_numpy()
    kernel = frame["gpu_dur_ns"].to_numpy()
    delays = "from the launch call's end to the kernel's start, 0 where it starts before"
    late, long = f"later than {duration(launch_delay_cutoff_ns)}", duration(runtime_cutoff_ns)
    blue, grey = theme.kind["compute"], theme.kind["cpu"]
    return {
        "by": _histograms,
        "subtitle": [],
        "parts": [
            ("delay of kernels", delays, delay, delay > launch_delay_cutoff_ns, late, blue),
            (
                *("duration of calls", "how long the thread is busy with the call"),
                *(call, call > runtime_cutoff_ns, f"longer than {long}", grey),
            ),
            (
                *("duration of kernels", "device time of what is launched, copies included"),
                *(kernel, kernel < call, "shorter than their launch call", blue),
            ),
        ],
    }


def _histograms(
    parts: list[tuple[Any, ...]], *, title: str, subtitle: str, theme: Theme, width: int | None
) -> Any:
    notes = [""] * (len(parts) - 1) + [subtitle]
    charts = [
        _histogram(values, solid, f"{title}: {what}", said, of_solid, color, theme, width, note)
        for (what, said, values, solid, of_solid, color), note in zip(parts, notes, strict=True)
    ]
    sizing = {"width": int(width)} if width else {"sizing_mode": "stretch_width"}
    return display_in_notebooks(models.Column(children=charts, spacing=8, **sizing))


def _histogram(
    values: Any,
    solid: Any,
    title: str,
    subtitle: str,
    of_solid: str,
    color: str,
    colors: Theme,
    width: int | None,
    note: str,
) -> Any:
    """Return a histogram over decades, with a separate bar for zeros at the left."""
    zero = values <= 0
    logs = np.log10(np.maximum(values[~zero], 1).astype(float))
    low = float(np.floor(logs.min())) if len(logs) else 2.0
    high = max(low + 1, float(np.ceil(logs.max() + 1e-9))) if len(logs) else 3.0
    bins = round((high - low) * _BINS_PER_DECADE)
    edges = low + np.arange(bins + 1) / _BINS_PER_DECADE
    place = np.clip(((logs - low) * _BINS_PER_DECADE).astype(int), 0, bins - 1)
    every = np.bincount(place, minlength=bins)
    chosen = np.bincount(place[solid[~zero]], minlength=bins)
    left, right = edges[:-1], edges[1:]
    start_ns, end_ns = 10.0**left, 10.0**right
    gap = 4 / _BINS_PER_DECADE
    if zero.any():
        left = np.r_[low - gap - 1.0 / _BINS_PER_DECADE, left]
        right = np.r_[low - gap, right]
        every = np.r_[zero.sum(), every]
        chosen = np.r_[solid[zero].sum(), chosen]
        start_ns, end_ns = np.r_[0.0, start_ns], np.r_[0.0, end_ns]
    # A logarithmic scale, since counts differ by orders of magnitude and the small ones matter.
    top = max(1.0, float(np.log10(1 + every.max())))
    taken = float(values[solid].sum())
    figure = new_figure(
        title,
        join_sentences(
            subtitle,
            f"solid: {of_solid}, {count(int(solid.sum()))} of {count(len(values))} "
            f"({share(float(solid.mean()))}), {duration(taken)} together",
            "both scales logarithmic",
            note,
        ),
        colors,
        width,
        frame_height=96,
        x_range=models.Range1d(float(left[0]) - 0.05, high + 0.05),
        y_range=models.Range1d(0, top * 1.06),
        tools=[
            models.BoxSelectTool(dimensions="width", overlay=selection_box(colors)),
            models.TapTool(),
        ],
    )
    _label_decades(
        figure, low, high, top, zero=float(left[0] + right[0]) / 2 if zero.any() else None
    )
    figure.ygrid.grid_line_color = colors.rule
    inside = 0.12 / _BINS_PER_DECADE
    source = models.ColumnDataSource(
        {
            "left": left + inside,
            "right": right - inside,
            "count": every,
            "solid": chosen,
            "top": np.log10(1.0 + every),
            "solid_top": np.log10(1.0 + chosen),
            "from_ns": start_ns,
            "to_ns": end_ns,
            "range_text": _bin_ranges(start_ns, end_ns),
            "count_text": list(map(count, every)),
            "solid_text": list(map(count, chosen)),
        }
    )
    pale = figure.quad(
        left="left",
        right="right",
        bottom=0,
        top="top",
        source=source,
        fill_color=color,
        fill_alpha=0.3,
        line_color=None,
        nonselection_fill_alpha=0.12,
    )
    full = figure.quad(
        left="left",
        right="right",
        bottom=0,
        top="solid_top",
        source=source,
        fill_color=color,
        line_color=None,
        nonselection_fill_alpha=0.4,
    )
    rows = [("all", "@{count_text}"), (of_solid, "@{solid_text}")]
    add_tooltip(figure, [pale, full], colors, "@{range_text}", rows)
    keep_fitting(
        figure,
        width=width,
        names=[(0.0, "0"), *((float(np.log10(1 + n)), count(n)) for n in _count_ticks(top))],
    )
    return figure


def _bin_ranges(start_ns: Any, end_ns: Any) -> list[str]:
    return [
        "0 ns" if until == 0 else f"{duration(since)} to {duration(until)}"
        for since, until in zip(start_ns, end_ns, strict=True)
    ]


def _count_ticks(top: float) -> list[int]:
    """Return up to three powers of ten as ticks of the axis of counts."""
    tens = [10**power for power in range(8) if np.log10(1 + 10**power) <= top * 1.05]
    step = max(1, -(-len(tens) // 3))
    return tens[::-1][::step]


def _label_decades(figure: Any, low: float, high: float, top: float, *, zero: float | None) -> None:
    """Label the x axis at powers of ten and at zero, and set the ticks of the y axis."""
    powers = np.arange(low, high + 1)
    ticks = [float(power) for power in powers]
    labels = {at: _power_of_ten(int(at)) for at in ticks}
    if zero is not None:
        ticks = [zero, *ticks]
        labels[zero] = "0"
    figure.xaxis.ticker = models.FixedTicker(ticks=ticks)
    figure.xaxis.major_label_overrides = labels
    figure.yaxis.ticker = models.FixedTicker(
        ticks=[0.0, *(float(np.log10(1 + n)) for n in _count_ticks(top))]
    )


def _power_of_ten(power: int) -> str:
    unit, scale = next(
        (each for each in (("s", 9), ("ms", 6), ("\u00b5s", 3)) if power >= each[1]), ("ns", 0)
    )
    return f"{10 ** (power - scale)}\u202f{unit}"


@defines("queue")
def queue_length_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw the mean and the maximum length of each stream's queue of launched work.

    Returns
    -------
    bokeh.plotting.figure
        One bar per stream. With several ranks, one bar per rank, for its stream with the longest
        mean queue.
    """
    return frame
