/** Toolbar of a timeline and its filter box. */

import type { Scene } from "../protocol/source";
import { button, cutName, redoButton, undoButton } from "../ui/controls";
import { aria, fill, h, toggle } from "../ui/dom";
import { formatCount, plural } from "../ui/formats";
import { NARROW_PX } from "../ui/host";
import { Popover } from "../ui/menu";
import type { Context } from "./context";
import type { Command } from "./keys";
import type { Legend } from "./legend";
import { filterError, type Rows } from "./rows";
import type { SearchBox } from "./search";
import { rankFacts } from "./text";

const FOLD = "Fold similar ranks";

export class Toolbar {
  readonly el: HTMLElement;
  private readonly title: HTMLElement;
  private readonly facts: HTMLElement;
  private readonly undo: HTMLButtonElement;
  private readonly redo: HTMLButtonElement;
  private readonly color: HTMLButtonElement;
  private readonly fold: HTMLButtonElement;
  readonly exporting: HTMLButtonElement;
  readonly help: HTMLButtonElement;

  constructor(
    private readonly legend: Legend,
    private readonly search: SearchBox,
    filter: FilterBox,
    full: HTMLElement | null,
    run: (command: Command) => void,
  ) {
    this.title = h("b", { class: "hta-title" });
    this.facts = h("span", { class: "hta-facts" });
    this.undo = undoButton(() => run("undo"));
    this.redo = redoButton(() => run("redo"));
    this.color = button({
      icon: "color",
      text: "by kind",
      name: "Colour by kind or by name",
      key: "C",
      class: "hta-color",
      press: () => run("color"),
    });
    this.fold = button({
      icon: "fold",
      name: FOLD,
      key: "U",
      class: "hta-fold",
      press: () => run("fold"),
    });
    this.fold.hidden = true;
    this.exporting = button({
      text: "Export…",
      name: "Export a window as a trace",
      key: "X",
      class: "hta-export-button",
      press: () => run("export"),
    });
    this.help = button({
      text: "?",
      name: "Keys and gestures",
      key: "?",
      class: "hta-help-button",
      press: () => run("help"),
    });
    this.el = h(
      "div",
      { class: "hta-toolbar", role: "toolbar", "aria-label": "Timeline" },
      h("div", { class: "hta-name" }, this.title, this.facts),
      legend.el,
      search.el,
      h("div", { class: "hta-pair" }, this.undo, this.redo),
      button({
        text: "Fit",
        name: "Zoom to the selection, or to everything",
        key: "F",
        showKey: true,
        press: () => run("zoom-selection"),
      }),
      this.color,
      this.fold,
      filter.el,
      this.exporting,
      full,
      this.help,
    );
  }

  setScene(scene: Scene, title = scene.title): void {
    fill(this.title, cutName(title));
    this.title.title = title;
    fill(
      this.facts,
      rankFacts(scene),
      h("span", { class: "hta-if-spacious" }, ` · ${formatCount(scene.events)} events`),
    );
  }

  setHistory(canUndo: boolean, canRedo: boolean): void {
    // Not `disabled`: a disabled button loses the focus that the next key needs.
    aria(this.undo, "disabled", !canUndo);
    aria(this.redo, "disabled", !canRedo);
  }

  setColor(color: "kind" | "name"): void {
    const label = this.color.querySelector(".hta-button-text");
    if (label !== null) label.textContent = `by ${color}`;
    aria(this.color, "pressed", color === "name");
  }

  setFolding(offered: boolean, on: boolean): void {
    this.fold.hidden = !offered;
    aria(this.fold, "pressed", on);
    toggle(this.fold, "hta-on", on);
  }

  setWidth(width: number): void {
    const narrow = width < NARROW_PX;
    toggle(this.el, "hta-narrow", narrow);
    this.search.setNarrow(narrow);
    this.legend.setNarrow(narrow);
  }
}

// Filter of the shown tracks by a regular expression.

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
      placeholder: "rank [0-3] stream 7",
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
      fill(
        this.note,
        "A regular expression over rank, process, track, host, and rank with track (“rank 5 stream 7”). Ignores case.",
      );
    } else {
      const rows = this.ctx.stage.rows();
      const ranks = new Set(rows.map((row) => row.rank)).size;
      const all = this.ctx.scene.ranks.length;
      fill(this.note, `${ranks} of ${plural(all, "rank")}, ${plural(rows.length, "row")} shown.`);
    }
  }
}
