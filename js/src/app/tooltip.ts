/** What is under the pointer, beside it; never over the mark itself. */

import { type Child, fill, h } from "./dom";
import { placeTip } from "./gesture_maths";

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
    fill(this.el, ...lines.map((line) => h("div", {}, ...line)));
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
