import { expect, test } from "vitest";
import { labelledRows } from "./text";

test("rows with room all have words", () => {
  expect([...labelledRows(3, 1, new Set([1]))].sort()).toEqual([0, 1, 2]);
});

test("words of rows that are close never touch, and late ones come first", () => {
  const named = [...labelledRows(32, 8, new Set([3, 4, 20]))].sort((a, b) => a - b);
  expect(named).toEqual([3, 20]);
  expect([...labelledRows(32, 8)]).toEqual([0, 8, 16, 24]);
  expect([...labelledRows(32, 16, new Set([3]), new Set([4, 25]))]).toEqual([3, 25]);
});
