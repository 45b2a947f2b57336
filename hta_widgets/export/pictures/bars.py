"""Render horizontal bar charts as SVG. Bokeh draws the same content in `charts.rows`.

Bokeh needs a browser to export SVG, but notebook outputs are saved without a browser.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hta_widgets.charts.figure import FigureStyle
from hta_widgets.charts.rows import Bars, RowsContent, Whiskers, fill_color
from hta_widgets.charts.theme import Theme
from hta_widgets.export.pictures.drawing import Drawing, fit_text, hatch, text_width
from hta_widgets.trace.arrays import Floats

#: Heights in px of a row, a bar, the area above the rows, and a line of small text.
_PITCH, _BAR, _ABOVE, _LINE = 20, 14, 64, 14
#: Widths in px of a legend swatch, the margin, and the gap between columns.
_SWATCH, _PAD, _GAP = 10, 12, 8
_MAX_ROWS = 20


def bars_svg(
    content: RowsContent, style: FigureStyle, width: float, late_ranks: Sequence[int] = ()
) -> str:
    """Return the first rows of a chart as SVG, with title, legend, columns and notes.

    Each mark has a single color. Names of `late_ranks` are red.
    """
    theme, drawing = style.theme, Drawing()
    names = [str(name) for name in content.names[:_MAX_ROWS]]
    columns = [[column.head, *map(str, column.texts[: len(names)])] for column in content.columns]
    widths = [max(map(text_width, column)) for column in columns]
    left = _PAD + max((text_width(name, bold=True) for name in names), default=0) + _GAP
    right = width - _PAD - sum(widths) - _GAP * len(widths)
    max_width = width - 2 * _PAD
    bars = [mark for mark in content.marks if isinstance(mark, Bars)]
    whiskers = [mark for mark in content.marks if isinstance(mark, Whiskers)]
    legend = _legend_lines(bars, max_width)
    notes = _wrapped_lines(style.subtitle, max_width)
    hidden_rows = len(content.names) - len(names)
    top = _ABOVE + _LINE * max(len(legend) - 1, 0)
    rows_end = top + len(names) * _PITCH + (_PITCH if hidden_rows else 0)
    height = rows_end + _PAD + _LINE * len(notes)
    drawing.rect(0, 0, width, height, theme.bg)
    drawing.text(_PAD, 20, fit_text(style.title, max_width, bold=True), theme.ink, bold=True)
    for number, line in enumerate(legend):
        _draw_legend(drawing, line, theme, 29 + _LINE * number)
    scale = (right - left) / ((content.scale.end - content.scale.start) or 1)
    rows = _Rows(drawing, theme, content.data, left - content.scale.start * scale, top, scale)
    for mark in bars:
        rows.draw_bars(mark)
    for spread in whiskers:
        rows.draw_whiskers(spread)
    rows.draw_texts(names, left - _GAP, {f"rank {rank}" for rank in late_ranks})
    column_ends = right + np.cumsum(np.array(widths, float) + _GAP)
    for (head, *texts), x in zip(columns, column_ends.tolist(), strict=True):
        drawing.text(x, top - 10, head, theme.ink3, anchor="end")
        rows.draw_texts(texts, x)
    if hidden_rows:
        drawing.text(left, rows_end - _GAP, f"… {hidden_rows} more rows", theme.ink3)
    for number, note in enumerate(notes):
        drawing.text(_PAD, rows_end + _LINE * (number + 1), note, theme.ink3)
    patterns = [_pattern(mark, theme) for mark in bars if mark.hatch]
    return drawing.svg(
        width, height, title=style.title, description=style.subtitle, patterns=patterns
    )


def _wrapped_lines(text: str, width: float) -> list[str]:
    """Wrap text to lines of at most `width` px. A longer word gets its own line."""
    lines: list[str] = []
    for word in filter(None, text.split(" ")):
        if lines and text_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _legend_lines(marks: Sequence[Bars], width: float) -> list[list[Bars]]:
    lines: list[list[Bars]] = []
    x = width
    for mark in (mark for mark in marks if mark.name):
        if x + _entry_width(mark) > width:
            lines.append([])
            x = 0.0
        lines[-1].append(mark)
        x += _entry_width(mark) + _PAD
    return lines


def _entry_width(mark: Bars) -> float:
    return _SWATCH + 4 + text_width(mark.name)


def _draw_legend(drawing: Drawing, marks: Sequence[Bars], theme: Theme, y: float) -> None:
    x = float(_PAD)
    for mark in marks:
        drawing.rect(x, y, _SWATCH, _SWATCH, _paint(mark, theme))
        if mark.line:
            drawing.frame(x, y, _SWATCH, _SWATCH, mark.line)
        drawing.text(x + _SWATCH + 4, y + 9, mark.name, theme.ink2)
        x += _entry_width(mark) + _PAD


def _baseline(row: int) -> float:
    return row * _PITCH + _BAR - 3


@dataclass(frozen=True)
class _Rows:
    """The rows of a chart. `origin` is the x coordinate of value 0; `scale` is in px per unit."""

    drawing: Drawing
    theme: Theme
    data: pd.DataFrame
    origin: float
    top: float
    scale: float

    def draw_texts(self, texts: Sequence[str], x: float, late: Collection[str] = ()) -> None:
        """Draw one text per row, right-aligned at `x`. Texts in `late` are red and bold."""
        for row, text in enumerate(texts):
            color = self.theme.late if text in late else self.theme.ink2
            y = self.top + _baseline(row)
            self.drawing.text(x, y, text, color, anchor="end", bold=text in late)

    def draw_bars(self, mark: Bars) -> None:
        """Draw bars. A bar contains its text if the text fits."""
        data, drawing, rows = self.data, self.drawing, self.data[mark.row].to_numpy()
        lefts, rights = self._xs(mark.left), self._xs(mark.right)
        is_drawn = (rows < _MAX_ROWS) & (rights > lefts)
        if mark.only is not None:
            is_drawn &= (data[mark.only[0]] == mark.only[1]).to_numpy()
        texts = data[mark.text] if mark.text else None
        for index in np.flatnonzero(is_drawn):
            x, y = lefts[index], self.top + float(rows[index]) * _PITCH
            bar_width = rights[index] - x
            drawing.rect(x, y, bar_width, _BAR, _paint(mark, self.theme))
            if mark.line:
                drawing.frame(x, y, bar_width, _BAR, mark.line)
            if texts is not None and text_width(str(texts.iloc[index])) + 6 < bar_width:
                baseline = self.top + _baseline(int(rows[index]))
                drawing.text(x + 4, baseline, str(texts.iloc[index]), mark.text_color)

    def draw_whiskers(self, mark: Whiskers) -> None:
        """Draw a horizontal line through the middle of each bar."""
        lefts, rights = self._xs(mark.left), self._xs(mark.right)
        for row, x0, x1 in zip(self.data["row"], lefts, rights, strict=True):
            if row < _MAX_ROWS and x1 > x0:
                self.drawing.horizontal(self.top + row * _PITCH + _BAR / 2, x0, x1, mark.color)

    def _xs(self, value: str | float) -> Floats:
        """Return the x coordinate of each row, given a column name or a value for all rows."""
        column = self.data[value] if isinstance(value, str) else value
        return np.broadcast_to(np.asarray(column, float), len(self.data)) * self.scale + self.origin


def _pattern_name(mark: Bars) -> str:
    return f"hta-bars-{str(mark.hatch_color).strip('#')}"


def _pattern(mark: Bars, theme: Theme) -> str:
    return hatch(_pattern_name(mark), fill_color(mark, theme), mark.hatch_color or theme.ink3)


def _paint(mark: Bars, theme: Theme) -> str:
    return f"url(#{_pattern_name(mark)})" if mark.hatch else str(fill_color(mark, theme))
