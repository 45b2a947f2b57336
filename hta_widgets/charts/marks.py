"""The marks of charts of rows: bars, thin lines and dots, drawn from one source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.figure import mixed
from hta_widgets.charts.theme import Theme


@dataclass(frozen=True)
class Bars:
    """Bars from one column of the source to another; colours may be columns, as ``@column``.

    `only` is a column and its value, where the bars are not of all rows. Hatches are drawn fast
    where all bars of a mark have the same.
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
    """Thin lines from one column of the source to another."""

    left: str
    right: str
    color: str


@dataclass(frozen=True)
class Dots:
    """Dots at a column of the source; `size` may be one, and `marker` and `angle` are of forms."""

    at: str
    color: str
    size: int | str = 8
    name: str = ""
    marker: str = ""
    angle: str = ""


@dataclass(frozen=True)
class Column:
    """Texts at the right, one a row; shown where the chart is at least `least` wide."""

    head: str
    texts: Sequence[str]
    least: int = 0


@dataclass(frozen=True)
class Tooltip:
    """What is shown of the mark under the pointer: templates over the source's columns."""

    heading: str
    rows: Sequence[tuple[str, str]] = field(default_factory=list)


def field_of(value: Any) -> Any:
    """Return the column that ``@column`` names; all else is a value."""
    return value[1:] if isinstance(value, str) and value.startswith("@") else value


def fill_of(mark: Bars, theme: Theme) -> Any:
    """Return the fill of bars, with the ground that shines through."""
    fill = field_of(mark.fill)
    return fill if mark.alpha == 1 else mixed(fill, theme.bg, mark.alpha)


def plain_columns(data: pd.DataFrame | Mapping[str, Any]) -> dict[str, Any]:
    """Return columns that Bokeh takes: categories as texts, integers that fit into a float."""
    plain = {}
    for name, values in data.items():
        if isinstance(values, pd.Series):
            numeric = pd.api.types.is_numeric_dtype(values.dtype)
            plain[str(name)] = values.to_numpy() if numeric else [str(v) for v in values]
        else:
            plain[str(name)] = values
    return plain


def draw_mark(
    figure: Any,
    mark: Bars | Whiskers | Dots,
    source: Any,
    theme: Theme,
    *,
    profile: bool,
) -> Any:
    """Add a mark to a figure; rows of a `profile` have no space between them."""
    if isinstance(mark, Whiskers):
        # A halo parts the line from bars of its own darkness.
        figure.segment(
            y0="row",
            y1="row",
            x0=mark.left,
            x1=mark.right,
            source=source,
            line_color=theme.bg,
            line_width=4,
            line_alpha=0.75,
            nonselection_line_alpha=0.3,
        )
        return figure.segment(
            y0="row",
            y1="row",
            x0=mark.left,
            x1=mark.right,
            source=source,
            line_color=mark.color,
            line_width=1.5,
            nonselection_line_alpha=0.3,
        )
    if isinstance(mark, Dots):
        return figure.scatter(
            y="row",
            x=mark.at,
            size=mark.size,
            source=source,
            marker=mark.marker or "circle",
            angle=mark.angle or 0,
            fill_color=field_of(mark.color),
            line_color=theme.bg,
            nonselection_fill_alpha=0.3,
        )
    line = None if profile and mark.line is None else field_of(mark.line)
    style: dict[str, Any] = {}
    if mark.only is not None:
        column, only = mark.only
        chosen = models.GroupFilter(column_name=column, group=only)
        style["view"] = models.CDSView(filter=chosen)
    if mark.hatch is not None:
        style |= {
            "hatch_pattern": field_of(mark.hatch),
            "hatch_color": field_of(mark.hatch_color),
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
        fill_color=fill_of(mark, theme),
        line_color=line,
        line_width=1,
        nonselection_fill_alpha=0.3,
        nonselection_line_alpha=0.3,
        **style,
    )
