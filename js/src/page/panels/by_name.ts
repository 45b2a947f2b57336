/** Kernels of one rank, added up by name. */

import { around, overlaps, type Part } from "./part";
import { BUSY } from "./work";
import { waiting } from "./waits";

/** By place in the rank's `kernels`. */
export interface KernelSums {
  count: Float64Array;
  sum: Float64Array;
  min: Float64Array;
  max: Float64Array;
}

export function kernelSums(part: Part): KernelSums {
  return part.rank.once("kernels", part, ({ rank, mask, low, high }) => {
    const { work, kernels } = rank;
    const [first, last] = around(work, part);
    const count = new Float64Array(kernels.length);
    const sum = new Float64Array(kernels.length);
    const min = new Float64Array(kernels.length).fill(Infinity);
    const max = new Float64Array(kernels.length);
    for (let i = first; i < last; i += 1) {
      if (mask !== null && mask[work.row[i]!] === 0) continue;
      let [start, end] = [work.start[i]!, work.end[i]!];
      if (!overlaps(start, end, low)) continue;
      if (start < low) start = low;
      if (end > high) end = high;
      const time = end - start;
      const kernel = work.kernel[i]!;
      count[kernel] = count[kernel]! + 1;
      sum[kernel] = sum[kernel]! + time;
      if (time < min[kernel]!) min[kernel] = time;
      if (time > max[kernel]!) max[kernel] = time;
    }
    return { count, sum, min, max };
  });
}

/** How long the rank waits in communication, by position in the job's names. */
export function waitsByName(part: Part): Map<number, number> {
  return part.rank.once("waits by name", part, () => {
    const { rank: own, matched } = part.rank;
    const found = new Map<number, number>();
    const { entry, begin, until } = waiting(part);
    for (let i = 0; i < entry.length; i += 1) {
      const [name] = own.typeOf(own.events, matched.id[entry[i]!]!);
      found.set(name, (found.get(name) ?? 0) + until[i]! - begin[i]!);
    }
    return found;
  });
}

/** How many members are of each kind of device work. */
export function countsOfKinds(kernels: readonly { kind: number }[], sums: KernelSums): number[] {
  const counts = new Array<number>(BUSY).fill(0);
  kernels.forEach(({ kind }, at) => (counts[kind] = counts[kind]! + sums.count[at]!));
  return counts;
}
