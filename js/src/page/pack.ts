/** Columns of numbers in one buffer, as the kernel packs them. */

import type { Reply } from "../contract";

const DTYPES = new Map<unknown, string>([
  [Uint8Array, "u8"],
  [Uint16Array, "u16"],
  [Uint32Array, "u32"],
  [Int32Array, "i32"],
  [Float32Array, "f32"],
  [Float64Array, "f64"],
]);

const ALIGNMENT = 8;

export type Packed =
  Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array;

/** An answer with columns. */
export function packed(reply: Record<string, unknown>, columns: Record<string, Packed>): Reply {
  const header: Record<string, [string, number, number]> = {};
  let size = 0;
  for (const [name, values] of Object.entries(columns)) {
    const offset = Math.ceil(size / ALIGNMENT) * ALIGNMENT;
    header[name] = [DTYPES.get(values.constructor) ?? "", offset, values.length];
    size = offset + values.byteLength;
  }
  const bytes = new Uint8Array(size);
  for (const [name, values] of Object.entries(columns)) {
    const own = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    bytes.set(own, header[name]![1]);
  }
  return { reply: { ...reply, columns: header }, buffer: bytes.buffer };
}
