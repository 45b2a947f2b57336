/** Frames of panels with one row per name: kernels, durations, operators. */

import { getOrMake } from "../protocol/maps";
import type { PanelFrame } from "../protocol/source";
import { median } from "../expressions/numbers";
import { noteFor } from "../facts/notes";
import type { Names } from "./columns";
import { kernelSums, prelaunchedNote, waitsByName } from "./device";
import { type Columns, columnsOf, frameOf, matchedKinds } from "./frames";
import { operatorsOf, operatorSums } from "./operators";
import { BUSY, COMMUNICATION, type Part } from "./panel_rank";

/** Min number of ranks for which outliers are reported. */
const LEAST_RANKS = 3;

/** One kernel: its totals, and its figures on each rank that ran it, in order of ranks. */
interface Kernel {
  name: number;
  kind: number;
  of: { rank: number; count: number; mean: number; min: number; max: number }[];
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
      const none = (): Kernel => ({ name, kind, of: [], count: 0, sum: 0, min: Infinity, max: 0 });
      const one = getOrMake(found, name * BUSY + kind, none);
      const [sum, min, max] = [sums.sum[at]!, sums.min[at]!, sums.max[at]!];
      one.of.push({ rank: part.rank.number, count, mean: sum / count, min, max });
      one.count += count;
      one.sum += sum;
      one.min = Math.min(one.min, min);
      one.max = Math.max(one.max, max);
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
  const each = shown.flatMap(({ name, kind, of }) => of.map((own) => ({ name, kind, ...own })));
  const columns = columnsOf(each, {
    name: ({ name }) => names.full(name),
    short: ({ name }) => names.short(name),
    kind: ({ kind }) => names.kind(kind),
    rank: ({ rank }) => rank,
    count: ({ count }) => count,
    mean_ns: ({ mean }) => mean,
    min_ns: ({ min }) => min,
    max_ns: ({ max }) => max,
  });
  return aboutKernels(parts, all, columns, { total: all.length });
}

export function kernels(parts: readonly Part[], names: Names, top: number): PanelFrame {
  const all = kernelsOf(parts, names);
  const waits = waitsOf(parts);
  const shown = all.slice(0, top).map((one) => ({ ...one, odd: oddRank(one) }));
  const columns = columnsOf(shown, {
    kind: ({ kind }) => names.kind(kind),
    name: ({ name }) => names.full(name),
    short: ({ name }) => names.short(name),
    count: ({ count }) => count,
    sum_ns: ({ sum }) => sum,
    mean_ns: ({ sum, count }) => sum / count,
    min_ns: ({ min }) => min,
    max_ns: ({ max }) => max,
    ranks: ({ of }) => of.length,
    wait_ns: ({ name, kind }) => (kind === COMMUNICATION ? (waits.get(name) ?? null) : null),
    odd_rank: ({ odd }) => odd?.rank ?? null,
    odd_ratio: ({ odd }) => odd?.ratio ?? null,
  });
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
  const note = counts.some((count) => count > 0)
    ? prelaunchedNote(parts)
    : noteFor("no_device_work");
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
function oddRank({ kind, of }: Kernel): { rank: number; ratio: number } | null {
  if (kind === COMMUNICATION || of.length < LEAST_RANKS) return null;
  const middle = median(of.map(({ mean }) => mean));
  if (!(middle > 0)) return null;
  const apart = of.map(({ mean }) => Math.abs(mean - middle));
  const { rank, mean } = of[apart.indexOf(Math.max(...apart))]!;
  return { rank, ratio: mean / middle };
}

const NONE = { count: 0, cpuTotal: 0, cpuSelf: 0, deviceTotal: 0, deviceSelf: 0 };

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
      const one = getOrMake(found, name, () => ({ ...NONE }));
      for (const measure of measures) one[measure] += sums[measure][at]!;
    });
  }
  const all = [...found.entries()].sort(
    ([a, x], [b, y]) =>
      y.deviceTotal - x.deviceTotal ||
      y.cpuSelf - x.cpuSelf ||
      byCodePoints(names.full(a), names.full(b)),
  );
  const columns = columnsOf(all.slice(0, top), {
    name: ([name]) => names.full(name),
    count: ([, { count }]) => count,
    cpu_total_ns: ([, { cpuTotal }]) => cpuTotal,
    cpu_self_ns: ([, { cpuSelf }]) => cpuSelf,
    device_total_ns: ([, { deviceTotal }]) => deviceTotal,
    device_self_ns: ([, { deviceSelf }]) => deviceSelf,
  });
  const note = any ? noteFor("no_operators_selected") : noteFor("no_operators");
  return frameOf(
    columns,
    { matched, total: all.length },
    all.length > 0 ? prelaunchedNote(parts) : note,
  );
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
