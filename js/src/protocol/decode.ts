/** Decode tile replies into typed arrays. docs/protocol.md specifies the layout. */

import type { Reply } from "./source";

export const ARRAY_TYPES = {
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  i32: Int32Array,
  f32: Float32Array,
  f64: Float64Array,
} as const;

type Dtype = keyof typeof ARRAY_TYPES;
type TypedColumn<D extends Dtype> = InstanceType<(typeof ARRAY_TYPES)[D]>;

export const TILE_CELLS = 256;
/** The coarsest level. */
export const MAX_LEVEL = 52;
/** Busy share of a completely covered cell; also the largest count in a cell. */
export const MAX_U16 = 65_535;
/** Code of cells and slices without a kind or class. */
export const NO_CODE = 255;

/** Received bytes, which may not be aligned for wider types. */
type ReceivedBytes = ArrayBuffer | DataView;

export class ProtocolError extends Error {}

/** Return the column `name` of a reply: a view of the bytes, or a copy if they are unaligned. */
export function readColumn<D extends Dtype>(
  reply: Record<string, unknown>,
  bytes: ReceivedBytes | null,
  name: string,
  dtype: D,
): TypedColumn<D> {
  const specs = reply.columns as Record<string, [string, number, number]> | undefined;
  const spec = specs?.[name];
  if (spec === undefined) throw new ProtocolError(`The answer lacks the column ${name}.`);
  const [actualDtype, offset, length] = spec;
  if (actualDtype !== dtype)
    throw new ProtocolError(`Column ${name} is ${actualDtype}, not ${dtype}.`);
  const Type = ARRAY_TYPES[dtype];
  if (length === 0) return new Type(0) as TypedColumn<D>;
  if (bytes === null) throw new ProtocolError(`The answer has no data for the column ${name}.`);
  const buffer = bytes instanceof DataView ? bytes.buffer : bytes;
  const start = (bytes instanceof DataView ? bytes.byteOffset : 0) + offset;
  const size = length * Type.BYTES_PER_ELEMENT;
  if (offset + size > bytes.byteLength) {
    throw new ProtocolError(`Column ${name} ends beyond the data.`);
  }
  if (start % Type.BYTES_PER_ELEMENT === 0) {
    return new Type(buffer as ArrayBuffer, start, length) as TypedColumn<D>;
  }
  return new Type(buffer.slice(start, start + size) as ArrayBuffer) as TypedColumn<D>;
}

export interface TilesReply {
  level: number;
  tileLane: Uint32Array;
  tileIndex: Float64Array;
  busy: Uint16Array;
  count: Uint16Array;
  kind: Uint8Array;
  sliceFirst: Uint32Array;
  sliceStart: Float64Array;
  sliceDur: Float64Array;
  sliceId: Uint32Array;
  sliceName: Uint32Array;
  sliceKind: Uint8Array;
  sliceFlags: Uint8Array;
  counterLane: Uint32Array;
  counterIndex: Float64Array;
  counterMin: Float32Array;
  counterMax: Float32Array;
  names: Record<string, string>;
  /** Per cell and per slice. Empty if classes were not requested. */
  classes: Uint8Array;
  sliceClass: Uint8Array;
}

export function decodeTiles({ reply, buffer }: Reply): TilesReply {
  const get = <D extends Dtype>(name: string, dtype: D) => readColumn(reply, buffer, name, dtype);
  const level = Number(reply.level);
  const tileIndex = get("tile_index", "f64");
  const sliceFirst = get("slice_first", "u32");
  const slices = sliceFirst.at(-1) ?? 0;
  const has = (name: string) => name in (reply.columns as object);
  const tiles: TilesReply = {
    level,
    tileLane: get("tile_lane", "u32"),
    tileIndex,
    busy: get("busy", "u16"),
    count: readWidened(reply, buffer, "count", Uint16Array),
    kind: has("kinds") ? unpackKinds(get("kinds", "u8")) : get("kind", "u8"),
    sliceFirst,
    sliceStart: has("slice_offset")
      ? sliceStarts(get("slice_offset", "i32"), sliceFirst, tileIndex, TILE_CELLS * 2 ** level)
      : get("slice_start", "f64"),
    sliceDur: readWidened(reply, buffer, "slice_dur", Float64Array),
    sliceId: readWidened(reply, buffer, "slice_id", Uint32Array),
    sliceName: readWidened(reply, buffer, "slice_name", Uint32Array),
    sliceKind: get("slice_kind", "u8"),
    sliceFlags: has("slice_flags") ? get("slice_flags", "u8") : new Uint8Array(slices),
    counterLane: get("counter_lane", "u32"),
    counterIndex: get("counter_index", "f64"),
    counterMin: get("counter_min", "f32"),
    counterMax: get("counter_max", "f32"),
    names: (reply.names ?? {}) as Record<string, string>,
    classes: has("class") ? get("class", "u8") : new Uint8Array(0),
    sliceClass: has("class") ? get("slice_class", "u8") : new Uint8Array(0),
  };
  checkLengths(tiles);
  return tiles;
}

/** Check one column of each length. Other columns of that length are written together with it. */
function checkLengths({ tileLane, busy, sliceFirst, counterLane, counterMin }: TilesReply): void {
  const isConsistent =
    busy.length === tileLane.length * TILE_CELLS &&
    sliceFirst.length === tileLane.length + 1 &&
    counterMin.length === counterLane.length * TILE_CELLS;
  if (!isConsistent) throw new ProtocolError("The columns of the tiles differ in length.");
}

/** Read integers from a column that may have a narrower type in a compact reply. */
function readWidened<T>(
  reply: Record<string, unknown>,
  bytes: ReceivedBytes | null,
  name: string,
  Type: new (values: ArrayLike<number>) => T,
): T {
  const spec = (reply.columns as Record<string, [Dtype] | undefined>)[name];
  const values = readColumn(reply, bytes, name, spec?.[0] ?? "u8"); // throws without a spec
  return values instanceof Type ? values : new Type(values);
}

/** Unpack two cells per byte, with the first in the lower half. 15 means that there is no kind. */
function unpackKinds(pairs: Uint8Array): Uint8Array {
  const kind = new Uint8Array(2 * pairs.length);
  for (let i = 0; i < pairs.length; i += 1) {
    const low = pairs[i]! & 15;
    const high = pairs[i]! >> 4;
    kind[2 * i] = low === 15 ? NO_CODE : low;
    kind[2 * i + 1] = high === 15 ? NO_CODE : high;
  }
  return kind;
}

/** Return the starts of slices. Compact replies store them relative to their tile's start. */
function sliceStarts(
  offsets: Int32Array,
  first: Uint32Array,
  tileIndex: Float64Array,
  width: number,
): Float64Array {
  const starts = new Float64Array(offsets.length);
  for (let tile = 0; tile < tileIndex.length; tile += 1) {
    const origin = tileIndex[tile]! * width;
    for (let i = first[tile]!; i < first[tile + 1]!; i += 1) starts[i] = origin + offsets[i]!;
  }
  return starts;
}

/** Return whether the kernel has not finished the reply and it must be requested again. */
export function isPending({ reply }: Reply): boolean {
  return reply.pending === true;
}

export interface Minimap {
  start: number;
  end: number;
  bins: number;
  /** Share of each kind of work in each bin, from the bottom up. `exposed` is communication. */
  shares: readonly (readonly [name: string, shares: Float32Array])[];
}

export function decodeMinimap({ reply, buffer }: Reply): Minimap {
  const [start, end, bins] = [Number(reply.start), Number(reply.end), Number(reply.bins)];
  const shares = Object.keys(reply.columns as object).map(
    (name) => [name, readColumn(reply, buffer, name, "f32")] as const,
  );
  return { start, end, bins, shares };
}

/** Runs of bins that contain search matches, with their lanes. `end` is the bin after a run. */
export interface Marks {
  lane: Uint32Array;
  bin: Uint32Array;
  end: Uint32Array;
  inView: number;
  total: number;
  error: string | null;
}

export function decodeMarks({ reply, buffer }: Reply): Marks {
  return {
    lane: readColumn(reply, buffer, "lane", "u32"),
    bin: readColumn(reply, buffer, "bin", "u32"),
    end: readColumn(reply, buffer, "end", "u32"),
    inView: Number(reply.in_view),
    total: Number(reply.total),
    error: (reply.error ?? null) as string | null,
  };
}
