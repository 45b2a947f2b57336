/** Frames are requested once, several together, and again after a failure. */

import { expect, test } from "vitest";
import { PairSource } from "../engine/pairs";
import type { Frame, Source } from "../protocol/source";
import { Frames } from "./frames";

const one: Frame = { rows: 1, columns: { name: ["a"] }, attrs: {} };
const two: Frame = { rows: 2, columns: { name: ["a", "b"] }, attrs: {} };

/** A source that replies with given frames and records the requests. */
class Held implements Source {
  readonly status = "live";
  readonly asked: string[] = [];

  constructor(
    private readonly several: Record<string, Frame> | null,
    private readonly single: Record<string, Frame>,
  ) {}

  async ask(op: string, request: Record<string, unknown>): Promise<never> {
    const names = op === "frames" ? (request.names as string[]) : [String(request.name)];
    this.asked.push(`${op} ${names.join(" ")}`);
    if (op === "frames") {
      if (this.several === null) throw new Error("no such question");
      return { reply: { frames: this.several }, buffer: null } as never;
    }
    const frame = this.single[names[0]!];
    if (frame === undefined) throw new Error(`no ${names[0]}`);
    return { reply: frame, buffer: null } as never;
  }
}

const framesOf = (source: Source): Frames => new Frames(source, new AbortController().signal);

test("several come in one answer, known frames are not requested again", async () => {
  const source = new Held({ steps: one, names: two }, { icicle: one });
  const frames = framesOf(source);
  await frames.get("icicle");
  frames.askFor(["steps", "icicle", "names"]);
  expect(await Promise.all([frames.get("steps"), frames.get("names")])).toEqual([one, two]);
  expect(source.asked).toEqual(["frame icicle", "frames steps names"]);
});

test("a frame that the answer lacks is requested by itself, and has the reason", async () => {
  const source = new Held({ steps: one }, { names: two });
  const frames = framesOf(source);
  frames.askFor(["steps", "names", "icicle"]);
  expect(await frames.get("names")).toEqual(two);
  await expect(frames.get("icicle")).rejects.toThrow("no icicle");
  expect(source.asked).toEqual(["frames steps names icicle", "frame names", "frame icicle"]);
  // The request is repeated, because the frame may be available by then.
  await expect(frames.get("icicle")).rejects.toThrow("no icicle");
  expect(source.asked).toHaveLength(4);
});

test("if several cannot be requested together, each is", async () => {
  const source = new Held(null, { steps: one });
  const frames = framesOf(source);
  frames.askFor(["steps"]);
  expect(await frames.get("steps")).toEqual(one);
});

test("a saved page gives several as well, as far as it holds them", async () => {
  const none = (): Promise<never> => Promise.reject(new Error("nothing more"));
  const source = new PairSource({ steps: one, names: two }, null, none, [null, null], none);
  const { reply } = await source.ask("frames", { names: ["steps", "changes", "names:3"] });
  expect(reply).toEqual({ frames: { steps: one } });
});
