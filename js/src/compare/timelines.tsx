/** Both timelines of a comparison: arrangement, alignment, colours, one undo history. */

import { computed, signal } from "@preact/signals";
import type { LiveSource } from "../connection/answering";
import { type History, listenTo, type Model, readHistory, same } from "../connection/store";
import { classParts, countsOf, eventClasses } from "../facts/event_classes";
import type { ClassCounts, ClassParts, Scene, Source, ThemeName } from "../protocol/source";
import { throttle } from "../timeline/context";
import { kernelSays } from "../timeline/status";
import { TimelineApp } from "../timeline/view";
import { Choice } from "../ui/controls";
import { h, mount } from "../ui/dom";
import { react } from "../ui/react";
import type { Line } from "./align";
import { type About, type Frames, type Row, SideSource } from "./frames";
import { Coupling, Linking, other, PairLines, Partners, type Patch } from "./link";
import type { Icicle } from "./operator_tree";
import { type Colour, ColourLegend, type DiffState } from "./toolbar";

type Side = 0 | 1;

interface TimelinesWays {
  scenes: readonly [Scene, Scene];
  states: readonly [Model, Model];
  source: Source;
  model: Model;
  live: LiveSource | null;
  signal: AbortSignal;
  about: About;
  frames: Frames;
  icicle: Icicle;
  /** The pair of ranks of the tree; null for all. */
  treeOf(): number | null;
  theme: ThemeName;
  state: DiffState;
  /** Write one of the widget's own traits. */
  keep(name: string, value: unknown): void;
  /** Called when undo or redo may have become possible or impossible. */
  historyChanged(): void;
  say(words: string | null): void;
  fail(error: unknown): void;
  /** Repeat failed requests. */
  again(): void;
}

const TIES_MS = 120;

export class Timelines {
  readonly el: HTMLElement;
  readonly linking: Linking;
  readonly history: PairHistory;
  private readonly theme;
  private readonly arranged = signal<{ chosen: Arrange; why: string }>({
    chosen: "stacked",
    why: "",
  });
  /** Matches calls again after a failure. */
  private readonly rematch = signal<(() => void) | null>(null);
  private readonly lines: PairLines;
  private readonly places: [HTMLElement, HTMLElement];
  private readonly apps: [TimelineApp, TimelineApp] | null;
  private readonly coupling: Coupling | null;
  private readonly sources: [SideSource, SideSource];
  private line: Line | null = null;
  /** Whether the classes of all events are known. */
  private classed = false;
  private readonly counts = signal<ClassCounts | null>(null);
  private parts: [ClassParts | null, ClassParts | null] = [null, null];

  constructor(private readonly ways: TimelinesWays) {
    const { source } = ways;
    this.sources = [new SideSource(source, 0), new SideSource(source, 1)];
    this.theme = signal(ways.theme);
    this.lines = new PairLines({
      xOf: (place, time) => this.apps?.[this.sideAt(place)].ctx.stage.xOf(time) ?? 0,
      lanes: () => this.linking.lanes(),
      setTies: () => void this.linking.loadTies(),
    });
    this.linking = this.makeLinking();
    this.history = new PairHistory(
      (side, way) => this.apps?.[side].ctx.shared[way]() ?? false,
      (walk) => this.coupling?.together(walk),
    );
    this.places = [h("div", { class: "hta-diff-side" }), h("div", { class: "hta-diff-side" })];
    const head = h("div", { class: "hta-diff-times-head" });
    this.drawHead(head);
    this.el = h(
      "section",
      { class: "hta-diff-timelines", "aria-label": "Timelines" },
      head,
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

  /** Legend of colours, and the arrangement of both timelines. */
  private drawHead(head: HTMLElement): void {
    const { state, signal: ended, keep } = this.ways;
    const counts = computed(() =>
      this.counts.value === null ? null : countsOf(this.counts.value, state.pair.value),
    );
    const Head = () => (
      <>
        <ColourLegend
          colour={state.colour.value}
          swapped={state.swapped.value}
          theme={this.theme.value}
          counts={counts.value}
          again={this.rematch.value}
          choose={(colour) => keep("color", colour)}
        />
        <ArrangeChoice {...this.arranged.value} choose={(arrange) => keep("arrange", arrange)} />
      </>
    );
    mount(<Head />, head, ended);
  }

  private get swapped(): boolean {
    return this.ways.state.swapped.peek();
  }

  private get colour(): Colour {
    return this.ways.state.colour.peek();
  }

  /** The side that is drawn above (0) or below (1). */
  sideAt(place: 0 | 1): Side {
    return this.swapped ? other(place) : place;
  }

  /** The shown ranks of a side; null for all. */
  private ranksOf(side: Side): number[] | null {
    const pair = this.ways.model.get("pair");
    const ranks = typeof pair === "number" ? this.ways.about.rank_pairs[pair] : undefined;
    return ranks === undefined ? null : [ranks[side]];
  }

  // --- for other parts ---------------------------------------------------------------------------

  /** Arrange them in a width in px; returns whether they are side by side. */
  arrange(width: number): boolean {
    const chosen = (this.ways.model.get("arrange") ?? "stacked") as Arrange;
    const { beside, why } = arrangedIn(width, chosen);
    this.arranged.value = { chosen, why };
    this.el.classList.toggle("hta-diff-beside", beside);
    this.lines.setFlat(beside);
    for (const app of this.apps ?? []) app.ctx.stage.setSlim(beside);
    return beside;
  }

  setWidth(): void {
    this.lines.setWidth(this.lines.el.clientWidth);
  }

  setTheme(theme: ThemeName): void {
    this.theme.value = theme;
    this.lines.setTheme(theme);
    for (const app of this.apps ?? []) app.setTheme(theme);
  }

  /** Set the alignment; `follow` moves the side that does not lead. */
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

  openExport(side: Side, anchor: HTMLElement): void {
    this.apps?.[side].panels.openExport(anchor);
  }

  sayAside(words: string): void {
    for (const app of this.apps ?? []) app.status.aside.value = words;
  }

  /** Apply the order of the sides: before above, or after. */
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
    this.el.classList.toggle("hta-diff-by-change", byChange);
    const classes = byChange ? eventClasses(swapped) : null;
    for (const side of [0, 1] as const) {
      this.apps?.[side].ctx.stage.setClasses(classes, this.classed, this.parts[side]);
    }
    if (byChange) return;
    for (const side of [0, 1] as const) {
      if (this.ways.states[side].get("color") !== colour) {
        this.coupling?.write(side, { color: colour });
      }
    }
  }

  /** Load the classes of events; tiles carry them from then on. */
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
    this.rematch.value = null;
    try {
      const { reply } = await source.ask("classes", {}, signal);
      this.classed = true;
      this.counts.value = reply;
      this.showColour();
    } catch (error) {
      this.rematch.value = () => {
        this.rematch.value = null;
        again();
      };
      throw error;
    }
  }

  /** Show the ranks of the chosen pair only, or all. */
  showRanks(): void {
    for (const side of [0, 1] as const) {
      this.coupling?.write(side, { ranks_from: this.ranksOf(side) === null ? "" : "pair" });
    }
    this.linking.clear();
  }

  /** Show one pair of steps, or all, at the same scale; `turn` as in `PairHistory.one`. */
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
    for (const app of this.apps ?? []) app.ctx.shared.flush();
    return this.history[way]();
  }

  /** Record a choice outside the timelines, with its changes on both, as one entry. */
  private choose(patches: readonly [Patch, Patch], turn: () => void): void {
    // End an unfinished gesture: it is an entry before this one.
    for (const app of this.apps ?? []) app.ctx.shared.flush();
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
    const { live, scenes, states, model, signal, about, theme, keep } = this.ways;
    const status = h("div", { class: "hta-diff-side-status" });
    const app = new TimelineApp(this.places[side], {
      scene: scenes[side],
      state: states[side],
      source: this.sources[side],
      height: (model.get("height") ?? 230) as number,
      signal,
      keepHeight: (height) => {
        for (const one of this.apps ?? []) one.height = height;
        keep("height", height);
      },
      part: {
        title: about.labels[side],
        status,
        theme,
        kernelSays: () => (live === null ? null : kernelSays(live.source)),
      },
    });
    this.places[side].append(status);
    react(app.hover.hovered, (slice) => void this.linking.hover(side, slice), signal);
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
    const listen = (name: string, listener: () => void): void =>
      listenTo(state, `change:${name}`, listener, signal);
    let last: History = readHistory(state.get("_history"));
    listen("_history", () => {
      const now = readHistory(state.get("_history"));
      this.history.heard(side, last, now);
      last = now;
      historyChanged();
    });
    // A timeline's own key switches to its own colours.
    listen("color", () => {
      const colour = state.get("color");
      if (this.colour === colour || (this.colour === "change" && colour === "kind")) return;
      keep("color", colour);
    });
  }
}

// Arrangement of the two timelines: stacked or side by side.

type Arrange = "stacked" | "beside";

/** Narrower pages stack the timelines, whose lanes would have no room side by side. */
export const BESIDE_FROM_PX = 900;

const CHOICES: readonly (readonly [id: Arrange, text: string, about: string])[] = [
  ["stacked", "stacked", "Timelines one above the other"],
  ["beside", "beside", "Timelines side by side"],
];

/** Arrangement in a width, and the reason if it is not the chosen one. */
export function arrangedIn(width: number, chosen: Arrange): { beside: boolean; why: string } {
  if (chosen === "stacked") return { beside: false, why: "" };
  if (width >= BESIDE_FROM_PX) return { beside: true, why: "" };
  return { beside: false, why: `stacked: side by side needs ${BESIDE_FROM_PX} px` };
}

export function ArrangeChoice(look: {
  chosen: Arrange;
  why: string;
  choose(arrange: Arrange): void;
}) {
  return (
    <div class="hta-diff-arrange">
      <span class="hta-note" aria-live="polite">
        {look.why}
      </span>
      <span class="hta-note">Timelines</span>
      <Choice
        name="Timelines"
        data="arrange"
        options={CHOICES}
        chosen={look.chosen}
        choose={look.choose}
      />
    </div>
  );
}

// One history for two timelines: the order of their entries. Each keeps its own values.

interface Entry {
  sides: Side[];
  /** Undoes or redoes the choice made outside the timelines. */
  turn?: (() => void) | undefined;
}

/** Changes of both sides within this time are one entry. */
const TOGETHER_MS = 50;

/**
 * The histories of the sides record all changes, from this page and from Python; this one keeps
 * their order. `hta_widgets/widgets/trace_diff.py` does the same.
 */
export class PairHistory {
  private past: Entry[] = [];
  private future: Entry[] = [];
  private walking = false;
  private acting: Side[] | null = null;
  private pushedAt = -Infinity;
  private turnedAt = -Infinity;

  /**
   * `walk` undoes or redoes on one side; false if there is nothing. `both` runs the walk of an
   * entry of both sides, during which neither may lead the other.
   */
  constructor(
    private readonly walk: (side: Side, way: "undo" | "redo") => boolean,
    private readonly both: (walk: () => void) => void = (run) => run(),
    private readonly now: () => number = () => performance.now(),
  ) {}

  get canUndo(): boolean {
    return this.past.length > 0;
  }

  get canRedo(): boolean {
    return this.future.length > 0;
  }

  undo(): boolean {
    return this.step(this.past, this.future, "undo");
  }

  redo(): boolean {
    return this.step(this.future, this.past, "redo");
  }

  /**
   * Record all changes by `act`, on either side, as one entry. `turn` belongs to the entry: it is
   * called at each undo and redo.
   */
  one(act: () => void, turn?: () => void): void {
    this.acting = [];
    let sides: Side[];
    try {
      act();
    } finally {
      sides = this.acting;
      this.acting = null;
    }
    if (sides.length === 0 && turn === undefined) return;
    this.past.push({ sides, turn });
    this.future = [];
    // Later changes are another entry, however soon.
    this.pushedAt = -Infinity;
  }

  /** Record that a side's history has changed from `before` to `after`. */
  heard(side: Side, before: History, after: History): void {
    const past = after.past.length - before.past.length;
    const future = after.future.length - before.future.length;
    if (this.walking) return;
    if (past < 0 && future > 0) this.turn(side, this.past, this.future);
    // A new change clears the redo entries; if there were any, a redo looks the same here.
    else if (future < 0 && past > 0 && after.future.length > 0)
      this.turn(side, this.future, this.past);
    // A full history does not grow, but its last entry changes.
    else if (
      after.future.length === 0 &&
      after.past.length > 0 &&
      (past > 0 || !same(after.past.at(-1), before.past.at(-1)))
    ) {
      if (this.acting === null) this.push(side);
      else if (!this.acting.includes(side)) this.acting.push(side);
    }
  }

  private push(side: Side): void {
    const at = this.now();
    const last = this.past.at(-1);
    if (last !== undefined && at - this.pushedAt < TOGETHER_MS && !last.sides.includes(side)) {
      last.sides.push(side);
    } else {
      this.past.push({ sides: [side] });
    }
    this.pushedAt = at;
    this.future = [];
  }

  private step(source: Entry[], target: Entry[], way: "undo" | "redo"): boolean {
    for (let entry = source.pop(); entry !== undefined; entry = source.pop()) {
      const { sides, turn } = entry;
      let done: Side[] = [];
      const walk = (): void => {
        done = sides.filter((side) => this.walk(side, way));
      };
      this.walking = true;
      try {
        if (sides.length > 1) this.both(walk);
        else walk();
      } finally {
        this.walking = false;
      }
      if (done.length === 0 && turn === undefined) continue;
      turn?.();
      target.push({ sides: done, turn });
      return true;
    }
    return false;
  }

  /** Handle an undo or redo that was made elsewhere on one side. */
  private turn(side: Side, source: Entry[], target: Entry[]): void {
    const entry = [...source].reverse().find(({ sides }) => sides.includes(side));
    if (entry === undefined) return;
    const rest = entry.sides.filter((one) => one !== side);
    // The choice is undone or redone with the side that reports first.
    source.splice(source.indexOf(entry), 1, ...(rest.length > 0 ? [{ sides: rest }] : []));
    entry.turn?.();
    const now = this.now();
    const last = target.at(-1);
    if (last !== undefined && now - this.turnedAt < TOGETHER_MS && !last.sides.includes(side)) {
      last.sides.push(side);
    } else {
      target.push({ sides: [side], turn: entry.turn });
    }
    this.turnedAt = now;
  }
}
