"""Charts of device time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.charts.data import (
    draws,
    require,
    spread_over_ranks,
    told_apart,
    top_rows,
)
from hta_widgets.charts.defined import draw
from hta_widgets.charts.definition import definition
from hta_widgets.charts.figure import (
    add_tooltip,
    blank,
    keep_fitting,
    models,
    new_figure,
    sentences,
    shows_itself,
    unmatched,
)
from hta_widgets.charts.rows import (
    Bars,
    Column,
    Tooltip,
    Whiskers,
    brush,
    extremes,
    rows_chart,
    time_ticks,
)
from hta_widgets.charts.theme import Theme, theme_of
from hta_widgets.text import count, duration, plural, share
from hta_widgets.trace.names import short_name

Floats = npt.NDArray[np.float64]

_WAIT = "exposed wait"


@draws("temporal_breakdown")
def temporal_breakdown(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Where GPU time goes",
) -> Any:
    """Draw what each rank's device does, as shares of its span.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.temporal_breakdown`. With a column ``exposed_wait_ns``, the part
        of ``exposed_communication_ns`` that is spent waiting for the last rank, communication is
        drawn as transfer and, hatched, as wait.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a rank; its source has the frame's rows.

    Examples
    --------
    >>> charts.temporal_breakdown(analysis.temporal_breakdown(traces))  # doctest: +SKIP
    """
    return draw("breakdown", frame, width=width, theme=theme, title=title)


@draws("kernel_type_breakdown")
def kernel_type_breakdown(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Kinds of GPU work",
) -> Any:
    """Draw how much busy time goes to each kind, and to kinds that run at once.

    Parameters and result as of `temporal_breakdown`; `frame` is of
    `hta_widgets.analysis.kernel_type_breakdown`.

    Examples
    --------
    >>> charts.kernel_type_breakdown(analysis.kernel_type_breakdown(traces))  # doctest: +SKIP
    """
    if "rank" in frame:
        require(frame, "kernel_type_breakdown", "kernel_type", "sum_ns")
        sums = frame.groupby("kernel_type", sort=False, observed=True)["sum_ns"].sum()
        data = sums.sort_values(ascending=False, kind="stable").reset_index()
        data["share"] = data["sum_ns"] / max(1, data["sum_ns"].sum())
        data.attrs = {**frame.attrs, "together": 1}
        frame = data
    return draw("kernel_types", frame, width=width, theme=theme, title=title)


@draws("comm_comp_overlap")
def comm_comp_overlap(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Communication, and how much compute hides",
) -> Any:
    """Draw each rank's communication, split into hidden behind compute and exposed.

    Parameters and result as of `temporal_breakdown`; `frame` is of
    `hta_widgets.analysis.comm_comp_overlap`.

    Examples
    --------
    >>> charts.comm_comp_overlap(analysis.comm_comp_overlap(traces))  # doctest: +SKIP
    """
    return draw("overlap", frame, width=width, theme=theme, title=title)


@draws("idle_time_breakdown")
def idle_time_breakdown(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Why streams are idle",
) -> Any:
    """Draw each stream's idle time, split by cause.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.idle_time_breakdown`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a stream; its source has the frame's rows.

    Examples
    --------
    >>> charts.idle_time_breakdown(analysis.idle_time_breakdown(traces))  # doctest: +SKIP
    """
    return draw("idle_streams", frame, width=width, theme=theme, title=title)


@draws("device_idle_breakdown")
def device_idle_breakdown(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Why devices are idle",
) -> Any:
    """Draw the idle time of each rank's whole device, split by cause.

    Parameters and result as of `idle_time_breakdown`, with one bar a rank; `frame` is of
    `hta_widgets.analysis.device_idle_breakdown`.

    Examples
    --------
    >>> charts.device_idle_breakdown(analysis.device_idle_breakdown(traces))  # doctest: +SKIP
    """
    return draw("idle", frame, width=width, theme=theme, title=title)


_MEASURES = ("count", "sum_ns", "min_ns", "max_ns")


@draws("kernel_breakdown")
def kernel_breakdown(
    frame: pd.DataFrame,
    *,
    top: int = 12,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Top kernels",
) -> Any:
    """Draw the kernels with most time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.kernel_breakdown`.
    top : int, default 12
        How many kernels; the others are one bar that says how many they are.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a kernel; its source has columns ``kind, name, count, sum_ns, mean_ns, min_ns,
        max_ns`` over all ranks, and ``per_rank_ns``, what the bars show; the lines are from
        ``least_ns`` to ``most_ns``, sums of a rank.

    Examples
    --------
    >>> charts.kernel_breakdown(analysis.kernel_breakdown(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "kernel_breakdown", "rank", "kind", "name", *_MEASURES)
    ranks = frame["rank"].nunique()
    grouped = frame.groupby(["kind", "name"], observed=True)
    data = pd.DataFrame(
        {
            "count": grouped["count"].sum(),
            "sum_ns": grouped["sum_ns"].sum(),
            "min_ns": grouped["min_ns"].min(),
            "max_ns": grouped["max_ns"].max(),
        }
    ).reset_index()
    data, names = top_rows(data, "sum_ns", top, "kernel", short_name)
    names = told_apart(names, list(data["name"]), [str(kind) for kind in data["kind"]])
    data = spread_over_ranks(frame, data, ["kind", "name"])
    data["mean_ns"] = data["sum_ns"] / data["count"]
    data["per_rank_ns"] = data["sum_ns"] / ranks
    whole = float(frame["sum_ns"].sum()) or 1.0
    data["fill"] = [colors.kind.get(str(kind), colors.idle) for kind in data["kind"]]
    for name in ("per_rank_ns", "mean_ns", "min_ns", "max_ns", "least_ns", "most_ns"):
        data[f"{name}_text"] = [duration(each) for each in data[name]]
    data["share_text"] = [share(each / whole) for each in data["sum_ns"]]
    data["count_text"] = [count(each) for each in data["count"]]
    whiskers = [Whiskers("least_ns", "most_ns", colors.ink2)] if ranks > 1 else []
    most = float(max(data["per_rank_ns"].max(), data["most_ns"].max() if ranks > 1 else 0)) or 1.0
    measure = "mean of ranks, line: least to most of a rank" if ranks > 1 else "summed durations"
    return rows_chart(
        data,
        names,
        [Bars(0.0, "per_rank_ns", "@fill"), *whiskers],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            f"device time by name, {measure}",
            f"{plural(int(data['names'].sum()), 'name')} on {plural(ranks, 'rank')}",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head="kernel",
        ticks=time_ticks(most),
        columns=[
            Column("total", list(data["per_rank_ns_text"])),
            Column("share", list(data["share_text"]), 480),
            Column("count", list(data["count_text"]), 620),
            Column("mean", list(data["mean_ns_text"]), 620),
        ],
        legend=[
            Bars(0.0, "per_rank_ns", colors.kind[kind], kind)
            for kind in ("compute", "communication", "memory", "other")
            if (data["kind"].astype(str) == kind).any()
        ],
        tooltip=Tooltip(
            "@{name}",
            [
                ("kind", "@{kind}"),
                ("total a rank", "@{per_rank_ns_text}"),
                ("least and most of a rank", "@{least_ns_text} – @{most_ns_text}"),
                ("of all device time", "@{share_text}"),
                ("kernels, all ranks", "@{count_text}"),
                ("mean", "@{mean_ns_text}"),
                ("shortest and longest", "@{min_ns_text} – @{max_ns_text}"),
            ],
        ),
    )


@draws("kernel_duration_by_rank")
def kernel_duration_by_rank(
    frame: pd.DataFrame,
    *,
    name: str | None = None,
    top: int = 12,
    late: Iterable[int] | None = None,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str | None = None,
) -> Any:
    """Draw how long kernels take on each rank.

    With a `name`, or on one rank: bars of the mean with lines from shortest to longest. Else one
    row a kernel, with a dot for each rank's mean against the median rank's. The scale ends at the
    farthest kernel that does not wait, at 100 % at most: arrow heads at its ends are ranks that
    are farther. Dark is the dot that is farthest of its kernel, by 5 % and 1 % of a rank's time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.kernel_duration_by_rank`.
    name : str, optional
        The full name of one kernel.
    top : int, default 12
        How many kernels, those with most time.
    late : iterable of int, optional
        Ranks to draw in red, as in `step_phases`.

    See Also
    --------
    kernel_breakdown : Has the other parameters.

    Examples
    --------
    >>> frame = analysis.kernel_duration_by_rank(traces)  # doctest: +SKIP
    >>> charts.kernel_duration_by_rank(frame)  # doctest: +SKIP
    """
    given = title or ("Kernel durations over ranks" if name is None else short_name(name))
    if not frame.empty:
        needed = definition("kernel_durations")["needs"]
        require(frame, "kernel_duration_by_rank", *needed)
    chosen = frame if name is None else frame[frame["name"].astype(str) == name]
    if chosen.empty:
        note = "" if frame.empty else "no kernel has this name"
        return blank(frame, given, theme_of(theme), width, note=note)
    if name is not None or len(chosen["rank"].unique()) == 1:
        return _means(chosen, frame, name, top, given, theme_of(theme), width)
    data = frame.assign(kind=frame["kind"].astype(str) if "kind" in frame else "")
    data["name"] = data["name"].astype(str)
    of = data.groupby(["name", "kind"], sort=False).ngroup()
    total = (data["mean_ns"] * data["count"]).groupby(of).sum()
    order = total.sort_values(ascending=False, kind="stable").index
    place = of.map({number: row for row, number in enumerate(order[:top])})
    data = data[place.notna()].iloc[place.dropna().argsort(kind="stable")]
    if "short" not in data:
        data["short"] = _shorts(list(data["name"]))
    data.attrs = {**frame.attrs, "drawn": top, "others": max(0, len(total) - top)}
    data.attrs |= {} if late is None else {"late_ranks": list(late)}
    return draw("kernel_durations", data, width=width, theme=theme, title=given)


def _means(
    chosen: pd.DataFrame,
    frame: pd.DataFrame,
    name: str | None,
    top: int,
    title: str,
    colors: Theme,
    width: int | None,
) -> Any:
    data = chosen.reset_index(drop=True)
    said = ""
    if name is None:
        order = (data["mean_ns"] * data["count"]).sort_values(ascending=False, kind="stable").index
        said = _most(len(order), top)
        data = data.loc[order[:top]].reset_index(drop=True)
        full = [str(each) for each in data["name"]]
        names = told_apart(_shorts(full), full)
    else:
        names = [f"rank {rank}" for rank in data["rank"]]
    data["row"] = np.arange(len(data))
    for each in ("mean_ns", "min_ns", "max_ns"):
        data[f"{each}_text"] = [duration(value) for value in data[each]]
    data["count_text"] = [count(each) for each in data["count"]]
    data["fill"] = _fills(data, colors)
    most = float(data["max_ns"].max()) or 1.0
    return rows_chart(
        data,
        names,
        [Bars(0.0, "mean_ns", "@fill"), Whiskers("min_ns", "max_ns", colors.ink2)],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "bar: mean duration, line: shortest to longest",
            said or (name is not None and extremes(names, data["mean_ns"], duration)) or "",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head="kernel" if name is None else " ",
        ticks=time_ticks(most),
        columns=[
            Column("mean", list(data["mean_ns_text"])),
            Column("longest", list(data["max_ns_text"]), 480),
            Column("count", list(data["count_text"]), 620),
        ],
        tooltip=_DURATIONS,
    )


_DURATIONS = Tooltip(
    "@{name}",
    [
        ("rank", "@{rank}"),
        ("mean", "@{mean_ns_text}"),
        ("shortest and longest", "@{min_ns_text} – @{max_ns_text}"),
        ("kernels", "@{count_text}"),
    ],
)


def _shorts(names: list[str]) -> list[str]:
    return [short_name(name) for name in names]


def _most(names: int, top: int) -> str:
    if names <= top:
        return ""
    return f"the {count(top)} with most time; {plural(names - top, 'other')} not drawn"


def _fills(data: pd.DataFrame, colors: Theme) -> list[str]:
    if "kind" not in data:
        return [colors.kind["compute"]] * len(data)
    return [colors.kind.get(str(kind), colors.kind["other"]) for kind in data["kind"]]


#: Bars a decade.
_FINE = 8


@draws("launch_stats")
def launch_stats(
    frame: pd.DataFrame,
    *,
    runtime_cutoff_ns: int = 50_000,
    launch_delay_cutoff_ns: int = 100_000,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Launches",
) -> Any:
    """Draw how launch delays, launch calls and short kernels are distributed.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.launch_stats`.
    runtime_cutoff_ns : int, default 50 000
        A launch call that takes longer is drawn solid.
    launch_delay_cutoff_ns : int, default 100 000
        A kernel that starts later after its launch is drawn solid.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.models.Column
        Three histograms: launch delay; duration of launch calls; durations of device events, those
        shorter than their launch call apart. Sources have columns ``from_ns, to_ns, count,
        solid``.

    Examples
    --------
    >>> charts.launch_stats(analysis.launch_stats(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "launch_stats", "launch_delay_ns", "cpu_dur_ns", "gpu_dur_ns")
    delay, call = frame["launch_delay_ns"].to_numpy(), frame["cpu_dur_ns"].to_numpy()
    kernel = frame["gpu_dur_ns"].to_numpy()
    blue, grey = colors.kind["compute"], colors.kind["cpu"]
    late, long, short = delay > launch_delay_cutoff_ns, call > runtime_cutoff_ns, kernel < call
    charts = [
        _histogram(
            delay,
            late,
            f"{title}: delay of kernels",
            "from the launch call's end to the kernel's start, 0 where it starts before",
            f"later than {duration(launch_delay_cutoff_ns)}",
            blue,
            colors,
            width,
        ),
        _histogram(
            call,
            long,
            f"{title}: duration of calls",
            "how long the thread is busy with the call",
            f"longer than {duration(runtime_cutoff_ns)}",
            grey,
            colors,
            width,
        ),
        _histogram(
            kernel,
            short,
            f"{title}: duration of kernels",
            "device time of what is launched, copies included",
            "shorter than their launch call",
            blue,
            colors,
            width,
            unmatched(frame),
        ),
    ]
    sizing = {"width": int(width)} if width else {"sizing_mode": "stretch_width"}
    return shows_itself(models.Column(children=charts, spacing=8, **sizing))


def _histogram(
    values: Any,
    solid: Any,
    title: str,
    said: str,
    of_solid: str,
    color: str,
    colors: Theme,
    width: int | None,
    note: str = "",
) -> Any:
    """Return a histogram over decades; zeros stand in a bar of their own at the left."""
    zero = values <= 0
    logs = np.log10(np.maximum(values[~zero], 1).astype(float))
    low = float(np.floor(logs.min())) if len(logs) else 2.0
    high = max(low + 1, float(np.ceil(logs.max() + 1e-9))) if len(logs) else 3.0
    bins = round((high - low) * _FINE)
    edges = low + np.arange(bins + 1) / _FINE
    place = np.clip(((logs - low) * _FINE).astype(int), 0, bins - 1)
    every = np.bincount(place, minlength=bins)
    chosen = np.bincount(place[solid[~zero]], minlength=bins)
    left, right = edges[:-1], edges[1:]
    start_ns, end_ns = 10.0**left, 10.0**right
    gap = 4 / _FINE
    if zero.any():
        left = np.r_[low - gap - 1.0 / _FINE, left]
        right = np.r_[low - gap, right]
        every = np.r_[zero.sum(), every]
        chosen = np.r_[solid[zero].sum(), chosen]
        start_ns, end_ns = np.r_[0.0, start_ns], np.r_[0.0, end_ns]
    # Counts differ by orders of magnitude, and the few are what one looks for.
    top = max(1.0, float(np.log10(1 + every.max())))
    taken = float(values[solid].sum())
    figure = new_figure(
        title,
        sentences(
            said,
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
        tools=[models.BoxSelectTool(dimensions="width", overlay=brush(colors)), models.TapTool()],
    )
    _decades(figure, low, high, top, zero=float(left[0] + right[0]) / 2 if zero.any() else None)
    figure.ygrid.grid_line_color = colors.rule
    inside = 0.12 / _FINE
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
            "range_text": _ranges(start_ns, end_ns),
            "count_text": [count(each) for each in every],
            "solid_text": [count(each) for each in chosen],
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
        names=[(0.0, "0"), *((float(np.log10(1 + n)), count(n)) for n in _counts(top))],
    )
    return figure


def _ranges(start_ns: Any, end_ns: Any) -> list[str]:
    return [
        "0 ns" if until == 0 else f"{duration(since)} to {duration(until)}"
        for since, until in zip(start_ns, end_ns, strict=True)
    ]


def _counts(top: float) -> list[int]:
    """Return up to three counts for the scale at the left."""
    tens = [10**power for power in range(8) if np.log10(1 + 10**power) <= top * 1.05]
    step = max(1, -(-len(tens) // 3))
    return tens[::-1][::step]


def _decades(figure: Any, low: float, high: float, top: float, *, zero: float | None) -> None:
    """Label the scale below at powers of ten, and at zero."""
    powers = np.arange(low, high + 1)
    ticks = [float(power) for power in powers]
    labels = {at: _power(int(at)) for at in ticks}
    if zero is not None:
        ticks = [zero, *ticks]
        labels[zero] = "0"
    figure.xaxis.ticker = models.FixedTicker(ticks=ticks)
    figure.xaxis.major_label_overrides = labels
    figure.yaxis.ticker = models.FixedTicker(
        ticks=[0.0, *(float(np.log10(1 + n)) for n in _counts(top))]
    )


def _power(power: int) -> str:
    unit, scale = next(
        (each for each in (("s", 9), ("ms", 6), ("\u00b5s", 3)) if power >= each[1]), ("ns", 0)
    )
    return f"{10 ** (power - scale)}\u2009{unit}"


@draws("queue_length_summary")
def queue_length_summary(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Launched and not yet started",
) -> Any:
    """Draw how much launched work waits on each stream: in the mean, and at most.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.queue_length_summary`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a rank and stream; of more than 48, the stream with the longest queue of each rank.

    Examples
    --------
    >>> charts.queue_length_summary(analysis.queue_length_summary(traces))  # doctest: +SKIP
    """
    return draw("queue", frame, width=width, theme=theme, title=title)
