/** The arrows of the event under the pointer: from its launch, or to what it launches. */

import type { Launches, Overlay, Slice } from "../protocol/source";
import { briefFromSlice } from "../protocol/selection";
import { formatDuration, plural } from "../ui/formats";
import { type TimelineContext, LatestRequest } from "./context";

/** The pointer must rest on an event for this long before its arrows are requested. */
const DWELL_MS = 120;

export class LaunchArrows {
  /** Text for the tooltip; "" if there is none. */
  tooltipText = "";
  private key = "";
  private timer = 0;
  private readonly newest: LatestRequest;

  constructor(
    private readonly ctx: TimelineContext,
    private readonly onChange: () => void,
  ) {
    this.newest = new LatestRequest(ctx.signal);
  }

  /** Show the arrows of another event, or none. */
  show(slice: Slice | null): void {
    const { ctx } = this;
    const rank = slice === null ? undefined : ctx.lanes.locate(slice.lane)?.rank.rank;
    const isEvent = slice !== null && ctx.lanes.tableOf(slice) === "events";
    const key = isEvent && rank !== undefined ? `${rank}/${slice.id}` : "";
    if (key === this.key) return;
    this.key = key;
    clearTimeout(this.timer);
    this.newest.cancel();
    if (this.tooltipText !== "") ctx.stage.setOverlay({ launches: [] });
    this.tooltipText = "";
    if (!isEvent || rank === undefined) return;
    const ask = (): void =>
      this.newest.ask(
        (signal) => ctx.source.ask("launches", { rank, id: slice.id }, signal),
        // A failure is shown in the event's details.
        ({ reply }) => this.draw(slice, rank, reply),
      );
    this.timer = window.setTimeout(ask, DWELL_MS);
  }

  private draw(slice: Slice, rank: number, { call, kernels, count }: Launches): void {
    const callBrief = briefFromSlice(slice, rank, "events");
    const launches: Overlay["launches"] = kernels.map((to) => ({ from: callBrief, to }));
    if (call !== null) {
      launches.push({ from: call, to: callBrief });
      const delay = formatDuration(callBrief.start - call.start);
      this.tooltipText = `launched by ${call.short}, ${delay} before`;
    } else if (count > 0) {
      const all = kernels.length < count ? ": too many to draw arrows" : "";
      this.tooltipText = `launches ${plural(count, "device event")}${all}`;
    }
    if (this.tooltipText === "") return;
    this.ctx.stage.setOverlay({ launches });
    this.onChange();
  }
}
