"""What each rank does when: a grid of ranks and time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.formats import duration, share

from .across_ranks import ramp
from .bokeh_modules import models
from .canvas import add_tooltip, blank, new_figure, plain_axis, sentences, unmatched
from .fitting import keep_fitting
from .frames import draws, require
from .lanes import time_axis
from .rows import brush, extremes
from .sheets import add_boxes, add_rules, add_words, is_sheet, new_sheet
from .theme import Theme, theme_of

__all__ = ["rank_time_heatmap"]

Floats = npt.NDArray[np.float64]

#: By metric: what it is called, what misleads, and its ramp.
_METRICS = {
    "busy": ("GPU busy", "busy includes waiting, so a slow rank looks least busy", "busy"),
    "compute": ("compute", "", "busy"),
    "communication": ("communication", "waiting included", "waiting"),
    "exposed_communication": ("exposed communication", "that no compute hides", "waiting"),
    "waiting": (
        "waiting on the stream",
        "a rank that never waits comes last",
        "waiting",
    ),
    "idle": ("idle", "between a rank's first work and its last", "busy"),
}
#: The kinds of events that a metric needs; the others need not match any.
_KINDS = {
    "compute": ("compute",),
    "communication": ("communication",),
    "exposed_communication": ("communication",),
    "waiting": ("communication",),
}
_STRIP = 26
_SHADES = 128


@draws("rank_time_heatmap")
def rank_time_heatmap(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "",
) -> Any:
    """Draw what each rank's device does over time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.rank_time_heatmap`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A row a rank and a cell a bin, above them the mean of ranks, at the right each rank's
        total. The picture's source has columns ``share`` and ``value_ns``, each one array of ranks
        and bins; another has a row a rank, with ``rank`` and ``total_ns``.

    Examples
    --------
    >>> frame = analysis.rank_time_heatmap(traces, metric="waiting")  # doctest: +SKIP
    >>> charts.rank_time_heatmap(frame)  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if len(frame):
        require(frame, "rank_time_heatmap", "rank", "bin", "start_ns", "end_ns", "value_ns")
    metric = str(frame.attrs.get("metric", "busy"))
    words, said, shades = _METRICS.get(metric, (metric.replace("_", " "), "", "busy"))
    title = title or f"Rank × time: {words}"
    if frame.empty or not (frame["end_ns"] > frame["start_ns"]).any():
        return blank(frame, title, colors, width)
    ranks = frame["rank"].drop_duplicates().to_numpy()
    bins = len(frame) // len(ranks)
    value = frame["value_ns"].to_numpy(float).reshape(len(ranks), bins)
    edges = frame[["start_ns", "end_ns"]].to_numpy(float)[:bins]
    size = edges[:, 1] - edges[:, 0]
    part = np.divide(value, size, out=np.zeros_like(value), where=size > 0)
    names = [f"rank {rank}" for rank in ranks]
    total = value.sum(axis=1)
    start, end = float(edges[0, 0]), float(edges[-1, 1])
    subtitle = sentences(
        f"share of each {duration((end - start) / bins)} cell",
        said if len(ranks) > 1 else "",
        extremes(names, total, duration),
        unmatched(frame, _KINDS.get(metric, ())),
    )
    if is_sheet():
        return _sheet(colors, title, subtitle, names, part, total, start, end)
    return _standalone(
        colors, width, title, subtitle, ranks, part, value, total, (start, end), shades
    )


def _palette(colors: Theme, shades: str) -> list[str]:
    return ramp(colors.busy if shades == "busy" else colors.waiting, _SHADES)


def _mapper(colors: Theme, shades: str) -> Any:
    return models.LinearColorMapper(palette=_palette(colors, shades), low=0, high=1)


def _sheet(
    colors: Theme,
    title: str,
    subtitle: str,
    names: list[str],
    part: Floats,
    total: Floats,
    start: float,
    end: float,
) -> Any:
    """Return the sheet: a picture for each ramp, of which the page fills one."""
    content = {
        "title": title,
        "subtitle": subtitle,
        "names": names,
        "x_start": start,
        "x_end": end,
        "share": part,
        "mean": part.mean(axis=0),
        "totals": [duration(each) for each in total],
    }
    figure = new_sheet(colors, content)
    for shades in ("busy", "waiting"):
        figure.image(
            image="image",
            x="x",
            y="y",
            dw="dw",
            dh="dh",
            # BokehJS makes arrays of two dimensions from Python's alone: the page copies its kind.
            source=models.ColumnDataSource(
                {"image": [np.zeros((1, 1))], "x": [0], "y": [0], "dw": [0], "dh": [0]},
                name=f"cells_{shades}",
            ),
            color_mapper=_mapper(colors, shades),
        )
    add_rules(figure)
    add_boxes(figure, "bars")
    add_boxes(figure, "veils", fill_alpha=0.6)
    add_words(figure)
    for name, color, thick in (
        ("halo", colors.bg, 4),
        ("frames", colors.brush_line, 2),
        ("late", "color", 1.5),
    ):
        add_boxes(figure, name, fill_color=None, line_color=color, line_width=thick)
    return figure


def _standalone(
    colors: Theme,
    width: int | None,
    title: str,
    subtitle: str,
    ranks: Any,
    part: Floats,
    value: Floats,
    total: Floats,
    window: tuple[float, float],
    shades: str,
) -> Any:
    rows, (start, end) = len(ranks), window
    pitch = 16 if rows <= 32 else max(1, 512 // rows)
    strip = _STRIP / pitch
    figure = new_figure(
        title,
        subtitle,
        colors,
        width,
        frame_height=int(rows * pitch + _STRIP + 6),
        x_range=models.Range1d(start, end),
        y_range=models.Range1d(rows - 0.5, -0.5 - strip - 6 / pitch),
        tools=[models.BoxSelectTool(dimensions="height", overlay=brush(colors)), models.TapTool()],
    )
    time_axis(figure)
    picture = figure.image(
        image="share",
        x=start,
        y=-0.5,
        dw=end - start,
        dh=rows,
        source=models.ColumnDataSource(
            {
                "share": [part],
                "value_ns": [value],
                "of_rank": [np.repeat(np.asarray(ranks)[:, None], part.shape[1], axis=1)],
            }
        ),
        color_mapper=_mapper(colors, shades),
    )
    edges = np.linspace(start, end, part.shape[1] + 1)
    base = -0.5 - 4 / pitch
    figure.quad(
        left=edges[:-1],
        right=edges[1:],
        top=base - part.mean(axis=0) * (strip - 4 / pitch),
        bottom=np.full(part.shape[1], base),
        fill_color=_palette(colors, shades)[_SHADES * 2 // 3],
        line_color=None,
    )
    figure.hbar(
        y="row",
        left=start,
        right=end,
        height=0.9,
        source=models.ColumnDataSource(
            {"row": np.arange(rows), "rank": np.asarray(ranks), "total_ns": total}
        ),
        fill_alpha=0,
        line_alpha=0,
        selection_line_alpha=1,
        selection_line_color=colors.brush_line,
        nonselection_fill_alpha=0,
        nonselection_line_alpha=0,
    )
    add_tooltip(figure, [picture], colors, "rank @{of_rank}", [("share", "@{share}{0 %}")])
    every = next(each for each in (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024) if each * pitch >= 14)
    shown = list(range(0, rows, every))
    middle = -0.5 - strip / 2
    ticks = [middle, *shown]
    figure.yaxis.ticker = models.FixedTicker(ticks=ticks)
    numbers: dict[float, str] = {row: duration(float(total[row])) for row in shown}
    numbers[middle] = f"mean {share(float(part.mean()))}"
    side = models.LinearAxis(ticker=models.FixedTicker(ticks=ticks), major_label_overrides=numbers)
    plain_axis(side, colors)
    figure.add_layout(side, "right")
    keep_fitting(
        figure,
        width=width,
        names=[(middle, "mean of ranks"), *((row, f"rank {ranks[row]}") for row in shown)],
        columns=[(side, 0)],
        timed=True,
    )
    return figure
