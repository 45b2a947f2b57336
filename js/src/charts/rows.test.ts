import { expect, test } from "vitest";
import type { ChartSelection, PanelFrame } from "../protocol/source";
import { THEMES } from "../ui/theme";
import type { RowsContent } from "./content";
import { buildRowsContent } from "./defined";
import { DEFINITIONS } from "./definition";
import type { DrawContext } from "./paint";
import { RowsDrawing } from "./rows";

const NOTHING: ChartSelection = { ranks: null, names: null, kinds: null, window: null };

/** Count the outlines in a chart with one outlined bar per rank and one in the legend. */
function outlineCount(rows: number): number {
  const ranks = Array.from({ length: rows }, (_, rank) => rank);
  const sameForAll = (value: number): number[] => ranks.map(() => value);
  const columns = {
    rank: ranks,
    communication_ns: sameForAll(8000),
    overlapped_ns: sameForAll(4000),
    overlap_share: sameForAll(0.5),
  };
  const frame: PanelFrame = { rows, columns, attrs: {} };
  const content = buildRowsContent(DEFINITIONS.overlap!, frame, THEMES.light) as RowsContent;
  const drawing = new RowsDrawing(content, "ranks", THEMES.light);
  drawing.layout(400);
  let count = 0;
  const pen = new Proxy({}, { get: (_, name) => () => (count += Number(name === "strokeRect")) });
  drawing.paint(pen as DrawContext, NOTHING);
  return count;
}

test("bars without space between rows have no outlines, which would hide them", () => {
  expect(outlineCount(3)).toBe(1 + 3);
  expect(outlineCount(200)).toBe(1);
});
