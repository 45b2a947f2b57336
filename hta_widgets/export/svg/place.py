"""Where the parts of the picture lie: the screen's measures (``js/src/layout/geometry.ts``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Place"]

_GUTTER, _NARROW_GUTTER, _MARGIN = 164, 104, 128
_GUTTER_FROM, _MARGIN_FROM = 760, 900


@dataclass(frozen=True)
class Place:
    """The window of time and the columns of a picture, in px."""

    width: float
    start: int
    end: int

    @property
    def narrow(self) -> bool:
        """Whether there is no room for the names of lanes."""
        return self.width < _GUTTER_FROM

    @property
    def left(self) -> float:
        """Left edge of the lanes; names stand left of it."""
        return _NARROW_GUTTER if self.narrow else _GUTTER

    @property
    def margin(self) -> float:
        """Width of the totals on the right, 0 for none."""
        return _MARGIN if self.width >= _MARGIN_FROM else 0

    @property
    def right(self) -> float:
        """Right edge of the lanes."""
        return self.width - self.margin

    @property
    def across(self) -> float:
        """Width of the lanes."""
        return self.right - self.left

    @property
    def span(self) -> int:
        """Length of the window in ns."""
        return self.end - self.start

    @property
    def ns_per_px(self) -> float:
        """Time that a px stands for."""
        return self.span / self.across

    def x(self, time: float) -> float:
        """Return where a time lies, kept within the lanes."""
        return min(max(self.free_x(time), self.left), self.right)

    def free_x(self, time: float) -> float:
        """Return where a time lies or would lie."""
        return self.left + (time - self.start) / self.span * self.across

    def xs(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return where times lie, kept within the lanes."""
        found = self.left + (times - self.start) / self.span * self.across
        return np.clip(found, self.left, self.right)

    @property
    def edges(self) -> npt.NDArray[np.int64]:
        """Times between neighbouring cells: one cell a px, but none shorter than a ns."""
        cells = max(1, min(int(self.across), self.span))
        at = np.arange(cells + 1, dtype=np.int64)
        # In two steps: the product of a long window and a px would leave int64.
        whole, rest = divmod(self.span, cells)
        return self.start + whole * at + rest * at // cells
