import { describe, expect, test } from "vitest";
import { placeTooltip } from "../ui/tooltip";
import {
  draggedSpan,
  edgeAt,
  nearestEdge,
  pinchedSpan,
  wheelAction,
  type WheelTurn,
} from "./motion";

const turn = (more: Partial<WheelTurn>): WheelTurn => ({
  deltaX: 0,
  deltaY: 0,
  deltaMode: 0,
  ctrlKey: false,
  metaKey: false,
  shiftKey: false,
  ...more,
});

describe("the wheel", () => {
  test("with Ctrl it zooms; away from the user zooms in", () => {
    const near = wheelAction(turn({ deltaY: 100, ctrlKey: true }));
    const far = wheelAction(turn({ deltaY: -100, metaKey: true }));
    if (near.type !== "zoom" || far.type !== "zoom") throw new Error("no zoom");
    expect(far.factor).toBeGreaterThan(1);
    expect(far.factor * near.factor).toBeCloseTo(1);
  });

  test("one fast turn keeps the place in view", () => {
    const far = wheelAction(turn({ deltaY: -100_000, ctrlKey: true }));
    if (far.type !== "zoom") throw new Error("no zoom");
    expect(far.factor).toBeLessThan(2.1);
  });

  test("with Shift it pans, whichever axis the browser reports", () => {
    expect(wheelAction(turn({ deltaY: 40, shiftKey: true }))).toEqual({ type: "pan", pixels: 40 });
    expect(wheelAction(turn({ deltaX: 40, shiftKey: true }))).toEqual({ type: "pan", pixels: 40 });
  });

  test("sideways it pans; a plain turn scrolls rows or the page", () => {
    expect(wheelAction(turn({ deltaX: 30, deltaY: 5 }))).toEqual({ type: "pan", pixels: 30 });
    expect(wheelAction(turn({ deltaY: 3, deltaMode: 1 }))).toEqual({ type: "rows", pixels: 48 });
  });
});

test("a drag keeps the time under the pointer", () => {
  const view = [1000, 2000] as const;
  const after = draggedSpan(view, 250, 500);
  expect(after).toEqual([500, 1500]);
  // The time at x=100 moves to x=350.
  const at = (span: readonly [number, number], x: number): number =>
    span[0] + (x / 500) * (span[1] - span[0]);
  expect(at(after, 350)).toBeCloseTo(at(view, 100));
});

test("a pinch keeps the times under both fingers, also when they cross over", () => {
  const view = [0, 1000] as const;
  for (const to of [
    [100, 900],
    [900, 100],
  ] as const) {
    const after = pinchedSpan(view, 1000, [400, 600], to);
    const at = (x: number): number => after[0] + (x / 1000) * (after[1] - after[0]);
    expect(at(100)).toBeCloseTo(400);
    expect(at(900)).toBeCloseTo(600);
  }
});

test("the nearest event edge within reach wins", () => {
  const slices = [
    { start: 100, dur: 50 },
    { start: 160, dur: 10 },
  ];
  expect(nearestEdge(153, slices, 10)).toBe(150);
  expect(nearestEdge(156, slices, 10)).toBe(160);
  expect(nearestEdge(130, slices, 10)).toBeNull();
  expect(nearestEdge(130, [], 10)).toBeNull();
});

test("an edge can be grabbed nearby, and a narrow window at its nearer side", () => {
  expect(edgeAt(103, 100, 200)).toBe("start");
  expect(edgeAt(197, 100, 200)).toBe("end");
  expect(edgeAt(150, 100, 200)).toBeNull();
  expect(edgeAt(99, 100, 101)).toBe("start");
  expect(edgeAt(102, 100, 101)).toBe("end");
});

describe("the tooltip", () => {
  test("flips above the pointer over a panel below, and stays below one above", () => {
    const size = { width: 100, height: 40 };
    const mark = { top: 90, bottom: 110 };
    const place = (frame: { height: number; top?: number }) =>
      placeTooltip({ x: 50, y: 100 }, size, { width: 400, ...frame }, mark).top;
    expect(place({ height: 140 })).toBe(90 - 4 - 40);
    expect(place({ height: 140, top: 80 })).toBe(110 + 4);
  });

  const tip = { width: 100, height: 40 };
  const frame = { width: 400, height: 300 };

  test("is 12 px right of and below the pointer", () => {
    expect(placeTooltip({ x: 50, y: 50 }, tip, frame, null)).toEqual({ left: 62, top: 62 });
  });

  test("flips at the right and at the bottom", () => {
    expect(placeTooltip({ x: 390, y: 290 }, tip, frame, null)).toEqual({ left: 278, top: 238 });
  });

  test("never covers the mark", () => {
    const mark = { top: 100, bottom: 140 };
    for (let y = 100; y <= 140; y += 5) {
      const { top } = placeTooltip({ x: 50, y }, tip, frame, mark);
      expect(top >= mark.bottom || top + tip.height <= mark.top).toBe(true);
    }
    const low = { top: 255, bottom: 290 };
    expect(placeTooltip({ x: 50, y: 270 }, tip, frame, low).top + tip.height).toBeLessThanOrEqual(
      255,
    );
  });
});
