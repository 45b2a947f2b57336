/** The tooltip and its place next to the pointer. */

import { type Child, fill, h } from "./dom";

export class Tooltip {
  readonly el: HTMLElement;

  constructor(private readonly frame: HTMLElement) {
    this.el = h("div", { class: "hta-tooltip", role: "tooltip", hidden: true });
  }

  show(
    pointer: { x: number; y: number },
    mark: { top: number; bottom: number } | null,
    lines: readonly Child[][],
  ): void {
    fill(this.el, ...lines.map((line) => h("div", {}, ...line.map(unbroken))));
    this.el.hidden = false;
    const tip = { width: this.el.offsetWidth, height: this.el.offsetHeight };
    const frame = { width: this.frame.clientWidth, height: this.frame.clientHeight };
    const { left, top } = placeTip(pointer, tip, frame, mark);
    this.el.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  hide(): void {
    this.el.hidden = true;
  }
}

/** A number stays with its unit. */
function unbroken(child: Child): Child {
  return typeof child === "string" ? child.replaceAll("\u2009", "\u202f") : child;
}

/**
 * Return the place of a tooltip: right of and below the pointer and its mark, flipped at the edges
 * of the frame. The tooltip never covers the mark at the height of the pointer.
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
