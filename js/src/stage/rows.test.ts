import { describe, expect, test } from "vitest";
import { sceneOf } from "../../test/recorded";
import type { RowState, SceneTrack } from "../protocol/source";
import { layoutRows, placeRows, type StageRow, compileRowFilter } from "./rows";
import { anchoredScroll, clampScroll, scrollToReveal, VisibleLanes } from "./rows_view";

const state = (change: Partial<RowState> = {}): RowState => ({
  open: new Set(),
  pinned: [],
  filter: "",
  ...change,
});
const heightsOf = (row: StageRow | undefined) => row!.bands().map(({ height }) => height);
/** Return the rows of an expanded rank with modified tracks. */
function openedWith(change: (track: SceneTrack) => Partial<SceneTrack>): readonly StageRow[] {
  const scene = sceneOf(1);
  const [rank] = scene.ranks;
  const tracks = rank!.tracks.map((track) => ({ ...track, ...change(track) }));
  return layoutRows({ ...scene, ranks: [{ ...rank!, tracks }] }, state({ open: new Set([0]) }), 500)
    .rows;
}

describe("folded ranks", () => {
  test("are 44 high if space is short: GPU 16, NCCL 12, two threads of 3", () => {
    const { rows } = layoutRows(sceneOf(8), state(), 0);
    expect(rows.map(({ height }) => height)).toEqual(Array(8).fill(44));
    expect(layoutRows(sceneOf(8), state(), 0).height).toBe(8 * 44);
    const bands = rows[0]!.bands().map(({ top, height }) => `${top}: ${height}`);
    expect(bands).toEqual(["3: 16", "20: 12", "35: 3", "39: 3"]);
  });

  // Rows grow while all of them fit. Above forty ranks they lose the CPU, then become low.
  test.each([
    ["8 in 352", {}, [44, 16, 12, 3, 3]],
    ["8 in 400", {}, [50, 20, 14, 3, 3]],
    ["8 in 440", {}, [55, 24, 15, 3, 3]],
    ["8 in 1600", {}, [55, 24, 15, 3, 3]],
    ["8 in 240", {}, [44, 16, 12, 3, 3]],
    ["8 in 400, next to an opened one,", { open: new Set([5]) }, [27, 9, 13]],
    ["48 in 1632", {}, [34, 16, 12]],
    ["64 in 330", {}, [18, 8, 6]],
  ])("%s px %o have these heights: %o", (given, change, heights) => {
    const [ranks, room] = given.match(/\d+/g)!.map(Number) as [number, number];
    const { rows, foldSizes } = layoutRows(sceneOf(ranks), state(change), room);
    expect([rows[0]!.height, ...heightsOf(rows[0])]).toEqual(heights);
    expect(foldSizes.mode === "compact").toBe(ranks === 64);
  });

  test.each([
    [300, 37],
    [288, 36],
    [262, 32],
    [250, 36],
  ])("eight ranks without GPU and CPU are not cut by a few px: in %i px", (room, height) => {
    const scene = sceneOf(8);
    for (const rank of scene.ranks)
      rank.summary = rank.summary.filter(({ role }) => role === "comm");
    const { rows, fits } = layoutRows(scene, state(), room);
    expect([rows[0]!.height, fits]).toEqual([height, room > 250]);
    expect(layoutRows(scene, state(), 0).height).toBe(8 * 36);
  });

  test("a thousand are laid out without gaps or overlaps", () => {
    const { rows, height } = layoutRows(sceneOf(1024), state(), 400);
    let top = 0;
    for (const row of rows) {
      expect(row.top).toBe(top);
      top += row.height;
    }
    expect(height).toBe(top);
  });

  test("show only CPU if a rank has no device events", () => {
    const host = sceneOf(2);
    for (const rank of host.ranks) rank.summary = rank.summary.filter(({ role }) => role === "cpu");
    const [row] = layoutRows(host, state(), 300).rows;
    expect(row!.bands().map(({ form }) => form)).toEqual(["bar", "bar"]);
    // A single thread is at most as tall as device work.
    for (const rank of host.ranks) rank.summary = rank.summary.slice(0, 1);
    expect(heightsOf(layoutRows(host, state(), 300).rows[0])).toEqual([24]);
  });
});

describe("opened ranks", () => {
  test("draw lanes that are empty in view as lines, and keep a track's name legible", () => {
    const scene = sceneOf(1);
    const track = scene.ranks[0]!.tracks.find(({ role, lanes }) => role === "thread" && lanes > 2)!;
    const lanesFrom = (first: number) =>
      new Set(Array.from({ length: track.lanes - first }, (_, i) => track.lane0 + first + i));
    const rowWith = (bare: ReadonlySet<number>) =>
      layoutRows(scene, state({ open: new Set([0]) }), 0, false, bare).rows.find(
        (row) => row.track === track,
      )!;
    const most = rowWith(lanesFrom(1));
    expect(most.thinLanes).toBe(track.lanes - 1);
    expect(most.height).toBe(17 + 3 * (track.lanes - 1) + 4);
    expect(heightsOf(most)).toEqual([16, ...Array<number>(track.lanes - 1).fill(2)]);
    expect(rowWith(lanesFrom(0)).height).toBe(Math.max(12, 3 * track.lanes + 4));
  });

  test("draw the lanes of a stack of frames in one row, until it is unfolded", () => {
    const scene = sceneOf(1);
    const track = scene.ranks[0]!.tracks.find(({ role, lanes }) => role === "thread" && lanes > 4)!;
    const withStack = { ...track, stacks: [[1, 3]] as const };
    const ranks = [{ ...scene.ranks[0]!, tracks: [withStack] }];
    const rowIn = (change: Partial<RowState>) =>
      layoutRows({ ...scene, ranks }, state({ open: new Set([0]), ...change }), 500).rows[1]!;
    const folded = rowIn({});
    expect(folded.height).toBe((track.lanes - 2) * 17 + 4);
    expect(
      folded
        .bands()
        .map(({ top }) => top)
        .slice(0, 5),
    ).toEqual([1, 18, 18, 18, 35]);
    expect(
      folded
        .bands()
        .map(({ frames }) => frames)
        .slice(0, 3),
    ).toEqual([undefined, 3, undefined]);
    const unfolded = rowIn({ openStacks: new Set([`0/${track.key}`]) });
    expect(unfolded.height).toBe(track.lanes * 17 + 4);
    expect([folded.stacks, unfolded.stacks]).toEqual(["folded", "open"]);
  });

  test("keep the order of ranks and list their tracks below the head", () => {
    const { rows } = layoutRows(sceneOf(3), state({ open: new Set([1]) }), 500);
    const tracks = rows[1]!.rank.tracks.map(({ label }) => `1 ${label}`);
    expect(rows.map(({ rank, track }) => `${rank.rank} ${track?.label ?? ""}`.trim())).toEqual([
      "0",
      "1",
      ...tracks,
      "2",
    ]);
  });

  test("threads are 17 a level, streams 21 with 4 between", () => {
    const { rows } = layoutRows(sceneOf(1), state({ open: new Set([0]) }), 500);
    const of = (label: string) => rows.find(({ track }) => track?.label === label)!;
    expect(of("autograd thread").height).toBe(5 * 17 + 4);
    expect(of("stream 7").height).toBe(25);
    expect(of("stream 7").bands()[0]!.height).toBe(21);
  });

  test("additional lanes are numbered", () => {
    const rows = openedWith(({ label }) => (label === "stream 7" ? { lanes: 3, nested: 1 } : {}));
    const row = rows.find(({ track }) => track?.label === "stream 7")!;
    expect(row.bands().map(({ label }) => label)).toEqual(["GPU  stream 7", "+1", "+2"]);
  });

  test("tracks without events are omitted", () => {
    const rows = openedWith(({ role }) => ({ events: role === "stream" ? 1 : 0 }));
    expect(rows.map(({ track }) => track?.role)).toEqual([undefined, ...Array(3).fill("stream")]);
  });
});

describe("pinned rows", () => {
  test("come first, in the order of the pins", () => {
    const pinned = ["5", "2/GPU 0 · stream 7"];
    const { rows, stickyCount } = layoutRows(sceneOf(8), state({ pinned }), 400);
    expect(stickyCount).toBe(2);
    expect(rows[0]!.rank.rank).toBe(5);
    const stream = { track: { key: "GPU 0 · stream 7" }, name: "rank 2 · stream 7" };
    expect(rows[1]).toMatchObject(stream);
    expect(rows.slice(2).map(({ rank }) => rank.rank)).toEqual([0, 1, 2, 3, 4, 6, 7]);
  });

  test("stay in place while the others scroll under them", () => {
    const layout = layoutRows(sceneOf(64), state({ pinned: ["40"] }), 300);
    const placed = placeRows(layout, 200, 90, 300);
    const front = placed.at(-1)!;
    expect(front.row.rank.rank).toBe(40);
    expect(front.y).toBe(90);
    for (const { row, clipTop } of placed.slice(0, -1)) {
      expect(row.rank.rank).not.toBe(40);
      expect(clipTop).toBe(90 + front.row.height);
    }
  });

  test("scroll like the others if they would fill the stage", () => {
    const pinned = Array.from({ length: 30 }, (_, rank) => String(rank));
    expect(layoutRows(sceneOf(64), state({ pinned }), 300).stickyCount).toBe(0);
  });
});

test("a GPU of a worker has a brief name, which differs from that of its neighbour", () => {
  const scene = sceneOf(2);
  scene.ranks.forEach((rank, at) => Object.assign(rank, { label: `worker 0 · GPU ${at}` }));
  const { rows } = layoutRows(scene, state(), 400);
  expect(rows.map(({ shortNames }) => shortNames)).toEqual([["w0 · GPU 0"], ["w0 · GPU 1"]]);
});

describe("the filter", () => {
  test("is a regular expression that ignores case", () => {
    const ranks = (filter: string) =>
      layoutRows(sceneOf(12), state({ filter }), 400).rows.map(({ rank }) => rank.rank);
    expect(ranks("^RANK 1$")).toEqual([1]);
    expect(ranks("rank 1")).toEqual([1, 10, 11]);
    expect(ranks("node-b")).toEqual([1, 3, 5, 7, 9, 11]);
    expect(ranks("nothing such")).toEqual([]);
  });

  test("shows matching tracks of folded ranks, and may name a rank and a track together", () => {
    const shown = (ranks: number, filter: string) =>
      layoutRows(sceneOf(ranks), state({ filter }), 400).rows.map(
        ({ rank, track }) => `${rank.rank} ${track?.label ?? ""}`,
      );
    expect(shown(2, "stream 20$")).toEqual(["0 ", "0 stream 20", "1 ", "1 stream 20"]);
    expect(shown(12, "rank 1 stream 20$")).toEqual(["1 ", "1 stream 20"]);
  });

  test("treats a broken expression as text", () => {
    expect(compileRowFilter("stream (")?.("stream (7)")).toBe(true);
    expect(compileRowFilter("stream (")?.("stream 7")).toBe(false);
    expect(compileRowFilter("")).toBeNull();
  });
});

describe("scrolling", () => {
  const open = layoutRows(sceneOf(4), state({ open: new Set([1]) }), 200);

  test("an opened rank's head stays above its tracks, until the next rank pushes it out", () => {
    const head = open.rows.find(({ rank, track }) => rank.rank === 1 && track === null)!;
    const next = open.rows.find(({ rank }) => rank.rank === 2)!;
    const inside = placeRows(open, head.top + 50, 90, 200).find(({ row }) => row === head)!;
    expect(inside.y).toBe(90);
    const leaving = placeRows(open, next.top - 10, 90, 200).find(({ row }) => row === head)!;
    expect(leaving.y).toBe(90 - (head.height - 10));
  });

  test("each lane is visible once", () => {
    for (let scroll = 0; scroll < open.height; scroll += 7) {
      const sight = new VisibleLanes(placeRows(open, scroll, 90, 200));
      const lanes = sight.lanes.map(({ band }) => band.lane);
      expect(new Set(lanes).size).toBe(lanes.length);
      for (const spot of sight.lanes) {
        expect(spot.top).toBeGreaterThanOrEqual(90);
        expect(spot.bottom).toBeLessThanOrEqual(290);
        expect(sight.laneAt((spot.top + spot.bottom) / 2)).toBe(spot);
      }
    }
  });

  test("stops at both ends", () => {
    expect(clampScroll(open, 200, -5)).toBe(0);
    expect(clampScroll(open, 200, 1e9)).toBe(open.height - 200);
    expect(clampScroll(open, 1e6, 50)).toBe(0);
  });

  test("scrolls a lane into view, and returns whether a row shows it", () => {
    const track = open.rows.find(({ track: sceneTrack }) => sceneTrack?.label === "stream 20")!;
    const lane = track.track!.lane0;
    const scroll = scrollToReveal(open, 200, 0, lane)!;
    const sight = new VisibleLanes(placeRows(open, scroll, 90, 200));
    const spot = sight.findLane(lane)!;
    expect(spot.bottom - spot.top).toBe(spot.band.height);
    const folded = sceneOf(4).ranks[0]!.tracks[0]!.lane0;
    expect(scrollToReveal(open, 200, 0, folded)).toBeNull();
  });

  test("opening a rank above keeps the rank at the top in place", () => {
    const scene = sceneOf(64);
    const before = layoutRows(scene, state({ open: new Set([9]) }), 300);
    const after = layoutRows(scene, state({ open: new Set([2, 9]) }), 300);
    const top = before.rows.find(({ rank }) => rank.rank === 20)!.top;
    const moved = anchoredScroll(before, after, top);
    expect(after.rows.find(({ rank }) => rank.rank === 20)!.top).toBe(moved);
  });
});

describe("the ribbon of late arrivals", () => {
  /** Return tops and heights of consecutive lanes and ribbons. */
  function stack(ranks: number, rankHeight: number, ribbons = true, open?: number) {
    const shown = state({ open: new Set(open === undefined ? [] : [open]) });
    const row = layoutRows(sceneOf(ranks), shown, ranks * rankHeight, ribbons).rows[0]!;
    const parts = [...row.bands(), ...(row.ribbon() === null ? [] : [row.ribbon()!])];
    parts.sort((a, b) => a.top - b.top);
    for (const [at, part] of parts.entries()) {
      const before = parts[at - 1];
      if (before !== undefined) expect(part.top).toBeGreaterThanOrEqual(before.top + before.height);
      expect(part.top + part.height).toBeLessThanOrEqual(row.height);
    }
    return { row, ribbon: row.ribbon(), heights: parts.map(({ height }) => height) };
  }

  test("it is between communication and threads if rows have space", () => {
    expect(stack(8, 50).heights).toEqual([16, 12, 5, 3, 3]);
    expect(stack(8, 61).heights).toEqual([24, 15, 5, 3, 3]);
    expect(stack(8, 61).row.height).toBe(61);
  });

  test("there is none without space, without collectives, or next to an opened rank", () => {
    expect(stack(8, 49).ribbon).toBeNull();
    expect(stack(8, 80, false).ribbon).toBeNull();
    expect(stack(8, 80, true, 0).ribbon).toBeNull();
    const scene = sceneOf(8);
    for (const rank of scene.ranks) rank.summary.forEach((row) => delete row.wait);
    expect(layoutRows(scene, state(), 800, true).rows[0]!.ribbon()).toBeNull();
  });

  test("with many ranks it replaces the threads", () => {
    expect(stack(17, 20).heights).toEqual([16, 12, 5]);
    expect(stack(17, 20).row.height).toBe(40);
    expect(stack(48, 40).heights).toEqual([16, 12, 5]);
    expect(stack(48, 39).ribbon).toBeNull();
    expect(stack(64, 18).ribbon).toBeNull();
  });
});
