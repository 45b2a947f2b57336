/** How much launched work waits on each stream of a rank: every change of every queue. */

import { countBelow, countUpTo } from "../sorted";
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

  constructor(
    readonly stream: number,
    work: Work,
    own: readonly number[],
  ) {
    const size = 2 * own.length;
    this.time = new Float64Array(size);
    this.row = new Int32Array(size);
    this.step = new Int8Array(size);
    this.length = new Int32Array(size);
    this.area = new Float64Array(size);
    const enter = (i: number): number => work.callStart[i]!;
    const leave = (i: number): number => Math.max(work.callStart[i]!, work.start[i]!);
    const [entering, leaving] = [inOrder(own, enter), inOrder(own, leave)];
    let [a, b, length] = [0, 0, 0];
    for (let at = 0; at < size; at += 1) {
      const enters = a < entering.length && enter(entering[a]!) <= leave(leaving[b]!);
      const i = enters ? entering[a]! : leaving[b]!;
      this.time[at] = enters ? enter(i) : leave(i);
      this.row[at] = work.row[i]!;
      this.step[at] = enters ? 1 : -1;
      if (at > 0) {
        this.area[at] = this.area[at - 1]! + length * (this.time[at]! - this.time[at - 1]!);
      }
      length += this.step[at]!;
      this.length[at] = length;
      if (enters) a += 1;
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
  private readonly streams: Changes[];

  constructor(work: Work) {
    const byStream = new Map<number, number[]>();
    for (let i = 0; i < work.row.length; i += 1) {
      if (work.call[i]! < 0) continue;
      const known = byStream.get(work.stream[i]!);
      if (known === undefined) byStream.set(work.stream[i]!, [i]);
      else known.push(i);
    }
    const streams = [...byStream.keys()].sort((a, b) => a - b);
    this.streams = streams.map((stream) => new Changes(stream, work, byStream.get(stream)!));
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

/** Members by a value; they nearly always are. */
function inOrder(members: readonly number[], valueOf: (i: number) => number): readonly number[] {
  for (let k = 1; k < members.length; k += 1) {
    if (valueOf(members[k]!) < valueOf(members[k - 1]!)) {
      return [...members].sort((a, b) => valueOf(a) - valueOf(b));
    }
  }
  return members;
}
