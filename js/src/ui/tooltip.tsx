/** The tooltip and its place next to the pointer. */

import { signal } from "@preact/signals";
import type { ComponentChild } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export type TipLine = readonly ComponentChild[];

interface Shown {
  pointer: { x: number; y: number };
  /** Box of the mark that it must not cover. */
  mark: { top: number; bottom: number } | null;
  lines: readonly TipLine[];
}

export class Tooltip {
  readonly shown = signal<Shown | null>(null);

  show(pointer: Shown["pointer"], mark: Shown["mark"], lines: readonly TipLine[]): void {
    this.shown.value = { pointer, mark, lines };
  }

  hide(): void {
    this.shown.value = null;
  }
}

/** A tooltip in the element around it. */
export function Tip({ tooltip }: { tooltip: Tooltip }) {
  const place = useRef<HTMLDivElement>(null);
  const { value: shown } = tooltip.shown;
  useLayoutEffect(() => {
    if (shown === null) return;
    const { current: el } = place;
    const frame = el!.parentElement!;
    const { left, top } = placeTip(
      shown.pointer,
      { width: el!.offsetWidth, height: el!.offsetHeight },
      { width: frame.clientWidth, height: frame.clientHeight },
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

const GAP_PX = 12;

/**
 * Return the place of a tooltip: right of and below the pointer and its mark, flipped at the edges
 * of the frame. The tooltip never covers the mark at the height of the pointer.
 */
export function placeTip(
  pointer: { x: number; y: number },
  tip: { width: number; height: number },
  frame: { width: number; height: number },
  mark: { top: number; bottom: number } | null,
): { left: number; top: number } {
  let left = pointer.x + GAP_PX;
  if (left + tip.width > frame.width - 4) left = pointer.x - GAP_PX - tip.width;
  left = Math.max(4, Math.min(left, frame.width - tip.width - 4));
  const below = Math.max(pointer.y + GAP_PX, mark === null ? 0 : mark.bottom + 4);
  const above = Math.min(pointer.y - GAP_PX, mark === null ? Infinity : mark.top - 4) - tip.height;
  const fitsBelow = below + tip.height <= frame.height - 4;
  return { left, top: fitsBelow || above < 4 ? below : above };
}
