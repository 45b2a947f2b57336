/**
 * Similar ranks folded into one row or mark of a chart: their mean, and the spread of one measure.
 */

import type { PanelFrame } from "../protocol/source";
import { formatCount, rankRuns } from "../ui/formats";
import { ranksText } from "../ui/text";
import { factRanks, lateRanks } from "./content";
import {
  combineCodes,
  evaluate,
  fillTemplate,
  isColumn,
  toNumbers,
  sortedOrder,
  type ColumnData,
  toColumn,
  type EvaluationScope,
  takeRows,
} from "./language";

/** Rules for folding similar ranks: numbers without a rule are averaged, the first text is used. */
export interface FoldRule {
  /** Columns in addition to the rank: items that differ in them are not combined. */
  each?: readonly string[];
  by?: Readonly<Record<string, "min" | "max" | "sum" | "same">>;
  /** Expression that is true for items that are never folded. */
  keep?: string;
  /** The measure whose min and max are drawn, its format, and its position on the scale. */
  spread: { name: string; of: string; format: string; at?: string };
}

/** For each rank of a group: all ranks of the group, ascending. They share a row. */
export type GroupOfRank = ReadonlyMap<number, readonly number[]>;

/** The groups of a frame's ranks, largest first. Ranks that the headline names are not grouped. */
export function foldGroups(frame: PanelFrame): GroupOfRank {
  const rows = frame.attrs.folded;
  const groupByRank = new Map<number, readonly number[]>();
  if (!Array.isArray(rows)) return groupByRank;
  const flagged = new Set([...lateRanks(frame), ...factRanks(frame)]);
  const present = new Set(frame.columns.rank ?? []);
  const groups = (rows as number[][])
    .map((ranks) => ranks.filter((rank) => present.has(rank) && !flagged.has(rank)))
    .filter((ranks) => ranks.length > 1)
    .map((ranks) => ranks.sort((a, b) => a - b));
  groups.sort((a, b) => b.length - a.length || a[0]! - b[0]!);
  for (const ranks of groups) for (const rank of ranks) groupByRank.set(rank, ranks);
  return groupByRank;
}

/** `rank 5`, `59 ranks: 0–4, 6 …`. */
export function ranksLabel(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const runs = rankRuns(ranks);
  return `${formatCount(ranks.length)} ranks: ${runs.slice(0, 2).join(", ")}${runs.length > 2 ? " …" : ""}`;
}

/** Addition to a subtitle if ranks share rows. */
export const FOLDED_NOTE = "similar ranks share a row: mean";

/** Addition to the subtitle of charts that also draw the spread. */
export function foldedSubtitle({ spread }: FoldRule): string {
  return `${FOLDED_NOTE}, line: min to max ${spread.name}`;
}

/** Set the values `who` (text) and `members` (list) on the ranks of each item. */
export function addMemberColumns(
  scope: EvaluationScope,
  members: readonly (readonly number[])[],
): void {
  scope.set("members", members as number[][]).set("who", members.map(ranksLabel));
}

/**
 * Fold the items of a scope into one item per group of ranks and value of `separateBy`. Without
 * `separateBy`, single ranks come first. Adds `members`, `who`, `fold_low`, `fold_high` and
 * `spread_text`.
 */
export function foldItems(
  scope: EvaluationScope,
  fold: FoldRule,
  groups: GroupOfRank,
  separateBy: readonly ColumnData[] = [],
): void {
  const { each = [], by = {}, keep } = fold;
  const items = (scope.get("rank") as Float64Array).length;
  const places = new Map([...new Set(groups.values())].map((ranks, index) => [ranks, index + 1]));
  const keepApart = keep === undefined ? null : toColumn(evaluate(keep, scope), items);
  const placeOf = (rank: number, index: number): number => {
    const group = keepApart?.[index] ? undefined : groups.get(rank);
    return group === undefined ? 0 : places.get(group)!;
  };
  let place: Float64Array = (scope.get("rank") as Float64Array).map(placeOf);
  const itemColumns = [...scope].filter(([, value]) => isColumn(value) && value.length === items);
  if (separateBy.length === 0) {
    const order = sortedOrder([place]);
    for (const [name, value] of itemColumns) scope.set(name, takeRows(value as ColumnData, order));
    place = takeRows(place, order) as Float64Array;
  }
  const rank = scope.get("rank") as Float64Array;
  const { of, format, at = of } = fold.spread;
  const [measure, position] = [of, at].map((code) => toNumbers(evaluate(code, scope), items));
  const placeKeys = rank.map((rankNumber, item) => (place[item]! > 0 ? -place[item]! : rankNumber));
  const columns = each.map((name) => toColumn(scope.get(name)!, items));
  const foldScope: EvaluationScope = new Map([
    ["fold", combineCodes([...separateBy, placeKeys, ...columns])],
    ["measure", measure!],
    ["position", position!],
    ["rank", rank],
  ]);
  const aggregate = (code: string, value: ColumnData = rank): ColumnData =>
    evaluate(`${code}, by=fold)`, new Map([...foldScope, ["value", value]])) as ColumnData;
  const ranks = aggregate("lists(rank") as number[][];
  const members = ranks.map((foldedRanks) => [...new Set(foldedRanks)].sort((a, b) => a - b));
  for (const [name] of itemColumns) {
    const value = scope.get(name) as ColumnData;
    const rule = name === "rank" ? "min" : (by[name] ?? "mean");
    const first = aggregate("first(value", value);
    if (rule === "same") {
      const distinctCounts = aggregate("distinct(value", value);
      const missingValue = value instanceof Float64Array ? NaN : "";
      const sharedValues = Array.from(first, (firstValue, item) =>
        distinctCounts[item] === 1 ? firstValue : missingValue,
      );
      scope.set(
        name,
        value instanceof Float64Array ? Float64Array.from(sharedValues as number[]) : sharedValues,
      );
    } else
      scope.set(name, value instanceof Float64Array ? aggregate(`${rule}(value`, value) : first);
  }
  addMemberColumns(scope, members);
  const isSingle = (item: number): boolean => members[item]!.length === 1;
  const spreadOrNaN = (values: ColumnData): Float64Array =>
    (values as Float64Array).map((value, item) => (isSingle(item) ? NaN : value));
  scope
    .set("fold_low", spreadOrNaN(aggregate("min(position")))
    .set("fold_high", spreadOrNaN(aggregate("max(position")));
  const spreadScope: EvaluationScope = new Map([
    ["low", aggregate("min(measure")],
    ["high", aggregate("max(measure")],
    ["of_low", aggregate("pick(rank, -measure")],
    ["of_high", aggregate("pick(rank, measure")],
  ]);
  const spreadTexts = fillTemplate(
    `{low:${format}} (rank {of_low}) – {high:${format}} (rank {of_high})`,
    spreadScope,
  ) as string[];
  scope.set(
    "spread_text",
    spreadTexts.map((text, item) => (isSingle(item) ? "" : text)),
  );
}

/** Tooltip lines on the ranks that an item combines; none for a single rank. */
export function foldedLines(
  scope: EvaluationScope,
  fold: FoldRule,
  item: number,
): (readonly [what: string, text: string])[] {
  const members = (scope.get("members") as number[][])[item]!;
  if (members.length === 1) return [];
  return [
    ["mean of", ranksText(members, 8)],
    [fold.spread.name, (scope.get("spread_text") as string[])[item]!],
  ];
}

/** The folded items as a frame, for the table of a chart. */
export function foldedFrame(scope: EvaluationScope, fold: FoldRule, frame: PanelFrame): PanelFrame {
  const rankLabels = scope.get("who") as string[];
  const columns: Record<string, (number | string | null)[]> = { ranks: rankLabels };
  for (const name of Object.keys(frame.columns)) {
    const value = scope.get(name);
    if (name === "rank" || value === undefined || !isColumn(value)) continue;
    columns[name] = Array.from(value, (cell) =>
      typeof cell === "string" || Number.isFinite(cell) ? (cell as number | string) : null,
    );
  }
  columns[`${fold.spread.name}, min to max`] = Array.from(scope.get("spread_text") as string[]);
  return { rows: rankLabels.length, columns, attrs: frame.attrs };
}
