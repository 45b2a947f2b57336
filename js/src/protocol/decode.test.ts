import { describe, expect, test } from "vitest";
import packed from "../../../tests/vectors/packed.json";
import { column, decodeMarks, decodeMinimap, decodeTiles, ProtocolError } from "./decode";

type Spec = [dtype: "u8" | "u16" | "u32" | "i32" | "f32" | "f64", offset: number, length: number];
interface Vector {
  name: string;
  reply: { columns: Record<string, Spec>; level?: number; names?: Record<string, string> };
  buffer: string;
  columns: Record<string, (number | null)[]>;
  /** Name of the same reply in its form without compact encoding. */
  plain?: string;
}
const vectors = packed.replies as unknown as Vector[];

function bytesOf(base64: string): ArrayBuffer {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)).buffer;
}

/** The same bytes in a DataView that begins `shift` bytes into a larger buffer. */
function shifted(buffer: ArrayBuffer, shift: number): DataView {
  const whole = new Uint8Array(buffer.byteLength + shift + 3).fill(0xaa);
  whole.set(new Uint8Array(buffer), shift);
  return new DataView(whole.buffer, shift, buffer.byteLength);
}

/** JSON has no NaN: the vectors write null. */
const numbers = (values: ArrayLike<number>) =>
  Array.from(values, (value) => (Number.isNaN(value) ? null : value));

describe.each(vectors)("$name", ({ reply, buffer, columns }) => {
  const bytes = bytesOf(buffer);

  test.each([0, 1, 4, 8])("columns, with the bytes %d further on in their buffer", (shift) => {
    const source = shift === 0 ? bytes : shifted(bytes, shift);
    for (const [name, expected] of Object.entries(columns)) {
      const [dtype] = reply.columns[name]!;
      expect(numbers(column(reply, source, name, dtype))).toEqual(expected);
    }
  });
});

test("a reply of tiles", () => {
  const vector = vectors.find(({ name }) => name === "events across tiles")!;
  const tiles = decodeTiles({ reply: vector.reply, buffer: bytesOf(vector.buffer) });
  expect(tiles.level).toBe(vector.reply.level);
  expect(numbers(tiles.busy)).toEqual(vector.columns.busy);
  expect(numbers(tiles.sliceStart)).toEqual(vector.columns.slice_start);
  expect(numbers(tiles.sliceFirst)).toEqual(vector.columns.slice_first);
  expect(tiles.names).toEqual(vector.reply.names);
});

test.each(vectors.filter(({ plain }) => plain !== undefined))("$name, equal content", (vector) => {
  const plain = vectors.find(({ name }) => name === vector.plain)!;
  const decoded = [vector, plain].map(({ reply, buffer }) =>
    decodeTiles({ reply, buffer: bytesOf(buffer) }),
  );
  expect(decoded[0]).toEqual(decoded[1]);
});

test("a reply of counters", () => {
  const vector = vectors.find(({ name }) => name === "counters")!;
  const tiles = decodeTiles({ reply: vector.reply, buffer: bytesOf(vector.buffer) });
  expect(numbers(tiles.counterMin)).toEqual(vector.columns.counter_min);
  expect(numbers(tiles.counterMax)).toEqual(vector.columns.counter_max);
});

describe("invalid replies are refused", () => {
  const reply = { columns: { a: ["u16", 0, 4] as Spec } };
  test("a missing column", () => {
    expect(() => column(reply, new ArrayBuffer(8), "b", "u16")).toThrow(ProtocolError);
  });
  test("another type", () => {
    expect(() => column(reply, new ArrayBuffer(8), "a", "u32")).toThrow("is u16, not u32");
  });
  test("too few bytes, or none", () => {
    expect(() => column(reply, new ArrayBuffer(6), "a", "u16")).toThrow("ends beyond");
    expect(() => column(reply, null, "a", "u16")).toThrow("no data");
  });
  test("columns that do not agree", () => {
    const vector = vectors.find(({ name }) => name === "events across tiles")!;
    const columns = { ...vector.reply.columns, tile_lane: ["u32", 0, 6] as Spec };
    expect(() =>
      decodeTiles({ reply: { ...vector.reply, columns }, buffer: bytesOf(vector.buffer) }),
    ).toThrow(ProtocolError);
  });
});

test("a minimap of a job without device events has the CPU's time", () => {
  const buffer = Float32Array.from([0.5, 1]).buffer;
  const reply = { start: 0, end: 10, bins: 2, columns: { cpu: ["f32", 0, 2] } };
  const minimap = decodeMinimap({ reply, buffer });
  expect([...(minimap.cpu ?? [])]).toEqual([0.5, 1]);
  expect([...minimap.compute]).toEqual([0, 0]);
});

test("marks and stats", () => {
  const buffer = Uint32Array.from([3, 4, 7, 9]).buffer;
  const reply = {
    in_view: 2,
    total: 5,
    error: null,
    columns: { lane: ["u32", 0, 2], bin: ["u32", 8, 2] },
  };
  const marks = decodeMarks({ reply, buffer });
  expect([...marks.lane, ...marks.bin, marks.inView, marks.total]).toEqual([3, 4, 7, 9, 2, 5]);
});
