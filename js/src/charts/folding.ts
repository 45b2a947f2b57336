/** Similar ranks as one row or mark of a chart: their mean, and the spread of one measure. */

import type { PanelFrame } from "../protocol/source";
import { formatCount, rankRuns } from "../ui/formats";
import { listed } from "../ui/text";
import { factRanks, lateRanks } from "./content";
import {
  codes,
  evaluate,
  fill,
  isRows,
  numbersOf,
  ordered,
  type Rows,
  rowsOf,
  type Scope,
  taken,
} from "./language";

/** Rules for folding similar ranks: numbers without a rule are averaged, the first text is used. */
export interface Fold {
  /** Columns in addition to the rank: items that differ in them are not combined. */
  each?: readonly string[];
  by?: Readonly<Record<string, "min" | "max" | "sum" | "same">>;
  /** Expression that is true for items that are never folded. */
  keep?: string;
  /** The measure whose min and max are drawn, its format, and its position on the scale. */
  spread: { name: string; of: string; as: string; at?: string };
}

/** For each rank of a group: all ranks of the group, ascending. They share a row. */
export type Groups = ReadonlyMap<number, readonly number[]>;

/** The groups of a frame's ranks, largest first. Ranks that the headline names are not grouped. */
export function groupsOf(frame: PanelFrame): Groups {
  const given = frame.attrs.folded;
  const found = new Map<number, readonly number[]>();
  if (!Array.isArray(given)) return found;
  const marked = new Set([...lateRanks(frame), ...factRanks(frame)]);
  const there = new Set(frame.columns.rank ?? []);
  const groups = (given as number[][])
    .map((ranks) => ranks.filter((rank) => there.has(rank) && !marked.has(rank)))
    .filter((ranks) => ranks.length > 1)
    .map((ranks) => ranks.sort((a, b) => a - b));
  groups.sort((a, b) => b.length - a.length || a[0]! - b[0]!);
  for (const ranks of groups) for (const rank of ranks) found.set(rank, ranks);
  return found;
}

/** `rank 5`, `59 ranks: 0–4, 6 …`. */
export function rowName(ranks: readonly number[]): string {
  if (ranks.length === 1) return `rank ${ranks[0]}`;
  const runs = rankRuns(ranks);
  return `${formatCount(ranks.length)} ranks: ${runs.slice(0, 2).join(", ")}${runs.length > 2 ? " …" : ""}`;
}

/** Addition to a subtitle if ranks share rows. */
export const TOGETHER = "similar ranks together: mean";

/** Addition to the subtitle of charts that also draw the spread. */
export function foldedWords({ spread }: Fold): string {
  return `${TOGETHER}, line: least to most ${spread.name}`;
}

/** Set the values `who` (text) and `members` (list) on the ranks of each item. */
export function setMembers(scope: Scope, members: readonly (readonly number[])[]): void {
  scope.set("members", members as number[][]).set("who", members.map(rowName));
}

/**
 * Fold the items of a scope into one item per group of ranks and value of `apart`. Without `apart`,
 * single ranks come first. Adds `members`, `who`, `fold_low`, `fold_high` and `spread_text`.
 */
export function foldItems(
  scope: Scope,
  fold: Fold,
  groups: Groups,
  apart: readonly Rows[] = [],
): void {
  const { each = [], by = {}, keep } = fold;
  const items = (scope.get("rank") as Float64Array).length;
  const places = new Map([...new Set(groups.values())].map((ranks, at) => [ranks, at + 1]));
  const alone = keep === undefined ? null : rowsOf(evaluate(keep, scope), items);
  const placeOf = (rank: number, at: number): number => {
    const group = alone?.[at] ? undefined : groups.get(rank);
    return group === undefined ? 0 : places.get(group)!;
  };
  let place: Float64Array = (scope.get("rank") as Float64Array).map(placeOf);
  const all = [...scope].filter(([, value]) => isRows(value) && value.length === items);
  if (apart.length === 0) {
    const order = ordered([place]);
    for (const [name, value] of all) scope.set(name, taken(value as Rows, order));
    place = taken(place, order) as Float64Array;
  }
  const rank = scope.get("rank") as Float64Array;
  const { of, as, at = of } = fold.spread;
  const [measure, position] = [of, at].map((code) => numbersOf(evaluate(code, scope), items));
  const own = rank.map((one, item) => (place[item]! > 0 ? -place[item]! : one));
  const columns = each.map((name) => rowsOf(scope.get(name)!, items));
  const inner: Scope = new Map([
    ["fold", codes([...apart, own, ...columns])],
    ["measure", measure!],
    ["position", position!],
    ["rank", rank],
  ]);
  const found = (code: string, value: Rows = rank): Rows =>
    evaluate(`${code}, by=fold)`, new Map([...inner, ["value", value]])) as Rows;
  const ranks = found("lists(rank") as number[][];
  const members = ranks.map((some) => [...new Set(some)].sort((a, b) => a - b));
  for (const [name] of all) {
    const value = scope.get(name) as Rows;
    const rule = name === "rank" ? "min" : (by[name] ?? "mean");
    const first = found("first(value", value);
    if (rule === "same") {
      const several = found("distinct(value", value);
      const none = value instanceof Float64Array ? NaN : "";
      const same = Array.from(first, (one, item) => (several[item] === 1 ? one : none));
      scope.set(name, value instanceof Float64Array ? Float64Array.from(same as number[]) : same);
    } else scope.set(name, value instanceof Float64Array ? found(`${rule}(value`, value) : first);
  }
  setMembers(scope, members);
  const isOne = (item: number): boolean => members[item]!.length === 1;
  const lone = (values: Rows): Float64Array =>
    (values as Float64Array).map((value, item) => (isOne(item) ? NaN : value));
  scope.set("fold_low", lone(found("min(position"))).set("fold_high", lone(found("max(position")));
  const ends: Scope = new Map([
    ["low", found("min(measure")],
    ["high", found("max(measure")],
    ["of_low", found("pick(rank, -measure")],
    ["of_high", found("pick(rank, measure")],
  ]);
  const said = fill(
    `{low:${as}} (rank {of_low}) – {high:${as}} (rank {of_high})`,
    ends,
  ) as string[];
  scope.set(
    "spread_text",
    said.map((text, item) => (isOne(item) ? "" : text)),
  );
}

/** Tooltip lines on the ranks that an item combines; none for a single rank. */
export function foldedLines(
  scope: Scope,
  fold: Fold,
  item: number,
): (readonly [what: string, text: string])[] {
  const members = (scope.get("members") as number[][])[item]!;
  if (members.length === 1) return [];
  return [
    ["mean of", listed(members, 8)],
    [fold.spread.name, (scope.get("spread_text") as string[])[item]!],
  ];
}

/** The folded items as a frame, for the table of a chart. */
export function foldedFrame(scope: Scope, fold: Fold, frame: PanelFrame): PanelFrame {
  const who = scope.get("who") as string[];
  const columns: Record<string, (number | string | null)[]> = { ranks: who };
  for (const name of Object.keys(frame.columns)) {
    const value = scope.get(name);
    if (name === "rank" || value === undefined || !isRows(value)) continue;
    columns[name] = Array.from(value, (cell) =>
      typeof cell === "string" || Number.isFinite(cell) ? (cell as number | string) : null,
    );
  }
  columns[`${fold.spread.name}, least to most`] = Array.from(scope.get("spread_text") as string[]);
  return { rows: who.length, columns, attrs: frame.attrs };
}
