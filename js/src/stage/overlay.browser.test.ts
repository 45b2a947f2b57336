import { describe, expect, test } from "vitest";
import { sceneOf } from "../../test/recorded";
import { FULL_SELECTION } from "../protocol/selection";
import type { Brief, Overlay, RowState } from "../protocol/source";
import { THEMES } from "../ui/theme";
import { computeGeometry, xAtTime } from "./camera";
import { drawOverlay, NO_OVERLAY } from "./overlay";
import { LaneWindows } from "./lane_window";
import { kindPaints, rgb } from "./paints";
import { CanvasPen } from "./pen";
import { layoutRows, placeRows } from "./rows";
import { VisibleLanes } from "./rows_view";
import { TileStore } from "./tile_store";
import type { PlacedMarks } from "./frame";

const scene = sceneOf(4);
const theme = THEMES.light;
const VIEW: [number, number] = [0, 2e8];
function draw(
  overlay: Partial<Overlay>,
  rows: Partial<RowState> = {},
  searchMarks: PlacedMarks | null = null,
  drawnScene = scene,
) {
  const canvas = document.createElement("canvas");
  canvas.width = 1100;
  canvas.height = 500;
  const ctx = canvas.getContext("2d", { willReadFrequently: true })!;
  const geometry = computeGeometry(1100, 500, 1, 2);
  const state = { open: new Set<number>(), pinned: [], filter: "", ...rows };
  const layout = layoutRows(drawnScene, state, geometry.rowsHeight);
  const visible = new VisibleLanes(placeRows(layout, 0, geometry.rowsTop, geometry.rowsHeight));
  const all = { ...NO_OVERLAY, ...overlay };
  const lanes = { windows: new LaneWindows(new TileStore(drawnScene.lanes)), lateness: null };
  const paints = { paints: kindPaints(theme, drawnScene.kinds, new Set()), byName: false };
  const about = { geometry, theme, view: VIEW, visible, searchMarks, selectionMarks: null };
  drawOverlay(new CanvasPen(ctx, 1), { ...about, ...lanes, ...paints, overlay: all });
  const { data } = ctx.getImageData(0, 0, 1100, 500);
  const at = (x: number, y: number) => {
    const first = 4 * (Math.round(y) * 1100 + Math.round(x));
    return [...data.slice(first, first + 4)];
  };
  const box = () => {
    let [left, top, right, bottom] = [1e9, 1e9, -1, -1];
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3]! < 128) continue;
      const x = (i / 4) % 1100;
      const y = Math.floor(i / 4 / 1100);
      [left, right] = [Math.min(left, x), Math.max(right, x)];
      [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
    }
    return { left, top, right, bottom };
  };
  return { at, box, geometry, sight: visible, x: (time: number) => xAtTime(geometry, VIEW, time) };
}

const solid = (hex: string) => {
  const { r, g, b } = rgb(hex);
  return [r, g, b, 255];
};

function brief(rank: number, lane: number, start: number, dur: number, kind: Brief["kind"]): Brief {
  return { rank, table: "events", id: 0, lane, name: "n", short: "n", kind, start, dur };
}

const laneOf = (rank: number, of: "stream" | "thread") =>
  scene.ranks[rank]!.tracks.find(({ role }) => role === of)!.lane0;
const streamOf = (rank: number) => laneOf(rank, "stream");
const threadOf = (rank: number) => laneOf(rank, "thread");
const OPEN = { open: new Set([1]) };
/** Return a call on rank 1 that launches a kernel, with the arrow between them. */
function launched(start: number, dur: number, rank: number, at: number) {
  const from = brief(1, threadOf(1), start, dur, "cpu");
  const to = brief(rank, streamOf(rank), at, 1e7, "compute");
  return { from, to, flows: [{ kind: "launch", from, to }] };
}

test("an empty overlay draws nothing", () => {
  expect(draw({}).box().right).toBe(-1);
});

/** The veil over everything not selected: a translucent `bg`. */
const VEIL = [...solid(theme.bg).slice(0, 3), 0xa8];

test("a selected window has 2 px edges over the rows and dims the rest, not itself", () => {
  const selection = { ...FULL_SELECTION, start_ns: 5e7, end_ns: 1e8 };
  const { at, x, geometry } = draw({ selection });
  const edge = Math.round(x(5e7));
  expect(at(edge - 1, 200)).toEqual(solid(theme.brushLine));
  expect(at(edge, 200)).toEqual(solid(theme.brushLine));
  expect(at(edge + 30, 200)[3]).toBe(0);
  for (const left of [edge - 10, x(1e8) + 10]) expect(at(left, 200)).toEqual(VEIL);
  expect(at(edge, geometry.rowsTop - 3)[3]).toBe(0);
});

test("a brush over two ranks dims all rows but theirs", () => {
  const { at, x, sight } = draw({ brush: { start: 5e7, end: 1e8, ranks: [1, 2], tracks: null } });
  const middle = x(7.5e7);
  const dimmed = [0, 1, 2, 3].filter((rank) => {
    const { y, row } = sight.findHead(rank)!;
    return at(middle, y + row.height / 2)[3]! > 0;
  });
  expect(dimmed).toEqual([0, 3]);
});

test("a selected event is outlined 2 px outside its mark, in its opened lane", () => {
  const event = brief(1, streamOf(1), 5e7, 2e7, "compute");
  const { at, x, sight } = draw({ selected: event }, OPEN);
  const spot = sight.findLane(event.lane)!;
  const left = Math.round(x(5e7));
  const y = Math.round(spot.y + spot.band.height / 2);
  expect(at(left - 2, y)).toEqual(solid(theme.selection));
  expect(at(left + 5, y)[3]).toBe(0);
  expect(at(left + 40, spot.y - 2)).toEqual(solid(theme.selection));
});

test.each([
  ["a kernel", streamOf(1), "compute", 0],
  ["a host event", threadOf(1), "cpu", 2],
] as const)(
  "in a folded rank %s is outlined on the lane that stands for it",
  (_, lane, kind, at) => {
    const { box, sight } = draw({ selected: brief(1, lane, 5e7, 2e7, kind) });
    const spot = sight.findLane(scene.ranks[1]!.summary[at]!.lane)!;
    expect(box().top).toBeGreaterThanOrEqual(Math.floor(spot.y) - 4);
    expect(box().bottom).toBeLessThanOrEqual(Math.ceil(spot.y + spot.band.height) + 4);
  },
);

test("an event that is not visible has no outline", () => {
  const selected = brief(1, threadOf(1), 5e7, 2e7, "cpu");
  expect(draw({ selected }, { filter: "^rank 2$" }).box().right).toBe(-1);
  expect(draw({ selected }, { open: new Set([2]) }).box().right).toBe(-1);
});

test("an arrow points from the launch to the head of the kernel", () => {
  const { from, to, flows } = launched(5e7, 1e6, 1, 1.2e8);
  const drawn = draw({ flows }, OPEN);
  const { left, right, top, bottom } = drawn.box();
  expect(Math.abs(right - drawn.x(1.2e8))).toBeLessThanOrEqual(2);
  expect(Math.abs(left - drawn.x(5.05e7))).toBeLessThanOrEqual(4);
  expect(top).toBeLessThan(drawn.sight.findLane(from.lane)!.bottom);
  expect(bottom).toBeGreaterThan(drawn.sight.findLane(to.lane)!.top);
});

test("a curve to the left joins near ends", () => {
  const drawn = draw({ flows: launched(1e8, 1e5, 1, 1.005e8).flows }, OPEN);
  expect(drawn.box().left).toBeLessThan(drawn.x(1e8) - 12);
});

test("an arrow to a folded rank ends at its lane; a rank that is not visible has none", () => {
  const { flows } = launched(5e7, 1e6, 0, 1.2e8);
  const drawn = draw({ flows }, OPEN);
  const spot = drawn.sight.findLane(scene.ranks[0]!.summary[0]!.lane)!;
  expect(Math.abs(drawn.box().top - (spot.top + spot.bottom) / 2)).toBeLessThanOrEqual(6);
  const filtered = draw({ flows }, { ...OPEN, filter: "^rank 1$" });
  expect(filtered.box().right).toBe(-1);
});

describe("hits of a search", () => {
  const { lane } = scene.ranks[2]!.summary[0]!;
  const { lane: other } = scene.ranks[3]!.summary[0]!;
  /** Return hits in 1 px bins in the first lane of rank 2; ranks 2 and 3 were searched. */
  function hits(runs: readonly [from: number, to: number][], error: string | null = null) {
    const column = (value: (run: [number, number]) => number) =>
      Uint32Array.from(runs.map((run) => value([...run])));
    const columns = { lane: column(() => lane), bin: column(([from]) => from) };
    const marks = { ...columns, end: column(([, to]) => to), inView: 4, total: 4, error };
    const placed = { marks, start: VIEW[0], end: VIEW[1], bins: 808, lanes: [lane, other] };
    const drawn = draw({ search: "x" }, {}, placed);
    const { y, band } = drawn.sight.findLane(lane)!;
    const middle = Math.round(y + band.height / 2);
    const px = (bin: number, row = middle) => drawn.at(drawn.geometry.lanesX + bin, row);
    return { ...drawn, px, top: Math.round(y), otherY: drawn.sight.findLane(other)!.y + 3 };
  }

  test("keep their colours over their whole length, and everything else is dimmed", () => {
    const { px, otherY } = hits([
      [100, 140],
      [400, 401],
    ]);
    for (const bin of [100, 120, 139, 400]) expect(px(bin)[3]).toBe(0);
    for (const bin of [90, 250, 500]) expect(px(bin)).toEqual(VEIL);
    expect(px(120, otherY)).toEqual(VEIL);
  });

  test("have outlines of 1 px, which adjacent hits share", () => {
    const { px, top } = hits([
      [100, 101],
      [103, 104],
      [400, 440],
    ]);
    const line = solid(theme.ink);
    for (const bin of [99, 104, 399, 440]) expect(px(bin)).toEqual(line);
    expect(px(102)).toEqual(VEIL);
    for (const bin of [100, 102, 420]) expect(px(bin, top - 1)).toEqual(line);
    expect(px(250, top - 1)[3]).toBe(0);
  });

  test("lanes that were not searched, and all lanes if the text is invalid, are not dimmed", () => {
    const { px, sight } = hits([[100, 140]]);
    expect(px(300, sight.findLane(scene.ranks[1]!.summary[0]!.lane)!.y + 3)[3]).toBe(0);
    expect(hits([], "not a regular expression").box().right).toBe(-1);
  });
});

test("a hit in any frame of a folded stack keeps its colour in the row of the stack", () => {
  const rank = scene.ranks[0]!;
  const thread = rank.tracks.find(({ role, lanes }) => role === "thread" && lanes > 2)!;
  const track = { ...thread, stacks: [[0, 3]] as const };
  const lane = Uint32Array.from([0, 2].map((depth) => track.lane0 + depth));
  const marks = { lane, bin: Uint32Array.of(400, 100), end: Uint32Array.of(440, 140) };
  const placed = { marks: { ...marks, inView: 2, total: 2, error: null }, bins: 808 };
  const lanes = [0, 1, 2].map((depth) => track.lane0 + depth);
  const drawn = draw(
    { search: "x" },
    { open: new Set([0]) },
    { ...placed, start: VIEW[0], end: VIEW[1], lanes },
    { ...scene, ranks: [{ ...rank, tracks: [track] }] },
  );
  const { y, band } = drawn.sight.findLane(lanes[1]!)!;
  const px = (bin: number) =>
    drawn.at(drawn.geometry.lanesX + bin, Math.round(y + band.height / 2));
  for (const bin of [120, 420]) expect(px(bin)[3]).toBe(0);
  expect(px(250)).toEqual(VEIL);
});

test("a ruler shows its length, a note stays within the lanes", () => {
  const drawn = draw({
    ruler: { start: 2e7, end: 1.2e8, y: 300 },
    timeMarks: [{ start: -5e7, end: 5e7, kept: true }],
  });
  expect(drawn.at(drawn.x(7e7) - 60, 300)).toEqual(solid(theme.ink));
  expect(drawn.box().left).toBeGreaterThanOrEqual(drawn.geometry.lanesX);
});

describe("the last arrival at the selected collective", () => {
  const late = solid(theme.ink2);

  test("is a dashed line over all ranks, with a flag that names the rank", () => {
    const drawn = draw({ collective: { time: 5e7, rank: 3 } });
    const { geometry } = drawn;
    const x = Math.round(drawn.x(5e7));
    const line = Array.from({ length: geometry.height - geometry.rowsTop }, (_, i) =>
      [-1, 0].some((dx) => drawn.at(x + dx, geometry.rowsTop + i)[3]! > 200),
    );
    const dashes = line.filter(Boolean).length / line.length;
    expect(dashes).toBeGreaterThan(0.3);
    expect(dashes).toBeLessThan(0.9);
    expect(line.lastIndexOf(true)).toBeGreaterThan(line.length - 12);
    // The flag is in the last line of the strip, to the right of the instant.
    const flag = geometry.stripTop + 16 + 2;
    expect(drawn.at(x + 3, flag)).toEqual(late);
    expect(drawn.at(x - 3, flag)[3]).toBe(0);
    expect(drawn.box().top).toBeGreaterThanOrEqual(geometry.stripTop);
  });

  test("the flag stays within the lanes", () => {
    const { box, geometry } = draw({ collective: { time: VIEW[1] - 1, rank: 12 } });
    expect(box().right).toBeLessThanOrEqual(geometry.lanesX + geometry.lanesWidth);
    expect(box().left).toBeLessThan(geometry.lanesX + geometry.lanesWidth - 60);
  });

  test.each([-1e7, 2.1e8])("outside the view, at %d, it is not drawn", (time) => {
    expect(draw({ collective: { time, rank: 3 } }).box().right).toBe(-1);
  });
});
