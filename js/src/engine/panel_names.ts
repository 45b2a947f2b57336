/** Frames of panels with one row per name: kernels, durations, operators. */

import type { PanelFrame } from "../protocol/source";
import type { Names } from "./columns";
import { kernelSums, prelaunchedNote, waitsByName } from "./device";
import { type Columns, frameOf, matchedKinds, NO_KERNELS } from "./frames";
import { operatorsOf, operatorSums } from "./operators";
import { BUSY, COMMUNICATION, type Part } from "./panel_rank";

/** Min number of ranks for which outliers are reported. */
const LEAST_RANKS = 3;

/** One kernel on the ranks that ran it, in their order. */
interface Kernel {
  name: number;
  kind: number;
  ranks: number[];
  means: number[];
  /** Figures of each rank, in the order of `ranks`. */
  of: { count: number; min: number; max: number }[];
  count: number;
  sum: number;
  min: number;
  max: number;
}

/** Kernels by time over all ranks. */
function kernelsOf(parts: readonly Part[], names: Names): Kernel[] {
  const found = new Map<number, Kernel>();
  for (const part of parts) {
    const sums = kernelSums(part);
    part.rank.kernels.forEach(({ name, kind }, at) => {
      const count = sums.count[at]!;
      if (count === 0) return;
      const key = name * BUSY + kind;
      let one = found.get(key);
      if (one === undefined) {
        const none = { count: 0, sum: 0, min: Infinity, max: 0 };
        one = { name, kind, ranks: [], means: [], of: [], ...none };
        found.set(key, one);
      }
      one.ranks.push(part.rank.number);
      one.means.push(sums.sum[at]! / count);
      one.of.push({ count, min: sums.min[at]!, max: sums.max[at]! });
      one.count += count;
      one.sum += sums.sum[at]!;
      one.min = Math.min(one.min, sums.min[at]!);
      one.max = Math.max(one.max, sums.max[at]!);
    });
  }
  return [...found.values()].sort(
    (a, b) =>
      b.sum - a.sum ||
      b.count - a.count ||
      a.kind - b.kind ||
      byCodePoints(names.full(a.name), names.full(b.name)),
  );
}

export function kernelDurations(parts: readonly Part[], names: Names, top: number): PanelFrame {
  const all = kernelsOf(parts, names);
  const shown = all.slice(0, top);
  const each = shown.flatMap((one) => one.ranks.map(() => one));
  const of = shown.flatMap((one) => one.of);
  const columns: Columns = {
    name: each.map(({ name }) => names.full(name)),
    short: each.map(({ name }) => names.short(name)),
    kind: each.map(({ kind }) => names.kind(kind)),
    rank: shown.flatMap(({ ranks }) => ranks),
    count: of.map(({ count }) => count),
    mean_ns: shown.flatMap(({ means }) => means),
    min_ns: of.map(({ min }) => min),
    max_ns: of.map(({ max }) => max),
  };
  return aboutKernels(parts, all, columns, { total: all.length });
}

export function kernels(parts: readonly Part[], names: Names, top: number): PanelFrame {
  const all = kernelsOf(parts, names);
  const shown = all.slice(0, top);
  const waits = waitsOf(parts);
  const odd = shown.map(oddRank);
  const columns: Columns = {
    kind: shown.map(({ kind }) => names.kind(kind)),
    name: shown.map(({ name }) => names.full(name)),
    short: shown.map(({ name }) => names.short(name)),
    count: shown.map(({ count }) => count),
    sum_ns: shown.map(({ sum }) => sum),
    mean_ns: shown.map(({ sum, count }) => sum / count),
    min_ns: shown.map(({ min }) => min),
    max_ns: shown.map(({ max }) => max),
    ranks: shown.map(({ ranks }) => ranks.length),
    wait_ns: shown.map(({ name, kind }) =>
      kind === COMMUNICATION ? (waits.get(name) ?? null) : null,
    ),
    odd_rank: odd.map((one) => one?.rank ?? null),
    odd_ratio: odd.map((one) => one?.ratio ?? null),
  };
  const rest = all.slice(top).reduce((sum, one) => sum + one.sum, 0);
  return aboutKernels(parts, all, columns, { total: all.length, rest_ns: rest });
}

function aboutKernels(
  parts: readonly Part[],
  all: readonly Kernel[],
  columns: Columns,
  attrs: Record<string, unknown>,
): PanelFrame {
  const counts = new Array<number>(BUSY).fill(0);
  for (const { kind, count } of all) counts[kind] = counts[kind]! + count;
  const note = counts.some((count) => count > 0) ? prelaunchedNote(parts) : NO_KERNELS;
  return frameOf(columns, { matched: matchedKinds(counts), ...attrs }, note);
}

function waitsOf(parts: readonly Part[]): Map<number, number> {
  const found = new Map<number, number>();
  for (const part of parts) {
    for (const [name, time] of waitsByName(part)) found.set(name, (found.get(name) ?? 0) + time);
  }
  return found;
}

/** The rank whose mean is farthest from the median rank's, and the ratio of both. */
function oddRank({ kind, means, ranks }: Kernel): { rank: number; ratio: number } | null {
  if (kind === COMMUNICATION || ranks.length < LEAST_RANKS) return null;
  const sorted = [...means].sort((a, b) => a - b);
  const median = (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
  if (!(median > 0)) return null;
  const far = indexOfLeast(means.map((mean) => -Math.abs(mean - median)));
  return { rank: ranks[far]!, ratio: means[far]! / median };
}

export function operators(parts: readonly Part[], names: Names, top: number): PanelFrame {
  const measures = ["count", "cpuTotal", "cpuSelf", "deviceTotal", "deviceSelf"] as const;
  const found = new Map<number, Record<(typeof measures)[number], number>>();
  const matched = { operators: 0, device_work: 0, linked: 0 };
  let any = false;
  for (const part of parts) {
    const sums = operatorSums(part);
    const { names: own, row } = operatorsOf(part);
    any ||= row.length > 0;
    matched.device_work += sums.work;
    matched.linked += sums.linked;
    own.forEach((name, at) => {
      matched.operators += sums.count[at]!;
      if (sums.count[at] === 0 && sums.deviceTotal[at] === 0) return;
      let one = found.get(name);
      if (one === undefined) {
        one = { count: 0, cpuTotal: 0, cpuSelf: 0, deviceTotal: 0, deviceSelf: 0 };
        found.set(name, one);
      }
      for (const measure of measures) one[measure] += sums[measure][at]!;
    });
  }
  const all = [...found.entries()].sort(
    ([a, x], [b, y]) =>
      y.deviceTotal - x.deviceTotal ||
      y.cpuSelf - x.cpuSelf ||
      byCodePoints(names.full(a), names.full(b)),
  );
  const shown = all.slice(0, top);
  const columns: Columns = {
    name: shown.map(([name]) => names.full(name)),
    count: shown.map(([, { count }]) => count),
    cpu_total_ns: shown.map(([, { cpuTotal }]) => cpuTotal),
    cpu_self_ns: shown.map(([, { cpuSelf }]) => cpuSelf),
    device_total_ns: shown.map(([, { deviceTotal }]) => deviceTotal),
    device_self_ns: shown.map(([, { deviceSelf }]) => deviceSelf),
  };
  const note = any
    ? "no operators are selected"
    : "no operators: no host events of category cpu_op or operator";
  return frameOf(
    columns,
    { matched, total: all.length },
    all.length > 0 ? prelaunchedNote(parts) : note,
  );
}

/** The first of the least values. */
function indexOfLeast(values: readonly number[]): number {
  let best = 0;
  for (let i = 1; i < values.length; i += 1) if (values[i]! < values[best]!) best = i;
  return best;
}

/** Compare strings as Python does; JavaScript compares UTF-16 surrogates beyond U+FFFF. */
export function byCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i += 1) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x === y) continue;
    const [high, low] = [isHalf(x), isHalf(y)];
    return high === low ? x - y : high ? 1 : -1;
  }
  return a.length - b.length;
}

/** A surrogate of a character beyond U+FFFF sorts after all other characters. */
function isHalf(code: number): boolean {
  return code >= 0xd800 && code <= 0xdfff;
}
