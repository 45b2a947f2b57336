/** Late arrivals on the canvas: waits, the late rank's row, ribbons, and hit testing. */

import { describe, expect, test } from "vitest";
import { eventsOf, LATE, recordedScene } from "../../test/recorded";
import { mountStage, type StageView } from "../../test/stage_view";
import type { Brief, Collective } from "../protocol/source";
import { THEMES } from "../ui/theme";
import { mix, rgb } from "./paints";

const scene = recordedScene();
/** The sixth of twelve collectives, in which rank 0 waits about 2 ms. */
const CALL = 5;
const commOf = (rank: number) => scene.ranks[rank]!.summary[1]!;
const eventOf = (rank: number, call = CALL): Brief => eventsOf(commOf(rank).lane)[call]!;

let { stage, source, pixel: pixels } = {} as StageView;

function mount(given: Parameters<typeof mountStage>[0] = {}): void {
  ({ stage, source, pixel: pixels } = mountStage(given));
}

const pixel = (x: number, y: number): string => pixels(0, x, y).slice(0, 3).join();

async function collective(call = CALL): Promise<Collective> {
  return (await source.ask("collective", eventOf(0, call))).reply.collective!;
}

const ops = () => source.asked.map(({ op }) => op);
const color = ({ r, g, b }: { r: number; g: number; b: number }) => [r, g, b].join();
const rowOf = (rank: number) => stage.rows().find((row) => row.rank === rank)!;

/** Return whether a pixel of a row has a color at a given time. */
function seen(rank: number, time: number, wanted: string): boolean {
  const { top, height } = rowOf(rank);
  const x = stage.xOf(time);
  for (let y = top; y < top + height; y += 1) {
    for (let dx = 0; dx < 6; dx += 1) if (pixel(x + dx, y) === wanted) return true;
  }
  return false;
}

describe("waits", () => {
  test("are requested after the events, and drawn over them", async () => {
    mount();
    const lanes = () =>
      source.asked
        .filter(({ op }) => op === "tiles")
        .map(({ request }) =>
          (request.parts as { lanes: number[] }[]).flatMap((part) => part.lanes),
        );
    await expect.poll(() => lanes().flat()).toContain(commOf(0).wait);
    expect(lanes()[0]).not.toContain(commOf(0).wait);
    expect(ops().indexOf("lateness")).toBeGreaterThan(ops().indexOf("stats"));
    const { wait } = (await collective()).ranks[0]!;
    const { start, dur } = eventOf(0);
    stage.setView([start - 5e5, start + dur + 5e5]);
    const hatch = color(rgb(THEMES.light.waitFill));
    await expect.poll(() => seen(0, start + wait / 2, hatch)).toBe(true);
    expect(seen(0, start + wait + 1e5, hatch)).toBe(false);
  });

  const texts = async (): Promise<string[]> => {
    const svg = await stage.toSvg({ title: "t", summary: "", headline: "" });
    const { documentElement } = new DOMParser().parseFromString(svg, "image/svg+xml");
    return [...documentElement.querySelectorAll("text")].map(({ textContent }) => textContent);
  };

  test("a late rank's lanes have the same names as the others'", async () => {
    mount();
    await expect.poll(texts).toContainEqual(expect.stringMatching(/^last \d+\/\d+$/));
    const names = await texts();
    expect(names.filter((text) => text === "compute")).toHaveLength(scene.ranks.length);
    expect(names).not.toContain("GPU");
  });

  test("waits in totals are those of the window of the figures", async () => {
    mount();
    const { top } = rowOf(0);
    const hatch = color(rgb(THEMES.light.waitFill));
    const isHatched = () =>
      Array.from({ length: 100 }, (_, dx) => pixel(995 + dx, top + 8)).includes(hatch);
    await expect.poll(isHatched).toBe(true);
    const [start, end] = scene.range;
    stage.setOverlay({ figures: { label: "whole job", span: [start, end] } });
    const before = ops().filter((op) => op === "ribbon").length;
    stage.setView([start + 0.2 * (end - start), end]);
    await expect.poll(() => ops().filter((op) => op === "ribbon").length).toBe(before + 1);
    expect(isHatched()).toBe(true);
  });

  test("the column of totals names its scope in words that fit", async () => {
    mount();
    const { range: span } = scene;
    stage.setOverlay({ figures: { label: "whole job", span } });
    await expect.poll(texts).toContain("GPU time, whole job");
    stage.setOverlay({ figures: { label: "whole export", span } });
    await expect.poll(texts).toContain("GPU time, export");
  });

  test("a hit on a collective has its waiting part", async () => {
    mount();
    const { ranks } = await collective();
    const hit = (rank: number) => {
      const { start, dur } = eventOf(rank);
      return stage.hitTest(stage.xOf(start + 0.8 * dur), rowOf(rank).top + 34);
    };
    await expect.poll(() => hit(0).slice?.wait).toBe(ranks[0]!.wait);
    const { start, dur } = eventOf(0);
    expect(hit(0)).toMatchObject({ lane: commOf(0).lane, slice: { start, dur } });
    expect(hit(LATE).slice).toMatchObject({ start: eventOf(LATE).start });
    expect(hit(LATE).slice?.wait).toBeUndefined();
  });

  test("a job without lanes of waits gets no request for lateness", async () => {
    const bare = recordedScene();
    for (const { summary, tracks } of bare.ranks) {
      for (const row of [...summary, ...tracks]) {
        delete row.wait;
        delete row.late;
      }
    }
    mount({ scene: bare });
    await expect.poll(ops).toContain("stats");
    await new Promise((resolve) => setTimeout(resolve, 250));
    expect(ops()).not.toContain("lateness");
  });
});

test("the row of the rank that comes last is tinted, and a dotted line leads to its kernel", async () => {
  mount();
  const ground = color(mix(rgb(THEMES.light.late), rgb(THEMES.light.bg), 0.07));
  const line = color(rgb(THEMES.light.late));
  const { late } = await collective();
  const { start, dur } = eventOf(LATE);
  await expect.poll(() => seen(LATE, 2e5, ground)).toBe(true);
  expect(seen(1, 2e5, ground)).toBe(false);
  stage.setView([start - 2 * late, start + dur + 5e5]);
  const x = stage.xOf(start - late / 2);
  const dots = (y: number) => [0, 1, 2, 3, 4, 5, 6, 7].filter((dx) => pixel(x + dx, y) === line);
  const { top, height } = rowOf(LATE);
  const dotted = () => Array.from({ length: height }, (_, y) => dots(top + y).length);
  await expect.poll(dotted).toContain(4);
  expect(seen(1, start - late / 2, line)).toBe(false);
  const hit = stage.hitTest(x, rowOf(LATE).top + 34);
  expect(hit).toMatchObject({ slice: null, late: { dur: late, start: start - late } });
});

describe("the ribbon", () => {
  /** Return the y coordinates of the ribbon in a rank's row. */
  function ribbonOf(rank: number, time: number): number[] {
    const { top, height } = rowOf(rank);
    const x = stage.xOf(time) + 1;
    return Array.from({ length: height }, (_, y) => top + y).filter(
      (y) => stage.hitTest(x, y).arrival?.rank === rank,
    );
  }

  test.each(["light", "dark"] as const)(
    "the latest arrival has the last colour, one on time the lane's colour, %s",
    async (theme) => {
      mount({ theme });
      const calls = await Promise.all(Array.from({ length: 12 }, (_, call) => collective(call)));
      const lates = calls.map(({ late }) => late);
      const latest = lates.indexOf(Math.max(...lates));
      const { start } = eventOf(LATE, latest);
      await expect.poll(() => ribbonOf(LATE, start)).toHaveLength(5);
      const { waiting } = THEMES[theme];
      const at = (rank: number, time: number): string =>
        pixel(stage.xOf(time) + 0.5, ribbonOf(rank, time)[0]! + 2);
      await expect.poll(() => at(LATE, start)).toBe(color(rgb(waiting.at(-1)!)));
      // The first rank to arrive.
      const first = calls[latest]!.ranks.find(({ arrival }) => arrival === 0)!;
      expect(at(first.rank, eventOf(first.rank, latest).start)).toBe(color(rgb(waiting[0]!)));
    },
  );

  test("is requested with one bin per pixel, for visible ranks", async () => {
    mount();
    const asked = () => source.asked.filter(({ op }) => op === "ribbon").at(-1)?.request;
    await expect.poll(asked).toMatchObject({ bins: 1100 - 164 - 128, ranks: [0, 1, 2] });
  });

  test("of the job names the last rank and its cost", async () => {
    mount();
    const { ranks } = await collective(0);
    const { start } = eventOf(LATE, 0);
    const y = 35 + 1 + 20 + 2 * 16 + 8;
    await expect.poll(() => stage.hitTest(stage.xOf(start), y).arrival?.rank).toBe(LATE);
    const { arrival } = stage.hitTest(stage.xOf(start), y);
    expect(arrival).toMatchObject({ call: 1, of: 12, ofJob: true });
    const waits = ranks.reduce((sum, { wait }) => sum + wait, 0);
    expect(arrival!.ns).toBeCloseTo(waits / 2, -1);
    const steps = stage.hitTest(stage.xOf(2e7), y - 32);
    expect(steps.arrival).toBeUndefined();
    expect(steps.step?.name).toContain("Step");
  });

  test("works in saved pages", async () => {
    mount();
    await expect.poll(() => ribbonOf(LATE, eventOf(LATE).start)).toHaveLength(5);
    source.become("none");
    mount({ source });
    await expect.poll(() => ribbonOf(LATE, eventOf(LATE).start)).toHaveLength(5);
  });
});
