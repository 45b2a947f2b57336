import { describe, expect, test } from "vitest";
import { plain } from "../../test/plain";
import {
  formatAxis,
  formatBytes,
  formatCount,
  formatDuration,
  formatDurationDelta,
  formatExact,
  formatPValue,
  formatShare,
  formatShareDelta,
  formatTime,
  formatValue,
  plural,
} from "./formats";
import { niceTicks } from "./text";

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
    [12.34, "12.3 ns"],
    [0.25, "0.25 ns"],
    [null, "–"],
    [Number.NaN, "–"],
  ])("%s ns is %s", (ns, expected) => {
    expect(plain(formatDuration(ns))).toBe(expected);
  });

  test("a thin space separates the unit", () => {
    expect(formatDuration(1_210_000)).toBe("1.21\u202fms");
  });
});

test("p values keep two significant digits", () => {
  const texts = ["p\u00a01", "p\u00a01", "p\u00a00.06", "p\u00a00.0043", "p\u00a0<\u00a00.0001"];
  expect([1, 0.999, 0.0601, 0.00432, 0.00009].map(formatPValue)).toEqual(texts);
});

test("deltas have a sign, also zero", () => {
  const durations = [24_800_000, -3000, 0].map((ns) => plain(formatDurationDelta(ns)));
  expect(durations).toEqual(["+24.8 ms", "−3.00 µs", "±0 ns"]);
  const shares = [0.6, -0.028, 0, 0.0002].map((share) => plain(formatShareDelta(share)));
  expect(shares).toEqual(["+60 %", "−2.8 %", "±0 %", "±0 %"]);
});

test("times have microseconds", () => {
  const times = [451_975_000, 451_000_000, 3_451_975_400, 0].map((ns) => plain(formatTime(ns)));
  expect(times).toEqual(["451.975 ms", "451.000 ms", "3.451 975 s", "0.000 ms"]);
  expect(plain(formatExact(451_975_123))).toBe("451 975 123 ns");
});

describe("the axis has as many decimals as its step needs", () => {
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
  expect([215_456, 999, null].map((count) => plain(formatCount(count)))).toEqual([
    "215 456",
    "999",
    "–",
  ]);
  const bytes = [26_550_272, 0, 999_600].map((size) => plain(formatBytes(size)));
  expect(bytes).toEqual(["26.6 MB", "0 B", "1.00 MB"]);
  expect([12345, 0.123456].map((value) => plain(formatValue(value)))).toEqual(["12 345", "0.1235"]);
  expect(plain(formatValue(8e9, "bytes"))).toBe("8.00 GB");
  expect([1, 3].map((count) => plural(count, "problem"))).toEqual(["1 problem", "3 problems"]);
});

test.each([1, 2, 3, 4])("an axis has a tick besides zero: %i", (most) => {
  for (const end of [1, 1.99, 2.01, 4.99, 9.99, 4_990_000]) {
    const ticks = niceTicks(end, most, -end);
    expect(ticks.length).toBeGreaterThanOrEqual(3);
    expect(Math.max(...ticks)).toBeLessThanOrEqual(end);
  }
});
