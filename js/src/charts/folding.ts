/** Fold similar ranks into one row or mark that shows their mean and the spread of one measure. */

import { rankRuns, ranksText } from "../facts/rank_text";
import type { PanelFrame } from "../protocol/source";
import { formatCount } from "../ui/formats";
import { factRanks, lateRanks } from "./content";
import {
  combineCodes,
  evaluate,
  evaluateAggregate,
  fillTemplate,
  isColumn,
  toNumbers,
  sortedOrder,
  type ColumnData,
  toColumn,
  type EvaluationScope,
  type ScalarValue,
  takeRows,
  unknownValue,
} from "./language";

/** The rules for folding similar ranks. Without a rule, a column is reduced to the mean or first string. */
export interface FoldRule {
  /** Further columns that must be equal for items to be folded together. */
  each?: readonly string[];
  by?: Readonly<Record<string, "min" | "max" | "sum" | "same">>;
  /** Expression that selects the items that are never folded. */
  keep?: string;
  /** The measure whose minimum and maximum are drawn, its format, and its position on the scale. */
  spread: { name: string; of: string; format: string; at?: string };
}

/** For each rank of a group, all ranks of the group in ascending order. They share a row. */
export type GroupOfRank = ReadonlyMap<number, readonly number[]>;

/** Return the groups of ranks, largest first, excluding the ranks that the headline names. */
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

/** Return a text such as `rank 5` or `59 ranks: 0–4, 6 …`. */
export function ranksLabel(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const runs = rankRuns(ranks);
  return `${formatCount(ranks.length)} ranks: ${runs.slice(0, 2).join(", ")}${runs.length > 2 ? " …" : ""}`;
}

/** Appended to the subtitle if ranks share rows. */
export const FOLDED_NOTE = "similar ranks share a row: mean";

/** Return the note for the subtitle of a chart that also draws the spread. */
export function foldedSubtitle({ spread }: FoldRule): string {
  return `${FOLDED_NOTE}, line: min to max ${spread.name}`;
}

/** Add `who` (text) and `members` (list) to the scope: the ranks that each item combines. */
export function addMemberColumns(
  scope: EvaluationScope,
  members: readonly (readonly number[])[],
): void {
  scope.set("members", members as number[][]).set("who", members.map(ranksLabel));
}

/** Return each item's group number, starting at 1; 0 for items that are not folded. */
function groupNumbers(
  scope: EvaluationScope,
  { keep }: FoldRule,
  groups: GroupOfRank,
): Float64Array {
  const ranks = scope.get("rank") as Float64Array;
  const numberOf = new Map([...new Set(groups.values())].map((group, index) => [group, index + 1]));
  const isKept = keep === undefined ? [] : toColumn(evaluate(keep, scope), ranks.length);
  return ranks.map((rank, item) => {
    const group = isKept[item] ? undefined : groups.get(rank);
    return group === undefined ? 0 : numberOf.get(group)!;
  });
}

/** Apply an aggregate of the expression language, such as `mean`, to each fold's items. */
type FoldAggregate = (name: string, ...operands: readonly ColumnData[]) => ColumnData;

/** Return one value per fold: the first string, or the numbers combined by the rule. */
function foldColumn(column: ColumnData, rule: string, aggregate: FoldAggregate): ColumnData {
  if (rule === "same") {
    const [first, distinctCounts] = [aggregate("first", column), aggregate("distinct", column)];
    const values = Array.from<ScalarValue, ScalarValue>(first, (value, fold) =>
      distinctCounts[fold] === 1 ? value : unknownValue(column),
    );
    return column instanceof Float64Array ? toNumbers(values) : values;
  }
  return aggregate(column instanceof Float64Array ? rule : "first", column);
}

/**
 * Fold the items of a scope into one item per rank group and value of `separateBy`. Without
 * `separateBy`, single ranks come first. Adds `members`, `who`, `fold_low`, `fold_high` and
 * `spread_text`.
 */
export function foldItems(
  scope: EvaluationScope,
  fold: FoldRule,
  groups: GroupOfRank,
  separateBy: readonly ColumnData[] = [],
): void {
  const items = (scope.get("rank") as Float64Array).length;
  const names = [...scope].flatMap(([name, value]) =>
    isColumn(value) && value.length === items ? [name] : [],
  );
  // 0 sorts before all group numbers, so single ranks come first.
  let groupOfItem = groupNumbers(scope, fold, groups);
  if (separateBy.length === 0) {
    const order = sortedOrder([groupOfItem]);
    for (const name of names) scope.set(name, takeRows(scope.get(name) as ColumnData, order));
    groupOfItem = takeRows(groupOfItem, order) as Float64Array;
  }
  const rank = scope.get("rank") as Float64Array;
  // Group numbers are negated to distinguish them from the ranks that are not folded.
  const groupOrRank = rank.map((rankNumber, item) => -groupOfItem[item]! || rankNumber);
  const each = (fold.each ?? []).map((name) => toColumn(scope.get(name)!, items));
  const by = combineCodes([...separateBy, groupOrRank, ...each]);
  const aggregate: FoldAggregate = (name, ...operands) =>
    evaluateAggregate(name, operands, { by }) as ColumnData;
  const members = (aggregate("lists", rank) as number[][]).map((ranks) =>
    [...new Set(ranks)].sort((a, b) => a - b),
  );
  const spread = spreadColumns(scope, fold.spread, members, aggregate);
  for (const name of names) {
    const rule = name === "rank" ? "min" : (fold.by?.[name] ?? "mean");
    scope.set(name, foldColumn(scope.get(name) as ColumnData, rule, aggregate));
  }
  addMemberColumns(scope, members);
  for (const [name, column] of Object.entries(spread)) scope.set(name, column);
}

/** Return a measure's range in each fold of items not folded yet; empty for a single rank. */
function spreadColumns(
  scope: EvaluationScope,
  { of, format, at = of }: FoldRule["spread"],
  members: readonly (readonly number[])[],
  aggregate: FoldAggregate,
): { fold_low: Float64Array; fold_high: Float64Array; spread_text: string[] } {
  const rank = scope.get("rank") as Float64Array;
  const measure = toNumbers(evaluate(of, scope), rank.length);
  const position = toNumbers(evaluate(at, scope), rank.length);
  const isSingle = (item: number): boolean => members[item]!.length === 1;
  const spreadEnd = (name: "min" | "max"): Float64Array =>
    (aggregate(name, position) as Float64Array).map((end, item) => (isSingle(item) ? NaN : end));
  const negated = measure.map((value) => -value);
  const rangeScope: EvaluationScope = new Map([
    ["low", aggregate("min", measure)],
    ["high", aggregate("max", measure)],
    ["of_low", aggregate("pick", rank, negated)],
    ["of_high", aggregate("pick", rank, measure)],
  ]);
  const template = `{low:${format}} (rank {of_low}) – {high:${format}} (rank {of_high})`;
  const texts = fillTemplate(template, rangeScope) as string[];
  return {
    fold_low: spreadEnd("min"),
    fold_high: spreadEnd("max"),
    spread_text: texts.map((text, item) => (isSingle(item) ? "" : text)),
  };
}

/** Return tooltip lines that list the ranks an item combines; none for a single rank. */
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

/** Return the folded items as a frame for the chart's table. */
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
