/** What each operator of a rank costs, on the host and on the device. */

import type { OperatorTree } from "./operator_tree";
import { around, ofAllTimes, overlaps, type Part } from "./part";

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
    const tree = of.rank.operators;
    const sums = blank(tree.names.length);
    if (of.mask === null) {
      hostByPath(of, sums);
      deviceByPath(of, sums);
      return sums;
    }
    const { mask } = of;
    const any = of.rank.once("operators chosen", ofAllTimes(of), () => anyOf(tree.row, mask));
    if (any) hostOfChosen(of, mask, sums);
    deviceOfChosen(of, mask, any, sums);
    return sums;
  });
}

function anyOf(rows: Int32Array, mask: Uint8Array): boolean {
  for (let at = 0; at < rows.length; at += 1) if (mask[rows[at]!] === 1) return true;
  return false;
}

function blank(size: number): OperatorSums {
  return {
    count: new Float64Array(size),
    cpuTotal: new Float64Array(size),
    cpuSelf: new Float64Array(size),
    deviceTotal: new Float64Array(size),
    deviceSelf: new Float64Array(size),
    work: 0,
    linked: 0,
  };
}

// --- all operators: sums by path, then by name ---

function hostByPath(part: Part, sums: OperatorSums): void {
  const { low, high } = part;
  const tree = part.rank.operators;
  const { start, end, path, paths } = tree;
  const [first, last] = around(tree, part);
  const size = paths.name.length;
  const [count, total, self] = [1, 2, 3].map(() => new Float64Array(size)) as [
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const covered = coveredIn(tree, first, last, low, high);
  for (let at = first; at < last; at += 1) {
    let [from, to] = [start[at]!, end[at]!];
    if (to <= low && from < low) continue;
    if (from < low) from = low;
    if (to > high) to = high;
    const own = path[at]!;
    count[own] = count[own]! + 1;
    total[own] = total[own]! + to - from;
    self[own] = self[own]! + to - from - covered[at]!;
  }
  for (let own = 0; own < size; own += 1) {
    const name = paths.name[own]!;
    sums.count[name] = sums.count[name]! + count[own]!;
    sums.cpuSelf[name] = sums.cpuSelf[name]! + self[own]!;
    if (paths.outermost[own]) sums.cpuTotal[name] = sums.cpuTotal[name]! + total[own]!;
  }
}

/** What children cover within a window; of operators that lie in it as a whole that is known. */
function coveredIn(
  tree: OperatorTree,
  first: number,
  last: number,
  low: number,
  high: number,
): Float64Array {
  const { start, end, parent } = tree;
  const crossing = new Map<number, { covered: number; reached: number }>();
  for (let at = first; at < last; at += 1) {
    const inside = start[at]! >= low && end[at]! <= high;
    if (!inside) crossing.set(at, { covered: 0, reached: low });
  }
  if (crossing.size === 0) return tree.covered;
  const covered = tree.covered.slice(0, last);
  for (let at = first; at < last; at += 1) {
    const above = parent[at]!;
    // Most parents lie in the window.
    if (above < first || (start[above]! >= low && end[above]! <= high)) continue;
    const one = crossing.get(above)!;
    const until = Math.min(end[at]!, end[above]!, high);
    const from = Math.max(start[at]!, one.reached);
    if (until > from) one.covered += until - from;
    one.reached = Math.max(one.reached, until);
  }
  for (const [at, one] of crossing) covered[at] = one.covered;
  return covered;
}

function deviceByPath(part: Part, sums: OperatorSums): void {
  const { low, high } = part;
  const { work, operators: tree } = part.rank;
  const { paths, pathOfWork } = tree;
  const [first, last] = around(work, part);
  const time = new Float64Array(paths.name.length);
  for (let i = first; i < last; i += 1) {
    let [from, to] = [work.start[i]!, work.end[i]!];
    if ((to <= low && from < low) || work.stream[i]! < 0) continue;
    sums.work += 1;
    if (work.call[i]! >= 0) sums.linked += 1;
    const path = pathOfWork[i]!;
    if (path < 0) continue;
    if (from < low) from = low;
    if (to > high) to = high;
    time[path] = time[path]! + to - from;
  }
  for (let path = time.length - 1; path >= 0; path -= 1) {
    const name = paths.name[path]!;
    const above = paths.parent[path]!;
    if (paths.outermost[path]) sums.deviceTotal[name] = sums.deviceTotal[name]! + time[path]!;
    if (above >= 0) time[above] = time[above]! + time[path]!;
  }
  addOwn(part, sums);
}

/** Device time of the innermost operators alone. */
function addOwn(part: Part, sums: OperatorSums): void {
  const { low, high, mask } = part;
  const { work, operators: tree } = part.rank;
  const [first, last] = around(work, part);
  for (let i = first; i < last; i += 1) {
    const path = tree.pathOfWork[i]!;
    if (path < 0 || work.stream[i]! < 0) continue;
    if (mask !== null && mask[tree.row[tree.ofWork[i]!]!] === 0) continue;
    const from = work.start[i]! < low ? low : work.start[i]!;
    const to = work.end[i]! > high ? high : work.end[i]!;
    if (to <= from) continue;
    const name = tree.paths.name[path]!;
    sums.deviceSelf[name] = sums.deviceSelf[name]! + to - from;
  }
}

// --- chosen operators: one by one ---

/** Is this the outermost chosen operator of its name? */
function isOutermost({ parent, path, paths, row }: OperatorTree, mask: Uint8Array, at: number) {
  const name = paths.name[path[at]!]!;
  if (paths.outermost[path[at]!]) return true;
  for (let above = parent[at]!; above >= 0; above = parent[above]!) {
    if (paths.name[path[above]!] === name && mask[row[above]!] === 1) return false;
  }
  return true;
}

function hostOfChosen(part: Part, mask: Uint8Array, sums: OperatorSums): void {
  const { low, high } = part;
  const tree = part.rank.operators;
  const [first, last] = around(tree, part);
  const covered = coveredIn(tree, first, last, low, high);
  for (let at = first; at < last; at += 1) {
    let [start, end] = [tree.start[at]!, tree.end[at]!];
    if (mask[tree.row[at]!] === 0 || !overlaps(start, end, low)) continue;
    if (start < low) start = low;
    if (end > high) end = high;
    const name = tree.paths.name[tree.path[at]!]!;
    sums.count[name] = sums.count[name]! + 1;
    sums.cpuSelf[name] = sums.cpuSelf[name]! + end - start - covered[at]!;
    if (isOutermost(tree, mask, at)) sums.cpuTotal[name] = sums.cpuTotal[name]! + end - start;
  }
}

/** The device's work is that of chosen operators whether it is chosen or not. */
function deviceOfChosen(part: Part, mask: Uint8Array, any: boolean, sums: OperatorSums): void {
  const { low, high } = part;
  const { work, operators: tree } = part.rank;
  const [first, last] = around(work, part);
  const total = new Float64Array(any ? tree.row.length : 0);
  for (let i = first; i < last; i += 1) {
    let [start, end] = [work.start[i]!, work.end[i]!];
    if (!overlaps(start, end, low) || work.stream[i]! < 0) continue;
    sums.work += 1;
    if (work.call[i]! >= 0) sums.linked += 1;
    const operator = tree.ofWork[i]!;
    if (operator < 0 || !any) continue;
    if (start < low) start = low;
    if (end > high) end = high;
    total[operator] = total[operator]! + end - start;
  }
  for (let at = total.length - 1; at >= 0; at -= 1) {
    const time = total[at]!;
    if (time === 0) continue;
    // What encloses comes before: all that this one holds is in it by now.
    const parent = tree.parent[at]!;
    if (parent >= 0) total[parent] = total[parent]! + time;
    if (mask[tree.row[at]!] === 0 || !isOutermost(tree, mask, at)) continue;
    const name = tree.paths.name[tree.path[at]!]!;
    sums.deviceTotal[name] = sums.deviceTotal[name]! + time;
  }
  if (any) addOwn(part, sums);
}
