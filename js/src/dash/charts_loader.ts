/** The charts, which come after everything else: their library and figures are asked for one by one. */

import type { Source, ThemeName } from "../contract";
import { isChart } from "./catalog";
import { ChartSlot, type FigureItems, type MakeChart } from "./chart_slot";
import type { Brush } from "./types";

type Figures = Record<string, FigureItems | undefined>;

export interface LoaderWays {
  source: Source;
  signal: AbortSignal;
  makeChart: MakeChart;
  /** BokehJS, once there is a widget that carries it. */
  bokeh(): Promise<unknown> | null;
  /** Figures that came with the page. */
  given(): Figures;
  /** Panels on the board, in its order. */
  shown(): string[];
  brush(id: string, brush: Brush): void;
  /** A chart is drawn. */
  drawn(id: string): void;
  /** All of them are there, or there is nobody to make them. */
  done(): void;
}

export class ChartsLoader {
  private readonly slots = new Map<string, ChartSlot>();
  /** Figures that the kernel has made for this view. */
  private readonly made: Figures = {};
  private asks = false;

  constructor(
    private readonly ways: LoaderWays,
    private theme: ThemeName,
  ) {}

  /** The place for a chart. */
  slot(id: string): ChartSlot {
    const known = this.slots.get(id);
    if (known !== undefined) return known;
    const { makeChart, brush, signal } = this.ways;
    const slot = new ChartSlot(id, makeChart, (asked) => brush(id, asked), this.theme, signal);
    this.slots.set(id, slot);
    return slot;
  }

  /** The chart in its place, if it is drawn. */
  chart(id: string): ChartSlot["chart"] {
    return this.slots.get(id)?.chart ?? null;
  }

  setTheme(theme: ThemeName): void {
    this.theme = theme;
    for (const slot of this.slots.values()) slot.setTheme(theme);
  }

  /** Draw what can be drawn, and ask for the rest. */
  load(): void {
    void this.start();
    void this.ask();
  }

  /** Draw every chart whose figure and library are here. */
  async start(): Promise<void> {
    const { signal, bokeh, shown, drawn } = this.ways;
    const library = await bokeh();
    if (library === null || signal.aborted) return;
    const figures = this.figures;
    for (const id of shown()) {
      const [slot, items] = [this.slots.get(id), figures[id]];
      if (slot === undefined || items?.light === undefined) continue;
      await slot.start(library, items);
      drawn(id);
    }
  }

  private get figures(): Figures {
    return { ...this.ways.given(), ...this.made };
  }

  /** One by one, so that a kernel answers other questions in between. */
  private async ask(): Promise<void> {
    if (this.asks) return;
    const { source, signal, shown, done } = this.ways;
    this.asks = true;
    try {
      const { figures } = this;
      for (const id of shown().filter((one) => isChart(one) && figures[one] === undefined)) {
        const { reply } = await source.ask("figures", { panels: [id] }, signal);
        Object.assign(this.made, reply.figures);
        await this.start();
      }
    } catch {
      // Numbers say themselves what is the matter with the kernel.
    } finally {
      this.asks = false;
      if (!signal.aborted) done();
    }
  }
}
