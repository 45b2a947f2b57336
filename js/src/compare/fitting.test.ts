/** The numbers of table rows that let columns end at the same height. */

import { expect, test } from "vitest";
import { splitRows, rowsForHeight } from "./charts";

test("a table has as many rows as make it as high as its neighbour", () => {
  const table = { height: 90 + 10 * 25, shown: 10, row: 25 };
  expect(rowsForHeight(table.height, table)).toBe(10);
  expect(rowsForHeight(table.height + 60, table)).toBe(12);
  expect(rowsForHeight(table.height - 1, table)).toBe(9);
  // The result does not depend on the initial number of rows, so it cannot oscillate.
  expect(rowsForHeight(400, { ...table, height: 90 + 3 * 25, shown: 3 })).toBe(
    rowsForHeight(400, table),
  );
  expect(rowsForHeight(400, { height: 90, shown: 0, row: 0 })).toBe(0);
});

test("names are shortened in favor of changes, but not completely", () => {
  expect(splitRows(30)).toEqual({ names: 20, changes: 10 });
  expect(splitRows(16)).toEqual({ names: 8, changes: 8 });
  expect(splitRows(2)).toEqual({ names: 8, changes: 6 });
  expect(splitRows(500).names).toBe(60);
});
