import type { Clusters } from "../protocol/source";
import { expect, test } from "vitest";
import { plain } from "../../test/plain";
import { sceneOf } from "../../test/recorded";
import { FULL_SELECTION, selectionOfRows } from "../protocol/selection";
import { foldReason } from "../stage/gutter";
import { layoutRows, makeRowInfo } from "../stage/rows";
import { rankGroupsOf, ranksShownAlone } from "./folding";
import { foldedText } from "./text";

/** Eight ranks: seven similar ones, and one that computes longer. */
const CLUSTERS: Clusters = {
  clusters: [{ representative: 2, ranks: [0, 1, 2, 3, 4, 6, 7], why: "" }],
  outliers: [{ rank: 5, why: "computes 25 % longer; its steps take 12 % longer" }],
  note: "",
};
const scene = sceneOf(8);
const none = new Set<number>();

function rowsOf(
  rankGroups: ReturnType<typeof rankGroupsOf>,
  more: { filter?: string; pinned?: string[] } = {},
) {
  const state = { open: none, pinned: [], filter: "", ...more, rankGroups };
  return layoutRows(scene, state, 400).rows;
}
const ranksOf = (rows: ReturnType<typeof rowsOf>) => rows.map(({ rank }) => rank.rank);

test("only representatives and outliers have rows, in the order of ranks", () => {
  const rows = rowsOf(rankGroupsOf(CLUSTERS, none, none));
  expect(ranksOf(rows)).toEqual([2, 5]);
  expect(rows[0]!.name).toBe("ranks 0–4, 6, 7");
  expect(rows[0]!.shortNames).toEqual(["7 ranks like 2", "7 like 2", "7 ranks"]);
  expect(rows.map(({ badge }) => badge)).toEqual(["unfold", null]);
  expect(rows[1]!.reason).toContain("25 % longer");
});

test("a group of scattered ranks is counted instead of listed", () => {
  const clusters = [{ representative: 0, ranks: [0, 2, 4, 6, 8], why: "" }];
  const rankGroups = rankGroupsOf({ ...CLUSTERS, clusters }, none, none);
  const state = { open: none, pinned: [], filter: "", rankGroups };
  expect(layoutRows(sceneOf(9), state, 400).rows[0]!.name).toBe("5 ranks like 0");
});

test("an unfolded group has all its rows in place, and can be folded again", () => {
  const rows = rowsOf(rankGroupsOf(CLUSTERS, new Set([2]), none));
  expect(ranksOf(rows)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(rows[2]).toMatchObject({ name: scene.ranks[2]!.label, badge: "fold", memberRanks: [2] });
});

test("a rank that must be visible has a row, and is not counted twice", () => {
  const rows = rowsOf(rankGroupsOf(CLUSTERS, none, new Set([6])));
  expect(ranksOf(rows)).toEqual([2, 5, 6]);
  expect(rows[0]!.memberRanks).toEqual([0, 1, 2, 3, 4, 7]);
});

test("a pin or a filter that names a rank shows it, one that names tracks does not", () => {
  const alike = rankGroupsOf(CLUSTERS, none, none);
  expect(ranksOf(rowsOf(alike, { pinned: ["7"] }))).toEqual([7, 2, 5]);
  expect(ranksOf(rowsOf(alike, { filter: "rank [01]$" }))).toEqual([0, 1]);
  expect(new Set(ranksOf(rowsOf(alike, { filter: "stream 7" })))).toEqual(new Set([2, 5]));
  const track = rowsOf(alike, { pinned: ["7/GPU 0 · stream 7"] })[0]!;
  expect([track.rank.rank, track.track?.label]).toEqual([7, "stream 7"]);
});

test("groups of one are not folded, and nothing is hidden then", () => {
  const clusters = scene.ranks.map(({ rank: rank }) => ({
    representative: rank,
    ranks: [rank],
    why: "",
  }));
  const alike = rankGroupsOf({ clusters, outliers: [], note: "" }, none, none);
  expect(alike.hidden.size).toBe(0);
  expect(rowsOf(alike).every(({ badge }) => badge === null)).toBe(true);
});

test("a row that stands for others is chosen as all of them", () => {
  const rows = rowsOf(rankGroupsOf(CLUSTERS, none, none)).map((row) => makeRowInfo(row, 0));
  expect(selectionOfRows(rows, scene)).toEqual({ ranks: null, tracks: null });
  expect(selectionOfRows(rows.slice(0, 1), scene).ranks).toEqual([0, 1, 2, 3, 4, 6, 7]);
});

test("a selection of a part of a group shows that part, one of the whole does not", () => {
  const choose = (ranks: number[]) => ranksShownAlone(CLUSTERS, { ...FULL_SELECTION, ranks });
  expect(choose([3, 5])).toEqual([3]);
  expect(choose([0, 1, 2, 3, 4, 5, 6, 7])).toEqual([]);
  expect(ranksShownAlone(CLUSTERS, { ...FULL_SELECTION, ids: [[4, 77]] })).toEqual([4]);
  expect(ranksShownAlone(CLUSTERS, null)).toEqual([]);
});

test("texts fit the gutter and keep number and sign", () => {
  expect(foldReason("computes 25 % longer; its steps take 12 % longer")).toEqual([
    "computes 25 % longer",
    "computes +25 %",
  ]);
  expect(foldReason("its device is idle for 9.1 % less of a step")![1]).toBe(
    "idle for \u22129.1 %",
  );
  expect(foldReason("")).toBeNull();
  expect(plain(foldedText({ shown: 9, all: 1024 }))).toBe(
    " 9 of 1 024 ranks shown; similar ranks are folded.",
  );
});
