import { expect } from "vitest";

/** Expect equal values; numbers may differ in their last digits, and null stands for NaN; for tests. */
export function same(found: Iterable<unknown>, wanted: readonly unknown[], what = "values"): void {
  const all = Array.from(found);
  expect(all.length, what).toBe(wanted.length);
  wanted.forEach((each, at) => {
    const one = all[at];
    const place = `${what}[${at}]`;
    if (each === null) expect(one, place).toBeNaN();
    else if (typeof each !== "number") expect(one, place).toBe(each);
    else {
      const off = Math.abs((one as number) - each);
      expect(off, `${place}: ${String(one)}, not ${each}`).toBeLessThanOrEqual(
        1e-9 * Math.max(1e-3, Math.abs(each)),
      );
    }
  });
}
