/** The selected idle gap of a device, found by a click or because the selected window is a gap. */

import { signal } from "@preact/signals";
import { windowSelection } from "../protocol/selection";
import type { Gap, GapReply, SelectionJson } from "../protocol/source";
import { onSignal } from "../ui/react";
import { LatestRequest, type TimelineContext } from "./context";
import type { EventSelection } from "./selected_event";

export class GapSelection {
  readonly gap = signal<Gap | null>(null);
  private readonly newest: LatestRequest;

  constructor(private readonly app: { ctx: TimelineContext; picking: EventSelection }) {
    const { ctx, picking } = app;
    this.newest = new LatestRequest(ctx.signal);
    onSignal(picking.selectionSignal, (window) => this.follow(window), ctx.signal);
  }

  /** Return whether a lane shows device work. */
  isDevice(lane: number | null): boolean {
    const place = lane === null ? null : this.app.ctx.lanes.locate(lane);
    if (place === null) return false;
    return place.track === null ? place.summary?.role !== "cpu" : place.track.role === "stream";
  }

  /** Return the device gap and the lane gap at an instant; null outside of gaps. */
  async gapsAt(
    rank: number,
    lane: number | null,
    time: number,
    signal: AbortSignal,
  ): Promise<GapReply> {
    const { source } = this.app.ctx;
    return (await source.ask("gap", { rank, lane, time: Math.floor(time) }, signal)).reply;
  }

  /** Select the device's gap or, if it has none, the lane's. Return false if neither exists. */
  select(rank: number, lane: number, { gap, lane_gap: laneGap }: GapReply): boolean {
    const { ctx, picking } = this.app;
    const { start, end } = gap ?? laneGap ?? {};
    if (start === undefined || end === undefined) return false;
    const track = gap === null ? ctx.lanes.locate(lane)?.track : null;
    picking.clearEvent();
    const row = { ranks: [rank], tracks: track ? [track.key] : null };
    picking.setSelection(windowSelection([start, end], row));
    return true;
  }

  private follow(window: SelectionJson | null): void {
    this.newest.cancel();
    const edges = gapEdges(window);
    if (edges === null) {
      this.gap.value = null;
      return;
    }
    const { rank, start, end } = edges;
    this.newest.ask(
      (signal) => this.gapsAt(rank, null, start, signal),
      ({ gap }) => (this.gap.value = gap?.start === start && gap.end === end ? gap : null),
      // The selection itself remains visible.
      () => (this.gap.value = null),
    );
  }
}

/** Return the rank and edges of a selected window that may be a gap; null for other selections. */
function gapEdges(window: SelectionJson | null) {
  if (window === null || window.query !== null || window.ids !== null) return null;
  const { start_ns: start, end_ns: end, ranks, tracks } = window;
  const [rank, ...others] = ranks ?? [];
  if (start === null || end === null || tracks !== null) return null;
  return rank === undefined || others.length > 0 ? null : { rank, start, end };
}
