import { describe, expect, test } from "vitest";
import { niceStep } from "../ui/text";
import { timeTicks } from "./head";

const narrowLabels = () => 40;

test("steps are 1, 2 or 5 times a power of ten", () => {
  expect([1, 1.1, 2, 2.1, 4.9, 5, 5.1, 99, 101].map(niceStep)).toEqual([
    1, 2, 2, 5, 5, 5, 10, 100, 200,
  ]);
  expect(niceStep(3e-7)).toBeCloseTo(5e-7, 12);
});

describe("ticks", () => {
  test.each([824e6, 283e6, 2.04e6, 100, 3.6e12, 6.5e8])("a span of %d ns has 4 to 10", (span) => {
    const { times, step } = timeTicks(1000, 1000 + span, 936, narrowLabels);
    expect(times.length).toBeGreaterThanOrEqual(4);
    expect(times.length).toBeLessThanOrEqual(10);
    for (const time of times)
      expect(Math.abs(time / step - Math.round(time / step))).toBeLessThan(1e-6);
  });

  test("are within the view", () => {
    const { times } = timeTicks(451.32e6, 453.36e6, 936, narrowLabels);
    expect(times[0]).toBeGreaterThanOrEqual(451.32e6);
    expect(times.at(-1)).toBeLessThanOrEqual(453.36e6);
    expect(times).toContain(452e6);
  });

  test("are fewer where labels are wide", () => {
    const wide = timeTicks(0, 1000, 400, () => 120);
    const gap = (wide.step / 1000) * 400;
    expect(gap).toBeGreaterThanOrEqual(140);
  });

  test("an empty view has none", () => {
    expect(timeTicks(5, 5, 100, narrowLabels).times).toEqual([]);
    expect(timeTicks(0, 10, 0, narrowLabels).times).toEqual([]);
  });
});
