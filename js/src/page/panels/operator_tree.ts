/** The operators of a rank: which encloses which, and which one launched what. */

import type { Names } from "../names";
import type { Pacer } from "../pacer";
import type { Rank } from "../rank";
import { reachOf, type Sorted } from "./part";
import type { Work } from "./panel_rank";

const CATEGORY = /^(?:cpu_op|operator)$/i;
const STEP = "ProfilerStep";
/** Rows between two looks at the clock. */
const STRIDE = 1 << 15;

export class OperatorTree implements Sorted {
  private constructor(
    readonly row: Int32Array,
    readonly start: Float64Array,
    readonly end: Float64Array,
    readonly reach: Float64Array,
    /** Place of the operator above, -1 for none. */
    readonly parent: Int32Array,
    /** Place of the nearest operator above of the same name, -1 for none. */
    readonly same: Int32Array,
    /** Place in `names`. */
    readonly name: Int32Array,
    /** Positions in the job's names. */
    readonly names: Int32Array,
    /** Of each piece of device work the innermost operator around its call, -1 for none. */
    readonly ofWork: Int32Array,
  ) {}

  static async of(rank: Rank, names: Names, work: Work, pacer: Pacer): Promise<OperatorTree> {
    const { type, start, dur } = rank.events;
    const { types } = rank.header;
    const [streams, parents] = [rank.streams(), rank.parents()];
    const isOperator = Uint8Array.from(types, ([name, category]) =>
      CATEGORY.test(names.category(category)) && !names.full(name).startsWith(STEP) ? 1 : 0,
    );
    const count = type.length;
    // Of each event the place of the innermost operator that it is or lies in.
    const innermost = new Int32Array(count);
    const above = new Int32Array(count);
    const rows = new Int32Array(count);
    let found = 0;
    for (let row = 0; row < count; row += 1) {
      // What encloses an event comes before it.
      const parent = parents[row]!;
      const outer = parent < 0 ? -1 : innermost[parent]!;
      innermost[row] = outer;
      if (isOperator[type[row]!] === 1 && streams[row]! < 0) {
        rows[found] = row;
        above[found] = outer;
        innermost[row] = found;
        found += 1;
      }
      if (row % STRIDE === STRIDE - 1) await pacer.rest();
    }
    const row = rows.slice(0, found);
    const parent = above.slice(0, found);
    const starts = new Float64Array(found);
    const ends = new Float64Array(found);
    const name = new Int32Array(found);
    const place = new Map<number, number>();
    const ofType = Int32Array.from(types, ([of]) => of);
    for (let at = 0; at < found; at += 1) {
      const own = row[at]!;
      starts[at] = start[own]!;
      ends[at] = start[own]! + dur[own]!;
      const of = ofType[type[own]!]!;
      let code = place.get(of);
      if (code === undefined) {
        code = place.size;
        place.set(of, code);
      }
      name[at] = code;
      if (at % STRIDE === STRIDE - 1) await pacer.rest();
    }
    const same = new Int32Array(found);
    for (let at = 0; at < found; at += 1) {
      let up = parent[at]!;
      while (up >= 0 && name[up] !== name[at]) up = parent[up]!;
      same[at] = up;
      if (at % STRIDE === STRIDE - 1) await pacer.rest();
    }
    const ofWork = new Int32Array(work.row.length);
    for (let i = 0; i < ofWork.length; i += 1) {
      const call = work.call[i]!;
      ofWork[i] = call < 0 ? -1 : innermost[call]!;
    }
    await pacer.rest();
    const namesOf = Int32Array.from(place.keys());
    return new OperatorTree(row, starts, ends, reachOf(ends), parent, same, name, namesOf, ofWork);
  }
}
