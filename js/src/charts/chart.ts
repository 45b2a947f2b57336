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
import { watchGestures } from "./gestures";
import type { Pen } from "./paint";

/** A drawing of a frame; a sentence if there is nothing to draw. */
export type Make = (frame: PanelFrame, theme: Theme, width: number) => Drawing | string;

/** Records what is painted as SVG. */
type Recorder = (
  size: { width: number; height: number },
  title: string,
  paint: (pen: Pen) => void,
) => string;

const EVERYTHING: Chosen = { ranks: null, names: null, kinds: null, window: null };

export class ChartFrame implements ChartPanel {
  readonly el: HTMLElement;
  private readonly view = h("div", { class: "hta-chart-view" });
  private readonly canvas = h("canvas", { class: "hta-chart-canvas" });
  private readonly plot = h("div", { class: "hta-chart-plot", role: "img", tabindex: 0 });
  private readonly note = h("div", { class: "hta-chart-note", hidden: true });
  private readonly hovered = h("div", { class: "hta-chart-box hta-chart-hover", hidden: true });
  private readonly focused = h("div", { class: "hta-chart-box hta-chart-focus", hidden: true });
  private readonly brushed = h("div", { class: "hta-chart-box hta-chart-brush", hidden: true });
  private readonly tip = h("div", { class: "hta-chart-tip", role: "tooltip", hidden: true });
  private readonly said = h("div", { class: "hta-hidden", "aria-live": "polite" });
  private readonly button = h("button", { class: "hta-chart-show", type: "button" }, "Show table");
  private readonly table = h("div", { class: "hta-chart-table", hidden: true });
  private readonly ended = new AbortController();

  private frame: PanelFrame | null = null;
  private chosen: Chosen = EVERYTHING;
  private drawing: Drawing | null = null;
  private width = 0;
  private height = 0;

  constructor(
    private readonly make: Make,
    private readonly title: string,
    host: HTMLElement,
    private readonly onBrush: (brush: Brush) => void,
    private readonly theme: ReadonlySignal<ThemeName>,
    private readonly record: Recorder,
  ) {
    const { view, plot, note, hovered, focused, brushed, tip, said, button, table } = this;
    put(plot, this.canvas, hovered, focused, brushed);
    put(view, plot);
    this.el = h("div", { class: "hta-chart" });
    put(this.el, view, note, button, tip, said, table);
    host.append(this.el);
    const { signal } = this.ended;
    react(theme, () => this.redraw(), signal);
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
    const made = this.make(frame, THEMES[this.theme.value], this.width);
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
    if (open) this.tabulate();
  }

  private tabulate(): void {
    const frame = this.drawing?.content.table ?? this.frame;
    if (frame !== null) fillTable(this.table, frame);
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

// A chart's numbers as a table, for screen readers.

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

// The place of a chart, which is created with the first numbers.

export type MakeChart = (
  id: string,
  host: HTMLElement,
  onBrush: (brush: Brush) => void,
  theme: ReadonlySignal<ThemeName>,
) => ChartPanel;

export class ChartSlot {
  readonly el = h("div", { class: "hta-chart-slot" });
  chart: ChartPanel | null = null;
  constructor(
    private readonly make: (host: HTMLElement) => ChartPanel,
    signal: AbortSignal,
  ) {
    signal.addEventListener("abort", () => this.chart?.destroy(), { once: true });
  }

  show(frame: PanelFrame, chosen: Chosen): void {
    try {
      if (this.chart === null) this.el.replaceChildren();
      this.chart ??= this.make(this.el);
      this.chart.show(frame, chosen);
    } catch (error) {
      const again = (): void => this.show(frame, chosen);
      this.chart?.destroy();
      this.chart = null;
      this.el.replaceChildren(failure("The chart could not be drawn", asError(error), again));
    }
  }
}
