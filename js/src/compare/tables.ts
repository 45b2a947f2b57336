/** Tables that only some formats have: before, after and the change of each measure side by side. */

import { fill, h } from "../app/dom";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatDurationDelta,
  formatShare,
  plural,
} from "../draw/format";
import { shareWords } from "./delta";
import { type Frame, noteOf, type Row, rowsOf } from "./frames";

const FIRST = 12;
const NAMES: Record<string, string> = { mpi: "MPI", byteps: "BytePS" };

/** A measure of which both sides have a column, and perhaps a difference. */
export interface Measure {
  /** Its column without `before_` and the like. */
  name: string;
  sides: boolean;
  diff: boolean;
}

/** Columns in their order, those of one measure as one. */
export function measuresOf(columns: readonly string[]): Measure[] {
  const known = new Set(columns);
  const found: Measure[] = [];
  for (const column of columns) {
    const [, side, rest = ""] = /^(before|after|diff)_(.+)$/.exec(column) ?? [];
    const paired = side !== undefined && known.has(`before_${rest}`) && known.has(`after_${rest}`);
    if (!paired) found.push({ name: column, sides: false, diff: false });
    else if (side === "before") {
      found.push({ name: rest, sides: true, diff: known.has(`diff_${rest}`) });
    }
  }
  return found;
}

const UNITS = /(?:^|_)(ns|us|ms|s|bytes|share|pct|mib)$/;
const SHARE = /(?:^|_)share(?:_|$)/;

/** A column's name in words, without its unit: cells say that. */
export function titleOf(column: string): string {
  // MPI: of what is called and sent, whatever time it takes.
  if (column === "change") return "calls and bytes";
  if (SHARE.test(column) || column === "bytes") return column.replaceAll("_", " ");
  return column.replace(UNITS, "").replaceAll("_", " ") || "time";
}

const PER_NS: Record<string, number> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };

export function cellText(column: string, value: unknown, isDelta = false): string {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  if (column.endsWith("p_value")) return value < 0.0001 ? "< 0.0001" : value.toPrecision(2);
  // Calls without a message.
  if (column.startsWith("size_") && value < 0) return "–";
  if (column === "change_share") return shareWords(value, 1);
  const unit = SHARE.test(column) ? "share" : (UNITS.exec(column)?.[1] ?? "");
  const perNs = PER_NS[unit];
  if (perNs !== undefined) {
    const ns = value * perNs;
    if (!isDelta) return formatDuration(ns);
    return Math.abs(ns) < 0.5 ? "±0" : formatDurationDelta(ns);
  }
  const plain = (size: number): string => {
    if (unit === "bytes") return formatBytes(size);
    if (unit === "share") return formatShare(size);
    if (unit === "pct") return formatShare(size / 100);
    if (unit === "mib") return formatBytes(size * 2 ** 20);
    return Number.isInteger(size) ? formatCount(size) : String(Number(size.toPrecision(3)));
  };
  if (!isDelta) return value < 0 ? `−${plain(-value)}` : plain(value);
  if (value === 0) return "±0";
  return `${value > 0 ? "+" : "−"}${plain(Math.abs(value))}`;
}

/** More time is slower; of other measures nobody says which way is good. */
function deltaClass(column: string, value: unknown): string {
  const isTime = PER_NS[UNITS.exec(column)?.[1] ?? ""] !== undefined;
  if (!isTime || typeof value !== "number" || cellText(column, value, true) === "±0") return "";
  return value > 0 ? "hta-diff-slower" : "hta-diff-faster";
}

function cells(measure: Measure, row: Row): HTMLElement[] {
  const { name, sides, diff } = measure;
  if (!sides) {
    const value = row[name];
    return [h("td", { class: typeof value === "string" ? "hta-text" : "" }, cellText(name, value))];
  }
  const delta = row[`diff_${name}`];
  return [
    h("td", {}, cellText(name, row[`before_${name}`])),
    h("td", {}, cellText(name, row[`after_${name}`])),
    ...(diff
      ? [
          h(
            "td",
            { class: `hta-diff-delta-cell ${deltaClass(name, delta)}` },
            cellText(name, delta, true),
          ),
        ]
      : []),
  ];
}

/** `mpi_message_sizes` as `MPI message sizes`. */
export function tableTitle(name: string): string {
  const [first = "", ...rest] = name.split("_");
  const word = NAMES[first] ?? first.charAt(0).toUpperCase() + first.slice(1);
  return [word, ...rest].join(" ");
}

/** One row of many measures reads better as many rows. */
function turnedRow(measures: readonly Measure[], row: Row): HTMLElement {
  const words = ["measure", "before", "after", "change"];
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...words.map((word) => h("th", { scope: "col" }, word)))),
    h(
      "tbody",
      {},
      ...measures.map((measure) => {
        const found = cells(measure, row);
        while (found.length < 3) found.push(h("td"));
        return h("tr", {}, h("td", {}, titleOf(measure.name)), ...found);
      }),
    ),
  );
}

export function plainTable(name: string, frame: Frame): HTMLElement {
  const measures = measuresOf(Object.keys(frame.columns));
  const rows = rowsOf(frame);
  const body = h("tbody");
  const more = h("p", { class: "hta-note" });
  const show = (count: number): void => {
    fill(
      body,
      ...rows
        .slice(0, count)
        .map((row) => h("tr", {}, ...measures.flatMap((measure) => cells(measure, row)))),
    );
    const left = rows.length - count;
    const button = h(
      "button",
      { type: "button", class: "hta-link", on: { click: () => show(rows.length) } },
      plural(left, "more row"),
    );
    const beyond = Number(frame.attrs.rows ?? rows.length) - rows.length;
    fill(
      more,
      left > 0 && button,
      left <= 0 && beyond > 0 && `${plural(beyond, "row")} in Python.`,
    );
  };
  show(FIRST);
  const note = noteOf(frame);
  return h(
    "section",
    { class: "hta-diff-pane hta-diff-plain" },
    h("h3", {}, tableTitle(name)),
    note !== "" && h("p", { class: "hta-about" }, note),
    rows.length === 0
      ? note === "" && h("p", { class: "hta-note" }, "Nothing.")
      : h(
          "div",
          { class: "hta-diff-scrolls" },
          rows.length === 1 && measures.some(({ sides }) => sides)
            ? turnedRow(measures, rows[0]!)
            : h("table", {}, h("thead", {}, ...heads(measures)), body),
        ),
    more,
  );
}

function heads(measures: readonly Measure[]): HTMLElement[] {
  const paired = measures.some(({ sides }) => sides);
  const over = measures.map(({ name, sides, diff }) =>
    sides
      ? h("th", { scope: "colgroup", colspan: diff ? 3 : 2 }, titleOf(name))
      : h("th", { scope: "col", rowspan: paired ? 2 : 1 }, titleOf(name)),
  );
  const under = measures
    .filter(({ sides }) => sides)
    .flatMap(({ diff }) => ["before", "after", ...(diff ? ["change"] : [])])
    .map((word) => h("th", { scope: "col" }, word));
  return [h("tr", {}, ...over), ...(paired ? [h("tr", {}, ...under)] : [])];
}
