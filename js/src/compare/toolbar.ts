/** Toolbar of a comparison, its cautions, and the legend of change classes. */

import { type ClassGroup, classLook, countOf, GROUPS, lookStyle } from "../facts/event_classes";
import { button, redoButton, undoButton } from "../ui/controls";
import { fill, h } from "../ui/dom";
import { formatCount, plural } from "../ui/formats";
import { Popover } from "../ui/menu";
import type { Base } from "./align";
import { type About, shortLabels } from "./frames";
import { Pane } from "./pane";

interface ToolbarWays {
  root: HTMLElement;
  signal: AbortSignal;
  setBase(base: Base): void;
  swap(): void;
  couple(): void;
  undo(): void;
  redo(): void;
  /** Frames and timelines of one pair of ranks; null for all. */
  setPair(pair: number | null): void;
  /** Null where there is no kernel to write files. */
  exportPair: ((path: string) => Promise<string>) | null;
  savePage: ((path: string) => Promise<string>) | null;
  exportSide(side: 0 | 1, anchor: HTMLElement): void;
  /** The button of the full window. */
  full: HTMLElement;
}

const BASES: readonly (readonly [Base, string, string])[] = [
  ["steps", "steps", "Every pair of steps starts in line"],
  ["first_step", "start", "The first steps start in line"],
  ["collectives", "collectives", "Every pair of collectives starts in line"],
  ["absolute", "absolute", "Each run's own times"],
  ["scaled", "scaled", "The shorter run stretched to the length of the longer one"],
];

export class DiffToolbar {
  readonly el: HTMLElement;
  private readonly title = h("b", { class: "hta-title" });
  private readonly facts = h("span", { class: "hta-facts" });
  private readonly badge: HTMLButtonElement;
  private readonly bases: HTMLButtonElement[];
  private readonly select: HTMLSelectElement;
  private readonly link: HTMLButtonElement;
  private readonly pairs: HTMLSelectElement;
  private readonly undo: HTMLButtonElement;
  private readonly redo: HTMLButtonElement;
  private cautions: About["cautions"] = [];

  constructor(
    private readonly ways: ToolbarWays,
    about: About,
  ) {
    const hasEvents = about.has_events;
    this.badge = h("button", { type: "button", class: "hta-badge hta-warn hta-problem-badge" });
    this.opens(this.badge, "What makes these runs less than comparable", () =>
      h(
        "ul",
        { class: "hta-diff-cautions" },
        ...this.cautions.map(({ text }) => h("li", {}, text)),
      ),
    );
    this.bases = BASES.map(([base, text, about]) =>
      h(
        "button",
        {
          type: "button",
          title: about,
          "data-base": base,
          on: { click: () => ways.setBase(base) },
        },
        text,
      ),
    );
    this.select = h(
      "select",
      {
        class: "hta-diff-bases-narrow",
        "aria-label": "Align",
        on: { change: () => ways.setBase(this.select.value as Base) },
      },
      ...BASES.map(([base, text]) => h("option", { value: base }, text)),
    );
    this.pairs = h("select", {
      class: "hta-diff-pairs",
      "aria-label": "Ranks",
      title: "Which ranks figures and timelines are of",
      on: {
        change: () => ways.setPair(this.pairs.value === "" ? null : Number(this.pairs.value)),
      },
    });
    this.undo = undoButton(() => ways.undo());
    this.redo = redoButton(() => ways.redo());
    this.link = button({
      text: "Linked",
      name: "Linked: zoom and select on both timelines together",
      class: "hta-diff-link",
      press: () => ways.couple(),
    });
    const exports = button({
      text: "Export…",
      name: "Export… both runs as one trace, or a window",
      press: () => {},
    });
    this.opens(exports, "Export", () => this.sheet(hasEvents, exports));
    this.el = h(
      "div",
      { class: "hta-toolbar hta-dash-toolbar", role: "toolbar", "aria-label": "Comparison" },
      h("div", { class: "hta-name hta-grow" }, this.title, this.facts, this.badge),
      h(
        "div",
        { class: "hta-diff-controls" },
        hasEvents &&
          h(
            "div",
            { class: "hta-diff-align" },
            h("span", { class: "hta-note" }, "Align"),
            h(
              "span",
              { class: "hta-diff-choice", role: "group", "aria-label": "Align" },
              ...this.bases,
            ),
            this.select,
          ),
        hasEvents && about.rank_pairs.length > 1 && this.pairs,
        hasEvents && h("div", { class: "hta-pair" }, this.undo, this.redo),
        hasEvents && this.link,
        button({ text: "Swap", name: "Swap: before becomes after", press: () => ways.swap() }),
        (hasEvents || ways.savePage !== null) && exports,
        ways.full,
      ),
    );
  }

  setHistory(canUndo: boolean, canRedo: boolean): void {
    // Not `disabled`: a disabled button loses the focus that the next key needs.
    this.undo.setAttribute("aria-disabled", String(!canUndo));
    this.redo.setAttribute("aria-disabled", String(!canRedo));
  }

  setPair(pair: number | null): void {
    this.pairs.value = pair === null ? "" : String(pair);
  }

  private listPairs(about: About, swapped: boolean): void {
    const { rank_pairs: pairs, held_pairs: held } = about;
    const chosen = this.pairs.value;
    const all = about.by_rank_means ? "all ranks (means)" : `all ${pairs.length} pairs of ranks`;
    fill(
      this.pairs,
      h("option", { value: "" }, all),
      ...pairs.map((pair, at) => {
        const [before, after] = swapped ? [pair[1], pair[0]] : pair;
        const words = before === after ? `rank ${before}` : `rank ${before} → rank ${after}`;
        const lacks = held !== undefined && !held.includes(at);
        return h(
          "option",
          { value: String(at), disabled: lacks },
          lacks ? `${words} (not in this page)` : words,
        );
      }),
    );
    this.pairs.value = chosen;
  }

  setAbout(labels: readonly [string, string], about: About, swapped: boolean): void {
    this.listPairs(about, swapped);
    fill(this.title, shortLabels(labels).join(" → "));
    this.title.title = `${labels[0]} → ${labels[1]}`;
    fill(this.facts, about.facts);
    this.cautions = about.cautions;
    this.badge.hidden = about.cautions.length === 0;
    const [first = "", ...rest] = about.cautions.map(({ text }) => text);
    const more = rest.length > 0 ? ` and ${plural(rest.length, "more caution")}` : "";
    fill(
      this.badge,
      h("span", { class: "hta-diff-caution-long" }, `⚠ ${first}${more}`),
      h(
        "span",
        { class: "hta-diff-caution-short" },
        `⚠ ${plural(about.cautions.length, "caution")}`,
      ),
    );
    this.badge.title = [first, ...rest].join("\n");
  }

  setBase(base: Base): void {
    for (const one of this.bases) {
      one.setAttribute("aria-pressed", String(one.dataset.base === base));
    }
    this.select.value = base;
  }

  setCoupled(coupled: boolean): void {
    this.link.setAttribute("aria-pressed", String(coupled));
    this.link.classList.toggle("hta-on", coupled);
  }

  private opens(anchor: HTMLElement, name: string, content: () => HTMLElement): void {
    let open: Popover | null = null;
    anchor.addEventListener("click", () => {
      if (open?.isOpen) {
        open.close();
        return;
      }
      open = new Popover(this.ways.root, anchor, name, content(), this.ways.signal);
      open.open();
    });
  }

  private sheet(hasEvents: boolean, anchor: HTMLElement): HTMLElement {
    const { ways } = this;
    const said = h("p", { class: "hta-note", "aria-live": "polite" });
    const file = (
      label: string,
      name: string,
      write: ((path: string) => Promise<string>) | null,
    ): HTMLElement | false => {
      if (write === null) return false;
      const path = h("input", {
        type: "text",
        value: name,
        "aria-label": label,
        class: "hta-path",
      });
      const press = (): void => {
        said.textContent = "Writing…";
        write(path.value).then(
          (text) => (said.textContent = text),
          (error: unknown) => (said.textContent = (error as Error).message),
        );
      };
      return h("div", { class: "hta-diff-file" }, path, button({ text: label, press }));
    };
    return h(
      "div",
      { class: "hta-save-form" },
      hasEvents && file("Write both as one trace", "pair.json.gz", ways.exportPair),
      file("Save this page", "diff.html", ways.savePage),
      hasEvents &&
        h(
          "div",
          { class: "hta-diff-file" },
          button({ text: "Window of before…", press: () => ways.exportSide(0, anchor) }),
          button({ text: "Window of after…", press: () => ways.exportSide(1, anchor) }),
        ),
      said,
    );
  }
}

// By what both timelines are coloured, and what the colours of a change mean.

export type Colour = "change" | "kind" | "name";

const MODES: readonly (readonly [Colour, string])[] = [
  ["change", "By what became of each event"],
  ["kind", "By kind: compute, communication, copies, host"],
  ["name", "By kind, each name in a shade of its own"],
];

export class ColourLegend extends Pane {
  readonly el = h("div", { class: "hta-diff-colours" });
  private readonly keys = h("div", { class: "hta-diff-keys" });
  private readonly modes: HTMLButtonElement[];
  private colour: Colour = "change";
  private counts: readonly (readonly number[])[] | null = null;
  private swapped = false;
  private lack = "";
  private again: (() => void) | null = null;

  constructor(choose: (colour: Colour) => void) {
    super();
    this.modes = MODES.map(([mode, about]) =>
      h(
        "button",
        {
          type: "button",
          title: about,
          "data-colour": mode,
          on: { click: () => choose(mode) },
        },
        mode,
      ),
    );
    this.el.append(
      h("span", { class: "hta-note" }, "Colour by"),
      h(
        "span",
        { class: "hta-diff-choice", role: "group", "aria-label": "Colour by" },
        ...this.modes,
      ),
      this.keys,
    );
  }

  show(colour: Colour, swapped: boolean): void {
    this.colour = colour;
    this.swapped = swapped;
    this.draw();
  }

  /** How many events have each class, before and after; `lack` says what is not known of which. */
  setCounts(counts: readonly (readonly number[])[], lack = ""): void {
    this.counts = counts;
    this.lack = lack;
    this.draw();
  }

  /** Calls could not be matched; null: that is being tried. */
  setAgain(again: (() => void) | null): void {
    this.again = again;
    this.draw();
  }

  protected draw(): void {
    for (const mode of this.modes) {
      mode.setAttribute("aria-pressed", String(mode.dataset.colour === this.colour));
    }
    if (this.colour !== "change") {
      fill(this.keys);
      return;
    }
    const { counts, swapped } = this;
    const there = GROUPS.map((group) => ({ group, count: countOf(group, counts, swapped) }));
    fill(
      this.keys,
      ...there.filter(({ count }) => count !== 0).map(({ group, count }) => this.key(group, count)),
      h(
        "span",
        { class: "hta-note" },
        counts !== null
          ? `short events: by most of their time${this.lack}`
          : this.again === null
            ? "matching calls …"
            : "calls could not be matched",
      ),
      counts === null && this.again !== null && button({ text: "Try again", press: this.again }),
    );
  }

  private key(group: ClassGroup, count: number | null): HTMLElement {
    const words = count === null ? "" : ` ${formatCount(count)} events on both sides.`;
    return h(
      "span",
      { class: "hta-diff-key", title: `${group.name}: ${group.words}.${words}` },
      ...group.classes.map((name) =>
        h("i", { class: "hta-diff-swatch", style: lookStyle(classLook(name, this.theme)) }),
      ),
      h("span", {}, group.name),
      count !== null && h("small", {}, formatCount(count)),
    );
  }
}
