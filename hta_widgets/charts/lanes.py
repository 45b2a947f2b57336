"""Charts over time, drawn as lanes that are aligned with the timeline.

The charts in this module draw step functions: queue lengths, copy bandwidth and memory by use.
`lanes_figure` is also used by other modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
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
    escape_text,
    keep_fitting,
    models,
    new_figure,
    script,
    side_axis,
    unmatched_note,
)
from hta_widgets.charts.rows import Bars, add_legend
from hta_widgets.charts.theme import Theme, ThemeName, blend, theme_of
from hta_widgets.text import count, duration, plural, rate, size, value
from hta_widgets.trace.arrays import Array, Floats

#: Maximum number of changes drawn one by one. If there are more, time is divided into slices (this
#: many in total over all lanes), each drawn as its minimum and maximum.
MAX_POINTS = 20_000


@dataclass(frozen=True)
class Lane:
    """The labels of a lane: its name at the left and a number at the right."""

    name: str
    number: str = ""


@dataclass(frozen=True, eq=False)
class LaneSteps:
    """The values of a lane over time; `value` applies from `time_ns` until `until_ns`.

    If not `exact`, an entry is a time slice with several changes, `value` is its minimum and `most`
    its maximum. Otherwise, `value` and `most` are equal.
    """

    time_ns: Floats
    until_ns: Floats
    value: Floats
    most: Floats
    exact: bool


def time_axis(figure: Figure) -> None:
    """Label the x axis with times and units."""
    axis = figure.xaxis[0]
    axis.ticker = models.AdaptiveTicker(
        base=10, mantissas=[1, 2, 5], min_interval=1, desired_num_ticks=4, num_minor_ticks=0
    )
    axis.formatter = models.CustomJSTickFormatter(code=script("axis_time"))
    figure.xgrid.ticker = axis.ticker


def time_figure(
    style: FigureStyle,
    *,
    frame_height: int,
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    dimensions: Literal["width", "both"] = "width",
) -> Any:
    """Return a figure with a zoomable time axis; dragging selects along `dimensions`."""
    tools = []
    if "modifiers" in models.WheelZoomTool.properties():
        # As in the timeline, Ctrl+wheel zooms. The wheel alone scrolls the page.
        tools.append(models.WheelZoomTool(dimensions="width", modifiers={"ctrl": True}))
    figure = new_figure(
        style,
        frame_height=frame_height,
        x_range=models.Range1d(*x_range, bounds="auto"),
        y_range=models.Range1d(*y_range),
        select=dimensions,
        tools=tools,
    )
    if tools:
        figure.toolbar.active_scroll = tools[0]
    time_axis(figure)
    figure.xgrid.grid_line_color = style.theme.rule
    return figure


def lanes_figure(
    lanes: Sequence[Lane],
    style: FigureStyle,
    *,
    start_ns: float,
    end_ns: float,
    pitch: float,
    heads: tuple[str, str] = ("", ""),
) -> tuple[Any, Callable[..., None]]:
    """Return a figure with empty lanes from top to bottom, and a function that completes it.

    Lane k spans k − 0.5 to k + 0.5 on the y axis, which points down. Call the function after adding
    marks: it fits the labels to the figure. Its arguments are the legend or None and, optionally,
    labels to show instead of lane names.
    """
    rows = len(lanes)
    has_heads = bool(heads[0] or heads[1])
    figure = time_figure(
        style,
        frame_height=int(np.ceil(rows * pitch + has_heads * 18)),
        x_range=(start_ns, max(end_ns, start_ns + 1)),
        y_range=(rows - 0.5, -0.5 - has_heads * 18 / pitch),
    )
    head_at = -0.5 - 9 / pitch
    ticks = [*([head_at] if has_heads else []), *range(rows)]
    figure.yaxis.ticker = models.FixedTicker(ticks=ticks)
    numbers: dict[float, str] = {
        row: escape_text(lane.number) or "\u200b" for row, lane in enumerate(lanes)
    }
    if has_heads:
        numbers[head_at] = escape_text(heads[1]) or "\u200b"
    columns = []
    if any(lane.number for lane in lanes):
        columns.append((side_axis(figure, ticks, numbers, style.theme), 0))

    def finish(legend: object, names: Sequence[tuple[float, str]] | None = None) -> None:
        keep_fitting(
            figure,
            width=style.width,
            names=names
            or [
                *([(head_at, heads[0] or "\u200b")] if has_heads else []),
                *((row, lane.name) for row, lane in enumerate(lanes)),
            ],
            columns=columns,
            legend=legend,
            timed=True,
        )

    return figure, finish


def lane_steps(
    time_ns: npt.ArrayLike, value: npt.ArrayLike, end_ns: float, max_steps: int
) -> LaneSteps:
    """Return a series as steps, or as ranges per time slice if it has more than `max_steps`."""
    times = np.asarray(time_ns, dtype=float)
    values = np.asarray(value, dtype=float)
    until = np.append(times[1:], max(end_ns, times[-1] if len(times) else end_ns))
    if len(times) <= max_steps:
        return LaneSteps(times, until, values, values, exact=True)
    edges = np.linspace(times[0], until[-1], max_steps + 1)
    # A slice starts with the value set before it, unless a change falls on its start.
    at_start = np.maximum(np.searchsorted(times, edges[:-1], side="right") - 1, 0)
    lowest, highest = values[at_start], values[at_start]
    first = np.searchsorted(times, edges[:-1], side="left")
    end = np.append(first[1:], len(times))
    changing = np.flatnonzero(end > first)
    # `reduceat` reduces from one start to the next, so slices without changes are skipped.
    lowest[changing] = np.minimum(lowest[changing], np.minimum.reduceat(values, first[changing]))
    highest[changing] = np.maximum(highest[changing], np.maximum.reduceat(values, first[changing]))
    return LaneSteps(edges[:-1], edges[1:], lowest, highest, exact=False)


@dataclass(frozen=True)
class _StepMeasure:
    """A column that changes over time, with a series for each rank and value of `key`."""

    column: str
    key: str
    noun: str  # in tooltips
    format_value: Callable[[float], str]
    color: str


@dataclass(frozen=True)
class _Series:
    lane: Lane
    rank: int
    key: int | str
    time_ns: Floats
    value: Floats


def _step_lanes(
    series: Sequence[_Series], measure: _StepMeasure, until_ns: float, style: FigureStyle
) -> Figure:
    """Return a figure with one lane per series, each scaled to its own peak."""
    theme = style.theme
    total = sum(len(lane.time_ns) for lane in series)
    max_steps = max(256, MAX_POINTS // len(series)) if total > MAX_POINTS else total
    steps = [lane_steps(lane.time_ns, lane.value, until_ns, max_steps) for lane in series]
    start_ns = min(float(lane.time_ns[0]) for lane in series)
    if not all(lane.exact for lane in steps):
        slices = f"{count(max_steps)} time slices"
        thinning = f"{count(total)} changes, drawn as the minimum and maximum of each of {slices}"
        style = style.with_subtitle(style.subtitle, thinning)
    figure, finish = lanes_figure(
        [lane.lane for lane in series],
        style,
        start_ns=start_ns,
        end_ns=until_ns,
        pitch=40 if len(series) <= 6 else 34,
        heads=("", "peak"),
    )
    boxes = [_draw_steps(figure, row, lane, measure.color, theme) for row, lane in enumerate(steps)]
    source = models.ColumnDataSource(_step_columns(series, measure, steps, boxes))
    mark = draw_areas(
        figure, source, theme.brush_line, bottom="bottom", top="top", selected_alpha=0.35
    )
    base_lines = [row + _BASE for row in range(len(series))]
    figure.segment(
        x0=[start_ns] * len(series),
        x1=[max(until_ns, start_ns + 1)] * len(series),
        y0=base_lines,
        y1=base_lines,
        line_color=theme.rule,
        line_width=1,
    )
    lane_text = "stream @{stream}" if measure.key == "stream" else f"@{{{measure.key}}}"
    rows = [
        (measure.noun, "@{value_text}"),
        ("from", "@{time_ns}{0,0} ns"),
        ("until", "@{until_ns}{0,0} ns"),
    ]
    add_tooltip(figure, [mark], theme, f"rank @{{rank}} · {lane_text}", rows)
    finish(None)
    return figure


#: Distance from the middle of a lane down to its base line, and the height of its peak.
_BASE, _PEAK = 0.46, 0.86


def _draw_steps(
    figure: Figure, row: int, steps: LaneSteps, color: str, theme: Theme
) -> tuple[Floats, Floats]:
    peak = float(steps.most.max()) if len(steps.most) and steps.most.max() > 0 else 1.0
    base = row + _BASE
    low, high = (base - values / peak * _PEAK for values in (steps.value, steps.most))
    shape = models.ColumnDataSource(
        {
            "x": np.append(steps.time_ns, steps.until_ns[-1:]),
            "low": np.append(low, low[-1:]),
            "high": np.append(high, high[-1:]),
            "base": np.full(len(low) + 1, base),
        }
    )
    # Draw an area, because adjacent bars would show seams.
    area = {"x": "x", "source": shape, "step_mode": "after"}
    figure.varea_step(y1="base", y2="low", fill_color=blend(color, theme.bg, 0.25), **area)
    if not steps.exact:
        figure.varea_step(y1="low", y2="high", fill_color=color, **area)
    figure.step(x="x", y="high", source=shape, mode="after", line_color=color, line_width=1.25)
    return np.minimum(high, base - 0.04), np.full(len(low), base)


def _step_columns(
    series: Sequence[_Series],
    measure: _StepMeasure,
    steps: Sequence[LaneSteps],
    boxes: Sequence[tuple[Floats, Floats]],
) -> dict[str, Any]:
    arrays = {
        "time_ns": [lane.time_ns for lane in steps],
        "until_ns": [lane.until_ns for lane in steps],
        measure.column: [lane.value for lane in steps],
        "most": [lane.most for lane in steps],
        "top": [top for top, _ in boxes],
        "bottom": [bottom for _, bottom in boxes],
    }
    columns: dict[str, Any] = {name: np.concatenate(values) for name, values in arrays.items()}
    lengths = [len(lane.time_ns) for lane in steps]
    columns["rank"] = np.repeat([lane.rank for lane in series], lengths).tolist()
    columns[measure.key] = np.repeat([lane.key for lane in series], lengths).tolist()
    values = columns[measure.column], columns["most"]
    columns["value_text"] = _range_texts(*values, measure.format_value)
    return columns


def _range_texts(
    lows: Sequence[float], highs: Sequence[float], format_value: Callable[[float], str]
) -> list[str]:
    text = cache(format_value)  # most values occur many times
    return [
        text(low) if low == high else f"{text(low)} to {text(high)}"
        for low, high in zip(lows, highs, strict=True)
    ]


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
    """Draw the number of launches queued on each stream over time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.queue_length`, or traces to analyze.
    top : int, default 12
        Number of streams to draw, ordered by longest queue.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One lane per stream. The data source has the columns of the frame and ``until_ns``, the time
        of the next change. Above 20 000 changes, it has the minimum (``queue_length``) and maximum
        (``most``) of each time slice instead, as stated in the subtitle.

    Examples
    --------
    >>> charts.queue_length(analysis.queue_length(traces))  # doctest: +SKIP
    """
    frame = analysis_frame("queue_length", frame, options, "rank stream time_ns queue_length")
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    color = style.theme.kind["compute"]
    measure = _StepMeasure("queue_length", "stream", "length", value, color)
    series, omitted = _highest_series(frame, measure, top)
    blocks = int(frame["queue_length"].max()) >= 1024
    style = style.with_subtitle(
        "launches on a stream that wait for their start; each row is scaled to its peak",
        "with 1 024 or more waiting launches, a launch blocks its thread" if blocks else "",
        omitted,
        unmatched_note(frame),
    )
    return _step_lanes(series, measure, float(frame["time_ns"].max()), style)


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
    """Draw the copy bandwidth by kind of copy over time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.memory_bandwidth`, or traces to analyze.
    top : int, default 12
        Number of lanes to draw, ordered by peak. There is one lane per rank and kind of copy.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        As in `queue_length`, with ``gb_per_s`` instead of ``queue_length``.

    Examples
    --------
    >>> charts.memory_bandwidth(analysis.memory_bandwidth(traces))  # doctest: +SKIP
    """
    frame = analysis_frame("memory_bandwidth", frame, options, "rank copy_kind time_ns gb_per_s")
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    color = style.theme.kind["memory"]
    measure = _StepMeasure("gb_per_s", "copy_kind", "bandwidth", rate, color)
    series, omitted = _highest_series(frame, measure, top)
    style = style.with_subtitle(
        "as recorded, summed over concurrent copies; each row is scaled to its peak",
        omitted,
        unmatched_note(frame),
    )
    return _step_lanes(series, measure, float(frame["time_ns"].max()), style)


def _highest_series(
    frame: pd.DataFrame, measure: _StepMeasure, top: int
) -> tuple[list[_Series], str]:
    """Return the `top` series with the highest peaks, and a note on how many are omitted."""
    by_stream = measure.key == "stream"
    groups: Any = frame.groupby(["rank", measure.key], observed=True)
    peaks = groups[measure.column].max().astype(float)
    # Take the rank with the highest peak for each stream or kind of copy, then the ranks with the
    # second highest, and so on.
    ordered_peaks = peaks.sort_values(ascending=False, kind="stable")
    order_in_key = ordered_peaks.groupby(level=1, observed=True).cumcount()
    drawn = set(order_in_key.sort_values(kind="stable").index[:top])
    has_ranks = len(frame["rank"].unique()) > 1
    series = []
    for (rank, key), changes in groups:
        if (rank, key) not in drawn:
            continue
        name = f"stream {key}" if by_stream else str(key)
        label = f"rank {rank}\n{name}" if has_ranks else name
        lane = Lane(label, measure.format_value(peaks[rank, key]))
        ordered = changes.sort_values("time_ns", kind="stable")
        columns = ordered["time_ns"].to_numpy(), ordered[measure.column].to_numpy()
        series.append(_Series(lane, int(rank), int(key) if by_stream else str(key), *columns))
    omitted = len(peaks) - len(series)
    return series, f"{plural(omitted, 'more row')} with lower peaks not drawn" if omitted else ""


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
        Result of `hta_widgets.analysis.memory_timeline`: ``time_ns`` and, for each category, a
        column of byte counts.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.

    Returns
    -------
    bokeh.plotting.figure
        A stacked step chart. The data source has the columns of the frame and the edges of each
        area. Above 20 000 rows, only those with the smallest and largest total in each time slice
        are kept, as stated in the subtitle.

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
    peak, peak_ns = float(totals.max()), float(times[totals.argmax()])
    drawn = frame.iloc[_rows_to_draw(times, totals, MAX_POINTS)]
    used = [name for name in categories if (frame[name] != 0).any()]
    unused = ", ".join(name for name in categories if name not in used)
    changes = f"{plural(len(frame), 'change')}, drawn as the minimum and maximum of each time slice"
    style = style.with_subtitle(
        f"allocated bytes, peak {size(peak)} at {duration(peak_ns)}",
        changes if len(drawn) < len(frame) else "",
        f"never used: {unused}" if unused else "",
        unmatched_note(frame),
    )
    height = peak or 1.0
    return _stack_figure(_stack_columns(drawn, used, height), used, height, style)


def _stack_columns(frame: pd.DataFrame, used: list[str], peak: float) -> dict[str, Any]:
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
    areas = draw_areas(figure, source, theme.brush_line, bottom=1, top=0, selected_alpha=0.2)
    lines = [
        *((name, f"@{{{name} text}}") for name in reversed(used)),
        ("from", "@{time_ns}{0,0} ns"),
    ]
    add_tooltip(figure, [areas], theme, "@{total_text}", lines)
    finish(
        add_legend(figure, entries, theme),
        names=[(0.0, size(peak)), (0.5, size(peak / 2)), (1.0, size(0))],
    )
    return figure


def _rows_to_draw(times: Array, total: Array, max_rows: int) -> Array:
    """Return up to `max_rows` rows: the first, the last, and the extremes of each time slice."""
    if len(times) <= max_rows:
        return np.arange(len(times))
    slice_count = max_rows // 2
    edges = np.linspace(times[0], times[-1], slice_count + 1)
    slices = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, slice_count - 1)
    totals = pd.Series(total)
    first_minima = totals.groupby(slices).idxmin()
    last_maxima = totals[::-1].groupby(slices[::-1]).idxmax()
    return np.unique(np.r_[first_minima, last_maxima, 0, len(times) - 1])
