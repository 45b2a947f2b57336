/** Contents of the visible window: requested when it rests; shown as text, chips and a card. */

import { ranksText } from "../facts/rank_text";
import { signal } from "@preact/signals";
import { wholeNsWindow } from "../connection/answering";
import { isSameJson } from "../connection/store";
import { isAbort, type Lateness, type Span, type Stats } from "../protocol/source";
import { formatTime, plural, wholeRunName } from "../ui/formats";
import { onSignal } from "../ui/react";
import type { Commands } from "./commands";
import { throttle, type TimelineContext } from "./context";
import type { FoldingController } from "./folding";
import type { Legend } from "./legend";
import type { CardMessage } from "./messages";
import type { Navigation } from "./navigation";
import type { RowsController } from "./rows";
import type { StatusLine } from "./status";
import { isWholeRange, spanText, viewText } from "./text";

const ANNOUNCE_DELAY_MS = 100;

interface ViewFactsParts {
  readonly ctx: TimelineContext;
  readonly nav: Navigation;
  readonly rows: RowsController;
  readonly folding: FoldingController;
  readonly status: StatusLine;
  readonly legend: Legend;
  readonly commands: Commands;
}

export class ViewFacts {
  readonly card = signal<CardMessage | null>(null);
  private stats: Stats | null = null;
  private lateness: Lateness | null = null;
  private shares: Stats | null = null;
  /** Ranks of the rows when the legend's shares were requested; null for all ranks. */
  private shown: readonly number[] | null = null;

  constructor(private readonly app: ViewFactsParts) {
    const { ctx, nav, rows, folding, status, legend } = app;
    const announce = throttle(ANNOUNCE_DELAY_MS, ctx.signal, () => this.announce());
    ctx.stage.onView(() => {
      legend.isPending.value = true;
      this.card.value = null;
      announce();
    });
    nav.onSettled.on(() => this.requestFacts());
    ctx.retryRequested.on(() => this.reset());
    // The stage sends these requests.
    ctx.source.onReply((op, _request, reply) => {
      if (op !== "lateness") return;
      this.lateness = reply.reply as Lateness;
      status.clocks.value = this.lateness.clock;
      this.showWaits();
      this.announce();
    });
    onSignal(
      rows.stateSignal,
      () => {
        this.showCard();
        this.announce();
        if (!isSameJson(rows.shownRanks, this.shown)) this.askShares();
      },
      ctx.signal,
    );
    onSignal(
      ctx.figures,
      (figures) => {
        ctx.stage.setOverlay({ figures });
        this.askShares();
      },
      ctx.signal,
    );
    onSignal(
      () => folding.rankCountText,
      () => this.announce(),
      ctx.signal,
    );
  }

  /** Reset for a new scene, or to retry. */
  reset(): void {
    const { status, legend } = this.app;
    this.stats = null;
    this.lateness = null;
    this.shares = null;
    status.clocks.value = null;
    legend.setStats(null);
    this.announce();
    this.showCard();
    this.requestFacts();
  }

  private requestFacts(): void {
    this.askShares();
    this.askStats(null, this.app.ctx.stage.view(), (stats) => {
      this.stats = stats;
      this.announce();
      this.showCard();
    });
  }

  private askShares(): void {
    const { legend, rows } = this.app;
    const { shownRanks } = rows;
    this.shown = shownRanks;
    legend.isPending.value = true;
    const figures = this.app.ctx.figures.value;
    this.askStats(shownRanks, figures?.span ?? this.app.ctx.stage.view(), (stats) => {
      if (shownRanks !== this.shown || figures !== this.app.ctx.figures.value) return;
      legend.isPending.value = false;
      legend.setStats(stats, this.shownRowsText());
      this.shares = stats;
      this.showWaits();
    });
  }

  /** Request the figures of a window, and `show` them unless the view has moved since then. */
  private askStats(
    ranks: readonly number[] | null,
    window: Span,
    show: (stats: Stats) => void,
  ): void {
    const { ctx, legend } = this.app;
    const view = ctx.stage.view();
    const span = wholeNsWindow(window);
    ctx.source
      .ask("stats", ranks === null ? span : { ...span, ranks }, ctx.signal)
      .then(({ reply }) => {
        if (isSameJson(ctx.stage.view(), view)) show(reply);
      })
      .catch((error: unknown) => {
        // The failure is shown by a listener of the source.
        if (!isAbort(error)) legend.setStats(null);
      });
  }

  /** Show the share of waits if it covers the same window as the legend's other shares. */
  private showWaits(): void {
    const { lateness, shares: stats, shown } = this;
    const isSameWindow = lateness?.start === stats?.start && lateness?.end === stats?.end;
    this.app.legend.setLateness(lateness, isSameWindow ? stats : null, shown);
  }

  /** Return a text such as `of rank 5 in view, 12.3–18.9 ms`. */
  private shownRowsText(): string {
    const { stage, scene } = this.app.ctx;
    const { shown } = this;
    const rankCount = scene.ranks.length;
    const allRanks = rankCount === 1 ? "the rank" : `all ${plural(rankCount, "rank")}`;
    const ranks = shown === null ? allRanks : ranksText(shown);
    const { value: figures } = this.app.ctx.figures;
    if (figures !== null) return `of ${ranks}, ${figures.label}, ${spanText(figures.span)}`;
    const view = stage.view();
    const window = isWholeRange(view, scene) ? `the ${wholeRunName(scene)}` : spanText(view);
    return `of ${ranks} in view, ${window}`;
  }

  private announce(): void {
    const { ctx, rows, folding, status } = this.app;
    const view = ctx.stage.view();
    const { start, end } = wholeNsWindow(view);
    const inView = <T extends Lateness | Stats>(reply: T | null): T | null =>
      reply?.start === start && reply.end === end ? reply : null;
    const [stats, lateness] = [inView(this.stats), inView(this.lateness)];
    const text = viewText(view, ctx.scene, stats, lateness, folding.rankCountText);
    const { thinLaneCount } = rows;
    if (thinLaneCount > 0)
      text.push(` ${plural(thinLaneCount, "empty lane")} at reduced height (`, { key: "E" }, ").");
    status.setMessage("view", text);
  }

  private showCard(): void {
    this.card.value = this.emptyMessage();
  }

  /** Return the message of an empty timeline; null if it is not empty. */
  private emptyMessage(): CardMessage | null {
    const { ctx, nav, rows, commands } = this.app;
    const { stage, scene } = ctx;
    if (rows.filter !== "" && rows.stateSignal.value.length === 0) {
      return {
        title: "No track matches",
        text: `No rank, process, track or host matches ${rows.filter}.`,
        buttons: [{ text: "Show all", press: () => rows.setFilter("") }],
      };
    }
    const view = stage.view();
    const { data = [] } = this.stats ?? {};
    const isOutside = view[1] <= scene.range[0] || view[0] >= scene.range[1];
    const hasData = data.length === 0 || data.some((ns) => ns > 0);
    if (!isOutside && hasData) return null;
    if (scene.events === 0) {
      // MPI profiles never have events, nor do servers without requests.
      const text = "If the files have totals, the tables and charts show them.";
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
