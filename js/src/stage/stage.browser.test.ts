import { afterEach, describe, expect, test, vi } from "vitest";
import { eventsOf, LATE, recordedScene, sceneOf } from "../../test/recorded";
import { Watched } from "../../test/watched";
import type { Brief, FrameStats } from "../protocol/source";
import { THEMES } from "../ui/theme";
import { rgb } from "./paints";
import { Stage } from "./stage";

const scene = recordedScene();
let stage: Stage;
let source: Watched;
let frames: FrameStats[];
let box: HTMLElement;

function mount(width = 1100, height = 445): void {
  box = document.createElement("div");
  box.style.cssText = `position:fixed;left:0;top:0;width:${width}px;height:${height}px`;
  document.body.append(box);
  source = new Watched();
  stage = new Stage(scene, source);
  frames = [];
  stage.onFrame((stats) => frames.push(stats));
  box.append(stage.el);
}

afterEach(() => {
  stage.destroy();
  box.remove();
});

/** Until a frame without missing tiles has been drawn after `since` frames. */
async function drawn(since = 0): Promise<FrameStats> {
  await vi.waitFor(() => {
    expect(frames.length).toBeGreaterThan(since);
    expect(frames.at(-1)!.pending).toBe(false);
  });
  return frames.at(-1)!;
}

/** Wait until no frame was drawn for several frames' time, so that no request is pending. */
async function rested(): Promise<void> {
  await vi.waitFor(
    async () => {
      const before = frames.length;
      for (let i = 0; i < 20; i += 1) {
        await new Promise((resolve) => requestAnimationFrame(resolve));
      }
      expect(frames.length).toBe(before);
    },
    { timeout: 8_000 },
  );
}

const base = () => stage.el.querySelectorAll("canvas")[0]!;
const over = () => stage.el.querySelectorAll("canvas")[1]!;

function pixel(canvas: HTMLCanvasElement, x: number, y: number): number[] {
  const scale = canvas.width / stage.el.clientWidth;
  const { data } = canvas
    .getContext("2d")!
    .getImageData(Math.floor(x * scale), Math.floor(y * scale), 1, 1);
  return [...data];
}

const colour = (hex: string) => {
  const { r, g, b } = rgb(hex);
  return [r, g, b, 255];
};

interface Lane {
  lane: number;
  events: Brief[];
}

const laneTop = (rank: number, role: string) => {
  const row = stage.rows().find((one) => one.rank === rank && one.track === null)!;
  return row.top + (role === "gpu" ? 3 : 28);
};

const [gpu, nccl] = scene.ranks[LATE]!.summary.map(({ lane }) => ({
  lane,
  events: eventsOf(lane),
})) as [Lane, Lane];

describe("drawing", () => {
  test("a communication kernel is drawn at its time, in its colour", async () => {
    mount();
    await drawn();
    const event = nccl.events[2]!;
    // Next to the middle, which a grid line may cover.
    const x = stage.xOf(event.start + event.dur / 2) - 4;
    const y = laneTop(LATE, "comm") + 1;
    expect(pixel(base(), x, y)).toEqual(colour(THEMES.light.kind.communication));
    stage.setTheme("dark");
    await drawn(frames.length);
    expect(pixel(base(), x, y)).toEqual(colour(THEMES.dark.kind.communication));
  });

  test("draws only when something has changed", async () => {
    mount();
    await drawn();
    await vi.waitFor(() => expect(source.asked.some(({ op }) => op === "stats")).toBe(true));
    await rested();
    stage.setOverlay({ search: "" });
    await vi.waitFor(() => expect(frames.at(-1)).toBeDefined());
  });

  test("out of sight it neither requests nor draws, and catches up later", async () => {
    mount();
    await drawn();
    await rested();
    box.style.top = "3000px";
    // Browsers report visibility once a frame.
    for (let i = 0; i < 4; i += 1) await new Promise((done) => requestAnimationFrame(done));
    const [asked, painted] = [source.asked.length, frames.length];
    const [start, end] = scene.range;
    const view = [start + (end - start) * 0.4, start + (end - start) * 0.41] as const;
    stage.setView(view, 200);
    expect(stage.view()).toEqual(view);
    await rested();
    expect([source.asked.length, frames.length]).toEqual([asked, painted]);
    box.style.top = "0";
    await drawn(painted);
    expect(source.asked.length).toBeGreaterThan(asked);
  });

  test("a hover redraws no lane", async () => {
    mount();
    await drawn();
    await rested();
    const event = nccl.events[2]!;
    const before = frames.length;
    stage.setOverlay({ hover: { lane: nccl.lane, start: event.start, dur: event.dur } });
    await vi.waitFor(() => expect(frames.length).toBeGreaterThan(before));
    expect(frames.slice(before).map(({ lanes }) => lanes)).toEqual([0]);
    const y = laneTop(LATE, "comm") - 1;
    expect(pixel(over(), stage.xOf(event.start + event.dur / 2), y)[3]).toBeGreaterThan(100);
  });

  test("a hidden output does no work and is restored", async () => {
    mount(0, 0);
    await new Promise((resolve) => requestAnimationFrame(resolve));
    expect(source.asked).toHaveLength(0);
    box.style.width = "900px";
    box.style.height = "400px";
    const stats = await drawn();
    expect(stats.lanes).toBeGreaterThan(8);
  });

  test("follows the width of its container: margin, gutter, nothing cut", async () => {
    mount(1100);
    await drawn();
    expect(stage.xOf(stage.view()[0])).toBe(164);
    expect(stage.xOf(stage.view()[1])).toBe(1100 - 128);
    box.style.width = "700px";
    await vi.waitFor(() => expect(stage.xOf(stage.view()[0])).toBe(104));
    expect(stage.xOf(stage.view()[1])).toBe(700);
    expect(base().style.width).toBe("700px");
  });
});

describe("the view", () => {
  test("is reported to listeners, immediately or at the end of the animation", async () => {
    mount();
    const heard: [number, number, boolean][] = [];
    stage.onView(([start, end], done) => heard.push([start, end, done]));
    stage.setView([1e7, 2e7]);
    expect(heard).toEqual([[1e7, 2e7, true]]);
    stage.setView([1.2e7, 1.3e7], 60);
    await vi.waitFor(() => expect(heard.at(-1)).toEqual([1.2e7, 1.3e7, true]));
    expect(heard.length).toBeGreaterThan(2);
    expect(heard.slice(1, -1).every(([, , done]) => !done)).toBe(true);
  });

  test("its arrival is reported even if the last frame was just before the end", async () => {
    mount();
    await rested();
    const heard: boolean[] = [];
    stage.onView((_, done) => heard.push(done));
    const frame = vi.spyOn(window, "requestAnimationFrame").mockReturnValue(1);
    const clock = vi.spyOn(performance, "now").mockReturnValue(0);
    stage.setView([1.2e7, 1.3e7], 60);
    const draw = frame.mock.lastCall![0];
    draw(60 - 1e-9);
    frame.mock.lastCall![0](61);
    clock.mockRestore();
    frame.mockRestore();
    expect(heard.at(-1)).toBe(true);
  });

  test("requests the tiles of its target, not of every frame", async () => {
    mount();
    await drawn();
    const before = source.asked.length;
    stage.setView([1.2e7, 1.3e7], 100);
    await vi.waitFor(() => expect(stage.view()).toEqual([1.2e7, 1.3e7]));
    const levels = source.asked
      .slice(before)
      .filter(({ op }) => op === "tiles")
      .map(({ request }) => request.level as number);
    expect(levels[0]).toBe(Math.floor(Math.log2(1e6 / 808)));
  });

  test("one request of tiles at a time, the newest view wins", async () => {
    mount();
    await drawn();
    source.held = [];
    const before = source.asked.length;
    const views: [number, number][] = [
      [1e7, 1.1e7],
      [2e7, 2.01e7],
      [3e7, 3.001e7],
    ];
    for (const view of views) {
      stage.setView(view);
      await new Promise((resolve) => requestAnimationFrame(resolve));
    }
    const tiles = () => source.asked.slice(before).filter(({ op }) => op === "tiles");
    expect(tiles()).toHaveLength(1);
    source.release();
    await vi.waitFor(() => expect(tiles().length).toBeGreaterThanOrEqual(2));
    expect(tiles()[1]!.request.level).toBe(Math.floor(Math.log2(1e4 / 808)));
  });
});

describe("the hit under the pointer", () => {
  test("a rectangle, with all known fields", async () => {
    mount();
    await drawn();
    const event = nccl.events[5]!;
    const hit = stage.hit(stage.xOf(event.start + event.dur / 2), laneTop(LATE, "comm") + 5);
    expect(hit.region).toBe("lanes");
    expect(hit.lane).toBe(nccl.lane);
    expect(hit.row?.rank).toBe(LATE);
    expect(hit.slice).toEqual({
      lane: nccl.lane,
      id: event.id,
      name: event.short,
      kind: "communication",
      start: event.start,
      dur: event.dur,
      flags: 0,
    });
    expect(hit.cell).toBeNull();
  });

  test("a cell, with its exact window and count", async () => {
    mount();
    await drawn();
    const y = laneTop(LATE, "gpu") + 5;
    const cells = Array.from({ length: 800 }, (_, i) => stage.hit(170 + i, y).cell).filter(
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

  test("each region, and none outside", async () => {
    mount();
    await drawn();
    const region = (x: number, y: number) => stage.hit(x, y).region;
    expect(region(400, 15)).toBe("minimap");
    expect(region(400, 45)).toBe("axis");
    expect(region(400, 64)).toBe("strip");
    expect(region(400, 200)).toBe("lanes");
    expect(region(50, 200)).toBe("gutter");
    expect(region(1050, 200)).toBe("margin");
    expect(region(-1, 200)).toBe("none");
    expect(stage.hit(stage.xOf(3e7), 64).step?.name).toBe("ProfilerStep#2");
    expect(stage.hit(400, 15).time).toBeCloseTo(
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
  const open = { open: new Set([1]), pinned: [], filter: "" };

  test("a lane of an opened rank can be brought into sight", async () => {
    mount(1100, 300);
    await drawn();
    const lane = scene.ranks[1]!.tracks.find(({ communication }) => communication)!.lane0;
    expect(stage.reveal(lane)).toBe(false);
    stage.setRows(open);
    expect(stage.reveal(lane)).toBe(true);
    const row = stage.rows().find(({ track }) => track?.lane0 === lane)!;
    expect(row.top).toBeGreaterThanOrEqual(90);
    expect(row.top + row.height).toBeLessThanOrEqual(300);
    expect(stage.hit(500, row.top + 8).lane).toBe(lane);
  });

  test("scrolling stops at the ends and reports it", () => {
    mount(1100, 300);
    stage.setRows(open);
    stage.invalidate();
    expect(stage.scrollBy(-10)).toBe(false);
    expect(stage.scrollBy(10)).toBe(true);
    expect(stage.scrollBy(1e6)).toBe(true);
    expect(stage.scrollBy(10)).toBe(false);
  });

  test("the scrollbar shows only if there is something to scroll", async () => {
    mount(1100, 445);
    await drawn();
    const bar = stage.el.querySelector<HTMLElement>(".hta-scrollbar")!;
    expect(bar.style.display).toBe("none");
    box.style.height = "200px";
    await vi.waitFor(() => expect(bar.style.display).toBe("block"));
  });

  test("the height that it would like to have", () => {
    mount();
    stage.invalidate();
    expect(stage.contentHeight()).toBe(106 + 3 * 44);
  });
});

test("marks are requested for the lanes in sight, and drawn above them", async () => {
  mount();
  await drawn();
  stage.setOverlay({ search: "AllReduce_Sum" });
  await vi.waitFor(() => expect(source.asked.some(({ op }) => op === "marks")).toBe(true));
  const { request } = source.asked.find(({ op }) => op === "marks")!;
  expect(request.text).toBe("AllReduce_Sum");
  expect(request.lanes).toContain(nccl.lane);
  const x = stage.xOf(nccl.events[3]!.start);
  const near = () =>
    [-2, -1, 0, 1, 2].some((dx) => {
      const [r, g, b] = pixel(over(), x + dx, laneTop(LATE, "comm") - 1);
      return r === 255 && g === 214 && b === 10;
    });
  await vi.waitFor(() => expect(near()).toBe(true));
});

test("another scene replaces the first", async () => {
  mount();
  await drawn();
  const other = { ...sceneOf(2), range: [0, 4e7] as [number, number] };
  stage.setScene(other);
  await drawn(frames.length);
  expect(stage.rows()).toHaveLength(2);
  expect(stage.view()).toEqual(other.range);
});

test("a hundred stages are created and removed without a leak", async () => {
  const observed = new Set<Element>();
  const observe = vi.spyOn(ResizeObserver.prototype, "observe").mockImplementation((el) => {
    observed.add(el);
  });
  const disconnect = vi.spyOn(ResizeObserver.prototype, "disconnect");
  const media: AbortSignal[] = [];
  const listen = vi
    .spyOn(MediaQueryList.prototype, "addEventListener")
    .mockImplementation((_type, _listener, options) => {
      media.push((options as AddEventListenerOptions).signal!);
    });
  mount();
  const elements = document.querySelectorAll("*").length;
  for (let i = 0; i < 100; i += 1) {
    const one = new Stage(scene, source);
    document.body.append(one.el);
    one.setView([1e7, 2e7], 100);
    one.destroy();
  }
  expect(document.querySelectorAll("*")).toHaveLength(elements);
  expect(observed.size).toBe(101);
  expect(disconnect).toHaveBeenCalledTimes(100);
  expect(media.filter((signal) => !signal.aborted)).toHaveLength(1);
  const before = source.asked.length;
  await new Promise((resolve) => setTimeout(resolve, 0));
  expect(source.asked.length).toBe(before);
  stage.destroy();
  expect(source.isWatched).toBe(false);
  observe.mockRestore();
  disconnect.mockRestore();
  listen.mockRestore();
});

test("while the kernel is busy, figures of another view are not shown as this one's", async () => {
  mount();
  await drawn();
  await vi.waitFor(() => expect(source.asked.some(({ op }) => op === "stats")).toBe(true));
  const words = () => {
    const row = stage.rows()[0]!;
    const ctx = base().getContext("2d")!;
    const { data } = ctx.getImageData(12, row.top + 19, 90, 11);
    return data.some((value, i) => i % 4 === 0 && value < 160);
  };
  await vi.waitFor(() => expect(words()).toBe(true));
  source.held = [];
  stage.setView([1e7, 1.5e7]);
  source.become("busy");
  await vi.waitFor(() => expect(words()).toBe(false));
  source.become("live");
  source.release();
  await vi.waitFor(() => expect(words()).toBe(true));
});
