/** Takes what is drawn into a raster as shapes instead of pixels. */

import type { Raster } from "../raster";
import type { Sheet } from "./sheet";

/** What lanes are drawn with. */
export type LaneRaster = Pick<
  Raster,
  "width" | "height" | "clip" | "clear" | "rect" | "column" | "hatch"
>;

export class SvgRaster implements LaneRaster {
  private top = 0;
  private bottom: number;
  private readonly fills = new Map<number, string>();

  /** `width` and `height` in device px, `left` and `top` of the sheet's in CSS px. */
  constructor(
    private readonly sheet: Sheet,
    readonly width: number,
    readonly height: number,
    private readonly dpr: number,
    private readonly origin: readonly [left: number, top: number],
  ) {
    this.bottom = height;
  }

  clip(top: number, bottom: number): void {
    this.top = Math.max(0, Math.min(top, this.height));
    this.bottom = Math.max(this.top, Math.min(bottom, this.height));
  }

  clear(colour: number): void {
    this.rect(0, 0, this.width, this.height, colour);
  }

  rect(x0: number, y0: number, x1: number, y1: number, colour: number): void {
    this.box(x0, y0, x1, y1, this.fill(colour));
  }

  column(
    x: number,
    base: number,
    size: number,
    ramp: Uint32Array,
    at: number,
    steps: number,
  ): void {
    // Lines of a vector picture end where they end; a quarter of a px more is not seen.
    const top = base - Math.round(size * 4) / 4;
    this.box(x, top, x + 1, base, this.fill(ramp[at + steps]!));
  }

  hatch(
    x0: number,
    y0: number,
    x1: number,
    y1: number,
    ground: number,
    line: number,
    pitch: number,
    thickness: number,
  ): void {
    const [below, above] = [hex(ground), hex(line)];
    const size = pitch / this.dpr;
    const wide = thickness / this.dpr;
    const id = this.sheet.define(
      (name) =>
        `<pattern id="${name}" width="${size}" height="${size}" patternUnits="userSpaceOnUse">` +
        `<path d="M0 0h${size}v${size}h-${size}z" fill="${below}"/>` +
        `<path d="M-1 1L1 -1M0 ${size}L${size} 0M${size - 1} ${size + 1}L${size + 1} ${size - 1}"` +
        ` stroke="${above}" stroke-width="${wide}" fill="none"/></pattern>`,
      `hatch-${below.slice(1)}-${above.slice(1)}`,
    );
    this.box(x0, y0, x1, y1, `fill="url(#${id})"`);
  }

  private box(x0: number, y0: number, x1: number, y1: number, fill: string): void {
    const { dpr, origin } = this;
    const [left, top] = origin;
    this.sheet.box(
      left + Math.max(0, x0) / dpr,
      top + Math.max(this.top, y0) / dpr,
      left + Math.min(this.width, x1) / dpr,
      top + Math.min(this.bottom, y1) / dpr,
      fill,
    );
  }

  private fill(colour: number): string {
    let fill = this.fills.get(colour);
    if (fill === undefined) {
      fill = `fill="${hex(colour)}"`;
      this.fills.set(colour, fill);
    }
    return fill;
  }
}

/** A pixel as a CSS colour. */
function hex(pixel: number): string {
  const [r, g, b] = [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  return `#${[r, g, b].map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}
