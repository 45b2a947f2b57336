/** When a rank waits in collectives for others to come. */

import { Cover } from "../spans";
import { beyond } from "../lateness";
import { coverOfKinds } from "./busy_times";
import { overlaps, type Part } from "./part";
import { COMPUTE } from "./panel_rank";

/** Chosen events that are matched with other ranks', and from when to when in the window each waits. */
export interface Waiting {
  /** Places in the rank's part of the collectives. */
  entry: Int32Array;
  begin: Float64Array;
  until: Float64Array;
}

export function waiting({ rank, mask, low, high }: Part): Waiting {
  const { id, start, dur, wait } = rank.matched;
  const entry: number[] = [];
  if (low !== high) {
    for (let i = 0; i < id.length; i += 1) {
      if (start[i]! >= high || !overlaps(start[i]!, start[i]! + dur[i]!, low)) continue;
      if (mask !== null && mask[id[i]!] === 0) continue;
      entry.push(i);
    }
  }
  const cut = (time: number): number => Math.min(Math.max(time, low), high);
  return {
    entry: Int32Array.from(entry),
    begin: Float64Array.from(entry, (i) => cut(start[i]!)),
    // Who leaves before the last one comes waits no longer.
    until: Float64Array.from(entry, (i) => cut(start[i]! + Math.min(wait[i]!, dur[i]!))),
  };
}

/** Union of the waits. */
export function waitCover(part: Part): Cover {
  const { begin, until } = waiting(part);
  const lasting = begin.map((start, i) => (until[i]! > start ? 1 : 0));
  return Cover.of(
    begin.filter((_, i) => lasting[i] === 1),
    until.filter((_, i) => lasting[i] === 1),
  );
}

/** Waiting and computing nothing; null where no communication of the rank is matched. */
export function exposedWait(part: Part): number | null {
  if (part.rank.matched.id.length === 0) return null;
  return part.rank.once("exposed wait", part, () => {
    const waits = waitCover(part);
    if (waits.starts.length === 0) return 0;
    return beyond(waits, coverOfKinds(part, 1 << COMPUTE)).prefix.at(-1)!;
  });
}
