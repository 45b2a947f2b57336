/** Searches in sorted columns. */

type Sorted = ArrayLike<number>;

/** How many of `values` are below `limit`; looks from `low` on. */
export function countBelow(values: Sorted, limit: number, low = 0, high = values.length): number {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How many of `values` are at most `limit`. */
export function countUpTo(values: Sorted, limit: number, low = 0, high = values.length): number {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** `countBelow` for limits that grow from call to call: quick where the answer is near `from`. */
export function walkBelow(values: Sorted, limit: number, from: number): number {
  let step = 1;
  let low = from;
  let high = from;
  while (high < values.length && values[high]! < limit) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  return countBelow(values, limit, low, Math.min(high, values.length));
}
