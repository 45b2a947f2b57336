/** One chart of a dashboard: its Bokeh figure, tooltips and gestures, and when it is drawn. */

import { isChart } from "../facts/panels";
import {
  asError,
  type Brush,
  type ChartPanel,
  type Chosen,
  type PanelFrame,
  type Source,
  type ThemeName,
  type Value,
} from "../protocol/source";
import { type Content, failure } from "../ui/controls";
import { fill, h } from "../ui/dom";
import { formatCount, formatDuration, formatShare } from "../ui/formats";
import { watchBoxes } from "../ui/host";
import { applyTheme, type Theme, THEMES } from "../ui/theme";
import { placeTip } from "../ui/tooltip";
import { type Bokeh, Sheet } from "./bokeh";
import style from "./charts.css?raw";
import type { Box, Drawing, Picked, Spot } from "./content";
import { causeWords } from "./defined";
import { kindWords } from "./language";
import { watchGestures } from "./gestures";

export type Items = Readonly<Record<ThemeName, unknown>>;

/** A drawing of a frame; a sentence where there is nothing to draw. */
export type Make = (frame: PanelFrame, theme: Theme, width: number) => Drawing | string;

const EVERYTHING: Chosen = { ranks: null, names: null, kinds: null, window: null };

export class ChartFrame implements ChartPanel {
  readonly el: HTMLElement;
  private readonly view = h("div", { class: "hta-chart-view" });
  private readonly plot = h("div", { class: "hta-chart-plot", role: "img", tabindex: 0 });
  private readonly note = h("div", { class: "hta-chart-note", hidden: true });
  private readonly hovered = h("div", { class: "hta-chart-box hta-chart-hover", hidden: true });
  private readonly focused = h("div", { class: "hta-chart-box hta-chart-focus", hidden: true });
  private readonly brushed = h("div", { class: "hta-chart-box hta-chart-brush", hidden: true });
  private readonly tip = h("div", { class: "hta-chart-tip", role: "tooltip", hidden: true });
  private readonly said = h("div", { class: "hta-chart-words", "aria-live": "polite" });
  private readonly button = h("button", { class: "hta-chart-show", type: "button" }, "Show table");
  private readonly table = h("div", { class: "hta-chart-table", hidden: true });
  private readonly ended = new AbortController();

  private sheet: Sheet | null = null;
  private canvas: HTMLElement | null = null;
  private frame: PanelFrame | null = null;
  private chosen: Chosen = EVERYTHING;
  private drawing: Drawing | null = null;
  private width = 0;
  private height = 0;
  /** Width that the sheet was last given: it keeps that until it is told. */
  private drawnWidth = 0;
  private embedding = 0;

  constructor(
    private readonly bokeh: Bokeh,
    private readonly items: Items,
    private readonly make: Make,
    private readonly title: string,
    host: HTMLElement,
    private readonly onBrush: (brush: Brush) => void,
    private theme: ThemeName,
  ) {
    const { view, plot, note, hovered, focused, brushed, tip, said, button, table } = this;
    put(plot, hovered, focused, brushed);
    put(view, plot);
    this.el = h("div", { class: "hta-chart" }, h("style", {}, style));
    put(this.el, view, note, button, tip, said, table);
    applyTheme(this.el, theme);
    host.append(this.el);
    const { signal } = this.ended;
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => this.toggleTable(), { signal });
    watchBoxes([view], () => this.fit(), signal);
    watchGestures(
      {
        plot,
        drawing: () => this.drawing,
        chosen: () => this.chosen,
        brush: (brush) => this.onBrush(brush),
        hover: (spot, at) => this.hover(spot, at),
        focus: (spot) => this.focus(spot),
        dragging: (from, to) => {
          place(brushed, to === null ? null : (this.drawing?.dragBox(from, to) ?? null));
        },
      },
      signal,
    );
  }

  async embed(): Promise<void> {
    this.embedding += 1;
    const turn = this.embedding;
    const canvas = h("div", { class: "hta-chart-canvas" });
    this.plot.prepend(canvas);
    const sheet = await Sheet.embed(this.bokeh, this.items[this.theme], canvas);
    if (turn !== this.embedding) {
      sheet.destroy();
      canvas.remove();
      return;
    }
    this.sheet?.destroy();
    this.canvas?.remove();
    this.sheet = sheet;
    this.canvas = canvas;
    this.drawing = null;
    this.height = 0;
    this.redraw();
  }

  show(frame: PanelFrame, chosen: Chosen): void {
    const same = frame === this.frame && this.drawing !== null;
    this.frame = frame;
    this.chosen = chosen;
    if (same && this.sheet !== null) this.drawing?.mark(this.sheet, chosen);
    else this.redraw();
    if (!this.table.hidden) fillTable(this.table, frame);
  }

  setTheme(theme: ThemeName): void {
    if (theme === this.theme) return;
    this.theme = theme;
    applyTheme(this.el, theme);
    void this.embed();
  }

  toPng(): Promise<Blob> {
    return this.drawn().blob("png");
  }

  toSvg(): Promise<Blob> {
    return this.drawn().blob("svg");
  }

  destroy(): void {
    this.embedding += 1;
    this.ended.abort();
    this.sheet?.destroy();
    this.sheet = null;
    this.drawing = null;
    this.el.remove();
  }

  private drawn(): Sheet {
    if (this.sheet === null || this.drawing === null) throw new Error("the chart is empty");
    return this.sheet;
  }

  private fit(): void {
    const width = Math.floor(this.view.clientWidth);
    if (width === 0 || width === this.width) return;
    this.width = width;
    this.redraw();
  }

  private redraw(): void {
    const { frame, sheet } = this;
    if (frame === null || sheet === null) return;
    if (this.width === 0) this.width = Math.floor(this.view.clientWidth);
    if (this.width === 0) return;
    const made = this.make(frame, THEMES[this.theme], this.width);
    this.hover(null, null);
    this.focus(null);
    if (typeof made === "string") {
      this.drawing = null;
      this.say(made);
      return;
    }
    this.note.hidden = true;
    this.view.hidden = false;
    const height = made.layout(this.width);
    if (this.drawing !== null) made.follow(this.drawing);
    this.drawing = made;
    if (height !== this.height || this.drawnWidth !== this.width) {
      this.height = height;
      this.drawnWidth = this.width;
      this.plot.style.height = `${height}px`;
      sheet.size(this.width, height);
    }
    made.draw(sheet, this.chosen);
    const label = `${made.title}: ${made.finding}`;
    if (this.plot.getAttribute("aria-label") !== label) this.plot.setAttribute("aria-label", label);
  }

  /** The sentence in the chart's place. */
  private say(words: string): void {
    this.view.hidden = true;
    this.note.hidden = false;
    const sentence = words.charAt(0).toUpperCase() + words.slice(1);
    fill(this.note, h("b", {}, this.title), h("p", {}, sentence));
  }

  private hover(spot: Spot | null, at: Picked | null): void {
    place(this.hovered, spot?.box ?? null);
    this.tip.hidden = true;
    if (spot === null || at === null) return;
    this.showTip(spot, at);
  }

  private focus(spot: Spot | null): void {
    place(this.focused, spot?.box ?? null);
    if (spot === null) {
      if (this.hovered.hidden) this.tip.hidden = true;
      return;
    }
    const { left, top, width, height } = spot.box;
    this.showTip(spot, { x: left + Math.min(width, 240) / 2, y: top + height / 2 });
    this.said.textContent = [
      spot.tip.heading,
      ...spot.tip.lines.map(([what, value]) => `${what} ${value}`),
    ].join(", ");
    this.focused.scrollIntoView({ block: "nearest" });
  }

  private showTip(spot: Spot, at: Picked): void {
    const { tip } = this;
    const lines = spot.tip.lines.flatMap(([what, value]) => [
      h("dt", {}, what),
      h("dd", {}, value),
    ]);
    fill(tip, h("b", {}, spot.tip.heading), h("dl", {}, ...lines));
    tip.hidden = false;
    const scrolled = this.view.scrollTop;
    const size = { width: tip.offsetWidth, height: tip.offsetHeight };
    const room = {
      width: this.el.clientWidth,
      height: Math.max(this.el.clientHeight, at.y - scrolled + size.height + 16),
    };
    const mark = {
      top: spot.box.top - scrolled,
      bottom: spot.box.top - scrolled + spot.box.height,
    };
    const placed = placeTip({ x: at.x, y: at.y - scrolled }, size, room, mark);
    tip.style.transform = `translate(${Math.round(placed.left)}px, ${Math.round(placed.top)}px)`;
  }

  private toggleTable(): void {
    const open = this.table.hidden;
    this.table.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    this.button.textContent = open ? "Hide table" : "Show table";
    if (open && this.frame !== null) fillTable(this.table, this.frame);
  }
}

function put(parent: HTMLElement, ...children: HTMLElement[]): void {
  parent.append(...children);
}

function place(el: HTMLElement, box: Box | null): void {
  el.hidden = box === null;
  if (box === null) return;
  el.style.left = `${box.left}px`;
  el.style.top = `${box.top}px`;
  el.style.width = `${box.width}px`;
  el.style.height = `${box.height}px`;
}

// A chart's numbers as a table, for those who read rather than see.

const MOST = 500;

export function fillTable(el: HTMLElement, frame: PanelFrame): void {
  const names = Object.keys(frame.columns).filter((name) => plain(frame, name));
  const rows = Math.min(frame.rows, MOST);
  const text = (name: string): string =>
    names.length > 0 && typeof frame.columns[name]?.[0] === "string" ? "hta-chart-text" : "";
  const head = h("tr", {}, ...names.map((name) => h("th", { class: text(name) }, words(name))));
  const body = Array.from({ length: rows }, (_, row) =>
    h(
      "tr",
      {},
      ...names.map((name) =>
        h("td", { class: text(name) }, told(name, frame.columns[name]?.[row] ?? null)),
      ),
    ),
  );
  const more =
    frame.rows > rows ? [h("p", {}, `${formatCount(frame.rows - rows)} more rows not listed`)] : [];
  fill(el, h("table", {}, h("thead", {}, head), h("tbody", {}, ...body)), ...more);
}

function plain(frame: PanelFrame, name: string): boolean {
  return frame.columns[name]?.length === frame.rows;
}

function words(name: string): string {
  return name.replace(/_(ns|share)$/, "").replaceAll("_", " ");
}

function told(name: string, value: Value): string {
  if (typeof value === "string") {
    if (name === "idle_category") return causeWords(value);
    return name === "kernel_type" ? kindWords(value) : value;
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (name.endsWith("_ns")) return formatDuration(value);
  if (name.endsWith("_share") || name === "share") return formatShare(value);
  if (value === null) return "–";
  return Number.isInteger(value) ? formatCount(value) : String(Number(value.toPrecision(4)));
}

// The charts, which come after everything else: their library and figures are asked for one by
// one.

type Figures = Record<string, FigureItems | undefined>;

interface LoaderWays {
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

// The place of a chart: it waits for BokehJS and the figure, and shows the newest numbers then.

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
