/**
 * The roofline chart: operators by FLOPs per byte and TFLOP/s, on logarithmic axes, below the
 * limits set by memory bandwidth and by each precision's peak. Texts, keys and tooltips come from
 * the panel's definition. A rectangle selects the operators inside it.
 */

import type { Brush, ChartSelection, PanelFrame } from "../protocol/source";
import { formatValue } from "../ui/formats";
import { joinSentences } from "../ui/text";
import type { Theme } from "../ui/theme";
import {
  type ChartBox,
  dragRectangle,
  type Drawing,
  type DragSpan,
  type HoverTarget,
  type RowsContent,
} from "./content";
import { isExactly, toggleKeys } from "./gestures";
import { type DrawContext, paintBox, paintDot, TextLayer, UNSELECTED_OPACITY } from "./paint";

const PLOT_HEIGHT_PX = 260;
/** Space for the labels of the vertical axis. */
const GUTTER_PX = 48;
const [MIN_DIAMETER_PX, MAX_DIAMETER_PX] = [5, 34];
/** Distance between labels of limits, in px. */
const LABEL_PITCH_PX = 13;
/** The pointer hits a mark within this distance, in px. */
const HIT_MARGIN_PX = 3;

/** A device limit: precision, peak TFLOP/s and memory bandwidth in GB/s. */
type Roof = readonly [precision: string, peakTflops: number, memoryGbPerS: number];

interface Scale {
  /** Exponents of the powers of ten at the ends of the scale. */
  first: number;
  last: number;
  start: number;
  length: number;
}

const pixelOf = (scale: Scale, value: number): number =>
  scale.start + ((Math.log10(value) - scale.first) / (scale.last - scale.first)) * scale.length;

function scaleOf(values: readonly number[], start: number, length: number): Scale {
  const powers = values.filter((value) => value > 0).map(Math.log10);
  const first = Math.floor(Math.min(...powers) - 0.2);
  return { first, last: Math.ceil(Math.max(...powers) + 0.2), start, length };
}

export class RooflineDrawing implements Drawing {
  private readonly intensities: readonly number[];
  private readonly rates: readonly number[];
  private readonly times: readonly number[];
  private readonly bounds: readonly string[];
  private readonly roofs: readonly Roof[];
  /** Rows with FLOPs, by decreasing time. Small marks are drawn last so that they stay visible. */
  private readonly rows: readonly number[];
  private width = 0;
  private height = 0;
  private x!: Scale;
  private y!: Scale;
  private textLayer = new TextLayer();

  constructor(
    readonly content: RowsContent,
    { columns, attrs }: PanelFrame,
    private readonly theme: Theme,
  ) {
    this.intensities = (columns.intensity ?? []) as number[];
    this.rates = columns.tflop_per_s as number[];
    this.times = columns.device_ns as number[];
    this.bounds = columns.bound as string[];
    this.roofs = (attrs.roofs ?? []) as unknown as Roof[];
    this.rows = content.names
      .map((_, row) => row)
      .filter((row) => this.intensities[row]! > 0 && this.rates[row]! > 0)
      .sort((a, b) => this.times[b]! - this.times[a]!);
  }

  get isEmpty(): boolean {
    return this.rows.length === 0;
  }

  layout(width: number): number {
    const { content, theme } = this;
    const layer = (this.textLayer = new TextLayer());
    let top = layer.title(content.title, [0, 0], width, theme);
    const hidden = content.names.length - this.rows.length;
    const subtitle = joinSentences(
      "area: time on the device",
      content.subtitle,
      hidden > 0 ? `${hidden} without FLOPs not drawn` : "",
    );
    top = layer.subtitle(subtitle, [0, top], width, theme) + 8;
    const bounds = [...new Set(this.rows.map((row) => this.bounds[row]!))];
    const legendTexts = bounds.map((bound) => `bound by ${bound}`);
    const { swatches, bottom } = layer.legend(legendTexts, top, width, theme);
    bounds.forEach((bound, index) => layer.plate(swatches[index]!, this.colorOf(bound)));
    top = bottom + 6;
    this.width = width;
    this.height = top + PLOT_HEIGHT_PX + 34;
    const ridges = this.roofs.map(([, peak, memory]) => (peak * 1e3) / memory);
    const xs = [...this.rows.map((row) => this.intensities[row]!), ...ridges];
    const ys = [...this.rows.map((row) => this.rates[row]!), ...this.roofs.map((roof) => roof[1])];
    this.x = scaleOf(xs, GUTTER_PX, width - GUTTER_PX - 8);
    this.y = scaleOf(ys, top + PLOT_HEIGHT_PX, -PLOT_HEIGHT_PX);
    this.addAxes(top);
    this.addRoofLabels(top);
    return this.height;
  }

  private addAxes(top: number): void {
    const { x, y, theme, textLayer } = this;
    const bottom = top + PLOT_HEIGHT_PX;
    const stepOf = (scale: Scale, pitch: number): number =>
      Math.max(1, Math.ceil(((scale.last - scale.first) * pitch) / Math.abs(scale.length)));
    for (let power = x.first; power <= x.last; power += stepOf(x, 60)) {
      const px = Math.round(pixelOf(x, 10 ** power));
      textLayer.line(px, top, px, bottom, theme.rule);
      const align = power === x.last ? "right" : "center";
      textLayer.text(px, bottom + 10, formatValue(10 ** power), theme.ink3, { align });
    }
    for (let power = y.first; power <= y.last; power += stepOf(y, 24)) {
      const px = Math.round(pixelOf(y, 10 ** power));
      textLayer.line(GUTTER_PX, px, this.width - 8, px, theme.rule);
      textLayer.text(GUTTER_PX - 6, px, formatValue(10 ** power), theme.ink3, { align: "right" });
    }
    textLayer.text(GUTTER_PX, bottom + 26, "FLOPs per byte", theme.ink3);
    textLayer.text(GUTTER_PX + 4, top + 7, "TFLOP/s", theme.ink3);
  }

  private addRoofLabels(top: number): void {
    let minY = top + 4;
    for (const [precision, peak] of [...this.roofs].sort((a, b) => b[1] - a[1])) {
      const y = Math.max(pixelOf(this.y, peak) - 7, minY);
      const text = `${precision} ${formatValue(peak)} TFLOP/s`;
      this.textLayer.text(this.width - 10, y, text, this.theme.ink2, { align: "right" });
      minY = y + LABEL_PITCH_PX;
    }
  }

  private colorOf(bound: string): string {
    const { kind, ink3 } = this.theme;
    return { compute: kind.compute, memory: kind.memory }[bound] ?? ink3;
  }

  paint(pen: DrawContext, selection: ChartSelection): void {
    const { theme, x, y } = this;
    paintBox(pen, [0, 0, this.width, this.height], { fill: theme.bg });
    this.textLayer.paintLines(pen);
    pen.strokeStyle = theme.ink2;
    pen.lineWidth = 1;
    for (const [, peak, memory] of this.roofs) {
      const [start, end] = [10 ** x.first, 10 ** x.last];
      pen.beginPath();
      const from = Math.max(start, (10 ** y.first * 1e3) / memory);
      pen.moveTo(pixelOf(x, from), pixelOf(y, (from * memory) / 1e3));
      pen.lineTo(pixelOf(x, (peak * 1e3) / memory), pixelOf(y, peak));
      pen.lineTo(pixelOf(x, end), pixelOf(y, peak));
      pen.stroke();
    }
    const chosen = selection.names === null ? null : new Set<string | number>(selection.names);
    for (const row of this.rows) {
      const isChosen = chosen === null || this.content.keys[row]!.some((key) => chosen.has(key));
      pen.globalAlpha = isChosen ? 0.8 : UNSELECTED_OPACITY / 2;
      const { box } = this.targetOf(row)!;
      const middle = [box.left + box.width / 2, box.top + box.height / 2] as const;
      const fill = this.colorOf(this.bounds[row]!);
      paintDot(pen, middle, { size: box.width, fill, background: theme.bg });
    }
    pen.globalAlpha = 1;
    this.textLayer.paint(pen);
  }

  targetOf(row: number): HoverTarget | null {
    if (!this.rows.includes(row)) return null;
    const longest = Math.max(this.times[this.rows[0]!]!, 1);
    const size = Math.max(MIN_DIAMETER_PX, Math.sqrt(this.times[row]! / longest) * MAX_DIAMETER_PX);
    const left = pixelOf(this.x, this.intensities[row]!) - size / 2;
    const top = pixelOf(this.y, this.rates[row]!) - size / 2;
    const box = { left, top, width: size, height: size };
    return { index: row, box, tooltip: this.content.tooltip(row) };
  }

  targetAt(px: number, py: number): HoverTarget | null {
    // Marks drawn later are on top, so the search starts with them.
    for (const row of [...this.rows].reverse()) {
      const target = this.targetOf(row)!;
      const { left, top, width } = target.box;
      const radius = width / 2;
      const distance = Math.hypot(px - left - radius, py - top - radius);
      if (distance <= radius + HIT_MARGIN_PX) return target;
    }
    return null;
  }

  nextTarget(from: number | null, key: string): number | null {
    const { rows } = this;
    const place = from === null ? -1 : rows.indexOf(from);
    if (key === "Home") return rows[0] ?? null;
    if (key === "End") return rows.at(-1) ?? null;
    const step = key === "ArrowUp" || key === "ArrowLeft" ? -1 : 1;
    return rows[Math.max(0, Math.min(rows.length - 1, place + step))] ?? null;
  }

  click(px: number, py: number, additive: boolean, selection: ChartSelection): Brush {
    const target = this.targetAt(px, py);
    return target === null ? this.emptyBrush() : this.press(target.index, additive, selection);
  }

  press(row: number, additive: boolean, selection: ChartSelection): Brush {
    const keys = this.content.keys[row] as readonly string[];
    if (additive) return { names: toggleKeys(selection.names, keys) };
    return isExactly(selection.names, keys) ? this.emptyBrush() : { names: [...keys] };
  }

  drag(span: DragSpan, additive: boolean, selection: ChartSelection): Brush | null {
    const area = this.dragBox(span);
    const inside = this.rows.filter((row) => {
      const { left, top, width } = this.targetOf(row)!.box;
      const [x, y] = [left + width / 2 - area.left, top + width / 2 - area.top];
      return x >= 0 && x <= area.width && y >= 0 && y <= area.height;
    });
    if (inside.length === 0) return null;
    const keys = inside.flatMap((row) => this.content.keys[row] as readonly string[]);
    return { names: [...new Set([...(additive ? (selection.names ?? []) : []), ...keys])] };
  }

  dragBox(span: DragSpan): ChartBox {
    return dragRectangle(span);
  }

  emptyBrush(): Brush {
    return { names: null };
  }
}
