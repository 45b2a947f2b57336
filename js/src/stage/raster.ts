/** Fill rectangles and pixel columns in memory, which is much faster than canvas calls. */

/** The colors of a hatch, and the distance and thickness of its lines in device px. */
export interface Hatch {
  ground: number;
  line: number;
  pitch: number;
  thickness: number;
}

/** An area in device px in which the pixel rows `top` to `bottom - 1` can be drawn on. */
export class ClippedArea {
  protected top = 0;
  protected bottom: number;

  constructor(
    readonly width: number,
    readonly height: number,
  ) {
    this.bottom = height;
  }

  clip(top: number, bottom: number): void {
    this.top = Math.max(0, Math.min(top, this.height));
    this.bottom = Math.max(this.top, Math.min(bottom, this.height));
  }
}

export class PixelRaster extends ClippedArea {
  readonly image: ImageData;
  private readonly px: Uint32Array;

  constructor(width: number, height: number) {
    super(width, height);
    this.image = new ImageData(width, height);
    this.px = new Uint32Array(this.image.data.buffer);
  }

  fillRect(x0: number, y0: number, x1: number, y1: number, color: number): void {
    const left = Math.max(0, x0);
    const right = Math.min(this.width, x1);
    const to = Math.min(y1, this.bottom);
    if (right <= left) return;
    const { px, width } = this;
    if (right - left < 24) {
      for (let y = Math.max(y0, this.top); y < to; y += 1) {
        const row = y * width;
        for (let pixel = row + left; pixel < row + right; pixel += 1) px[pixel] = color;
      }
      return;
    }
    for (let y = Math.max(y0, this.top); y < to; y += 1) {
      const row = y * width;
      px.fill(color, row + left, row + right);
    }
  }

  /**
   * Draw a column that is one pixel wide and `size` high, standing on `base`. The strength of its
   * topmost pixel is that pixel's covered share: `ramp[column … column + steps]` goes from the
   * background to the full color.
   */
  fillColumn(
    x: number,
    base: number,
    size: number,
    ramp: Uint32Array,
    column: number,
    steps: number,
  ): void {
    const { px, width } = this;
    const fullPixels = Math.floor(size + 1e-6);
    const full = ramp[column + steps]!;
    const topOfWhole = base - fullPixels;
    const to = Math.min(base, this.bottom);
    for (let y = Math.max(topOfWhole, this.top); y < to; y += 1) px[y * width + x] = full;
    const remainder = Math.round((size - fullPixels) * steps);
    const y = topOfWhole - 1;
    if (remainder > 0 && y >= this.top && y < this.bottom)
      px[y * width + x] = ramp[column + remainder]!;
  }

  hatchRect(x0: number, y0: number, x1: number, y1: number, hatch: Hatch): void {
    const { ground, line, pitch, thickness } = hatch;
    const left = Math.max(0, x0);
    const right = Math.min(this.width, x1);
    const to = Math.min(y1, this.bottom);
    const { px, width } = this;
    for (let y = Math.max(y0, this.top); y < to; y += 1) {
      const row = y * width;
      // Relative to the origin of the stage, so that adjacent hatches line up.
      let phase = (left + y) % pitch;
      for (let x = left; x < right; x += 1) {
        px[row + x] = phase < thickness ? line : ground;
        phase += 1;
        if (phase === pitch) phase = 0;
      }
    }
  }
}

/** The drawing functions used for lanes. */
export type LaneRaster = Pick<
  PixelRaster,
  "width" | "height" | "clip" | "fillRect" | "fillColumn" | "hatchRect"
>;
