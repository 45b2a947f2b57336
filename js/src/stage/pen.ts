/** Text and lines on a canvas in CSS px, on whole device pixels. */

import { getOrMake } from "../protocol/maps";
import { TextFitter } from "../ui/text";

const HATCH_PITCH = 5;

type Align = "left" | "right" | "center";

export class Pen {
  private font = "";
  private colour = "";
  private align: Align = "left";
  private readonly fitters = new Map<string, TextFitter>();

  constructor(
    readonly ctx: CanvasRenderingContext2D,
    readonly dpr: number,
  ) {
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.textBaseline = "alphabetic";
  }

  /** Round to a whole device pixel. */
  snap(value: number): number {
    return Math.round(value * this.dpr) / this.dpr;
  }

  /** The width of one device pixel, at least 1 CSS px. */
  get hairline(): number {
    return Math.max(1, Math.round(this.dpr)) / this.dpr;
  }

  fill(colour: string): void {
    if (colour === this.colour) return;
    this.colour = colour;
    this.ctx.fillStyle = colour;
  }

  rect(x: number, y: number, width: number, height: number, colour: string): void {
    const left = this.snap(x);
    const top = this.snap(y);
    this.fill(colour);
    this.ctx.fillRect(left, top, this.snap(x + width) - left, this.snap(y + height) - top);
  }

  /** The border of a rectangle, inside it. */
  frame(x: number, y: number, width: number, height: number, colour: string, line: number): void {
    const left = this.snap(x);
    const top = this.snap(y);
    const right = this.snap(x + width);
    const bottom = this.snap(y + height);
    const thick = Math.max(this.snap(line), 1 / this.dpr);
    this.fill(colour);
    this.ctx.fillRect(left, top, right - left, thick);
    this.ctx.fillRect(left, bottom - thick, right - left, thick);
    this.ctx.fillRect(left, top + thick, thick, bottom - top - 2 * thick);
    this.ctx.fillRect(right - thick, top + thick, thick, bottom - top - 2 * thick);
  }

  /** A rectangle of diagonal lines with a border: time spent waiting. */
  hatched(x: number, y: number, width: number, height: number, ground: string, line: string): void {
    if (this.snap(x + width) <= this.snap(x)) return;
    this.rect(x, y, width, height, ground);
    const { ctx } = this;
    ctx.save();
    ctx.beginPath();
    ctx.rect(this.snap(x), this.snap(y), this.snap(x + width) - this.snap(x), height);
    ctx.clip();
    ctx.beginPath();
    const first = Math.floor((x - height) / HATCH_PITCH) * HATCH_PITCH;
    for (let at = first; at < x + width; at += HATCH_PITCH) {
      ctx.moveTo(at, y + height);
      ctx.lineTo(at + height, y);
    }
    ctx.strokeStyle = line;
    ctx.lineWidth = 1;
    ctx.stroke();
    ctx.restore();
    this.colour = "";
    this.frame(x, y, width, height, line, 1);
  }

  vertical(x: number, y0: number, y1: number, colour: string): void {
    this.fill(colour);
    this.ctx.fillRect(this.snap(x), this.snap(y0), this.hairline, this.snap(y1) - this.snap(y0));
  }

  horizontal(y: number, x0: number, x1: number, colour: string): void {
    this.fill(colour);
    this.ctx.fillRect(this.snap(x0), this.snap(y), this.snap(x1) - this.snap(x0), this.hairline);
  }

  /** A vertical line of dashes: 2 px on, 3 off. */
  dashed(x: number, y0: number, y1: number, colour: string): void {
    this.fill(colour);
    const left = this.snap(x);
    for (let y = this.snap(y0); y < y1; y += 5) {
      this.ctx.fillRect(left, y, this.hairline, Math.min(2, y1 - y));
    }
  }

  /** Draw all of `text` with its baseline at `y`. */
  text(
    text: string,
    x: number,
    y: number,
    font: string,
    colour: string,
    align: Align = "left",
  ): void {
    if (text === "") return;
    this.use(font);
    this.fill(colour);
    if (align !== this.align) {
      this.align = align;
      this.ctx.textAlign = align;
    }
    this.ctx.fillText(text, align === "left" ? this.snap(x) : x, y);
  }

  /** Draw the text that fits into `room`; returns the width used, 0 if none fits. */
  fitted(
    text: string,
    x: number,
    y: number,
    room: number,
    font: string,
    colour: string,
    align: Align = "left",
  ): number {
    const label = this.fitter(font).fit(text, room);
    if (label === "") return 0;
    this.text(label, x, y, font, colour, align);
    return Math.min(room, this.width(label, font));
  }

  /** Draw the first of `texts` that fits whole: a number is dropped rather than cut. */
  firstFit(
    texts: readonly string[],
    x: number,
    y: number,
    room: number,
    font: string,
    colour: string,
    align: Align = "left",
  ): number {
    for (const text of texts) {
      const width = this.width(text, font);
      if (width > room) continue;
      this.text(text, x, y, font, colour, align);
      return width;
    }
    return 0;
  }

  width(text: string, font: string): number {
    return this.fitter(font).width(text);
  }

  fitter(font: string): TextFitter {
    const measure = (text: string): number => {
      this.use(font);
      return this.ctx.measureText(text).width;
    };
    return getOrMake(this.fitters, font, () => new TextFitter(measure));
  }

  /** Draw with everything outside the rectangle cut off. */
  clipped(x: number, y: number, width: number, height: number, draw: () => void): void {
    const { ctx } = this;
    ctx.save();
    ctx.beginPath();
    ctx.rect(this.snap(x), this.snap(y), width, height);
    ctx.clip();
    draw();
    ctx.restore();
    // `restore` resets the context, so the cached settings are stale.
    this.font = "";
    this.colour = "";
    this.align = "left";
    ctx.textAlign = "left";
  }

  private use(font: string): void {
    if (font === this.font) return;
    this.font = font;
    this.ctx.font = font;
  }
}
