/** Two linked timelines: the one used last leads, events have partners, marks are on both. */

import { listenTo, readHistory } from "../connection/store";
import { briefOf, EVERYTHING, writeClauses } from "../protocol/selection";
import type { Brief, PairEvents, SelectionJson, SharedState, Slice } from "../protocol/source";
import { throttle } from "../timeline/context";
import type { TimelineApp } from "../timeline/view";
import { plural } from "../ui/formats";
import { react } from "../ui/react";
import { noteOf } from "../ui/text";
import { type Line, partnerView, piecesOf, toCommon, toOwn } from "./align";
import type { Context } from "./context";
import {
  type Both,
  number,
  OPPOSITE,
  other,
  type Row,
  rowsOf,
  type Side,
  SIDES,
  text,
} from "./frames";
import { PairHistory } from "./history";
import type { Pair, PairLines } from "./lines";

/** Fields that narrow a selection; null for none. */
type Mark = Partial<SelectionJson> | null;
type Patch = Partial<SharedState>;

/** The pointer rests this long on an event before its partner is looked up. */
const HOVER_MS = 40;
const TIES_MS = 120;
const MOST_TIES = 120;
const FOLLOWED = ["search", "color"] as const;

export class Link {
  readonly history = new PairHistory(
    (side, way) => this.apps[side].ctx.shared[way](),
    (walk) => this.together(walk),
  );
  private leader: Side = 0;
  /** Set during own writes, whose change events are ignored. */
  private quiet = false;
  private hovering = "";
  private line: Line | null = null;
  private readonly reloadTies: () => void;

  constructor(
    private readonly ctx: Context,
    private readonly apps: Both<TimelineApp>,
    private readonly lines: PairLines,
  ) {
    this.reloadTies = throttle(TIES_MS, ctx.options.signal, () => void this.loadTies());
    for (const side of SIDES) this.watch(side);
  }

  /** Let a side lead when it is used inside of an element. */
  leadBy(el: HTMLElement, side: Side): void {
    const { signal } = this.ctx.options;
    for (const type of ["pointerdown", "wheel", "keydown"]) {
      const lead = (): void => void (this.leader = side);
      el.addEventListener(type, lead, { signal, capture: true, passive: true });
    }
  }

  private watch(side: Side): void {
    const { states, signal } = this.ctx.options;
    const app = this.apps[side];
    const model = states[side];
    const listen = (key: string, listener: () => void): void =>
      listenTo(model, `change:${key}`, listener, signal);
    const unlessQuiet = (key: string, listener: () => void): void =>
      listen(key, () => {
        if (!this.quiet) listener();
      });
    react(app.hover.hovered, (slice) => void this.hover(side, slice), signal);
    app.onView(() => {
      if (!this.quiet && this.leader === side) this.follow(side);
      this.moved();
    });
    unlessQuiet("view", () => {
      this.leader = side;
      this.follow(side);
    });
    unlessQuiet("selection", () => this.select(side));
    unlessQuiet("selected_event", () => void this.pick(side));
    for (const key of FOLLOWED) {
      unlessQuiet(key, () => {
        if (this.ctx.coupled.value) this.write(other(side), { [key]: app.ctx.shared.state[key] });
      });
    }
    let last = readHistory(model.get("_history"));
    listen("_history", () => {
      const now = readHistory(model.get("_history"));
      this.history.heard(side, last, now);
      last = now;
    });
  }

  // --- views --------------------------------------------------------------------------------------

  /** Load the chosen alignment; `follow` moves the side that does not lead. */
  async realign(follow: boolean): Promise<void> {
    const { base, frames, options, said } = this.ctx;
    const chosen = base.value;
    try {
      const pieces = piecesOf(await frames.get(`segments:${chosen}`));
      if (chosen !== base.value) return;
      const [before, after] = options.scenes;
      this.line = { base: chosen, pieces, ranges: [before.range, after.range] };
      if (follow) this.align();
      const slots = await this.ctx.framed(`slots:${chosen}`);
      this.lines.starts.value = rowsOf(slots).map(
        (row) => [number(row, "before_start_ns"), number(row, "after_start_ns")] as const,
      );
      if (noteOf(slots) !== "") said.value = noteOf(slots);
    } catch (error) {
      this.ctx.fail(error);
    }
  }

  /** Move the other side to the leader's view, after another alignment or after unlinking. */
  align(): void {
    this.follow(this.leader);
  }

  private follow(side: Side): void {
    const { line } = this;
    if (line === null || this.quiet || !this.ctx.coupled.value) return;
    const to = other(side);
    const [start, end] = partnerView(line, side, this.apps[side].ctx.stage.view());
    const view: [number, number] = [
      Math.floor(start),
      Math.max(Math.ceil(end), Math.floor(start) + 1),
    ];
    this.quietly(() => this.apps[to].nav.follow(view, false));
    this.write(to, { view });
  }

  private moved(): void {
    this.lines.redraw();
    if (this.lines.wantsTies) this.reloadTies();
  }

  /** Change values of one side without its partner following. */
  write(side: Side, patch: Patch): void {
    this.quietly(() => this.apps[side].ctx.shared.follow(patch));
  }

  /** Change both sides in one act; neither leads the other. */
  private together(act: () => void): void {
    this.quietly(() => {
      act();
      for (const { nav } of this.apps) nav.showState();
    });
    this.moved();
  }

  private quietly(act: () => void): void {
    this.quiet = true;
    try {
      act();
    } finally {
      this.quiet = false;
    }
  }

  // --- choices outside the timelines --------------------------------------------------------------

  /** Undo or redo; false if there is nothing. */
  walk(way: "undo" | "redo"): boolean {
    this.settle();
    return this.history.step(way);
  }

  /** End an unfinished gesture: it is an entry before the next one. */
  private settle(): void {
    for (const { ctx } of this.apps) ctx.shared.flush();
  }

  /** Record a choice outside the timelines, with its changes on both, as one entry. */
  private choose(patches: Both<Patch>, turn: () => void): void {
    this.settle();
    const name = `${Date.now()}/${Math.random()}`;
    const put = (): void =>
      this.apps.forEach(({ ctx }, side) => ctx.shared.put(patches[side as Side], name));
    this.history.one(() => this.together(put), turn);
  }

  /** Show one pair of steps, or all, at the same scale; `turn` as in `PairHistory.one`. */
  showStep(row: Row | null, turn: () => void): void {
    if (row === null) {
      const [before, after] = this.ctx.options.scenes;
      this.choose([{ view: [...before.range] }, { view: [...after.range] }], turn);
      return;
    }
    const start = (side: string): number => number(row, `${side}_start_ns`);
    const lengths = ["before", "after"].map((side) => number(row, `${side}_end_ns`) - start(side));
    const viewOf = (side: string): Patch => ({
      view: [Math.floor(start(side)), Math.ceil(start(side) + Math.max(...lengths))],
    });
    this.choose(this.ctx.inOrder([viewOf("before"), viewOf("after")]), turn);
  }

  /** Show the ranks of the chosen pair only, or all, without marks. */
  showRanks(): void {
    for (const side of SIDES) {
      const from = this.ranksOf(side) === null ? "" : "pair";
      this.write(side, { ranks_from: from, selection: this.marked(side, null) });
    }
  }

  /** The shown ranks of a side; null for all. */
  private ranksOf(side: Side): number[] | null {
    const ranks = this.ctx.about.rank_pairs[this.ctx.pair.value ?? -1];
    return ranks === undefined ? null : [ranks[side]];
  }

  markNames(names: string[] | null, turn: () => void): void {
    const { said } = this.ctx;
    if (names === null) {
      this.mark([null, null], turn);
      said.value = null;
      return;
    }
    const query = writeClauses({ rest: null, names, kinds: null });
    this.mark([{ query }, { query }], turn);
    const what = names.length === 1 ? shortened(names[0]!) : plural(names.length, "name");
    said.value = `Marked on both timelines: ${what}.`;
  }

  /** Mark events; `what` is the noun for one. */
  async markEvents(
    asked: Promise<{ reply: PairEvents }>,
    name: string,
    what: string,
    turn: () => void,
  ): Promise<void> {
    const { ctx } = this;
    try {
      const { reply } = await asked;
      const [one = [], two = []] = reply.events;
      this.mark([{ ids: [...one] }, { ids: [...two] }], turn);
      const [before, after] = ctx.inOrder([one, two]).map(({ length }) => plural(length, what));
      ctx.said.value = `Marked: ${name}, ${before} before and ${after} after.`;
    } catch (error) {
      ctx.fail(error);
    }
  }

  private mark(marks: Both<Mark>, turn: () => void): void {
    const patch = (side: Side): Patch => ({ selection: this.marked(side, marks[side]) });
    this.choose([patch(0), patch(1)], turn);
  }

  /** Selection of the marked events on the shown ranks. */
  private marked(side: Side, mark: Mark): SelectionJson | null {
    const ranks = this.ranksOf(side);
    return mark === null && ranks === null ? null : { ...EVERYTHING, ranks, ...mark };
  }

  // --- selections and partners --------------------------------------------------------------------

  /** Select the same part of the other run: window by the alignment, ranks by their pairs. */
  private select(side: Side): void {
    if (!this.ctx.coupled.value) return;
    const { line } = this;
    const { selection: given } = this.apps[side].ctx.shared.state;
    const to = other(side);
    if (given === null || line === null) {
      this.write(to, { selection: null });
      return;
    }
    // Single events have partners, which are looked up one by one.
    if (given.ids) return;
    const edge = (time: number | null): number | null =>
      time === null ? null : Math.round(toOwn(line.pieces[to], toCommon(line.pieces[side], time)));
    const pairs = this.ctx.about.rank_pairs;
    const ranks =
      given.ranks?.flatMap((rank) =>
        pairs.filter((pair) => pair[side] === rank).map((pair) => pair[to]),
      ) ?? null;
    const { query } = given;
    const window = { start_ns: edge(given.start_ns), end_ns: edge(given.end_ns) };
    this.write(to, { selection: { ...EVERYTHING, ...window, ranks, query } });
  }

  /** Outline the partner of the event under the pointer, and describe the pair. */
  private async hover(side: Side, slice: Slice | null): Promise<void> {
    const { lanes } = this.apps[side].ctx;
    const to = this.apps[other(side)];
    const { hovered } = this.lines;
    const key = slice === null ? "" : `${side}/${slice.lane}/${slice.id}`;
    this.hovering = key;
    const place = slice === null ? null : lanes.at(slice.lane);
    if (slice === null || place === null) {
      to.outline(null);
      hovered.value = null;
      return;
    }
    await new Promise((done) => setTimeout(done, HOVER_MS));
    if (this.hovering !== key) return;
    try {
      const { partner, pair } = await this.partnerOf(
        side,
        briefOf(slice, place.rank.rank, "events"),
      );
      if (this.hovering !== key) return;
      to.outline(partner, place.track === null);
      hovered.value = pair;
    } catch {
      // Lanes without events, such as waits, have no partners.
      if (this.hovering === key) hovered.value = null;
    }
  }

  /** Select the partner of the selected event, and align both. */
  private async pick(side: Side): Promise<void> {
    const { ctx, lines } = this;
    const event = this.apps[side].ctx.shared.state.selected_event;
    const to = other(side);
    if (event === null) {
      lines.selected.value = null;
      if (this.line !== null) this.line.anchor = null;
      if (!ctx.coupled.value) return;
      this.write(to, { selected_event: null });
      this.align();
      return;
    }
    try {
      const brief = await this.brief(side, ...event);
      const { partner, pair, node } = await this.partnerOf(side, brief);
      lines.selected.value = pair;
      ctx.choice.value = { ...ctx.choice.value, node };
      if (!ctx.coupled.value) return;
      this.write(to, { selected_event: partner === null ? null : [partner.rank, partner.id] });
      if (this.line === null || partner === null) return;
      this.line.anchor = side === 0 ? [brief.start, partner.start] : [partner.start, brief.start];
      this.align();
    } catch (error) {
      ctx.fail(error);
    }
  }

  private async brief(side: Side, rank: number, id: number): Promise<Brief> {
    const { reply } = await this.ctx.sources[side].ask("event", { rank, table: "events", id });
    return reply.event;
  }

  /** The partner of an event, if that is an event too, the pair, and their node of the tree. */
  private async partnerOf(
    side: Side,
    event: Brief,
  ): Promise<{ partner: Brief | null; pair: Pair; node: number }> {
    const { ctx } = this;
    const { source, signal } = ctx.options;
    const asked = { of: side, rank: event.rank, id: event.id, pair: ctx.treeOf };
    const { reply } = await source.ask("partner", asked, signal);
    const { rank, id, node } = reply;
    const partner = id < 0 ? null : await this.brief(other(side), rank, id);
    const there = partner ?? (await this.stepOf(side, event));
    const status = reply.status ?? (there === null ? null : "same");
    const shown = (ctx.swapped.value && status !== null && OPPOSITE[status]) || status;
    const events = ctx.inOrder(side === 0 ? [event, there] : [there, event]);
    return { partner, pair: { events, status: shown }, node };
  }

  /** The counterpart of a step by slots, as steps are not matched as calls. */
  private async stepOf(side: Side, event: Brief): Promise<Brief | null> {
    if (!event.name.startsWith("ProfilerStep#")) return null;
    const [mine, theirs] = side === 0 ? ["before", "after"] : ["after", "before"];
    const slots = await this.ctx.frames.get("slots:steps");
    const row = rowsOf(slots).find((one) => one[`${mine}_label`] === event.name);
    if (row === undefined) return null;
    const start = number(row, `${theirs}_start_ns`);
    const name = text(row, `${theirs}_label`);
    const dur = number(row, `${theirs}_end_ns`) - start;
    return { ...event, name, short: name, start, dur };
  }

  /** Load the longest pairs of device work in view, if lines are drawn between them. */
  async loadTies(): Promise<void> {
    const { ctx, lines } = this;
    if (!lines.wantsTies) {
      lines.ties.value = [];
      return;
    }
    const side: Side = ctx.swapped.value ? 1 : 0;
    const [start, end] = this.apps[side].ctx.stage.view();
    const request = { of: side, start: Math.floor(start), end: Math.ceil(end), most: MOST_TIES };
    const { reply } = await ctx.options.source.ask("ties", request, ctx.options.signal);
    const { ties } = reply;
    lines.ties.value = side === 1 ? ties.map(([a, b, c, d]) => [c, d, a, b] as const) : ties;
    ctx.said.value = `Lines join the ${ties.length} longest of ${plural(reply.of, "piece")} of device work in view.`;
  }
}

/** Shorten a name: a C++ name may be longer than the page is wide. */
function shortened(name: string): string {
  return name.length > 80 ? `${name.slice(0, 79)}…` : name;
}
