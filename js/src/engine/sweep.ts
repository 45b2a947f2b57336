/**
 * Merge sets of intervals into a sequence of states. A state lists the sets that cover its time.
 *
 * Bit k of a state's code is set if set k covers the time. With the sets [0, 6) and [4, 9):
 *
 *   starts  0  4  6  9
 *   codes   1  3  2  0     timesWithin(0, 9): 4 ns in code 1, 2 ns in code 3, 3 ns in code 2
 */

import { countUpTo } from "./columns";
import type { IntervalUnion } from "./spans";

/** Running totals are stored once per this many states. */
const STRIDE = 16;

export class Sweep {
  /** Time per code before every `STRIDE`-th start. */
  private readonly sums: Float64Array;
  private readonly size: number;

  constructor(
    /** Start of each state. The last state has code 0. */
    private readonly starts: Float64Array,
    private readonly codes: Uint8Array,
  ) {
    const size = (this.size = codes.reduce((maxCode, code) => Math.max(maxCode, code), 0) + 1);
    this.sums = new Float64Array(Math.ceil(starts.length / STRIDE) * size);
    const soFar = new Float64Array(size);
    for (let at = 0; at < starts.length; at += 1) {
      const codeBefore = codes[at - 1] ?? 0;
      if (codeBefore > 0) soFar[codeBefore]! += starts[at]! - starts[at - 1]!;
      if (at % STRIDE === 0) this.sums.set(soFar, (at / STRIDE) * size);
    }
  }

  /** Merge the covers. Bit k of a code means that cover k covers the time. */
  static of(covers: readonly IntervalUnion[]): Sweep {
    const maxEdges = covers.reduce((sum, cover) => sum + 2 * cover.starts.length, 0);
    const [starts, codes] = [new Float64Array(maxEdges), new Uint8Array(maxEdges)];
    const piece = new Int32Array(covers.length);
    // The next edge of each cover: the start or end of its current piece.
    const edges = Float64Array.from(covers, ({ starts: [first = Infinity] }) => first);
    let [count, set] = [0, 0];
    for (;;) {
      let time = Infinity;
      for (let k = 0; k < edges.length; k += 1) if (edges[k]! < time) time = edges[k]!;
      if (time === Infinity) break;
      const before = set;
      for (let k = 0; k < edges.length; k += 1) {
        if (edges[k] !== time) continue;
        const cover = covers[k]!;
        if ((set >> k) & 1) {
          piece[k]! += 1;
          edges[k] = cover.starts[piece[k]!] ?? Infinity;
          set ^= 1 << k;
          // A piece that touches the previous one continues it.
          if (edges[k] !== time) continue;
        }
        edges[k] = cover.endOf(piece[k]!);
        set |= 1 << k;
      }
      if (set === before) continue;
      starts[count] = time;
      codes[count] = set;
      count += 1;
    }
    return new Sweep(starts.slice(0, count), codes.slice(0, count));
  }

  /** Return the time per code within a window. Code 0 always gets 0. */
  timesWithin(low: number, high: number): Float64Array {
    const [until, from] = [this.timesBefore(high), this.timesBefore(low)];
    for (let code = 0; code < from.length; code += 1) until[code]! -= from[code]!;
    return until;
  }

  /** Call `visit`, in order, with each part of a window that has the given code. */
  forEachPiece(
    code: number,
    low: number,
    high: number,
    visit: (start: number, end: number) => void,
  ): void {
    for (let at = Math.max(countUpTo(this.starts, low) - 1, 0); at < this.starts.length; at += 1) {
      const [start, end] = [this.starts[at]!, this.starts[at + 1] ?? Infinity];
      if (start >= high) return;
      if (this.codes[at] === code) visit(Math.max(start, low), Math.min(end, high));
    }
  }

  /** Return the time per code before an instant. */
  timesBefore(time: number): Float64Array {
    const { starts, codes, size } = this;
    const index = countUpTo(starts, time) - 1;
    if (index < 0) return new Float64Array(size);
    const block = Math.floor(index / STRIDE);
    const out = this.sums.slice(block * size, (block + 1) * size);
    for (let k = block * STRIDE; k <= index; k += 1) {
      const code = codes[k]!;
      if (code > 0) out[code]! += (k < index ? starts[k + 1]! : time) - starts[k]!;
    }
    return out;
  }
}

/** Return the time in codes that have a bit of `any` and no bit of `none`. */
export function timeInStates(times: Float64Array, any: number, none = 0): number {
  let sum = 0;
  for (let set = 1; set < times.length; set += 1) {
    if ((set & any) !== 0 && (set & none) === 0) sum += times[set]!;
  }
  return sum;
}
