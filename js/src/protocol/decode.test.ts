import { describe, expect, test } from "vitest";
import packed from "../../../tests/vectors/packed.json";
import { readColumn, decodeMarks, decodeMinimap, decodeTiles, ProtocolError } from "./decode";

type Spec = [dtype: "u8" | "u16" | "u32" | "i32" | "f32" | "f64", offset: number, length: number];
interface Vector {
  name: string;
  reply: { columns: Record<string, Spec>; level?: number; names?: Record<string, string> };
  buffer: string;
  columns: Record<string, (number | null)[]>;
  /** Name of the same reply without compact encoding. */
  plain?: string;
}
const vectors = packed.replies as unknown as Vector[];

function bytesOf(base64: string): ArrayBuffer {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)).buffer;
}

/** Return the same bytes in a DataView that begins `shift` bytes into a larger buffer. */
function shifted(buffer: ArrayBuffer, shift: number): DataView {
  const whole = new Uint8Array(buffer.byteLength + shift + 3).fill(0xaa);
  whole.set(new Uint8Array(buffer), shift);
  return new DataView(whole.buffer, shift, buffer.byteLength);
}

/** JSON has no NaN, so the vectors contain null. */
const numbers = (values: ArrayLike<number>) =>
  Array.from(values, (value) => (Number.isNaN(value) ? null : value));

describe.each(vectors)("$name", ({ reply, buffer, columns }) => {
  const bytes = bytesOf(buffer);

  test.each([0, 1, 4, 8])("columns at offset %d of their buffer", (shift) => {
    const source = shift === 0 ? bytes : shifted(bytes, shift);
    for (const [name, expected] of Object.entries(columns)) {
      const [dtype] = reply.columns[name]!;
      expect(numbers(readColumn(reply, source, name, dtype))).toEqual(expected);
    }
  });
});

const named = (name: string) => vectors.find((vector) => vector.name === name)!;
const tilesOf = ({ reply, buffer }: Vector) => decodeTiles({ reply, buffer: bytesOf(buffer) });

test("replies of tiles and of counters", () => {
  const events = named("events across tiles");
  const { reply, columns } = events;
  const tiles = tilesOf(events);
  expect([tiles.level, tiles.names]).toEqual([reply.level, reply.names]);
  expect(numbers(tiles.busy)).toEqual(columns.busy);
  expect(numbers(tiles.sliceStart)).toEqual(columns.slice_start);
  expect(numbers(tiles.sliceFirst)).toEqual(columns.slice_first);
  const counters = named("counters");
  const { counterMin, counterMax } = tilesOf(counters);
  expect(numbers(counterMin)).toEqual(counters.columns.counter_min);
  expect(numbers(counterMax)).toEqual(counters.columns.counter_max);
});

test.each(vectors.filter(({ plain }) => plain !== undefined))("$name, equal content", (vector) => {
  expect(tilesOf(vector)).toEqual(tilesOf(named(vector.plain!)));
});

describe("invalid replies are rejected", () => {
  test.each([
    ["b", "u16", 8, ProtocolError],
    ["a", "u32", 8, "is u16, not u32"],
    ["a", "u16", 6, "ends beyond"],
    ["a", "u16", null, "no data"],
  ] as const)("column %s as %s in %s bytes", (name, dtype, bytes, reason) => {
    const reply = { columns: { a: ["u16", 0, 4] as Spec } };
    const buffer = bytes === null ? null : new ArrayBuffer(bytes);
    expect(() => readColumn(reply, buffer, name, dtype)).toThrow(reason);
  });

  test("columns of different lengths", () => {
    const vector = named("events across tiles");
    const columns = { ...vector.reply.columns, tile_lane: ["u32", 0, 6] as Spec };
    expect(() => tilesOf({ ...vector, reply: { ...vector.reply, columns } })).toThrow(
      ProtocolError,
    );
  });
});

test("a minimap without device events shows the CPU's time", () => {
  const buffer = Float32Array.from([0.5, 1]).buffer;
  const reply = { start: 0, end: 10, bins: 2, columns: { cpu: ["f32", 0, 2] } };
  const minimap = decodeMinimap({ reply, buffer });
  expect(minimap.shares).toEqual([["cpu", Float32Array.of(0.5, 1)]]);
});

test("marks and stats", () => {
  const buffer = Uint32Array.from([3, 4, 7, 9, 8, 11]).buffer;
  const columns = { lane: ["u32", 0, 2], bin: ["u32", 8, 2], end: ["u32", 16, 2] };
  const reply = { in_view: 2, total: 5, error: null, columns };
  const marks = decodeMarks({ reply, buffer });
  expect([marks.lane, marks.bin, marks.end].map((column) => [...column])).toEqual([
    [3, 4],
    [7, 9],
    [8, 11],
  ]);
  expect([marks.inView, marks.total]).toEqual([2, 5]);
});
