"""Write an overview of a rank: how its lanes and device work cover each cell of a grid.

An overview replaces the events of a rank that do not fit in a page. Its cells are ``2**level`` ns
long. For example, a lane with events at 2..6 and 7..12 ns has these values in cells of 8 ns::

    covered    5  4      ns
    count      2  1      events that overlap the cell
    starts     2  0      events that begin in it
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hta_widgets.analysis.frames import concat_arrays
from hta_widgets.analysis.idle import times_not_idle
from hta_widgets.export.pages.data import PagePart, rank_header
from hta_widgets.export.pages.format import ColumnWriter, EventTypes, NameTables
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.cells import NO_KIND, measure_cells
from hta_widgets.tiles.lanes import CounterLane, EventLane
from hta_widgets.tiles.layout import LaneRef
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.scene import device_range
from hta_widgets.tiles.tile_reply import SPILLED, TRIMMED
from hta_widgets.trace.arrays import Array, Ints
from hta_widgets.trace.intervals import CumulativeCoverage, IntervalIndex, index_intervals

#: Kinds of device work that are merged before the times in a window are computed.
_UNIONS = {
    "compute": ("compute",),
    "communication": ("communication",),
    "memory": ("memory",),
    "both": ("compute", "communication"),
    "busy": ("compute", "communication", "memory"),
}


@dataclass(slots=True, frozen=True)
class CellGrid:
    """A grid of cells that are ``2**level`` ns long; `first` is the number of the first cell."""

    level: int
    first: int
    cells: int

    @classmethod
    def finest(cls, start_ns: int, end_ns: int, max_cells: int) -> CellGrid:
        """Return the finest grid that covers a range with at most `max_cells` cells."""
        level, last_ns = 0, max(end_ns - 1, start_ns)
        while (last_ns >> level) - (start_ns >> level) >= max_cells:
            level += 1
        first = start_ns >> level
        return cls(level, first, (last_ns >> level) - first + 1)

    @property
    def edges(self) -> Ints:
        """The starts of all cells, followed by the end of the last cell."""
        return (self.first + np.arange(self.cells + 1, dtype=np.int64)) << self.level


#: Arrays keyed by column name. Those for instants and slices have one row per field.
_Columns = defaultdict[str, list[Array]]


def _add_spans(columns: _Columns, spans: IntervalIndex, edges: Ints) -> tuple[Ints, Ints]:
    """Add the columns of a set of events; return each cell's covered time and event count."""
    covered, count = spans.measure(edges)
    starts, points = spans.sorted_starts.searchsorted(edges), spans.points.searchsorted(edges)
    columns["covered"].append(covered)
    columns["count"].append(count)
    columns["starts"].append(np.diff(starts) + np.diff(points))
    return covered, count


def overview(
    index: RankIndex,
    names: NameTables,
    max_cells: int,
    *,
    all_lanes: bool,
    exposed_wait: CumulativeCoverage | None = None,
) -> PagePart:
    """Return a part with an overview of a rank in at most `max_cells` cells."""
    rank = index.rank
    types = EventTypes(index, names)
    lanes = list(_lanes(index, all_lanes=all_lanes))
    grid = _grid_of_lanes(index, [lane for _, _, lane in lanes], max_cells)
    edges = grid.edges - rank.shift_ns
    columns, kept = _Columns(list), []
    for place, (number, ref, lane) in enumerate(lanes):
        kinds: list[int] = []
        if isinstance(lane, CounterLane):
            smallest, largest = lane.measure(edges)
            columns["low"].append(smallest)
            columns["high"].append(largest)
        else:
            kinds = _add_lane(columns, index, ref, lane, place, edges)
            columns["slice"].append(_slices(index, types, ref, lane, place, grid))
        kept.append({"lane": number, "kinds": kinds, "counter": isinstance(lane, CounterLane)})
    writer = ColumnWriter()
    _write_columns(writer, columns)
    _write_device(writer, index, edges)
    if exposed_wait is not None:
        writer.ints("device_exposed_wait", np.diff(exposed_wait(grid.edges)))
    header = {
        **rank_header(rank),
        "detail": "overview",
        "types": types.listed,
        "counts": types.counts,
        "level": grid.level,
        "first": grid.first,
        "cells": grid.cells,
        "lanes_kept": kept,
        "has_device": bool(len(index.device_rows)),
        "device_range": device_range(index),
        "columns": writer.specs,
    }
    return PagePart(header, [writer.block(f"rank-{rank.rank}")], all_lanes)


def _lanes(
    index: RankIndex, *, all_lanes: bool
) -> Iterator[tuple[int, LaneRef, EventLane | CounterLane]]:
    rank = index.rank
    numbers = [row.lane for row in rank.summary]
    if all_lanes:
        numbers += [row.lane0 + depth for row in rank.tracks for depth in range(row.lanes)]
    for number in numbers:
        yield number, *index.lane(number)


def _grid_of_lanes(
    index: RankIndex, lanes: list[EventLane | CounterLane], max_cells: int
) -> CellGrid:
    bounds = [index.rank.range_ns]
    shift = index.rank.shift_ns
    for lane in lanes:
        if isinstance(lane, CounterLane):
            if len(lane.times):
                bounds.append((int(lane.times[0]) + shift, lane.end + shift))
        elif len(lane.spans):
            low, high = lane.spans.extent
            bounds.append((low + shift, high + shift))
    starts, ends = zip(*bounds, strict=True)
    return CellGrid.finest(min(starts), max(ends), max(max_cells, 2))


def _add_lane(
    columns: _Columns, index: RankIndex, ref: LaneRef, lane: EventLane, place: int, edges: Ints
) -> list[int]:
    """Add a lane's events, in total and, if there are several kinds, by kind; return the kinds."""
    covered, _ = _add_spans(columns, lane.spans, edges)
    if lane.kinds is None:
        return [lane.kind]
    table, rows = index.table_of(ref), index.rows_of_lane(ref)
    kind = table.kind[rows]
    codes: list[int] = np.unique(kind).tolist()
    lowest_kind = np.full(len(edges) - 1, NO_KIND, np.int64)
    for code in codes:
        of_kind = rows[kind == code]
        spans = index_intervals(table.start_ns[of_kind], table.dur_ns[of_kind])
        _, count = _add_spans(columns, spans, edges)
        lowest_kind[(count > 0) & (lowest_kind == NO_KIND)] = code
    # Cells with only instants have the kind of the first instant, not necessarily the lowest kind.
    first_kind = measure_cells(lane, edges).kind
    is_other_kind = (first_kind != NO_KIND) & (first_kind != lowest_kind)
    cells = np.flatnonzero((covered == 0) & is_other_kind)
    columns["instant"].append(np.stack([np.full(len(cells), place), cells, first_kind[cells]]))
    return codes


def _slices(
    index: RankIndex, types: EventTypes, ref: LaneRef, lane: EventLane, place: int, grid: CellGrid
) -> Ints:
    """Return the fields of the ``slice`` columns for events that are at least two cells long."""
    positions = lane.long_events(*lane.spans.extent, 2 << grid.level)
    if not len(positions):  # also empty if the lane keeps no rows
        return np.empty((6, 0), np.int64)
    table, rows = index.table_of(ref), lane.rows_of(positions)
    flags = lane.overlap_mask(positions).astype(np.int64) * TRIMMED
    return np.stack(
        [
            np.full(len(rows), place, np.int64),
            table.start_ns[rows] + index.rank.shift_ns,
            table.dur_ns[rows],
            rows.astype(np.int64),
            types.codes[table.table][rows],
            flags | (SPILLED if ref.spilled else 0),
        ]
    )


def _write_columns(writer: ColumnWriter, columns: _Columns) -> None:
    for name in ("covered", "count", "starts"):
        writer.ints(name, concat_arrays(columns[name]))
    for name in ("low", "high"):
        writer.floats(name, concat_arrays(columns[name], np.float64), "<f4")
    for prefix, fields in (
        ("instant", ("lane", "cell", "kind")),
        ("slice", ("lane", "start", "dur", "id", "type", "flags")),
    ):
        empty = np.empty((len(fields), 0), np.int64)
        table = np.concatenate([empty, *columns[prefix]], axis=1)
        for field, values in zip(fields, table, strict=True):
            writer.ints(f"{prefix}_{field}", values, delta=field in {"start", "id", "lane", "cell"})


def _write_device(writer: ColumnWriter, index: RankIndex, edges: Ints) -> None:
    table, rows = index.rank.table, index.device_rows
    kind = table.kind[rows]
    for name, kinds in _UNIONS.items():
        of_kind = rows[np.isin(kind, list(map(KINDS.index, kinds)))]
        cover = index_intervals(table.start_ns[of_kind], table.dur_ns[of_kind]).cover
        writer.ints(f"device_{name}", np.diff(cover.count_and_length_before(edges)[1]))
    not_idle = times_not_idle(index.rank.trace)
    for name, times in zip(("unrecorded", "between_windows"), not_idle, strict=True):
        writer.ints(f"device_{name}", np.diff(CumulativeCoverage(*times)(edges)))
