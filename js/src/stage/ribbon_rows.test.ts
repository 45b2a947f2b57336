/** Position of a row's ribbon of late arrivals, and the bands that shrink for it. */

import { expect, test } from "vitest";
import { sceneOf } from "../../test/recorded";
import { layoutRows } from "./rows";

const STATE = { open: new Set<number>(), pinned: [], filter: "" };
/** Tops and heights of lanes and ribbon, as they follow each other. */
function stack(ranks: number, each: number, ribbons = true, open?: number) {
  const state = { ...STATE, open: new Set(open === undefined ? [] : [open]) };
  const row = layoutRows(sceneOf(ranks), state, ranks * each, ribbons).rows[0]!;
  const parts = [...row.bands(), ...(row.ribbon() === null ? [] : [row.ribbon()!])];
  parts.sort((a, b) => a.top - b.top);
  for (const [at, part] of parts.entries()) {
    const before = parts[at - 1];
    if (before !== undefined) expect(part.top).toBeGreaterThanOrEqual(before.top + before.height);
    expect(part.top + part.height).toBeLessThanOrEqual(row.height);
  }
  return { row, ribbon: row.ribbon(), heights: parts.map(({ height }) => height) };
}

test("it is between communication and threads if rows have room", () => {
  expect(stack(8, 50).heights).toEqual([16, 12, 5, 3, 3]);
  expect(stack(8, 61).heights).toEqual([24, 15, 5, 3, 3]);
  expect(stack(8, 61).row.height).toBe(61);
});

test("there is none without room, without collectives, or next to an opened rank", () => {
  expect(stack(8, 49).ribbon).toBeNull();
  expect(stack(8, 80, false).ribbon).toBeNull();
  expect(stack(8, 80, true, 0).ribbon).toBeNull();
  const scene = sceneOf(8);
  for (const rank of scene.ranks) rank.summary.forEach((row) => delete row.wait);
  expect(layoutRows(scene, STATE, 800, true).rows[0]!.ribbon()).toBeNull();
});

test("with many ranks it replaces the threads", () => {
  expect(stack(17, 20).heights).toEqual([16, 12, 5]);
  expect(stack(17, 20).row.height).toBe(40);
  expect(stack(48, 40).heights).toEqual([16, 12, 5]);
  expect(stack(48, 39).ribbon).toBeNull();
  expect(stack(64, 18).ribbon).toBeNull();
});
