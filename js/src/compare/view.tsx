/** One view of a comparison: creates its parts and puts them into the page. */

import { signal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import type { LiveSource } from "../connection/answering";
import { listenTo, type Model, traitOf } from "../connection/store";
import { asError, isAbort, type Scene, type Source, type ThemeName } from "../protocol/source";
import { match } from "../timeline/keys";
import { progressWords } from "../timeline/status";
import { Failure } from "../ui/controls";
import { h, isTextEntry, mount } from "../ui/dom";
import { detectTheme, TIGHT_PX, watchBoxes, watchTheme } from "../ui/host";
import { FullWindow } from "../ui/placing";
import { react } from "../ui/react";
import { applyTheme } from "../ui/theme";
import { type Base, piecesOf } from "./align";
import { Charts, type Room } from "./charts";
import { type About, Frames, rowsOf } from "./frames";
import { Findings } from "./pane";
import { PlainTable, tableTitle } from "./tables";
import { Timelines } from "./timelines";
import { type Colour, type DiffState, DiffToolbar } from "./toolbar";

interface DiffOptions {
  scenes: readonly [Scene, Scene];
  states: readonly [Model, Model];
  source: Source;
  /** The widget's own traits. */
  model: Model;
  /** The kernel, which writes files, and the data fetched from it; null without a kernel. */
  live: LiveSource | null;
  signal: AbortSignal;
}

const WIDE = 1500;
const NARROW = 900;

export class DiffApp {
  private readonly root: HTMLElement;
  private readonly body = h("div", { class: "hta-diff-body" });
  private readonly tables = signal<readonly VNode[]>([]);
  private readonly headline = signal<ComponentChildren>(<h2>Comparing…</h2>);
  private readonly said = signal<string | null>(null);
  private readonly history = signal({ canUndo: false, canRedo: false });
  private readonly state: DiffState;
  private readonly full: FullWindow;
  private readonly frames: Frames;
  private readonly charts: Charts;
  private readonly timelines: Timelines;
  private readonly about: About;
  private theme: ThemeName;

  constructor(
    host: HTMLElement,
    private readonly options: DiffOptions,
  ) {
    const { signal: ended, source, model } = options;
    this.about = model.get("_about") as About;
    this.frames = new Frames(source, ended);
    this.root = h("div", {
      class: "hta-root hta-diff",
      tabindex: -1,
      role: "group",
      "aria-label": `Comparison of ${this.about.labels.join(" and ")}`,
      "data-lm-suppress-shortcuts": "true",
    });
    host.append(this.root);
    this.theme = detectTheme(this.root);
    applyTheme(this.root, this.theme);
    this.state = {
      swapped: traitOf(model, "swapped", (on) => on === true, ended),
      coupled: traitOf(model, "coupled", (on) => on === true, ended),
      base: traitOf(model, "align", (base) => (base ?? "steps") as Base, ended),
      pair: traitOf(model, "pair", (at) => (typeof at === "number" ? at : null), ended),
      colour: traitOf(model, "color", (by) => (by ?? "change") as Colour, ended),
    };
    this.full = new FullWindow(this.root, () => this.arrange());
    this.charts = this.makeCharts();
    this.timelines = new Timelines({
      ...options,
      about: this.about,
      frames: this.frames,
      icicle: this.charts.icicle,
      treeOf: () => this.charts.treeOf,
      theme: this.theme,
      state: this.state,
      keep: (name, value) => this.keep(name, value),
      historyChanged: () => this.showHistory(),
      say: (words) => this.say(words),
      fail: (error) => this.fail(error),
      again: () => this.again(),
    });
    this.layOut();
    this.showOrder();
    this.listen();
    void this.start();
  }

  // --- parts --------------------------------------------------------------------------------------

  private layOut(): void {
    const { about, charts, options } = this;
    const { has_events: events } = about;
    const above = h("div", {});
    const tables = h("div", { class: "hta-diff-tables" });
    const below = h("div", {});
    // Columns if there is room; else one column in the order of the style sheet.
    if (events) {
      this.body.append(
        h(
          "div",
          { class: "hta-diff-column" },
          about.has_device && charts.strip.el,
          this.timelines.el,
          charts.icicle.el,
        ),
        h(
          "div",
          { class: "hta-diff-column" },
          charts.waterfall.el,
          charts.changes.el,
          charts.names.el,
        ),
      );
    }
    this.body.append(tables);
    this.root.append(above, this.body, below);
    const Above = () => (
      <>
        {this.toolbar()}
        <header class="hta-headline">{this.headline.value}</header>
      </>
    );
    const Tables = () => <>{this.tables.value}</>;
    const hint = events
      ? "Click steps, changes, names, operators; point at events for partners."
      : "";
    const Status = () => (
      <div class={`hta-status hta-diff-status${events ? "" : " hta-diff-quiet"}`}>
        <span class="hta-grow" aria-live="polite">
          {this.said.value ?? hint}
        </span>
        {events && (
          <span class={`hta-badge hta-diff-truth ${about.all_matched ? "hta-ok" : "hta-warn"}`}>
            {`${about.all_matched ? "✓ " : "⚠ "}${about.matched}`}
          </span>
        )}
      </div>
    );
    mount(<Above />, above, options.signal);
    mount(<Tables />, tables, options.signal);
    mount(<Status />, below, options.signal);
  }

  private toolbar() {
    const { signal: ended, source, live } = this.options;
    const write = (op: "export_pair" | "save_html") => async (path: string) => {
      const { reply } = await source.ask(op, { path }, ended);
      return `Written: ${reply.path}`;
    };
    return (
      <DiffToolbar
        about={this.about}
        state={this.state}
        history={this.history}
        keep={(name, value) => this.keep(name, value)}
        walk={(way) => this.walk(way)}
        exportPair={live === null ? null : write("export_pair")}
        savePage={live === null ? null : write("save_html")}
        exportSide={(side, anchor) => this.timelines.openExport(side, anchor)}
        full={this.full}
      />
    );
  }

  private makeCharts(): Charts {
    return new Charts({
      frames: this.frames,
      about: this.about,
      swapped: () => this.state.swapped.peek(),
      showStep: (row, turn) => this.timelines.showStep(row, turn),
      markNames: (names, turn) => this.timelines.linking.markNames(names, turn),
      markNode: (node, name, pair, turn) =>
        void this.timelines.linking.markNode(node, name, pair, turn),
      markChange: (row, name, pair, turn) =>
        void this.timelines.linking.markChange(row, name, pair, turn),
      tell: (told, totals, whose) => {
        this.headline.value = (
          <Findings
            told={told}
            totals={totals}
            whose={whose}
            conditions={this.about.conditions ?? ""}
          />
        );
        this.say(null);
      },
      say: (words) => this.say(words),
      fail: (error) => this.fail(error),
      untold: (why) => (this.headline.value = why),
      again: () => this.again(),
    });
  }

  private listen(): void {
    const { model, signal: ended, live } = this.options;
    const listen = (name: string, listener: () => void): void =>
      listenTo(model, `change:${name}`, listener, ended);
    listen("align", () => void this.realign());
    listen("swapped", () => {
      this.showOrder();
      void this.realign();
      void this.load();
      this.renewTables();
    });
    listen("coupled", () => this.timelines.align());
    react(this.state.coupled, (on) => this.root.classList.toggle("hta-diff-coupled", on), ended);
    listen("color", () => this.timelines.showColour());
    listen("arrange", () => this.arrange());
    listen("pair", () => {
      this.showPair();
      void this.load();
    });
    listenToDiffKeys(this.root, ended, (way) => this.walk(way));
    if (live !== null) {
      react(live.offline.progress, (now) => this.timelines.sayAside(progressWords(now)), ended);
    }
    watchTheme(this.root, ended, (theme) => this.setTheme(theme));
    watchBoxes([this.root], () => this.arrange(), ended);
    ended.addEventListener("abort", () => this.root.remove(), { once: true });
  }

  private arrange(): void {
    const width = this.root.clientWidth;
    if (width === 0) return;
    this.root.classList.toggle("hta-diff-wide", width >= WIDE);
    this.root.classList.toggle("hta-diff-narrow", width < NARROW);
    const across = this.timelines.arrange(width);
    this.root.classList.toggle("hta-diff-across", across);
    // Status lines are shorter if the timelines share the width.
    this.root.classList.toggle("hta-tight", (across ? width / 2 : width) < TIGHT_PX);
    const wide: Room = across ? "row" : "columns";
    const room = width < NARROW ? "sheet" : width < WIDE ? "pair" : wide;
    this.charts.arrange(room, this.timelines.el);
    this.timelines.setWidth();
  }

  private setTheme(theme: ThemeName): void {
    this.theme = theme;
    applyTheme(this.root, theme);
    this.charts.setTheme(theme);
    this.timelines.setTheme(theme);
  }

  private showOrder(): void {
    this.timelines.showOrder();
    this.showHistory();
  }

  private showPair(): void {
    this.charts.setPair(this.state.pair.peek());
    this.timelines.showRanks();
  }

  private walk(way: "undo" | "redo"): void {
    if (!this.timelines.walk(way)) {
      this.say(way === "undo" ? "Nothing to undo." : "Nothing to redo.");
    }
    this.showHistory();
  }

  private showHistory(): void {
    const { canUndo, canRedo } = this.timelines.history;
    this.history.value = { canUndo, canRedo };
  }

  // --- frames -------------------------------------------------------------------------------------

  private async start(): Promise<void> {
    try {
      this.setTheme(this.theme);
      this.arrange();
      if (this.state.pair.peek() !== null) this.showPair();
      await Promise.all([this.about.has_events && this.realign(false), this.load()]);
      await this.showTables();
      this.options.live?.offline.start();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Show the tables of these formats. */
  private async showTables(): Promise<void> {
    const tables: VNode[] = [];
    for (const name of this.about.tables) {
      try {
        const frame = await this.charts.framed(`table:${name}`);
        tables.push(<PlainTable key={name} name={name} frame={frame} />);
      } catch (error) {
        if (isAbort(error)) throw error;
        tables.push(
          <section class="hta-diff-pane hta-diff-plain">
            <Failure
              title={`${tableTitle(name)} could not be drawn`}
              error={asError(error)}
              retry={this.again}
            />
          </section>,
        );
      }
    }
    this.tables.value = tables;
  }

  private renewTables(): void {
    this.showTables().catch((error: unknown) => this.fail(error));
  }

  /** Repeat failed requests; loaded frames are kept. */
  private readonly again = (): void => {
    this.say(null);
    if (this.about.has_events) void this.realign(false);
    void this.load();
    this.renewTables();
  };

  private async load(): Promise<void> {
    try {
      await this.charts.load(() => this.arrange());
      await this.timelines.classify();
    } catch (error) {
      this.fail(error);
    }
  }

  private async realign(follow = true): Promise<void> {
    const base = this.state.base.peek();
    try {
      const segments = await this.frames.get(`segments:${base}`);
      if (base !== this.state.base.peek()) return;
      const { scenes } = this.options;
      const ranges = [scenes[0].range, scenes[1].range] as const;
      const pieces = piecesOf(segments);
      this.timelines.setLine({ base, pieces, ranges: [...ranges] }, follow);
      const slots = await this.charts.framed(`slots:${base}`);
      this.timelines.setStarts(
        rowsOf(slots).map(
          (row) => [Number(row.before_start_ns), Number(row.after_start_ns)] as const,
        ),
      );
      const { note } = slots.attrs;
      if (typeof note === "string" && note !== "") this.say(note);
    } catch (error) {
      this.fail(error);
    }
  }

  private say(words: string | null): void {
    this.said.value = words;
  }

  private keep(name: string, value: unknown): void {
    const { model } = this.options;
    model.set(name, value);
    model.save_changes();
  }

  private fail(error: unknown): void {
    if (isAbort(error) || this.options.signal.aborted) return;
    this.say(asError(error).message);
  }
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
