/** Undo and redo of a selecting click: the marked events and the sums below. */

import { expect, test, vi } from "vitest";
import { contextOf, frame, FrameSource, slots, strip } from "../../test/two_runs";
import type { PanelFrame } from "../protocol/source";
import { DiffCharts } from "./charts";
import type { TimelineLink } from "./link";
import { Headline } from "./pane";
import { Waterfall } from "./waterfall";

const sums = frame(
  { kind: ["compute"], before_ns: [100], after_ns: [120], diff_ns: [20] },
  { before_ns: 100, after_ns: 120 },
);
const names = frame({
  name: ["gemm", "copy"],
  kind: ["compute", "memory"],
  before_count: [1, 1],
  after_count: [1, 1],
  before_ns: [60, 40],
  after_ns: [90, 30],
  diff_ns: [30, -10],
  change: ["slower", "faster"],
  replaced_by: ["", ""],
});

function shown() {
  const turns: (() => void)[] = [];
  const steps = frame({ before_ns: [100, 200], after_ns: [150, 120], diff_ns: [50, -80] });
  const all: Record<string, PanelFrame> = { slots, names, steps };
  const ctx = contextOf({}, new FrameSource((name) => all[name.split(":")[0]!] ?? sums));
  const link = {
    showStep: (_row: unknown, turn: () => void) => turns.push(turn),
    markNames: (_names: unknown, turn: () => void) => turns.push(turn),
  };
  const charts = new DiffCharts(ctx, new Headline(ctx), link as unknown as TimelineLink);
  charts.strip.width.value = 900;
  charts.strip.show(strip);
  charts.names.show(names);
  const pressed = (part: "strip" | "names"): string[] =>
    [...charts[part].el.querySelectorAll("[aria-pressed=true]")].map(
      (button) => button.getAttribute("aria-label") ?? button.textContent ?? "",
    );
  return { charts, turns, pressed };
}

test("undo and redo of a chosen step and name", async () => {
  const { charts, turns, pressed } = shown();
  const title = (): string => charts.waterfall.el.querySelector("h3")?.textContent ?? "";
  const slot = () => charts.strip.el.querySelectorAll(".hta-diff-slot")[1]!;
  await vi.waitFor(() => expect(slot()).toBeDefined());
  slot().dispatchEvent(new MouseEvent("click"));
  await vi.waitFor(() => expect(turns).toHaveLength(1));
  await vi.waitFor(() => expect(title()).toContain("in Step #8"));
  charts.names.el.querySelector<HTMLElement>("[data-name=copy]")!.click();
  expect(turns).toHaveLength(2);
  await vi.waitFor(() => expect(pressed("names")).toEqual(["copy"]));

  turns[1]!();
  await vi.waitFor(() => expect(pressed("names")).toEqual([]));
  await vi.waitFor(() => expect(pressed("strip")).toHaveLength(1));
  turns[0]!();
  await vi.waitFor(() => expect(pressed("strip")).toEqual([]));
  await vi.waitFor(() => expect(title()).not.toContain("in Step"));

  turns[0]!();
  await vi.waitFor(() => expect(pressed("strip")[0]).toContain("#8"));
  await vi.waitFor(() => expect(title()).toContain("in Step #8"));
  turns[1]!();
  await vi.waitFor(() => expect(pressed("names")).toEqual(["copy"]));
});

test("a late reply does not replace parts that were requested later", async () => {
  const replies = new Map<string, (parts: PanelFrame) => void>();
  const ask = (level: string): Promise<PanelFrame> =>
    new Promise((resolve) => replies.set(level, resolve));
  const partsNamed = (name: string): PanelFrame =>
    frame({ kind: ["compute"], name: [name], before_ns: [100], after_ns: [120], diff_ns: [20] });
  const waterfall = new Waterfall(contextOf(), ask);
  const { el } = waterfall;
  waterfall.show({ kinds: sums, what: "", spread: "" });
  const byKernel = () =>
    [...el.querySelectorAll("button")].find(({ textContent }) => textContent === "by kernel");
  await vi.waitFor(() => expect(byKernel()).toBeDefined());
  byKernel()!.click();
  replies.get("kernel")!(partsNamed("gemm"));
  await vi.waitFor(() => expect(el.textContent).toContain("gemm"));
  replies.get("operator")!(partsNamed("aten::mm"));
  await new Promise((resolve) => setTimeout(resolve));
  expect(el.textContent).toContain("gemm");
});
