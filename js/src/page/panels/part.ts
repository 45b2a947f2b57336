/** What a panel works on: the chosen events of one rank, and the window that cuts them. */

import { countBelow, countUpTo } from "../sorted";
import type { PanelRank } from "./panel_rank";

export interface Part {
  readonly rank: PanelRank;
  /** By row of the events: 1 where chosen, whatever the window; null where all are. */
  readonly mask: Uint8Array | null;
  /** Edges of the window; infinite where it is open. */
  readonly low: number;
  readonly high: number;
  /** Tells parts of one rank apart. */
  readonly key: string;
}

/** The same events at all times. */
export function ofAllTimes(part: Part): Part {
  return { ...part, low: -Infinity, high: Infinity };
}

/** Events sorted by start. */
export interface Sorted {
  readonly start: Float64Array;
  readonly end: Float64Array;
  /** The latest end so far. */
  readonly reach: Float64Array;
}

/** Where the events lie that may overlap the window of a part: from the first to before the last. */
export function around({ start, reach }: Sorted, { low, high }: Part): [number, number] {
  if (low === high) return [0, 0];
  const first = Math.min(countUpTo(reach, low), countBelow(start, low));
  return [first, countBelow(start, high)];
}

/** Does an event that starts before the window's end overlap it? */
export function overlaps(start: number, end: number, low: number): boolean {
  return end > low || start >= low;
}

export function reachOf(end: Float64Array): Float64Array {
  const reach = new Float64Array(end.length);
  let latest = -Infinity;
  for (let i = 0; i < end.length; i += 1) {
    if (end[i]! > latest) latest = end[i]!;
    reach[i] = latest;
  }
  return reach;
}
