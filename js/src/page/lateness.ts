/** Who waits for whom: waits within collectives as intervals, and what they add up to in a view. */

import { Cover, Spans } from "./spans";

/** One rank's events that are part of collectives, by start, then id. */
export interface Part {
  start: Float64Array;
  dur: Float64Array;
  /** To the arrival of the last, or to its own end where that is earlier. */
  wait: Float64Array;
  /** How long after the median of the others it came, where it alone came last; else 0. */
  late: Float64Array;
  /** What the others waited for it. */
  imposed: Float64Array;
  /** The rank that alone came last to the collective, -1 where several came at once. */
  last_alone: Int32Array;
}

/** Parts of events in the order of a lane; `entry`: position in the `Part`. */
export interface Pieces {
  start: Float64Array;
  dur: Float64Array;
  entry: Int32Array;
}

/** From a rank's own arrival to the last one's. */
export function waitsOf({ start, wait }: Part): Pieces {
  return inOrder(start, wait);
}

/** From the median arrival of the others to its own, where it alone came last. */
export function delaysOf({ start, late }: Part): Pieces {
  return inOrder(
    start.map((time, i) => time - late[i]!),
    late,
  );
}

/**
 * When a rank does nothing but wait: the union of its waits less all its transfers. Of waits that
 * overlap, each moment is of the one that comes first in order.
 */
export function waitsWithoutTransfers(part: Part): Pieces {
  const waits = waitsOf(part);
  const begins: number[] = [];
  const ends: number[] = [];
  const owners: number[] = [];
  let reached = Number.NEGATIVE_INFINITY;
  waits.start.forEach((start, i) => {
    const end = start + waits.dur[i]!;
    // What earlier waits cover already is theirs.
    if (end > reached) {
      begins.push(Math.max(start, reached));
      ends.push(end);
      owners.push(waits.entry[i]!);
      reached = end;
    }
  });
  const left: { start: number[]; dur: number[]; entry: number[] } = {
    start: [],
    dur: [],
    entry: [],
  };
  const own = Cover.of(Float64Array.from(begins), Float64Array.from(ends));
  own.eachBeyond(transfersOf(part), (start, end, piece) => {
    left.start.push(start);
    left.dur.push(end - start);
    left.entry.push(owners[piece]!);
  });
  return {
    start: Float64Array.from(left.start),
    dur: Float64Array.from(left.dur),
    entry: Int32Array.from(left.entry),
  };
}

/** When it waits, whatever else it transfers meanwhile. */
export function waitedOf(part: Part): Cover {
  const { start, dur } = waitsOf(part);
  return Spans.of(start, dur).cover;
}

/** What one set covers and the other does not. */
export function beyond(cover: Cover, other: Cover): Cover {
  const starts: number[] = [];
  const ends: number[] = [];
  cover.eachBeyond(other, (start, end) => {
    starts.push(start);
    ends.push(end);
  });
  return Cover.of(Float64Array.from(starts), Float64Array.from(ends));
}

function transfersOf({ start, dur, wait }: Part): Cover {
  const moved = inOrder(
    start.map((time, i) => time + wait[i]!),
    dur.map((whole, i) => whole - wait[i]!),
  );
  return Spans.of(moved.start, moved.dur).cover;
}

/** Those with a length: by start, then longest first. */
function inOrder(start: Float64Array, dur: Float64Array): Pieces {
  const order: number[] = [];
  dur.forEach((length, i) => {
    if (length > 0) order.push(i);
  });
  order.sort((a, b) => start[a]! - start[b]! || dur[b]! - dur[a]! || a - b);
  return {
    start: Float64Array.from(order, (i) => start[i]!),
    dur: Float64Array.from(order, (i) => dur[i]!),
    entry: Int32Array.from(order),
  };
}

/** One rank's figures in any window. */
export class RankLateness {
  private readonly waited: Cover;
  /** By the ranks, which change with the window, but seldom. */
  private readonly waitedFor = new Map<string, Cover>();

  /** `exposed`: its wait that is not under compute, before any instant. */
  constructor(
    readonly rank: number,
    private readonly part: Part,
    private readonly exposed: (time: number) => number,
    /** Whether what is exposed within a cell of an overview is a mean. */
    readonly approximate: boolean,
  ) {
    this.waited = waitedOf(part);
  }

  between(from: number, to: number): Figures {
    const { start, dur, late, imposed } = this.part;
    const out = { collectives: 0, last: 0, wait: 0, exposed_wait: 0, imposed: 0 };
    for (let i = 0; i < start.length && start[i]! < to; i += 1) {
      if (!(start[i]! + dur[i]! > from || start[i]! >= from)) continue;
      out.collectives += 1;
      if (late[i]! > 0) out.last += 1;
      out.imposed += imposed[i]!;
    }
    out.wait = this.waited.within(from, to);
    out.exposed_wait = this.exposed(to) - this.exposed(from);
    if (this.approximate) out.exposed_wait = Math.round(out.exposed_wait);
    return out;
  }

  /** How long it waits where one of `late` alone comes last. */
  waitFor(late: readonly number[], from: number, to: number): number {
    const key = late.join();
    let cover = this.waitedFor.get(key);
    if (cover === undefined) {
      const { start, wait, last_alone: last } = this.part;
      const theirs = wait.map((ns, i) => (late.includes(last[i]!) ? ns : 0));
      const { start: begin, dur } = inOrder(start, theirs);
      cover = Spans.of(begin, dur).cover;
      this.waitedFor.set(key, cover);
    }
    return cover.within(from, to);
  }
}

interface Figures {
  collectives: number;
  last: number;
  wait: number;
  exposed_wait: number;
  imposed: number;
}

/** What is known of the whole job. */
export interface OfJob {
  /** The ranks that the others wait for. */
  late: readonly number[];
  note: string;
}

/** Answer `lateness`: what the collectives that overlap a window add up to, by rank. */
export function lateness(
  ranks: readonly RankLateness[],
  start: number,
  end: number,
  { late: ofJob, note }: OfJob,
): Record<string, unknown> {
  if (!(end > start)) throw new Error(`a window must end after it starts, not ${start} to ${end}`);
  const figures = ranks.map((one) => one.between(start, end));
  const reply: Record<string, unknown> = { ranks: ranks.map(({ rank }) => rank) };
  for (const name of ["collectives", "last", "wait", "exposed_wait", "imposed"] as const) {
    reply[name] = figures.map((one) => one[name]);
  }
  // In a window as in the whole job: of those the ones that somebody waits for here.
  const late = ranks.flatMap(({ rank }, i) =>
    ofJob.includes(rank) && figures[i]!.imposed > 0 ? [rank] : [],
  );
  reply.wait_for_late = ranks.map((one) => one.waitFor(late, start, end));
  reply.late = late;
  reply.note = note;
  const approximate = ranks.filter((one) => one.approximate).map(({ rank }) => rank);
  if (approximate.length > 0) reply.approximate = approximate;
  return reply;
}
