/** How a rank's device time splits, from one pass over its work: all unions of the three kinds. */

import { Cover } from "../spans";
import { around, ofAllTimes, overlaps, type Part } from "./part";
import { COMMUNICATION, COMPUTE } from "./work";

export interface BusyTimes {
  /** Members of each kind. */
  counts: [number, number, number];
  /** From the first start to the last end. */
  start: number;
  end: number;
  /** Time in which any kind of a set runs; bit k of the position stands for kind k. */
  unions: Float64Array;
}

export function busyTimes(part: Part): BusyTimes {
  const { rank, mask } = part;
  return rank.once("busy", part, mask === null ? (one) => rank.busy.within(one) : find);
}

function find(part: Part): BusyTimes {
  const { work } = part.rank;
  const { mask, low, high } = part;
  const [first, last] = around(work, part);
  const counts: [number, number, number] = [0, 0, 0];
  const unions = new Float64Array(8);
  const reach = new Float64Array(8).fill(-Infinity);
  let [begin, finish] = [Infinity, -Infinity];
  for (let i = first; i < last; i += 1) {
    if (mask !== null && mask[work.row[i]!] === 0) continue;
    let [start, end] = [work.start[i]!, work.end[i]!];
    if (!overlaps(start, end, low)) continue;
    const kind = work.kind[i]!;
    counts[kind] = counts[kind]! + 1;
    if (start < low) start = low;
    if (end > high) end = high;
    if (start < begin) begin = start;
    if (end > finish) finish = end;
    const bit = 1 << kind;
    for (let set = 1; set < 8; set += 1) {
      if ((set & bit) === 0) continue;
      const reached = reach[set]!;
      if (start >= reached) unions[set] = unions[set]! + end - start;
      else if (end > reached) unions[set] = unions[set]! + end - reached;
      else continue;
      reach[set] = end;
    }
  }
  return { counts, start: begin, end: finish, unions };
}

/**
 * The window, from the first start to the last end of chosen work of all times: whether the device
 * idles in a window is told by the work around it. Null where the window lies before or after.
 */
export function spanOf(part: Part): [start: number, end: number] | null {
  const whole = busyTimes(ofAllTimes(part));
  const { work } = part.rank.rank.header;
  const stated = work && (workOf(whole) > 0 || part.mask === null) ? work : [Infinity, -Infinity];
  const start = Math.max(Math.min(whole.start, stated[0]!), part.low);
  const end = Math.min(Math.max(whole.end, stated[1]!), part.high);
  return start < end || workOf(busyTimes(part)) > 0 ? [start, end] : null;
}

/** How much of the chosen device work was launched before recording began; in Python's words. */
export function prelaunchedNote(parts: readonly Part[]): string {
  let [count, earlyTime, time] = [0, 0, 0];
  for (const part of parts) {
    const own = part.rank.once("prelaunched", part, () => prelaunched(part));
    count += own[0];
    earlyTime += own[1];
    time += own[2];
  }
  if (count === 0) return "";
  const share = Math.floor((100 * earlyTime) / Math.max(time, 1) + 0.5);
  const what = parts.some(({ rank }) => rank.rank.header.work)
    ? "the exported window"
    : "recording";
  return (
    `${count} of the device events, ${share} % of their time, were launched before ${what}` +
    ' began; the query "prelaunched == False" leaves them out'
  );
}

function prelaunched(part: Part): [count: number, early: number, all: number] {
  const { rank, mask, low, high } = part;
  const early = rank.rank.prelaunched();
  const { work } = rank;
  const found: [number, number, number] = [0, 0, 0];
  const [first, last] = around(work, part);
  for (let i = first; i < last; i += 1) {
    const row = work.row[i]!;
    const [start, end] = [work.start[i]!, work.end[i]!];
    if ((mask !== null && mask[row] === 0) || !overlaps(start, end, low)) continue;
    const dur = Math.min(end, high) - Math.max(start, low);
    found[2] += dur;
    if (early[row] === 0) continue;
    found[0] += 1;
    found[1] += dur;
  }
  return found;
}

/** How many members are device work. */
export function workOf({ counts }: BusyTimes): number {
  return counts[0] + counts[1] + counts[2];
}

/** Time in which exactly the kinds of a set run; positions as in `unions`. */
export function exactly(unions: Float64Array): Float64Array {
  // What runs is within a set where nothing of its complement does.
  const within = Float64Array.from(unions, (_, set) => unions[7]! - unions[7 - set]!);
  return within.map((_, set) => {
    let time = 0;
    for (let part = set; part > 0; part = (part - 1) & set) {
      time += bits(set ^ part) % 2 === 0 ? within[part]! : -within[part]!;
    }
    return time;
  });
}

function bits(set: number): number {
  return (set & 1) + ((set >> 1) & 1) + ((set >> 2) & 1);
}

/** Chosen communication, and all computing in the window, chosen or not: what hides it. */
export function overlap(part: Part): { communication: number; compute: number; both: number } {
  const all = busyTimes(part.mask === null ? part : { ...part, mask: null, key: "" }).unions;
  if (part.mask === null) {
    const [compute, communication] = [all[1 << COMPUTE]!, all[1 << COMMUNICATION]!];
    return { communication, compute, both: communication + compute - all[3]! };
  }
  return part.rank.once("overlap", part, () => {
    const chosen = busyTimes(part).unions[1 << COMMUNICATION]!;
    const either = eitherTime(part);
    const compute = all[1 << COMPUTE]!;
    return { communication: chosen, compute, both: chosen + compute - either };
  });
}

function eitherTime(part: Part): number {
  const { work } = part.rank;
  const { mask, low, high } = part;
  const [first, last] = around(work, part);
  let [time, reached] = [0, -Infinity];
  for (let i = first; i < last; i += 1) {
    const kind = work.kind[i]!;
    if (kind !== COMPUTE && !(kind === COMMUNICATION && mask![work.row[i]!] === 1)) continue;
    const start = Math.max(work.start[i]!, low);
    const end = Math.min(work.end[i]!, high);
    if (end <= reached || end <= start) continue;
    time += end - Math.max(start, reached);
    reached = end;
  }
  return time;
}

/** When any chosen work of some kinds runs, within the window. */
export function coverOfKinds(part: Part, kinds: number): Cover {
  const { work } = part.rank;
  const { mask, low, high } = part;
  const [first, last] = around(work, part);
  const starts = new Float64Array(last - first);
  const ends = new Float64Array(last - first);
  let count = 0;
  for (let i = first; i < last; i += 1) {
    if (((kinds >> work.kind[i]!) & 1) === 0) continue;
    if (mask !== null && mask[work.row[i]!] === 0) continue;
    const start = Math.max(work.start[i]!, low);
    const end = Math.min(work.end[i]!, high);
    if (end <= start) continue;
    starts[count] = start;
    ends[count] = end;
    count += 1;
  }
  return Cover.of(starts.subarray(0, count), ends.subarray(0, count));
}
