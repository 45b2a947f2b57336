/** Replies of the tile protocol as typed arrays. The layout is specified in docs/protocol.md. */

import type { Kind, Reply } from "../contract";

const ARRAYS = {
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  i32: Int32Array,
  f32: Float32Array,
  f64: Float64Array,
} as const;

type Dtype = keyof typeof ARRAYS;
type Column<D extends Dtype> = InstanceType<(typeof ARRAYS)[D]>;

export const TILE_CELLS = 256;

/** Bytes as they came: from an offset that suits no wider type, perhaps. */
export type Bytes = ArrayBuffer | DataView;

export class ProtocolError extends Error {}

/** The column `name` of a reply. A view where the alignment allows it, else a copy. */
export function column<D extends Dtype>(
  reply: Record<string, unknown>,
  bytes: Bytes | null,
  name: string,
  dtype: D,
): Column<D> {
  const specs = reply.columns as Record<string, [string, number, number]> | undefined;
  const spec = specs?.[name];
  if (spec === undefined) throw new ProtocolError(`The answer lacks the column ${name}.`);
  const [found, offset, length] = spec;
  if (found !== dtype) throw new ProtocolError(`Column ${name} is ${found}, not ${dtype}.`);
  const Type = ARRAYS[dtype];
  if (length === 0) return new Type(0) as Column<D>;
  if (bytes === null) throw new ProtocolError(`The answer has no data for the column ${name}.`);
  const buffer = bytes instanceof DataView ? bytes.buffer : bytes;
  const start = (bytes instanceof DataView ? bytes.byteOffset : 0) + offset;
  const size = length * Type.BYTES_PER_ELEMENT;
  if (offset + size > bytes.byteLength) {
    throw new ProtocolError(`Column ${name} ends beyond the data.`);
  }
  if (start % Type.BYTES_PER_ELEMENT === 0) {
    return new Type(buffer as ArrayBuffer, start, length) as Column<D>;
  }
  return new Type(buffer.slice(start, start + size) as ArrayBuffer) as Column<D>;
}

export interface TilesReply {
  level: number;
  tileLane: Uint32Array;
  tileIndex: Float64Array;
  busy: Uint16Array;
  count: Uint16Array;
  kind: Uint8Array;
  mask: Uint8Array;
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
}

export function decodeTiles({ reply, buffer }: Reply): TilesReply {
  const get = <D extends Dtype>(name: string, dtype: D) => column(reply, buffer, name, dtype);
  const tiles: TilesReply = {
    level: Number(reply.level),
    tileLane: get("tile_lane", "u32"),
    tileIndex: get("tile_index", "f64"),
    busy: get("busy", "u16"),
    count: get("count", "u16"),
    kind: get("kind", "u8"),
    mask: get("mask", "u8"),
    sliceFirst: get("slice_first", "u32"),
    sliceStart: get("slice_start", "f64"),
    sliceDur: get("slice_dur", "f64"),
    sliceId: get("slice_id", "u32"),
    sliceName: get("slice_name", "u32"),
    sliceKind: get("slice_kind", "u8"),
    sliceFlags: get("slice_flags", "u8"),
    counterLane: get("counter_lane", "u32"),
    counterIndex: get("counter_index", "f64"),
    counterMin: get("counter_min", "f32"),
    counterMax: get("counter_max", "f32"),
    names: (reply.names ?? {}) as Record<string, string>,
  };
  const { tileLane, busy, sliceFirst, counterLane, counterMin } = tiles;
  if (
    busy.length !== tileLane.length * TILE_CELLS ||
    sliceFirst.length !== tileLane.length + 1 ||
    counterMin.length !== counterLane.length * TILE_CELLS
  ) {
    throw new ProtocolError("The columns of the tiles do not agree in length.");
  }
  return tiles;
}

export interface Minimap {
  start: number;
  end: number;
  bins: number;
  compute: Float32Array;
  exposed: Float32Array;
  memory: Float32Array;
  /** Only of jobs without device events; null otherwise. */
  cpu: Float32Array | null;
}

export function decodeMinimap({ reply, buffer }: Reply): Minimap {
  const get = (name: string) => column(reply, buffer, name, "f32");
  const bins = Number(reply.bins);
  const hasCpu = "cpu" in (reply.columns as object);
  const none = new Float32Array(bins);
  return {
    start: Number(reply.start),
    end: Number(reply.end),
    bins,
    compute: hasCpu ? none : get("compute"),
    exposed: hasCpu ? none : get("exposed"),
    memory: hasCpu ? none : get("memory"),
    cpu: hasCpu ? get("cpu") : null,
  };
}

/** Times of the window in ns, one entry per rank. */
export interface Stats {
  start: number;
  end: number;
  ranks: readonly number[];
  compute: readonly number[];
  communication: readonly number[];
  exposed: readonly number[];
  memory: readonly number[];
  idle: readonly number[];
  /** The part of the window inside the rank's range. */
  data: readonly number[];
  /** Share of the window over all ranks; empty where there are no device events. */
  kinds: Readonly<Partial<Record<Kind, number>>>;
}

export function decodeStats({ reply }: Reply, start: number, end: number): Stats {
  const get = (name: string) => (reply[name] ?? []) as number[];
  return {
    start,
    end,
    ranks: get("ranks"),
    compute: get("compute"),
    communication: get("communication"),
    exposed: get("exposed"),
    memory: get("memory"),
    idle: get("idle"),
    data: get("data"),
    kinds: reply.kinds ?? {},
  };
}

/** What the matched collectives in a window add up to, one entry per rank. */
export interface Lateness {
  start: number;
  end: number;
  ranks: readonly number[];
  collectives: readonly number[];
  /** At how many of them the rank came last, alone. */
  last: readonly number[];
  /** Union of its waits, and what of that is not under compute. */
  wait: readonly number[];
  exposedWait: readonly number[];
  /** What all others waited for it. */
  imposed: readonly number[];
  /** Union of its waits where one of `late` alone came last. */
  waitForLate: readonly number[];
  /** The ranks for which the others wait. */
  late: readonly number[];
  note: string;
}

export function decodeLateness({ reply }: Reply, start: number, end: number): Lateness {
  const get = (name: string) => (reply[name] ?? []) as number[];
  return {
    start,
    end,
    ranks: get("ranks"),
    collectives: get("collectives"),
    last: get("last"),
    wait: get("wait"),
    exposedWait: get("exposed_wait"),
    imposed: get("imposed"),
    waitForLate: get("wait_for_late"),
    late: get("late"),
    note: typeof reply.note === "string" ? reply.note : "",
  };
}

export interface Marks {
  lane: Uint32Array;
  bin: Uint32Array;
  inView: number;
  total: number;
  error: string | null;
}

export function decodeMarks({ reply, buffer }: Reply): Marks {
  return {
    lane: column(reply, buffer, "lane", "u32"),
    bin: column(reply, buffer, "bin", "u32"),
    inView: Number(reply.in_view),
    total: Number(reply.total),
    error: (reply.error ?? null) as string | null,
  };
}
