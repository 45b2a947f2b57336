"""Unions, intersections and covered time of intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.arrays import Ints, Rows, concatenate_ranges, sum_by_group

_FIRST = np.iinfo(np.int64).min
_LAST = np.iinfo(np.int64).max


class Intervals(NamedTuple):
    """Pieces ``[start, end)`` in ascending order; no piece is empty, and no two touch."""

    start: Ints
    end: Ints

    @classmethod
    def empty(cls) -> Intervals:
        """Return the empty set."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def union(start: npt.ArrayLike, end: npt.ArrayLike) -> Intervals:
    """Return the union of unordered intervals as disjoint pieces; touching pieces are joined.

    Intervals without length cover nothing.

    Examples
    --------
    >>> union([5, 0, 10], [8, 5, 12])
    Intervals(start=array([ 0, 10]), end=array([ 8, 12]))
    """
    starts, ends = np.asarray(start, dtype=np.int64), np.asarray(end, dtype=np.int64)
    has_length = ends > starts
    if not has_length.all():
        starts, ends = starts[has_length], ends[has_length]
    if not len(starts):
        return Intervals.empty()
    if not (starts[1:] >= starts[:-1]).all():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    latest_end = np.maximum.accumulate(ends)
    first = np.append(0, np.flatnonzero(starts[1:] > latest_end[:-1]) + 1)
    last = np.append(first[1:], len(starts)) - 1
    return Intervals(starts[first], latest_end[last])


def union_by_group(group: Ints, start: Ints, end: Ints, groups: int) -> tuple[Ints, Ints, Ints]:
    """Return the union of each group's intervals, as group, start and end of its pieces.

    Groups are numbered ``0 .. groups-1``; the pieces are ordered by group.
    """
    first, last = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    first[group], last[group] = start, end
    np.minimum.at(first, group, start)
    np.maximum.at(last, group, end)
    # The groups are placed end to end, one ns apart, so that a single union handles each
    # separately.
    width = last - first + 1
    offset = np.cumsum(width) - width
    moved_by = offset - first
    pieces = union(start + moved_by[group], end + moved_by[group])
    group_of_piece = np.searchsorted(offset, pieces.start, side="right") - 1
    moved_back = moved_by[group_of_piece]
    return group_of_piece, pieces.start - moved_back, pieces.end - moved_back


def covered_by_group(group: Ints, start: Ints, end: Ints, groups: int) -> Ints:
    """Return the time that each group's intervals cover."""
    piece_group, piece_start, piece_end = union_by_group(group, start, end, groups)
    return sum_by_group(piece_group, piece_end - piece_start, groups)


def unite(a: Intervals, b: Intervals) -> Intervals:
    """Return the union of two sets of intervals."""
    return union(np.concatenate([a.start, b.start]), np.concatenate([a.end, b.end]))


def total_length(pieces: Intervals) -> int:
    """Return the covered time."""
    return int((pieces.end - pieces.start).sum())


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """Return the intersection of two unions of intervals."""
    # Each piece of `a` overlaps the pieces `first` to `after - 1` of `b`.
    first = np.searchsorted(b.end, a.start, side="right")
    after = np.searchsorted(b.start, a.end, side="left")
    count = np.maximum(after - first, 0)
    in_a, in_b = np.repeat(np.arange(len(a.start)), count), concatenate_ranges(first, count)
    return Intervals(np.maximum(a.start[in_a], b.start[in_b]), np.minimum(a.end[in_a], b.end[in_b]))


def complement(pieces: Intervals) -> Intervals:
    """Return the gaps, from the smallest to the largest int64."""
    start = np.concatenate(([_FIRST], pieces.end))
    end = np.concatenate((pieces.start, [_LAST]))
    has_length = end > start
    return Intervals(start[has_length], end[has_length])


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """Return the time that `a` covers and `b` does not."""
    return intersect(a, complement(b))


def clip(pieces: Intervals, start: int | None, end: int | None) -> Intervals:
    """Return the pieces within the window ``[start, end)``; None leaves a side open."""
    low = _FIRST if start is None else start
    high = _LAST if end is None else end
    if high <= low or not len(pieces.start):
        return Intervals.empty()
    if pieces.start[0] >= low and pieces.end[-1] <= high:
        return pieces
    window = Intervals(np.array([low], dtype=np.int64), np.array([high], dtype=np.int64))
    return intersect(window, pieces)


class CumulativeCoverage:
    """Covered time before a given instant, found by binary search.

    The covered time of ``[t0, t1)`` is ``coverage(t1) - coverage(t0)``.
    """

    __slots__ = ("_cover",)

    def __init__(self, start: Ints, end: Ints) -> None:
        self._cover = IntervalUnion(start, np.concatenate(([0], np.cumsum(end - start))))

    def __call__(self, time: npt.ArrayLike) -> Ints:
        """Return the covered time before each instant."""
        return self._cover.count_and_length_before(np.asarray(time, dtype=np.int64))[1]


_NONE: Ints = np.empty(0, np.int64)
_NONE.flags.writeable = False


@dataclass(slots=True, frozen=True)
class IntervalUnion:
    """Union of intervals, as disjoint pieces in order."""

    starts: Ints
    prefix: Ints  # total length of the pieces before each piece, followed by the total of all

    def count_and_length_before(self, times: Ints) -> tuple[Rows, Ints]:
        """Return how many pieces start before each time, and how much time they cover by then."""
        started = self.starts.searchsorted(times)
        if not len(self.starts):
            return started, np.zeros_like(times)
        last = np.maximum(started - 1, 0)
        # The last piece that has started may end after the time.
        reached = self.prefix[last] + times - self.starts[last]
        return started, np.maximum(np.minimum(self.prefix[started], reached), 0)

    @property
    def ends(self) -> Ints:
        """End of each piece."""
        return self.starts + np.diff(self.prefix)

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return self.starts.nbytes + self.prefix.nbytes


def union_of_sorted(starts: Ints, ends: Ints) -> IntervalUnion:
    """Return the union of intervals that are sorted by start and have a length."""
    if not len(starts):
        return IntervalUnion(_NONE, np.zeros(1, np.int64))
    latest_end = np.maximum.accumulate(ends)
    begins_piece = starts[1:] >= latest_end[:-1]
    if not begins_piece.all():
        first = np.append(0, np.flatnonzero(begins_piece) + 1)
        starts, ends = starts[first], latest_end[np.append(first[1:], len(starts)) - 1]
    prefix = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(ends - starts, out=prefix[1:])
    return IntervalUnion(starts, prefix)


@dataclass(slots=True, frozen=True)
class IntervalIndex:
    """Intervals that may overlap, with covered time and count in any window."""

    cover: IntervalUnion
    starts: Ints | None  # of intervals with a length, sorted; None if equal to those of `cover`
    ends: Ints | None  # likewise
    points: Ints  # sorted starts of intervals without length

    def __len__(self) -> int:
        return len(self.sorted_starts) + len(self.points)

    @property
    def sorted_starts(self) -> Ints:
        """Sorted starts of the intervals with a length."""
        return self.cover.starts if self.starts is None else self.starts

    @property
    def sorted_ends(self) -> Ints:
        """Sorted ends of the intervals with a length."""
        return self.cover.ends if self.ends is None else self.ends

    @property
    def is_disjoint(self) -> bool:
        """Whether no two intervals with a length overlap."""
        return self.starts is None

    def measure(self, edges: Ints) -> tuple[Ints, Ints]:
        """Return covered time and number of overlapping intervals between successive `edges`."""
        started, before = self.cover.count_and_length_before(edges)
        if self.starts is None or self.ends is None:
            # A piece is open at an edge if it started earlier and is not yet fully covered.
            open_at = self.cover.prefix[started[:-1]] > before[:-1]
            counts = np.diff(started) + open_at
        else:
            ended = self.ends.searchsorted(edges[:-1], side="right")
            counts = self.starts.searchsorted(edges[1:]) - ended
        if len(self.points):
            counts = counts + np.diff(self.points.searchsorted(edges))
        return np.diff(before), counts

    @property
    def extent(self) -> tuple[int, int]:
        """Return first start and last end, with instants of 1 ns; (0, 0) if the index is empty."""
        bounds = []
        if len(self.cover.starts):
            length = self.cover.prefix[-1] - self.cover.prefix[-2]
            bounds.append((int(self.cover.starts[0]), int(self.cover.starts[-1] + length)))
        if len(self.points):
            bounds.append((int(self.points[0]), int(self.points[-1]) + 1))
        if not bounds:
            return 0, 0
        return min(low for low, _ in bounds), max(high for _, high in bounds)

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        sizes = [array.nbytes for array in (self.starts, self.ends) if array is not None]
        return self.cover.nbytes + self.points.nbytes + sum(sizes)


def index_intervals(starts: Ints, durs: Ints) -> IntervalIndex:
    """Build an index of intervals with these ascending starts and durations."""
    points = _NONE
    has_length = durs > 0
    if not has_length.all():
        points = starts[~has_length]
        starts, durs = starts[has_length], durs[has_length]
    ends = starts + durs
    cover = union_of_sorted(starts, ends)
    if len(cover.starts) == len(starts):
        return IntervalIndex(cover, None, None, points)
    # A stable sort is ten times as fast here, because the ends are nearly sorted.
    ends.sort(kind="stable")
    return IntervalIndex(cover, np.ascontiguousarray(starts), ends, points)
