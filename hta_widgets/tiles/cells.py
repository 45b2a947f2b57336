"""Cells and tiles: the exact contents of equal intervals of a lane.

At zoom level L, a cell is 2^L ns long, and cell k starts at k·2^L ns. A tile consists of 256
consecutive cells. For each cell, it has the time covered by events, the number of events that
overlap the cell, and the kind that covers most of it. These values are exact: they are computed
from the events in integers. Events at least two cells long are also sent as slices, so that the
page can draw them with their names.

For example, at level 3 a cell is 8 ns long. If a lane has a compute event from 4 to 14 ns and a
copy from 14 to 16 ns, its first two cells are::

    cell     0-8 ns     8-16 ns
    covered  4          8
    count    1          2
    kind     compute    compute (6 ns of 8)
    share    32768      65535         covered / 8, as 0 (exactly empty) ... 65535 (exactly full)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.facts import facts
from hta_widgets.tiles.lanes import CounterLane, EventLane, KindIndex, Positions
from hta_widgets.trace.arrays import Ints, concatenate_ranges

#: The number of cells per tile, and its binary logarithm.
CELLS, TILE_BITS = 256, 8
MAX_TILES = 65_536
NO_KIND = 255
FULL_CELL = 65535
#: Classes that mean no change, and the weight of the time in all other classes. With this weight,
#: changes that take a tenth of the busy time determine the class of a cell.
_UNCHANGED = tuple(
    code
    for code, name in enumerate(facts("event_classes")["light"])
    if name in {"same", "not_compared"}
)
_CHANGE_WEIGHT = 9

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint16]


@dataclass(slots=True, frozen=True)
class Cells:
    """Contents of consecutive cells: covered ns, event count, main kind, bit mask of kinds."""

    covered: Ints
    count: Ints
    kind: Bytes
    mask: Bytes


def measure_cells(lane: EventLane, edges: Ints, *, by_class: bool = False) -> Cells:
    """Return the contents of the cells between consecutive `edges`.

    If the lane is indexed by class, `by_class` weights changes higher than unchanged events.
    """
    covered, count = lane.spans.measure(edges)
    has_event = count > 0
    if lane.kinds is None:
        kind = np.where(has_event, np.uint8(lane.kind), np.uint8(NO_KIND))
        return Cells(covered, count, kind, has_event.astype(np.uint8) << np.uint8(lane.kind))
    codes, times, counts = _coverage_by_kind(lane.kinds, edges, covered, count)
    weighted_times = times
    if by_class:
        weights = np.where(np.isin(codes, _UNCHANGED), 1, _CHANGE_WEIGHT)
        weighted_times = times * weights[:, None]
    kind = codes[weighted_times.argmax(axis=0)]
    # If all events of a cell have zero duration, the first event determines its kind.
    has_instants_only = has_event & (times.max(axis=0) == 0)
    first_instant = lane.spans.points.searchsorted(edges[:-1][has_instants_only])
    kind[has_instants_only] = lane.kinds.of_points[first_instant]
    kind[~has_event] = NO_KIND
    kind_bits = (counts > 0) << codes[:, None]
    return Cells(covered, count, kind, kind_bits.sum(axis=0, dtype=np.uint8))


def _coverage_by_kind(
    kinds: KindIndex, edges: Ints, covered: Ints, count: Ints
) -> tuple[Bytes, Ints, Ints]:
    """Return a mixed lane's kinds in ascending order, with their time and count in each cell."""
    coverage = {code: spans.measure(edges) for code, spans in kinds.minor}
    # If events do not overlap, the major kind covers the busy time that no other kind covers.
    time = covered - sum(minor_time for minor_time, _ in coverage.values())
    events = count - sum(minor_events for _, minor_events in coverage.values())
    if kinds.major_cover is not None:
        time = np.diff(kinds.major_cover.count_and_length_before(edges)[1])
    coverage[kinds.major] = time, events
    codes = sorted(coverage)
    return (
        np.array(codes, np.uint8),
        np.stack([coverage[code][0] for code in codes]),
        np.stack([coverage[code][1] for code in codes]),
    )


def kind_times(lane: EventLane, start: int, end: int) -> dict[int, int]:
    """Return the covered time per kind in a window, for the kinds that occur in it."""
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


def quantize_shares(covered: Ints, level: int) -> Words:
    """Convert covered time to shares of a cell, from 0 (exactly empty) to 65535 (exactly full)."""
    # Compute floor((covered·65535 + half a cell) / cell) in two steps, to avoid int64 overflow.
    low_bits = max(0, level - 46)
    low = covered & ((1 << low_bits) - 1)
    half = (1 << level) >> 1
    scaled = (covered >> low_bits) * FULL_CELL + ((low * FULL_CELL + half) >> low_bits)
    shares = np.maximum(scaled >> (level - low_bits), covered > 0)
    largest = np.where(covered >= 1 << level, FULL_CELL, FULL_CELL - 1)
    limited: Words = np.minimum(shares, largest).astype(np.uint16)
    return limited


@dataclass(slots=True, frozen=True)
class TileSlices:
    """Events drawn as slices: for each, the index of its tile and its position in ``lane.rows``."""

    tile: Positions
    positions: Positions


@dataclass(slots=True, frozen=True)
class EventTiles:
    """The non-empty tiles of a lane. Arrays of cells have the shape (tiles, 256)."""

    index: Ints
    busy: Words
    count: Words
    kind: Bytes
    mask: Bytes
    slices: TileSlices


def event_tiles(
    lane: EventLane, level: int, first: int, last: int, shift: int = 0
) -> EventTiles | None:
    """Return the non-empty tiles from `first` up to `last` - 1, or None if all are empty."""
    begin, end = lane.spans.extent
    if begin == end:
        return None
    first, last = _clip_tiles(begin + shift, end + shift, level, first, last)
    if last <= first:
        return None
    edges = _cell_edges(level, first, last) - shift
    cells = measure_cells(lane, edges)
    count = np.minimum(cells.count, FULL_CELL).astype(np.uint16).reshape(-1, CELLS)
    filled = np.flatnonzero(count.any(axis=1))
    if not len(filled):
        return None
    positions = lane.long_events(int(edges[0]), int(edges[-1]), 2 << level)
    busy = quantize_shares(cells.covered, level).reshape(-1, CELLS)[filled]
    kind, mask = (column.reshape(-1, CELLS)[filled] for column in (cells.kind, cells.mask))
    slices = _repeat_by_tile(lane, positions, shift, bits=level + TILE_BITS, first=first, last=last)
    # A tile with a slice has events, so every tile in `slices` is also in `filled`.
    position = np.searchsorted(filled, slices.tile)
    return EventTiles(
        filled + first, busy, count[filled], kind, mask, TileSlices(position, slices.positions)
    )


def classes_of_tiles(lane: EventLane, level: int, index: Ints, shift: int = 0) -> Bytes:
    """Return the class of each cell in the given tiles, or `NO_KIND` for empty cells.

    `lane` must be indexed by class. `index` holds the tile numbers in ascending order.
    """
    first, last = int(index[0]), int(index[-1]) + 1
    if last - first <= 2 * len(index):
        # If at least half of the tiles in the range are wanted, measure the whole range at once.
        edges = _cell_edges(level, first, last) - shift
        return measure_cells(lane, edges, by_class=True).kind.reshape(-1, CELLS)[index - first]
    edges_of_tiles = (_cell_edges(level, tile, tile + 1) - shift for tile in index.tolist())
    return np.stack([measure_cells(lane, edges, by_class=True).kind for edges in edges_of_tiles])


def _cell_edges(level: int, first: int, last: int) -> Ints:
    return np.arange(first * CELLS, last * CELLS + 1, dtype=np.int64) * (1 << level)


def _clip_tiles(begin: int, end: int, level: int, first: int, last: int) -> tuple[int, int]:
    """Restrict the requested tiles to those between the first and the last event of the lane."""
    bits = level + TILE_BITS
    first, last = max(first, begin >> bits), min(last, ((end - 1) >> bits) + 1)
    if last - first > MAX_TILES:
        raise ValueError(f"{last - first} tiles of one lane; request at most {MAX_TILES}")
    return first, last


def _repeat_by_tile(
    lane: EventLane, positions: Positions, shift: int, *, bits: int, first: int, last: int
) -> TileSlices:
    """Repeat each event once per tile that it overlaps. Tiles are numbered from `first`."""
    if not len(positions):
        return TileSlices(positions, positions)
    starts = lane.spans.sorted_starts[positions] + shift
    ends = starts + lane.durations(positions)
    low = np.maximum((starts >> bits) - first, 0)
    high = np.minimum(((ends - 1) >> bits) - first, last - first - 1)
    repeats = high - low + 1
    tile = concatenate_ranges(low, repeats)
    order = np.argsort(tile, kind="stable")
    return TileSlices(tile[order].astype(np.intp), np.repeat(positions, repeats)[order])


@dataclass(slots=True, frozen=True)
class CounterTiles:
    """The tiles of a counter lane that have a value. Arrays have the shape (tiles, 256)."""

    index: Ints
    smallest: npt.NDArray[np.float32]
    largest: npt.NDArray[np.float32]


def counter_tiles(
    lane: CounterLane, level: int, first: int, last: int, shift: int = 0
) -> CounterTiles | None:
    """Return tiles of a counter lane; the counterpart of `event_tiles`."""
    if not len(lane.times):
        return None
    first, last = _clip_tiles(int(lane.times[0]) + shift, lane.end + shift, level, first, last)
    if last <= first:
        return None
    edges = _cell_edges(level, first, last) - shift
    smallest, largest = (
        column.astype(np.float32).reshape(-1, CELLS) for column in lane.measure(edges)
    )
    filled = np.flatnonzero(~np.isnan(smallest).all(axis=1))
    if not len(filled):
        return None
    return CounterTiles(filled + first, smallest[filled], largest[filled])
