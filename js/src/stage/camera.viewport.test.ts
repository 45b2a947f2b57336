import { describe, expect, test } from "vitest";
import type { Span } from "../protocol/source";
import { between, Camera, clampView, ease, jobSpan, MIN_SPAN_NS, zoomed } from "./camera";

const JOB: Span = [0, 1e9];
const width = ([start, end]: Span) => end - start;

describe("limits", () => {
  test("the view may exceed the job by a small margin on either side", () => {
    const [start, end] = clampView([-1e12, 1e12], JOB);
    expect(start).toBe(-2e7);
    expect(end).toBe(1.02e9);
  });

  test("a view is moved before it is shortened", () => {
    const view = clampView([0.9e9, 1.3e9], JOB);
    expect(width(view)).toBeCloseTo(0.4e9, 0);
    expect(view[1]).toBe(1.02e9);
  });

  test("no narrower than the narrowest, around its middle", () => {
    const view = clampView([5e8, 5e8 + 2], JOB);
    expect(width(view)).toBe(MIN_SPAN_NS);
    expect((view[0] + view[1]) / 2).toBe(5e8 + 1);
  });

  test("ends in the wrong order, and nonsense", () => {
    expect(clampView([2e8, 1e8], JOB)).toEqual([1e8, 2e8]);
    expect(clampView([Number.NaN, 1], JOB)).toEqual(JOB);
  });

  test("a job without length can be shown", () => {
    expect(width(jobSpan([7, 7]))).toBe(MIN_SPAN_NS);
  });
});

test("a zoom keeps the time under the pointer in place", () => {
  const view = zoomed([100, 300], 4, 150);
  expect(width(view)).toBe(50);
  expect((150 - view[0]) / width(view)).toBeCloseTo(0.25);
});

describe("on the way", () => {
  const from: Span = [0, 1e9];
  const to: Span = [4e8, 4.001e8];

  test("begins and ends exactly", () => {
    expect(between(from, to, 0)).toBe(from);
    expect(between(from, to, 1)).toBe(to);
  });

  test("spans shrink by equal factors", () => {
    const spans = [0, 0.25, 0.5, 0.75, 1].map((share) => width(between(from, to, share)));
    const factors = spans.slice(1).map((span, i) => span / spans[i]!);
    for (const factor of factors) expect(factor).toBeCloseTo(factors[0]!, 4);
  });

  test("one point keeps its position", () => {
    const fixed = (4e8 * 1e9) / (1e9 - 1e5);
    for (const share of [0.1, 0.5, 0.9]) {
      const view = between(from, to, share);
      expect((fixed - view[0]) / width(view)).toBeCloseTo(fixed / 1e9, 4);
    }
  });

  test("a pan is straight", () => {
    expect(between([0, 100], [1000, 1100], 0.5)).toEqual([500, 600]);
  });

  test("the curve rises from 0 to 1 and is fast first", () => {
    expect(ease(0)).toBe(0);
    expect(ease(1)).toBe(1);
    let last = 0;
    for (let i = 1; i <= 20; i += 1) {
      const value = ease(i / 20);
      expect(value).toBeGreaterThanOrEqual(last);
      last = value;
    }
    expect(ease(0.3)).toBeGreaterThan(0.6);
  });
});

describe("the camera", () => {
  test("jumps immediately if the duration is 0", () => {
    const camera = new Camera(JOB);
    expect(camera.go([1e8, 2e8], 0, 0)).toBe(true);
    expect(camera.view).toEqual([1e8, 2e8]);
    expect(camera.step(5)).toBe(false);
  });

  test("arrives exactly at the requested view", () => {
    const camera = new Camera(JOB);
    camera.go([1e8, 2e8], 120, 1000);
    expect(camera.view).toEqual(JOB);
    camera.step(1060);
    expect(camera.moving).toBe(true);
    expect(width(camera.view)).toBeLessThan(1e9);
    camera.step(1120);
    expect(camera.view).toEqual([1e8, 2e8]);
    expect(camera.moving).toBe(false);
  });

  test("steps of a zoom add up while it moves", () => {
    const camera = new Camera(JOB);
    for (let i = 0; i < 3; i += 1) camera.zoom(2, 5e8, 120, i * 10);
    expect(width(camera.target)).toBeCloseTo(1e9 / 8, 0);
  });
});
