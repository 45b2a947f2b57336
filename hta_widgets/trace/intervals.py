"""Algebra of time intervals: sorted, disjoint, half-open pieces as pairs of int64 arrays.

Busy time, overlap and exposed time are all made of these few operations, so charts, tables and
tiles agree to the nanosecond.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "Covered",
    "Intervals",
    "clip",
    "complement",
    "intersect",
    "subtract",
    "total",
    "union",
]

Ints = npt.NDArray[np.int64]

_FIRST = np.iinfo(np.int64).min
_LAST = np.iinfo(np.int64).max


class Intervals(NamedTuple):
    """Disjoint pieces ``[start, end)`` in ascending order; no piece is empty, none touch."""

    start: Ints
    end: Ints

    @classmethod
    def none(cls) -> Intervals:
        """Return the empty set."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def union(start: npt.ArrayLike, end: npt.ArrayLike) -> Intervals:
    """Merge intervals in any order into disjoint pieces; touching ones become one.

    Intervals without length cover nothing.

    Examples
    --------
    >>> union([5, 0, 10], [8, 5, 12])
    Intervals(start=array([ 0, 10]), end=array([ 8, 12]))
    """
    starts, ends = np.asarray(start, dtype=np.int64), np.asarray(end, dtype=np.int64)
    lasting = ends > starts
    if not lasting.all():
        starts, ends = starts[lasting], ends[lasting]
    if not len(starts):
        return Intervals.none()
    if not (starts[1:] >= starts[:-1]).all():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    opens = np.empty(len(starts), dtype=bool)
    opens[0] = True
    opens[1:] = starts[1:] > reach[:-1]
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(starts)) - 1
    return Intervals(starts[first], reach[last])


def total(pieces: Intervals) -> int:
    """Return the covered time."""
    return int((pieces.end - pieces.start).sum())


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """Return what both cover."""
    # For each piece of `a`, the run of pieces of `b` that reach into it.
    first = np.searchsorted(b.end, a.start, side="right")
    after = np.searchsorted(b.start, a.end, side="left")
    count = np.maximum(after - first, 0)
    which_a = np.repeat(np.arange(len(a.start)), count)
    within = np.arange(len(which_a)) - np.repeat(np.cumsum(count) - count, count)
    which_b = first[which_a] + within
    return Intervals(
        np.maximum(a.start[which_a], b.start[which_b]), np.minimum(a.end[which_a], b.end[which_b])
    )


def complement(pieces: Intervals) -> Intervals:
    """Return what is not covered, from the first to the last instant that int64 can tell."""
    start = np.concatenate(([_FIRST], pieces.end))
    end = np.concatenate((pieces.start, [_LAST]))
    lasting = end > start
    return Intervals(start[lasting], end[lasting])


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """Return what `a` covers and `b` does not."""
    return intersect(a, complement(b))


def clip(pieces: Intervals, start: int | None, end: int | None) -> Intervals:
    """Return what lies in the window ``[start, end)``; None is open."""
    low = _FIRST if start is None else start
    high = _LAST if end is None else end
    if high <= low:
        return Intervals.none()
    window = Intervals(np.array([low], dtype=np.int64), np.array([high], dtype=np.int64))
    return intersect(window, pieces)


class Covered:
    """How much time is covered before any instant, by two lookups.

    Covered time of ``[t0, t1)`` is ``covered(t1) - covered(t0)``, exact at any edge.

    Parameters
    ----------
    start, end : arrays of int64
        Sorted intervals that do not overlap, such as an `Intervals` or the events of a lane.
    """

    __slots__ = ("_before", "_end", "_start")

    def __init__(self, start: Ints, end: Ints) -> None:
        self._start, self._end = start, end
        self._before = np.concatenate(([0], np.cumsum(end - start)))

    def __call__(self, time: npt.ArrayLike) -> Any:
        """Return the covered time before each of `time`."""
        at = np.asarray(time, dtype=np.int64)
        started = np.searchsorted(self._start, at, side="left")
        if not len(self._start):
            return np.zeros_like(at)
        last = np.maximum(started - 1, 0)
        # The last piece that started may still run.
        beyond = np.where(started > 0, np.maximum(self._end[last] - at, 0), 0)
        return self._before[started] - beyond
