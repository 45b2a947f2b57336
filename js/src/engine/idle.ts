/** Causes of a device's idle gaps. */

import { CAUSES } from "../facts/panels";
import { countBelow, countUpTo } from "./columns";
import { deviceTimes, spanOf } from "./device";
import { isChosen, ofAllTimes, type PanelRank, type Part } from "./panel_rank";
import type { Sweep } from "./sweep";

const NOTHING = CAUSES.indexOf("host_nothing");
const CALL = CAUSES.indexOf("launch_call");
const LATENCY = CAUSES.indexOf("launch_latency");
const KERNEL = CAUSES.indexOf("kernel_wait");
const STREAM = CAUSES.indexOf("stream_wait");
const BLOCKED = CAUSES.indexOf("blocked");
const UNKNOWN = CAUSES.indexOf("unknown");

/** A gap shorter than this is the device's own latency between two kernels. */
const SHORT_NS = 30_000;

/** Gaps from one stored sum to the next. */
const STRIDE = 16;

/** Time by cause, followed by the number of gaps that have any of it. */
type Sums = Float64Array;

function noSums(): Sums {
  return new Float64Array(2 * CAUSES.length);
}

function put(to: Sums, cause: number, time: number): void {
  if (!(time > 0)) return;
  to[cause] = to[cause]! + time;
  to[CAUSES.length + cause] = to[CAUSES.length + cause]! + 1;
}

export function idle(part: Part): { time: Float64Array; gaps: Float64Array } {
  return part.rank.once("idle", part, (one) => {
    const sums = gapsOf(one).within(one);
    addBeyond(one, sums);
    return { time: sums.subarray(0, CAUSES.length), gaps: sums.subarray(CAUSES.length) };
  });
}

export function gapsOf(part: Part): Gaps {
  return part.rank.once("gaps", ofAllTimes(part), (all) => new Gaps(all));
}

/**
 * Exports only: add the idle time before the first and after the last work in the file. It is
 * bounded by work outside the file.
 */
function addBeyond(part: Part, sums: Sums): void {
  const [low, high] = spanOf(part) ?? [0, 0];
  const { start, end } = deviceTimes(ofAllTimes(part));
  const first = Math.min(start, high);
  put(sums, UNKNOWN, first - low);
  put(sums, UNKNOWN, high - Math.max(end, low, first));
}

/** All gaps between chosen work of a rank, with running totals: a window needs few look-ups. */
class Gaps {
  private readonly start: Float64Array;
  private readonly end: Float64Array;
  /** The work that ends each gap. */
  private readonly next: Int32Array;
  /** Sums of all gaps before every `STRIDE`th one. */
  private readonly stored: Float64Array;
  private readonly rank: PanelRank;

  /** Build the gaps of a part whose window is open. */
  constructor(part: Part) {
    this.rank = part.rank;
    // Max number of gaps: each ends with a different piece of work, or at the last end.
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
    const soFar = noSums();
    this.stored = new Float64Array((Math.floor(gaps / STRIDE) + 1) * soFar.length);
    for (let gap = 0; gap <= gaps; gap += 1) {
      if (gap % STRIDE === 0) this.stored.set(soFar, (gap / STRIDE) * soFar.length);
      if (gap < gaps) this.split(gap, this.start[gap]!, this.end[gap]!, soFar);
    }
  }

  /** The gap at an instant, and the place of the work that ends it; null if there is none. */
  at(time: number): { start: number; end: number; next: number } | null {
    const gap = countUpTo(this.end, time);
    const start = this.start[gap];
    if (start === undefined || start > time) return null;
    return { start, end: this.end[gap]!, next: this.next[gap]! };
  }

  /** Gaps in a window. Causes are derived from the whole gap, even if the window cuts it. */
  within({ low, high }: Part): Sums {
    const found = noSums();
    const first = countUpTo(this.end, low);
    const last = countBelow(this.start, high) - 1;
    if (!(high > low) || last < first) return found;
    const cut = [first, last].filter((gap) => this.start[gap]! < low || this.end[gap]! > high);
    for (const gap of new Set(cut)) {
      this.split(gap, Math.max(this.start[gap]!, low), Math.min(this.end[gap]!, high), found);
    }
    const from = first + (cut.includes(first) ? 1 : 0);
    const to = last + (cut.includes(last) ? 0 : 1);
    if (to <= from) return found;
    const [until, since] = [this.before(to), this.before(from)];
    return found.map((sum, k) => sum + until[k]! - since[k]!);
  }

  /** Sums of all gaps before one. */
  private before(gap: number): Sums {
    const block = Math.floor(gap / STRIDE);
    const size = 2 * CAUSES.length;
    const sums = this.stored.slice(block * size, (block + 1) * size);
    for (let at = block * STRIDE; at < gap; at += 1) {
      this.split(at, this.start[at]!, this.end[at]!, sums);
    }
    return sums;
  }

  /** The activity of the thread of a call. */
  private doingOf(call: number): Sweep {
    const { rank } = this.rank;
    return rank.activities().get(rank.trackAt(rank.events.lane[call]!)!)!;
  }

  /** Add the part between two instants of a gap. */
  private split(gap: number, start: number, end: number, to: Sums): void {
    const { call, callStart, callEnd } = this.rank.work;
    const next = this.next[gap]!;
    if (call[next]! < 0) {
      put(to, UNKNOWN, end - start);
      return;
    }
    const began = clamped(callStart[next]!, start, end);
    const returned = callEnd[next]!;
    const left = clamped(returned, began, end);
    if (began > start) {
      // The first causes are the activities of a thread before it launches.
      const spent = this.doingOf(call[next]!).within(start, began);
      spent.subarray(1).forEach((time, activity) => put(to, activity, time));
      put(to, NOTHING, began - start - spent.reduce((sum, time) => sum + time, 0));
    }
    put(to, CALL, left - began);
    if (returned > this.start[gap]!) put(to, LATENCY, end - left);
    else if (this.end[gap]! - this.start[gap]! < SHORT_NS) put(to, KERNEL, end - start);
    else put(to, this.rank.rank.behindWaits()[call[next]!] === 1 ? STREAM : BLOCKED, end - start);
  }
}

/** Call `visit` with each gap between chosen work: start, end and the work that ends it. */
function walk(part: Part, visit: (start: number, end: number, next: number) => void): void {
  const { rank } = part;
  const { work } = rank;
  const member = (i: number): boolean => isChosen(part, work.row[i]!);
  let reached = -Infinity;
  let latest = -Infinity;
  for (let i = 0; i < work.row.length; i += 1) {
    if (!member(i)) continue;
    const [start, end] = [work.start[i]!, work.end[i]!];
    if (end > latest) latest = end;
    if (reached === -Infinity) reached = start;
    // An interval without length covers nothing.
    if (end <= start) continue;
    if (start > reached) visit(reached, start, earliestCalled(rank, i, member));
    if (end > reached) reached = end;
  }
  if (latest > reached) {
    // The last event has no length: the gap before it ends there.
    let at = work.row.length - 1;
    while (at > 0 && (!member(at) || work.start[at]! > latest)) at -= 1;
    visit(reached, latest, earliestCalled(rank, at, member));
  }
}

/** Among work that starts at the same time, return the work that was launched first. */
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

/** Clip as numpy does: the upper edge wins. */
function clamped(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
