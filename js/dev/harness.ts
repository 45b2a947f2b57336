/** The stage alone on a page, driven by the dev scripts through `globalThis.harness`. */

import type { FrameStats, Overlay, Scene, Source, Stage, ThemeName } from "../src/protocol/source";
import { defaultOpen } from "../src/stage/rows";
import { createStage } from "../src/stage/stage";
import { BridgeSource } from "./bridge_source";
import { fakeJob } from "./fake_job";
import { FakeSource } from "./fake_source";

const query = new URLSearchParams(location.search);
const number = (name: string, other: number) => Number(query.get(name) ?? other);

async function open(): Promise<{ scene: Scene; source: Source }> {
  const bridge = query.get("bridge");
  if (bridge !== null) {
    const source = new BridgeSource(bridge);
    return { scene: await source.scene(), source };
  }
  const job = fakeJob(number("ranks", 8), number("steps", 3), number("dense", 1));
  return { scene: job.scene, source: new FakeSource(job) };
}

interface Measured {
  work: number[];
  /** Work and what the browser then spends on drawing. */
  flushed: number[];
  intervals: number[];
  labels: number[];
  rects: number[];
  pending: number;
}

export interface Harness {
  stage: Stage;
  source: Source;
  frames: FrameStats[];
  settled(): Promise<void>;
  measure(moves: ([number, number] | number)[]): Promise<Measured>;
  overlay(overlay: Partial<Overlay>): void;
}

const { scene, source } = await open();
const theme = (query.get("theme") ?? "light") as ThemeName;
document.body.style.cssText = "margin:0;background:#888";
const box = document.createElement("div");
box.style.cssText = `width:${number("width", 1100)}px;height:${number("height", 445)}px`;
document.body.append(box);
const stage = createStage(scene, source, theme);
box.append(stage.el);
if (query.get("open") === "default") {
  const open = defaultOpen(scene, number("height", 445) - 90);
  stage.setRows({ open, pinned: [], filter: "" });
}

const frames: FrameStats[] = [];
stage.onFrame((stats) => frames.push(stats));

const nextFrame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve));
const rest = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function settled(): Promise<void> {
  // Until nothing new has been drawn for a while and no tile is missing.
  for (let quiet = 0; quiet < 4;) {
    const before = frames.length;
    await rest(80);
    const held = source instanceof FakeSource && source.held !== null;
    const whole = held || frames.at(-1)?.pending !== true;
    quiet = frames.length === before && whole ? quiet + 1 : 0;
  }
}

/** Show each view, or scroll by each number of pixels, one a frame, as a drag would. */
async function measure(moves: ([number, number] | number)[]): Promise<Measured> {
  const move = (by: [number, number] | number) => {
    if (typeof by === "number") stage.scrollBy(by);
    else stage.setView(by);
  };
  move(moves[0]!);
  await settled();
  const out: Measured = { work: [], flushed: [], intervals: [], labels: [], rects: [], pending: 0 };
  const canvas = stage.el.querySelector("canvas")!;
  const ctx = canvas.getContext("2d")!;
  let last = await nextFrame();
  for (const by of moves) {
    frames.length = 0;
    move(by);
    const now = await nextFrame();
    // The stage's own frame ran before this one; reading a pixel makes the browser draw it.
    const began = performance.now();
    ctx.getImageData(0, 0, 1, 1);
    const raster = performance.now() - began;
    const stats = frames.at(-1);
    if (stats !== undefined) {
      out.work.push(stats.work_ms);
      out.flushed.push(stats.work_ms + raster);
      out.labels.push(stats.labels);
      out.rects.push(stats.rects);
      if (stats.pending) out.pending += 1;
    }
    out.intervals.push(now - last);
    last = now;
  }
  return out;
}

const harness: Harness = {
  stage,
  source,
  frames,
  settled,
  measure,
  overlay: (overlay) => stage.setOverlay(overlay),
};
Object.assign(globalThis, { harness });
document.body.dataset.ready = "1";
