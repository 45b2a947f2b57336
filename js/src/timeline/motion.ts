/** The arithmetic of gestures: drags, pinches, wheel turns, held keys. */

import type { Signal } from "@preact/signals";
import type { Slice, Span } from "../protocol/source";
import { activeElement } from "../ui/dom";
import { debounce, type TimelineContext } from "./context";
import type { Navigation } from "./navigation";

/** A press that moves less than this is a click. */
export const DRAG_PX = 4;
export const SNAP_PX = 15;
/** Maximum distance at which the pointer grabs an edge of a selection or of the minimap's frame. */
export const EDGE_PX = 5;

export type WheelTurn = Pick<
  WheelEvent,
  "deltaX" | "deltaY" | "deltaMode" | "ctrlKey" | "metaKey" | "shiftKey"
>;

type ViewAction = { type: "zoom"; factor: number } | { type: "pan"; pixels: number };
type WheelAction = ViewAction | { type: "rows"; pixels: number };

/** Length in px of the wheel's units, indexed by `deltaMode`: pixels, lines, pages. */
const UNIT_PX: readonly number[] = [1, 16, 240];

/** Return what a wheel turn does. A `factor` above 1 zooms in. */
export function wheelAction(turn: WheelTurn): WheelAction {
  const unit = UNIT_PX[turn.deltaMode] ?? 1;
  const x = turn.deltaX * unit;
  const y = turn.deltaY * unit;
  if (turn.ctrlKey || turn.metaKey) {
    // A pinch on a trackpad causes many small turns; a notch of a wheel causes one of about 100.
    const gain = Math.abs(y) < 30 ? 0.01 : 0.0025;
    const exponent = Math.min(Math.max(-y * gain, -0.7), 0.7);
    return { type: "zoom", factor: Math.exp(exponent) };
  }
  if (Math.abs(x) > Math.abs(y)) return { type: "pan", pixels: x };
  return { type: turn.shiftKey ? "pan" : "rows", pixels: y };
}

/** Return the window after dragging it by `pixels` to the right. */
export function draggedSpan(span: Span, pixels: number, width: number): Span {
  const shift = (-pixels * (span[1] - span[0])) / Math.max(width, 1);
  return [span[0] + shift, span[1] + shift];
}

/** Return the window after a pinch, which keeps the times under both fingers in place. */
export function pinchedSpan(
  span: Span,
  width: number,
  from: readonly [number, number],
  to: readonly [number, number],
): Span {
  const scale = (span[1] - span[0]) / Math.max(width, 1);
  const [left, right] = sortPair(...from);
  const [newLeft, newRight] = sortPair(...to);
  const nsBetween = Math.max(right - left, 8) * scale;
  const newScale = nsBetween / Math.max(newRight - newLeft, 8);
  const start = span[0] + left * scale - newLeft * newScale;
  return [start, start + newScale * width];
}

/** Return the event edge nearest to a time, within a tolerance. */
export function nearestEdge(
  time: number,
  slices: readonly Pick<Slice, "start" | "dur">[],
  tolerance: number,
): number | null {
  const distance = (edge: number): number => Math.abs(edge - time);
  const [nearest = null] = slices
    .flatMap(({ start, dur }) => [start, start + dur])
    .filter((edge) => distance(edge) <= tolerance)
    .sort((a, b) => distance(a) - distance(b));
  return nearest;
}

/** Return the edge of a window that is near `x`; null if no edge is. */
export function edgeAt(
  x: number,
  start: number,
  end: number,
  tolerance = EDGE_PX,
): "start" | "end" | null {
  const toStart = Math.abs(x - start);
  const toEnd = Math.abs(x - end);
  if (Math.min(toStart, toEnd) > tolerance) return null;
  // Both edges can be grabbed from outside, even if the window is narrower than the tolerance.
  return toStart < toEnd || (toStart === toEnd && x <= start) ? "start" : "end";
}

export function sortPair(a: number, b: number): Span {
  return a <= b ? [a, b] : [b, a];
}

// Zoom and pan with the wheel. Without Ctrl, it scrolls the focused timeline's rows or the page.

const END_MS = 140;
const HINT_MS = 2500;

interface WheelParts {
  readonly ctx: TimelineContext;
  readonly nav: Navigation;
  /** Whether the hint that Ctrl + wheel zooms is shown. */
  readonly wheelHint: Signal<boolean>;
}

export function listenToWheel({ ctx, nav, wheelHint }: WheelParts): void {
  const { root, stage, signal } = ctx;
  let isTurning = false;
  /** The first wheel turn without Ctrl shows the hint, unless the user has already zoomed. */
  let isHintDue = true;
  const hideHintLater = debounce(HINT_MS, signal, () => (wheelHint.value = false));
  const endLater = debounce(END_MS, signal, () => {
    isTurning = false;
    nav.end();
  });
  const scrollRows = (pixels: number): boolean => {
    if (pixels !== 0 && isHintDue) {
      isHintDue = false;
      wheelHint.value = true;
      hideHintLater();
    }
    // At the end of the rows, the page scrolls.
    return root.contains(activeElement(root)) && stage.scrollBy(pixels);
  };
  const moveView = (event: WheelEvent, action: ViewAction): void => {
    isHintDue = wheelHint.value = false;
    if (!isTurning) nav.begin();
    isTurning = true;
    endLater();
    if (action.type === "pan") {
      nav.panBy(action.pixels / ctx.axisWidth);
      return;
    }
    const x = event.clientX - stage.el.getBoundingClientRect().left;
    const [start, end] = stage.view();
    nav.zoomBy(action.factor, Math.min(Math.max(stage.timeAt(x), start), end));
  };
  const onWheel = (event: WheelEvent): void => {
    const action = wheelAction(event);
    if (action.type !== "rows") moveView(event, action);
    else if (!scrollRows(action.pixels)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  stage.el.addEventListener("wheel", onWheel, { signal, passive: false });
}

// Motion while keys are held. It starts at once, accelerates and stops softly, at any frame rate.

type Axis = "zoom" | "pan" | "rows";

export interface KeyPush {
  axis: Axis;
  direction: 1 | -1;
  fast: boolean;
}

/** Effect of one key press: zoom as ln(factor), pan as a share of the view, rows in px. */
export const PRESS_STEPS: Readonly<Record<Axis, number>> = {
  zoom: Math.log(1.35),
  pan: 0.12,
  rows: 44,
};

/** Initial speed per second while a key is held: ln(factor), view widths, and px. */
const RATES: Readonly<Record<Axis, number>> = { zoom: 1.9, pan: 0.9, rows: 420 };

const FAST_FACTOR = 3;
const HOLD_MS = 180;
const FULL_SPEED_MS = 1600;
const MAX_SPEED_FACTOR = 2.6;
const SOFT_MS = 38;

/** Return the speed factor for a key that has been held this long. */
export function speedUp(heldMs: number): number {
  const progress = Math.min(Math.max((heldMs - HOLD_MS) / (FULL_SPEED_MS - HOLD_MS), 0), 1);
  return 1 + (MAX_SPEED_FACTOR - 1) * progress ** 2;
}

/** Return the share of the remaining distance that is covered in `ms` ms. */
export function softShare(ms: number): number {
  return 1 - Math.exp(-ms / SOFT_MS);
}

export class KeyMotion {
  private readonly heldKeys = new Map<string, KeyPush & { since: number }>();
  private readonly pending: Record<Axis, number> = { zoom: 0, pan: 0, rows: 0 };
  private last = 0;
  private frame = 0;

  constructor(
    private readonly move: (axis: Axis, amount: number) => void,
    private readonly onRest: () => void,
    private readonly prefersReducedMotion: () => boolean,
  ) {}

  get active(): boolean {
    return this.frame !== 0;
  }

  /** Start the motion of a key, ignoring key repeats. */
  press(id: string, push: KeyPush, now: number): void {
    const before = this.heldKeys.get(id);
    if (before !== undefined) {
      before.fast = push.fast;
      return;
    }
    this.heldKeys.set(id, { ...push, since: now });
    this.add(push, PRESS_STEPS[push.axis]);
    if (!this.frame) {
      this.last = now;
      this.frame = requestAnimationFrame((time) => this.step(time));
    }
  }

  release(id: string): void {
    this.heldKeys.delete(id);
  }

  releaseAll(): void {
    this.heldKeys.clear();
  }

  stop(): void {
    this.heldKeys.clear();
    this.pending.zoom = this.pending.pan = this.pending.rows = 0;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  /** Advance to `now`, which is passed in so that tests can set it. */
  step(now: number): void {
    // A late frame must not cause a jump.
    const frameMs = Math.min(Math.max(now - this.last, 1), 64);
    this.last = now;
    for (const key of this.heldKeys.values()) {
      const heldMs = now - key.since;
      if (heldMs > HOLD_MS) this.add(key, (RATES[key.axis] * speedUp(heldMs) * frameMs) / 1000);
    }
    const share = this.prefersReducedMotion() ? 1 : softShare(frameMs);
    let isMoving = this.heldKeys.size > 0;
    for (const axis of ["zoom", "pan", "rows"] as const) {
      const remaining = this.pending[axis];
      if (remaining === 0) continue;
      const isNegligible = Math.abs(remaining) < PRESS_STEPS[axis] / 200;
      const amount = isNegligible ? remaining : remaining * share;
      this.pending[axis] = isNegligible || share === 1 ? 0 : remaining - amount;
      if (this.pending[axis] !== 0) isMoving = true;
      this.move(axis, amount);
    }
    if (isMoving) {
      this.frame = requestAnimationFrame((time) => this.step(time));
    } else {
      this.frame = 0;
      this.onRest();
    }
  }

  private add(push: KeyPush, amount: number): void {
    this.pending[push.axis] += push.direction * amount * (push.fast ? FAST_FACTOR : 1);
  }
}
