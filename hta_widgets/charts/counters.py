"""Values over time: queues of launches, copies, memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.text import duration
from hta_widgets.text import plural
from hta_widgets.text import rate
from hta_widgets.text import size
from hta_widgets.text import value

from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.canvas import add_tooltip
from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import draws_only
from hta_widgets.charts.frames import require
from hta_widgets.charts.lanes import MOST_POINTS
from hta_widgets.charts.lanes import Lane
from hta_widgets.charts.lanes import lanes_figure
from hta_widgets.charts.lanes import step_lanes
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import legend_of
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["memory_bandwidth", "memory_timeline", "queue_length"]


@draws("queue_length")
def queue_length(
    frame: pd.DataFrame,
    *,
    top: int = 12,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Launched and not yet started",
) -> Any:
    """Draw how much work waits on each stream, over time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.queue_length`.
    top : int, default 12
        How many streams, those with the longest queues.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One lane a stream. Its source has the frame's columns and ``until_ns``, the next change.
        Above 20 000 changes it holds the least and most (``queue_length``, ``most``) of slices of
        time instead, which the chart says.

    Examples
    --------
    >>> charts.queue_length(analysis.queue_length(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "queue_length", "rank", "stream", "time_ns", "queue_length")
    blocked = int(frame["queue_length"].max()) >= 1024
    return _series(
        frame,
        ["rank", "stream"],
        "queue_length",
        top,
        "launches on a stream that wait for their start, scaled to each row's peak"
        + (" · from 1 024 on a launch blocks its thread" if blocked else ""),
        value,
        "stream",
        colors.kind["compute"],
        title,
        colors,
        width,
    )


@draws("memory_bandwidth")
def memory_bandwidth(
    frame: pd.DataFrame,
    *,
    top: int = 12,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Bandwidth of copies",
) -> Any:
    """Draw the bandwidth of copies, by their kind, over time.

    Parameters and result as of `queue_length`, with one lane a rank and kind of copy; `frame` is
    of `hta_widgets.analysis.memory_bandwidth`.

    Examples
    --------
    >>> charts.memory_bandwidth(analysis.memory_bandwidth(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "memory_bandwidth", "rank", "copy_kind", "time_ns", "gb_per_s")
    return _series(
        frame,
        ["rank", "copy_kind"],
        "gb_per_s",
        top,
        "as the trace states it, added over copies that run at once, scaled to each row's peak",
        rate,
        "kind",
        colors.kind["memory"],
        title,
        colors,
        width,
    )


def _series(
    frame: pd.DataFrame,
    keys: Sequence[str],
    measure: str,
    top: int,
    said: str,
    words: Any,
    noun: str,
    color: str,
    title: str,
    colors: Theme,
    width: int | None,
) -> Any:
    end = float(frame["time_ns"].max())
    parts: dict[Any, pd.DataFrame] = dict(list(frame.groupby(list(keys), observed=True)))
    peaks = {key: float(part[measure].max()) for key, part in parts.items()}
    # First the highest of each stream or kind of copy, then their second ones, and so on.
    highest = sorted(parts, key=lambda key: -peaks[key])
    place = {key: sum(one[1] == key[1] for one in highest[:at]) for at, key in enumerate(highest)}
    chosen = sorted(highest, key=lambda key: place[key])[:top]
    drawn = [key for key in parts if key in set(chosen)]
    several = len(frame["rank"].unique()) > 1
    series = []
    for rank, other in drawn:
        part = parts[rank, other].sort_values("time_ns", kind="stable")
        name = f"stream {other}" if noun == "stream" else str(other)
        lane = Lane(f"rank {rank}\n{name}" if several else name, words(peaks[rank, other]))
        fixed = {keys[0]: int(rank), keys[1]: other if noun != "stream" else int(other)}
        series.append((lane, fixed, part["time_ns"].to_numpy(), part[measure].to_numpy()))
    left = len(parts) - len(drawn)
    rest = f"{plural(left, 'more row')} with lower peaks not drawn" if left else ""
    return step_lanes(
        series,
        value_name=measure,
        end_ns=end,
        color=color,
        words=words,
        title=title,
        subtitle=sentences(said, rest, unmatched(frame)),
        theme=colors,
        width=width,
        heads=("", "peak"),
        pitch=40 if len(series) <= 6 else 34,
        tooltip=Tooltip(
            "rank @{rank} · " + ("stream @{stream}" if noun == "stream" else f"@{{{keys[1]}}}"),
            [
                ("length" if noun == "stream" else "bandwidth", "@{value_text}"),
                ("from", "@{time_ns}{0,0} ns"),
                ("until", "@{until_ns}{0,0} ns"),
            ],
        ),
    )


@draws_only("hta_widgets.analysis.memory_timeline(path)")
def memory_timeline(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Device memory by use",
) -> Any:
    """Draw what device memory is used for, over time, stacked.

    Parameters
    ----------
    frame : DataFrame
        Of `hta_widgets.analysis.memory_timeline`: ``time_ns`` and a column of bytes per category.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        Stacked steps. Its source has the frame's columns, and where each category's area begins
        and ends. Above 20 000 instants it holds the frame's rows at which all memory is least and
        most in each slice of time, which the chart says.

    Examples
    --------
    >>> charts.memory_timeline(analysis.memory_timeline(traces, rank=0))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    categories = [
        str(name)
        for name in frame.columns
        if name not in {"time_ns", "rank", "total"} and pd.api.types.is_numeric_dtype(frame[name])
    ]
    if frame.empty or not categories:
        return blank(frame, title, colors, width)
    require(frame, "memory_timeline", "time_ns")
    data = frame.reset_index(drop=True)
    total = data[categories].sum(axis=1).to_numpy(float)
    kept = _turns(data["time_ns"].to_numpy(float), total, MOST_POINTS)
    thinned = len(kept) < len(data)
    peak_at = int(total.argmax())
    peak, names = float(total.max()) or 1.0, len(data)
    peak_ns = float(data["time_ns"].iloc[peak_at])
    data = data.iloc[kept].reset_index(drop=True)
    used = [name for name in categories if (data[name] != 0).any()]
    times = data["time_ns"].to_numpy(float)
    columns: dict[str, Any] = {name: data[name].to_numpy() for name in data.columns}
    columns["until_ns"] = np.append(times[1:], times[-1])
    level = np.zeros(len(data))
    for name in used:
        columns[f"{name} begin"] = 1 - level / peak
        level = level + data[name].to_numpy(float)
        columns[f"{name} end"] = 1 - level / peak
    columns["total_text"] = [size(each) for each in level]
    for name in used:
        columns[f"{name} text"] = [size(each) for each in data[name]]
    figure, finish = lanes_figure(
        [Lane(size(0)), Lane(size(peak))],
        start_ns=float(times[0]),
        end_ns=float(times[-1]),
        pitch=100,
        title=title,
        subtitle=sentences(
            f"allocated bytes, peak {size(peak)} at {duration(peak_ns)}",
            f"{plural(names, 'change')}, drawn as least and most of slices of time"
            if thinned
            else "",
            f"never used: {', '.join(each for each in categories if each not in used)}"
            if len(used) < len(categories)
            else "",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
    )
    figure.y_range.update(start=1.0, end=-0.08)
    figure.yaxis[0].ticker = models.FixedTicker(ticks=[0, 0.5, 1])
    figure.ygrid.ticker = figure.yaxis[0].ticker
    source = models.ColumnDataSource(columns)
    keys = []
    for number, name in enumerate(used):
        color = colors.category[number % len(colors.category)]
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
        fill_color=colors.brush_line,
        fill_alpha=0,
        line_color=None,
        selection_fill_alpha=0.2,
        nonselection_fill_alpha=0,
    )
    add_tooltip(
        figure,
        [whole],
        colors,
        "@{total_text}",
        [*((name, f"@{{{name} text}}") for name in reversed(used)), ("from", "@{time_ns}{0,0} ns")],
    )
    finish(
        legend_of(figure, keys, colors),
        names=[(0.0, size(peak)), (0.5, size(peak / 2)), (1.0, size(0))],
    )
    return figure


def _turns(times: Any, total: Any, most: int) -> Any:
    """Return the rows to draw: all, or those of the least and most of each slice of time."""
    if len(times) <= most:
        return np.arange(len(times))
    edges = np.linspace(times[0], times[-1], most // 2 + 1)
    slices = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, most // 2 - 1)
    order = np.lexsort((total, slices))
    starts = np.flatnonzero(np.r_[True, np.diff(slices[order]) != 0])
    ends = np.r_[starts[1:], len(order)] - 1
    return np.unique(np.r_[order[starts], order[ends], 0, len(times) - 1])
