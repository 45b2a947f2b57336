/** What is selected: in words, as chips that can be taken back one by one, and as Python. */

import { leftOutWords, prefixed } from "./charts/phrases";
import { button } from "../app/controls";
import { type Child, fill, h } from "../app/dom";
import { icon } from "../app/icons";
import { selectionCode } from "../app/python";
import type { Scene, SelectionJson } from "../contract";
import { formatCount, formatDuration, plural, wholeName } from "../draw/format";
import { type Part, without } from "./choice";
import type { Content } from "./pane";
import type { PanelFrame } from "./types";
import { phrasesOf } from "./words";

export interface SelectionWays {
  select(selection: SelectionJson | null): void;
  copy(text: string, what: string): void;
  openExport(): void;
  scene(): Scene;
  shortName(name: string): string;
}

/** A way on that a finding offers. */
export interface Offer {
  text: string;
  /** What it is about. */
  name: string;
  press(): void;
}

export class SelectionPanel implements Content {
  readonly el: HTMLElement;
  readonly hasTitle = true;
  private readonly words = h("p", { class: "hta-sel-words" });
  private readonly chips = h("div", {
    class: "hta-sel-chips",
    role: "group",
    "aria-label": "Parts of the selection",
  });
  private readonly code = h("code", {});
  private readonly doings = h("div", { class: "hta-sel-doings" });
  private selection: SelectionJson | null = null;
  private frame: PanelFrame | null = null;
  private offers: readonly Offer[] = [];

  constructor(private readonly ways: SelectionWays) {
    this.el = h(
      "div",
      { class: "hta-selection" },
      h("header", { class: "hta-pane-head" }, h("h3", {}, "Selection, in words")),
      this.words,
      this.chips,
      h(
        "div",
        { class: "hta-sel-code" },
        this.code,
        button({
          icon: "copy",
          name: "Copy as Python",
          class: "hta-copy-code",
          press: () => this.ways.copy(selectionCode(this.selection), "Python"),
        }),
      ),
      this.doings,
    );
    this.print();
  }

  /** At once, before it is known what it adds up to. */
  select(selection: SelectionJson | null): void {
    this.selection = selection;
    this.frame = null;
    this.print();
  }

  offer(offers: readonly Offer[]): void {
    this.offers = offers;
    this.print();
  }

  show(frame: PanelFrame): void {
    this.frame = frame;
    this.print();
  }

  private print(): void {
    const scene = this.ways.scene();
    const { selection, frame } = this;
    const phrases = phrasesOf(selection, this.ways.shortName);
    const number = (name: string): number | null => {
      const value = frame?.columns[name]?.[0];
      return typeof value === "number" ? value : null;
    };
    const events = number("events");
    const hasGpu = scene.ranks.some(({ summary }) => summary.some(({ role }) => role === "gpu"));
    const from = scene.part ? formatDuration(scene.range[0]) : "0";
    const range = scene.events > 0 ? `${from} to ${formatDuration(scene.range[1])}, ` : "";
    const members: Child[] =
      events === null || scene.events === 0
        ? []
        : [
            plural(events, "event"),
            hasGpu &&
              (number("device_events") ?? 0) > 0 &&
              `, of them ${formatCount(number("device_events"))} on GPUs`,
            (number("collectives") ?? 0) > 0 &&
              `, in ${plural(number("collectives") ?? 0, "collective")}`,
            frame === null ? "" : prefixed(", ", leftOutWords(frame)),
            ".",
          ];
    const what: Child[] =
      phrases.length === 0
        ? [
            "The ",
            h("b", {}, wholeName(scene)),
            `: ${range}${plural(scene.ranks.length, "rank")}, all tracks. `,
          ]
        : [h("b", {}, phrases.map(({ text }) => text).join(", ")), ": "];
    fill(this.words, ...what, ...members);
    this.chips.hidden = phrases.length === 0;
    fill(
      this.chips,
      ...phrases.map(({ part, text, full }) => this.chip(part, text, full)),
      phrases.length > 1 &&
        button({ text: "Clear all", key: "Esc", press: () => this.ways.select(null) }),
    );
    fill(this.code, selectionCode(selection));
    this.code.title = selectionCode(selection);
    fill(
      this.doings,
      ...this.offers.map((offer) => button(offer)),
      button({
        text: "Export…",
        name: "Export the selection as a trace",
        key: "X",
        press: () => this.ways.openExport(),
      }),
    );
  }

  private chip(part: Part, text: string, full: string | undefined): HTMLElement {
    return h(
      "span",
      { class: "hta-sel-chip", title: full },
      h("span", {}, text),
      h(
        "button",
        {
          type: "button",
          "aria-label": `Take back ${text}`,
          title: "Take this part back",
          on: { click: () => this.ways.select(without(this.selection, part)) },
        },
        icon("close"),
      ),
    );
  }
}
