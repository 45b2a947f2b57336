/** One chart of a dashboard: its canvas, tooltips and gestures, and its place. */

import type { ReadonlySignal } from "@preact/signals";
import {
  asError,
  type Brush,
  type ChartPanel,
  type Chosen,
  type PanelFrame,
  type ThemeName,
  type Value,
} from "../protocol/source";
import { failure } from "../ui/controls";
import { fill, h } from "../ui/dom";
import { formatCount, formatDuration, formatShare } from "../ui/formats";
import { watchBoxes } from "../ui/host";
import { react } from "../ui/react";
import { sentence } from "../ui/text";
import { type Theme, THEMES } from "../ui/theme";
import { placeTip } from "../ui/tooltip";
import type { Box, Drawing, Picked, Spot } from "./content";
import { causeWords } from "./defined";
import { kindWords } from "./language";
import { type Board, watchGestures } from "./gestures";
import type { Pen } from "./paint";

/** A drawing of a frame; a sentence if there is nothing to draw. */
export type Make = (frame: PanelFrame, theme: Theme) => Drawing | string;

/** Records what is painted as SVG. */
type Recorder = (
  size: { width: number; height: number },
  title: string,
  paint: (pen: Pen) => void,
) => string;

const EVERYTHING: Chosen = { ranks: null, names: null, kinds: null, window: null };

export class ChartFrame implements ChartPanel, Board {
  private readonly canvas = h("canvas", { class: "hta-chart-canvas" });
  private readonly hovered = h("div", { class: "hta-chart-box hta-chart-hover", hidden: true });
  private readonly focused = h("div", { class: "hta-chart-box hta-chart-focus", hidden: true });
  private readonly brushed = h("div", { class: "hta-chart-box hta-chart-brush", hidden: true });
  readonly plot = h(
    "div",
    { class: "hta-chart-plot", role: "img", tabindex: 0 },
    this.canvas,
    this.hovered,
    this.focused,
    this.brushed,
  );
  private readonly view = h("div", { class: "hta-chart-view" }, this.plot);
  private readonly note = h("div", { class: "hta-chart-note", hidden: true });
  private readonly button = h(
    "button",
    { class: "hta-chart-show", type: "button", "aria-expanded": "false" },
    "Show table",
  );
  private readonly tip = h("div", { class: "hta-chart-tip", role: "tooltip", hidden: true });
  private readonly said = h("div", { class: "hta-hidden", "aria-live": "polite" });
  private readonly table = h("div", { class: "hta-chart-table", hidden: true });
  readonly el = h(
    "div",
    { class: "hta-chart" },
    this.view,
    this.note,
    this.button,
    this.tip,
    this.said,
    this.table,
  );
  private readonly ended = new AbortController();

  private frame: PanelFrame | null = null;
  chosen: Chosen = EVERYTHING;
  drawing: Drawing | null = null;
  private width = 0;
  private height = 0;

  constructor(
    private readonly make: Make,
    private readonly title: string,
    readonly brush: (brush: Brush) => void,
    private readonly theme: ReadonlySignal<ThemeName>,
    private readonly record: Recorder,
  ) {
    const { signal } = this.ended;
    react(theme, () => this.redraw(), signal);
    this.button.addEventListener("click", () => this.toggleTable(), { signal });
    watchBoxes([this.view], () => this.fit(), signal);
    watchGestures(this, signal);
  }

  show(frame: PanelFrame, chosen: Chosen): void {
    const same = frame === this.frame && this.drawing !== null;
    this.frame = frame;
    this.chosen = chosen;
    if (same) this.paint();
    else this.redraw();
    if (!this.table.hidden) this.tabulate();
  }

  toPng(): Promise<Blob> {
    const { canvas } = this;
    this.drawn();
    return new Promise((done, fail) => {
      canvas.toBlob((blob) =>
        blob === null ? fail(new Error("the picture is too large")) : done(blob),
      );
    });
  }

  toSvg(): Promise<Blob> {
    const { width, height, chosen } = this;
    const drawing = this.drawn();
    const svg = this.record({ width, height }, drawing.content.title, (pen) =>
      drawing.paint(pen, chosen),
    );
    return Promise.resolve(new Blob([svg], { type: "image/svg+xml" }));
  }

  destroy(): void {
    this.ended.abort();
    this.drawing = null;
    this.el.remove();
  }

  private drawn(): Drawing {
    if (this.drawing === null) throw new Error("the chart is empty");
    return this.drawing;
  }

  private fit(): void {
    const width = Math.floor(this.view.clientWidth);
    if (width === 0 || width === this.width) return;
    this.width = width;
    this.redraw();
  }

  private redraw(): void {
    const { frame } = this;
    if (frame === null) return;
    if (this.width === 0) this.width = Math.floor(this.view.clientWidth);
    if (this.width === 0) return;
    const made = this.make(frame, THEMES[this.theme.value]);
    this.hover(null, null);
    this.focus(null);
    if (typeof made === "string") {
      this.drawing = null;
      this.say(made);
      return;
    }
    this.note.hidden = true;
    this.view.hidden = false;
    this.height = made.layout(this.width);
    this.plot.style.height = `${this.height}px`;
    this.drawing = made;
    this.paint();
    const label = `${made.content.title}: ${made.content.finding}`;
    if (this.plot.getAttribute("aria-label") !== label) this.plot.setAttribute("aria-label", label);
  }

  private paint(): void {
    const { canvas, drawing, width, height } = this;
    const pen = canvas.getContext("2d");
    if (drawing === null || pen === null) return;
    const dpr = window.devicePixelRatio;
    const [across, down] = [Math.round(width * dpr), Math.round(height * dpr)];
    // Setting the size of a canvas clears it and allocates its memory again.
    if (canvas.width !== across || canvas.height !== down) {
      [canvas.width, canvas.height] = [across, down];
      [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
    }
    pen.setTransform(dpr, 0, 0, dpr, 0, 0);
    drawing.paint(pen, this.chosen);
  }

  /** The sentence in the chart's place. */
  private say(words: string): void {
    this.view.hidden = true;
    this.note.hidden = false;
    fill(this.note, h("b", {}, this.title), h("p", {}, sentence(words)));
  }

  hover(spot: Spot | null, at: Picked | null): void {
    place(this.hovered, spot?.box ?? null);
    this.tip.hidden = true;
    if (spot === null || at === null) return;
    this.showTip(spot, at);
  }

  focus(spot: Spot | null): void {
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

  drag(box: Box | null): void {
    place(this.brushed, box);
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
    if (open) this.tabulate();
  }

  private tabulate(): void {
    const frame = this.drawing?.content.table ?? this.frame;
    if (frame !== null) fillTable(this.table, frame);
  }
}

function place(el: HTMLElement, box: Box | null): void {
  el.hidden = box === null;
  if (box === null) return;
  el.style.left = `${box.left}px`;
  el.style.top = `${box.top}px`;
  el.style.width = `${box.width}px`;
  el.style.height = `${box.height}px`;
}

// A chart's numbers as a table, for screen readers.

const MOST = 500;

export function fillTable(el: HTMLElement, { rows: all, columns: given }: PanelFrame): void {
  const rows = Math.min(all, MOST);
  const columns = Object.entries(given)
    .filter(([, values]) => values.length === all)
    .map(([name, values]) => {
      const look = { class: typeof values[0] === "string" ? "hta-chart-text" : "" };
      const cell = (row: number) => h("td", look, told(name, values[row] ?? null));
      return { head: h("th", look, words(name)), cell };
    });
  const head = h("tr", {}, ...columns.map((column) => column.head));
  const body = Array.from({ length: rows }, (_, row) =>
    h("tr", {}, ...columns.map(({ cell }) => cell(row))),
  );
  const more = all > rows && h("p", {}, `${formatCount(all - rows)} more rows not listed`);
  fill(el, h("table", {}, h("thead", {}, head), h("tbody", {}, ...body)), more);
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

// The place of a chart, which is created with the first numbers.

export type MakeChart = (
  id: string,
  brush: (brush: Brush) => void,
  theme: ReadonlySignal<ThemeName>,
) => ChartPanel;

export class ChartSlot {
  readonly el = h("div", { class: "hta-chart-slot" });
  chart: ChartPanel | null = null;
  constructor(
    private readonly make: () => ChartPanel,
    signal: AbortSignal,
  ) {
    signal.addEventListener("abort", () => this.chart?.destroy(), { once: true });
  }

  show(frame: PanelFrame, chosen: Chosen): void {
    try {
      if (this.chart === null) {
        this.chart = this.make();
        this.el.replaceChildren(this.chart.el);
      }
      this.chart.show(frame, chosen);
    } catch (error) {
      const again = (): void => this.show(frame, chosen);
      this.chart?.destroy();
      this.chart = null;
      this.el.replaceChildren(failure("The chart could not be drawn", asError(error), again));
    }
  }
}
