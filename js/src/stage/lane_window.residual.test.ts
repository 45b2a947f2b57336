import { expect, test } from "vitest";
import { type GivenEvent, tileCases } from "../../test/tile_vectors";
import { subtractSlices } from "./lane_window";

const cases = tileCases.filter(({ lanes }) => lanes.length > 0);

function union(events: readonly GivenEvent[], from: number, to: number): number {
  let total = 0;
  let reached = from;
  const inside = events.map(([s, d]) => [Math.max(s, from), Math.min(s + d, to)] as const);
  for (const [start, end] of inside.filter(([a, b]) => b > a).sort((a, b) => a[0] - b[0])) {
    total += Math.max(0, end - Math.max(start, reached));
    reached = Math.max(reached, end);
  }
  return total;
}

const overlaps = ([start, dur]: GivenEvent, from: number, to: number) =>
  dur === 0 ? start >= from && start < to : start < to && start + dur > from;

test.each(cases)("$name: cells minus their slices equal the time of short events", (example) => {
  const width = 2 ** example.level;
  for (const tile of example.tiles) {
    const { events, slices } = example.lanes.find(({ lane }) => lane === tile.lane)!;
    if (!slices) continue;
    const share = new Float32Array(256);
    const counts = new Int32Array(256);
    for (const cell of tile.cells) {
      share[cell.cell!] = cell.busy! / 65535;
      counts[cell.cell!] = cell.count!;
    }
    const long = tile.slices.map((i) => events[i]!);
    const columns = {
      sliceStart: Float64Array.from(long, ([start]) => start),
      sliceDur: Float64Array.from(long, ([, dur]) => dur),
    };
    const origin = tile.index * 256 * width;
    subtractSlices({ origin, cell: width, share, counts }, columns, 0);

    const isLong = ([, dur]: GivenEvent) => dur >= 2 * width;
    for (let cell = 0; cell < 256; cell += 1) {
      const from = origin + cell * width;
      const to = from + width;
      const left = (union(events, from, to) - union(events.filter(isLong), from, to)) / width;
      expect(Math.abs(share[cell]! - left)).toBeLessThan(2 / 65535);
      const short = events.filter((e) => !isLong(e) && overlaps(e, from, to)).length;
      expect(counts[cell]).toBe(short);
    }
  }
});

test("slices below the min length stay in the cells", () => {
  const share = new Float32Array(4).fill(1);
  const counts = new Int32Array(4).fill(1);
  const cells = { origin: 0, cell: 1, share, counts };
  const slices = { sliceStart: Float64Array.of(0), sliceDur: Float64Array.of(4) };
  subtractSlices(cells, slices, 5);
  expect([...share, ...counts]).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
  subtractSlices(cells, slices, 4);
  expect([...share, ...counts]).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
});
