/** The selected event, with its details and arrows. */

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { isSameJson } from "../connection/store";
import { hasLateness } from "../protocol/scene";
import {
  briefFromSlice,
  type EventKey,
  FULL_SELECTION,
  padSpan,
  selectionOfRows,
  selectionSpan,
  toggleEvent,
  windowSelection,
  withoutDimension,
  withoutTimelineParts,
} from "../protocol/selection";
import {
  flowArrows,
  type Brief,
  type CallFigures,
  type Collective,
  type EventDetail,
  type Kind,
  type Overlay,
  type RowInfo,
  type SelectionJson,
  type SharedState,
  type Slice,
  type Span,
} from "../protocol/source";
import { onSignal } from "../ui/react";
import { LatestRequest, type TimelineContext } from "./context";
import type { Navigation } from "./navigation";
import type { RowsController } from "./rows";
import { lastRankOf, nameFilter } from "./text";

interface SelectedEvent {
  key: EventKey | null;
  brief: Brief | null;
  detail: EventDetail | null;
  /** The call on all ranks if the event belongs to a matched collective. */
  collective: Collective | null;
  /** FLOPs, bytes and rates of the event's operator call. */
  figures: CallFigures | null;
  error: Error | null;
}

/** Kinds of operators and of their device work. */
const WORKING_KINDS: readonly Kind[] = ["compute", "memory", "cpu"];

const NO_EVENT: SelectedEvent = {
  key: null,
  brief: null,
  detail: null,
  collective: null,
  figures: null,
  error: null,
};

export class EventSelection {
  /** The selected event, as far as it is loaded. */
  readonly stateSignal = signal(NO_EVENT);
  /** Identifies the selected event; "" if there is none. */
  readonly key = computed(() => {
    const { key } = this.stateSignal.value;
    return key === null ? "" : `${key.rank}/${key.table}/${key.id}`;
  });
  /** The selected window or set of events. */
  readonly selectionSignal: ReadonlySignal<SelectionJson | null>;
  private readonly newest: LatestRequest;
  private readonly ctx;
  private readonly knownBriefs = new Map<string, Brief>();
  private loading: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly app: { ctx: TimelineContext; nav: Navigation; rows: RowsController },
  ) {
    this.ctx = app.ctx;
    const { shared, signal: abortSignal } = app.ctx;
    this.newest = new LatestRequest(abortSignal);
    this.selectionSignal = computed(() => shared.stateSignal.value.selection);
    onSignal(
      () => [shared.stateSignal.value.ranks_from, this.selectionSignal.value],
      () => this.showSelection(),
      abortSignal,
    );
  }

  get window(): SelectionJson | null {
    return this.selectionSignal.value;
  }

  get brief(): Brief | null {
    return this.stateSignal.value.brief;
  }

  get detail(): EventDetail | null {
    return this.stateSignal.value.detail;
  }

  /** Whether an event is selected, even if it is not loaded yet. */
  get active(): boolean {
    return this.stateSignal.value.key !== null;
  }

  /**
   * Top and bottom, in the browser window, of the row of the selected event or of the first
   * selected rank, and the top of all rows. Null if there is no such row.
   */
  get rowExtent(): { top: number; bottom: number; minTop: number } | null {
    const { brief, window: selection, ctx } = this;
    const selectedRank = brief?.rank ?? selection?.ranks?.[0];
    if (selectedRank === undefined) return null;
    const eventTrack = brief && ctx.lanes.locate(brief.lane)?.track?.key;
    const key = brief === null ? selection?.tracks?.[0] : eventTrack;
    const isShown = (row: RowInfo): boolean =>
      (row.memberRanks ?? [row.rank]).includes(selectedRank);
    const rows = ctx.stage.rows().filter(isShown);
    const row =
      rows.find(({ track }) => track !== null && track.key === key) ??
      rows.find(({ track, open }) => track === null && (brief === null || !open));
    if (row === undefined) return null;
    const { top, bottom } = ctx.stage.extentOf(row);
    const { top: stageTop } = ctx.stage.el.getBoundingClientRect();
    const minTop = stageTop + ctx.stage.geometry.rowsTop;
    return { top: stageTop + top, bottom: stageTop + bottom, minTop };
  }

  briefOf(slice: Slice): Brief | null {
    const place = this.ctx.lanes.locate(slice.lane);
    if (place === null) return null;
    return briefFromSlice(slice, place.rank.rank, this.ctx.lanes.tableOf(slice));
  }

  pick(key: EventKey, knownBrief: Brief | null): void {
    this.ctx.shared.set({ selected_event: key.table === "events" ? [key.rank, key.id] : null });
    this.load(key, knownBrief);
  }

  /** Select an event that may not be visible, and bring it into view. */
  goTo(brief: Brief): void {
    this.pick(brief, brief);
    this.app.nav.show(brief.start, brief.start + brief.dur);
    this.app.rows.show(brief.lane);
  }

  clearEvent(): void {
    this.ctx.shared.set({ selected_event: null });
    this.unload();
  }

  retry(): void {
    const { key, brief } = this.stateSignal.value;
    if (key !== null) this.load(key, brief);
  }

  setSelection(selection: SelectionJson | null): void {
    this.commit({ selection });
  }

  clearAll(): void {
    this.commit({ selected_event: null, selection: null });
    this.unload();
  }

  /** Clear the selection made here. Selections made in linked panels remain. */
  clearOwnSelection(): void {
    const { selection, ranks_from: ranksFrom } = this.ctx.shared.state;
    const remaining = this.ctx.isLinkedPanel ? withoutTimelineParts(selection, ranksFrom) : null;
    this.commit({ selected_event: null, selection: remaining });
    this.unload();
  }

  follow(): void {
    const event = this.ctx.shared.state.selected_event;
    if (event === null) {
      this.unload();
      return;
    }
    const [rank, id] = event;
    const { key } = this.stateSignal.value;
    if (key?.table === "events" && key.rank === rank && key.id === id) return;
    this.load({ rank, table: "events", id }, this.knownBriefs.get(`${rank}/${id}`) ?? null);
  }

  /** Add an event to the set of selected events, or remove it. */
  toggleEvent(brief: Brief): void {
    if (brief.table !== "events") {
      this.pick(brief, brief);
      return;
    }
    this.knownBriefs.set(`${brief.rank}/${brief.id}`, brief);
    const { selection, selected_event: before } = this.ctx.shared.state;
    const next = toggleEvent(selection, before, brief);
    const isSelected =
      next?.ids?.some(([rank, id]) => rank === brief.rank && id === brief.id) ?? false;
    if (isSelected) this.pick(brief, brief);
    else this.clearEvent();
    this.commit({ selection: next });
  }

  /** Select all events with the name of the selected event on its rank. */
  selectName(): void {
    if (this.brief === null) return;
    this.setSelection({
      ...FULL_SELECTION,
      ranks: [this.brief.rank],
      query: nameFilter(this.brief.name, this.detail?.event.category ?? null),
    });
  }

  selectIds(rank: number, ids: readonly number[]): void {
    this.setSelection({ ...FULL_SELECTION, ids: ids.map((id) => [rank, id]) });
  }

  /** Replace the selected event with a window on its track. */
  eventToWindow(): void {
    const brief = this.brief;
    if (brief === null) return;
    const track = this.ctx.lanes.locate(brief.lane)?.track ?? null;
    const row = { ranks: [brief.rank], tracks: track === null ? null : [track.key] };
    this.setSelection(windowSelection([brief.start, brief.start + brief.dur], row));
  }

  /** Select the visible window on all ranks or, if it is already selected, the whole job. */
  selectAll(): void {
    const { scene } = this.ctx;
    const all = { ranks: null, tracks: null };
    const span = selectionSpan(this.window, scene) ?? this.app.nav.view();
    const wideSelection = windowSelection(span, all);
    const isChosen = isSameJson(wideSelection, this.window);
    this.setSelection(isChosen ? windowSelection(scene.range, all) : wideSelection);
  }

  selectRows(span: Span, rows: readonly RowInfo[]): void {
    this.ctx.requests.cancel();
    this.clearEvent();
    const selection = windowSelection(span, selectionOfRows(rows, this.ctx.scene));
    const query = this.ctx.isLinkedPanel ? (this.window?.query ?? null) : null;
    this.setSelection({ ...selection, query });
  }

  /** Step to the next or previous event in the lane. Call `fail` at the last or first event. */
  step(direction: 1 | -1, fail: (hasEvent: boolean) => void): void {
    const { requests, source } = this.ctx;
    requests.run(() => {
      const { key: from } = this.stateSignal.value;
      if (from === null) {
        fail(false);
        return;
      }
      requests.ask(
        (signal) => source.ask("neighbor", { ...from, direction }, signal),
        ({ reply: { brief } }) => {
          if (brief === null) fail(true);
          else if (from === this.stateSignal.value.key) this.goTo(brief);
        },
        (error) => this.ctx.fail("The neighboring event cannot be found", error),
      );
    });
  }

  /** Act once replies to earlier keys have selected an event and this part of it is loaded. */
  whenLoaded(part: "brief" | "detail", act: () => void): void {
    const { requests } = this.ctx;
    requests.run(() => {
      const { key, error, [part]: loaded } = this.stateSignal.value;
      if (key === null || error !== null || loaded !== null) {
        act();
        return;
      }
      requests.ask(
        () => this.loading,
        () => this.whenLoaded(part, act),
        act,
      );
    });
  }

  /** Return the time range for a zoom to the event. */
  target(): Span | null {
    if (this.brief !== null) return padSpan(this.brief.start, this.brief.dur);
    return this.windowTarget();
  }

  /** Return the time range of the selected window or set of events. */
  windowTarget(): Span | null {
    const window = selectionSpan(this.window, this.ctx.scene);
    if (window !== null) return window;
    const briefs = (this.window?.ids ?? [])
      .map(([rank, id]) => this.knownBriefs.get(`${rank}/${id}`))
      .filter((brief) => brief !== undefined);
    if (briefs.length === 0) return null;
    const start = Math.min(...briefs.map((brief) => brief.start));
    const end = Math.max(...briefs.map((brief) => brief.start + brief.dur));
    return padSpan(start, end - start);
  }

  /** Reset for a new scene, whose events have different ids. */
  reset(): void {
    this.knownBriefs.clear();
    this.stateSignal.value = NO_EVENT;
    this.follow();
  }

  /** Change the state. `ranks_from` changes only if the selected ranks change. */
  private commit(patch: Partial<SharedState> & { selection: SelectionJson | null }): void {
    const ranks = patch.selection?.ranks ?? null;
    const keepsRanks = isSameJson(ranks, this.window?.ranks ?? null);
    const ranksFrom = keepsRanks ? this.ctx.shared.state.ranks_from : "timeline";
    this.ctx.shared.set({ ...patch, ranks_from: ranks === null ? "" : ranksFrom });
  }

  private load({ rank, table, id }: EventKey, knownBrief: Brief | null): void {
    const { stage, source } = this.ctx;
    const key = { rank, table, id };
    this.stateSignal.value = { ...NO_EVENT, key, brief: knownBrief };
    stage.setOverlay({ selected: knownBrief, flows: [], collective: null });
    this.newest.ask(
      (signal) => {
        const requested = source.ask("event", key, signal);
        this.loading = requested;
        return requested;
      },
      ({ reply: detail }) => {
        const { event } = detail;
        this.knownBriefs.set(`${event.rank}/${event.id}`, event);
        stage.setOverlay({ selected: event, flows: flowArrows(detail) });
        this.stateSignal.value = { ...NO_EVENT, key, brief: event, detail };
        this.askCollective(event);
        this.askFigures(event);
      },
      (error) => (this.stateSignal.value = { ...this.stateSignal.value, error }),
    );
  }

  /** Request the collective. If this fails, the details remain as they are. */
  private askCollective(event: Brief): void {
    const { source, scene, stage } = this.ctx;
    const { rank, id, kind, table } = event;
    if (!hasLateness(scene) || kind !== "communication" || table !== "events") return;
    this.newest.ask(
      (signal) => source.ask("collective", { rank, id }, signal),
      ({ reply: { collective } }) => {
        this.stateSignal.value = { ...this.stateSignal.value, collective };
        stage.setOverlay({ collective: arrivalOf(collective, event) });
      },
    );
  }

  /** Request FLOPs and rates. If this fails, the details remain as they are. */
  private askFigures(event: Brief): void {
    const { rank, id, kind, table } = event;
    if (table !== "events" || !WORKING_KINDS.includes(kind)) return;
    this.newest.ask(
      (signal) => this.ctx.source.ask("efficiency", { rank, id }, signal),
      ({ reply: { figures } }) => {
        this.stateSignal.value = { ...this.stateSignal.value, figures };
      },
    );
  }

  private unload(): void {
    if (!this.active) return;
    this.newest.cancel();
    this.stateSignal.value = NO_EVENT;
    this.ctx.stage.setOverlay({ selected: null, flows: [], collective: null });
  }

  private showSelection(): void {
    const { ranks_from: ranksFrom } = this.ctx.shared.state;
    // If another panel selected the ranks, all rows belong to these ranks and need no outline.
    const all =
      this.ctx.isLinkedPanel &&
      ranksFrom !== "timeline" &&
      withoutDimension(this.window, "ranks") === null;
    this.ctx.stage.setOverlay({ selection: all ? null : this.window });
  }
}

/** Return the last arrival at an event's collective, on the event's clock. */
function arrivalOf(collective: Collective | null, event: Brief): Overlay["collective"] {
  if (collective === null) return null;
  const last = lastRankOf(collective);
  const ownArrival = collective.ranks.find(({ rank }) => rank === event.rank);
  if (last === null || ownArrival === undefined) return null;
  return { time: event.start + ownArrival.wait, rank: last.rank };
}
