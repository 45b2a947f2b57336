/** Turn clicks, drags and keys on a chart into brushes. */

import type { Brush, ChartSelection } from "../protocol/source";
import type { ChartBox, Drawing, ChartPoint, HoverTarget } from "./content";

/** A press that moves farther than this is a drag. px. */
const DRAG_THRESHOLD_PX = 4;

/** A chart that is brushed. */
export interface GestureTarget {
  readonly plot: HTMLElement;
  readonly drawing: Drawing | null;
  readonly selection: ChartSelection;
  brush(brush: Brush): void;
  /** Set the spot under the pointer. */
  hover(spot: HoverTarget | null, point: ChartPoint | null): void;
  /** Set the spot with the keyboard focus. */
  focus(spot: HoverTarget | null): void;
  /** Show what a drag would select. */
  drag(box: ChartBox | null): void;
}

export function watchGestures(target: GestureTarget, signal: AbortSignal): void {
  const { plot } = target;
  let press: (ChartPoint & { id: number; moved: boolean }) | null = null;
  let focused: number | null = null;

  const pointOf = (event: MouseEvent): ChartPoint => {
    const box = plot.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const isAdditive = (event: MouseEvent | KeyboardEvent): boolean =>
    event.ctrlKey || event.metaKey || event.shiftKey;
  const listen = <K extends keyof HTMLElementEventMap>(
    type: K,
    listener: (event: HTMLElementEventMap[K]) => void,
  ): void => plot.addEventListener(type, listener, { signal });

  const stop = (): void => {
    if (press !== null && plot.hasPointerCapture(press.id)) plot.releasePointerCapture(press.id);
    press = null;
    target.drag(null);
  };

  listen("pointerdown", (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    press = { ...pointOf(event), id: event.pointerId, moved: false };
    focused = null;
    target.focus(null);
  });
  listen("pointermove", (event) => {
    const point = pointOf(event);
    if (press !== null && event.pointerId === press.id) {
      const hasMoved = Math.hypot(point.x - press.x, point.y - press.y) > DRAG_THRESHOLD_PX;
      if (hasMoved && !press.moved) {
        press.moved = true;
        plot.setPointerCapture(press.id);
        target.hover(null, null);
      }
      if (press.moved) target.drag(target.drawing?.dragBox(press, point) ?? null);
      return;
    }
    target.hover(target.drawing?.targetAt(point.x, point.y) ?? null, point);
  });
  listen("pointerup", (event) => {
    const drawing = target.drawing;
    const from = press;
    stop();
    if (from === null || drawing === null || event.pointerId !== from.id) return;
    const point = pointOf(event);
    const brush = from.moved
      ? drawing.drag(from, point, isAdditive(event), target.selection)
      : drawing.click(point.x, point.y, isAdditive(event), target.selection);
    if (brush !== null) target.brush(brush);
  });
  listen("pointercancel", stop);
  listen("pointerleave", () => {
    if (press?.moved !== true) target.hover(null, null);
  });
  listen("blur", () => {
    focused = null;
    target.focus(null);
  });
  listen("keydown", (event) => {
    const drawing = target.drawing;
    if (drawing === null || event.altKey) return;
    if (event.key === "Escape" && press !== null) {
      stop();
    } else if (event.key === "Enter" || event.key === " ") {
      if (focused === null) return;
      target.brush(drawing.press(focused, isAdditive(event), target.selection));
    } else if (event.key === "Escape") {
      if (focused === null) return;
      focused = null;
      target.focus(null);
    } else if (event.key === "Backspace" || event.key === "Delete") {
      target.brush(drawing.emptyBrush());
    } else {
      const next = drawing.nextTarget(focused, event.key);
      if (!/^(Arrow|Home|End)/.test(event.key) || next === null) return;
      focused = next;
      target.focus(drawing.targetOf(next));
    }
    event.preventDefault();
    // Notebooks take letters and Enter for their own commands.
    event.stopPropagation();
  });
}

// Chosen keys after a click, given the keys that were chosen before; null is everything.

/** Add the keys if any is missing, else remove them. */
export function toggleKeys<K>(selected: readonly K[] | null, keys: readonly K[]): K[] | null {
  const selectedSet = new Set(selected ?? []);
  const all = keys.every((key) => selectedSet.has(key));
  for (const key of keys) {
    if (all) selectedSet.delete(key);
    else selectedSet.add(key);
  }
  return selectedSet.size === 0 ? null : [...selectedSet];
}

/** Whether these are chosen, and nothing else. */
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
