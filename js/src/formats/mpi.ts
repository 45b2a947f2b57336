/**
 * Frames of the MPI panels from tables in the page, as in `formats/mpi/frames.py`. Profiles are
 * totals over a run, so windows do not apply.
 */

import { makeFrame } from "../engine/frames";
import { compareCodePoints } from "../engine/panel_names";
import { noteFor } from "../facts/notes";
import { parseClauses } from "../protocol/selection";
import type { PanelFrame, SelectionJson } from "../protocol/source";
import { columnsOfRows, groupBy, tableNote, rowsOf, sumBy, type ColumnTables } from "./shared";

export const MEASURES = ["calls", "time", "bytes"] as const;

const NO_MPI_NOTE = noteFor("no_mpi");

interface RoutineRow {
  job: string;
  rank: number;
  key: number;
  source: string;
  routine: string;
  calls: number;
  bytes: number;
  time_s: number;
  is_io?: boolean;
  size_lo?: number;
  size_hi?: number;
}

/** Return the selected rows. A rank's profile takes precedence over its timeline. */
function selectedRows(table: ColumnTables[string], { ranks }: SelectionJson): RoutineRow[] {
  const allRows = rowsOf(table) as readonly RoutineRow[];
  const keyRows = allRows.filter(({ key }) => ranks?.includes(key) === true);
  const selected = keyRows.length > 0 ? keyRows : allRows;
  const place = ({ job, rank }: RoutineRow): string => `${job}\0${rank}`;
  const profiled = new Set(selected.filter(({ source }) => source === "profile").map(place));
  return selected.filter((row) => row.source === "profile" || !profiled.has(place(row)));
}

const byRoutine = ({ job, routine }: Pick<RoutineRow, "job" | "routine">): string =>
  `${job}\0${routine}`;

function ratio(part: number, total: number): number | null {
  return total > 0 ? part / total : null;
}

export function routinesFrame(tables: ColumnTables, selection: SelectionJson): PanelFrame {
  const rows = selectedRows(tables.routines, selection);
  const jobTimes = new Map<string, number>();
  for (const { job, is_io, time_s } of rows) {
    if (is_io !== true) jobTimes.set(job, (jobTimes.get(job) ?? 0) + time_s);
  }
  const routineTotals = groupBy(rows, byRoutine).map((group) =>
    routineTotal(group, jobTimes.get(group[0]!.job) ?? 0),
  );
  routineTotals.sort(
    (a, b) =>
      compareCodePoints(a.job, b.job) ||
      b.time_s - a.time_s ||
      b.calls - a.calls ||
      compareCodePoints(a.name, b.name),
  );
  const columns = columnsOfRows(
    routineTotals,
    "job name ranks calls bytes time_s is_io min_s min_rank max_s max_rank mean_s share_of_time mean_us",
  );
  return makeFrame(columns, {}, tableNote(tables.routines, NO_MPI_NOTE));
}

/** Sum a routine's rows, one per rank. `jobTime` is the job's time in communication. */
function routineTotal(ranks: readonly RoutineRow[], jobTime: number) {
  const { job, routine: name, is_io } = ranks[0]!;
  const fastest = ranks.reduce((extreme, row) => (row.time_s < extreme.time_s ? row : extreme));
  const slowest = ranks.reduce((extreme, row) => (row.time_s > extreme.time_s ? row : extreme));
  const [calls, time_s] = [sumBy(ranks, "calls"), sumBy(ranks, "time_s")];
  return {
    job,
    name,
    ranks: ranks.length,
    calls,
    bytes: sumBy(ranks, "bytes"),
    time_s,
    is_io: is_io === true,
    min_s: fastest.time_s,
    min_rank: fastest.rank,
    max_s: slowest.time_s,
    max_rank: slowest.rank,
    mean_s: time_s / ranks.length,
    share_of_time: is_io === true ? null : ratio(time_s, jobTime),
    mean_us: ratio(time_s * 1e6, calls),
  };
}

/** Return the rows by size, and other routines' totals; all if no name in them is selected. */
function sizedRows(tables: ColumnTables, selection: SelectionJson): RoutineRow[] {
  const binned = selectedRows(tables.sizes, selection);
  const binnedRoutines = new Set(binned.map(byRoutine));
  const totals = selectedRows(tables.routines, selection);
  const rows = [...binned, ...totals.filter((row) => !binnedRoutines.has(byRoutine(row)))];
  const { names } = parseClauses(selection.query);
  const selected = rows.filter(({ routine }) => names?.includes(routine) === true);
  return selected.length > 0 ? selected : rows;
}

export function sizesFrame(tables: ColumnTables, selection: SelectionJson): PanelFrame {
  const routinesBySize = groupBy(sizedRows(tables, selection), byRoutine).map((rows) => {
    const sizeOf = ({ size_lo = -1, size_hi = -1 }: RoutineRow): string => `${size_lo} ${size_hi}`;
    const sums = groupBy(rows, sizeOf).map(totalsOf);
    return { sums: sums.sort((a, b) => a.size_lo - b.size_lo), total: totalsOf(sums) };
  });
  routinesBySize.sort(
    ({ total: a }, { total: b }) =>
      compareCodePoints(a.job, b.job) ||
      b.time_s - a.time_s ||
      compareCodePoints(a.routine, b.routine),
  );
  const cells = routinesBySize.flatMap(({ sums, total }) =>
    sums.map(({ routine, ...sum }) => ({
      ...sum,
      name: routine,
      share_of_calls: ratio(sum.calls, total.calls),
      share_of_time: ratio(sum.time_s, total.time_s),
      share_of_bytes: ratio(sum.bytes, total.bytes),
      mean_us: ratio(sum.time_s * 1e6, sum.calls),
    })),
  );
  const columns = columnsOfRows(
    cells,
    "job name size_lo size_hi calls time_s bytes share_of_calls share_of_time share_of_bytes mean_us",
  );
  return makeFrame(columns, {}, tableNote(tables.sizes, NO_MPI_NOTE));
}

function totalsOf(rows: readonly Omit<RoutineRow, "rank" | "key" | "source">[]) {
  const { job, routine, size_lo = -1, size_hi = -1 } = rows[0]!;
  return {
    job,
    routine,
    size_lo,
    size_hi,
    calls: sumBy(rows, "calls"),
    time_s: sumBy(rows, "time_s"),
    bytes: sumBy(rows, "bytes"),
  };
}
