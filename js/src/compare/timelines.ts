/** Both timelines of a comparison: in line, in colour, linked call by call, with one history. */

import { type MakeStage, TimelineApp } from "../app/app";
import { throttle } from "../app/context";
import { h } from "../app/dom";
import { type History, readHistory } from "../app/history";
import type { Model } from "../app/shared";
import type { Scene, Source, ThemeName } from "../contract";
import type { ClassParts } from "../draw/class_parts";
import { kernelSays } from "../dash/kernel_words";
import type { LiveSource } from "../data/offline";
import { type Arrange, ArrangeChoice, arrangedIn } from "./arrangement";
import { type Colour, ColourLegend } from "./colour_legend";
import { Coupling, other, type Patch } from "./coupling";
import { type ClassCounts, classParts, countsOf, eventClasses } from "./event_classes";
import type { About, Frames, Row } from "./frames";
import type { Icicle } from "./icicle";
import { Linking } from "./linking";
import type { Line } from "./maps";
import { PairHistory } from "./pair_history";
import { PairLines } from "./pair_lines";
import { Partners } from "./partners";
import { SideSource } from "./side_source";

type Side = 0 | 1;

export interface TimelinesWays {
  scenes: readonly [Scene, Scene];
  states: readonly [Model, Model];
  source: Source;
  model: Model;
  live: LiveSource | null;
  signal: AbortSignal;
  makeStage: MakeStage;
  about: About;
  frames: Frames;
  icicle: Icicle;
  /** Of which pair of ranks that tree is; null for all. */
  treeOf(): number | null;
  theme: ThemeName;
  /** Write one of the widget's own traits. */
  keep(name: string, value: unknown): void;
  /** Undo or redo may have become possible or impossible. */
  historyChanged(): void;
  say(words: string | null): void;
  fail(error: unknown): void;
  /** Ask for what has failed once more. */
  again(): void;
}

const TIES_MS = 120;

export class Timelines {
  readonly el: HTMLElement;
  readonly linking: Linking;
  readonly history: PairHistory;
  private readonly colours: ColourLegend;
  private readonly choice: ArrangeChoice;
  private readonly lines: PairLines;
  private readonly places: [HTMLElement, HTMLElement];
  private readonly apps: [TimelineApp, TimelineApp] | null;
  private readonly coupling: Coupling | null;
  private readonly sources: [SideSource, SideSource];
  private line: Line | null = null;
  /** What became of every event is known. */
  private classed = false;
  private counts: ClassCounts | null = null;
  private parts: [ClassParts | null, ClassParts | null] = [null, null];

  constructor(private readonly ways: TimelinesWays) {
    const { source } = ways;
    this.sources = [new SideSource(source, 0), new SideSource(source, 1)];
    this.colours = new ColourLegend((colour) => ways.keep("color", colour));
    this.choice = new ArrangeChoice((arrange) => ways.keep("arrange", arrange));
    this.lines = new PairLines({
      xOf: (place, time) => this.apps?.[this.sideAt(place)].led.xOf(time) ?? 0,
      lanes: () => this.linking.lanes(),
      setTies: () => void this.linking.loadTies(),
    });
    this.linking = this.makeLinking();
    this.history = new PairHistory(
      (side, way) => this.apps?.[side].led[way]() ?? false,
      (walk) => this.coupling?.together(walk),
    );
    this.places = [h("div", { class: "hta-diff-side" }), h("div", { class: "hta-diff-side" })];
    this.el = h(
      "section",
      { class: "hta-diff-timelines", "aria-label": "Timelines" },
      h("div", { class: "hta-diff-times-head" }, this.colours.el, this.choice.el),
      this.places[0],
      this.lines.el,
      this.places[1],
    );
    this.apps = null;
    this.coupling = null;
    if (!ways.about.has_events) return;
    this.apps = [this.makeTimeline(0), this.makeTimeline(1)];
    this.coupling = this.couple(this.apps);
    for (const side of [0, 1] as const) this.listen(side);
  }

  private get swapped(): boolean {
    return this.ways.model.get("swapped") === true;
  }

  private get colour(): Colour {
    return (this.ways.model.get("color") ?? "change") as Colour;
  }

  /** Which run is drawn above (0) or below (1). */
  sideAt(place: 0 | 1): Side {
    return this.swapped ? other(place) : place;
  }

  /** Which pair of ranks is shown; null for all. */
  private ranksOf(side: Side): number[] | null {
    const pair = this.ways.model.get("pair");
    const ranks = typeof pair === "number" ? this.ways.about.rank_pairs[pair] : undefined;
    return ranks === undefined ? null : [ranks[side]];
  }

  // --- what others ask for ------------------------------------------------------------------------

  /** Lay them out in so many px; returns whether they are beside each other. */
  arrange(width: number): boolean {
    const chosen = (this.ways.model.get("arrange") ?? "stacked") as Arrange;
    const { beside, why } = arrangedIn(width, chosen);
    this.choice.show(chosen, why);
    this.el.classList.toggle("hta-diff-beside", beside);
    this.lines.setFlat(beside);
    for (const app of this.apps ?? []) app.led.setSlim(beside);
    return beside;
  }

  setWidth(): void {
    this.lines.setWidth(this.lines.el.clientWidth);
  }

  setTheme(theme: ThemeName): void {
    this.colours.setTheme(theme);
    this.lines.setTheme(theme);
    for (const app of this.apps ?? []) app.setTheme(theme);
  }

  /** The chosen alignment has changed; `follow` moves the side that does not lead. */
  setLine(line: Line, follow: boolean): void {
    this.line = line;
    if (follow) this.coupling?.align();
  }

  setStarts(starts: readonly (readonly [number, number])[]): void {
    this.lines.setStarts(starts);
  }

  align(): void {
    this.coupling?.align();
  }

  openExport(side: Side): void {
    this.apps?.[side].openExport();
  }

  sayAside(words: string): void {
    for (const app of this.apps ?? []) app.sayAside(words);
  }

  /** Before above, or after. */
  showOrder(): void {
    this.places[this.sideAt(0)].style.order = "0";
    this.lines.el.style.order = "1";
    this.places[this.sideAt(1)].style.order = "2";
    for (const place of [0, 1] as const) {
      this.places[this.sideAt(place)].classList.toggle("hta-diff-second", place === 1);
    }
    this.lines.select(null);
    this.showColour();
  }

  showColour(): void {
    const { colour, swapped } = this;
    const byChange = colour === "change";
    this.colours.show(colour, swapped);
    this.el.classList.toggle("hta-diff-by-change", byChange);
    const classes = byChange ? eventClasses(swapped) : null;
    for (const side of [0, 1] as const) {
      this.apps?.[side].led.setClasses(classes, this.classed, this.parts[side]);
    }
    if (byChange) return;
    for (const side of [0, 1] as const) {
      if (this.ways.states[side].get("color") !== colour) {
        this.coupling?.write(side, "color", colour);
      }
    }
  }

  /** From here on tiles carry what became of their events. */
  async classify(): Promise<void> {
    if (this.apps === null) return;
    if (!this.classed) await this.count();
    if (this.parts.some((part) => part !== null)) return;
    const overview = await this.ways.frames.get("overview");
    this.parts = [classParts(overview, 0), classParts(overview, 1)];
    this.showColour();
  }

  private async count(): Promise<void> {
    const { source, signal, again } = this.ways;
    this.colours.setAgain(null);
    try {
      const { reply } = await source.ask("classes", {}, signal);
      this.classed = true;
      this.counts = reply as unknown as ClassCounts;
      this.showCounts();
      this.showColour();
    } catch (error) {
      this.colours.setAgain(() => {
        this.colours.setAgain(null);
        again();
      });
      throw error;
    }
  }

  /** The ranks of the chosen pair alone, or all. */
  showRanks(): void {
    for (const side of [0, 1] as const) {
      this.coupling?.write(side, "ranks_from", this.ranksOf(side) === null ? "" : "pair");
    }
    this.linking.clear();
    this.showCounts();
  }

  /** Of the chosen pair of ranks alone, as its timelines are, or of all. */
  private showCounts(): void {
    if (this.counts === null) return;
    this.colours.setCounts(countsOf(this.counts, this.ways.model.get("pair")));
  }

  /** One pair of steps, or all, as wide on both sides; `turn` as in `PairHistory.one`. */
  showStep(row: Row | null, turn: () => void): void {
    if (row === null) {
      const [before, after] = this.ways.scenes;
      this.choose([{ view: [...before.range] }, { view: [...after.range] }], turn);
      return;
    }
    const start = (side: string): number => Number(row[`${side}_start_ns`]);
    const long = Math.max(
      ...["before", "after"].map((side) => Number(row[`${side}_end_ns`]) - start(side)),
    );
    const views = (["before", "after"] as const).map((side): Patch => {
      const from = start(side);
      return { view: [Math.floor(from), Math.ceil(from + long)] };
    });
    this.choose([views[this.sideAt(0)]!, views[this.sideAt(1)]!], turn);
  }

  walk(way: "undo" | "redo"): boolean {
    for (const app of this.apps ?? []) app.settle();
    return this.history[way]();
  }

  /** What is chosen beside the timelines is one entry, with what it changes on either. */
  private choose(patches: readonly [Patch, Patch], turn: () => void): void {
    // A gesture that still settles is an entry before this one.
    for (const app of this.apps ?? []) app.settle();
    this.history.one(() => this.coupling?.put(patches), turn);
    this.ways.historyChanged();
  }

  // --- parts --------------------------------------------------------------------------------------

  private makeLinking(): Linking {
    const { source, signal, model, frames, icicle, treeOf, say, fail } = this.ways;
    const swapped = (): boolean => this.swapped;
    const partners = new Partners({ source, sides: this.sources, frames, signal, swapped, treeOf });
    return new Linking({
      source,
      signal,
      partners,
      lines: this.lines,
      icicle,
      apps: () => this.apps,
      coupling: () => this.coupling,
      line: () => this.line,
      swapped,
      ranksOf: (side) => this.ranksOf(side),
      choose: (patches, turn) => this.choose(patches, turn),
      coupled: () => model.get("coupled") === true,
      say,
      fail,
    });
  }

  private makeTimeline(side: Side): TimelineApp {
    const { live, scenes, states, model, signal, makeStage, about, theme } = this.ways;
    const status = h("div", { class: "hta-diff-side-status" });
    const app = new TimelineApp(this.places[side], {
      scene: scenes[side],
      state: states[side],
      source: this.sources[side],
      height: (model.get("height") ?? 230) as number,
      signal,
      makeStage,
      part: {
        title: about.labels[side],
        status,
        theme,
        kernelSays: () => (live === null ? null : kernelSays(live.source)),
        openProblems: () => this.apps?.[side].openProblems(),
      },
    });
    this.places[side].append(status);
    app.led.onHover((slice) => void this.linking.hover(side, slice));
    return app;
  }

  private couple(apps: readonly [TimelineApp, TimelineApp]): Coupling {
    const { states, signal, model, about } = this.ways;
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
        rankPairs: () => about.rank_pairs,
        moved: () => {
          this.lines.redraw();
          if (this.lines.wantsTies) redrawn();
        },
        picked: (side, event) => void this.linking.pick(side, event),
      },
      signal,
    );
  }

  private listen(side: Side): void {
    const { states, signal, keep, historyChanged } = this.ways;
    const state = states[side];
    const listen = (name: string, listener: () => void): void => {
      state.on(`change:${name}`, listener);
      signal.addEventListener("abort", () => state.off(`change:${name}`, listener), { once: true });
    };
    let last: History = readHistory(state.get("_history"));
    listen("_history", () => {
      const now = readHistory(state.get("_history"));
      this.history.heard(side, last, now);
      last = now;
      historyChanged();
    });
    // By a timeline's own key: it colours as it does alone.
    listen("color", () => {
      const colour = state.get("color");
      if (this.colour === colour || (this.colour === "change" && colour === "kind")) return;
      keep("color", colour);
    });
  }
}
