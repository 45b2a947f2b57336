import { expect, test } from "vitest";
import type { ChartSelection, PanelFrame } from "../protocol/source";
import { THEMES } from "../ui/theme";
import { buildRowsContent } from "./defined";
import { DEFINITIONS } from "./definition";
import { RooflineDrawing } from "./scatter";

const FRAME = {
  rows: 3,
  columns: {
    name: ["aten::mm", "aten::add", "aten::copy_"],
    short: ["mm", "add", "copy"],
    shapes: ["64×64", "64", "8"],
    precision: ["bf16", "fp32", ""],
    bound: ["compute", "memory", "memory"],
    count: [1, 1, 1],
    device_ns: [9000, 1000, 10],
    roofline_ns: [3000, 800, 5],
    saving_ns: [4000, 0, 0],
    intensity: [100, 0.1, 0],
    tflop_per_s: [100, 0.1, 0],
    gb_per_s: [1000, 1000, 10],
    roofline_share: [0.3, 0.8, 0.5],
    certainty: ["exact", "exact", "exact"],
  },
  attrs: { roofs: [["bf16", 312, 2039]] },
} as unknown as PanelFrame;
const NOTHING: ChartSelection = { ranks: null, names: null, kinds: null, window: null };

test("marks of the roofline select operators by a click, a rectangle and keys", () => {
  const content = buildRowsContent(DEFINITIONS.roofline!, FRAME, THEMES.light);
  const drawing = new RooflineDrawing(content as never, FRAME, THEMES.light);
  const height = drawing.layout(600);
  const middleOf = (row: number) => {
    const { left, top, width } = drawing.targetOf(row)!.box;
    return { x: left + width / 2, y: top + width / 2 };
  };
  const [mm, add] = [middleOf(0), middleOf(1)];
  // Three decades in both directions; y grows downward.
  expect(mm.x - add.x).toBeCloseTo((3 * (600 - 56)) / 5);
  expect(add.y - mm.y).toBeCloseTo((3 * 260) / 5);
  expect(drawing.click(mm.x, mm.y, false, NOTHING)).toEqual({ names: ["aten::mm"] });
  expect(drawing.click(mm.x, mm.y, false, { ...NOTHING, names: ["aten::mm"] })).toEqual({
    names: null,
  });
  const corner = { x: 600, y: height };
  expect(drawing.drag([{ x: 0, y: add.y - 1 }, corner], false, NOTHING)).toEqual({
    names: ["aten::add"],
  });
  expect(drawing.nextTarget(0, "ArrowDown")).toBe(1);
  expect(drawing.targetOf(2)).toBeNull(); // no FLOPs
});
