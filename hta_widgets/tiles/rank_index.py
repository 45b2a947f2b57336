"""Indexes of a rank's lanes, built on first use, and the underlying tables.

`LaneRef` (in `tiles/layout.py`) describes what a lane shows. `RankIndex.lane` builds the
indexes of a lane and of the lanes shown with it. Indexes and tables are cached in a
`LaneBudget`, which all ranks of a job share. The least recently used are evicted and rebuilt on
demand.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hta_widgets import taxonomy
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.lanes import (
    AnyLane,
    CounterLane,
    EventLane,
    index_counter,
    index_lane,
)
from hta_widgets.tiles.lateness import LatenessIndex
from hta_widgets.tiles.layout import LaneRef, RankLayout
from hta_widgets.tiles.stored_lanes import (
    FOLDED_ROLES,
    RowIds,
    device_rows,
    folded_lane,
    folded_rows,
    stored_lanes,
)
from hta_widgets.trace.arrays import Codes, Ints
from hta_widgets.trace.columns import AsyncTable, InstantTable, StringPool
from hta_widgets.trace.memo import LRU

_OTHER = KINDS.index("other")
#: Roles of lanes whose rows are in the event table.
OF_EVENTS = ("events", *FOLDED_ROLES)
#: Maximum number of cached tables, enough for the ranks visible at a time.
MAX_TABLES = 64
#: The class codes of a rank's events, by row.
Classes = npt.NDArray[np.uint8]


class LaneBudget:
    """A cache of lanes and tables for all ranks of a job; `limit` is the size of lanes in bytes."""

    def __init__(self, limit: int) -> None:
        self.lanes: LRU[Hashable, list[AnyLane]] = LRU(
            limit, lambda lanes: sum(lane.nbytes for lane in lanes)
        )
        self.tables: LRU[Hashable, Any] = LRU(MAX_TABLES)


@dataclass(slots=True, frozen=True)
class TableRows:
    """The events, asyncs or instants of a rank as intervals."""

    table: str
    start_ns: Ints  # before the clock shift
    dur_ns: Ints
    name: npt.NDArray[np.integer]
    category: npt.NDArray[np.integer]
    kind: Codes
    record: Ints
    names: StringPool
    categories: StringPool


class NamedRows(NamedTuple):
    """Names and kinds of a rank's events."""

    name: npt.NDArray[np.integer]
    kind: Codes
    names: StringPool


class RankIndex:
    """Indexes the lanes of a rank on first use.

    `lateness` returns the matched collectives of the job. It is only called for lanes of waits.
    """

    def __init__(
        self, rank: RankLayout, budget: LaneBudget, lateness: Callable[[], LatenessIndex]
    ) -> None:
        self.rank = rank
        self._budget = budget
        self._lateness = lateness
        self._overlays: dict[LaneRef, TableRows] = {}

    def rows(self, table: str) -> TableRows:
        """Return a table by its name in the protocol."""
        if table not in {"events", "asyncs", "instants"}:
            raise ValueError(f"no table {table!r}; the tables are events, asyncs, instants")
        rows: TableRows = getattr(self, table)
        return rows

    @property
    def events(self) -> TableRows:
        """Complete events."""
        # Cached in the budget, so that the columns of ranks no longer in view are released.
        rows: TableRows = self._budget.tables.get_or_compute(
            ("events", self.rank.rank), self._events
        )
        return rows

    def _events(self) -> TableRows:
        table = self.rank.table
        columns = {field.name: getattr(table, field.name) for field in fields(TableRows)[1:]}
        return TableRows("events", **columns)

    @cached_property
    def asyncs(self) -> TableRows:
        """Async intervals. Those without an end have zero length."""
        table = self.rank.trace.async_table
        return self._side_rows("asyncs", table, table.start_ns, np.maximum(table.dur_ns, 0))

    @cached_property
    def instants(self) -> TableRows:
        """Instants as intervals of zero length."""
        table = self.rank.trace.instant_table
        return self._side_rows("instants", table, table.time_ns, np.zeros(len(table), np.int64))

    def _side_rows(
        self, name: str, table: AsyncTable | InstantTable, starts: Ints, durs: Ints
    ) -> TableRows:
        names, categories = self.rank.table.names, self.rank.table.categories
        kind = np.full(len(table), _OTHER, np.uint8)
        # Kinds are known only for intervals derived by readers, which have no record.
        derived = np.flatnonzero(table.record < 0)
        kind[derived] = taxonomy.kind_codes(
            table.category[derived], table.name[derived], categories.values, names.values
        )
        return TableRows(
            name, starts, durs, table.name, table.category, kind, table.record, names, categories
        )

    @cached_property
    def name_counts(self) -> list[Ints]:
        """For events, asyncs and instants, the number of occurrences of each name code."""
        size = len(self.rank.table.names)
        tables = self.events, self.asyncs, self.instants
        return [np.bincount(table.name, minlength=size) for table in tables]

    def table_of(self, ref: LaneRef) -> TableRows:
        """Return the table that contains the rows of a lane."""
        if ref.role in {"wait", "late"}:
            return self._overlay(ref)
        return self.rows({"async": "asyncs", "instant": "instants"}.get(ref.role, "events"))

    def names_of_lane(self, ref: LaneRef) -> TableRows | NamedRows:
        """Return the names and kinds of a lane's events without reading their other columns."""
        if ref.role not in OF_EVENTS:
            return self.table_of(ref)
        table = self.rank.table
        named: NamedRows = self._budget.tables.get_or_compute(
            ("named", self.rank.rank), lambda: NamedRows(table.name, table.kind, table.names)
        )
        return named

    def _overlay(self, ref: LaneRef) -> TableRows:
        table = self._overlays.get(ref)
        if table is not None:
            return table
        pieces = self._lateness().pieces(self.rank.rank, ref.role, folded=not ref.sources)
        events = self.events
        if ref.sources:
            pieces = pieces.select_rows(self.rank.table.track == ref.sources[0])
        rows = pieces.row
        self._overlays[ref] = overlay = replace(
            events,
            table=ref.role,
            start_ns=pieces.start,
            dur_ns=pieces.dur,
            name=events.name[rows],
            category=events.category[rows],
            kind=events.kind[rows],
            record=events.record[rows],
        )
        return overlay

    def lane(self, lane: int) -> tuple[LaneRef, AnyLane]:
        """Return the description and the index of a lane."""
        ref = self.rank.ref(lane)
        # Index all depths of a track at once, because they are shown together.
        key = (self.rank.rank, ref.role, ref.sources)
        lanes = self._budget.lanes.get_or_compute(key, lambda: self._index_lanes(ref))
        return ref, lanes[ref.depth]

    def lane_by_class(self, lane: int, classes: Classes) -> EventLane | None:
        """Return a lane of events indexed by `classes` instead of kinds; None for other lanes."""
        ref = self.rank.ref(lane)
        if ref.role not in OF_EVENTS:
            return None
        key = ("classes", self.rank.rank, ref.role, ref.sources)
        lanes = self._budget.lanes.get(key)
        if lanes is None:
            events = replace(self.events, kind=classes)
            if ref.role == "events":
                lanes = self._by_depth(ref.sources[0], events, slices=False)
            else:
                lanes = [self._lane(events, self.rows_of_lane(ref), slices=False)]
            self._budget.lanes.put(key, lanes)
        lane_index = lanes[ref.depth]
        return lane_index if isinstance(lane_index, EventLane) else None

    def rows_of_lane(self, ref: LaneRef) -> RowIds:
        """Return the rows in a lane of events, asyncs or instants, in lane order."""
        table, rank = self.rank.table, self.rank
        rows: RowIds
        match ref.role:
            case "events":
                rows = np.flatnonzero(table.track == ref.sources[0])
                rows = rows[table.depth[rows] == ref.depth]
            case "gpu" | "comm" | "cpu":
                rows = folded_rows(table, ref, self.device_rows)
            case "async":
                group = rank.async_groups[ref.sources[0]]
                rows = group.rows[group.layer == ref.depth]
            case "instant":
                rows = rank.instant_groups[ref.sources[0]]
            case "wait" | "late":
                rows = np.arange(len(self._overlay(ref).start_ns))
            case _:
                raise ValueError("a counter lane has samples, not events")
        return rows

    def side_lanes(self, table: str) -> Ints:
        """Return the lanes of all asyncs or instants, by row."""
        return self._async_lanes if table == "asyncs" else self._instant_lanes

    @cached_property
    def _async_lanes(self) -> Ints:
        lanes = np.full(len(self.rank.trace.async_table), -1, np.int64)
        for track in self.rank.tracks:
            if track.role == "async":
                group = self.rank.async_groups[track.source]
                lanes[group.rows] = track.lane0 + group.layer.astype(np.int64)
        return lanes

    @cached_property
    def _instant_lanes(self) -> Ints:
        lanes = np.full(len(self.rank.trace.instant_table), -1, np.int64)
        for track in self.rank.tracks:
            if track.role == "instant":
                lanes[self.rank.instant_groups[track.source]] = track.lane0
        return lanes

    @cached_property
    def device_rows(self) -> npt.NDArray[np.int32]:
        """Rows of the events on device streams."""
        return device_rows(self.rank.table).astype(np.int32)  # int32 saves memory

    def _index_lanes(self, ref: LaneRef) -> list[AnyLane]:
        match ref.role:
            case "gpu" | "comm" | "cpu":
                return [self._folded_lane(ref)]
            case "counter":
                return [self._counter(ref.sources[0])]
            case "events":
                return self._by_depth(ref.sources[0], self.events)
            case "async":
                layers = self.rank.async_groups[ref.sources[0]].layers
                refs = [LaneRef("async", ref.sources, depth) for depth in range(layers)]
                return [self._lane(self.asyncs, self.rows_of_lane(depth_ref)) for depth_ref in refs]
            case _:
                return [self._lane(self.table_of(ref), self.rows_of_lane(ref))]

    def _folded_lane(self, ref: LaneRef) -> EventLane:
        # Cache all stored lanes at once, because they are shown together.
        stored = stored_lanes(self.rank.table)
        for other, lane in stored.items():
            key = (self.rank.rank, other.role, other.sources)
            if other != ref and self._budget.lanes.get(key) is None:
                self._budget.lanes.put(key, [lane])
        return stored.get(ref) or folded_lane(self.rank.table, ref, self.device_rows)

    def _by_depth(self, track: int, events: TableRows, *, slices: bool = True) -> list[AnyLane]:
        table = self.rank.table
        rows = np.flatnonzero(table.track == track)
        depth = table.depth[rows]
        order = np.argsort(depth, kind="stable")
        rows = rows[order]
        first = np.searchsorted(depth[order], np.arange(table.tracks[track].lanes + 1))
        rows_by_depth = np.split(rows, first[1:-1])
        return [self._lane(events, of_depth, slices=slices) for of_depth in rows_by_depth]

    @staticmethod
    def _lane(table: TableRows, rows: RowIds, *, slices: bool = True) -> EventLane:
        starts, durs, kinds = table.start_ns[rows], table.dur_ns[rows], table.kind[rows]
        return index_lane(starts, durs, kinds, rows if slices else None)

    def _counter(self, series: int) -> CounterLane:
        table = self.rank.trace.counter_table
        first, last = np.searchsorted(table.series_id, (series, series + 1))
        end = self.rank.range_ns[1] - self.rank.shift_ns
        return index_counter(table.time_ns[first:last], table.value[first:last], end)
