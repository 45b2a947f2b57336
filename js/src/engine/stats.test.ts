import { describe, expect, test } from "vitest";
import statsVectors from "../../../tests/vectors/stats.json";
import { rankOf, workOf } from "../../test/lane";
import { decodeMinimap } from "../protocol/decode";
import type { Scene } from "../protocol/source";
import { DeviceUsage, minimapReply, statsReply } from "./stats";

interface StatsCase {
  name: string;
  ranks: { rank: number; range: [number, number]; device: [number, number, number][] }[];
  windows: (Record<string, number[]> & { start: number; end: number; kinds: object })[];
  minimap: Record<string, number[]> & { start: number; end: number; bins: number };
}

const cases = (statsVectors as unknown as { cases: StatsCase[] }).cases;

describe.each(cases)("stats: $name", ({ ranks, windows, ...wanted }) => {
  const devices = ranks.map(
    ({ device, rank, range }) => new DeviceUsage(workOf(rankOf(device, rank, range))),
  );

  test.each(windows)("$start … $end", ({ start, end, ...answer }) => {
    const reply = statsReply(devices, start, end);
    for (const [name, values] of Object.entries(answer))
      expect(reply, name).toHaveProperty(name, values);
    expect(reply.ranks).toEqual(ranks.map(({ rank }) => rank));
    expect("approximate" in reply).toBe(false);
  });

  test("kinds of one rank are shares of its own time", () => {
    const { start, end } = windows[0]!;
    devices.forEach(({ rank }, at) => {
      const reply = statsReply(devices, start, end, [rank]);
      const { compute, span } = reply;
      const { compute: share = 0 } = reply.kinds;
      expect(share).toBeCloseTo(compute[at]! / Math.max(span[at]!, 1), 12);
    });
  });

  test("minimap", () => {
    const { start, end, bins, ...columns } = wanted.minimap;
    const made = decodeMinimap(
      minimapReply(devices, { range: [start, end], kinds: ["cpu"] as string[] } as Scene, bins),
    );
    expect([made.start, made.end, made.bins]).toEqual([start, end, bins]);
    for (const name of ["compute", "exposed", "memory"] as const) {
      if (columns[name] === undefined) continue;
      expect(Array.from(new Map(made.shares).get(name) ?? new Float32Array(bins)), name).toEqual(
        columns[name].map(Math.fround),
      );
    }
  });
});

test("a window must have a length", () => {
  expect(() => statsReply([], 5, 5)).toThrow("must end after it starts");
});
