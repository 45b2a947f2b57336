/**
 * Cache of tiles, keyed by lane, level and index.
 *
 * At level L, a cell is 2^L ns wide, and a tile has 256 cells: tile 5 of level 10 begins at 5 · 256
 * · 1024 ns. A tile without events is stored as `EMPTY_TILE`, which differs from a missing tile.
 */

import { countUpTo } from "../engine/columns";
import { MAX_LEVEL, NO_CODE, TILE_CELLS, type TilesReply } from "../protocol/decode";
import { getOrMake } from "../protocol/maps";
import type { Span } from "../protocol/source";
import { fnv1a32 } from "./paints";

/** 256 cells of a lane. Slices are in lane order. */
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
  /** Classes of cells and slices; empty if classes were not requested. */
  readonly classes: Uint8Array;
  readonly sliceClass: Uint8Array;
  /** For counter lanes; empty for other lanes. */
  readonly min: Float32Array;
  readonly max: Float32Array;
  readonly bytes: number;
}

export interface TileBlock {
  lanes: number[];
  first: number;
  /** Exclusive. */
  last: number;
}

interface CachedTile {
  tile: Tile;
  used: number;
}

/** Estimated memory of an entry apart from its arrays, such as objects and map slots. */
const OVERHEAD_BYTES = 600;
const EMPTY_BYTES = 80;
/** An eviction reduces the store to this share of the limit, so that evictions are rare. */
const EVICT_TO_SHARE = 0.75;
const LIMIT_BYTES = 64 * 1024 * 1024;

/** A requested tile that has no events. */
export const EMPTY_TILE: Tile = {
  busy: new Uint16Array(TILE_CELLS),
  count: new Uint16Array(TILE_CELLS),
  kind: new Uint8Array(TILE_CELLS).fill(NO_CODE),
  sliceStart: new Float64Array(0),
  sliceDur: new Float64Array(0),
  sliceId: new Uint32Array(0),
  sliceName: new Uint32Array(0),
  sliceKind: new Uint8Array(0),
  sliceFlags: new Uint8Array(0),
  classes: new Uint8Array(TILE_CELLS).fill(NO_CODE),
  sliceClass: new Uint8Array(0),
  min: new Float32Array(0),
  max: new Float32Array(0),
  bytes: EMPTY_BYTES,
};

export class TileStore {
  /** Short names by key. The store assigns its own keys, because the kernel's and page's differ. */
  readonly names = new Map<number, string>();
  /** Hashes of the names, for colors. */
  readonly hashes: number[] = [];
  private readonly keys = new Map<string, number>();
  /** Incremented when a lane's tiles change, to invalidate data derived from them. */
  readonly versions: Uint32Array;
  /** Whether tiles without classes count as missing. They are drawn until they are replaced. */
  classed = false;
  /** Keyed by lane, level and index. */
  private readonly lanes = new Map<number, Map<number, Map<number, CachedTile>>>();
  sizeBytes = 0;
  private clock = 0;

  constructor(
    lanes: number,
    private readonly limitBytes: number = LIMIT_BYTES,
  ) {
    this.versions = new Uint32Array(lanes);
  }

  /** Advance the clock, so that later reads count as more recent. */
  tick(): void {
    this.clock += 1;
  }

  has(lane: number, level: number, index: number): boolean {
    const entry = this.entry(lane, level, index);
    return entry !== undefined && (!this.classed || entry.tile.classes.length > 0);
  }

  private entry(lane: number, level: number, index: number): CachedTile | undefined {
    return this.lanes.get(lane)?.get(level)?.get(index);
  }

  get(lane: number, level: number, index: number): Tile | undefined {
    const entry = this.entry(lane, level, index);
    if (entry === undefined) return undefined;
    entry.used = this.clock;
    return entry.tile;
  }

  /** Add a reply's names. Return the store's key for each key of the reply. */
  private storeNames(names: TilesReply["names"]): Map<number, number> {
    const keyOfReplyKey = new Map<number, number>();
    for (const [replyKey, name] of Object.entries(names)) {
      const key = getOrMake(this.keys, name, () => this.keys.size);
      this.names.set(key, name);
      this.hashes[key] ??= fnv1a32(name);
      keyOfReplyKey.set(Number(replyKey), key);
    }
    return keyOfReplyKey;
  }

  /**
   * Add the reply to a request for `parts`. Requested tiles that are not in the reply are empty.
   * The reply's name keys are replaced by the store's keys.
   */
  add(parts: readonly TileBlock[], reply: TilesReply): void {
    this.tick();
    const { level, sliceName } = reply;
    const keyOf = this.storeNames(reply.names);
    for (let i = 0; i < sliceName.length; i += 1) sliceName[i] = keyOf.get(sliceName[i]!)!;
    for (let i = 0; i < reply.tileLane.length; i += 1) {
      this.putTile(reply.tileLane[i]!, level, reply.tileIndex[i]!, eventTile(reply, i));
    }
    for (let i = 0; i < reply.counterLane.length; i += 1) {
      this.putTile(reply.counterLane[i]!, level, reply.counterIndex[i]!, counterTile(reply, i));
    }
    for (const { lanes, first, last } of parts) {
      for (const lane of lanes) {
        for (let index = first; index < last; index += 1) {
          // A tile from an earlier reply is kept, even if it has no classes.
          if (this.entry(lane, level, index) === undefined)
            this.putTile(lane, level, index, EMPTY_TILE);
        }
      }
    }
    if (this.sizeBytes > this.limitBytes) this.evict();
  }

  private putTile(lane: number, level: number, index: number, tile: Tile): void {
    const levels = getOrMake(this.lanes, lane, () => new Map<number, Map<number, CachedTile>>());
    const row = getOrMake(levels, level, () => new Map<number, CachedTile>());
    this.sizeBytes += tile.bytes - (row.get(index)?.tile.bytes ?? 0);
    row.set(index, { tile, used: this.clock });
    this.versions[lane]! += 1;
  }

  /** Evict the least recently used tiles, about 1/16 of all tiles at a time. */
  private evict(): void {
    const rows = [...this.lanes.values()].flatMap((levels) => [...levels.values()]);
    const stamps = rows.flatMap((row) => Array.from(row.values(), ({ used }) => used));
    stamps.sort((a, b) => a - b);
    let evicted = 0;
    while (this.sizeBytes > this.limitBytes * EVICT_TO_SHARE && evicted < stamps.length) {
      const stamp = stamps[Math.min(evicted + (stamps.length >> 4), stamps.length - 1)]!;
      // The tiles of the current view remain.
      if (stamp >= this.clock) break;
      this.evictUntil(stamp);
      evicted = countUpTo(stamps, stamp);
    }
  }

  /** Evict all tiles last read at or before `stamp`: a view needs all its tiles. */
  private evictUntil(stamp: number): void {
    for (const [lane, levels] of this.lanes) {
      for (const [level, row] of levels) {
        for (const [index, entry] of row) {
          if (entry.used > stamp) continue;
          row.delete(index);
          this.sizeBytes -= entry.tile.bytes;
          this.versions[lane]! += 1;
        }
        if (row.size === 0) levels.delete(level);
      }
    }
  }
}

function eventTile(reply: TilesReply, i: number): Tile {
  const from = i * TILE_CELLS;
  const to = from + TILE_CELLS;
  const first = reply.sliceFirst[i]!;
  const last = reply.sliceFirst[i + 1]!;
  const classed = reply.classes.length > 0;
  // Copy: a subarray would keep the whole reply in memory as long as it exists.
  return {
    ...EMPTY_TILE,
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
    bytes: OVERHEAD_BYTES + (classed ? 6 : 5) * TILE_CELLS + (classed ? 27 : 26) * (last - first),
  };
}

function counterTile(reply: TilesReply, i: number): Tile {
  const from = i * TILE_CELLS;
  const to = from + TILE_CELLS;
  return {
    ...EMPTY_TILE,
    min: reply.counterMin.slice(from, to),
    max: reply.counterMax.slice(from, to),
    bytes: OVERHEAD_BYTES + 8 * TILE_CELLS,
  };
}

// Choose the tiles to request next.

/** Maximum number of tiles per request. A reply is well below 1 MB even if every tile is full. */
const REQUEST_TILES = 512;

export interface TileRequest {
  level: number;
  parts: TileBlock[];
  tiles: number;
}

/** The visible part of the stage, as far as needed to choose tiles. */
export interface TileViewport {
  view: Span;
  /** ns per device px. */
  nsPerPx: number;
  /** Visible lanes from top to bottom. */
  lanes: readonly number[];
  /** Lanes that scrolling would bring into view. */
  nearbyLanes: readonly number[];
  /** No tiles exist outside this span. */
  range: Span;
}

export function levelOf(nsPerPx: number): number {
  if (!(nsPerPx > 1)) return 0;
  return Math.min(Math.floor(Math.log2(nsPerPx)), MAX_LEVEL);
}

/** Return the indices of `level` tiles that overlap `view` within `range`; `last` is exclusive. */
export function tileRange(view: Span, level: number, range: Span): { first: number; last: number } {
  const width = TILE_CELLS * 2 ** level;
  const start = Math.max(view[0], range[0]);
  // A zero-length event may be exactly at the job's end.
  const end = Math.min(view[1], range[1] + 1);
  const first = Math.floor(start / width);
  return { first, last: Math.max(first, Math.ceil(end / width)) };
}

/** Return whether a lane has no events in view; null if a tile is not loaded. */
export function isLaneEmpty(
  store: TileStore,
  lane: number,
  { view, nsPerPx, range }: Pick<TileViewport, "view" | "nsPerPx" | "range">,
): boolean | null {
  const level = levelOf(nsPerPx);
  const cell = 2 ** level;
  const { first, last } = tileRange(view, level, range);
  for (let index = first; index < last; index += 1) {
    const tile = store.get(lane, level, index);
    if (tile === undefined) return null;
    if (tile === EMPTY_TILE) continue;
    const origin = index * TILE_CELLS * cell;
    const from = Math.max(0, Math.floor((view[0] - origin) / cell));
    const to = Math.min(TILE_CELLS, Math.ceil((view[1] - origin) / cell));
    if (tile.count.subarray(from, to).some((count) => count > 0)) return false;
  }
  return true;
}

/** Tiles of a level, for some lanes in a window. */
export interface TileTarget {
  lanes: readonly number[];
  level: number;
  window: Span;
}

/** Return a target's missing tiles within `range` as rectangles, at most `maxTiles` tiles. */
export function missingTiles(
  store: TileStore,
  { lanes, level, window }: TileTarget,
  range: Span,
  maxTiles: number = REQUEST_TILES,
): TileRequest | null {
  const { first, last } = tileRange(window, level, range);
  // Lanes that lack the same range share a block.
  const blocks = new Map<string, TileBlock>();
  let tiles = 0;
  for (const lane of lanes) {
    let index = first;
    while (index < last && tiles < maxTiles) {
      while (index < last && store.has(lane, level, index)) index += 1;
      const from = index;
      while (index < last && !store.has(lane, level, index) && tiles + index - from < maxTiles) {
        index += 1;
      }
      if (index === from) break;
      // Tiles `from` to `index - 1` are missing.
      tiles += index - from;
      const emptyBlock: TileBlock = { lanes: [], first: from, last: index };
      getOrMake(blocks, `${from}:${index}`, () => emptyBlock).lanes.push(lane);
    }
    if (tiles >= maxTiles) break;
  }
  return tiles === 0 ? null : { level, parts: [...blocks.values()], tiles };
}

/** Return the visible tiles that are missing; null if there are none. */
export function planVisible(
  store: TileStore,
  { lanes, nsPerPx, view, range }: TileViewport,
): TileRequest | null {
  return missingTiles(store, { lanes, level: levelOf(nsPerPx), window: view }, range);
}

/**
 * Return the tiles likely to be needed next, most likely first: a screen to either side, one level
 * in, one level out, the lanes above and below, the whole job.
 */
export function planAhead(store: TileStore, viewport: TileViewport): TileRequest | null {
  const { view, lanes, nearbyLanes, range } = viewport;
  const level = levelOf(viewport.nsPerPx);
  const span = view[1] - view[0];
  const wider: Span = [view[0] - span, view[1] + span];
  const inner: Span = [view[0] + span / 4, view[1] - span / 4];
  const muchWider: Span = [view[0] - 8 * span, view[1] + 8 * span];
  const targets: TileTarget[] = [
    { lanes, level, window: wider },
    { lanes, level: level - 1, window: inner },
    { lanes, level: level + 1, window: wider },
    { lanes: nearbyLanes, level, window: view },
    // Coarse tiles can be stretched if the view moves while the kernel is busy.
    { lanes, level: level + 3, window: muchWider },
    { lanes, level: levelOf((viewport.nsPerPx * (range[1] - range[0])) / span), window: range },
  ];
  for (const target of targets) {
    if (target.level < 0 || target.level > MAX_LEVEL) continue;
    const request = missingTiles(store, target, range);
    if (request !== null) return request;
  }
  return null;
}
