/** Statistics of numbers, and index arrays: all rows, selected rows, rows sorted by group. */

/** Return the middle value, or the mean of the two middle values; NaN without values. */
export function median(values: Iterable<number>): number {
  const sorted = Float64Array.from(values).filter(Number.isFinite).sort();
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

export function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

export type NumberColumn = Float64Array | Int32Array | Uint32Array | Uint8Array;

/** Return the values at `indices`. */
export function gather<T extends NumberColumn>(values: T, indices: Int32Array): T {
  const out = new (values.constructor as new (length: number) => T)(indices.length);
  for (let i = 0; i < indices.length; i += 1) out[i] = values[indices[i]!]!;
  return out;
}

/** Return the numbers from 0 to `length - 1`. */
export function allIndices(length: number): Int32Array {
  return new Int32Array(length).map((_, index) => index);
}

/** Return the numbers from 0 to `length - 1` that satisfy the predicate, ascending. */
export function indicesWhere(length: number, predicate: (index: number) => boolean): Int32Array {
  const out = new Int32Array(length);
  let count = 0;
  for (let index = 0; index < length; index += 1) {
    if (!predicate(index)) continue;
    out[count] = index;
    count += 1;
  }
  return out.slice(0, count);
}

export interface RowGroups {
  order: Int32Array;
  /** Position in `order` of each group's first row, followed by the number of rows. */
  first: Int32Array;
}

/** Sort rows by group with a counting sort. Rows of the same group keep their order. */
export function sortByGroup(
  rows: Int32Array,
  groups: number,
  groupOf: (row: number) => number,
): RowGroups {
  const first = new Int32Array(groups + 1);
  for (const row of rows) first[groupOf(row) + 1]! += 1;
  for (let group = 0; group < groups; group += 1) first[group + 1]! += first[group]!;
  const next = first.slice();
  const order = new Int32Array(rows.length);
  for (const row of rows) order[next[groupOf(row)]!++] = row;
  return { order, first };
}
