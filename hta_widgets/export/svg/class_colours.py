"""Another colouring than by kind, as on the screen (``js/src/draw/class_paints.ts``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.charts.theme import Theme
from hta_widgets.export.svg.drawing import Colours, hatch, luminance, mixed
from hta_widgets.export.svg.rows import Form

__all__ = ["ClassColours", "ClassParts", "Classed", "Look"]

_FAINT = 0.45
_PALE_COLUMN = 0.75
_HATCH_GROUND = 0.16
_TINT = 0.3


@dataclass(frozen=True)
class Look:
    """How events of a class are drawn; `hatched` ones are told by their form as well."""

    colour: str
    hatched: bool = False
    faint: bool = False


@dataclass(frozen=True)
class ClassParts:
    """By class, what it takes of the device work in equal parts of a stretch of time, 0 … 1."""

    start_ns: int
    end_ns: int
    shares: Mapping[int, npt.NDArray[np.float64]]

    def at(self, times: npt.NDArray[np.float64]) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
        """Yield each class with its shares at some times; 0 outside."""
        for code, share in self.shares.items():
            part = (times - self.start_ns) / max(self.end_ns - self.start_ns, 1) * len(share)
            inside = (part >= 0) & (part <= len(share))
            at = np.clip(part.astype(np.int64), 0, len(share) - 1)
            yield code, np.where(inside, share[at], 0)


@dataclass(frozen=True)
class Classed:
    """A class for every event.

    Attributes
    ----------
    classes_of : function
        The class of each event of a rank, by id; None where nothing is known of the rank.
    looks : sequence of Look
        By class; the last one is that of events of which nothing is known.
    groups : sequence of (str, sequence of int)
        What the legend names, with the classes of each, as far as there are any.
    parts : ClassParts, optional
        What classes take of the device work of the whole job.
    """

    classes_of: Callable[[int], npt.NDArray[np.uint8] | None]
    looks: Sequence[Look]
    groups: Sequence[tuple[str, Sequence[int]]]
    parts: ClassParts | None = None


class ClassColours(Colours):
    """Colours by class instead of kind."""

    def __init__(self, theme: Theme, kinds: Sequence[str], classed: Classed) -> None:
        super().__init__(theme, kinds)
        self.looks = classed.looks
        self._full = [
            mixed(look.colour, theme.lane, _FAINT) if look.faint else look.colour
            for look in self.looks
        ]

    @property
    def patterns(self) -> list[str]:
        """What is hatched, as well as what the other colours name."""
        own = [
            hatch(self._name(code), self._ground_of(code), look.colour)
            for code, look in enumerate(self.looks)
            if look.hatched
        ]
        return [*super().patterns, *own]

    def is_pale(self, kind: int) -> bool:  # noqa: ARG002 - as by kind
        """Return False: a class is drawn alike wherever it is."""
        return False

    def edge_px(self, kind: int) -> float:  # noqa: ARG002 - as by kind
        """Return the width of a pale mark's left edge."""
        return 2

    def column(self, kind: int, form: Form) -> str:
        """Return the colour of a column of cells."""
        return mixed(self._full[kind], self.ground(form), _PALE_COLUMN if form == "pale" else 1)

    def solid(self, kind: int, shade: int = 0) -> str:  # noqa: ARG002 - as by kind
        """Return the colour of a rectangle, or what hatches it."""
        if self.looks[kind].hatched:
            return f"url(#{self._name(kind)})"
        return self._full[kind]

    def tint(self, kind: int, shade: int = 0) -> str:  # noqa: ARG002 - as by kind
        """Return the ground of a pale rectangle."""
        if self.looks[kind].hatched:
            return self.solid(kind)
        return mixed(self._full[kind], self.theme.bg, _TINT)

    def text_on(self, kind: int, shade: int = 0) -> str:  # noqa: ARG002 - as by kind
        """Return the colour of text on a rectangle: the one that is easier to read."""
        dark = self.theme.on_kind["compute"] if self.theme.name == "dark" else self.theme.ink
        ground = self._ground_of(kind) if self.looks[kind].hatched else self._full[kind]
        light_is_better = (luminance(ground) + 0.05) ** 2 < 1.05 * (luminance(dark) + 0.05)
        return "#ffffff" if light_is_better else dark

    def _ground_of(self, kind: int) -> str:
        return mixed(self._full[kind], self.theme.bg, _HATCH_GROUND)

    def _name(self, kind: int) -> str:
        return f"hta-class-{kind}-{self.theme.name}"
