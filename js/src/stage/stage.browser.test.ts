import { describe, expect, test, vi } from "vitest";
import { eventsOf, LATE, recordedScene, sceneOf } from "../../test/recorded";
import { mountStage, type StageView } from "../../test/stage_view";
import { FULL_SELECTION } from "../protocol/selection";
import type { Brief, FrameStats, Span } from "../protocol/source";
import { THEMES } from "../ui/theme";
import { rgb } from "./paints";

const scene = recordedScene();
let { box, stage, source, pixel } = {} as StageView;
let frames: FrameStats[];
const [jobStart, jobEnd] = scene.range;
/** Covers 1 % of the job. */
const BRIEF_VIEW: Span = [
  jobStart + (jobEnd - jobStart) * 0.4,
  jobStart + (jobEnd - jobStart) * 0.41,
];

function mount(width = 1100, height = 445): void {
  ({ box, stage, source, pixel } = mountStage({ width, height }));
  frames = [];
  stage.onFrame((stats) => frames.push(stats));
}

async function mounted(...size: number[]): Promise<void> {
  mount(...size);
  await drawn();
}

const nextFrame = (): Promise<number> => new Promise((done) => requestAnimationFrame(done));

/** Wait until a frame after the first `since` frames was drawn without missing tiles. */
async function drawn(since = 0): Promise<FrameStats> {
  await vi.waitFor(() => {
    expect(frames.length).toBeGreaterThan(since);
    expect(frames.at(-1)!.pending).toBe(false);
  });
  return frames.at(-1)!;
}

/** Wait until no frame was drawn for several frame times, so that no request is pending. */
async function rested(): Promise<void> {
  await vi.waitFor(
    async () => {
      const before = frames.length;
      for (let i = 0; i < 20; i += 1) await nextFrame();
      expect(frames.length).toBe(before);
    },
    { timeout: 8_000 },
  );
}

const color = (hex: string) => {
  const { r, g, b } = rgb(hex);
  return [r, g, b, 255];
};

const laneTop = (rank: number, role: string) => {
  const row = stage
    .rows()
    .find((candidate) => candidate.rank === rank && candidate.track === null)!;
  return row.top + (role === "gpu" ? 3 : 28);
};

const [gpu, nccl] = scene.ranks[LATE]!.summary.map(({ lane }) => ({
  lane,
  events: eventsOf(lane),
})) as [{ events: Brief[] }, { lane: number; events: Brief[] }];

describe("drawing", () => {
  test("a communication kernel is drawn at its time, in its colour", async () => {
    await mounted();
    const event = nccl.events[2]!;
    // Slightly off the middle, which a grid line may cover.
    const x = stage.xOf(event.start + event.dur / 2) - 4;
    const y = laneTop(LATE, "comm") + 1;
    expect(pixel(0, x, y)).toEqual(color(THEMES.light.kind.communication));
    stage.setTheme("dark");
    await drawn(frames.length);
    expect(pixel(0, x, y)).toEqual(color(THEMES.dark.kind.communication));
  });

  test("while it is not visible, it neither requests nor draws, and it updates afterwards", async () => {
    await mounted();
    await rested();
    box.style.top = "3000px";
    // Browsers report visibility once per frame.
    for (let i = 0; i < 4; i += 1) await nextFrame();
    const [asked, painted] = [source.asked.length, frames.length];
    stage.setView(BRIEF_VIEW, 200);
    expect(stage.view()).toEqual(BRIEF_VIEW);
    await rested();
    expect([source.asked.length, frames.length]).toEqual([asked, painted]);
    box.style.top = "0";
    await drawn(painted);
    expect(source.asked.length).toBeGreaterThan(asked);
  });

  test.each(["display: none", "top: 3000px"])("an animation ends when %s hides it", async (css) => {
    await mounted();
    await rested();
    const views: [Span, boolean][] = [];
    stage.onView((view, done) => views.push([view, done]));
    stage.setView(BRIEF_VIEW, 60_000);
    await vi.waitFor(() => expect(views).not.toEqual([]));
    expect(views.at(-1)).not.toEqual([BRIEF_VIEW, true]);
    box.style.cssText += css;
    await vi.waitFor(() => expect(views.at(-1)).toEqual([BRIEF_VIEW, true]));
    expect(stage.view()).toEqual(BRIEF_VIEW);
  });

  test.each(["set", "zoomed"])(
    "a view is %s at once before the stage is known to be visible",
    (way) => {
      mount();
      const views: [Span, boolean][] = [];
      stage.onView((view, done) => views.push([view, done]));
      box.style.display = "none";
      if (way === "set") stage.setView(BRIEF_VIEW, 60_000);
      else stage.zoomBy(2, scene.range[0], 60_000);
      expect(views).toEqual([[stage.target(), true]]);
    },
  );

  test("a hover redraws no lane", async () => {
    await mounted();
    await rested();
    const event = nccl.events[2]!;
    const before = frames.length;
    stage.setOverlay({ hover: { lane: nccl.lane, start: event.start, dur: event.dur } });
    await vi.waitFor(() => expect(frames.length).toBeGreaterThan(before));
    expect(frames.slice(before).map(({ lanes }) => lanes)).toEqual([0]);
    const y = laneTop(LATE, "comm") - 1;
    expect(pixel(1, stage.xOf(event.start + event.dur / 2), y)[3]).toBeGreaterThan(100);
  });

  test.each(["light", "dark"] as const)("names on dimmed bars are legible, %s", async (theme) => {
    await mounted();
    stage.setTheme(theme);
    const event = nccl.events.find(({ dur }) => dur > 1e6)!;
    stage.setView([event.start, event.start + event.dur], 0);
    await drawn(frames.length);
    await rested();
    const before = frames.length;
    stage.setOverlay({ selection: { ...FULL_SELECTION, ranks: [0] } });
    await vi.waitFor(() => expect(frames.length).toBeGreaterThan(before));
    const top = laneTop(LATE, "comm");
    const left = stage.xOf(event.start);
    const over = Array.from({ length: 60 * 14 }, (_, i) => {
      return pixel(1, left + (i % 60), top + Math.floor(i / 60));
    });
    // The veil has an alpha of 168; letters are opaque and have the text color.
    const letters = over.filter(([, , , alpha]) => alpha! > 240);
    expect(letters.length).toBeGreaterThan(20);
    const [r, g, b] = color(THEMES[theme].ink2) as [number, number, number];
    const near = letters.filter((p) => Math.hypot(p[0]! - r, p[1]! - g, p[2]! - b) < 60);
    expect(near.length).toBeGreaterThan(letters.length / 2);
  });

  test("a hidden output does no work and is restored", async () => {
    mount(0, 0);
    await nextFrame();
    expect(source.asked).toHaveLength(0);
    box.style.width = "900px";
    box.style.height = "400px";
    const stats = await drawn();
    expect(stats.lanes).toBeGreaterThan(8);
  });

  test("follows the width of its container: margin, gutter, nothing truncated", async () => {
    await mounted();
    expect(stage.xOf(stage.view()[0])).toBe(164);
    expect(stage.xOf(stage.view()[1])).toBe(1100 - 128);
    box.style.width = "700px";
    await vi.waitFor(() => expect(stage.xOf(stage.view()[0])).toBe(104));
    expect(stage.xOf(stage.view()[1])).toBe(700);
    expect(stage.el.querySelector("canvas")!.style.width).toBe("700px");
  });
});

describe("the view", () => {
  test("is reported to listeners, immediately or at the end of the animation", async () => {
    await mounted();
    const heard: [number, number, boolean][] = [];
    stage.onView(([start, end], done) => heard.push([start, end, done]));
    stage.setView([1e7, 2e7]);
    expect(heard).toEqual([[1e7, 2e7, true]]);
    stage.setView([1.2e7, 1.3e7], 400);
    await vi.waitFor(() => expect(heard.at(-1)).toEqual([1.2e7, 1.3e7, true]));
    expect(heard.length).toBeGreaterThan(2);
    expect(heard.slice(1, -1).every(([, , done]) => !done)).toBe(true);
  });

  test("its end is reported even if the last frame was just before it", async () => {
    mount();
    await rested();
    const heard: boolean[] = [];
    stage.onView((_, done) => heard.push(done));
    const frame = vi.spyOn(window, "requestAnimationFrame").mockReturnValue(1);
    const clock = vi.spyOn(performance, "now").mockReturnValue(0);
    stage.setView([1.2e7, 1.3e7], 60);
    frame.mock.lastCall![0](60 - 1e-9);
    frame.mock.lastCall![0](61);
    clock.mockRestore();
    frame.mockRestore();
    expect(heard.at(-1)).toBe(true);
  });

  test("requests the tiles of its target, not of every frame", async () => {
    await mounted();
    const before = source.asked.length;
    stage.setView([1.2e7, 1.3e7], 100);
    await vi.waitFor(() => expect(stage.view()).toEqual([1.2e7, 1.3e7]));
    const levels = source.asked
      .slice(before)
      .filter(({ op }) => op === "tiles")
      .map(({ request }) => request.level as number);
    expect(levels[0]).toBe(Math.floor(Math.log2(1e6 / 808)));
  });
});

describe("the hit under the pointer", () => {
  test("a rectangle, with all known fields", async () => {
    await mounted();
    const event = nccl.events[5]!;
    const hit = stage.hitTest(stage.xOf(event.start + event.dur / 2), laneTop(LATE, "comm") + 5);
    const { lane } = nccl;
    expect(hit).toMatchObject({ region: "lanes", lane, row: { rank: LATE }, cell: null });
    const { id, short: name, start, dur } = event;
    expect(hit.slice).toEqual({ lane, id, name, kind: "communication", start, dur, flags: 0 });
  });

  test("a cell, with its exact window and count", async () => {
    await mounted();
    const y = laneTop(LATE, "gpu") + 5;
    const cells = Array.from({ length: 800 }, (_, i) => stage.hitTest(170 + i, y).cell).filter(
      (cell) => cell !== null,
    );
    expect(cells.length).toBeGreaterThan(100);
    for (const { start, end, busy, count } of cells.slice(0, 40)) {
      const inside = gpu.events.filter((e) => e.start < end && e.start + e.dur > start);
      const covered = inside.reduce(
        (sum, e) => sum + Math.min(e.start + e.dur, end) - Math.max(e.start, start),
        0,
      );
      expect(count).toBe(inside.length);
      expect(busy).toBeCloseTo(covered / (end - start), 3);
    }
  });

  test("every region, and nothing outside", async () => {
    await mounted();
    const regions = (...places: [number, number][]) =>
      places.map(([x, y]) => stage.hitTest(x, y).region).join();
    expect(regions([400, 15], [400, 45], [400, 64])).toBe("minimap,axis,strip");
    expect(regions([400, 200], [50, 200], [1050, 200])).toBe("lanes,gutter,margin");
    expect(regions([-1, 200])).toBe("none");
    expect(stage.hitTest(stage.xOf(3e7), 64).step?.name).toBe("ProfilerStep#2");
    expect(stage.hitTest(400, 15).time).toBeCloseTo(
      ((400 - 164) / 808) * (scene.range[1] - scene.range[0]),
      0,
    );
  });

  test("slices of a lane are limited to the view", async () => {
    mount();
    stage.setView([0, 1e7]);
    await drawn();
    const expected = nccl.events.filter((e) => e.start < 1e7).map(({ start }) => start);
    expect(stage.slices(nccl.lane).map(({ start }) => start)).toEqual(expected);
  });
});

describe("rows", () => {
  test("a lane of an opened rank can be scrolled into view", async () => {
    await mounted(1100, 300);
    const lane = scene.ranks[1]!.tracks.find(({ communication }) => communication)!.lane0;
    expect(stage.reveal(lane)).toBe(false);
    stage.setRows({ open: new Set([1]), pinned: [], filter: "" });
    // Scrolling stops at the ends and reports this.
    const moved = [-10, 10, 1e6, 10, -1e6].map((y) => stage.scrollBy(y));
    expect(moved).toEqual([false, true, true, false, true]);
    expect(stage.reveal(lane)).toBe(true);
    const row = stage.rows().find(({ track }) => track?.lane0 === lane)!;
    expect(row.top).toBeGreaterThanOrEqual(90);
    expect(row.top + row.height).toBeLessThanOrEqual(300);
    expect(stage.hitTest(500, row.top + 8).lane).toBe(lane);
  });

  test("the scrollbar shows only if rows need more than there is", async () => {
    await mounted();
    expect(stage.contentHeight()).toBe(106 + 3 * 44);
    const bar = stage.el.querySelector<HTMLElement>(".hta-scrollbar")!;
    expect(bar.style.display).toBe("none");
    box.style.height = "200px";
    await vi.waitFor(() => expect(bar.style.display).toBe("block"));
  });
});

test("hits are requested for the visible lanes and outlined", async () => {
  await mounted();
  stage.setOverlay({ search: "AllReduce_Sum" });
  await vi.waitFor(() => expect(source.asked.some(({ op }) => op === "marks")).toBe(true));
  const { request } = source.asked.find(({ op }) => op === "marks")!;
  expect(request.text).toBe("AllReduce_Sum");
  expect(request.lanes).toContain(nccl.lane);
  const x = stage.xOf(nccl.events[3]!.start);
  const { r, g, b } = rgb(THEMES.light.ink);
  const near = () =>
    [-2, -1, 0, 1, 2].some((dx) => {
      const at = pixel(1, x + dx, laneTop(LATE, "comm") - 1);
      return at[0] === r && at[1] === g && at[2] === b;
    });
  await vi.waitFor(() => expect(near()).toBe(true));
});

test("calls of the host have one grey at every zoom, and hues only when coloured by name", async () => {
  await mounted();
  const track = scene.ranks[0]!.tracks.find(({ role }) => role === "thread")!;
  const calls = Array.from({ length: track.lanes }, (_, depth) => eventsOf(track.lane0 + depth));
  const call = calls.flat().find(({ kind, dur }) => kind === "cpu" && dur > 1e5)!;
  stage.setRows({ open: new Set([0]), pinned: [], filter: "" });
  const edges = THEMES.light.hostHues.map((hex) => color(hex).join());
  const hasHue = () => {
    stage.reveal(call.lane);
    const row = stage.rows().find((row) => row.rank === 0 && row.track?.key === track.key)!;
    const x = Math.round(stage.xOf(call.start));
    const heights = Array.from({ length: row.height }, (_, y) => row.top + y);
    return [-1, 0, 1].some((dx) => heights.some((y) => edges.includes(pixel(0, x + dx, y).join())));
  };
  stage.setColor("name");
  for (const length of [2, 40]) {
    stage.setView([call.start - call.dur / 2, call.start + call.dur * length]);
    await expect.poll(hasHue).toBe(true);
  }
  stage.setColor("kind");
  for (const length of [2, 40]) {
    stage.setView([call.start - call.dur / 2, call.start + call.dur * length]);
    await drawn(frames.length);
    expect(hasHue()).toBe(false);
  }
});

test("another scene replaces the first", async () => {
  await mounted();
  const other = { ...sceneOf(2), range: [0, 4e7] as [number, number] };
  stage.setScene(other);
  await drawn(frames.length);
  expect(stage.rows()).toHaveLength(2);
  expect(stage.view()).toEqual(other.range);
});

test("while the kernel is busy, figures of another view are not shown", async () => {
  await mounted();
  await vi.waitFor(() => expect(source.asked.some(({ op }) => op === "stats")).toBe(true));
  const hasInk = () => {
    const row = stage.rows()[0]!;
    const ctx = stage.el.querySelector("canvas")!.getContext("2d")!;
    const { data } = ctx.getImageData(12, row.top + 19, 90, 11);
    return data.some((value, i) => i % 4 === 0 && value < 160);
  };
  await vi.waitFor(() => expect(hasInk()).toBe(true));
  source.held = [];
  stage.setView([1e7, 1.5e7]);
  source.become("busy");
  await vi.waitFor(() => expect(hasInk()).toBe(false));
  source.become("live");
  source.release();
  await vi.waitFor(() => expect(hasInk()).toBe(true));
});
