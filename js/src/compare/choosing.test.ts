/** Undo and redo of a click that chooses: the marked events, and the sums below. */

import { expect, test, vi } from "vitest";
import { frame, slots, strip } from "../../test/two_runs";
import type { Frame } from "../protocol/source";
import { Charts, type ChartsWays } from "./charts";
import type { About, Frames } from "./frames";

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
  const all: Record<string, Frame> = { slots, names, steps };
  const held = (name: string): Frame => all[name.split(":")[0]!] ?? sums;
  const about = {
    labels: ["a", "b"],
    rank_pairs: [[0, 0]],
    kind_words: {},
    has_events: true,
    has_device: true,
    steps: 2,
  } as unknown as About;
  const ways = {
    frames: { get: (name: string) => Promise.resolve(held(name)) } as unknown as Frames,
    about,
    swapped: () => false,
    showStep: (_row: unknown, turn: () => void) => turns.push(turn),
    markNames: (_names: unknown, turn: () => void) => turns.push(turn),
    say: () => undefined,
    fail: (error: unknown) => {
      throw error;
    },
  } as unknown as ChartsWays;
  const charts = new Charts(ways);
  charts.strip.width.value = 900;
  charts.strip.show(strip);
  charts.names.show(names);
  const pressed = (part: "strip" | "names"): string[] =>
    [...charts[part].el.querySelectorAll("[aria-pressed=true]")].map(
      (one) => one.getAttribute("aria-label") ?? one.textContent ?? "",
    );
  return { charts, turns, pressed };
}

test("a step and a name go back to what was chosen before them, and forth again", async () => {
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
