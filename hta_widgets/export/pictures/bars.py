"""Charts of rows with bars as SVG, from the content that `charts.rows` draws as a Bokeh figure.

Bokeh needs a browser to write SVG, and outputs of notebooks are saved without one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hta_widgets.charts.figure import FigureStyle
from hta_widgets.charts.rows import Bars, RowsContent, Whiskers, fill_color
from hta_widgets.charts.theme import Theme
from hta_widgets.export.pictures.drawing import Drawing, fit_text, hatch, text_width

#: Distances in px: between rows, height of bars, above the rows, of swatches, between parts, and
#: between lines of notes.
_PITCH, _BAR, _ABOVE, _SWATCH, _PAD, _GAP, _LINE = 20, 14, 64, 10, 12, 8, 14
_MAX_ROWS = 20


def bars_svg(
    content: RowsContent, style: FigureStyle, width: float, late_ranks: Sequence[int] = ()
) -> str:
    """Return the first rows of a chart as SVG: title, legend, names, bars, spreads, columns, notes.

    Each mark has one colour. Names of `late_ranks` are red.
    """
    rows, theme, drawing = min(len(content.names), _MAX_ROWS), style.theme, Drawing()
    names = [str(name) for name in content.names[:rows]]
    marks = [mark for mark in content.marks if isinstance(mark, Bars)]
    columns = [[column.head, *map(str, column.texts[:rows])] for column in content.columns]
    widths = [max(map(text_width, column)) for column in columns]
    left = _PAD + max((text_width(name, bold=True) for name in names), default=0) + _GAP
    right = width - _PAD - sum(widths) - _GAP * len(widths)
    hidden_rows = len(content.names) - rows
    max_width = width - 2 * _PAD
    notes = wrapped_lines(style.subtitle, max_width)
    rows_end = _ABOVE + rows * _PITCH + (_PITCH if hidden_rows else 0)
    height = rows_end + _PAD + _LINE * len(notes)
    drawing.rect(0, 0, width, height, theme.bg)
    drawing.text(_PAD, 20, fit_text(style.title, max_width, bold=True), theme.ink, bold=True)
    patterns = _draw_legend(drawing, marks, theme, width - _PAD)
    scale = (right - left) / ((content.scale.end - content.scale.start) or 1)
    origin = left - content.scale.start * scale
    for mark in marks:
        _draw_bars(drawing, mark, content.data, theme, origin, scale)
    for line in content.marks:
        if isinstance(line, Whiskers):
            _draw_whiskers(drawing, line, content.data, origin, scale)
    late_names = {f"rank {rank}" for rank in late_ranks}
    for row, name in enumerate(names):
        is_late = name in late_names
        color = theme.late if is_late else theme.ink2
        drawing.text(left - _GAP, _baseline(row), name, color, anchor="end", bold=is_late)
    x = right
    for (head, *texts), column_width in zip(columns, widths, strict=True):
        x += _GAP + column_width
        drawing.text(x, 54, head, theme.ink3, anchor="end")
        for row, text in enumerate(texts):
            drawing.text(x, _baseline(row), text, theme.ink2, anchor="end")
    if hidden_rows:
        drawing.text(left, rows_end - _GAP, f"… {hidden_rows} more rows", theme.ink3)
    for number, note in enumerate(notes):
        drawing.text(_PAD, rows_end + _LINE * (number + 1), note, theme.ink3)
    return drawing.svg(
        width, height, title=style.title, description=style.subtitle, patterns=patterns
    )


def wrapped_lines(text: str, width: float) -> list[str]:
    """Divide a text into lines that are at most this wide, if its words are."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and text_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _baseline(row: int) -> float:
    return _ABOVE + row * _PITCH + _BAR - 3


def _draw_legend(drawing: Drawing, marks: Sequence[Bars], theme: Theme, right: float) -> list[str]:
    """Draw swatches with names, as far as they fit; return the patterns of hatched marks."""
    x, patterns = float(_PAD), []
    for mark in marks:
        fill = fill_color(mark, theme)
        if mark.hatch:
            patterns.append(hatch(_pattern_name(mark), fill, mark.hatch_color or theme.ink3))
        if not mark.name or x + _SWATCH + 4 + text_width(mark.name) > right:
            continue
        drawing.rect(x, 29, _SWATCH, _SWATCH, _paint(mark, theme))
        if mark.line:
            drawing.frame(x, 29, _SWATCH, _SWATCH, mark.line)
        drawing.text(x + _SWATCH + 4, 38, mark.name, theme.ink2)
        x += _SWATCH + 4 + text_width(mark.name) + _PAD
    return patterns


def _draw_bars(
    drawing: Drawing, mark: Bars, data: pd.DataFrame, theme: Theme, origin: float, scale: float
) -> None:
    """Draw the bars of a mark, with their texts where these fit."""
    rows = data[mark.row].to_numpy()
    lefts = np.broadcast_to(_column(mark.left, data), len(data)) * scale + origin
    rights = np.broadcast_to(_column(mark.right, data), len(data)) * scale + origin
    is_drawn = (rows < _MAX_ROWS) & (rights > lefts)
    if mark.only is not None:
        is_drawn &= (data[mark.only[0]] == mark.only[1]).to_numpy()
    texts = data[mark.text] if mark.text else None
    for index in np.flatnonzero(is_drawn):
        x, y = lefts[index], _ABOVE + float(rows[index]) * _PITCH
        bar_width = rights[index] - x
        drawing.rect(x, y, bar_width, _BAR, _paint(mark, theme))
        if mark.line:
            drawing.frame(x, y, bar_width, _BAR, mark.line)
        if texts is not None and text_width(str(texts.iloc[index])) + 6 < bar_width:
            drawing.text(
                x + 4, _baseline(int(rows[index])), str(texts.iloc[index]), mark.text_color
            )


def _draw_whiskers(
    drawing: Drawing, mark: Whiskers, data: pd.DataFrame, origin: float, scale: float
) -> None:
    """Draw the spreads of rows in which ranks are folded."""
    lefts, rights = (_column(name, data) * scale + origin for name in (mark.left, mark.right))
    for row, x0, x1 in zip(data["row"], lefts, rights, strict=True):
        if row < _MAX_ROWS and x1 > x0:
            drawing.horizontal(_ABOVE + row * _PITCH + _BAR / 2, x0, x1, mark.color)


def _column(value: str | float, data: pd.DataFrame) -> np.ndarray:
    return np.asarray(data[value] if isinstance(value, str) else value, float)


def _pattern_name(mark: Bars) -> str:
    return f"hta-bars-{str(mark.hatch_color).strip('#')}"


def _paint(mark: Bars, theme: Theme) -> str:
    return f"url(#{_pattern_name(mark)})" if mark.hatch else str(fill_color(mark, theme))
