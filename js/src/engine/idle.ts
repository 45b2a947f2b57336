/** The causes of idle gaps of a device. */

import { sum } from "../expressions/numbers";
import { CAUSES } from "../facts/panels";
import { countBelow, countUpTo } from "./columns";
import { deviceTimesOf, deviceSpan, unrecordedTimes } from "./device";
import {
  isSelected,
  memo,
  withOpenWindow,
  type RankAnalysis,
  type RankSelection,
} from "./panel_rank";
import { IntervalUnion } from "./spans";
import type { Sweep } from "./sweep";

const HOST_NOTHING = CAUSES.indexOf("host_nothing");
const LAUNCH_CALL = CAUSES.indexOf("launch_call");
const LAUNCH_LATENCY = CAUSES.indexOf("launch_latency");
const KERNEL_WAIT = CAUSES.indexOf("kernel_wait");
const STREAM_WAIT = CAUSES.indexOf("stream_wait");
const BLOCKED = CAUSES.indexOf("blocked");
const UNRECORDED = CAUSES.indexOf("unrecorded");
const UNKNOWN = CAUSES.indexOf("unknown");
/** Activity code of a thread that waits for the device. */
const WAITS = CAUSES.indexOf("sync_wait") + 1;
/** Activity code of a thread that waits for work that is not in the file. */
const UNRECORDED_WAIT = HOST_NOTHING + 1;

/** Shortest gap that counts as a wait. Shorter gaps are launch latency. */
const SHORT_NS = 30_000;
/** Longest plausible wait for an idle device. Longer waits are for work that is not in the file. */
const LONG_NS = 1_000_000;

/** Running totals are stored once per this many gaps. */
const STRIDE = 16;

/** Time per cause, then the number of gaps per cause. */
type CauseSums = Float64Array;

function emptySums(): CauseSums {
  return new Float64Array(2 * CAUSES.length);
}

function addTime(sums: CauseSums, cause: number, time: number): void {
  if (!(time > 0)) return;
  sums[cause]! += time;
  sums[CAUSES.length + cause]! += 1;
}

export function idleByCause(selection: RankSelection): { time: Float64Array; gaps: Float64Array } {
  return memo("idle", selection, (windowed) => {
    const sums = gapIndexOf(windowed).sumsWithin(windowed);
    addEdgeGaps(windowed, sums);
    return { time: sums.subarray(0, CAUSES.length), gaps: sums.subarray(CAUSES.length) };
  });
}

export function gapIndexOf(selection: RankSelection): GapIndex {
  return memo("gaps", withOpenWindow(selection), (full) => new GapIndex(full));
}

/** In exports, add the idle time between the work in the file and work outside it. */
function addEdgeGaps(selection: RankSelection, sums: CauseSums): void {
  const span = deviceSpan(selection);
  if (span === null) return;
  const [low, high] = span;
  const work = deviceTimesOf(withOpenWindow(selection));
  // If no work starts before `high`, the whole span precedes the first work.
  const workStart = Math.min(work.start, high);
  addTime(sums, UNKNOWN, workStart - low);
  addTime(sums, UNKNOWN, high - Math.max(work.end, workStart, low));
}

/** The gaps between a rank's selected work, with running totals that make window queries fast. */
class GapIndex {
  private readonly start: Float64Array;
  private readonly end: Float64Array;
  /** The work that ends each gap. */
  private readonly next: Int32Array;
  /** Totals of all gaps before every `STRIDE`-th gap. */
  private readonly prefixSums: Float64Array;
  private readonly analysis: RankAnalysis;
  /** Start of the first work launched by each call. */
  private readonly firstStarts = new Map<number, number>();

  /** Find the gaps between the work in `selection`, ignoring its window. */
  constructor(selection: RankSelection) {
    this.analysis = selection.analysis;
    const { call, start: workStart } = selection.analysis.work;
    // Backwards, so that each call keeps its first start.
    for (let i = workStart.length - 1; i >= 0; i -= 1) {
      this.firstStarts.set(call[i]!, workStart[i]!);
    }
    const unrecorded = new Set(unrecordedTimes(selection).map(([start]) => start));
    const starts: number[] = [];
    const ends: number[] = [];
    const next: number[] = [];
    forEachGap(selection, (start, end, work) => {
      if (unrecorded.has(start)) return;
      starts.push(start);
      ends.push(end);
      next.push(work);
    });
    this.start = new Float64Array(starts);
    this.end = new Float64Array(ends);
    this.next = new Int32Array(next);
    const soFar = emptySums();
    const gaps = this.start.length;
    this.prefixSums = new Float64Array((Math.floor(gaps / STRIDE) + 1) * soFar.length);
    for (let gap = 0; gap <= gaps; gap += 1) {
      if (gap % STRIDE === 0) this.prefixSums.set(soFar, (gap / STRIDE) * soFar.length);
      if (gap < gaps) this.addGapPart(gap, this.start[gap]!, this.end[gap]!, soFar);
    }
  }

  /** Return the gap at an instant and the index of the work that ends it; null if there is none. */
  find(time: number): { start: number; end: number; next: number } | null {
    const gap = countUpTo(this.end, time);
    const start = this.start[gap];
    if (start === undefined || start > time) return null;
    return { start, end: this.end[gap]!, next: this.next[gap]! };
  }

  /** Return the totals of a window. Cutting a gap at the window does not affect the gap's cause. */
  sumsWithin({ low, high }: RankSelection): CauseSums {
    const sums = emptySums();
    const first = countUpTo(this.end, low);
    const last = countBelow(this.start, high) - 1;
    if (!(high > low) || last < first) return sums;
    const cut = [first, last].filter((gap) => this.start[gap]! < low || this.end[gap]! > high);
    for (const gap of new Set(cut)) {
      this.addGapPart(gap, Math.max(this.start[gap]!, low), Math.min(this.end[gap]!, high), sums);
    }
    const from = first + (cut.includes(first) ? 1 : 0);
    const to = last + (cut.includes(last) ? 0 : 1);
    if (to <= from) return sums;
    const [sumsToEnd, sumsToStart] = [this.sumsBefore(to), this.sumsBefore(from)];
    return sums.map((sum, k) => sum + sumsToEnd[k]! - sumsToStart[k]!);
  }

  /** Return the parts of gaps in which the device probably ran work that is not in the file. */
  unrecordedWork(): IntervalUnion {
    const { call, callEnd } = this.analysis.work;
    const starts: number[] = [];
    const ends: number[] = [];
    const addPiece = (start: number, end: number): void => {
      starts.push(start);
      ends.push(end);
    };
    this.next.forEach((next, gap) => {
      if (call[next]! < 0) return;
      const [start, end, returned] = [this.start[gap]!, this.end[gap]!, callEnd[next]!];
      const waitStart = Math.max(returned, start);
      const activity = this.threadActivity(call[next]!);
      activity.forEachPiece(UNRECORDED_WAIT, start, Math.min(waitStart, end), addPiece);
      if (this.waitCause(gap, call[next]!, returned) === UNRECORDED) addPiece(waitStart, end);
    });
    return IntervalUnion.of(new Float64Array(starts), new Float64Array(ends));
  }

  private sumsBefore(gap: number): CauseSums {
    const block = Math.floor(gap / STRIDE);
    const size = 2 * CAUSES.length;
    const sums = this.prefixSums.slice(block * size, (block + 1) * size);
    for (let other = block * STRIDE; other < gap; other += 1) {
      this.addGapPart(other, this.start[other]!, this.end[other]!, sums);
    }
    return sums;
  }

  private threadActivity(call: number): Sweep {
    const { trace } = this.analysis;
    return trace.activities().get(trace.trackAt(trace.events.lane[call]!)!)!;
  }

  private addGapPart(gap: number, start: number, end: number, sums: CauseSums): void {
    const { work } = this.analysis;
    const next = this.next[gap]!;
    const call = work.call[next]!;
    if (call < 0) {
      addTime(sums, UNKNOWN, end - start);
      return;
    }
    const [called, returned] = [work.callStart[next]!, work.callEnd[next]!];
    // Divide the part into the time before, during and after the launch call.
    const callFrom = clamp(called, start, end);
    const callTo = clamp(returned, callFrom, end);
    let unrecorded = 0;
    if (callFrom > start) {
      // The first causes are the thread's activities before the launch.
      const spent = this.threadActivity(call).timesWithin(start, callFrom);
      spent.subarray(1, UNRECORDED_WAIT).forEach((time, cause) => addTime(sums, cause, time));
      addTime(sums, HOST_NOTHING, callFrom - start - sum(spent));
      unrecorded = spent[UNRECORDED_WAIT] ?? 0;
    }
    let inCall = callTo - callFrom;
    if (inCall > 0 && returned - called > LONG_NS) {
      const spent = this.threadActivity(call).timesWithin(callFrom, callTo);
      const waited = spent[UNRECORDED_WAIT] ?? 0;
      inCall -= waited;
      unrecorded += waited;
    }
    addTime(sums, LAUNCH_CALL, inCall);
    const cause = this.waitCause(gap, call, returned);
    if (cause === UNRECORDED) unrecorded += end - callTo;
    else addTime(sums, cause, end - callTo);
    // Added as one sum, so the gap is counted once.
    addTime(sums, UNRECORDED, unrecorded);
  }

  /** Return the cause of the time between the end of the launch call and the end of the gap. */
  private waitCause(gap: number, call: number, returned: number): number {
    const [start, end] = [this.start[gap]!, this.end[gap]!];
    const waitStart = Math.max(returned, start);
    const isLong = end - waitStart >= SHORT_NS;
    if (isLong && this.firstStarts.get(call)! < start) return UNRECORDED;
    if (this.isHostBlocked(call, waitStart, end)) return UNRECORDED;
    if (isLong && this.analysis.trace.behindWaits()[call] === 1) return STREAM_WAIT;
    if (returned > start) return LAUNCH_LATENCY;
    return isLong ? BLOCKED : KERNEL_WAIT;
  }

  /** Return whether the host waited for the device during most of a long wait. */
  private isHostBlocked(call: number, begin: number, end: number): boolean {
    if (end - begin <= LONG_NS) return false;
    const spent = this.threadActivity(call).timesWithin(begin, end);
    return 2 * ((spent[WAITS] ?? 0) + (spent[UNRECORDED_WAIT] ?? 0)) > end - begin;
  }
}

/** Return the times in which the device probably ran work that is not in the file. */
export function unrecordedWork({ fullSelection }: RankAnalysis): IntervalUnion {
  return memo("unrecorded work", fullSelection, (full) => gapIndexOf(full).unrecordedWork());
}

/** Call `visit` with each gap between selected work: start, end and the work that ends it. */
function forEachGap(
  selection: RankSelection,
  visit: (start: number, end: number, next: number) => void,
): void {
  const { analysis } = selection;
  const { work } = analysis;
  const isMember = (i: number): boolean => isSelected(selection, work.row[i]!);
  let reached = -Infinity;
  let latest = -Infinity;
  for (let i = 0; i < work.row.length; i += 1) {
    if (!isMember(i)) continue;
    const [start, end] = [work.start[i]!, work.end[i]!];
    if (end > latest) latest = end;
    if (reached === -Infinity) reached = start;
    // An interval of zero length covers nothing.
    if (end <= start) continue;
    if (start > reached) visit(reached, start, earliestLaunched(analysis, i, isMember));
    if (end > reached) reached = end;
  }
  if (latest > reached) {
    // The last event has zero length; the gap before it ends there.
    let position = work.row.length - 1;
    while (position > 0 && (!isMember(position) || work.start[position]! > latest)) position -= 1;
    visit(reached, latest, earliestLaunched(analysis, position, isMember));
  }
}

/** Of the work that starts together with the work at `position`, return the work launched first. */
function earliestLaunched(
  analysis: RankAnalysis,
  position: number,
  isMember: (i: number) => boolean,
): number {
  const { start, callStart } = analysis.work;
  const time = start[position]!;
  let best = position;
  for (let i = position - 1; i >= 0 && start[i] === time; i -= 1) {
    if (callStart[i]! <= callStart[best]! && isMember(i)) best = i;
  }
  for (let i = position + 1; i < start.length && start[i] === time; i += 1) {
    if (callStart[i]! < callStart[best]! && isMember(i)) best = i;
  }
  return best;
}

/** Clip as NumPy does: the result is `high` if `low` is above `high`. */
function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
