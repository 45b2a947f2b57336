/** Rows of tables in a page: read by column, grouped, converted to frames. */

import { getOrMake } from "../protocol/maps";
import type { PanelFrame, SelectionJson, Value } from "../protocol/source";

/** Tables of a job's files in the page; null if there are too many rows. */
export type Tables = Record<string, PanelFrame | null | undefined>;

export function ints(table: PanelFrame, name: string): readonly number[] {
  return (table.columns[name] ?? []) as readonly number[];
}

export function strings(table: PanelFrame, name: string): readonly string[] {
  return (table.columns[name] ?? []) as readonly string[];
}

/** Results of `read` for each of several names. */
export function eachOf<const Names extends readonly string[], T>(
  names: Names,
  read: (name: string) => T,
): { [Place in keyof Names]: T } {
  return names.map((name) => read(name)) as { [Place in keyof Names]: T };
}

/** Whether an event overlaps a window, as for members of a selection. */
export function overlapping({
  start_ns: from,
  end_ns: to,
}: SelectionJson): (start: number, dur: number) => boolean {
  if (from === null && to === null) return () => true;
  const low = from ?? -Infinity;
  const high = to ?? Infinity;
  if (low === high) return () => false;
  return (start, dur) => start < high && (start + dur > low || start >= low);
}

/** Columns that are filled row by row. */
export class Columns {
  private readonly columns: Record<string, Value[]> = {};
  rows = 0;

  constructor(names: readonly string[]) {
    for (const name of names) this.columns[name] = [];
  }

  add(row: Record<string, Value>): void {
    for (const [name, values] of Object.entries(this.columns)) values.push(row[name] ?? null);
    this.rows += 1;
  }

  frame(attrs: Record<string, unknown> = {}): PanelFrame {
    return { rows: this.rows, columns: this.columns, attrs };
  }
}

/** Values by a key of several parts, in order of first occurrence. */
export class Groups<T> {
  private readonly found = new Map<string, T>();

  constructor(private readonly make: (parts: readonly (string | number)[]) => T) {}

  at(...parts: (string | number)[]): T {
    return getOrMake(this.found, parts.join("\0"), () => this.make(parts));
  }

  get(...parts: (string | number)[]): T | undefined {
    return this.found.get(parts.join("\0"));
  }

  values(): T[] {
    return [...this.found.values()];
  }
}

type Comparison<T> = (a: T, b: T) => number;

/** Sort by several comparisons, the first one first. */
export function ordered<T>(values: readonly T[], ...by: readonly Comparison<T>[]): T[] {
  return [...values].sort((a, b) => {
    for (const compare of by) {
      const found = compare(a, b);
      if (found !== 0) return found;
    }
    return 0;
  });
}

/** Compare strings as Python does. */
export function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Length of the union of spans. */
export function unionLength(spans: readonly (readonly [start: number, end: number])[]): number {
  const sorted = [...spans].sort((a, b) => a[0] - b[0]);
  let total = 0;
  let reached = -Infinity;
  for (const [start, end] of sorted) {
    if (end <= reached) continue;
    total += end - Math.max(start, reached);
    reached = end;
  }
  return total;
}
