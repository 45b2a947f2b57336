import { describe, expect, test } from "vitest";
import type { Span } from "../protocol/source";
import {
  interpolateSpans,
  Camera,
  clampView,
  easeProgress,
  jobSpan,
  MIN_SPAN_NS,
  zoomSpan,
} from "./camera";

const JOB: Span = [0, 1e9];
const width = ([start, end]: Span) => end - start;

describe("limits", () => {
  test.each<[string, Span, Span]>([
    ["may exceed the job by a small margin on either side", [-1e12, 1e12], [-2e7, 1.02e9]],
    ["is moved before it is shortened", [0.9e9, 1.3e9], [0.62e9, 1.02e9]],
    [
      "is no narrower than the narrowest, around its middle",
      [5e8, 5e8 + 2],
      [5e8 + 1 - MIN_SPAN_NS / 2, 5e8 + 1 + MIN_SPAN_NS / 2],
    ],
    ["may have its ends in the wrong order", [2e8, 1e8], [1e8, 2e8]],
    ["is the job's if it is nonsense", [Number.NaN, 1], JOB],
  ])("a view %s", (_, asked, view) => {
    expect(clampView(asked, JOB)).toEqual(view);
  });

  test("a job without length can be shown", () => {
    expect(width(jobSpan([7, 7]))).toBe(MIN_SPAN_NS);
  });
});

test("a zoom keeps the time under the pointer in place", () => {
  const view = zoomSpan([100, 300], 4, 150);
  expect(width(view)).toBe(50);
  expect((150 - view[0]) / width(view)).toBeCloseTo(0.25);
});

describe("during an animation", () => {
  const from: Span = [0, 1e9];
  const to: Span = [4e8, 4.001e8];

  test("begins and ends exactly, and a pan is linear", () => {
    expect(interpolateSpans(from, to, 0)).toBe(from);
    expect(interpolateSpans(from, to, 1)).toBe(to);
    expect(interpolateSpans([0, 100], [1000, 1100], 0.5)).toEqual([500, 600]);
  });

  test("lengths shrink by equal factors", () => {
    const spans = [0, 0.25, 0.5, 0.75, 1].map((share) => width(interpolateSpans(from, to, share)));
    const factors = spans.slice(1).map((span, i) => span / spans[i]!);
    for (const factor of factors) expect(factor).toBeCloseTo(factors[0]!, 4);
  });

  test("one point keeps its position", () => {
    const fixed = (4e8 * 1e9) / (1e9 - 1e5);
    for (const share of [0.1, 0.5, 0.9]) {
      const view = interpolateSpans(from, to, share);
      expect((fixed - view[0]) / width(view)).toBeCloseTo(fixed / 1e9, 4);
    }
  });

  test("the curve rises from 0 to 1, fast at first", () => {
    const curve = Array.from({ length: 21 }, (_, i) => easeProgress(i / 20));
    expect([curve[0], curve[20]]).toEqual([0, 1]);
    expect(curve).toEqual([...curve].sort((a, b) => a - b));
    expect(easeProgress(0.3)).toBeGreaterThan(0.6);
  });
});

describe("the camera", () => {
  test("jumps immediately if the duration is 0", () => {
    const camera = new Camera(JOB);
    expect(camera.animateTo([1e8, 2e8], 0, 0)).toBe(true);
    expect(camera.view).toEqual([1e8, 2e8]);
    expect(camera.step(5)).toBe(false);
  });

  test("ends exactly at the requested view", () => {
    const camera = new Camera(JOB);
    camera.animateTo([1e8, 2e8], 120, 1000);
    expect(camera.view).toEqual(JOB);
    camera.step(1060);
    expect(camera.isMoving).toBe(true);
    expect(width(camera.view)).toBeLessThan(1e9);
    camera.step(1120);
    expect(camera.view).toEqual([1e8, 2e8]);
    expect(camera.isMoving).toBe(false);
  });

  test("steps of a zoom add up during the animation", () => {
    const camera = new Camera(JOB);
    for (let i = 0; i < 3; i += 1) camera.zoom(2, 5e8, 120, i * 10);
    expect(width(camera.target)).toBeCloseTo(1e9 / 8, 0);
  });
});
