"""The answer to ``tiles``: cells, slices and counters of many lanes in one buffer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.tiles.cells import (
    MAX_LEVEL,
    MAX_TILES,
    CounterTiles,
    Tiles,
    counter_tiles,
    tiles,
)
from hta_widgets.tiles.lane_index import CounterLane, Lane, Positions
from hta_widgets.tiles.layout import LaneRef
from hta_widgets.tiles.names import NameKeys
from hta_widgets.tiles.protocol import pack
from hta_widgets.tiles.rank_index import RankIndex

__all__ = ["answer_tiles"]

TRIMMED, SPILLED = 1, 2

Answer = tuple[dict[str, Any], bytes | None]
Columns = dict[str, tuple[str, npt.ArrayLike]]
Slices = dict[str, npt.NDArray[Any]]


def answer_tiles(
    request: Mapping[str, Any], index_of: Callable[[int], RankIndex], names: NameKeys
) -> Answer:
    """Answer ``tiles``; `index_of` gives the rank of a lane."""
    level = int(request["level"])
    if not 0 <= level <= MAX_LEVEL:
        raise ValueError(f"level {level} is not within 0 … {MAX_LEVEL}")
    basket = _Basket()
    for part in request["parts"]:
        first, last = int(part["first"]), int(part["last"])
        for number in part["lanes"]:
            index = index_of(number)
            ref, lane = index.lane(number)
            shift = index.rank.shift_ns
            if isinstance(lane, CounterLane):
                basket.add_counter(number, counter_tiles(lane, level, first, last, shift))
            else:
                made = tiles(lane, level, first, last, shift)
                if made is not None:
                    basket.add(number, made)
                    basket.add_slices(_slices(index, ref, lane, made.slices.at, names))
    header, buffer = pack(basket.columns())
    reply = {"level": level, "columns": header, "names": names.texts(basket.of_slices("name"))}
    return reply, buffer


def _slices(index: RankIndex, ref: LaneRef, lane: Lane, at: Positions, names: NameKeys) -> Slices:
    if not len(at):
        return {}
    table, rows = index.table_of(ref), lane.rows_of(at)
    flags = lane.overlapped(at).astype(np.uint8) * TRIMMED
    return {
        "start": table.start_ns[rows] + index.rank.shift_ns,
        "dur": table.dur_ns[rows],
        "id": rows,
        "name": names.keys(table.names, table.name[rows]),
        "kind": table.kind[rows],
        "flags": flags | np.uint8(SPILLED if ref.spilled else 0),
    }


@dataclass(slots=True)
class _Basket:
    """Collects the tiles of one answer."""

    lanes: list[npt.NDArray[Any]] = field(default_factory=list)
    tiles: list[Tiles] = field(default_factory=list)
    slice_counts: list[npt.NDArray[Any]] = field(default_factory=list)
    slices: list[Slices] = field(default_factory=list)
    counter_lanes: list[npt.NDArray[Any]] = field(default_factory=list)
    counters: list[CounterTiles] = field(default_factory=list)
    total: int = 0

    def add(self, number: int, made: Tiles) -> None:
        count = len(made.index)
        self._count(count)
        self.lanes.append(np.full(count, number, np.uint32))
        self.tiles.append(made)
        self.slice_counts.append(np.bincount(made.slices.tile, minlength=count))

    def add_slices(self, found: Slices) -> None:
        if found:
            self.slices.append(found)

    def add_counter(self, number: int, made: CounterTiles | None) -> None:
        if made is None:
            return
        self._count(len(made.index))
        self.counter_lanes.append(np.full(len(made.index), number, np.uint32))
        self.counters.append(made)

    def _count(self, tiles_more: int) -> None:
        self.total += tiles_more
        if self.total > MAX_TILES:
            raise ValueError(f"more than {MAX_TILES} tiles in one answer; ask for fewer at once")

    def columns(self) -> Columns:
        first = np.concatenate([np.zeros(1, np.int64), *self.slice_counts]).cumsum()
        return {
            "tile_lane": ("u32", _joined(self.lanes)),
            "tile_index": ("f64", _joined([one.index for one in self.tiles])),
            "busy": ("u16", _joined([one.busy for one in self.tiles])),
            "count": ("u16", _joined([one.count for one in self.tiles])),
            "kind": ("u8", _joined([one.kind for one in self.tiles])),
            "mask": ("u8", _joined([one.mask for one in self.tiles])),
            "slice_first": ("u32", first),
            "slice_start": ("f64", self.of_slices("start")),
            "slice_dur": ("f64", self.of_slices("dur")),
            "slice_id": ("u32", self.of_slices("id")),
            "slice_name": ("u32", self.of_slices("name")),
            "slice_kind": ("u8", self.of_slices("kind")),
            "slice_flags": ("u8", self.of_slices("flags")),
            "counter_lane": ("u32", _joined(self.counter_lanes)),
            "counter_index": ("f64", _joined([one.index for one in self.counters])),
            "counter_min": ("f32", _joined([one.smallest for one in self.counters])),
            "counter_max": ("f32", _joined([one.largest for one in self.counters])),
        }

    def of_slices(self, column: str) -> npt.NDArray[Any]:
        return _joined([part[column] for part in self.slices])


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
