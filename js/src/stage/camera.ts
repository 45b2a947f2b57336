/** The visible window of time: position, animation and limits. */

import type { Span } from "../protocol/source";
import { SIZE } from "../ui/theme";

export class Camera {
  readonly job: Span;
  /** The window that the view is limited to, apart from the outer margin. */
  reach: Span;
  view: Span;
  target: Span;
  private animation: { from: Span; startMs: number; durationMs: number } | null = null;

  constructor(range: Span) {
    this.job = jobSpan(range);
    this.reach = this.job;
    this.view = this.job;
    this.target = this.job;
  }

  get isMoving(): boolean {
    return this.animation !== null;
  }

  /** Move to `view` in `durationMs` ms. Return whether the displayed view changed at once. */
  animateTo(view: Span, durationMs: number, now: number): boolean {
    this.target = clampView(view, this.reach);
    const isChange = this.target[0] !== this.view[0] || this.target[1] !== this.view[1];
    if (durationMs > 0 && isChange) {
      this.animation = { from: this.view, startMs: now, durationMs };
      return false;
    }
    this.animation = null;
    this.view = this.target;
    return isChange;
  }

  zoom(factor: number, atTime: number, durationMs: number, now: number): boolean {
    // Zoom from the target, so that quick repeated steps add up. The pointer's time is also taken
    // from the target, so that it stays under the pointer.
    const { view, target } = this;
    const share = (atTime - view[0]) / (view[1] - view[0]);
    const anchorTime = target[0] + share * (target[1] - target[0]);
    return this.animateTo(zoomSpan(target, factor, anchorTime), durationMs, now);
  }

  /** Advance the animation. Return whether the view has changed. */
  step(now: number): boolean {
    if (this.animation === null) return false;
    const { from, startMs, durationMs } = this.animation;
    const share = (now - startMs) / durationMs;
    this.view = interpolateSpans(from, this.target, easeProgress(share));
    if (share >= 1) this.animation = null;
    return true;
  }
}

// Time windows: limits, zooming, and interpolation between two views.

/** A view is at least this long, because times are whole nanoseconds. */
export const MIN_SPAN_NS = 50;
/** Maximum extent of a view beyond either end of the job, as a share of the job's length. */
const OUTER_MARGIN_SHARE = 0.02;

/** Return the job's span, lengthened if it is too short to divide by. */
export function jobSpan([start, end]: Span): Span {
  return end - start >= MIN_SPAN_NS ? [start, end] : [start, start + MIN_SPAN_NS];
}

/** Move `view`, and shorten it if necessary, so that it is within the job and its margin. */
export function clampView(view: Span, job: Span): Span {
  const outerMargin = Math.max((job[1] - job[0]) * OUTER_MARGIN_SHARE, MIN_SPAN_NS);
  const low = job[0] - outerMargin;
  const high = job[1] + outerMargin;
  let start = Math.min(view[0], view[1]);
  let span = Math.abs(view[1] - view[0]);
  if (!Number.isFinite(start) || !Number.isFinite(span)) return job;
  if (span < MIN_SPAN_NS) {
    start -= (MIN_SPAN_NS - span) / 2;
    span = MIN_SPAN_NS;
  }
  span = Math.min(span, high - low);
  start = Math.min(Math.max(start, low), high - span);
  return [start, start + span];
}

/** Magnify `view` by `factor`. `atTime` keeps its position on the screen. */
export function zoomSpan(view: Span, factor: number, atTime: number): Span {
  return [atTime - (atTime - view[0]) / factor, atTime + (view[1] - atTime) / factor];
}

/** Return the value of the curve cubic-bezier(.2, 0, 0, 1) at a share of the duration. */
export function easeProgress(progress: number): number {
  if (progress <= 0) return 0;
  if (progress >= 1) return 1;
  // Find the curve's parameter `t` at this progress by bisection.
  let low = 0;
  let high = 1;
  let t = progress;
  for (let step = 0; step < 24; step += 1) {
    const x = 3 * (1 - t) * (1 - t) * t * 0.2 + t * t * t;
    if (Math.abs(x - progress) < 1e-5) break;
    if (x < progress) low = t;
    else high = t;
    t = (low + high) / 2;
  }
  return 3 * (1 - t) * t * t + t * t * t;
}

/**
 * Interpolate between two views. If the span changes, it changes by equal factors in equal times,
 * and one point in time keeps its position on the screen, as in a zoom.
 */
export function interpolateSpans(from: Span, to: Span, share: number): Span {
  if (share <= 0) return from;
  if (share >= 1) return to;
  const spanFrom = from[1] - from[0];
  const spanTo = to[1] - to[0];
  if (Math.abs(spanTo / spanFrom - 1) < 1e-3) {
    return [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share];
  }
  const fixedTime = (from[0] * spanTo - to[0] * spanFrom) / (spanTo - spanFrom);
  const span = spanFrom * (spanTo / spanFrom) ** share;
  const start = fixedTime - ((fixedTime - from[0]) / spanFrom) * span;
  return [start, start + span];
}

// Positions of the parts of the stage, in CSS px relative to the stage.

export type StageGeometry = Readonly<ReturnType<typeof computeGeometry>>;

/** Padding above and below the minimap's box. */
const MINIMAP_PAD = 3;
const STRIP_PAD = 2;

export function computeGeometry(
  width: number,
  height: number,
  dpr: number,
  stripRows: number,
  lateRow = false,
  rulers = 1,
  hasMargin = true,
) {
  const isNarrow = width < SIZE.gutterFrom;
  const gutter: number = isNarrow ? SIZE.gutterNarrow : SIZE.gutter;
  const margin: number = hasMargin && width >= SIZE.marginFrom ? SIZE.margin : 0;
  const axisTop = SIZE.minimap + MINIMAP_PAD + 1;
  // Only the first ruler has space for the flags of time marks.
  const axisHeight = SIZE.axis + (rulers - 1) * SIZE.steps;
  const stripTop = axisTop + axisHeight;
  const stripHeight = stripRows * SIZE.steps;
  const rowsTop = stripTop + stripHeight + STRIP_PAD;
  return {
    width,
    height,
    /** Device px per CSS px. */
    dpr,
    gutter,
    margin,
    /** Left edge and width of all parts with a time axis. */
    lanesX: gutter,
    lanesWidth: Math.max(0, width - gutter - margin),
    minimapTop: MINIMAP_PAD,
    minimapHeight: SIZE.minimap - MINIMAP_PAD,
    axisTop,
    axisHeight,
    stripTop,
    /** Number of rows for steps, phases and the last rank to arrive; 0 if the scene has none. */
    stripRows,
    /** Whether the last of these rows names the last rank to arrive at each collective. */
    lateRow,
    stripHeight,
    /** Top of the rows, and the height available for them. */
    rowsTop,
    rowsHeight: Math.max(0, height - rowsTop),
    narrow: isNarrow,
  };
}

export function timeAtX(geometry: StageGeometry, view: Span, x: number): number {
  return view[0] + ((x - geometry.lanesX) / geometry.lanesWidth) * (view[1] - view[0]);
}

export function xAtTime(geometry: StageGeometry, view: Span, time: number): number {
  return geometry.lanesX + ((time - view[0]) / (view[1] - view[0])) * geometry.lanesWidth;
}

export function nsPerDevicePx({ lanesWidth, dpr }: StageGeometry, [start, end]: Span): number {
  return (end - start) / Math.round(lanesWidth * dpr);
}
