"""The charts' colours: the timeline's own (``js/src/ui/theme.ts``), so that they agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FONT = (
    "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', "
    "'DejaVu Sans Condensed', 'DejaVu Sans', sans-serif"
)
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


@dataclass(frozen=True)
class Theme:
    """The colours of one theme; each is checked for contrast.

    `kind` and `on_kind` are a kind's mark and the text on it; `busy` and `waiting` are ramps from
    none to all; `delta` runs from faster over the same to slower; `category` distinguishes what is
    no kind of event, such as uses of memory.
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


LIGHT = Theme(
    name="light",
    bg="#ffffff",
    panel="#f6f7f9",
    lane="#f1f3f6",
    rule="#d9dde3",
    rule_strong="#868e99",
    ink="#12171e",
    ink2="#4b5563",
    ink3="#626b78",
    wait_fill="#fde3d0",
    wait_line="#c9560a",
    idle="#e4e8ed",
    idle_line="#868e99",
    late="#c01538",
    late_fill="#fbe3e7",
    brush_line="#0b57b0",
    kind={
        "compute": "#1f77c0",
        "communication": "#e0630f",
        "memory": "#2b968c",
        "sync": "#9b1626",
        "cpu": "#4a4f5c",
        "annotation": "#5b0a80",
        "other": "#6b7361",
    },
    on_kind={
        "compute": "#ffffff",
        "communication": "#12171e",
        "memory": "#12171e",
        "sync": "#ffffff",
        "cpu": "#ffffff",
        "annotation": "#ffffff",
        "other": "#ffffff",
    },
    busy=("#f1f3f6", "#cfe1f2", "#94c0e4", "#4f97d0", "#1f6fb2", "#0d4a80", "#062b50"),
    waiting=("#f1f3f6", "#fbdcc4", "#f5b585", "#e88743", "#c9600f", "#8f3f05", "#572402"),
    delta=("#2b6318", "#5a9a2f", "#b5dc8e", "#eceef1", "#efb3d3", "#c2277f", "#80074f"),
    category=(
        "#1f6fb2",
        "#94c0e4",
        "#0d4a80",
        "#b07fc4",
        "#2b968c",
        "#d8a03a",
        "#8a9199",
        "#c4cad2",
    ),
)

DARK = Theme(
    name="dark",
    bg="#14181f",
    panel="#1b2029",
    lane="#1d232d",
    rule="#323a46",
    rule_strong="#79828f",
    ink="#eef1f5",
    ink2="#b8c0cb",
    ink3="#98a2af",
    wait_fill="#4a2b12",
    wait_line="#d98244",
    idle="#2a313c",
    idle_line="#79828f",
    late="#ff7a90",
    late_fill="#47202a",
    brush_line="#7db7ff",
    kind={
        "compute": "#3d8ff2",
        "communication": "#f5821f",
        "memory": "#62b08d",
        "sync": "#dd4954",
        "cpu": "#7d8291",
        "annotation": "#dfb8e6",
        "other": "#d0dea6",
    },
    on_kind={
        "compute": "#0c1016",
        "communication": "#0c1016",
        "memory": "#0c1016",
        "sync": "#0c1016",
        "cpu": "#0c1016",
        "annotation": "#0c1016",
        "other": "#0c1016",
    },
    busy=("#1d232d", "#173a5e", "#1f5b95", "#3580cc", "#62a6ee", "#9ccafa", "#d9ecff"),
    waiting=("#1d232d", "#4a2b12", "#7b4312", "#b3601a", "#e5862f", "#f8b777", "#fde3c8"),
    delta=("#b4e38b", "#7fbf4d", "#3f6b2a", "#2a313c", "#79305a", "#d9579f", "#ff9fd0"),
    category=(
        "#3580cc",
        "#9ccafa",
        "#1f5b95",
        "#b58bc9",
        "#62b08d",
        "#d9b45c",
        "#8d97a5",
        "#566070",
    ),
)

THEMES: Mapping[str, Theme] = {"light": LIGHT, "dark": DARK}


def theme_of(theme: str | Theme) -> Theme:
    """Return a theme by its name."""
    if isinstance(theme, Theme):
        return theme
    if theme not in THEMES:
        raise ValueError(f"no theme {theme!r}: there are {', '.join(THEMES)}")
    return THEMES[theme]
