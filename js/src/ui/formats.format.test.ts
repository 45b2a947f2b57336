import { describe, expect, test } from "vitest";
import {
  formatAxis,
  formatBytes,
  formatCount,
  formatDuration,
  formatDurationDelta,
  formatExact,
  formatShare,
  formatShareDelta,
  formatTime,
  formatValue,
  plural,
} from "./formats";
import { niceTicks } from "./text";

/** Thin and narrow no-break spaces as a plain space, so that expectations can be read. */
const plain = (text: string) => text.replace(/\u202f/g, " ");

describe("durations keep three significant digits", () => {
  test.each([
    [0, "0 ns"],
    [1, "1 ns"],
    [415, "415 ns"],
    [999, "999 ns"],
    [1000, "1.00 µs"],
    [1_984, "1.98 µs"],
    [9_996, "10.0 µs"],
    [999_499, "999 µs"],
    [999_700, "1.00 ms"],
    [1_210_000, "1.21 ms"],
    [12_345_678, "12.3 ms"],
    [148_200_000, "148 ms"],
    [824_000_000, "824 ms"],
    [999_960_000, "1.00 s"],
    [1_500_000_000, "1.50 s"],
    [61_000_000_000, "61.0 s"],
    [3_600_000_000_000, "3 600 s"],
    [-5_830_000, "−5.83 ms"],
  ])("%d ns is %s", (ns, expected) => {
    expect(plain(formatDuration(ns))).toBe(expected);
  });

  test("means that are not whole nanoseconds", () => {
    expect(plain(formatDuration(12.34))).toBe("12.3 ns");
    expect(plain(formatDuration(0.25))).toBe("0.25 ns");
  });

  test("the unit is parted by a thin space", () => {
    expect(formatDuration(1_210_000)).toBe("1.21\u202fms");
  });

  test("nothing known is not zero", () => {
    expect(formatDuration(null)).toBe("–");
    expect(formatDuration(Number.NaN)).toBe("–");
  });
});

test("deltas carry their sign, zero too", () => {
  expect(plain(formatDurationDelta(24_800_000))).toBe("+24.8 ms");
  expect(plain(formatDurationDelta(-3000))).toBe("−3.00 µs");
  expect(plain(formatDurationDelta(0))).toBe("±0 ns");
  expect(plain(formatShareDelta(0.6))).toBe("+60 %");
  expect(plain(formatShareDelta(-0.028))).toBe("−2.8 %");
  expect(plain(formatShareDelta(0))).toBe("±0 %");
  expect(plain(formatShareDelta(0.0002))).toBe("±0 %");
});

test("times keep their microseconds", () => {
  expect(plain(formatTime(451_975_000))).toBe("451.975 ms");
  expect(plain(formatTime(451_000_000))).toBe("451.000 ms");
  expect(plain(formatTime(3_451_975_400))).toBe("3.451 975 s");
  expect(plain(formatTime(0))).toBe("0.000 ms");
  expect(plain(formatExact(451_975_123))).toBe("451 975 123 ns");
});

describe("the axis has the decimals that its step needs", () => {
  test.each([
    [0, 200e6, "0 ms"],
    [200e6, 200e6, "200 ms"],
    [451.5e6, 0.5e6, "451.5 ms"],
    [452e6, 0.5e6, "452.0 ms"],
    [2e9, 1e9, "2 s"],
    [2.5e9, 5e8, "2 500 ms"],
    [20_000, 20_000, "20 µs"],
    [451_975_120, 10, "451 975.12 µs"],
    [-200e6, 200e6, "−200 ms"],
  ])("%d at steps of %d is %s", (ns, step, expected) => {
    expect(plain(formatAxis(ns, step))).toBe(expected);
  });

  test.each([
    [95_150_000, 50_000, 95_450_000, "95.15 ms"],
    [900_000, 50_000, 1_200_000, "0.90 ms"],
    [900_000, 50_000, 950_000, "900 µs"],
    [451_975_120, 10, 451_975_200, "451.97512 ms"],
    [1e9, 5e8, 2.5e9, "1.0 s"],
  ])("%d at steps of %d of an axis up to %d is %s", (ns, step, most, expected) => {
    expect(plain(formatAxis(ns, step, most))).toBe(expected);
  });
});

test("shares", () => {
  expect(
    [0.66, 0.155, 0.0996, 0.028, 0.0099, 0.00001, 0, 1, 0.996].map((x) => plain(formatShare(x))),
  ).toEqual(["66 %", "16 %", "10 %", "2.8 %", "<1 %", "<1 %", "0 %", "100 %", ">99 %"]);
  expect(formatShare(null)).toBe("–");
});

test("counts, bytes, values", () => {
  expect(formatCount(215_456)).toBe("215\u202f456");
  expect(plain(formatCount(999))).toBe("999");
  expect(formatCount(null)).toBe("–");
  expect(plain(formatBytes(26_550_272))).toBe("26.6 MB");
  expect(plain(formatBytes(0))).toBe("0 B");
  expect(plain(formatBytes(999_600))).toBe("1.00 MB");
  expect(plain(formatValue(12345))).toBe("12 345");
  expect(plain(formatValue(0.123456))).toBe("0.1235");
  expect(plain(formatValue(8e9, "bytes"))).toBe("8.00 GB");
  expect(plural(1, "problem")).toBe("1 problem");
  expect(plural(3, "problem")).toBe("3 problems");
});

test.each([1, 2, 3, 4])("an axis has a tick besides zero: %i", (most) => {
  for (const end of [1, 1.99, 2.01, 4.99, 9.99, 4_990_000]) {
    const ticks = niceTicks(end, most, -end);
    expect(ticks.length).toBeGreaterThanOrEqual(3);
    expect(Math.max(...ticks)).toBeLessThanOrEqual(end);
  }
});
