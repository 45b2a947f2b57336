"""The form of chart definitions: the JSON files in ``definitions``, checked when they are read.

docs/architecture.md describes the keys; `hta_widgets.charts.language` evaluates their expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from hta_widgets.arguments import converted
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts

FOLDER = Path(__file__).with_name("definitions")

Definition = Mapping[str, Any]
#: An expression, a text with ``{holes}``, and a line of a tooltip: its name and its text.
Code = str | float
Template = str
Line = tuple[Template, Template]


class _Node(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Said(_Node):
    """A text that is shown if a condition holds."""

    when: Code
    text: Template


class _LineIf(_Node):
    when: Code
    of: Line


class _Tip(_Node):
    heading: Template
    lines: list[Line | _LineIf]


class _From(_Node):
    let: dict[str, Code]
    sort: list[Code] = []
    keep: Code = 1


class _Column(_Node):
    text: Template
    head: str = ""
    #: Minimum width of the chart to show it, in px.
    from_: int = msgspec.field(default=0, name="from")
    late: Code = ""
    strong: Code = ""
    when: Code = 1


class _Ends(_Column):
    at: Code = ""


class _Rows(_Node):
    name: Template
    keys: list[Code]
    selects: Literal["ranks", "names", "kinds", "window", ""]
    rank: Code = ""
    late: Code = ""
    head: str = ""
    pitch: Code = 0
    ends: _Ends | None = None
    second: _Column | None = None
    ruled: bool = False


class _Ticks(_Node):
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


class _Scale(_Node):
    to: Code
    from_: Code = msgspec.field(default=0, name="from")
    zero_line: Code = 0
    ticks: list[_Ticks] = []


class _Part(_Node):
    name: Template
    ns: Code
    ink: str
    at_end: bool = False


class _Stack(_Node):
    of: Code = ""
    parts: list[_Part] = []
    by: str = ""
    value: Code = ""
    share: str = ""
    text: Template = ""
    labels: str = ""
    also: dict[str, str] = {}


class _Selects(_Node):
    window: tuple[Code, Code] | None = None
    #: Expression of the keys to select; the row's keys if it is empty.
    keys: Code = ""


class _Mark(_Node):
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
    tip: _Tip | None = None
    selects: _Selects | None = None


class _Spread(_Node):
    name: str
    of: Code
    as_: Literal["duration", "duration_delta", "share", "delta", "size", "length"] = msgspec.field(
        name="as"
    )
    at: Code = ""


class _Fold(_Node):
    spread: _Spread
    each: list[str] = []
    by: dict[str, Literal["min", "max", "sum", "same"]] = {}
    keep: Code = 0


class _Common(_Node):
    subtitle: list[Template | _Said]
    finding: list[Template | _Said]
    tip: _Tip
    needs: list[str]
    rows: _Rows
    title: Template = ""
    analysis: str = ""
    extends: str = ""
    uses: list[str] = []
    attrs: dict[str, Any] = {}
    from_: _From | None = msgspec.field(default=None, name="from")
    group: list[str] = []
    let: dict[str, Code] = {}
    fold: _Fold | None = None
    empty: _Said | None = None
    unmatched: list[str] | None = None
    columns: list[_Column] = []


class _Chart(_Common, kw_only=True):
    scale: _Scale
    stack: _Stack | None = None
    marks: list[_Mark] = []
    order: Code = ""
    place: Code = ""


class _Cells(_Common, kw_only=True):
    cells: list[str]


@cache
def definition(name: str) -> Definition:
    """Return a definition of `FOLDER`, with the keys of the definition that it extends."""
    try:
        found: dict[str, Any] = msgspec.json.decode((FOLDER / f"{name}.json").read_bytes())
        base = definition(found["extends"]) if "extends" in found else {}
        # A panel's chart has the panel's title.
        panel = facts("panels").get(name, {"title": name})
        found = {**base, "title": panel["title"], **found}
        converted(found, _Cells if "cells" in found else _Chart)
    except msgspec.MsgspecError as error:
        raise TraceError(
            f"the chart definition {name}.json is not understood: {error}",
            remedy="docs/architecture.md lists the keys of definitions.",
        ) from None
    return found


@cache
def inks() -> Mapping[str, Any]:
    """Return the styles of bars by name."""
    found: dict[str, Any] = msgspec.json.decode((FOLDER / "inks.json").read_bytes())
    return found


def style_of(ink: str) -> Mapping[str, Any]:
    """Return the style of a bar."""
    known = inks()
    if ink not in known:
        raise TraceError(
            f"no ink {ink!r} for a bar of a chart",
            remedy=f"The inks of inks.json are {', '.join(known)}.",
        )
    style: Mapping[str, Any] = known[ink]
    return style
