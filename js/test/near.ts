import { expect } from "vitest";

/** Expect equal values; numbers may differ in their last digits, and null stands for NaN; for tests. */
export function expectClose(
  actual: Iterable<unknown>,
  expected: readonly unknown[],
  what = "values",
): void {
  const values = Array.from(actual);
  expect(values.length, what).toBe(expected.length);
  expected.forEach((expectedValue, index) => {
    const value = values[index];
    const place = `${what}[${index}]`;
    if (expectedValue === null) expect(value, place).toBeNaN();
    else if (typeof expectedValue !== "number") expect(value, place).toBe(expectedValue);
    else {
      const tolerance = 1e-9 * Math.max(1e-3, Math.abs(expectedValue));
      const message = `${place}: ${String(value)}, not ${expectedValue}`;
      expect(Math.abs((value as number) - expectedValue), message).toBeLessThanOrEqual(tolerance);
    }
  });
}
