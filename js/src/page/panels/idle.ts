/** Why a rank's device as a whole waits: the gaps in which none of its streams works, by cause. */

import { countBelow, countUpTo } from "../sorted";
import { Cover } from "../spans";
import { ofAllTimes, type Part } from "./part";
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
  const { rank } = part;
  const gaps =
    part.mask === null ? rank.gaps : rank.once("gaps", ofAllTimes(part), (all) => new Gaps(all));
  return rank.once("idle", part, (one) => gaps.within(one));
}

/** All gaps between chosen work of a rank, added up once: any window is a few look-ups. */
export class Gaps {
  private readonly start: Float64Array;
  private readonly end: Float64Array;
  /** The work that ends each gap. */
  private readonly next: Int32Array;
  /** By gap and category: what all gaps before it hold. */
  private readonly time: Float64Array;
  private readonly count: Int32Array;
  private readonly waits: HostWaits;
  private readonly rank: PanelRank;

  /** Of a part of all times. */
  constructor(part: Part) {
    this.rank = part.rank;
    this.waits = hostWaits(part.rank);
    const size = CATEGORIES.length;
    // Each gap ends with the start of other work.
    const most = part.rank.work.row.length + 1;
    const [starts, ends] = [new Float64Array(most), new Float64Array(most)];
    const next = new Int32Array(most);
    let gaps = 0;
    walk(part, (start, end, work) => {
      starts[gaps] = start;
      ends[gaps] = end;
      next[gaps] = work;
      gaps += 1;
    });
    this.start = starts.slice(0, gaps);
    this.end = ends.slice(0, gaps);
    this.next = next.slice(0, gaps);
    this.time = new Float64Array((gaps + 1) * size);
    this.count = new Int32Array((gaps + 1) * size);
    const soFar: Idle = { time: new Float64Array(size), gaps: new Int32Array(size) };
    for (let gap = 0; gap < gaps; gap += 1) {
      this.split(gap, this.start[gap]!, this.end[gap]!, soFar);
      this.time.set(soFar.time, (gap + 1) * size);
      this.count.set(soFar.gaps, (gap + 1) * size);
    }
  }

  /** What each part of a gap is for is told by the whole gap, also where the window cuts it. */
  within({ low, high }: Part): Idle {
    const size = CATEGORIES.length;
    const found: Idle = { time: new Float64Array(size), gaps: new Int32Array(size) };
    const first = countUpTo(this.end, low);
    const last = countBelow(this.start, high) - 1;
    if (!(high > low) || last < first) return found;
    const cut = [first, last].filter((gap) => this.start[gap]! < low || this.end[gap]! > high);
    for (const gap of new Set(cut)) {
      this.split(gap, Math.max(this.start[gap]!, low), Math.min(this.end[gap]!, high), found);
    }
    const from = first + (cut.includes(first) ? 1 : 0);
    const to = last + (cut.includes(last) ? 0 : 1);
    for (let k = 0; k < size && to > from; k += 1) {
      found.time[k] = found.time[k]! + this.time[to * size + k]! - this.time[from * size + k]!;
      found.gaps[k] = found.gaps[k]! + this.count[to * size + k]! - this.count[from * size + k]!;
    }
    return found;
  }

  /** Add what lies between two instants of a gap. */
  private split(gap: number, start: number, end: number, to: Idle): void {
    const { call, callStart, callEnd } = this.rank.work;
    const next = this.next[gap]!;
    const put = (category: number, time: number): void => {
      if (!(time > 0)) return;
      to.time[category] = to.time[category]! + time;
      to.gaps[category] = to.gaps[category]! + 1;
    };
    if (call[next]! < 0) {
      put(UNKNOWN, end - start);
      return;
    }
    const began = clamped(callStart[next]!, start, end);
    const returned = callEnd[next]!;
    const left = clamped(returned, began, end);
    const waited = began > start ? this.waits.between(call[next]!, start, began) : 0;
    put(SYNC, waited);
    put(HOST, began - start - waited);
    put(CALL, left - began);
    const isShort = this.end[gap]! - this.start[gap]! < SHORT_NS;
    if (returned > this.start[gap]!) put(LATENCY, end - left);
    else put(isShort ? KERNEL : BLOCKED, end - start);
  }
}

/** Look at all gaps between chosen work one after the other: start, end and the work that ends it. */
function walk(
  { rank, mask }: Part,
  heard: (start: number, end: number, next: number) => void,
): void {
  const { work } = rank;
  const member = (i: number): boolean => mask === null || mask[work.row[i]!] === 1;
  let reached = -Infinity;
  let latest = -Infinity;
  for (let i = 0; i < work.row.length; i += 1) {
    if (!member(i)) continue;
    const [start, end] = [work.start[i]!, work.end[i]!];
    if (end > latest) latest = end;
    if (reached === -Infinity) reached = start;
    // What has no length covers nothing.
    if (end <= start) continue;
    if (start > reached) heard(reached, start, earliestCalled(rank, i, member));
    if (end > reached) reached = end;
  }
  if (latest > reached) {
    // Only events without length end later than all others.
    let at = work.row.length - 1;
    while (at > 0 && (!member(at) || work.start[at]! > latest)) at -= 1;
    heard(reached, latest, earliestCalled(rank, at, member));
  }
}

/** Of the work that starts together with one, that which was launched first. */
function earliestCalled(rank: PanelRank, at: number, member: (i: number) => boolean): number {
  const { start, callStart } = rank.work;
  const time = start[at]!;
  let best = at;
  for (let i = at - 1; i >= 0 && start[i] === time; i -= 1) {
    if (callStart[i]! <= callStart[best]! && member(i)) best = i;
  }
  for (let i = at + 1; i < start.length && start[i] === time; i += 1) {
    if (callStart[i]! < callStart[best]! && member(i)) best = i;
  }
  return best;
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
