/** The tiles that the page has: by lane, level and index, the longest unused ones dropped first. */

import { TILE_CELLS, type TilesReply } from "../protocol/decode";

/** 256 cells of one lane. Slices are in lane order. */
export interface Tile {
  readonly busy: Uint16Array;
  readonly count: Uint16Array;
  readonly kind: Uint8Array;
  readonly sliceStart: Float64Array;
  readonly sliceDur: Float64Array;
  readonly sliceId: Uint32Array;
  readonly sliceName: Uint32Array;
  readonly sliceKind: Uint8Array;
  readonly sliceFlags: Uint8Array;
  /** By cell and by slice; length 0 where they were not asked for. */
  readonly classes: Uint8Array;
  readonly sliceClass: Uint8Array;
  /** Of counter lanes; length 0 elsewhere. */
  readonly min: Float32Array;
  readonly max: Float32Array;
  readonly bytes: number;
}

export interface TilePart {
  lanes: number[];
  first: number;
  /** Exclusive. */
  last: number;
}

interface Entry {
  tile: Tile;
  used: number;
}

/** What an entry costs beside its arrays: objects, map slots. A guess, on the high side. */
const OVERHEAD_BYTES = 600;
const EMPTY_BYTES = 80;
/** How far below the limit a clearing goes, so that it is rare. */
const CLEAR_TO = 0.75;
export const LIMIT_BYTES = 64 * 1024 * 1024;

const NO_F64 = new Float64Array(0);
const NO_U32 = new Uint32Array(0);
const NO_U8 = new Uint8Array(0);
const NO_F32 = new Float32Array(0);
const NO_CELLS = new Uint16Array(TILE_CELLS);

/** Asked for and not answered. */
export const EMPTY: Tile = {
  busy: NO_CELLS,
  count: NO_CELLS,
  kind: new Uint8Array(TILE_CELLS).fill(255),
  sliceStart: NO_F64,
  sliceDur: NO_F64,
  sliceId: NO_U32,
  sliceName: NO_U32,
  sliceKind: NO_U8,
  sliceFlags: NO_U8,
  classes: new Uint8Array(TILE_CELLS).fill(255),
  sliceClass: NO_U8,
  min: NO_F32,
  max: NO_F32,
  bytes: EMPTY_BYTES,
};

const LANES = 2 ** 40;

export class TileStore {
  /** Short names by key; keys mean the same for as long as the scene lives. */
  readonly names = new Map<number, string>();
  /** Grows with each change of a lane's tiles, so that what is derived from them can be kept. */
  readonly versions: Uint32Array;
  /** Tiles without classes count as missing, though they are drawn as long as there are no others. */
  classed = false;
  private readonly rows = new Map<number, Map<number, Entry>>();
  private readonly levelsOfLane = new Map<number, Set<number>>();
  private bytes = 0;
  private clock = 0;

  constructor(
    lanes: number,
    private readonly limit: number = LIMIT_BYTES,
  ) {
    this.versions = new Uint32Array(lanes);
  }

  get size(): number {
    return this.bytes;
  }

  /** A new moment: what is read from now on counts as used later than what was read before. */
  tick(): void {
    this.clock += 1;
  }

  has(lane: number, level: number, index: number): boolean {
    const entry = this.entry(lane, level, index);
    return entry !== undefined && (!this.classed || entry.tile.classes.length > 0);
  }

  private entry(lane: number, level: number, index: number): Entry | undefined {
    return this.rows.get(level * LANES + lane)?.get(index);
  }

  get(lane: number, level: number, index: number): Tile | undefined {
    const entry = this.entry(lane, level, index);
    if (entry === undefined) return undefined;
    entry.used = this.clock;
    return entry.tile;
  }

  /** Levels of which the lane has tiles. */
  levels(lane: number): ReadonlySet<number> | undefined {
    return this.levelsOfLane.get(lane);
  }

  /** Take an answer to `parts`: what was asked for and is not in it is empty. */
  add(parts: readonly TilePart[], reply: TilesReply): void {
    this.tick();
    for (const [key, name] of Object.entries(reply.names)) this.names.set(Number(key), name);
    const { level } = reply;
    for (let i = 0; i < reply.tileLane.length; i += 1) {
      this.put(reply.tileLane[i]!, level, reply.tileIndex[i]!, eventTile(reply, i));
    }
    for (let i = 0; i < reply.counterLane.length; i += 1) {
      this.put(reply.counterLane[i]!, level, reply.counterIndex[i]!, counterTile(reply, i));
    }
    for (const { lanes, first, last } of parts) {
      for (const lane of lanes) {
        for (let index = first; index < last; index += 1) {
          // An answer may have been asked for before classes were: it is not empty for that.
          if (this.entry(lane, level, index) === undefined) this.put(lane, level, index, EMPTY);
        }
      }
    }
    if (this.bytes > this.limit) this.clear();
  }

  private put(lane: number, level: number, index: number, tile: Tile): void {
    const key = level * LANES + lane;
    let row = this.rows.get(key);
    if (row === undefined) {
      row = new Map();
      this.rows.set(key, row);
      const levels = this.levelsOfLane.get(lane);
      if (levels === undefined) this.levelsOfLane.set(lane, new Set([level]));
      else levels.add(level);
    }
    const before = row.get(index);
    if (before !== undefined) this.bytes -= before.tile.bytes;
    row.set(index, { tile, used: this.clock });
    this.bytes += tile.bytes;
    this.touch(lane);
  }

  private touch(lane: number): void {
    if (lane < this.versions.length) this.versions[lane] = this.versions[lane]! + 1;
  }

  private clear(): void {
    const stamps: number[] = [];
    for (const row of this.rows.values()) for (const { used } of row.values()) stamps.push(used);
    stamps.sort((a, b) => a - b);
    // Whole moments are dropped: tiles read together are useless apart.
    let at = 0;
    while (this.bytes > this.limit * CLEAR_TO && at < stamps.length) {
      const stamp = stamps[Math.min(at + (stamps.length >> 4), stamps.length - 1)]!;
      if (stamp >= this.clock) break;
      this.dropUntil(stamp);
      while (at < stamps.length && stamps[at]! <= stamp) at += 1;
    }
  }

  private dropUntil(stamp: number): void {
    for (const [key, row] of this.rows) {
      const lane = key % LANES;
      for (const [index, entry] of row) {
        if (entry.used > stamp) continue;
        row.delete(index);
        this.bytes -= entry.tile.bytes;
        this.touch(lane);
      }
      if (row.size > 0) continue;
      this.rows.delete(key);
      this.levelsOfLane.get(lane)?.delete((key - lane) / LANES);
    }
  }
}

function eventTile(reply: TilesReply, i: number): Tile {
  const from = i * TILE_CELLS;
  const to = from + TILE_CELLS;
  const first = reply.sliceFirst[i]!;
  const last = reply.sliceFirst[i + 1]!;
  const classed = reply.classes.length > 0;
  // Copies: a view would keep the whole answer alive for as long as one of its tiles.
  return {
    busy: reply.busy.slice(from, to),
    count: reply.count.slice(from, to),
    kind: reply.kind.slice(from, to),
    sliceStart: reply.sliceStart.slice(first, last),
    sliceDur: reply.sliceDur.slice(first, last),
    sliceId: reply.sliceId.slice(first, last),
    sliceName: reply.sliceName.slice(first, last),
    sliceKind: reply.sliceKind.slice(first, last),
    sliceFlags: reply.sliceFlags.slice(first, last),
    classes: reply.classes.slice(from, to),
    sliceClass: reply.sliceClass.slice(first, last),
    min: NO_F32,
    max: NO_F32,
    bytes: OVERHEAD_BYTES + (classed ? 6 : 5) * TILE_CELLS + (classed ? 27 : 26) * (last - first),
  };
}

function counterTile(reply: TilesReply, i: number): Tile {
  const from = i * TILE_CELLS;
  const to = from + TILE_CELLS;
  return {
    ...EMPTY,
    min: reply.counterMin.slice(from, to),
    max: reply.counterMax.slice(from, to),
    bytes: OVERHEAD_BYTES + 8 * TILE_CELLS,
  };
}
