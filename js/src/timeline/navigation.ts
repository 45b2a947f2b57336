/** Move the view, and keep the shared state in sync with it. */

import { wholeNsWindow } from "../connection/answering";
import { areSpansNearlyEqual } from "../protocol/selection";
import type { Span } from "../protocol/source";
import { MOTION } from "../ui/theme";
import { type TimelineContext, debounce, Emitter } from "./context";

const SETTLE_MS = 120;

export class Navigation {
  /** Emitted when the view stops moving. */
  readonly onSettled = new Emitter();
  /** Whether the user is moving this view. If so, the view writes the shared state. */
  private isOwnChange = false;
  private gestures = 0;
  private readonly settleLater: () => void;

  constructor(private readonly ctx: TimelineContext) {
    this.settleLater = debounce(SETTLE_MS, ctx.signal, () => {
      // A movement without a frame for this long is finished without waiting for the next frame.
      this.finish();
      this.reconcileShared();
      this.onSettled.emit();
    });
    ctx.stage.onView((view, done) => this.onView(view, done));
    ctx.shared.onFlush(() => this.finish());
  }

  /** Return the view after the current animation, so that a key continues from there. */
  view(): Span {
    return this.ctx.stage.target();
  }

  /** Begin a gesture with many steps; only the last is recorded. */
  begin(): void {
    this.gestures += 1;
  }

  end(): void {
    this.gestures = Math.max(0, this.gestures - 1);
    if (this.gestures === 0) this.commitView();
  }

  /** Zoom at the user's request, at once or within `ms`. */
  zoomTo(span: Span, ms: number = MOTION.zoomFit): void {
    this.beginOwnChange();
    this.ctx.stage.setView(span, ms);
  }

  zoomBy(factor: number, atTime: number, ms = 0): void {
    this.beginOwnChange();
    this.ctx.stage.zoomBy(factor, atTime, ms);
  }

  panBy(fraction: number): void {
    this.beginOwnChange();
    this.ctx.stage.panBy(fraction);
  }

  fit(): void {
    this.zoomTo(this.ctx.stage.reach);
  }

  /** Zoom to a window or, if it is already in view, to the whole job. */
  toggleZoom(span: Span | null): void {
    if (span === null || areSpansNearlyEqual(this.view(), span)) this.fit();
    else this.zoomTo(span);
  }

  /** Bring a time range into view at the same scale, unless half of it is already visible. */
  show(start: number, end: number): void {
    const [from, to] = this.view();
    const length = to - from;
    const visibleNs = Math.min(end, to) - Math.max(start, from);
    const isVisible = start <= to && end >= from;
    if (isVisible && visibleNs >= Math.min(end - start, length) * 0.5) return;
    const middle = end - start < length ? (start + end) / 2 : start + length * 0.4;
    this.zoomTo([middle - length / 2, middle + length / 2]);
  }

  /** Move to the shared state's view. This does not count as a change by the user. */
  follow(view: Span | null, animate: boolean): void {
    this.isOwnChange = false;
    const target = view ?? this.ctx.stage.reach;
    if (target[0] === this.view()[0] && target[1] === this.view()[1]) return;
    this.ctx.stage.setView(target, animate ? MOTION.zoomFit : 0);
  }

  showState(): void {
    this.follow(this.ctx.shared.state.view, false);
  }

  private onView(view: Span, done: boolean): void {
    if (this.isOwnChange) {
      const { start, end } = wholeNsWindow(view);
      this.ctx.shared.set({ view: [start, end] }, true);
      if (done && this.gestures === 0) this.commitView();
    }
    this.settleLater();
  }

  /** End a movement by the user at its target. */
  private finish(): void {
    const { stage, signal } = this.ctx;
    if (this.isOwnChange && !signal.aborted) stage.setView(this.view());
  }

  private beginOwnChange(): void {
    this.isOwnChange = true;
    this.settleLater();
  }

  /**
   * Write the view to the shared state if they differ. Zooming to the current view neither moves it
   * nor reports a change, but must replace a window in the state that is not displayed yet.
   */
  private reconcileShared(): void {
    if (!this.isOwnChange) return;
    const { shared, stage } = this.ctx;
    const { start, end } = wholeNsWindow(stage.view());
    const [from, to] = shared.state.view ?? stage.reach;
    if (from !== start || to !== end) shared.set({ view: [start, end] }, true);
    if (this.gestures === 0) this.commitView();
  }

  private commitView(): void {
    this.isOwnChange = false;
    this.ctx.shared.endGesture();
  }
}
