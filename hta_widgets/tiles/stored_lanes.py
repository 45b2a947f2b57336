"""Lanes of folded ranks, computed from the events or read from the rank's file in a store.

A folded rank has up to three types of lanes: compute and copies (``gpu``), communication (``comm``)
and host threads (``cpu``). Stores contain these lanes in indexed form, so that a job with many
ranks can be drawn without reading its events. A lane is stored as a list of numbers in which arrays
are represented by their lengths. The arrays of all lanes of a rank are concatenated, in one column
per data type::

    columns  lanes.ns    [starts of lane 0 | prefix of lane 0 | ... | starts of lane 1 | ...]
             lanes.rows  [rows of lane 0 | rows of lane 1]
    lane 1   begin {"lanes.ns": 5210, "lanes.rows": 871, ...}, numbers [120, 121, ...]

If an entry is damaged or outdated, the lanes are computed from the events instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.lanes import BLOCK, EventLane, KindIndex, index_lane
from hta_widgets.tiles.layout import LaneRef, folded_lanes
from hta_widgets.trace.arrays import Array, Bools, Ints
from hta_widgets.trace.columns import EventTable
from hta_widgets.trace.intervals import IntervalIndex, IntervalUnion

FOLDED_ROLES = ("gpu", "comm", "cpu")
_COMMUNICATION = KINDS.index("communication")
_ANNOTATION = KINDS.index("annotation")
_SYNC = KINDS.index("sync")
RowIds = npt.NDArray[np.integer]
#: Version of the format. Increase it when arrays or their order change.
VERSION = 2
#: Entry in a rank's file that states where each lane begins in the columns.
FACT = "lanes"
_COLUMNS: dict[str, npt.DTypeLike] = {
    "lanes.ns": np.int64,
    "lanes.rows": np.int32,
    "lanes.kinds": np.uint8,
}
_NS, _ROWS, _KINDS = _COLUMNS
_NO_ITEM = -1
#: An item of a stored lane: a number, or a pair of column and array.
Item = int | tuple[str, Array | None]


def device_rows(table: EventTable) -> RowIds:
    """Return the rows of the events on device streams."""
    on_stream = np.array([track.role == "stream" for track in table.tracks], np.bool_)
    if not on_stream.any():
        return np.empty(0, np.intp)
    return np.flatnonzero(on_stream.take(table.track))


def folded_rows(table: EventTable, ref: LaneRef, device: RowIds) -> RowIds:
    """Return the rows of a folded lane in lane order; `device` is the result of `device_rows`."""
    if ref.role == "cpu":
        member: Bools = np.isin(np.arange(len(table.tracks)), ref.sources)
        member = member.take(table.track)
        return np.flatnonzero(member if ref.annotations else member & (table.kind != _ANNOTATION))
    kinds = table.kind.take(device)
    is_comm = kinds == _COMMUNICATION
    chosen: RowIds = device[is_comm if ref.role == "comm" else ~is_comm & (kinds != _SYNC)]
    return chosen


def folded_lane(table: EventTable, ref: LaneRef, device: RowIds) -> EventLane:
    """Index a folded lane; for the parameters see `folded_rows`."""
    rows = folded_rows(table, ref, device)
    return index_lane(
        table.start_ns.take(rows),
        table.dur_ns.take(rows),
        table.kind.take(rows),
        None if ref.role == "cpu" else rows,
    )


def stored_lane_columns(table: EventTable) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the folded lanes of a rank as columns, with the positions of each lane in them."""
    device = device_rows(table)
    arrays = {name: [np.empty(0, dtype)] for name, dtype in _COLUMNS.items()}
    lanes = []
    for ref in folded_lanes(table):
        begin = {name: sum(map(len, blocks)) for name, blocks in arrays.items()}
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
    """Return the lanes in the file of a stored rank, or {} if they are missing or damaged."""
    file = table.file
    if file is None:
        return {}
    try:
        fact: Mapping[str, Any] | None = file.fact(FACT)
        if fact is None or fact["version"] != VERSION:
            return {}
        columns = {name: file.read(name) for name in _COLUMNS}
        lanes = {}
        for role, sources, annotations, begin, numbers in fact["lanes"]:
            ref = LaneRef(role, tuple(sources), annotations=annotations)
            lanes[ref] = _Reader(columns, begin, numbers).lane()
    except Exception:  # noqa: BLE001 - files may be damaged in any way; lanes are computed then
        return {}
    return lanes


def _lane_items(lane: EventLane) -> Iterator[Item]:
    """Yield the numbers and arrays of a lane in the order expected by `_Reader`."""
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
    """Reads a lane from the columns of a store, starting at the positions in `begin`."""

    def __init__(
        self, columns: dict[str, Array], begin: dict[str, int], numbers: list[int]
    ) -> None:
        self._columns = columns
        self._at = dict(begin)
        self._numbers = iter(numbers)

    def lane(self) -> EventLane:
        """Read the items written by `_lane_items`; raise `ValueError` if they are inconsistent."""
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
            raise ValueError("the cover of the spans is missing")
        starts, ends, points = self._array(_NS), self._array(_NS), self._array(_NS)
        if starts is not None:
            _require(len(starts) == len(ends) and _is_ascending(starts) and _is_ascending(ends))
        _require(_is_ascending(points))
        return IntervalIndex(cover, starts, ends, points)

    def _cover(self) -> IntervalUnion | None:
        starts, prefix = self._array(_NS), self._array(_NS)
        if starts is None:
            return None
        _require(len(prefix) == len(starts) + 1 and prefix[0] == 0 and _is_ascending(prefix))
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
        raise ValueError("the stored lanes are inconsistent")


def _is_ascending(values: Ints) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))
