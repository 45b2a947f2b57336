"""The form of chart definitions: the JSON files in ``definitions``, checked when they are read.

docs/architecture.md describes the keys; `hta_widgets.charts.language` evaluates their expressions.
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

Definition = Mapping[str, Any]
#: An expression, a text with ``{holes}``, and a line of a tooltip: its name and its text.
Code = str | float
Template = str
Line = tuple[Template, Template]


class _Spec(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _ConditionalText(_Spec):
    """A text that is shown if a condition holds."""

    when: Code
    text: Template


class _ConditionalLines(_Spec):
    when: Code
    of: Line


class _TooltipSpec(_Spec):
    heading: Template
    lines: list[Line | _ConditionalLines]


class _Preparation(_Spec):
    let: dict[str, Code]
    sort: list[Code] = []
    keep: Code = 1


class _ColumnSpec(_Spec):
    text: Template
    head: str = ""
    #: Minimum width in px of a chart that shows the column.
    from_: int = msgspec.field(default=0, name="from")
    late: Code = ""
    strong: Code = ""
    when: Code = 1


class _EndTextsSpec(_ColumnSpec):
    at: Code = ""


class _RowsSpec(_Spec):
    name: Template
    keys: list[Code]
    selects: Literal["ranks", "names", "kinds", "window", ""]
    rank: Code = ""
    late: Code = ""
    head: str = ""
    pitch: Code = 0
    ends: _EndTextsSpec | None = None
    second: _ColumnSpec | None = None
    ruled: bool = False


class _TicksSpec(_Spec):
    as_: Literal["duration", "duration_delta", "share_delta", "count", ""] = msgspec.field(
        default="", name="as"
    )
    to: Code = 0
    from_: Code = msgspec.field(default=0, name="from")
    most: Code = 0
    zero: str = ""
    at: Code = ""
    text: Template = ""
    where: Code = 1
    when: Code = 1


class _ScaleSpec(_Spec):
    to: Code
    from_: Code = msgspec.field(default=0, name="from")
    zero_line: Code = 0
    ticks: list[_TicksSpec] = []


class _StackPartSpec(_Spec):
    name: Template
    ns: Code
    ink: str
    at_end: bool = False


class _StackSpec(_Spec):
    of: Code = ""
    parts: list[_StackPartSpec] = []
    by: str = ""
    value: Code = ""
    share: str = ""
    text: Template = ""
    labels: str = ""
    also: dict[str, str] = {}


class _SelectionSpec(_Spec):
    window: tuple[Code, Code] | None = None
    #: Expression of the keys to select; the row's keys if it is empty.
    keys: Code = ""


class _MarkSpec(_Spec):
    ink: str
    bar: tuple[Code, Code] | None = None
    line: tuple[Code, Code] | None = None
    dot: Code = ""
    size: Code = 0
    marker: Code = ""
    angle: Code = 0
    name: str = ""
    hatch: Code = ""
    hatch_ink: str = ""
    inside: Template = ""
    tip: _TooltipSpec | None = None
    selects: _SelectionSpec | None = None


class _SpreadSpec(_Spec):
    name: str
    of: Code
    as_: Literal["duration", "duration_delta", "share", "delta", "size", "length"] = msgspec.field(
        name="as"
    )
    at: Code = ""


class _FoldSpec(_Spec):
    spread: _SpreadSpec
    each: list[str] = []
    by: dict[str, Literal["min", "max", "sum", "same"]] = {}
    keep: Code = 0


class _CommonSpec(_Spec):
    subtitle: list[Template | _ConditionalText]
    finding: list[Template | _ConditionalText]
    tip: _TooltipSpec
    needs: list[str]
    rows: _RowsSpec
    title: Template = ""
    analysis: str = ""
    extends: str = ""
    uses: list[str] = []
    attrs: dict[str, Any] = {}
    from_: _Preparation | None = msgspec.field(default=None, name="from")
    group: list[str] = []
    let: dict[str, Code] = {}
    fold: _FoldSpec | None = None
    empty: _ConditionalText | None = None
    unmatched: list[str] | None = None
    columns: list[_ColumnSpec] = []


class _ChartSpec(_CommonSpec, kw_only=True):
    scale: _ScaleSpec
    stack: _StackSpec | None = None
    marks: list[_MarkSpec] = []
    order: Code = ""
    place: Code = ""


class _CellsSpec(_CommonSpec, kw_only=True):
    cells: list[str]


@cache
def definition(name: str) -> Definition:
    """Load a definition from `FOLDER`, merged with the one that it extends."""
    try:
        content: dict[str, Any] = msgspec.json.decode((FOLDER / f"{name}.json").read_bytes())
        base = definition(content["extends"]) if "extends" in content else {}
        # A panel's chart has the panel's title.
        panel = facts("panels").get(name, {"title": name})
        content = {**base, "title": panel["title"], **content}
        convert(content, _CellsSpec if "cells" in content else _ChartSpec)
    except msgspec.MsgspecError as error:
        raise TraceError(
            f"the chart definition {name}.json is not understood: {error}",
            remedy="docs/architecture.md lists the keys of definitions.",
        ) from None
    return content


@cache
def bar_styles() -> Mapping[str, Any]:
    """Return the styles of bars by name."""
    found: dict[str, Any] = msgspec.json.decode((FOLDER / "inks.json").read_bytes())
    return found


def style_of(name: str) -> Mapping[str, Any]:
    """Return the style of a bar."""
    known = bar_styles()
    if name not in known:
        raise TraceError(
            f"no ink {name!r} for a bar of a chart",
            remedy=f"The inks of inks.json are {', '.join(known)}.",
        )
    style: Mapping[str, Any] = known[name]
    return style
