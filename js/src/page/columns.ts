/**
 * Columns as they lie in a page: integers as planes of bytes (all lowest bytes first, then the
 * next higher ones), which compress better than whole numbers; ascending ones as differences.
 */

/** `[offset, length, bytes of an item, flags]`. */
export type ColumnSpec = readonly [offset: number, length: number, width: number, flags: number];

export const DELTA = 1;
export const ZIGZAG = 2;
export const FLOAT = 4;

type Numbers = Float64Array | Int32Array | Uint16Array | Uint8Array;

export class Columns {
  constructor(
    private readonly bytes: Uint8Array,
    private readonly specs: Readonly<Record<string, ColumnSpec>>,
  ) {}

  has(name: string): boolean {
    return name in this.specs;
  }

  length(name: string): number {
    return this.specs[name]?.[1] ?? 0;
  }

  /** A column of integers below 2^53. */
  f64(name: string): Float64Array {
    return this.read(name, new Float64Array(this.length(name)));
  }

  i32(name: string): Int32Array {
    return this.read(name, new Int32Array(this.length(name)));
  }

  u8(name: string): Uint8Array {
    return this.read(name, new Uint8Array(this.length(name)));
  }

  /** A column of floating point numbers. */
  floats(name: string): Float64Array {
    const spec = this.specs[name];
    if (spec === undefined) return new Float64Array(0);
    const [offset, length, width] = spec;
    const bytes = new Uint8Array(length * width);
    for (let plane = 0; plane < width; plane += 1) {
      const from = offset + plane * length;
      for (let i = 0; i < length; i += 1) bytes[i * width + plane] = this.bytes[from + i]!;
    }
    if (width === 8) return new Float64Array(bytes.buffer);
    return Float64Array.from(new Float32Array(bytes.buffer));
  }

  private read<T extends Numbers>(name: string, out: T): T {
    const spec = this.specs[name];
    if (spec === undefined) return out;
    const [offset, length, width, flags] = spec;
    if (offset + length * width > this.bytes.length) {
      throw new Error(`The column "${name}" of this page is cut off. Save the page again.`);
    }
    const zigzag = (flags & ZIGZAG) !== 0;
    const delta = (flags & DELTA) !== 0;
    const values = out instanceof Float64Array ? out : new Float64Array(length);
    for (let plane = 0; plane < width; plane += 1) {
      const bytes = this.bytes.subarray(offset + plane * length, offset + (plane + 1) * length);
      const weight = 256 ** plane;
      for (let i = 0; i < length; i += 1) values[i] = values[i]! + bytes[i]! * weight;
    }
    let before = 0;
    for (let i = 0; (zigzag || delta) && i < length; i += 1) {
      let value = values[i]!;
      if (zigzag) value = value % 2 === 0 ? value / 2 : -(value + 1) / 2;
      if (delta) value += before;
      before = value;
      values[i] = value;
    }
    if (values !== out) out.set(values);
    return out;
  }
}
