/** Link two timelines: the one used last leads, events are paired, and both show the marks. */

import { isSameJson, listenTo, readHistory } from "../connection/store";
import { briefFromSlice, FULL_SELECTION, formatClauses } from "../protocol/selection";
import type {
  Brief,
  PairEvents,
  SelectionJson,
  SharedState,
  Slice,
  Span,
} from "../protocol/source";
import { LatestRequest } from "../timeline/context";
import type { TimelineApp } from "../timeline/view";
import { plural } from "../ui/formats";
import { onSignal } from "../ui/react";
import { frameNote, truncate } from "../ui/text";
import { type Alignment, makeAlignment, partnerView, toCommon, toOwnTime } from "./align";
import type { DiffContext } from "./context";
import {
  type BySide,
  numberAt,
  OPPOSITE,
  otherSide,
  type PairedEvents,
  type FrameRow,
  rowsOf,
  type Side,
  SIDES,
  textAt,
} from "./frames";
import { PairHistory } from "./history";

/** The fields of a selection to set; null to select nothing. */
type MarkFilter = Partial<SelectionJson> | null;
type Patch = Partial<SharedState>;

/** Time that the pointer rests on an event before its partner is looked up. */
const HOVER_MS = 40;
const FOLLOWED_KEYS = ["search", "color"] as const;

export class TimelineLink {
  readonly history = new PairHistory(
    (side, direction) => this.apps[side].ctx.shared[direction](),
    (move) => this.changeBoth(move),
  );
  private leadingSide: Side = 0;
  /** Whether this class is changing the state itself. Such changes are ignored. */
  private isQuiet = false;
  private hovering = "";
  private alignment: Alignment | null = null;
  /** Times of the selected pair of events, before and after. Their starts are aligned. */
  private anchor: BySide<number> | null = null;
  /** The last change of each type, applied to the partner once the alignment is loaded. */
  private readonly deferred = new Map<"view" | "selection", () => void>();
  private readonly newestPick: LatestRequest;
  private readonly newestMark: LatestRequest;

  constructor(
    private readonly ctx: DiffContext,
    private readonly apps: BySide<TimelineApp>,
  ) {
    this.newestPick = new LatestRequest(ctx.options.signal);
    this.newestMark = new LatestRequest(ctx.options.signal);
    for (const side of SIDES) this.watch(side);
  }

  /** Make `side` the leader when the user interacts with one of its elements. */
  trackLeader(el: HTMLElement, side: Side): void {
    const { signal } = this.ctx.options;
    for (const type of ["pointerdown", "wheel", "keydown"]) {
      const lead = (): void => void (this.leadingSide = side);
      el.addEventListener(type, lead, { signal, capture: true, passive: true });
    }
  }

  private watch(side: Side): void {
    const { signal } = this.ctx.options;
    const app = this.apps[side];
    onSignal(app.hover.hovered, (slice) => void this.onHover(side, slice), signal);
    app.onView(() => {
      if (!this.isQuiet && this.leadingSide === side) this.followView(side);
    });
    this.onChange(side, "view", () => {
      this.leadingSide = side;
      this.alignPartner();
    });
    this.onChange(side, "selection", () =>
      this.whenAligned("selection", () => this.followSelection(side)),
    );
    this.onChange(side, "selected_event", () => this.onPick(side));
    this.onChange(side, "pinned", () => this.followPins(side));
    for (const key of FOLLOWED_KEYS) {
      this.onChange(side, key, () => {
        if (this.ctx.coupled.value)
          this.writePartner(otherSide(side), { [key]: app.ctx.shared.state[key] });
      });
    }
    this.followOpened(side);
    const onPanel = (shown: unknown): void => {
      if (shown === null && this.ctx.coupled.value) this.apps[otherSide(side)].panels.close();
    };
    onSignal(app.panels.shown, onPanel, signal);
    this.recordHistory(side);
  }

  /** Call a listener when a key of a side's state changes, except by this class. */
  private onChange(side: Side, key: string, listener: () => void): void {
    const { states, signal } = this.ctx.options;
    const unlessQuiet = (): void => {
      if (!this.isQuiet) listener();
    };
    listenTo(states[side], `change:${key}`, unlessQuiet, signal);
  }

  private recordHistory(side: Side): void {
    const { states, signal } = this.ctx.options;
    const read = () => readHistory(states[side].get("_history"));
    let last = read();
    const record = (): void => {
      const now = read();
      this.history.recordChange(side, last, now);
      last = now;
    };
    listenTo(states[side], "change:_history", record, signal);
  }

  private followPins(side: Side): void {
    if (!this.ctx.coupled.value) return;
    const to = otherSide(side);
    const { pinned } = this.apps[side].ctx.shared.state;
    const partners = new Map(this.ctx.about.rank_pairs.map((pair) => [pair[side], pair[to]]));
    const partnerPins = pinned.flatMap((name) => {
      const rank = Number.parseInt(name, 10);
      return partners.has(rank) ? [name.replace(/^\d+/, String(partners.get(rank)))] : [];
    });
    this.writePartner(to, { pinned: partnerPins });
  }

  /** Open and close the same ranks on the other side as on this side. */
  private followOpened(side: Side): void {
    const { about, coupled, options } = this.ctx;
    const to = otherSide(side);
    const openedRanks = (): Set<number> => {
      const openRows = this.apps[side].rows.stateSignal.value.filter((row) => row.open);
      return new Set(openRows.map((row) => row.rank));
    };
    let last = openedRanks();
    onSignal(
      openedRanks,
      (opened) => {
        const { rows } = this.apps[to];
        const turned = about.rank_pairs.filter(
          (pair) => opened.has(pair[side]) !== last.has(pair[side]),
        );
        last = opened;
        for (const pair of coupled.value ? turned : []) {
          if (rows.isOpen(pair[to]) !== opened.has(pair[side])) rows.toggle(pair[to]);
        }
      },
      options.signal,
    );
  }

  /**
   * Load the selected alignment and apply the changes that waited for it. If `movesPartner` is set,
   * the side that does not lead is moved. A new base ends the alignment of the selected pair.
   */
  async realign(movesPartner: boolean): Promise<void> {
    const { base, frames, options, statusText } = this.ctx;
    const selected = base.value;
    try {
      const segments = await frames.get(`segments:${selected}`);
      if (selected !== base.value) return;
      const [before, after] = options.scenes;
      this.endGestures();
      if (this.alignment !== null && this.alignment.base !== selected) this.anchor = null;
      this.alignment = makeAlignment(selected, segments, [before.range, after.range]);
      this.showWholes(this.alignment.wholes);
      if (movesPartner) this.alignPartner();
      for (const follow of this.deferred.values()) follow();
      this.deferred.clear();
      const slots = await this.ctx.loadFrame(`slots:${selected}`);
      if (frameNote(slots) !== "") statusText.value = frameNote(slots);
    } catch (error) {
      this.ctx.fail(error);
    }
  }

  /** Move the other side to the leader's view. */
  alignPartner(): void {
    this.whenAligned("view", () => this.followView(this.leadingSide));
  }

  /** Change the partner now, or as soon as the alignment is loaded. */
  private whenAligned(change: "view" | "selection", follow: () => void): void {
    if (this.alignment === null) this.deferred.set(change, follow);
    else follow();
  }

  private followView(side: Side): void {
    const { alignment } = this;
    if (alignment === null || this.isQuiet || !this.ctx.coupled.value) return;
    const to = otherSide(side);
    const ownView = this.apps[side].ctx.stage.view();
    const [start, end] = partnerView(alignment, side, ownView, this.anchor);
    const from = Math.floor(start);
    const view: [number, number] = [from, Math.max(Math.ceil(end), from + 1)];
    this.withoutEcho(() => this.apps[to].nav.follow(view, false));
    this.writePartner(to, { view });
  }

  /** Set the windows that show the whole runs. Views of a whole run move to the new window. */
  private showWholes(wholes: BySide<Span>): void {
    this.ctx.wholes = wholes;
    const isWhole = this.apps.every(({ ctx: { shared, stage, scene } }) => {
      const { view } = shared.state;
      return view === null || isSameJson(view, stage.reach) || isSameJson(view, scene.range);
    });
    for (const side of SIDES) {
      this.apps[side].ctx.stage.reach = wholes[side];
      const [start, end] = wholes[side];
      if (isWhole) this.writePartner(side, { view: [start, end] });
    }
    this.showStates();
  }

  private showStates(): void {
    this.withoutEcho(() => {
      for (const { nav } of this.apps) nav.showState();
    });
  }

  /** Change values on one side. The other side does not follow. */
  writePartner(side: Side, patch: Patch): void {
    this.withoutEcho(() => this.apps[side].ctx.shared.applyLinked(patch));
  }

  /** Change both sides at once. Neither side follows the other. */
  changeBoth(act: () => void): void {
    this.withoutEcho(act);
    this.showStates();
  }

  private withoutEcho(act: () => void): void {
    this.isQuiet = true;
    try {
      act();
    } finally {
      this.isQuiet = false;
    }
  }

  /** Undo or redo. Return false if there is nothing to undo or redo. */
  travel(direction: "undo" | "redo"): boolean {
    this.endGestures();
    return this.history.travel(direction);
  }

  /** End unfinished gestures, so that they become history entries before the next change. */
  private endGestures(): void {
    for (const { ctx } of this.apps) ctx.shared.flush();
  }

  /** Record a choice made outside the timelines and the changes on both sides as one entry. */
  private applyPatches(patches: BySide<Patch>, swapChoice: () => void): void {
    this.endGestures();
    const name = `${Date.now()}/${Math.random()}`;
    const put = (): void =>
      this.apps.forEach(({ ctx }, side) => ctx.shared.commitPatch(patches[side as Side], name));
    this.history.beginAct(name, swapChoice);
    this.changeBoth(put);
  }

  /** Show one pair of steps, or all, at the same scale. See `PairHistory.beginAct`. */
  showStep(row: FrameRow | null, swapChoice: () => void): void {
    if (row === null) {
      const [before, after] = this.apps.map(({ ctx }) => ctx.stage.reach);
      this.applyPatches([{ view: [...before!] }, { view: [...after!] }], swapChoice);
      return;
    }
    const start = (side: string): number => numberAt(row, `${side}_start_ns`);
    const lengthOf = (side: string): number => numberAt(row, `${side}_end_ns`) - start(side);
    const length = Math.max(lengthOf("before"), lengthOf("after"));
    const viewOf = (side: string): Patch => {
      return { view: [Math.floor(start(side)), Math.ceil(start(side) + length)] };
    };
    this.applyPatches(this.ctx.inOrder([viewOf("before"), viewOf("after")]), swapChoice);
  }

  /** Show only the ranks of the selected pair, or all ranks, and clear the marks. */
  showRanks(): void {
    for (const side of SIDES) {
      const from = this.ranksOf(side) === null ? "" : "pair";
      this.writePartner(side, { ranks_from: from, selection: this.selectionOfMark(side, null) });
    }
  }

  private ranksOf(side: Side): number[] | null {
    const ranks = this.ctx.about.rank_pairs[this.ctx.pair.value ?? -1];
    return ranks === undefined ? null : [ranks[side]];
  }

  markNames(names: string[] | null, swapChoice: () => void): void {
    const { statusText } = this.ctx;
    if (names === null) {
      this.mark([null, null], swapChoice);
      statusText.value = null;
      return;
    }
    const query = formatClauses({ rest: null, names, kinds: null });
    this.mark([{ query }, { query }], swapChoice);
    const namesText = names.length === 1 ? truncate(names[0]!, 80) : plural(names.length, "name");
    statusText.value = `Marked on both timelines: ${namesText}.`;
  }

  /** Mark events. `noun` is the word for a single event. */
  markEvents(
    requested: Promise<{ reply: PairEvents }>,
    name: string,
    noun: string,
    swapChoice: () => void,
  ): void {
    const { ctx } = this;
    this.newestMark.ask(
      () => requested,
      ({ reply }) => {
        const [firstIds = [], secondIds = []] = reply.events;
        this.mark([{ ids: [...firstIds] }, { ids: [...secondIds] }], swapChoice);
        const [before, after] = ctx
          .inOrder([firstIds, secondIds])
          .map(({ length }) => plural(length, noun));
        ctx.statusText.value = `Marked: ${name}, ${before} before and ${after} after.`;
      },
      (error) => ctx.fail(error),
    );
  }

  private mark(marks: BySide<MarkFilter>, swapChoice: () => void): void {
    this.newestMark.cancel();
    const patch = (side: Side): Patch => ({ selection: this.selectionOfMark(side, marks[side]) });
    this.applyPatches([patch(0), patch(1)], swapChoice);
  }

  private selectionOfMark(side: Side, mark: MarkFilter): SelectionJson | null {
    const ranks = this.ranksOf(side);
    return mark === null && ranks === null ? null : { ...FULL_SELECTION, ranks, ...mark };
  }

  /** Select the matching part of the other run: the aligned window and the partner ranks. */
  private followSelection(side: Side): void {
    const { alignment } = this;
    if (alignment === null || !this.ctx.coupled.value) return;
    const { selection } = this.apps[side].ctx.shared.state;
    const to = otherSide(side);
    if (selection === null) {
      this.writePartner(to, { selection: null });
      return;
    }
    // Partners of single events are looked up one by one.
    if (selection.ids) return;
    const { start_ns: start, end_ns: end } = selection;
    const partnerTime = (time: number): number => {
      const commonTime = toCommon(alignment.segments[side], time);
      return Math.round(toOwnTime(alignment.segments[to], commonTime));
    };
    const partnersOf = (rank: number): number[] =>
      this.ctx.about.rank_pairs.filter((pair) => pair[side] === rank).map((pair) => pair[to]);
    // The track of a single rank is a pair of rank and key.
    const tracks = selection.tracks as readonly (string | [number, string])[] | null;
    const partnerTracks = tracks?.flatMap((track): (string | [number, string])[] =>
      typeof track === "string" ? [track] : partnersOf(track[0]).map((rank) => [rank, track[1]]),
    );
    const partnerSelection: SelectionJson = {
      ...selection,
      start_ns: start === null ? null : partnerTime(start),
      end_ns: end === null ? null : partnerTime(end),
      ranks: selection.ranks?.flatMap(partnersOf) ?? null,
      tracks: (partnerTracks ?? null) as SelectionJson["tracks"],
    };
    this.writePartner(to, { selection: partnerSelection });
  }

  /** Outline the partner of the event under the pointer, and describe the pair. */
  private async onHover(side: Side, slice: Slice | null): Promise<void> {
    const { lanes } = this.apps[side].ctx;
    const to = this.apps[otherSide(side)];
    const hovered = this.ctx.hoveredPair;
    const key = slice === null ? "" : `${side}/${slice.lane}/${slice.id}`;
    this.hovering = key;
    const place = slice === null ? null : lanes.locate(slice.lane);
    if (slice === null || place === null) {
      to.outlineEvent(null);
      hovered.value = null;
      return;
    }
    await new Promise((done) => setTimeout(done, HOVER_MS));
    if (this.hovering !== key) return;
    try {
      const event = briefFromSlice(slice, place.rank.rank, "events");
      const { partner, pair } = await this.partnerOf(side, event);
      if (this.hovering !== key) return;
      to.outlineEvent(partner, place.track === null);
      hovered.value = pair;
    } catch {
      // Lanes without events, such as waits, have no partners.
      if (this.hovering === key) hovered.value = null;
    }
  }

  /** Select the selected event's partner, and align the two events. */
  private onPick(side: Side): void {
    const { ctx } = this;
    const event = this.apps[side].ctx.shared.state.selected_event;
    const to = otherSide(side);
    this.newestPick.cancel();
    if (event === null) {
      ctx.selectedPair.value = null;
      this.anchor = null;
      if (!ctx.coupled.value) return;
      this.writePartner(to, { selected_event: null });
      this.alignPartner();
      return;
    }
    this.newestPick.ask(
      async () => {
        const brief = await this.fetchBrief(side, ...event);
        return { brief, ...(await this.partnerOf(side, brief)) };
      },
      ({ brief, partner, pair, node }) => {
        ctx.selectedPair.value = pair;
        ctx.choice.value = { ...ctx.choice.value, node };
        if (!ctx.coupled.value) return;
        this.writePartner(to, { selected_event: partner && [partner.rank, partner.id] });
        if (partner === null) return;
        this.anchor = side === 0 ? [brief.start, partner.start] : [partner.start, brief.start];
        this.alignPartner();
      },
      (error) => ctx.fail(error),
    );
  }

  private async fetchBrief(side: Side, rank: number, id: number): Promise<Brief> {
    const { reply } = await this.ctx.sources[side].ask("event", { rank, table: "events", id });
    return reply.event;
  }

  /**
   * Return an event's partner, the pair as displayed, and its tree node (-1 if there is none). A
   * step has no partner; it is displayed next to the step in the same slot.
   */
  private async partnerOf(
    side: Side,
    event: Brief,
  ): Promise<{ partner: Brief | null; pair: PairedEvents; node: number }> {
    const { ctx } = this;
    const { source, signal } = ctx.options;
    const requested = { of: side, rank: event.rank, id: event.id, pair: ctx.treeOf };
    const { reply } = await source.ask("partner", requested, signal);
    const { rank, id, node } = reply;
    const partner = id < 0 ? null : await this.fetchBrief(otherSide(side), rank, id);
    const counterpart = partner ?? (await this.stepOf(side, event));
    const ownStatus = reply.status ?? (counterpart === null ? null : "same");
    const status = ctx.swapped.value ? (OPPOSITE[ownStatus ?? ""] ?? ownStatus) : ownStatus;
    const events = ctx.inOrder(side === 0 ? [event, counterpart] : [counterpart, event]);
    return { partner, pair: { events, status }, node };
  }

  /** Return the step in the same slot of the other run. Steps are not matched like calls. */
  private async stepOf(side: Side, event: Brief): Promise<Brief | null> {
    if (!event.name.startsWith("ProfilerStep#")) return null;
    const [from, to] = side === 0 ? ["before", "after"] : ["after", "before"];
    const slots = await this.ctx.frames.get("slots:steps");
    const slot = rowsOf(slots).find((row) => row[`${from}_label`] === event.name);
    if (slot === undefined) return null;
    const start = numberAt(slot, `${to}_start_ns`);
    const name = textAt(slot, `${to}_label`);
    return { ...event, name, short: name, start, dur: numberAt(slot, `${to}_end_ns`) - start };
  }
}
