/** Which tracks are shown, by a regular expression. */

import { plural } from "../draw/format";
import type { Context } from "./context";
import { button } from "./controls";
import { aria, fill, h, toggle } from "./dom";
import { Popover } from "./popover";
import { filterError, type Rows } from "./rows";

export class FilterBox {
  readonly el: HTMLButtonElement;
  private readonly input: HTMLInputElement;
  private readonly note: HTMLElement;
  private readonly sheet: Popover;

  constructor(
    private readonly ctx: Context,
    private readonly rows: Rows,
  ) {
    this.el = button({ icon: "filter", name: "Filter tracks", press: () => this.sheet.toggle() });
    this.input = h("input", {
      type: "text",
      class: "hta-input",
      placeholder: "rank [0-3]|stream 7",
      "aria-label": "Show only tracks that match this regular expression",
      spellcheck: "false",
      autocomplete: "off",
      on: {
        input: () => this.apply(),
        keydown: (event: KeyboardEvent) => {
          if (event.key === "Enter") this.sheet.close();
        },
      },
    });
    this.note = h("div", { class: "hta-note", "aria-live": "polite" });
    const content = h(
      "div",
      { class: "hta-filter" },
      h("label", { class: "hta-label" }, "Show tracks that match"),
      h(
        "div",
        { class: "hta-field-row" },
        this.input,
        button({ text: "Show all", press: () => this.clear() }),
      ),
      this.note,
    );
    this.sheet = new Popover(ctx.root, this.el, "Filter tracks", content, ctx.signal);
    rows.changed.on(() => this.print());
    this.print();
  }

  private apply(): void {
    this.rows.setFilter(this.input.value);
    this.print();
  }

  clear(): void {
    this.input.value = "";
    this.apply();
  }

  private print(): void {
    const error = filterError(this.input.value);
    toggle(this.input, "hta-invalid", error !== null);
    aria(this.input, "invalid", error !== null);
    toggle(this.el, "hta-on", this.rows.filter !== "");
    if (error !== null) {
      fill(this.note, error);
    } else if (this.rows.filter === "") {
      fill(this.note, "A regular expression over rank, process, track and host. Ignores case.");
    } else {
      const rows = this.ctx.stage.rows();
      const ranks = new Set(rows.map((row) => row.rank)).size;
      const all = this.ctx.scene.ranks.length;
      fill(this.note, `${ranks} of ${plural(all, "rank")}, ${plural(rows.length, "row")} shown.`);
    }
  }
}
