/** Arrows of the event under the pointer: from its launch, or to what it launches. */

import type { Launches, Overlay, Slice } from "../protocol/source";
import { briefOf } from "../protocol/selection";
import { formatDuration, plural } from "../ui/formats";
import { type Context, Newest } from "./context";

/** The pointer rests this long on an event before its arrows are requested. */
const DWELL_MS = 120;

export class LaunchArrows {
  /** Text for the tooltip; "" for none. */
  words = "";
  private key = "";
  private timer = 0;
  private readonly newest: Newest;

  constructor(
    private readonly ctx: Context,
    private readonly changed: () => void,
  ) {
    this.newest = new Newest(ctx.signal);
  }

  /** Draw the arrows of another event, or of none. */
  show(slice: Slice | null): void {
    const { ctx } = this;
    const rank = slice === null ? undefined : ctx.lanes.at(slice.lane)?.rank.rank;
    const isEvent = slice !== null && ctx.lanes.table(slice) === "events";
    const key = isEvent && rank !== undefined ? `${rank}/${slice.id}` : "";
    if (key === this.key) return;
    this.key = key;
    clearTimeout(this.timer);
    this.newest.cancel();
    if (this.words !== "") ctx.stage.setOverlay({ launches: [] });
    this.words = "";
    if (!isEvent || rank === undefined) return;
    const ask = (): void =>
      this.newest.ask(
        (signal) => ctx.source.ask("launches", { rank, id: slice.id }, signal),
        // The event's details show a failure.
        ({ reply }) => this.draw(slice, rank, reply),
      );
    this.timer = window.setTimeout(ask, DWELL_MS);
  }

  private draw(slice: Slice, rank: number, { call, kernels, count }: Launches): void {
    const own = briefOf(slice, rank, "events");
    const launches: Overlay["launches"] = kernels.map((to) => ({ from: own, to }));
    if (call !== null) {
      launches.push({ from: call, to: own });
      const delay = formatDuration(own.start - call.start);
      this.words = `launched by ${call.short}, ${delay} before`;
    } else if (count > 0) {
      const all = kernels.length < count ? ": too many to draw arrows" : "";
      this.words = `launches ${plural(count, "device event")}${all}`;
    }
    if (this.words === "") return;
    this.ctx.stage.setOverlay({ launches });
    this.changed();
  }
}
