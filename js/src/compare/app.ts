/** One view of a comparison: puts the parts together, and keeps both timelines in line. */

import { type MakeStage, TimelineApp } from "../app/app";
import { throttle } from "../app/context";
import { fill, h } from "../app/dom";
import { readHistory } from "../app/history";
import { detectTheme, watchTheme } from "../app/host_theme";
import { asError, isAbort } from "../app/observed_source";
import type { Model } from "../app/shared";
import { applyTheme } from "../app/theme_vars";
import type { Scene, Source, ThemeName } from "../contract";
import { formatDuration } from "../draw/format";
import { Coupling, other } from "./coupling";
import { shareWords } from "./delta";
import { type About, type Frame, Frames, rowsOf, text, turned } from "./frames";
import { headlineOf, medianShare } from "./headline";
import { Icicle } from "./icicle";
import { Linking } from "./linking";
import { type Base, type Line, piecesOf } from "./maps";
import { NamesTable } from "./names_table";
import { PairLines } from "./pair_lines";
import { Partners } from "./partners";
import { SideSource } from "./side_source";
import { Strip } from "./strip";
import { stepLabel } from "./strip_layout";
import { plainTable } from "./tables";
import { DiffToolbar } from "./toolbar";
import { Waterfall } from "./waterfall";

export interface DiffOptions {
  scenes: readonly [Scene, Scene];
  states: readonly [Model, Model];
  source: Source;
  /** The widget's own traits. */
  model: Model;
  /** Whether there is a kernel, which writes files. */
  live: boolean;
  signal: AbortSignal;
  makeStage: MakeStage;
}

const WIDE = 1500;
/** Rows of names at first. */
const NAMES = 10;
const WIDE_NAMES = 26;
const NARROW = 900;
const TIES_MS = 120;

type Side = 0 | 1;

export class DiffApp {
  private readonly root: HTMLElement;
  private readonly frames: Frames;
  private readonly toolbar: DiffToolbar;
  private readonly headline = h("header", { class: "hta-headline" }, h("h2", {}, "Comparing…"));
  private readonly strip: Strip;
  private readonly waterfall: Waterfall;
  private readonly names: NamesTable;
  private readonly icicle: Icicle;
  private readonly lines: PairLines;
  private readonly places: [HTMLElement, HTMLElement];
  private readonly said = h("span", { class: "hta-grow", "aria-live": "polite" });
  private readonly apps: [TimelineApp, TimelineApp] | null;
  private readonly coupling: Coupling | null;
  private readonly sources: [SideSource, SideSource];
  private readonly about: About;
  private readonly linking: Linking;
  private readonly order: Side[] = [];
  private line: Line | null = null;
  private step: number | null = null;
  private theme: ThemeName;
  private asked = 0;

  constructor(
    host: HTMLElement,
    private readonly options: DiffOptions,
  ) {
    const { signal, source, model } = options;
    this.about = model.get("_about") as About;
    this.frames = new Frames(source, signal);
    this.sources = [new SideSource(source, 0), new SideSource(source, 1)];
    const partners = new Partners({
      source,
      sides: this.sources,
      frames: this.frames,
      signal,
      swapped: () => this.swapped,
    });
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
    const { held_steps: held, held_words: why = "" } = this.about;
    this.strip = new Strip(
      (slot) => this.choose(slot),
      held === undefined ? null : { steps: new Set(held), why },
    );
    this.waterfall = new Waterfall((level) => this.framed(this.withStep(`waterfall:${level}`)));
    this.names = new NamesTable((names) => this.linking.markNames(names));
    this.icicle = new Icicle((node, name) => void this.linking.markNode(node, name));
    this.lines = new PairLines({
      xOf: (place, time) => this.apps?.[this.sideAt(place)].led.xOf(time) ?? 0,
      lanes: () => this.linking.lanes(),
      setTies: () => void this.linking.loadTies(),
    });
    this.linking = new Linking({
      source,
      signal,
      partners,
      lines: this.lines,
      icicle: this.icicle,
      apps: () => this.apps,
      coupling: () => this.coupling,
      line: () => this.line,
      swapped: () => this.swapped,
      coupled: () => model.get("coupled") === true,
      say: (words) => this.say(words),
      fail: (error) => this.fail(error),
    });
    this.places = [h("div", { class: "hta-diff-side" }), h("div", { class: "hta-diff-side" })];
    const { has_events: events } = this.about;
    const timelines = h(
      "section",
      { class: "hta-diff-timelines", "aria-label": "Timelines" },
      this.places[0],
      this.lines.el,
      this.places[1],
    );
    const body = h(
      "div",
      { class: "hta-diff-body" },
      // Columns where there is room; else one sheet in the order of the style sheet.
      h(
        "div",
        { class: "hta-diff-column" },
        events && this.about.has_device && this.strip.el,
        events && timelines,
        events && this.icicle.el,
      ),
      h("div", { class: "hta-diff-column" }, events && this.waterfall.el, events && this.names.el),
    );
    const badge = h(
      "span",
      { class: `hta-badge hta-diff-truth ${this.about.all_matched ? "hta-ok" : "hta-warn"}` },
      `${this.about.all_matched ? "✓ " : "⚠ "}${this.about.matched}`,
    );
    const status = h("div", { class: "hta-status hta-diff-status" }, this.said, badge);
    this.root.append(this.toolbar.el, this.headline, body, status);
    this.apps = events ? [this.makeTimeline(0), this.makeTimeline(1)] : null;
    this.coupling = this.apps === null ? null : this.couple(this.apps);
    this.showOrder();
    this.listen();
    void this.start(body);
  }

  // --- parts --------------------------------------------------------------------------------------

  private get swapped(): boolean {
    return this.options.model.get("swapped") === true;
  }

  private get base(): Base {
    return (this.options.model.get("align") ?? "steps") as Base;
  }

  /** Which run is drawn above (0) or below (1). */
  private sideAt(place: 0 | 1): Side {
    return this.swapped ? other(place) : place;
  }

  private makeToolbar(): DiffToolbar {
    const { options } = this;
    const { signal, source } = options;
    const write = (op: string) => async (path: string) => {
      const { reply } = await source.ask(op, { path }, signal);
      return `Written: ${String(reply.path)}`;
    };
    return new DiffToolbar(
      {
        root: this.root,
        signal,
        setBase: (base) => this.keep("align", base),
        swap: () => this.keep("swapped", !this.swapped),
        couple: () => this.keep("coupled", options.model.get("coupled") !== true),
        undo: () => this.walk("undo"),
        redo: () => this.walk("redo"),
        exportPair: options.live ? write("export_pair") : null,
        savePage: options.live ? write("save_html") : null,
        exportSide: (side) => this.apps?.[side].openExport(),
      },
      this.about.has_events,
    );
  }

  private makeTimeline(side: Side): TimelineApp {
    const { options } = this;
    const status = h("div", { class: "hta-diff-side-status" });
    const app = new TimelineApp(this.places[side], {
      scene: options.scenes[side],
      state: options.states[side],
      source: this.sources[side],
      height: (options.model.get("height") ?? 230) as number,
      signal: options.signal,
      makeStage: options.makeStage,
      part: {
        title: this.about.labels[side],
        status,
        theme: this.theme,
        kernelSays: () => null,
        openProblems: () => this.apps?.[side].openProblems(),
      },
    });
    this.places[side].append(status);
    app.led.onHover((slice) => void this.linking.hover(side, slice));
    return app;
  }

  private couple(apps: readonly [TimelineApp, TimelineApp]): Coupling {
    const { states, signal, model } = this.options;
    const redrawn = throttle(TIES_MS, signal, () => void this.linking.loadTies());
    const sides = ([0, 1] as const).map((side) => ({
      app: apps[side],
      model: states[side],
      el: this.places[side],
    }));
    return new Coupling(
      [sides[0]!, sides[1]!],
      {
        line: () => this.line,
        coupled: () => model.get("coupled") === true,
        rankPairs: () => this.about.rank_pairs,
        moved: () => {
          this.lines.redraw();
          if (this.lines.wantsTies) redrawn();
        },
        picked: (side, event) => void this.linking.pick(side, event),
      },
      signal,
    );
  }

  private listen(): void {
    const { model, states, signal } = this.options;
    const listen = (of: Model, name: string, listener: () => void): void => {
      of.on(`change:${name}`, listener);
      signal.addEventListener("abort", () => of.off(`change:${name}`, listener), { once: true });
    };
    listen(model, "align", () => void this.realign());
    listen(model, "swapped", () => {
      this.showOrder();
      void this.realign();
      void this.load();
    });
    listen(model, "coupled", () => {
      this.showCoupled();
      this.coupling?.align();
    });
    for (const side of [0, 1] as const) {
      let length = 0;
      listen(states[side], "_history", () => {
        const past = readHistory(states[side].get("_history")).past.length;
        if (past > length) this.order.push(side);
        length = past;
      });
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
    this.names.setRoom(width >= WIDE ? WIDE_NAMES : NAMES);
    this.root.classList.toggle("hta-diff-narrow", width < NARROW);
    this.strip.setWidth(this.strip.el.clientWidth);
    this.icicle.setWidth(this.icicle.el.clientWidth);
    this.lines.setWidth(this.lines.el.clientWidth);
  }

  private setTheme(theme: ThemeName): void {
    this.theme = theme;
    applyTheme(this.root, theme);
    for (const part of [this.strip, this.waterfall, this.names, this.icicle, this.lines]) {
      part.setTheme(theme);
    }
    for (const app of this.apps ?? []) app.setTheme(theme);
  }

  private showOrder(): void {
    const { labels } = this.about;
    this.toolbar.setAbout(this.swapped ? [labels[1], labels[0]] : labels, this.about);
    this.places[this.sideAt(0)].style.order = "0";
    this.lines.el.style.order = "1";
    this.places[this.sideAt(1)].style.order = "2";
    this.lines.select(null);
    this.showCoupled();
    this.toolbar.setBase(this.base);
  }

  private showCoupled(): void {
    const coupled = this.options.model.get("coupled") === true;
    this.toolbar.setCoupled(coupled);
    this.root.classList.toggle("hta-diff-coupled", coupled);
    for (const place of [0, 1] as const) {
      this.places[this.sideAt(place)].classList.toggle("hta-diff-second", place === 1);
    }
  }

  // --- frames -------------------------------------------------------------------------------------

  private async framed(name: string): Promise<Frame> {
    const frame = await this.frames.get(name);
    return this.swapped ? turned(frame) : frame;
  }

  private withStep(name: string): string {
    return this.step === null ? name : `${name}:${this.step}`;
  }

  private async start(body: HTMLElement): Promise<void> {
    try {
      this.setTheme(this.theme);
      this.arrange();
      if (this.apps !== null) await this.realign(false);
      await this.load();
      for (const name of this.about.tables) {
        const frame = await this.framed(`table:${name}`);
        body.append(plainTable(name, frame));
      }
    } catch (error) {
      this.fail(error);
    }
  }

  /** The steps, sums and names first; sentences and tree when those are drawn. */
  private async load(): Promise<void> {
    const asked = (this.asked += 1);
    const { has_events: events, has_device: device } = this.about;
    try {
      if (events) {
        const kinds = await this.framed("waterfall:kind");
        const steps = await this.framed("steps");
        const slots = await this.framed("slots:steps");
        if (device) {
          const lanes = await this.framed("lanes:0");
          if (asked !== this.asked) return;
          const { labels } = this.about;
          this.strip.show({
            labels: this.swapped ? [labels[1], labels[0]] : labels,
            slots,
            lanes,
            totals: [Number(kinds.attrs.before_ns), Number(kinds.attrs.after_ns)],
            median: medianShare(steps),
          });
        }
      }
      await this.loadChosen();
      if (asked !== this.asked) return;
      const told = events
        ? await this.frames.get(this.swapped ? "findings:swapped" : "findings")
        : null;
      if (asked !== this.asked) return;
      this.tell(told);
      if (events) this.icicle.show(await this.framed("icicle"));
      this.arrange();
    } catch (error) {
      this.fail(error);
    }
  }

  private async loadChosen(): Promise<void> {
    if (!this.about.has_events) return;
    const { step } = this;
    const slots = await this.framed("slots:steps");
    const row = step === null ? null : rowsOf(slots)[step];
    const what = row ? `in ${stepLabel(text(row, "after_label"))}` : "";
    const kinds = await this.framed(this.withStep("waterfall:kind"));
    if (step !== this.step) return;
    this.waterfall.show(kinds, what);
    const names = await this.framed(this.withStep("names"));
    if (step === this.step) this.names.show(names);
  }

  private tell(told: Frame | null): void {
    fill(this.headline, ...headlineOf(told));
    this.say(null);
  }

  // --- alignment, steps ---------------------------------------------------------------------------

  private async realign(follow = true): Promise<void> {
    const { base } = this;
    this.toolbar.setBase(base);
    try {
      const segments = await this.frames.get(`segments:${base}`);
      if (base !== this.base) return;
      const { scenes } = this.options;
      this.line = { base, pieces: piecesOf(segments), ranges: [scenes[0].range, scenes[1].range] };
      if (follow) this.coupling?.align();
      const slots = await this.framed(`slots:${base}`);
      this.lines.setStarts(
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

  /** One pair of steps, or all. */
  private choose(slot: number | null): void {
    this.step = slot;
    this.strip.select(slot);
    this.loadChosen().catch((error: unknown) => this.fail(error));
    void this.framed("slots:steps").then((slots) => {
      const row = slot === null ? null : rowsOf(slots)[slot];
      const { scenes } = this.options;
      if (!row) {
        for (const side of [0, 1] as const) this.showSide(side, [...scenes[side].range]);
        this.say(null);
        return;
      }
      const column = (name: string): number => Number(row[name]);
      const long = Math.max(
        column("before_end_ns") - column("before_start_ns"),
        column("after_end_ns") - column("after_start_ns"),
      );
      for (const place of [0, 1] as const) {
        const start = column(place === 0 ? "before_start_ns" : "after_start_ns");
        this.showSide(this.sideAt(place), [start, start + long]);
      }
      const [before, after] = [
        column("before_end_ns") - column("before_start_ns"),
        column("after_end_ns") - column("after_start_ns"),
      ];
      this.say(
        `${stepLabel(text(row, "after_label"))}: ${formatDuration(before)} → ` +
          `${formatDuration(after)}, ${shareWords(after - before, before)}. Click it again for all steps.`,
      );
    });
  }

  private showSide(side: Side, view: [number, number]): void {
    this.coupling?.write(side, "view", view);
    this.apps?.[side].led.showView(view);
  }

  private walk(way: "undo" | "redo"): void {
    const side = way === "undo" ? this.order.pop() : undefined;
    this.apps?.[side ?? 0].led[way]();
  }

  private say(words: string | null): void {
    fill(
      this.said,
      words ??
        h(
          "span",
          {},
          h("b", {}, "No selection."),
          " Click a step, a name or an operator; point at an event to see its partner.",
        ),
    );
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
