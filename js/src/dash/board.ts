/** The board on which the panels lie: bands of columns, parted by rules. */

import { h, toggle } from "../app/dom";
import { type Choice, type Layout, layoutOf } from "./layout";

export class Board {
  readonly el = h("div", { class: "hta-board" });
  layout: Layout | null = null;
  private shown = "";

  constructor(
    private readonly root: HTMLElement,
    /** The element of a panel. */
    private readonly paneOf: (id: string) => HTMLElement,
    private readonly status: HTMLElement,
  ) {}

  /** The panels of its column and of those beside it; null where it has the width for itself. */
  columnsBeside(id: string): { own: string[]; others: string[][] } | null {
    const band = this.layout?.bands.find(({ columns }) =>
      columns.some(({ panels }) => panels.includes(id)),
    );
    const own = band?.columns.find(({ panels }) => panels.includes(id));
    if (band === undefined || own === undefined || band.columns.length < 2) return null;
    const others = band.columns.filter((column) => column !== own);
    return { own: own.panels, others: others.map(({ panels }) => panels) };
  }

  /** Put every panel where it belongs at this width; false if all of them are there already. */
  arrange(width: number, choice: Choice): boolean {
    if (width <= 0) return false;
    const layout = layoutOf(width, choice);
    const key = JSON.stringify([layout]);
    if (key === this.shown) return false;
    this.shown = key;
    this.layout = layout;
    toggle(this.root, "hta-dash-one", layout.name === "one");
    toggle(this.root, "hta-dash-wide", layout.name === "wide");
    const bands = layout.bands.map(({ columns }) => {
      const band = h("div", { class: "hta-band" });
      band.style.gridTemplateColumns = columns.map((column) => column.width).join(" ");
      for (const { panels } of columns) {
        band.append(h("div", { class: "hta-band-column" }, ...panels.map(this.paneOf)));
      }
      return band;
    });
    bands.splice(layout.statusAfter + 1, 0, this.status as HTMLDivElement);
    this.el.replaceChildren(...bands);
    return true;
  }
}
