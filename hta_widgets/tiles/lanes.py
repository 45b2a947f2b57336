"""Lanes of events, asyncs, instants, counters and waits, indexed for cells of any zoom.

A lane of one kind without overlaps takes 20 bytes per event, other lanes up to 44. Stores keep the
lanes of folded ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hta_widgets import taxonomy
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.layout import LaneRef, RankLayout, folded_lanes
from hta_widgets.trace.arrays import Array, Bools, Codes, Floats, Ints
from hta_widgets.trace.columns import AsyncTable, EventTable, InstantTable, StringPool
from hta_widgets.trace.intervals import (
    IntervalIndex,
    IntervalUnion,
    index_intervals,
    union_of_sorted,
)
from hta_widgets.trace.memo import LRU

if TYPE_CHECKING:
    from hta_widgets.tiles.lateness import LatenessIndex

BLOCK = 64
KEEPS_NO_ROWS = "this lane sends no slices and keeps no rows"
EventRows = npt.NDArray[np.int32]
Positions = npt.NDArray[np.intp]
FOLDED_ROLES = ("gpu", "comm", "cpu")
_COMMUNICATION = KINDS.index("communication")
_ANNOTATION = KINDS.index("annotation")
RowIds = npt.NDArray[np.integer]
#: Version of the stored lanes; raise it with any change of the arrays or their order.
VERSION = 1
#: Name of the entry of a rank's file with the position of each lane in the columns.
FACT = "lanes"
_COLUMNS: dict[str, npt.DTypeLike] = {
    "lanes.ns": np.int64,
    "lanes.rows": np.int32,
    "lanes.kinds": np.uint8,
}
_NS, _ROWS, _KINDS = _COLUMNS
_NO_ITEM = -1
#: An item of a stored lane: a number, or a column and the array to store in it.
Item = int | tuple[str, Array | None]
_OTHER = KINDS.index("other")
_OPEN_BLOCK = 4096
#: Roles of lanes with rows of the rank's event table.
OF_EVENTS = ("events", *FOLDED_ROLES)
#: Maximum number of tables of columns in memory, enough for the ranks on a screen.
MAX_TABLES = 64
#: The class of each event of a rank as a code, by row.
Classes = npt.NDArray[np.uint8]


@dataclass(slots=True, frozen=True)
class KindIndex:
    """Index by kind of a lane of several kinds.

    For the kind with the most events, only arrays that cannot be computed from the others are kept.
    """

    major: int
    #: Union of the major kind; None if the lane's events do not overlap.
    major_cover: IntervalUnion | None
    minor: tuple[tuple[int, IntervalIndex], ...]
    #: Kind of each event of length 0, by time, then kind.
    of_points: Codes

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        cover = 0 if self.major_cover is None else self.major_cover.nbytes
        return cover + self.of_points.nbytes + sum(spans.nbytes for _, spans in self.minor)


@dataclass(slots=True, frozen=True)
class EventLane:
    """Events of a lane. No array is a view of the table, which may be released before the lane."""

    spans: IntervalIndex
    #: The only kind, or the most frequent one.
    kind: int
    #: None for a lane of one kind.
    kinds: KindIndex | None
    #: Rows in the rank's table of events with a length; None for lanes without slices.
    rows: EventRows | None
    #: Longest duration of each block of 64 of `rows`.
    longest: Ints
    #: Durations of `rows`; None if no events overlap, since `spans` then contains the durations.
    durs: Ints | None

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        arrays = [array for array in (self.rows, self.durs) if array is not None]
        kinds = 0 if self.kinds is None else self.kinds.nbytes
        return self.spans.nbytes + kinds + self.longest.nbytes + sum(a.nbytes for a in arrays)

    def rows_of(self, at: Positions) -> EventRows:
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
        """Return positions in `rows` of events of `at_least` ns or more that overlap a window."""
        if self.rows is None or not len(self.rows) or end <= start:
            return np.empty(0, np.intp)
        begins = self.spans.sorted_starts
        piece = max(int(self.spans.cover.starts.searchsorted(start, "right")) - 1, 0)
        # Events that overlap the window began in the piece of the union at its start, or later.
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

    def overlap_mask(self, at: Positions) -> Bools:
        """Return which of the events at these positions begin before an earlier one ended."""
        if self.spans.is_disjoint:
            return np.zeros(len(at), np.bool_)
        begins, pieces = self.spans.sorted_starts, self.spans.cover.starts
        piece = pieces.searchsorted(begins[at], "right") - 1
        late: Bools = begins.searchsorted(pieces[piece]) != at
        return late


@dataclass(slots=True, frozen=True)
class CounterLane:
    """Samples of one counter, a step function of time until `end`, the end of the rank's data."""

    times: Ints
    values: Floats
    end: int

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return self.times.nbytes + self.values.nbytes

    def measure(self, edges: Ints) -> tuple[Floats, Floats]:
        """Return the smallest and largest value held between neighbouring `edges`; NaN for none."""
        low, high = edges[:-1], np.minimum(edges[1:], self.end)
        first, last = self.times.searchsorted(low), self.times.searchsorted(high)
        padded = np.append(self.times, np.iinfo(np.int64).max)
        # A cell without a sample at its start begins with the value of the sample before.
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


def index_lane(
    starts: Ints, durs: Ints, kinds: Codes, rows: npt.NDArray[np.integer] | None
) -> EventLane:
    """Index the events of a lane, in lane order: by start, then longest first.

    `rows` are their rows in the table; None for a lane without slices.
    """
    spans = index_intervals(starts, durs)
    kept, longest, own = None, np.empty(0, np.int64), None
    if rows is not None:
        long = durs > 0
        kept = np.ascontiguousarray(rows[long], np.int32)
        with_length = durs[long]
        longest = _block_maxima(with_length)
        own = None if spans.is_disjoint else with_length
    counts = np.bincount(kinds, minlength=1)
    major = int(counts.argmax())
    mixed = None
    if counts[major] < len(kinds):
        mixed = _kind_index(starts, durs, kinds, major=major, disjoint=spans.is_disjoint)
    return EventLane(spans, major, mixed, kept, longest, own)


def index_counter(times: Ints, values: Floats, end: int) -> CounterLane:
    """Index the samples of one series, sorted by time; `end` is the end of the rank's data."""
    return CounterLane(times, values, max(end, int(times[-1]) + 1 if len(times) else end))


class LaneBudget:
    """Lanes and tables in memory, shared by the ranks of a job; `limit` is in bytes of lanes."""

    def __init__(self, limit: int) -> None:
        self.lanes: LRU[Hashable, list[AnyLane]] = LRU(
            limit, lambda lanes: sum(lane.nbytes for lane in lanes)
        )
        self.tables: LRU[Hashable, Any] = LRU(MAX_TABLES)


@dataclass(slots=True, frozen=True)
class Rows:
    """One of a rank's tables as intervals: events, asyncs or instants."""

    table: str
    start_ns: Ints  # since the trace's own zero
    dur_ns: Ints
    name: npt.NDArray[np.integer]
    category: npt.NDArray[np.integer]
    kind: Codes
    record: Ints
    names: StringPool
    categories: StringPool


class NamedRows(NamedTuple):
    """Name and kind of the events of a rank."""

    name: npt.NDArray[np.integer]
    kind: Codes
    names: StringPool


class RankIndex:
    """Indexes the lanes of a rank when they are first needed.

    `lateness` returns the job's matched collectives; it is called for lanes of waits only.
    """

    def __init__(
        self, rank: RankLayout, budget: LaneBudget, lateness: Callable[[], LatenessIndex]
    ) -> None:
        self.rank = rank
        self._budget = budget
        self._lateness = lateness
        self._overlays: dict[LaneRef, Rows] = {}

    # --- tables -----------------------------------------------------------------------------------

    def rows(self, table: str) -> Rows:
        """Return a table by its name in the protocol."""
        match table:
            case "events":
                return self.events
            case "asyncs":
                return self.asyncs
            case "instants":
                return self.instants
            case _:
                raise ValueError(f"no table {table!r}; the tables are events, asyncs, instants")

    @property
    def events(self) -> Rows:
        """Complete events."""
        # Kept in the budget, so that columns of stored ranks out of view are released.
        rows: Rows = self._budget.tables.get_or_compute(("events", self.rank.rank), self._events)
        return rows

    def _events(self) -> Rows:
        t = self.rank.table
        return Rows(
            "events",
            t.start_ns,
            t.dur_ns,
            t.name,
            t.category,
            t.kind,
            t.record,
            t.names,
            t.categories,
        )

    @cached_property
    def asyncs(self) -> Rows:
        """Async intervals; those without an end have length 0."""
        table = self.rank.trace.async_table
        return self._side_rows("asyncs", table, table.start_ns, np.maximum(table.dur_ns, 0))

    @cached_property
    def instants(self) -> Rows:
        """Instants, as intervals of length 0."""
        table = self.rank.trace.instant_table
        return self._side_rows("instants", table, table.time_ns, np.zeros(len(table), np.int64))

    def _side_rows(
        self, name: str, table: AsyncTable | InstantTable, starts: Ints, durs: Ints
    ) -> Rows:
        names, categories = self.rank.table.names, self.rank.table.categories
        kind = np.full(len(table), _OTHER, np.uint8)
        # Only intervals that readers derived, which have no record, have a known kind.
        derived = np.flatnonzero(table.record < 0)
        kind[derived] = taxonomy.kind_codes(
            table.category[derived], table.name[derived], categories.values, names.values
        )
        return Rows(
            name, starts, durs, table.name, table.category, kind, table.record, names, categories
        )

    @cached_property
    def name_counts(self) -> list[Ints]:
        """Numbers of events, asyncs and instants by code of the name."""
        size = len(self.rank.table.names)
        return [
            np.bincount(table.name, minlength=size)
            for table in (self.events, self.asyncs, self.instants)
        ]

    def table_of(self, ref: LaneRef) -> Rows:
        """Return the table that a lane's rows belong to."""
        if ref.role in {"wait", "late"}:
            return self._overlay(ref)
        return self.rows({"async": "asyncs", "instant": "instants"}.get(ref.role, "events"))

    def names_of_lane(self, ref: LaneRef) -> Rows | NamedRows:
        """Return the names and kinds of a lane's rows without reading other columns."""
        if ref.role not in OF_EVENTS:
            return self.table_of(ref)
        table = self.rank.table
        named: NamedRows = self._budget.tables.get_or_compute(
            ("named", self.rank.rank), lambda: NamedRows(table.name, table.kind, table.names)
        )
        return named

    def _overlay(self, ref: LaneRef) -> Rows:
        """Return the waits or delays of a lane as a table, one row each."""
        known = self._overlays.get(ref)
        if known is not None:
            return known
        pieces = self._lateness().pieces(self.rank.rank, ref.role, folded=not ref.sources)
        events = self.events
        if ref.sources:
            pieces = pieces.select_rows(self.rank.table.track == ref.sources[0])
        rows = pieces.row
        self._overlays[ref] = made = replace(
            events,
            table=ref.role,
            start_ns=pieces.start,
            dur_ns=pieces.dur,
            name=events.name[rows],
            category=events.category[rows],
            kind=events.kind[rows],
            record=events.record[rows],
        )
        return made

    # --- lanes ------------------------------------------------------------------------------------

    def lane(self, lane: int) -> tuple[LaneRef, AnyLane]:
        """Return a lane's role and source, and its index."""
        ref = self.rank.ref(lane)
        # All depths of a track are indexed together, as they are shown together.
        key = (self.rank.rank, ref.role, ref.sources)
        lanes = self._budget.lanes.get(key)
        if lanes is None:
            lanes = self._budget.lanes.put(key, self._make(ref))
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
                made = self._by_depth(ref.sources[0], events, slices=False)
            else:
                made = [self._lane(events, self.rows_of_lane(ref), slices=False)]
            lanes = self._budget.lanes.put(key, made)
        found = lanes[ref.depth]
        return found if isinstance(found, EventLane) else None

    def rows_of_lane(self, ref: LaneRef) -> RowIds:
        """Return the rows of a lane of events, asyncs or instants, in lane order."""
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
        """Return the lane of each async or instant."""
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
        return device_rows(self.rank.table).astype(np.int32)  # kept for each rank

    def _make(self, ref: LaneRef) -> list[AnyLane]:
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
                return [self._lane(self.asyncs, self.rows_of_lane(one)) for one in refs]
            case _:
                return [self._lane(self.table_of(ref), self.rows_of_lane(ref))]

    def _folded_lane(self, ref: LaneRef) -> EventLane:
        # All lanes of the rank's file are read together, as they are shown together.
        kept = stored_lanes(self.rank.table)
        for other, lane in kept.items():
            key = (self.rank.rank, other.role, other.sources)
            if other != ref and self._budget.lanes.get(key) is None:
                self._budget.lanes.put(key, [lane])
        found = kept.get(ref)
        return folded_lane(self.rank.table, ref, self.device_rows) if found is None else found

    def _by_depth(self, track: int, events: Rows, *, slices: bool = True) -> list[AnyLane]:
        table = self.rank.table
        rows = np.flatnonzero(table.track == track)
        depth = table.depth[rows]
        order = np.argsort(depth, kind="stable")
        rows = rows[order]
        first = np.searchsorted(depth[order], np.arange(table.tracks[track].lanes + 1))
        return [
            self._lane(events, rows[first[k] : first[k + 1]], slices=slices)
            for k in range(len(first) - 1)
        ]

    @staticmethod
    def _lane(table: Rows, rows: RowIds, *, slices: bool = True) -> EventLane:
        starts, durs, kinds = table.start_ns[rows], table.dur_ns[rows], table.kind[rows]
        return index_lane(starts, durs, kinds, rows if slices else None)

    def _counter(self, series: int) -> CounterLane:
        table = self.rank.trace.counter_table
        first, last = np.searchsorted(table.series_id, (series, series + 1))
        end = self.rank.range_ns[1] - self.rank.shift_ns
        return index_counter(table.time_ns[first:last], table.value[first:last], end)

    # --- events at an instant ---------------------------------------------------------------------

    def rows_running_at(self, time_ns: int) -> Positions:
        """Return the rows of events that began before an instant and still run then."""
        table = self.rank.table
        before = int(table.start_ns.searchsorted(time_ns))
        blocks = np.flatnonzero(self._last_ends[: -(-before // _OPEN_BLOCK)] > time_ns)
        if not len(blocks):
            return np.empty(0, np.intp)
        at = (blocks[:, None] * _OPEN_BLOCK + np.arange(_OPEN_BLOCK)).ravel()
        at = at[at < before]
        still: Positions = at[table.start_ns[at] + table.dur_ns[at] > time_ns]
        return still

    @cached_property
    def _last_ends(self) -> Ints:
        table = self.rank.table
        if not len(table):
            return np.empty(0, np.int64)
        return np.maximum.reduceat(table.end_ns, np.arange(0, len(table), _OPEN_BLOCK))


def device_rows(table: EventTable) -> RowIds:
    """Return the rows of the events on device streams."""
    on_stream = np.array([track.role == "stream" for track in table.tracks], np.bool_)
    if not on_stream.any():
        return np.empty(0, np.intp)
    return np.flatnonzero(on_stream.take(table.track))


def folded_rows(table: EventTable, ref: LaneRef, device: RowIds) -> RowIds:
    """Return the rows of a lane of a folded rank, in lane order; `device` is `device_rows`."""
    if ref.role == "cpu":
        member: Bools = np.isin(np.arange(len(table.tracks)), ref.sources)
        member = member.take(table.track)
        return np.flatnonzero(member if ref.annotations else member & (table.kind != _ANNOTATION))
    communicates = table.kind.take(device) == _COMMUNICATION
    chosen: RowIds = device[communicates if ref.role == "comm" else ~communicates]
    return chosen


def folded_lane(table: EventTable, ref: LaneRef, device: RowIds) -> EventLane:
    """Return an indexed lane of a folded rank; see `folded_rows`."""
    rows = folded_rows(table, ref, device)
    return index_lane(
        table.start_ns.take(rows),
        table.dur_ns.take(rows),
        table.kind.take(rows),
        None if ref.role == "cpu" else rows,
    )


def stored_lane_columns(table: EventTable) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return columns with the indexed lanes of a folded rank, and each lane's position in them."""
    device = device_rows(table)
    arrays = {name: [np.empty(0, dtype)] for name, dtype in _COLUMNS.items()}
    lanes = []
    for ref in folded_lanes(table):
        begin = {name: sum(map(len, values)) for name, values in arrays.items()}
        numbers = []
        for item in _lane_items(folded_lane(table, ref, device)):
            if isinstance(item, int):
                numbers.append(item)
                continue
            column, values = item
            numbers.append(_NO_ITEM if values is None else len(values))
            if values is not None:
                arrays[column].append(values)
        lanes.append([ref.role, ref.sources, ref.annotations, begin, numbers])
    columns = {name: np.concatenate(arrays[name], dtype=dtype) for name, dtype in _COLUMNS.items()}
    return columns, {"version": VERSION, "lanes": lanes}


def stored_lanes(table: EventTable) -> dict[LaneRef, EventLane]:
    """Return the lanes in the file of a stored rank; none if they are missing or damaged."""
    file = table.file
    if file is None:
        return {}
    try:
        fact: Mapping[str, Any] | None = file.fact(FACT)
        if fact is None or fact["version"] != VERSION:
            return {}
        columns = {name: file.read(name) for name in _COLUMNS}
        return {
            LaneRef(role, tuple(sources), annotations=annotations): _Reader(
                columns, begin, numbers
            ).lane()
            for role, sources, annotations, begin, numbers in fact["lanes"]
        }
    except Exception:  # noqa: BLE001 - files may be damaged in any way; lanes are computed then
        return {}


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


def _block_maxima(durs: Ints) -> Ints:
    if not len(durs):
        return np.empty(0, np.int64)
    return np.maximum.reduceat(durs, np.arange(0, len(durs), BLOCK))


def _lane_items(lane: EventLane) -> Iterator[Item]:
    """Yield the numbers and arrays of a lane in the order in which `_Reader` takes them."""
    yield from _span_items(lane.spans)
    yield lane.kind
    yield _ROWS, lane.rows
    yield _NS, lane.longest
    yield _NS, lane.durs
    yield _NO_ITEM if lane.kinds is None else lane.kinds.major
    if lane.kinds is not None:
        yield from _cover_items(lane.kinds.major_cover)
        yield len(lane.kinds.minor)
        for code, spans in lane.kinds.minor:
            yield code
            yield from _span_items(spans)
        yield _KINDS, lane.kinds.of_points


def _span_items(spans: IntervalIndex) -> Iterator[Item]:
    yield from _cover_items(spans.cover)
    for values in (spans.starts, spans.ends, spans.points):
        yield _NS, values


def _cover_items(cover: IntervalUnion | None) -> Iterator[Item]:
    yield _NS, None if cover is None else cover.starts
    yield _NS, None if cover is None else cover.prefix


class _Reader:
    """Reads a lane from the columns of a store, from the positions `begin` on."""

    def __init__(
        self, columns: dict[str, Array], begin: dict[str, int], numbers: list[int]
    ) -> None:
        self._columns = columns
        self._at = dict(begin)
        self._numbers = iter(numbers)

    def lane(self) -> EventLane:
        spans, kind = self._spans(), self._kind()
        rows, longest, durs = self._array(_ROWS), self._array(_NS), self._array(_NS)
        if rows is not None:
            _require(len(rows) == len(spans.sorted_starts))
            _require(len(longest) == -(-len(rows) // BLOCK))
            _require(spans.is_disjoint if durs is None else len(durs) == len(rows))
        kinds, major = None, next(self._numbers)
        if major != _NO_ITEM:
            cover = self._cover()
            _require(spans.is_disjoint or cover is not None)
            count = next(self._numbers)
            minor = tuple((self._kind(), self._spans()) for _ in range(count))
            kinds = KindIndex(major, cover, minor, self._array(_KINDS))
            _require(0 <= major < len(KINDS))
            _require(len(kinds.of_points) == len(spans.points))
        return EventLane(spans, kind, kinds, rows, longest, durs)

    def _kind(self) -> int:
        kind = next(self._numbers)
        _require(0 <= kind < len(KINDS))
        return kind

    def _spans(self) -> IntervalIndex:
        cover = self._cover()
        if cover is None:
            raise ValueError("expected the cover of spans, got none")
        starts, ends, points = self._array(_NS), self._array(_NS), self._array(_NS)
        if starts is not None:
            _require(
                len(starts) == len(ends) and _require_ascending(starts) and _require_ascending(ends)
            )
        _require(_require_ascending(points))
        return IntervalIndex(cover, starts, ends, points)

    def _cover(self) -> IntervalUnion | None:
        starts, prefix = self._array(_NS), self._array(_NS)
        if starts is None:
            return None
        _require(len(prefix) == len(starts) + 1 and prefix[0] == 0 and _require_ascending(prefix))
        cover = IntervalUnion(starts, prefix)
        _require(bool(np.all(cover.ends[:-1] <= starts[1:])))
        return cover

    def _array(self, column: str) -> Any:
        length = next(self._numbers)
        if length == _NO_ITEM:
            return None
        first = self._at[column]
        _require(0 <= first <= first + length <= len(self._columns[column]))
        self._at[column] = first + length
        return self._columns[column][first : first + length]


def _require(condition: bool) -> None:  # noqa: FBT001
    if not condition:
        raise ValueError("the stored lanes do not fit the events")


def _require_ascending(values: Ints) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))


AnyLane = EventLane | CounterLane
