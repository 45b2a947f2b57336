/** A rank's operators: nesting, launched kernels, sums by name. */

import { around, ofAllTimes, overlaps, type Part, reachOf, type Sorted, type Work } from "./busy";
import type { Names, Pacer } from "./columns";
import type { Rank } from "./rank";

const CATEGORY = /^(?:cpu_op|operator)$/i;
const STEP = "ProfilerStep";
/** Rows between two looks at the clock. */
const STRIDE = 1 << 15;

/** All names from the outermost operator down to one. */
interface Paths {
  /** The path without its last name, -1 for none; it has a lower number. */
  parent: number[];
  /** The last name: place in `names`. */
  name: number[];
  /** Whether no operator above has that name. */
  outermost: boolean[];
}

export class OperatorTree implements Sorted {
  /** Time that the children of each operator cover. */
  readonly covered: Float64Array;

  private constructor(
    readonly row: Int32Array,
    readonly start: Float64Array,
    readonly end: Float64Array,
    readonly reach: Float64Array,
    /** Place of the operator above, -1 for none. */
    readonly parent: Int32Array,
    readonly path: Int32Array,
    readonly paths: Paths,
    /** Positions in the job's names. */
    readonly names: Int32Array,
    /** Innermost operator around the call of each piece of device work, -1 for none. */
    readonly ofWork: Int32Array,
    /** Path of that operator. */
    readonly pathOfWork: Int32Array,
  ) {
    this.covered = this.coveredWithin(0, row.length, -Infinity, Infinity);
  }

  /**
   * Time that children cover within a window, for each operator in `first..last`, end exclusive.
   */
  coveredWithin(first: number, last: number, low: number, high: number): Float64Array {
    const covered = new Float64Array(last - first);
    // Latest end of the children so far.
    const reached = new Float64Array(last - first).fill(low);
    for (let at = first; at < last; at += 1) {
      const parent = this.parent[at]!;
      // Skip an operator whose parent does not overlap the window.
      if (parent < first) continue;
      const from = this.start[at]!;
      const until = this.end[at]!;
      const outer = this.end[parent]!;
      let end = until < outer ? until : outer;
      if (end > high) end = high;
      const before = reached[parent - first]!;
      const start = from > before ? from : before;
      if (end > start) covered[parent - first] = covered[parent - first]! + end - start;
      if (end > before) reached[parent - first] = end;
    }
    return covered;
  }

  static async of(rank: Rank, names: Names, work: Work, pacer: Pacer): Promise<OperatorTree> {
    const { type, start, dur } = rank.events;
    const { types } = rank.header;
    const [streams, parents] = [rank.streams(), rank.nestedParents()];
    const namesOf: number[] = [];
    const places = new Map<number, number>();
    // Name index of each type, -1 if the type is not an operator.
    const nameOfType = Int32Array.from(types, ([name, category]) => {
      if (!CATEGORY.test(names.category(category)) || names.full(name).startsWith(STEP)) return -1;
      let place = places.get(name);
      if (place === undefined) {
        place = namesOf.push(name) - 1;
        places.set(name, place);
      }
      return place;
    });
    const finder = new PathFinder(namesOf.length);
    const count = type.length;
    // Index of the innermost operator that each event is or is enclosed by.
    const innermost = new Int32Array(count);
    const found = { row: new Int32Array(count), parent: new Int32Array(count) };
    const path = new Int32Array(count);
    const [starts, ends] = [new Float64Array(count), new Float64Array(count)];
    let size = 0;
    for (let row = 0; row < count; row += 1) {
      if (row % STRIDE === STRIDE - 1) await pacer.rest();
      // Enclosing events come first.
      const above = parents[row]!;
      const outer = above < 0 ? -1 : innermost[above]!;
      const name = nameOfType[type[row]!]!;
      if (name < 0 || streams[row]! >= 0) {
        innermost[row] = outer;
        continue;
      }
      innermost[row] = size;
      found.row[size] = row;
      found.parent[size] = outer;
      path[size] = finder.path(outer < 0 ? -1 : path[outer]!, name);
      starts[size] = start[row]!;
      ends[size] = start[row]! + dur[row]!;
      size += 1;
    }
    await pacer.rest();
    const ofWork = new Int32Array(work.row.length);
    const pathOfWork = new Int32Array(work.row.length);
    for (let i = 0; i < ofWork.length; i += 1) {
      const call = work.call[i]!;
      const operator = call < 0 ? -1 : innermost[call]!;
      ofWork[i] = operator;
      pathOfWork[i] = operator < 0 ? -1 : path[operator]!;
    }
    await pacer.rest();
    const end = ends.slice(0, size);
    return new OperatorTree(
      found.row.slice(0, size),
      starts.slice(0, size),
      end,
      reachOf(end),
      found.parent.slice(0, size),
      path.slice(0, size),
      finder.paths,
      Int32Array.from(namesOf),
      ofWork,
      pathOfWork,
    );
  }
}

class PathFinder {
  readonly paths: Paths = { parent: [], name: [], outermost: [] };
  private readonly known = new Map<number, number>();

  constructor(private readonly names: number) {}

  path(parent: number, name: number): number {
    const key = (parent + 1) * this.names + name;
    let found = this.known.get(key);
    if (found === undefined) {
      const { paths } = this;
      found = paths.parent.push(parent) - 1;
      paths.name.push(name);
      let above = parent;
      while (above >= 0 && paths.name[above] !== name) above = paths.parent[above]!;
      paths.outermost.push(above < 0);
      this.known.set(key, found);
    }
    return found;
  }
}

// Cost of each operator of a rank, on the host and on the device.

/** By place in the names of the rank's operators. */
interface OperatorSums {
  /** Operators that overlap the window. */
  count: Float64Array;
  cpuTotal: Float64Array;
  cpuSelf: Float64Array;
  deviceTotal: Float64Array;
  deviceSelf: Float64Array;
  /** All device work in the window, and the part of it that a call launched. */
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

/** Time that children cover within a window; precomputed for operators entirely within it. */
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
    // Most parents are within the window.
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
    // Enclosing operators have lower indices, so the total of this one is complete.
    const parent = tree.parent[at]!;
    if (parent >= 0) total[parent] = total[parent]! + time;
    if (mask[tree.row[at]!] === 0 || !isOutermost(tree, mask, at)) continue;
    const name = tree.paths.name[tree.path[at]!]!;
    sums.deviceTotal[name] = sums.deviceTotal[name]! + time;
  }
  if (any) addOwn(part, sums);
}
