/** A pin that appears at the row under the pointer, in the gutter. */

import type { RowInfo } from "../contract";
import type { Context } from "./context";
import { button } from "./controls";
import { aria } from "./dom";
import { pinName, type Rows } from "./rows";

const WIDTH = 24;
const PROBES = 400;

export class PinButton {
  readonly el: HTMLButtonElement;
  private row: RowInfo | null = null;

  constructor(
    private readonly ctx: Context,
    private readonly rows: Rows,
  ) {
    this.el = button({ icon: "pin", name: "Pin to the top", key: "P", press: () => this.toggle() });
    this.el.classList.add("hta-pin");
    this.el.tabIndex = -1;
    this.el.hidden = true;
    this.el.addEventListener("pointerleave", () => this.show(null, null));
  }

  /** At this row, seen from this point of the gutter; nowhere for null. */
  show(row: RowInfo | null, point: { x: number; y: number } | null): void {
    const { stage, shared } = this.ctx;
    if (row === null || point === null) {
      this.row = null;
      this.el.hidden = true;
      return;
    }
    if (this.row !== null && pinName(this.row) === pinName(row) && !this.el.hidden) return;
    this.row = row;
    const pinned = shared.state.pinned.includes(pinName(row));
    aria(this.el, "pressed", pinned);
    this.el.title = pinned ? "Unpin (P)" : "Pin to the top (P)";
    const right = stage.xOf(stage.view()[0]);
    this.el.style.left = `${right - WIDTH - 2}px`;
    this.el.style.top = `${this.top(row, point) + 1}px`;
    this.el.hidden = false;
  }

  /** Where the row begins on screen. */
  private top(row: RowInfo, point: { x: number; y: number }): number {
    let y = point.y;
    for (let probe = 0; probe < PROBES && y > 0; probe += 1) {
      const above = this.ctx.stage.hit(point.x, y - 1).row;
      if (above === null || above.rank !== row.rank || above.track?.key !== row.track?.key) break;
      y -= 1;
    }
    return y;
  }

  private toggle(): void {
    if (this.row !== null) this.rows.togglePin(this.row);
    this.show(null, null);
  }
}
