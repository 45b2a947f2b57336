import { afterEach, expect, test, vi } from "vitest";
import { type FakeJob, fakeJob } from "../../dev/fake_job";
import { FakeSource } from "../../dev/fake_source";
import { addWaits } from "../../dev/fake_waits";
import type { Stage } from "../protocol/source";
import { THEMES } from "../ui/theme";
import { mix, rgb } from "./paints";
import { createStage } from "./stage";

const SLOW = 2;
let stage: Stage;
let box: HTMLElement;

function mount(change: (job: FakeJob, source: FakeSource) => void = () => {}) {
  const job = fakeJob(4, 2, 0.1, SLOW);
  const source = new FakeSource(job);
  const calls = addWaits(job, source);
  change(job, source);
  box = document.createElement("div");
  box.style.cssText = "position:fixed;left:0;top:0;width:1100px;height:445px";
  document.body.append(box);
  stage = createStage(job.scene, source);
  box.append(stage.el);
  const comm = (rank: number) => job.scene.ranks[rank]!.summary[1]!;
  return { job, source, calls, comm };
}

afterEach(() => {
  stage.destroy();
  box.remove();
});

function pixel(x: number, y: number): number[] {
  const canvas = stage.el.querySelectorAll("canvas")[0]!;
  const scale = canvas.width / stage.el.clientWidth;
  const context = canvas.getContext("2d")!;
  return [...context.getImageData(Math.floor(x * scale), Math.floor(y * scale), 1, 1).data];
}

const colour = ({ r, g, b }: { r: number; g: number; b: number }) => [r, g, b, 255];
const rowOf = (rank: number) => stage.rows().find((row) => row.rank === rank)!;

/** Whether one of the pixels of a row at this time has a colour. */
function seen(rank: number, time: number, wanted: number[]): boolean {
  const { top, height } = rowOf(rank);
  const x = stage.xOf(time);
  for (let y = top; y < top + height; y += 1) {
    for (let dx = 0; dx < 6; dx += 1) {
      if (pixel(x + dx, y).join() === wanted.join()) return true;
    }
  }
  return false;
}

test("waits are requested after the events, and drawn over them", async () => {
  const { source, calls, comm } = mount();
  const [rank, call] = [0, 3];
  const { event, wait } = calls[call]![rank]!;
  const lanes = () =>
    source.asked
      .filter(({ op }) => op === "tiles")
      .map(({ request }) => (request.parts as { lanes: number[] }[]).flatMap((one) => one.lanes));
  await vi.waitFor(() => expect(lanes().flat()).toContain(comm(rank).wait));
  expect(lanes()[0]).not.toContain(comm(rank).wait);
  const ops = source.asked.map(({ op }) => op);
  expect(ops.indexOf("lateness")).toBeGreaterThan(ops.indexOf("stats"));
  stage.setView([event.start - 5e6, event.start + event.dur + 5e6]);
  const hatch = colour(rgb(THEMES.light.waitFill));
  await vi.waitFor(() => expect(seen(rank, event.start + wait / 2, hatch)).toBe(true));
  expect(seen(rank, event.start + wait + 5e5, hatch)).toBe(false);
});

test("the row of the rank that comes last is tinted, and its late time outlined", async () => {
  const { calls } = mount();
  const ground = colour(mix(rgb(THEMES.light.late), rgb(THEMES.light.bg), 0.07));
  const { event, late } = calls[3]![SLOW]!;
  expect(late).toBeGreaterThan(1e6);
  stage.setView([event.start - 2 * late, event.start + event.dur + 5e6]);
  // Before statistics of at least four collectives are known, no rank is late.
  expect(seen(SLOW, event.start - 1.5 * late, ground)).toBe(false);
  stage.setView([0, 2.6e8]);
  await vi.waitFor(() => expect(seen(SLOW, 2e6, ground)).toBe(true));
  expect(seen(1, 2e6, ground)).toBe(false);
  const line = colour(rgb(THEMES.light.late));
  stage.setView([event.start - 2 * late, event.start + event.dur + 5e6]);
  await vi.waitFor(() => expect(seen(SLOW, event.start - late / 2, line)).toBe(true));
  expect(seen(1, event.start - late / 2, line)).toBe(false);
});

test("a hit on a collective returns its waiting part", async () => {
  const { source, calls, comm } = mount((job, own) => {
    // On rank 1 another collective transfers for 2 ms of every wait.
    const lane = job.lanes.find((one) => one.lane === job.scene.ranks[1]!.summary[1]!.wait)!;
    const cut = lane.events.flatMap((event) => [
      { ...event, dur: 4e6 },
      { ...event, start: event.start + 6e6, dur: event.dur - 6e6 },
    ]);
    own.adopt({ ...lane, events: cut });
  });
  await vi.waitFor(() => expect(source.asked.some(({ op }) => op === "lateness")).toBe(true));
  const hit = (rank: number, call: number) => {
    const { event } = calls[call]![rank]!;
    const { top } = rowOf(rank);
    return stage.hit(stage.xOf(event.start + 0.7 * event.dur), top + 34);
  };
  const { event, wait } = calls[4]![0]!;
  await vi.waitFor(() => expect(hit(0, 4).slice?.wait).toBe(wait));
  expect(hit(0, 4).lane).toBe(comm(0).lane);
  expect(hit(0, 4).slice).toMatchObject({ start: event.start, dur: event.dur });
  expect(hit(1, 4).slice?.wait).toBe(calls[4]![1]!.wait - 2e6);
  expect(hit(SLOW, 4).slice?.wait).toBeUndefined();
});

test("a job without such lanes gets no request for lateness", async () => {
  const job = fakeJob(1, 1, 0.05);
  const source = new FakeSource(job);
  box = document.createElement("div");
  box.style.cssText = "position:fixed;left:0;top:0;width:900px;height:300px";
  document.body.append(box);
  stage = createStage(job.scene, source);
  box.append(stage.el);
  await vi.waitFor(() => expect(source.asked.some(({ op }) => op === "stats")).toBe(true));
  await new Promise((resolve) => setTimeout(resolve, 250));
  expect(source.asked.some(({ op }) => op === "lateness")).toBe(false);
});
