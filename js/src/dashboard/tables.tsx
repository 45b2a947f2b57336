/** Columns and cells of the dashboard's tables. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { lateRanks } from "../charts/content";
import { CONSISTENT_SHARE } from "../formats/byteps";
import { picked } from "../protocol/selection";
import type { Chosen, Kind, PanelFrame, Value } from "../protocol/source";
import { Swatch } from "../ui/controls";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatShare,
  formatSizeRange,
} from "../ui/formats";
import {
  BarCell,
  type Column,
  counted,
  Filter,
  lasted,
  NameButton,
  numberOf,
  Table,
} from "../ui/table";
import { leftOutWords, listed, noteOf, prefixed, sentences, toldApart } from "../ui/text";
import type { Context } from "./context";

type Row = (column: string) => Value;
type ColumnLook = Column<Row>;

interface TableLook {
  /** The noun for rows, if not names. */
  rows?: string;
  title: string;
  /** Description; `ranks`: the chosen ranks, to which the numbers refer; null for all. */
  about(frame: PanelFrame, ranks: readonly number[] | null): string;
  columns(frame: PanelFrame): readonly ColumnLook[];
  /** Text after the number of names that the frame leaves out. */
  foot?(frame: PanelFrame): string;
  /** Whether rows stand for files of ranks, which a click selects, instead of for names of events. */
  ofRanks?: boolean;
}

/** The frame of a panel, and the selection to mark in it. */
export interface Numbers {
  frame: PanelFrame;
  chosen: Chosen;
}

/** Autograd's prefix, which would fill the column and does not identify the operator. */
const EVALUATES = /^autograd::engine::evaluate_function: /;

/** A table of names: a click chooses the name, a click with Ctrl adds it to the choice. */
export function NameTable({
  ctx,
  id,
  look,
  room,
  frame,
  chosen,
}: Numbers & { ctx: Context; id: string; look: TableLook; room: number }) {
  const filter = useSignal("");
  const rows = useMemo(() => rowsOf(frame), [frame]);
  // If only names of another table are chosen, no row of this table is faint.
  const isOn = (row: Row): boolean => chosen.names?.includes(String(row("name"))) ?? false;
  return (
    <div class="hta-name-table">
      <header class="hta-pane-head">
        <h3>{look.title}</h3>
        <Filter name={`Filter ${look.title}`} set={(text) => (filter.value = text)} />
      </header>
      <p class="hta-about">{sentences(look.about(frame, chosen.ranks), leftOutWords(frame))}</p>
      <Table
        name={look.title}
        columns={look.columns(frame)}
        rows={rows}
        value={(row, by) => row(by)}
        filter={filter.value}
        namesOf={(row) => [String(row("name")), String(row("short") ?? "")]}
        isOn={isOn}
        isFaint={rows.some(isOn)}
        press={(row, add) => {
          const names = picked(chosen.names, String(row("name")), add);
          ctx.choosing.brush(id, look.ofRanks ? { ranks: ranksOf(frame, names) } : { names });
        }}
        noun={look.rows}
        room={room}
        foot={(drawn) => footWords(look, frame, drawn)}
      />
    </div>
  );
}

/** Text on the names that the frame leaves out, below its last row. */
function footWords(look: TableLook, frame: PanelFrame, drawn: number): string {
  const left = Number(frame.attrs.total ?? frame.rows) - frame.rows;
  if (look.foot === undefined || left <= 0 || drawn < frame.rows) return "";
  return `${formatCount(left)} ${look.foot(frame)}.`;
}

/** Rows; short names of different names are made different. */
function rowsOf({ columns }: PanelFrame): Row[] {
  const names = (columns.name ?? []).map(String);
  const short = (columns.short ?? names).map((one) => String(one).replace(EVALUATES, "evaluate "));
  const labels = toldApart(short, names);
  return names.map((_, row) => (by) => (by === "short" ? labels[row] : columns[by]?.[row]) ?? null);
}

/** A rank stands out if its mean differs by more than this. */
const ODD_FROM = 0.05;
/** Min calls per rank to report a slow rank: fewer may differ in shape, or be cut by the window. */
const TELLING_CALLS = 5;

/** Whether a column has a value other than zero and null. */
function isAny({ columns }: PanelFrame, by: string): boolean {
  return columns[by]?.some((value) => value !== null && value !== 0) ?? false;
}

/** A column of names, which a click chooses; in tooltips they are written as `hover`. */
const named = (look: {
  title: string;
  hint?: string;
  width: string;
  words(row: Row): string;
  hover?(row: Row): string;
  kind?(row: Row): Kind;
}): ColumnLook => ({
  by: "name",
  title: look.title,
  hint: look.hint ?? `By ${look.title}`,
  width: look.width,
  cell: (row, _, on) => (
    <>
      {look.kind && <Swatch kind={look.kind(row)} />}
      <NameButton
        text={look.words(row)}
        title={`${(look.hover ?? look.words)(row)}\nClick selects, Ctrl adds`}
        on={on}
      />
    </>
  ),
});

/** Names of kernels and operators. */
const NAMES = {
  hint: "By name",
  words: (row: Row) => String(row("short") ?? row("name")),
  hover: (row: Row) => String(row("name")),
};

const nothing = <span class="hta-note">–</span>;

/** A column of numbers with bars. */
const barred = (
  by: string,
  title: string,
  hint: string,
  words: (value: Value) => string,
  { kind = () => "communication", wait = "" }: { kind?(row: Row): string; wait?: string } = {},
): ColumnLook => ({
  by,
  title,
  hint,
  width: "minmax(96px, 1fr)",
  cell: (row, most) => (
    <BarCell
      value={numberOf(row(by))}
      most={most}
      kind={kind(row)}
      text={words(row(by))}
      wait={numberOf(row(wait)) ?? 0}
    />
  ),
});

/** A column of the numbers `by`, shown from a width on. */
const number = (
  by: string,
  title: string,
  hint: string,
  words: (value: Value) => string,
  from?: number,
): ColumnLook => ({
  by,
  title,
  hint,
  isNumber: true,
  ...(from !== undefined && { from }),
  cell: (row) => words(row(by)),
});

const duration = (by: string, title: string, hint: string, from?: number): ColumnLook =>
  number(by, title, hint, lasted, from);

const count = (from?: number): ColumnLook =>
  number("count", "count", "How often it ran, on all ranks", counted, from);

/** The rank that stands out, if it is the same in all rows that have one; otherwise null. */
function oddRank(frame: PanelFrame): number | null {
  const { odd_rank: ranks = [], odd_ratio: ratios = [] } = frame.columns;
  const found = new Set(
    ranks.filter((rank, at) => rank !== null && Math.abs(Number(ratios[at]) - 1) > ODD_FROM),
  );
  const [only] = found;
  return found.size === 1 && typeof only === "number" ? only : null;
}

function OddCell({ row, frame }: { row: Row; frame: PanelFrame }) {
  const rank = numberOf(row("odd_rank"));
  const ratio = numberOf(row("odd_ratio"));
  if (rank === null || ratio === null) return nothing;
  const text = `×${ratio.toFixed(2)}`;
  const calls = (numberOf(row("count")) ?? 0) / Math.max(numberOf(row("ranks")) ?? 1, 1);
  const few = calls < TELLING_CALLS;
  const title =
    `Rank ${rank}: mean ${text} that of the median rank` +
    (few ? `; ${calls.toFixed(calls % 1 === 0 ? 0 : 1)} calls a rank are too few to tell` : "");
  const slow = ratio > 1 + ODD_FROM && !few;
  const isLate = lateRanks(frame).includes(rank);
  return (
    <span class={slow ? (isLate ? "hta-late-text" : "hta-odd-text") : "hta-note"} title={title}>
      {rank !== oddRank(frame) && <small>{`rank ${rank} `}</small>}
      {text}
    </span>
  );
}

/** The last column, on the rank that stands out; no column if no row has such a rank. */
function oddColumn(frame: PanelFrame): ColumnLook[] {
  if (!isAny(frame, "odd_ratio")) return [];
  const rank = oddRank(frame);
  return [
    {
      by: "odd_ratio",
      title: rank === null ? "odd rank" : `rank ${rank}`,
      hint: "The rank whose mean is farthest from the median rank's",
      isNumber: true,
      cell: (row) => <OddCell row={row} frame={frame} />,
    },
  ];
}

const kindOf = (row: Row): Kind => row("kind") as Kind;

const KERNELS: TableLook = {
  title: "Top kernels",
  about: (frame, ranks) => {
    const waits = isAny(frame, "wait_ns") ? "; hatched: waiting" : "";
    return `GPU time by name${ofRanks(", ", frame, ranks)}${waits}${oddWords(frame)}`;
  },
  columns: (frame) => [
    named({ ...NAMES, title: "kernel", width: "minmax(0, 1.6fr)", kind: kindOf }),
    barred("sum_ns", "total", "Sum over all calls and ranks", lasted, {
      kind: kindOf,
      wait: "wait_ns",
    }),
    count(400),
    duration("mean_ns", "mean", "Mean of a call", 440),
    duration("min_ns", "min", "Shortest call", 640),
    duration("max_ns", "max", "Longest call", 640),
    ...oddColumn(frame),
  ],
  foot: (frame) => {
    const rest = numberOf((frame.attrs.rest_ns ?? null) as Value);
    return `names are left out${rest === null ? "" : `: ${formatDuration(rest)}`}`;
  },
};

const OPERATORS: TableLook = {
  title: "Operators",
  about: (frame, ranks) =>
    `time of the kernels that an operator launched, and of its own CPU work${ofRanks("; ", frame, ranks)}`,
  columns: (frame) => [
    named({ ...NAMES, title: "operator", width: "minmax(0, 1.2fr)" }),
    ...(isAny(frame, "device_total_ns")
      ? [
          barred("device_total_ns", "GPU", "Kernels launched by it or by what it calls", lasted, {
            kind: () => "compute",
          }),
        ]
      : []),
    ...(isAny(frame, "device_self_ns")
      ? [duration("device_self_ns", "GPU, own", "Kernels launched by the operator itself", 620)]
      : []),
    {
      ...barred("cpu_self_ns", "CPU, own", "CPU time without that of what it calls", lasted, {
        kind: () => "cpu",
      }),
      from: 420,
    },
    duration("cpu_total_ns", "CPU", "CPU time, that of what it calls included", 620),
    count(),
  ],
  foot: () => "operators with less time are left out",
};

/** Text on the ranks to which the numbers refer; "" if the job has one rank. */
function ofRanks(before: string, frame: PanelFrame, ranks: readonly number[] | null): string {
  if (frame.attrs.job_ranks === 1) return "";
  if (ranks === null) return `${before}all ranks together`;
  return `${before}${listed(ranks)} ${ranks.length === 1 ? "alone" : "together"}`;
}

function oddWords(frame: PanelFrame): string {
  const known = frame.columns.odd_rank?.some((rank) => rank !== null) ?? false;
  if (!known) return "";
  const rank = oddRank(frame);
  const which = rank === null ? "the rank farthest from" : `rank ${rank} against`;
  return ` · last column: ${which} the median rank`;
}

// The tables of BytePS's requests and of MPI's routines, message sizes and hosts.

/** A time in seconds as text. Profiles have whole milliseconds: shorter times are 0 in them. */
function seconds(value: Value): string {
  if (value === 0) return "<1\u202fms";
  return formatDuration(typeof value === "number" ? value * 1e9 : null);
}

const sized = (value: Value): string => formatBytes(numberOf(value));
/** A share as text; a share below 1 % has one significant digit instead of 0 %. */
const shared = (value: Value): string => {
  const part = numberOf(value);
  if (part === null || part <= 0 || part >= 0.01) return formatShare(part);
  return `${(part * 100).toPrecision(1)}\u202f%`;
};

const note = (frame: PanelFrame): string => prefixed(" · ", noteOf(frame));

/** A name, with its job if there are several. */
function ofJob(frame: PanelFrame, row: Row, by: string): string {
  const isOne = new Set(frame.columns.job ?? []).size <= 1;
  return isOne ? String(row(by)) : `${String(row("job"))} · ${String(row(by))}`;
}

const routine = (frame: PanelFrame, width: string): ColumnLook =>
  named({ title: "routine", width, words: (row) => ofJob(frame, row, "name") });

const mean = (hint: string, from: number): ColumnLook =>
  number(
    "mean_us",
    "mean",
    hint,
    (value) => formatDuration(typeof value === "number" && value > 0 ? value * 1e3 : null),
    from,
  );

const REQUESTS: TableLook = {
  rows: "key",
  ofRanks: true,
  title: "Requests of servers",
  about: (frame) =>
    `by key, to its last digit · who pushes last makes the others' pulls wait${note(frame)}`,
  columns: () => [
    named({
      title: "key",
      width: "auto",
      words: (row) => String(row("name")),
      hover: (row) => `Key ${String(row("name"))}`,
    }),
    {
      by: "tensor",
      title: "tensor",
      hint: "By tensor and partition, if the files have them",
      width: "minmax(0, 1.2fr)",
      from: 460,
      cell: (row) => {
        const tensor = String(row("tensor") ?? "").replace(/^byteps\./, "");
        const partition = Number(row("partition"));
        if (tensor === "" && partition < 0) return nothing;
        return tensor === "" ? `partition ${partition}` : `${tensor}:${partition}`;
      },
    },
    number("server", "server", "By server", counted, 620),
    barred(
      "wait_ns",
      "pulls wait",
      "How long its pulls waited for the last push, added up",
      lasted,
    ),
    number("requests", "requests", "How many were answered", counted, 400),
    number("push_ns", "pushes", "Time of its pushes, added up", lasted, 700),
    number("service_ns", "serving", "Time of its pulls without waiting, added up", lasted, 780),
    {
      by: "last_share",
      title: "last",
      hint: "The node whose push comes last most often, and how late it is on average",
      isNumber: true,
      cell: (row) => {
        const share = numberOf(row("last_share"));
        if (share === null) return nothing;
        return (
          <span class={share >= CONSISTENT_SHARE ? "hta-late-text" : "hta-note"}>
            <small>{`node ${String(row("last_node"))} `}</small>
            {`${formatShare(share)} +${lasted(row("last_lag_ns"))}`}
          </span>
        );
      },
    },
  ],
};

const ROUTINES: TableLook = {
  title: "MPI routines",
  about: (frame) => `time of all ranks with tables of routines together${note(frame)}`,
  columns: (frame) => [
    routine(frame, "minmax(0, 1.3fr)"),
    barred("time_s", "time", "Time of all calls, all ranks together", seconds),
    number("share_of_time", "of MPI", "Share of all time in MPI", shared, 400),
    number("calls", "calls", "How often it was called", counted),
    number("bytes", "bytes", "Calls times their mean size", sized, 460),
    mean("Mean of a call", 560),
    {
      by: "max_s",
      title: "least … most",
      hint: "Of any rank",
      from: 680,
      isNumber: true,
      cell: (row) => {
        if (!(Number(row("ranks")) > 1)) {
          return <span class="hta-note">{`rank ${String(row("min_rank"))} alone`}</span>;
        }
        const end = (which: string): string =>
          `${seconds(row(`${which}_s`))} (${String(row(`${which}_rank`))})`;
        return row("max_s") === 0 ? "–" : `${end("min")} … ${end("max")}`;
      },
    },
  ],
};

const MESSAGES: TableLook = {
  rows: "row",
  title: "Messages by size",
  about: (frame) =>
    `shares are of the routine's calls, time and bytes: look at all three${note(frame)}`,
  columns: (frame) => [
    routine(frame, "minmax(0, 1.2fr)"),
    {
      by: "size_lo",
      title: "size",
      hint: "Of one message",
      isNumber: true,
      cell: (row) => formatSizeRange(Number(row("size_lo")), Number(row("size_hi"))),
    },
    barred("time_s", "time", "Time of all calls, all ranks together", seconds),
    number("calls", "calls", "How often", counted, 420),
    number("bytes", "bytes", "Calls times their mean size", sized, 520),
    number("share_of_calls", "calls %", "Share of the routine's calls", shared),
    number("share_of_time", "time %", "Share of the routine's time", shared),
    number("share_of_bytes", "bytes %", "Share of the routine's bytes", shared),
    mean("Mean of a call: of small messages it is waiting, not transfer", 620),
  ],
};

const HOSTS: TableLook = {
  title: "Hosts",
  ofRanks: true,
  about: () => "a host all of whose ranks wait least is slow as a whole",
  columns: (frame) => [
    named({
      title: "host",
      width: "minmax(0, 1.2fr)",
      words: (row) => ofJob(frame, row, "host"),
    }),
    number("ranks", "ranks", "How many ranks run there", counted),
    barred("comm_mean_s", "in MPI", "Mean of its ranks", seconds),
    number("comm_min_s", "least", "Of any of its ranks", seconds, 420),
    number("comm_max_s", "most", "Of any of its ranks", seconds, 420),
    number("noncomm_mean_s", "outside", "Mean time outside of MPI", seconds, 520),
    number(
      "rss_sum_mib",
      "memory",
      "Largest resident sets of its ranks, added up",
      (value) => formatBytes(typeof value === "number" ? value * 2 ** 20 : null),
      620,
    ),
    {
      by: "is_slow",
      title: "slow",
      hint: "Whether the others wait for all of its ranks",
      cell: (row) => (row("is_slow") === true ? <span class="hta-late-text">slow</span> : "–"),
    },
  ],
};

/** Definitions of the tables, by panel. */
export const TABLES: Readonly<Record<string, TableLook>> = {
  kernels: KERNELS,
  operators: OPERATORS,
  byteps_requests: REQUESTS,
  mpi_routine_table: ROUTINES,
  mpi_messages: MESSAGES,
  mpi_hosts: HOSTS,
};

function ranksOf(frame: PanelFrame, names: readonly string[] | null): number[] | null {
  if (names === null) return null;
  const found = new Set<number>();
  frame.columns.name?.forEach((name, row) => {
    if (!names.includes(String(name))) return;
    const keys = frame.columns.keys?.[row];
    const rank = frame.columns.rank?.[row];
    if (typeof rank === "number") found.add(rank);
    if (typeof keys !== "string" || keys === "") return;
    for (const key of keys.split(",")) found.add(Number(key));
  });
  return found.size === 0 ? null : [...found];
}
