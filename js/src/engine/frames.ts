/** Frames of panels: their columns, and notes on missing data, worded as in Python. */

import type { Metric } from "../facts/panels";
import type { PanelFrame, Value } from "../protocol/source";
import { deviceTimes, workOf } from "./device";
import { BUSY, type Part } from "./panel_rank";

export type Columns = Record<string, Value[]>;

export function frameOf(columns: Columns, attrs: Record<string, unknown>, note = ""): PanelFrame {
  const rows = Object.values(columns)[0]?.length ?? 0;
  const text = note !== "" ? note : rows === 0 ? "no events match" : "";
  return { rows, columns, attrs: text === "" ? attrs : { ...attrs, note: text } };
}

/** A column of each name, with a value for each item. */
export function columnsOf<T>(
  items: readonly T[],
  values: Readonly<Record<string, (item: T) => Value>>,
): Columns {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, items.map(value)]),
  );
}

export function numbersOf(parts: readonly Part[]): number[] {
  return parts.map(({ rank }) => rank.number);
}

/** Number of members of each kind. */
export function countsOf(parts: readonly Part[]): number[] {
  const counts = new Array<number>(BUSY).fill(0);
  for (const part of parts) {
    deviceTimes(part).counts.forEach((count, kind) => (counts[kind] = counts[kind]! + count));
  }
  return counts;
}

/** The numbers of `countsOf` by the names of their kinds. */
export function matchedKinds(counts: readonly number[]): Record<string, number> {
  const [compute = 0, communication = 0, memory = 0] = counts;
  return { compute, communication, memory };
}

export const NO_KERNELS = "no device work is selected: no kernels and no copies";

/** Note that names the ranks left out for lack of device work. */
export function withoutWork(ranks: readonly number[], idle: readonly number[]): string {
  if (idle.length === 0) return ranks.length > 0 ? "" : "no ranks are selected";
  if (idle.length === ranks.length) return NO_KERNELS;
  return `no device work on rank${idle.length > 1 ? "s" : ""} ${idle.join(", ")}`;
}

/** Note of the heatmap: the reason that it is empty, or "". */
export function heatmapNote(parts: readonly Part[], metric: Metric, values: Float64Array): string {
  if (parts.length === 0) return "no ranks are selected";
  if (!parts.some((part) => workOf(part) > 0)) return NO_KERNELS;
  return values.some((value) => value !== 0) ? "" : `nothing is ${metric.replace(/_/g, " ")} here`;
}

export function withoutCommunication(ranks: readonly number[], silent: readonly number[]): string {
  if (ranks.length === 0) return "no ranks are selected";
  if (silent.length === 0) return "";
  const where =
    silent.length === ranks.length
      ? ""
      : ` on rank${silent.length > 1 ? "s" : ""} ${silent.join(", ")}`;
  return `no communication kernels matched${where}`;
}

export const NO_LAUNCHES = "no device work is selected whose launch the files hold";
export const STILL_QUEUES = "the window holds nothing: no queue changes or lasts in it";

export function withoutSteps(
  ranks: readonly number[],
  without: readonly number[],
  unselected: number,
): string {
  if (ranks.length === 0) return "no ranks are selected";
  if (without.length === 0) return "";
  if (without.length < ranks.length) {
    return `no ProfilerStep${unselected > 0 ? " selected" : ""} on ranks ${without.join(", ")}`;
  }
  if (unselected === 0) {
    return "no ProfilerStep is in the trace: call the profiler's step() once an iteration";
  }
  return (
    "the selection or window holds no range ProfilerStep#n of the host, of which" +
    ` there are ${unselected}: select them too`
  );
}
