/** The line below: what is seen, in words; at the right what is known of its truth. */

import type { Scene, Source } from "../contract";
import { formatCount, plural } from "../draw/format";
import { type Context, throttle } from "./context";
import { kbd, sentence } from "./controls";
import { fill, h, put, toggle } from "./dom";
import { icon } from "./icons";
import { plain, type Words } from "./words";

/** Who may speak, the most urgent first. */
const LAYERS = ["flash", "brush", "kernel", "area", "search", "event", "view"] as const;
export type Layer = (typeof LAYERS)[number];

const SPOKEN_MS = 1000;

type Hint = readonly (readonly [keys: readonly string[], word: string])[];

/** Keys to begin with; shorter where room is short. */
const HINTS: readonly Hint[] = [
  [
    [["W", "S"], "zoom"],
    [["A", "D"], "pan"],
    [["/"], "search"],
    [["?"], "keys"],
    [["Esc", "Esc"], "leave"],
  ],
  [
    [["W", "S"], "zoom"],
    [["?"], "keys"],
    [["Esc", "Esc"], "leave"],
  ],
  [
    [["?"], "keys"],
    [["Esc", "Esc"], "leave"],
  ],
  [[["?"], "keys"]],
];

export interface KernelSays {
  badge: string;
  words: Words;
  isWarning: boolean;
}

const KERNEL: Record<Exclude<Source["status"], "live">, KernelSays> = {
  busy: {
    badge: "Kernel busy",
    words: ["Zoom and pan work; detail follows when the cell ends."],
    isWarning: true,
  },
  none: {
    badge: "Saved view",
    words: ["No kernel: the page answers from what it holds."],
    isWarning: false,
  },
};

export interface StatusWays {
  openProblems(): void;
  showAllRanks(): void;
  /** What the source's status means; null for the usual. */
  kernelSays(): KernelSays | null;
}

export class StatusLine {
  readonly el: HTMLElement;
  private readonly root: HTMLElement;
  private readonly source: Source;
  private readonly text: HTMLElement;
  private readonly live: HTMLElement;
  private readonly kernel: HTMLButtonElement;
  private readonly truth: HTMLButtonElement;
  private readonly ranks: HTMLButtonElement;
  private readonly aside = h("span", { class: "hta-note", hidden: true });
  private readonly said = new Map<Layer, Words>();
  private readonly speak: () => void;
  private flashTimer = 0;
  private hinting = false;
  /** Of a saved view: what of the job is in the page. */
  private embedded: string | null = null;
  private shown: Words = [];

  constructor(
    ctx: Context,
    private readonly ways: StatusWays,
  ) {
    this.root = ctx.root;
    this.source = ctx.source;
    this.text = h("div", { class: "hta-words" });
    this.live = h("div", { class: "hta-hidden", role: "status", "aria-live": "polite" });
    this.kernel = h("button", {
      type: "button",
      class: "hta-badge hta-warn hta-kernel",
      hidden: true,
      on: { click: () => this.sayKernel() },
    });
    this.truth = h("button", {
      type: "button",
      class: "hta-badge",
      on: { click: ways.openProblems },
    });
    this.ranks = h("button", {
      type: "button",
      class: "hta-ranks-shown",
      hidden: true,
      title: "Show the rows of all ranks; what is selected stays selected",
      on: { click: ways.showAllRanks },
    });
    this.el = h(
      "div",
      { class: "hta-status" },
      this.kernel,
      this.text,
      this.live,
      this.aside,
      this.ranks,
      this.truth,
    );
    this.speak = throttle(SPOKEN_MS, ctx.signal, () => fill(this.live, plain(this.shown)));
    ctx.signal.addEventListener("abort", () => clearTimeout(this.flashTimer), { once: true });
    this.setKernel(ctx.source.status);
  }

  /** Say something on a layer; null takes it back. */
  say(layer: Layer, words: Words | null): void {
    if (words === null) this.said.delete(layer);
    else this.said.set(layer, words);
    this.print();
  }

  /** Say something for a moment. */
  flash(words: Words, ms = 2000): void {
    clearTimeout(this.flashTimer);
    this.say("flash", words);
    this.flashTimer = window.setTimeout(() => this.say("flash", null), ms);
  }

  /** Keys to begin with, while focused and none was pressed. */
  setHint(on: boolean): void {
    if (on === this.hinting) return;
    this.hinting = on;
    toggle(this.root, "hta-hinting", on);
    this.print();
  }

  setKernel(status: Source["status"]): void {
    this.kernel.hidden = status === "live";
    if (status === "live") {
      this.say("kernel", null);
      return;
    }
    const { badge, words, isWarning } = this.ways.kernelSays() ?? KERNEL[status];
    fill(this.kernel, status === "busy" ? "● " : "", badge);
    toggle(this.kernel, "hta-warn", isWarning);
    this.kernel.title = plain(words);
    // A saved view stays one: its badge says so, and the line is free for what is seen.
    this.say("kernel", status === "busy" ? words : null);
  }

  /** Of a saved view: what of the job is in the page. */
  setEmbedded(embedded: Scene["embedded"]): void {
    if (embedded === undefined) return;
    this.kernel.title = `${KERNEL.none.badge}. ${embedded.text}`;
    this.embedded = embedded.text;
    if (embedded.level === "partial") fill(this.kernel, h("span", {}, this.kernel.title));
  }

  /** The badge was pressed: what it means, also where another sentence stands. */
  private sayKernel(): void {
    const { status } = this.source;
    if (status === "live") return;
    const says = this.ways.kernelSays() ?? KERNEL[status];
    this.flash(this.embedded === null ? says.words : [this.embedded], 5000);
  }

  /** What goes on in the background. */
  setAside(text: string): void {
    this.aside.hidden = text === "";
    fill(this.aside, text);
  }

  /** Rows of some ranks only, as a linked panel selected them. */
  setRanks(shown: number, all: number): void {
    this.ranks.hidden = shown === all;
    fill(
      this.ranks,
      `${formatCount(shown)} of ${plural(all, "rank")} shown · `,
      h("b", {}, "Show all"),
    );
  }

  setTruth(truth: Scene["truth"]): void {
    const ok = truth.level === "ok";
    this.truth.className = `hta-badge ${ok ? "hta-ok" : "hta-warn"}`;
    const text = truth.text.replace(/^[✓⚠]\s*/u, "");
    const brief = text.split(/[,·]/)[0]?.trim() ?? text;
    fill(
      this.truth,
      icon(ok ? "check" : "warn"),
      h("span", { class: "hta-if-wide" }, text),
      h("span", { class: "hta-if-tight" }, brief),
    );
    this.truth.title = `${truth.text}. Click for what was skipped, repaired or guessed.`;
  }

  private print(): void {
    const layer = LAYERS.find((one) => this.said.has(one));
    const words = (layer !== undefined && this.said.get(layer)) || [];
    if (JSON.stringify(words) !== JSON.stringify(this.shown)) {
      this.shown = words;
      this.speak();
    }
    fill(this.text, h("span", { class: "hta-said" }, ...sentence(words)));
    this.text.title = plain(words);
    if (this.hinting && layer !== "flash" && layer !== "brush") this.putHint();
  }

  /** As much of the hint as fits behind the sentence; the sentence gives way for the last key. */
  private putHint(): void {
    const said = this.text.firstElementChild;
    for (const pieces of HINTS) {
      const hint = hintOf(pieces);
      put(this.text, hint);
      const cut = said !== null && said.scrollWidth > said.clientWidth;
      if (!cut || pieces === HINTS.at(-1)) return;
      hint.remove();
    }
  }
}

function hintOf(pieces: Hint): HTMLElement {
  const el = h("span", { class: "hta-hint" });
  pieces.forEach(([keys, word], at) => {
    if (at > 0) put(el, " · ");
    for (const key of keys) put(el, kbd(key), " ");
    put(el, word);
  });
  return el;
}
