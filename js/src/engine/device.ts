/** A rank's device time per state in any window, for all work or the selected work. */

import { gather, indicesWhere, sum } from "../expressions/numbers";
import type { Metric } from "../facts/panels";
import { addTo } from "../protocol/maps";
import {
  forEachInWindow,
  isSelected,
  matchedInWindow,
  memo,
  withOpenWindow,
  type RankSelection,
  type RankAnalysis,
  withoutMask,
} from "./panel_rank";
import { COMMUNICATION as COMMUNICATION_KIND, DEVICE_KIND_COUNT } from "./rank";
import { IntervalSet, overlaps, timeOutside, type IntervalUnion } from "./spans";
import { Sweep, timeInStates } from "./sweep";

/** The bits of a state. The bits for work are in the order of the kinds. */
export const [COMPUTE, COMMUNICATION, MEMORY, WAIT, UNMATCHED] = [1, 2, 4, 8, 16] as const;
export const WORK = COMPUTE | COMMUNICATION | MEMORY;

/** Intervals of the selected work, not limited to the window. */
interface DeviceSpans {
  kinds: readonly IntervalSet[];
  /** Intervals in which this rank waits for other ranks. */
  waited: IntervalSet;
  /** States composed of the kinds of work, waits for other ranks, and unmatched communication. */
  sweep: Sweep;
}

export function deviceSpansOf(selection: RankSelection): DeviceSpans {
  return memo("device", withOpenWindow(selection), (full) => {
    const { work, collectiveEntries } = full.analysis;
    const selected = indicesWhere(work.row.length, (i) => isSelected(full, work.row[i]!));
    const spansWhere = (isIncluded: (i: number) => boolean): IntervalSet => {
      const indices = selected.filter(isIncluded);
      const starts = gather(work.start, indices);
      const durs = gather(work.end, indices).map((end, k) => end - starts[k]!);
      return IntervalSet.of(starts, durs);
    };
    const kinds = Array.from({ length: DEVICE_KIND_COUNT }, (_, kind) =>
      spansWhere((i) => work.kind[i] === kind),
    );
    const { id, start, wait } = collectiveEntries;
    const waits = indicesWhere(id.length, (i) => isSelected(full, id[i]!));
    const waited = IntervalSet.of(gather(start, waits), gather(wait, waits));
    const unmatchedRows = new Set(full.analysis.unmatchedIds);
    const unmatched = spansWhere(
      (i) => unmatchedRows.has(work.row[i]!) && work.kind[i] === COMMUNICATION_KIND,
    );
    const sweep = Sweep.of([...kinds, waited, unmatched].map(({ cover }) => cover));
    return { kinds, waited, sweep };
  });
}

interface DeviceTimes {
  /** Number of selected events of each kind. */
  counts: number[];
  /** First start and last end. */
  start: number;
  end: number;
  /** Time in each state. */
  times: Float64Array;
}

export function deviceTimesOf(selection: RankSelection): DeviceTimes {
  return memo("times", selection, ({ low, high }) => {
    const { kinds, sweep } = deviceSpansOf(selection);
    const extents = kinds.map((spans) => spans.extentWithin(low, high));
    return {
      counts: kinds.map((spans) => spans.count(low, high)),
      start: Math.min(...extents.map(([start]) => start)),
      end: Math.max(...extents.map(([, end]) => end)),
      times: sweep.timesWithin(low, high),
    };
  });
}

export function workCount(selection: RankSelection): number {
  return sum(deviceTimesOf(selection).counts);
}

/**
 * Return the window, limited to the span of the selected work: only time between work can be idle.
 * Null if the window lies before or after that work.
 */
export function deviceSpan(selection: RankSelection): [start: number, end: number] | null {
  const full = withOpenWindow(selection);
  let { start, end } = deviceTimesOf(full);
  // In an export, device work of the job extends beyond the window.
  const jobSpan = selection.analysis.trace.header.work;
  if (jobSpan && (workCount(full) > 0 || selection.mask === null)) {
    [start, end] = [Math.min(start, jobSpan[0]), Math.max(end, jobSpan[1])];
  }
  [start, end] = [Math.max(start, selection.low), Math.min(end, selection.high)];
  return start < end || workCount(selection) > 0 ? [start, end] : null;
}

/** Return the gaps between recording windows: from the end to the next start of selected work. */
export function unrecordedTimes(
  selection: RankSelection,
): readonly (readonly [start: number, end: number])[] {
  const marks = selection.analysis.trace.header.marks ?? [];
  if (marks.length === 0) return [];
  return memo("unrecorded", withOpenWindow(selection), (full) => {
    const { work } = full.analysis;
    const selected = indicesWhere(work.row.length, (i) => isSelected(full, work.row[i]!));
    return marks.flatMap((mark) => {
      let [lastEnd, nextStart] = [-Infinity, Infinity];
      for (const i of selected) {
        if (work.start[i]! < mark) lastEnd = Math.max(lastEnd, work.end[i]!);
        else nextStart = Math.min(nextStart, work.start[i]!);
      }
      const hasGap = lastEnd < nextStart && Number.isFinite(nextStart - lastEnd);
      return hasGap ? [[lastEnd, nextStart] as const] : [];
    });
  });
}

/** Return how much of a window was recorded. */
export function recordedTime(selection: RankSelection, low: number, high: number): number {
  return timeOutside(unrecordedTimes(selection), low, high);
}

/** Return the times of selected communication, of all compute, and of their overlap. */
export function overlapTimes(selection: RankSelection) {
  const times =
    selection.mask === null ? deviceTimesOf(selection).times : overlapWithAllCompute(selection);
  const compute = timeInStates(times, COMPUTE);
  const communication = timeInStates(times, COMMUNICATION);
  const both = compute + communication - timeInStates(times, COMPUTE | COMMUNICATION);
  return { communication, compute, both };
}

function overlapWithAllCompute(selection: RankSelection): Float64Array {
  const sweep = memo("overlap", withOpenWindow(selection), (full) => {
    const [compute, communication] = [deviceSpansOf(withoutMask(full)), deviceSpansOf(full)];
    return Sweep.of([compute.kinds[0]!.cover, communication.kinds[1]!.cover]);
  });
  return sweep.timesWithin(selection.low, selection.high);
}

/**
 * Return the time in selected events that is not hidden by other work, selected or not: compute
 * hides communication. Null if all events are selected.
 */
export function selectedTimes(selection: RankSelection) {
  if (selection.mask === null) return null;
  // Bits of the two sets that contain all work, selected or not.
  const [allCompute, allCommunication] = [16, 32];
  const sweep = memo("selected times", withOpenWindow(selection), (full) => {
    const { kinds, waited } = deviceSpansOf(full);
    const [compute, communication] = deviceSpansOf(withoutMask(full)).kinds;
    const sets = [...kinds, waited, compute!, communication!];
    return Sweep.of(sets.map(({ cover }) => cover));
  });
  const times = sweep.timesWithin(selection.low, selection.high);
  return {
    compute: timeInStates(times, COMPUTE),
    communication: timeInStates(times, COMMUNICATION, allCompute),
    wait: timeInStates(times, WAIT, allCompute),
    memory: timeInStates(times, MEMORY, allCompute | allCommunication),
  };
}

/** Return the time spent waiting without computing; null if no communication is matched. */
export function exposedWaitTime(selection: RankSelection): number | null {
  if (selection.analysis.collectiveEntries.id.length === 0) return null;
  return timeInStates(deviceTimesOf(selection).times, WAIT, COMPUTE);
}

// A metric of each rank's device, such as busy or idle time, in bins.

/** For each metric, the states that count: those with a bit of `any` and no bit of `none`. */
const METRIC_STATES: Readonly<
  Record<Exclude<Metric, "idle">, readonly [any: number, none: number]>
> = {
  busy: [WORK, 0],
  compute: [COMPUTE, 0],
  communication: [COMMUNICATION, 0],
  exposed_communication: [COMMUNICATION, COMPUTE],
  waiting: [WAIT, 0],
};

/** Return the edges of bins, rounded down to whole ns. */
export function binEdges(start: number, end: number, bins: number): Float64Array {
  const binWidth = Math.floor((end - start) / bins);
  const remainder = end - start - binWidth * bins;
  return Float64Array.from(
    { length: bins + 1 },
    (_, k) => start + binWidth * k + Math.floor((remainder * k) / bins),
  );
}

/** Return a metric's time in each bin, rank by rank, for selections without a window. */
export function heatmapValues(
  selections: readonly RankSelection[],
  metric: Metric,
  edges: Float64Array,
  /** Returns the unrecorded work, which does not count as idle time. */
  unrecordedWork: (analysis: RankAnalysis) => IntervalUnion,
): Float64Array {
  const bins = edges.length - 1;
  const out = new Float64Array(selections.length * bins);
  selections.forEach((selection, index) => {
    const { sweep } = deviceSpansOf(selection);
    const before = edges.map(
      metric === "idle"
        ? idleTimeBefore(selection, unrecordedWork(selection.analysis))
        : (edge) => timeInStates(sweep.timesBefore(edge), ...METRIC_STATES[metric]),
    );
    for (let bin = 0; bin < bins; bin += 1)
      out[index * bins + bin] = before[bin + 1]! - before[bin]!;
  });
  return out;
}

function idleTimeBefore(selection: RankSelection, unrecorded: IntervalUnion) {
  const { sweep } = deviceSpansOf(selection);
  const [first, last] = deviceSpan(selection) ?? [0, 0];
  return (instant: number): number => {
    const time = Math.min(Math.max(instant, first), last);
    const busy = timeInStates(sweep.timesBefore(time), WORK);
    return recordedTime(selection, first, time) - busy - unrecorded.coveredWithin(first, time);
  };
}

/** Return count, total, shortest and longest time of selected work, by index into `kernels`. */
export function kernelSums(selection: RankSelection) {
  return memo("kernels", selection, ({ analysis }) => {
    const { work, kernels } = analysis;
    const count = new Float64Array(kernels.length);
    const total = new Float64Array(kernels.length);
    const min = new Float64Array(kernels.length).fill(Infinity);
    const max = new Float64Array(kernels.length);
    forEachInWindow(work, selection, (index, start, end) => {
      if (!isSelected(selection, work.row[index]!)) return;
      const [kernel, time] = [work.kernel[index]!, end - start];
      count[kernel]! += 1;
      total[kernel]! += time;
      if (time < min[kernel]!) min[kernel] = time;
      if (time > max[kernel]!) max[kernel] = time;
    });
    return { count, total, min, max };
  });
}

/** Return how long the rank waits in communication, keyed by position in the job's names. */
export function waitsByName(selection: RankSelection): Map<number, number> {
  return memo("waits by name", selection, ({ analysis, low, high }) => {
    const { id, start, wait } = analysis.collectiveEntries;
    const times = new Map<number, number>();
    for (const i of matchedInWindow(selection)) {
      const from = start[i]!;
      const time = Math.min(Math.max(from + wait[i]!, low), high) - Math.max(from, low);
      const [name] = analysis.trace.typeOf(analysis.trace.events, id[i]!);
      addTo(times, name, time);
    }
    return times;
  });
}

/** Return a note on the share of work launched before recording, worded as in Python. */
export function prelaunchedNote(selections: readonly RankSelection[]): string {
  const early = selections.map(prelaunchedWork);
  const count = sum(early.map(([events]) => events));
  if (count === 0) return "";
  const earlyTime = sum(early.map(([, time]) => time));
  const allTime = sum(selections.map((selection) => sum(kernelSums(selection).total)));
  const share = Math.floor((100 * earlyTime) / Math.max(allTime, 1) + 0.5);
  const period = selections.some(({ analysis }) => analysis.trace.header.work)
    ? "the exported window"
    : "recording";
  return (
    `${count} of the device events, ${share} % of their time, were launched before ${period}` +
    ' began; the query "prelaunched == False" leaves them out'
  );
}

function prelaunchedWork(selection: RankSelection): [count: number, time: number] {
  const { analysis, low, high } = selection;
  if (low === high) return [0, 0];
  const { row, start, end } = analysis.work;
  const rows = memo("prelaunched", analysis.fullSelection, () => {
    const isPrelaunched = analysis.trace.prelaunchedMask();
    return indicesWhere(row.length, (i) => isPrelaunched[row[i]!] === 1);
  });
  let [count, time] = [0, 0];
  for (const i of rows) {
    if (start[i]! >= high) break;
    if (!isSelected(selection, row[i]!) || !overlaps(start[i]!, end[i]!, low)) continue;
    count += 1;
    time += Math.min(end[i]!, high) - Math.max(start[i]!, low);
  }
  return [count, time];
}
