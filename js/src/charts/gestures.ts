/** Turn clicks, drags and keys on a chart into brushes. */

import type { Brush, Chosen } from "../protocol/source";
import type { Box, Drawing, Picked, Spot } from "./content";

/** A press that moves farther than this is a drag. px. */
const SLOP = 4;

/** A chart that is brushed. */
export interface Board {
  readonly plot: HTMLElement;
  readonly drawing: Drawing | null;
  readonly chosen: Chosen;
  brush(brush: Brush): void;
  /** Set the spot under the pointer. */
  hover(spot: Spot | null, at: Picked | null): void;
  /** Set the spot with the keyboard focus. */
  focus(spot: Spot | null): void;
  /** Show what a drag would select. */
  drag(box: Box | null): void;
}

export function watchGestures(board: Board, signal: AbortSignal): void {
  const { plot } = board;
  let down: (Picked & { id: number; moved: boolean }) | null = null;
  let focused: number | null = null;

  const at = (event: MouseEvent): Picked => {
    const box = plot.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const more = (event: MouseEvent | KeyboardEvent): boolean =>
    event.ctrlKey || event.metaKey || event.shiftKey;
  const listen = <K extends keyof HTMLElementEventMap>(
    type: K,
    listener: (event: HTMLElementEventMap[K]) => void,
  ): void => plot.addEventListener(type, listener, { signal });

  const stop = (): void => {
    if (down !== null && plot.hasPointerCapture(down.id)) plot.releasePointerCapture(down.id);
    down = null;
    board.drag(null);
  };

  listen("pointerdown", (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    down = { ...at(event), id: event.pointerId, moved: false };
    focused = null;
    board.focus(null);
  });
  listen("pointermove", (event) => {
    const here = at(event);
    if (down !== null && event.pointerId === down.id) {
      const far = Math.hypot(here.x - down.x, here.y - down.y) > SLOP;
      if (far && !down.moved) {
        down.moved = true;
        plot.setPointerCapture(down.id);
        board.hover(null, null);
      }
      if (down.moved) board.drag(board.drawing?.dragBox(down, here) ?? null);
      return;
    }
    board.hover(board.drawing?.spot(here.x, here.y) ?? null, here);
  });
  listen("pointerup", (event) => {
    const drawing = board.drawing;
    const from = down;
    stop();
    if (from === null || drawing === null || event.pointerId !== from.id) return;
    const here = at(event);
    const brush = from.moved
      ? drawing.drag(from, here, more(event), board.chosen)
      : drawing.click(here.x, here.y, more(event), board.chosen);
    if (brush !== null) board.brush(brush);
  });
  listen("pointercancel", stop);
  listen("pointerleave", () => {
    if (down?.moved !== true) board.hover(null, null);
  });
  listen("blur", () => {
    focused = null;
    board.focus(null);
  });
  listen("keydown", (event) => {
    const drawing = board.drawing;
    if (drawing === null || event.altKey) return;
    if (event.key === "Escape" && down !== null) {
      stop();
    } else if (event.key === "Enter" || event.key === " ") {
      if (focused === null) return;
      board.brush(drawing.press(focused, more(event), board.chosen));
    } else if (event.key === "Escape") {
      if (focused === null) return;
      focused = null;
      board.focus(null);
    } else if (event.key === "Backspace" || event.key === "Delete") {
      board.brush(drawing.nothing());
    } else {
      const next = drawing.step(focused, event.key);
      if (!/^(Arrow|Home|End)/.test(event.key) || next === null) return;
      focused = next;
      board.focus(drawing.spotOf(next));
    }
    event.preventDefault();
    // Notebooks take letters and Enter for their own commands.
    event.stopPropagation();
  });
}

// Chosen keys after a click, given the keys that were chosen before; null is everything.

/** Add the keys if any is missing, else remove them. */
export function toggled<K>(before: readonly K[] | null, keys: readonly K[]): K[] | null {
  const found = new Set(before ?? []);
  const all = keys.every((key) => found.has(key));
  for (const key of keys) {
    if (all) found.delete(key);
    else found.add(key);
  }
  return found.size === 0 ? null : [...found];
}

/** Whether these are chosen, and nothing else. */
export function stillOnly<K>(before: readonly K[] | null, keys: readonly K[]): boolean {
  if (before === null) return false;
  const found = new Set(before);
  const wanted = new Set(keys);
  return found.size === wanted.size && [...wanted].every((key) => found.has(key));
}

export function isSame(before: Chosen["window"], window: Chosen["window"]): boolean {
  return before?.[0] === window?.[0] && before?.[1] === window?.[1];
}
