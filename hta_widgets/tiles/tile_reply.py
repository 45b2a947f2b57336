"""Replies to requests for tiles.

`answer_tiles` adds lanes until the deadline or the size limit of the request is reached. It lists
the remaining lanes for the page's next request. The columns of all tiles and of all slices are
concatenated. ``slice_first`` holds the index of the first slice of each tile, followed by the total
number of slices. For example, two tiles with 1 and 2 slices::

    tile_lane    [4, 9]
    slice_first  [0, 1, 3]
    slice_name   [0, 1, 0]      keys of "names": {"0": "gemm", "1": "AllReduce"}
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hta_widgets.facts import facts
from hta_widgets.tiles.cells import (
    CELLS,
    MAX_TILES,
    NO_KIND,
    CounterTiles,
    EventTiles,
    classes_of_tiles,
    counter_tiles,
    event_tiles,
)
from hta_widgets.tiles.lanes import CounterLane, EventLane, Positions
from hta_widgets.tiles.layout import LaneRef
from hta_widgets.tiles.packing import MIN_ZIPPED_BYTES, compact_columns, gzip_buffer, pack
from hta_widgets.tiles.rank_index import OF_EVENTS, Classes, RankIndex
from hta_widgets.trace.arrays import Array, Codes, Ints
from hta_widgets.trace.columns import StringPool
from hta_widgets.trace.names import short_name


class NameKeys:
    """Assigns a key to each short name in the job."""

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}
        self._texts: list[str] = []
        #: Maps a pool's id to the pool and the keys of its names (-1 if not assigned yet).
        self._of_pool: dict[int, tuple[StringPool, Ints]] = {}

    def keys(self, pool: StringPool, codes: Array) -> Ints:
        """Return keys for the names with the given codes in a pool."""
        pool_keys = self._of_pool.get(id(pool))
        if pool_keys is None or len(pool_keys[1]) < len(pool):
            pool_keys = (pool, np.full(len(pool), -1, np.int64))
            self._of_pool[id(pool)] = pool_keys
        key_by_code = pool_keys[1]
        keys: Ints = key_by_code[codes]
        if (keys < 0).any():
            for code in np.unique(codes[keys < 0]).tolist():
                key_by_code[code] = self._key(short_name(pool[code]))
            keys = key_by_code[codes]
        return keys

    def _key(self, text: str) -> int:
        key = self._keys.setdefault(text, len(self._texts))
        if key == len(self._texts):
            self._texts.append(text)
        return key

    def texts(self, keys: Ints) -> dict[str, str]:
        """Map the given keys (as strings, for JSON) to short names."""
        return {str(key): self._texts[key] for key in np.unique(keys).tolist()}


TRIMMED: int = facts("flags")["slice"]["trimmed"]
SPILLED: int = facts("flags")["slice"]["spilled"]
#: Upper bounds on the bytes per tile in compact replies with classes, for events and counters.
TILE_BYTES, COUNTER_BYTES = 6 * CELLS, 8 * CELLS
#: Average bytes per slice.
SLICE_BYTES = 20
Answer = tuple[dict[str, Any], bytes | None]
ReplyColumns = dict[str, tuple[str, npt.ArrayLike]]
SliceColumns = dict[str, Array]


class TileQuery(Protocol):
    """The fields of a ``tiles`` request."""

    level: int
    within_ms: float | None
    most_bytes: int | None
    compact: bool
    gzip: bool

    @property
    def parts(self) -> Sequence[Any]:
        """Parts of the request. Each asks for tiles `first` to `last` - 1 of its `lanes`."""


def answer_tiles(
    request: TileQuery,
    index_of: Callable[[int], RankIndex],
    names: NameKeys,
    classes_of: Callable[[int], Classes | None] | None = None,
) -> Answer:
    """Answer ``tiles``. `index_of` returns the index of a lane's rank, `classes_of` its classes."""
    level, within_ms = request.level, request.within_ms
    builder = _ReplyBuilder(classed=classes_of is not None)
    due = math.inf if within_ms is None else time.perf_counter() + within_ms / 1000
    most_bytes = sys.maxsize if request.most_bytes is None else request.most_bytes
    left: list[dict[str, Any]] = []
    for part in request.parts:
        for index, number in enumerate(part.lanes):
            # Answer at least one lane. Otherwise the page would repeat the request forever.
            if builder.lanes_added and (time.perf_counter() >= due or builder.bytes > most_bytes):
                left.append({"lanes": part.lanes[index:], "first": part.first, "last": part.last})
                break
            window = (level, part.first, part.last)
            _add_lane(builder, index_of(number), number, window, names, classes_of)
    columns = builder.columns()
    keys = builder.slice_column("name")
    header, buffer = pack(compact_columns(columns, level) if request.compact else columns)
    reply = {"level": level, "columns": header, "names": names.texts(keys)}
    if left:
        reply["left"] = left
    if request.gzip and len(buffer) >= MIN_ZIPPED_BYTES:
        return {**reply, "gzip": True}, gzip_buffer(buffer)
    return reply, buffer


def _add_lane(
    builder: _ReplyBuilder,
    rank_index: RankIndex,
    number: int,
    window: tuple[int, int, int],
    names: NameKeys,
    classes_of: Callable[[int], Classes | None] | None,
) -> None:
    """Add the tiles of a lane; `window` holds the level, the first tile and the end."""
    builder.lanes_added += 1
    level, first, last = window
    ref, lane = rank_index.lane(number)
    shift_ns = rank_index.rank.shift_ns
    if isinstance(lane, CounterLane):
        builder.add_counter(number, counter_tiles(lane, level, first, last, shift_ns))
        return
    tiles = event_tiles(lane, level, first, last, shift_ns)
    if tiles is None:
        return
    builder.add(number, tiles)
    slices = _slice_columns(rank_index, ref, lane, tiles.slices.positions, names)
    if classes_of is not None:
        classes = classes_of(rank_index.rank.rank)
        builder.classes.append(_cell_classes(rank_index, number, level, tiles, classes))
        if slices:
            if classes is None or ref.role not in OF_EVENTS:
                slices["class"] = np.full(len(slices["id"]), NO_KIND, np.uint8)
            else:
                slices["class"] = classes[slices["id"]]
    builder.add_slices(slices)


def _slice_columns(
    rank_index: RankIndex, ref: LaneRef, lane: EventLane, positions: Positions, names: NameKeys
) -> SliceColumns:
    if not len(positions):
        return {}
    # Take times from the lane, since the columns of the table may not be loaded.
    named, rows = rank_index.names_of_lane(ref), lane.rows_of(positions)
    flags = lane.overlap_mask(positions).astype(np.uint8) * TRIMMED
    return {
        "start": lane.spans.sorted_starts[positions] + rank_index.rank.shift_ns,
        "dur": lane.durations(positions),
        "id": rows,
        "name": names.keys(named.names, named.name[rows]),
        "kind": named.kind[rows],
        "flags": flags | np.uint8(SPILLED if ref.spilled else 0),
    }


def _cell_classes(
    rank_index: RankIndex, number: int, level: int, tiles: EventTiles, classes: Classes | None
) -> Codes:
    lane = None if classes is None else rank_index.lane_by_class(number, classes)
    if lane is None:
        return np.full((len(tiles.index), CELLS), NO_KIND, np.uint8)
    return classes_of_tiles(lane, level, tiles.index, rank_index.rank.shift_ns)


@dataclass(slots=True)
class _ReplyBuilder:
    classed: bool = False
    classes: list[Array] = field(default_factory=list)
    lanes: list[Array] = field(default_factory=list)
    tiles: list[EventTiles] = field(default_factory=list)
    slice_counts: list[Array] = field(default_factory=list)
    slices: list[SliceColumns] = field(default_factory=list)
    counter_lanes: list[Array] = field(default_factory=list)
    counters: list[CounterTiles] = field(default_factory=list)
    tile_count: int = 0
    #: The number of lanes added, and the estimated size of the reply.
    lanes_added: int = 0
    bytes: int = 0

    def add(self, number: int, tiles: EventTiles) -> None:
        count = len(tiles.index)
        self._count(count, TILE_BYTES)
        self.lanes.append(np.full(count, number, np.uint32))
        self.tiles.append(tiles)
        self.slice_counts.append(np.bincount(tiles.slices.tile, minlength=count))

    def add_slices(self, new_slices: SliceColumns) -> None:
        if new_slices:
            self.slices.append(new_slices)
            self.bytes += SLICE_BYTES * len(new_slices["id"])

    def add_counter(self, number: int, tiles: CounterTiles | None) -> None:
        if tiles is None:
            return
        self._count(len(tiles.index), COUNTER_BYTES)
        self.counter_lanes.append(np.full(len(tiles.index), number, np.uint32))
        self.counters.append(tiles)

    def _count(self, tiles: int, bytes_each: int) -> None:
        self.tile_count += tiles
        self.bytes += bytes_each * tiles
        if self.tile_count > MAX_TILES:
            raise ValueError(f"more than {MAX_TILES} tiles in one answer; request fewer at a time")

    def columns(self) -> ReplyColumns:
        first = np.concatenate([np.zeros(1, np.int64), *self.slice_counts]).cumsum()
        columns: ReplyColumns = {
            "tile_lane": ("u32", _concat_columns(self.lanes)),
            "tile_index": ("f64", _concat_columns([tiles.index for tiles in self.tiles])),
            "busy": ("u16", _concat_columns([tiles.busy for tiles in self.tiles])),
            "count": ("u16", _concat_columns([tiles.count for tiles in self.tiles])),
            "kind": ("u8", _concat_columns([tiles.kind for tiles in self.tiles])),
            "mask": ("u8", _concat_columns([tiles.mask for tiles in self.tiles])),
            "slice_first": ("u32", first),
            "slice_start": ("f64", self.slice_column("start")),
            "slice_dur": ("f64", self.slice_column("dur")),
            "slice_id": ("u32", self.slice_column("id")),
            "slice_name": ("u32", self.slice_column("name")),
            "slice_kind": ("u8", self.slice_column("kind")),
            "slice_flags": ("u8", self.slice_column("flags")),
            "counter_lane": ("u32", _concat_columns(self.counter_lanes)),
            "counter_index": ("f64", _concat_columns([tiles.index for tiles in self.counters])),
            "counter_min": ("f32", _concat_columns([tiles.smallest for tiles in self.counters])),
            "counter_max": ("f32", _concat_columns([tiles.largest for tiles in self.counters])),
        }
        if self.classed:
            columns["class"] = "u8", _concat_columns(self.classes)
            columns["slice_class"] = "u8", self.slice_column("class")
        return columns

    def slice_column(self, column: str) -> Array:
        return _concat_columns([part[column] for part in self.slices])


def _concat_columns(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
