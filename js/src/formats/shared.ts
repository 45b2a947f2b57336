/** Read and group the rows of tables in a page, and convert them to columns. */

import type { FrameColumns } from "../engine/frames";
import { IntervalUnion, overlaps } from "../engine/spans";
import { getOrMake } from "../protocol/maps";
import type { PanelFrame, SelectionJson, CellValue } from "../protocol/source";

/** Tables from the job's files; null if a table has too many rows for the page. */
export type ColumnTables = Record<string, PanelFrame | null | undefined>;

const rowsOfFrame = new WeakMap<PanelFrame, unknown[]>();

/** Return a table's rows as objects, created once; none if the table is missing. */
export function rowsOf(table: ColumnTables[string]): readonly unknown[] {
  if (table === null || table === undefined) return [];
  return getOrMake(rowsOfFrame, table, () => {
    const columns = Object.entries(table.columns);
    return Array.from({ length: table.rows }, (_, index) => {
      const row: Record<string, CellValue> = {};
      for (const [name, values] of columns) row[name] = values[index]!;
      return row;
    });
  });
}

/** Return a table's note, or `missing` if the job has no such table. */
export function tableNote(table: ColumnTables[string], missing: string): string {
  if (table === null || table === undefined) return missing;
  const { note } = table.attrs;
  return typeof note === "string" ? note : "";
}

/** Return columns with these fields of the rows. `names` is a space-separated list. */
export function columnsOfRows(
  rows: readonly Readonly<Record<string, CellValue>>[],
  names: string,
): FrameColumns {
  return Object.fromEntries(names.split(" ").map((name) => [name, rows.map((row) => row[name]!)]));
}

export function sumBy<Name extends string>(
  rows: readonly Readonly<Record<Name, number>>[],
  name: Name,
): number {
  return rows.reduce((sum, row) => sum + row[name], 0);
}

/** Group rows with equal keys, in order of first occurrence. */
export function groupBy<Row>(rows: readonly Row[], keyOf: (row: Row) => string | number): Row[][] {
  const groups = new Map<string | number, Row[]>();
  for (const row of rows) getOrMake(groups, keyOf(row), () => []).push(row);
  return [...groups.values()];
}

/** Return a test for whether an event overlaps the window of a selection. */
export function overlapTest({
  start_ns: from,
  end_ns: to,
}: SelectionJson): (start: number, dur: number) => boolean {
  if (from === null && to === null) return () => true;
  const low = from ?? -Infinity;
  const high = to ?? Infinity;
  if (low === high) return () => false;
  return (start, dur) => start < high && overlaps(start, start + dur, low);
}

export function unionLength(spans: readonly (readonly [start: number, end: number])[]): number {
  const sorted = [...spans].sort((a, b) => a[0] - b[0]);
  const starts = Float64Array.from(sorted, ([start]) => start);
  const ends = Float64Array.from(sorted, ([, end]) => end);
  return IntervalUnion.of(starts, ends).prefix.at(-1)!;
}
