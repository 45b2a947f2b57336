/** Frames of panels: their columns, and notes about missing data, worded as in Python. */

import { ranksText } from "../facts/rank_text";
import { noteFor, type NoteName } from "../facts/notes";
import type { Metric } from "../facts/panels";
import type { PanelFrame, CellValue } from "../protocol/source";
import { deviceTimesOf, workCount } from "./device";
import type { RankSelection } from "./panel_rank";
import { DEVICE_KIND_COUNT } from "./rank";

export type FrameColumns = Record<string, CellValue[]>;

/** Return a frame with the non-empty notes joined. An empty frame without notes gets a default. */
export function makeFrame(
  columns: FrameColumns,
  attrs: Record<string, unknown>,
  ...notes: (string | undefined)[]
): PanelFrame {
  const rows = Object.values(columns)[0]?.length ?? 0;
  const note = notes.filter(Boolean).join("; ") || (rows === 0 ? "no events match" : "");
  return { rows, columns, attrs: note === "" ? attrs : { ...attrs, note } };
}

/** Build the columns from functions that return an item's value. */
export function buildColumns<T>(
  items: readonly T[],
  values: Readonly<Record<string, (item: T) => CellValue>>,
): FrameColumns {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, items.map(value)]),
  );
}

export function rankNumbersOf(selections: readonly RankSelection[]): number[] {
  return selections.map(({ analysis }) => analysis.number);
}

/** Return how many events of each kind are selected. */
export function countByKind(selections: readonly RankSelection[]): number[] {
  const counts = new Array<number>(DEVICE_KIND_COUNT).fill(0);
  for (const selection of selections) {
    deviceTimesOf(selection).counts.forEach((count, kind) => (counts[kind]! += count));
  }
  return counts;
}

/** Return the counts of `countByKind`, keyed by kind name. */
export function matchedKinds(counts: readonly number[]): Record<string, number> {
  const [compute = 0, communication = 0, memory = 0] = counts;
  return { compute, communication, memory };
}

/** Names of two notes: one for when all ranks lack something, one for when only some do. */
export type MissingNotes = readonly [onAll: NoteName, onSome: NoteName];

/** Return the note about the ranks that lack something; "" if no rank does. */
export function missingRanksNote(
  ranks: readonly number[],
  without: readonly number[],
  [onAll, onSome]: MissingNotes,
  values: Record<string, string | number> = { ranks: ranksText(without) },
): string {
  if (ranks.length === 0) return noteFor("no_ranks");
  if (without.length === 0) return "";
  return noteFor(without.length === ranks.length ? onAll : onSome, values);
}

/** Return why the heatmap is empty; "" if it is not. */
export function heatmapNote(
  selections: readonly RankSelection[],
  metric: Metric,
  values: Float64Array,
): string {
  if (selections.length === 0) return noteFor("no_ranks");
  if (!selections.some((selection) => workCount(selection) > 0)) return noteFor("no_device_work");
  return values.some((value) => value !== 0)
    ? ""
    : `the selection has no ${metric.replace(/_/g, " ")} time`;
}
