/** A dashboard chart: canvas, layout, tooltips and pointer gestures. */

import type { ReadonlySignal } from "@preact/signals";
import {
  asError,
  type Brush,
  type ChartPanel,
  type ChartSelection,
  type PanelFrame,
  type ThemeName,
  type CellValue,
} from "../protocol/source";
import { renderFailure } from "../ui/controls";
import { replaceChildren, h } from "../ui/dom";
import { formatCount, formatDuration, formatShare } from "../ui/formats";
import { watchBoxes } from "../ui/host";
import { onSignal } from "../ui/react";
import { capitalizeSentence } from "../ui/text";
import { type Theme, THEMES } from "../ui/theme";
import { placeTooltip } from "../ui/tooltip";
import type { ChartBox, Drawing, ChartPoint, HoverTarget } from "./content";
import { causeLabel } from "./stack";
import { kindLabel } from "./language";
import { type GestureTarget, watchGestures } from "./gestures";
import type { DrawContext } from "./paint";

/** Make the drawing for a frame, or return a sentence that explains why nothing can be drawn. */
export type DrawingFactory = (frame: PanelFrame, theme: Theme) => Drawing | string;

/** Record what `paint` draws as an SVG document. */
type SvgRecorder = (
  size: { width: number; height: number },
  title: string,
  paint: (pen: DrawContext) => void,
) => string;

const ALL_ITEMS: ChartSelection = { ranks: null, names: null, kinds: null, window: null };

export class ChartFrame implements ChartPanel, GestureTarget {
  private readonly canvas = h("canvas", { class: "hta-chart-canvas" });
  private readonly hoverBox = h("div", { class: "hta-chart-box hta-chart-hover", hidden: true });
  private readonly focusBox = h("div", { class: "hta-chart-box hta-chart-focus", hidden: true });
  private readonly brushBox = h("div", { class: "hta-chart-box hta-chart-brush", hidden: true });
  readonly plot = h(
    "div",
    { class: "hta-chart-plot", role: "img", tabindex: 0 },
    this.canvas,
    this.hoverBox,
    this.focusBox,
    this.brushBox,
  );
  private readonly view = h("div", { class: "hta-chart-view" }, this.plot);
  private readonly note = h("div", { class: "hta-chart-note", hidden: true });
  private readonly tableButton = h(
    "button",
    { class: "hta-chart-show", type: "button", "aria-expanded": "false" },
    "Show table",
  );
  private readonly tooltip = h("div", { class: "hta-chart-tip", role: "tooltip", hidden: true });
  private readonly liveRegion = h("div", { class: "hta-hidden", "aria-live": "polite" });
  private readonly table = h("div", { class: "hta-chart-table", hidden: true });
  readonly el = h(
    "div",
    { class: "hta-chart" },
    this.view,
    this.note,
    this.tableButton,
    this.tooltip,
    this.liveRegion,
    this.table,
  );
  private readonly aborter = new AbortController();

  private frame: PanelFrame | null = null;
  selection: ChartSelection = ALL_ITEMS;
  drawing: Drawing | null = null;
  private width = 0;
  private height = 0;

  constructor(
    private readonly makeDrawing: DrawingFactory,
    private readonly title: string,
    readonly brush: (brush: Brush) => void,
    private readonly theme: ReadonlySignal<ThemeName>,
    private readonly recordSvg: SvgRecorder,
  ) {
    const { signal } = this.aborter;
    onSignal(theme, () => this.redraw(), signal);
    this.tableButton.addEventListener("click", () => this.toggleTable(), { signal });
    watchBoxes([this.view], () => this.fitWidth(), signal);
    watchGestures(this, signal);
  }

  show(frame: PanelFrame, selection: ChartSelection): void {
    const isUnchanged = frame === this.frame && this.drawing !== null;
    this.frame = frame;
    this.selection = selection;
    if (isUnchanged) this.paint();
    else this.redraw();
    if (!this.table.hidden) this.updateTable();
  }

  toPng(): Promise<Blob> {
    return new Promise((done, fail) => {
      this.requireDrawing();
      this.canvas.toBlob((blob) =>
        blob === null ? fail(new Error("the picture is too large")) : done(blob),
      );
    });
  }

  toSvg(): Promise<Blob> {
    const { width, height, selection } = this;
    return new Promise((done) => {
      const drawing = this.requireDrawing();
      const svg = this.recordSvg({ width, height }, drawing.content.title, (pen) =>
        drawing.paint(pen, selection),
      );
      done(new Blob([svg], { type: "image/svg+xml" }));
    });
  }

  destroy(): void {
    this.aborter.abort();
    this.drawing = null;
    this.el.remove();
  }

  private requireDrawing(): Drawing {
    if (this.drawing === null) throw new Error("the chart is empty");
    return this.drawing;
  }

  private fitWidth(): void {
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
    const drawing = this.makeDrawing(frame, THEMES[this.theme.value]);
    this.hover(null, null);
    this.focus(null);
    if (typeof drawing === "string") {
      this.drawing = null;
      this.showNote(drawing);
      return;
    }
    this.note.hidden = true;
    this.view.hidden = false;
    this.height = drawing.layout(this.width);
    this.plot.style.height = `${this.height}px`;
    this.drawing = drawing;
    this.paint();
    this.plot.setAttribute("aria-label", `${drawing.content.title}: ${drawing.content.finding}`);
  }

  private paint(): void {
    const { canvas, drawing, width, height } = this;
    const pen = canvas.getContext("2d");
    if (drawing === null || pen === null) return;
    const dpr = window.devicePixelRatio;
    const [pixelWidth, pixelHeight] = [Math.round(width * dpr), Math.round(height * dpr)];
    // Setting a canvas's size clears it and reallocates its memory, even if the size is the same.
    if (canvas.width !== pixelWidth || canvas.height !== pixelHeight) {
      [canvas.width, canvas.height] = [pixelWidth, pixelHeight];
      [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
    }
    pen.setTransform(dpr, 0, 0, dpr, 0, 0);
    drawing.paint(pen, this.selection);
  }

  private showNote(text: string): void {
    this.view.hidden = true;
    this.note.hidden = false;
    replaceChildren(this.note, h("b", {}, this.title), h("p", {}, capitalizeSentence(text)));
  }

  hover(target: HoverTarget | null, point: ChartPoint | null): void {
    placeBox(this.hoverBox, target?.box ?? null);
    this.tooltip.hidden = true;
    if (target === null || point === null) return;
    this.showTooltip(target, point);
  }

  focus(target: HoverTarget | null): void {
    placeBox(this.focusBox, target?.box ?? null);
    if (target === null) {
      if (this.hoverBox.hidden) this.tooltip.hidden = true;
      return;
    }
    const { left, top, width, height } = target.box;
    this.showTooltip(target, { x: left + Math.min(width, 240) / 2, y: top + height / 2 });
    this.liveRegion.textContent = [
      target.tooltip.heading,
      ...target.tooltip.lines.map(([label, value]) => `${label} ${value}`),
    ].join(", ");
    this.focusBox.scrollIntoView({ block: "nearest" });
  }

  drag(box: ChartBox | null): void {
    placeBox(this.brushBox, box);
  }

  private showTooltip(target: HoverTarget, point: ChartPoint): void {
    const { tooltip } = this;
    const lines = target.tooltip.lines.flatMap(([label, value]) => [
      h("dt", {}, label),
      h("dd", {}, value),
    ]);
    replaceChildren(tooltip, h("b", {}, target.tooltip.heading), h("dl", {}, ...lines));
    tooltip.hidden = false;
    const scrolled = this.view.scrollTop;
    const size = { width: tooltip.offsetWidth, height: tooltip.offsetHeight };
    const viewport = {
      width: this.el.clientWidth,
      height: Math.max(this.el.clientHeight, point.y - scrolled + size.height + 16),
    };
    const mark = {
      top: target.box.top - scrolled,
      bottom: target.box.top - scrolled + target.box.height,
    };
    const placed = placeTooltip({ x: point.x, y: point.y - scrolled }, size, viewport, mark);
    tooltip.style.transform = `translate(${Math.round(placed.left)}px, ${Math.round(placed.top)}px)`;
  }

  private toggleTable(): void {
    const open = this.table.hidden;
    this.table.hidden = !open;
    this.tableButton.setAttribute("aria-expanded", String(open));
    this.tableButton.textContent = open ? "Hide table" : "Show table";
    if (open) this.updateTable();
  }

  private updateTable(): void {
    const frame = this.drawing?.content.table ?? this.frame;
    if (frame !== null) fillTable(this.table, frame);
  }
}

function placeBox(el: HTMLElement, box: ChartBox | null): void {
  el.hidden = box === null;
  if (box === null) return;
  for (const side of ["left", "top", "width", "height"] as const) el.style[side] = `${box[side]}px`;
}

// The chart's data as a table, for screen readers.

const MAX_TABLE_ROWS = 500;

export function fillTable(
  el: HTMLElement,
  { rows: totalRows, columns: columnsByName }: PanelFrame,
): void {
  const rows = Math.min(totalRows, MAX_TABLE_ROWS);
  const columns = Object.entries(columnsByName)
    .filter(([, values]) => values.length === totalRows)
    .map(([name, values]) => {
      const attributes = { class: typeof values[0] === "string" ? "hta-chart-text" : "" };
      const cell = (row: number) => h("td", attributes, cellText(name, values[row] ?? null));
      const label = name.replace(/_(ns|share)$/, "").replaceAll("_", " ");
      return { head: h("th", attributes, label), cell };
    });
  const head = h("tr", {}, ...columns.map((column) => column.head));
  const body = Array.from({ length: rows }, (_, row) =>
    h("tr", {}, ...columns.map(({ cell }) => cell(row))),
  );
  const moreNote =
    totalRows > rows && h("p", {}, `${formatCount(totalRows - rows)} more rows not listed`);
  replaceChildren(el, h("table", {}, h("thead", {}, head), h("tbody", {}, ...body)), moreNote);
}

function cellText(name: string, value: CellValue): string {
  if (typeof value === "string") {
    if (name === "idle_category") return causeLabel(value);
    return name === "kernel_type" ? kindLabel(value) : value;
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (name.endsWith("_ns")) return formatDuration(value);
  if (name.endsWith("_share") || name === "share") return formatShare(value);
  if (value === null) return "–";
  return Number.isInteger(value) ? formatCount(value) : String(Number(value.toPrecision(4)));
}

// The host element of a chart; the chart is created when its first data arrives.

export type MakeChart = (
  id: string,
  brush: (brush: Brush) => void,
  theme: ReadonlySignal<ThemeName>,
  /** The job's word for its devices: `GPU` or `NPU`. */
  device: string,
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

  show(frame: PanelFrame, selection: ChartSelection): void {
    try {
      if (this.chart === null) {
        this.chart = this.make();
        this.el.replaceChildren(this.chart.el);
      }
      this.chart.show(frame, selection);
    } catch (error) {
      const retry = (): void => this.show(frame, selection);
      this.chart?.destroy();
      this.chart = null;
      this.el.replaceChildren(renderFailure("The chart could not be drawn", asError(error), retry));
    }
  }
}
