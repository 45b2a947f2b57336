"""A chart of rows as a sheet: its marks from one source, all else placed by the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.marks import Bars
from hta_widgets.charts.marks import Column
from hta_widgets.charts.marks import Dots
from hta_widgets.charts.marks import Whiskers
from hta_widgets.charts.marks import draw_mark
from hta_widgets.charts.marks import field_of
from hta_widgets.charts.marks import fill_of
from hta_widgets.charts.marks import plain_columns
from hta_widgets.charts.sheets import add_key
from hta_widgets.charts.sheets import add_rules
from hta_widgets.charts.sheets import add_words
from hta_widgets.charts.sheets import new_sheet
from hta_widgets.charts.theme import Theme

__all__ = ["sheet_rows"]


def sheet_rows(
    data: pd.DataFrame | Mapping[str, Any],
    names: Sequence[str],
    marks: Sequence[Bars | Whiskers | Dots],
    *,
    x_start: float,
    x_end: float,
    title: str,
    subtitle: str,
    theme: Theme,
    columns: Sequence[Column],
    ticks: Sequence[tuple[float, str]],
    head: str,
) -> Any:
    """Return what `rows_chart` draws as a sheet; see there for the parameters.

    The marks' source is named ``rows`` and holds the columns that they use; they are ``mark0``,
    ``mark1`` …; the swatch of a mark that has a name is drawn from ``key`` and its number.
    """
    used = _used(marks)
    whole = plain_columns(data)
    content = {
        "title": title,
        "subtitle": subtitle,
        "names": list(names),
        "x_start": x_start,
        "x_end": x_end,
        "ticks": [list(tick) for tick in ticks],
        "columns": [{"head": each.head, "texts": list(each.texts)} for each in columns],
        "head": head,
        "data": {name: list(whole[name]) for name in used},
    }
    figure = new_sheet(theme, content)
    add_rules(figure)
    source = models.ColumnDataSource({name: whole[name] for name in used}, name="rows")
    for number, mark in enumerate(marks):
        renderer = draw_mark(figure, mark, source, theme, profile=False)
        renderer.name = f"mark{number}"
        if isinstance(mark, Bars) and mark.name and not str(mark.fill).startswith("@"):
            add_key(figure, number, **_swatch(mark, theme))
    add_words(figure)
    return figure


def _used(marks: Sequence[Bars | Whiskers | Dots]) -> list[str]:
    found: list[Any] = ["row"]
    for mark in marks:
        if isinstance(mark, Bars):
            found += [mark.left, mark.right, mark.row, *_columns(mark.fill, mark.line, mark.hatch)]
            found += _columns(mark.hatch_color)
            found += [mark.only[0]] if mark.only else []
        elif isinstance(mark, Whiskers):
            found += [mark.left, mark.right]
        else:
            found += [mark.at, *_columns(mark.color), *filter(None, (mark.marker, mark.angle))]
            found += [mark.size] if isinstance(mark.size, str) else []
    return list(dict.fromkeys(name for name in found if isinstance(name, str)))


def _columns(*values: str | None) -> list[str]:
    return [field_of(value) for value in values if value is not None and value.startswith("@")]


def _swatch(mark: Bars, theme: Theme) -> dict[str, Any]:
    style: dict[str, Any] = {"fill_color": fill_of(mark, theme), "line_color": mark.line}
    if mark.hatch is not None:
        style |= {
            "hatch_pattern": mark.hatch,
            "hatch_color": mark.hatch_color or theme.ink2,
            "hatch_scale": 4,
        }
    return style
