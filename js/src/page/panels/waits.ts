/** When a rank waits in collectives for others to come. */

import { countBelow } from "../sorted";
import { Cover } from "../spans";
import { beyond } from "../lateness";
import { coverOfKinds } from "./busy_times";
import { ofAllTimes, overlaps, type Part } from "./part";
import { COMPUTE } from "./work";

/** Chosen events that are matched with other ranks', and from when to when in the window each waits. */
export interface Waiting {
  /** Places in the rank's part of the collectives. */
  entry: Int32Array;
  begin: Float64Array;
  until: Float64Array;
}

export function waiting({ rank, mask, low, high }: Part): Waiting {
  const { id, start, dur, wait } = rank.matched;
  const size = low === high ? 0 : countBelow(start, high);
  const found = {
    entry: new Int32Array(size),
    begin: new Float64Array(size),
    until: new Float64Array(size),
  };
  let count = 0;
  for (let i = 0; i < size; i += 1) {
    const from = start[i]!;
    if (!overlaps(from, from + dur[i]!, low) || (mask !== null && mask[id[i]!] === 0)) continue;
    const until = from + wait[i]!;
    found.entry[count] = i;
    found.begin[count] = Math.min(Math.max(from, low), high);
    found.until[count] = Math.min(Math.max(until, low), high);
    count += 1;
  }
  return {
    entry: found.entry.subarray(0, count),
    begin: found.begin.subarray(0, count),
    until: found.until.subarray(0, count),
  };
}

/** Waits while nothing computes. */
function exposedCover(part: Part): Cover {
  return part.rank.once("exposed waits", part, () =>
    beyond(waitCover(part), coverOfKinds(part, 1 << COMPUTE)),
  );
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
  // What does not overlap the window does not wait in it either.
  if (part.mask === null) return exposedCover(ofAllTimes(part)).within(part.low, part.high);
  return exposedCover(part).prefix.at(-1)!;
}
