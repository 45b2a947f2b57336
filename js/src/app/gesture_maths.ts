/** What pointers and wheels mean, as arithmetic. */

import type { Slice, Span } from "../contract";

/** A press that moves less than this is a click. */
export const DRAG_PX = 4;
export const SNAP_PX = 15;
/** How near to an edge of a selection or of the minimap's frame the pointer takes hold of it. */
export const EDGE_PX = 5;

export interface WheelTurn {
  deltaX: number;
  deltaY: number;
  /** 0 pixels, 1 lines, 2 pages. */
  deltaMode: number;
  ctrlKey: boolean;
  metaKey: boolean;
  shiftKey: boolean;
}

export type WheelAction =
  { do: "zoom"; factor: number } | { do: "pan"; pixels: number } | { do: "rows"; pixels: number };

const LINE_PX = 16;
const PAGE_PX = 240;

/** `factor` above 1 zooms in. */
export function wheelAction(turn: WheelTurn): WheelAction {
  const unit = turn.deltaMode === 1 ? LINE_PX : turn.deltaMode === 2 ? PAGE_PX : 1;
  const x = turn.deltaX * unit;
  const y = turn.deltaY * unit;
  if (turn.ctrlKey || turn.metaKey) {
    // A pinch on a trackpad comes as many small turns, a notch of a wheel as one of about 100.
    const gain = Math.abs(y) < 30 ? 0.01 : 0.0025;
    const power = Math.min(Math.max(-y * gain, -0.7), 0.7);
    return { do: "zoom", factor: Math.exp(power) };
  }
  if (turn.shiftKey) return { do: "pan", pixels: Math.abs(x) > Math.abs(y) ? x : y };
  if (Math.abs(x) > Math.abs(y)) return { do: "pan", pixels: x };
  return { do: "rows", pixels: y };
}

/** The window after it was dragged by `pixels` to the right. */
export function draggedSpan(span: Span, pixels: number, width: number): Span {
  const shift = (-pixels * (span[1] - span[0])) / Math.max(width, 1);
  return [span[0] + shift, span[1] + shift];
}

/** The window that keeps the times under two fingers under them. */
export function pinchedSpan(
  span: Span,
  width: number,
  from: readonly [number, number],
  to: readonly [number, number],
): Span {
  const scale = (span[1] - span[0]) / Math.max(width, 1);
  const [left, right] = from[0] <= from[1] ? from : [from[1], from[0]];
  const [newLeft, newRight] = to[0] <= to[1] ? to : [to[1], to[0]];
  const times = Math.max(right - left, 8) * scale;
  const perPixel = times / Math.max(newRight - newLeft, 8);
  const start = span[0] + left * scale - newLeft * perPixel;
  return [start, start + perPixel * width];
}

export interface Edge {
  time: number;
  distance: number;
}

/** The event edge nearest to a time, within a tolerance. */
export function nearestEdge(
  time: number,
  slices: readonly Pick<Slice, "start" | "dur">[],
  tolerance: number,
): number | null {
  let best: Edge | null = null;
  for (const slice of slices) {
    for (const edge of [slice.start, slice.start + slice.dur]) {
      const distance = Math.abs(edge - time);
      if (distance <= tolerance && (best === null || distance < best.distance)) {
        best = { time: edge, distance };
      }
    }
  }
  return best?.time ?? null;
}

/** Which edge of a window is within reach of an x position. */
export function edgeAt(
  x: number,
  start: number,
  end: number,
  reach = EDGE_PX,
): "start" | "end" | null {
  const toStart = Math.abs(x - start);
  const toEnd = Math.abs(x - end);
  if (Math.min(toStart, toEnd) > reach) return null;
  // Of a window that is narrower than the reach, each side keeps its own handle.
  return toStart < toEnd || (toStart === toEnd && x <= start) ? "start" : "end";
}

export function ordered(a: number, b: number): Span {
  return a <= b ? [a, b] : [b, a];
}

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/**
 * Where a tooltip goes: right of and below the pointer, below the mark that it speaks of, flipped
 * where it would leave the frame. It never covers the mark's own height at the pointer.
 */
export function placeTip(
  pointer: { x: number; y: number },
  tip: { width: number; height: number },
  frame: { width: number; height: number },
  mark: { top: number; bottom: number } | null,
  gap = 12,
): { left: number; top: number } {
  let left = pointer.x + gap;
  if (left + tip.width > frame.width - 4) left = pointer.x - gap - tip.width;
  left = Math.max(4, Math.min(left, frame.width - tip.width - 4));
  const below = Math.max(pointer.y + gap, mark === null ? 0 : mark.bottom + 4);
  const above = Math.min(pointer.y - gap, mark === null ? Infinity : mark.top - 4) - tip.height;
  const fitsBelow = below + tip.height <= frame.height - 4;
  return { left, top: fitsBelow || above < 4 ? below : above };
}
