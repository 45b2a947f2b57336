/**
 * Frames of MPI's panels from the tables in the page, as in `formats/mpi/frames.py`. Profiles are
 * totals of a run, so windows do not apply.
 */

import { frameOf } from "../engine/frames";
import { byCodePoints } from "../engine/panel_names";
import { noteFor } from "../facts/notes";
import { readClauses } from "../protocol/selection";
import type { PanelFrame, SelectionJson } from "../protocol/source";
import { fieldsOf, grouped, noteOf, rowsOf, sumOf, type Tables } from "./shared";

export const MEASURES = ["calls", "time", "bytes"] as const;
export type Measure = (typeof MEASURES)[number];

const NONE = noteFor("no_mpi");

/** A routine of a rank, or one of its message sizes. */
interface Row {
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

/** The chosen rows; for a rank with both a profile and a time line, the profile's. */
function chosenRows(table: Tables[string], { ranks }: SelectionJson): Row[] {
  const all = rowsOf(table) as readonly Row[];
  const own = all.filter(({ key }) => ranks?.includes(key) === true);
  const chosen = own.length > 0 ? own : all;
  const place = ({ job, rank }: Row): string => `${job}\0${rank}`;
  const profiled = new Set(chosen.filter(({ source }) => source === "profile").map(place));
  return chosen.filter((row) => row.source === "profile" || !profiled.has(place(row)));
}

function ratio(part: number, whole: number): number | null {
  return whole > 0 ? part / whole : null;
}

export function routines(tables: Tables, selection: SelectionJson): PanelFrame {
  const rows = chosenRows(tables.routines, selection);
  const communication = rows.filter((row) => row.is_io !== true);
  const timeOfJobs = new Map(
    grouped(communication, ({ job }) => job).map((group) => [
      group[0]!.job,
      sumOf(group, "time_s"),
    ]),
  );
  const found = grouped(rows, ({ job, routine }) => `${job}\0${routine}`).map((group) => {
    const { job, routine, is_io } = group[0]!;
    const least = group.reduce((one, other) => (other.time_s < one.time_s ? other : one));
    const most = group.reduce((one, other) => (other.time_s > one.time_s ? other : one));
    const [calls, time] = [sumOf(group, "calls"), sumOf(group, "time_s")];
    return {
      ...{ job, name: routine, ranks: group.length, calls, bytes: sumOf(group, "bytes") },
      ...{ time_s: time, is_io: is_io === true },
      ...{ min_s: least.time_s, min_rank: least.rank, max_s: most.time_s, max_rank: most.rank },
      mean_s: time / group.length,
      share_of_time: is_io === true ? null : ratio(time, timeOfJobs.get(job) ?? 0),
      mean_us: ratio(time * 1e6, calls),
    };
  });
  found.sort(
    (a, b) =>
      byCodePoints(a.job, b.job) ||
      b.time_s - a.time_s ||
      b.calls - a.calls ||
      byCodePoints(a.name, b.name),
  );
  const columns = fieldsOf(
    found,
    "job name ranks calls bytes time_s is_io min_s min_rank max_s max_rank mean_s share_of_time mean_us",
  );
  return frameOf(columns, {}, noteOf(tables.routines, NONE));
}

export function sizes(tables: Tables, selection: SelectionJson): PanelFrame {
  const binned = chosenRows(tables.sizes, selection);
  const byRoutine = ({ job, routine }: Row): string => `${job}\0${routine}`;
  const known = new Set(binned.map(byRoutine));
  const rows = [
    ...binned,
    ...chosenRows(tables.routines, selection).filter((row) => !known.has(byRoutine(row))),
  ];
  const { names } = readClauses(selection.query);
  const asked = rows.some(({ routine }) => names?.includes(routine) === true);
  const routinesBySize = grouped(
    rows.filter(({ routine }) => !asked || names!.includes(routine)),
    byRoutine,
  ).map((own) => {
    const sums = grouped(own, ({ size_lo = -1, size_hi = -1 }) => `${size_lo} ${size_hi}`).map(
      totalsOf,
    );
    return { sums: sums.sort((a, b) => a.size_lo - b.size_lo), whole: totalsOf(sums) };
  });
  routinesBySize.sort(
    ({ whole: a }, { whole: b }) =>
      byCodePoints(a.job, b.job) || b.time_s - a.time_s || byCodePoints(a.routine, b.routine),
  );
  const found = routinesBySize.flatMap(({ sums, whole }) =>
    sums.map(({ routine, ...sum }) => ({
      ...sum,
      name: routine,
      share_of_calls: ratio(sum.calls, whole.calls),
      share_of_time: ratio(sum.time_s, whole.time_s),
      share_of_bytes: ratio(sum.bytes, whole.bytes),
      mean_us: ratio(sum.time_s * 1e6, sum.calls),
    })),
  );
  const columns = fieldsOf(
    found,
    "job name size_lo size_hi calls time_s bytes share_of_calls share_of_time share_of_bytes mean_us",
  );
  return frameOf(columns, {}, noteOf(tables.sizes, NONE));
}

/** Totals of rows of one routine and size. */
function totalsOf(rows: readonly Omit<Row, "rank" | "key" | "source">[]) {
  const { job, routine, size_lo = -1, size_hi = -1 } = rows[0]!;
  const [calls, time_s, bytes] = [
    sumOf(rows, "calls"),
    sumOf(rows, "time_s"),
    sumOf(rows, "bytes"),
  ];
  return { job, routine, size_lo, size_hi, calls, time_s, bytes };
}

/** Frames that no selection narrows. */
export function whole(tables: Tables, id: string): PanelFrame {
  return tables[id] ?? frameOf({}, {}, NONE);
}
