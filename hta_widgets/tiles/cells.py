"""Exact cells, and tiles in their binary form."""

from __future__ import annotations

import math
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hta_widgets.facts import facts
from hta_widgets.tiles.lanes import (
    OF_EVENTS,
    Classes,
    CounterLane,
    EventLane,
    KindIndex,
    Positions,
    RankIndex,
)
from hta_widgets.tiles.layout import LaneRef
from hta_widgets.trace.arrays import Array, Codes, Ints
from hta_widgets.trace.columns import StringPool
from hta_widgets.trace.names import short_name

CELLS = 256
TILE_BITS = 8
MAX_TILES = 65_536
NO_KIND = 255
FULL_CELL = 65535

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint16]


@dataclass(slots=True, frozen=True)
class Cells:
    """Exact contents of neighbouring cells: ns covered, events, main kind, bits of all kinds."""

    covered: Ints
    count: Ints
    kind: Bytes
    mask: Bytes


def measure_cells(lane: EventLane, edges: Ints) -> Cells:
    """Return the contents of the cells between neighbouring `edges`."""
    covered, count = lane.spans.measure(edges)
    some = count > 0
    if lane.kinds is None:
        kind = np.where(some, np.uint8(lane.kind), np.uint8(NO_KIND))
        return Cells(covered, count, kind, some.astype(np.uint8) << np.uint8(lane.kind))
    codes, times, counts = _coverage_by_kind(lane.kinds, edges, covered, count)
    kind = codes[times.argmax(axis=0)]
    instants = some & (times.max(axis=0) == 0)
    if instants.any():
        at = lane.spans.points.searchsorted(edges[:-1][instants])
        kind[instants] = lane.kinds.of_points[at]
    kind[~some] = NO_KIND
    mask = ((counts > 0) << codes[:, None]).sum(axis=0, dtype=np.uint8)
    return Cells(covered, count, kind, mask)


def _coverage_by_kind(
    kinds: KindIndex, edges: Ints, covered: Ints, count: Ints
) -> tuple[Bytes, Ints, Ints]:
    """Return the kinds of a mixed lane, ascending, and their covered time and events per cell."""
    parts = {code: spans.measure(edges) for code, spans in kinds.minor}
    time, events = covered, count
    for part_time, part_events in parts.values():
        time, events = time - part_time, events - part_events
    if kinds.major_cover is not None:
        time = np.diff(kinds.major_cover.count_and_length_before(edges)[1])
    parts[kinds.major] = time, events
    codes = sorted(parts)
    return (
        np.array(codes, np.uint8),
        np.stack([parts[code][0] for code in codes]),
        np.stack([parts[code][1] for code in codes]),
    )


def kind_times(lane: EventLane, start: int, end: int) -> dict[int, int]:
    """Return the covered time of each kind that has an event in a window."""
    edges = np.array((start, end), np.int64)
    covered, count = lane.spans.measure(edges)
    if lane.kinds is None:
        return {lane.kind: int(covered[0])} if count[0] else {}
    codes, times, counts = _coverage_by_kind(lane.kinds, edges, covered, count)
    return {
        code: int(time)
        for code, time, events in zip(codes.tolist(), times[:, 0], counts[:, 0], strict=True)
        if events
    }


def longest_event(lane: EventLane, start: int, end: int) -> int | None:
    """Return the position in ``lane.rows`` of the longest event of a window; ties go to the first.

    None if no event with a length overlaps the window.
    """
    at = lane.long_events(start, end, 1)
    if not len(at):
        return None
    return int(at[lane.durations(at).argmax()])


def quantise_shares(covered: Ints, level: int) -> Words:
    """Return shares of cells of 2^level ns as 0 (exactly empty) … 65535 (exactly full)."""
    # floor((covered·65535 + half a cell) / cell), in two steps so that it never leaves int64.
    low_bits = max(0, level - 46)
    low = covered & ((1 << low_bits) - 1)
    half = (1 << level) >> 1
    nearest = ((covered >> low_bits) * FULL_CELL + ((low * FULL_CELL + half) >> low_bits)) >> (
        level - low_bits
    )
    shares: Words = np.minimum(
        np.maximum(nearest, covered > 0), FULL_CELL - (covered < (1 << level))
    ).astype(np.uint16)
    return shares


@dataclass(slots=True, frozen=True)
class TileSlices:
    """Long events per tile: tile position, and position in ``lane.rows``."""

    tile: Positions
    positions: Positions


@dataclass(slots=True, frozen=True)
class EventTiles:
    """The tiles of one lane that are not empty; columns have one row of 256 cells per tile."""

    index: Ints
    busy: Words
    count: Words
    kind: Bytes
    mask: Bytes
    slices: TileSlices


def event_tiles(
    lane: EventLane, level: int, first: int, last: int, shift: int = 0
) -> EventTiles | None:
    """Return tiles `first` … `last` - 1 of a lane without the empty ones; None if all are empty."""
    begin, end = lane.spans.extent
    if begin == end:
        return None
    first, last = _clip_tiles(begin + shift, end + shift, level, first, last)
    if last <= first:
        return None
    edges = np.arange(first * CELLS, last * CELLS + 1, dtype=np.int64) * (1 << level) - shift
    cells = measure_cells(lane, edges)
    count = np.minimum(cells.count, FULL_CELL).astype(np.uint16).reshape(-1, CELLS)
    kept = np.flatnonzero(count.any(axis=1))
    if not len(kept):
        return None
    at = lane.long_events(int(edges[0]), int(edges[-1]), 2 << level)
    busy = quantise_shares(cells.covered, level).reshape(-1, CELLS)[kept]
    kind, mask = (column.reshape(-1, CELLS)[kept] for column in (cells.kind, cells.mask))
    slices = _repeat_by_tile(lane, at, shift, bits=level + TILE_BITS, first=first, last=last)
    # Tiles with a slice have a count, so those that are kept hold all slices.
    position = np.searchsorted(kept, slices.tile)
    return EventTiles(
        kept + first, busy, count[kept], kind, mask, TileSlices(position, slices.positions)
    )


def kinds_of_tiles(lane: EventLane, level: int, index: Ints, shift: int = 0) -> Bytes:
    """Return the main kind of the cells of tiles, (tiles, 256); `NO_KIND` for empty cells."""
    edges = np.arange(CELLS + 1, dtype=np.int64)
    first, last = int(index[0]), int(index[-1]) + 1
    if last - first <= 2 * len(index):
        edges = np.arange(first * CELLS, last * CELLS + 1, dtype=np.int64) * (1 << level) - shift
        return measure_cells(lane, edges).kind.reshape(-1, CELLS)[index - first]
    return np.stack(
        [
            measure_cells(lane, (edges + at * CELLS) * (1 << level) - shift).kind
            for at in index.tolist()
        ]
    )


def _clip_tiles(begin: int, end: int, level: int, first: int, last: int) -> tuple[int, int]:
    """Limit the requested tiles to those between the lane's first and last event."""
    bits = level + TILE_BITS
    first, last = max(first, begin >> bits), min(last, ((end - 1) >> bits) + 1)
    if last - first > MAX_TILES:
        raise ValueError(f"{last - first} tiles of one lane; ask for {MAX_TILES} at most")
    return first, last


def _repeat_by_tile(
    lane: EventLane, at: Positions, shift: int, *, bits: int, first: int, last: int
) -> TileSlices:
    """Repeat each event for every tile that it overlaps; tiles count from `first`."""
    if not len(at):
        return TileSlices(at, at)
    starts = lane.spans.sorted_starts[at] + shift
    ends = starts + lane.durations(at)
    low = np.maximum((starts >> bits) - first, 0)
    high = np.minimum(((ends - 1) >> bits) - first, last - first - 1)
    repeats = high - low + 1
    within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    tile = np.repeat(low, repeats) + within
    order = np.argsort(tile, kind="stable")
    return TileSlices(tile[order].astype(np.intp), np.repeat(at, repeats)[order])


@dataclass(slots=True, frozen=True)
class CounterTiles:
    """Tiles of a counter lane that hold a value; one row of 256 cells per tile."""

    index: Ints
    smallest: npt.NDArray[np.float32]
    largest: npt.NDArray[np.float32]


def counter_tiles(
    lane: CounterLane, level: int, first: int, last: int, shift: int = 0
) -> CounterTiles | None:
    """Return tiles of a counter lane, as `tiles` does for events."""
    if not len(lane.times):
        return None
    first, last = _clip_tiles(int(lane.times[0]) + shift, lane.end + shift, level, first, last)
    if last <= first:
        return None
    edges = np.arange(first * CELLS, last * CELLS + 1, dtype=np.int64) * (1 << level) - shift
    smallest, largest = (
        column.astype(np.float32).reshape(-1, CELLS) for column in lane.measure(edges)
    )
    kept = np.flatnonzero(~np.isnan(smallest).all(axis=1))
    if not len(kept):
        return None
    return CounterTiles(kept + first, smallest[kept], largest[kept])


Columns = Mapping[str, tuple[str, npt.ArrayLike]]

NO_KIND_NIBBLE = 15

#: Columns of mostly small integers, and the types to send them as, narrowest first.
_NARROW = {
    "count": ("u8",),
    "slice_id": ("u16",),
    "slice_name": ("u8", "u16"),
    "slice_dur": ("u16", "u32"),
}
_MAX_VALUES = {"u8": 0xFF, "u16": 0xFFFF, "u32": 0xFFFF_FFFF}


def compact_columns(columns: Columns, level: int) -> dict[str, tuple[str, npt.ArrayLike]]:
    """Return the columns of ``tiles`` in the form for ``compact`` requests."""
    made: dict[str, tuple[str, npt.ArrayLike]] = {}
    for name, (dtype, values) in columns.items():
        array = np.asarray(values)
        if name == "kind":
            made["kinds"] = "u8", _nibbles(array)
        elif name == "slice_start":
            offset = _offsets(columns, level)
            made |= {name: (dtype, array)} if offset is None else {"slice_offset": ("i32", offset)}
        elif name != "mask" and not (name == "slice_flags" and not array.any()):
            made[name] = _narrowest_dtype(name, dtype, array), array
    return made


def _nibbles(kind: Codes) -> Codes:
    """Pack two cells into a byte, the first in the lower half; 15 stands for no kind."""
    codes = np.where(kind.ravel() == NO_KIND, NO_KIND_NIBBLE, kind.ravel()).astype(np.uint8)
    halves: Codes = codes[0::2] | (codes[1::2] << np.uint8(4))
    return halves


def _offsets(columns: Columns, level: int) -> Ints | None:
    """Return the offset of each slice from its tile's start; None if one is too large."""
    first = np.asarray(columns["slice_first"][1]).astype(np.int64)
    index = np.asarray(columns["tile_index"][1]).astype(np.int64)
    start = np.asarray(columns["slice_start"][1]).astype(np.int64)
    offset: Ints = start - np.repeat(index * CELLS << level, np.diff(first))
    limits = np.iinfo(np.int32)
    fits = not len(offset) or (offset.min() >= limits.min and offset.max() <= limits.max)
    return offset if fits else None


def _narrowest_dtype(name: str, dtype: str, values: npt.NDArray[np.generic]) -> str:
    most = int(values.max()) if name in _NARROW and values.size else 0
    return next((one for one in _NARROW.get(name, ()) if most <= _MAX_VALUES[one]), dtype)


class NameKeys:
    """Assigns a number to every short name of the job."""

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}
        self._texts: list[str] = []
        #: By id of a pool: the pool, and the key of each of its codes, -1 if not used yet.
        self._of_pool: dict[int, tuple[StringPool, Ints]] = {}

    def keys(self, pool: StringPool, codes: Array) -> Ints:
        """Return the keys of the names that have these codes in a rank's pool."""
        known = self._of_pool.get(id(pool))
        if known is None or len(known[1]) < len(pool):
            known = (pool, np.full(len(pool), -1, np.int64))
            self._of_pool[id(pool)] = known
        table = known[1]
        keys: Ints = table[codes]
        if (keys < 0).any():
            for code in np.unique(codes[keys < 0]).tolist():
                table[code] = self._key(short_name(pool[code]))
            keys = table[codes]
        return keys

    def _key(self, text: str) -> int:
        key = self._keys.setdefault(text, len(self._texts))
        if key == len(self._texts):
            self._texts.append(text)
        return key

    def texts(self, keys: Ints) -> dict[str, str]:
        """Return the short names by key, as JSON."""
        return {str(key): self._texts[key] for key in np.unique(keys).tolist()}


DTYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype("u1"),
    "u16": np.dtype("<u2"),
    "u32": np.dtype("<u4"),
    "i32": np.dtype("<i4"),
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
}
ALIGNMENT = 8

#: Column → [dtype, byte offset, length].
Header = dict[str, list[Any]]


def pack(columns: Mapping[str, tuple[str, npt.ArrayLike]]) -> tuple[Header, bytes]:
    """Concatenate columns, each at a multiple of 8 bytes."""
    header: Header = {}
    parts: list[bytes] = []
    size = 0
    for name, (dtype, values) in columns.items():
        padding = -size % ALIGNMENT
        array = np.ascontiguousarray(values, DTYPES[dtype]).ravel()
        header[name] = [dtype, size + padding, len(array)]
        parts += [bytes(padding), array.tobytes()]
        size += padding + array.nbytes
    return header, b"".join(parts)


def unpack(header: Mapping[str, list[Any]], buffer: bytes) -> dict[str, Array]:
    """Return the columns that `pack` wrote, as views of the buffer."""
    return {
        name: np.frombuffer(buffer, DTYPES[dtype], length, offset)
        for name, (dtype, offset, length) in header.items()
    }


TRIMMED: int = facts("flags")["slice"]["trimmed"]
SPILLED: int = facts("flags")["slice"]["spilled"]

#: Maximum bytes of a tile in a compact reply with classes; bytes of an average slice.
TILE_BYTES, COUNTER_BYTES = 6 * CELLS, 8 * CELLS
SLICE_BYTES = 20

#: Smaller buffers are not compressed, as that would not save time.
LEAST_ZIPPED_BYTES = 16_384
GZIP_WINDOW = 31

Answer = tuple[dict[str, Any], bytes | None]
OpColumns = dict[str, tuple[str, npt.ArrayLike]]
OpSlices = dict[str, Array]


class TilesRequest(Protocol):
    """A request for tiles."""

    level: int
    within_ms: float | None
    most_bytes: int | None
    compact: bool
    gzip: bool

    @property
    def parts(self) -> Sequence[Any]:
        """Parts of the request, each for tiles `first` … `last` - 1 of its `lanes`."""


def answer_tiles(
    request: TilesRequest,
    index_of: Callable[[int], RankIndex],
    names: NameKeys,
    classes_of: Callable[[int], Classes | None] | None = None,
) -> Answer:
    """Answer ``tiles``; `index_of` returns the index for a lane, `classes_of` a rank's classes."""
    level, within_ms = request.level, request.within_ms
    basket = _ReplyBuilder(classed=classes_of is not None)
    due = math.inf if within_ms is None else time.perf_counter() + within_ms / 1000
    most_bytes = sys.maxsize if request.most_bytes is None else request.most_bytes
    left: list[dict[str, Any]] = []
    for part in request.parts:
        for at, number in enumerate(part.lanes):
            # Answer at least one lane, or the page would repeat the request forever.
            if basket.lanes_added and (time.perf_counter() >= due or basket.bytes > most_bytes):
                left.append({"lanes": part.lanes[at:], "first": part.first, "last": part.last})
                break
            window = (level, part.first, part.last)
            _add_lane(basket, index_of(number), number, window, names, classes_of)
    columns = basket.columns()
    keys = basket.slice_column("name")
    header, buffer = pack(compact_columns(columns, level) if request.compact else columns)
    reply = {"level": level, "columns": header, "names": names.texts(keys)}
    if left:
        reply["left"] = left
    if request.gzip and len(buffer) >= LEAST_ZIPPED_BYTES:
        return {**reply, "gzip": True}, _gzip(buffer)
    return reply, buffer


def _gzip(buffer: bytes) -> bytes:
    """Compress a buffer, in about a tenth of the time that computing the buffer takes."""
    packing = zlib.compressobj(1, zlib.DEFLATED, GZIP_WINDOW)
    return packing.compress(buffer) + packing.flush()


def _add_lane(
    basket: _ReplyBuilder,
    index: RankIndex,
    number: int,
    window: tuple[int, int, int],
    names: NameKeys,
    classes_of: Callable[[int], Classes | None] | None,
) -> None:
    """Add the tiles of one lane to the reply."""
    basket.lanes_added += 1
    level, first, last = window
    ref, lane = index.lane(number)
    shift = index.rank.shift_ns
    if isinstance(lane, CounterLane):
        basket.add_counter(number, counter_tiles(lane, level, first, last, shift))
        return
    made = event_tiles(lane, level, first, last, shift)
    if made is None:
        return
    basket.add(number, made)
    slices = _slice_columns(index, ref, lane, made.slices.positions, names)
    if classes_of is not None:
        classes = classes_of(index.rank.rank)
        basket.classes.append(_cell_classes(index, number, level, made, classes))
        if slices:
            of_events = ref.role in OF_EVENTS
            slices["class"] = _slice_classes(slices["id"], classes if of_events else None)
    basket.add_slices(slices)


def _slice_columns(
    index: RankIndex, ref: LaneRef, lane: EventLane, at: Positions, names: NameKeys
) -> OpSlices:
    if not len(at):
        return {}
    # Times are taken from the lane: the table's columns may not be loaded yet.
    named, rows = index.names_of_lane(ref), lane.rows_of(at)
    flags = lane.overlap_mask(at).astype(np.uint8) * TRIMMED
    return {
        "start": lane.spans.sorted_starts[at] + index.rank.shift_ns,
        "dur": lane.durations(at),
        "id": rows,
        "name": names.keys(named.names, named.name[rows]),
        "kind": named.kind[rows],
        "flags": flags | np.uint8(SPILLED if ref.spilled else 0),
    }


def _cell_classes(
    index: RankIndex, number: int, level: int, made: EventTiles, classes: Classes | None
) -> Codes:
    """Return the class with the most time in each cell."""
    lane = None if classes is None else index.lane_by_class(number, classes)
    if lane is None:
        return np.full((len(made.index), CELLS), NO_KIND, np.uint8)
    return kinds_of_tiles(lane, level, made.index, index.rank.shift_ns)


def _slice_classes(rows: Array, classes: Classes | None) -> Codes:
    return np.full(len(rows), NO_KIND, np.uint8) if classes is None else classes[rows]


@dataclass(slots=True)
class _ReplyBuilder:
    """Collects the tiles of one answer."""

    classed: bool = False
    classes: list[Array] = field(default_factory=list)
    lanes: list[Array] = field(default_factory=list)
    tiles: list[EventTiles] = field(default_factory=list)
    slice_counts: list[Array] = field(default_factory=list)
    slices: list[OpSlices] = field(default_factory=list)
    counter_lanes: list[Array] = field(default_factory=list)
    counters: list[CounterTiles] = field(default_factory=list)
    total: int = 0
    #: Number of lanes handled so far, and the approximate size of the reply.
    lanes_added: int = 0
    bytes: int = 0

    def add(self, number: int, made: EventTiles) -> None:
        count = len(made.index)
        self._count(count, TILE_BYTES)
        self.lanes.append(np.full(count, number, np.uint32))
        self.tiles.append(made)
        self.slice_counts.append(np.bincount(made.slices.tile, minlength=count))

    def add_slices(self, new_slices: OpSlices) -> None:
        if new_slices:
            self.slices.append(new_slices)
            self.bytes += SLICE_BYTES * len(new_slices["id"])

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

    def columns(self) -> OpColumns:
        first = np.concatenate([np.zeros(1, np.int64), *self.slice_counts]).cumsum()
        return {
            "tile_lane": ("u32", _concat_columns(self.lanes)),
            "tile_index": ("f64", _concat_columns([tile.index for tile in self.tiles])),
            "busy": ("u16", _concat_columns([tile.busy for tile in self.tiles])),
            "count": ("u16", _concat_columns([tile.count for tile in self.tiles])),
            "kind": ("u8", _concat_columns([tile.kind for tile in self.tiles])),
            "mask": ("u8", _concat_columns([tile.mask for tile in self.tiles])),
            "slice_first": ("u32", first),
            "slice_start": ("f64", self.slice_column("start")),
            "slice_dur": ("f64", self.slice_column("dur")),
            "slice_id": ("u32", self.slice_column("id")),
            "slice_name": ("u32", self.slice_column("name")),
            "slice_kind": ("u8", self.slice_column("kind")),
            "slice_flags": ("u8", self.slice_column("flags")),
            "counter_lane": ("u32", _concat_columns(self.counter_lanes)),
            "counter_index": ("f64", _concat_columns([counter.index for counter in self.counters])),
            "counter_min": (
                "f32",
                _concat_columns([counter.smallest for counter in self.counters]),
            ),
            "counter_max": ("f32", _concat_columns([counter.largest for counter in self.counters])),
            **(
                {
                    "class": ("u8", _concat_columns(self.classes)),
                    "slice_class": ("u8", self.slice_column("class")),
                }
                if self.classed
                else {}
            ),
        }

    def slice_column(self, column: str) -> Array:
        return _concat_columns([part[column] for part in self.slices])


def _concat_columns(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
