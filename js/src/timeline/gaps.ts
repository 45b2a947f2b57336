/** The selected gap of a device: found at a click, or because a selected window is one. */

import { signal } from "@preact/signals";
import { EVERYTHING, roomAround } from "../protocol/selection";
import { type Gap, isAbort, type SelectionJson } from "../protocol/source";
import { react } from "../ui/react";
import type { Context } from "./context";
import type { Navigation } from "./navigation";
import type { Picking } from "./selected_event";

const MARGIN = 0.1;

export class Gaps {
  readonly gap = signal<Gap | null>(null);
  private asked = new AbortController();

  constructor(
    private readonly ctx: Context,
    private readonly nav: Navigation,
    private readonly picking: Picking,
  ) {
    ctx.signal.addEventListener("abort", () => this.asked.abort(), { once: true });
    react(picking.chosen, (window) => this.follow(window), ctx.signal);
  }

  /** Whether a lane shows work of a device. */
  isDevice(lane: number | null): boolean {
    const place = lane === null ? null : this.ctx.lanes.at(lane);
    if (place === null) return false;
    return place.track === null ? place.summary?.role !== "cpu" : place.track.role === "stream";
  }

  async at(rank: number, time: number, signal: AbortSignal = this.ctx.signal): Promise<Gap | null> {
    const { reply } = await this.ctx.source.ask("gap", { rank, time: Math.floor(time) }, signal);
    return reply.gap;
  }

  /** Select the gap at an instant and zoom to it; false if the device works then. */
  async select(rank: number, time: number): Promise<boolean> {
    const gap = await this.at(rank, time);
    if (gap === null) return false;
    const { start, end } = gap;
    this.picking.clearEvent();
    this.picking.setSelection({ ...EVERYTHING, start_ns: start, end_ns: end, ranks: [rank] });
    this.nav.zoomTo(roomAround(start, end - start, MARGIN));
    return true;
  }

  /** Show a window of one rank as a gap if it is one, however it was selected. */
  private follow(window: SelectionJson | null): void {
    this.asked.abort();
    this.asked = new AbortController();
    const edges = gapEdges(window);
    if (edges === null) {
      this.gap.value = null;
      return;
    }
    const { rank, start, end } = edges;
    this.at(rank, start, this.asked.signal)
      .then((gap) => {
        this.gap.value = gap?.start === start && gap.end === end ? gap : null;
      })
      .catch((error: unknown) => {
        // The selection itself is still shown.
        if (!isAbort(error)) this.gap.value = null;
      });
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
