"""The exact stack for events that cross: slow, so used only around them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Crossing", "Settled", "settle"]

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class Crossing:
    """Events of all tracks, track by track, and what counting said of them."""

    begin: Ints
    end: Ints
    stop: Ints
    depth: Ints
    parent: Ints


@dataclass(slots=True)
class Settled:
    """The same, settled."""

    depth: Ints
    parent: Ints
    spilled: Ints  # events that nest nowhere, ascending
    rounded: npt.NDArray[np.bool_]
    settled: npt.NDArray[np.bool_]  # events that the stack looked at


def settle(found: Crossing, crossing: Ints, unit: int) -> Settled:
    """Settle depth and parent around every event in `crossing` (ascending)."""
    depth, parent = found.depth.copy(), found.parent.copy()
    rounded = np.zeros(len(depth), dtype=bool)
    settled = np.zeros(len(depth), dtype=bool)
    spilled: list[int] = []
    # Between two rows that no subtree spans, a track falls apart into independent pieces.
    rows = np.arange(1, len(depth) + 1)
    cuts = np.concatenate(([0], rows[np.maximum.accumulate(found.stop) <= rows]))
    done = 0
    for row in crossing.tolist():
        if row < done:
            continue
        above, low, high = _window(found, row, unit, cuts)
        # A wider window settles again what a narrower one before it did.
        while spilled and spilled[-1] >= low:
            spilled.pop()
        rounded[low:high] = False
        _stack(found, above, low, high, unit, depth, parent, rounded, spilled)
        settled[low:high] = True
        done = high
    return Settled(depth, parent, np.array(spilled, dtype=np.int64), rounded, settled)


def _window(found: Crossing, row: int, unit: int, cuts: Ints) -> tuple[int, int, int]:
    """Return the nearest enclosing event that nothing crosses (or -1), and its subtree.

    Counting is exact up to the first crossing, so the ancestors of `row` are known.
    """
    end, stop = found.end, found.stop
    above = int(found.parent[row])
    while above >= 0:
        low, high = above + 1, int(stop[above])
        if row < high:
            inside = stop[low:high].max() <= high
            if inside and end[low:high].max() <= end[above] + unit:
                return above, low, high
        above = int(found.parent[above])
    after = int(np.searchsorted(cuts, row, side="right"))
    return -1, int(cuts[after - 1]), int(cuts[after])


def _stack(
    found: Crossing,
    above: int,
    low: int,
    high: int,
    unit: int,
    depth: Ints,
    parent: Ints,
    rounded: npt.NDArray[np.bool_],
    spilled: list[int],
) -> None:
    base = int(depth[above]) + 1 if above >= 0 else 0
    begins = found.begin[low:high].tolist()
    ends = found.end[low:high].tolist()
    open_rows: list[int] = []  # nested, innermost last
    outside = _Outside()
    for k, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        while open_rows:
            top = open_rows[-1]
            over_by = ends[top] - begin
            if over_by > 0:
                is_sibling = over_by <= unit and end > ends[top] and begin > begins[top]
                if not is_sibling:
                    break
                rounded[low + top] = True
            open_rows.pop()
        row = low + k
        around = outside.around(max(end, begin + 1))
        if open_rows and end > ends[open_rows[-1]] + unit:
            spilled.append(row)
            outside.add(k, end)
            enclosing = next((o for o in reversed(open_rows) if ends[o] >= end), -1)
        else:
            enclosing = open_rows[-1] if open_rows else -1
            depth[row] = base + len(open_rows)
            rounded[row] |= enclosing >= 0 and end > ends[enclosing]
            open_rows.append(k)
        enclosing = max(enclosing, around)
        parent[row] = above if enclosing < 0 else low + enclosing


class _Outside:
    """Spilled events, to find the last one that goes on until a given time.

    One that ends before a later one does is forgotten: the later one is always the answer.
    """

    __slots__ = ("_ends", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._ends: list[int] = []  # negated, so that they ascend

    def add(self, row: int, end: int) -> None:
        keep = bisect_left(self._ends, -end)
        del self._rows[keep:], self._ends[keep:]
        self._rows.append(row)
        self._ends.append(-end)

    def around(self, end: int) -> int:
        """Return the last event that ends at `end` or later, -1 for none."""
        at = bisect_right(self._ends, -end)
        return self._rows[at - 1] if at else -1
