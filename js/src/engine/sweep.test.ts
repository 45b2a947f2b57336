import { describe, expect, test } from "vitest";
import { seededRandom } from "../../test/random";
import { IntervalSet } from "./spans";
import { Sweep, timeInStates } from "./sweep";

type Interval = [start: number, end: number];

function spansOf(intervals: readonly Interval[]): IntervalSet {
  const sorted = [...intervals].sort((a, b) => a[0] - b[0]);
  return IntervalSet.of(
    Float64Array.from(sorted, ([start]) => start),
    Float64Array.from(sorted, ([start, end]) => end - start),
  );
}

const SETS: Interval[][][] = Array.from({ length: 40 }, (_, seed) => {
  const random = seededRandom(seed);
  return Array.from({ length: 4 }, () =>
    Array.from({ length: random(24) }, (): Interval => {
      const start = random(90);
      return [start, start + random(3) * random(9)];
    }),
  );
});

describe.each(SETS.map((sets, seed) => ({ seed, sets })))("sets of seed $seed", ({ sets }) => {
  const spans = sets.map(spansOf);
  const random = seededRandom(sets.length);
  const windows = Array.from({ length: 12 }, (): Interval => [random(60), 60 + random(60)]);
  const covers = (time: number) => (set: readonly Interval[]) =>
    set.some(([start, end]) => start <= time && time < end);

  test("time in each state, nanosecond by nanosecond", () => {
    const sweep = Sweep.of(spans.map(({ cover }) => cover));
    for (const [low, high] of windows) {
      const times = new Float64Array(16);
      for (let time = low; time < high; time += 1) {
        const state = sets.reduce((sum, set, k) => sum + (covers(time)(set) ? 1 << k : 0), 0);
        if (state > 0) times[state]! += 1;
      }
      const measured = sweep.timesWithin(low, high);
      expect([...measured]).toEqual([...times.subarray(0, measured.length)]);
      expect([...times.subarray(measured.length)].some((time) => time > 0)).toBe(false);
    }
    const all = [...sweep.timesWithin(-Infinity, Infinity)];
    expect(all).toEqual([...sweep.timesWithin(0, 200)]);
  });

  test("intervals that overlap a window, and their extent in it", () => {
    for (const [low, high] of [...windows, [5, 5], [-Infinity, 30], [30, Infinity]] as Interval[]) {
      sets.forEach((set, k) => {
        const inside = set.filter(
          ([start, end]) => low < high && start < high && (end > low || start >= low),
        );
        expect(spans[k]!.count(low, high)).toBe(inside.length);
        expect(spans[k]!.extentWithin(low, high)).toEqual([
          Math.min(...inside.map(([start]) => Math.max(start, low))),
          Math.max(...inside.map(([, end]) => Math.min(end, high))),
        ]);
      });
    }
  });
});

test("states given as columns", () => {
  const sweep = new Sweep(Float64Array.of(0, 5, 9, 20, 30), Uint8Array.of(1, 3, 0, 2, 0));
  expect([...sweep.timesWithin(2, 25)]).toEqual([0, 3, 5, 4]);
  expect([...sweep.timesWithin(-9, 99)]).toEqual([0, 5, 10, 4]);
});

test("time with some bits and without others", () => {
  const times = Float64Array.of(0, 1, 10, 100, 1000, 0, 0, 10_000);
  expect(timeInStates(times, 1)).toBe(10_101);
  expect(timeInStates(times, 3)).toBe(10_111);
  expect(timeInStates(times, 2, 1)).toBe(10);
  expect(timeInStates(times, 4, 3)).toBe(1000);
});
