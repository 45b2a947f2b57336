/** Figures of several numbers. */

/** The middle value, or the mean of the two middle ones; NaN for none. */
export function median(values: Iterable<number>): number {
  const sorted = Float64Array.from(values).filter(Number.isFinite).sort();
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

export function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
