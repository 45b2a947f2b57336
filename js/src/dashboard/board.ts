/** The grid of panels, and the heights that they get from their neighbours. */

import { isSameJson } from "../connection/store";
import { h } from "../ui/dom";
import type { DashContext } from "./context";
import { type LayoutColumn, type PanelLayout, choiceWithPanel, computeLayout } from "./layout";
import type { PaneSet } from "./panels";

/** Minimum and maximum height of the timeline, px. */
export const MIN_PX = 220;
const MAX_PX = 560;
/** Factor up to which the timeline exceeds its natural height to fill free space. */
const MAX_STRETCH = 1.35;
/** Height up to which it fills free space in any case: there, a rank can be opened. */
const ROOMY_PX = 440;

/** Bands of columns, separated by rules. */
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
    /** The text on panels that the job has no data for. */
    private readonly leftOut: HTMLElement,
  ) {}

  /** Arrange the panels for this width; false if nothing has changed. */
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
   * Set the timeline's height: as given, or by its ranks and the neighbouring columns. Then fill
   * tables. A selection changes the ranks shown, and the height must not follow, unless `isAnew`.
   */
  fitTimeline(isAnew = false): void {
    const { timeline, selectionState, height: given } = this.ctx;
    const isFixed = this.hasFitted && !this.hasColumns && selectionState.selection.value !== null;
    if (isFixed && !isAnew) return;
    this.hasFitted = true;
    const timelineColumn = this.layout?.bands
      .flat()
      .find(({ panels }) => panels.includes("timeline"));
    if (this.hasColumns && timelineColumn !== undefined) {
      const height = this.el.firstElementChild?.clientHeight ?? 0;
      const drawn = timeline.ctx.stage.el.parentElement!.offsetHeight;
      // Panels below the timeline give way to the details of an event.
      const drawer = timeline.panels.shown.peek();
      const isOpen = drawer !== null;
      const inSight = timelineColumn.panels.filter(
        (id) => id === "timeline" || (id === "heatmap" && !isOpen),
      );
      const others = this.heightOf({ panels: inSight });
      timeline.height = Math.max(height - others + drawn, MIN_PX);
      // The drawer has taken room from the lanes: its event's row stays in sight.
      const { brief } = timeline.picking;
      if (isOpen && drawer !== this.drawer && brief !== null) timeline.rows.show(brief.lane);
      this.drawer = drawer;
    } else {
      const needed = Math.min(Math.max(timeline.ctx.stage.contentHeight(), MIN_PX), MAX_PX);
      const maxHeight = Math.max(needed * MAX_STRETCH, ROOMY_PX);
      const availableHeight = timeline.height + this.heightBeside("timeline");
      timeline.height = given.value ?? Math.max(needed, Math.min(availableHeight, maxHeight));
    }
    this.fillTables();
  }

  fillTables(): void {
    this.panes.fillTables((id) => (this.hasColumns ? 0 : this.heightBeside(id)));
  }

  /** Whether columns scroll separately. */
  get hasColumns(): boolean {
    return this.layout?.name === "columns";
  }

  private heightOf({ panels }: Pick<LayoutColumn, "panels">): number {
    return panels.reduce((sum, id) => sum + this.panes.heightOf(id), 0);
  }

  /** Height by which the highest neighbouring column exceeds a panel's own; -Infinity if none. */
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
