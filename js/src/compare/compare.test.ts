/** Two runs side by side: positions, sums, and malicious names. */

import { h, render } from "preact";
import { describe, expect, test, vi } from "vitest";
import { plain } from "../../test/plain";
import { contextOf, frame, slots, strip as runs } from "../../test/two_runs";
import { PairSource } from "../engine/pairs";
import type { PanelFrame } from "../protocol/source";
import { alignedSegments, makeAlignment, partnerView, toCommon, toOwnTime } from "./align";
import { countsText, deltaColor, namesBesideSides, shortLabels, swapSides } from "./frames";
import { THEMES } from "../ui/theme";
import { pairText } from "./partner";
import { placeTiles } from "./operator_tree";
import { Findings, headlineParts, noFindingTexts } from "./pane";
import { bandPoints, stripLanes, medianSlot, placeSlots, Strip, withLengths } from "./steps";
import { NamesTable } from "./tables";
import { partBars, waterfallBars } from "./waterfall";

const segmentFrame = frame({
  side: ["before", "before", "after", "after"],
  own_start_ns: [100, 200, 1000, 1150],
  own_end_ns: [200, 400, 1150, 1270],
  common_start_ns: [100, 250, 100, 250],
  common_end_ns: [200, 450, 250, 370],
});

describe("slots", () => {
  test("are as wide as the longer step, on one scale, with a gap between", () => {
    const [first, second] = placeSlots(slots, [0, 1], 355);
    // 350 ns and a gap of 5 px: one pixel per nanosecond.
    expect(first).toMatchObject({
      label: "Step #7",
      x: 0,
      width: 150,
      lengthsPx: [100, 150],
      diff: 50,
    });
    expect(second).toMatchObject({ x: 155, width: 200, lengthsPx: [200, 120], share: -0.4 });
  });

  test("have the lengths of the table of steps: means over ranks, which start and end apart", () => {
    const steps = frame({ before_ns: [90, 200], after_ns: [120, 130], diff_ns: [30, -70] });
    const [slot] = placeSlots(withLengths(slots, steps), [0, 1], 325);
    expect(slot).toMatchObject({ width: 120, lengthsPx: [90, 120], diff: 30 });
    expect(withLengths(slots, frame({ before_ns: [90] }))).toBe(slots);
  });

  test("lanes are of the kinds that occur, with the names of the format", () => {
    const lanes = stripLanes(frame({ lane: [1, 1] }), { communication: "MPI" });
    expect(lanes).toMatchObject([{ name: "MPI", kind: "communication", index: 1, height: 58 }]);
    expect(stripLanes(frame({ lane: [] }), {}).map(({ name }) => name)).toHaveLength(3);
  });

  test("bands lie between the end before and the end after", () => {
    const [first, second] = placeSlots(slots, [0, 1], 355);
    expect(bandPoints(first!, 70).join(" ")).toBe("100,0 150,0 150,70 150,70");
    expect(bandPoints(second!, 70)[3]).toEqual([120, 70]);
  });

  test("a single segment fills the width; absent segments are not drawn", () => {
    expect(placeSlots(slots, [1, 9], 300)).toMatchObject([{ slot: 1, x: 0, width: 300 }]);
    expect(placeSlots(frame({ slot: [] }), [], 300)).toEqual([]);
    expect(medianSlot(slots)).toBe(0);
  });
});

describe("the mapping between the runs", () => {
  const segments = alignedSegments(segmentFrame);
  const line = makeAlignment("steps", segmentFrame, [[0, 500], [900, 1300]]); // prettier-ignore

  test("is invertible, and stops at a gap", () => {
    expect(toCommon(segments[0], 150)).toBe(150);
    expect(toCommon(segments[0], 210)).toBe(260);
    expect(toOwnTime(segments[0], 260)).toBe(210);
    expect(toOwnTime(segments[0], 240)).toBe(200);
    expect(toOwnTime(segments[1], 240)).toBe(1140);
  });

  test("a window within a step keeps its length and moves with its step", () => {
    expect(partnerView(line, 0, [110, 150])).toEqual([1010, 1050]);
    expect(partnerView(line, 0, [210, 250])).toEqual([1160, 1200]);
    expect(partnerView(line, 1, [1160, 1200])).toEqual([210, 250]);
  });

  test("with aligned runs, both are equally wide per ms and begin with the first step", () => {
    // Steps begin at 100 on the left and at 1000 on the right, with equal time in front of them.
    expect(line.wholes).toEqual([[0, 500], [900, 1400]]); // prettier-ignore
    expect(partnerView(line, 0, [0, 500])).toEqual([900, 1400]);
    const longer = makeAlignment("steps", segmentFrame, [[80, 500], [900, 1600]]); // prettier-ignore
    expect(longer.wholes).toEqual([[0, 700], [900, 1600]]); // prettier-ignore
  });

  test("absolute times stay; scaled runs have the same width", () => {
    const same = frame({
      side: ["before", "after"],
      own_start_ns: [100, 1000],
      own_end_ns: [400, 1270],
      common_start_ns: [100, 1000],
      common_end_ns: [400, 1270],
    });
    const absolute = makeAlignment("absolute", same, [[0, 479], [0, 770]]); // prettier-ignore
    expect(absolute.wholes).toEqual([[0, 770], [0, 770]]); // prettier-ignore
    expect(partnerView(absolute, 0, [5, 9])).toEqual([5, 9]);
    expect(partnerView(absolute, 1, [0, 770])).toEqual([0, 770]);
    const scaled = makeAlignment("scaled", segmentFrame, [[0, 500], [900, 1300]]); // prettier-ignore
    expect(scaled.wholes).toEqual([[0, 500], [900, 1300]]); // prettier-ignore
  });

  test("both events of a selected pair start at the same position", () => {
    expect(partnerView(line, 0, [110, 150], [120, 1100])).toEqual([1090, 1130]);
    expect(partnerView(line, 1, [1090, 1130], [120, 1100])).toEqual([110, 150]);
  });
});

describe("the waterfall", () => {
  const kinds = frame(
    { kind: ["compute", "idle"], before_ns: [60, 40], after_ns: [90, 30], diff_ns: [30, -10] },
    { before_ns: 100, after_ns: 120 },
  );

  test("leads from before to after without a gap", () => {
    expect(waterfallBars(kinds)).toMatchObject([{ from: 100, to: 130 }, { from: 130, to: 120 }]); // prettier-ignore
  });

  test("the parts of a kind add up to it, including hidden parts", () => {
    const many = Array.from({ length: 12 }, (_, at) => at);
    const parts = frame({
      kind: [...many.map(() => "compute"), "idle"],
      name: [...many.map((at) => `op${at}`), ""],
      before_ns: [...many.map(() => 5), 40],
      after_ns: [...many.map((at) => (at < 6 ? 10 : 5)), 30],
      diff_ns: [...many.map((at) => (at < 6 ? 5 : 0)), -10],
    });
    const [compute] = waterfallBars(kinds);
    const bars = partBars(parts, compute!);
    expect(bars).toHaveLength(7);
    expect(bars.at(-1)).toMatchObject({ label: "6 more", to: compute!.to });
  });

  test.each([
    [
      [328_000, -1, 1, 0],
      ["a", "3 more"],
    ],
    [
      [328_000, -328, 1, 0],
      ["a", "b", "2 more"],
    ],
    [
      [328_000, -1],
      ["a", "b"],
    ],
    [
      [0, 0, 0],
      ["a", "b", "c"],
    ],
  ])("parts too small to be seen are summed: %j", (diffs, labels) => {
    const [bar] = waterfallBars(frame({ kind: ["compute"], before_ns: [1], diff_ns: [1] }));
    const parts = frame({
      kind: diffs.map(() => "compute"),
      name: diffs.map((_, index) => "abcd"[index]!),
      before_ns: diffs.map(() => 1_000_000),
      after_ns: diffs.map((diff) => 1_000_000 + diff),
      diff_ns: diffs,
    });
    expect(partBars(parts, bar!).map(({ label }) => label)).toEqual(labels);
  });
});

test("a swap turns before into after and slower into faster; a second one restores them", () => {
  const other = swapSides(slots);
  expect(other.columns.before_start_ns).toEqual([1000, 1150]);
  expect(other.columns.delta_ns).toEqual([-50, 80]);
  expect(swapSides(other)).toEqual(slots);
  const names = frame({ change: ["added", "slower", "same"], diff_ns: [1, 2, 0] });
  expect(swapSides(names).columns).toEqual({
    change: ["removed", "faster", "same"],
    diff_ns: [-1, -2, 0],
  });
});

test("the tree: children within their parent, largest first, without those that are too small", () => {
  const tree = frame({
    node: [0, 1, 2, 5],
    parent: [-1, 0, 0, -1],
    before_ns: [100, 60, 40, 0],
    after_ns: [100, 60, 40, 100],
  });
  expect(
    placeTiles(tree, -1, 200).map((tile) => `${tile.node}: ${tile.x} ${tile.width} ${tile.depth}`),
  ).toEqual(["0: 0 100 0", "1: 0 60 1", "2: 60 40 1", "5: 100 100 0"]);
  expect(placeTiles(tree, 1, 200)).toMatchObject([{ node: 1, x: 0, width: 200, depth: 0 }]);
  expect(placeTiles(tree, -1, 6).map(({ node }) => node)).toEqual([0, 5]);
});

test("texts and colours of differences", () => {
  const counts = [[18, 4645], [0, 218], [6, 0], [3, 3]] as const; // prettier-ignore
  const texts = counts.map(([before, after]) => plain(countsText(before, after)));
  expect(texts).toEqual(["18 → 4 645", "new 218", "gone 6", "3"]);
  const { delta } = THEMES.light;
  const colors = [0.019, Infinity, -0.5].map((share) => deltaColor(share, "light"));
  expect(colors).toEqual([delta[3], delta[6], delta[1]]);
});

test.each([
  ["After takes 2 ms longer: 1 ms → 3 ms, +200 %.", "+200 %", "."],
  ["2 ms → 3 ms, +50 % (mean over ranks).", "+50 %", " (mean over ranks)."],
  [
    "1 ms → 2 ms, +50 % (mean over ranks): rank 5 is late, x.",
    "+50 %",
    " (mean over ranks): rank 5 is late, x.",
  ],
  ["aten::contiguous is new: 1 a step.", "", ""],
])("%s has its change set apart", (text, ...parts) => {
  expect(headlineParts(text.replace(" %", "\u202f%")).slice(1).map(plain)).toEqual(parts);
});

test.each([
  ["trace_diff__control trace_diff__test", "control test"],
  ["a b", "a b"],
  ["same same", "same same"],
  ["run-h100_bert-small-uncased run-mi300_bert-small-uncased", "h100… mi300…"],
  [
    "run_a_bert-small-uncased run_b_bert-small-uncased",
    "a_bert-small-uncased b_bert-small-uncased",
  ],
  ["old_v2 new_v2", "old_v2 new_v2"],
])("labels %s are %s for short", (labels, short) => {
  expect(shortLabels(labels.split(" ") as [string, string])).toEqual(short.split(" "));
});

test.each([
  ["before after", ["", ""]],
  ["after before", ["after", "before"]],
  ["before tuned", ["", "tuned"]],
  ["old_v2 new_v2", ["old_v2", "new_v2"]],
])("labels %s are %s next to the words before and after", (labels, names) => {
  expect(namesBesideSides(labels.split(" ") as [string, string])).toEqual(names);
});

test("a pair has both durations; an event without a partner has the reason", () => {
  const about = { rank: 0, table: "events", id: 1, lane: 2, name: "k", short: "k" } as const;
  const event = (dur: number) => ({ ...about, kind: "compute", start: 0, dur }) as const;
  const { name, words, delta } = pairText({
    events: [event(100), event(150)],
    status: "changed",
  });
  expect([name, ...[words, delta].map(plain)]).toEqual(["k", "100 ns → 150 ns", "+50 ns +50 %"]);
  expect(pairText({ events: [null, event(5)], status: "added" }).words).toContain(
    "after only: added",
  );
});

describe("names", () => {
  const hostile = `<img src=x onerror="globalThis.harmed = true">`;
  const names = frame({
    name: ["b", hostile, "a".repeat(500)],
    kind: ["compute", "memory", "other"],
    before_count: [1, 0, 2],
    after_count: [1, 3, 0],
    before_ns: [10, 0, 7],
    after_ns: [12, 30, 0],
    diff_ns: [2, 30, -7],
    change: ["changed", "added", "removed"],
    replaced_by: ["", "", ""],
    members: [["b"], [hostile], ["a".repeat(500)]],
  } as unknown as PanelFrame["columns"]);

  function shown(chosen: string | null = null) {
    const told: (string[] | null)[] = [];
    const el = document.createElement("div");
    document.body.append(el);
    const choose = (_: string | null, members: string[] | null): unknown => told.push(members);
    render(
      h(NamesTable, { frame: names, theme: "light", device: "NPU", maxRows: 10, chosen, choose }),
      el,
    );
    const rows = (): HTMLElement[] => [...el.querySelectorAll<HTMLElement>(".hta-name-row")];
    const order = (): (string | undefined)[] => rows().map((row) => row.dataset.name?.slice(0, 4));
    return { el, told, rows, order };
  }

  test("largest difference first, whichever its sign; filtered and sorted, with the focus kept", async () => {
    const { el, order } = shown();
    expect(el.querySelector(".hta-about")?.textContent).toContain("sum of NPU time");
    expect(order()).toEqual(["<img", "aaaa", "b"]);
    const filter = el.querySelector("input")!;
    filter.value = "ONERROR";
    filter.dispatchEvent(new Event("input"));
    await vi.waitFor(() => expect(order()).toEqual(["<img"]));
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
    const head = el.querySelector<HTMLElement>(".hta-sort")!;
    head.focus();
    head.click();
    await vi.waitFor(() => expect(order()).toEqual(["<img", "aaaa", "b"]));
    head.click();
    await vi.waitFor(() => expect(order()).toEqual(["b", "aaaa", "<img"]));
    expect(document.activeElement).toBe(head);
    el.remove();
  });

  test.each([
    [419, ["name", "change"]],
    [420, ["name", "before", "after", "change", "count"]],
  ])("leave room for themselves in a table of %d px", async (px, titles) => {
    const width = vi.spyOn(Element.prototype, "clientWidth", "get").mockReturnValue(px);
    const { el } = shown();
    const heads = (): string[] =>
      [...el.querySelectorAll("[role=columnheader]")].map(({ textContent }) =>
        textContent.replace(/[^a-z]/g, ""),
      );
    await vi.waitFor(() => expect(heads()).toEqual(titles));
    el.remove();
    width.mockRestore();
  });

  test("are text, never markup; a click shows the full names, another one hides them", async () => {
    const width = vi.spyOn(Element.prototype, "clientWidth", "get").mockReturnValue(600);
    const { el, told, rows } = shown();
    expect(el.querySelector("img")).toBeNull();
    expect(el.textContent).toContain(hostile);
    await vi.waitFor(() => expect(rows()[0]!.textContent).toContain("new 3"));
    rows()[0]!.click();
    const again = shown(hostile);
    again.rows()[0]!.click();
    expect([...told, ...again.told]).toEqual([[hostile], null]);
    for (const table of [el, again.el]) table.remove();
    width.mockRestore();
  });
});

describe("a saved page that holds some of many steps", () => {
  test("unpacks the frames of a step once, with the full names behind the short ones", async () => {
    // As decoded from JSON.
    const members: unknown = [["gemm<1>", "gemm<2>"], ["copy"]];
    const columns = { name: ["gemm", "copy"], members } as PanelFrame["columns"];
    const namesFrame = frame(columns);
    const read: string[] = [];
    const source = new PairSource(
      { names: namesFrame },
      null,
      () => Promise.resolve(new Uint8Array()),
      [null, null],
      (block) => {
        read.push(block);
        const names = frame({ name: ["gemm", "new"], diff_ns: [5, 3] });
        return Promise.resolve({ "names:13": names, "waterfall:kind:13": frame({}) });
      },
    );
    const { reply } = await source.ask("frame", { name: "names:13" });
    expect(reply.columns.members).toEqual([["gemm<1>", "gemm<2>"], ["new"]]);
    await source.ask("frame", { name: "waterfall:kind:13" });
    await source.ask("frame", { name: "names" });
    expect(read).toEqual(["step-13"]);
    await expect(source.ask("frame", { name: "waterfall:cause:13" })).rejects.toThrow("not hold");
  });

  test("names them and disables the others", async () => {
    const chosen: (number | null)[] = [];
    const ctx = contextOf({ held_steps: [1], held_words: "1 of 2." });
    const strip = new Strip(ctx, (slot) => chosen.push(slot));
    strip.width.value = 900;
    strip.show(runs);
    await vi.waitFor(() => expect(strip.el.textContent).toContain("1 of 2."));
    const [none, held] = strip.el.querySelectorAll(".hta-diff-slot");
    expect(none!.getAttribute("aria-disabled")).toBe("true");
    expect(none!.getAttribute("aria-label")).toContain("not in this page");
    expect(held!.hasAttribute("aria-disabled")).toBe(false);
    for (const slotEl of [none!, held!]) slotEl.dispatchEvent(new MouseEvent("click"));
    none!.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    expect(chosen).toEqual([1]);
  });
});

test.each([
  [
    [90, 100],
    [100, 90],
    ["faster", "slower"],
  ],
  [[90, 100], [100, 130], ["slower"]],
  [[90, 100], [80, 90], ["faster"]],
  // Too many steps to draw: each has a cell, and only one is drawn.
  [Array(13).fill(100), [90, ...Array(12).fill(130)], ["faster", "slower"]],
])("the legend of steps has the directions from %j to %j: %j", async (before, after, expected) => {
  const strip = new Strip(contextOf({}), () => {});
  strip.width.value = 900;
  const columns = { slot: before.map((_, slot) => slot), before_ns: before, after_ns: after };
  strip.show({ ...runs, slots: frame(columns), isChange: true });
  const words = (): string[] =>
    Array.from(strip.el.querySelectorAll(".hta-diff-legend span"), (key) => key.textContent);
  await vi.waitFor(() => expect(words()).not.toEqual([]));
  expect(words().filter((word) => word === "faster" || word === "slower")).toEqual(expected);
});

test("without findings, the total comes first, even if it may be chance", () => {
  const [total, verdict] = noFindingTexts([1_000_000, 1_200_000]);
  expect(total).toMatch(/^After takes 200\sµs longer a step: .* → .*20\s%; that may be chance\.$/u);
  expect(verdict).toBe("Nothing changed beyond the noise.");
  expect(noFindingTexts([1000, 1005])[0]).toMatch(/^After takes 5\sns longer .*0\.5\s%\.$/u);
  expect(noFindingTexts([1000, 1000], false)[0]).toMatch(
    /^After takes the same time: 1\.00\sµs\.$/u,
  );
  expect(noFindingTexts([0, 0])[0]).toMatch(/^Nothing to compare/u);
});

test.each([
  [true, "hta-diff-slower"],
  [false, ""],
])("the share of a total that changed beyond the noise: %s has the class %j", (isChange, cls) => {
  const el = document.createElement("div");
  const text = ["After takes 220\u202fµs longer a step: 29.9\u202fms → 30.1\u202fms, +0.7\u202f%."];
  const shown = { frame: frame({ kind: ["total"], text }), totals: null, ranksText: "", isChange };
  render(h(Findings, { ...shown, conditions: "", isPerStep: true }), el);
  expect(el.querySelector("em")!.className).toBe(cls);
});

test("differences between the machines are the second line", () => {
  const told = (rows: [string, string][]): PanelFrame =>
    frame({ kind: rows.map(([kind]) => kind), text: rows.map(([, text]) => text) });
  const lines = (frame: PanelFrame, totals: [number, number] | null = null): unknown[] => {
    const look = {
      frame,
      totals,
      ranksText: "",
      isChange: true,
      conditions: "GPUs: A → B.",
      isPerStep: true,
    };
    const el = document.createElement("div");
    render(h(Findings, look), el);
    return Array.from(el.children, (child) => child.textContent);
  };
  const rows: [string, string][] = [
    ["headline", "After takes longer."],
    ["caution", "GPUs: B → A."],
    ["kinds", "Compute grows."],
    ["caution", "Other clocks."],
  ];
  expect(lines(told(rows))).toEqual(["After takes longer.", "GPUs: B → A.", "Compute grows."]);
  expect(lines(told([]), [1000, 1000])).toEqual([
    "After takes the same time: 1.00\u202fµs a step.",
    "GPUs: A → B.",
    "Nothing changed beyond the noise.",
  ]);
});
