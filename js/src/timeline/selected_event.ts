/** The selected event, its details and arrows. */

import type { Collective } from "../protocol/source";
import { same } from "../connection/store";
import {
  briefOf,
  type EventKey,
  EVERYTHING,
  roomAround,
  rowsChoice,
  selectionSpan,
  toggledEvent,
  windowSelection,
  withoutOwn,
  withoutRanks,
} from "../protocol/selection";
import {
  arrows,
  asError,
  type Brief,
  type EventDetail,
  isAbort,
  type Overlay,
  type SelectionJson,
  type SharedState,
  type Slice,
  type Span,
} from "../protocol/source";
import { type Context, Emitter } from "./context";
import type { Navigation } from "./navigation";
import type { Rows } from "./rows";
import { lastOf, nameQuery } from "./text";

export class Picking {
  /** Emitted when the event or its details change. */
  readonly event = new Emitter();
  /** Emitted when the window or the set of events changes. */
  readonly selection = new Emitter();
  brief: Brief | null = null;
  detail: EventDetail | null = null;
  /** The same call on all ranks, of events that are part of a matched collective. */
  collective: Collective | null = null;
  error: Error | null = null;
  private key: EventKey | null = null;
  private asked: AbortController | null = null;
  private readonly met = new Map<string, Brief>();

  constructor(
    private readonly ctx: Context,
    private readonly nav: Navigation,
    private readonly rows: Rows,
  ) {
    ctx.signal.addEventListener("abort", () => this.asked?.abort(), { once: true });
  }

  get window(): SelectionJson | null {
    return this.ctx.shared.state.selection;
  }

  /** Whether an event is selected, even if it is not loaded yet. */
  get active(): boolean {
    return this.key !== null;
  }

  /** The rank of the selected event. */
  get rank(): number | null {
    return this.key?.rank ?? null;
  }

  /** Top and bottom in the window of the selected event's row; null while it has none. */
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
    const shared = key.table === "events" ? ([key.rank, key.id] as [number, number]) : null;
    this.ctx.shared.set({ selected_event: shared });
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
    this.nav.show(brief.start, brief.start + brief.dur);
    this.rows.show(brief.lane);
  }

  clearEvent(): void {
    this.ctx.shared.set({ selected_event: null });
    this.unload();
  }

  /** Repeat the request, after an error. */
  retry(): void {
    if (this.key !== null) this.load(this.key, this.brief);
  }

  setSelection(selection: SelectionJson | null): void {
    this.write({ selection });
    this.showSelection();
  }

  clearAll(): void {
    this.write({ selected_event: null, selection: null });
    this.unload();
    this.showSelection();
  }

  /** Clear the selection made here; selections of linked panels stay. */
  clearOwn(): void {
    const { selection, ranks_from: from } = this.ctx.shared.state;
    const kept = this.ctx.isPart ? withoutOwn(selection, from) : null;
    this.write({ selected_event: null, selection: kept });
    this.unload();
    this.showSelection();
  }

  /** Follow the shared state. */
  follow(what: { event: boolean; selection: boolean }): void {
    if (what.selection) this.showSelection();
    if (!what.event) return;
    const event = this.ctx.shared.state.selected_event;
    if (event === null) {
      this.unload();
      return;
    }
    const [rank, id] = event;
    if (this.key?.table === "events" && this.key.rank === rank && this.key.id === id) return;
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
    this.write({ selection: next });
    if (kept) this.pick(brief, brief);
    else this.clearEvent();
    this.showSelection();
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
    const [start, end] = selectionSpan(this.window, this.ctx.scene) ?? this.nav.view();
    const wide = windowSelection([start, end], { ranks: null, tracks: null });
    const again = JSON.stringify(wide) === JSON.stringify(this.window);
    this.setSelection(
      again ? windowSelection(this.ctx.scene.range, { ranks: null, tracks: null }) : wide,
    );
  }

  selectRows(span: Span, rows: Parameters<typeof rowsChoice>[0]): void {
    this.ctx.shared.set({ selected_event: null });
    this.unload();
    const selection = windowSelection(span, rowsChoice(rows, this.ctx.scene));
    const query = this.ctx.isPart ? (this.window?.query ?? null) : null;
    this.setSelection({ ...selection, query });
  }

  /** Step to the next or previous event of the lane. */
  async step(direction: 1 | -1): Promise<boolean> {
    const from = this.key;
    if (from === null) return false;
    const reply = await this.ctx.source.ask(
      "neighbor",
      { rank: from.rank, table: from.table, id: from.id, direction },
      this.ctx.signal,
    );
    const { brief } = reply.reply;
    if (brief !== null && from === this.key) this.go(brief);
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
    this.key = null;
    this.follow({ event: true, selection: true });
  }

  /** Unchanged ranks keep the source that selected them. */
  private write(patch: Partial<SharedState> & { selection: SelectionJson | null }): void {
    const { ranks_from: from } = this.ctx.shared.state;
    const ranks = patch.selection?.ranks ?? null;
    const kept = same(ranks, this.window?.ranks ?? null);
    this.ctx.shared.set({ ...patch, ranks_from: ranks === null ? "" : kept ? from : "timeline" });
  }

  private load(key: EventKey, known: Brief | null): void {
    this.asked?.abort();
    const asked = new AbortController();
    this.asked = asked;
    this.key = { rank: key.rank, table: key.table, id: key.id };
    this.brief = known;
    this.detail = null;
    this.collective = null;
    this.error = null;
    this.ctx.stage.setOverlay({ selected: known, flows: [], collective: null });
    this.event.emit();
    this.ctx.source
      .ask("event", { ...this.key }, asked.signal)
      .then((reply) => {
        if (asked.signal.aborted) return;
        const detail = reply.reply;
        this.detail = detail;
        this.brief = detail.event;
        this.met.set(`${detail.event.rank}/${detail.event.id}`, detail.event);
        this.ctx.stage.setOverlay({ selected: detail.event, flows: arrows(detail) });
        this.event.emit();
        this.askCollective(detail.event, asked.signal);
      })
      .catch((error: unknown) => {
        if (asked.signal.aborted || isAbort(error)) return;
        this.error = asError(error);
        this.event.emit();
      });
  }

  /** Request the collective; a failure leaves the details as they are. */
  private askCollective(event: Brief, signal: AbortSignal): void {
    const matched = this.ctx.scene.ranks.some(({ summary }) =>
      summary.some(({ wait }) => wait !== undefined),
    );
    if (!matched || event.kind !== "communication" || event.table !== "events") return;
    this.ctx.source
      .ask("collective", { rank: event.rank, id: event.id }, signal)
      .then((reply) => {
        if (signal.aborted) return;
        this.collective = reply.reply.collective;
        this.ctx.stage.setOverlay({ collective: arrivalOf(this.collective, event) });
        this.event.emit();
      })
      .catch(() => undefined);
  }

  private unload(): void {
    if (this.key === null) return;
    this.asked?.abort();
    this.key = this.brief = this.detail = this.collective = this.error = null;
    this.ctx.stage.setOverlay({ selected: null, flows: [], collective: null });
    this.event.emit();
  }

  private showSelection(): void {
    const { ranks_from: from } = this.ctx.shared.state;
    // If only these ranks have rows, marking all of them adds nothing.
    const all = this.ctx.isPart && from !== "timeline" && withoutRanks(this.window) === null;
    this.ctx.stage.setOverlay({ selection: all ? null : this.window });
    this.selection.emit();
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
