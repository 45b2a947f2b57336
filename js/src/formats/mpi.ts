/**
 * Frames of the MPI panels from tables in the page, as in `formats/mpi/frames.py`. Profiles are
 * totals over a run, so windows do not apply to them.
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

/** Return the selected rows. A rank's profile takes precedence over its time line. */
function selectedRows(table: ColumnTables[string], { ranks }: SelectionJson): RoutineRow[] {
  const allRows = rowsOf(table) as readonly RoutineRow[];
  const keyRows = allRows.filter(({ key }) => ranks?.includes(key) === true);
  const selected = keyRows.length > 0 ? keyRows : allRows;
  const place = ({ job, rank }: RoutineRow): string => `${job}\0${rank}`;
  const profiled = new Set(selected.filter(({ source }) => source === "profile").map(place));
  return selected.filter((row) => row.source === "profile" || !profiled.has(place(row)));
}

function ratio(part: number, total: number): number | null {
  return total > 0 ? part / total : null;
}

export function routinesFrame(tables: ColumnTables, selection: SelectionJson): PanelFrame {
  const rows = selectedRows(tables.routines, selection);
  const communication = rows.filter((row) => row.is_io !== true);
  const timeOfJobs = new Map(
    groupBy(communication, ({ job }) => job).map((group) => [
      group[0]!.job,
      sumBy(group, "time_s"),
    ]),
  );
  const routineTotals = groupBy(rows, ({ job, routine }) => `${job}\0${routine}`).map((group) => {
    const { job, routine, is_io } = group[0]!;
    const fastest = group.reduce((extreme, row) => (row.time_s < extreme.time_s ? row : extreme));
    const slowest = group.reduce((extreme, row) => (row.time_s > extreme.time_s ? row : extreme));
    const [calls, time] = [sumBy(group, "calls"), sumBy(group, "time_s")];
    return {
      job,
      name: routine,
      ranks: group.length,
      calls,
      bytes: sumBy(group, "bytes"),
      time_s: time,
      is_io: is_io === true,
      min_s: fastest.time_s,
      min_rank: fastest.rank,
      max_s: slowest.time_s,
      max_rank: slowest.rank,
      mean_s: time / group.length,
      share_of_time: is_io === true ? null : ratio(time, timeOfJobs.get(job) ?? 0),
      mean_us: ratio(time * 1e6, calls),
    };
  });
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

export function sizesFrame(tables: ColumnTables, selection: SelectionJson): PanelFrame {
  const binned = selectedRows(tables.sizes, selection);
  const byRoutine = ({ job, routine }: RoutineRow): string => `${job}\0${routine}`;
  const binnedRoutines = new Set(binned.map(byRoutine));
  const rows = [
    ...binned,
    ...selectedRows(tables.routines, selection).filter(
      (row) => !binnedRoutines.has(byRoutine(row)),
    ),
  ];
  const { names } = parseClauses(selection.query);
  const requested = rows.some(({ routine }) => names?.includes(routine) === true);
  const routinesBySize = groupBy(
    rows.filter(({ routine }) => !requested || names!.includes(routine)),
    byRoutine,
  ).map((ofRoutine) => {
    const sums = groupBy(
      ofRoutine,
      ({ size_lo = -1, size_hi = -1 }) => `${size_lo} ${size_hi}`,
    ).map(totalsOf);
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
