/** Everything that can be done, as buttons; each names its key. */

import type { Scene } from "../contract";
import { formatCount } from "../draw/format";
import type { Command } from "./keymap";
import { button, redoButton, undoButton } from "./controls";
import { aria, fill, h, toggle } from "./dom";
import type { FilterBox } from "./filter_box";
import type { Legend } from "./legend";
import { rankFacts } from "./scene";
import type { SearchBox } from "./search_box";
import { NARROW_PX } from "./widths";

const FOLD = "Fold similar ranks";

export class Toolbar {
  readonly el: HTMLElement;
  private readonly title: HTMLElement;
  private readonly facts: HTMLElement;
  private readonly undo: HTMLButtonElement;
  private readonly redo: HTMLButtonElement;
  private readonly color: HTMLButtonElement;
  private readonly fold: HTMLButtonElement;

  constructor(
    private readonly legend: Legend,
    private readonly search: SearchBox,
    filter: FilterBox,
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
      button({
        text: "Export…",
        name: "Export a window as a trace",
        key: "X",
        class: "hta-export-button",
        press: () => run("export"),
      }),
      button({
        text: "?",
        name: "Keys and gestures",
        key: "?",
        class: "hta-help-button",
        press: () => run("help"),
      }),
    );
  }

  setScene(scene: Scene, title = scene.title): void {
    fill(this.title, title);
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
