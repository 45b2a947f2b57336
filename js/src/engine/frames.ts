/** Frames of panels: their columns, and notes on missing data, worded as in Python. */

import { noteFor } from "../facts/notes";
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

/** Notes for a lack of something on all ranks, and on the listed ranks only. */
type Lack = readonly [Parameters<typeof noteFor>[0], Parameters<typeof noteFor>[0]];
export const NO_WORK: Lack = ["no_device_work", "no_device_work_on"];
export const NO_COMMUNICATION: Lack = ["no_communication", "no_communication_on"];
export const NO_TIME: Lack = ["no_communication_time", "no_communication_time_on"];

/** Note that names the ranks that lack something, empty if none does. */
export function lackingNote(
  ranks: readonly number[],
  without: readonly number[],
  [onAll, onSome]: Lack,
): string {
  if (without.length === 0) return ranks.length > 0 ? "" : noteFor("no_ranks");
  if (without.length === ranks.length) return noteFor(onAll);
  return noteFor(onSome, { ranks: listed(without) });
}

/** Note of the heatmap: the reason that it is empty, or "". */
export function heatmapNote(parts: readonly Part[], metric: Metric, values: Float64Array): string {
  if (parts.length === 0) return noteFor("no_ranks");
  if (!parts.some((part) => workOf(part) > 0)) return noteFor("no_device_work");
  return values.some((value) => value !== 0) ? "" : `nothing is ${metric.replace(/_/g, " ")} here`;
}

function listed(ranks: readonly number[]): string {
  return `rank${ranks.length > 1 ? "s" : ""} ${ranks.join(", ")}`;
}

export function withoutSteps(
  ranks: readonly number[],
  without: readonly number[],
  unselected: number,
): string {
  if (ranks.length === 0) return noteFor("no_ranks");
  if (without.length === 0) return "";
  if (without.length < ranks.length) {
    const name = unselected > 0 ? "no_steps_selected_on" : "no_steps_on";
    return noteFor(name, { ranks: without.join(", ") });
  }
  return unselected === 0
    ? noteFor("no_steps")
    : noteFor("no_steps_selected", { steps: unselected });
}
