/** The tooltip and its position next to the pointer. */

import { signal } from "@preact/signals";
import type { ComponentChild } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { visibleRect } from "./placing";

export type TooltipLine = readonly ComponentChild[];

interface TooltipPlacement {
  pointer: { x: number; y: number };
  /** Top and bottom of the mark that the tooltip must not cover. */
  mark: { top: number; bottom: number } | null;
  lines: readonly TooltipLine[];
}

export class TooltipState {
  readonly shown = signal<TooltipPlacement | null>(null);

  show(
    pointer: TooltipPlacement["pointer"],
    mark: TooltipPlacement["mark"],
    lines: readonly TooltipLine[],
  ): void {
    this.shown.value = { pointer, mark, lines };
  }

  hide(): void {
    this.shown.value = null;
  }
}

export function TooltipView({ tooltip }: { tooltip: TooltipState }) {
  const place = useRef<HTMLDivElement>(null);
  const { value: shown } = tooltip.shown;
  useLayoutEffect(() => {
    if (shown === null) return;
    const { current: el } = place;
    const frame = el!.parentElement!;
    const { left, top } = placeTooltip(
      shown.pointer,
      { width: el!.offsetWidth, height: el!.offsetHeight },
      { width: frame.clientWidth, ...visibleHeights(frame, shown.pointer.y) },
      shown.mark,
    );
    el!.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }, [shown]);
  return (
    <div ref={place} class="hta-tooltip" role="tooltip" hidden={shown === null}>
      {shown?.lines.map((line) => (
        <div>{line}</div>
      ))}
    </div>
  );
}

/** Return the part of a frame around `y` that is not hidden by the window or a panel. */
function visibleHeights(frame: HTMLElement, y: number): { top: number; height: number } {
  const from = frame.getBoundingClientRect().top;
  const height = visibleRect(frame).bottom - from;
  const panel = frame.parentElement?.querySelector(":scope > .hta-over")?.getBoundingClientRect();
  if (panel === undefined) return { top: 0, height };
  return panel.top - from > y
    ? { top: 0, height: Math.min(height, panel.top - from) }
    : { top: panel.bottom - from, height };
}

const GAP_PX = 12;
/** Distance from the mark and from the edges of the frame. */
const MARGIN_PX = 4;

/**
 * Return a tooltip's position: right of and below the pointer and its mark, or on the other side if
 * it would cross an edge of the frame. The visible part of the frame begins at `top`.
 */
export function placeTooltip(
  pointer: { x: number; y: number },
  size: { width: number; height: number },
  frame: { width: number; height: number; top?: number },
  mark: { top: number; bottom: number } | null,
): { left: number; top: number } {
  const maxLeft = frame.width - MARGIN_PX - size.width;
  const right = pointer.x + GAP_PX;
  const wishedLeft = right > maxLeft ? pointer.x - GAP_PX - size.width : right;
  const left = Math.max(MARGIN_PX, Math.min(wishedLeft, maxLeft));
  const { top: markTop, bottom: markBottom } = mark ?? { top: Infinity, bottom: -Infinity };
  const below = Math.max(pointer.y + GAP_PX, markBottom + MARGIN_PX);
  const above = Math.min(pointer.y - GAP_PX, markTop - MARGIN_PX) - size.height;
  const fitsBelow = below + size.height <= frame.height - MARGIN_PX;
  return { left, top: fitsBelow || above < (frame.top ?? 0) + MARGIN_PX ? below : above };
}
