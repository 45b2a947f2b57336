/** Why a rank's device as a whole waits: the gaps in which none of its streams works, by cause. */

import { countBelow, countUpTo } from "../sorted";
import { Cover } from "../spans";
import { busyTimes } from "./busy_times";
import { around, overlaps, type Part } from "./part";
import type { PanelRank } from "./panel_rank";

/** In the order in which they follow each other within a gap. */
export const CATEGORIES = [
  "sync_wait",
  "host_wait",
  "launch_call",
  "launch_latency",
  "kernel_wait",
  "blocked",
  "unknown",
] as const;
const [SYNC, HOST, CALL, LATENCY, KERNEL, BLOCKED, UNKNOWN] = [0, 1, 2, 3, 4, 5, 6];

/** What a device takes from one kernel to the next is shorter. */
const SHORT_NS = 30_000;

/** Calls in which a host thread waits for its device. */
const WAITS = /synchroni[sz]e|^(cuda|cu|hip|musa)Memcpy(?!.*Async)/i;
const CALL_CATEGORY = /^(?:(.+_)?(runtime|driver))$/i;

export interface Idle {
  /** By category: time, and gaps that have any of it. */
  time: Float64Array;
  gaps: Int32Array;
}

export function idle(part: Part): Idle {
  return part.rank.once(
    "idle",
    part,
    () => (part.mask === null ? part.rank.gaps.within(part) : null) ?? walk(part),
  );
}

/** All gaps of a rank, added up once: any window is a few look-ups. */
export class Gaps {
  private readonly start: Float64Array;
  private readonly end: Float64Array;
  /** By gap and category: what all gaps before it hold. */
  private readonly time: Float64Array;
  private readonly count: Int32Array;

  constructor(rank: PanelRank) {
    const size = CATEGORIES.length;
    // Each gap ends with the start of other work.
    const most = rank.work.row.length + 1;
    const [starts, ends] = [new Float64Array(most), new Float64Array(most)];
    const times = new Float64Array((most + 1) * size);
    const counts = new Int32Array((most + 1) * size);
    let gaps = 0;
    walk({ rank, mask: null, low: -Infinity, high: Infinity, key: "" }, (start, end, so) => {
      starts[gaps] = start;
      ends[gaps] = end;
      gaps += 1;
      times.set(so.time, gaps * size);
      counts.set(so.gaps, gaps * size);
    });
    this.start = starts.slice(0, gaps);
    this.end = ends.slice(0, gaps);
    this.time = times.slice(0, (gaps + 1) * size);
    this.count = counts.slice(0, (gaps + 1) * size);
  }

  /** Null where an event without length cuts a gap, which is then another one. */
  within(part: Part): Idle | null {
    const { start, end } = busyTimes(part);
    const size = CATEGORIES.length;
    const first = countBelow(this.start, start);
    const last = countUpTo(this.end, end);
    const cut =
      (first > 0 && this.end[first - 1]! > start) ||
      (last < this.start.length && this.start[last]! < end);
    if (cut) return null;
    const time = new Float64Array(size);
    const gaps = new Int32Array(size);
    if (last <= first) return { time, gaps };
    for (let k = 0; k < size; k += 1) {
      time[k] = this.time[last * size + k]! - this.time[first * size + k]!;
      gaps[k] = this.count[last * size + k]! - this.count[first * size + k]!;
    }
    return { time, gaps };
  }
}

type Heard = (start: number, end: number, soFar: Idle) => void;

/** Look at all gaps one after the other. */
function walk(part: Part, heard: Heard = () => {}): Idle {
  const { work } = part.rank;
  const { mask, low, high } = part;
  const [first, last] = around(work, part);
  const adder = new Adder(part.rank, heard);
  const member = (i: number): boolean =>
    (mask === null || mask[work.row[i]!] === 1) && overlaps(work.start[i]!, work.end[i]!, low);
  let reached = -Infinity;
  let latest = -Infinity;
  for (let i = first; i < last; i += 1) {
    if (!member(i)) continue;
    let [start, end] = [work.start[i]!, work.end[i]!];
    if (start < low) start = low;
    if (end > high) end = high;
    if (end > latest) latest = end;
    if (reached === -Infinity) reached = start;
    // What has no length covers nothing.
    if (end <= start) continue;
    if (start > reached) adder.add(reached, start, earliestCalled(part, i, last, member));
    if (end > reached) reached = end;
  }
  if (latest > reached) {
    // Only events without length end later than all others.
    let at = last - 1;
    while (at > first && (!member(at) || work.start[at]! > latest)) at -= 1;
    adder.add(reached, latest, earliestCalled(part, at, last, member));
  }
  return { time: adder.time, gaps: adder.gaps };
}

/** Of the work that starts together with one, that which was launched first. */
function earliestCalled(
  { rank }: Part,
  at: number,
  last: number,
  member: (i: number) => boolean,
): number {
  const { start, callStart } = rank.work;
  const time = start[at]!;
  let best = at;
  for (let i = at - 1; i >= 0 && start[i] === time; i -= 1) {
    if (callStart[i]! <= callStart[best]! && member(i)) best = i;
  }
  for (let i = at + 1; i < last && start[i] === time; i += 1) {
    if (callStart[i]! < callStart[best]! && member(i)) best = i;
  }
  return best;
}

/** Splits gaps by what ended them. */
class Adder {
  readonly time = new Float64Array(CATEGORIES.length);
  readonly gaps = new Int32Array(CATEGORIES.length);
  private readonly waits: HostWaits;

  constructor(
    private readonly rank: PanelRank,
    private readonly heard: Heard,
  ) {
    this.waits = hostWaits(rank);
  }

  add(start: number, end: number, next: number): void {
    this.split(start, end, next);
    this.heard(start, end, this);
  }

  private split(start: number, end: number, next: number): void {
    const { call, callStart, callEnd } = this.rank.work;
    if (call[next]! < 0) {
      this.put(UNKNOWN, end - start);
      return;
    }
    const began = clamped(callStart[next]!, start, end);
    const returned = callEnd[next]!;
    const left = clamped(returned, began, end);
    const waited = began > start ? this.waits.between(call[next]!, start, began) : 0;
    this.put(SYNC, waited);
    this.put(HOST, began - start - waited);
    this.put(CALL, left - began);
    if (returned > start) this.put(LATENCY, end - left);
    else this.put(end - start < SHORT_NS ? KERNEL : BLOCKED, end - start);
  }

  private put(category: number, time: number): void {
    if (time === 0) return;
    this.time[category] = this.time[category]! + time;
    if (time > 0) this.gaps[category] = this.gaps[category]! + 1;
  }
}

/** When host threads wait for the device. */
class HostWaits {
  private readonly covers = new Map<string, Cover>();

  constructor(private readonly rank: PanelRank) {
    const { rank: own, names } = rank;
    const { type, start, dur, lane } = own.events;
    const waits = Uint8Array.from(own.header.types, ([name, category]) =>
      CALL_CATEGORY.test(names.category(category)) && WAITS.test(names.full(name)) ? 1 : 0,
    );
    const threads = new Map<string, number[]>();
    for (let row = 0; row < type.length; row += 1) {
      if (waits[type[row]!] === 0 || !(dur[row]! > 0)) continue;
      const key = own.trackAt(lane[row]!)?.key ?? "";
      const known = threads.get(key);
      if (known === undefined) threads.set(key, [row]);
      else known.push(row);
    }
    for (const [key, rows] of threads) {
      const starts = Float64Array.from(rows, (row) => start[row]!);
      const ends = Float64Array.from(rows, (row) => start[row]! + dur[row]!);
      this.covers.set(key, Cover.of(starts, ends));
    }
  }

  /** How long the thread of a call waits between two instants. */
  between(call: number, start: number, end: number): number {
    if (this.covers.size === 0) return 0;
    const { rank } = this.rank;
    const cover = this.covers.get(rank.trackAt(rank.events.lane[call]!)?.key ?? "");
    return cover === undefined ? 0 : cover.within(start, end);
  }
}

const KNOWN = new WeakMap<PanelRank, HostWaits>();

function hostWaits(rank: PanelRank): HostWaits {
  let found = KNOWN.get(rank);
  if (found === undefined) {
    found = new HostWaits(rank);
    KNOWN.set(rank, found);
  }
  return found;
}

/** As numpy clips: the upper edge wins. */
function clamped(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
