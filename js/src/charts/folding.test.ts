/** Similar ranks share a row: hand-computed cases, shared with Python's tests. */

import { describe, expect, test } from "vitest";
import vectors from "../../../tests/vectors/folding.json";
import { expectClose } from "../../test/near";
import type { PanelFrame } from "../protocol/source";
import { THEMES } from "../ui/theme";
import type { RowsContent } from "./content";
import { buildRowsContent } from "./defined";
import { DEFINITIONS } from "./definition";
import { ranksLabel } from "./folding";
import { buildHeatmapContent, HeatmapDrawing } from "./grid";
import { RowsDrawing } from "./rows";

interface Case {
  name: string;
  panel: string;
  frame: PanelFrame;
  names: string[];
  keys: (number | string)[][];
  data: Record<string, (number | null)[]>;
  columns: Record<string, string[]>;
  headings?: string[];
  tips?: [string, string][][];
  said: string;
}

const CASES = vectors.cases as unknown as Case[];
const CHOSEN_NONE = { ranks: null, names: null, kinds: null, window: null };

function contentOf(panel: string, frame: PanelFrame): RowsContent {
  const content = buildRowsContent(DEFINITIONS[panel]!, frame, THEMES.light);
  if (typeof content === "string") throw new Error(content);
  return content;
}

test.each(CASES)("$name", ({ panel, frame, names, keys, data, columns, headings, tips, said }) => {
  const content = contentOf(panel, frame);
  expect(content.names).toEqual(names);
  expect(content.keys).toEqual(keys);
  for (const [name, values] of Object.entries(data)) expectClose(content.data[name]!, values);
  for (const [head, texts] of Object.entries(columns)) {
    expect(
      content.columns
        .concat({ head: "total", texts: content.endTexts?.map((end) => end.text) ?? [] })
        .find((column) => column.head === head)?.texts,
    ).toEqual(texts);
  }
  headings?.forEach((text, row) => expect(content.tooltip(row).heading).toBe(text));
  tips?.forEach((lines, row) => {
    const tooltipLines = content.tooltip(row).lines;
    expect(tooltipLines.slice(tooltipLines.length - lines.length)).toEqual(lines);
    if (lines.length === 0) expect(tooltipLines.map(([what]) => what)).not.toContain("mean of");
  });
  expect(content.subtitle).toContain(`similar ranks share a row: mean, line: ${said}`);
});

describe("texts and scales that cover all ranks do not depend on folding", () => {
  test.each(CASES)("in $panel", ({ panel, frame }) => {
    const unfolded = contentOf(panel, { ...frame, attrs: { ...frame.attrs, folded: [] } });
    const folded = contentOf(panel, frame);
    expect(folded.finding).toBe(unfolded.finding);
    expect(folded.ticks).toEqual(unfolded.ticks);
    expect([folded.xStart, folded.xEnd]).toEqual([unfolded.xStart, unfolded.xEnd]);
    expect(folded.subtitle.startsWith(unfolded.subtitle)).toBe(true);
  });
});

test("rounding errors of means are no part of a bar", () => {
  const exposed = [100, 100, 100];
  const copies = [1, 2, 2];
  const rest = copies.map((time) => 1000 - 100 - time);
  const columns = {
    rank: [0, 1, 2],
    span_ns: [1000, 1000, 1000],
    idle_ns: [0, 0, 0],
    compute_ns: rest,
    non_compute_ns: rest.map((time) => 1000 - time),
    exposed_communication_ns: exposed,
    exposed_memory_ns: copies,
  };
  const content = contentOf("breakdown", { rows: 3, columns, attrs: { folded: [[0, 1, 2]] } });
  expect(content.legend?.map(([, text]) => text)).toEqual(["compute", "communication", "copies"]);
});

test("a click on a row of several ranks selects all of them, and a second one none", () => {
  const drawing = new RowsDrawing(contentOf("breakdown", CASES[0]!.frame), "ranks", THEMES.light);
  drawing.layout(600);
  expect(drawing.press(1, false, CHOSEN_NONE)).toEqual({ ranks: [0, 1, 3] });
  expect(drawing.press(1, false, { ...CHOSEN_NONE, ranks: [3, 1, 0] })).toEqual({ ranks: null });
});

test("a table has a line for each row of the chart", () => {
  const { rows, columns } = contentOf("breakdown", CASES[0]!.frame).table!;
  expect(rows).toBe(2);
  expect(columns.ranks).toEqual(["rank 2", "3 ranks: 0, 1, 3"]);
  expectClose(columns.compute_ns as number[], [900, 800]);
});

test("the heatmap folds rows, and its strip is the mean of all ranks", () => {
  const { frame, names, share, mean, total, ranks } = vectors.heatmap;
  const content = buildHeatmapContent(frame);
  if (typeof content === "string") throw new Error(content);
  expect([content.names, content.ranks]).toEqual([names, ranks]);
  expectClose(content.share, share);
  expectClose(content.mean, mean);
  expectClose(content.total, total);
  const drawing = new HeatmapDrawing(content, THEMES.light);
  drawing.layout(600);
  expect(drawing.press(2, false, CHOSEN_NONE)).toEqual({ ranks: [0, 1], window: [0, 10] });
  expect(drawing.targetOf(2)!.tooltip.lines).toContainEqual([
    "share, min to max",
    "50\u202f% – 100\u202f%",
  ]);
});

test("long lists of ranks are cut in names", () => {
  expect(ranksLabel([7])).toBe("rank 7");
  expect(ranksLabel([0, 1, 2, 3, 4, 6, 7, 9, 12])).toBe("9 ranks: 0–4, 6, 7 …");
});
