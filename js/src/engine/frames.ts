/** Frames of panels: their columns, and notes on missing data, worded as in Python. */

import { noteFor, type NoteName } from "../facts/notes";
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

/** Names of the notes that all ranks lack something, and that the listed ones do. */
export type Lack = readonly [onAll: NoteName, onSome: NoteName];

/** Note on ranks without something: that all are, or which ones; "" if none is. */
export function noteWithout(
  ranks: readonly number[],
  without: readonly number[],
  [onAll, onSome]: Lack,
  values: Record<string, string | number> = { ranks: listed(without) },
): string {
  if (ranks.length === 0) return noteFor("no_ranks");
  if (without.length === 0) return "";
  return noteFor(without.length === ranks.length ? onAll : onSome, values);
}

function listed(ranks: readonly number[]): string {
  return `rank${ranks.length > 1 ? "s" : ""} ${ranks.join(", ")}`;
}

/** Note of the heatmap: the reason that it is empty, or "". */
export function heatmapNote(parts: readonly Part[], metric: Metric, values: Float64Array): string {
  if (parts.length === 0) return noteFor("no_ranks");
  if (!parts.some((part) => workOf(part) > 0)) return noteFor("no_device_work");
  return values.some((value) => value !== 0) ? "" : `nothing is ${metric.replace(/_/g, " ")} here`;
}
