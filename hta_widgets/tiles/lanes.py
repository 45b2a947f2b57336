"""Lanes of events or counters, indexed to compute cells at any zoom level.

An `EventLane` stores the sorted starts and the sorted ends of its events, and the union of the
events. The covered time and the number of events of a cell are then differences between two prefix
sums. A lane with a single kind and no overlaps takes 20 bytes per event, other lanes up to 44.

To find the events to send as slices, the longest duration in each block of 64 events is stored. A
block is skipped if all of its events are shorter than two cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.arrays import Bools, Codes, Floats, Ints
from hta_widgets.trace.intervals import (
    IntervalIndex,
    IntervalUnion,
    index_intervals,
    union_of_sorted,
)

BLOCK = 64
KEEPS_NO_ROWS = "this lane has no slices, so it keeps no rows"
EventRows = npt.NDArray[np.int32]
Positions = npt.NDArray[np.intp]


@dataclass(slots=True, frozen=True)
class KindIndex:
    """Index of a lane with several kinds of events.

    For the most frequent kind, arrays that can be derived from the other kinds are not stored.
    """

    major: int
    #: Union of the events of the major kind, or None if no events in the lane overlap.
    major_cover: IntervalUnion | None
    minor: tuple[tuple[int, IntervalIndex], ...]
    #: Kinds of the zero-duration events, sorted by time and kind.
    of_points: Codes

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        cover = 0 if self.major_cover is None else self.major_cover.nbytes
        return cover + self.of_points.nbytes + sum(spans.nbytes for _, spans in self.minor)


@dataclass(slots=True, frozen=True)
class EventLane:
    """The events of a lane. Arrays are copies, so that the event table can be released."""

    spans: IntervalIndex
    #: The only kind or, in mixed lanes, the most frequent one.
    kind: int
    #: None if all events are of one kind.
    kinds: KindIndex | None
    #: Table rows of the events with nonzero duration, or None if the lane has no slices.
    rows: EventRows | None
    #: Longest duration per block of 64 `rows`.
    longest: Ints
    #: Durations of `rows`, or None if no events overlap and durations follow from `spans`.
    durs: Ints | None

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        arrays = [array for array in (self.rows, self.durs) if array is not None]
        kinds = 0 if self.kinds is None else self.kinds.nbytes
        return self.spans.nbytes + kinds + self.longest.nbytes + sum(a.nbytes for a in arrays)

    def rows_of(self, positions: Positions) -> EventRows:
        """Return the table rows of the events at the given positions in `rows`."""
        if self.rows is None:
            raise ValueError(KEEPS_NO_ROWS)
        return self.rows[positions]

    def durations(self, positions: Positions) -> Ints:
        """Return the durations of the events at the given positions in `rows`."""
        if self.rows is None:
            raise ValueError(KEEPS_NO_ROWS)
        if self.durs is not None:
            return self.durs[positions]
        prefix = self.spans.cover.prefix
        return prefix[positions + 1] - prefix[positions]

    def long_events(self, start: int, end: int, at_least: int) -> Positions:
        """Return positions in `rows` of events in a window that last `at_least` ns or longer."""
        if self.rows is None or not len(self.rows) or end <= start:
            return np.empty(0, np.intp)
        begins = self.spans.sorted_starts
        # No event that overlaps the window begins before the union interval at the window's start.
        interval = max(int(self.spans.cover.starts.searchsorted(start, "right")) - 1, 0)
        first = int(begins.searchsorted(self.spans.cover.starts[interval]))
        last = int(begins.searchsorted(end))
        if last <= first:
            return np.empty(0, np.intp)
        low, high = first // BLOCK, (last - 1) // BLOCK + 1
        blocks = np.flatnonzero(self.longest[low:high] >= at_least) + low
        candidates = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        candidates = candidates[(candidates >= first) & (candidates < last)]
        durs = self.durations(candidates)
        positions: Positions = candidates[(durs >= at_least) & (begins[candidates] + durs > start)]
        return positions

    def overlap_mask(self, positions: Positions) -> Bools:
        """Return which of the events at these positions begin before an earlier event has ended."""
        if self.spans.is_disjoint:
            return np.zeros(len(positions), np.bool_)
        starts, union_starts = self.spans.sorted_starts, self.spans.cover.starts
        interval = union_starts.searchsorted(starts[positions], "right") - 1
        # Within a union interval, only the first event begins after all earlier events have ended.
        overlaps: Bools = starts.searchsorted(union_starts[interval]) != positions
        return overlaps


@dataclass(slots=True, frozen=True)
class CounterLane:
    """The samples of a counter. Each is valid until the next sample, the last until `end`."""

    times: Ints
    values: Floats
    end: int

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return self.times.nbytes + self.values.nbytes

    def measure(self, edges: Ints) -> tuple[Floats, Floats]:
        """Return the minimum and maximum value in each cell between `edges` (NaN if empty)."""
        low, high = edges[:-1], np.minimum(edges[1:], self.end)
        first, last = self.times.searchsorted(low), self.times.searchsorted(high)
        padded = np.append(self.times, np.iinfo(np.int64).max)
        # If no sample falls on the start of a cell, the previous value applies there.
        first = np.where(padded[first] == low, first, np.maximum(first - 1, 0))
        overlaps = (last > first) & (low < self.end)
        smallest = np.full(len(low), np.nan)
        largest = np.full(len(low), np.nan)
        if overlaps.any():
            # Every second result of `reduceat` is discarded: it covers the samples between two
            # cells.
            ranges = np.column_stack((first[overlaps], last[overlaps])).ravel()
            values = np.append(self.values, np.nan)
            smallest[overlaps] = np.fmin.reduceat(values, ranges)[::2]
            largest[overlaps] = np.fmax.reduceat(values, ranges)[::2]
        return smallest, largest


AnyLane = EventLane | CounterLane


def index_lane(
    starts: Ints, durs: Ints, kinds: Codes, rows: npt.NDArray[np.integer] | None
) -> EventLane:
    """Index the events of a lane, which must be sorted by start, then longest first.

    `rows` are the table rows of the events, or None if the lane has no slices.
    """
    spans = index_intervals(starts, durs)
    lane_rows, longest, long_durs = None, np.empty(0, np.int64), None
    if rows is not None:
        long = durs > 0
        lane_rows = np.ascontiguousarray(rows[long], np.int32)
        with_length = durs[long]
        if len(with_length):
            blocks = np.arange(0, len(with_length), BLOCK)
            longest = np.maximum.reduceat(with_length, blocks)
        long_durs = None if spans.is_disjoint else with_length
    counts = np.bincount(kinds, minlength=1)
    major = int(counts.argmax())
    mixed = None
    if counts[major] < len(kinds):
        mixed = _kind_index(starts, durs, kinds, major=major, disjoint=spans.is_disjoint)
    return EventLane(spans, major, mixed, lane_rows, longest, long_durs)


def index_counter(times: Ints, values: Floats, end: int) -> CounterLane:
    """Index the samples of a counter series, sorted by time. The rank's data ends at `end`."""
    if len(times):
        end = max(end, int(times[-1]) + 1)
    return CounterLane(times, values, end)


def _kind_index(starts: Ints, durs: Ints, kinds: Codes, *, major: int, disjoint: bool) -> KindIndex:
    minor = []
    for code in np.unique(kinds).tolist():
        if code != major:
            of_kind = kinds == code
            minor.append((code, index_intervals(starts[of_kind], durs[of_kind])))
    cover = None
    if not disjoint:
        of_kind = (kinds == major) & (durs > 0)
        cover = union_of_sorted(starts[of_kind], starts[of_kind] + durs[of_kind])
    points = durs <= 0
    order = np.lexsort((kinds[points], starts[points]))
    return KindIndex(major, cover, tuple(minor), kinds[points][order])
