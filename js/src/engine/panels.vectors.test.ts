import { describe, expect, test } from "vitest";
import vectors from "../../../tests/vectors/panels.json";
import type { PanelFrame, SelectionJson } from "../protocol/source";
import type { PageDocument } from "./document";
import { PageSource } from "./source";

interface Asked {
  selection: Partial<SelectionJson>;
  panels: Record<string, PanelFrame>;
  heatmap: { metric: string; start: number; end: number; reply: object; values: number[] };
}

interface JobCase {
  name: string;
  document: PageDocument;
  blocks: Record<string, string>;
  asked: Asked[];
}

const { bins, top, cases } = vectors as unknown as { bins: number; top: number; cases: JobCase[] };

/** Compare floats to within the rounding of sums, and all other values exactly. */
function agree(found: unknown, wanted: unknown, where: string): void {
  if (typeof wanted === "number" && !Number.isInteger(wanted)) {
    expect(Math.abs((found as number) / wanted - 1), where).toBeLessThan(1e-9);
  } else if (typeof wanted === "object" && wanted !== null) {
    expect(Object.keys(found as object).sort(), where).toEqual(Object.keys(wanted).sort());
    for (const [key, value] of Object.entries(wanted)) {
      agree((found as Record<string, unknown>)[key], value, `${where} ${key}`);
    }
  } else {
    expect(found, where).toBe(wanted);
  }
}

describe.each(cases)("panels of $name as Python computes them", ({ document, blocks, asked }) => {
  const source = new PageSource(document, { text: (name) => blocks[name] ?? null }, () => null);

  test.each(asked)("$selection", async ({ selection: given, panels, heatmap }) => {
    const selection = given as SelectionJson;
    const { reply } = await source.ask("panels", { panels: Object.keys(panels), selection, top });
    agree(reply.panels, panels, "panels");
    const { metric, start, end } = heatmap;
    const map = await source.ask("heatmap", { metric, start, end, bins, selection });
    agree(map.reply, heatmap.reply, "heatmap");
    expect([...new Float64Array(map.buffer!)]).toEqual(heatmap.values);
  });
});
