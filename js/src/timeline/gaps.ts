/** The selected gap of a device: found at a click, or because a selected window is one. */

import { signal } from "@preact/signals";
import { FULL_SELECTION } from "../protocol/selection";
import type { Gap, SelectionJson } from "../protocol/source";
import { onSignal } from "../ui/react";
import { LatestRequest } from "./context";
import type { TimelineApp } from "./view";

export class GapSelection {
  readonly gap = signal<Gap | null>(null);
  private readonly newest: LatestRequest;

  constructor(private readonly app: Pick<TimelineApp, "ctx" | "picking">) {
    const { ctx, picking } = app;
    this.newest = new LatestRequest(ctx.signal);
    onSignal(picking.selectionSignal, (window) => this.follow(window), ctx.signal);
  }

  /** Whether a lane shows work of a device. */
  isDevice(lane: number | null): boolean {
    const place = lane === null ? null : this.app.ctx.lanes.locate(lane);
    if (place === null) return false;
    return place.track === null ? place.summary?.role !== "cpu" : place.track.role === "stream";
  }

  async gapAt(rank: number, time: number, signal: AbortSignal): Promise<Gap | null> {
    const { source } = this.app.ctx;
    const { reply } = await source.ask("gap", { rank, time: Math.floor(time) }, signal);
    return reply.gap;
  }

  /** Select the gap at an instant; false if the device works then. */
  async select(rank: number, time: number): Promise<boolean> {
    const { ctx, picking } = this.app;
    const gap = await this.gapAt(rank, time, ctx.signal);
    if (gap === null) return false;
    const { start, end } = gap;
    picking.clearEvent();
    picking.setSelection({ ...FULL_SELECTION, start_ns: start, end_ns: end, ranks: [rank] });
    return true;
  }

  /** Show a window of one rank as a gap if it is one, however it was selected. */
  private follow(window: SelectionJson | null): void {
    this.newest.cancel();
    const edges = gapEdges(window);
    if (edges === null) {
      this.gap.value = null;
      return;
    }
    const { rank, start, end } = edges;
    this.newest.ask(
      (signal) => this.gapAt(rank, start, signal),
      (gap) => (this.gap.value = gap?.start === start && gap.end === end ? gap : null),
      // The selection itself is still shown.
      () => (this.gap.value = null),
    );
  }
}

function gapEdges(
  window: SelectionJson | null,
): { rank: number; start: number; end: number } | null {
  if (window === null || window.query !== null || window.ids !== null) return null;
  const { start_ns: start, end_ns: end, ranks, tracks } = window;
  const [rank, ...others] = ranks ?? [];
  if (start === null || end === null || tracks !== null) return null;
  return rank === undefined || others.length > 0 ? null : { rank, start, end };
}
