"""What marks are painted with: the screen's paints (``js/src/draw/paints.ts``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hta_widgets.charts.theme import Theme
from hta_widgets.export.svg.drawing import mixed
from hta_widgets.export.svg.rows import Form

__all__ = ["Colours", "hatch", "luminance"]

_PALE_COLUMN, _BAR = 0.55, 0.75
#: Of the late colour over the row of a rank that the others wait for.
_LATE_TINT = 0.07
_RAMP_STEPS = 8

_TINTS = {"light": (0.13, 0.10), "dark": (0.30, 0.20)}
#: The kind and two steps of the same hue; the first is the kind's own colour.
_SHADES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "light": {
        "compute": ("#136cb3", "#0062a8"),
        "communication": ("#d45a00", "#ba5923"),
        "memory": ("#238e84", "#088077"),
        "sync": ("#8e051d", "#78151e"),
        "cpu": ("#414652", "#383c49"),
        "annotation": ("#510074", "#42065e"),
        "other": ("#616957", "#575f4e"),
    },
    "dark": {
        "compute": ("#4b9afc", "#68a7f7"),
        "communication": ("#f39655", "#ffa161"),
        "memory": ("#6fbb98", "#7ac6a3"),
        "sync": ("#e8575f", "#f56269"),
        "cpu": ("#878c9b", "#9297a6"),
        "annotation": ("#eac4f1", "#f6cffd"),
        "other": ("#dbe9b2", "#e7f5bd"),
    },
}


class Colours:
    """Colours by kind's code, form and shade."""

    def __init__(self, theme: Theme, kinds: Sequence[str]) -> None:
        self.theme = theme
        self.kinds = kinds
        self.wait_pattern = f"url(#hta-wait-{theme.name})"
        self.no_data_pattern = f"url(#hta-none-{theme.name})"
        self.late_ground = mixed(theme.late, theme.bg, _LATE_TINT)
        ink = theme.ink2
        self.counter_fill = mixed(ink, theme.lane, 0.2)
        self.counter_line = mixed(ink, theme.lane, 0.8)

    @property
    def patterns(self) -> list[str]:
        """What `wait_pattern` and `no_data_pattern` name."""
        theme = self.theme
        return [
            hatch(f"hta-wait-{theme.name}", theme.wait_fill, theme.wait_line),
            hatch(f"hta-none-{theme.name}", theme.bg, mixed(theme.rule_strong, theme.bg, 0.32)),
        ]

    def ground(self, form: Form) -> str:
        """Return what is behind the marks: idle time of a device has a colour of its own."""
        return self.theme.lane if form in {"solid", "counter"} else self.theme.bg

    def is_pale(self, kind: int) -> bool:
        """Return whether a kind is drawn as a tint with an edge even among device events."""
        return self.kinds[kind] in {"cpu", "annotation"}

    def edge_px(self, kind: int) -> float:
        """Return the width of a pale mark's left edge."""
        return 2 if self.kinds[kind] == "annotation" else 1.5

    def column(self, kind: int, form: Form) -> str:
        """Return the colour of a column of cells."""
        share = 1.0
        if form == "bar":
            share = _BAR
        elif form == "pale" or self.is_pale(kind):
            share = _PALE_COLUMN
        return mixed(self.solid(kind), self.ground(form), share)

    def solid(self, kind: int, shade: int = 0) -> str:
        """Return the colour of a rectangle."""
        name = self.kinds[kind]
        return self.theme.kind[name] if not shade else _SHADES[self.theme.name][name][shade - 1]

    def tint(self, kind: int, shade: int = 0) -> str:
        """Return the ground of a pale rectangle."""
        share = _TINTS[self.theme.name][self.kinds[kind] == "annotation"]
        return mixed(self.solid(kind, shade), self.theme.bg, share)

    def text_on(self, kind: int, shade: int = 0) -> str:
        """Return the colour of text on a rectangle: the one that is easier to read."""
        if not shade:
            return self.theme.on_kind[self.kinds[kind]]
        dark = self.theme.on_kind["compute"] if self.theme.name == "dark" else self.theme.ink
        ground = luminance(self.solid(kind, shade))
        return dark if (ground + 0.05) ** 2 > 1.05 * (luminance(dark) + 0.05) else "#ffffff"

    @staticmethod
    def shade(name: str) -> int:
        """Return the shade of a short name: the same in every rank, run and language."""
        value = 0x811C9DC5
        for byte in name.encode("utf-8", "surrogatepass"):
            value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
        return value % 3

    def waiting(self, share: float) -> str:
        """Return the colour of so much lateness, 0 … 1."""
        stops = self.theme.waiting
        steps = (len(stops) - 1) * _RAMP_STEPS
        at = 0 if share <= 0 else max(1, -int(-share * steps // 1))
        stop = min(at // _RAMP_STEPS, len(stops) - 2)
        return mixed(stops[stop + 1], stops[stop], at / _RAMP_STEPS - stop)


def hatch(name: str, ground: str, line: str) -> str:
    """Return a pattern of diagonal lines over a ground."""
    return (
        f'<pattern id="{name}" width="5" height="5" patternUnits="userSpaceOnUse">'
        f'<path d="M0 0h5v5h-5z" fill="{ground}"/>'
        f'<path d="M-1 1L1 -1M0 5L5 0M4 6L6 4" stroke="{line}" fill="none"/></pattern>'
    )


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG, 0 … 1."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
