/** The tables of kernels and of operators: which columns they have, and what stands in them. */

import { swatch } from "../app/controls";
import { type Child, h } from "../app/dom";
import type { Kind } from "../contract";
import { formatCount, formatDuration } from "../draw/format";
import { lateRanks } from "./charts/content";
import { listed } from "./charts/phrases";
import { barCell, counted, lasted, number, numberOf } from "./number_columns";
import type { ColumnLook, Row, TableLook } from "./table";
import type { PanelFrame, Value } from "./types";

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
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
