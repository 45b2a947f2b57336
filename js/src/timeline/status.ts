/** The status line and the state of the connection. */

import { type HybridSource, type Progress, wholeSpan } from "../connection/answering";
import { same } from "../connection/store";
import {
  type ClockFacts,
  isAbort,
  type Scene,
  type Source,
  type Lateness,
  type Stats,
} from "../protocol/source";
import { icon, kbd, sentence } from "../ui/controls";
import { aria, fill, h, put, toggle } from "../ui/dom";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatTime,
  plural,
  rangesText,
  wholeName,
} from "../ui/formats";
import type { Words } from "../ui/text";
import { Card, type Context, throttle } from "./context";
import type { Legend } from "./legend";
import type { Navigation } from "./navigation";
import type { Folding, Rows } from "./rows";
import { isWhole, plain, spanText, viewWords } from "./text";

/** Sources of messages, the most urgent first. */
const LAYERS = ["flash", "brush", "kernel", "area", "search", "event", "view"] as const;
type Layer = (typeof LAYERS)[number];

const SPOKEN_MS = 1000;

type Hint = readonly (readonly [keys: readonly string[], word: string])[];

/** Hints of keys, from long to short. */
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

/** Words on the clock that is drawn. */
export function clockWords(
  { is_fitted, apart_ns, residual_ns }: ClockFacts,
  canSwitch: boolean,
): { badge: string; title: string } {
  const [apart, residual] = [formatDuration(apart_ns), formatDuration(residual_ns)];
  const facts =
    `recorded clocks of ranks differ by up to ${apart}; ` +
    `on the fitted clock their collectives end within ${residual}`;
  const name = is_fitted ? "fitted" : "recorded";
  const other = is_fitted ? "recorded" : "fitted";
  const more = canSwitch
    ? `Press to draw the ${other} clock.`
    : `This page has the ${name} clock alone.`;
  return {
    badge: is_fitted ? `clock: fitted ±${residual}` : `clock: recorded, ${apart} apart`,
    title: `Drawn on the ${name} clock: ${facts}. ${more}`,
  };
}

interface StatusWays {
  openProblems(anchor: HTMLElement): void;
  /** Draw on this clock from now on; null where nothing can. */
  setClock: ((clock: Clock) => void) | null;
  showAllRanks(): void;
  /** Describe the source's status; null for the default text. */
  kernelSays(): KernelSays | null;
}

export type Clock = "recorded" | "fitted";

export class StatusLine {
  readonly el: HTMLElement;
  private readonly root: HTMLElement;
  private readonly source: Source;
  private readonly text: HTMLElement;
  private readonly live: HTMLElement;
  private readonly kernel: HTMLButtonElement;
  private readonly truth: HTMLButtonElement;
  private readonly clock: HTMLButtonElement;
  private readonly ranks: HTMLButtonElement;
  private clocks: ClockFacts | null = null;
  private readonly aside = h("span", { class: "hta-note", hidden: true });
  private readonly said = new Map<Layer, Words>();
  private readonly speak: () => void;
  private flashTimer = 0;
  private hinting = false;
  /** Part of the job that a saved view contains. */
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
      on: { click: () => ways.openProblems(this.truth) },
    });
    this.clock = h("button", {
      type: "button",
      class: "hta-badge hta-clock",
      hidden: true,
      on: { click: () => this.switchClock() },
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
      this.clock,
      this.truth,
    );
    this.speak = throttle(SPOKEN_MS, ctx.signal, () => fill(this.live, plain(this.shown)));
    ctx.signal.addEventListener("abort", () => clearTimeout(this.flashTimer), { once: true });
    this.setKernel(ctx.source.status);
  }

  /** Set the message of a layer; null clears it. */
  say(layer: Layer, words: Words | null): void {
    if (words === null) this.said.delete(layer);
    else this.said.set(layer, words);
    this.print();
  }

  /** Show a message briefly. */
  flash(words: Words, ms = 2000): void {
    clearTimeout(this.flashTimer);
    this.say("flash", words);
    this.flashTimer = window.setTimeout(() => this.say("flash", null), ms);
  }

  /** Show hints of keys while focused, until a key is pressed. */
  setHint(on: boolean): void {
    if (on === this.hinting) return;
    this.hinting = on;
    toggle(this.root, "hta-hinting", on);
    this.print();
  }

  setKernel(status: Source["status"]): void {
    this.kernel.hidden = status === "live";
    this.truth.hidden = false;
    if (status === "live") {
      fill(this.kernel);
      this.say("kernel", null);
      return;
    }
    const { badge, words, isWarning } = this.ways.kernelSays() ?? KERNEL[status];
    fill(this.kernel, status === "busy" ? "● " : "", badge);
    toggle(this.kernel, "hta-warn", isWarning);
    this.kernel.title = plain(words);
    // What is drawn may not be all there is.
    this.truth.hidden = status === "none" && isWarning;
    // The badge of a saved view shows that it is saved, so the line is free for other texts.
    this.say("kernel", status === "busy" ? words : null);
  }

  /** Set the part of the job that a saved view contains. */
  setEmbedded(embedded: Scene["embedded"]): void {
    if (embedded === undefined) return;
    this.kernel.title = `${KERNEL.none.badge}. ${embedded.text}`;
    this.embedded = embedded.text;
    if (embedded.level === "partial") fill(this.kernel, h("span", {}, this.kernel.title));
  }

  /** Explain the badge when it is pressed, over any other message. */
  private sayKernel(): void {
    const { status } = this.source;
    if (status === "live") return;
    const says = this.ways.kernelSays() ?? KERNEL[status];
    this.flash(this.embedded === null ? says.words : [this.embedded], 5000);
  }

  /** Set the text for work in the background. */
  setAside(text: string): void {
    this.aside.hidden = text === "";
    fill(this.aside, text);
  }

  /** Set the number of shown ranks, as a linked panel selected them. */
  setRanks(shown: number, all: number): void {
    this.ranks.hidden = shown === all;
    fill(
      this.ranks,
      `${formatCount(shown)} of ${plural(all, "rank")} shown · `,
      h("b", {}, "Show all"),
    );
  }

  /** Say which clock is drawn, where recorded clocks disagree; null while that is not known. */
  setClock(clocks: ClockFacts | null): void {
    this.clocks = clocks;
    this.clock.hidden = clocks === null || !(clocks.is_off || clocks.is_fitted);
    if (clocks === null) return;
    const { badge, title } = clockWords(clocks, this.ways.setClock !== null);
    fill(
      this.clock,
      h("span", { class: "hta-if-wide" }, badge),
      h("span", { class: "hta-if-tight" }, badge.split(",")[0]),
    );
    this.clock.title = title;
    aria(this.clock, "pressed", clocks.is_fitted);
  }

  private switchClock(): void {
    const { clocks, ways } = this;
    if (clocks === null) return;
    if (ways.setClock === null || this.source.status === "none") {
      this.flash([clockWords(clocks, false).title], 5000);
      return;
    }
    ways.setClock(clocks.is_fitted ? "recorded" : "fitted");
    this.flash([`Laying out the ${clocks.is_fitted ? "recorded" : "fitted"} clock …`]);
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

  /** Show the longest hint that does not truncate the message; the shortest one always. */
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

// Contents of the visible window: requested when it rests, shown as text, chips and a card.

const SAY_MS = 100;

interface ViewParts {
  ctx: Context;
  nav: Navigation;
  rows: Rows;
  folding: Folding;
  status: StatusLine;
  legend: Legend;
}

interface WaysOut {
  showAllRows(): void;
  back(): void;
}

export class ViewFacts {
  readonly card = new Card();
  private stats: Stats | null = null;
  private lateness: Lateness | null = null;
  /** Ranks of the rows at the request of the legend's shares; null for all. */
  private shown: readonly number[] | null = null;

  constructor(
    private readonly parts: ViewParts,
    private readonly ways: WaysOut,
  ) {
    const { ctx, nav, rows, folding, legend } = parts;
    const say = throttle(SAY_MS, ctx.signal, () => this.say());
    nav.moved.on(() => {
      legend.setPending(true);
      this.card.hide();
      say();
    });
    nav.settled.on(() => this.ask());
    // The stage sends the requests.
    ctx.source.onReply((op, _request, reply) => {
      if (op !== "lateness") return;
      this.lateness = reply.reply as Lateness;
      this.parts.status.setClock(this.lateness.clock);
      this.printWaits();
      this.say();
    });
    rows.changed.on(() => {
      this.printCard();
      this.say();
      if (!same(rows.shown, this.shown)) this.askShares();
    });
    folding.changed.on(() => this.say());
  }

  /** Reset for a new scene, or retry. */
  renew(): void {
    this.stats = null;
    this.lateness = null;
    this.parts.status.setClock(null);
    this.parts.legend.setStats(null);
    this.say();
    this.printCard();
    this.ask();
  }

  private ask(): void {
    const { ctx, legend } = this.parts;
    const { source, stage, signal } = ctx;
    const span = wholeSpan(stage.view());
    this.askShares();
    source
      .ask("stats", span, signal)
      .then((reply) => {
        const now = wholeSpan(stage.view());
        if (now.start !== span.start || now.end !== span.end) return;
        this.stats = reply.reply;
        this.printWaits();
        this.say();
        this.printCard();
      })
      .catch((error: unknown) => {
        // Listeners of the source show the failure itself.
        if (!isAbort(error)) legend.setStats(null);
      });
  }

  /** Request the shares of the legend for the ranks that have rows. */
  private askShares(): void {
    const { ctx, legend, rows } = this.parts;
    const { source, stage, signal } = ctx;
    const { shown } = rows;
    const span = wholeSpan(stage.view());
    this.shown = shown;
    legend.setPending(true);
    source
      .ask("stats", shown === null ? span : { ...span, ranks: shown }, signal)
      .then((reply) => {
        const now = wholeSpan(stage.view());
        if (now.start !== span.start || now.end !== span.end || shown !== this.shown) return;
        legend.setPending(false);
        legend.setStats(reply.reply, this.shownWords());
        this.printWaits();
      })
      .catch((error: unknown) => {
        if (!isAbort(error)) legend.setStats(null);
      });
  }

  /** Show waits of the same ranks and window as the legend's other shares. */
  private printWaits(): void {
    const { lateness, stats, shown } = this;
    const isOne = lateness?.start === stats?.start && lateness?.end === stats?.end;
    this.parts.legend.setLateness(lateness, isOne ? stats : null, shown);
  }

  /** `of rank 5 in view, 12.3–18.9 ms`. */
  private shownWords(): string {
    const { stage, scene } = this.parts.ctx;
    const { shown } = this;
    const all = plural(scene.ranks.length, "rank");
    const ranks =
      shown === null
        ? `of ${scene.ranks.length === 1 ? "the rank" : `all ${all}`}`
        : `of ${shown.length === 1 ? "rank" : "ranks"} ${rangesText(shown)}`;
    const view = stage.view();
    return `${ranks} in view, ${isWhole(view, scene) ? `the ${wholeName(scene)}` : spanText(view)}`;
  }

  private say(): void {
    const { stage, scene } = this.parts.ctx;
    const view = stage.view();
    const { start, end } = wholeSpan(view);
    const known = this.stats?.start === start && this.stats.end === end ? this.stats : null;
    const { lateness } = this;
    const late = lateness?.start === start && lateness.end === end ? lateness : null;
    const words = viewWords(view, scene, known, late, this.parts.folding.words);
    const { thin } = this.parts.rows;
    if (thin > 0) words.push(` ${plural(thin, "empty lane")} drawn thin: `, { key: "E" });
    this.parts.status.say("view", words);
  }

  private printCard(): void {
    const { stage, scene } = this.parts.ctx;
    const { filter } = this.parts.rows;
    if (filter !== "" && stage.rows().length === 0) {
      this.card.show(
        "filter",
        "No track matches",
        `No rank, process, track or host matches ${filter}.`,
        [{ text: "Show all", press: () => this.ways.showAllRows() }],
      );
      return;
    }
    const view = stage.view();
    const { stats } = this;
    const outside = view[1] <= scene.range[0] || view[0] >= scene.range[1];
    const empty = stats !== null && stats.data.length > 0 && stats.data.every((ns) => ns <= 0);
    if (!outside && !empty) {
      this.card.hide();
      return;
    }
    if (scene.events === 0) {
      // MPI profiles, or servers that got no requests, have no window to search.
      const words = "They hold totals, or nothing: tables and charts show what there is.";
      this.card.show("empty", "No events in these files", words, []);
      return;
    }
    const where = `${spanText(view)}: the traces end at ${formatTime(scene.range[1])}.`;
    this.card.show("empty", "No events in this window", where, [
      { text: "Fit all", key: "Z", press: () => this.parts.nav.fit() },
      { text: "Back", key: "Backspace", press: () => this.ways.back() },
    ]);
  }
}

// Origin of replies as text: the kernel, or the data stored in the page.

export function kernelSays(source: HybridSource): KernelSays | null {
  const { status, holds, words } = source;
  const { who, badge, free, again } = words;
  if (status === "live") return null;
  const isGone = status === "none";
  if (isGone ? holds === "nothing" : holds !== "all") {
    return {
      badge: `${badge} ${isGone ? "gone" : "busy"}`,
      words: isGone
        ? [`${who} is gone, and the page holds no data yet. ${again}`]
        : [`Zoom and pan work; detail follows when ${free}.`],
      isWarning: true,
    };
  }
  return {
    badge: `${badge} ${isGone ? "gone" : "busy"} · page data`,
    words: [
      `${who} is ${isGone ? "gone" : "busy"}. The page answers from what it holds.${isGone ? ` ${again}` : ""}`,
    ],
    isWarning: !isGone,
  };
}

/** Progress of fetching the page's offline data; "" if there is nothing to report. */
export function progressWords({ state, bytes, of }: Progress): string {
  if (state === "preparing") return "preparing page data …";
  if (state === "fetching")
    return `fetching page data, ${formatBytes(bytes)} of ${formatBytes(of)}`;
  if (state === "failed") return "no page data: works with the kernel only";
  return "";
}
