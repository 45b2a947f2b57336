/** Columns and cells of the dashboard's tables. */

import type { ChartSlot } from "../charts/chart";
import { lateRanks } from "../charts/content";
import { CONSISTENT_SHARE } from "../formats/byteps";
import { type Measure, MEASURES } from "../formats/mpi";
import type { Brush, Chosen, Kind, PanelFrame, Value } from "../protocol/source";
import { type Content, swatch } from "../ui/controls";
import { type Child, h } from "../ui/dom";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatShare,
  formatSizeRange,
} from "../ui/formats";
import {
  barCell,
  type ColumnLook,
  counted,
  lasted,
  NameTable,
  number,
  numberOf,
  type Row,
  type TableLook,
} from "../ui/table";
import { listed } from "../ui/text";

/** A rank is told apart where its mean differs by more than this. */
const ODD_FROM = 0.05;
/** Means of fewer calls a rank are of other shapes, or cut by the window: no ground to blame. */
const TELLING_CALLS = 5;

/** Is there anything but zeros? */
function isAny(values: readonly Value[]): boolean {
  return values.some((value) => value !== null && value !== 0);
}

function nameCell(row: Row, kind: Kind | null): Child[] {
  const full = String(row("name"));
  const short = String(row("short") ?? full);
  return [
    kind !== null && swatch(kind),
    h(
      "button",
      { type: "button", class: "hta-name-button", title: `${full}\nClick selects, Ctrl adds` },
      short,
    ),
  ];
}

/** A bar of how long something took. */
function timeBar(value: Value, most: number, kind: string, wait: Value = 0): Child[] {
  return barCell(numberOf(value), most, kind, lasted(value), numberOf(wait) ?? 0);
}

const duration = (by: string, title: string, hint: string, from?: number): ColumnLook =>
  number(by, title, hint, lasted, from);

const count = (from?: number): ColumnLook =>
  number("count", "count", "How often it ran, on all ranks", counted, from);

/** The one rank that is told apart wherever one is; null where it is now this one, now that. */
function oddRank(frame: PanelFrame): number | null {
  const { odd_rank: ranks = [], odd_ratio: ratios = [] } = frame.columns;
  const found = new Set(
    ranks.filter((rank, at) => rank !== null && Math.abs(Number(ratios[at]) - 1) > ODD_FROM),
  );
  const [only] = found;
  return found.size === 1 && typeof only === "number" ? only : null;
}

function oddCell(row: Row, frame: PanelFrame): Child[] {
  const rank = numberOf(row("odd_rank"));
  const ratio = numberOf(row("odd_ratio"));
  if (rank === null || ratio === null) return [h("span", { class: "hta-note" }, "–")];
  const text = `×${ratio.toFixed(2)}`;
  const calls = (numberOf(row("count")) ?? 0) / Math.max(numberOf(row("ranks")) ?? 1, 1);
  const few = calls < TELLING_CALLS;
  const title =
    `Rank ${rank}: mean ${text} that of the median rank` +
    (few ? `; ${calls.toFixed(calls % 1 === 0 ? 0 : 1)} calls a rank are too few to tell` : "");
  const slow = ratio > 1 + ODD_FROM && !few;
  const isLate = lateRanks(frame).includes(rank);
  return [
    h(
      "span",
      { class: slow ? (isLate ? "hta-late-text" : "hta-odd-text") : "hta-note", title },
      rank !== oddRank(frame) && h("small", {}, `rank ${rank} `),
      text,
    ),
  ];
}

export const KERNELS: TableLook = {
  what: "kernel",
  title: "Top kernels",
  about: (frame, ranks) => {
    const waits = hasWaits(frame) ? "; hatched: waiting" : "";
    return `GPU time by name, ${ofRanks(ranks)}${waits}${oddWords(frame)}`;
  },
  columns: [
    {
      by: "name",
      title: "kernel",
      hint: "By name",
      width: "minmax(0, 1.6fr)",
      cell: (row) => nameCell(row, String(row("kind")) as Kind),
    },
    {
      by: "sum_ns",
      title: "total",
      hint: "Sum over all calls and ranks",
      width: "minmax(96px, 1fr)",
      cell: (row, most) => timeBar(row("sum_ns"), most, String(row("kind")), row("wait_ns")),
    },
    count(400),
    duration("mean_ns", "mean", "Mean of a call", 440),
    duration("min_ns", "min", "Shortest call", 640),
    duration("max_ns", "max", "Longest call", 640),
    {
      by: "odd_ratio",
      isWorth: (values) => values.some((value) => value !== null),
      title: (frame) => {
        const rank = oddRank(frame);
        return rank === null ? "odd rank" : `rank ${rank}`;
      },
      hint: "The rank whose mean is farthest from the median rank's",
      width: "auto",
      isNumber: true,
      cell: (row, _most, frame) => oddCell(row, frame),
    },
  ],
  foot: (frame, shown) => {
    const total = Number(frame.attrs.total ?? frame.rows);
    if (total <= frame.rows || shown < frame.rows) return "";
    const rest = numberOf((frame.attrs.rest_ns ?? null) as Value);
    const what = `${formatCount(total - frame.rows)} names are left out`;
    return rest === null ? `${what}.` : `${what}: ${formatDuration(rest)}.`;
  },
};

export const OPERATORS: TableLook = {
  what: "operator",
  title: "Operators",
  about: (_frame, ranks) =>
    `time of the kernels that an operator launched, and of its own CPU work; ${ofRanks(ranks)}`,
  columns: [
    {
      by: "name",
      title: "operator",
      hint: "By name",
      width: "minmax(0, 1.2fr)",
      cell: (row) => nameCell(row, null),
    },
    {
      by: "device_total_ns",
      isWorth: isAny,
      title: "GPU",
      hint: "Kernels launched by it or by what it calls",
      width: "minmax(104px, 1fr)",
      cell: (row, most) => timeBar(row("device_total_ns"), most, "compute"),
    },
    {
      ...duration("device_self_ns", "GPU, own", "Kernels launched by the operator itself", 620),
      isWorth: isAny,
    },
    {
      by: "cpu_self_ns",
      title: "CPU, own",
      hint: "CPU time without that of what it calls",
      width: "minmax(104px, 1fr)",
      from: 420,
      cell: (row, most) => timeBar(row("cpu_self_ns"), most, "cpu"),
    },
    duration("cpu_total_ns", "CPU", "CPU time, that of what it calls included", 620),
    count(),
  ],
  foot: (frame, shown) => {
    const total = Number(frame.attrs.total ?? frame.rows);
    return total <= frame.rows || shown < frame.rows
      ? ""
      : `${formatCount(total - frame.rows)} operators with less time are left out.`;
  },
};

/** Of which ranks the numbers are. */
function ofRanks(ranks: readonly number[] | null): string {
  if (ranks === null) return "all ranks together";
  return `${listed(ranks)} ${ranks.length === 1 ? "alone" : "together"}`;
}

function oddWords(frame: PanelFrame): string {
  const known = frame.columns.odd_rank?.some((rank) => rank !== null) ?? false;
  if (!known) return "";
  const rank = oddRank(frame);
  const which = rank === null ? "the rank farthest from" : `rank ${rank} against`;
  return ` · last column: ${which} the median rank`;
}

function hasWaits(frame: PanelFrame): boolean {
  return (frame.columns.wait_ns ?? []).some((wait) => typeof wait === "number" && wait > 0);
}

/** A frame as CSV, in its own names and units. */
export function csvOf(frame: PanelFrame): string {
  const names = Object.keys(frame.columns);
  const lines = [names.map(quoted).join(",")];
  for (let row = 0; row < frame.rows; row += 1) {
    lines.push(names.map((name) => quoted(frame.columns[name]?.[row] ?? "")).join(","));
  }
  return `${lines.join("\r\n")}\r\n`;
}

function quoted(value: Value): string {
  // Programs for tables take such a cell for a formula; an apostrophe marks text.
  const isFormula = typeof value === "string" && /^[=+\-@\t\r]/.test(value);
  const text = isFormula ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// The tables of BytePS's requests and of MPI's routines, message sizes and hosts.

/** Profiles print milliseconds: what takes none of them prints as 0. */
function seconds(value: Value): string {
  if (value === 0) return "<1\u2009ms";
  return formatDuration(typeof value === "number" ? value * 1e9 : null);
}

function namedCell(row: Row, text: string, title = ""): Child[] {
  const hint = `${title || text}\nClick selects, Ctrl adds`;
  return [
    h(
      "button",
      { type: "button", class: "hta-name-button", title: hint },
      text || String(row("name")),
    ),
  ];
}

/** A number behind a bar. */
const barred = (
  by: string,
  title: string,
  hint: string,
  words: (value: Value) => string,
): ColumnLook => ({
  by,
  title,
  hint,
  width: "minmax(96px, 1fr)",
  cell: (row, most) => barCell(numberOf(row(by)), most, "communication", words(row(by))),
});

const sized = (value: Value): string => formatBytes(numberOf(value));
/** Small shares to four digits: that of bytes is what one looks for. */
const shared = (value: Value): string => {
  const part = numberOf(value);
  if (part === null || part <= 0 || part >= 0.01) return formatShare(part);
  return `${(part * 100).toPrecision(1)}\u2009%`;
};

const note = (frame: PanelFrame): string => {
  const said = frame.attrs.note;
  return typeof said === "string" && said !== "" ? ` · ${said}` : "";
};

function severalJobs(frame: PanelFrame): boolean {
  return new Set(frame.columns.job ?? []).size > 1;
}

function routineName(row: Row, frame: PanelFrame): string {
  const name = String(row("name"));
  return severalJobs(frame) ? `${String(row("job"))} · ${name}` : name;
}

const routine = (width: string): ColumnLook => ({
  by: "name",
  title: "routine",
  hint: "By name",
  width,
  cell: (row, _most, frame) => namedCell(row, routineName(row, frame)),
});

const mean = (hint: string, from: number): ColumnLook =>
  number(
    "mean_us",
    "mean",
    hint,
    (value) => formatDuration(typeof value === "number" && value > 0 ? value * 1e3 : null),
    from,
  );

const REQUESTS: TableLook = {
  what: "key",
  rows: "key",
  title: "Requests of servers",
  about: (frame) =>
    `by key, to its last digit · who pushes last makes the others' pulls wait${note(frame)}`,
  columns: [
    {
      by: "name",
      title: "key",
      hint: "By key",
      width: "auto",
      cell: (row) => namedCell(row, String(row("name")), `Key ${String(row("name"))}`),
    },
    {
      by: "tensor",
      title: "tensor",
      hint: "By tensor and partition, where the files tell",
      width: "minmax(0, 1.2fr)",
      from: 460,
      cell: (row) => {
        const tensor = String(row("tensor") ?? "").replace(/^byteps\./, "");
        const partition = Number(row("partition"));
        if (tensor === "" && partition < 0) return [h("span", { class: "hta-note" }, "–")];
        return [tensor === "" ? `partition ${partition}` : `${tensor}:${partition}`];
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
      width: "auto",
      isNumber: true,
      cell: (row) => {
        const share = numberOf(row("last_share"));
        if (share === null) return [h("span", { class: "hta-note" }, "–")];
        const often = share >= CONSISTENT_SHARE;
        return [
          h(
            "span",
            { class: often ? "hta-late-text" : "hta-note" },
            h("small", {}, `node ${String(row("last_node"))} `),
            `${formatShare(share)} +${lasted(row("last_lag_ns"))}`,
          ),
        ];
      },
    },
  ],
  foot: () => "",
};

const ROUTINES: TableLook = {
  what: "routine",
  title: "MPI routines",
  about: (frame) => `time of all ranks with tables of routines together${note(frame)}`,
  columns: [
    routine("minmax(0, 1.3fr)"),
    barred("time_s", "time", "Time of all calls, all ranks together", seconds),
    number("share_of_time", "of MPI", "Share of all time in MPI", shared, 400),
    number("calls", "calls", "How often it was called", counted),
    number("bytes", "bytes", "Calls times their mean size", sized, 460),
    mean("Mean of a call", 560),
    {
      by: "max_s",
      title: "least … most",
      hint: "Of any rank",
      width: "auto",
      from: 680,
      isNumber: true,
      cell: (row) => [
        Number(row("ranks")) > 1 && row("max_s") === 0
          ? "–"
          : Number(row("ranks")) > 1
            ? `${seconds(row("min_s"))} (${String(row("min_rank"))}) … ${seconds(row("max_s"))} (${String(row("max_rank"))})`
            : h("span", { class: "hta-note" }, `rank ${String(row("min_rank"))} alone`),
      ],
    },
  ],
  foot: () => "",
};

const MESSAGES: TableLook = {
  what: "size",
  rows: "row",
  title: "Messages by size",
  about: (frame) =>
    `shares are of the routine's calls, time and bytes: look at all three${note(frame)}`,
  columns: [
    routine("minmax(0, 1.2fr)"),
    {
      by: "size_lo",
      title: "size",
      hint: "Of one message",
      width: "auto",
      isNumber: true,
      cell: (row) => [formatSizeRange(Number(row("size_lo")), Number(row("size_hi")))],
    },
    barred("time_s", "time", "Time of all calls, all ranks together", seconds),
    number("calls", "calls", "How often", counted, 420),
    number("bytes", "bytes", "Calls times their mean size", sized, 520),
    number("share_of_calls", "calls %", "Share of the routine's calls", shared),
    number("share_of_time", "time %", "Share of the routine's time", shared),
    number("share_of_bytes", "bytes %", "Share of the routine's bytes", shared),
    mean("Mean of a call: of small messages it is waiting, not transfer", 620),
  ],
  foot: () => "",
};

const HOSTS: TableLook = {
  what: "host",
  title: "Hosts",
  about: () => "a host all of whose ranks wait least is slow as a whole",
  columns: [
    {
      by: "name",
      title: "host",
      hint: "By name",
      width: "minmax(0, 1.2fr)",
      cell: (row, _most, frame) =>
        namedCell(
          row,
          severalJobs(frame)
            ? `${String(row("job"))} · ${String(row("host"))}`
            : String(row("host")),
        ),
    },
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
      width: "auto",
      cell: (row) =>
        row("is_slow") === true ? [h("span", { class: "hta-late-text" }, "slow")] : ["–"],
    },
  ],
  foot: () => "",
};

/** Looks of the tables, by panel. */
const TABLES: Readonly<Record<string, TableLook>> = {
  byteps_requests: REQUESTS,
  mpi_routine_table: ROUTINES,
  mpi_messages: MESSAGES,
  mpi_hosts: HOSTS,
};

// What is in the panels of BytePS's and MPI's files.

interface FormatWays {
  signal: AbortSignal;
  slot(id: string): ChartSlot;
  brush(id: string, brush: Brush): void;
}

/** The content of a panel; null for a chart that needs nothing else. */
export function formatContent(id: string, ways: FormatWays): Content {
  const look = TABLES[id];
  if (look === undefined) {
    return id === "mpi_sizes" ? new SizesView(ways.slot(id)) : ways.slot(id);
  }
  let frame: PanelFrame | null = null;
  const table = new NameTable(
    look,
    (names) => ways.brush(id, rowsAreRanks(id) ? { ranks: ranksOf(frame, names) } : { names }),
    ways.signal,
  );
  return {
    el: table.el,
    hasTitle: true,
    show: (shown, chosen) => {
      frame = shown;
      table.show(shown, chosen);
    },
  };
}

/** Rows of these stand for files, not for names of events. */
function rowsAreRanks(id: string): boolean {
  return id === "byteps_requests" || id === "mpi_hosts";
}

function ranksOf(frame: PanelFrame | null, names: readonly string[] | null): number[] | null {
  if (frame === null || names === null) return null;
  const found = new Set<number>();
  frame.columns.name?.forEach((name, row) => {
    if (!names.includes(String(name))) return;
    const keys = frame.columns.keys?.[row];
    const rank = frame.columns.rank?.[row];
    if (typeof rank === "number") found.add(rank);
    if (typeof keys === "string" && keys !== "")
      keys
        .split(",")
        .map(Number)
        .forEach((key) => found.add(key));
  });
  return found.size === 0 ? null : [...found];
}

const SAID: Record<Measure, string> = { calls: "calls", time: "time", bytes: "bytes" };

/** Message sizes, and what they are shaded by, chosen beside the title. */
class SizesView implements Content {
  readonly el: HTMLElement;
  private measure: Measure = "calls";
  private shown: { frame: PanelFrame; chosen: Chosen } | null = null;
  private drawn: { from: PanelFrame; measure: Measure; frame: PanelFrame } | null = null;

  constructor(private readonly slot: ChartSlot) {
    const choice = h(
      "select",
      {
        class: "hta-input hta-heat-metric",
        "aria-label": "What message sizes are shaded by",
        on: {
          change: () => {
            this.measure = choice.value as Measure;
            if (this.shown !== null) this.show(this.shown.frame, this.shown.chosen);
          },
        },
      },
      ...MEASURES.map((id) => h("option", { value: id }, SAID[id])),
    );
    this.el = h("div", { class: "hta-heat" }, choice, slot.el);
  }

  get hasTitle(): boolean {
    return this.slot.hasTitle;
  }

  show(frame: PanelFrame, chosen: Chosen): void {
    this.shown = { frame, chosen };
    const { measure } = this;
    if (this.drawn?.from !== frame || this.drawn.measure !== measure) {
      const told = { ...frame, attrs: { ...frame.attrs, measure } };
      this.drawn = { from: frame, measure, frame: told };
    }
    this.slot.show(this.drawn.frame, chosen);
  }
}
