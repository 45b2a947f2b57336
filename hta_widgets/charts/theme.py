"""The colors of charts, read from ``facts/tokens.json`` and shared with the timeline."""

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
    """The colors of one theme. Tests check their contrast.

    `kind` maps event kinds to the colors of marks, and `on_kind` to the colors of text on them.
    `busy` and `waiting` are ramps from 0 to 100 %, and `delta` is a ramp from faster to slower with
    no change in the middle. `category` is used for anything else, such as types of memory use.
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
    """Return the red, green and blue channels of a color such as ``#12a0ff``."""
    return tuple(int(color[digit : digit + 2], 16) for digit in (1, 3, 5))


def blend(over: str, under: str, share: float) -> str:
    """Blend two colors: `share` of `over`, the rest of `under`.

    The result is opaque, since translucent marks would show seams where their edges overlap.
    """
    pairs = zip(color_channels(over), color_channels(under), strict=True)
    return "#" + "".join(f"{int(a * share + b * (1 - share) + 0.5):02x}" for a, b in pairs)


def theme_of(theme: ThemeName | Theme) -> Theme:
    """Return the theme with this name; a `Theme` is returned as is."""
    return theme if isinstance(theme, Theme) else THEMES[theme]
