"""The schema of chart definitions, the JSON files in ``definitions``; each is checked when read.

docs/changing.md describes the keys; `hta_widgets.charts.language` evaluates their expressions.
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
Template = str  #: a text with ``{placeholders}``
Line = tuple[Template, Template]  #: name and text of a line in a tooltip


class _Spec(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    pass


class ConditionalText(_Spec):
    """Text that is shown if a condition holds."""

    when: Code
    text: Template


class ConditionalLine(_Spec):
    """A line of a tooltip that is shown if a condition holds."""

    when: Code
    of: Line


class TooltipSpec(_Spec):
    """A tooltip: its heading and its lines."""

    heading: Template
    lines: list[Line | ConditionalLine]


class Preparation(_Spec):
    """The first step of a chart: names for expressions, and the choice and order of items."""

    let: dict[str, Code]
    sort: list[Code] = []
    keep: Code | None = None


class ColumnSpec(_Spec):
    """A column of texts at the right, one per row."""

    text: Template
    head: str = ""
    #: Minimum width in px of a chart that shows the column.
    min_width: int = 0
    late_rows: Code | None = None
    bold_rows: Code | None = None
    when: Code = 1


class EndTextsSpec(ColumnSpec, kw_only=True):
    """Texts at the ends of bars."""

    at: Code


class RowsSpec(_Spec):
    """The rows: their names, and what a click on one selects."""

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
    """Ticks at round numbers."""

    format: Literal["duration", "duration_delta", "share_delta", "count"]
    to: Code
    max_ticks: Code
    from_: Code = msgspec.field(default=0, name="from")
    zero: str = ""
    when: Code = 1


class PlacedTicks(_Spec, tag_field="type", tag="places"):
    """Ticks at positions of items."""

    at: Code
    text: Template
    where: Code
    when: Code = 1


class ScaleSpec(_Spec):
    """The horizontal axis; the first ticks whose condition holds are drawn."""

    to: Code
    from_: Code = msgspec.field(default=0, name="from")
    zero_line: Code = 0
    ticks: list[RoundTicks | PlacedTicks] = []


class StackPart(_Spec):
    """A part of each bar: its time and the name of its style."""

    name: Template
    ns: Code
    color: str
    align_end: bool = False


class PartStack(_Spec, tag_field="type", tag="parts"):
    """Bars whose parts are the same in each row: shares `of` a whole, or times."""

    parts: list[StackPart]
    of: Code | None = None


class ItemStack(_Spec, tag_field="type", tag="items"):
    """Bars whose parts are items; the column `by` names the part that an item is."""

    by: str
    value: Code
    share: str
    text: Template
    labels: str
    also: dict[str, str] = {}


class ColumnColor(_Spec, tag_field="type", tag="column"):
    """A color for each item: `tokens` evaluates to names of colors."""

    tokens: Code


class RampColor(_Spec, tag_field="type", tag="ramp"):
    """A color on a ramp, at a position from 0 to 1; items whose position is nan are `missing`."""

    ramp: Literal["busy", "waiting"]
    at: Code
    missing: str = "bg"


class MixColor(_Spec, tag_field="type", tag="mix"):
    """A mixture of two colors; `start` and `end` evaluate to their names, `at` is from 0 to 1."""

    start: Code
    end: Code
    at: Code


ItemColor = ColumnColor | RampColor | MixColor


class HatchSpec(_Spec):
    """A hatch for each item, over its color."""

    pattern: Code
    color: ColumnColor


class SelectionSpec(_Spec):
    """The selection that a click on a mark makes."""

    window: tuple[Code, Code] | None = None
    #: Expression of the keys to select; by default the row's keys.
    keys: Code | None = None


class BarMark(_Spec, tag_field="shape", tag="bar"):
    """A bar; `color` is the name of a style in ``bar_styles.json``, or a color for each item."""

    left: Code
    right: Code
    color: str | ItemColor
    name: str = ""
    hatch: HatchSpec | None = None
    #: Text in the bar, shown if it fits.
    bar_text: Template = ""
    tooltip: TooltipSpec | None = None
    selects: SelectionSpec | None = None


class LineMark(_Spec, tag_field="shape", tag="line"):
    """A thin line; `color` is the name of a color, or a color for each item."""

    left: Code
    right: Code
    color: str | ItemColor


class DotMark(_Spec, tag_field="shape", tag="dot"):
    """A dot, or the shape that `marker` names, turned by `angle`."""

    at: Code
    color: str | ItemColor
    size: Code
    marker: Code | None = None
    angle: Code | None = None
    tooltip: TooltipSpec | None = None
    selects: SelectionSpec | None = None


Mark = BarMark | LineMark | DotMark


class SpreadSpec(_Spec):
    """The measure whose minimum and maximum are drawn as a line at the position `at`."""

    name: str
    of: Code
    format: Literal["duration", "duration_delta", "share", "delta", "size", "length"]
    at: Code | None = None


class FoldSpec(_Spec):
    """How ranks that are drawn together become one item."""

    spread: SpreadSpec
    each: list[str] = []
    by: dict[str, Literal["min", "max", "sum", "same"]] = {}
    keep: Code | None = None


KINDS = ("compute", "communication", "memory")


class Definition(_Spec):
    """The fields that the definitions of all charts have."""

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
    """A chart of rows with marks."""

    scale: ScaleSpec
    stack: PartStack | ItemStack | None = None
    marks: list[Mark] = []
    order: Code | None = None
    place: Code | None = None


class HeatmapDefinition(Definition, kw_only=True):
    """A heatmap: `cells` are the columns of its cells, in addition to the columns of rows."""

    cells: list[str]


@cache
def definition(name: str) -> Definition:
    """Load a definition from `FOLDER`, merged with the one that it extends."""
    try:
        content = _read(name)
        kind: Any = HeatmapDefinition if "cells" in content else RowsDefinition
        spec: Definition = convert(content, kind)
    except msgspec.MsgspecError as error:
        raise TraceError(
            f"the chart definition {name}.json is not understood: {error}",
            remedy="docs/changing.md lists the keys of definitions.",
        ) from None
    return spec


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.json.decode((FOLDER / f"{name}.json").read_bytes())
    base = _read(content["extends"]) if "extends" in content else {}
    # A panel's chart has the panel's title.
    panel = facts("panels").get(name, {"title": name})
    return {**base, "title": panel["title"], **content}


def rows_definition(name: str) -> RowsDefinition:
    """Return the definition of a chart of rows."""
    spec = definition(name)
    if not isinstance(spec, RowsDefinition):
        raise TraceError(f"the chart definition {name}.json has no rows with marks, but cells")
    return spec


class BarStyle(_Spec):
    """The style of a bar, by names of colors; `on` is the color of texts on it, if any."""

    fill: str
    line: str | None = None
    hatch: str | None = None
    hatch_color: str | None = None
    alpha: float = 1.0
    #: Whether the bar has an outline in the color of its fill.
    outlined: bool = False
    on: str | None = None


@cache
def bar_styles() -> Mapping[str, BarStyle]:
    """Return the styles of bars by name."""
    content = (FOLDER / "bar_styles.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, BarStyle])


def style_of(name: str) -> BarStyle:
    """Return the style of a bar."""
    styles = bar_styles()
    if name not in styles:
        raise TraceError(
            f"no style {name!r} for a bar of a chart",
            remedy=f"The styles of bar_styles.json are {', '.join(styles)}.",
        )
    return styles[name]
