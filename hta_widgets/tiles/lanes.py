"""What a lane holds, indexed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hta_widgets import taxonomy
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.layout import LaneRef, Rank, folded
from hta_widgets.trace.columns import AsyncTable, EventTable, InstantTable, Pool
from hta_widgets.trace.intervals import Cover, Ints, Spans, cover_of, spans_of
from hta_widgets.trace.memo import LRU

if TYPE_CHECKING:
    from hta_widgets.tiles.lateness import Lateness

BLOCK = 64
KEEPS_NO_ROWS = "this lane sends no slices and keeps no rows"

EventRows = npt.NDArray[np.int32]
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
    rows: EventRows | None
    longest: Ints
    durs: Ints | None

    @property
    def nbytes(self) -> int:
        """Memory of its arrays."""
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


FOLDED_ROLES = ("gpu", "comm", "cpu")

_COMMUNICATION = KINDS.index("communication")
_ANNOTATION = KINDS.index("annotation")

RowIds = npt.NDArray[np.integer]


def device_rows(table: EventTable) -> RowIds:
    """Return the rows of the events on device streams."""
    on_stream = np.array([track.role == "stream" for track in table.tracks], np.bool_)
    if not on_stream.any():
        return np.empty(0, np.intp)
    return np.flatnonzero(on_stream.take(table.track))


def folded_rows(table: EventTable, ref: LaneRef, device: RowIds) -> RowIds:
    """Return the rows of a lane of a folded rank, in lane order.

    Parameters
    ----------
    table : EventTable
    ref : LaneRef
        Of a role in `FOLDED_ROLES`.
    device : array of int
        What `device_rows` returned.
    """
    if ref.role == "cpu":
        return np.flatnonzero(_on_host(table, ref))
    communicates = table.kind.take(device) == _COMMUNICATION
    chosen: RowIds = device[communicates if ref.role == "comm" else ~communicates]
    return chosen


def _on_host(table: EventTable, ref: LaneRef) -> npt.NDArray[np.bool_]:
    member: npt.NDArray[np.bool_]
    if len(ref.sources) == 1:
        member = table.track == ref.sources[0]
    else:
        chosen = np.zeros(len(table.tracks), np.bool_)
        chosen[list(ref.sources)] = True
        member = chosen.take(table.track)
    return member if ref.annotations else member & (table.kind != _ANNOTATION)


def folded_lane(table: EventTable, ref: LaneRef, device: RowIds) -> Lane:
    """Return a lane of a folded rank, indexed; the arguments are those of `folded_rows`."""
    rows = folded_rows(table, ref, device)
    return index_lane(
        table.start_ns.take(rows),
        table.dur_ns.take(rows),
        table.kind.take(rows),
        None if ref.role == "cpu" else rows,
    )


#: Grows whenever the same events would give other arrays, or the same arrays be read otherwise.
VERSION = 1
#: What says where in the columns each lane is.
FACT = "lanes"

_COLUMNS: dict[str, npt.DTypeLike] = {
    "lanes.ns": np.int64,
    "lanes.rows": np.int32,
    "lanes.kinds": np.uint8,
}
_NS, _ROWS, _KINDS = _COLUMNS
_NONE = -1

Array = npt.NDArray[Any]


def kept_columns(table: EventTable) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the columns that hold a rank's folded lanes, and what says where they are in them."""
    device = device_rows(table)
    writer = _Writer()
    lanes = []
    for ref in folded(table):
        begin = writer.place
        _write_lane(writer, folded_lane(table, ref, device))
        lanes.append([ref.role, ref.sources, ref.annotations, begin, writer.tape()])
    return writer.columns(), {"version": VERSION, "lanes": lanes}


def kept_lanes(table: EventTable) -> dict[LaneRef, Lane]:
    """Return the lanes that the file of a stored rank holds; none where it holds no table as this.

    What is damaged, missing or of another version does not count: what it was made of is there.
    """
    file = table.file
    if file is None:
        return {}
    try:
        fact: Mapping[str, Any] | None = file.fact(FACT)
        if fact is None or fact["version"] != VERSION:
            return {}
        columns = {name: file.read(name) for name in _COLUMNS}
    except TraceError:
        return {}
    return {
        LaneRef(role, tuple(sources), annotations=annotations): _read_lane(
            _Reader(columns, begin, tape)
        )
        for role, sources, annotations, begin, tape in fact["lanes"]
    }


class _Writer:
    """Lays arrays one behind the other into the column of their type, and notes their lengths."""

    def __init__(self) -> None:
        self._arrays: dict[str, list[Array]] = {name: [] for name in _COLUMNS}
        self._lengths = dict.fromkeys(_COLUMNS, 0)
        self._tape: list[int] = []

    @property
    def place(self) -> dict[str, int]:
        """Where in each column the next array will be."""
        return dict(self._lengths)

    def number(self, value: int) -> None:
        self._tape.append(value)

    def array(self, column: str, values: Array | None) -> None:
        self.number(_NONE if values is None else len(values))
        if values is not None:
            self._arrays[column].append(values)
            self._lengths[column] += len(values)

    def tape(self) -> list[int]:
        """Return what was noted since this was last asked."""
        noted, self._tape = self._tape, []
        return noted

    def columns(self) -> dict[str, Array]:
        return {
            name: np.concatenate([np.empty(0, dtype), *self._arrays[name]], dtype=dtype)
            for name, dtype in _COLUMNS.items()
        }


class _Reader:
    """Gives back what a `_Writer` took, in the same order."""

    def __init__(self, columns: dict[str, Array], begin: dict[str, int], tape: list[int]) -> None:
        self._columns = columns
        self._at = dict(begin)
        self._tape = iter(tape)

    def number(self) -> int:
        return next(self._tape)

    def array(self, column: str) -> Any:
        length = self.number()
        if length == _NONE:
            return None
        first = self._at[column]
        self._at[column] = first + length
        return self._columns[column][first : first + length]


def _write_lane(to: _Writer, lane: Lane) -> None:
    _write_spans(to, lane.spans)
    to.number(lane.kind)
    to.array(_ROWS, lane.rows)
    to.array(_NS, lane.longest)
    to.array(_NS, lane.durs)
    kinds = lane.kinds
    to.number(_NONE if kinds is None else kinds.major)
    if kinds is not None:
        _write_cover(to, kinds.major_cover)
        to.number(len(kinds.minor))
        for code, spans in kinds.minor:
            to.number(code)
            _write_spans(to, spans)
        to.array(_KINDS, kinds.of_points)


def _read_lane(of: _Reader) -> Lane:
    spans, kind = _read_spans(of), of.number()
    rows, longest, durs = of.array(_ROWS), of.array(_NS), of.array(_NS)
    kinds, major = None, of.number()
    if major != _NONE:
        cover = _read_cover(of)
        minor = tuple((of.number(), _read_spans(of)) for _ in range(of.number()))
        kinds = Kinds(major, cover, minor, of.array(_KINDS))
    return Lane(spans, kind, kinds, rows, longest, durs)


def _write_spans(to: _Writer, spans: Spans) -> None:
    _write_cover(to, spans.cover)
    for array in (spans.starts, spans.ends, spans.points):
        to.array(_NS, array)


def _read_spans(of: _Reader) -> Spans:
    cover = _read_cover(of)
    if cover is None:
        raise ValueError("spans have a cover, be it empty")
    return Spans(cover, of.array(_NS), of.array(_NS), of.array(_NS))


def _write_cover(to: _Writer, cover: Cover | None) -> None:
    to.array(_NS, None if cover is None else cover.starts)
    to.array(_NS, None if cover is None else cover.prefix)


def _read_cover(of: _Reader) -> Cover | None:
    starts, prefix = of.array(_NS), of.array(_NS)
    return None if starts is None else Cover(starts, prefix)


_OTHER = KINDS.index("other")
_OPEN_BLOCK = 4096

#: Roles of the lanes whose rows are those of the rank's table of events.
OF_EVENTS = ("events", *FOLDED_ROLES)

#: Columns are held on to of as many ranks as fit on a screen: all, or those that tell slices.
MOST_TABLES = 64

AnyLane = Lane | CounterLane
#: A code for every event of a rank, by its row.
Classes = npt.NDArray[np.uint8]


class Budget:
    """Keeps the lanes that were used last within a number of bytes, and the last tables.

    Parameters
    ----------
    limit : int
        Bytes; the newest lanes stay even if they alone are larger.
    """

    def __init__(self, limit: int) -> None:
        self.lanes: LRU[Hashable, list[AnyLane]] = LRU(
            limit, lambda lanes: sum(lane.nbytes for lane in lanes)
        )
        self.tables: LRU[Hashable, Any] = LRU(MOST_TABLES)


@dataclass(slots=True, frozen=True)
class Rows:
    """One of a rank's tables as intervals: events, asyncs or instants."""

    table: str
    start_ns: Ints  # since the trace's own zero
    dur_ns: Ints
    name: npt.NDArray[np.integer]
    category: npt.NDArray[np.integer]
    kind: npt.NDArray[np.uint8]
    record: Ints
    names: Pool
    categories: Pool


class Named(NamedTuple):
    """What tells the events of a rank apart for those who look at them."""

    name: npt.NDArray[np.integer]
    kind: npt.NDArray[np.uint8]
    names: Pool


class RankIndex:
    """Fills lanes of a rank from its table.

    Parameters
    ----------
    rank : Rank
        Its lanes.
    budget : Budget
        Shared by all ranks.
    lateness : callable
        Gives the job's matched collectives; called when a lane of them is first asked for.
    """

    def __init__(self, rank: Rank, budget: Budget, lateness: Callable[[], Lateness]) -> None:
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
        # Not kept with the index: the columns of a stored rank go when they are not in use.
        rows: Rows = self._budget.tables.of(("events", self.rank.rank), self._events)
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
        """Async intervals; where no end was found, without length."""
        table = self.rank.trace.async_table
        return self._side_rows("asyncs", table, table.start_ns, np.maximum(table.dur_ns, 0))

    @cached_property
    def instants(self) -> Rows:
        """Instants, as intervals without length."""
        table = self.rank.trace.instant_table
        return self._side_rows("instants", table, table.time_ns, np.zeros(len(table), np.int64))

    def _side_rows(
        self, name: str, table: AsyncTable | InstantTable, starts: Ints, durs: Ints
    ) -> Rows:
        names, categories = self.rank.table.names, self.rank.table.categories
        kind = np.full(len(table), _OTHER, np.uint8)
        # What readers derived is of a kind that we know; of others' asyncs nobody can tell.
        derived = np.flatnonzero(table.record < 0)
        kind[derived] = taxonomy.kind_codes(
            table.category[derived], table.name[derived], categories.values, names.values
        )
        return Rows(
            name, starts, durs, table.name, table.category, kind, table.record, names, categories
        )

    @cached_property
    def name_counts(self) -> list[Ints]:
        """How many events, asyncs and instants have each name, by the name's code."""
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

    def named(self, ref: LaneRef) -> Rows | Named:
        """Return what tells name and kind of a lane's rows, without reading more than that."""
        if ref.role not in OF_EVENTS:
            return self.table_of(ref)
        named: Named = self._budget.tables.of(("named", self.rank.rank), self._named)
        return named

    def _named(self) -> Named:
        table = self.rank.table
        return Named(table.name, table.kind, table.names)

    def _overlay(self, ref: LaneRef) -> Rows:
        """Return the waits or delays of a lane as a table, one row each."""
        known = self._overlays.get(ref)
        if known is not None:
            return known
        pieces = self._lateness().pieces(self.rank.rank, ref.role, folded=not ref.sources)
        events = self.events
        if ref.sources:
            pieces = pieces.of_rows(self.rank.table.track == ref.sources[0])
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
        """Return what a lane holds and its index, made now if need be."""
        ref = self.rank.ref(lane)
        # All depths of a track are made at once: whoever sees one sees the others.
        key = (self.rank.rank, ref.role, ref.sources)
        lanes = self._budget.lanes.get(key)
        if lanes is None:
            lanes = self._budget.lanes.put(key, self._make(ref))
        return ref, lanes[ref.depth]

    def classed(self, lane: int, classes: Classes) -> Lane | None:
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
                made = [self._lane(events, self.members(ref), slices=False)]
            lanes = self._budget.lanes.put(key, made)
        found = lanes[ref.depth]
        return found if isinstance(found, Lane) else None

    def members(self, ref: LaneRef) -> RowIds:
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
        return device_rows(self.rank.table).astype(np.int32)  # of each rank there is

    def _make(self, ref: LaneRef) -> list[AnyLane]:
        match ref.role:
            case "gpu" | "comm" | "cpu":
                return [self._folded(ref)]
            case "counter":
                return [self._counter(ref.sources[0])]
            case "events":
                return self._by_depth(ref.sources[0], self.events)
            case "async":
                layers = self.rank.async_groups[ref.sources[0]].layers
                refs = [LaneRef("async", ref.sources, depth) for depth in range(layers)]
                return [self._lane(self.asyncs, self.members(one)) for one in refs]
            case _:
                return [self._lane(self.table_of(ref), self.members(ref))]

    def _folded(self, ref: LaneRef) -> Lane:
        # All that the rank's file holds at once: whoever sees one of them sees the others.
        kept = kept_lanes(self.rank.table)
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
    def _lane(table: Rows, rows: RowIds, *, slices: bool = True) -> Lane:
        return index_lane(
            table.start_ns[rows],
            table.dur_ns[rows],
            table.kind[rows],
            rows if slices else None,
        )

    def _counter(self, series: int) -> CounterLane:
        table = self.rank.trace.counter_table
        first, last = np.searchsorted(table.series_id, (series, series + 1))
        end = self.rank.range_ns[1] - self.rank.shift_ns
        return index_counter(table.time_ns[first:last], table.value[first:last], end)

    # --- what is open at an instant ---------------------------------------------------------------

    def open_at(self, time_ns: int) -> Positions:
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
