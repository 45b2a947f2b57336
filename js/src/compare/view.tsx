/** The view of a comparison: creates its parts and adds them to the page. */

import { listenTo } from "../connection/store";
import type { PanelFrame } from "../protocol/source";
import { type Command, matchKey } from "../timeline/keys";
import { progressText } from "../timeline/status";
import { activeElement, h, isTextEntry, renderInto, replaceChildren } from "../ui/dom";
import { detectTheme, TIGHT_BELOW_PX, watchBoxes, watchTheme } from "../ui/host";
import { FullWindow } from "../ui/placing";
import { onSignal } from "../ui/react";
import { applyTheme } from "../ui/theme";
import { DiffCharts, type DiffLayout } from "./charts";
import { DiffContext, type DiffOptions } from "./context";
import { Headline, DiffPanel } from "./pane";
import { PlainTable, tableTitle } from "./tables";
import { TimelinePair } from "./timelines";
import { DiffToolbar } from "./toolbar";

const WIDE = 1400;
const NARROW = 900;
/** Minimum width at which the details of both sides fit next to each other. */
const ROOMY = 1200;

/** A table added by a format. */
class TableSection extends DiffPanel<PanelFrame> {
  constructor(
    ctx: DiffContext,
    readonly name: string,
  ) {
    super(ctx, tableTitle(name), { class: "hta-diff-pane hta-diff-plain" });
  }

  protected draw(frame: PanelFrame) {
    return <PlainTable name={this.name} frame={frame} />;
  }
}

interface DiffEvents {
  timelines: TimelinePair;
  charts: DiffCharts;
}

export class DiffApp {
  readonly ctx: DiffContext;
  private readonly root: HTMLElement;
  private readonly body = h("div", { class: "hta-diff-body" });
  private readonly tablesEl = h("div", { class: "hta-diff-tables" });
  private readonly fullWindow: FullWindow;
  private readonly headline: Headline;
  private readonly tables: readonly TableSection[];
  /** Null if the runs have only totals. */
  private readonly events: DiffEvents | null;
  private layout: DiffLayout | null = null;

  constructor(host: HTMLElement, options: DiffOptions) {
    const ctx = new DiffContext(options);
    const { signal: abortSignal } = options;
    const { labels, tables, has_events: hasEvents } = ctx.about;
    this.ctx = ctx;
    this.root = h("div", {
      class: "hta-root hta-diff",
      tabindex: -1,
      role: "group",
      "aria-label": `Comparison of ${labels.join(" and ")}`,
      "data-lm-suppress-shortcuts": "true",
    });
    host.append(this.root);
    ctx.theme.value = detectTheme(this.root);
    onSignal(ctx.theme, (theme) => applyTheme(this.root, theme), abortSignal);
    this.fullWindow = new FullWindow(this.root, () => this.fitWidth());
    this.headline = new Headline(ctx);
    this.tables = tables.map((name) => new TableSection(ctx, name));
    const timelines = hasEvents ? new TimelinePair(ctx) : null;
    this.events = timelines && {
      timelines,
      charts: new DiffCharts(ctx, this.headline, timelines.link),
    };
    this.buildLayout();
    this.listen();
    void this.start();
  }

  private buildLayout(): void {
    const { ctx, root, body, events } = this;
    const { signal: abortSignal } = ctx.options;
    const above = h("div", {});
    const below = h("div", {});
    body.append(this.tablesEl);
    root.append(above, this.headline.el, body, below);
    const toolbar = (
      <DiffToolbar
        ctx={ctx}
        timelines={events?.timelines ?? null}
        full={this.fullWindow}
        travel={(direction) => this.travel(direction)}
      />
    );
    renderInto(toolbar, above, abortSignal);
    renderInto(<DiffStatus ctx={ctx} />, below, abortSignal);
  }

  private listen(): void {
    const { ctx, root, events } = this;
    const { model, signal: abortSignal } = ctx.options;
    if (events !== null) this.followModel(events);
    const reload = (): void => {
      void this.load();
      void this.loadTables();
    };
    listenTo(model, "change:swapped", reload, abortSignal);
    ctx.reloadRequested.on(() => {
      ctx.statusText.value = null;
      void events?.timelines.link.realign(false);
      reload();
    });
    listenToDiffKeys(root, abortSignal, (command) => this.runCommand(command));
    root.addEventListener("keydown", (event) => this.leaveFullWindow(event), {
      signal: abortSignal,
    });
    watchTheme(root, abortSignal, (theme) => (ctx.theme.value = theme));
    watchBoxes([root], () => this.fitWidth(), abortSignal);
    abortSignal.addEventListener("abort", () => root.remove(), { once: true });
  }

  /** Make the timelines and charts follow the model, and show how much of the data has arrived. */
  private followModel({ timelines, charts }: DiffEvents): void {
    const { model, live, signal: abortSignal } = this.ctx.options;
    const { link } = timelines;
    const listen = (name: string, listener: () => void): void =>
      listenTo(model, `change:${name}`, listener, abortSignal);
    for (const name of ["align", "swapped"]) listen(name, () => void link.realign(true));
    listen("coupled", () => link.alignPartner());
    listen("pair", () => {
      charts.clearChoice();
      link.showRanks();
      void this.load();
    });
    if (live === null) return;
    onSignal(
      live.offline.progress,
      (now) => {
        timelines.showAside(progressText(now));
        this.root.dataset.pageData = now.state;
      },
      abortSignal,
    );
  }

  /** Change both timelines at once. Neither follows the other. */
  changeBoth(act: () => void): void {
    if (this.events === null) act();
    else this.events.timelines.link.changeBoth(act);
  }

  private fitWidth(): void {
    const { root, events } = this;
    const width = root.clientWidth;
    if (width === 0) return;
    root.classList.toggle("hta-diff-wide", width >= WIDE);
    root.classList.toggle("hta-diff-narrow", width < NARROW);
    root.classList.toggle("hta-diff-roomy", width >= ROOMY);
    root.classList.toggle("hta-tight", width < TIGHT_BELOW_PX);
    if (events === null) return;
    const roomyLayout = width < WIDE ? "pair" : "columns";
    const layout = width < NARROW ? "sheet" : roomyLayout;
    if (layout !== this.layout) this.arrange(layout, events);
    events.charts.fitTables(layout, events.timelines.el);
  }

  /** Add the panels to the page in reading order, which is also the Tab order. */
  private arrange(layout: DiffLayout, { timelines, charts }: DiffEvents): void {
    const { root, body } = this;
    this.layout = layout;
    const strip = this.ctx.about.has_device && charts.strip.el;
    const [changes, names, waterfall] = [charts.changes.el, charts.names.el, charts.waterfall.el];
    const column = { class: "hta-diff-column" };
    const orders = {
      sheet: () => [changes, timelines.el, strip, waterfall, names, charts.icicle.el],
      pair: () => [changes, strip, timelines.el, names, waterfall, charts.icicle.el],
      columns: () => [
        h("div", column, strip, timelines.el, charts.icicle.el),
        h("div", column, changes, waterfall, names),
      ],
    };
    const focused = activeElement(root);
    replaceChildren(body, ...orders[layout](), this.tablesEl);
    if (focused instanceof HTMLElement && body.contains(focused)) {
      focused.focus({ preventScroll: true });
    }
  }

  /** Run a command if it applies to both timelines. Return false for other commands. */
  private runCommand(command: Command): boolean {
    const { root, events, fullWindow } = this;
    if (command === "undo" || command === "redo") this.travel(command);
    else if (command === "full-window") fullWindow.toggle();
    else if (events === null) return false;
    else if (command === "search") events.timelines.focusSearch();
    else if (command === "help")
      events.timelines.toggleHelp(root.querySelector<HTMLElement>(".hta-diff-help")!);
    else return false;
    return true;
  }

  /** Leave the full window, unless an element inside it handled the key. */
  private leaveFullWindow(event: KeyboardEvent): void {
    if (event.defaultPrevented || matchKey(event)?.command !== "leave") return;
    if (this.fullWindow.leave()) event.preventDefault();
  }

  private travel(direction: "undo" | "redo"): void {
    if (this.events?.timelines.link.travel(direction) === true) return;
    this.ctx.statusText.value = direction === "undo" ? "Nothing to undo." : "Nothing to redo.";
  }

  private async start(): Promise<void> {
    const { ctx, events } = this;
    this.fitWidth();
    if (ctx.pair.value !== null) events?.timelines.link.showRanks();
    await Promise.all([events?.timelines.link.realign(false), this.load()]);
    await this.loadTables();
    ctx.options.live?.offline.start();
  }

  private async load(): Promise<void> {
    const { ctx, events, headline } = this;
    try {
      if (events === null) {
        await headline.load(async () => {
          const frame = await ctx.loadFrame(ctx.findings);
          return { frame, totals: null, ranksText: "", isChange: true };
        });
        return;
      }
      await events.charts.load();
      this.fitWidth();
      await events.timelines.loadClasses();
    } catch (error) {
      ctx.fail(error);
    }
  }

  private async loadTables(): Promise<void> {
    try {
      for (const table of this.tables) {
        await table.load(() => this.ctx.loadFrame(`table:${table.name}`));
        this.tablesEl.append(table.el);
      }
    } catch (error) {
      this.ctx.fail(error);
    }
  }
}

function DiffStatus({ ctx }: { ctx: DiffContext }) {
  const { has_events: hasEvents, all_matched: isAllMatched, matched: matchedText } = ctx.about;
  const hint = hasEvents
    ? "Click a step, change, name or operator to mark it; hover over an event to see its partner."
    : "";
  return (
    <div class={`hta-status hta-diff-status${hasEvents ? "" : " hta-diff-quiet"}`}>
      <span class="hta-grow" aria-live="polite">
        {ctx.statusText.value ?? hint}
      </span>
      {hasEvents && (
        <span class={`hta-badge hta-diff-truth ${isAllMatched ? "hta-ok" : "hta-warn"}`}>
          {`${isAllMatched ? "✓ " : "⚠ "}${matchedText}`}
        </span>
      )}
    </div>
  );
}

/** Handle keys that apply to both timelines, wherever they are pressed in a comparison. */
function listenToDiffKeys(
  root: HTMLElement,
  signal: AbortSignal,
  run: (command: Command) => boolean,
): void {
  // Capture the key before a timeline can handle it.
  root.addEventListener(
    "keydown",
    (event) => {
      if (event.isComposing || event.defaultPrevented || isTextEntry(event.target)) return;
      const command = matchKey(event)?.command;
      if (command === undefined || !run(command)) return;
      event.preventDefault();
      event.stopPropagation();
    },
    { signal, capture: true },
  );
}
