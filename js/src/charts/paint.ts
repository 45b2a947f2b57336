/** Paint a chart's bars, lines, dots and texts on a canvas or as SVG. Units are CSS px. */

import { textWidth, wrapText } from "../ui/text";
import { FONT_FAMILY, type Theme } from "../ui/theme";

/** A canvas context, or an object that records the same calls as SVG. */
export type DrawContext = CanvasRenderingContext2D;
export type BoxEdges = readonly [left: number, top: number, right: number, bottom: number];

export interface MarkStyle {
  fill: string;
  outline?: string | undefined;
  hatch?: string | undefined;
  hatchColor?: string | undefined;
  /** Width of the hatch lines, and the distance between them. */
  lineWidth?: number;
  scale?: number;
}

/** Opacity of items that are not selected, as in `charts/rows.py`. */
export const UNSELECTED_OPACITY = 0.3;

/** Align the edges with device pixels, so that adjacent marks show no gaps. */
function snapBox(pen: DrawContext, [left, top, right, bottom]: BoxEdges): BoxEdges {
  const dpr = pen.canvas === undefined ? 1 : window.devicePixelRatio;
  const snap = (value: number): number => Math.round(value * dpr) / dpr;
  return [snap(left), snap(top), Math.max(snap(right), snap(left) + 1 / dpr), snap(bottom)];
}

export function paintBox(pen: DrawContext, box: BoxEdges, style: MarkStyle): void {
  const [left, top, right, bottom] = snapBox(pen, box);
  pen.fillStyle = style.fill;
  pen.fillRect(left, top, right - left, bottom - top);
  if (style.hatch !== undefined && style.hatch.trim() !== "") {
    paintHatch(pen, [left, top, right, bottom], style);
  }
  if (style.outline !== undefined) strokeFrame(pen, [left, top, right, bottom], style.outline, 1);
}

/** Draw a frame along the inside of a box. */
export function strokeFrame(
  pen: DrawContext,
  [left, top, right, bottom]: BoxEdges,
  color: string,
  lineWidth: number,
): void {
  pen.strokeStyle = color;
  pen.lineWidth = lineWidth;
  const [width, height] = [right - left - lineWidth, bottom - top - lineWidth];
  if (width > 0 && height > 0)
    pen.strokeRect(left + lineWidth / 2, top + lineWidth / 2, width, height);
}

function paintHatch(
  pen: DrawContext,
  [left, top, right, bottom]: BoxEdges,
  style: MarkStyle,
): void {
  const { hatch = "", scale = 5, lineWidth = 0.8 } = style;
  const height = bottom - top;
  if (height < 4) return;
  pen.save();
  pen.beginPath();
  pen.rect(left, top, right - left, height);
  pen.clip();
  pen.strokeStyle = style.hatchColor ?? style.fill;
  pen.lineWidth = lineWidth;
  pen.beginPath();
  const firstX = Math.floor((left - height) / scale) * scale;
  for (let x = firstX; x < right + height; x += scale) {
    if (hatch === "|") {
      pen.moveTo(x, top);
      pen.lineTo(x, bottom);
    }
    if (hatch === "/" || hatch === "x") {
      pen.moveTo(x, bottom);
      pen.lineTo(x + height, top);
    }
    if (hatch === "\\" || hatch === "x") {
      pen.moveTo(x, top);
      pen.lineTo(x + height, bottom);
    }
  }
  pen.stroke();
  pen.restore();
}

export function paintDot(
  pen: DrawContext,
  [x, y]: readonly [number, number],
  style: { size: number; fill: string; background: string; angle?: number },
): void {
  const { size, fill, background, angle } = style;
  const radius = size / 2;
  pen.fillStyle = fill;
  pen.strokeStyle = background;
  pen.lineWidth = 1;
  pen.beginPath();
  if (angle === undefined) pen.arc(x, y, radius, 0, 2 * Math.PI);
  else {
    for (const [index, sixth] of [0, 2, 4].entries()) {
      const direction = (sixth * Math.PI) / 3 - Math.PI / 2 - angle;
      const corner = [x + radius * Math.cos(direction), y + radius * Math.sin(direction)] as const;
      if (index === 0) pen.moveTo(...corner);
      else pen.lineTo(...corner);
    }
    pen.closePath();
  }
  pen.fill();
  pen.stroke();
}

/** Draw a line with a halo that keeps it visible on bars of similar brightness. */
export function paintWhisker(
  pen: DrawContext,
  [left, y, right]: BoxEdges,
  color: string,
  theme: Theme,
): void {
  const alpha = pen.globalAlpha;
  for (const [strokeColor, lineWidth, opacity] of [
    [theme.bg, 4, 0.75],
    [color, 1.5, 1],
  ] as const) {
    pen.globalAlpha = alpha * opacity;
    pen.strokeStyle = strokeColor;
    pen.lineWidth = lineWidth;
    pen.beginPath();
    pen.moveTo(left, y);
    pen.lineTo(right, y);
    pen.stroke();
  }
  pen.globalAlpha = alpha;
}

const SWATCH_PX = 10;

type LabelAlign = "left" | "center" | "right";

/** A chart's texts, with the lines below them and the plates behind them. */
export class TextLayer {
  readonly texts: {
    x: number;
    y: number;
    text: string;
    color: string;
    align: LabelAlign;
    font: string;
  }[] = [];
  private readonly lines: [number, number, number, number, string][] = [];
  private readonly plates: [BoxEdges, string][] = [];

  text(
    x: number,
    y: number,
    text: string,
    color: string,
    style: { align?: LabelAlign; bold?: boolean; size?: number } = {},
  ): void {
    if (text === "") return;
    const { align = "left", bold = false, size = 11 } = style;
    const font = `${bold ? "700 " : ""}${size}px ${FONT_FAMILY}`;
    this.texts.push({ x, y: y + size * 0.36, text, color, align, font });
  }

  /** Add a wrapped title. Return the position below it. */
  title(text: string, [x, y]: readonly [number, number], maxWidth: number, { ink }: Theme): number {
    const lines = wrapText(text, maxWidth, "bold", 13);
    const style = { bold: true, size: 13 };
    lines.forEach((line, index) => this.text(x, y + index * 18 + 9, line, ink, style));
    return y + lines.length * 18;
  }

  /** Add a wrapped subtitle. Return the position below it. */
  subtitle(text: string, [x, y]: readonly [number, number], width: number, theme: Theme): number {
    const lines = wrapText(text, width);
    lines.forEach((line, index) => this.text(x, y + index * 14 + 7, line, theme.ink3));
    return y + lines.length * 14;
  }

  /** Add wrapped legend texts. Return the boxes of their swatches and the position below. */
  legend(
    texts: readonly string[],
    top: number,
    width: number,
    { ink2 }: Theme,
  ): { swatches: BoxEdges[]; bottom: number } {
    let [x, y] = [0, top];
    const swatches = texts.map((text): BoxEdges => {
      const entryWidth = SWATCH_PX + 4 + textWidth(text);
      if (x > 0 && x + entryWidth > width) [x, y] = [0, y + 16];
      const left = x;
      this.text(left + SWATCH_PX + 4, y + 7, text, ink2);
      x += entryWidth + 12;
      return [left, y + 2, left + SWATCH_PX, y + 2 + SWATCH_PX];
    });
    return { swatches, bottom: y + 16 };
  }

  line(x0: number, y0: number, x1: number, y1: number, color: string): void {
    this.lines.push([x0, y0, x1, y1, color]);
  }

  /** Add a background behind a text that would otherwise be hard to read. */
  plate(box: BoxEdges, color: string): void {
    this.plates.push([box, color]);
  }

  /** Paint the lines, which lie below the marks. */
  paintLines(pen: DrawContext): void {
    for (const [x0, y0, x1, y1, color] of this.lines) {
      const box: BoxEdges = x0 === x1 ? [x0, y0, x0 + 1, y1] : [x0, y0, x1, y0 + 1];
      paintBox(pen, box, { fill: color });
    }
  }

  /** Paint the plates and texts, which lie above the marks. */
  paint(pen: DrawContext): void {
    for (const [box, fill] of this.plates) paintBox(pen, box, { fill });
    pen.textBaseline = "alphabetic";
    for (const { x, y, text, color, align, font } of this.texts) {
      pen.font = font;
      pen.textAlign = align;
      pen.fillStyle = color;
      pen.fillText(text, x, y);
    }
  }
}
