/** A selected window or set of events: totals by kind and by name. */

import {
  BY_WORK,
  clicked,
  type Column,
  type NameSums,
  type Order,
  type Scene,
  type SelectionJson,
  sorted,
  type Sums,
  type Totals,
} from "../../protocol/source";
import {
  button,
  closeButton,
  type Copy,
  copyButton,
  cutName,
  failure,
  kindName,
  link,
  swatch,
  tabs,
} from "../../ui/controls";
import { aria, type Child, fill, h } from "../../ui/dom";
import { formatCount, formatDuration, formatExact, plural } from "../../ui/formats";
import { csvOf } from "../../ui/table";
import { rowsWords, selectionCode, selectionHead } from "../text";

interface AreaActions {
  close(): void;
  zoom(): void;
  clear(): void;
  exportSelection(anchor: HTMLElement): void;
  search(name: string): void;
  retry(): void;
  copy: Copy;
  showEvent(): void;
}

interface AreaState {
  selection: SelectionJson | null;
  scene: Scene;
  totals: Totals | null;
  error: Error | null;
  hasEvent: boolean;
}

const HEADS: readonly [Column, string, string][] = [
  ["sum", "total", "sum of durations"],
  ["count", "count", "events that overlap the window"],
  ["mean", "mean", "mean duration"],
  ["min", "min", "shortest"],
  ["max", "max", "longest"],
];

export class AreaPanel {
  readonly id = "area" as const;
  readonly name = "Selection";
  readonly el: HTMLElement;
  private state: AreaState | null = null;
  private readonly orders: Record<"kinds" | "names", Order> = {
    kinds: { column: BY_WORK, descending: true },
    names: { column: BY_WORK, descending: true },
  };
  private readonly filter = h("input", {
    type: "search",
    class: "hta-input hta-table-filter",
    placeholder: "Filter",
    "aria-label": "Filter names",
    spellcheck: "false",
    on: { input: () => this.printNames() },
  });
  private readonly copyNames = copyButton(
    (text, what) => this.actions.copy(text, what),
    () => this.csv(),
    "the table as CSV",
  );

  constructor(private readonly actions: AreaActions) {
    this.el = h("div", { class: "hta-panel hta-area" });
  }

  show(state: AreaState): void {
    const other = JSON.stringify(state.selection) !== JSON.stringify(this.state?.selection ?? null);
    this.state = state;
    this.print();
    if (other) for (const box of this.el.querySelectorAll(".hta-scroll")) box.scrollTop = 0;
  }

  private print(): void {
    const { state } = this;
    if (state === null || state.selection === null) {
      fill(this.el);
      return;
    }
    const tops = [...this.el.querySelectorAll(".hta-scroll")].map((box) => box.scrollTop);
    fill(
      this.el,
      this.head(state, state.selection),
      h("div", { class: "hta-tables" }, ...this.body(state)),
    );
    [...this.el.querySelectorAll(".hta-scroll")].forEach((box, at) => {
      box.scrollTop = tops[at] ?? 0;
    });
  }

  private head(state: AreaState, selection: SelectionJson): HTMLElement {
    const { totals, scene } = state;
    const where = selection.ids === null ? rowsWords(selection, scene) : "";
    const what = totals === null ? "" : plural(totals.events, "event");
    const windowed = selection.start_ns !== null || selection.end_ns !== null;
    const clipped = windowed ? "times within the window" : "";
    const about = [what, where, clipped].filter((part) => part !== "").join(" · ");
    const query = selection.query;
    return h(
      "div",
      { class: "hta-head hta-area-head" },
      h("h3", {}, selectionHead(selection, scene)),
      h(
        "span",
        { class: "hta-note hta-grow" },
        about,
        query !== null && h("code", { title: query }, ` ${query}`),
      ),
      state.hasEvent && tabs("area", (id) => id === "event" && this.actions.showEvent()),
      button({ text: "Zoom", key: "F", showKey: true, press: () => this.actions.zoom() }),
      button({
        text: "Copy as Python",
        press: () => this.actions.copy(selectionCode(selection), "Python"),
      }),
      button({
        text: "Export selection…",
        key: "X",
        press: ({ currentTarget }) => this.actions.exportSelection(currentTarget as HTMLElement),
      }),
      button({ text: "Clear", press: () => this.actions.clear() }),
      closeButton(this.actions.close, ""),
    );
  }

  private body(state: AreaState): Child[] {
    const { totals, error } = state;
    if (error !== null) return [failure("The totals cannot be shown", error, this.actions.retry)];
    if (totals === null) return [h("p", { class: "hta-note hta-pad" }, "Adding up…")];
    if (totals.events === 0) {
      return [
        h(
          "p",
          { class: "hta-pad" },
          h("b", {}, "No events in this selection. "),
          "Not even one overlaps it.",
        ),
      ];
    }
    return [this.kinds(totals), this.names(totals)];
  }

  private kinds(totals: Totals): HTMLElement {
    const label = (row: Sums): string => kindName(row.kind);
    const rows = sorted(totals.kinds, this.orders.kinds, label);
    const cell = (row: Sums): Child[] => [swatch(row.kind), ` ${label(row)}`];
    return this.table("kinds", "kind", rows, mostOf(rows), cell);
  }

  private names(totals: Totals): HTMLElement {
    const rows = this.namesShown(totals);
    const head = totals.names_total > totals.names.length ? "name, the longest" : "name";
    const table = this.table("names", head, rows, mostOf(totals.names), (row) => this.named(row));
    if (totals.names_total > totals.names.length) {
      const left = `${formatCount(totals.names.length)} of ${plural(totals.names_total, "name")}: those with most time.`;
      table.append(h("p", { class: "hta-note hta-pad" }, left));
    }
    return table;
  }

  private named(row: NameSums): Child[] {
    const search = (): void => this.actions.search(row.name);
    const name = link("", search, `${row.name}\nSearch this name`);
    name.append(cutName(row.short));
    return [swatch(row.kind), " ", name];
  }

  /** The names that the filter leaves, in order. */
  private namesShown({ names }: Totals): NameSums[] {
    const wanted = this.filter.value.trim().toLowerCase();
    const found = names.filter(({ name, short }) =>
      [name, short].some((one) => one.toLowerCase().includes(wanted)),
    );
    return sorted(found, this.orders.names, (row) => row.short);
  }

  /** Only the rows: who types keeps the focus. */
  private printNames(): void {
    const totals = this.state?.totals ?? null;
    const body = this.el.querySelector(".hta-table-names tbody");
    if (totals === null || body === null) return;
    const most = mostOf(totals.names);
    const rows = this.namesShown(totals);
    const none = h(
      "tr",
      {},
      h("td", { colspan: HEADS.length + 1 }, "No name matches this filter."),
    );
    fill(body, ...rows.map((row) => bodyRow(row, this.named(row), row.sum / most)));
    if (rows.length === 0) body.append(none);
  }

  private csv(): string {
    const totals = this.state?.totals ?? null;
    const rows = totals === null ? [] : this.namesShown(totals);
    const columns = {
      name: rows.map((row) => row.name),
      kind: rows.map((row) => row.kind),
      count: rows.map((row) => row.count),
      sum_ns: rows.map((row) => row.sum),
      mean_ns: rows.map((row) => row.mean),
      min_ns: rows.map((row) => row.min),
      max_ns: rows.map((row) => row.max),
    };
    return csvOf({ rows: rows.length, columns, attrs: {} });
  }

  private table<T extends Sums>(
    which: "kinds" | "names",
    title: string,
    rows: readonly T[],
    most: number,
    label: (row: T) => Child[],
  ): HTMLElement {
    const heads: readonly [Column, string, string][] = [
      ["name", title, "alphabetically"],
      ...HEADS,
    ];
    return h(
      "div",
      {
        class: `hta-scroll hta-table-${which}`,
        tabindex: 0,
        role: "group",
        "aria-label": `Totals by ${title}`,
      },
      h(
        "table",
        { class: "hta-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ...heads.map(([column, text, hint]) => this.columnHead(which, column, text, hint)),
          ),
        ),
        h("tbody", {}, ...rows.map((row) => bodyRow(row, label(row), row.sum / most))),
      ),
    );
  }

  private columnHead(
    which: "kinds" | "names",
    column: Column,
    text: string,
    hint: string,
  ): HTMLElement {
    const order = this.orders[which];
    const active = order.column === column;
    const sort = (): void => {
      this.orders[which] = clicked(order, column);
      this.print();
      this.el
        .querySelector<HTMLElement>(`.hta-table-${which} [data-column="${column}"]`)
        ?.focus({ preventScroll: true });
    };
    const head = h(
      "th",
      {
        scope: "col",
        class: column === "name" ? "" : column === "sum" ? "hta-number hta-sum" : "hta-number",
      },
      h(
        "button",
        {
          type: "button",
          class: "hta-sort",
          "data-column": column,
          title: `${hint}; click to sort`,
          on: { click: sort },
        },
        text,
        h(
          "span",
          { class: "hta-sort-mark", "aria-hidden": "true" },
          active ? (order.descending ? " ↓" : " ↑") : "",
        ),
      ),
      ...(which === "names" && column === "name" ? [this.filter, this.copyNames] : []),
    );
    if (active) aria(head, "sort", order.descending ? "descending" : "ascending");
    return head;
  }
}

function mostOf(rows: readonly Sums[]): number {
  return Math.max(...rows.map((row) => row.sum), 1);
}

function bodyRow(row: Sums, label: Child[], share: number): HTMLElement {
  const time = (ns: number): HTMLElement =>
    h("td", { class: "hta-number", title: formatExact(ns) }, formatDuration(ns));
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, ...label),
    h(
      "td",
      { class: "hta-number hta-sum", title: formatExact(row.sum) },
      h(
        "div",
        { class: "hta-sumrow" },
        h(
          "span",
          { class: "hta-sumplace", "aria-hidden": "true" },
          h("span", {
            class: "hta-sumbar",
            "data-kind": row.kind,
            style: { width: `${share * 100}%` },
          }),
        ),
        formatDuration(row.sum),
      ),
    ),
    h("td", { class: "hta-number" }, formatCount(row.count)),
    time(row.mean),
    time(row.min),
    time(row.max),
  );
}
