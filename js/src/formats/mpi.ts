/** Frames of MPI's panels. */

import { noteFor } from "../facts/notes";
import { readClauses } from "../protocol/selection";
import type { PanelFrame, SelectionJson } from "../protocol/source";
import { byText, Columns, eachOf, Groups, ints, ordered, strings, type Tables } from "./shared";

export const MEASURES = ["calls", "time", "bytes"] as const;
export type Measure = (typeof MEASURES)[number];

// MPI's panels from the page's rows, as in `formats/mpi/frames.py`. Profiles are totals of a run,
// so windows do not apply.

interface Row {
  job: string;
  rank: number;
  key: number;
  routine: string;
  calls: number;
  bytes: number;
  time: number;
  low: number;
  high: number;
  isIo: boolean;
}

/** The chosen rows; for a rank with both a profile and a time line, the profile's. */
function rowsOf(table: PanelFrame, selection: SelectionJson): Row[] {
  const { columns } = table;
  const [rank, key, calls, bytes, time] = eachOf(
    ["rank", "key", "calls", "bytes", "time_s"],
    (name) => ints(table, name),
  );
  const [job, routine, source] = eachOf(["job", "routine", "source"], (name) =>
    strings(table, name),
  );
  const chosen = selection.ranks?.some((one) => key.includes(one)) === true;
  const at = key
    .map((_, row) => row)
    .filter((row) => !chosen || selection.ranks!.includes(key[row]!));
  const told = new Set(
    at.filter((row) => source[row] === "profile").map((row) => `${job[row]}\0${rank[row]}`),
  );
  return at
    .filter((row) => source[row] === "profile" || !told.has(`${job[row]}\0${rank[row]}`))
    .map((row) => ({
      job: job[row]!,
      rank: rank[row]!,
      key: key[row]!,
      routine: routine[row]!,
      calls: calls[row]!,
      bytes: bytes[row]!,
      time: time[row]!,
      low: Number(columns.size_lo?.[row] ?? -1),
      high: Number(columns.size_hi?.[row] ?? -1),
      isIo: columns.is_io?.[row] === true,
    }));
}

const NONE = noteFor("no_mpi");

function noted(table: PanelFrame): Record<string, unknown> {
  const { note } = table.attrs;
  return typeof note === "string" && note !== "" ? { note } : {};
}

export function routines(tables: Tables, selection: SelectionJson): PanelFrame {
  const found = new Columns([
    ...["job", "name", "ranks", "calls", "bytes", "time_s", "is_io", "min_s", "min_rank"],
    ...["max_s", "max_rank", "mean_s", "share_of_time", "mean_us"],
  ]);
  const table = tables.routines;
  if (table === undefined || table === null) return found.frame({ note: NONE });
  const groups = new Groups(([job, name]) => ({
    job: String(job),
    name: String(name),
    isIo: false,
    ...{ ranks: 0, calls: 0, bytes: 0, time: 0 },
    least: null as Row | null,
    most: null as Row | null,
  }));
  const comm = new Map<string, number>();
  for (const row of rowsOf(table, selection)) {
    const group = groups.at(row.job, row.routine);
    group.ranks += 1;
    group.calls += row.calls;
    group.bytes += row.bytes;
    group.time += row.time;
    group.isIo = row.isIo;
    if (group.least === null || row.time < group.least.time) group.least = row;
    if (group.most === null || row.time > group.most.time) group.most = row;
    if (!row.isIo) comm.set(row.job, (comm.get(row.job) ?? 0) + row.time);
  }
  const sorted = ordered(
    groups.values(),
    (a, b) => byText(a.job, b.job),
    (a, b) => b.time - a.time,
    (a, b) => b.calls - a.calls,
    (a, b) => byText(a.name, b.name),
  );
  for (const { job, name, ranks, calls, bytes, time, isIo, least, most } of sorted) {
    const all = comm.get(job) ?? 0;
    found.add({
      ...{ job, name, ranks, calls, bytes, time_s: time, is_io: isIo },
      min_s: least!.time,
      min_rank: least!.rank,
      max_s: most!.time,
      max_rank: most!.rank,
      mean_s: time / ranks,
      share_of_time: isIo || !(all > 0) ? null : time / all,
      mean_us: calls > 0 ? (time * 1e6) / calls : null,
    });
  }
  return found.frame(noted(table));
}

export function sizes(tables: Tables, selection: SelectionJson): PanelFrame {
  const found = new Columns([
    ...["job", "name", "size_lo", "size_hi", "calls", "time_s", "bytes"],
    ...["share_of_calls", "share_of_time", "share_of_bytes", "mean_us"],
  ]);
  const { sizes: table, routines: plain } = tables;
  if (table === undefined || table === null || plain === undefined || plain === null) {
    return found.frame({ note: NONE });
  }
  const groups = new Groups(([job, name, low, high]) => ({
    ...{ job: String(job), name: String(name), low: Number(low), high: Number(high) },
    ...{ calls: 0, time: 0, bytes: 0 },
  }));
  const add = (row: Row): void => {
    const group = groups.at(row.job, row.routine, row.low, row.high);
    group.calls += row.calls;
    group.time += row.time;
    group.bytes += row.bytes;
  };
  const binned = rowsOf(table, selection);
  const known = new Set(binned.map(({ job, routine }) => `${job}\0${routine}`));
  binned.forEach(add);
  for (const row of rowsOf(plain, selection)) {
    if (!known.has(`${row.job}\0${row.routine}`)) add(row);
  }
  const sums = new Groups(() => ({ calls: 0, time: 0, bytes: 0 }));
  for (const one of groups.values()) {
    const sum = sums.at(one.job, one.name);
    sum.calls += one.calls;
    sum.time += one.time;
    sum.bytes += one.bytes;
  }
  const { names } = readClauses(selection.query);
  const asked = groups.values().some(({ name }) => names?.includes(name) === true);
  const sorted = ordered(
    groups.values().filter(({ name }) => !asked || names!.includes(name)),
    (a, b) => byText(a.job, b.job),
    (a, b) => sums.at(b.job, b.name).time - sums.at(a.job, a.name).time,
    (a, b) => byText(a.name, b.name),
    (a, b) => a.low - b.low,
  );
  const share = (part: number, whole: number): number | null => (whole > 0 ? part / whole : null);
  for (const { job, name, low, high, calls, time, bytes } of sorted) {
    const sum = sums.at(job, name);
    found.add({
      ...{ job, name, size_lo: low, size_hi: high, calls, time_s: time, bytes },
      share_of_calls: share(calls, sum.calls),
      share_of_time: share(time, sum.time),
      share_of_bytes: share(bytes, sum.bytes),
      mean_us: calls > 0 ? (time * 1e6) / calls : null,
    });
  }
  return found.frame(noted(table));
}

/** Frames that no selection narrows. */
export function whole(tables: Tables, id: string): PanelFrame {
  return tables[id] ?? { rows: 0, columns: {}, attrs: { note: NONE } };
}
