/** The selected event, its details and arrows. */

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { same } from "../connection/store";
import { hasLateness } from "../protocol/scene";
import {
  briefOf,
  type EventKey,
  EVERYTHING,
  roomAround,
  rowsChoice,
  selectionSpan,
  toggledEvent,
  windowSelection,
  without,
  withoutOwn,
} from "../protocol/selection";
import {
  arrows,
  type Brief,
  type Collective,
  type EventDetail,
  type Overlay,
  type RowInfo,
  type SelectionJson,
  type SharedState,
  type Slice,
  type Span,
} from "../protocol/source";
import { react } from "../ui/react";
import { Newest } from "./context";
import { lastOf, nameQuery } from "./text";
import type { TimelineApp } from "./view";

export interface Picked {
  key: EventKey | null;
  brief: Brief | null;
  detail: EventDetail | null;
  /** The same call on all ranks, of events that are part of a matched collective. */
  collective: Collective | null;
  error: Error | null;
}

const NONE: Picked = { key: null, brief: null, detail: null, collective: null, error: null };

export class Picking {
  /** The selected event, as far as it is loaded. */
  readonly now = signal(NONE);
  /** Names the selected event; "" for none. */
  readonly key = computed(() => {
    const { key } = this.now.value;
    return key === null ? "" : `${key.rank}/${key.table}/${key.id}`;
  });
  /** The window or set of events. */
  readonly chosen: ReadonlySignal<SelectionJson | null>;
  private readonly newest: Newest;
  private readonly ctx;
  private readonly met = new Map<string, Brief>();

  constructor(private readonly app: Pick<TimelineApp, "ctx" | "nav" | "rows">) {
    this.ctx = app.ctx;
    const { shared, signal: ended } = app.ctx;
    this.newest = new Newest(ended);
    this.chosen = computed(() => shared.now.value.selection);
    react(
      () => [shared.now.value.ranks_from, this.chosen.value],
      () => this.showSelection(),
      ended,
    );
  }

  get window(): SelectionJson | null {
    return this.chosen.value;
  }

  get brief(): Brief | null {
    return this.now.value.brief;
  }

  get detail(): EventDetail | null {
    return this.now.value.detail;
  }

  /** Whether an event is selected, even if it is not loaded yet. */
  get active(): boolean {
    return this.now.value.key !== null;
  }

  /** Top and bottom of the selected event's row in the browser's window; null if it has no row. */
  get rowExtent(): { top: number; bottom: number } | null {
    const { brief, ctx } = this;
    if (brief === null) return null;
    const track = ctx.lanes.at(brief.lane)?.track?.key;
    const rows = ctx.stage
      .rows()
      .filter(({ rank, like }) => rank === brief.rank || like?.includes(brief.rank) === true);
    const row =
      rows.find((one) => one.track !== null && one.track.key === track) ??
      rows.find((one) => one.track === null && !one.open);
    if (row === undefined) return null;
    const top = ctx.stage.el.getBoundingClientRect().top + row.top;
    return { top, bottom: top + row.height };
  }

  /** Return the event summary of a drawn rectangle. */
  briefOf(slice: Slice): Brief | null {
    const place = this.ctx.lanes.at(slice.lane);
    if (place === null) return null;
    return briefOf(slice, place.rank.rank, this.ctx.lanes.table(slice));
  }

  /** Select an event and request its details. */
  pick(key: EventKey, known: Brief | null): void {
    this.ctx.shared.set({ selected_event: key.table === "events" ? [key.rank, key.id] : null });
    this.load(key, known);
  }

  /** The longest event of a time range too short to draw its events one by one. */
  async longestIn(cell: { lane: number; start: number; end: number }): Promise<Brief | null> {
    const { lane, start, end } = cell;
    const { reply } = await this.ctx.source.ask("cell", { lane, start, end }, this.ctx.signal);
    return reply.longest;
  }

  /** Select an event that may not be visible, and go there. */
  go(brief: Brief): void {
    this.pick(brief, brief);
    this.app.nav.show(brief.start, brief.start + brief.dur);
    this.app.rows.show(brief.lane);
  }

  clearEvent(): void {
    this.ctx.shared.set({ selected_event: null });
    this.unload();
  }

  /** Repeat the request, after an error. */
  retry(): void {
    const { key, brief } = this.now.value;
    if (key !== null) this.load(key, brief);
  }

  setSelection(selection: SelectionJson | null): void {
    this.write({ selection });
  }

  clearAll(): void {
    this.write({ selected_event: null, selection: null });
    this.unload();
  }

  /** Clear the selection made here; selections of linked panels stay. */
  clearOwn(): void {
    const { selection, ranks_from: from } = this.ctx.shared.state;
    const kept = this.ctx.isPart ? withoutOwn(selection, from) : null;
    this.write({ selected_event: null, selection: kept });
    this.unload();
  }

  /** Follow the event of the shared state. */
  follow(): void {
    const event = this.ctx.shared.state.selected_event;
    if (event === null) {
      this.unload();
      return;
    }
    const [rank, id] = event;
    const { key } = this.now.value;
    if (key?.table === "events" && key.rank === rank && key.id === id) return;
    this.load({ rank, table: "events", id }, this.met.get(`${rank}/${id}`) ?? null);
  }

  /** Add an event to the set of selected events, or remove it. */
  toggleEvent(brief: Brief): void {
    if (brief.table !== "events") {
      this.pick(brief, brief);
      return;
    }
    this.met.set(`${brief.rank}/${brief.id}`, brief);
    const { selection, selected_event: before } = this.ctx.shared.state;
    const next = toggledEvent(selection, before, brief);
    const kept = next?.ids?.some(([rank, id]) => rank === brief.rank && id === brief.id) ?? false;
    if (kept) this.pick(brief, brief);
    else this.clearEvent();
    this.write({ selection: next });
  }

  /** Select all events of the selected event's name, on its rank. */
  selectName(): void {
    if (this.brief === null) return;
    this.setSelection({
      ...EVERYTHING,
      ranks: [this.brief.rank],
      query: nameQuery(this.brief.name, this.detail?.event.category ?? null),
    });
  }

  selectIds(rank: number, ids: readonly number[]): void {
    this.setSelection({ ...EVERYTHING, ids: ids.map((id) => [rank, id]) });
  }

  /** Make the selected event a window on its track. */
  eventToWindow(): void {
    const brief = this.brief;
    if (brief === null) return;
    const track = this.ctx.lanes.at(brief.lane)?.track ?? null;
    this.setSelection({
      ...EVERYTHING,
      start_ns: brief.start,
      end_ns: brief.start + Math.max(brief.dur, 1),
      ranks: [brief.rank],
      tracks: track === null ? null : [track.key],
    });
  }

  /** Select the window in view on all ranks; if it is selected, the whole job. */
  selectAll(): void {
    const { scene } = this.ctx;
    const all = { ranks: null, tracks: null };
    const wide = windowSelection(selectionSpan(this.window, scene) ?? this.app.nav.view(), all);
    const isChosen = same(wide, this.window);
    this.setSelection(isChosen ? windowSelection(scene.range, all) : wide);
  }

  selectRows(span: Span, rows: readonly RowInfo[]): void {
    this.clearEvent();
    const selection = windowSelection(span, rowsChoice(rows, this.ctx.scene));
    const query = this.ctx.isPart ? (this.window?.query ?? null) : null;
    this.setSelection({ ...selection, query });
  }

  /** Step to the next or previous event of the lane. */
  async step(direction: 1 | -1): Promise<boolean> {
    const { key: from } = this.now.value;
    if (from === null) return false;
    const { source, signal: ended } = this.ctx;
    const { reply } = await source.ask("neighbor", { ...from, direction }, ended);
    const { brief } = reply;
    if (brief !== null && from === this.now.value.key) this.go(brief);
    return brief !== null;
  }

  /** Follow the first arrow out of the event, or back into it. */
  followFlow(direction: "out" | "in"): boolean {
    const flow = this.detail?.flows.find((one) => one.direction === direction);
    if (flow === undefined) return false;
    this.go(flow.brief);
    return true;
  }

  /** The time range of a zoom to the event. */
  target(): Span | null {
    if (this.brief !== null) return roomAround(this.brief.start, this.brief.dur);
    return this.windowTarget();
  }

  /** The time of the selected window or set of events. */
  windowTarget(): Span | null {
    const window = selectionSpan(this.window, this.ctx.scene);
    if (window !== null) return window;
    const known = (this.window?.ids ?? [])
      .map(([rank, id]) => this.met.get(`${rank}/${id}`))
      .filter((brief) => brief !== undefined);
    if (known.length === 0) return null;
    const start = Math.min(...known.map((brief) => brief.start));
    const end = Math.max(...known.map((brief) => brief.start + brief.dur));
    return roomAround(start, end - start);
  }

  /** Reset for a new scene, in which events have other ids. */
  renew(): void {
    this.met.clear();
    this.now.value = NONE;
    this.follow();
  }

  /** Change the state; if the selected ranks stay the same, so does the panel that chose them. */
  private write(patch: Partial<SharedState> & { selection: SelectionJson | null }): void {
    const { ranks_from: from } = this.ctx.shared.state;
    const ranks = patch.selection?.ranks ?? null;
    const kept = same(ranks, this.window?.ranks ?? null);
    this.ctx.shared.set({ ...patch, ranks_from: ranks === null ? "" : kept ? from : "timeline" });
  }

  private load({ rank, table, id }: EventKey, known: Brief | null): void {
    const { stage, source } = this.ctx;
    const key = { rank, table, id };
    this.now.value = { ...NONE, key, brief: known };
    stage.setOverlay({ selected: known, flows: [], collective: null });
    this.newest.ask(
      (signal) => source.ask("event", key, signal),
      ({ reply: detail }) => {
        const { event } = detail;
        this.met.set(`${event.rank}/${event.id}`, event);
        stage.setOverlay({ selected: event, flows: arrows(detail) });
        this.now.value = { ...NONE, key, brief: event, detail };
        this.askCollective(event);
      },
      (error) => (this.now.value = { ...this.now.value, error }),
    );
  }

  /** Request the collective; a failure leaves the details as they are. */
  private askCollective(event: Brief): void {
    const { source, scene, stage } = this.ctx;
    const { rank, id, kind, table } = event;
    if (!hasLateness(scene) || kind !== "communication" || table !== "events") return;
    this.newest.ask(
      (signal) => source.ask("collective", { rank, id }, signal),
      ({ reply: { collective } }) => {
        this.now.value = { ...this.now.value, collective };
        stage.setOverlay({ collective: arrivalOf(collective, event) });
      },
    );
  }

  private unload(): void {
    if (!this.active) return;
    this.newest.cancel();
    this.now.value = NONE;
    this.ctx.stage.setOverlay({ selected: null, flows: [], collective: null });
  }

  private showSelection(): void {
    const { ranks_from: from } = this.ctx.shared.state;
    // If only these ranks have rows, marking all of them adds nothing.
    const all = this.ctx.isPart && from !== "timeline" && without(this.window, "ranks") === null;
    this.ctx.stage.setOverlay({ selection: all ? null : this.window });
  }
}

/** Last arrival at a collective, as seen from another of its ranks. */
function arrivalOf(collective: Collective | null, event: Brief): Overlay["collective"] {
  if (collective === null) return null;
  const last = lastOf(collective);
  const own = collective.ranks.find(({ rank }) => rank === event.rank);
  if (last === null || own === undefined) return null;
  return { time: event.start + own.wait, rank: last.rank };
}
