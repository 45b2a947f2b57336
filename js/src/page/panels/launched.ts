/** How much launched work waits on each stream of a rank: every change of every queue. */

import type { Pacer } from "../pacer";
import { countBelow, countUpTo, positions } from "../sorted";
import type { Part } from "./part";
import type { Work } from "./work";

/** Figures of one stream's queue. */
export interface Queue {
  stream: number;
  /** Changes within the window, and the longest after one of them. */
  count: number;
  max: number | null;
  mean: number | null;
  span: number;
}

export interface Queues {
  queues: Queue[];
  /** Work that was launched. */
  launched: number;
}

/** The changes of one stream by time; at an instant what enters comes before what leaves. */
class Changes {
  readonly time: Float64Array;
  /** Row of the work behind each change. */
  private readonly row: Int32Array;
  /** 1 where it enters, -1 where it leaves. */
  private readonly step: Int8Array;
  /** After each change. */
  private readonly length: Int32Array;
  /** Length times time before each change. */
  private readonly area: Float64Array;

  /** `own`: places of the stream's work. */
  constructor(
    readonly stream: number,
    work: Work,
    own: Int32Array,
  ) {
    const size = 2 * own.length;
    this.time = new Float64Array(size);
    this.row = new Int32Array(size);
    this.step = new Int8Array(size);
    this.length = new Int32Array(size);
    this.area = new Float64Array(size);
    const enters = new Float64Array(own.length);
    const leaves = new Float64Array(own.length);
    for (let k = 0; k < own.length; k += 1) {
      const [called, started] = [work.callStart[own[k]!]!, work.start[own[k]!]!];
      enters[k] = called;
      leaves[k] = called > started ? called : started;
    }
    const [entering, leaving] = [orderOf(enters), orderOf(leaves)];
    let [a, b, length, before, area] = [0, 0, 0, 0, 0];
    for (let at = 0; at < size; at += 1) {
      const k = a < own.length ? entering[a]! : -1;
      const isEntry = k >= 0 && enters[k]! <= leaves[leaving[b]!]!;
      const of = isEntry ? k : leaving[b]!;
      const time = isEntry ? enters[of]! : leaves[of]!;
      if (at > 0) area += length * (time - before);
      before = time;
      length += isEntry ? 1 : -1;
      this.time[at] = time;
      this.row[at] = work.row[own[of]!]!;
      this.step[at] = isEntry ? 1 : -1;
      this.area[at] = area;
      this.length[at] = length;
      if (isEntry) a += 1;
      else b += 1;
    }
  }

  get launched(): number {
    return this.time.length / 2;
  }

  /** Figures of all its work. */
  within(low: number, high: number): Queue {
    const { time, length, stream } = this;
    const first = countBelow(time, low);
    const last = Math.max(countBelow(time, high), first);
    let max = -Infinity;
    for (let at = first; at < last; at += 1) if (length[at]! > max) max = length[at]!;
    const from = Math.max(low, time[0]!);
    const to = Math.min(high, time[time.length - 1]!);
    const span = Math.max(to - from, 0);
    return {
      stream,
      count: last - first,
      max: last > first ? max : null,
      mean: span > 0 ? (this.areaBefore(to) - this.areaBefore(from)) / span : null,
      span,
    };
  }

  private areaBefore(time: number): number {
    const at = Math.max(countUpTo(this.time, time) - 1, 0);
    return this.area[at]! + this.length[at]! * (time - this.time[at]!);
  }

  /** Figures of chosen work alone; null where there is none. */
  ofChosen(mask: Uint8Array, low: number, high: number): { queue: Queue; launched: number } | null {
    const { time, row, step, stream } = this;
    let [count, max, area, span, changes, length, since] = [0, -Infinity, 0, 0, 0, 0, 0];
    for (let at = 0; at < time.length; at += 1) {
      if (mask[row[at]!] === 0) continue;
      const now = time[at]!;
      if (changes > 0) {
        const held = (now < high ? now : high) - (since > low ? since : low);
        if (held > 0) {
          area += length * held;
          span += held;
        }
      }
      changes += 1;
      length += step[at]!;
      since = now;
      if (now >= low && now < high) {
        count += 1;
        if (length > max) max = length;
      }
    }
    if (changes === 0) return null;
    const mean = span > 0 ? area / span : null;
    const queue = { stream, count, max: count > 0 ? max : null, mean, span };
    return { queue, launched: changes / 2 };
  }
}

export class Launched {
  private constructor(private readonly streams: readonly Changes[]) {}

  static async of(work: Work, pacer: Pacer): Promise<Launched> {
    const all = new Set<number>();
    for (let i = 0; i < work.row.length; i += 1) if (work.call[i]! >= 0) all.add(work.stream[i]!);
    const made: Changes[] = [];
    for (const stream of [...all].sort((a, b) => a - b)) {
      await pacer.rest();
      const isOwn = (i: number): boolean => work.stream[i] === stream && work.call[i]! >= 0;
      made.push(new Changes(stream, work, positions(work.row.length, isOwn)));
    }
    return new Launched(made);
  }

  /** Figures of all streams in the window, of queues at all times. */
  within({ mask, low, high }: Part): Queues {
    if (mask === null) {
      return {
        queues: this.streams.map((one) => one.within(low, high)),
        launched: this.streams.reduce((sum, { launched }) => sum + launched, 0),
      };
    }
    const found = this.streams.flatMap((one) => one.ofChosen(mask, low, high) ?? []);
    return {
      queues: found.map(({ queue }) => queue),
      launched: found.reduce((sum, { launched }) => sum + launched, 0),
    };
  }
}

/** Places by value; they nearly always are in order. */
function orderOf(values: Float64Array): Int32Array {
  const order = new Int32Array(values.length);
  let isSorted = true;
  for (let k = 0; k < values.length; k += 1) {
    order[k] = k;
    if (k > 0 && values[k]! < values[k - 1]!) isSorted = false;
  }
  return isSorted ? order : order.sort((a, b) => values[a]! - values[b]! || a - b);
}
