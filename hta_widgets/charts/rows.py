"""Charts that consist of rows with marks, text columns, ticks, a tooltip and a legend.

A chart is a public function that takes a frame, or traces on which `analysis_frame` runs the
analysis. It ends with one drawing call: `draw_definition` for charts that are also in dashboards,
`draw_rows` with a `RowsContent`, or `empty_figure` with the reason why the chart is empty::

    return draw_rows(
        RowsContent(
            data=data,  # columns name, sum_ns, share
            names="{name}",
            marks=[Bars(0.0, "sum_ns", theme.idle)],
            scale=time_scale(data["sum_ns"].max()),
            columns=[Column("total", "{sum_ns:duration}")],
            tooltip=Tooltip("@{name}", [("share", "{share:share}")]),
        ),
        style.with_subtitle("device time by name", unmatched_note(frame)),
    )

Templates use the expressions and formats of chart definitions (see `language`). ``@{name}`` is
Bokeh's syntax for a column value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.charts import language
from hta_widgets.charts.data import columns_of
from hta_widgets.charts.figure import (
    Figure,
    FigureStyle,
    add_tooltip,
    draw_row_texts,
    escape_text,
    keep_fitting,
    models,
    new_figure,
    side_axis,
)
from hta_widgets.charts.theme import FONT, Theme, blend
from hta_widgets.text import axis_time


@dataclass(frozen=True)
class Bars:
    """Bars that extend from one column of the data source to another.

    Colors and hatches are constants, or names of columns with a value per bar. A constant hatch is
    much faster to draw.

    `only` is a pair ``(column, value)`` that restricts the bars to rows with this value.
    """

    left: str | float
    right: str
    fill: str
    name: str = ""
    line: str | None = None
    hatch: str | None = None
    hatch_color: str | None = None
    hatch_weight: float = 0.8
    hatch_scale: float = 8.0
    alpha: float = 1.0
    text: str = ""
    text_color: str = "#000000"
    row: str = "row"
    height: float = 0.8
    only: tuple[str, str] | None = None


@dataclass(frozen=True)
class Whiskers:
    """Thin lines that extend from one column of the data source to another."""

    left: str
    right: str
    color: str


@dataclass(frozen=True)
class Dots:
    """Dots at the column `at`. `size`, `marker` and `angle` may be names of columns."""

    at: str
    color: str
    size: int | str = 8
    name: str = ""
    marker: str = ""
    angle: str = ""


@dataclass(frozen=True)
class Column:
    """A text column at the right, hidden if the chart is narrower than `min_width` px."""

    head: str
    texts: Sequence[str] | str
    min_width: int = 0


@dataclass(frozen=True)
class Tooltip:
    """The tooltip of a mark, as templates over the columns of the data source."""

    heading: str
    rows: Sequence[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Scale:
    """The horizontal axis: its range, its labeled ticks, and whether to draw a line at 0."""

    end: float
    start: float = 0.0
    ticks: Sequence[tuple[float, str]] = ()
    zero_line: bool = False


def time_scale(end_ns: float) -> Scale:
    """Return a scale from 0 to slightly more than `end_ns`."""
    end_ns = end_ns or 1.0
    return Scale(end_ns * 1.02, ticks=time_ticks(end_ns))


@dataclass(frozen=True)
class RowsContent:
    """The content of a chart of rows: names, marks drawn from the columns of `data`, and texts.

    The column ``row`` of `data` assigns each item to a row. `names`, `columns` and `tooltip` may
    contain templates over the columns of `data`, which `draw_rows` fills in. `legend` lists the
    legend's entries, by default all marks with a name. `pitch` is the row height in px.
    """

    data: pd.DataFrame
    names: Sequence[str] | str
    marks: Sequence[Bars | Whiskers | Dots]
    scale: Scale
    columns: Sequence[Column] = ()
    tooltip: Tooltip | None = None
    legend: Sequence[Bars | Dots] | None = None
    head: str = ""
    background: bool = False
    pitch: float | None = None


def fill_color(mark: Bars, theme: Theme) -> str:
    """Return the fill color of bars, blended with the background if `alpha` is below 1."""
    return mark.fill if mark.alpha == 1 else blend(mark.fill, theme.bg, mark.alpha)


def view_of(column: str, value: str) -> Any:
    """Return a view of the data source rows in which `column` equals `value`.

    One mark per value is fast to draw; a single mark with a column of hatches takes seconds.
    """
    return models.CDSView(filter=models.GroupFilter(column_name=column, group=value))


def draw_mark(
    figure: Figure, mark: Bars | Whiskers | Dots, source: object, theme: Theme, *, profile: bool
) -> Any:
    """Add a mark to a figure. In a `profile`, rows have no space between them."""
    if isinstance(mark, Whiskers):
        ends = {"y0": "row", "y1": "row", "x0": mark.left, "x1": mark.right, "source": source}
        ends["nonselection_line_alpha"] = 0.3
        # A halo separates the line from bars of similar color.
        figure.segment(line_color=theme.bg, line_width=4, line_alpha=0.75, **ends)
        return figure.segment(line_color=mark.color, line_width=1.5, **ends)
    if isinstance(mark, Dots):
        return figure.scatter(
            y="row",
            x=mark.at,
            size=mark.size,
            source=source,
            marker=mark.marker or "circle",
            angle=mark.angle or 0,
            fill_color=mark.color,
            line_color=theme.bg,
            nonselection_fill_alpha=0.3,
        )
    style: dict[str, Any] = {}
    if mark.only is not None:
        style["view"] = view_of(*mark.only)
    if mark.hatch is not None:
        style |= {
            "hatch_pattern": mark.hatch,
            "hatch_color": mark.hatch_color,
            "hatch_scale": mark.hatch_scale,
            "hatch_weight": mark.hatch_weight,
            "nonselection_hatch_alpha": 0.3,
        }
    return figure.hbar(
        y=mark.row,
        left=mark.left,
        right=mark.right,
        source=source,
        height=1.0 if profile else mark.height,
        fill_color=fill_color(mark, theme),
        line_color=mark.line,
        line_width=1,
        nonselection_fill_alpha=0.3,
        nonselection_line_alpha=0.3,
        **style,
    )


#: Largest chart, in rows, that names every row. Larger ones are drawn as a profile, with few names.
NAMED_ROWS = 64


def round_ticks(end: float, count: int = 3, start: float = 0.0) -> list[float]:
    """Return the multiples of a round step in a range, about `count` on the longer side of 0."""
    span = max(abs(end), abs(start))
    if span <= 0:
        return [0.0]
    exact_step = span / count
    scale = 10.0 ** np.floor(np.log10(exact_step))
    steps = [factor * scale for factor in (1, 2, 5, 10) if factor * scale <= span]
    step = next((step for step in steps if step >= exact_step * 0.85), steps[-1])
    first, last = int(np.ceil(start / step - 1e-9)), int(np.floor(end / step + 1e-9))
    return [float(multiple * step) for multiple in range(first, last + 1)]


def tick_step(ticks: Sequence[float], end: float) -> float:
    """Return the distance between ticks, or the length of the axis if there is only one tick."""
    return ticks[1] - ticks[0] if len(ticks) > 1 else max(end, 1.0)


def time_ticks(end_ns: float, count: int = 3, start_ns: float = 0.0) -> list[tuple[float, str]]:
    """Return positions and labels of ticks on a time axis."""
    ticks = round_ticks(end_ns, count, start_ns)
    step = tick_step(ticks, end_ns)
    return [(tick, axis_time(tick, step)) for tick in ticks]


def _row_pitch(rows: int) -> float:
    if rows <= 40:
        return 20.0
    if rows <= NAMED_ROWS:
        return 14.0
    # A whole number of pixels, so that bars neither overlap nor leave seams.
    return max(1.0, 640 // rows) if rows <= 2048 else 0.5


def draw_rows(content: RowsContent, style: FigureStyle) -> Figure:
    """Fill in the templates of the content and return a figure of rows."""
    data = content.data
    if "row" not in data:
        data["row"] = np.arange(len(data))

    def fill(texts: Sequence[str] | str) -> Sequence[str]:
        return row_texts(data, texts) if isinstance(texts, str) else texts

    filled = replace(
        content,
        names=fill(content.names),
        columns=[replace(column, texts=fill(column.texts)) for column in content.columns],
        tooltip=content.tooltip and with_tooltip_columns(data, content.tooltip),
    )
    return rows_chart(filled, style)


def row_texts(data: pd.DataFrame, template: str) -> list[str]:
    """Fill in a template for each row of `data`."""
    # Convert only columns named in the template, since conversion takes a while.
    scope = {str(name): language.column(data[name]) for name in data if str(name) in template}
    filled = language.fill_template(template, scope)
    return list(filled) if language.is_rows(filled) else [str(filled)] * len(data)


def with_tooltip_columns(data: pd.DataFrame, tooltip: Tooltip) -> Tooltip:
    """Fill in a tooltip's templates as columns of `data`; return a tooltip that refers to them."""

    def add_column(template: str, name: str) -> str:
        if "@" in template or "{" not in template:
            return template
        data[name] = row_texts(data, template)
        return f"@{{{name}}}"

    lines = [
        (label, add_column(template, f"tip_{index}"))
        for index, (label, template) in enumerate(tooltip.rows)
    ]
    return Tooltip(add_column(tooltip.heading, "tip_heading"), lines)


def rows_chart(content: RowsContent, style: FigureStyle) -> Figure:
    """Return a figure with rows from top to bottom."""
    names, marks, columns, theme = content.names, content.marks, content.columns, style.theme
    rows = len(names)
    profile = rows > NAMED_ROWS
    pitch = _row_pitch(rows) if profile or content.pitch is None else content.pitch
    headed = bool(content.head or any(column.head for column in columns)) and not profile
    figure = _empty_rows(content, style, pitch, headed=headed)
    source = models.ColumnDataSource(columns_of(content.data))
    drawn_marks = [draw_mark(figure, mark, source, theme, profile=profile) for mark in marks]
    labels = _draw_texts(figure, marks, source, profile=profile)
    shown = rows_apart(rows, pitch, 20) if profile else list(range(rows))
    row_names = [(row, names[row]) for row in shown]
    if headed:
        row_names.insert(0, (-1, content.head))
    figure.yaxis.ticker = models.FixedTicker(ticks=[row for row, _ in row_names])
    right = [
        (_draw_column(figure, column, shown, theme, headed=headed), column.min_width)
        for column in columns
        if not profile
    ]
    legend = add_legend(figure, marks if content.legend is None else content.legend, theme)
    if content.tooltip is not None:
        add_tooltip(figure, drawn_marks, theme, content.tooltip.heading, content.tooltip.rows)
    keep_fitting(
        figure, width=style.width, names=row_names, columns=right, labels=labels, legend=legend
    )
    return figure


def _empty_rows(content: RowsContent, style: FigureStyle, pitch: float, *, headed: bool) -> Figure:
    scale, rows = content.scale, len(content.names)
    profile = rows > NAMED_ROWS
    # A profile has no column heads, but needs space for its first name, which is taller than a row.
    above = 8.0 if profile else 0.0
    if headed:
        above = min(pitch, 20.0)
    # Bokeh draws marks half a pixel off, leaving seams between rows. Shift the range to match.
    shift = 0.5 / pitch if profile else 0.0
    figure = new_figure(
        style,
        frame_height=int(np.ceil(rows * pitch + above)),
        x_range=models.Range1d(scale.start, scale.end),
        y_range=models.Range1d(rows - 0.5 + shift, shift - 0.5 - above / pitch),
        select="height",
    )
    if content.background:
        figure.hbar(
            y="row",
            left=scale.start,
            right=scale.end,
            height=1.0 if profile else 0.8,
            source=models.ColumnDataSource({"row": list(range(rows))}),
            fill_color=style.theme.lane,
            line_color=None,
            nonselection_fill_alpha=1,
        )
    _draw_scale(figure, scale, style.theme, profile=profile, rows=rows)
    return figure


def rows_apart(rows: int, pitch: float, min_px: float) -> list[int]:
    """Return evenly spaced row numbers at least `min_px` apart."""
    steps = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096)
    return list(range(0, rows, next(step for step in steps if step * pitch >= min_px)))


def add_row_outlines(
    figure: Figure, columns: dict[str, Any], span: tuple[float, float], theme: Theme
) -> None:
    """Add an invisible bar per row of an image. Selecting a row outlines its bar."""
    figure.hbar(
        y="row",
        left=span[0],
        right=span[1],
        # Less than the row height, so that a tap hits a single row.
        height=0.9,
        source=models.ColumnDataSource(columns),
        fill_alpha=0,
        line_alpha=0,
        selection_line_alpha=1,
        selection_line_color=theme.brush_line,
        nonselection_fill_alpha=0,
        nonselection_line_alpha=0,
    )


def _draw_scale(figure: Figure, scale: Scale, theme: Theme, *, profile: bool, rows: int) -> None:
    axis = figure.xaxis[0]
    axis.visible = bool(scale.ticks)
    axis.ticker = models.FixedTicker(ticks=[tick for tick, _ in scale.ticks])
    axis.major_label_overrides = {tick: escape_text(text) for tick, text in scale.ticks}
    figure.xgrid.ticker = axis.ticker
    figure.xgrid.grid_line_color = theme.rule
    if not profile:
        figure.xgrid.bounds = "auto"
    if scale.zero_line:
        figure.segment(
            x0=[0], x1=[0], y0=[-0.5], y1=[rows - 0.5], line_color=theme.rule_strong, line_width=1
        )


def _draw_texts(figure: Figure, marks: Sequence[Any], source: Any, *, profile: bool) -> Any:
    """Write texts into bars and return their source; `keep_fitting` hides texts that do not fit."""
    labeled = [mark for mark in marks if isinstance(mark, Bars) and mark.text]
    if not labeled or profile:
        return None
    data, frames = pd.DataFrame(dict(source.data)), []
    for mark in labeled:
        left = data[mark.left].astype(float) if isinstance(mark.left, str) else mark.left
        columns = {"row": data["row"], "x": left, "full": data[mark.text]}
        color = data.get(mark.text_color, mark.text_color)
        texts = pd.DataFrame({**columns, "span": data[mark.right] - left, "color": color})
        is_shown = texts["full"] != ""
        if mark.only is not None:
            is_shown &= data[mark.only[0]] == mark.only[1]
        frames.append(texts[is_shown])
    texts = pd.concat(frames, ignore_index=True)
    labels = models.ColumnDataSource(texts.assign(text=texts["full"]).to_dict("list"))
    draw_row_texts(figure, labels, x="x", color="color")
    return labels


def _draw_column(
    figure: Figure, column: Column, shown: Sequence[int], theme: Theme, *, headed: bool
) -> Any:
    ticks = [*([-1] if headed and column.head else []), *shown]
    overrides: dict[float, str] = {row: escape_text(column.texts[row]) or "\u200b" for row in shown}
    if headed and column.head:
        overrides[-1] = escape_text(column.head)
    return side_axis(figure, ticks, overrides, theme)


def add_legend(figure: Figure, marks: Sequence[Any], theme: Theme) -> Any:
    """Add a legend of named marks above a figure; return it, or None if no mark has a name."""
    items = [
        models.LegendItem(
            label={"value": escape_text(mark.name)}, renderers=[_legend_key(figure, mark, theme)]
        )
        for mark in marks
        if isinstance(mark, (Bars, Dots)) and mark.name
    ]
    if not items:
        return None
    legend = models.Legend(
        items=items,
        orientation="horizontal",
        border_line_color=None,
        background_fill_alpha=0,
        label_text_font=FONT,
        label_text_font_size="11px",
        label_text_color=theme.ink,
        glyph_width=12,
        glyph_height=12,
        label_width=0,
        label_height=12,
        label_standoff=4,
        spacing=12,
        padding=2,
        margin=2,
    )
    figure.above = [legend, *figure.above]
    return legend


def _legend_key(figure: Figure, mark: Bars | Dots, theme: Theme) -> Any:
    # A glyph at NaN is invisible, but gives the legend its style.
    nowhere = models.ColumnDataSource({"x": [float("nan")]})
    if isinstance(mark, Dots):
        return figure.scatter(
            x="x", y="x", source=nowhere, fill_color=mark.color, line_color=None, size=mark.size
        )
    return figure.hbar(
        y="x",
        left="x",
        right="x",
        source=nowhere,
        fill_color=fill_color(mark, theme),
        line_color=mark.line,
        hatch_pattern=mark.hatch,
        hatch_color=mark.hatch_color or theme.ink2,
        hatch_scale=6,
    )
