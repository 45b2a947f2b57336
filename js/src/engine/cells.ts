/** One indexed lane: cells at any zoom, their cover and counts. */

import { countBelow, picked, positions, walkBelow } from "./columns";
import { pieceAt, Spans } from "./spans";

const BLOCK = 64;
export const NO_KIND = 255;

/** Events of one kind. */
interface Part {
  kind: number;
  spans: Spans;
}

/** Exact contents of neighbouring cells. */
export interface Cells {
  covered: Float64Array;
  count: Float64Array;
  kind: Uint8Array;
  mask: Uint8Array;
}

interface Events {
  /** Events in lane order: by start, then longest first. */
  starts: Float64Array;
  durs: Float64Array;
  kinds: Uint8Array;
  /** Each event's row in the table; null for a lane without slices. */
  rows: Int32Array | null;
}

export class Lane {
  readonly spans: Spans;
  /** A part for each kind, by code; with one kind, its spans are those of the lane. */
  private readonly parts: readonly Part[];
  /** Kind of each point, in the order of the points; at the same instant, the lowest kind first. */
  private readonly kindOfPoint: Uint8Array;
  /** Row in the table of each event with a length. */
  readonly rows: Int32Array;
  readonly durs: Float64Array;
  /** Longest duration of each block of 64 of `durs`. */
  private readonly longest: Float64Array;

  constructor({ starts, durs, kinds, rows }: Events) {
    this.spans = Spans.of(starts, durs);
    const long = positions(rows === null ? 0 : durs.length, (i) => durs[i]! > 0);
    this.rows = long.map((i) => rows![i]!);
    this.durs = picked(durs, long);
    this.longest = blockMaxima(this.durs);
    const used = [...new Set(kinds)].sort((a, b) => a - b);
    this.parts = used.map((kind) => {
      const ours = (_: number, i: number): boolean => kinds[i] === kind;
      const isAll = used.length === 1;
      const spans = isAll ? this.spans : Spans.of(starts.filter(ours), durs.filter(ours));
      return { kind, spans };
    });
    this.kindOfPoint = kindsOfPoints(starts, durs, kinds);
  }

  /** Contents of the cells between neighbouring edges. */
  measure(edges: Float64Array): Cells {
    const whole = this.spans.measure(edges);
    const { covered, count } = whole;
    const cells = count.length;
    const kind = new Uint8Array(cells).fill(NO_KIND);
    const mask = new Uint8Array(cells);
    const most = new Float64Array(cells);
    for (const part of this.parts) {
      const of = part.spans === this.spans ? whole : part.spans.measure(edges);
      for (let k = 0; k < cells; k += 1) {
        if (of.count[k]! === 0) continue;
        mask[k] = mask[k]! | (1 << part.kind);
        if (of.covered[k]! > most[k]!) {
          most[k] = of.covered[k]!;
          kind[k] = part.kind;
        }
      }
    }
    for (let k = 0; k < cells; k += 1) {
      if (count[k]! > 0 && most[k]! === 0) {
        kind[k] = this.kindOfPoint[countBelow(this.spans.points, edges[k]!)]!;
      }
    }
    return { covered, count, kind, mask };
  }

  /** Covered time in a window of each kind that has an event there. */
  kindTimes(start: number, end: number): [kind: number, ns: number][] {
    const edges = Float64Array.of(start, end);
    return this.parts
      .map(({ kind, spans }) => ({ kind, of: spans.measure(edges) }))
      .filter(({ of }) => of.count[0]! > 0)
      .map(({ kind, of }) => [kind, of.covered[0]!]);
  }

  /** Positions in `rows` of events of at least `atLeast` ns that overlap a window, in order. */
  longEvents(start: number, end: number, atLeast: number): number[] {
    const { begins, cover } = this.spans;
    if (this.rows.length === 0 || end <= start) return [];
    // Events that overlap the window begin at or after the piece of the union at its start.
    const first = countBelow(begins, cover.starts[pieceAt(cover, start)]!);
    const last = countBelow(begins, end);
    const found: number[] = [];
    for (let block = Math.floor(first / BLOCK); block * BLOCK < last; block += 1) {
      if (this.longest[block]! < atLeast) continue;
      const to = Math.min((block + 1) * BLOCK, last);
      for (let at = Math.max(block * BLOCK, first); at < to; at += 1) {
        if (this.durs[at]! >= atLeast && begins[at]! + this.durs[at]! > start) found.push(at);
      }
    }
    return found;
  }

  /** Return whether the event at this position begins before an earlier one ended. */
  overlapped(at: number): boolean {
    if (this.spans.disjoint) return false;
    const { begins, cover } = this.spans;
    return countBelow(begins, cover.starts[pieceAt(cover, begins[at]!)]!) !== at;
  }
}

function kindsOfPoints(starts: Float64Array, durs: Float64Array, kinds: Uint8Array): Uint8Array {
  const points = positions(durs.length, (i) => !(durs[i]! > 0));
  points.sort((a, b) => starts[a]! - starts[b]! || kinds[a]! - kinds[b]!);
  return picked(kinds, points);
}

function blockMaxima(durs: Float64Array): Float64Array {
  const out = new Float64Array(Math.ceil(durs.length / BLOCK));
  for (let i = 0; i < durs.length; i += 1) {
    const block = Math.floor(i / BLOCK);
    if (durs[i]! > out[block]!) out[block] = durs[i]!;
  }
  return out;
}

// Tiles: cells of a lane in the form of replies.

export const CELLS = 256;
export const MAX_LEVEL = 52;
export const MAX_TILES = 65_536;
const FULL = 65_535;
/** From this level on, a covered time multiplied by 65 535 is not exact as a number. */
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
function edgesOf(level: number, first: number, last: number): Float64Array {
  const cell = 2 ** level;
  const edges = new Float64Array((last - first) * CELLS + 1);
  for (let k = 0; k < edges.length; k += 1) edges[k] = (first * CELLS + k) * cell;
  return edges;
}

/** A range of tiles that a request asks for, end exclusive. */
export interface TileRange {
  level: number;
  first: number;
  last: number;
}

/** The requested range, clipped to the lane's tiles; null if none are left. */
function clipped([start, end]: readonly [number, number], asked: TileRange): TileRange | null {
  const { level } = asked;
  const width = CELLS * 2 ** level;
  const first = Math.max(asked.first, Math.floor(start / width));
  const last = Math.min(asked.last, Math.floor((end - 1) / width) + 1);
  if (last - first > MAX_TILES) {
    throw new Error(`${last - first} tiles of one lane; ask for ${MAX_TILES} at most`);
  }
  return last > first ? { level, first, last } : null;
}

/** One event of a tile, independent of its source. */
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

/** The cells of a range of tiles, and the slices in it. */
interface Measured {
  cells: Cells;
  slices: readonly SliceOut[];
}

/** Tiles within an extent, without the empty ones. */
export function cellTiles(
  extent: readonly [number, number],
  asked: TileRange,
  measure: (range: TileRange) => Measured,
): TileOut[] {
  const range = clipped(extent, asked);
  if (range === null) return [];
  const { level, first, last } = range;
  const { cells, slices } = measure(range);
  const count = Uint16Array.from(cells.count, (events) => Math.min(events, FULL));
  const busy = Uint16Array.from(cells.covered, (covered) => quantised(covered, level));
  const tiles = new Map<number, TileOut>();
  for (let index = first; index < last; index += 1) {
    const from = (index - first) * CELLS;
    const own = <T extends Uint8Array | Uint16Array>(values: T): T =>
      values.subarray(from, from + CELLS) as T;
    if (own(count).every((events) => events === 0)) continue;
    tiles.set(index, {
      index,
      busy: own(busy),
      count: own(count),
      kind: own(cells.kind),
      mask: own(cells.mask),
      slices: [],
    });
  }
  const width = CELLS * 2 ** level;
  for (const slice of slices) {
    const low = Math.max(Math.floor(slice.start / width), first);
    const high = Math.min(Math.floor((slice.start + slice.dur - 1) / width), last - 1);
    for (let index = low; index <= high; index += 1) tiles.get(index)?.slices.push(slice);
  }
  return [...tiles.values()];
}

/** Tiles of a lane; `slice` returns the fields of an event to send. */
export function laneTiles(
  lane: Lane,
  asked: TileRange,
  slice: (at: number) => SliceOut,
): TileOut[] {
  const { extent } = lane.spans;
  if (extent === null) return [];
  return cellTiles(extent, asked, ({ level, first, last }) => {
    const edges = edgesOf(level, first, last);
    const long = lane.longEvents(edges[0]!, edges[edges.length - 1]!, 2 * 2 ** level);
    return { cells: lane.measure(edges), slices: long.map(slice) };
  });
}

/** Main kind of each cell of a tile; computed on request from the lane's index. */
export function mainKinds(lane: Lane, level: number, index: number): Uint8Array {
  return lane.measure(edgesOf(level, index, index + 1)).kind;
}

/** Tiles of values within an extent, without those that hold no value. */
export function valueTiles(
  extent: readonly [number, number],
  asked: TileRange,
  measure: (range: TileRange) => Held,
): CounterTileOut[] {
  const range = clipped(extent, asked);
  if (range === null) return [];
  const held = measure(range);
  const [smallest, largest] = [new Float32Array(held.smallest), new Float32Array(held.largest)];
  const tiles: CounterTileOut[] = [];
  for (let { first: index } = range; index < range.last; index += 1) {
    const from = (index - range.first) * CELLS;
    const low = smallest.subarray(from, from + CELLS);
    if (low.every((value) => Number.isNaN(value))) continue;
    tiles.push({ index, smallest: low, largest: largest.subarray(from, from + CELLS) });
  }
  return tiles;
}

export function counterTiles(counter: Counter, asked: TileRange): CounterTileOut[] {
  if (counter.times.length === 0) return [];
  return valueTiles([counter.times[0]!, counter.end], asked, ({ level, first, last }) =>
    counter.measure(edgesOf(level, first, last)),
  );
}

// Samples of one counter: a step function of time.

interface Held {
  /** NaN if no value is held. */
  smallest: Float32Array | Float64Array;
  largest: Float32Array | Float64Array;
}

export class Counter {
  /** Time at which the last value ends. */
  readonly end: number;

  constructor(
    readonly times: Float64Array,
    readonly values: Float64Array,
    end: number,
  ) {
    const last = times.length > 0 ? times[times.length - 1]! + 1 : end;
    this.end = Math.max(end, last);
  }

  /** Smallest and largest value held between neighbouring edges. */
  measure(edges: Float64Array): Held {
    const cells = Math.max(edges.length - 1, 0);
    const smallest = new Float64Array(cells).fill(Number.NaN);
    const largest = new Float64Array(cells).fill(Number.NaN);
    const { times, values, end } = this;
    let first = countBelow(times, edges[0] ?? 0);
    let last = first;
    for (let k = 0; k < cells; k += 1) {
      const low = edges[k]!;
      first = walkBelow(times, low, first);
      last = walkBelow(times, Math.min(edges[k + 1]!, end), Math.min(last, times.length));
      if (low >= end) break;
      // Without a sample at its very start, a cell begins with the value that came before.
      const from = times[first] === low ? first : Math.max(first - 1, 0);
      for (let i = from; i < last; i += 1) {
        const value = values[i]!;
        if (!(value >= smallest[k]!)) smallest[k] = Number.isNaN(value) ? smallest[k]! : value;
        if (!(value <= largest[k]!)) largest[k] = Number.isNaN(value) ? largest[k]! : value;
      }
    }
    return { smallest, largest };
  }

  /** Samples in a window, whether they hold or not. */
  count(start: number, end: number): number {
    return countBelow(this.times, end) - countBelow(this.times, start);
  }
}
