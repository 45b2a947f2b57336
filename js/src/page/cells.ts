/** Tiles: cells of a lane as they travel. */

import type { Counter } from "./counter";
import type { Lane } from "./lane";

export const CELLS = 256;
export const MAX_LEVEL = 52;
export const MAX_TILES = 65_536;
const FULL = 65_535;
/** From this level on, a covered time times 65 535 is no longer exact as a number. */
const EXACT_LEVELS = 37;

/** Share of a cell of 2^level ns as 0 (exactly empty) … 65535 (exactly full). */
export function quantised(covered: number, level: number): number {
  const cell = 2 ** level;
  if (covered <= 0) return 0;
  if (covered >= cell) return FULL;
  const nearest =
    level < EXACT_LEVELS
      ? Math.floor((covered * FULL + Math.floor(cell / 2)) / cell)
      : Number((BigInt(covered) * BigInt(FULL) + (1n << BigInt(level - 1))) >> BigInt(level));
  return Math.min(Math.max(nearest, 1), FULL - 1);
}

/** Edges of the cells of tiles `first … last - 1`. */
export function edgesOf(level: number, first: number, last: number): Float64Array {
  const cell = 2 ** level;
  const edges = new Float64Array((last - first) * CELLS + 1);
  for (let k = 0; k < edges.length; k += 1) edges[k] = (first * CELLS + k) * cell;
  return edges;
}

/** The asked range without the tiles before and after what the lane has. */
export function clipped(
  extent: readonly [number, number],
  level: number,
  first: number,
  last: number,
): [first: number, last: number] {
  const width = CELLS * 2 ** level;
  const from = Math.max(first, Math.floor(extent[0] / width));
  const to = Math.min(last, Math.floor((extent[1] - 1) / width) + 1);
  if (to - from > MAX_TILES) {
    throw new Error(`${to - from} tiles of one lane; ask for ${MAX_TILES} at most`);
  }
  return [from, to];
}

/** One event of a tile, whatever it comes from. */
export interface SliceOut {
  start: number;
  dur: number;
  id: number;
  name: number;
  kind: number;
  flags: number;
}

export interface TileOut {
  index: number;
  busy: Uint16Array;
  count: Uint16Array;
  kind: Uint8Array;
  mask: Uint8Array;
  slices: SliceOut[];
}

export interface CounterTileOut {
  index: number;
  smallest: Float32Array;
  largest: Float32Array;
}

/** Cells of one lane in columns that are longer than a tile. */
export interface CellColumns {
  busy: Uint16Array;
  count: Uint16Array;
  kind: Uint8Array;
  mask: Uint8Array;
}

/** Cut columns into tiles, without the empty ones; `at` are the slices of the whole range. */
export function cutTiles(
  columns: CellColumns,
  slices: readonly SliceOut[],
  level: number,
  first: number,
): TileOut[] {
  const tiles: TileOut[] = [];
  const byIndex = new Map<number, TileOut>();
  for (let from = 0; from < columns.count.length; from += CELLS) {
    const count = columns.count.subarray(from, from + CELLS);
    if (count.every((events) => events === 0)) continue;
    const tile: TileOut = {
      index: first + from / CELLS,
      busy: columns.busy.subarray(from, from + CELLS),
      count,
      kind: columns.kind.subarray(from, from + CELLS),
      mask: columns.mask.subarray(from, from + CELLS),
      slices: [],
    };
    byIndex.set(tile.index, tile);
    tiles.push(tile);
  }
  const width = CELLS * 2 ** level;
  const last = first + columns.count.length / CELLS;
  for (const slice of slices) {
    const low = Math.max(Math.floor(slice.start / width), first);
    const high = Math.min(Math.floor((slice.start + slice.dur - 1) / width), last - 1);
    for (let index = low; index <= high; index += 1) byIndex.get(index)?.slices.push(slice);
  }
  return tiles;
}

/** Tiles `first … last - 1` of a lane; `slice` makes what travels of an event. */
export function laneTiles(
  lane: Lane,
  level: number,
  first: number,
  last: number,
  slice: (at: number) => SliceOut,
): TileOut[] {
  const { extent } = lane.spans;
  if (extent === null) return [];
  const [from, to] = clipped(extent, level, first, last);
  if (to <= from) return [];
  const edges = edgesOf(level, from, to);
  const cells = lane.measure(edges);
  const count = Uint16Array.from(cells.count, (events) => Math.min(events, FULL));
  const busy = Uint16Array.from(cells.covered, (covered) => quantised(covered, level));
  const long = lane.longEvents(edges[0]!, edges[edges.length - 1]!, 2 * 2 ** level);
  const columns = { busy, count, kind: cells.kind, mask: cells.mask };
  return cutTiles(columns, long.map(slice), level, from);
}

/** The main kind of a tile's cells, of a lane that is indexed by whatever is asked for. */
export function mainKinds(lane: Lane, level: number, index: number): Uint8Array {
  return lane.measure(edgesOf(level, index, index + 1)).kind;
}

/** Tiles of a counter lane, without those that hold no value. */
export function counterTiles(
  counter: Counter,
  level: number,
  first: number,
  last: number,
): CounterTileOut[] {
  if (counter.times.length === 0) return [];
  const [from, to] = clipped([counter.times[0]!, counter.end], level, first, last);
  if (to <= from) return [];
  const { smallest, largest } = counter.measure(edgesOf(level, from, to));
  return cutCounterTiles(Float32Array.from(smallest), Float32Array.from(largest), from);
}

export function cutCounterTiles(
  smallest: Float32Array,
  largest: Float32Array,
  first: number,
): CounterTileOut[] {
  const tiles: CounterTileOut[] = [];
  for (let from = 0; from < smallest.length; from += CELLS) {
    const low = smallest.subarray(from, from + CELLS);
    if (low.every((value) => Number.isNaN(value))) continue;
    tiles.push({
      index: first + from / CELLS,
      smallest: low,
      largest: largest.subarray(from, from + CELLS),
    });
  }
  return tiles;
}
