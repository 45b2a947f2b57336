"""A rank in brief: what its lanes cover on a grid of cells, and its long events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.export.blocks import Block
from hta_widgets.export.blocks import ColumnWriter
from hta_widgets.export.full_rank import rank_header
from hta_widgets.export.names import Names
from hta_widgets.export.names import Types
from hta_widgets.tiles.lane_index import CounterLane
from hta_widgets.tiles.lane_index import Lane
from hta_widgets.tiles.layout import LaneRef
from hta_widgets.trace.spans import Spans
from hta_widgets.trace.spans import spans_of
from hta_widgets.trace.intervals import Covered
from hta_widgets.trace.table import KINDS
from hta_widgets.tiles.cells import NO_KIND
from hta_widgets.tiles.cells import measure
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.stats import device_range

__all__ = ["Grid", "Overview"]

_COMPUTE, _COMMUNICATION, _MEMORY = (
    KINDS.index(kind) for kind in ("compute", "communication", "memory")
)
#: The unions of device work that figures of a window are made of.
_UNIONS = {
    "compute": (_COMPUTE,),
    "communication": (_COMMUNICATION,),
    "memory": (_MEMORY,),
    "both": (_COMPUTE, _COMMUNICATION),
    "busy": (_COMPUTE, _COMMUNICATION, _MEMORY),
}
_TRIMMED, _SPILLED = 1, 2

Ints = npt.NDArray[np.int64]


@dataclass(slots=True, frozen=True)
class Grid:
    """Cells of ``2**level`` ns, from `first` on."""

    level: int
    first: int
    cells: int

    @classmethod
    def over(cls, start_ns: int, end_ns: int, most_cells: int) -> Grid:
        """Return the finest grid of at most so many cells over a range."""
        level = 0
        while (max(end_ns - 1, start_ns) >> level) - (start_ns >> level) >= most_cells:
            level += 1
        first = start_ns >> level
        return cls(level, first, (max(end_ns - 1, start_ns) >> level) - first + 1)

    @property
    def edges(self) -> Ints:
        """Where the cells begin, and where the last one ends."""
        return (self.first + np.arange(self.cells + 1, dtype=np.int64)) << self.level


@dataclass(slots=True)
class _Columns:
    """What is collected of all lanes."""

    covered: list[Ints] = field(default_factory=list)
    count: list[Ints] = field(default_factory=list)
    starts: list[Ints] = field(default_factory=list)
    low: list[npt.NDArray[np.float64]] = field(default_factory=list)
    high: list[npt.NDArray[np.float64]] = field(default_factory=list)
    instants: list[Ints] = field(default_factory=list)
    slices: list[Ints] = field(default_factory=list)

    def add(self, spans: Spans, edges: Ints) -> tuple[Ints, Ints]:
        """Add one set of events; return its time and number of events per cell."""
        covered, count = spans.measure(edges)
        begun = np.diff(spans.begins.searchsorted(edges))
        if len(spans.points):
            begun = begun + np.diff(spans.points.searchsorted(edges))
        self.covered.append(covered)
        self.count.append(count)
        self.starts.append(begun)
        return covered, count


class Overview:
    """A rank in brief: its header in the page's document, and its block.

    Parameters
    ----------
    index : RankIndex
    names : Names
        Takes up the rank's strings.
    most_cells : int
        How fine the grid is.
    whole : bool
        Whether all lanes are kept, or those of the folded rank only.
    """

    def __init__(
        self,
        index: RankIndex,
        names: Names,
        most_cells: int,
        *,
        whole: bool,
        exposed_wait: Covered | None = None,
    ) -> None:
        rank = index.rank
        self.rank, self.whole = rank, whole
        types = Types(index, names)
        lanes = list(_lanes(index, whole=whole))
        self.grid = _grid(index, [lane for _, _, lane in lanes], most_cells)
        edges = self.grid.edges - rank.shift_ns
        columns, kept = _Columns(), []
        for at, (number, ref, lane) in enumerate(lanes):
            if isinstance(lane, CounterLane):
                smallest, largest = lane.measure(edges)
                columns.low.append(smallest)
                columns.high.append(largest)
                kept.append({"lane": number, "kinds": [], "counter": True})
            else:
                kinds = _add_lane(columns, index, ref, lane, at, edges)
                kept.append({"lane": number, "kinds": kinds, "counter": False})
                _add_slices(columns, index, types, ref, lane, at, self.grid)
        writer = ColumnWriter()
        _write(writer, columns)
        _write_device(writer, index, edges)
        if exposed_wait is not None:
            writer.ints("device_exposed_wait", np.diff(exposed_wait(self.grid.edges)))
        header = rank_header(rank)
        self.header: dict[str, Any] = {
            **header,
            "detail": "overview",
            "types": types.listed,
            "counts": types.counts,
            "level": self.grid.level,
            "first": self.grid.first,
            "cells": self.grid.cells,
            "lanes_kept": kept,
            "has_device": bool(len(index.device_rows)),
            "device_range": device_range(index),
            "columns": writer.specs,
        }
        self.block: Block = writer.block(f"rank-{rank.rank}")


def _lanes(index: RankIndex, *, whole: bool) -> Iterator[tuple[int, LaneRef, Lane | CounterLane]]:
    rank = index.rank
    numbers = [row.lane for row in rank.summary]
    if whole:
        numbers += [row.lane0 + depth for row in rank.tracks for depth in range(row.lanes)]
    for number in numbers:
        yield number, *index.lane(number)


def _grid(index: RankIndex, lanes: list[Lane | CounterLane], most_cells: int) -> Grid:
    """Return a grid over all that the lanes hold."""
    bounds = [index.rank.range_ns]
    shift = index.rank.shift_ns
    for lane in lanes:
        if isinstance(lane, CounterLane):
            if len(lane.times):
                bounds.append((int(lane.times[0]) + shift, lane.end + shift))
        elif len(lane.spans):
            low, high = lane.spans.extent
            bounds.append((low + shift, high + shift))
    return Grid.over(
        min(low for low, _ in bounds), max(high for _, high in bounds), max(most_cells, 2)
    )


def _add_lane(
    columns: _Columns, index: RankIndex, ref: LaneRef, lane: Lane, at: int, edges: Ints
) -> list[int]:
    """Add the whole of a lane, then each of its kinds if there are several; return the kinds."""
    columns.add(lane.spans, edges)
    if lane.kinds is None:
        return [lane.kind]
    table, rows = index.table_of(ref), index.members(ref)
    kind = table.kind[rows]
    codes: list[int] = np.unique(kind).tolist()
    covered = np.zeros(len(edges) - 1, np.int64)
    lowest = np.full(len(edges) - 1, NO_KIND, np.int64)
    for code in codes:
        of_kind = rows[kind == code]
        part, count = columns.add(spans_of(table.start_ns[of_kind], table.dur_ns[of_kind]), edges)
        np.maximum(covered, part, out=covered)
        lowest[(count > 0) & (lowest == NO_KIND)] = code
    # Where there are instants only, the first decides, which need not be of the lowest kind.
    first = measure(lane, edges).kind
    odd = np.flatnonzero((covered == 0) & (first != NO_KIND) & (first != lowest))
    columns.instants.append(np.stack([np.full(len(odd), at), odd, first[odd]]))
    return codes


def _add_slices(
    columns: _Columns,
    index: RankIndex,
    types: Types,
    ref: LaneRef,
    lane: Lane,
    at: int,
    grid: Grid,
) -> None:
    if lane.rows is None or not len(lane.spans):
        return
    low, high = lane.spans.extent
    positions = lane.long_events(low, high, 2 << grid.level)
    if not len(positions):
        return
    table, rows = index.table_of(ref), lane.rows_of(positions)
    flags = lane.overlapped(positions).astype(np.int64) * _TRIMMED
    columns.slices.append(
        np.stack(
            [
                np.full(len(rows), at, np.int64),
                table.start_ns[rows] + index.rank.shift_ns,
                table.dur_ns[rows],
                rows.astype(np.int64),
                types.codes[table.table][rows],
                flags | (_SPILLED if ref.spilled else 0),
            ]
        )
    )


def _write(writer: ColumnWriter, columns: _Columns) -> None:
    for name in ("covered", "count", "starts"):
        parts = getattr(columns, name)
        writer.ints(name, np.concatenate(parts) if parts else ())
    for name in ("low", "high"):
        parts = getattr(columns, name)
        writer.floats(name, np.concatenate(parts) if parts else np.empty(0), "<f4")
    for prefix, fields, parts in (
        ("instant", ("lane", "cell", "kind"), columns.instants),
        ("slice", ("lane", "start", "dur", "id", "type", "flags"), columns.slices),
    ):
        whole = np.concatenate(parts, axis=1) if parts else np.empty((len(fields), 0), np.int64)
        for name, values in zip(fields, whole, strict=True):
            writer.ints(f"{prefix}_{name}", values, delta=name in {"start", "id", "lane", "cell"})


def _write_device(writer: ColumnWriter, index: RankIndex, edges: Ints) -> None:
    table, rows = index.rank.table, index.device_rows
    kind = table.kind[rows]
    for name, kinds in _UNIONS.items():
        of_kind = rows[np.isin(kind, kinds)]
        cover = spans_of(table.start_ns[of_kind], table.dur_ns[of_kind]).cover
        writer.ints(f"device_{name}", np.diff(cover.before(edges)[1]))
