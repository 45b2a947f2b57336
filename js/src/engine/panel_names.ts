/** Panel frames with one row per name: kernels, durations, operators. */

import { addTo, getOrMake } from "../protocol/maps";
import type { PanelFrame } from "../protocol/source";
import { median } from "../expressions/numbers";
import { LIMITS } from "../facts/limits";
import { noteFor } from "../facts/notes";
import type { NameTable } from "./columns";
import { kernelSums, prelaunchedNote, waitsByName } from "./device";
import { type FrameColumns, buildColumns, makeFrame, matchedKinds } from "./frames";
import { operatorTree, operatorSums } from "./operators";
import type { RankSelection } from "./panel_rank";
import { rateColumns, selectedKernels, selectedOperators } from "./call_rates";
import { COMMUNICATION, DEVICE_KIND_COUNT } from "./rank";

/** Outliers are reported only for jobs with at least this many ranks. */
const MIN_RANKS = 3;

/** A kernel's totals, and its figures on each rank that ran it, in rank order. */
interface KernelFigures {
  name: number;
  kind: number;
  perRank: { rank: number; count: number; mean: number; min: number; max: number }[];
  count: number;
  sum: number;
  min: number;
  max: number;
}

function kernelsByTime(selections: readonly RankSelection[], names: NameTable): KernelFigures[] {
  const kernels = new Map<number, KernelFigures>();
  for (const selection of selections) {
    const sums = kernelSums(selection);
    selection.analysis.kernels.forEach(({ name, kind }, index) => {
      const count = sums.count[index]!;
      if (count === 0) return;
      const kernel = getOrMake(kernels, name * DEVICE_KIND_COUNT + kind, (): KernelFigures => {
        return { name, kind, perRank: [], count: 0, sum: 0, min: Infinity, max: 0 };
      });
      const [total, min, max] = [sums.total[index]!, sums.min[index]!, sums.max[index]!];
      const mean = total / count;
      kernel.perRank.push({ rank: selection.analysis.number, count, mean, min, max });
      kernel.count += count;
      kernel.sum += total;
      kernel.min = Math.min(kernel.min, min);
      kernel.max = Math.max(kernel.max, max);
    });
  }
  return [...kernels.values()].sort(
    (a, b) =>
      b.sum - a.sum ||
      b.count - a.count ||
      a.kind - b.kind ||
      compareCodePoints(names.full(a.name), names.full(b.name)),
  );
}

export function kernelDurationsFrame(
  selections: readonly RankSelection[],
  names: NameTable,
  top: number,
): PanelFrame {
  const all = kernelsByTime(selections, names);
  const shown = all.slice(0, top);
  const rankFigures = shown.flatMap(({ name, kind, perRank }) =>
    perRank.map((figures) => ({ name, kind, ...figures })),
  );
  const columns = buildColumns(rankFigures, {
    name: ({ name }) => names.full(name),
    short: ({ name }) => names.short(name),
    kind: ({ kind }) => names.kind(kind),
    rank: ({ rank }) => rank,
    count: ({ count }) => count,
    mean_ns: ({ mean }) => mean,
    min_ns: ({ min }) => min,
    max_ns: ({ max }) => max,
  });
  return makeKernelsFrame(selections, all, columns, { total: all.length });
}

export function kernelsFrame(
  selections: readonly RankSelection[],
  names: NameTable,
  top: number,
): PanelFrame {
  const all = kernelsByTime(selections, names);
  const waits = totalWaits(selections);
  const shown = all.slice(0, top).map((kernel) => ({ ...kernel, outlier: outlierRank(kernel) }));
  const columns = buildColumns(shown, {
    kind: ({ kind }) => names.kind(kind),
    name: ({ name }) => names.full(name),
    short: ({ name }) => names.short(name),
    count: ({ count }) => count,
    sum_ns: ({ sum }) => sum,
    mean_ns: ({ sum, count }) => sum / count,
    min_ns: ({ min }) => min,
    max_ns: ({ max }) => max,
    ranks: ({ perRank }) => perRank.length,
    wait_ns: ({ name, kind }) => (kind === COMMUNICATION ? (waits.get(name) ?? null) : null),
    odd_rank: ({ outlier }) => outlier?.rank ?? null,
    odd_ratio: ({ outlier }) => outlier?.ratio ?? null,
    ...rateColumns(selections, selectedKernels, ({ name }) => name),
  });
  const restNs = all.slice(top).reduce((sum, kernel) => sum + kernel.sum, 0);
  return makeKernelsFrame(selections, all, columns, { total: all.length, rest_ns: restNs });
}

function makeKernelsFrame(
  selections: readonly RankSelection[],
  all: readonly KernelFigures[],
  columns: FrameColumns,
  attrs: Record<string, unknown>,
): PanelFrame {
  const counts = new Array<number>(DEVICE_KIND_COUNT).fill(0);
  for (const { kind, count } of all) counts[kind]! += count;
  const note = counts.some((count) => count > 0)
    ? prelaunchedNote(selections)
    : noteFor("no_device_work");
  return makeFrame(columns, { matched: matchedKinds(counts), ...attrs }, note);
}

function totalWaits(selections: readonly RankSelection[]): Map<number, number> {
  const waits = new Map<number, number>();
  for (const selection of selections) {
    for (const [name, time] of waitsByName(selection)) addTo(waits, name, time);
  }
  return waits;
}

/** Return the rank whose mean is farthest from the median, and their ratio. */
function outlierRank({ kind, perRank }: KernelFigures): { rank: number; ratio: number } | null {
  if (kind === COMMUNICATION || perRank.length < MIN_RANKS) return null;
  const medianMean = median(perRank.map(({ mean }) => mean));
  if (!(medianMean > 0)) return null;
  const deviations = perRank.map(({ mean }) => Math.abs(mean - medianMean));
  const { rank, mean } = perRank[deviations.indexOf(Math.max(...deviations))]!;
  return { rank, ratio: mean / medianMean };
}

const ZERO_SUMS = {
  count: 0,
  cpuTotal: 0,
  cpuSelf: 0,
  deviceTotal: 0,
  deviceSelf: 0,
  communication: 0,
  memory: 0,
};
const MEASURES = Object.keys(ZERO_SUMS) as (keyof typeof ZERO_SUMS)[];

/** Return sums per name, event counts, and the device time in total and outside operators. */
function sumOperators(selections: readonly RankSelection[]) {
  const sumsOfName = new Map<number, typeof ZERO_SUMS>();
  const matched = { operators: 0, device_work: 0, linked: 0 };
  let [workTime, outsideTime] = [0, 0];
  for (const selection of selections) {
    const sums = operatorSums(selection);
    matched.device_work += sums.work;
    matched.linked += sums.linked;
    workTime += sums.workTime;
    outsideTime += sums.outsideTime;
    operatorTree(selection).names.forEach((name, index) => {
      matched.operators += sums.count[index]!;
      if (sums.count[index] === 0 && sums.deviceTotal[index] === 0) return;
      const nameSums = getOrMake(sumsOfName, name, () => ({ ...ZERO_SUMS }));
      for (const measure of MEASURES) nameSums[measure] += sums[measure][index]!;
    });
  }
  return { sumsOfName, matched, workTime, outsideTime };
}

export function operatorsFrame(
  selections: readonly RankSelection[],
  names: NameTable,
  top: number,
): PanelFrame {
  const { sumsOfName, matched, workTime, outsideTime } = sumOperators(selections);
  const all = [...sumsOfName].sort(
    ([nameA, a], [nameB, b]) =>
      b.deviceTotal - a.deviceTotal ||
      b.cpuSelf - a.cpuSelf ||
      compareCodePoints(names.full(nameA), names.full(nameB)),
  );
  const columns = buildColumns(all.slice(0, top), {
    name: ([name]) => names.full(name),
    count: ([, { count }]) => count,
    cpu_total_ns: ([, { cpuTotal }]) => cpuTotal,
    cpu_self_ns: ([, { cpuSelf }]) => cpuSelf,
    device_total_ns: ([, { deviceTotal }]) => deviceTotal,
    device_self_ns: ([, { deviceSelf }]) => deviceSelf,
    communication_ns: ([, { communication }]) => communication,
    memory_ns: ([, { memory }]) => memory,
    ...rateColumns(selections, selectedOperators, ([name]) => name),
  });
  const hasOperators = selections.some((selection) => operatorTree(selection).row.length > 0);
  const notes =
    all.length > 0
      ? [prelaunchedNote(selections), outsideOperatorsNote(outsideTime, workTime)]
      : [noteFor(hasOperators ? "no_operators_selected" : "no_operators")];
  return makeFrame(columns, { matched, total: all.length }, ...notes);
}

/** Return a note if a large share of device time belongs to work outside operators. */
function outsideOperatorsNote(outsideTime: number, workTime: number): string {
  const share = Math.floor((100 * outsideTime) / Math.max(workTime, 1) + 0.5);
  return share >= LIMITS.outside_operators_pct ? noteFor("outside_operators", { share }) : "";
}

/** Compare strings by code point, as Python does. JavaScript compares UTF-16 code units. */
export function compareCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i += 1) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x === y) continue;
    // Characters beyond U+FFFF, stored as surrogate pairs, compare greater than all others.
    return Number(isSurrogate(x)) - Number(isSurrogate(y)) || x - y;
  }
  return a.length - b.length;
}

function isSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdfff;
}
