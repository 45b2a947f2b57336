import { expect } from "vitest";

/** Expect equal values; numbers may differ in their last digits, and null stands for NaN; for tests. */
export function expectClose(
  actual: Iterable<unknown>,
  expected: readonly unknown[],
  what = "values",
): void {
  const tolerable = (value: unknown, number: unknown): boolean =>
    Math.abs(Number(value) - Number(number)) <= 1e-9 * Math.max(1e-3, Math.abs(Number(number)));
  const rounded = Array.from(actual, (value, index) => {
    const number = expected[index];
    return typeof number === "number" && tolerable(value, number) ? number : value;
  });
  expect(rounded, what).toEqual(expected.map((value) => value ?? NaN));
}
