/** Frames and chart contents of MPI's panels. */

import { type Inside, numbers, type RowsContent, texts } from "../charts/content";
import { readClauses } from "../protocol/selection";
import type { PanelFrame, SelectionJson } from "../protocol/source";
import { formatBytes, formatCount, formatDuration, formatShare } from "../ui/formats";
import { noteOf, sentences } from "../ui/text";
import type { Theme } from "../ui/theme";
import {
  byText,
  Columns,
  columnsOf,
  eachOf,
  Groups,
  ints,
  ordered,
  shade,
  stack,
  strings,
  type Tables,
  textOn,
  timeAxis,
} from "./shared";

/** Smaller shares are told by their shade. */
const LEAST_TOLD = 0.01;

const seconds = (value: number): string => formatDuration(value * 1e9);

export function ranksChart(frame: PanelFrame): RowsContent | string {
  const column = (name: string): number[] => numbers(frame, name);
  const jobs = texts(frame, "job");
  const hosts = texts(frame, "host");
  const keys = texts(frame, "keys");
  const flags = frame.columns.is_straggler ?? [];
  const [rank, comm, other, elapsed, share] = eachOf(
    ["rank", "comm_s", "noncomm_s", "elapsed_s", "comm_share"],
    column,
  );
  const byHost = new Map<string, { sum: number; count: number }>();
  const known = rank
    .map((_, row) => row)
    .filter((row) => Number.isFinite(comm[row]) && Number.isFinite(elapsed[row]));
  if (known.length === 0) return noteOf(frame) || "nothing to draw";
  const place = (row: number): string => `${jobs[row]}\0${hosts[row]}`;
  for (const row of known) {
    const host = byHost.get(place(row)) ?? { sum: 0, count: 0 };
    host.sum += share[row]!;
    host.count += 1;
    byHost.set(place(row), host);
  }
  const hostMean = (row: number): number => {
    const host = byHost.get(place(row))!;
    return host.sum / host.count;
  };
  const text = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
  const at = ordered(
    known,
    (a, b) => text(jobs[a]!, jobs[b]!),
    (a, b) => hostMean(b) - hostMean(a),
    (a, b) => text(hosts[a]!, hosts[b]!),
    (a, b) => share[b]! - share[a]!,
    (a, b) => rank[a]! - rank[b]!,
  );
  const pick = (values: readonly number[]): number[] => at.map((row) => values[row]!);
  const late = at.map((row) => flags[row] === true);
  const severalJobs = new Set(at.map((row) => jobs[row])).size > 1;
  const severalHosts = [...new Set(jobs)].some(
    (job) => new Set(at.filter((row) => jobs[row] === job).map((row) => hosts[row])).size > 1,
  );
  const compute = pick(other).map((s) => s * 1e9);
  const waits = pick(comm).map((s) => s * 1e9);
  const { data, legend, ends } = stack(at.length, [
    { ink: "compute", words: "outside of MPI", values: compute },
    {
      ink: "communication",
      words: "in MPI",
      values: waits.map((ns, row) => (late[row] ? 0 : ns)),
    },
    {
      ink: "late",
      words: "in MPI: waited for",
      values: waits.map((ns, row) => (late[row] ? ns : 0)),
    },
  ]);
  const said = at
    .flatMap((row, place_) => {
      if (!late[place_]) return [];
      const others = at.filter((one) => jobs[one] === jobs[row]).length - 1;
      return [`rank ${rank[row]} has the least time in MPI: the other ${others} wait for it`];
    })
    .join("; ");
  const most = Math.max(...ends);
  const name = (row: number): string =>
    [severalJobs ? jobs[row]! : "", severalHosts ? hosts[row]! : "", `rank ${rank[row]}`]
      .filter((part) => part !== "")
      .join(" · ");
  return {
    title: "Time in MPI, by rank",
    subtitle: sentences("elapsed time; outside of MPI is at most what was computed", said),
    finding: said || "no rank stands out",
    names: at.map(name),
    keys: at.map((row) => (keys[row] === "" ? [] : keys[row]!.split(",").map(Number))),
    late: new Set(late.flatMap((is, row) => (is ? [row] : []))),
    data,
    legend,
    ...timeAxis(most, 1.01),
    head: "",
    columns: [
      { head: "in MPI", texts: pick(share).map(formatShare) },
      { head: "elapsed", texts: pick(elapsed).map(seconds), least: 420 },
    ],
    tip: (row) => ({
      heading: `rank ${rank[at[row]!]} · ${hosts[at[row]!] || "host unknown"}`,
      lines: [
        ["outside of MPI", formatDuration(compute[row]!)],
        ["in MPI", `${formatDuration(waits[row]!)} · ${formatShare(share[at[row]!]!)}`],
        ["elapsed", seconds(elapsed[at[row]!]!)],
      ],
    }),
  };
}

export const MEASURES = ["calls", "time", "bytes"] as const;
export type Measure = (typeof MEASURES)[number];

const WORDS: Record<Measure, (value: number) => string> = {
  calls: formatCount,
  time: seconds,
  bytes: formatBytes,
};

/** `64 KiB`: bounds of bins are powers of two. */
function sizeLabel(high: number): string {
  if (high < 0) return "none";
  for (const [unit, scale] of [
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
    ["KiB", 2 ** 10],
  ] as const) {
    if (high >= scale) return `${Math.floor(high / scale)}\u2009${unit}`;
  }
  return `${high}\u2009B`;
}

export function sizeWords(low: number, high: number): string {
  if (high < 0) return "no size";
  const [from, to] = [sizeLabel(low), sizeLabel(high)];
  const [least, unit] = from.split("\u2009") as [string, string];
  return from === to ? to : to.endsWith(unit) ? `${least}–${to}` : `${from}–${to}`;
}

export function sizesChart(frame: PanelFrame, theme: Theme): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const measure = (frame.attrs.measure ?? "calls") as Measure;
  const jobs = texts(frame, "job");
  const routines = texts(frame, "name");
  const [low, high, calls, time, bytes, ofCalls, ofTime, ofBytes] = eachOf(
    [
      "size_lo",
      "size_hi",
      "calls",
      "time_s",
      "bytes",
      "share_of_calls",
      "share_of_time",
      "share_of_bytes",
    ],
    (name) => numbers(frame, name),
  );
  const values = { calls, time, bytes }[measure];
  const total = values.reduce((sum, value) => sum + value, 0);
  const ofJob = new Map<string, number>();
  values.forEach((value, at) => ofJob.set(jobs[at]!, (ofJob.get(jobs[at]!) ?? 0) + value));
  const several = new Set(jobs).size > 1;
  const names = routines.map((name, row) => (several ? `${jobs[row]} · ${name}` : name));
  const rows = [...new Set(names)];
  const highs = [...new Set(high)].sort((a, b) => a - b);
  const part = values.map((value, at) => value / (ofJob.get(jobs[at]!) || 1));
  const most = Math.max(...part);
  const busy = theme.name === "light" ? BUSY_LIGHT : BUSY_DARK;
  const fill = part.map((share) => (share > 0 ? shade(busy, share / (most || 1)) : theme.lane));
  const row = names.map((name) => rows.indexOf(name));
  const left = high.map((one) => highs.indexOf(one) + 0.04);
  const inside: Inside[] = part.flatMap((share, at) =>
    share < LEAST_TOLD
      ? []
      : [
          {
            row: row[at]!,
            left: left[at]!,
            right: left[at]! + 0.92,
            text: formatShare(share),
            color: textOn(fill[at]!),
          },
        ],
  );
  const sums = rows.map((name) =>
    values.reduce((sum, value, at) => (names[at] === name ? sum + value : sum), 0),
  );
  const first = part.indexOf(most);
  const finding =
    total > 0
      ? `${formatShare(most)} are ${names[first]} of ${sizeWords(low[first]!, high[first]!)}`
      : "";
  const tip = (at: number) => ({
    heading: `${names[at]} · ${sizeWords(low[at]!, high[at]!)}`,
    lines: [
      ["calls", `${formatCount(calls[at]!)} · ${formatShare(ofCalls[at]!)} of the routine's`],
      ["time", `${seconds(time[at]!)} · ${formatShare(ofTime[at]!)}`],
      ["bytes", `${formatBytes(bytes[at]!)} · ${formatShare(ofBytes[at]!)}`],
    ] as [string, string][],
  });
  const cellAt = (x: number, y: number): number =>
    row.findIndex((one, at) => one === y && highs.indexOf(high[at]!) === Math.floor(x));
  return {
    title: `Message sizes, by ${measure}`,
    subtitle: sentences(
      `${measure} by routine and size of one message, all ranks with tables together`,
      several ? "shares are of each job's own" : "",
      finding,
      noteOf(frame),
    ),
    finding,
    names: rows,
    keys: rows.map((name) => [routines[names.indexOf(name)]!]),
    data: columnsOf(row, {
      left_cell: left,
      right_cell: left.map((at) => at + 0.92),
      fill,
    }),
    inside,
    xStart: 0,
    xEnd: highs.length,
    ticks: highs.map((one, at): [number, string] => [at + 0.5, sizeLabel(one)]),
    head: "",
    columns: [{ head: "total", texts: sums.map(WORDS[measure]) }],
    tip: (at, x) => {
      const cell = cellAt(x, at);
      return cell < 0
        ? { heading: rows[at]!, lines: [["total", WORDS[measure](sums[at]!)]] }
        : tip(cell);
    },
  };
}

const BUSY_LIGHT = ["#e4eef8", "#94c0e4", "#4f97d0", "#1f6fb2", "#0d4a80", "#062b50"];
const BUSY_DARK = ["#1a2f47", "#1f5b95", "#3580cc", "#62a6ee", "#9ccafa", "#d9ecff"];

// * MPI's panels from the rows that the page holds: what `formats/mpi/mpi_frames.py` makes of the
// analyses. Profiles are totals of a run, so windows do not apply.

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

/** The chosen rows; of a rank that has a profile and a time line both, those of the profile. */
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

const NONE = "no MPI profiles or time lines are loaded or selected";

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
