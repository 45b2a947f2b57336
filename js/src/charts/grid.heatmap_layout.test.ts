import { beforeAll, expect, test, vi } from "vitest";
import { THEMES } from "../ui/theme";
import { buildHeatmapContent, heatmapFrame, planHeatmap } from "./grid";

// Without a canvas, text widths are estimated.
beforeAll(() => {
  vi.spyOn(HTMLCanvasElement.prototype, "getContext").mockReturnValue(null);
});

test.each([8, 64, 1024])("of %i ranks no total is written across a bar", (count) => {
  const ranks = Array.from({ length: count }, (_, rank) => rank);
  // All ranks wait all the time for rank 5.
  const values = Float64Array.from(ranks.flatMap((rank) => [rank === 5 ? 1 : 1000, 1000]));
  const reply = { ranks, start: 0, end: 2000, bins: 2 };
  const content = buildHeatmapContent(heatmapFrame(reply, values, "waiting"));
  if (typeof content === "string") throw new Error(content);
  const plan = planHeatmap(content, 1200, THEMES.light);
  const [x, y, text] = (["x", "y", "text"] as const).map((name) =>
    plan.textLayer.texts.map((entry) => entry[name]),
  ) as [number[], number[], string[]];
  const from = plan.left + plan.plotWidth;
  const totals = text.flatMap((label, at) => (x[at]! > from && label !== "in view" ? [at] : []));
  const beside = plan.bars.filter(([left]) => left > from);
  expect(totals.length).toBeGreaterThan(7);
  for (const at of totals.filter((at) => y[at]! > plan.top)) {
    const near = beside.filter(([, top, , bottom]) => bottom > y[at]! - 5 && top < y[at]! + 5);
    expect(Math.max(...near.map(([, , right]) => right))).toBeLessThan(x[at]!);
  }
});
