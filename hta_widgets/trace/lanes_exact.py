"""The exact stack for tracks whose events cross, walked only where it is disputed.

An event is *outlasted* when one that starts inside it ends later. Only such events, and those whose
time holds the end of such a one, can spill, be rounded or lead to either: everything else nests
whatever becomes of them. So the stack is walked over these alone. Without the events that spill,
the rest nests, and counting places all of it at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Settled", "settle"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Settled:
    """What the stack said of a track."""

    spilled: Ints  # events that nest nowhere, ascending
    around: Ints  # the nested event that encloses each of these, -1 for none
    rounded: int
    stop: Ints  # where the subtree of each other event ends

    def around_spilled(self, begin: Ints, end: Ints, low: int, parent: Ints) -> None:
        """Write parents of spilled events, and let them be parents of what they enclose.

        Rows of `parent` begin at `low`.
        """
        parent[self.spilled] = np.where(self.around >= 0, low + self.around, -1)
        last = _last_until(self.spilled, end[self.spilled], np.maximum(end, begin + 1))
        inside = np.flatnonzero(last >= 0)
        parent[inside] = np.maximum(parent[inside], low + last[inside])


def settle(begin: Ints, end: Ints, stop: Ints, unit: int) -> Settled:
    """Walk the stack over what is disputed.

    Parameters
    ----------
    begin, end : arrays of int64
        Events by start, longest first; of several tracks behind each other in time.
    stop : array of int64
        The first later row that begins at an event's end or later.
    unit : int
    """
    outlasted = _outlasted(end, stop)
    ends = np.sort(end[outlasted])
    # Whose time holds such an end.
    holds = np.searchsorted(ends, end, "left") > np.searchsorted(ends, begin, "right")
    rows = np.flatnonzero(outlasted | holds)
    return _walk(rows, begin, end, stop, unit)


def _last_until(rows: Ints, ends: Ints, until: Ints) -> Ints:
    """Return for each event the last of `rows` before it that lasts `until` then, -1 for none."""
    last = np.full(len(until), -1, dtype=np.int64)
    if not len(rows):
        return last
    first = int(rows[0]) + 1
    before = np.repeat(np.arange(1, len(rows) + 1), np.diff(rows, append=len(until) - 1))
    reach = np.maximum.accumulate(ends)
    inside = np.flatnonzero(reach[before - 1] >= until[first:])
    until, at = until[first:][inside], before[inside]
    # Down a doubling range maximum, past those that end too early.
    longest = [ends]
    while 2 << (len(longest) - 1) <= len(ends):
        half = 1 << (len(longest) - 1)
        longest.append(np.maximum(longest[-1][:-half], longest[-1][half:]))
    for level in range(len(longest) - 1, -1, -1):
        low = at - (1 << level)
        early = (low >= 0) & (longest[level][np.maximum(low, 0)] < until)
        at = np.where(early, low, at)
    last[first + inside] = rows[at - 1]
    return last


def _outlasted(end: Ints, stop: Ints) -> Bools:
    """Return which events one in their subtree outlasts, by a doubling range maximum."""
    found = np.zeros(len(end), dtype=bool)
    rows = np.flatnonzero(stop - np.arange(len(end)) > 1)
    if not len(rows):
        return found
    length = stop[rows] - rows - 1
    level = np.frexp(length.astype(np.float64))[1].astype(np.uint8) - 1
    longest = end.copy()
    for power in range(int(level.max()) + 1):
        size = 1 << power
        if power:
            half = size >> 1
            np.maximum(longest[:-half], longest[half:], out=longest[:-half])
        of_size = rows[level == power]
        latest = np.maximum(longest[of_size + 1], longest[stop[of_size] - size])
        found[of_size[latest > end[of_size]]] = True
    return found


def _walk(rows: Ints, begin: Ints, end: Ints, stop: Ints, unit: int) -> Settled:
    begins, ends = begin[rows].tolist(), end[rows].tolist()
    numbers, gone = rows.tolist(), stop[rows].tolist()
    open_rows: list[int] = []  # nested, innermost last
    spilled: list[int] = []
    around: list[int] = []
    rounded: list[int] = []
    for k, (start, last) in enumerate(zip(begins, ends, strict=True)):
        while open_rows:
            top = open_rows[-1]
            over_by = ends[top] - start
            if over_by > 0:
                if over_by > unit or last <= ends[top] or start <= begins[top]:
                    break
                rounded.append(numbers[top])
                gone[top] = numbers[k]
            open_rows.pop()
            if open_rows and gone[open_rows[-1]] < gone[top]:
                gone[open_rows[-1]] = gone[top]
        if open_rows and last > (limit := ends[open_rows[-1]]):
            if last > limit + unit:
                spilled.append(numbers[k])
                around.append(
                    next((numbers[o] for o in reversed(open_rows) if ends[o] >= last), -1)
                )
                continue
            rounded.append(numbers[k])
        open_rows.append(k)
    while len(open_rows) > 1:
        top = open_rows.pop()
        gone[open_rows[-1]] = max(gone[open_rows[-1]], gone[top])
    settled = stop.copy()
    settled[rows] = gone
    return Settled(
        np.array(spilled, dtype=np.int64),
        np.array(around, dtype=np.int64),
        len(set(rounded)),
        settled,
    )
