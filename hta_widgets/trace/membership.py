"""Which events of a rank a selection holds, found by what was sorted once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hta_widgets import taxonomy
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.grouping import group_order
from hta_widgets.trace.intervals import Intervals, union
from hta_widgets.trace.memo import memoized
from hta_widgets.trace.query import Clauses, read_clauses
from hta_widgets.trace.trace import columns_in, event_frame, run_query

if TYPE_CHECKING:
    from hta_widgets.trace.selection import Selection
    from hta_widgets.trace.trace import Trace

__all__ = ["Overlapping", "TraceIndex", "device_index_of", "index_of", "member_rows"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_BLOCK = 256


class Overlapping:
    """Finds which of some events, sorted by start, overlap a window.

    Parameters
    ----------
    start, end : arrays of int64
    """

    __slots__ = ("_end", "_reach", "_start")

    def __init__(self, start: Ints, end: Ints) -> None:
        self._start, self._end = start, end
        blocks = np.arange(0, len(start), _BLOCK)
        self._reach = np.maximum.reduceat(end, blocks) if len(start) else end

    def within(self, low: int | None, high: int | None) -> Rows:
        """Return the positions of what overlaps ``[low, high)``, ascending; None is open.

        An event without length overlaps where its instant lies in the window; nothing overlaps an
        empty window.
        """
        if low is not None and low == high:
            return np.empty(0, dtype=np.intp)
        count = len(self._start)
        stop = count if high is None else int(np.searchsorted(self._start, high, "left"))
        if low is None:
            return np.arange(stop)
        first = min(int(np.searchsorted(self._start, low, "left")), stop)
        # What started before is there if it still runs; few blocks hold anything so long.
        blocks = np.flatnonzero(self._reach[: -(-first // _BLOCK)] > low)
        early = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        early = early[: np.searchsorted(early, first)]
        early = early[self._end[early] > low]
        return np.concatenate((early, np.arange(first, stop)))


class TraceIndex:
    """What finds the events of one rank; made as it is needed, for the kinds that hold now.

    Parameters
    ----------
    trace : Trace
    kind : array of uint8, optional
        Codes of the events' kinds; those of the table by default.
    """

    def __init__(self, trace: Trace, kind: npt.NDArray[np.uint8] | None = None) -> None:
        self._table = trace.table
        self._kind = kind
        self._overlapping: dict[tuple[str, ...], Overlapping] = {}
        self._of_kinds: dict[tuple[str, ...], Rows] = {}
        self._covered: dict[tuple[str, ...], Intervals] = {}
        self._by_name: tuple[Rows, Rows] | None = None

    @property
    def kind(self) -> npt.NDArray[np.uint8]:
        """Codes of the events' kinds."""
        return self._table.kind if self._kind is None else self._kind

    @cached_property
    def kind_counts(self) -> Ints:
        """How many events there are of each kind."""
        return np.bincount(self.kind, minlength=len(KINDS))

    def of_kinds(self, kinds: tuple[str, ...]) -> Rows:
        """Return the events of some kinds, ascending; all for none."""
        known = self._of_kinds.get(kinds)
        if known is None:
            if kinds:
                wanted = np.zeros(len(KINDS), dtype=bool)
                wanted[[KINDS.index(kind) for kind in kinds]] = True
                known = np.flatnonzero(wanted[self.kind])
            else:
                known = np.arange(len(self._table))
            self._of_kinds[kinds] = known
        return known

    def of_kinds_within(self, kinds: tuple[str, ...], low: int | None, high: int | None) -> Rows:
        """Return the events of some kinds that overlap a window, ascending."""
        rows = self.of_kinds(kinds)
        if low is None and high is None:
            return rows
        known = self._overlapping.get(kinds)
        if known is None:
            start, end = self._table.start_ns, self._table.end_ns
            known = Overlapping(start[rows], end[rows]) if kinds else Overlapping(start, end)
            self._overlapping[kinds] = known
        return rows[known.within(low, high)]

    def covered(self, kinds: tuple[str, ...]) -> Intervals:
        """Return when any event of some kinds runs."""
        known = self._covered.get(kinds)
        if known is None:
            rows = self.of_kinds(kinds)
            start = self._table.start_ns[rows]
            known = union(start, start + self._table.dur_ns[rows])
            self._covered[kinds] = known
        return known

    def named(self, names: Iterable[str]) -> Rows:
        """Return the events of some names, ascending."""
        if self._by_name is None:
            count = len(self._table.names)
            order = group_order(self._table.name, count)
            bounds = np.concatenate(
                ([0], np.cumsum(np.bincount(self._table.name, minlength=count)))
            )
            self._by_name = order, bounds
        order, bounds = self._by_name
        codes = sorted(self._codes(names))
        found = [order[bounds[code] : bounds[code + 1]] for code in codes]
        if len(found) == 1:
            return found[0]
        return np.sort(np.concatenate([*found, np.empty(0, dtype=np.intp)]))

    def _codes(self, names: Iterable[str]) -> set[int]:
        wanted = set(names)
        return {code for code, name in enumerate(self._table.names.values) if name in wanted}


@memoized
def index_of(trace: Trace) -> TraceIndex:
    """Return the index of a rank."""
    return TraceIndex(trace)


@memoized
def device_index_of(trace: Trace) -> TraceIndex:
    """Return the index of a rank, in which collectives on the host are no communication.

    They keep no device busy, and time between them is not idle.
    """
    table, index = trace.table, index_of(trace)
    if any(track.stream >= 0 for track in table.tracks):
        return index
    of_devices = taxonomy.kind_codes(
        table.category, table.name, table.categories.values, table.names.values, of_devices=True
    )
    return index if np.array_equal(of_devices, index.kind) else TraceIndex(trace, of_devices)


def member_rows(selection: Selection, trace: Trace) -> Rows:
    """Return the events of a rank that a selection holds, ascending."""
    if selection.ranks is not None and trace.rank not in selection.ranks:
        return np.empty(0, dtype=np.intp)
    index = index_of(trace)
    shift = trace.shift_ns
    low = None if selection.start_ns is None else selection.start_ns - shift
    high = None if selection.end_ns is None else selection.end_ns - shift
    clauses = Clauses() if selection.query is None else read_clauses(selection.query)
    if clauses.rest is None and clauses.names is not None:
        rows = _in_window(trace, index.named(clauses.names), low, high)
        clauses = clauses.with_names(None)
    elif clauses.rest is None and clauses.kinds is not None:
        rows = index.of_kinds_within(_known_kinds(clauses.kinds), low, high)
        rows = rows if clauses.kinds and _known_kinds(clauses.kinds) else rows[:0]
        clauses = clauses.with_kinds(None)
    else:
        rows = index.of_kinds_within((), low, high)
    rows = _on_tracks(trace, rows, selection.tracks)
    rows = selection.chosen_of(trace, rows)
    if clauses.rest is not None:
        frame = event_frame(trace, rows, columns_in(clauses.rest))
        frame.insert(0, "rank", trace.rank)
        rows = rows[run_query(frame, clauses.rest)]
    return _of_clauses(trace, rows, clauses)


def _known_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if kind in kinds)


def _in_window(trace: Trace, rows: Rows, low: int | None, high: int | None) -> Rows:
    if low is None and high is None:
        return rows
    if low is not None and low == high:
        return rows[:0]
    start = trace.table.start_ns[rows]
    inside = np.ones(len(rows), dtype=bool)
    if high is not None:
        inside &= start < high
    if low is not None:
        inside &= (start >= low) | (start + trace.table.dur_ns[rows] > low)
    return rows[inside]


def _on_tracks(trace: Trace, rows: Rows, tracks: Any) -> Rows:
    if tracks is None:
        return rows
    wanted = np.array(
        [track.key in tracks or (trace.rank, track.key) in tracks for track in trace.table.tracks],
        dtype=bool,
    )
    return rows[wanted[trace.table.track[rows]]] if len(wanted) else rows[:0]


def _of_clauses(trace: Trace, rows: Rows, clauses: Clauses) -> Rows:
    table = trace.table
    if clauses.names is not None:
        names = set(clauses.names)
        wanted = np.array([name in names for name in table.names.values], dtype=bool)
        rows = rows[wanted[table.name[rows]]] if len(wanted) else rows[:0]
    if clauses.kinds is not None:
        of_kind = np.array([kind in clauses.kinds for kind in KINDS], dtype=bool)
        rows = rows[of_kind[table.kind[rows]]]
    return rows
