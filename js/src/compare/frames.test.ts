/** Frames are requested once, several together, and again after a failure. */

import { expect, test } from "vitest";
import { FrameSource, frame } from "../../test/two_runs";
import { PairSource } from "../engine/pairs";
import type { PanelFrame } from "../protocol/source";
import { FrameCache } from "./frames";

const oneRow = frame({ name: ["a"] });
const twoRows = frame({ name: ["a", "b"] });

function shown(several: Record<string, PanelFrame> | null, single: Record<string, PanelFrame>) {
  const source = new FrameSource((name) => single[name], several);
  return { source, frames: new FrameCache(source, new AbortController().signal) };
}

test("one answer has several frames, known frames are not requested again", async () => {
  const { source, frames } = shown({ steps: oneRow, names: twoRows }, { icicle: oneRow });
  await frames.get("icicle");
  frames.fetchFrames(["steps", "icicle", "names"]);
  expect(await Promise.all([frames.get("steps"), frames.get("names")])).toEqual([oneRow, twoRows]);
  expect(source.asked).toEqual(["frame icicle", "frames steps names"]);
});

test("a frame that the answer lacks is requested by itself, and has the reason", async () => {
  const { source, frames } = shown({ steps: oneRow }, { names: twoRows });
  frames.fetchFrames(["steps", "names", "icicle"]);
  expect(await frames.get("names")).toEqual(twoRows);
  await expect(frames.get("icicle")).rejects.toThrow("no icicle");
  expect(source.asked).toEqual(["frames steps names icicle", "frame names", "frame icicle"]);
  // A second request may succeed, because the frame may have become available.
  await expect(frames.get("icicle")).rejects.toThrow("no icicle");
  expect(source.asked).toHaveLength(4);
});

test("if several cannot be requested together, each is", async () => {
  const { frames } = shown(null, { steps: oneRow });
  frames.fetchFrames(["steps"]);
  expect(await frames.get("steps")).toEqual(oneRow);
});

test("a saved page returns several as well, if it has them", async () => {
  const none = (): Promise<never> => Promise.reject(new Error("nothing more"));
  const source = new PairSource({ steps: oneRow, names: twoRows }, null, none, [null, null], none);
  const { reply } = await source.ask("frames", { names: ["steps", "changes", "names:3"] });
  expect(reply).toEqual({ frames: { steps: oneRow } });
});
