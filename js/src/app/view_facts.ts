/** What the window in view holds: asked when it rests, said in words, chips and a card. */

import { isAbort } from "../contract";
import { formatTime, plural, rangesText, wholeName } from "../draw/format";
import { decodeLateness, decodeStats, type Lateness, type Stats } from "../protocol/decode";
import { type Context, throttle } from "./context";
import type { Folding } from "./folding";
import { same } from "./history";
import type { Legend } from "./legend";
import type { Navigation } from "./navigation";
import { Card } from "./notice";
import { wholeSpan } from "./observed_source";
import type { Rows } from "./rows";
import type { StatusLine } from "./status";
import { isWhole, spanText, viewWords } from "./words";

const SAY_MS = 100;

export interface ViewParts {
  ctx: Context;
  nav: Navigation;
  rows: Rows;
  folding: Folding;
  status: StatusLine;
  legend: Legend;
}

export interface WaysOut {
  showAllRows(): void;
  back(): void;
}

export class ViewFacts {
  readonly card = new Card();
  private stats: Stats | null = null;
  private lateness: Lateness | null = null;
  /** Ranks of the rows when the legend's shares were asked for; null for all. */
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
    // The stage asks: it also knows when to.
    ctx.source.onReply((op, request, reply) => {
      if (op !== "lateness") return;
      this.lateness = decodeLateness(reply, Number(request.start), Number(request.end));
      this.printWaits();
      this.say();
    });
    rows.changed.on(() => {
      this.printCard();
      if (!same(rows.shown, this.shown)) this.askShares();
    });
    folding.changed.on(() => this.say());
  }

  /** Another scene, or another try. */
  renew(): void {
    this.stats = null;
    this.lateness = null;
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
        this.stats = decodeStats(reply, span.start, span.end);
        this.printWaits();
        this.say();
        this.printCard();
      })
      .catch((error: unknown) => {
        // The failure itself is shown by whoever listens to the source.
        if (!isAbort(error)) legend.setStats(null);
      });
  }

  /** For the legend: of the ranks that have rows. */
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
        legend.setStats(decodeStats(reply, span.start, span.end), this.shownWords());
        this.printWaits();
      })
      .catch((error: unknown) => {
        if (!isAbort(error)) legend.setStats(null);
      });
  }

  /** Waiting: of the same ranks and window as the legend's other shares. */
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
    this.parts.status.say("view", viewWords(view, scene, known, late, this.parts.folding.words));
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
      // MPI profiles, or servers that nobody asked: there is no window to look for them in.
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
