/** Device time of a rank by state, for all its work or chosen work, in any window. */

import type { Metric } from "../facts/panels";
import { picked, positions } from "./columns";
import {
  around,
  BUSY,
  COMMUNICATION as COMMUNICATION_KIND,
  isChosen,
  matchedIn,
  ofAllTimes,
  overlaps,
  type Part,
  type PanelRank,
  unmasked,
} from "./panel_rank";
import { Spans } from "./spans";
import { Sweep, timeOf } from "./sweep";

/** Bits of a state; bits of work are in the order of its kinds. */
export const [COMPUTE, COMMUNICATION, MEMORY, WAIT, UNMATCHED] = [1, 2, 4, 8, 16] as const;
export const WORK = COMPUTE | COMMUNICATION | MEMORY;

/** Chosen work, regardless of the window. */
interface Device {
  kinds: readonly Spans[];
  /** Time by kind of work, of waits for other ranks, and of unmatched communication. */
  sweep: Sweep;
}

export function deviceOf(part: Part): Device {
  return part.rank.once("device", ofAllTimes(part), (all) => {
    const { work, matched } = all.rank;
    const chosen = positions(work.row.length, (i) => isChosen(all, work.row[i]!));
    const kinds = Array.from({ length: BUSY }, (_, kind) =>
      spansAt(
        work,
        chosen.filter((i) => work.kind[i] === kind),
      ),
    );
    const waits = positions(matched.id.length, (i) => isChosen(all, matched.id[i]!));
    const waited = Spans.of(picked(matched.start, waits), picked(matched.wait, waits));
    const alone = new Set(all.rank.unmatched);
    const unmatched = spansAt(
      work,
      chosen.filter((i) => alone.has(work.row[i]!) && work.kind[i] === COMMUNICATION_KIND),
    );
    return { kinds, sweep: Sweep.of([...kinds, waited, unmatched].map(({ cover }) => cover)) };
  });
}

function spansAt({ start, end }: PanelRank["work"], at: Int32Array): Spans {
  const starts = picked(start, at);
  return Spans.of(
    starts,
    picked(end, at).map((time, i) => time - starts[i]!),
  );
}

interface DeviceTimes {
  /** Members of each kind. */
  counts: number[];
  /** Span from the first start to the last end. */
  start: number;
  end: number;
  /** Time in each state. */
  times: Float64Array;
}

export function deviceTimes(part: Part): DeviceTimes {
  return part.rank.once("times", part, ({ low, high }) => {
    const { kinds, sweep } = deviceOf(part);
    const extents = kinds.map((one) => one.extentWithin(low, high));
    return {
      counts: kinds.map((one) => one.count(low, high)),
      start: Math.min(...extents.map(([start]) => start)),
      end: Math.max(...extents.map(([, end]) => end)),
      times: sweep.within(low, high),
    };
  });
}

/** Number of members that are device work. */
export function workOf(part: Part): number {
  return deviceTimes(part).counts.reduce((sum, count) => sum + count, 0);
}

/**
 * The window, extended to the first start and last end of the chosen work of all times: idle time
 * is defined by the work around it. Null if the window is entirely before or after that work.
 */
export function spanOf(part: Part): [start: number, end: number] | null {
  const whole = deviceTimes(ofAllTimes(part));
  const { work } = part.rank.rank.header;
  const stated =
    work && (workOf(ofAllTimes(part)) > 0 || part.mask === null) ? work : [Infinity, -Infinity];
  const start = Math.max(Math.min(whole.start, stated[0]!), part.low);
  const end = Math.min(Math.max(whole.end, stated[1]!), part.high);
  return start < end || workOf(part) > 0 ? [start, end] : null;
}

/**
 * Chosen communication, and all compute in the window, which hides communication even if not
 * chosen.
 */
export function overlap(part: Part): { communication: number; compute: number; both: number } {
  const times = part.mask === null ? deviceTimes(part).times : withAllCompute(part);
  const [compute, communication] = [timeOf(times, COMPUTE), timeOf(times, COMMUNICATION)];
  const both = compute + communication - timeOf(times, COMPUTE | COMMUNICATION);
  return { communication, compute, both };
}

function withAllCompute(part: Part): Float64Array {
  const sweep = part.rank.once("overlap", ofAllTimes(part), (chosen) => {
    const [compute, communication] = [deviceOf(unmasked(chosen)), deviceOf(chosen)];
    return Sweep.of([compute.kinds[0]!.cover, communication.kinds[1]!.cover]);
  });
  return sweep.within(part.low, part.high);
}

/** Time spent waiting without computing; null if no communication of the rank is matched. */
export function exposedWait(part: Part): number | null {
  if (part.rank.matched.id.length === 0) return null;
  return timeOf(deviceTimes(part).times, WAIT, COMPUTE);
}

// Activity of each rank's device: any of its measures, cut into bins.

/** States that count for each metric: those with some bit of the first and none of the second. */
const STATES: Readonly<Record<Metric, readonly [any: number, none: number]>> = {
  busy: [WORK, 0],
  compute: [COMPUTE, 0],
  communication: [COMMUNICATION, 0],
  exposed_communication: [COMMUNICATION, COMPUTE],
  waiting: [WAIT, 0],
  idle: [WORK, 0],
};

/** Edges of bins, rounded down to whole ns. */
export function binEdges(start: number, end: number, bins: number): Float64Array {
  const whole = Math.floor((end - start) / bins);
  const rest = end - start - whole * bins;
  return Float64Array.from(
    { length: bins + 1 },
    (_, k) => start + whole * k + Math.floor((rest * k) / bins),
  );
}

/** Time of the metric in each bin, rank by rank; the windows of the parts are open. */
export function heatmap(parts: readonly Part[], metric: Metric, edges: Float64Array): Float64Array {
  const bins = edges.length - 1;
  const out = new Float64Array(parts.length * bins);
  parts.forEach((part, at) => {
    const { sweep } = deviceOf(part);
    const [first, last] = spanOf(part) ?? [0, 0];
    const before = edges.map((edge) => {
      if (metric !== "idle") return timeOf(sweep.before(edge), ...STATES[metric]);
      const time = Math.min(Math.max(edge, first), last);
      return time - timeOf(sweep.before(time), WORK);
    });
    for (let bin = 0; bin < bins; bin += 1) out[at * bins + bin] = before[bin + 1]! - before[bin]!;
  });
  return out;
}

// Sums by kernel.

/** By position in the rank's `kernels`. */
interface KernelSums {
  count: Float64Array;
  sum: Float64Array;
  min: Float64Array;
  max: Float64Array;
}

export function kernelSums(part: Part): KernelSums {
  return part.rank.once("kernels", part, ({ rank, mask, low, high }) => {
    const { work, kernels } = rank;
    const [first, last] = around(work, part);
    const count = new Float64Array(kernels.length);
    const sum = new Float64Array(kernels.length);
    const min = new Float64Array(kernels.length).fill(Infinity);
    const max = new Float64Array(kernels.length);
    for (let i = first; i < last; i += 1) {
      if (mask !== null && mask[work.row[i]!] === 0) continue;
      let [start, end] = [work.start[i]!, work.end[i]!];
      if (!overlaps(start, end, low)) continue;
      if (start < low) start = low;
      if (end > high) end = high;
      const time = end - start;
      const kernel = work.kernel[i]!;
      count[kernel] = count[kernel]! + 1;
      sum[kernel] = sum[kernel]! + time;
      if (time < min[kernel]!) min[kernel] = time;
      if (time > max[kernel]!) max[kernel] = time;
    }
    return { count, sum, min, max };
  });
}

/** Time that the rank waits in communication, by position in the job's names. */
export function waitsByName(part: Part): Map<number, number> {
  return part.rank.once("waits by name", part, ({ rank, low, high }) => {
    const { id, start, wait } = rank.matched;
    const found = new Map<number, number>();
    for (const i of matchedIn(part)) {
      const from = start[i]!;
      const time = Math.min(Math.max(from + wait[i]!, low), high) - Math.max(from, low);
      const [name] = rank.rank.typeOf(rank.rank.events, id[i]!);
      found.set(name, (found.get(name) ?? 0) + time);
    }
    return found;
  });
}

/**
 * Note on the share of the chosen device work launched before recording began, worded as in Python.
 */
export function prelaunchedNote(parts: readonly Part[]): string {
  let [count, early, time] = [0, 0, 0];
  for (const part of parts) {
    const own = prelaunched(part);
    count += own[0];
    early += own[1];
  }
  if (count === 0) return "";
  for (const part of parts) for (const sum of kernelSums(part).sum) time += sum;
  const share = Math.floor((100 * early) / Math.max(time, 1) + 0.5);
  const what = parts.some(({ rank }) => rank.rank.header.work)
    ? "the exported window"
    : "recording";
  return (
    `${count} of the device events, ${share} % of their time, were launched before ${what}` +
    ' began; the query "prelaunched == False" leaves them out'
  );
}

/** Number and time of chosen work that was launched before recording began. */
function prelaunched(part: Part): [count: number, time: number] {
  const { rank, low, high } = part;
  const { row, start, end } = rank.work;
  const rows = rank.once("prelaunched", rank.all, () => {
    const early = rank.rank.prelaunched();
    return positions(row.length, (i) => early[row[i]!] === 1);
  });
  let [count, time] = [0, 0];
  for (const i of low === high ? [] : rows) {
    if (start[i]! >= high) break;
    if (!isChosen(part, row[i]!) || !overlaps(start[i]!, end[i]!, low)) continue;
    count += 1;
    time += Math.min(end[i]!, high) - Math.max(start[i]!, low);
  }
  return [count, time];
}
