"""The schema of chart definitions, the JSON files in ``definitions``. Each is validated when read.

docs/changing.md describes the keys; `hta_widgets.charts.language` evaluates the expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from hta_widgets.arguments import convert
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts

FOLDER = Path(__file__).with_name("definitions")

Code = str | float  #: an expression
Template = str  #: a string with ``{placeholders}``
Line = tuple[Template, Template]  #: the label and the text of a tooltip line


class _Spec(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    pass


class ConditionalText(_Spec):
    """Text that is shown if the condition `when` holds."""

    when: Code
    text: Template


class ConditionalLine(_Spec):
    """A tooltip line that is shown if the condition `when` holds."""

    when: Code
    of: Line


class TooltipSpec(_Spec):
    """A tooltip: a heading and lines below it."""

    heading: Template
    lines: list[Line | ConditionalLine]


class Preparation(_Spec):
    """The first step of a chart: define names for expressions, then filter and sort the items."""

    let: dict[str, Code]
    sort: list[Code] = []
    keep: Code | None = None


class ColumnSpec(_Spec):
    """A column of text at the right of the chart, with one text per row."""

    text: Template
    head: str = ""
    #: Narrowest chart, in px, that shows the column.
    min_width: int = 0
    late_rows: Code | None = None
    bold_rows: Code | None = None
    when: Code = 1


class EndTextsSpec(ColumnSpec, kw_only=True):
    """Texts drawn at the ends of bars."""

    at: Code


class RowsSpec(_Spec):
    """The rows of a chart: their names, and what a click on a row selects."""

    name: Template
    keys: list[Code]
    selects: Literal["ranks", "names", "kinds", "window", ""]
    rank: Code | None = None
    late_rows: Code | None = None
    head: str = ""
    pitch: Code | None = None
    ends: EndTextsSpec | None = None
    second: ColumnSpec | None = None
    rules: bool = False


class RoundTicks(_Spec, tag_field="type", tag="round"):
    """Ticks at multiples of a round number."""

    format: Literal["duration", "duration_delta", "share_delta", "count"]
    to: Code
    max_ticks: Code
    from_: Code = msgspec.field(default=0, name="from")
    zero: str = ""
    when: Code = 1


class PlacedTicks(_Spec, tag_field="type", tag="places"):
    """Ticks at the positions of items."""

    at: Code
    text: Template
    where: Code
    when: Code = 1


class ScaleSpec(_Spec):
    """The horizontal axis. The first entry of `ticks` whose condition holds is drawn."""

    to: Code
    from_: Code = msgspec.field(default=0, name="from")
    zero_line: Code = 0
    ticks: list[RoundTicks | PlacedTicks] = []


class StackPart(_Spec):
    """One part of each bar: its duration and the name of its style."""

    name: Template
    ns: Code
    color: str
    align_end: bool = False


class PartStack(_Spec, tag_field="type", tag="parts"):
    """Bars with the same parts in every row, drawn as times or as shares `of` a whole."""

    parts: list[StackPart]
    of: Code | None = None


class ItemStack(_Spec, tag_field="type", tag="items"):
    """Bars that consist of one part per item; the column `by` names the part."""

    by: str
    value: Code
    share: str
    text: Template
    labels: str
    also: dict[str, str] = {}


class ColumnColor(_Spec, tag_field="type", tag="column"):
    """A color per item; `tokens` evaluates to color names."""

    tokens: Code


class RampColor(_Spec, tag_field="type", tag="ramp"):
    """A color per item on a ramp, at a position from 0 to 1; `missing` if the position is NaN."""

    ramp: Literal["busy", "waiting"]
    at: Code
    missing: str = "bg"


class MixColor(_Spec, tag_field="type", tag="mix"):
    """A mixture of two named colors, at a position from 0 (`start`) to 1 (`end`)."""

    start: Code
    end: Code
    at: Code


ItemColor = ColumnColor | RampColor | MixColor


class HatchSpec(_Spec):
    """A hatch pattern per item, drawn over its fill color."""

    pattern: Code
    color: ColumnColor


class SelectionSpec(_Spec):
    """The selection made by a click on a mark."""

    window: tuple[Code, Code] | None = None
    #: Expression for the keys to select. Default: the keys of the row.
    keys: Code | None = None


class BarMark(_Spec, tag_field="shape", tag="bar"):
    """A bar; `color` is the name of a style in ``bar_styles.json`` or a color per item."""

    left: Code
    right: Code
    color: str | ItemColor
    name: str = ""
    hatch: HatchSpec | None = None
    #: Text drawn inside the bar if it fits.
    bar_text: Template = ""
    tooltip: TooltipSpec | None = None
    selects: SelectionSpec | None = None


class LineMark(_Spec, tag_field="shape", tag="line"):
    """A thin line; `color` is the name of a color, or a color for each item."""

    left: Code
    right: Code
    color: str | ItemColor


class DotMark(_Spec, tag_field="shape", tag="dot"):
    """A dot, or the shape named by `marker`, rotated by `angle`."""

    at: Code
    color: str | ItemColor
    size: Code
    marker: Code | None = None
    angle: Code | None = None
    tooltip: TooltipSpec | None = None
    selects: SelectionSpec | None = None


Mark = BarMark | LineMark | DotMark


class SpreadSpec(_Spec):
    """A measure whose minimum and maximum over ranks are joined by a line, at position `at`."""

    name: str
    of: Code
    format: Literal["duration", "duration_delta", "share", "delta", "size", "length"]
    at: Code | None = None


class FoldSpec(_Spec):
    """The rule that folds several ranks into one item."""

    spread: SpreadSpec
    each: list[str] = []
    by: dict[str, Literal["min", "max", "sum", "same"]] = {}
    keep: Code | None = None


KINDS = ("compute", "communication", "memory")


class Definition(_Spec):
    """The fields common to all chart definitions."""

    subtitle: list[Template | ConditionalText]
    finding: list[Template | ConditionalText]
    tooltip: TooltipSpec
    needs: list[str]
    rows: RowsSpec
    title: str = ""
    analysis: str = ""
    extends: str = ""
    uses: list[str] = []
    attrs: dict[str, Any] = {}
    from_: Preparation | None = msgspec.field(default=None, name="from")
    group: list[str] = []
    let: dict[str, Code] = {}
    fold: FoldSpec | None = None
    empty: ConditionalText | None = None
    unmatched: tuple[str, ...] | None = KINDS
    columns: list[ColumnSpec] = []


class RowsDefinition(Definition, kw_only=True):
    """A chart that consists of rows with marks."""

    scale: ScaleSpec
    stack: PartStack | ItemStack | None = None
    marks: list[Mark] = []
    order: Code | None = None
    place: Code | None = None


class HeatmapDefinition(Definition, kw_only=True):
    """A heatmap; `cells` names the columns that only its cells need, not its rows."""

    cells: list[str]


@cache
def definition(name: str) -> Definition:
    """Load a definition from `FOLDER` and merge it with the definition that it extends."""
    try:
        content = _read(name)
        kind: Any = HeatmapDefinition if "cells" in content else RowsDefinition
        spec: Definition = convert(content, kind)
    except msgspec.MsgspecError as error:
        raise TraceError(
            f"the chart definition {name}.json is invalid: {error}",
            remedy="docs/changing.md lists the keys of chart definitions.",
        ) from None
    return spec


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.json.decode((FOLDER / f"{name}.json").read_bytes())
    base = _read(content["extends"]) if "extends" in content else {}
    # Charts of panels take the title of the panel.
    panel = facts("panels").get(name, {"title": name})
    return {**base, "title": panel["title"], **content}


def rows_definition(name: str) -> RowsDefinition:
    """Load a definition that must be a chart of rows, not a heatmap."""
    spec = definition(name)
    if not isinstance(spec, RowsDefinition):
        raise TraceError(f"the chart definition {name}.json is a heatmap, not a chart of rows")
    return spec


class BarStyle(_Spec):
    """The style of a bar, as color names; `on` is the color of text inside the bar."""

    fill: str
    line: str | None = None
    hatch: str | None = None
    hatch_color: str | None = None
    alpha: float = 1.0
    #: Whether the bar is outlined in its fill color.
    outlined: bool = False
    on: str | None = None


@cache
def bar_styles() -> Mapping[str, BarStyle]:
    """Return the bar styles, keyed by name."""
    content = (FOLDER / "bar_styles.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, BarStyle])


def style_of(name: str) -> BarStyle:
    """Return the bar style `name`, or raise a `TraceError`."""
    styles = bar_styles()
    if name not in styles:
        raise TraceError(
            f"unknown bar style {name!r}",
            remedy=f"The styles in bar_styles.json are {', '.join(styles)}.",
        )
    return styles[name]
