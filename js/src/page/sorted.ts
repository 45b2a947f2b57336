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

/** Values at some positions. */
export function picked<T extends Float64Array | Uint8Array>(values: T, at: Int32Array): T {
  const out = new (values.constructor as new (length: number) => T)(at.length);
  for (let i = 0; i < at.length; i += 1) out[i] = values[at[i]!]!;
  return out;
}

/** Those of `0 … length - 1` that pass, ascending. */
export function positions(length: number, passes: (at: number) => boolean): Int32Array {
  const out = new Int32Array(length);
  let found = 0;
  for (let at = 0; at < length; at += 1) {
    if (!passes(at)) continue;
    out[found] = at;
    found += 1;
  }
  return out.slice(0, found);
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
