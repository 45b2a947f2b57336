"""Charts of collectives: arrivals, waits and clock offsets by rank."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import (
    ChartSource,
    analysis_frame,
    color_ramp,
    columns_of,
    complete_rows,
    largest_of_cells,
    median_of,
    most_often_last,
    thin_points,
)
from hta_widgets.charts.defined import draw_analysis
from hta_widgets.charts.figure import (
    Figure,
    FigureStyle,
    add_ground,
    add_tooltip,
    empty_figure,
    keep_fitting,
    models,
    new_figure,
    side_axis,
    unmatched_note,
)
from hta_widgets.charts.lanes import time_figure
from hta_widgets.charts.language import extremes_text
from hta_widgets.charts.rows import (
    NAMED_ROWS,
    Bars,
    Column,
    Dots,
    RowsContent,
    Scale,
    Tooltip,
    add_legend,
    add_row_outlines,
    draw_rows,
    round_ticks,
    rows_apart,
    tick_step,
    with_tooltip_columns,
)
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.text import MINUS, axis_time, count, duration, rank_list, rate, size
from hta_widgets.trace.arrays import Array

#: Maximum number of dots. If there are more points, `thin_points` keeps one per grid cell.
_MAX_DOTS = 20_000
_COLUMNS, _ROWS = 200, 48
_HEIGHT = 200


def _spread_text(spread: pd.Series) -> str:
    return (
        f"first and last arrival are {duration(float(spread.median()))} apart in the median,"
        f" at most {duration(float(spread.max()))}"
    )


def _last_rank_names(ranks: pd.Series) -> list[str]:
    return ["several" if rank < 0 else f"rank {rank}" for rank in ranks]


@check_arguments
def arrivals(
    frame: ChartSource,
    *,
    late: Iterable[int] | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Arrival delay by rank",
    **options: object,
) -> Figure:
    """Draw when each rank arrives at collectives, relative to the median arrival.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.collectives`, or traces to analyze. If the ranks do not
        share a clock, delays include the differences between their clocks.
    late : iterable of int, optional
        Ranks to draw in red, such as the stragglers found by `hta_widgets.analysis.stragglers`. By
        default, no rank is red, but a rank is dark if it alone comes last in more than half of its
        collectives and causes more than half of all waiting.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One dot per collective and rank. The data source holds the frame's rows plus ``late_ns``.
        Above 20 000 dots, the chart shows one dot per cell of a fine grid, including the latest
        arrival in each grid column; the subtitle states how many are drawn.

    Examples
    --------
    >>> charts.arrivals(analysis.collectives(traces))  # doctest: +SKIP
    """
    columns = "rank collective arrival_ns wait_ns last_rank"
    frame = analysis_frame("arrivals", frame, options, columns, analysis="collectives")
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    data = frame.reset_index(drop=True)
    data["late_ns"] = data["arrival_ns"] - median_of(data["arrival_ns"], data["collective"])
    marked = most_often_last(data, late)
    data["is_late"] = data["rank"].isin(marked).to_numpy()
    spread = data.groupby("collective")["arrival_ns"].agg(np.ptp)
    data, thinning = _thin_arrivals(data)
    # Draw the dots of marked ranks last, on top of the others.
    data = data.sort_values(["is_late", "arrival_ns"], kind="stable").reset_index(drop=True)
    # Only ranks passed by the caller are red. These rows alone do not identify a straggler.
    marked_color = style.theme.ink if late is None else style.theme.late
    plain_color = style.theme.rule_strong
    data["fill"] = np.where(data["is_late"], marked_color, plain_color)
    data["size"] = np.where(data["is_late"], 5, 4)
    data["last_text"] = _last_rank_names(data["last_rank"])
    entries = [Dots("x", plain_color, 6, "other ranks" if marked else "a rank")]
    if marked:
        entries = [Dots("x", marked_color, 6, _marked_ranks_text(frame, marked, late)), *entries]
    tooltip = with_tooltip_columns(
        data,
        Tooltip(
            "rank @{rank} · @{name}",
            [
                ("against the median", "{late_ns:duration_delta}"),
                ("waits", "{wait_ns:duration}"),
                ("last", "@{last_text}"),
                ("collective", "@{collective}"),
                ("at", "{arrival_ns:duration}"),
                *([("arrivals at this point", "@{arrivals}")] if thinning else []),
            ],
        ),
    )
    style = style.with_subtitle(
        "a dot is a rank's arrival at a collective, against the median of its ranks",
        _spread_text(spread),
        thinning,
        unmatched_note(frame),
    )
    window = float(frame["arrival_ns"].min()), float(frame["arrival_ns"].max())
    return _arrival_dots(data, window, entries, tooltip, style)


def _thin_arrivals(data: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the arrivals to draw, with the number that each stands for, and a note."""
    if len(data) <= _MAX_DOTS:
        return data.assign(arrivals=1), ""
    drawn, counts = thin_points(
        data["arrival_ns"], data["late_ns"], data["is_late"], columns=_COLUMNS, rows=_ROWS
    )
    dots = f"{count(len(data))} arrivals, drawn as {count(len(drawn))}"
    return data.iloc[drawn].assign(arrivals=counts), f"{dots}, with the latest at any time"


def _arrival_dots(
    data: pd.DataFrame,
    window: tuple[float, float],
    entries: list[Dots],
    tooltip: Tooltip,
    style: FigureStyle,
) -> Figure:
    theme = style.theme
    low, high = float(data["late_ns"].min()), float(data["late_ns"].max())
    y_margin = max(high - low, 1_000.0) * 0.06
    start, end = window
    x_margin = max(end - start, 1_000.0) * 0.01
    figure = time_figure(
        style,
        frame_height=_HEIGHT,
        x_range=(start - x_margin, end + x_margin),
        y_range=(low - y_margin, high + y_margin),
        dimensions="both",
    )
    ticks = round_ticks(high, 3, low)
    figure.yaxis.ticker = models.FixedTicker(ticks=ticks)
    figure.ygrid.ticker = figure.yaxis[0].ticker
    figure.ygrid.grid_line_color = theme.rule
    figure.segment(
        x0=[start - x_margin], x1=[end + x_margin], y0=[0], y1=[0], line_color=theme.rule_strong
    )
    dots = figure.scatter(
        x="arrival_ns",
        y="late_ns",
        size="size",
        marker="circle",
        source=models.ColumnDataSource(columns_of(data)),
        fill_color="fill",
        fill_alpha=0.75,
        line_color=None,
        selection_fill_alpha=1,
        nonselection_fill_alpha=0.15,
    )
    add_tooltip(figure, [dots], theme, tooltip.heading, tooltip.rows)
    legend = add_legend(figure, entries, theme)
    step = tick_step(ticks, high)
    signs = [MINUS if tick < 0 else "+" for tick in ticks]
    names = [
        (tick, f"{sign}{axis_time(abs(tick), step)}" if tick else "median")
        for sign, tick in zip(signs, ticks, strict=True)
    ]
    keep_fitting(figure, width=style.width, names=names, legend=legend, timed=True)
    return figure


def _marked_ranks_text(frame: pd.DataFrame, marked: list[int], late: Iterable[int] | None) -> str:
    if len(marked) > 1 or late is not None:
        return rank_list(marked)
    arrivals_of_rank = frame[frame["rank"] == marked[0]]
    last_count = int((arrivals_of_rank["last_rank"] == marked[0]).sum())
    return f"rank {marked[0]}, last in {count(last_count)} of {count(len(arrivals_of_rank))}"


@check_arguments
def clock_offsets(
    frame: ChartSource,
    *,
    clusters: pd.DataFrame | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Clock offsets",
    **options: object,
) -> Figure:
    """Draw each rank's clock offset, and its residuals before and after the fit.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.clock_offsets`, or traces to analyze.
    clusters : DataFrame, optional
        Result of `hta_widgets.analysis.rank_clusters`. A cluster is drawn as its mean and range.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One dot per rank, at its clock offset. A pale bar shows the residuals at the ends of
        collectives on the recorded clock, and a line shows them on the fitted clock. The data
        source holds the frame's rows.

    Examples
    --------
    >>> charts.clock_offsets(analysis.clock_offsets(traces))  # doctest: +SKIP
    """
    return draw_analysis("clocks", frame, options, width, theme, title, clusters)


#: Maximum number of columns. If there are more collectives, several share a cell.
_MAX_COLUMNS = 400
#: Maximum number of cells drawn as rectangles. If there are more, they are drawn as an image.
_MAX_CELLS = 12_000
#: Maximum number of columns in which cells are wide enough for an outline.
_MAX_OUTLINED = 80
_SHADES = 64

_TITLES = {
    "wait": "Wait by rank and collective",
    "lateness": "Arrival delay by rank and collective",
}
_DEFINED = {
    "wait": "from a rank's arrival to that of the last",
    "lateness": "arrival after the median of its ranks",
}


@check_arguments
def collectives(
    frame: ChartSource,
    *,
    measure: Literal["wait", "lateness"] = "wait",
    late: Iterable[int] | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "",
    **options: object,
) -> Figure:
    """Draw how long each rank waits at each collective, or how late it arrives.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.collectives`, or traces to analyze.
    measure : {"wait", "lateness"}, default "wait"
        Draw the wait for the last rank, or the delay after the median arrival. Arrivals before the
        median count as 0.
    late : iterable of int, optional
        Ranks to mark, as in `arrivals`.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One row per rank and one cell per collective, ordered by time. The data source holds the
        frame's rows. With more than 400 collectives, a cell covers several and shows the longest
        value. With more than 12 000 cells or 64 ranks, the cells form an image, and the source has
        one row per rank.

    Examples
    --------
    >>> charts.collectives(analysis.collectives(traces))  # doctest: +SKIP
    """
    columns = "rank collective name size_bytes last_rank busbw_gb_s arrival_ns wait_ns transfer_ns"
    frame = analysis_frame("collectives", frame, options, columns)
    style = FigureStyle(title or _TITLES[measure], theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    grid = _Grid(frame, measure, late)
    cell_text = f", each cell the longest of {count(grid.per_cell)}" if grid.per_cell > 1 else ""
    extremes = extremes_text(grid.names, grid.total_ns, duration)
    style = style.with_subtitle(
        f"{_DEFINED[measure]}, {count(grid.count)} collectives in order of time{cell_text}",
        _spread_text(grid.spread),
        f"total {extremes}" if extremes else "",
        unmatched_note(frame),
    )
    if len(grid.cells) > _MAX_CELLS or len(grid.ranks) > NAMED_ROWS:
        return _draw_image(grid, style)
    return _draw_cells(grid, style)


class _Grid:
    """Waits or delays by rank and cell; a cell covers `per_cell` consecutive collectives.

    Each row is a rank. The horizontal axis counts collectives in order of time.
    """

    def __init__(self, frame: pd.DataFrame, measure: str, late: Iterable[int] | None) -> None:
        data = frame.reset_index(drop=True)
        data["late_ns"] = data["arrival_ns"] - median_of(data["arrival_ns"], data["collective"])
        collectives = np.unique(data["collective"])
        self.measure = "wait_ns" if measure == "wait" else "late_ns"
        # The verb for the measure in legends and tooltips.
        self.verb = "waits" if measure == "wait" else "late by"
        self.ranks = np.unique(data["rank"])
        self.names = [f"rank {rank}" for rank in self.ranks]
        # Ranks to outline, in red if passed by the caller.
        self.marked, self.is_red = most_often_last(data, late), late is not None
        self.count = len(collectives)
        self.per_cell = max(1, math.ceil(self.count / _MAX_COLUMNS))
        # The number of cells per row, and the right edge of the last cell.
        self.columns = math.ceil(self.count / self.per_cell)
        self.end = float(self.columns * self.per_cell)
        cell_of_row = np.searchsorted(collectives, data["collective"]) // self.per_cell
        data["row"] = np.searchsorted(self.ranks, data["rank"])
        data["left"] = cell_of_row * self.per_cell
        data["shown_ns"] = data[self.measure].clip(lower=0)
        self.arrivals = data
        # For each cell, the row of `arrivals` with the largest ``shown_ns``.
        self.cells = largest_of_cells(data, "shown_ns") if self.per_cell > 1 else data
        self.spread = data.groupby("collective")["arrival_ns"].agg(np.ptp)
        self.total_ns = data.groupby("row")["shown_ns"].sum().to_numpy()

    @property
    def darkest_ns(self) -> float:
        """Return the time drawn in the darkest color, low enough that most cells are not pale."""
        shown_ns = self.cells["shown_ns"].to_numpy(float)
        return float(np.quantile(shown_ns, 0.98)) or float(shown_ns.max()) or 1.0

    @property
    def ticks(self) -> list[tuple[float, str]]:
        return [(tick, count(tick)) for tick in round_ticks(float(self.count), 4) if tick % 1 == 0]

    def matrix(self, values: pd.Series, missing: float, dtype: Any) -> Array:
        """Arrange values, one per cell, in an array of ranks by columns."""
        matrix = np.full((len(self.ranks), self.columns), missing, dtype=dtype)
        matrix[self.cells["row"], self.cells["left"] // self.per_cell] = values
        return matrix


def _legend_items(grid: _Grid, theme: Theme) -> list[Bars]:
    if not grid.total_ns.any():
        return []
    return [
        Bars(0.0, "", theme.waiting[-2], f"{grid.verb} {duration(grid.darkest_ns)} or more"),
        Bars(0.0, "", theme.waiting[2], "less", line=theme.waiting[2]),
        Bars(0.0, "", theme.lane, "none", line=theme.rule),
    ]


def _draw_cells(grid: _Grid, style: FigureStyle) -> Figure:
    theme = style.theme
    has_outlines = grid.columns <= _MAX_OUTLINED and bool(grid.total_ns.any())
    data = _colored_cells(grid, theme, has_outlines=has_outlines)
    data["spread_ns"] = data["collective"].map(grid.spread)
    data["size_text"] = ["–" if number < 0 else size(number) for number in data["size_bytes"]]
    data["bandwidth_text"] = [rate(number) for number in data["busbw_gb_s"]]
    data["last_text"] = _last_rank_names(data["last_rank"])
    data["name"] = data["name"].astype(str)
    legend = _legend_items(grid, theme)
    if has_outlines and data["is_last"].any():
        legend.append(Bars(0.0, "", theme.late_fill, "arrives last", line=theme.late))
    content = RowsContent(
        data=data,
        names=grid.names,
        marks=[Bars("left", "right", "fill", line="line")],
        scale=Scale(grid.end, ticks=grid.ticks),
        head=" ",
        columns=[Column("total", [duration(total_ns) for total_ns in grid.total_ns])],
        legend=legend,
        tooltip=Tooltip(
            "rank @{rank} · @{name}",
            [
                ("waits", "{wait_ns:duration}"),
                ("against the median", "{late_ns:duration}"),
                ("last", "@{last_text}"),
                ("first to last arrival", "{spread_ns:duration}"),
                ("collective", "@{collective}"),
                ("transfer", "{transfer_ns:duration}"),
                ("size", "@{size_text}"),
                ("bus bandwidth", "@{bandwidth_text}"),
            ],
        ),
    )
    figure = draw_rows(content, style)
    if not has_outlines:
        _outline_marked_rows(figure, grid, theme, 0.4)
    return figure


def _colored_cells(grid: _Grid, theme: Theme, *, has_outlines: bool) -> pd.DataFrame:
    data = grid.cells.assign(right=grid.cells["left"] + grid.per_cell)
    shades = np.array(color_ramp(theme.waiting, _SHADES))
    depth = np.clip(data["shown_ns"].to_numpy(float) / grid.darkest_ns, 0, 1)
    data["fill"] = shades[np.ceil(depth * (len(shades) - 1)).astype(int)]
    # If a cell stands for several collectives, no single rank is last.
    is_last = (data["last_rank"] == data["rank"]) & complete_rows(data)
    data["is_last"] = is_last & (grid.per_cell == 1)
    is_outlined = data["is_last"].to_numpy(bool) & has_outlines
    data["line"] = np.where(is_outlined, theme.late, data["fill"])
    if grid.measure == "wait_ns":
        data.loc[is_outlined, "fill"] = theme.late_fill
    # Outlines overlap neighboring cells, so outlined cells are drawn last.
    return data.sort_values("is_last", kind="stable", ignore_index=True) if has_outlines else data


def _outline_marked_rows(figure: Figure, grid: _Grid, theme: Theme, half_height: float) -> None:
    """Outline the rows of marked ranks. Used if cells are too narrow to be outlined."""
    if not grid.marked:
        return
    rows = np.searchsorted(grid.ranks, grid.marked)
    outline = theme.late if grid.is_red else theme.ink
    # The wider line, in the background color, separates the outline from the cells.
    for color, width in ((theme.bg, 3.5), (outline, 1.5)):
        figure.quad(
            left=[0.0] * len(rows),
            right=[grid.end] * len(rows),
            top=(rows - half_height).tolist(),
            bottom=(rows + half_height).tolist(),
            fill_color=None,
            line_color=color,
            line_width=width,
        )


def _draw_image(grid: _Grid, style: FigureStyle) -> Figure:
    theme, rows = style.theme, len(grid.ranks)
    pitch = 14 if rows <= NAMED_ROWS else max(1, 640 // rows)
    # Leave space for the name of the first row, which may be taller than the row.
    above = 8
    figure = new_figure(
        style,
        frame_height=rows * pitch + above,
        x_range=models.Range1d(0, grid.end),
        y_range=models.Range1d(rows - 0.5, -0.5 - above / pitch),
        select="height",
    )
    axis = figure.xaxis[0]
    axis.ticker = models.FixedTicker(ticks=[tick for tick, _ in grid.ticks])
    axis.major_label_overrides = dict(grid.ticks)
    add_ground(figure, theme, left=0, right=grid.end, top=-0.5, bottom=rows - 0.5)
    _add_cell_image(figure, grid, theme)
    _add_rank_bars(figure, grid, theme)
    _outline_marked_rows(figure, grid, theme, max(0.5, 2 / pitch))
    legend = add_legend(figure, _legend_items(grid, theme), theme)
    rows_shown = _labeled_rows(grid, pitch)
    names = [(row, grid.names[row]) for row in rows_shown]
    totals: dict[float, str] = {row: duration(float(grid.total_ns[row])) for row in rows_shown}
    figure.yaxis.ticker = models.FixedTicker(ticks=rows_shown)
    side = side_axis(figure, rows_shown, totals, theme)
    keep_fitting(figure, width=style.width, names=names, columns=[(side, 0)], legend=legend)
    return figure


def _add_cell_image(figure: Figure, grid: _Grid, theme: Theme) -> None:
    picture = figure.image(
        image="shown_us",
        x=0,
        y=-0.5,
        dw=grid.end,
        dh=len(grid.ranks),
        source=models.ColumnDataSource(
            {
                "shown_us": [grid.matrix(grid.cells["shown_ns"] / 1e3, np.nan, np.float32)],
                "of_rank": [np.repeat(grid.ranks.astype(np.int32)[:, None], grid.columns, axis=1)],
                "last": [grid.matrix(grid.cells["last_rank"], -1, np.int32)],
                "which": [grid.matrix(grid.cells["collective"], -1, np.int32)],
            }
        ),
        color_mapper=models.LinearColorMapper(
            palette=color_ramp(theme.waiting, 256),
            low=0,
            high=grid.darkest_ns / 1e3,
            nan_color="rgba(0, 0, 0, 0)",
        ),
    )
    rows = [(grid.verb, "@{shown_us}{0,0.0} µs"), ("last", "rank @{last}")]
    add_tooltip(figure, [picture], theme, "rank @{of_rank} · collective @{which}", rows)


def _add_rank_bars(figure: Figure, grid: _Grid, theme: Theme) -> None:
    is_last = grid.arrivals["last_rank"] == grid.arrivals["rank"]
    arrivals_of_row = grid.arrivals.assign(is_last=is_last).groupby("row")
    data = arrivals_of_row.agg(
        rank=("rank", "first"),
        collectives=("rank", "size"),
        wait_ns=("wait_ns", "sum"),
        last=("is_last", "sum"),
    ).reset_index()
    add_row_outlines(figure, columns_of(data), (0, grid.end), theme)


def _labeled_rows(grid: _Grid, pitch: int) -> list[int]:
    """Return the rows of marked ranks, and evenly spaced rows that are not too close to them."""
    marked = np.searchsorted(grid.ranks, grid.marked).tolist()
    min_distance = 14 / pitch
    others = [
        row
        for row in rows_apart(len(grid.ranks), pitch, 14)
        if all(abs(row - marked_row) >= min_distance for marked_row in marked)
    ]
    return sorted([*others, *marked])
