/** A sortable, filterable table of names with bars in its cells. */

import { picked } from "../protocol/selection";
import type { Chosen, PanelFrame, Value } from "../protocol/source";
import { button, type Content } from "./controls";
import { aria, type Child, fill, h, toggle } from "./dom";
import { formatCount, formatDuration } from "./formats";
import { watchBoxes } from "./host";
import { leftOutWords, sentences, toldApart } from "./text";

export type Row = (column: string) => Value;

export interface ColumnLook {
  /** What it sorts by. */
  by: string;
  title: string | ((frame: PanelFrame) => string);
  hint: string;
  /** CSS grid track. */
  width: string;
  /** Not shown below this width of the table. */
  from?: number;
  /** Left out where its values say nothing. */
  isWorth?(values: readonly Value[]): boolean;
  cell(row: Row, most: number, frame: PanelFrame): Child[];
  isNumber?: boolean;
}

export interface TableLook {
  /** What rows are called, where not by names. */
  rows?: string;
  /** Of one row, for people who hear it. */
  what: string;
  title: string;
  /** `ranks`: those that are chosen, of which its numbers are then; null for all. */
  about(frame: PanelFrame, ranks: readonly number[] | null): string;
  columns: readonly ColumnLook[];
  /** What is under the last row: the number of names in all, and what the rest adds up to. */
  foot(frame: PanelFrame, shown: number): string;
}

const FIRST_ROWS = 12;
const MORE_ROWS = 40;

/** Autograd's own prefix is as long as a column is wide, and names nothing. */
const EVALUATES = /^autograd::engine::evaluate_function: /;

export class NameTable implements Content {
  readonly el: HTMLElement;
  readonly hasTitle = true;
  private readonly about: HTMLElement;
  private readonly table: HTMLElement;
  private readonly foot: HTMLElement;
  private readonly filter: HTMLInputElement;
  private frame: PanelFrame | null = null;
  /** Short names, told apart. */
  private labels: readonly string[] = [];
  private chosen: readonly string[] | null = null;
  private ranks: readonly number[] | null = null;
  private shown = FIRST_ROWS;
  private order: { by: string; descending: boolean } | null = null;
  private width = 0;

  constructor(
    private readonly look: TableLook,
    private readonly brush: (names: string[] | null) => void,
    signal: AbortSignal,
  ) {
    this.about = h("p", { class: "hta-about" });
    this.filter = h("input", {
      type: "search",
      class: "hta-input hta-table-filter",
      placeholder: "Filter",
      "aria-label": `Filter ${look.title}`,
      spellcheck: "false",
      on: { input: () => this.print() },
    });
    this.table = h("div", { class: "hta-names", role: "table", "aria-label": look.title });
    this.foot = h("div", { class: "hta-names-foot" });
    this.el = h(
      "div",
      { class: "hta-name-table" },
      h("header", { class: "hta-pane-head" }, h("h3", {}, look.title), this.filter),
      this.about,
      this.table,
      this.foot,
    );
    watchBoxes([this.el], () => this.resized(), signal);
  }

  show(frame: PanelFrame, chosen: Chosen): void {
    if (frame === this.frame) {
      this.mark(chosen.names);
      return;
    }
    this.frame = frame;
    const names = (frame.columns.name ?? []).map(String);
    const shown = (frame.columns.short ?? names).map((one) =>
      String(one).replace(EVALUATES, "evaluate "),
    );
    this.labels = toldApart(shown, names);
    this.chosen = chosen.names;
    this.ranks = chosen.ranks;
    this.print();
  }

  /** Chosen rows keep their ink, the others go faint. */
  private mark(names: readonly string[] | null): void {
    this.chosen = names;
    // Names of the other table are chosen: nothing of this one is left out by that.
    const here = this.frame?.columns.name?.some((name) => names?.includes(String(name))) ?? false;
    for (const node of this.table.querySelectorAll<HTMLElement>(".hta-name-row")) {
      const on = names?.includes(node.dataset.name ?? "") ?? false;
      toggle(node, "hta-faint", here && !on);
      const name = node.querySelector(".hta-name-button");
      if (name !== null) aria(name, "pressed", on);
    }
  }

  private resized(): void {
    const width = this.el.clientWidth;
    if (width === 0) return;
    const before = this.columns().length;
    this.width = width;
    if (this.columns().length !== before) this.print();
  }

  private columns(): readonly ColumnLook[] {
    const { frame, width } = this;
    return this.look.columns.filter(({ by, from = 0, isWorth }) => {
      if (width < from) return false;
      return isWorth === undefined || frame === null || isWorth(frame.columns[by] ?? []);
    });
  }

  private print(): void {
    const { frame, look } = this;
    if (frame === null) return;
    fill(this.about, sentences(look.about(frame, this.ranks), leftOutWords(frame)));
    const columns = this.columns();
    this.table.style.gridTemplateColumns = columns.map(({ width }) => width).join(" ");
    const at = this.rows(frame);
    const value = (row: number) => (column: string) =>
      (column === "short" ? this.labels[row] : frame.columns[column]?.[row]) ?? null;
    const most = columns.map(({ by }) =>
      Math.max(...(frame.columns[by] ?? []).map((one) => (typeof one === "number" ? one : 0)), 1),
    );
    const drawn = at.slice(0, this.shown);
    const had = this.table.contains(document.activeElement);
    fill(
      this.table,
      h(
        "div",
        { class: "hta-names-head", role: "row" },
        ...columns.map((column) => this.headCell(column, frame)),
      ),
      ...drawn.map((row) => this.row(columns, value(row), most, frame)),
    );
    if (had) this.table.querySelector<HTMLElement>("button")?.focus({ preventScroll: true });
    this.printFoot(frame, at.length, drawn.length);
    this.mark(this.chosen);
  }

  private rows(frame: PanelFrame): number[] {
    const text = this.filter.value.trim().toLowerCase();
    const names = frame.columns.name ?? [];
    const shorts = frame.columns.short ?? names;
    const found = names.flatMap((name, row) =>
      text === "" || `${String(name)}\n${String(shorts[row])}`.toLowerCase().includes(text)
        ? [row]
        : [],
    );
    const { order } = this;
    if (order === null) return found;
    const column = frame.columns[order.by] ?? [];
    const sign = order.descending ? -1 : 1;
    return found.sort((a, b) => sign * compare(column[a] ?? null, column[b] ?? null));
  }

  private headCell(column: ColumnLook, frame: PanelFrame): HTMLElement {
    const active = this.order?.by === column.by;
    const cell = h(
      "div",
      { role: "columnheader", class: column.isNumber === true && "hta-number" },
      h(
        "button",
        {
          type: "button",
          class: "hta-sort",
          title: `${column.hint}. Click to sort.`,
          on: { click: () => this.sort(column) },
        },
        typeof column.title === "string" ? column.title : column.title(frame),
        active && (this.order?.descending === true ? " ↓" : " ↑"),
      ),
    );
    if (active) aria(cell, "sort", this.order?.descending === true ? "descending" : "ascending");
    return cell;
  }

  private sort({ by, isNumber }: ColumnLook): void {
    const first = isNumber === true || by !== "name";
    const { order } = this;
    if (order?.by !== by) this.order = { by, descending: first };
    else if (order.descending === first) this.order = { by, descending: !first };
    else this.order = null;
    this.print();
  }

  private row(
    columns: readonly ColumnLook[],
    value: Row,
    most: readonly number[],
    frame: PanelFrame,
  ): HTMLElement {
    const name = String(value("name"));
    return h(
      "div",
      {
        class: "hta-name-row",
        role: "row",
        "data-name": name,
        on: { click: (event: MouseEvent) => this.press(name, event) },
      },
      ...columns.map((column, at) =>
        h(
          "div",
          { role: "cell", class: column.isNumber === true && "hta-number" },
          ...column.cell(value, most[at] ?? 1, frame),
        ),
      ),
    );
  }

  private press(name: string, event: MouseEvent): void {
    const add = event.ctrlKey || event.metaKey || event.shiftKey;
    this.brush(picked(this.chosen, name, add));
  }

  private printFoot(frame: PanelFrame, found: number, drawn: number): void {
    const left = found - drawn;
    const more =
      left > 0 &&
      button({
        text: `${formatCount(left)} more ${this.look.rows ?? "name"}${left === 1 ? "" : "s"}`,
        class: "hta-more-names",
        press: () => {
          this.shown += MORE_ROWS;
          this.print();
        },
      });
    const less =
      drawn > FIRST_ROWS &&
      button({
        text: "Fewer",
        press: () => {
          this.shown = FIRST_ROWS;
          this.print();
        },
      });
    const none = found === 0 && h("span", { class: "hta-note" }, "No name matches this filter.");
    const foot = this.look.foot(frame, drawn);
    fill(this.foot, more, less, none, foot !== "" && h("span", { class: "hta-note" }, foot));
  }
}

function compare(a: Value, b: Value): number {
  if (a === b) return 0;
  // What is not known comes last in either order that begins with the largest.
  if (a === null) return -1;
  if (b === null) return 1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b));
}

// Columns of numbers in tables: what they are read from, and the bars behind some.

export function numberOf(value: Value): number | null {
  return typeof value === "number" ? value : null;
}

export const counted = (value: Value): string => formatCount(numberOf(value));
export const lasted = (value: Value): string => formatDuration(numberOf(value));

/** A column of the numbers `by`, shown from a width on. */
export const number = (
  by: string,
  title: string,
  hint: string,
  words: (value: Value) => string,
  from?: number,
): ColumnLook => ({
  by,
  title,
  hint,
  width: "auto",
  isNumber: true,
  ...(from !== undefined && { from }),
  cell: (row) => [words(row(by))],
});

/** A bar of a value, and its text; `wait` of it is hatched. */
export function barCell(
  value: number | null,
  most: number,
  kind: string,
  text: string,
  wait = 0,
): Child[] {
  if (value === null) return [h("span", { class: "hta-note" }, "–")];
  const part = (size: number): string => `${((100 * size) / most).toFixed(2)}%`;
  return [
    h(
      "span",
      { class: "hta-cell-bar", "aria-hidden": "true" },
      value - wait > 0 && h("i", { "data-kind": kind, style: { width: part(value - wait) } }),
      wait > 0 && h("i", { class: "hta-cell-wait", style: { width: part(wait) } }),
    ),
    h("span", {}, text),
  ];
}
