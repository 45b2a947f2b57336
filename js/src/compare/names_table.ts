/** Names that changed: time before and after, the difference around zero, and how often. */

import { fill, h } from "../app/dom";
import type { ThemeName } from "../contract";
import { formatDuration, plural } from "../draw/format";
import { barColour, countWords, deltaWords } from "./delta";
import { classLook, classOfChange, lookStyle } from "./event_classes";
import { type Frame, number, type Row, rowsOf, text } from "./frames";
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
  private readonly about = h("p", { class: "hta-about" });
  private readonly body = h("div", { class: "hta-diff-table", role: "table" });
  private frame: Frame | null = null;
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

  /** In place of all: why it cannot be drawn. */
  fail(why: HTMLElement): void {
    this.frame = null;
    this.about.textContent = "";
    fill(this.body, why);
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
