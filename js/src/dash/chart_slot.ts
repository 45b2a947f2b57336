/** The place of a chart: it waits for BokehJS and the figure, and shows the newest numbers then. */

import { asError } from "../contract";
import { h } from "../app/dom";
import { failure } from "../app/panels/parts";
import type { ThemeName } from "../contract";
import type { Content } from "./pane";
import type { Brush, ChartPanel, Chosen, PanelFrame } from "./types";

export interface FigureItems {
  light: unknown;
  dark: unknown;
}

export type MakeChart = (
  id: string,
  bokeh: unknown,
  items: FigureItems,
  host: HTMLElement,
  onBrush: (brush: Brush) => void,
  theme: ThemeName,
) => Promise<ChartPanel>;

export class ChartSlot implements Content {
  private readonly note = h("p", { class: "hta-note" }, "Adding up…");
  readonly el = h("div", { class: "hta-chart-slot" }, this.note);
  chart: ChartPanel | null = null;
  private latest: { frame: PanelFrame; chosen: Chosen } | null = null;
  private begun = false;

  constructor(
    private readonly id: string,
    private readonly make: MakeChart,
    private readonly onBrush: (brush: Brush) => void,
    private theme: ThemeName,
    private readonly signal: AbortSignal,
  ) {
    signal.addEventListener("abort", () => this.chart?.destroy(), { once: true });
  }

  get hasTitle(): boolean {
    return this.chart !== null;
  }

  /** Library and figure are here. */
  async start(bokeh: unknown, items: FigureItems): Promise<void> {
    if (this.begun) return;
    this.begun = true;
    this.el.replaceChildren(this.note);
    try {
      const chart = await this.make(this.id, bokeh, items, this.el, this.onBrush, this.theme);
      if (this.signal.aborted) {
        chart.destroy();
        return;
      }
      chart.setTheme(this.theme);
      this.chart = chart;
      this.note.remove();
      if (this.latest !== null) chart.show(this.latest.frame, this.latest.chosen);
    } catch (error) {
      this.begun = false;
      if (this.signal.aborted) return;
      this.fail(asError(error), () => void this.start(bokeh, items));
    }
  }

  /** Library or figure cannot be had. */
  fail(error: Error, again: () => void): void {
    if (this.begun || this.signal.aborted) return;
    const retry = (): void => {
      this.el.replaceChildren(this.note);
      again();
    };
    this.el.replaceChildren(failure("The chart could not be drawn", error, retry));
  }

  show(frame: PanelFrame, chosen: Chosen): void {
    this.latest = { frame, chosen };
    this.chart?.show(frame, chosen);
  }

  setTheme(theme: ThemeName): void {
    this.theme = theme;
    this.chart?.setTheme(theme);
  }
}
