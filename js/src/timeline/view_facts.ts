/** Contents of the visible window: requested when it rests, shown as text, chips and a card. */

import { signal } from "@preact/signals";
import { wholeSpan } from "../connection/answering";
import { same } from "../connection/store";
import { isAbort, type Lateness, type Stats } from "../protocol/source";
import { formatTime, plural, rangesText, wholeName } from "../ui/formats";
import { type Context, throttle } from "./context";
import type { Legend } from "./legend";
import type { Message } from "./messages";
import type { Navigation } from "./navigation";
import type { Folding, Rows } from "./rows";
import type { StatusLine } from "./status";
import { isWhole, spanText, viewWords } from "./text";

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
  readonly card = signal<Message | null>(null);
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
      legend.isPending.value = true;
      this.card.value = null;
      say();
    });
    nav.settled.on(() => this.ask());
    // The stage sends the requests.
    ctx.source.onReply((op, _request, reply) => {
      if (op !== "lateness") return;
      this.lateness = reply.reply as Lateness;
      this.parts.status.clocks.value = this.lateness.clock;
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
    this.parts.status.clocks.value = null;
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
    legend.isPending.value = true;
    source
      .ask("stats", shown === null ? span : { ...span, ranks: shown }, signal)
      .then((reply) => {
        const now = wholeSpan(stage.view());
        if (now.start !== span.start || now.end !== span.end || shown !== this.shown) return;
        legend.isPending.value = false;
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
    this.card.value = this.message();
  }

  private message(): Message | null {
    const { stage, scene } = this.parts.ctx;
    const { filter } = this.parts.rows;
    if (filter !== "" && stage.rows().length === 0) {
      return {
        title: "No track matches",
        text: `No rank, process, track or host matches ${filter}.`,
        buttons: [{ text: "Show all", press: () => this.ways.showAllRows() }],
      };
    }
    const view = stage.view();
    const { stats } = this;
    const outside = view[1] <= scene.range[0] || view[0] >= scene.range[1];
    const empty = stats !== null && stats.data.length > 0 && stats.data.every((ns) => ns <= 0);
    if (!outside && !empty) return null;
    if (scene.events === 0) {
      // MPI profiles, or servers that got no requests, have no window to search.
      const text = "They hold totals, or nothing: tables and charts show what there is.";
      return { title: "No events in these files", text, buttons: [] };
    }
    return {
      title: "No events in this window",
      text: `${spanText(view)}: the traces end at ${formatTime(scene.range[1])}.`,
      buttons: [
        { text: "Fit all", keys: "Z", press: () => this.parts.nav.fit() },
        { text: "Back", keys: "Backspace", press: () => this.ways.back() },
      ],
    };
  }
}
