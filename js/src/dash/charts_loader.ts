/** The charts, which come after everything else: their library and figures are asked for one by one. */

import { asError } from "../contract";
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
  /** Charts whose figures could not be had; nobody has asked for them again. */
  private readonly failed = new Set<string>();
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
    this.failed.clear();
    void this.start();
    void this.ask();
  }

  /** Draw every chart whose figure and library are here. */
  async start(): Promise<void> {
    const { signal, bokeh, shown, drawn } = this.ways;
    const figures = this.figures;
    const ready = shown().filter((id) => figures[id]?.light !== undefined);
    let library: unknown;
    try {
      library = await bokeh();
    } catch (error) {
      for (const id of ready) this.fail(id, error);
      return;
    }
    if (library === null || signal.aborted) return;
    for (const id of ready) {
      const slot = this.slots.get(id);
      if (slot === undefined) continue;
      await slot.start(library, figures[id]!);
      drawn(id);
    }
  }

  private get figures(): Figures {
    return { ...this.ways.given(), ...this.made };
  }

  /** One by one, so that a kernel answers other questions in between. */
  private async ask(): Promise<void> {
    if (this.asks) return;
    const { signal, shown, done } = this.ways;
    this.asks = true;
    // Panels that come while others are asked for have their turn as well.
    const next = (): string | undefined =>
      shown().find((id) => isChart(id) && this.figures[id] === undefined && !this.failed.has(id));
    for (let id = next(); id !== undefined && !signal.aborted; id = next()) {
      try {
        await this.make(id);
      } catch (error) {
        this.failed.add(id);
        this.fail(id, error);
      }
      await this.start();
    }
    this.asks = false;
    if (!signal.aborted) done();
  }

  private async make(id: string): Promise<void> {
    const { source, signal } = this.ways;
    const { reply } = await source.ask("figures", { panels: [id] }, signal);
    const figure = (reply.figures as Figures)[id];
    if (figure === undefined) throw new Error("No answer for this panel.");
    this.made[id] = figure;
  }

  private fail(id: string, error: unknown): void {
    this.slot(id).fail(asError(error), () => this.load());
  }
}
