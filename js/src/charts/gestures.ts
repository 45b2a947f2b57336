/** Turn clicks, drags and key presses on a chart into brushes (changes of the selection). */

import type { Brush, ChartSelection } from "../protocol/source";
import type { ChartBox, Drawing, ChartPoint, HoverTarget } from "./content";

/** A press becomes a drag if the pointer moves farther than this, in px. */
const DRAG_THRESHOLD_PX = 4;

export interface GestureTarget {
  readonly plot: HTMLElement;
  readonly drawing: Drawing | null;
  readonly selection: ChartSelection;
  brush(brush: Brush): void;
  hover(item: HoverTarget | null, point: ChartPoint | null): void;
  focus(item: HoverTarget | null): void;
  drag(box: ChartBox | null): void;
}

const isAdditive = (event: MouseEvent | KeyboardEvent): boolean =>
  event.ctrlKey || event.metaKey || event.shiftKey;

export function watchGestures(target: GestureTarget, signal: AbortSignal): void {
  const gestures = new ChartGestures(target);
  const { plot } = target;
  plot.addEventListener("pointerdown", (event) => gestures.begin(event), { signal });
  plot.addEventListener("pointermove", (event) => gestures.move(event), { signal });
  plot.addEventListener("pointerup", (event) => gestures.end(event), { signal });
  plot.addEventListener("pointercancel", () => gestures.cancel(), { signal });
  plot.addEventListener("pointerleave", () => gestures.leave(), { signal });
  plot.addEventListener("blur", () => gestures.focus(null), { signal });
  plot.addEventListener("keydown", (event) => gestures.press(event), { signal });
}

class ChartGestures {
  private drag: (ChartPoint & { id: number; moved: boolean }) | null = null;
  /** The item with keyboard focus. */
  private focused: number | null = null;

  constructor(private readonly target: GestureTarget) {}

  begin(event: PointerEvent): void {
    if (event.button !== 0 || !event.isPrimary) return;
    this.drag = { ...this.pointOf(event), id: event.pointerId, moved: false };
    this.focus(null);
  }

  move(event: PointerEvent): void {
    const { drag, target } = this;
    const point = this.pointOf(event);
    if (drag === null || event.pointerId !== drag.id) {
      target.hover(target.drawing?.targetAt(point.x, point.y) ?? null, point);
      return;
    }
    const hasMoved = Math.hypot(point.x - drag.x, point.y - drag.y) > DRAG_THRESHOLD_PX;
    if (hasMoved && !drag.moved) {
      drag.moved = true;
      target.plot.setPointerCapture(drag.id);
      target.hover(null, null);
    }
    if (drag.moved) target.drag(target.drawing?.dragBox([drag, point]) ?? null);
  }

  end(event: PointerEvent): void {
    const { drag: from, target } = this;
    const { drawing, selection } = target;
    this.cancel();
    if (from === null || drawing === null || event.pointerId !== from.id) return;
    const point = this.pointOf(event);
    const brush = from.moved
      ? drawing.drag([from, point], isAdditive(event), selection)
      : drawing.click(point.x, point.y, isAdditive(event), selection);
    if (brush !== null) target.brush(brush);
  }

  cancel(): void {
    const { drag, target } = this;
    if (drag !== null && target.plot.hasPointerCapture(drag.id))
      target.plot.releasePointerCapture(drag.id);
    this.drag = null;
    target.drag(null);
  }

  leave(): void {
    if (this.drag?.moved !== true) this.target.hover(null, null);
  }

  focus(item: number | null): void {
    this.focused = item;
    this.target.focus(item === null ? null : (this.target.drawing?.targetOf(item) ?? null));
  }

  press(event: KeyboardEvent): void {
    if (!this.act(event)) return;
    event.preventDefault();
    // Otherwise, a notebook would treat letters and Enter as its own commands.
    event.stopPropagation();
  }

  /** Perform a key's action. Return whether the chart uses this key in its current state. */
  private act(event: KeyboardEvent): boolean {
    const { target, focused } = this;
    const { drawing, selection } = target;
    if (drawing === null || event.altKey) return false;
    if (event.key === "Escape") return this.escape();
    if (event.key === "Backspace" || event.key === "Delete") {
      target.brush(drawing.emptyBrush());
      return true;
    }
    if (event.key === "Enter" || event.key === " ") {
      if (focused === null) return false;
      target.brush(drawing.press(focused, isAdditive(event), selection));
      return true;
    }
    if (!/^(Arrow|Home|End)/.test(event.key)) return false;
    const next = drawing.nextTarget(focused, event.key);
    if (next !== null) this.focus(next);
    return next !== null;
  }

  /** Cancel the drag; without a drag, remove the focus. */
  private escape(): boolean {
    if (this.drag !== null) {
      this.cancel();
      return true;
    }
    if (this.focused === null) return false;
    this.focus(null);
    // If something is selected, the dashboard handles this key by clearing the selection.
    return Object.values(this.target.selection).every((chosen) => chosen === null);
  }

  private pointOf(event: MouseEvent): ChartPoint {
    const box = this.target.plot.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }
}

// Change the selected keys on a click; null means that everything is selected.

/** Add the keys if any is missing; otherwise remove them. */
export function toggleKeys<K>(selected: readonly K[] | null, keys: readonly K[]): K[] | null {
  const selectedSet = new Set(selected ?? []);
  const all = keys.every((key) => selectedSet.has(key));
  for (const key of keys) {
    if (all) selectedSet.delete(key);
    else selectedSet.add(key);
  }
  return selectedSet.size === 0 ? null : [...selectedSet];
}

export function isExactly<K>(selected: readonly K[] | null, keys: readonly K[]): boolean {
  if (selected === null) return false;
  const selectedSet = new Set(selected);
  const requested = new Set(keys);
  return selectedSet.size === requested.size && [...requested].every((key) => selectedSet.has(key));
}

export function isSameWindow(
  current: ChartSelection["window"],
  window: ChartSelection["window"],
): boolean {
  return current?.[0] === window?.[0] && current?.[1] === window?.[1];
}
