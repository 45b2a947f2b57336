import { expect, test } from "vitest";
import { sceneOf } from "../../test/recorded";
import type { RowState } from "../protocol/source";
import { interleaveRows } from "./paired_rows";
import { layoutRows, type RowLayout } from "./rows";

const words = ["before", "after"] as const;

function layout(ranks: number, state: Partial<RowState> = {}): RowLayout {
  return layoutRows(sceneOf(ranks), { open: new Set(), pinned: [], filter: "", ...state }, 0);
}

/** Return the drawn rows from top to bottom, as name and stage. */
function drawnNames(behind: RowLayout, front: RowLayout): string[] {
  const rows = [...behind.rows, ...front.rows].sort((a, b) => a.top - b.top);
  return rows.map((row) => row.pairName ?? row.name);
}

test("ranks after are below those before; rows without a partner name their side", () => {
  const [behind, front] = [layout(2), layout(3)];
  // Rank 0 is paired with rank 1, and rank 1 with rank 2.
  interleaveRows(behind, front, { words, partners: new Map([[0, 1], [1, 2]]) }); // prettier-ignore
  const names = ["rank 0 after", "rank 0", "rank 1 after", "rank 1", "rank 2 after"];
  expect(drawnNames(behind, front)).toEqual(names);
  expect(front.rows.map(({ isJoined }) => isJoined)).toEqual([false, true, true]);
  expect([behind.height, front.height]).toEqual([5 * 44, 5 * 44]);
});

test("tracks of opened partners are paired as well, and no rows overlap", () => {
  const open = new Set([0]);
  const [behind, front] = [layout(2, { open }), layout(2, { open })];
  interleaveRows(behind, front, { words, partners: new Map([[0, 0], [1, 1]]) }); // prettier-ignore
  const names = drawnNames(behind, front);
  expect(names.slice(0, 4)).toEqual(["rank 0", "after", "GPU  stream 7", "after"]);
  expect(names.filter((name) => name === "after")).toHaveLength(names.length / 2);
  const rows = [...behind.rows, ...front.rows].sort((a, b) => a.top - b.top);
  rows.reduce((end, { top, height }) => {
    expect(top).toBe(end);
    return top + height;
  }, 0);
});
