/** Which tiles to ask for next. */

import type { Span } from "../contract";
import { TILE_CELLS } from "../protocol/decode";
import type { TilePart, TileStore } from "./tile_store";

/** The protocol's deepest level. */
export const MAX_LEVEL = 52;
/** Tiles in one request: well below a megabyte of answer even where every one is full. */
export const REQUEST_TILES = 512;

export interface TileRequest {
  level: number;
  parts: TilePart[];
  tiles: number;
}

/** What the stage shows, as far as tiles go. */
export interface Sight {
  view: Span;
  /** ns per device px. */
  resolution: number;
  /** Lanes in sight, from the top. */
  lanes: readonly number[];
  /** Lanes that scrolling would bring into sight. */
  nearby: readonly number[];
  /** Beyond lies nothing to ask for. */
  range: Span;
}

export function levelOf(resolution: number): number {
  if (!(resolution > 1)) return 0;
  return Math.min(Math.floor(Math.log2(resolution)), MAX_LEVEL);
}

/** Tiles of `level` that `view` touches, clipped to `range`; `last` is exclusive. */
export function tilesOf(view: Span, level: number, range: Span): { first: number; last: number } {
  const width = TILE_CELLS * 2 ** level;
  const start = Math.max(view[0], range[0]);
  // An event of no length may lie on the very end of the job.
  const end = Math.min(view[1], range[1] + 1);
  const first = Math.floor(start / width);
  return { first, last: Math.max(first, Math.ceil(end / width)) };
}

/** Rectangles of what is missing of `lanes` within `view`, at most `most` tiles. */
export function missing(
  store: TileStore,
  lanes: readonly number[],
  level: number,
  view: Span,
  range: Span,
  most: number = REQUEST_TILES,
): TileRequest | null {
  const { first, last } = tilesOf(view, level, range);
  const groups = new Map<string, TilePart>();
  let tiles = 0;
  for (const lane of lanes) {
    let index = first;
    while (index < last && tiles < most) {
      while (index < last && store.has(lane, level, index)) index += 1;
      const from = index;
      while (index < last && !store.has(lane, level, index) && tiles + index - from < most) {
        index += 1;
      }
      if (index === from) break;
      tiles += index - from;
      const key = `${from}:${index}`;
      const part = groups.get(key);
      if (part === undefined) groups.set(key, { lanes: [lane], first: from, last: index });
      else part.lanes.push(lane);
    }
    if (tiles >= most) break;
  }
  return tiles === 0 ? null : { level, parts: [...groups.values()], tiles };
}

/** The tiles that the picture lacks, or null. */
export function planVisible(store: TileStore, sight: Sight): TileRequest | null {
  return missing(store, sight.lanes, levelOf(sight.resolution), sight.view, sight.range);
}

/**
 * What is likely to be wanted next, most likely first: a screen to either side, the next level
 * in, the next level out, the lanes above and below, the whole job.
 */
export function planAhead(store: TileStore, sight: Sight): TileRequest | null {
  const { view, lanes, nearby, range } = sight;
  const level = levelOf(sight.resolution);
  const span = view[1] - view[0];
  const wide: Span = [view[0] - span, view[1] + span];
  const inner: Span = [view[0] + span / 4, view[1] - span / 4];
  const steps: [readonly number[], number, Span][] = [
    [lanes, level, wide],
    [lanes, level - 1, inner],
    [lanes, level + 1, wide],
    [nearby, level, view],
    // Farther out, to have something to stretch wherever a view goes while the kernel is busy.
    [lanes, level + 3, [view[0] - 8 * span, view[1] + 8 * span]],
    [lanes, levelOf((sight.resolution * (range[1] - range[0])) / span), range],
  ];
  for (const [which, at, window] of steps) {
    if (at < 0 || at > MAX_LEVEL) continue;
    const request = missing(store, which, at, window, range);
    if (request !== null) return request;
  }
  return null;
}
