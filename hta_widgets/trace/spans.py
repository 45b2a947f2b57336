"""Sets of intervals that know the covered time before any instant without walking the events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Cover", "Ints", "Spans", "cover_of", "spans_of"]

Ints = npt.NDArray[np.int64]

_NONE: Ints = np.empty(0, np.int64)
_NONE.flags.writeable = False


@dataclass(slots=True, frozen=True)
class Cover:
    """Union of intervals, as disjoint pieces in order.

    Parameters
    ----------
    starts : array of int64
        Where each piece starts, ascending; pieces may touch.
    prefix : array of int64
        Covered time before each piece, and at last the whole; one longer than `starts`.
    """

    starts: Ints
    prefix: Ints

    def before(self, times: Ints) -> tuple[npt.NDArray[np.intp], Ints]:
        """Return how many pieces start before each of `times`, and the time covered before it."""
        started = self.starts.searchsorted(times)
        if not len(self.starts):
            return started, np.zeros(len(times), np.int64)
        last = np.maximum(started - 1, 0)
        # The last piece may reach beyond: it then covers only up to the time asked for.
        reached = self.prefix[last] + times - self.starts[last]
        return started, np.maximum(np.minimum(self.prefix[started], reached), 0)

    def within(self, start: int, end: int) -> int:
        """Return the covered time of one window."""
        edges = np.array((start, max(start, end)), np.int64)
        low, high = self.before(edges)[1]
        return int(high - low)

    @property
    def ends(self) -> Ints:
        """Where each piece ends."""
        return self.starts + np.diff(self.prefix)

    @property
    def nbytes(self) -> int:
        """Memory of its arrays."""
        return self.starts.nbytes + self.prefix.nbytes


def cover_of(starts: Ints, ends: Ints) -> Cover:
    """Return the union of intervals that are sorted by start and have a length."""
    if not len(starts):
        return Cover(_NONE, np.zeros(1, np.int64))
    reached = np.maximum.accumulate(ends)
    first = np.empty(len(starts), np.bool_)
    first[0] = True
    np.greater_equal(starts[1:], reached[:-1], out=first[1:])
    if first.all():
        pieces, piece_ends = starts, ends
    else:
        heads = np.flatnonzero(first)
        pieces = starts[heads]
        piece_ends = reached[np.append(heads[1:] - 1, len(starts) - 1)]
    prefix = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum(piece_ends - pieces, out=prefix[1:])
    return Cover(pieces, prefix)


@dataclass(slots=True, frozen=True)
class Spans:
    """Any set of intervals: the time they cover, and how many overlap a window.

    Parameters
    ----------
    cover : Cover
        Union of those that have a length.
    starts, ends : array of int64 or None
        Starts and ends of those that have a length, each sorted for itself; None where they do
        not overlap, because the cover's pieces are then the intervals.
    points : array of int64
        Instants of those without length, sorted.
    """

    cover: Cover
    starts: Ints | None
    ends: Ints | None
    points: Ints

    def __len__(self) -> int:
        return len(self.begins) + len(self.points)

    @property
    def begins(self) -> Ints:
        """Starts of the intervals that have a length, sorted."""
        return self.cover.starts if self.starts is None else self.starts

    @property
    def finishes(self) -> Ints:
        """Ends of the intervals that have a length, sorted."""
        return self.cover.ends if self.ends is None else self.ends

    @property
    def disjoint(self) -> bool:
        """Whether no two intervals with a length overlap."""
        return self.starts is None

    def measure(self, edges: Ints) -> tuple[Ints, Ints]:
        """Return covered time and number of overlapping intervals between neighbouring `edges`."""
        started, before = self.cover.before(edges)
        if self.starts is None or self.ends is None:
            # A piece is open at an edge if it started before and not all of it is covered yet.
            open_at = self.cover.prefix[started[:-1]] > before[:-1]
            counts = np.diff(started) + open_at
        else:
            counts = self.starts.searchsorted(edges[1:]) - self.ends.searchsorted(
                edges[:-1], side="right"
            )
        if len(self.points):
            counts = counts + np.diff(self.points.searchsorted(edges))
        return np.diff(before), counts

    @property
    def extent(self) -> tuple[int, int]:
        """First start and last end; an instant ends one nanosecond later. (0, 0) if empty."""
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
        """Memory of its arrays."""
        sizes = [array.nbytes for array in (self.starts, self.ends) if array is not None]
        return self.cover.nbytes + self.points.nbytes + sum(sizes)


def spans_of(starts: Ints, durs: Ints) -> Spans:
    """Return the set of intervals given by starts, ascending, and durations."""
    long = durs > 0
    if long.all():
        points = _NONE
    else:
        points = starts[~long]
        starts, durs = starts[long], durs[long]
    ends = starts + durs
    cover = cover_of(starts, ends)
    if len(cover.starts) == len(starts):
        return Spans(cover, None, None, points)
    # Events end nearly in the order in which they start: what looks for runs is ten times as fast.
    ends.sort(kind="stable")
    return Spans(cover, np.ascontiguousarray(starts), ends, points)
