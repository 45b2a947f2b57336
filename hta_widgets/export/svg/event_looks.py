"""What the classes of events look like; the same as in ``js/src/compare/event_classes.ts``."""

from __future__ import annotations

from collections.abc import Mapping

from hta_widgets.export.svg.class_colours import Look
from hta_widgets.live.event_classes import CLASSES

__all__ = ["COLOURS", "GROUPS", "looks"]

COLOURS: Mapping[str, Mapping[str, str]] = {
    "light": {
        "same": "#b9c1cc",
        "slower_1": "#d666a8",
        "slower_2": "#c2277f",
        "slower_3": "#80074f",
        "faster_1": "#a8d678",
        "faster_2": "#4f8f28",
        "faster_3": "#2b6318",
        "only_here": "#12171e",
        "moved": "#3a5fd8",
        "replaced": "#e8a500",
        "not_compared": "#b9c1cc",
    },
    "dark": {
        "same": "#56606c",
        "slower_1": "#a8487e",
        "slower_2": "#e05aa8",
        "slower_3": "#f7a8d3",
        "faster_1": "#3f6b22",
        "faster_2": "#6fb53c",
        "faster_3": "#b9e795",
        "only_here": "#eef1f5",
        "moved": "#6aa6ff",
        "replaced": "#ffd23f",
        "not_compared": "#56606c",
    },
}

_HATCHED = {"only_here", "replaced"}

#: What the legend names, from what is most to look at.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("slower", ("slower_1", "slower_2", "slower_3")),
    ("faster", ("faster_1", "faster_2", "faster_3")),
    ("only here", ("only_here",)),
    ("replaced", ("replaced",)),
    ("moved", ("moved",)),
    ("same", ("same",)),
    ("not compared", ("not_compared",)),
)


def looks(theme: str) -> list[Look]:
    """Return the look of each class in a theme, by code; the light one where there is no such."""
    colours = COLOURS.get(theme, COLOURS["light"])
    return [
        Look(colours[name], hatched=name in _HATCHED, faint=name == "not_compared")
        for name in CLASSES
    ]
