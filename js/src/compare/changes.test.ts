/** What became of each event: classes, legend, list of changes, one history for two timelines. */

import { type ComponentChild, h, render } from "preact";
import { describe, expect, test, vi } from "vitest";
import { plain } from "../../test/plain";
import { frame } from "../../test/two_runs";
import { type History, INITIAL_STATE } from "../connection/store";
import { PairSource } from "../engine/pairs";
import {
  CLASSES,
  classStyle,
  classOfChange,
  classSharesOf,
  countEventsInGroup,
  classCountsOf,
  eventClassPalette,
  GROUPS,
} from "../facts/event_classes";
import { pack, classSharesAt, rgb } from "../stage/paints";
import { THEMES } from "../ui/theme";
import { spreadText } from "./charts";
import { perStep, swapSides } from "./frames";
import { PairHistory } from "./history";
import {
  cellText,
  callsText,
  chanceText,
  ChangesTable,
  measuresOf,
  PlainTable,
  replacedText,
  tableTitle,
  titleOf,
} from "./tables";

import { ColorLegend } from "./legend";

function drawn(node: ComponentChild): HTMLElement {
  const el = document.createElement("div");
  render(node, el);
  return el;
}

/** Events of each class on both sides: 5 slightly slower, 2 much faster, 1 unpaired, 90 equal. */
const counts = [
  [90, 5, 0, 0, 0, 0, 2, 0, 0, 0, 7],
  [90, 5, 0, 0, 0, 0, 2, 1, 0, 0, 7],
];

describe("classes of events", () => {
  test("swap with the comparison, and nothing else is swapped", () => {
    const look = (name: (typeof CLASSES)[number], isSwapped: boolean) =>
      eventClassPalette(isSwapped).styles("light")[CLASSES.indexOf(name)];
    expect(look("slower_3", true)).toEqual(classStyle("faster_3", "light"));
    expect(look("faster_1", true)).toEqual(look("slower_1", false));
    for (const name of ["same", "only_here", "moved", "replaced", "not_compared"] as const) {
      expect(look(name, true)).toEqual(look(name, false));
    }
  });

  // The same cases as in `tests/unit/widgets/test_diff_classes.py`.
  test.each([
    ["slower", 100, 120, "slower_1"],
    ["slower", 99, 132, "slower_2"],
    ["slower", 100, 200, "slower_3"],
    ["faster", 132, 99, "faster_2"],
    ["faster", 100, 0, "faster_3"],
    ["added", 0, 50, "only_here"],
    ["removed", 50, 0, "only_here"],
    ["moved", 10, 30, "moved"],
    ["replaced", 10, 30, "replaced"],
  ])("a row that is %s, %d to %d ns, is of the class %s, as its events are", (...row) => {
    const [change, before, after, name] = row;
    expect(classOfChange(change, before, after)).toBe(name);
  });

  test("are counted over both sides, and swapping makes slower ones faster", () => {
    const of = (swapped: boolean, ...names: string[]) =>
      names.map((name) =>
        countEventsInGroup(
          GROUPS.find((group) => group.name === name)!,
          counts,
          swapped,
        ),
      );
    expect(of(false, "slower", "faster", "only here", "same")).toEqual([10, 4, 1, 180]);
    expect(of(true, "slower", "faster")).toEqual([4, 10]);
  });

  test("belong to the chosen pair of ranks, in a saved page too", async () => {
    const half = counts.map((side) => side.map((count) => Math.floor(count / 2)));
    const header = { columns: {}, statuses: [], counts, pair_counts: [half, counts] };
    const none = () => Promise.reject(new Error("not requested"));
    const source = new PairSource({}, header, none, [null, null], none);
    const { reply } = await source.ask("classes", {});
    expect(reply).toEqual({ counts, pair_counts: [half, counts] });
    expect(classCountsOf(header, 0)).toEqual(half);
    expect([classCountsOf(header, null), classCountsOf(header, undefined)]).toEqual([
      counts,
      counts,
    ]);
  });

  test("have their shares of the busy time, in the order of the legend", () => {
    const overview = frame(
      { before_0: [0, 30, 100], before_3: [0, 10, 0], after_0: [1, 1, 1] },
      { before_start_ns: 100, before_end_ns: 400 },
    );
    const parts = classSharesOf(overview, 0)!;
    expect(parts.shares.map(([code]) => CLASSES[code])).toEqual(["slower_3", "same"]);
    expect(classSharesOf(overview, 1)).toBeNull();
    const looks = eventClassPalette(false).styles("light");
    const at = classSharesAt(parts, looks, THEMES.light);
    const [slower, same] = [pack(rgb("#80074f")), pack(rgb("#b9c1cc"))];
    expect(at(250)).toEqual([[slower, 0.25], [same, 0.75]]); // prettier-ignore
    expect(at(400)).toEqual([[slower, 0], [same, 1]]); // prettier-ignore
    // The device is idle at 120; 99 is outside the window.
    expect(at(120)).toEqual([[slower, 0], [same, 0]]); // prettier-ignore
    expect(at(99)).toEqual([]);
  });

  test("the legend names the classes that occur, and states while they are unknown", () => {
    const look = { swapped: false, theme: "light", again: null, choose: () => undefined } as const;
    const textOf = (color: "change" | "kind", known: typeof counts | null): string =>
      drawn(h(ColorLegend, { ...look, color, counts: known })).textContent ?? "";
    expect(textOf("change", null)).toContain("matching calls");
    expect(textOf("change", counts)).toContain("slower10");
    expect(textOf("change", counts)).not.toContain("moved");
    expect(textOf("kind", counts)).not.toContain("slower");
  });
});

describe("the list of changes", () => {
  const changes = frame(
    {
      change: ["slower", "replaced", "added"],
      measure: ["device", "kernel", "operator"],
      name: ["aten::gelu", "aten::mm", "<b>aten::new</b>"],
      path: ["step > block", "", ""],
      places: [3, 1, 1],
      before_ns: [500, 300, 0],
      after_ns: [1000, 200, 40],
      diff_ns: [500, -100, 40],
      before_count: [4, 2, 0],
      after_count: [4, 1, 1],
      before_names: ["", "gemm a; gemm b; gemm c", ""],
      after_names: ["", "void at::fused<4>(float)", ""],
      after_short: ["", "fused", ""],
      p_value: [0.00000001, null, null],
    },
    { tested: 12 },
  );

  test("says before and after, how much, how often, and whether it may be chance", () => {
    const chosen: (number | null)[] = [];
    const look = { theme: "light", maxRows: 6, ranksText: "", hasSteps: true } as const;
    const choose = (row: number | null): unknown => chosen.push(row);
    const panel = (row: number | null): HTMLElement =>
      drawn(h(ChangesTable, { ...look, frame: changes, chosen: row, choose }));
    const rowsOf = (row: number | null): HTMLElement[] => [
      ...panel(row).querySelectorAll<HTMLElement>(".hta-name-row"),
    ];
    const rows = rowsOf(null);
    expect(rows.map((row) => row.dataset.name)).toEqual(changes.columns.name);
    expect(rows[0]!.textContent).toContain("slower");
    expect(rows[1]!.textContent).toContain("gemm a, gemm b and 1 more → fused");
    expect(rows[1]!.querySelector("small")!.title).toContain("→ void at::fused<4>(float)");
    expect(rows[2]!.textContent).toContain("new 1");
    expect(panel(null).querySelector("b.aten")).toBeNull();
    const none = drawn(
      h(ChangesTable, { ...look, frame: frame({ name: [] }), chosen: null, choose }),
    );
    expect(none.textContent).toContain("Nothing changed beyond the noise");
    expect(none.querySelector(".hta-names-head")).toBeNull();
    rows[1]!.click();
    rowsOf(1)[1]!.click();
    expect(chosen).toEqual([1, null]);
  });

  test("states chance only if the spread is known", () => {
    const chance = (...given: Parameters<typeof chanceText>) => chanceText(...given).words;
    expect([chance("slower", 0.02), chance("faster", null)]).toEqual(["p\u00a00.02", "one step"]);
    expect([chance("added", null), chance("added", null, false)]).toEqual(["in most steps", "–"]);
    expect(replacedText({ before_names: "", after_names: "" })).toBe("");
    const variants = {
      before_names: "f<4>",
      after_names: "f<8>",
      before_short: "f",
      after_short: "f",
    };
    expect(replacedText(variants, "short")).toBe("other variants of f");
  });

  test("an operator is gone only if no call is left", () => {
    const removed = { change: "removed", before_count: 4, after_count: 0 };
    expect(callsText({ ...removed, before_total: 7, after_total: 3 })).toBe("7 → 3");
    expect(callsText({ ...removed, before_total: 4, after_total: 0 })).toBe("gone 4");
    expect(callsText({ change: "slower", before_count: 2, after_count: 2 })).toBe("2");
  });

  test("sums over steps become means over them, shares stay", () => {
    const sums = frame(
      { name: ["gemm"], before_ns: [600], diff_ns: [-300], change_share: [-0.5] },
      { steps: 3, before_ns: 900 },
    );
    const { columns, attrs } = perStep(sums);
    expect(columns).toEqual({
      name: ["gemm"],
      before_ns: [200],
      diff_ns: [-100],
      change_share: [-0.5],
    });
    expect(attrs).toEqual({ steps: 3, before_ns: 300 });
  });

  test("the spread of steps is swapped with the comparison", () => {
    const steps = frame(
      { before_ns: [10_000, 12_000], after_ns: [20_000, 24_000] },
      { before_std_ns: 1414, after_std_ns: 2828, p_value: 0.03, is_significant: true },
    );
    expect(spreadText(steps)).toMatch(/^A step: 11\.0.µs ± 1\.41.µs → 22\.0.µs ± 2\.83.µs/);
    expect(spreadText(swapSides(steps))).toMatch(/^A step: 22\.0.µs ± 2\.83.µs → 11\.0/);
    // The sentence above gives the verdict, and a second one could differ.
    expect(spreadText(steps)).toMatch(/deviation of 2 steps \(p\u00a00\.03\)\.$/);
    expect(spreadText(frame({ before_ns: [1], after_ns: [2] }, { p_value: null }))).toBe("");
  });
});

describe("one history of two timelines", () => {
  const entry = (n: number): History["past"][number] => ({ ...INITIAL_STATE, search: String(n) });
  const entries = (count: number) => Array.from({ length: count }, (_, n) => entry(n));
  const history = (past: number, future = 0): History => ({
    past: entries(past),
    future: entries(future),
  });

  function pair() {
    const walked: string[] = [];
    const pairHistory = new PairHistory(
      (side, way) => {
        walked.push(`${way} ${side}`);
        return true;
      },
      (walk) => {
        walked.push("both");
        walk();
      },
    );
    const grows = (side: 0 | 1, past = 0, act?: string) =>
      pairHistory.recordChange(side, history(past), {
        ...history(past + 1),
        ...(act !== undefined && { together: act }),
      });
    const both = (act: string): void => [0, 1].forEach((side) => grows(side as 0 | 1, 0, act));
    return { pairHistory, walked, grows, both };
  }

  test("undoes in the order in which the sides changed, and redoes", () => {
    const { pairHistory, walked, grows } = pair();
    for (const side of [0, 1, 0] as const) grows(side);
    while (pairHistory.travel("undo"));
    while (pairHistory.travel("redo"));
    expect(walked).toEqual(["undo 0", "undo 1", "undo 0", "redo 0", "redo 1", "redo 0"]);
  });

  test("a change of both sides at once is one step", () => {
    const { pairHistory, walked, grows, both } = pair();
    both("zoom");
    grows(1, 1);
    expect([
      pairHistory.travel("undo"),
      pairHistory.travel("undo"),
      pairHistory.travel("undo"),
    ]).toEqual([true, true, false]);
    expect(walked).toEqual(["undo 1", "both", "undo 0", "undo 1"]);
  });

  test("a choice next to them is one step, with all its changes, and is undone with it", () => {
    const { pairHistory, walked, grows, both } = pair();
    let step = 3;
    let was = 0;
    const turn = (): void => {
      [step, was] = [was, step];
    };
    pairHistory.beginAct("mark", turn);
    both("mark");
    // A separate change shortly after, then one that changes neither timeline.
    grows(0, 1);
    pairHistory.beginAct("swap", turn);
    const steps = (way: "undo" | "redo", count: number) =>
      Array.from({ length: count }, () => `${pairHistory.travel(way)} ${step}`);
    expect(steps("undo", 3)).toEqual(["true 0", "true 0", "true 3"]);
    expect(pairHistory.canUndo).toBe(false);
    expect(walked).toEqual(["undo 0", "both", "undo 0", "undo 1"]);
    expect(steps("redo", 4)).toEqual(["true 0", "true 0", "true 3", "false 3"]);
  });

  test("what Python undoes on both sides is one step to redo, however late, and turns once", () => {
    const { pairHistory, walked, both } = pair();
    let turns = 0;
    pairHistory.beginAct("mark", () => (turns += 1));
    both("mark");
    pairHistory.recordChange(0, history(1), history(0, 1));
    pairHistory.recordChange(1, history(1), history(0, 1));
    expect([turns, pairHistory.canUndo]).toEqual([1, false]);
    expect([pairHistory.travel("redo"), pairHistory.canRedo, turns]).toEqual([true, false, 2]);
    expect(walked).toEqual(["both", "redo 0", "redo 1"]);
  });

  test("a change by another page is one step, however late its second side arrives", () => {
    const { pairHistory, walked, grows } = pair();
    grows(0, 0, "elsewhere");
    grows(1, 0, "elsewhere");
    expect([pairHistory.travel("undo"), pairHistory.canUndo]).toEqual([true, false]);
    expect(walked).toEqual(["both", "undo 0", "undo 1"]);
  });

  test("follows what Python undoes on one side, and forgets dropped steps", () => {
    const { pairHistory, walked, grows } = pair();
    grows(0);
    grows(1);
    pairHistory.recordChange(0, history(1), history(0, 1));
    expect(pairHistory.canRedo).toBe(true);
    pairHistory.travel("undo");
    expect(walked).toEqual(["undo 1"]);
    pairHistory.recordChange(0, history(0, 1), history(1));
    expect(pairHistory.canRedo).toBe(false);
  });

  test("changes count even if the history is full", () => {
    const { pairHistory } = pair();
    const full = history(100);
    pairHistory.recordChange(0, full, { past: [...full.past.slice(1), entry(100)], future: [] });
    expect(pairHistory.canUndo).toBe(true);
  });
});

describe("tables of other formats", () => {
  const drawnTable = (name: string, rows: ReturnType<typeof frame>) =>
    drawn(h(PlainTable, { name, frame: rows }));

  test("before, after and the change of a measure have one heading", () => {
    const heads = (columns: string) =>
      measuresOf(columns.split(" "))
        .map(({ name, sides, diff }) => `${name}${sides ? " sides" : ""}${diff ? " diff" : ""}`)
        .join(", ");
    const columns = "routine before_calls after_calls diff_calls before_time_s";
    expect(heads(`${columns} after_time_s before_host after_host change`)).toBe(
      "routine, calls sides diff, time_s sides, host sides, change",
    );
    // An unpaired step gets a column of its own.
    expect(heads(columns)).toBe("routine, calls sides diff, before_time_s");
    expect(tableTitle("mpi_message_sizes")).toBe("MPI message sizes");
  });

  test.each([
    ["time_s", 0.0225, false, "22.5 ms"],
    ["mean_us", 562.5, false, "563 µs"],
    ["time_s", -0.001, true, "−1.00 ms"],
    ["bytes", 4_799_557, false, "4.80 MB"],
    ["calls", 3, true, "+3"],
    ["calls", 0, true, "±0"],
    ["share_of_time", 0.25, false, "25 %"],
    ["share_of_bytes", 0.5, false, "50 %"],
    ["is_last", true, false, "yes"],
    ["x", null, false, "–"],
  ])("a cell of %s with %s, a difference: %s, is %s", (column, value, isDiff, text) => {
    expect(plain(cellText(column, value, isDiff))).toBe(text);
  });

  test("headings have no units", () => {
    expect(["ns", "mean_us", "bytes"].map(titleOf)).toEqual(["time", "mean", "bytes"]);
  });

  test("one row of measures is turned into many", () => {
    const table = drawnTable("x", frame({ before_a_s: [1], after_a_s: [2], diff_a_s: [1] }));
    const cells = [...table.querySelectorAll("tbody td")].map((cell) => plain(cell.textContent));
    expect(cells).toEqual(["a", "1.00 s", "2.00 s", "+1.00 s"]);
  });

  test("show some rows first, and all on request", async () => {
    const names = Array.from({ length: 20 }, (_, row) => `r${row}`);
    const table = drawnTable("mpi_times", frame({ routine: names }, { rows: 25 }));
    expect(table.querySelectorAll("tbody tr")).toHaveLength(12);
    table.querySelector("button")!.click();
    await vi.waitFor(() => expect(table.querySelectorAll("tbody tr")).toHaveLength(20));
    expect(table.textContent).toContain("Python lists 5 more rows.");
  });
});
