/** One view of a comparison: creates its parts and puts them into the page. */

import { listenTo } from "../connection/store";
import type { Frame } from "../protocol/source";
import { match } from "../timeline/keys";
import { progressWords } from "../timeline/status";
import { h, isTextEntry, mount } from "../ui/dom";
import { detectTheme, TIGHT_PX, watchBoxes, watchTheme } from "../ui/host";
import { FullWindow } from "../ui/placing";
import { react } from "../ui/react";
import { applyTheme } from "../ui/theme";
import { Charts, type Room } from "./charts";
import { Context, type DiffOptions } from "./context";
import { Headline, Part } from "./pane";
import { PlainTable, tableTitle } from "./tables";
import { Timelines } from "./timelines";
import { DiffToolbar } from "./toolbar";

const WIDE = 1500;
const NARROW = 900;

/** A table that only some formats have. */
class TablePart extends Part<Frame> {
  constructor(
    ctx: Context,
    readonly name: string,
  ) {
    super(ctx, tableTitle(name), { class: "hta-diff-pane hta-diff-plain" });
  }

  protected draw(frame: Frame) {
    return <PlainTable name={this.name} frame={frame} />;
  }
}

export class DiffApp {
  private readonly ctx: Context;
  private readonly root: HTMLElement;
  private readonly body = h("div", { class: "hta-diff-body" });
  private readonly tablesEl = h("div", { class: "hta-diff-tables" });
  private readonly full: FullWindow;
  private readonly headline: Headline;
  private readonly tables: readonly TablePart[];
  /** Timelines and charts; null if the runs have only totals. */
  private readonly events: { timelines: Timelines; charts: Charts } | null;

  constructor(host: HTMLElement, options: DiffOptions) {
    const ctx = new Context(options);
    const { signal: ended } = options;
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
    react(ctx.theme, (theme) => applyTheme(this.root, theme), ended);
    this.full = new FullWindow(this.root, () => this.arrange());
    this.headline = new Headline(ctx);
    this.tables = tables.map((name) => new TablePart(ctx, name));
    const timelines = hasEvents ? new Timelines(ctx) : null;
    this.events = timelines && {
      timelines,
      charts: new Charts(ctx, this.headline, timelines.link),
    };
    this.layOut();
    this.listen();
    void this.start();
  }

  // --- parts --------------------------------------------------------------------------------------

  private layOut(): void {
    const { ctx, root, body, events } = this;
    const { signal: ended } = ctx.options;
    const above = h("div", {});
    const below = h("div", {});
    // Columns if there is room; else one column in the order of the style sheet.
    if (events !== null) {
      const { timelines, charts } = events;
      const strip = ctx.about.has_device && charts.strip.el;
      const column = { class: "hta-diff-column" };
      body.append(
        h("div", column, strip, timelines.el, charts.icicle.el),
        h("div", column, charts.waterfall.el, charts.changes.el, charts.names.el),
      );
    }
    body.append(this.tablesEl);
    root.append(above, this.headline.el, body, below);
    const toolbar = (
      <DiffToolbar
        ctx={ctx}
        timelines={events?.timelines ?? null}
        full={this.full}
        walk={(way) => this.walk(way)}
      />
    );
    mount(toolbar, above, ended);
    mount(<Status ctx={ctx} />, below, ended);
  }

  private listen(): void {
    const { ctx, root, events } = this;
    const { model, live, signal: ended } = ctx.options;
    const listen = (name: string, listener: () => void): void =>
      listenTo(model, `change:${name}`, listener, ended);
    if (events !== null) {
      const { timelines, charts } = events;
      const { link } = timelines;
      for (const name of ["align", "swapped"]) listen(name, () => void link.realign(true));
      listen("coupled", () => link.align());
      listen("pair", () => {
        charts.forget();
        link.showRanks();
        void this.load();
      });
      if (live !== null) {
        react(live.offline.progress, (now) => timelines.sayAside(progressWords(now)), ended);
      }
    }
    listen("swapped", () => {
      void this.load();
      void this.loadTables();
    });
    listen("arrange", () => this.arrange());
    react(ctx.coupled, (on) => root.classList.toggle("hta-diff-coupled", on), ended);
    ctx.again.on(() => {
      ctx.said.value = null;
      void events?.timelines.link.realign(false);
      void this.load();
      void this.loadTables();
    });
    listenToDiffKeys(root, ended, (way) => this.walk(way));
    watchTheme(root, ended, (theme) => (ctx.theme.value = theme));
    watchBoxes([root], () => this.arrange(), ended);
    ended.addEventListener("abort", () => root.remove(), { once: true });
  }

  private arrange(): void {
    const { root, events } = this;
    const width = root.clientWidth;
    if (width === 0) return;
    root.classList.toggle("hta-diff-wide", width >= WIDE);
    root.classList.toggle("hta-diff-narrow", width < NARROW);
    const across = events?.timelines.arrange(width) ?? false;
    root.classList.toggle("hta-diff-across", across);
    // Status lines are shorter if the timelines share the width.
    root.classList.toggle("hta-tight", (across ? width / 2 : width) < TIGHT_PX);
    const wide: Room = across ? "row" : "columns";
    const room = width < NARROW ? "sheet" : width < WIDE ? "pair" : wide;
    events?.charts.arrange(room, events.timelines.el);
    events?.timelines.setWidth();
  }

  private walk(way: "undo" | "redo"): void {
    if (this.events?.timelines.link.walk(way) === true) return;
    this.ctx.said.value = way === "undo" ? "Nothing to undo." : "Nothing to redo.";
  }

  // --- frames -------------------------------------------------------------------------------------

  private async start(): Promise<void> {
    const { ctx, events } = this;
    this.arrange();
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
          const frame = await ctx.framed(ctx.findings);
          return { frame, totals: null, whose: "" };
        });
        return;
      }
      await events.charts.load();
      this.arrange();
      await events.timelines.classify();
    } catch (error) {
      ctx.fail(error);
    }
  }

  private async loadTables(): Promise<void> {
    try {
      for (const table of this.tables) {
        await table.load(() => this.ctx.framed(`table:${table.name}`));
        this.tablesEl.append(table.el);
      }
    } catch (error) {
      this.ctx.fail(error);
    }
  }
}

function Status({ ctx }: { ctx: Context }) {
  const { has_events: events, all_matched: matched, matched: words } = ctx.about;
  const hint = events
    ? "Click steps, changes, names, operators; point at events for partners."
    : "";
  return (
    <div class={`hta-status hta-diff-status${events ? "" : " hta-diff-quiet"}`}>
      <span class="hta-grow" aria-live="polite">
        {ctx.said.value ?? hint}
      </span>
      {events && (
        <span class={`hta-badge hta-diff-truth ${matched ? "hta-ok" : "hta-warn"}`}>
          {`${matched ? "✓ " : "⚠ "}${words}`}
        </span>
      )}
    </div>
  );
}

// Undo and redo from anywhere in a comparison: both timelines have one history.

function listenToDiffKeys(
  root: HTMLElement,
  signal: AbortSignal,
  walk: (way: "undo" | "redo") => void,
): void {
  // Before a timeline handles it.
  root.addEventListener(
    "keydown",
    (event) => {
      if (event.isComposing || event.defaultPrevented || isTextEntry(event.target)) return;
      const command = match(event)?.command;
      if (command !== "undo" && command !== "redo") return;
      event.preventDefault();
      event.stopPropagation();
      walk(command);
    },
    { signal, capture: true },
  );
}
