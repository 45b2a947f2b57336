"""One lane, indexed: what its cells cover, count and show at any zoom.

Of an event in a lane of one kind whose events do not overlap it takes 20 bytes; where events
overlap, up to 44.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.intervals import Cover, Ints, Spans, cover_of, spans_of

__all__ = ["CounterLane", "Kinds", "Lane", "index_counter", "index_lane"]

BLOCK = 64
KEEPS_NO_ROWS = "this lane sends no slices and keeps no rows"

Rows = npt.NDArray[np.int32]
Positions = npt.NDArray[np.intp]
Codes = npt.NDArray[np.uint8]


@dataclass(slots=True, frozen=True)
class Kinds:
    """What a lane of several kinds needs beyond a lane of one.

    Of the kind with most events nothing is stored that follows from the whole and the others.
    """

    major: int
    #: Union of the major kind; None where the lane's events do not overlap.
    major_cover: Cover | None
    minor: tuple[tuple[int, Spans], ...]
    #: Kind of each point of the lane, ordered as the points, at one instant the lowest first.
    of_points: Codes

    @property
    def nbytes(self) -> int:
        """Memory of its arrays."""
        cover = 0 if self.major_cover is None else self.major_cover.nbytes
        return cover + self.of_points.nbytes + sum(spans.nbytes for _, spans in self.minor)


@dataclass(slots=True, frozen=True)
class Lane:
    """Events of a lane.

    Parameters
    ----------
    spans : Spans
        All its events.
    kind : int
        Their kind, or the most frequent one.
    kinds : Kinds or None
        None where there is only one kind.
    rows : array of int32 or None
        Row in the rank's table of each event that has a length, in lane order; None for lanes
        that send no slices.
    longest : array of int64
        Longest duration of each block of 64 of `rows`.
    durs : array of int64 or None
        Duration of each of `rows`; None where no two events overlap, since their union tells it
        then. None of this is a view of the table, which may go while the lane stays.
    """

    spans: Spans
    kind: int
    kinds: Kinds | None
    rows: Rows | None
    longest: Ints
    durs: Ints | None

    @property
    def nbytes(self) -> int:
        """Memory of its arrays."""
        arrays = [array for array in (self.rows, self.durs) if array is not None]
        kinds = 0 if self.kinds is None else self.kinds.nbytes
        return self.spans.nbytes + kinds + self.longest.nbytes + sum(a.nbytes for a in arrays)

    def rows_of(self, at: Positions) -> Rows:
        """Return the rows of the events at these positions in `rows`."""
        if self.rows is None:
            raise ValueError(KEEPS_NO_ROWS)
        return self.rows[at]

    def durations(self, at: Positions) -> Ints:
        """Return durations of the events at these positions in `rows`."""
        if self.rows is None:
            raise ValueError(KEEPS_NO_ROWS)
        if self.durs is not None:
            return self.durs[at]
        prefix = self.spans.cover.prefix
        durs: Ints = prefix[at + 1] - prefix[at]
        return durs

    def long_events(self, start: int, end: int, at_least: int) -> Positions:
        """Return positions in `rows` of events of that length that overlap a window, in order."""
        if self.rows is None or not len(self.rows) or end <= start:
            return np.empty(0, np.intp)
        begins = self.spans.begins
        piece = max(int(self.spans.cover.starts.searchsorted(start, "right")) - 1, 0)
        # All that overlaps the window began at or after the piece of the union that is open there.
        first = int(begins.searchsorted(self.spans.cover.starts[piece]))
        last = int(begins.searchsorted(end))
        if last <= first:
            return np.empty(0, np.intp)
        low, high = first // BLOCK, (last - 1) // BLOCK + 1
        blocks = np.flatnonzero(self.longest[low:high] >= at_least) + low
        at = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        at = at[(at >= first) & (at < last)]
        durs = self.durations(at)
        kept: Positions = at[(durs >= at_least) & (begins[at] + durs > start)]
        return kept

    def overlapped(self, at: Positions) -> npt.NDArray[np.bool_]:
        """Return which of the events at these positions begin before an earlier one ended."""
        if self.spans.disjoint:
            return np.zeros(len(at), np.bool_)
        begins, pieces = self.spans.begins, self.spans.cover.starts
        piece = pieces.searchsorted(begins[at], "right") - 1
        late: npt.NDArray[np.bool_] = begins.searchsorted(pieces[piece]) != at
        return late


def index_lane(
    starts: Ints,
    durs: Ints,
    kinds: Codes,
    rows: npt.NDArray[np.integer] | None,
) -> Lane:
    """Index the events of a lane.

    Parameters
    ----------
    starts, durs : array of int64
        The events in lane order: by start, then longest first.
    kinds : array of uint8
        Kind of each.
    rows : array of int or None
        Row in the table of each; None for a lane without slices.
    """
    spans = spans_of(starts, durs)
    kept, longest, own = None, np.empty(0, np.int64), None
    if rows is not None:
        long = durs > 0
        kept = np.ascontiguousarray(rows[long], np.int32)
        with_length = durs[long]
        longest = _block_maxima(with_length)
        own = None if spans.disjoint else with_length
    counts = np.bincount(kinds, minlength=1)
    major = int(counts.argmax())
    mixed = None
    if counts[major] < len(kinds):
        mixed = _mixed(starts, durs, kinds, major=major, disjoint=spans.disjoint)
    return Lane(spans, major, mixed, kept, longest, own)


def _mixed(starts: Ints, durs: Ints, kinds: Codes, *, major: int, disjoint: bool) -> Kinds:
    minor = []
    for code in np.unique(kinds).tolist():
        if code != major:
            of_kind = kinds == code
            minor.append((code, spans_of(starts[of_kind], durs[of_kind])))
    cover = None
    if not disjoint:
        of_kind = (kinds == major) & (durs > 0)
        cover = cover_of(starts[of_kind], starts[of_kind] + durs[of_kind])
    points = durs <= 0
    order = np.lexsort((kinds[points], starts[points]))
    return Kinds(major, cover, tuple(minor), kinds[points][order])


def _block_maxima(durs: Ints) -> Ints:
    if not len(durs):
        return np.empty(0, np.int64)
    return np.maximum.reduceat(durs, np.arange(0, len(durs), BLOCK))


@dataclass(slots=True, frozen=True)
class CounterLane:
    """Samples of one counter: a step function of time.

    Parameters
    ----------
    times : array of int64
        Ascending.
    values : array of float64
    end : int
        Where the last value stops to hold: the end of the rank's data.
    """

    times: Ints
    values: npt.NDArray[np.float64]
    end: int

    @property
    def nbytes(self) -> int:
        """Memory of its arrays."""
        return self.times.nbytes + self.values.nbytes

    def measure(self, edges: Ints) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the smallest and largest value held between neighbouring `edges`; NaN for none."""
        low, high = edges[:-1], np.minimum(edges[1:], self.end)
        first, last = self.times.searchsorted(low), self.times.searchsorted(high)
        padded = np.append(self.times, np.iinfo(np.int64).max)
        # Without a sample at its very start, a cell begins with the value that came before.
        first = np.where(padded[first] == low, first, np.maximum(first - 1, 0))
        some = (last > first) & (low < self.end)
        smallest = np.full(len(low), np.nan)
        largest = np.full(len(low), np.nan)
        if some.any():
            bounds = np.column_stack((first[some], last[some])).ravel()
            values = np.append(self.values, np.nan)
            smallest[some] = np.fmin.reduceat(values, bounds)[::2]
            largest[some] = np.fmax.reduceat(values, bounds)[::2]
        return smallest, largest


def index_counter(times: Ints, values: npt.NDArray[np.float64], end: int) -> CounterLane:
    """Index the samples of one series, sorted by time; `end` is where the rank's data ends."""
    return CounterLane(times, values, max(end, int(times[-1]) + 1 if len(times) else end))
