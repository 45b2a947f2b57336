/** Paint bars, lines, dots and texts of a chart, in CSS px, on a canvas or for SVG. */

import { wrapped } from "../ui/text";
import { FONT_FAMILY, type Theme } from "../ui/theme";

/** A canvas's context, or one that records SVG. */
export type Pen = CanvasRenderingContext2D;
export type Box = readonly [left: number, top: number, right: number, bottom: number];

/** Style of a mark. */
export interface Style {
  fill: string;
  line?: string | undefined;
  hatch?: string | undefined;
  hatchInk?: string | undefined;
  /** Width of the hatch's lines, and their distance. */
  weight?: number;
  scale?: number;
}

/** Opacity of items that are not chosen, as in `charts/rows.py`. */
export const FAINT = 0.3;

/** Edges on whole pixels: marks that touch show no seams. */
function snapped(pen: Pen, [left, top, right, bottom]: Box): Box {
  const dpr = pen.canvas === undefined ? 1 : window.devicePixelRatio;
  const snap = (at: number): number => Math.round(at * dpr) / dpr;
  return [snap(left), snap(top), Math.max(snap(right), snap(left) + 1 / dpr), snap(bottom)];
}

export function paintBox(pen: Pen, box: Box, style: Style): void {
  const [left, top, right, bottom] = snapped(pen, box);
  pen.fillStyle = style.fill;
  pen.fillRect(left, top, right - left, bottom - top);
  if (style.hatch !== undefined && style.hatch.trim() !== "") {
    paintHatch(pen, [left, top, right, bottom], style);
  }
  if (style.line !== undefined) frame(pen, [left, top, right, bottom], style.line, 1);
}

/** A line along the inner edges of a box. */
export function frame(
  pen: Pen,
  [left, top, right, bottom]: Box,
  color: string,
  wide: number,
): void {
  pen.strokeStyle = color;
  pen.lineWidth = wide;
  const [width, height] = [right - left - wide, bottom - top - wide];
  if (width > 0 && height > 0) pen.strokeRect(left + wide / 2, top + wide / 2, width, height);
}

function paintHatch(pen: Pen, [left, top, right, bottom]: Box, style: Style): void {
  const { hatch = "", scale = 5, weight = 0.8 } = style;
  const tall = bottom - top;
  if (tall < 4) return;
  pen.save();
  pen.beginPath();
  pen.rect(left, top, right - left, tall);
  pen.clip();
  pen.strokeStyle = style.hatchInk ?? style.fill;
  pen.lineWidth = weight;
  pen.beginPath();
  const from = Math.floor((left - tall) / scale) * scale;
  for (let x = from; x < right + tall; x += scale) {
    if (hatch === "|") {
      pen.moveTo(x, top);
      pen.lineTo(x, bottom);
    }
    if (hatch === "/" || hatch === "x") {
      pen.moveTo(x, bottom);
      pen.lineTo(x + tall, top);
    }
    if (hatch === "\\" || hatch === "x") {
      pen.moveTo(x, top);
      pen.lineTo(x + tall, bottom);
    }
  }
  pen.stroke();
  pen.restore();
}

export function paintDot(
  pen: Pen,
  [x, y]: readonly [number, number],
  { size, fill, ground, angle }: { size: number; fill: string; ground: string; angle?: number },
): void {
  const radius = size / 2;
  pen.fillStyle = fill;
  pen.strokeStyle = ground;
  pen.lineWidth = 1;
  pen.beginPath();
  if (angle === undefined) pen.arc(x, y, radius, 0, 2 * Math.PI);
  else {
    for (const [at, turn] of [0, 2, 4].entries()) {
      const to = (turn * Math.PI) / 3 - Math.PI / 2 - angle;
      const corner = [x + radius * Math.cos(to), y + radius * Math.sin(to)] as const;
      if (at === 0) pen.moveTo(...corner);
      else pen.lineTo(...corner);
    }
    pen.closePath();
  }
  pen.fill();
  pen.stroke();
}

/** A line with a halo, which separates it from bars of similar darkness. */
export function paintWhisker(pen: Pen, [left, y, right]: Box, color: string, theme: Theme): void {
  const alpha = pen.globalAlpha;
  for (const [ink, wide, part] of [
    [theme.bg, 4, 0.75],
    [color, 1.5, 1],
  ] as const) {
    pen.globalAlpha = alpha * part;
    pen.strokeStyle = ink;
    pen.lineWidth = wide;
    pen.beginPath();
    pen.moveTo(left, y);
    pen.lineTo(right, y);
    pen.stroke();
  }
  pen.globalAlpha = alpha;
}

type Align = "left" | "center" | "right";

/** Texts, lines and plates. */
export class Words {
  readonly texts: {
    x: number;
    y: number;
    text: string;
    color: string;
    align: Align;
    font: string;
  }[] = [];
  private readonly lines: [number, number, number, number, string][] = [];
  private readonly plates: [Box, string][] = [];

  text(
    x: number,
    y: number,
    text: string,
    color: string,
    style: { align?: Align; bold?: boolean; size?: number } = {},
  ): void {
    if (text === "") return;
    const { align = "left", bold = false, size = 11 } = style;
    const font = `${bold ? "700 " : ""}${size}px ${FONT_FAMILY}`;
    this.texts.push({ x, y: y + size * 0.36, text, color, align, font });
  }

  /** A wrapped title; returns the position below it. */
  title(text: string, [x, y]: readonly [number, number], room: number, { ink }: Theme): number {
    const lines = wrapped(text, room, "bold", 13);
    lines.forEach((line, at) => this.text(x, y + at * 18 + 9, line, ink, { bold: true, size: 13 }));
    return y + lines.length * 18;
  }

  /** A wrapped subtitle; returns the position below it. */
  subtitle(text: string, [x, y]: readonly [number, number], room: number, { ink3 }: Theme): number {
    const lines = wrapped(text, room);
    lines.forEach((line, at) => this.text(x, y + at * 14 + 7, line, ink3));
    return y + lines.length * 14;
  }

  line(x0: number, y0: number, x1: number, y1: number, color: string): void {
    this.lines.push([x0, y0, x1, y1, color]);
  }

  /** A plate below a text that would otherwise be hard to read. */
  plate(left: number, top: number, right: number, bottom: number, color: string): void {
    this.plates.push([[left, top, right, bottom], color]);
  }

  /** Paint the items below marks. */
  paintLines(pen: Pen): void {
    for (const [x0, y0, x1, y1, color] of this.lines) {
      const box: Box = x0 === x1 ? [x0, y0, x0 + 1, y1] : [x0, y0, x1, y0 + 1];
      paintBox(pen, box, { fill: color });
    }
  }

  /** Paint the items above marks. */
  paint(pen: Pen): void {
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
