/** Tables of a comparison: names, changes, and tables of a format. */

import { classLook, classOfChange, lookStyle } from "../facts/event_classes";
import type { Frame, ThemeName } from "../protocol/source";
import { fill, h } from "../ui/dom";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatDurationDelta,
  formatShare,
  plural,
} from "../ui/formats";
import {
  barColour,
  countWords,
  deltaWords,
  noteOf,
  number,
  type Row,
  rowsOf,
  shareWords,
  text,
} from "./frames";
import { RowsPane } from "./pane";

type Key = "name" | "before_ns" | "after_ns" | "diff_ns" | "count";

const MORE_NAMES = 50;
const TEXTS: Record<Key, string> = {
  name: "name",
  before_ns: "before",
  after_ns: "after",
  diff_ns: "change",
  count: "count",
};

function value(row: Row, key: Key): number {
  if (key === "count") return Math.abs(number(row, "after_count") - number(row, "before_count"));
  if (key === "diff_ns") return Math.abs(number(row, key));
  return number(row, key);
}

/** Rows that hold the text, in the order asked for. */
export function sortedNames(frame: Frame, key: Key, descending: boolean, filter: string): Row[] {
  const wanted = filter.trim().toLowerCase();
  const rows = rowsOf(frame).filter((row) => {
    const members = Array.isArray(row.members) ? (row.members as string[]) : [];
    return (
      wanted === "" ||
      [text(row, "name"), ...members].some((name) => name.toLowerCase().includes(wanted))
    );
  });
  const sign = descending ? -1 : 1;
  return rows.sort((a, b) =>
    key === "name"
      ? sign * text(a, "name").localeCompare(text(b, "name"))
      : sign * (value(a, key) - value(b, key)),
  );
}

/** How much is told by the length; what has no partner, or another one, by its form as well. */
function barStyle(change: string, diff: number, theme: ThemeName): Record<string, string> {
  const look = classOfChange(change, 0, diff);
  if (look === "only_here" || look === "replaced") return lookStyle(classLook(look, theme));
  return { background: barColour(diff, theme) };
}

export class NamesTable extends RowsPane<string> {
  readonly el = h("section", { class: "hta-diff-pane hta-diff-names" });
  private readonly input: HTMLInputElement;
  private readonly head = h("div", { class: "hta-diff-head" });
  private key: Key = "diff_ns";
  private descending = true;

  /** `choose` hears first of the full names behind a row; null where it is unchosen. */
  constructor(private readonly choose: (names: string[] | null) => void) {
    super(10);
    this.input = h("input", {
      type: "search",
      class: "hta-table-filter hta-diff-filter",
      placeholder: "Filter names",
      "aria-label": "Filter names",
      on: { input: () => this.draw() },
    });
    this.head.append(h("h3", {}, "Names that changed most"), this.input);
    this.el.append(this.head, this.about, this.body);
  }

  show(frame: Frame): void {
    this.frame = frame;
    this.draw();
  }

  protected draw(): void {
    const { frame } = this;
    if (frame === null) return;
    const { attrs } = frame;
    const steps = Number(attrs.steps ?? 1);
    const what = attrs.device === "cpu" ? "host " : attrs.device === "all" ? "" : "GPU ";
    const beyond = Number(attrs.names ?? frame.rows) - frame.rows;
    const ranks = Number(attrs.before_ranks ?? 1) > 1 || Number(attrs.after_ranks ?? 1) > 1;
    this.about.textContent =
      `sum of ${what}time over ${plural(steps, "step")}${ranks ? ", mean over ranks" : ""}; ` +
      "parallel streams add up, so this column does not sum to the difference" +
      (beyond > 0 ? `; ${plural(beyond, "name")} that changed less in Python` : "");
    const rows = sortedNames(frame, this.key, this.descending, this.input.value);
    const diffs = rows.map((row) => number(row, "diff_ns"));
    const scale = { less: Math.max(0, -Math.min(0, ...diffs)), more: Math.max(0, ...diffs) };
    fill(
      this.body,
      this.header(),
      ...rows.slice(0, this.shown).map((row) => this.row(row, scale)),
      rows.length === 0 &&
        h(
          "p",
          { class: "hta-note" },
          typeof attrs.note === "string" && attrs.note !== "" ? attrs.note : "No such name.",
        ),
      this.moreOf(rows, "name", MORE_NAMES),
    );
  }

  private header(): HTMLElement {
    const keys: Key[] = ["name", "before_ns", "after_ns", "diff_ns", "count"];
    return h(
      "div",
      { class: "hta-diff-row hta-diff-row-head", role: "row" },
      ...keys.map((key) =>
        h(
          "div",
          {
            role: "columnheader",
            class: `hta-diff-col-${key}`,
            "aria-sort": this.key === key ? (this.descending ? "descending" : "ascending") : null,
          },
          h(
            "button",
            { type: "button", class: "hta-sort", on: { click: () => this.sort(key) } },
            TEXTS[key],
            this.key === key && (this.descending ? " ▾" : " ▴"),
          ),
        ),
      ),
    );
  }

  private sort(key: Key): void {
    this.descending = this.key === key ? !this.descending : key !== "name";
    this.key = key;
    this.draw();
  }

  private row(row: Row, { less, more }: { less: number; more: number }): HTMLElement {
    const name = text(row, "name");
    const diff = number(row, "diff_ns");
    const [before, after] = [number(row, "before_ns"), number(row, "after_ns")];
    const members = Array.isArray(row.members) ? (row.members as string[]) : [name];
    const by = text(row, "replaced_by");
    const whole = Math.max(less + more, 1);
    const zero = (less / whole) * 100;
    const long = (Math.abs(diff) / whole) * 100;
    const on = this.chosen === name;
    return h(
      "div",
      {
        class: on ? "hta-diff-row hta-on" : "hta-diff-row",
        role: "row",
        "data-change": text(row, "change"),
        on: {
          click: () => {
            this.choose(on ? null : members);
            this.setChoice(on ? null : name);
          },
        },
      },
      h(
        "div",
        { class: "hta-diff-col-name", role: "cell" },
        h("i", {
          class: "hta-diff-swatch",
          style: { background: `var(--hta-kind-${text(row, "kind") || "other"})` },
        }),
        h(
          "button",
          {
            type: "button",
            class: "hta-name-button",
            title: `${members.slice(0, 4).join("\n")}${by ? `\nreplaced by ${by}` : ""}`,
            "aria-pressed": String(on),
          },
          name,
        ),
      ),
      h(
        "div",
        { class: "hta-diff-col-before_ns", role: "cell" },
        before ? formatDuration(before) : "–",
      ),
      h(
        "div",
        { class: "hta-diff-col-after_ns", role: "cell" },
        after ? formatDuration(after) : "–",
      ),
      h(
        "div",
        { class: "hta-diff-col-diff_ns", role: "cell" },
        h("b", {}, deltaWords(diff)),
        h(
          "span",
          { class: "hta-diff-around", style: { "--zero": `${zero}%` } },
          h("i", {
            style: {
              left: `${diff < 0 ? zero - long : zero}%`,
              width: `${long}%`,
              ...barStyle(text(row, "change"), diff, this.theme),
            },
          }),
        ),
      ),
      h(
        "div",
        { class: "hta-diff-col-count", role: "cell" },
        countWords(number(row, "before_count"), number(row, "after_count")),
      ),
    );
  }
}

// What changed beyond noise, each change once; a click marks its events on both sides.

const MORE_CHANGES = 20;

/** Describe how likely a change is by chance, or say that the spread is unknown. */
export function chanceWords(
  change: string,
  p: unknown,
  hasSteps = true,
): { words: string; about: string } {
  if (change !== "slower" && change !== "faster") {
    return {
      words: hasSteps ? "in most steps" : "–",
      about: "Calls that come or go are no matter of chance.",
    };
  }
  if (typeof p !== "number") {
    return {
      words: "one step",
      about: "One step on a side tells nothing of the spread: 20 % is asked for.",
    };
  }
  const about =
    "How likely the means of the steps differ as much by chance, by t-tests over the steps.";
  if (p < 0.0001) return { words: "p < 0.0001", about };
  return { words: `p ${p < 0.001 ? p.toFixed(4) : p.toFixed(3)}`, about };
}

/** `aten::add ; aten::mul → fused_add_mul`, of replaced work. */
export function replacedWords(row: Row): string {
  const names = (column: string): string[] =>
    text(row, column)
      .split("; ")
      .filter((name) => name !== "");
  const [before, after] = [names("before_names"), names("after_names")];
  if (before.length === 0 && after.length === 0) return "";
  const short = (list: string[]): string =>
    list.length > 2
      ? `${list.slice(0, 2).join(", ")} and ${list.length - 2} more`
      : list.join(", ");
  return `${short(before)} → ${short(after)}`;
}

export class ChangesPanel extends RowsPane<number> {
  readonly el = h("section", { class: "hta-diff-pane hta-diff-changes" });
  private readonly title = h("h3", {}, "What changed");

  /** `choose` hears first of the number of a row, and its name; null where it is unchosen. */
  constructor(
    private readonly choose: (row: number | null, name: string) => void,
    private readonly hasSteps = true,
  ) {
    super(6);
    this.el.append(this.title, this.about, this.body);
  }

  /** `whose`: of which ranks, where not of all that are compared. */
  show(frame: Frame, whose = ""): void {
    const title = `What changed${whose && `, ${whose}`}`;
    if (title !== this.title.textContent) this.chosen = null;
    this.title.textContent = title;
    this.frame = frame;
    this.draw();
  }

  protected draw(): void {
    const { frame } = this;
    if (frame === null) return;
    const rows = rowsOf(frame);
    const tested = Number(frame.attrs.tested ?? 0);
    this.about.textContent =
      `beyond noise, each once; times and counts per ${this.hasSteps ? "step and " : ""}rank. ` +
      (tested > 0 ? `${plural(tested, "time")} tested. ` : "") +
      (rows.length > 0 ? "Click one to mark its events on both sides." : "");
    fill(
      this.body,
      rows.length > 0 && this.header(),
      ...rows.slice(0, this.shown).map((row, at) => this.row(row, at)),
      rows.length === 0 &&
        h("p", { class: "hta-note" }, noteOf(frame) || "Nothing changed beyond the noise."),
      this.moreOf(rows, "change", MORE_CHANGES),
    );
  }

  private header(): HTMLElement {
    return h(
      "div",
      { class: "hta-diff-change hta-diff-row-head", role: "row" },
      ...[
        "change",
        "name",
        "before → after",
        this.hasSteps ? "a step" : "change",
        "calls",
        "chance",
      ].map((word) => h("div", { role: "columnheader" }, word)),
    );
  }

  private row(row: Row, at: number): HTMLElement {
    const [before, after] = [number(row, "before_ns"), number(row, "after_ns")];
    const diff = number(row, "diff_ns");
    const change = text(row, "change");
    const name = text(row, "short") || text(row, "name");
    const on = this.chosen === at;
    const chance = chanceWords(change, row.p_value, this.hasSteps);
    const replaced = replacedWords(row);
    const path = text(row, "path");
    const places = number(row, "places");
    const inside = path === "" ? "" : `in ${path}${places > 1 ? ` and ${places - 1} more` : ""}`;
    return h(
      "div",
      {
        class: on ? "hta-diff-change hta-diff-row hta-on" : "hta-diff-change hta-diff-row",
        role: "row",
        "data-change": change,
        on: {
          click: () => {
            this.choose(on ? null : at, name);
            this.setChoice(on ? null : at);
          },
        },
      },
      h(
        "div",
        { role: "cell" },
        h("i", {
          class: "hta-diff-swatch",
          style: lookStyle(classLook(classOfChange(change, before, after), this.theme)),
        }),
        ` ${change}`,
      ),
      h(
        "div",
        { class: "hta-diff-col-name", role: "cell" },
        h(
          "button",
          {
            type: "button",
            class: "hta-name-button",
            title: [text(row, "name"), inside, replaced].filter((line) => line !== "").join("\n"),
            "aria-pressed": String(on),
          },
          name,
        ),
        h("small", {}, replaced !== "" ? replaced : text(row, "measure")),
      ),
      h(
        "div",
        { role: "cell" },
        `${before > 0 ? formatDuration(Math.round(before)) : "–"} → ${after > 0 ? formatDuration(Math.round(after)) : "–"}`,
      ),
      h("div", { role: "cell" }, h("b", {}, deltaWords(diff)), ` ${shareWords(diff, before)}`),
      h(
        "div",
        { role: "cell" },
        countWords(number(row, "before_count"), number(row, "after_count")),
      ),
      h("div", { role: "cell", title: chance.about }, chance.words),
    );
  }
}

// Tables that only some formats have: before, after and the change of each measure side by side.

const FIRST = 12;
const NAMES: Record<string, string> = { mpi: "MPI", byteps: "BytePS" };

/** A measure of which both sides have a column, and perhaps a difference. */
interface Measure {
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
