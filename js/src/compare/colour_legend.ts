/** By what both timelines are coloured, and what the colours of a change mean. */

import { button } from "../app/controls";
import { fill, h } from "../app/dom";
import { formatCount } from "../draw/format";
import { classLook, type ClassGroup, countOf, GROUPS, lookStyle } from "./event_classes";
import { Pane } from "./pane";

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
  private counts: readonly number[][] | null = null;
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
  setCounts(counts: readonly number[][], lack = ""): void {
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
