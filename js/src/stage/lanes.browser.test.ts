import { describe, expect, test } from "vitest";
import { type GivenEvent, placeOf, shownLane } from "../../test/lane";
import { recordedScene } from "../../test/recorded";
import { CLASSES, eventClassPalette } from "../facts/event_classes";
import type { Kind } from "../protocol/source";
import { THEMES } from "../ui/theme";
import { LanePainter } from "./lanes";
import { classPaints, mix, pack, kindPaints, rgb } from "./paints";
import { PixelRaster } from "./raster";
import type { BandForm } from "./bands";

const KINDS = recordedScene().kinds;
const theme = THEMES.light;
const paints = kindPaints(theme, KINDS, new Set());
const LANE = pack(rgb(theme.lane));
const COMPUTE = pack(rgb(theme.kind.compute));
const COMPUTE_CODE = 0;
const CPU_CODE = 4;

interface Drawing {
  form?: BandForm;
  width?: number;
  height?: number;
  dpr?: number;
  view?: [number, number];
  data?: [number, number];
  job?: [number, number];
  dimmed?: ReadonlySet<Kind>;
  coarse?: boolean;
  /** Level to load instead of the appropriate one. */
  loaded?: number;
  /** Class of each event, by which it is colored. */
  classes?: readonly number[];
}

/** Draw a lane of `events` and return its pixels. */
async function draw(events: GivenEvent[], given: Drawing = {}) {
  const { form = "solid", width = 200, height = 16, dpr = 1, view = [0, 1e6] } = given;
  const job = given.job ?? [0, 1e6];
  const shown = await shownLane(events, { ...given, view, width, job });
  const raster = new PixelRaster(width, height);
  raster.fillRect(0, 0, width, height, pack(rgb(theme.bg)));
  const [dataStart, dataEnd] = given.data ?? job;
  const more = { form, y1: height, dpr, dataStart, dataEnd, coarse: given.coarse ?? false };
  const place = placeOf({ view, width, job }, more);
  const byKind = given.dimmed === undefined ? paints : kindPaints(theme, KINDS, given.dimmed);
  const used = given.classes === undefined ? byKind : classPaints(theme, eventClassPalette(false));
  const painter = new LanePainter(raster, used);
  painter.drawNoDataHatch(place);
  painter.drawLane(place, shown, null);
  const px = new Uint32Array(raster.image.data.buffer);
  const at = (x: number, y: number) => px[y * width + x]!;
  const column = (x: number) => Array.from({ length: height }, (_, y) => at(x, y));
  return {
    at,
    /** Sum of the pixels in a column that the events cover. */
    ink: (x: number) => column(x).reduce((sum, pixel) => sum + coverage(pixel), 0),
    columns: () =>
      Array.from({ length: width }, (_, x) => x).filter((x) => column(x).some((p) => p !== LANE)),
  };
}

/** Return how close a pixel is to the kernel color: 0 at the lane color, 1 at the kernel color. */
function coverage(pixel: number): number {
  const lane = rgb(theme.lane).r;
  const kernel = rgb(theme.kind.compute).r;
  return (lane - (pixel & 255)) / (lane - kernel);
}

const event = (start: number, dur: number, kind = COMPUTE_CODE): GivenEvent => [start, dur, kind];

/** Return events of `dur` every `period`, none long enough for a rectangle. */
const field = (dur: number, period: number) =>
  Array.from({ length: Math.floor(1e6 / period) }, (_, i) => event(i * period, dur));

describe("height is the exact share of busy time", () => {
  test.each([0.05, 0.1, 0.25, 0.5, 0.66, 0.95, 1])("%d busy", async (share) => {
    const height = 40;
    const drawn = await draw(field(Math.round(100 * share), 100), { height });
    const inks = Array.from({ length: 198 }, (_, i) => drawn.ink(i + 1));
    const mean = inks.reduce((sum, ink) => sum + ink, 0) / inks.length;
    expect(Math.abs(mean / height - share)).toBeLessThan(0.01);
    for (const ink of inks) expect(Math.abs(ink / height - share)).toBeLessThan(0.035);
  });

  test("a lane of 16 px that is 5 % busy is 1 px high", async () => {
    const drawn = await draw(field(5, 100));
    for (let x = 1; x < 199; x += 1) {
      expect(drawn.at(x, 15)).toBe(COMPUTE);
      expect(drawn.at(x, 13)).toBe(LANE);
    }
  });
});

describe("every event stays visible", () => {
  test("a lone event of 1 ns in a second is one pixel", async () => {
    const job: [number, number] = [0, 1e9];
    for (const start of [0, 1, 12_345_678, 499_999_999, 999_999_999]) {
      const drawn = await draw([event(start, 1)], { view: job, job });
      const columns = drawn.columns();
      expect(columns).toHaveLength(1);
      expect(drawn.at(columns[0]!, 15)).toBe(COMPUTE);
      expect(drawn.at(columns[0]!, 14)).toBe(LANE);
      expect(Math.abs(columns[0]! - start / 5e6)).toBeLessThanOrEqual(1);
    }
  });

  test("an event without length too, at any zoom", async () => {
    for (const around of [500_000, 1000, 50]) {
      const drawn = await draw([event(500_000, 0)], { view: [500_000 - around, 500_000 + around] });
      expect(drawn.columns()).toHaveLength(1);
    }
  });

  test("on a dense display a mark is as high as a CSS pixel", async () => {
    const drawn = await draw([event(500_000, 1)], { dpr: 2, height: 32 });
    const [x] = drawn.columns();
    expect([31, 30, 29].map((y) => drawn.at(x!, y))).toEqual([COMPUTE, COMPUTE, LANE]);
  });
});

describe("rectangles", () => {
  test("are exactly as wide as their rounded pixels minus the gap", async () => {
    // 5 000 ns per pixel.
    const drawn = await draw([event(50_000, 60_000)]);
    expect(drawn.columns()).toEqual(Array.from({ length: 11 }, (_, i) => 10 + i));
    for (const x of [10, 20]) expect([drawn.at(x, 0), drawn.at(x, 15)]).toEqual([COMPUTE, COMPUTE]);
    expect(drawn.at(21, 8)).toBe(LANE);
  });

  test("do not change pixels outside of the lane", async () => {
    for (let shift = 0; shift < 5000; shift += 311) {
      for (const dur of [10_400, 12_000, 23_456]) {
        const drawn = await draw([event(100_000 + shift, dur)]);
        const first = Math.round((100_000 + shift) / 5000);
        const last = Math.round((100_000 + shift + dur) / 5000);
        for (const x of drawn.columns()) {
          expect(x).toBeGreaterThanOrEqual(first);
          expect(x).toBeLessThan(last);
        }
      }
    }
  });

  test("have no gap below 3 px; wider adjacent ones have one", async () => {
    const narrow = await draw([event(50_000, 10_000), event(60_000, 10_000)]);
    expect(narrow.columns()).toEqual([10, 11, 12, 13]);
    const wide = await draw([event(50_000, 20_000), event(70_000, 20_000)]);
    expect(wide.columns()).toEqual([10, 11, 12, 14, 15, 16]);
  });

  test("below 2 px are columns as high as their share", async () => {
    const drawn = await draw([event(50_000, 7500)], { height: 40 });
    const ink = drawn.columns().reduce((sum, x) => sum + drawn.ink(x), 0);
    expect(ink / 40).toBeCloseTo(1.5, 1);
  });

  test("do not change adjacent short events", async () => {
    const short = Array.from({ length: 20 }, (_, i) => event(30_000 + i * 500, 250));
    const drawn = await draw([...short, event(40_000, 50_000)], { height: 40 });
    const ink = [4, 5, 6, 7].reduce((sum, x) => sum + drawn.ink(x) / 40, 0);
    // Two pixels are half busy; the rectangle hides the part in its first cell.
    expect(ink).toBeGreaterThan(0.85);
    expect(ink).toBeLessThan(1.02);
    expect(drawn.ink(8) / 40).toBeCloseTo(1, 2);
  });

  test("host events are a tint with a dark left edge", async () => {
    const drawn = await draw([event(50_000, 100_000, CPU_CODE)], { form: "pale" });
    const cpu = rgb(theme.kind.cpu);
    expect(drawn.at(10, 8)).toBe(pack(cpu));
    expect(drawn.at(15, 8)).toBe(pack(mix(cpu, rgb(theme.bg), theme.cpuTint)));
  });

  test("an event that began before the view has no edge in it", async () => {
    const given = { form: "pale" as const, view: [60_000, 160_000] as [number, number] };
    const drawn = await draw([event(50_000, 100_000, CPU_CODE)], given);
    expect(drawn.at(0, 8)).toBe(drawn.at(20, 8));
  });
});

describe("unknown time", () => {
  test("beyond a rank's data the lane is hatched", async () => {
    const drawn = await draw([event(50_000, 50_000)], { data: [0, 500_000] });
    const line = paints.hatchLine;
    const beyond = Array.from({ length: 80 }, (_, i) => drawn.at(110 + i, 8));
    expect(new Set(beyond)).toEqual(new Set([line, paints.hatchGround]));
    expect(beyond.filter((pixel) => pixel === line)).toHaveLength(16);
    expect(drawn.at(90, 8)).toBe(LANE);
  });

  test("outside the job's data there is no hatch", async () => {
    const drawn = await draw([], { view: [500_000, 1_500_000], job: [0, 1e6] });
    expect(drawn.at(50, 8)).toBe(LANE);
    expect(drawn.at(150, 8)).toBe(pack(rgb(theme.bg)));
  });

  test.each([
    ["cells of a coarser level", { loaded: 14 }, [LANE]],
    ["less than the view needs", { coarse: true }, [paints.hatchLine, paints.hatchGround]],
  ])("%s: cells are drawn at 55 %%, rectangles as usual", async (_, given, ground) => {
    const events = [...field(50, 100).slice(0, 4000), event(600_000, 300_000)];
    const drawn = await draw(events, { ...given, height: 40 });
    const pale = pack(mix(rgb(theme.kind.compute), rgb(theme.lane), 0.55));
    expect(drawn.at(20, 39)).toBe(pale);
    expect(drawn.at(150, 20)).toBe(COMPUTE);
    const empty = Array.from({ length: 30 }, (_, i) => drawn.at(85 + i, 39));
    expect(new Set(empty)).toEqual(new Set(ground));
  });
});

test("a kind that is switched off is pale but drawn", async () => {
  const drawn = await draw(field(50, 100), { dimmed: new Set<Kind>(["compute"]) });
  expect(drawn.at(100, 15)).not.toBe(LANE);
  expect(drawn.at(100, 15)).not.toBe(COMPUTE);
  expect(coverage(drawn.at(100, 15))).toBeLessThan(0.4);
});

describe("changed calls among many unchanged calls", () => {
  const [same, slower] = [CLASSES.indexOf("same"), CLASSES.indexOf("slower_3")];
  const view: [number, number] = [0, 1_600_000];

  // 8 000 ns per pixel, but cells of 4 096 ns, of which either may be drawn.
  test.each([0, 1000, 2000, 3000, 4000, 5000, 6000, 7000])(
    "each is visible, %d ns later",
    async (at) => {
      const starts = Array.from({ length: 1600 }, (_, i) => i * 1000);
      const isChanged = (start: number) => (start - at) % 100_000 === 0;
      const drawn = await draw(
        starts.map((start) => event(start, 1000)),
        { view, job: view, classes: starts.map((start) => (isChanged(start) ? slower : same)) },
      );
      const color = pack(rgb(eventClassPalette(false).styles("light")[slower]!.color));
      const seen = Array.from({ length: 200 }, (_, x) => drawn.at(x, 15) === color);
      for (const start of starts.filter(isChanged)) {
        const x = Math.floor(start / 8000);
        expect(seen.slice(Math.max(0, x - 1), x + 2)).toContain(true);
      }
    },
  );
});
