/**
 * The operators of a rank: which encloses which, and which one launched what. Operators with the
 * same names above them share a *path*, of which there are few: sums are taken by path first.
 */

import type { Names } from "../names";
import type { Pacer } from "../pacer";
import type { Rank } from "../rank";
import { reachOf, type Sorted } from "./part";
import type { Work } from "./work";

const CATEGORY = /^(?:cpu_op|operator)$/i;
const STEP = "ProfilerStep";
/** Rows between two looks at the clock. */
const STRIDE = 1 << 15;

/** All names from the outermost operator down to one. */
export interface Paths {
  /** The path without its last name, -1 for none; it has a lower number. */
  parent: number[];
  /** The last name: place in `names`. */
  name: number[];
  /** Whether no operator above has that name. */
  outermost: boolean[];
}

export class OperatorTree implements Sorted {
  /** What children cover of each. */
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
    /** Of each piece of device work the innermost operator around its call, -1 for none. */
    readonly ofWork: Int32Array,
    /** And that operator's path. */
    readonly pathOfWork: Int32Array,
  ) {
    this.covered = this.coveredWithin(0, row.length, -Infinity, Infinity);
  }

  /** What children cover within a window of each operator from `first` to before `last`. */
  coveredWithin(first: number, last: number, low: number, high: number): Float64Array {
    const covered = new Float64Array(last - first);
    // How far the children so far reach.
    const reached = new Float64Array(last - first).fill(low);
    for (let at = first; at < last; at += 1) {
      const parent = this.parent[at]!;
      // What encloses none of the window has no time in it.
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
    // Of each type the place of its name, -1 where it is no operator's.
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
    // Of each event the place of the innermost operator that it is or lies in.
    const innermost = new Int32Array(count);
    const found = { row: new Int32Array(count), parent: new Int32Array(count) };
    const path = new Int32Array(count);
    const [starts, ends] = [new Float64Array(count), new Float64Array(count)];
    let size = 0;
    for (let row = 0; row < count; row += 1) {
      if (row % STRIDE === STRIDE - 1) await pacer.rest();
      // What encloses an event comes before it.
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
