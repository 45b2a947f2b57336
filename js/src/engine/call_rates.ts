/** Rates of operators and kernels, and their shares of the device limits, for tables. */

import { addTo, getOrMake } from "../protocol/maps";
import type { CellValue } from "../protocol/source";
import { operatorTree } from "./operators";
import { forEachInWindow, isSelected, type RankSelection } from "./panel_rank";
import { overlaps } from "./spans";

/**
 * For each figure, its sum over the calls that have it, and the total time of these calls. `limit`
 * is the shortest time in which the device could run them.
 */
interface NameSums {
  flops: [amount: number, time: number];
  bytes: [amount: number, time: number];
  limit: [amount: number, time: number];
  timeByBound: Map<string, number>;
}

type RowsOf = (selection: RankSelection) => Iterable<number>;

/** Return the rows of selected device work, limited to the longest event of each call. */
export function selectedKernels(selection: RankSelection): Iterable<number> {
  const { low, high, analysis } = selection;
  const { start, dur } = analysis.trace.events;
  const inWindow = (row: number): boolean =>
    low < high && start[row]! < high && overlaps(start[row]!, start[row]! + dur[row]!, low);
  return analysis.trace.longestWork().filter((row) => isSelected(selection, row) && inWindow(row));
}

/** Return the rows of selected operators. */
export function selectedOperators(selection: RankSelection): Iterable<number> {
  const tree = operatorTree(selection);
  const rows: number[] = [];
  forEachInWindow(tree, selection, (index) => rows.push(tree.row[index]!));
  return rows.filter((row) => isSelected(selection, row));
}

/** Return columns of rates, keyed by column name; empty if no call of the job has figures. */
export function rateColumns<Row>(
  selections: readonly RankSelection[],
  rowsOf: RowsOf,
  nameOf: (row: Row) => number,
): Record<string, (row: Row) => CellValue> {
  const sumsOfName = new Map<number, NameSums>();
  for (const selection of selections) addCalls(sumsOfName, selection, rowsOf);
  if (sumsOfName.size === 0) return {};
  const rate =
    (amount: "flops" | "bytes" | "limit", scale: number) =>
    (row: Row): number | null => {
      const [sum, time] = sumsOfName.get(nameOf(row))?.[amount] ?? [0, 0];
      return time > 0 ? sum / time / scale : null;
    };
  return {
    tflop_per_s: rate("flops", 1e3),
    gb_per_s: rate("bytes", 1),
    roofline_share: rate("limit", 1),
    bound: (row) => longestBound(sumsOfName.get(nameOf(row))),
  };
}

/** Add each call to the sums of the names of its selected events, once per name. */
function addCalls(
  sumsOfName: Map<number, NameSums>,
  selection: RankSelection,
  rowsOf: RowsOf,
): void {
  const { trace } = selection.analysis;
  const callOfRow = trace.callIndices();
  const seen = new Set<string>();
  for (const row of rowsOf(selection)) {
    const call = callOfRow[row]!;
    const [name] = trace.typeOf(trace.events, row);
    const key = `${name} ${call}`;
    if (call < 0 || seen.has(key)) continue;
    seen.add(key);
    const sums = getOrMake(sumsOfName, name, (): NameSums => ({
      flops: [0, 0],
      bytes: [0, 0],
      limit: [0, 0],
      timeByBound: new Map(),
    }));
    const figures = trace.callFigures(row)!;
    const { bound, device_ns: time, roofline_share: share } = figures;
    addAmount(sums.flops, figures.flops, time);
    addAmount(sums.bytes, figures.least_bytes, time);
    if (share === null) continue;
    addAmount(sums.limit, share * time, time);
    addTo(sums.timeByBound, bound, time);
  }
}

function addAmount(sum: [number, number], amount: number | null, time: number): void {
  if (amount === null) return;
  sum[0] += amount;
  sum[1] += time;
}

/** Return the bound with the most call time. Ties go to the alphabetically first. */
function longestBound(sums: NameSums | undefined): string | null {
  const bounds = [...(sums?.timeByBound ?? [])];
  bounds.sort(([a, timeA], [b, timeB]) => timeB - timeA || (a < b ? -1 : 1));
  return bounds[0]?.[0] ?? null;
}
