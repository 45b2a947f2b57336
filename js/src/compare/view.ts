/** One view of a comparison: creates its parts and puts them into the page. */

import type { LiveSource } from "../connection/answering";
import type { Model } from "../connection/store";
import { asError, isAbort, type Scene, type Source, type ThemeName } from "../protocol/source";
import { match } from "../timeline/keys";
import { progressWords } from "../timeline/status";
import type { MakeStage } from "../timeline/view";
import { failure } from "../ui/controls";
import { fill, h, isTextEntry } from "../ui/dom";
import { detectTheme, TIGHT_PX, watchTheme } from "../ui/host";
import { FullWindow } from "../ui/placing";
import { applyTheme } from "../ui/theme";
import { type Base, piecesOf } from "./align";
import { Charts, type Room } from "./charts";
import { type About, Frames, rowsOf } from "./frames";
import { headlineOf } from "./pane";
import { plainTable, tableTitle } from "./tables";
import { Timelines } from "./timelines";
import { DiffToolbar } from "./toolbar";

interface DiffOptions {
  scenes: readonly [Scene, Scene];
  states: readonly [Model, Model];
  source: Source;
  /** The widget's own traits. */
  model: Model;
  /** Where there is a kernel, which writes files, and what the page keeps of its data. */
  live: LiveSource | null;
  signal: AbortSignal;
  makeStage: MakeStage;
}

const WIDE = 1500;
const NARROW = 900;

export class DiffApp {
  private readonly root: HTMLElement;
  private readonly body = h("div", { class: "hta-diff-body" });
  private readonly tables = h("div", { class: "hta-diff-tables" });
  private readonly frames: Frames;
  private readonly toolbar: DiffToolbar;
  private readonly headline = h("header", { class: "hta-headline" }, h("h2", {}, "Comparing…"));
  private readonly charts: Charts;
  private readonly timelines: Timelines;
  private readonly said = h("span", { class: "hta-grow", "aria-live": "polite" });
  private readonly about: About;
  private theme: ThemeName;

  constructor(
    host: HTMLElement,
    private readonly options: DiffOptions,
  ) {
    const { signal, source, model } = options;
    this.about = model.get("_about") as About;
    this.frames = new Frames(source, signal);
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
    this.toolbar = this.makeToolbar();
    this.charts = this.makeCharts();
    this.timelines = new Timelines({
      ...options,
      about: this.about,
      frames: this.frames,
      icicle: this.charts.icicle,
      treeOf: () => this.charts.treeOf,
      theme: this.theme,
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

  private get swapped(): boolean {
    return this.options.model.get("swapped") === true;
  }

  private get coupled(): boolean {
    return this.options.model.get("coupled") === true;
  }

  private get base(): Base {
    return (this.options.model.get("align") ?? "steps") as Base;
  }

  private get pair(): number | null {
    const pair = this.options.model.get("pair");
    return typeof pair === "number" ? pair : null;
  }

  private layOut(): void {
    const { about, charts } = this;
    const { has_events: events } = about;
    // Columns where there is room; else one sheet in the order of the style sheet.
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
    this.body.append(this.tables);
    const truth = h(
      "span",
      { class: `hta-badge hta-diff-truth ${about.all_matched ? "hta-ok" : "hta-warn"}` },
      `${about.all_matched ? "✓ " : "⚠ "}${about.matched}`,
    );
    const status = h("div", { class: "hta-status hta-diff-status" }, this.said, events && truth);
    status.classList.toggle("hta-diff-quiet", !events);
    this.root.append(this.toolbar.el, this.headline, this.body, status);
  }

  private makeToolbar(): DiffToolbar {
    const { signal, source, live } = this.options;
    const write = (op: "export_pair" | "save_html") => async (path: string) => {
      const { reply } = await source.ask(op, { path }, signal);
      return `Written: ${reply.path}`;
    };
    return new DiffToolbar(
      {
        root: this.root,
        signal,
        setBase: (base) => this.keep("align", base),
        swap: () => this.keep("swapped", !this.swapped),
        couple: () => this.keep("coupled", !this.coupled),
        undo: () => this.walk("undo"),
        redo: () => this.walk("redo"),
        setPair: (pair) => this.keep("pair", pair),
        exportPair: live === null ? null : write("export_pair"),
        savePage: live === null ? null : write("save_html"),
        exportSide: (side, anchor) => this.timelines.openExport(side, anchor),
        full: new FullWindow(this.root, () => this.arrange()).button,
      },
      this.about,
    );
  }

  private makeCharts(): Charts {
    return new Charts({
      frames: this.frames,
      about: this.about,
      swapped: () => this.swapped,
      showStep: (row, turn) => this.timelines.showStep(row, turn),
      markNames: (names, turn) => this.timelines.linking.markNames(names, turn),
      markNode: (node, name, pair, turn) =>
        void this.timelines.linking.markNode(node, name, pair, turn),
      markChange: (row, name, pair, turn) =>
        void this.timelines.linking.markChange(row, name, pair, turn),
      tell: (told, totals, whose) => {
        fill(this.headline, ...headlineOf(told, totals, whose, this.about.conditions));
        this.say(null);
      },
      say: (words) => this.say(words),
      fail: (error) => this.fail(error),
      untold: (why) => fill(this.headline, why),
      again: () => this.again(),
    });
  }

  private listen(): void {
    const { model, signal, live } = this.options;
    const listen = (name: string, listener: () => void): void => {
      model.on(`change:${name}`, listener);
      signal.addEventListener("abort", () => model.off(`change:${name}`, listener), { once: true });
    };
    listen("align", () => void this.realign());
    listen("swapped", () => {
      this.showOrder();
      void this.realign();
      void this.load();
      this.renewTables();
    });
    listen("coupled", () => {
      this.showCoupled();
      this.timelines.align();
    });
    listen("color", () => this.timelines.showColour());
    listen("arrange", () => this.arrange());
    listen("pair", () => {
      this.showPair();
      void this.load();
    });
    listenToDiffKeys(this.root, signal, (way) => this.walk(way));
    if (live !== null) {
      live.source.onReturn(() => void this.load(), signal);
      live.offline.onProgress(
        (progress) => this.timelines.sayAside(progressWords(progress)),
        signal,
      );
    }
    watchTheme(this.root, signal, (theme) => this.setTheme(theme));
    const resized = new ResizeObserver(() => this.arrange());
    resized.observe(this.root);
    signal.addEventListener(
      "abort",
      () => {
        resized.disconnect();
        this.root.remove();
      },
      { once: true },
    );
  }

  private arrange(): void {
    const width = this.root.clientWidth;
    if (width === 0) return;
    this.root.classList.toggle("hta-diff-wide", width >= WIDE);
    this.root.classList.toggle("hta-diff-narrow", width < NARROW);
    const across = this.timelines.arrange(width);
    this.root.classList.toggle("hta-diff-across", across);
    // The status lines of both timelines are briefer where these share the width.
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
    const { labels } = this.about;
    const shown: readonly [string, string] = this.swapped ? [labels[1], labels[0]] : labels;
    this.toolbar.setAbout(shown, this.about, this.swapped);
    this.timelines.showOrder();
    this.showCoupled();
    this.showHistory();
    this.toolbar.setPair(this.pair);
    this.toolbar.setBase(this.base);
  }

  private showCoupled(): void {
    this.toolbar.setCoupled(this.coupled);
    this.root.classList.toggle("hta-diff-coupled", this.coupled);
  }

  private showPair(): void {
    this.toolbar.setPair(this.pair);
    this.charts.setPair(this.pair);
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
    this.toolbar.setHistory(canUndo, canRedo);
  }

  // --- frames -------------------------------------------------------------------------------------

  private async start(): Promise<void> {
    try {
      this.setTheme(this.theme);
      this.arrange();
      if (this.pair !== null) this.showPair();
      await Promise.all([this.about.has_events && this.realign(false), this.load()]);
      await this.showTables();
      this.options.live?.offline.start();
    } catch (error) {
      this.fail(error);
    }
  }

  /** What only these formats have. */
  private async showTables(): Promise<void> {
    const tables = [];
    for (const name of this.about.tables) {
      try {
        tables.push(plainTable(name, await this.charts.framed(`table:${name}`)));
      } catch (error) {
        if (isAbort(error)) throw error;
        const why = failure(`${tableTitle(name)} could not be drawn`, asError(error), this.again);
        tables.push(h("section", { class: "hta-diff-pane hta-diff-plain" }, why));
      }
    }
    fill(this.tables, ...tables);
  }

  private renewTables(): void {
    this.showTables().catch((error: unknown) => this.fail(error));
  }

  /** Ask for what has failed once more; what is here is kept. */
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
    const { base } = this;
    this.toolbar.setBase(base);
    try {
      const segments = await this.frames.get(`segments:${base}`);
      if (base !== this.base) return;
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
    const hint = this.about.has_events
      ? "Click a step, a change, a name or an operator; point at an event to see its partner."
      : "";
    fill(this.said, words ?? hint);
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
  // Before a timeline takes it for its own.
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
