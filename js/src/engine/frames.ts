/** Frames of panels: their columns, and notes on missing data, worded as in Python. */

import type { PanelFrame, Value } from "../protocol/source";
import { deviceTimes } from "./device";
import { BUSY, type Part } from "./panel_rank";

export type Columns = Record<string, Value[]>;

export function frameOf(columns: Columns, attrs: Record<string, unknown>, note = ""): PanelFrame {
  const rows = Object.values(columns)[0]?.length ?? 0;
  const said = note !== "" ? note : rows === 0 ? "no events match" : "";
  return { rows, columns, attrs: said === "" ? attrs : { ...attrs, note: said } };
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

export function sumOf(values: Iterable<number>): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
}

export function numbersOf(parts: readonly Part[]): number[] {
  return parts.map(({ rank }) => rank.number);
}

export function countsOf(parts: readonly Part[]): number[] {
  const counts = new Array<number>(BUSY).fill(0);
  for (const part of parts) {
    deviceTimes(part).counts.forEach((count, kind) => (counts[kind] = counts[kind]! + count));
  }
  return counts;
}

/** Number of members of each kind. */
export function matchedKinds(counts: readonly number[]): Record<string, number> {
  const [compute = 0, communication = 0, memory = 0] = counts;
  return { compute, communication, memory };
}

/** Note that names the ranks left out for lack of device work. */
export function withoutWork(ranks: readonly number[], idle: readonly number[]): string {
  if (idle.length === 0) return ranks.length > 0 ? "" : "no ranks are selected";
  if (idle.length === ranks.length) return "no device work is selected: no kernels and no copies";
  return `no device work on rank${idle.length > 1 ? "s" : ""} ${idle.join(", ")}`;
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

export const NO_KERNELS = "no device work is selected: no kernels and no copies";
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
