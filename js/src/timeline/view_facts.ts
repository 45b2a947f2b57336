/** Contents of the visible window: requested when it rests, shown as text, chips and a card. */

import { signal } from "@preact/signals";
import { wholeSpan } from "../connection/answering";
import { same } from "../connection/store";
import { isAbort, type Lateness, type Stats } from "../protocol/source";
import { formatTime, plural, rangesText, wholeName } from "../ui/formats";
import { react } from "../ui/react";
import { throttle } from "./context";
import type { Message } from "./messages";
import { isWhole, spanText, viewWords } from "./text";
import type { TimelineApp } from "./view";

const SAY_MS = 100;

export class ViewFacts {
  readonly card = signal<Message | null>(null);
  private stats: Stats | null = null;
  private lateness: Lateness | null = null;
  /** Ranks of the rows at the request of the legend's shares; null for all. */
  private shown: readonly number[] | null = null;

  constructor(
    private readonly app: Pick<
      TimelineApp,
      "ctx" | "nav" | "rows" | "folding" | "status" | "legend" | "commands"
    >,
  ) {
    const { ctx, nav, rows, folding, status, legend } = app;
    const say = throttle(SAY_MS, ctx.signal, () => this.say());
    ctx.stage.onView(() => {
      legend.isPending.value = true;
      this.card.value = null;
      say();
    });
    nav.settled.on(() => this.ask());
    ctx.retried.on(() => this.renew());
    // The stage sends the requests.
    ctx.source.onReply((op, _request, reply) => {
      if (op !== "lateness") return;
      this.lateness = reply.reply as Lateness;
      status.clocks.value = this.lateness.clock;
      this.printWaits();
      this.say();
    });
    react(
      rows.now,
      () => {
        this.printCard();
        this.say();
        if (!same(rows.shown, this.shown)) this.askShares();
      },
      ctx.signal,
    );
    react(
      () => folding.words,
      () => this.say(),
      ctx.signal,
    );
  }

  /** Reset for a new scene, or retry. */
  renew(): void {
    const { status, legend } = this.app;
    this.stats = null;
    this.lateness = null;
    status.clocks.value = null;
    legend.setStats(null);
    this.say();
    this.printCard();
    this.ask();
  }

  private ask(): void {
    this.askShares();
    this.askStats(null, (stats) => {
      this.stats = stats;
      this.printWaits();
      this.say();
      this.printCard();
    });
  }

  /** Request the shares of the legend for the ranks that have rows. */
  private askShares(): void {
    const { legend, rows } = this.app;
    const { shown } = rows;
    this.shown = shown;
    legend.isPending.value = true;
    this.askStats(shown, (stats) => {
      if (shown !== this.shown) return;
      legend.isPending.value = false;
      legend.setStats(stats, this.shownWords());
      this.printWaits();
    });
  }

  /** Request figures of the window in view; `show` them if it is still in view. */
  private askStats(ranks: readonly number[] | null, show: (stats: Stats) => void): void {
    const { ctx, legend } = this.app;
    const span = wholeSpan(ctx.stage.view());
    ctx.source
      .ask("stats", ranks === null ? span : { ...span, ranks }, ctx.signal)
      .then(({ reply }) => {
        if (same(wholeSpan(ctx.stage.view()), span)) show(reply);
      })
      .catch((error: unknown) => {
        // Listeners of the source show the failure itself.
        if (!isAbort(error)) legend.setStats(null);
      });
  }

  /** Show waits of the same ranks and window as the legend's other shares. */
  private printWaits(): void {
    const { lateness, stats, shown } = this;
    const isOne = lateness?.start === stats?.start && lateness?.end === stats?.end;
    this.app.legend.setLateness(lateness, isOne ? stats : null, shown);
  }

  /** `of rank 5 in view, 12.3–18.9 ms`. */
  private shownWords(): string {
    const { stage, scene } = this.app.ctx;
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
    const { ctx, rows, folding, status } = this.app;
    const view = ctx.stage.view();
    const { start, end } = wholeSpan(view);
    const inView = <T extends Lateness | Stats>(known: T | null): T | null =>
      known?.start === start && known.end === end ? known : null;
    const [stats, lateness] = [inView(this.stats), inView(this.lateness)];
    const words = viewWords(view, ctx.scene, stats, lateness, folding.words);
    const { thin } = rows;
    if (thin > 0) words.push(` ${plural(thin, "empty lane")} drawn thin: `, { key: "E" });
    status.say("view", words);
  }

  private printCard(): void {
    this.card.value = this.message();
  }

  private message(): Message | null {
    const { ctx, nav, rows, commands } = this.app;
    const { stage, scene } = ctx;
    if (rows.filter !== "" && rows.now.value.length === 0) {
      return {
        title: "No track matches",
        text: `No rank, process, track or host matches ${rows.filter}.`,
        buttons: [{ text: "Show all", press: () => rows.setFilter("") }],
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
        { text: "Fit all", keys: "Z", press: () => nav.fit() },
        { text: "Back", keys: "Backspace", press: () => void commands.run("undo") },
      ],
    };
  }
}
