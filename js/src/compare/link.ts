/** Link two timelines: views, hovered and selected calls, lines between partners. */

import { listenTo, type Model } from "../connection/store";
import { classLook, classOfChange } from "../facts/event_classes";
import { briefOf, EVERYTHING, writeClauses } from "../protocol/selection";
import type {
  Brief,
  PairEvents,
  SelectionJson,
  SharedState,
  Slice,
  Source,
  Span,
  ThemeName,
} from "../protocol/source";
import type { TimelineApp } from "../timeline/view";
import { fill, h } from "../ui/dom";
import { formatDuration, plural } from "../ui/formats";
import { THEMES } from "../ui/theme";
import { type Line, partnerView, toCommon, toOwn } from "./align";
import { deltaWords, type Frames, rowsOf, shareWords, text } from "./frames";
import type { Icicle } from "./operator_tree";

type Side = 0 | 1;
/** Fields that narrow a selection; null for none. */
type Mark = Partial<SelectionJson> | null;

interface LinkingWays {
  source: Source;
  signal: AbortSignal;
  partners: Partners;
  lines: PairLines;
  icicle: Icicle;
  /** Before and after; null if the runs have no events. */
  apps(): readonly [TimelineApp, TimelineApp] | null;
  coupling(): Coupling | null;
  line(): Line | null;
  swapped(): boolean;
  /** The shown ranks of a side; null for all. */
  ranksOf(side: Side): number[] | null;
  /** Change both sides as one entry of the history; `turn` as in `PairHistory.one`. */
  choose(patches: readonly [Patch, Patch], turn: () => void): void;
  coupled(): boolean;
  say(words: string | null): void;
  fail(error: unknown): void;
}

/** The pointer rests this long on an event before its partner is looked up. */
const HOVER_MS = 40;
const MOST_TIES = 120;

export class Linking {
  private hovering = "";

  constructor(private readonly ways: LinkingWays) {}

  async hover(side: Side, slice: Slice | null): Promise<void> {
    const apps = this.ways.apps();
    const to = other(side);
    const key = slice === null ? "" : `${side}/${slice.lane}/${slice.id}`;
    this.hovering = key;
    const rank = slice === null ? null : (apps?.[side].led.rankOf(slice.lane) ?? null);
    if (slice === null || rank === null) {
      apps?.[to].led.outline(null);
      this.ways.lines.hover(null);
      return;
    }
    await new Promise((done) => setTimeout(done, HOVER_MS));
    if (this.hovering !== key) return;
    try {
      const pair = await this.ways.partners.of(side, briefOf(slice, rank, "events"));
      if (this.hovering !== key) return;
      const partner = pair.events[this.ways.swapped() ? other(to) : to];
      const isEvent = partner !== null && partner.lane >= 0;
      apps?.[to].led.outline(isEvent ? partner : null, apps[side].led.isSummary(slice.lane));
      this.ways.lines.hover(pair);
    } catch {
      // Lanes without events, such as waits, have no partners.
      if (this.hovering === key) this.ways.lines.hover(null);
    }
  }

  async pick(side: Side, event: readonly [number, number] | null): Promise<void> {
    const to = other(side);
    const coupled = this.ways.coupled();
    if (event === null) {
      this.ways.lines.select(null);
      if (this.ways.line() !== null) this.ways.line()!.anchor = null;
      if (!coupled) return;
      this.ways.coupling()?.write(to, { selected_event: null });
      this.ways.coupling()?.align();
      return;
    }
    try {
      const brief = await this.ways.partners.event(side, event[0], event[1]);
      const pair = await this.ways.partners.of(side, brief);
      this.ways.lines.select(pair);
      this.ways.icicle.reveal(pair.node);
      const partner = pair.events[this.ways.swapped() ? other(to) : to];
      if (!coupled) return;
      const isEvent = partner !== null && partner.lane >= 0;
      this.ways
        .coupling()
        ?.write(to, { selected_event: isEvent ? [partner.rank, partner.id] : null });
      if (this.ways.line() !== null && isEvent) {
        this.ways.line()!.anchor =
          side === 0 ? [brief.start, partner.start] : [partner.start, brief.start];
        this.ways.coupling()?.align();
      }
    } catch (error) {
      this.ways.fail(error);
    }
  }

  async loadTies(): Promise<void> {
    const apps = this.ways.apps();
    if (!this.ways.lines.wantsTies || apps === null) {
      this.ways.lines.setTies([]);
      return;
    }
    const side: 0 | 1 = this.ways.swapped() ? 1 : 0;
    const [start, end] = apps[side].led.stage.view();
    const request = { of: side, start: Math.floor(start), end: Math.ceil(end), most: MOST_TIES };
    const { reply } = await this.ways.source.ask("ties", request, this.ways.signal);
    const { ties } = reply;
    this.ways.lines.setTies(
      this.ways.swapped() ? ties.map(([a, b, c, d]) => [c, d, a, b] as const) : ties,
    );
    this.ways.say(
      `Lines join the ${ties.length} longest of ${plural(reply.of, "piece")} of device work in view.`,
    );
  }

  lanes(): [number, number] {
    const app = this.ways.apps()?.[this.ways.swapped() ? 1 : 0];
    if (app === undefined) return [0, 0];
    const [start, end] = app.led.stage.view();
    return [app.led.stage.xOf(start), app.led.stage.xOf(end)];
  }

  markNames(names: string[] | null, turn: () => void): void {
    const query = names === null ? null : writeClauses({ rest: null, names, kinds: null });
    this.choose(query === null ? [null, null] : [{ query }, { query }], turn);
    this.ways.say(
      names === null
        ? null
        : `Marked on both timelines: ${names.length === 1 ? shortened(names[0]!) : plural(names.length, "name")}.`,
    );
  }

  /** Mark the calls of a node of the tree; `pair`: the tree is that of one pair of ranks. */
  async markNode(node: number, name: string, pair: number | null, turn: () => void): Promise<void> {
    const { source, signal } = this.ways;
    await this.markEvents(source.ask("path_events", { node, pair }, signal), name, "call", turn);
  }

  /** Mark the events of a row of changes; null for none. */
  async markChange(
    row: number | null,
    name: string,
    pair: number | null,
    turn: () => void,
  ): Promise<void> {
    if (row === null) {
      this.choose([null, null], turn);
      this.ways.say(null);
      return;
    }
    const { source, signal } = this.ways;
    await this.markEvents(source.ask("change_events", { row, pair }, signal), name, "event", turn);
  }

  /** Clear all marks. */
  clear(): void {
    for (const side of [0, 1] as const) {
      this.ways.coupling()?.write(side, { selection: this.marked(side, null) });
    }
  }

  private async markEvents(
    asked: Promise<{ reply: PairEvents }>,
    name: string,
    what: string,
    turn: () => void,
  ): Promise<void> {
    try {
      const { reply } = await asked;
      const [one = [], two = []] = reply.events;
      this.choose([{ ids: [...one] }, { ids: [...two] }], turn);
      const [before, after] = this.ways.swapped() ? [two, one] : [one, two];
      const words = `${plural(before.length, what)} before and ${plural(after.length, what)} after`;
      this.ways.say(`Marked: ${name}, ${words}.`);
    } catch (error) {
      this.ways.fail(error);
    }
  }

  private choose(marks: readonly [Mark, Mark], turn: () => void): void {
    const patch = (side: Side): Patch => ({ selection: this.marked(side, marks[side]) });
    this.ways.choose([patch(0), patch(1)], turn);
  }

  /** Selection of the marked events on the shown ranks. */
  private marked(side: Side, mark: Mark): SelectionJson | null {
    const ranks = this.ways.ranksOf(side);
    return mark === null && ranks === null ? null : { ...EVERYTHING, ranks, ...mark };
  }
}

/** Shorten a name: a C++ name may be longer than the page is wide. */
function shortened(name: string): string {
  return name.length > 80 ? `${name.slice(0, 79)}…` : name;
}

// Looks up the partner of an event.

interface PartnerWays {
  source: Source;
  sides: readonly [Source, Source];
  frames: Frames;
  signal: AbortSignal;
  swapped(): boolean;
  /** The pair of ranks of the tree that has the nodes; null for all. */
  treeOf(): number | null;
}

export class Partners {
  constructor(private readonly ways: PartnerWays) {}

  async of(side: Side, event: Brief): Promise<Pair & { node: number }> {
    const { source, signal } = this.ways;
    const asked = { of: side, rank: event.rank, id: event.id, pair: this.ways.treeOf() };
    const { reply } = await source.ask("partner", asked, signal);
    const to = other(side);
    const { id } = reply;
    const partner = id < 0 ? await this.stepOf(side, event) : await this.event(to, reply.rank, id);
    const pair: [Brief | null, Brief | null] = side === 0 ? [event, partner] : [partner, event];
    const known = reply.status;
    const status = known === null && partner !== null ? "same" : known;
    const opposite: Record<string, string> = { added: "removed", removed: "added" };
    return {
      events: this.ways.swapped() ? [pair[1], pair[0]] : pair,
      status: this.ways.swapped() && status !== null ? (opposite[status] ?? status) : status,
      node: reply.node,
    };
  }

  /** The counterpart of a step by slots, as steps are not matched as calls. */
  private async stepOf(side: Side, event: Brief): Promise<Brief | null> {
    if (!event.name.startsWith("ProfilerStep#")) return null;
    const [mine, theirs] = side === 0 ? ["before", "after"] : ["after", "before"];
    const slots = await this.ways.frames.get("slots:steps");
    const row = rowsOf(slots).find((one) => one[`${mine}_label`] === event.name);
    if (row === undefined) return null;
    const start = Number(row[`${theirs}_start_ns`]);
    const name = text(row, `${theirs}_label`);
    const dur = Number(row[`${theirs}_end_ns`]) - start;
    return { ...event, name, short: name, lane: -1, start, dur };
  }

  async event(side: Side, rank: number, id: number): Promise<Brief> {
    const { reply } = await this.ways.sides[side].ask("event", { rank, table: "events", id });
    return reply.event;
  }
}

// Lines between the timelines that connect matched events.

interface Pair {
  /** In the order of display; null without a partner. */
  events: [Brief | null, Brief | null];
  status: string | null;
}

type Tie = readonly [start: number, dur: number, start2: number, dur2: number];

interface LinesWays {
  /** The x of a time on the upper (0) or lower (1) timeline. */
  xOf(place: 0 | 1, time: number): number;
  /** Left and right edge of the lanes, px. */
  lanes(): [number, number];
  setTies(on: boolean): void;
}

const HEIGHT = 40;
/** Share of the longer duration up to which a line is drawn as that of an unchanged pair. */
const SAME = 0.05;

/** Describe a pair: name, both durations, difference and status. */
export function pairWords({ events, status }: Pair): {
  name: string;
  words: string;
  delta: string;
} {
  const [one, two] = events;
  const name = (two ?? one)?.short ?? "";
  if (one === null || two === null) {
    const there = one ?? two;
    const side = one === null ? "after only" : "before only";
    if (status === null) return { name, words: "not compared: outside of the steps", delta: "" };
    return {
      name,
      words: `${formatDuration(there?.dur ?? null)}, ${side}: ${status}`,
      delta: "",
    };
  }
  const diff = two.dur - one.dur;
  return {
    name: one.short === two.short ? name : `${one.short} → ${two.short}`,
    words: `${formatDuration(one.dur)} → ${formatDuration(two.dur)}`,
    delta: `${deltaWords(diff)} ${shareWords(diff, one.dur)}${status === "same" || status === "changed" ? "" : ` · ${status}`}`,
  };
}

export class PairLines {
  readonly el = h("div", { class: "hta-diff-lines" });
  private readonly said = h("span", { class: "hta-diff-pair", "aria-live": "polite" });
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly button: HTMLButtonElement;
  private hovered: Pair | null = null;
  private selected: Pair | null = null;
  private ties: readonly Tie[] = [];
  private starts: readonly (readonly [number, number])[] = [];
  private theme: ThemeName = "light";
  private width = 0;
  private frame = 0;
  private on = false;
  /** Whether there is no gap between the timelines, so that pairs are only described. */
  private flat = false;

  constructor(private readonly ways: LinesWays) {
    this.button = h(
      "button",
      {
        type: "button",
        class: "hta-button hta-diff-ties",
        "aria-pressed": "false",
        title: "Draw lines between device work and its partner",
      },
      "Lines",
    );
    this.button.addEventListener("click", () => this.toggle());
    this.el.append(h("div", { class: "hta-diff-said" }, this.button, this.said), this.canvas);
    this.say();
  }

  setTheme(theme: ThemeName): void {
    this.theme = theme;
    this.redraw();
  }

  setWidth(width: number): void {
    this.width = width;
    this.redraw();
  }

  setFlat(flat: boolean): void {
    this.flat = flat;
    this.button.hidden = flat;
    this.canvas.hidden = flat;
  }

  hover(pair: Pair | null): void {
    this.hovered = pair;
    this.say();
    this.redraw();
  }

  select(pair: Pair | null): void {
    this.selected = pair;
    this.say();
    this.redraw();
  }

  setTies(ties: readonly Tie[]): void {
    this.ties = ties;
    this.redraw();
  }

  /** Set the starts of slots on both timelines. */
  setStarts(starts: readonly (readonly [number, number])[]): void {
    this.starts = starts;
    this.redraw();
  }

  get wantsTies(): boolean {
    return this.on && !this.flat;
  }

  redraw(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private toggle(): void {
    this.on = !this.on;
    this.button.setAttribute("aria-pressed", String(this.on));
    this.button.classList.toggle("hta-on", this.on);
    this.ways.setTies(this.on);
  }

  private say(): void {
    const pair = this.hovered ?? this.selected;
    if (pair === null) {
      fill(this.said, h("span", { class: "hta-note" }, "Point at an event to see its partner."));
      return;
    }
    const { name, words, delta } = pairWords(pair);
    fill(this.said, h("b", {}, name), ` ${words} `, h("b", {}, delta));
  }

  private draw(): void {
    const { canvas, width, ways } = this;
    if (width === 0 || this.flat) return;
    const dpr = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * dpr), Math.round(HEIGHT * dpr)];
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${HEIGHT}px`;
    }
    const pen = canvas.getContext("2d");
    if (pen === null) return;
    pen.setTransform(dpr, 0, 0, dpr, 0, 0);
    pen.clearRect(0, 0, width, HEIGHT);
    const [left, right] = ways.lanes();
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, HEIGHT);
    pen.clip();
    const { kind, ruleStrong } = THEMES[this.theme];
    pen.strokeStyle = this.starts.length > 100 ? ruleStrong : kind.annotation;
    pen.lineWidth = 1;
    pen.setLineDash([2, 3]);
    for (const [one, two] of this.starts) {
      pen.beginPath();
      pen.moveTo(Math.round(ways.xOf(0, one)) + 0.5, 0);
      pen.lineTo(Math.round(ways.xOf(1, two)) + 0.5, HEIGHT);
      pen.stroke();
    }
    pen.setLineDash([]);
    for (const [start, dur, start2, dur2] of this.on ? this.ties : []) {
      this.band(pen, [start, dur], [start2, dur2], "changed", false);
    }
    for (const pair of [this.selected, this.hovered]) {
      const [one, two] = pair?.events ?? [null, null];
      if (one === null || two === null) continue;
      this.band(pen, [one.start, one.dur], [two.start, two.dur], pair?.status ?? "", true);
    }
    pen.restore();
  }

  private band(
    pen: CanvasRenderingContext2D,
    above: readonly [number, number],
    below: readonly [number, number],
    status: string,
    outlined: boolean,
  ): void {
    const { ways } = this;
    const theme = THEMES[this.theme];
    const x = (place: 0 | 1, time: number): number => ways.xOf(place, time);
    const [a0, a1] = [x(0, above[0]), x(0, above[0] + above[1])];
    const [b0, b1] = [x(1, below[0]), x(1, below[0] + below[1])];
    pen.beginPath();
    pen.moveTo(a0, 0);
    pen.lineTo(Math.max(a1, a0 + 1), 0);
    pen.bezierCurveTo(a1, HEIGHT / 2, b1, HEIGHT / 2, Math.max(b1, b0 + 1), HEIGHT);
    pen.lineTo(b0, HEIGHT);
    pen.bezierCurveTo(b0, HEIGHT / 2, a0, HEIGHT / 2, a0, 0);
    pen.closePath();
    pen.globalAlpha = outlined ? 0.9 : 0.55;
    const [long, short] = [Math.max(above[1], below[1]), Math.min(above[1], below[1])];
    const same = status === "same" || (status === "changed" && long - short <= SAME * long);
    pen.fillStyle = classLook(
      same ? "same" : classOfChange(status, above[1], below[1]),
      this.theme,
    ).colour;
    pen.fill();
    pen.globalAlpha = 1;
    if (!outlined) return;
    pen.strokeStyle = theme.selection;
    pen.lineWidth = 1.25;
    pen.stroke();
  }
}

// Link two timelines: the one used last leads.

interface SideView {
  app: TimelineApp;
  model: Model;
  el: HTMLElement;
}

/** Values of one side's state. */
export type Patch = Partial<SharedState>;

interface CouplingWays {
  line(): Line | null;
  coupled(): boolean;
  rankPairs(): readonly (readonly [number, number])[];
  /** Called when a view has moved. */
  moved(): void;
  /** Called when an event was selected on one side, by the user or from Python. */
  picked(side: 0 | 1, event: readonly [number, number] | null): void;
}

const SHARED = ["search", "color"] as const;

export class Coupling {
  private leader: 0 | 1 = 0;
  /** Set during own writes, whose change events are ignored. */
  private quiet = false;

  constructor(
    private readonly sides: readonly [SideView, SideView],
    private readonly ways: CouplingWays,
    private readonly signal: AbortSignal,
  ) {
    for (const side of [0, 1] as const) this.watch(side);
  }

  /** Move the other side to the leader's view, after another alignment or after unlinking. */
  align(): void {
    this.follow(this.leader);
  }

  /** Change values of one side without its partner following. */
  write(side: 0 | 1, patch: Patch): void {
    this.quietly(() => this.sides[side].app.led.shared.follow(patch));
  }

  /** Change both sides in one act; neither leads the other. */
  together(act: () => void): void {
    this.quietly(() => {
      act();
      for (const { app } of this.sides) app.led.showState();
    });
    this.ways.moved();
  }

  private quietly(act: () => void): void {
    this.quiet = true;
    try {
      act();
    } finally {
      this.quiet = false;
    }
  }

  /** Change values of both sides, as one entry of the history of each that differs. */
  put(patches: readonly [Patch, Patch]): void {
    const name = `${Date.now()}/${Math.random()}`;
    this.together(() =>
      this.sides.forEach(({ app }, side) => app.led.put(patches[side as 0 | 1], name)),
    );
  }

  private watch(side: 0 | 1): void {
    const { app, model, el } = this.sides[side];
    const { signal } = this;
    const listen = (key: string, listener: () => void): void =>
      listenTo(model, `change:${key}`, listener, signal);
    const lead = (): void => {
      this.leader = side;
    };
    for (const type of ["pointerdown", "wheel", "keydown"]) {
      el.addEventListener(type, lead, { signal, capture: true, passive: true });
    }
    app.onView(() => {
      if (!this.quiet && this.leader === side) this.follow(side);
      this.ways.moved();
    });
    listen("view", () => {
      if (this.quiet) return;
      this.leader = side;
      this.follow(side);
    });
    listen("selection", () => {
      if (!this.quiet && this.ways.coupled()) this.select(side);
    });
    listen("selected_event", () => {
      if (this.quiet) return;
      const event = model.get("selected_event");
      this.ways.picked(side, Array.isArray(event) ? (event as [number, number]) : null);
    });
    for (const key of SHARED) {
      listen(key, () => {
        if (!this.quiet && this.ways.coupled()) this.write(other(side), { [key]: model.get(key) });
      });
    }
  }

  private follow(side: 0 | 1): void {
    const line = this.ways.line();
    if (line === null || this.quiet || !this.ways.coupled()) return;
    const to = other(side);
    const { app } = this.sides[to];
    const [start, end] = partnerView(line, side, this.sides[side].app.led.stage.view());
    const view: Span = [Math.floor(start), Math.max(Math.ceil(end), Math.floor(start) + 1)];
    this.quietly(() => app.led.showView(view));
    this.write(to, { view: [...view] });
  }

  /** Select the same part of the other run: window by the alignment, ranks by their pairs. */
  private select(side: 0 | 1): void {
    const line = this.ways.line();
    const given = this.sides[side].model.get("selection") as Partial<SelectionJson> | null;
    const to = other(side);
    if (given === null || line === null) {
      this.write(to, { selection: null });
      return;
    }
    // Single events have partners, which are looked up one by one.
    if (given.ids) return;
    const edge = (time: number | null | undefined): number | null =>
      time === null || time === undefined
        ? null
        : Math.round(toOwn(line.pieces[to], toCommon(line.pieces[side], time)));
    const pairs = this.ways.rankPairs();
    const ranks =
      given.ranks?.flatMap((rank) =>
        pairs.filter((pair) => pair[side] === rank).map((pair) => pair[to]),
      ) ?? null;
    const selection: SelectionJson = {
      start_ns: edge(given.start_ns),
      end_ns: edge(given.end_ns),
      ranks,
      tracks: null,
      query: given.query ?? null,
      ids: null,
    };
    this.write(to, { selection });
  }
}

export function other(side: 0 | 1): 0 | 1 {
  return side === 0 ? 1 : 0;
}
