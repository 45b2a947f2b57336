"""Finding the events of a rank by kind, window and name."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from hta_widgets import taxonomy
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Codes, Ints, Rows, order_and_bounds
from hta_widgets.trace.intervals import Intervals, union
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace

#: Number of events per block of `OverlapIndex`, which stores the latest end of each block.
_BLOCK = 256
_WORK_KINDS = KINDS[:3]


def overlaps_window(start: Ints, end: Ints, low: int | None, high: int | None) -> Bools:
    """Return whether each event overlaps the window ``[low, high)``; None opens a side.

    An event without duration overlaps if its instant is in the window.
    """
    inside = np.full(len(start), low is None or low != high)
    if high is not None:
        inside &= start < high
    if low is not None:
        inside &= (start >= low) | (end > low)
    return inside


class OverlapIndex:
    """Finds the events that overlap a window; events are sorted by start."""

    __slots__ = ("_end", "_latest_end_of_block", "_start")

    def __init__(self, start: Ints, end: Ints) -> None:
        self._start, self._end = start, end
        blocks = np.arange(0, len(start), _BLOCK)
        self._latest_end_of_block = np.maximum.reduceat(end, blocks) if len(start) else end

    def positions_within(self, low: int | None, high: int | None) -> Rows:
        """Return the positions of the events that overlap a window."""
        if low is not None and low == high:
            return np.empty(0, dtype=np.intp)
        count = len(self._start)
        stop = count if high is None else int(np.searchsorted(self._start, high, "left"))
        if low is None:
            return np.arange(stop)
        earlier, first = self.positions_running_at(low)
        return np.concatenate((earlier, np.arange(first, stop)))

    def positions_running_at(self, time: int) -> tuple[Rows, int]:
        """Return the events that start before a time and run at it, and the first later event."""
        first = int(np.searchsorted(self._start, time, "left"))
        # Few blocks have an event that still runs.
        blocks = np.flatnonzero(self._latest_end_of_block[: math.ceil(first / _BLOCK)] > time)
        earlier = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        earlier = earlier[: np.searchsorted(earlier, first)]
        return earlier[self._end[earlier] > time], first


class TraceIndex:
    """Events of a rank by kind, window and name; `kind` overrides the kinds in the table."""

    def __init__(self, trace: Trace, kind: Codes | None = None) -> None:
        self._table = trace.table
        self._kind = kind
        self.memo: dict[Any, Any] = {}

    @property
    def kind(self) -> Codes:
        """Kind codes of the events."""
        return self._table.kind if self._kind is None else self._kind

    @cached_property
    def kind_counts(self) -> Ints:
        """Number of events of each kind."""
        return np.bincount(self.kind, minlength=len(KINDS))

    @memoize
    def rows_of_kinds(self, kinds: tuple[str, ...]) -> Rows:
        """Return the events of some kinds, in ascending order; all events if `kinds` is empty."""
        if not kinds:
            return np.arange(len(self._table))
        is_chosen = np.array([kind in kinds for kind in KINDS])
        if kinds == _WORK_KINDS or not set(kinds) <= set(_WORK_KINDS):
            return np.flatnonzero(is_chosen[self.kind])
        # Only a small part of the events is device work, so only that part is searched.
        work = self.rows_of_kinds(_WORK_KINDS)
        rows: Rows = work[is_chosen[self.kind[work]]]
        return rows

    def rows_of_kinds_within(
        self, kinds: tuple[str, ...], low: int | None, high: int | None
    ) -> Rows:
        """Return the events of some kinds that overlap a window, in ascending order."""
        rows = self.rows_of_kinds(kinds)
        if low is None and high is None:
            return rows
        return rows[self._overlap_index(kinds).positions_within(low, high)]

    def rows_running_at(self, time: int) -> Rows:
        """Return the events that start before a time and still run then, in ascending order."""
        return self._overlap_index(()).positions_running_at(time)[0]

    @memoize
    def _overlap_index(self, kinds: tuple[str, ...]) -> OverlapIndex:
        start, end = self._table.start_ns, self._table.end_ns
        rows = self.rows_of_kinds(kinds)
        return OverlapIndex(start[rows], end[rows]) if kinds else OverlapIndex(start, end)

    @memoize
    def union_of_kinds(self, kinds: tuple[str, ...]) -> Intervals:
        """Return the times during which any event of some kinds runs."""
        rows = self.rows_of_kinds(kinds)
        start = self._table.start_ns[rows]
        return union(start, start + self._table.dur_ns[rows])

    @memoize
    def _by_name(self) -> tuple[Rows, Rows]:
        return order_and_bounds(self._table.name, len(self._table.names))

    def rows_named(self, names: Iterable[str]) -> Rows:
        """Return the events with some names, in ascending order."""
        order, bounds = self._by_name()
        wanted = set(names)
        codes = [code for code, name in enumerate(self._table.names.values) if name in wanted]
        rows = [order[bounds[code] : bounds[code + 1]] for code in codes]
        if len(rows) == 1:
            return rows[0]
        return np.sort(np.concatenate([*rows, np.empty(0, dtype=np.intp)]))


@memoize
def trace_index(trace: Trace) -> TraceIndex:
    """Return the index of a rank."""
    return TraceIndex(trace)


@memoize
def device_trace_index(trace: Trace) -> TraceIndex:
    """Return an index of a rank that does not count host collectives as communication.

    They do not keep a device busy, and the time between them is not device idle time.
    """
    table, index = trace.table, trace_index(trace)
    if any(track.stream >= 0 for track in table.tracks):
        return index
    of_devices = taxonomy.kind_codes(
        table.category, table.name, table.categories.values, table.names.values, of_devices=True
    )
    return index if np.array_equal(of_devices, index.kind) else TraceIndex(trace, of_devices)
