import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { KeyMotion, PRESS_STEPS, softShare, speedUp } from "./motion";

const frames: FrameRequestCallback[] = [];
beforeEach(() => {
  frames.length = 0;
  vi.stubGlobal("requestAnimationFrame", (call: FrameRequestCallback) => frames.push(call));
  vi.stubGlobal("cancelAnimationFrame", () => (frames.length = 0));
});
afterEach(() => {
  vi.unstubAllGlobals();
});

interface Run {
  motion: KeyMotion;
  sums: Record<string, number>;
  rests: number[];
  /** Play frames of `dt` ms until `to`, or until nothing moves. */
  play(to: number, dt?: number): void;
}

function started(calm = false): Run {
  const sums: Record<string, number> = { zoom: 0, pan: 0, rows: 0 };
  const rests: number[] = [];
  let now = 0;
  const motion = new KeyMotion(
    (axis, amount) => {
      sums[axis] = (sums[axis] ?? 0) + amount;
    },
    () => rests.push(now),
    () => calm,
  );
  const play = (to: number, dt = 16): void => {
    while (now < to && frames.length > 0) {
      now += dt;
      for (const frame of frames.splice(0)) frame(now);
    }
    now = Math.max(now, to);
  };
  return { motion, sums, rests, play };
}

const key = { axis: "zoom", direction: 1, fast: false } as const;

test("a tap moves one step smoothly and reports the end once", () => {
  const { motion, sums, rests, play } = started();
  motion.press("KeyW", key, 0);
  play(32);
  motion.release("KeyW");
  expect(sums.zoom).toBeGreaterThan(0);
  expect(sums.zoom).toBeLessThan(PRESS_STEPS.zoom);
  play(2000);
  expect(sums.zoom).toBeCloseTo(PRESS_STEPS.zoom);
  expect(rests).toHaveLength(1);
  expect(motion.active).toBe(false);
});

test("a held key keeps moving and accelerates, regardless of key repeat", () => {
  const { motion, sums, play } = started();
  motion.press("KeyD", { ...key, axis: "pan" }, 0);
  const moved: number[] = [];
  for (const to of [500, 1000, 1500]) {
    const before = sums.pan ?? 0;
    motion.press("KeyD", { ...key, axis: "pan" }, to);
    play(to);
    moved.push((sums.pan ?? 0) - before);
  }
  expect(moved[1]).toBeGreaterThan(moved[0]!);
  expect(moved[2]).toBeGreaterThan(moved[1]!);
});

test("the distance does not depend on the frame rate", () => {
  const ways = [8, 33].map((dt) => {
    const run = started();
    run.motion.press("KeyA", { axis: "pan", direction: -1, fast: false }, 0);
    run.play(990, dt);
    run.motion.release("KeyA");
    run.play(3000, dt);
    return run.sums.pan ?? 0;
  });
  expect(ways[0]).toBeLessThan(0);
  expect(Math.abs(ways[0]! / ways[1]! - 1)).toBeLessThan(0.06);
});

test("Shift moves further, opposite keys cancel out", () => {
  const fast = started();
  fast.motion.press("KeyW", { ...key, fast: true }, 0);
  fast.motion.release("KeyW");
  fast.play(1000);
  expect(fast.sums.zoom).toBeCloseTo(3 * PRESS_STEPS.zoom);

  const both = started();
  both.motion.press("KeyW", key, 0);
  both.motion.press("KeyS", { ...key, direction: -1 }, 0);
  both.play(800);
  expect(both.sums.zoom).toBeCloseTo(0);
});

test("without motion a tap jumps in one frame", () => {
  const { motion, sums, play } = started(true);
  motion.press("KeyW", key, 0);
  motion.release("KeyW");
  play(16);
  expect(sums.zoom).toBeCloseTo(PRESS_STEPS.zoom);
});

test("releasing all keys ends the movement", () => {
  const { motion, rests, play } = started();
  motion.press("KeyW", key, 0);
  motion.press("KeyD", { ...key, axis: "pan" }, 0);
  play(400);
  motion.releaseAll();
  play(1500);
  expect(rests).toHaveLength(1);
});

test("the speed starts at one and is limited, the smoothing is a share", () => {
  expect(speedUp(0)).toBe(1);
  expect(speedUp(1e6)).toBe(speedUp(1e5));
  expect(softShare(0)).toBe(0);
  expect(softShare(1000)).toBeCloseTo(1);
});
