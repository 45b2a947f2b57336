/** Toolbar of a dashboard and its form for saving a page. */

import { PANELS } from "../facts/panels";
import { asError, isAbort, type Scene, type Source, type Requests } from "../protocol/source";
import { rankFacts } from "../timeline/text";
import { button, checkbox, icon, redoButton, undoButton } from "../ui/controls";
import { aria, type Child, fill, h, toggle } from "../ui/dom";
import { formatBytes, formatDuration, plural } from "../ui/formats";
import { Popover } from "../ui/menu";
import type { MenuItem } from "./pane";

interface ToolbarWays {
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
  help(anchor: HTMLElement): void;
  openProblems(anchor: HTMLElement): void;
  /** The button of the full window. */
  full: HTMLElement;
}

export class DashToolbar {
  readonly el: HTMLElement;
  private readonly title = h("b", { class: "hta-title" });
  private readonly facts = h("span", { class: "hta-facts" });
  private readonly problems: HTMLButtonElement;
  private readonly undo: HTMLButtonElement;
  private readonly redo: HTMLButtonElement;
  private readonly scope: HTMLButtonElement;
  readonly exporting: HTMLButtonElement;
  readonly helpButton: HTMLButtonElement;
  private now: "selection" | "view" = "selection";
  private open: Popover | null = null;
  private whole = "Whole job";

  constructor(private readonly ways: ToolbarWays) {
    this.problems = h("button", {
      type: "button",
      class: "hta-badge hta-warn hta-problem-badge",
      on: { click: () => ways.openProblems(this.problems) },
    });
    this.undo = undoButton(() => ways.undo());
    this.redo = redoButton(() => ways.redo());
    this.scope = this.opener(this.whole, "What the figures are of", () => this.scopes());
    this.exporting = this.opener("Export…", "Write the selection, a table or a chart", () =>
      this.exports(),
    );
    this.helpButton = button({
      text: "?",
      name: "Keys and gestures",
      class: "hta-help-button",
      press: () => ways.help(this.helpButton),
    });
    this.el = h(
      "div",
      { class: "hta-toolbar hta-dash-toolbar", role: "toolbar", "aria-label": "Dashboard" },
      h("div", { class: "hta-name hta-grow" }, this.title, this.facts, this.problems),
      h("div", { class: "hta-pair" }, this.undo, this.redo),
      this.scope,
      this.opener("Panels", "Choose which panels are shown", () => this.panels()),
      this.exporting,
      this.opener("Save HTML", "Save all this as one page that needs no kernel", () =>
        ways.saveForm(),
      ),
      ways.full,
      this.helpButton,
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

// Asks for a file's name and lets the kernel write it.

interface FormLook {
  request: Omit<Requests["save_html"], "path">;
  path: string;
  about: string;
}

export function saveForm(source: Source, signal: AbortSignal, look: FormLook): HTMLElement {
  const path = h("input", {
    type: "text",
    class: "hta-input hta-path",
    "aria-label": "File to write, on the kernel's machine",
    spellcheck: "false",
    value: look.path,
    on: { keydown: (event: KeyboardEvent) => event.key === "Enter" && run() },
  });
  const said = h("div", { class: "hta-result", role: "status", "aria-live": "polite" });
  const write = button({ text: "Write file", class: "hta-primary", press: () => run() });
  let busy = false;
  function run(): void {
    if (busy) return;
    busy = true;
    write.setAttribute("aria-busy", "true");
    fill(said, h("span", { class: "hta-note" }, "Writing…"));
    source
      .ask("save_html", { ...look.request, path: path.value.trim() }, signal)
      .then(({ reply }) => {
        const size = reply.bytes === undefined ? "" : `, ${formatBytes(reply.bytes)}`;
        fill(said, h("b", { class: "hta-ok-text" }, `Wrote ${reply.path}`), size, ".");
      })
      .catch((error: unknown) => {
        if (!isAbort(error))
          fill(said, h("span", { class: "hta-error-text" }, asError(error).message));
      })
      .finally(() => {
        busy = false;
        write.removeAttribute("aria-busy");
      });
  }
  const gone = source.status === "none";
  return h(
    "div",
    { class: "hta-save-form" },
    h("p", { class: "hta-note" }, look.about),
    gone
      ? h("p", {}, "There is no kernel that could write it.")
      : h("div", { class: "hta-field-row" }, path, write),
    said,
  );
}
