/** Ribbons of late arrivals as drawn: the job's row, the rows of ranks, and hits on them. */

import { afterEach, expect, test } from "vitest";
import { fakeJob } from "../../dev/fake_job";
import { FakeSource, Packer } from "../../dev/fake_source";
import { addWaits } from "../../dev/fake_waits";
import type { Stage, ThemeName } from "../protocol/source";
import { THEMES } from "../ui/theme";
import { rgb } from "./paints";
import { createStage } from "./stage";

/** The rank that comes last. */
const SLOW = 2;
let stage: Stage;
let box: HTMLElement;
let asked: { bins: number; ranks: number[] }[];

function mount(theme: ThemeName = "light", height = 500) {
  const job = fakeJob(4, 2, 0.1, SLOW);
  const source = new FakeSource(job);
  const calls = addWaits(job, source);
  asked = [];
  const ask = source.ask.bind(source);
  source.ask = async (op, request, signal) => {
    if (op !== "ribbon") return ask(op, request, signal);
    const { start, end, bins, ranks } = request as Record<"start" | "end" | "bins", number> & {
      ranks: number[];
    };
    asked.push({ bins, ranks });
    const bin = (time: number) => Math.floor(((time - start) * bins) / (end - start));
    const marks = ranks.flatMap((rank) =>
      calls
        .map((call, at) => ({ ...call[rank]!, call: at + 1 }))
        .filter(({ event }) => event.start >= start && event.start < end),
    );
    const last = calls
      .map((call, at) => ({ call: at + 1, ...call[SLOW]! }))
      .filter(({ event }) => event.start >= start && event.start < end);
    const pack = new Packer();
    const u32 = (name: string, of: number[]) => pack.add(name, "u32", Uint32Array.from(of));
    const f64 = (name: string, of: number[]) => pack.add(name, "f64", Float64Array.from(of));
    pack.add(
      "rank",
      "i32",
      Int32Array.from(marks, (mark) => mark.rank),
    );
    u32(
      "bin",
      marks.map(({ event }) => bin(event.start)),
    );
    f64(
      "late",
      marks.map(({ late }) => late),
    );
    for (const name of ["call", "id"])
      u32(
        name,
        marks.map(({ call }) => call),
      );
    u32(
      "name",
      marks.map(() => 0),
    );
    u32(
      "job_bin",
      last.map(({ event }) => bin(event.start)),
    );
    f64(
      "job_time",
      last.map(({ event }) => event.start),
    );
    f64(
      "job_wait",
      last.map(({ imposed }) => imposed / 3),
    );
    pack.add(
      "job_rank",
      "i32",
      Int32Array.from(last, () => SLOW),
    );
    for (const name of ["job_call", "job_id"])
      u32(
        name,
        last.map(({ call }) => call),
      );
    u32(
      "job_name",
      last.map(() => 0),
    );
    const most = Math.max(...calls.map((call) => call[SLOW]!.late));
    const jobMost = Math.max(...calls.map((call) => call[SLOW]!.imposed / 3));
    return pack.pack({ names: ["AllReduce"], of: calls.length, most, job_most: jobMost });
  };
  box = document.createElement("div");
  box.style.cssText = `position:fixed;left:0;top:0;width:1100px;height:${height}px`;
  document.body.append(box);
  stage = createStage(job.scene, source, theme);
  box.append(stage.el);
  return { job, source, calls };
}

afterEach(() => {
  stage.destroy();
  box.remove();
});

function pixel(x: number, y: number): string {
  const canvas = stage.el.querySelectorAll("canvas")[0]!;
  const scale = canvas.width / stage.el.clientWidth;
  const context = canvas.getContext("2d")!;
  const { data } = context.getImageData(Math.floor(x * scale), Math.floor(y * scale), 1, 1);
  return [...data.slice(0, 3)].join();
}
const colour = (hex: string): string => Object.values(rgb(hex)).join();
const rowOf = (rank: number) => stage.rows().find((row) => row.rank === rank)!;

/** Heights of a rank's row that contain its ribbon. */
function ribbonOf(rank: number, time: number): number[] {
  const { top, height } = rowOf(rank);
  const x = stage.xOf(time) + 1;
  return Array.from({ length: height }, (_, y) => top + y).filter(
    (y) => stage.hit(x, y).arrival?.rank === rank,
  );
}

for (const theme of ["light", "dark"] as const) {
  test(`the latest arrival has the end of the ramp, one on time the lane's colour, ${theme}`, async () => {
    const { calls } = mount(theme);
    const at = calls.findIndex((call) => {
      const most = Math.max(...calls.map((one) => one[SLOW]!.late));
      return call[SLOW]!.late === most;
    });
    const { event } = calls[at]![SLOW]!;
    await expect.poll(() => ribbonOf(SLOW, event.start)).toHaveLength(5);
    const [y] = ribbonOf(SLOW, event.start);
    const { waiting: waitRamp } = THEMES[theme];
    await expect
      .poll(() => pixel(stage.xOf(event.start) + 0.5, y! + 2))
      .toBe(colour(waitRamp.at(-1)!));
    const other = calls[at]![0]!.event;
    const [own] = ribbonOf(0, other.start);
    expect(pixel(stage.xOf(other.start) + 0.5, own! + 2)).toBe(colour(waitRamp[0]!));
  });
}

test("it is requested with one bin per pixel, for ranks in sight", async () => {
  mount();
  await expect.poll(() => asked.at(-1)).toEqual({ bins: 1100 - 164 - 128, ranks: [0, 1, 2, 3] });
});

test("the job's row names the last rank and its cost", async () => {
  const { calls } = mount();
  const { event } = calls[0]![SLOW]!;
  const y = 35 + 1 + 20 + 2 * 16 + 8;
  await expect.poll(() => stage.hit(stage.xOf(event.start), y).arrival?.rank).toBe(SLOW);
  const { arrival } = stage.hit(stage.xOf(event.start), y);
  expect(arrival).toMatchObject({ name: "AllReduce", call: 1, of: calls.length, ofJob: true });
  expect(arrival!.ns).toBeCloseTo(calls[0]![SLOW]!.imposed / 3);
  const steps = stage.hit(stage.xOf(event.start), y - 32);
  expect(steps.arrival).toBeUndefined();
  expect(steps.step?.name).toContain("Step");
});

test("a saved page has them too", async () => {
  const { source } = mount();
  const { top } = rowOf(0);
  stage.destroy();
  source.become("none");
  stage = createStage(stage.scene, source);
  box.replaceChildren(stage.el);
  await expect.poll(() => rowOf(0)?.top).toBe(top);
});
