/** What of a lane's cells is left for columns beside the rectangles of its longer events. */

import { type LaneWindow, SLOT } from "../data/lane_window";
import { takeOut } from "../data/residual";
import { TILE_CELLS } from "../protocol/decode";

/** By cell of the window; valid until the next call. */
export interface Residual {
  readonly share: Float32Array;
  readonly counts: Int32Array;
}

let share = new Float32Array(0);
let counts = new Int32Array(0);

/** Where the pixels of a picture lie in a lane's cells. */
export interface Pixels {
  readonly cells: number;
  /** Cells in a pixel. */
  readonly perPx: number;
  /** The cell, and part of one, at x = 0. */
  readonly origin: number;
  /** The first pixel that has cells, and the one behind the last. */
  readonly first: number;
  readonly last: number;
}

/** `start` is the time at x = 0, `resolution` ns per pixel. */
export function pixelsOf(
  lane: LaneWindow,
  { start, resolution }: { start: number; resolution: number },
  width: number,
): Pixels {
  const cells = (lane.last - lane.first) * TILE_CELLS;
  const perPx = resolution / lane.cell;
  const origin = (start - lane.start) / lane.cell;
  const first = Math.max(0, Math.floor(-origin / perPx));
  const last = Math.min(width, Math.ceil((cells - origin) / perPx));
  return { cells, perPx, origin, first, last };
}

/** Cells as shares and counts, less the slices of at least `leastNs`. */
export function residual(lane: LaneWindow, leastNs: number): Residual {
  const tiles = lane.last - lane.first;
  const cells = tiles * TILE_CELLS;
  if (share.length < cells) {
    share = new Float32Array(cells);
    counts = new Int32Array(cells);
  }
  const { busy, count } = lane;
  for (let k = 0; k < cells; k += 1) {
    share[k] = busy[k]! / 65535;
    counts[k] = count[k]!;
  }
  if (lane.slices === 0) return { share, counts };
  let slot = 0;
  while (slot < tiles) {
    if (lane.slots[slot] !== SLOT.exact) {
      slot += 1;
      continue;
    }
    const from = slot;
    while (slot < tiles && lane.slots[slot] === SLOT.exact) slot += 1;
    const a = from * TILE_CELLS;
    const b = slot * TILE_CELLS;
    takeOut(
      share.subarray(a, b),
      counts.subarray(a, b),
      b - a,
      lane.start + a * lane.cell,
      lane.cell,
      lane,
      0,
      lane.slices,
      leastNs,
    );
  }
  return { share, counts };
}
