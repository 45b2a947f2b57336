/** The window of time that is shown: limits, zoom, and the way from one view to another. */

import type { Span } from "../contract";

/** Deeper zoom shows nothing more: times are whole nanoseconds. */
export const MIN_SPAN_NS = 50;
/** How far beyond the job the view may go, as a share of the job. */
const BEYOND = 0.02;

/** What the whole job looks like; never empty, so that divisions by the span are safe. */
export function jobSpan(range: Span): Span {
  const [start, end] = range;
  return end - start >= MIN_SPAN_NS ? [start, end] : [start, start + MIN_SPAN_NS];
}

/** `view` moved, and only then shortened, to lie within the job and a little beyond. */
export function clampView(view: Span, job: Span): Span {
  const beyond = Math.max((job[1] - job[0]) * BEYOND, MIN_SPAN_NS);
  const low = job[0] - beyond;
  const high = job[1] + beyond;
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

/** `view` magnified by `factor`, with `atTime` staying where it is. */
export function zoomed(view: Span, factor: number, atTime: number): Span {
  return [atTime - (atTime - view[0]) / factor, atTime + (view[1] - atTime) / factor];
}

/** The curve cubic-bezier(.2, 0, 0, 1). */
export function ease(progress: number): number {
  if (progress <= 0) return 0;
  if (progress >= 1) return 1;
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
 * The view at `share` of the way. Where the span changes, it changes by equal factors in equal
 * shares and one point of time stands still, so that a zoom looks like a zoom all the way.
 */
export function between(from: Span, to: Span, share: number): Span {
  if (share <= 0) return from;
  if (share >= 1) return to;
  const a = from[1] - from[0];
  const b = to[1] - to[0];
  if (Math.abs(b / a - 1) < 1e-3) {
    return [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share];
  }
  const fixed = (from[0] * b - to[0] * a) / (b - a);
  const span = a * (b / a) ** share;
  const start = fixed - ((fixed - from[0]) / a) * span;
  return [start, start + span];
}
