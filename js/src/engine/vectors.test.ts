import { describe, expect, test } from "vitest";
import packedVectors from "../../../tests/vectors/packed.json";
import searchVectors from "../../../tests/vectors/search.json";
import { tileCases as cases, type TileVector, type GivenEvent } from "../../test/tile_vectors";
import { matchNames } from "../expressions/evaluate";
import {
  CounterSeries,
  buildCounterTiles,
  IndexedLane,
  buildLaneTiles,
  quantizeShare,
} from "./cells";
import { ARRAY_TYPES, TILE_CELLS } from "../protocol/decode";
import { type PackedArray, packReply } from "./columns";

function laneOf(events: GivenEvent[], slices: boolean): IndexedLane {
  return new IndexedLane({
    starts: Float64Array.from(events, ([start]) => start),
    durs: Float64Array.from(events, ([, dur]) => dur),
    kinds: Uint8Array.from(events, ([, , kind]) => kind),
    rows: slices ? Int32Array.from(events, (_, row) => row) : null,
  });
}

/** Return a column of a tile, expanded from its sparse cells. */
function columnOf(tile: TileVector, name: string, empty: number): number[] {
  const out = new Array<number>(TILE_CELLS).fill(empty);
  for (const cell of tile.cells) out[cell.cell!] = cell[name]!;
  return out;
}

describe.each(cases)("tiles: $name", ({ level, first, last, end, lanes, counters, ...wanted }) => {
  test.each(lanes)("lane $lane", ({ lane, events, slices }) => {
    const index = laneOf(events, slices);
    const made = buildLaneTiles(index, { level, first, last }, (at) => {
      const row = index.rows[at]!;
      const [start, dur, kind] = events[row]!;
      return { start, dur, id: row, name: 0, kind, flags: 0 };
    });
    const tiles = wanted.tiles.filter((tile) => tile.lane === lane);
    expect(made.map((tile) => tile.index)).toEqual(tiles.map((tile) => tile.index));
    tiles.forEach((tile, i) => {
      const columns = { busy: 0, count: 0, kind: 255, mask: 0 };
      for (const [name, empty] of Object.entries(columns)) {
        const found = Array.from(made[i]![name as keyof typeof columns]);
        expect(found, name).toEqual(columnOf(tile, name, empty));
      }
      expect(made[i]!.slices.map(({ id }) => id)).toEqual(tile.slices);
    });
  });

  test("exact time of every cell", () => {
    const width = 2 ** level;
    for (const { lane, index, cells } of wanted.tiles) {
      const { events } = lanes.find((candidate) => candidate.lane === lane)!;
      const indexed = laneOf(events, true);
      for (const { cell, covered } of cells) {
        const start = (index * TILE_CELLS + cell!) * width;
        const found = indexed.measure(Float64Array.of(start, start + width));
        expect(found.covered[0]).toBe(covered);
      }
    }
  });

  test.each(counters)("counter $lane", ({ lane, samples }) => {
    const counter = new CounterSeries(
      Float64Array.from(samples, ([time]) => time),
      Float64Array.from(samples, ([, value]) => value),
      end!,
    );
    const made = buildCounterTiles(counter, { level, first, last });
    const tiles = wanted.counter_tiles.filter((tile) => tile.lane === lane);
    expect(made.map((tile) => tile.index)).toEqual(tiles.map((tile) => tile.index));
    tiles.forEach((tile, i) => {
      expect(Array.from(made[i]!.min)).toEqual(columnOf(tile, "min", Number.NaN));
      expect(Array.from(made[i]!.max)).toEqual(columnOf(tile, "max", Number.NaN));
    });
  });
});

test("shares at levels whose products leave 2^53", () => {
  const cell = 2 ** 50;
  expect(quantizeShare(1, 50)).toBe(1);
  expect(quantizeShare(cell - 1, 50)).toBe(65_534);
  expect(quantizeShare(cell / 2, 50)).toBe(32_768);
  // 2/5 of the cell: slightly above 26214.0, which a product of doubles still rounds correctly …
  expect(quantizeShare(Math.floor((cell * 2) / 5), 50)).toBe(26_214);
  // … and slightly below a half step, which a product of doubles would round up.
  const half = Number((BigInt(cell) * 3n) / (65_535n * 2n));
  expect(quantizeShare(half, 50)).toBe(1);
  expect(quantizeShare(half + 1, 50)).toBe(2);
});

test.each(packedVectors.replies)("packed bytes: $name", ({ reply, buffer, columns }) => {
  const header = reply.columns as unknown as Record<
    string,
    [keyof typeof ARRAY_TYPES, number, number]
  >;
  const values: Record<string, PackedArray> = {};
  for (const [name, [dtype]] of Object.entries(header)) {
    const given = (columns as unknown as Record<string, (number | null)[]>)[name]!;
    values[name] = ARRAY_TYPES[dtype].from(given.map((value) => value ?? Number.NaN));
  }
  const made = packReply({}, values);
  expect(made.reply.columns).toEqual(header);
  expect(Buffer.from(made.buffer!).toString("base64")).toBe(buffer);
});

describe("search texts", () => {
  const { names, texts, bad } = searchVectors;

  test.each(Object.entries(texts))("%s", (text, wanted) => {
    const { matching, error } = matchNames(text, names);
    expect(error).toBeNull();
    expect(names.flatMap((_, at) => (matching[at] === 1 ? [at] : []))).toEqual(wanted);
  });

  test.each(bad)("bad: %s", (text) => {
    const { matching, error } = matchNames(text, names);
    expect(error).toMatch(/^not a regular expression: ./);
    expect(matching.every((flag) => flag === 0)).toBe(true);
  });
});

test("there are expected figures", () => expect(cases.length).toBeGreaterThan(8));
