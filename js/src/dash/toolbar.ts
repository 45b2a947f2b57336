/** The line at the top: what is shown, what is wrong with it, and what can be done with all of it. */

import { button, checkbox, redoButton, undoButton } from "../app/controls";
import { aria, type Child, fill, h, toggle } from "../app/dom";
import { icon } from "../app/icons";
import { Popover } from "../app/popover";
import { rankFacts } from "../app/scene";
import type { Scene } from "../contract";
import { formatCount, formatDuration, plural } from "../draw/format";
import { PANELS } from "./catalog";
import type { MenuItem } from "./pane";

export interface ToolbarWays {
  root: HTMLElement;
  signal: AbortSignal;
  undo(): void;
  redo(): void;
  setScope(scope: "selection" | "view"): void;
  clear(): void;
  showPanel(id: string, on: boolean): void;
  isShown(id: string): boolean;
  /** Is there anything that it could show? */
  isOffered(id: string): boolean;
  exports(): MenuItem[];
  /** The sheet to save all this as a page. */
  saveForm(): HTMLElement;
  help(): void;
  openProblems(): void;
}

export class DashToolbar {
  readonly el: HTMLElement;
  private readonly title = h("b", { class: "hta-title" });
  private readonly facts = h("span", { class: "hta-facts" });
  private readonly problems: HTMLButtonElement;
  private readonly undo: HTMLButtonElement;
  private readonly redo: HTMLButtonElement;
  private readonly scope: HTMLButtonElement;
  private now: "selection" | "view" = "selection";
  private open: Popover | null = null;
  private whole = "Whole job";

  constructor(private readonly ways: ToolbarWays) {
    this.problems = h("button", {
      type: "button",
      class: "hta-badge hta-warn hta-problem-badge",
      on: { click: () => ways.openProblems() },
    });
    this.undo = undoButton(() => ways.undo());
    this.redo = redoButton(() => ways.redo());
    this.scope = this.opener(this.whole, "What the figures are of", () => this.scopes());
    this.el = h(
      "div",
      { class: "hta-toolbar hta-dash-toolbar", role: "toolbar", "aria-label": "Dashboard" },
      h("div", { class: "hta-name hta-grow" }, this.title, this.facts, this.problems),
      h("div", { class: "hta-pair" }, this.undo, this.redo),
      this.scope,
      this.opener("Panels", "Choose which panels are shown", () => this.panels()),
      this.opener("Export…", "Write the selection, a table or a chart", () => this.exports()),
      this.opener("Save HTML", "Save all this as one page that needs no kernel", () =>
        ways.saveForm(),
      ),
      button({ text: "?", name: "Keys and gestures", class: "hta-help-button", press: ways.help }),
    );
  }

  setScene(scene: Scene, format: string): void {
    fill(this.title, scene.title);
    this.title.title = scene.title;
    const length = formatDuration(scene.range[1] - scene.range[0]);
    const steps = scene.steps.length > 0 ? [plural(scene.steps.length, "step")] : [];
    this.whole = scene.part ? "Whole export" : "Whole job";
    const before = format === "" ? "" : `${format} · `;
    const after = [...(scene.events > 0 ? [plural(scene.events, "event"), length] : []), ...steps];
    fill(this.facts, before, rankFacts(scene), ...after.map((one) => ` · ${one}`));
    this.facts.title = this.facts.textContent;
  }

  setProblems(kinds: number, scene: Scene): void {
    const warn = scene.truth.level !== "ok";
    this.problems.hidden = kinds === 0;
    toggle(this.problems, "hta-warn", warn);
    fill(
      this.problems,
      warn && icon("warn"),
      h("span", {}, warn ? plural(kinds, "problem") : plural(kinds, "note")),
    );
    this.problems.title = scene.truth.text;
  }

  setHistory(canUndo: boolean, canRedo: boolean): void {
    aria(this.undo, "disabled", !canUndo);
    aria(this.redo, "disabled", !canRedo);
  }

  setScope(scope: "selection" | "view", hasSelection: boolean): void {
    this.now = scope;
    const text = scope === "view" ? "In view" : hasSelection ? "Selection" : this.whole;
    fill(this.scope, h("span", { class: "hta-button-text" }, text), " ▾");
    aria(this.scope, "label", `Figures are of: ${text}`);
  }

  private opener(text: string, name: string, content: () => HTMLElement): HTMLButtonElement {
    let popover: Popover | null = null;
    const node = button({
      text,
      name,
      press: () => {
        if (popover?.isOpen === true) {
          popover.close();
          return;
        }
        popover = new Popover(this.ways.root, node, name, content(), this.ways.signal);
        this.open = popover;
        popover.open();
      },
    });
    return node;
  }

  private menu(...items: Child[]): HTMLElement {
    return h("div", { class: "hta-dash-menu" }, ...items);
  }

  private item(text: string, press: () => void, note?: string, on?: boolean): HTMLElement {
    const node = h(
      "button",
      {
        type: "button",
        class: "hta-menu-item",
        on: {
          click: () => {
            this.open?.close();
            press();
          },
        },
      },
      on !== undefined && h("span", { class: "hta-menu-mark" }, on && icon("check")),
      h("span", {}, text),
      note !== undefined && h("span", { class: "hta-note" }, note),
    );
    if (on !== undefined) aria(node, "pressed", on);
    return node;
  }

  private scopes(): HTMLElement {
    const { ways, now } = this;
    return this.menu(
      this.item(
        "Selection",
        () => ways.setScope("selection"),
        `the ${this.whole.toLowerCase()} if nothing is selected`,
        now === "selection",
      ),
      this.item(
        "In view",
        () => ways.setScope("view"),
        "the timeline's window, where none is selected",
        now === "view",
      ),
      h("hr", {}),
      this.item("Clear the selection", () => ways.clear()),
    );
  }

  private panels(): HTMLElement {
    return this.menu(
      ...PANELS.filter(({ id }) => this.ways.isOffered(id)).map(({ id, title, about }) => {
        const { el, input } = checkbox(title, about, this.ways.isShown(id));
        input.addEventListener("change", () => this.ways.showPanel(id, input.checked));
        el.append(h("span", { class: "hta-note" }, about));
        return el;
      }),
    );
  }

  private exports(): HTMLElement {
    return this.menu(...this.ways.exports().map(({ text, press }) => this.item(text, press)));
  }
}

/** `8` as the badge of a heading has it. */
export function badge(count: number): HTMLElement {
  return h("span", { class: "hta-count-badge" }, formatCount(count));
}
