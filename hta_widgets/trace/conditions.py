"""`Conditions` that select events of a trace set, and indexes of events by kind and window.

`hta_widgets.trace.traceset` binds conditions to a trace set, as a `Selection`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import taxonomy
from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import as_ns
from hta_widgets.trace.arrays import Bools, Codes, Ints, Rows, mask_of_rows, order_and_bounds
from hta_widgets.trace.event_columns import EVENT_COLUMNS, columns_in, query_mask
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.intervals import Intervals, union
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.query import QueryClauses, parse_clauses
from hta_widgets.trace.trace import Trace, event_frame, events_of

#: Number of events per block of `OverlapIndex`, which stores the latest end of each block.
_BLOCK = 256
_WORK_KINDS = KINDS[:3]
CONDITIONS = ("start_ns", "end_ns", "ranks", "tracks", "query", "ids", "launches")


@dataclass(frozen=True)
class Conditions:
    """Conditions that events must satisfy; a field of None means "all". See `Selection`."""

    start_ns: int | None = None
    end_ns: int | None = None
    ranks: tuple[int, ...] | None = None
    tracks: frozenset[str | tuple[int, str]] | None = None
    query: str | None = None
    ids: frozenset[tuple[int, int]] | None = None
    #: not a condition; declared here for the order of the parameters of `Selection`
    traces: Mapping[int, Trace] | None = field(default=None, repr=False, compare=False)
    launches: bool = False

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for name in ("start_ns", "end_ns"):
            if (time := getattr(self, name)) is not None:
                put(name, as_ns(time))
        if self.start_ns is not None and self.end_ns is not None and self.end_ns < self.start_ns:
            raise TraceError(
                f"the window ends ({self.end_ns} ns) before it starts ({self.start_ns} ns)",
                remedy="Swap start_ns and end_ns.",
            )
        if self.ranks is not None:
            put("ranks", tuple(normalize_ranks(self.ranks)))
        if self.tracks is not None:
            is_single = isinstance(self.tracks, str) or not isinstance(self.tracks, Iterable)
            tracks = [self.tracks] if is_single else self.tracks
            put("tracks", frozenset(_checked_track(item) for item in tracks))
        if self.ids is not None:
            put("ids", _checked_ids(self.ids))
        if self.query is None and self.ids is None and self.tracks is None:
            put("launches", False)  # without these conditions, all device work is selected

    @property
    def is_everything(self) -> bool:
        """Whether all fields are None."""
        return self == type(self)()

    @check_arguments
    def rows(self, trace: Trace) -> Rows:
        """Return the ids of the member events of `trace`, in ascending order."""
        return member_rows(self, trace)

    @check_arguments
    def mask(self, trace: Trace) -> Bools:
        """Return a mask of the member events of `trace`, by id."""
        return mask_of_rows(member_rows(self, trace), len(trace))

    @cached_property
    def ids_by_rank(self) -> dict[int, Ints]:
        """The ids of each rank in `ids`."""
        ids: dict[int, list[int]] = {}
        for rank, event in self.ids or ():
            ids.setdefault(rank, []).append(event)
        return {rank: np.array(events, dtype=np.int64) for rank, events in ids.items()}

    @check_arguments
    def to_code(self, name: str = "traces") -> str:
        """Return a Python expression that makes this selection from the trace set `name`."""
        arguments = [] if self.query is None else [repr(self.query)]
        for key, value in self.to_json().items():
            if key in {"tracks", "ids"} and value is not None:
                pairs = [tuple(item) if isinstance(item, list) else item for item in value]
                arguments.append(f"{key}={pairs!r}")
            elif key != "query" and value is not None:
                arguments.append(f"{key}={value!r}")
        return f"{name}.select({', '.join(arguments)})"

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict of numbers, strings and lists, without the traces.

        The key ``launches`` is present only if its value is True.
        """
        tracks = sorted(self.tracks or (), key=lambda t: ("", t) if isinstance(t, str) else t[::-1])
        listed_tracks = [item if isinstance(item, str) else list(item) for item in tracks]
        return {
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "ranks": None if self.ranks is None else list(self.ranks),
            "tracks": None if self.tracks is None else listed_tracks,
            "query": self.query,
            "ids": None if self.ids is None else [list(item) for item in sorted(self.ids)],
            **({"launches": True} if self.launches else {}),
        }

    def __getstate__(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in CONDITIONS}, "traces": None}


def normalize_ranks(ranks: object) -> list[int]:
    """Return one or more ranks as an ascending list without duplicates."""
    if isinstance(ranks, (int, np.integer)):
        return [int(ranks)]
    if isinstance(ranks, Iterable) and not isinstance(ranks, (str, bytes)):
        numbers = list(ranks)
        if all(isinstance(rank, Real) and rank % 1 == 0 for rank in numbers):
            return sorted(set(map(int, numbers)))
    raise TraceError(
        f"{ranks!r} is not a list of ranks",
        remedy="Give a number or a list of numbers: ranks=[0, 3].",
    )


def resolve_ranks(traces: Mapping[int, Trace], ranks: Iterable[int] | int | None) -> list[int]:
    """Return `ranks` as an ascending list (None: all); raise `TraceError` for a missing rank."""
    if ranks is None:
        return list(traces)
    requested = normalize_ranks(ranks)
    missing = [rank for rank in requested if rank not in traces]
    if missing:
        raise TraceError(
            f"no rank {format_ranks(missing)}",
            remedy=f"The ranks are {format_ranks(list(traces))}.",
        )
    return requested


def format_ranks(ranks: list[int]) -> str:
    """Return ranks as text; if there are more than 16, only the first twelve and the last."""
    if len(ranks) <= 16:
        return ", ".join(map(str, ranks)) or "none"
    return f"{', '.join(map(str, ranks[:12]))}, … {ranks[-1]} ({len(ranks)} in all)"


def check_query(traces: Mapping[int, Trace], query: str) -> None:
    """Raise a `TraceError` if a query fails on an empty frame, and hence on any events."""
    no_events = events_of([])
    for trace in list(traces.values())[:1]:
        columns = dict.fromkeys((*EVENT_COLUMNS, *columns_in(query)))
        no_events = event_frame(trace, slice(0, 0), columns)
        no_events.insert(0, "rank", trace.rank)
    query_mask(no_events, query)


def window_in_table_time(conditions: Conditions, trace: Trace) -> tuple[int | None, int | None]:
    """Return the selected window on the time axis of `trace`'s table."""
    start, end, shift = conditions.start_ns, conditions.end_ns, trace.shift_ns
    return None if start is None else start - shift, None if end is None else end - shift


def overlaps_window(start: Ints, end: Ints, low: int | None, high: int | None) -> Bools:
    """Return whether each event overlaps the window ``[low, high)``; None leaves a side open.

    An event without duration overlaps if its instant is in the window.
    """
    inside = np.full(len(start), low is None or low != high)  # an empty window has no events
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
        """Return the events that start before a time and outlast it, and the first later event."""
        first = int(np.searchsorted(self._start, time, "left"))
        # Few blocks have an event that still runs.
        blocks = np.flatnonzero(self._latest_end_of_block[: math.ceil(first / _BLOCK)] > time)
        earlier = (blocks[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
        earlier = earlier[: np.searchsorted(earlier, first)]
        return earlier[self._end[earlier] > time], first


class TraceIndex:
    """Finds events of a rank by kind, window and name; `kind` overrides the table's kinds."""

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
        """Return events of the given kinds, in ascending order; all events if `kinds` is empty."""
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
        """Return the events of the given kinds that overlap a window, in ascending order."""
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
        """Return the times during which any event of the given kinds runs."""
        rows = self.rows_of_kinds(kinds)
        start = self._table.start_ns[rows]
        return union(start, start + self._table.dur_ns[rows])

    @memoize
    def _by_name(self) -> tuple[Rows, Rows]:
        return order_and_bounds(self._table.name, len(self._table.names))

    def rows_named(self, names: Iterable[str]) -> Rows:
        """Return the events with the given names, in ascending order."""
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


def member_rows(conditions: Conditions, trace: Trace) -> Rows:
    """Return the selected events of a rank, in ascending order."""
    rows = _matching_rows(conditions, trace)
    if not conditions.launches:
        return rows
    launched = _launched_rows(replace(conditions, start_ns=None, end_ns=None), trace)
    start, end = trace.table.start_ns[launched], trace.table.end_ns[launched]
    is_within = overlaps_window(start, end, *window_in_table_time(conditions, trace))
    return np.union1d(rows, launched[is_within])


def _launched_rows(conditions: Conditions, trace: Trace) -> Rows:
    """Return the device work launched by matching operators or by operators below them."""
    tree, table = operator_tree(trace), trace.table
    is_chosen = mask_of_rows(_matching_rows(conditions, trace), len(table))[tree.rows]
    for members in tree.forest.levels[1:]:
        is_chosen[members] |= is_chosen[tree.forest.parent[members]]
    work = np.flatnonzero((table.stream >= 0) & (table.kind <= KINDS.index("memory")))
    operator = tree.innermost[trace.launch_of[work]]
    has_operator = operator >= 0
    return work[has_operator][is_chosen[operator[has_operator]]]


def _matching_rows(conditions: Conditions, trace: Trace) -> Rows:
    """Return the events that satisfy all conditions, excluding work that `launches` adds."""
    if conditions.ranks is not None and trace.rank not in conditions.ranks:
        return np.empty(0, dtype=np.intp)
    clauses = QueryClauses() if conditions.query is None else parse_clauses(conditions.query)
    low, high = window_in_table_time(conditions, trace)
    rows, remaining = _rows_from_index(trace, clauses, low, high)
    if conditions.tracks is not None:
        keys = ((track.key, (trace.rank, track.key)) for track in trace.table.tracks)
        is_chosen = [not conditions.tracks.isdisjoint(keys_of_track) for keys_of_track in keys]
        rows = rows[np.array(is_chosen, dtype=bool)[trace.table.track[rows]]]
    if conditions.ids is not None:
        rows = np.intersect1d(rows, conditions.ids_by_rank.get(trace.rank, rows[:0]))
    return _rows_of_clauses(trace, rows, remaining)


def _rows_from_index(
    trace: Trace, clauses: QueryClauses, low: int | None, high: int | None
) -> tuple[Rows, QueryClauses]:
    """Return the events of a window that satisfy at most one clause, and the other clauses."""
    index = trace_index(trace)
    # The rest of a query may compare events with each other, so it is evaluated on all of them.
    if clauses.rest is None and clauses.names is not None:
        rows = index.rows_named(clauses.names)
        start, end = trace.table.start_ns[rows], trace.table.end_ns[rows]
        return rows[overlaps_window(start, end, low, high)], replace(clauses, names=None)
    if clauses.rest is None and clauses.kinds is not None:
        kinds = tuple(kind for kind in KINDS if kind in clauses.kinds)
        rows = index.rows_of_kinds_within(kinds, low, high) if kinds else np.empty(0, np.intp)
        return rows, replace(clauses, kinds=None)
    return index.rows_of_kinds_within((), low, high), clauses


def _rows_of_clauses(trace: Trace, rows: Rows, clauses: QueryClauses) -> Rows:
    """Return the events in `rows` that satisfy all clauses of a query."""
    if clauses.rest is not None:
        frame = event_frame(trace, rows, columns_in(clauses.rest))
        frame.insert(0, "rank", trace.rank)
        rows = rows[query_mask(frame, clauses.rest)]
    table = trace.table
    if clauses.names is not None:
        names = set(clauses.names)
        is_named = np.array([name in names for name in table.names.values], dtype=bool)
        rows = rows[is_named[table.name[rows]]]
    if clauses.kinds is not None:
        is_of_kind = np.array([kind in clauses.kinds for kind in KINDS], dtype=bool)
        rows = rows[is_of_kind[table.kind[rows]]]
    return rows


def _checked_ids(pairs: Iterable[Any]) -> frozenset[tuple[int, int]]:
    """Return pairs (rank, id) as ints; raise a `TraceError` for other values."""
    try:
        return frozenset((_int64(rank), _int64(row)) for rank, row in pairs)
    except (TypeError, ValueError, OverflowError):
        raise TraceError(
            f"{pairs!r} is not a list of events",
            remedy="Give pairs (rank, id), such as ids=[(0, 17)].",
        ) from None


def _int64(number: Any) -> int:
    integer = int(number)
    if integer != number or not -(1 << 63) <= integer < 1 << 63:
        raise ValueError(f"expected a whole number of 64 bits, got {number!r}")
    return integer


def _checked_track(item: object) -> str | tuple[int, str]:
    """Return a track, or a pair (rank, track); raise a `TraceError` for other values."""
    if isinstance(item, str):
        return item
    if isinstance(item, (tuple, list)) and len(item) == 2:
        with suppress(TypeError, ValueError, OverflowError):
            return _int64(item[0]), str(item[1])
    raise TraceError(
        f"{item!r} is not a track",
        remedy="Give values of the track column, or pairs (rank, track).",
    )


def ids_of_frame(frame: pd.DataFrame, ranks: list[int]) -> frozenset[tuple[int, int]]:
    """Return rank and id of each event in a frame; `ranks` are the ranks of the trace set."""
    if "rank" in frame.columns:
        rank = frame["rank"].to_numpy(dtype=np.int64)
    elif len(ranks) == 1:
        rank = np.full(len(frame), ranks[0], dtype=np.int64)
    else:
        raise TraceError(
            "the frame lacks the ranks of its events", remedy='Keep the column "rank".'
        )
    ids = frame["id"] if "id" in frame.columns else frame.index.to_series()
    return frozenset(zip(rank.tolist(), ids.to_numpy(dtype=np.int64).tolist(), strict=True))
