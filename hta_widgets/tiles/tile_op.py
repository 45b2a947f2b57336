"""The answer to ``tiles``: cells, slices and counters of many lanes in one buffer."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.tiles.lane_index import CounterLane
from hta_widgets.tiles.lane_index import Lane
from hta_widgets.tiles.lane_index import Positions
from hta_widgets.tiles.layout import LaneRef
from hta_widgets.tiles.cells import CELLS
from hta_widgets.tiles.cells import MAX_LEVEL
from hta_widgets.tiles.cells import MAX_TILES
from hta_widgets.tiles.cells import NO_KIND
from hta_widgets.tiles.cells import CounterTiles
from hta_widgets.tiles.cells import Tiles
from hta_widgets.tiles.cells import counter_tiles
from hta_widgets.tiles.cells import kinds_of_tiles
from hta_widgets.tiles.cells import tiles
from hta_widgets.tiles.compact import compacted
from hta_widgets.tiles.names import NameKeys
from hta_widgets.trace.patience import Deadline
from hta_widgets.tiles.protocol import pack
from hta_widgets.tiles.rank_index import OF_EVENTS
from hta_widgets.tiles.rank_index import Classes
from hta_widgets.tiles.rank_index import RankIndex

__all__ = ["answer_tiles"]

TRIMMED, SPILLED = 1, 2

#: What a tile takes in a compact answer at most, with classes, and a slice on average.
TILE_BYTES, COUNTER_BYTES = 6 * CELLS, 8 * CELLS
SLICE_BYTES = 20

#: Less than that travels as fast as it is.
LEAST_ZIPPED_BYTES = 16_384
GZIP_WINDOW = 31

Answer = tuple[dict[str, Any], bytes | None]
Columns = dict[str, tuple[str, npt.ArrayLike]]
Slices = dict[str, npt.NDArray[Any]]


def answer_tiles(
    request: Mapping[str, Any],
    index_of: Callable[[int], RankIndex],
    names: NameKeys,
    classes_of: Callable[[int], Classes | None] | None = None,
) -> Answer:
    """Answer ``tiles``; `index_of` gives the rank of a lane, `classes_of` a class per event."""
    level = int(request["level"])
    if not 0 <= level <= MAX_LEVEL:
        raise ValueError(f"level {level} is not within 0 … {MAX_LEVEL}")
    basket = _Basket(classed=classes_of is not None)
    deadline = Deadline.of(request)
    most_bytes = int(request.get("most_bytes", sys.maxsize))
    left: list[dict[str, Any]] = []
    for part in request["parts"]:
        lanes, first, last = part["lanes"], int(part["first"]), int(part["last"])
        for at, number in enumerate(lanes):
            # One lane is always answered, or the page would ask for ever.
            if basket.asked and (deadline.has_passed or basket.bytes > most_bytes):
                left.append({"lanes": lanes[at:], "first": first, "last": last})
                break
            _collect(basket, index_of(number), number, (level, first, last), names, classes_of)
    columns = basket.columns()
    keys = basket.of_slices("name")
    header, buffer = pack(compacted(columns, level) if request.get("compact") else columns)
    reply = {"level": level, "columns": header, "names": names.texts(keys)}
    if left:
        reply["left"] = left
    if request.get("gzip") and len(buffer) >= LEAST_ZIPPED_BYTES:
        return {**reply, "gzip": True}, _gzip(buffer)
    return reply, buffer


def _gzip(buffer: bytes) -> bytes:
    """Pack a buffer in a tenth of the time that it took to make it."""
    packing = zlib.compressobj(1, zlib.DEFLATED, GZIP_WINDOW)
    return packing.compress(buffer) + packing.flush()


def _collect(
    basket: _Basket,
    index: RankIndex,
    number: int,
    window: tuple[int, int, int],
    names: NameKeys,
    classes_of: Callable[[int], Classes | None] | None,
) -> None:
    """Put the tiles of one lane into the basket."""
    basket.asked += 1
    level, first, last = window
    ref, lane = index.lane(number)
    shift = index.rank.shift_ns
    if isinstance(lane, CounterLane):
        basket.add_counter(number, counter_tiles(lane, level, first, last, shift))
        return
    made = tiles(lane, level, first, last, shift)
    if made is None:
        return
    basket.add(number, made)
    found = _slices(index, ref, lane, made.slices.at, names)
    if classes_of is not None:
        classes = classes_of(index.rank.rank)
        basket.classes.append(_cell_classes(index, number, level, made, classes))
        if found:
            of_events = ref.role in OF_EVENTS
            found["class"] = _slice_classes(found["id"], classes if of_events else None)
    basket.add_slices(found)


def _slices(index: RankIndex, ref: LaneRef, lane: Lane, at: Positions, names: NameKeys) -> Slices:
    if not len(at):
        return {}
    # Times are those of the index: the table's columns of them may not even be read yet.
    named, rows = index.named(ref), lane.rows_of(at)
    flags = lane.overlapped(at).astype(np.uint8) * TRIMMED
    return {
        "start": lane.spans.begins[at] + index.rank.shift_ns,
        "dur": lane.durations(at),
        "id": rows,
        "name": names.keys(named.names, named.name[rows]),
        "kind": named.kind[rows],
        "flags": flags | np.uint8(SPILLED if ref.spilled else 0),
    }


def _cell_classes(
    index: RankIndex, number: int, level: int, made: Tiles, classes: Classes | None
) -> npt.NDArray[np.uint8]:
    """Return the class with most time of every cell."""
    lane = None if classes is None else index.classed(number, classes)
    if lane is None:
        return np.full((len(made.index), CELLS), NO_KIND, np.uint8)
    return kinds_of_tiles(lane, level, made.index, index.rank.shift_ns)


def _slice_classes(rows: npt.NDArray[Any], classes: Classes | None) -> npt.NDArray[np.uint8]:
    return np.full(len(rows), NO_KIND, np.uint8) if classes is None else classes[rows]


@dataclass(slots=True)
class _Basket:
    """Collects the tiles of one answer."""

    classed: bool = False
    classes: list[npt.NDArray[Any]] = field(default_factory=list)
    lanes: list[npt.NDArray[Any]] = field(default_factory=list)
    tiles: list[Tiles] = field(default_factory=list)
    slice_counts: list[npt.NDArray[Any]] = field(default_factory=list)
    slices: list[Slices] = field(default_factory=list)
    counter_lanes: list[npt.NDArray[Any]] = field(default_factory=list)
    counters: list[CounterTiles] = field(default_factory=list)
    total: int = 0
    #: How many lanes were asked for, and about how many bytes their answer has.
    asked: int = 0
    bytes: int = 0

    def add(self, number: int, made: Tiles) -> None:
        count = len(made.index)
        self._count(count, TILE_BYTES)
        self.lanes.append(np.full(count, number, np.uint32))
        self.tiles.append(made)
        self.slice_counts.append(np.bincount(made.slices.tile, minlength=count))

    def add_slices(self, found: Slices) -> None:
        if found:
            self.slices.append(found)
            self.bytes += SLICE_BYTES * len(found["id"])

    def add_counter(self, number: int, made: CounterTiles | None) -> None:
        if made is None:
            return
        self._count(len(made.index), COUNTER_BYTES)
        self.counter_lanes.append(np.full(len(made.index), number, np.uint32))
        self.counters.append(made)

    def _count(self, tiles_more: int, bytes_each: int) -> None:
        self.total += tiles_more
        self.bytes += bytes_each * tiles_more
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
            **(
                {
                    "class": ("u8", _joined(self.classes)),
                    "slice_class": ("u8", self.of_slices("class")),
                }
                if self.classed
                else {}
            ),
        }

    def of_slices(self, column: str) -> npt.NDArray[Any]:
        return _joined([part[column] for part in self.slices])


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
