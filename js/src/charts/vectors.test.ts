/** Charts on the page equal Python's charts of the same frames: see chart_vectors.py. */

import { describe, expect, test } from "vitest";
import vectors from "../../../tests/vectors/charts.json";
import { expectClose } from "../../test/near";
import type { PanelFrame } from "../protocol/source";
import { unmatchedText } from "../ui/text";
import { THEMES } from "../ui/theme";
import { fillTable } from "./chart";
import { buildRowsContent } from "./defined";
import { DEFINITIONS } from "./definition";
import { buildHeatmapContent } from "./grid";

interface Expected extends Record<"title" | "subtitle", string> {
  names: string[];
  x_start: number;
  x_end: number;
  ticks: [number, string][];
  columns: { head: string; texts: string[] }[];
  data: Record<string, (number | string | null)[]>;
  share: number[][];
  mean: number[];
  totals: string[];
}

interface Case {
  name: string;
  panel: string;
  frame: PanelFrame;
  content: Expected;
}

const CASES = (vectors as unknown as { cases: Case[] }).cases;
const contentOf = <Content>(actual: Content | string): Content => {
  if (typeof actual === "string") throw new Error(actual);
  return actual;
};

describe("rows", () => {
  test.each(CASES.filter(({ panel }) => panel in DEFINITIONS))(
    "$name",
    ({ panel, frame, content }) => {
      const actual = contentOf(buildRowsContent(DEFINITIONS[panel]!, frame, THEMES.light));
      const { title, subtitle, names } = content;
      expect(actual).toMatchObject({ title, subtitle, names });
      expectClose([actual.xStart, actual.xEnd], [content.x_start, content.x_end], "scale");
      expectClose(
        actual.ticks.map(([at]) => at),
        content.ticks.map(([at]) => at),
        "ticks",
      );
      expect(actual.ticks.map(([, text]) => text)).toEqual(content.ticks.map(([, text]) => text));
      for (const column of content.columns) {
        const drawnColumn = actual.columns.find(({ head }) => head === column.head);
        if (drawnColumn !== undefined) expect(drawnColumn.texts, column.head).toEqual(column.texts);
      }
      for (const [name, values] of Object.entries(content.data)) {
        expectClose(actual.data[name]!, values, name);
      }
    },
  );
});

describe("heatmap", () => {
  test.each(CASES.filter(({ panel }) => panel === "heatmap"))("$name", ({ frame, content }) => {
    const actual = contentOf(buildHeatmapContent(frame));
    const { title, subtitle, names } = content;
    expect(actual).toMatchObject({ title, subtitle, names });
    expectClose([actual.start, actual.end], [content.x_start, content.x_end], "scale");
    expectClose(actual.share, content.share.flat(), "share");
    expectClose(actual.mean, content.mean, "mean");
    expect(actual.total.map((total) => total > 0)).toEqual(content.totals.map(() => true));
  });
});

test("every panel has vectors", () => {
  expect(new Set(CASES.map(({ panel }) => panel))).toEqual(
    new Set([
      ...Object.keys(DEFINITIONS).filter((id) => !/^(byteps|flight|mpi|snapshot)_/.test(id)),
      "heatmap",
    ]),
  );
});

test("the row of a rank in the facts is in ink, and no row is red", () => {
  const { frame } = CASES.find(({ name }) => name === "breakdown of 5")!;
  const attrs = { ...frame.attrs, late_ranks: [], fact_ranks: [3] };
  const actual = contentOf(
    buildRowsContent(DEFINITIONS.breakdown!, { ...frame, attrs }, THEMES.light),
  );
  expect([actual.lateRows, actual.factRows]).toEqual([new Set(), new Set([3])]);
});

test("kinds that the whole job lacks are not repeated below a chart's title", () => {
  const { frame } = CASES.find(({ name }) => name === "breakdown without waits")!;
  expect(unmatchedText(frame)).toContain("no communication ·");
  const attrs = { ...frame.attrs, absent_kinds: ["communication"] };
  expect(unmatchedText({ ...frame, attrs })).not.toContain("no communication");
});

test("tables have the words that charts have, and no constants", () => {
  const el = document.createElement("div");
  const columns = {
    kernel_type: ["COMPUTATION overlapping COMMUNICATION"],
    idle_category: ["host_data_loading"],
  };
  fillTable(el, { rows: 1, columns, attrs: {} });
  const cells = [...el.querySelectorAll("td")].map((cell) => cell.textContent);
  expect(cells).toEqual(["compute + communication", "host: data loading"]);
});
