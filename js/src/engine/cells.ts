/**
 * Index a lane's events to compute cells at any zoom, as in `hta_widgets/tiles/lanes.py`.
 *
 * A cell's covered time and event count are differences of the lane's prefix sums, so the cost does
 * not depend on the number of events. A cell's kind is the one that covers most of it.
 */

import { gather, indicesWhere } from "../expressions/numbers";
import { weightOfClass } from "../facts/event_classes";
import { MAX_U16, NO_CODE, TILE_CELLS } from "../protocol/decode";
import { countBelow, gallopBelow } from "./columns";
import { pieceAt, IntervalSet } from "./spans";

const BLOCK = 64;

/** Exact contents of adjacent cells. */
export interface Cells {
  covered: Float64Array;
  count: Float64Array;
  kind: Uint8Array;
  mask: Uint8Array;
}

interface LaneEvents {
  /** Events in lane order: by start, longest first. */
  starts: Float64Array;
  durs: Float64Array;
  kinds: Uint8Array;
  /** Table row of each event; null for a lane without slices. */
  rows: Int32Array | null;
}

export class IndexedLane {
  readonly spans: IntervalSet;
  /** Spans of each kind, with its code. If there is only one kind, the spans are `spans`. */
  private readonly kindSpans: readonly { kind: number; spans: IntervalSet }[];
  /** Kind of each zero-length event, sorted by time, then by kind. */
  private readonly kindOfPoint: Uint8Array;
  /** Table row of each event that has a duration. */
  readonly rows: Int32Array;
  readonly durs: Float64Array;
  /** Longest duration in each block of 64 elements of `durs`. */
  private readonly longestOfBlock: Float64Array;

  constructor({ starts, durs, kinds, rows }: LaneEvents) {
    this.spans = IntervalSet.of(starts, durs);
    const long = indicesWhere(rows === null ? 0 : durs.length, (i) => durs[i]! > 0);
    this.rows = long.map((i) => rows![i]!);
    this.durs = gather(durs, long);
    this.longestOfBlock = blockMaxima(this.durs);
    const usedKinds = [...new Set(kinds)].sort((a, b) => a - b);
    this.kindSpans = usedKinds.map((kind) => {
      if (usedKinds.length === 1) return { kind, spans: this.spans };
      const ofKind = indicesWhere(kinds.length, (i) => kinds[i] === kind);
      return { kind, spans: IntervalSet.of(gather(starts, ofKind), gather(durs, ofKind)) };
    });
    this.kindOfPoint = pointKinds(starts, durs, kinds);
  }

  /** Return the contents of the cells between edges. `weightOf`: weights for choosing the kinds. */
  measure(edges: Float64Array, weightOf: (kind: number) => number = () => 1): Cells {
    const total = this.spans.measure(edges);
    const { covered, count } = total;
    const cells = count.length;
    const kind = new Uint8Array(cells).fill(NO_CODE);
    const mask = new Uint8Array(cells);
    const maxCovered = new Float64Array(cells);
    for (const part of this.kindSpans) {
      const measured = part.spans === this.spans ? total : part.spans.measure(edges);
      const weight = weightOf(part.kind);
      for (let k = 0; k < cells; k += 1) {
        if (measured.count[k]! === 0) continue;
        mask[k]! |= 1 << part.kind;
        if (measured.covered[k]! * weight > maxCovered[k]!) {
          maxCovered[k] = measured.covered[k]! * weight;
          kind[k] = part.kind;
        }
      }
    }
    for (let k = 0; k < cells; k += 1) {
      if (count[k]! > 0 && maxCovered[k]! === 0) {
        kind[k] = this.kindOfPoint[countBelow(this.spans.points, edges[k]!)]!;
      }
    }
    return { covered, count, kind, mask };
  }

  /** Return the kinds with events in a window, and the time that each kind covers. */
  kindTimes(start: number, end: number): [kind: number, ns: number][] {
    const edges = Float64Array.of(start, end);
    return this.kindSpans
      .map(({ kind, spans }) => ({ kind, coverage: spans.measure(edges) }))
      .filter(({ coverage }) => coverage.count[0]! > 0)
      .map(({ kind, coverage }) => [kind, coverage.covered[0]!]);
  }

  /** Return positions in `rows` of events that overlap a window and last `minDurNs` or longer. */
  longEvents(start: number, end: number, minDurNs: number): number[] {
    const { begins, cover } = this.spans;
    if (this.rows.length === 0 || end <= start) return [];
    // Overlapping events begin no earlier than the piece of the union that contains `start`.
    const first = countBelow(begins, cover.starts[pieceAt(cover, start)]!);
    const last = countBelow(begins, end);
    const indices: number[] = [];
    for (let block = Math.floor(first / BLOCK); block * BLOCK < last; block += 1) {
      if (this.longestOfBlock[block]! < minDurNs) continue;
      const to = Math.min((block + 1) * BLOCK, last);
      for (let event = Math.max(block * BLOCK, first); event < to; event += 1) {
        if (this.durs[event]! >= minDurNs && begins[event]! + this.durs[event]! > start)
          indices.push(event);
      }
    }
    return indices;
  }

  /** Return whether the event at this position begins before the end of an earlier event. */
  overlapsEarlier(event: number): boolean {
    if (this.spans.isDisjoint) return false;
    const { begins, cover } = this.spans;
    return countBelow(begins, cover.starts[pieceAt(cover, begins[event]!)]!) !== event;
  }
}

function pointKinds(starts: Float64Array, durs: Float64Array, kinds: Uint8Array): Uint8Array {
  const points = indicesWhere(durs.length, (i) => !(durs[i]! > 0));
  points.sort((a, b) => starts[a]! - starts[b]! || kinds[a]! - kinds[b]!);
  return gather(kinds, points);
}

function blockMaxima(durs: Float64Array): Float64Array {
  const out = new Float64Array(Math.ceil(durs.length / BLOCK));
  for (let i = 0; i < durs.length; i += 1) {
    const block = Math.floor(i / BLOCK);
    if (durs[i]! > out[block]!) out[block] = durs[i]!;
  }
  return out;
}

// Tiles: a lane's cells, in the form used in replies.

export const MAX_TILES = 65_536;
/** From this level on, a covered time multiplied by `MAX_U16` exceeds 2^53 and is inexact. */
const FIRST_INEXACT_LEVEL = 37;

/** Return the covered share of a 2^level ns cell: 0 (only if empty) … 65535 (only if full). */
export function quantizeShare(covered: number, level: number): number {
  const cell = 2 ** level;
  if (covered <= 0) return 0;
  if (covered >= cell) return MAX_U16;
  const nearest =
    level < FIRST_INEXACT_LEVEL
      ? Math.floor((covered * MAX_U16 + Math.floor(cell / 2)) / cell)
      : Number((BigInt(covered) * BigInt(MAX_U16) + (1n << BigInt(level - 1))) >> BigInt(level));
  return Math.min(Math.max(nearest, 1), MAX_U16 - 1);
}

function cellEdges(level: number, first: number, last: number): Float64Array {
  const cell = 2 ** level;
  const edges = new Float64Array((last - first) * TILE_CELLS + 1);
  for (let k = 0; k < edges.length; k += 1) edges[k] = (first * TILE_CELLS + k) * cell;
  return edges;
}

/** The tiles that are requested. `last` is exclusive. */
export interface TileRange {
  level: number;
  first: number;
  last: number;
}

/** Clip the requested range to the lane's tiles; null if no tile is left. */
function clipTileRange(
  [start, end]: readonly [number, number],
  requested: TileRange,
): TileRange | null {
  const { level } = requested;
  const width = TILE_CELLS * 2 ** level;
  const first = Math.max(requested.first, Math.floor(start / width));
  const last = Math.min(requested.last, Math.floor((end - 1) / width) + 1);
  if (last - first > MAX_TILES) {
    throw new Error(`${last - first} tiles of one lane; request at most ${MAX_TILES}`);
  }
  return last > first ? { level, first, last } : null;
}

/** An event as stored in tiles. */
export interface TileSlice {
  start: number;
  dur: number;
  id: number;
  name: number;
  kind: number;
  flags: number;
}

export interface CellTile {
  index: number;
  busy: Uint16Array;
  count: Uint16Array;
  kind: Uint8Array;
  mask: Uint8Array;
  slices: TileSlice[];
}

export interface CounterTile {
  index: number;
  min: Float32Array;
  max: Float32Array;
}

/** Return the non-empty tiles within an extent. Every tile that a slice overlaps contains it. */
export function buildCellTiles(
  extent: readonly [number, number],
  requested: TileRange,
  measure: (range: TileRange) => { cells: Cells; slices: readonly TileSlice[] },
): CellTile[] {
  const range = clipTileRange(extent, requested);
  if (range === null) return [];
  const { level, first, last } = range;
  const { cells, slices } = measure(range);
  const count = Uint16Array.from(cells.count, (events) => Math.min(events, MAX_U16));
  const busy = Uint16Array.from(cells.covered, (covered) => quantizeShare(covered, level));
  const tiles = new Map<number, CellTile>();
  for (let index = first; index < last; index += 1) {
    const from = (index - first) * TILE_CELLS;
    const cellsOfTile = <T extends Uint8Array | Uint16Array>(values: T): T =>
      values.subarray(from, from + TILE_CELLS) as T;
    if (cellsOfTile(count).every((events) => events === 0)) continue;
    tiles.set(index, {
      index,
      busy: cellsOfTile(busy),
      count: cellsOfTile(count),
      kind: cellsOfTile(cells.kind),
      mask: cellsOfTile(cells.mask),
      slices: [],
    });
  }
  const width = TILE_CELLS * 2 ** level;
  for (const slice of slices) {
    const from = Math.max(Math.floor(slice.start / width), first);
    const to = Math.min(Math.floor((slice.start + slice.dur - 1) / width), last - 1);
    for (let index = from; index <= to; index += 1) tiles.get(index)?.slices.push(slice);
  }
  return [...tiles.values()];
}

/** Return the tiles of a lane. `makeSlice` returns the fields of an event. */
export function buildLaneTiles(
  lane: IndexedLane,
  requested: TileRange,
  makeSlice: (event: number) => TileSlice,
): CellTile[] {
  const { extent } = lane.spans;
  if (extent === null) return [];
  return buildCellTiles(extent, requested, ({ level, first, last }) => {
    const edges = cellEdges(level, first, last);
    const long = lane.longEvents(edges[0]!, edges[edges.length - 1]!, 2 * 2 ** level);
    return { cells: lane.measure(edges), slices: long.map(makeSlice) };
  });
}

/** Return the class of each cell of a tile, given a lane that is indexed by class. */
export function classesOfTile(lane: IndexedLane, level: number, index: number): Uint8Array {
  return lane.measure(cellEdges(level, index, index + 1), weightOfClass).kind;
}

/** Return the tiles within an extent that have counter values. */
export function buildValueTiles(
  extent: readonly [number, number],
  requested: TileRange,
  measure: (range: TileRange) => ValueExtremes,
): CounterTile[] {
  const range = clipTileRange(extent, requested);
  if (range === null) return [];
  const extremes = measure(range);
  const [smallest, largest] = [new Float32Array(extremes.min), new Float32Array(extremes.max)];
  const tiles: CounterTile[] = [];
  for (let index = range.first; index < range.last; index += 1) {
    const from = (index - range.first) * TILE_CELLS;
    const min = smallest.subarray(from, from + TILE_CELLS);
    if (min.every(Number.isNaN)) continue;
    tiles.push({ index, min, max: largest.subarray(from, from + TILE_CELLS) });
  }
  return tiles;
}

export function buildCounterTiles(counter: CounterSeries, requested: TileRange): CounterTile[] {
  if (counter.times.length === 0) return [];
  return buildValueTiles([counter.times[0]!, counter.end], requested, ({ level, first, last }) =>
    counter.measure(cellEdges(level, first, last)),
  );
}

// The samples of one counter as a step function of time.

interface ValueExtremes {
  /** NaN in cells that have no value. */
  min: Float32Array | Float64Array;
  max: Float32Array | Float64Array;
}

export class CounterSeries {
  /** Time until which the last value is valid. */
  readonly end: number;

  constructor(
    readonly times: Float64Array,
    readonly values: Float64Array,
    end: number,
  ) {
    const last = times.length > 0 ? times[times.length - 1]! + 1 : end;
    this.end = Math.max(end, last);
  }

  /** Return the smallest and largest value between adjacent edges. */
  measure(edges: Float64Array): ValueExtremes {
    const cells = Math.max(edges.length - 1, 0);
    const min = new Float64Array(cells).fill(Number.NaN);
    const max = new Float64Array(cells).fill(Number.NaN);
    const { times, values, end } = this;
    let first = countBelow(times, edges[0] ?? 0);
    let last = first;
    for (let k = 0; k < cells; k += 1) {
      const low = edges[k]!;
      first = gallopBelow(times, low, first);
      last = gallopBelow(times, Math.min(edges[k + 1]!, end), Math.min(last, times.length));
      if (low >= end) break;
      // If no sample is at a cell's start, the cell begins with the previous value.
      const from = times[first] === low ? first : Math.max(first - 1, 0);
      for (let i = from; i < last; i += 1) {
        const value = values[i]!;
        if (Number.isNaN(value)) continue;
        // As long as `min` and `max` are NaN, comparisons with them are false.
        if (!(value >= min[k]!)) min[k] = value;
        if (!(value <= max[k]!)) max[k] = value;
      }
    }
    return { min, max };
  }

  /** Return the number of samples in a window, including samples without a value. */
  countSamples(start: number, end: number): number {
    return countBelow(this.times, end) - countBelow(this.times, start);
  }
}
