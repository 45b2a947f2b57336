import { describe, expect, test } from "vitest";
import { type GivenEvent, placeOf, shownLane } from "../../test/lane";
import { recordedScene } from "../../test/recorded";
import { THEMES } from "../ui/theme";
import { LanePainter } from "./lanes";
import { pack, kindPaints, rgb } from "./paints";
import { PixelRaster } from "./raster";

const theme = THEMES.light;
const paints = kindPaints(theme, recordedScene().kinds, new Set());
const BACK = pack(rgb(theme.bg));
const EVENT = pack(rgb(theme.kind.communication));
const COMMUNICATION = 1;
const VIEW: [number, number] = [0, 1e6];
const WIDTH = 200;
// 5 000 ns per pixel
const HEIGHT = 20;

const piece = (start: number, dur: number): GivenEvent => [start, dur, COMMUNICATION];
const windowOf = (events: GivenEvent[]) => shownLane(events, { view: VIEW, width: WIDTH });

const place = (dpr = 1) => placeOf({ view: VIEW, width: WIDTH }, { y0: 2, y1: HEIGHT - 2, dpr });

/** Return the pixels after drawing between the second and the second-to-last row. */
async function pixels(draw: (painter: LanePainter) => Promise<void> | void) {
  const raster = new PixelRaster(WIDTH, HEIGHT);
  raster.fillRect(0, 0, WIDTH, HEIGHT, BACK);
  await draw(new LanePainter(raster, paints));
  const px = new Uint32Array(raster.image.data.buffer);
  const at = (x: number, y: number): number => px[y * WIDTH + x]!;
  const column = (x: number): number[] => Array.from({ length: HEIGHT }, (_, y) => at(x, y));
  const used = (): number[] =>
    Array.from({ length: WIDTH }, (_, x) => x).filter((x) =>
      column(x).some((pixel) => pixel !== BACK),
    );
  return { at, column, used };
}

const between = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, i) => from + i);

describe("waiting", () => {
  const draw = async (events: GivenEvent[], dpr = 1) => {
    const lane = await windowOf(events);
    return pixels((painter) => painter.drawWaits(place(dpr), lane));
  };

  test("is a hatch with a border, from the arrival to the last arrival", async () => {
    const { at, used } = await draw([piece(100_000, 250_000)]);
    expect(used()).toEqual(between(20, 70));
    for (const x of [20, 69]) expect(at(x, 10)).toBe(paints.waitLine);
    for (const y of [2, HEIGHT - 3]) expect(at(45, y)).toBe(paints.waitLine);
    expect([at(45, 1), at(45, HEIGHT - 2)]).toEqual([BACK, BACK]);
    const inside = between(22, 68).map((x) => at(x, 10));
    expect(new Set(inside)).toEqual(new Set([paints.waitFill, paints.waitLine]));
    const lines = inside.filter((pixel) => pixel === paints.waitLine).length;
    expect(lines / inside.length).toBeCloseTo(1 / 5, 1);
  });

  test("lines are as wide as a CSS pixel", async () => {
    const { at } = await draw([piece(100_000, 250_000)], 2);
    expect([2, 3].map((y) => at(45, y))).toEqual([paints.waitLine, paints.waitLine]);
    expect([20, 21].map((x) => at(x, 10))).toEqual([paints.waitLine, paints.waitLine]);
  });

  test("if too short for a rectangle, it is as high as its share of the time", async () => {
    const short = between(0, 400).map((i) => piece(100_000 + i * 500, 250));
    const { column, used } = await draw(short);
    // Cells do not end at pixel edges, so at most one additional pixel is touched.
    expect(between(20, 60).every((x) => used().includes(x))).toBe(true);
    expect(used().length).toBeLessThanOrEqual(42);
    const heights = between(21, 59).map((x) => column(x).filter((pixel) => pixel !== BACK).length);
    for (const height of heights) expect(Math.abs(height - 8)).toBeLessThanOrEqual(1);
    expect(new Set(column(30).slice(0, 8))).toEqual(new Set([BACK]));
  });

  test("nothing is drawn outside of the view; waits cut by its edge have no border there", async () => {
    const nothing = await draw([]);
    expect(nothing.used()).toEqual([]);
    const crossing = await draw([piece(900_000, 400_000)]);
    expect(crossing.used()).toEqual(between(180, 200));
    expect(between(0, HEIGHT).some((y) => crossing.at(199, y) === paints.waitFill)).toBe(true);
  });
});

describe("arriving late", () => {
  const draw = async (events: GivenEvent[], named = true) => {
    const lane = await windowOf(events);
    return pixels((painter) => painter.drawLate(place(), lane, named));
  };

  test.each([
    ["of the rank that the others wait for", true, paints.lateLine],
    ["of another rank, in grey", false, paints.lastLine],
  ])("dots the time in which the others had arrived: %s", async (_, named, line) => {
    const { column, used } = await draw([piece(100_000, 250_000)], named);
    // Dots of 2 px with gaps of 2 px in the middle of the lane.
    expect(used()).toEqual(between(20, 70).filter((x) => x % 4 < 2));
    expect(column(20).flatMap((pixel, y) => (pixel === line ? [y] : []))).toEqual([9, 10]);
  });

  test.each([105_000, 110_000, 115_000])(
    "is dotted if another delay begins meanwhile, at %d ns",
    async (start) => {
      const { used } = await draw([piece(100_000, 250_000), piece(start, 300_000)]);
      expect(used()).toEqual(between(20, start / 5000 + 60).filter((x) => x % 4 < 2));
    },
  );

  test("is visible wherever it begins, however narrow", async () => {
    for (const start of [100_000, 105_000, 110_000, 115_000])
      expect((await draw([piece(start, 15_000)])).used()).toHaveLength(2);
  });

  test("is one dot if narrow, and never as high as its share of the time", async () => {
    expect((await draw([piece(100_000, 15_000)])).used()).toEqual([20, 21]);
    const { column, used } = await draw([piece(100_000, 4_000)]);
    // Cells do not end at pixel edges, so one additional pixel on each side may be touched.
    expect(used().length).toBeLessThanOrEqual(3);
    expect(column(20).filter((pixel) => pixel !== BACK)).toHaveLength(2);
  });
});

describe("a lane of communication", () => {
  const draw = async (overlayName: "wait" | "late", start: number, dur: number) => {
    const lane = await windowOf([piece(300_000, 300_000)]);
    const over = {
      wait: null,
      late: null,
      isNamed: true,
      [overlayName]: await windowOf([piece(start, dur)]),
    };
    return pixels((painter) => painter.drawLane(place(), lane, null, over));
  };

  test("waits are drawn over its events, which continue after them", async () => {
    const { at } = await draw("wait", 300_000, 100_000);
    expect(at(60, 10)).toBe(paints.waitLine);
    expect(new Set(between(62, 79).map((x) => at(x, 10)))).toEqual(
      new Set([paints.waitFill, paints.waitLine]),
    );
    expect(between(81, 118).every((x) => at(x, 10) === EVENT)).toBe(true);
  });

  test("late arrivals are drawn under its events", async () => {
    const { at } = await draw("late", 200_000, 200_000);
    expect(between(40, 60).map((x) => at(x, 10) === paints.lateLine)).toEqual(
      between(40, 60).map((x) => x % 4 < 2),
    );
    expect(between(61, 118).every((x) => at(x, 10) === EVENT)).toBe(true);
  });
});
