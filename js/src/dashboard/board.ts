/** The grid of panels. The height of some panels depends on adjacent panels. */

import { isSameJson } from "../connection/store";
import { h } from "../ui/dom";
import type { DashContext } from "./context";
import { type LayoutColumn, type PanelLayout, choiceWithPanel, computeLayout } from "./layout";
import type { PaneSet } from "./panels";

/** Minimum and maximum height of the timeline, in px. */
export const MIN_PX = 220;
const MAX_PX = 560;
/** The timeline may exceed its natural height by this factor to fill free space. */
const MAX_STRETCH = 1.35;
/** Free space up to this height is always filled, to leave room for opening a rank. */
const ROOMY_PX = 440;

/** Panels in bands of columns, separated by lines. */
export class PanelGrid {
  readonly el = h("div", { class: "hta-board" });
  private layout: PanelLayout | null = null;
  private hasFitted = false;
  /** The contents of the drawer below the lanes at the last fit. */
  private drawer: string | null = null;

  constructor(
    private readonly ctx: DashContext,
    private readonly panes: PaneSet,
    private readonly status: HTMLElement,
    /** Element that names the panels for which the job has no data. */
    private readonly leftOut: HTMLElement,
  ) {}

  /** Arrange the panels for this width. Return false if nothing has changed. */
  arrange(width: number, fills: boolean): boolean {
    const { ctx, status } = this;
    if (width <= 0) return false;
    const choice = ctx.idlePanels.value.reduce(
      (panels, id) => choiceWithPanel(panels, id, false),
      ctx.panelChoice.value,
    );
    const layout = computeLayout(width, choice, fills);
    if (isSameJson(layout, this.layout)) return false;
    this.layout = layout;
    ctx.root.classList.toggle("hta-dash-one", layout.name === "one");
    ctx.root.classList.toggle("hta-dash-columns", layout.name === "columns");
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
    this.el.replaceChildren(...bands, this.leftOut);
    if (this.hasColumns) bands[0]!.firstElementChild?.append(this.leftOut);
    return true;
  }

  /**
   * Set the timeline's height, then fill the tables. A selection changes which ranks are shown, but
   * not the height, unless `always` is set.
   */
  fitTimeline({ always = false } = {}): void {
    const { timeline, selectionState, height: chosenHeight } = this.ctx;
    const hasSelection = selectionState.selection.value !== null;
    if (this.hasFitted && !this.hasColumns && hasSelection && !always) return;
    this.hasFitted = true;
    const columns = this.layout?.bands.flat() ?? [];
    const ownColumn = columns.find(({ panels }) => panels.includes("timeline"));
    if (this.hasColumns && ownColumn !== undefined) this.fillColumn(ownColumn);
    else timeline.height = chosenHeight.value ?? this.naturalHeight();
    this.fillTables();
  }

  /** Make the timeline fill its column, above a heatmap (at most half of it) or event details. */
  private fillColumn({ panels }: LayoutColumn): void {
    const { timeline } = this.ctx;
    const drawer = timeline.panels.shown.peek();
    const inSight = panels.filter(
      (id) => id === "timeline" || (id === "heatmap" && drawer === null),
    );
    const drawnHeight = timeline.ctx.stage.el.parentElement!.offsetHeight;
    const otherHeight = this.heightOf({ panels: inSight }) - drawnHeight;
    const columnHeight = this.el.firstElementChild?.clientHeight ?? 0;
    const minHeight = drawer === null ? columnHeight / 2 : MIN_PX;
    timeline.height = Math.max(columnHeight - otherHeight, minHeight);
    // Opening a drawer makes the lanes lower, so scroll the row of its event into view.
    const { brief } = timeline.picking;
    if (drawer !== null && drawer !== this.drawer && brief !== null) timeline.rows.show(brief.lane);
    this.drawer = drawer;
  }

  /** Return the height of all timeline rows, stretched a little to match adjacent panels. */
  private naturalHeight(): number {
    const { timeline } = this.ctx;
    const needed = Math.min(Math.max(timeline.ctx.stage.contentHeight(), MIN_PX), MAX_PX);
    const maxHeight = Math.max(needed * MAX_STRETCH, ROOMY_PX);
    const availableHeight = timeline.height + this.heightBeside("timeline");
    return Math.max(needed, Math.min(availableHeight, maxHeight));
  }

  fillTables(): void {
    this.panes.fillTables((id) => (this.hasColumns ? 0 : this.heightBeside(id)));
  }

  /** Return whether each column scrolls separately. */
  get hasColumns(): boolean {
    return this.layout?.name === "columns";
  }

  private heightOf({ panels }: Pick<LayoutColumn, "panels">): number {
    return panels.reduce((sum, id) => sum + this.panes.heightOf(id), 0);
  }

  /** Return how much taller than a panel's the tallest adjacent column is; -Infinity if none. */
  private heightBeside(id: string): number {
    const has = ({ panels }: LayoutColumn): boolean => panels.includes(id);
    const band = this.layout?.bands.find((columns) => columns.some(has)) ?? [];
    const ownColumn = band.find(has);
    if (ownColumn === undefined) return -Infinity;
    const others = band
      .filter((column) => column !== ownColumn)
      .map((column) => this.heightOf(column));
    return Math.max(...others) - this.heightOf(ownColumn);
  }
}
