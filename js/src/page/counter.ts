/** Samples of one counter: a step function of time. */

import { countBelow, walkBelow } from "./sorted";

export interface Held {
  /** NaN where no value is held. */
  smallest: Float64Array;
  largest: Float64Array;
}

export class Counter {
  /** Where the last value stops to hold. */
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

  get bytes(): number {
    return this.times.byteLength + this.values.byteLength;
  }
}
