/** The selection by dimension: what is chosen, and what a brush makes of it. */

import { EVERYTHING } from "../app/selection";
import type { Scene, SelectionJson } from "../contract";
import { readClauses, writeClauses } from "./clauses";
import type { Brush, Chosen } from "./types";

export const NONE_CHOSEN: Chosen = { ranks: null, names: null, kinds: null, window: null };

export function chosenOf(selection: SelectionJson | null, scene: Scene): Chosen {
  if (selection === null) return NONE_CHOSEN;
  const { names, kinds } = readClauses(selection.query);
  const { start_ns: start, end_ns: end, ranks } = selection;
  const window: [number, number] | null =
    start === null && end === null ? null : [start ?? scene.range[0], end ?? scene.range[1]];
  return { ranks, names, kinds, window };
}

/** What a selection becomes by a brush; null selects everything. */
export function brushed(
  before: SelectionJson | null,
  brush: Brush,
  allRanks: number,
): SelectionJson | null {
  const selection: SelectionJson = { ...EVERYTHING, ...before };
  if (brush.ranks !== undefined) {
    const ranks = [...new Set(brush.ranks ?? [])].sort((a, b) => a - b);
    selection.ranks = ranks.length === 0 || ranks.length === allRanks ? null : ranks;
  }
  if (brush.window !== undefined) {
    const [start, end] = brush.window ?? [null, null];
    selection.start_ns = start === null ? null : Math.round(start);
    selection.end_ns =
      start === null || end === null ? null : Math.max(Math.round(end), Math.round(start) + 1);
  }
  if (brush.names !== undefined || brush.kinds !== undefined) {
    const clauses = readClauses(selection.query);
    if (brush.names !== undefined) clauses.names = someOf(brush.names);
    if (brush.kinds !== undefined) clauses.kinds = someOf(brush.kinds);
    selection.query = writeClauses(clauses);
  }
  return orNothing(selection);
}

/** The parts of a selection that can be taken back one by one. */
export type Part = "window" | "ranks" | "tracks" | "ids" | "names" | "kinds" | "rest";

export function without(selection: SelectionJson | null, part: Part): SelectionJson | null {
  if (selection === null) return null;
  const left: SelectionJson = { ...selection };
  if (part === "window") left.start_ns = left.end_ns = null;
  else if (part === "ranks" || part === "tracks" || part === "ids") left[part] = null;
  else left.query = writeClauses({ ...readClauses(left.query), [part]: null });
  return orNothing(left);
}

/** A click chooses one alone, or clears it if it is; with a key held it is added or taken out. */
export function picked<T>(chosen: readonly T[] | null, one: T, add: boolean): T[] | null {
  const before = chosen ?? [];
  const has = before.includes(one);
  if (!add) return has && before.length === 1 ? null : [one];
  const next = has ? before.filter((other) => other !== one) : [...before, one];
  return next.length === 0 ? null : next;
}

function someOf(values: readonly string[] | null): string[] | null {
  return values === null || values.length === 0 ? null : [...new Set(values)];
}

function orNothing(selection: SelectionJson): SelectionJson | null {
  return Object.values(selection).every((part) => part === null) ? null : selection;
}
