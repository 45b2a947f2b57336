"""The colors of charts, shared with the timeline: ``facts/tokens.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hta_widgets.arguments import convert
from hta_widgets.facts import facts

FONT: str = facts("tokens")["font"]


@dataclass(frozen=True)
class Theme:
    """The colors of one theme; each is checked for contrast.

    `kind` has the colors of marks by kind of event, and `on_kind` of text on them; `busy`
    and `waiting` are ramps from 0 to 100 %; `delta` is a ramp from faster through equal to slower;
    `category` is for categories other than kinds of events, such as uses of memory.
    """

    name: str
    bg: str
    panel: str
    lane: str
    rule: str
    rule_strong: str
    ink: str
    ink2: str
    ink3: str
    wait_fill: str
    wait_line: str
    idle: str
    idle_line: str
    late: str
    late_fill: str
    brush_line: str
    kind: Mapping[str, str]
    on_kind: Mapping[str, str]
    busy: tuple[str, ...]
    waiting: tuple[str, ...]
    delta: tuple[str, ...]
    category: tuple[str, ...]


def _load_theme(name: str) -> Theme:
    tokens: dict[str, Any] = facts("tokens")[name]
    fields = {re.sub("[A-Z]", r"_\g<0>", key).lower(): value for key, value in tokens.items()}
    theme: Theme = convert({"name": name, **fields}, Theme)
    return theme


LIGHT = _load_theme("light")
DARK = _load_theme("dark")

THEMES: Mapping[str, Theme] = {"light": LIGHT, "dark": DARK}
ThemeName = Literal["light", "dark"]


def color_channels(color: str) -> tuple[int, ...]:
    """Return red, green and blue of a color such as ``#12a0ff``."""
    return tuple(int(color[digit : digit + 2], 16) for digit in (1, 3, 5))


def blend(over: str, under: str, share: float) -> str:
    """Return `share` of one color over another.

    The result is opaque, because overlapping edges of translucent marks would show seams.
    """
    pairs = zip(color_channels(over), color_channels(under), strict=True)
    return "#" + "".join(f"{int(a * share + b * (1 - share) + 0.5):02x}" for a, b in pairs)


def theme_of(theme: ThemeName | Theme) -> Theme:
    """Return a theme by its name."""
    return theme if isinstance(theme, Theme) else THEMES[theme]
