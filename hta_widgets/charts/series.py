"""Charts of values over time: lengths of queues, bandwidth of copies, and memory by use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import (
    ChartFrame,
    ChartSource,
    analysis_frame,
    require_columns_of,
    require_frame,
)
from hta_widgets.charts.figure import (
    Figure,
    FigureStyle,
    add_tooltip,
    draw_areas,
    empty_figure,
    models,
    unmatched_note,
)
from hta_widgets.charts.lanes import (
    MAX_POINTS,
    Lane,
    StepLanes,
    StepSeries,
    lanes_figure,
    step_lanes,
)
from hta_widgets.charts.rows import Bars, Tooltip, legend_for
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.text import duration, plural, rate, size, value
from hta_widgets.trace.arrays import Array


@check_arguments
def queue_length(
    frame: ChartSource,
    *,
    top: Positive = 12,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Launch queue over time",
    **options: object,
) -> Figure:
    """Draw the number of launches that wait on each stream over time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.queue_length`.
    top : int, default 12
        Number of streams, those with the longest queues.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        The width is in CSS px; its default is that of the output area.
    **options
        Arguments of the analysis, for traces.

    Returns
    -------
    bokeh.plotting.figure
        One lane per stream. Its source has the frame's columns and ``until_ns``, the time of the
        next change. Above 20 000 changes it has the minimum and maximum (``queue_length``,
        ``most``) of slices of time instead, and the subtitle reports that.

    Examples
    --------
    >>> charts.queue_length(analysis.queue_length(traces))  # doctest: +SKIP
    """
    frame = analysis_frame(
        "queue_length", frame, options, "rank", "stream", "time_ns", "queue_length"
    )
    theme = theme_of(theme)
    style = FigureStyle(title, theme, width)
    if frame.empty:
        return empty_figure(frame, style)
    content, omitted = _lane_series(
        frame, "stream", "queue_length", top, value, theme.kind["compute"]
    )
    blocks = int(frame["queue_length"].max()) >= 1024
    style = style.with_subtitle(
        "launches on a stream that wait for their start; each row is scaled to its peak",
        "with 1 024 or more waiting launches, a launch blocks its thread" if blocks else "",
        omitted,
        unmatched_note(frame),
    )
    return step_lanes(content, style)


@check_arguments
def memory_bandwidth(
    frame: ChartSource,
    *,
    top: Positive = 12,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Copy bandwidth",
    **options: object,
) -> Figure:
    """Draw the bandwidth of copies, by their kind, over time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.memory_bandwidth`.
    top : int, default 12
        Number of lanes, one per rank and kind of copy; those with the highest peaks are drawn.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        The width is in CSS px; its default is that of the output area.
    **options
        Arguments of the analysis, for traces.

    Returns
    -------
    bokeh.plotting.figure
        As from `queue_length`, with ``gb_per_s`` instead of ``queue_length``.

    Examples
    --------
    >>> charts.memory_bandwidth(analysis.memory_bandwidth(traces))  # doctest: +SKIP
    """
    frame = analysis_frame(
        "memory_bandwidth", frame, options, "rank", "copy_kind", "time_ns", "gb_per_s"
    )
    theme = theme_of(theme)
    style = FigureStyle(title, theme, width)
    if frame.empty:
        return empty_figure(frame, style)
    content, omitted = _lane_series(frame, "copy_kind", "gb_per_s", top, rate, theme.kind["memory"])
    style = style.with_subtitle(
        "as recorded, summed over concurrent copies; each row is scaled to its peak",
        omitted,
        unmatched_note(frame),
    )
    return step_lanes(content, style)


def _lane_series(
    frame: pd.DataFrame,
    key: str,
    measure: str,
    top: int,
    format_value: Callable[[float], str],
    color: str,
) -> tuple[StepLanes, str]:
    """Return the lanes with the highest peaks, and a sentence about the omitted ones."""
    by_stream = key == "stream"
    lanes: dict[Any, pd.DataFrame] = dict(list(frame.groupby(["rank", key], observed=True)))
    peaks = {lane: float(rows[measure].max()) for lane, rows in lanes.items()}
    # First the highest peak of each stream or kind of copy, then the second highest, and so on.
    highest = pd.Series(peaks).sort_values(ascending=False, kind="stable")
    turn = highest.groupby(level=1).cumcount()
    drawn = set(turn.sort_values(kind="stable").index[:top])
    has_ranks = len(frame["rank"].unique()) > 1
    series = []
    for (rank, lane_key), rows in lanes.items():
        if (rank, lane_key) not in drawn:
            continue
        name = f"stream {lane_key}" if by_stream else str(lane_key)
        label = f"rank {rank}\n{name}" if has_ranks else name
        ordered = rows.sort_values("time_ns", kind="stable")
        series.append(
            StepSeries(
                Lane(label, format_value(peaks[rank, lane_key])),
                {"rank": int(rank), key: int(lane_key) if by_stream else lane_key},
                ordered["time_ns"].to_numpy(),
                ordered[measure].to_numpy(),
            )
        )
    omitted = len(peaks) - len(series)
    content = StepLanes(
        series,
        value_name=measure,
        format_value=format_value,
        until_ns=float(frame["time_ns"].max()),
        color=color,
        heads=("", "peak"),
        pitch=40 if len(series) <= 6 else 34,
        tooltip=Tooltip(
            "rank @{rank} · " + ("stream @{stream}" if by_stream else f"@{{{key}}}"),
            [
                ("length" if by_stream else "bandwidth", "@{value_text}"),
                ("from", "@{time_ns}{0,0} ns"),
                ("until", "@{until_ns}{0,0} ns"),
            ],
        ),
    )
    return content, f"{plural(omitted, 'more row')} with lower peaks not drawn" if omitted else ""


@check_arguments
def memory_timeline(
    frame: ChartFrame,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Device memory by use",
) -> Figure:
    """Draw device memory over time, stacked by use.

    Parameters
    ----------
    frame : DataFrame
        Result of `hta_widgets.analysis.memory_timeline`: ``time_ns`` and a column of bytes per
        category.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        The width is in CSS px; its default is that of the output area.

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
    frame = require_frame("memory_timeline", frame, "hta_widgets.analysis.memory_timeline(path)")
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    require_columns_of(frame, "analysis.memory_timeline", "time_ns")
    categories = [
        str(name)
        for name in frame.columns
        if name not in {"time_ns", "rank", "total"} and pd.api.types.is_numeric_dtype(frame[name])
    ]
    if not categories:
        return empty_figure(frame, style)
    times = frame["time_ns"].to_numpy(float)
    totals = frame[categories].sum(axis=1).to_numpy(float)
    peak, peak_ns = float(totals.max()) or 1.0, float(times[totals.argmax()])
    drawn = frame.iloc[_rows_to_draw(times, totals, MAX_POINTS)]
    used = [name for name in categories if (frame[name] != 0).any()]
    unused = ", ".join(name for name in categories if name not in used)
    changes = f"{plural(len(frame), 'change')}, drawn as minimum and maximum of time slices"
    style = style.with_subtitle(
        f"allocated bytes, peak {size(peak)} at {duration(peak_ns)}",
        changes if len(drawn) < len(frame) else "",
        f"never used: {unused}" if unused else "",
        unmatched_note(frame),
    )
    return _stack_figure(_stack_columns(drawn, used, peak), used, peak, style)


def _stack_columns(frame: pd.DataFrame, used: list[str], peak: float) -> dict[str, Any]:
    """Return a frame's columns, the edges of the areas of its `used` columns, and texts."""
    columns: dict[str, Any] = {name: frame[name].to_numpy() for name in frame.columns}
    times = frame["time_ns"].to_numpy(float)
    columns["until_ns"] = np.append(times[1:], times[-1])
    level = np.zeros(len(frame))
    for name in used:
        columns[f"{name} begin"] = 1 - level / peak
        level = level + frame[name].to_numpy(float)
        columns[f"{name} end"] = 1 - level / peak
        columns[f"{name} text"] = [size(size_bytes) for size_bytes in frame[name]]
    columns["total_text"] = [size(size_bytes) for size_bytes in level]
    return columns


def _stack_figure(
    columns: dict[str, Any], used: list[str], peak: float, style: FigureStyle
) -> Figure:
    """Draw the areas of `_stack_columns`, from the first at the bottom up to the peak."""
    theme, times = style.theme, columns["time_ns"]
    figure, finish = lanes_figure(
        [Lane(size(0)), Lane(size(peak))],
        style,
        start_ns=float(times[0]),
        end_ns=float(times[-1]),
        pitch=100,
    )
    figure.y_range.update(start=1.0, end=-0.08)
    figure.yaxis[0].ticker = models.FixedTicker(ticks=[0, 0.5, 1])
    figure.ygrid.ticker = figure.yaxis[0].ticker
    source = models.ColumnDataSource(columns)
    entries = []
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
        entries.append(Bars(0.0, "", color, name))
    areas = draw_areas(figure, source, theme.brush_line, bottom=1, top=0, alpha=0.2)
    lines = [
        *((name, f"@{{{name} text}}") for name in reversed(used)),
        ("from", "@{time_ns}{0,0} ns"),
    ]
    add_tooltip(figure, [areas], theme, "@{total_text}", lines)
    finish(
        legend_for(figure, entries, theme),
        names=[(0.0, size(peak)), (0.5, size(peak / 2)), (1.0, size(0))],
    )
    return figure


def _rows_to_draw(times: Array, total: Array, max_rows: int) -> Array:
    """Return the rows to draw: all, or those with the minimum and maximum of each time slice."""
    if len(times) <= max_rows:
        return np.arange(len(times))
    edges = np.linspace(times[0], times[-1], max_rows // 2 + 1)
    slices = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, max_rows // 2 - 1)
    order = np.lexsort((total, slices))
    starts = np.flatnonzero(np.r_[True, np.diff(slices[order]) != 0])
    ends = np.r_[starts[1:], len(order)] - 1
    return np.unique(np.r_[order[starts], order[ends], 0, len(times) - 1])
