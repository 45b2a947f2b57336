/** What a timeline offers to whoever lets two of them move together. */

import type { Brief, SharedState, Slice, Span } from "../contract";
import type { Classes } from "../draw/class_paints";
import type { ClassParts } from "../draw/class_parts";
import type { Context } from "./context";
import type { Hover } from "./hover";
import type { Navigation } from "./navigation";

export class Led {
  constructor(
    private readonly ctx: Context,
    private readonly nav: Navigation,
    private readonly hover: Hover,
  ) {}

  /** Show a window that somebody else leads to: at once, and not as a change of ours. */
  showView(view: Span): void {
    this.nav.follow(view, false);
  }

  /** Change what is shown or selected, as one entry of the history; see `Shared.put`. */
  put(patch: Partial<SharedState>, together: string): void {
    this.ctx.shared.put(patch, together);
    this.showState();
  }

  /** Show the window of the state, at once. */
  showState(): void {
    this.nav.follow(this.ctx.shared.state.view, false);
  }

  /** Called with what is under the pointer, and null when nothing is. */
  onHover(listener: (slice: Slice | null) => void): void {
    this.hover.hovered.on(listener);
  }

  /** Outline an event as if the pointer were on it, on its rank's first rows or on its own lane. */
  outline(event: Brief | null, inSummary = false): void {
    const { stage, lanes } = this.ctx;
    if (event === null) {
      stage.setOverlay({ hover: null });
      return;
    }
    const place = lanes.at(event.lane);
    const isOpen = stage.rows().some(({ rank, open }) => rank === event.rank && open);
    const role = place?.track?.communication === true ? "comm" : "gpu";
    const folded = place?.rank.summary.find((summary) => summary.role === role);
    const own = folded === undefined || place?.track?.role !== "stream";
    const lane = own || (isOpen && !inSummary) ? event.lane : folded.lane;
    stage.setOverlay({ hover: { lane, start: event.start, dur: event.dur } });
  }

  /** Whether a lane gathers what other lanes hold. */
  isSummary(lane: number): boolean {
    return this.ctx.lanes.at(lane)?.rank.summary.some((one) => one.lane === lane) === true;
  }

  /** Which rank a lane is of. */
  rankOf(lane: number): number | null {
    return this.ctx.lanes.at(lane)?.rank.rank ?? null;
  }

  /** Colour events by classes that the source knows of them; null: as this timeline does alone. */
  setClasses(classes: Classes | null, known: boolean, parts: ClassParts | null): void {
    this.ctx.stage.setClasses(classes, known, parts);
  }

  /** Leave the width to the lanes, as where two timelines share it. */
  setSlim(slim: boolean): void {
    this.ctx.stage.setSlim(slim);
  }

  get view(): Span {
    return this.ctx.stage.view();
  }

  /** Where a time is drawn, px from the left edge. */
  xOf(time: number): number {
    return this.ctx.stage.xOf(time);
  }

  /** False where there is nothing to undo. */
  undo(): boolean {
    return this.ctx.shared.undo();
  }

  redo(): boolean {
    return this.ctx.shared.redo();
  }
}
