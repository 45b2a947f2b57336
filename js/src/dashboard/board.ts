/** The grid of panels, and the heights that they get from their neighbours. */

import { same } from "../connection/store";
import { h } from "../ui/dom";
import type { Context } from "./context";
import { type Column, type Layout, layoutOf } from "./layout";
import type { Panes } from "./panels";

/** Heights of the timeline. px. */
export const LEAST_PX = 220;
const MOST_PX = 560;
/** Factor up to which the timeline exceeds its natural height to fill free space. */
const STRETCH = 1.35;
/** Height up to which it fills free space in any case: there, a rank can be opened. */
const ROOMY_PX = 440;

/** Bands of columns, separated by rules. */
export class Board {
  readonly el = h("div", { class: "hta-board" });
  private layout: Layout | null = null;
  private fitted = false;

  constructor(
    private readonly ctx: Context,
    private readonly panes: Panes,
    private readonly status: HTMLElement,
  ) {}

  /** Arrange the panels for this width; false if nothing has changed. */
  arrange(width: number, isFull: boolean): boolean {
    const { ctx, status } = this;
    if (width <= 0) return false;
    const layout = layoutOf(width, ctx.choice.value, isFull);
    if (same(layout, this.layout)) return false;
    this.layout = layout;
    ctx.root.classList.toggle("hta-dash-one", layout.name === "one");
    ctx.root.classList.toggle("hta-dash-wide", layout.name === "wide");
    ctx.root.classList.toggle("hta-dash-columns", layout.name === "full");
    const bands: HTMLElement[] = layout.bands.map((columns) => {
      const band = h("div", { class: "hta-band" });
      band.style.gridTemplateColumns = columns.map((column) => column.width).join(" ");
      for (const { panels } of columns) {
        const panes = panels.map((id) => this.panes.pane(id));
        band.append(h("div", { class: "hta-band-column" }, ...panes));
      }
      return band;
    });
    bands.splice(layout.statusAfter + 1, 0, status);
    this.el.replaceChildren(...bands);
    return true;
  }

  /**
   * Set the timeline's height: as given, or by its ranks and the neighbouring columns. Then fill
   * tables. A selection changes the ranks shown, and the height must not follow, unless `anew`.
   */
  fit(anew = false): void {
    const { timeline, choosing, height: given } = this.ctx;
    if (!anew && this.fitted && choosing.selection.value !== null) return;
    this.fitted = true;
    const own = this.layout?.bands.flat().find(({ panels }) => panels.includes("timeline"));
    if (this.layout?.name === "full" && own !== undefined) {
      const height = this.el.firstElementChild?.clientHeight ?? 0;
      timeline.height = Math.max(timeline.height + height - this.heightOf(own), LEAST_PX);
    } else {
      const needed = Math.min(Math.max(timeline.ctx.stage.contentHeight(), LEAST_PX), MOST_PX);
      const most = Math.max(needed * STRETCH, ROOMY_PX);
      const room = timeline.height + this.roomBeside("timeline");
      timeline.height = given.value ?? Math.max(needed, Math.min(room, most));
    }
    this.fillTables();
  }

  fillTables(): void {
    const isFull = this.layout?.name === "full";
    this.panes.fillTables((id) => (isFull ? 0 : this.roomBeside(id)));
  }

  private heightOf({ panels }: Column): number {
    return panels.reduce((sum, id) => sum + this.panes.heightOf(id), 0);
  }

  /** Height by which the highest neighbouring column exceeds a panel's own; -Infinity if none. */
  private roomBeside(id: string): number {
    const has = ({ panels }: Column): boolean => panels.includes(id);
    const band = this.layout?.bands.find((columns) => columns.some(has)) ?? [];
    const own = band.find(has);
    if (own === undefined) return -Infinity;
    const others = band.filter((one) => one !== own).map((one) => this.heightOf(one));
    return Math.max(...others) - this.heightOf(own);
  }
}
