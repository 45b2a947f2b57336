/** How much launched work waits on each stream of a rank: every change of every queue. */

import type { Part } from "./part";
import type { Work } from "./panel_rank";

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

export class Launched {
  readonly streams: Int32Array;
  /** Where each stream's changes begin. */
  private readonly first: Int32Array;
  private readonly time: Float64Array;
  /** Row of the work behind each change, folded with the direction: `2·row` enters, `2·row + 1` leaves. */
  private readonly what: Float64Array;

  constructor(work: Work) {
    const members: number[] = [];
    for (let i = 0; i < work.row.length; i += 1) if (work.call[i]! >= 0) members.push(i);
    this.streams = Int32Array.from(new Set(members.map((i) => work.stream[i]!))).sort();
    const place = new Map(Array.from(this.streams, (stream, at) => [stream, at]));
    const byStream: number[][] = Array.from(this.streams, () => []);
    for (const i of members) byStream[place.get(work.stream[i]!)!]!.push(i);
    this.first = new Int32Array(this.streams.length + 1);
    this.time = new Float64Array(2 * members.length);
    this.what = new Float64Array(2 * members.length);
    let at = 0;
    byStream.forEach((own, stream) => {
      at = this.put(work, own, at);
      this.first[stream + 1] = at;
    });
  }

  /** Write the changes of one stream by time; at an instant what enters comes before what leaves. */
  private put(work: Work, own: readonly number[], from: number): number {
    const enter = (i: number): number => work.callStart[i]!;
    const leave = (i: number): number => Math.max(work.callStart[i]!, work.start[i]!);
    const [entering, leaving] = [inOrder(own, enter), inOrder(own, leave)];
    let [a, b, at] = [0, 0, from];
    while (b < leaving.length) {
      const enters = a < entering.length && enter(entering[a]!) <= leave(leaving[b]!);
      const i = enters ? entering[a]! : leaving[b]!;
      this.time[at] = enters ? enter(i) : leave(i);
      this.what[at] = 2 * work.row[i]! + (enters ? 0 : 1);
      if (enters) a += 1;
      else b += 1;
      at += 1;
    }
    return at;
  }

  /** Figures of all streams in the window, of queues at all times. */
  within({ mask, low, high }: Part): Queues {
    const queues: Queue[] = [];
    let launched = 0;
    for (let place = 0; place < this.streams.length; place += 1) {
      const { time, what } = this;
      let [count, max, area, span, changes] = [0, -Infinity, 0, 0, 0];
      let [length, since] = [0, 0];
      for (let at = this.first[place]!; at < this.first[place + 1]!; at += 1) {
        const now = time[at]!;
        const one = what[at]!;
        const leaves = one % 2;
        if (mask !== null && mask[(one - leaves) / 2] === 0) continue;
        if (changes > 0) {
          const held = (now < high ? now : high) - (since > low ? since : low);
          if (held > 0) {
            area += length * held;
            span += held;
          }
        }
        changes += 1;
        length += leaves === 0 ? 1 : -1;
        since = now;
        if (now >= low && now < high) {
          count += 1;
          if (length > max) max = length;
        }
      }
      if (changes === 0) continue;
      launched += changes / 2;
      queues.push({
        stream: this.streams[place]!,
        count,
        max: count === 0 ? null : max,
        mean: span > 0 ? area / span : null,
        span,
      });
    }
    return { queues, launched };
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
