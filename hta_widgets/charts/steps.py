"""Charts of queues, bandwidth, memory, operators, kernel sequences and steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.charts.chart import chart, defines
from hta_widgets.charts.data import (
    groups_of_ranks,
    late_ranks,
    rank_list,
    require_columns_of,
    spread_over_ranks,
    takes_frame_only,
    takes_panel,
    thin_points,
    top_rows,
)
from hta_widgets.charts.figure import add_tooltip, models
from hta_widgets.charts.lanes import MAX_POINTS, Lane, lanes_figure, step_lanes
from hta_widgets.charts.rows import (
    NAMED_ROWS,
    Bars,
    Column,
    Dots,
    Tooltip,
    Whiskers,
    legend_for,
    round_ticks,
)
from hta_widgets.charts.theme import Theme
from hta_widgets.text import count, duration, plural, rate, share_delta, size, value
from hta_widgets.trace.names import disambiguate, short_name


@chart("Launched and not yet started", "rank", "stream", "time_ns", "queue_length")
def queue_length(frame: pd.DataFrame, theme: Theme, *, top: int = 12) -> dict[str, Any]:
    """Draw the number of launches that wait on each stream over time.

    Parameters
    ----------
    top : int, default 12
        Number of streams, those with the longest queues.

    Returns
    -------
    bokeh.plotting.figure
        One lane per stream. Its source has the frame's columns and ``until_ns``, the time of the
        next change. Above 20 000 changes it has the minimum and maximum (``queue_length``,
        ``most``) of slices of time instead, and the subtitle reports that.
    """
    lanes, rest = _lane_series(frame, "stream", "queue_length", top, value)
    blocked = int(frame["queue_length"].max()) >= 1024
    return {
        **lanes,
        "subtitle": [
            "launches on a stream that wait for their start, scaled to each row's peak"
            + (" · from 1 024 on a launch blocks its thread" if blocked else ""),
            rest,
        ],
        "color": theme.kind["compute"],
    }


@chart("Bandwidth of copies", "rank", "copy_kind", "time_ns", "gb_per_s")
def memory_bandwidth(frame: pd.DataFrame, theme: Theme, *, top: int = 12) -> dict[str, Any]:
    """Draw the bandwidth of copies, by their kind, over time.

    Parameters
    ----------
    top : int, default 12
        Number of lanes, one per rank and kind of copy; those with the highest peaks are drawn.

    Returns
    -------
    bokeh.plotting.figure
        As from `queue_length`, with ``gb_per_s`` instead of ``queue_length``.
    """
    lanes, rest = _lane_series(frame, "copy_kind", "gb_per_s", top, rate)
    return {
        **lanes,
        "subtitle": [
            "as the trace states it, added over copies that run at once, scaled to each row's peak",
            rest,
        ],
        "color": theme.kind["memory"],
    }


def _lane_series(
    frame: pd.DataFrame, key: str, measure: str, top: int, words: Any
) -> tuple[dict[str, Any], str]:
    """Return the lanes with the highest peaks, and a sentence about the omitted ones."""
    by_stream = key == "stream"
    parts: dict[Any, pd.DataFrame] = dict(list(frame.groupby(["rank", key], observed=True)))
    peaks = {of: float(part[measure].max()) for of, part in parts.items()}
    # First the highest peak of each stream or kind of copy, then the second highest, and so on.
    highest = sorted(parts, key=lambda of: -peaks[of])
    place = {of: sum(one[1] == of[1] for one in highest[:at]) for at, of in enumerate(highest)}
    chosen = sorted(highest, key=lambda of: place[of])[:top]
    shown = [of for of in parts if of in set(chosen)]
    several = len(frame["rank"].unique()) > 1
    series = []
    for rank, other in shown:
        part = parts[rank, other].sort_values("time_ns", kind="stable")
        name = f"stream {other}" if by_stream else str(other)
        lane = Lane(f"rank {rank}\n{name}" if several else name, words(peaks[rank, other]))
        fixed = {"rank": int(rank), key: int(other) if by_stream else other}
        series.append((lane, fixed, part["time_ns"].to_numpy(), part[measure].to_numpy()))
    left = len(parts) - len(shown)
    rest = f"{plural(left, 'more row')} with lower peaks not drawn" if left else ""
    lanes = {
        "by": step_lanes,
        "series": series,
        "value_name": measure,
        "until_ns": float(frame["time_ns"].max()),
        "words": words,
        "heads": ("", "peak"),
        "pitch": 40 if len(series) <= 6 else 34,
        "tooltip": Tooltip(
            "rank @{rank} · " + ("stream @{stream}" if by_stream else f"@{{{key}}}"),
            [
                ("length" if by_stream else "bandwidth", "@{value_text}"),
                ("from", "@{time_ns}{0,0} ns"),
                ("until", "@{until_ns}{0,0} ns"),
            ],
        ),
    }
    return lanes, rest


@chart(
    "Device memory by use",
    "time_ns",
    takes=takes_frame_only("hta_widgets.analysis.memory_timeline(path)"),
)
def memory_timeline(frame: pd.DataFrame) -> dict[str, Any] | str:
    """Draw device memory over time, stacked by use.

    Parameters
    ----------
    frame : DataFrame
        Result of `hta_widgets.analysis.memory_timeline`: ``time_ns`` and a column of bytes per
        category.

    Returns
    -------
    bokeh.plotting.figure
        Stacked steps. Its source has the frame's columns, and the edges of each category's area.
        Above 20 000 instants it has only the rows with the minimum and the maximum of all memory in
        each slice of time, and the subtitle reports that.

    Examples
    --------
    >>> charts.memory_timeline(analysis.memory_timeline(traces, rank=0))  # doctest: +SKIP
    """
    categories = [
        str(name)
        for name in frame.columns
        if name not in {"time_ns", "rank", "total"} and pd.api.types.is_numeric_dtype(frame[name])
    ]
    if not categories:
        return ""
    data = frame.reset_index(drop=True)
    total = data[categories].sum(axis=1).to_numpy(float)
    kept = _rows_to_draw(data["time_ns"].to_numpy(float), total, MAX_POINTS)
    changes = plural(len(data), "change")
    peak, peak_ns = float(total.max()) or 1.0, float(data["time_ns"].iloc[int(total.argmax())])
    thinned_out = len(kept) < len(data)
    data = data.iloc[kept].reset_index(drop=True)
    used = [name for name in categories if (data[name] != 0).any()]
    unused = ", ".join(category for category in categories if category not in used)
    times = data["time_ns"].to_numpy(float)
    columns: dict[str, Any] = {name: data[name].to_numpy() for name in data.columns}
    columns["until_ns"] = np.append(times[1:], times[-1])
    level = np.zeros(len(data))
    for name in used:
        columns[f"{name} begin"] = 1 - level / peak
        level = level + data[name].to_numpy(float)
        columns[f"{name} end"] = 1 - level / peak
        columns[f"{name} text"] = [size(each) for each in data[name]]
    columns["total_text"] = [size(each) for each in level]
    return {
        "by": _stack_figure,
        "columns": columns,
        "used": used,
        "peak": peak,
        "subtitle": [
            f"allocated bytes, peak {size(peak)} at {duration(peak_ns)}",
            f"{changes}, drawn as least and most of slices of time" if thinned_out else "",
            f"never used: {unused}" if unused else "",
        ],
    }


def _stack_figure(
    columns: dict[str, Any],
    used: list[str],
    peak: float,
    *,
    title: str,
    subtitle: str,
    theme: Theme,
    width: int | None,
) -> Any:
    times = columns["time_ns"]
    figure, finish = lanes_figure(
        [Lane(size(0)), Lane(size(peak))],
        start_ns=float(times[0]),
        end_ns=float(times[-1]),
        pitch=100,
        title=title,
        subtitle=subtitle,
        theme=theme,
        width=width,
    )
    figure.y_range.update(start=1.0, end=-0.08)
    figure.yaxis[0].ticker = models.FixedTicker(ticks=[0, 0.5, 1])
    figure.ygrid.ticker = figure.yaxis[0].ticker
    source = models.ColumnDataSource(columns)
    keys = []
    for number, name in enumerate(used):
        color = theme.category[number % len(theme.category)]
        figure.varea_step(
            x="time_ns",
            y1=f"{name} begin",
            y2=f"{name} end",
            source=source,
            step_mode="after",
            fill_color=color,
        )
        keys.append(Bars(0.0, "", color, name))
    whole = figure.quad(
        left="time_ns",
        right="until_ns",
        top=0,
        bottom=1,
        source=source,
        fill_color=theme.brush_line,
        fill_alpha=0,
        line_color=None,
        selection_fill_alpha=0.2,
        nonselection_fill_alpha=0,
    )
    lines = [
        *((name, f"@{{{name} text}}") for name in reversed(used)),
        ("from", "@{time_ns}{0,0} ns"),
    ]
    add_tooltip(figure, [whole], theme, "@{total_text}", lines)
    finish(
        legend_for(figure, keys, theme),
        names=[(0.0, size(peak)), (0.5, size(peak / 2)), (1.0, size(0))],
    )
    return figure


def _rows_to_draw(times: Any, total: Any, most: int) -> Any:
    """Return the rows to draw: all, or those with the minimum and maximum of each time slice."""
    if len(times) <= most:
        return np.arange(len(times))
    edges = np.linspace(times[0], times[-1], most // 2 + 1)
    slices = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, most // 2 - 1)
    order = np.lexsort((total, slices))
    starts = np.flatnonzero(np.r_[True, np.diff(slices[order]) != 0])
    ends = np.r_[starts[1:], len(order)] - 1
    return np.unique(np.r_[order[starts], order[ends], 0, len(times) - 1])


def _bar_pair(
    data: pd.DataFrame, device: tuple[str, str], host: tuple[str, str], theme: Theme
) -> list[Bars]:
    """Return two bars per row, `device` above `host`; both are a column and a name."""
    data["upper"], data["lower"] = data["row"] - 0.2, data["row"] + 0.2
    compute, cpu = theme.kind["compute"], theme.kind["cpu"]
    return [
        Bars(0.0, device[0], compute, device[1], row="upper", height=0.4),
        Bars(0.0, host[0], cpu, host[1], cpu, alpha=0.3, row="lower", height=0.36),
    ]


@chart(
    "Top operators",
    *("rank", "name", "count", "cpu_self_ns", "device_self_ns", "cpu_total_ns", "device_total_ns"),
)
def operators(frame: pd.DataFrame, theme: Theme, *, top: int = 12) -> dict[str, Any]:
    """Draw the operators with most self time, on the device and on the host.

    Parameters
    ----------
    top : int, default 12
        Number of operators; the others share one row, which is labelled with their number.

    Returns
    -------
    bokeh.plotting.figure
        Two bars per operator; its source has the frame's columns, with times as means of ranks.
    """
    measures = ["cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns"]
    ranks = frame["rank"].nunique()
    keys = [key for key in ("name", "input_shapes", "call_stack") if key in frame]
    data = frame.groupby(keys, observed=True)[["count", *measures]].sum().reset_index()
    data[measures] = data[measures] / ranks
    on_device = bool(data["device_self_ns"].sum())
    by = "device_self_ns" if on_device else "cpu_self_ns"
    data, names = top_rows(data, by, top, "operator", short_name)
    with_shapes = "input_shapes" in keys
    if with_shapes:
        names = [
            f"{name} {shapes}" if shapes else name
            for name, shapes in zip(names, data["input_shapes"].astype(str), strict=True)
        ]
    bars = _bar_pair(data, ("device_self_ns", "device"), ("cpu_self_ns", "host"), theme)
    cpu = theme.kind["cpu"]
    return {
        "data": data,
        "names": disambiguate(names, list(data["name"])),
        "marks": bars if on_device else [Bars(0.0, "cpu_self_ns", cpu, "host", cpu, alpha=0.3)],
        "end_ns": float(data[["device_self_ns", "cpu_self_ns"]].to_numpy().max()),
        "subtitle": [
            "time of an operator itself, without the operators that it calls",
            "mean of ranks" if ranks > 1 else "",
            "" if on_device else "no device work is linked to operators",
        ],
        "head": "operator",
        "columns": [
            *[Column("device", "{device_self_ns:duration}")] * on_device,
            Column("host", "{cpu_self_ns:duration}", 420 if on_device else 0),
            Column("calls", "{count:count}", 560),
        ],
        "tooltip": Tooltip(
            "@{name}",
            [
                *[("shapes", "@{input_shapes}")] * with_shapes,
                ("device, itself", "{device_self_ns:duration}"),
                ("device, with what it calls", "{device_total_ns:duration}"),
                ("host, itself", "{cpu_self_ns:duration}"),
                ("host, with what it calls", "{cpu_total_ns:duration}"),
                ("calls, all ranks", "{count:count}"),
            ],
        ),
    }


@chart("Time in annotated ranges", "sum_ns")
def user_annotation_breakdown(
    frame: pd.DataFrame, theme: Theme, *, top: int = 12
) -> dict[str, Any]:
    """Draw the annotations with most time.

    Parameters
    ----------
    top : int, default 12
        Number of annotations; the others share one bar, which is labelled with their number.

    Returns
    -------
    bokeh.plotting.figure
        One bar per annotation; its source has the frame's columns over all ranks.
    """
    by = "annotation" if "annotation" in frame else "name"
    require_columns_of(frame, "user_annotation_breakdown", by, "sum_ns")
    ranks = frame["rank"].nunique() if "rank" in frame else 1
    named = frame if "name" in frame else frame.rename(columns={"annotation": "name"})
    columns = {"sum_ns": "sum", "min_ns": "min", "max_ns": "max", "count": "sum"}
    known = {key: how for key, how in columns.items() if key in named}
    data = named.groupby("name", observed=True, sort=False).agg(known).reset_index()
    data, names = top_rows(data, "sum_ns", top, "annotation", str)
    if ranks > 1:
        data = spread_over_ranks(named, data, ["name"])
    data["per_rank_ns"] = data["sum_ns"] / ranks
    lines = [
        ("total a rank", "{per_rank_ns:duration}", "per_rank_ns"),
        ("count, all ranks", "@{count}", "count"),
        ("shortest", "{min_ns:duration}", "min_ns"),
        ("longest", "{max_ns:duration}", "max_ns"),
    ]
    return {
        "data": data,
        "names": names,
        "marks": [
            Bars(0.0, "per_rank_ns", theme.kind["annotation"]),
            *[Whiskers("least_ns", "most_ns", theme.ink2)] * (ranks > 1),
        ],
        "end_ns": float(max(data["per_rank_ns"].max(), data["most_ns"].max() if ranks > 1 else 0)),
        "subtitle": [
            "summed durations by name; ranges inside of others count for both",
            "mean of ranks, line: least to most of a rank" if ranks > 1 else "",
        ],
        "head": "annotation",
        "columns": [
            Column("total", "{per_rank_ns:duration}"),
            *[Column("count", "{count:count}", 480)] * ("count" in data),
        ],
        "tooltip": Tooltip("@{name}", [(what, of) for what, of, need in lines if need in data]),
    }


@chart("Frequent sequences of kernels", "pattern", "count", "kernel_ns", "operator_ns")
def frequent_kernel_sequences(
    frame: pd.DataFrame, theme: Theme, *, top: int = 10
) -> dict[str, Any]:
    """Draw the sequences of kernels that occur most often.

    Parameters
    ----------
    top : int, default 10
        Number of sequences; the others share one row, which is labelled with their number.

    Returns
    -------
    bokeh.plotting.figure
        Two bars per sequence; its source has the frame's columns over all ranks.

    Examples
    --------
    >>> frame = analysis.frequent_kernel_sequences(traces, "aten::linear")  # doctest: +SKIP
    >>> charts.frequent_kernel_sequences(frame)  # doctest: +SKIP
    """
    measures = ["count", "kernel_ns", "operator_ns"]
    data = frame.groupby("pattern", observed=True, sort=False)[measures].sum().reset_index()
    data = data.rename(columns={"pattern": "name"})
    of_one = len({str(name).partition("|")[0] for name in data["name"]}) == 1
    data, names = top_rows(
        data, "count", top, "sequence", _kernel_names if of_one else _sequence_names
    )
    operator = short_name(str(data["name"].iloc[0]).partition("|")[0])
    data["pattern"] = data["name"]
    return {
        "data": data,
        "names": disambiguate(names, list(data["name"])),
        "marks": _bar_pair(
            data, ("kernel_ns", "kernels"), ("operator_ns", "operator on the host"), theme
        ),
        "end_ns": float(data[["kernel_ns", "operator_ns"]].to_numpy().max()),
        "title_by": f": {operator}" if of_one else "",
        "subtitle": [
            "the kernels that one call of the operator launches, most frequent first",
            f"{plural(int(data['names'].sum()), 'sequence')}, time of all occurrences",
        ],
        "head": "kernels" if of_one else "operator: kernels",
        "columns": [
            Column("count", "{count:count}"),
            Column("kernels", "{kernel_ns:duration}", 480),
        ],
        "tooltip": Tooltip(
            "@{pattern}",
            [
                ("count", "@{count}"),
                ("kernels", "{kernel_ns:duration}"),
                ("operator", "{operator_ns:duration}"),
            ],
        ),
    }


def _sequence_names(pattern: str) -> str:
    """Return the short names of the operator and of its kernels."""
    operator, *_ = pattern.split("|")
    return f"{short_name(operator)}: {_kernel_names(pattern)}"


def _kernel_names(pattern: str) -> str:
    return " → ".join(short_name(kernel) for kernel in pattern.split("|")[1:])


@defines("steps", of="panel.steps", takes=takes_panel("steps"))
def step_phases(frame: pd.DataFrame, *, late: Iterable[int] | None = None) -> pd.DataFrame:
    """Draw how much each rank's steps and their phases differ from the median rank's.

    Parameters
    ----------
    frame : DataFrame
        One row per phase, step and rank: ``phase, step, rank, start_ns, dur_ns, deviation_share``,
        the last relative to the median rank of that step and phase.
    late : iterable of int, optional
        Ranks to draw in red, such as stragglers. Default: the ranks that the headline names, from
        ``.attrs["late_ranks"]`` of frames of a dashboard.

    Returns
    -------
    bokeh.plotting.figure
        One row per phase, with a line of dots for each step and a dot for each rank, at its
        difference from the median rank. Two kinds of ranks that are not `late` are dark: those
        that stand out in a phase by 5 % of the median rank's time, by four times the usual
        deviation and by 2 % of a step; and those that the headline names but others do not wait
        for. On one rank: one dot per step, against the median step.

    Examples
    --------
    >>> charts.step_phases(dash.panel_frame("steps"))  # doctest: +SKIP
    """
    if late is not None:
        frame = frame.copy(deep=False)
        frame.attrs = {**frame.attrs, "late_ranks": list(late)}
    return frame


#: Minimum excess of an outlier over the median rank, as a share of the median.
_MIN_LONGER = 0.05
#: Minimum ratio of that excess to the median deviation of the ranks in the same row.
_OUTLIER_FACTOR = 4.0
_MAX_DOTS = 20_000

_MEASURE_TEXTS = {
    "own": "a step less the time that the rank waits for others",
    "dur": "from begin to end on the host, waits included",
}


@chart({"own": "Own work per step", "dur": "Time per step"}, "rank", "step")
def step_times(
    frame: pd.DataFrame,
    theme: Theme,
    *,
    measure: Literal["own", "dur"] = "own",
    groups: pd.DataFrame | None = None,
    late: Iterable[int] | None = None,
) -> dict[str, Any]:
    """Draw the difference of each rank's steps from the median rank's.

    Parameters
    ----------
    measure : {"own", "dur"}, default "own"
        Column to compare: ``own_ns`` or ``dur_ns``. Ranks that wait for each other take equally
        long, so ``dur_ns`` does not show which one is slow.
    groups : DataFrame, optional
        Result of `hta_widgets.analysis.parallel_groups`: each step has a row for each group of one
        kind, one group after the other. The kind is the first of tensor, context, expert, pipeline
        and data that has several groups. For another kind, give only its rows.
    late : iterable of int, optional
        Ranks to draw in red, such as stragglers.

    Returns
    -------
    bokeh.plotting.figure
        One row per step, or per group and step, and one dot per rank. If groups and steps give more
        than 64 rows, each group has one. Its source has the frame's rows. A rank is dark if it
        takes 5 % longer than the median rank and deviates four times as much as usual (the median)
        in its row. Above 20 000 dots, one per spot is drawn and all outliers, and the subtitle
        reports that.

    Raises
    ------
    ValueError
        For an unknown measure.

    Examples
    --------
    >>> charts.step_times(analysis.step_times(traces))  # doctest: +SKIP

    Row by row the ranks of one data-parallel group:

    >>> groups = analysis.parallel_groups(traces)  # doctest: +SKIP
    >>> data = groups[groups["kind"] == "data"]  # doctest: +SKIP
    >>> charts.step_times(analysis.step_times(traces), groups=data)  # doctest: +SKIP
    """
    deviation, apart_by = f"{measure}_deviation_ns", f"{measure}_deviation_share"
    require_columns_of(frame, "step_times", f"{measure}_ns", deviation, apart_by)
    every = frame.reset_index(drop=True)
    steps = np.unique(every["step"])
    every["row"] = np.searchsorted(steps, every["step"])
    every["apart"] = every[apart_by].fillna(0.0)
    every["is_outlier"] = _outliers(every)
    every["median_ns"] = every[f"{measure}_ns"] - every[deviation]
    names = [f"step {step}" for step in steps]
    if groups is not None:
        require_columns_of(groups, "parallel_groups", "group", "rank", "kind")
        names = _set_group_rows(every, groups, names)
    median = every.groupby("row")["median_ns"].median()
    said = ""
    data = every
    if len(every) > _MAX_DOTS:
        # Each outlier has a number of its own, so that all of them are kept.
        apart = np.where(every["is_outlier"], 1 + np.arange(len(every)), 0)
        rows = max(1, min(len(names), _MAX_DOTS // 100))
        kept, _ = thin_points(every["apart"], every["row"], apart, columns=100, rows=rows)
        data = every.iloc[kept]
        said = f"{count(len(every))} dots, drawn as {count(len(kept))}, outliers all"
    marked = late_ranks(frame, late)
    is_late = data["rank"].isin(marked)
    data["order"] = np.select([is_late, data["is_outlier"]], [2, 1], default=0)
    data = data.sort_values("order", kind="stable").reset_index(drop=True)
    data["fill"] = np.array([theme.rule_strong, theme.ink, theme.late])[data["order"]]
    low, high = min(float(every["apart"].min()), 0.0), max(float(every["apart"].max()), 0.01)
    room = (high - low) * 0.05
    times = {
        "dur_ns": "step",
        "own_ns": "own work",
        "compute_ns": "computes",
        "exposed_wait_ns": "waits, computing nothing",
        "idle_ns": "idle",
    }
    return {
        "data": data,
        "names": names,
        "marks": [Dots("apart", "@fill", 7 if len(names) <= NAMED_ROWS else 4)],
        "x_start": low - room,
        "x_end": high + room,
        "subtitle": [
            f"a dot is a rank's step against the median rank's; {_MEASURE_TEXTS[measure]}",
            _steps_finding(every, len(steps)),
            said,
        ],
        "head": " ",
        "ticks": [
            (at, "median" if abs(at) < 1e-9 else share_delta(at))
            for at in round_ticks(high, 3, low)
        ],
        "zero_line": True,
        "columns": [
            Column("stands out", _furthest_ranks(every, len(names))),
            Column("median rank", [duration(each) for each in median], 520),
        ],
        "legend": [
            *[Dots("x", theme.late, 7, rank_list(marked))] * bool(is_late.any()),
            *[Dots("x", theme.ink, 7, "stands out")] * bool((data["order"] == 1).any()),
            Dots("x", theme.rule_strong, 7, "a rank"),
        ],
        "tooltip": Tooltip(
            "rank @{rank} · step @{step}" + ("" if groups is None else " · @{of_group}"),
            [
                ("against the median rank", f"{{{deviation}:duration_delta}} · {{apart:delta}}"),
                *((words, f"{{{name}:duration}}") for name, words in times.items() if name in data),
            ],
        ),
    }


def _set_group_rows(every: pd.DataFrame, groups: pd.DataFrame, steps: list[str]) -> list[str]:
    """Set one row per group and step, or per group if these are too many; return their names."""
    kinds, number = groups_of_ranks(groups, every["rank"])
    if (number < 0).any():
        kinds.append("no group")
        number = np.where(number < 0, len(kinds) - 1, number)
    every["of_group"] = np.array(kinds, dtype=object)[number]
    # Groups without a rank in the frame have no row.
    present, number = np.unique(number, return_inverse=True)
    kinds = [kinds[each] for each in present]
    if len(kinds) * len(steps) > NAMED_ROWS:
        every["row"] = number
        return kinds
    every["row"] += number * len(steps)
    return [f"{kind} · {step}" for kind in kinds for step in steps]


def _outliers(data: pd.DataFrame) -> npt.NDArray[np.bool_]:
    usual = data["apart"].abs().groupby(data["row"]).transform("median").to_numpy()
    apart = data["apart"].to_numpy()
    outliers: npt.NDArray[np.bool_] = (apart >= _MIN_LONGER) & (apart >= _OUTLIER_FACTOR * usual)
    return outliers


def _furthest_ranks(data: pd.DataFrame, steps: int) -> list[str]:
    """Return for each row the rank that stands out most, and by how much, as text."""
    texts = [""] * steps
    late = data[data["is_outlier"]].sort_values("apart", kind="stable")
    late = late.drop_duplicates(["row", "rank"], keep="last")
    several = late.groupby("row").size()
    for record in late.drop_duplicates("row", keep="last").to_dict("records"):
        row = int(record["row"])
        more = int(several[row]) - 1
        also = f", {count(more)} more" if more else ""
        texts[row] = f"rank {record['rank']} {share_delta(record['apart'])}{also}"
    return texts


def _steps_finding(data: pd.DataFrame, steps: int) -> str:
    late = data[data["is_outlier"]]
    if late.empty:
        return "no rank stands out"
    each = late.groupby("rank").size()
    often = each[each > steps / 2]
    if len(often):
        verb = "stands" if len(often) == 1 else "stand"
        return f"{rank_list(often.index.tolist())} {verb} out in most of {count(steps)} steps"
    return f"{rank_list(each.index.tolist())} in single steps"
