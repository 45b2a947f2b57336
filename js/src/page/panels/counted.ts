/** How many events overlap a window, and from when to when they reach in it, without a walk. */

import { countBelow, countUpTo, picked, positions } from "../sorted";
import type { Part } from "./part";

export class Counted {
  private readonly ends: Float64Array;
  /** Instants of events without a length. */
  private readonly points: Float64Array;

  /** Of events sorted by start. */
  constructor(
    private readonly start: Float64Array,
    end: Float64Array,
    private readonly reach: Float64Array,
  ) {
    this.ends = end.slice().sort();
    this.points = picked(
      start,
      positions(start.length, (i) => start[i] === end[i]),
    );
  }

  within({ low, high }: Part): number {
    if (low === high) return 0;
    // An event that ends where the window starts is over, unless it is an instant.
    const there = countUpTo(this.points, low) - countBelow(this.points, low);
    return countBelow(this.start, high) - countUpTo(this.ends, low) + there;
  }

  /** First start and last end in the window; of no event Infinity and -Infinity. */
  extent(part: Part): [start: number, end: number] {
    if (this.within(part) === 0) return [Infinity, -Infinity];
    const { low, high } = part;
    const begun = countBelow(this.start, low);
    const open = begun > 0 && this.reach[begun - 1]! > low;
    const last = countBelow(this.start, high) - 1;
    return [open ? low : this.start[begun]!, Math.min(this.reach[last]!, high)];
  }
}
