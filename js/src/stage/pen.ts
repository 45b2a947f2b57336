/** Draw text and lines on a canvas in CSS px, aligned to device pixels. */

import { getOrMake } from "../protocol/maps";
import { TextFitter } from "../ui/text";

const HATCH_PITCH = 5;

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

type TextAlign = "left" | "right" | "center";

export class CanvasPen {
  private font = "";
  private color = "";
  private align: TextAlign = "left";
  private readonly fitters = new Map<string, TextFitter>();

  constructor(
    readonly ctx: CanvasRenderingContext2D,
    readonly dpr: number,
  ) {
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.textBaseline = "alphabetic";
  }

  snap(value: number): number {
    return Math.round(value * this.dpr) / this.dpr;
  }

  /** Line width of about 1 CSS px, in whole device pixels. */
  get hairline(): number {
    return Math.max(1, Math.round(this.dpr)) / this.dpr;
  }

  setFill(color: string): void {
    if (color === this.color) return;
    this.color = color;
    this.ctx.fillStyle = color;
  }

  fillRect(x: number, y: number, width: number, height: number, color: string): void {
    const left = this.snap(x);
    const top = this.snap(y);
    this.setFill(color);
    this.ctx.fillRect(left, top, this.snap(x + width) - left, this.snap(y + height) - top);
  }

  /** Draw a border along the inside of a rectangle. */
  strokeFrame(
    x: number,
    y: number,
    width: number,
    height: number,
    color: string,
    line: number,
  ): void {
    const left = this.snap(x);
    const top = this.snap(y);
    const right = this.snap(x + width);
    const bottom = this.snap(y + height);
    const thick = Math.max(this.snap(line), 1 / this.dpr);
    this.setFill(color);
    this.ctx.fillRect(left, top, right - left, thick);
    this.ctx.fillRect(left, bottom - thick, right - left, thick);
    this.ctx.fillRect(left, top + thick, thick, bottom - top - 2 * thick);
    this.ctx.fillRect(right - thick, top + thick, thick, bottom - top - 2 * thick);
  }

  /** Draw a bordered, hatched rectangle to represent time spent waiting. */
  hatchedRect(
    x: number,
    y: number,
    width: number,
    height: number,
    ground: string,
    line: string,
  ): void {
    const snappedWidth = this.snap(x + width) - this.snap(x);
    if (snappedWidth <= 0) return;
    this.fillRect(x, y, width, height, ground);
    this.withClip(x, y, snappedWidth, height, () => {
      const { ctx } = this;
      ctx.beginPath();
      const first = Math.floor((x - height) / HATCH_PITCH) * HATCH_PITCH;
      for (let stripeX = first; stripeX < x + width; stripeX += HATCH_PITCH) {
        ctx.moveTo(stripeX, y + height);
        ctx.lineTo(stripeX + height, y);
      }
      ctx.strokeStyle = line;
      ctx.lineWidth = 1;
      ctx.stroke();
    });
    this.strokeFrame(x, y, width, height, line, 1);
  }

  verticalLine(x: number, y0: number, y1: number, color: string): void {
    this.setFill(color);
    this.ctx.fillRect(this.snap(x), this.snap(y0), this.hairline, this.snap(y1) - this.snap(y0));
  }

  horizontalLine(y: number, x0: number, x1: number, color: string): void {
    this.setFill(color);
    this.ctx.fillRect(this.snap(x0), this.snap(y), this.snap(x1) - this.snap(x0), this.hairline);
  }

  /** Draw a vertical dashed line: 2 px on, 3 px off. */
  dashedLine(x: number, y0: number, y1: number, color: string): void {
    this.setFill(color);
    const left = this.snap(x);
    for (let y = this.snap(y0); y < y1; y += 5) {
      this.ctx.fillRect(left, y, this.hairline, Math.min(2, y1 - y));
    }
  }

  /** Draw the whole text with its baseline at `y`. */
  drawText(
    text: string,
    x: number,
    y: number,
    font: string,
    color: string,
    align: TextAlign = "left",
  ): void {
    if (text === "") return;
    this.setFont(font);
    this.setFill(color);
    if (align !== this.align) {
      this.align = align;
      this.ctx.textAlign = align;
    }
    this.ctx.fillText(text, align === "left" ? this.snap(x) : x, y);
  }

  /** Draw as much of the text as fits into `maxWidth`. Return the width used; 0 if nothing fits. */
  drawTruncated(
    text: string,
    x: number,
    y: number,
    maxWidth: number,
    font: string,
    color: string,
    align: TextAlign = "left",
  ): number {
    const label = this.fitter(font).fit(text, maxWidth);
    if (label === "") return 0;
    this.drawText(label, x, y, font, color, align);
    return Math.min(maxWidth, this.textWidth(label, font));
  }

  /** Draw the first of `texts` that fits completely. Return the width used; 0 if none fits. */
  drawFirstFit(
    texts: readonly string[],
    x: number,
    y: number,
    maxWidth: number,
    font: string,
    color: string,
    align: TextAlign = "left",
  ): number {
    for (const text of texts) {
      const width = this.textWidth(text, font);
      if (width > maxWidth) continue;
      this.drawText(text, x, y, font, color, align);
      return width;
    }
    return 0;
  }

  textWidth(text: string, font: string): number {
    return this.fitter(font).width(text);
  }

  fitter(font: string): TextFitter {
    const measure = (text: string): number => {
      this.setFont(font);
      return this.ctx.measureText(text).width;
    };
    return getOrMake(this.fitters, font, () => new TextFitter(measure));
  }

  withClip(x: number, y: number, width: number, height: number, draw: () => void): void {
    this.withClips([{ x, y, width, height }], draw);
  }

  withClips(boxes: readonly Box[], draw: () => void): void {
    const { ctx } = this;
    ctx.save();
    ctx.beginPath();
    for (const { x, y, width, height } of boxes) {
      ctx.rect(this.snap(x), this.snap(y), width, height);
    }
    ctx.clip();
    draw();
    ctx.restore();
    // `restore` resets the context, so the cached settings are invalid.
    this.font = "";
    this.color = "";
    this.align = "left";
    ctx.textAlign = "left";
  }

  private setFont(font: string): void {
    if (font === this.font) return;
    this.font = font;
    this.ctx.font = font;
  }
}
