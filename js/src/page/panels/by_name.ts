/** Kernels and operators of one rank, added up by name. */

import { around, overlaps, type Part } from "./part";
import { BUSY } from "./panel_rank";
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
      let [start, end] = [work.start[i]!, work.end[i]!];
      if (!overlaps(start, end, low)) continue;
      if (mask !== null && mask[work.row[i]!] === 0) continue;
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

/** By place in the names of the rank's operators. */
export interface OperatorSums {
  /** Operators that overlap the window. */
  count: Float64Array;
  cpuTotal: Float64Array;
  cpuSelf: Float64Array;
  deviceTotal: Float64Array;
  deviceSelf: Float64Array;
  /** All device work in the window, and what of it a call launched. */
  work: number;
  linked: number;
}

export function operatorSums(part: Part): OperatorSums {
  return part.rank.once("operators", part, (of) => {
    const size = of.rank.operators.names.length;
    const sums: OperatorSums = {
      count: new Float64Array(size),
      cpuTotal: new Float64Array(size),
      cpuSelf: new Float64Array(size),
      deviceTotal: new Float64Array(size),
      deviceSelf: new Float64Array(size),
      work: 0,
      linked: 0,
    };
    addHost(of, sums);
    addDevice(of, sums);
    return sums;
  });
}

/** Is this operator the outermost chosen one of its name? */
function isOutermost({ rank, mask }: Part, at: number): boolean {
  const { same, row } = rank.operators;
  let above = same[at]!;
  if (mask === null) return above < 0;
  while (above >= 0 && mask[row[above]!] === 0) above = same[above]!;
  return above < 0;
}

function addHost(part: Part, sums: OperatorSums): void {
  const { mask, low, high } = part;
  const tree = part.rank.operators;
  const [first, last] = around(tree, part);
  // What children cover of each, and how far the ones so far reach.
  const covered = new Float64Array(last - first);
  const reached = new Float64Array(last - first).fill(-Infinity);
  for (let at = first; at < last; at += 1) {
    const parent = tree.parent[at]! - first;
    // What encloses none of the window has no time in it.
    if (parent < 0) continue;
    const end = Math.min(tree.end[at]!, tree.end[parent + first]!, high);
    const start = Math.max(tree.start[at]!, tree.start[parent + first]!, low, reached[parent]!);
    if (end > start) covered[parent] = covered[parent]! + end - start;
    if (end > reached[parent]!) reached[parent] = end;
  }
  for (let at = first; at < last; at += 1) {
    let [start, end] = [tree.start[at]!, tree.end[at]!];
    if (!overlaps(start, end, low)) continue;
    if (mask !== null && mask[tree.row[at]!] === 0) continue;
    if (start < low) start = low;
    if (end > high) end = high;
    const name = tree.name[at]!;
    sums.count[name] = sums.count[name]! + 1;
    sums.cpuSelf[name] = sums.cpuSelf[name]! + end - start - covered[at - first]!;
    if (isOutermost(part, at)) sums.cpuTotal[name] = sums.cpuTotal[name]! + end - start;
  }
}

function addDevice(part: Part, sums: OperatorSums): void {
  const { low, high, mask } = part;
  const { work, operators: tree } = part.rank;
  const [first, last] = around(work, part);
  const own = new Float64Array(tree.row.length);
  let latest = -1;
  for (let i = first; i < last; i += 1) {
    let [start, end] = [work.start[i]!, work.end[i]!];
    if (!overlaps(start, end, low) || work.stream[i]! < 0) continue;
    sums.work += 1;
    if (work.call[i]! >= 0) sums.linked += 1;
    const operator = tree.ofWork[i]!;
    if (operator < 0) continue;
    if (start < low) start = low;
    if (end > high) end = high;
    own[operator] = own[operator]! + end - start;
    if (operator > latest) latest = operator;
  }
  const total = own.slice(0, latest + 1);
  for (let at = latest; at >= 0; at -= 1) {
    const time = total[at]!;
    if (time === 0) continue;
    // What encloses comes before: all that this one holds is in it by now.
    const parent = tree.parent[at]!;
    if (parent >= 0) total[parent] = total[parent]! + time;
    if (mask !== null && mask[tree.row[at]!] === 0) continue;
    const name = tree.name[at]!;
    sums.deviceSelf[name] = sums.deviceSelf[name]! + own[at]!;
    if (isOutermost(part, at)) sums.deviceTotal[name] = sums.deviceTotal[name]! + time;
  }
}

/** How many members are of each kind of device work. */
export function countsOfKinds(kernels: readonly { kind: number }[], sums: KernelSums): number[] {
  const counts = new Array<number>(BUSY).fill(0);
  kernels.forEach(({ kind }, at) => (counts[kind] = counts[kind]! + sums.count[at]!));
  return counts;
}
