/** The logic of a dashboard without drawing: layout, choices, requests, files. */

import { beforeEach, describe, expect, test } from "vitest";
import { PANELS, choosesOperators, groupedFrameId, withoutOwnDimensions } from "../facts/panels";
import {
  applyBrush,
  chartSelectionOf,
  FULL_SELECTION,
  togglePick,
  withoutDimension,
} from "../protocol/selection";
import {
  type ErrorReply,
  type Requests,
  type Scene,
  type SelectionJson,
  type Source,
} from "../protocol/source";
import { choiceWithPanel, computeLayout, findIdlePanels, leftOutText } from "./layout";
import { PanelData, makePanelRequester } from "./panel_data";
import { TABLES } from "./tables";
import { toCsv } from "../ui/table";

const EVERY = PANELS.map(({ id }) => id);
/** The panels of a job with devices. */
const ALL = EVERY.filter((id) => !/^(byteps|flight|mpi|snapshot)_/.test(id));
const scene = { range: [0, 1000], ranks: [] } as unknown as Scene;
const only = (part: Partial<SelectionJson>): SelectionJson => ({ ...FULL_SELECTION, ...part });
const places = (
  width: number,
  choice = ALL as Parameters<typeof computeLayout>[1],
  fills = false,
): string[] =>
  computeLayout(width, choice, fills).bands.map((columns) =>
    columns.map(({ panels }) => panels.join("+")).join(" | "),
  );

describe("places", () => {
  test("panels that would stay empty are listed, except those that are shown all the same", () => {
    const titles: Record<string, string> = { heatmap: "Rank × time", steps: "Steps and phases" };
    const leftOut = { "no GPU work": ["heatmap", "kernels"], "no ProfilerStep": ["steps"] };
    expect(leftOutText(leftOut, ["kernels"], (id) => titles[id]!)).toBe(
      "Not in this job: Rank × time (no GPU work); Steps and phases (no ProfilerStep).",
    );
    expect(leftOutText({ "no ProfilerStep": ["steps"] }, ["steps"], String)).toBe("");
  });

  test("one column, or pairs", () => {
    expect(places(700).every((band) => !band.includes("|"))).toBe(true);
    expect(places(700).slice(0, 3)).toEqual(["breakdown", "timeline", "heatmap"]);
    expect(places(1100).slice(0, 3)).toEqual(["breakdown | overlap", "timeline", "heatmap"]);
    expect(places(2000)).toEqual(places(1100));
  });

  test("a view that fills its window has the timeline next to charts", () => {
    const shown = ["steps", "kernels", "timeline", "operators", "breakdown", "flame"];
    expect(places(1099, shown, true)).toEqual(places(1099, shown));
    expect(places(1100, shown, true)).toEqual([
      "breakdown+steps+kernels+flame | timeline+operators",
    ]);
    expect(places(1640, shown, true)).toEqual([
      "breakdown+steps+flame | timeline+operators | kernels",
    ]);
    expect(places(700, ["timeline"], true)).toEqual(["timeline"]);
    const snapshot = ["snapshot_peak", "snapshot_segments", "timeline", "selection"];
    expect(places(1440, snapshot, true)).toEqual([
      "snapshot_peak+selection | timeline+snapshot_segments",
    ]);
    const byteps = ["byteps_blame", "byteps_requests", "byteps_gradients", "timeline", "selection"];
    expect(places(1640, byteps, true)).toEqual([
      "byteps_blame | timeline+byteps_gradients+byteps_requests | selection",
    ]);
    // Without charts next to them, the panels about a hang get the full width.
    const hang = ["flight_hang", "flight_collectives", "timeline", "selection", "problems"];
    const whole = "flight_hang+flight_collectives+timeline+selection+problems";
    expect([1100, 1640].flatMap((width) => places(width, hang, true))).toEqual([whole, whole]);
    expect(places(1640, ["mpi_sizes", "selection"], true)).toEqual(["mpi_sizes+selection"]);
    expect(places(1640, ["timeline", "selection"], true)).toEqual(["timeline | selection"]);
    expect(computeLayout(1640, [["timeline"], ["steps"]], true).name).toBe("pairs");
    expect(computeLayout(1640, ["steps"], true).bands).toHaveLength(1);
  });

  test.each([
    [700, false],
    [900, false],
    [1100, true],
    [1640, true],
  ])("at %i px every panel has one place", (width, fills) => {
    const placedIds = computeLayout(width, EVERY, fills)
      .bands.flat()
      .flatMap(({ panels }) => panels);
    expect(placedIds.sort()).toEqual([...EVERY].sort());
  });

  test("the status line stands below the timeline and what shares its axis", () => {
    const after = (width: number): string => places(width)[computeLayout(width, ALL).statusAfter]!;
    expect(after(700)).toBe("heatmap");
    expect(computeLayout(1100, ["kernels"]).statusAfter).toBe(0);
  });

  test.each([
    [8, 3, 0, ["problems"]],
    [8, 1, 2, []],
    [1, 1, 0, ["problems", "steps"]],
    [1, 2, 1, []],
  ])(
    "of %i ranks, %i steps, %i problems %j have nothing to show",
    (ranks, steps, problems, ids) => {
      const facts = { ranks: Array.from({ length: ranks }), steps: Array.from({ length: steps }) };
      expect(findIdlePanels({ ...facts, problems })).toEqual(ids);
    },
  );

  test("rows are kept as they are given, below each other if it is narrow", () => {
    const rows = [["breakdown", "kernels"], ["timeline"]];
    expect(places(1100, rows)).toEqual(["breakdown | kernels", "timeline"]);
    expect(places(700, rows)).toEqual(["breakdown", "kernels", "timeline"]);
  });

  test("a hidden panel leaves its place to the others, a shown one comes back", () => {
    const hidden = choiceWithPanel(ALL, "overlap", false);
    expect(places(1100, hidden)[0]).toBe("breakdown");
    expect(places(1100, choiceWithPanel(hidden, "overlap", true))).toEqual(places(1100));
    expect(choiceWithPanel([["breakdown"]], "idle", true)).toEqual([["breakdown"], ["idle"]]);
    expect(choiceWithPanel([["breakdown"], ["idle"]], "idle", false)).toEqual([["breakdown"]]);
  });
});

describe("choices", () => {
  test("each dimension is written without the others", () => {
    const first = applyBrush(null, { ranks: [5] }, 8);
    const second = applyBrush(first, { window: [10.4, 20.6] }, 8);
    const third = applyBrush(second, { names: ["a'b"] }, 8);
    expect(third).toEqual(only({ ranks: [5], start_ns: 10, end_ns: 21, query: `name in ["a'b"]` }));
    expect(applyBrush(third, { names: null, window: null }, 8)).toEqual(only({ ranks: [5] }));
    expect(applyBrush(first, { ranks: null }, 8)).toBeNull();
  });

  test("all ranks, and no names, are not a choice", () => {
    expect(applyBrush(null, { ranks: [1, 0] }, 2)).toBeNull();
    expect(applyBrush(null, { names: [] }, 2)).toBeNull();
  });

  test("a query of the user's stays with chosen names", () => {
    const mine = only({ query: "dur_ns > 5 or step == 3" });
    const both = applyBrush(mine, { kinds: ["compute"] }, 8);
    expect(both?.query).toBe("(dur_ns > 5 or step == 3) and kind in ['compute']");
    expect(withoutDimension(both, "kinds")).toEqual(mine);
    expect(withoutDimension(both, "rest")?.query).toBe("kind in ['compute']");
  });

  test("a click chooses one, with a key it adds; on the only one it clears", () => {
    expect(togglePick(null, 5, false)).toEqual([5]);
    expect(togglePick([5], 5, false)).toBeNull();
    expect(togglePick([5, 6], 5, false)).toEqual([5]);
    expect(togglePick([5], 6, true)).toEqual([5, 6]);
    expect(togglePick([5, 6], 6, true)).toEqual([5]);
    expect(togglePick([5], 5, true)).toBeNull();
  });

  test("half open windows end with the job", () => {
    expect(chartSelectionOf(only({ start_ns: 10 }), scene).window).toEqual([10, 1000]);
  });

  test("no panel is filtered by what it writes itself", () => {
    const all = only({ ranks: [5], start_ns: 1, end_ns: 2, query: "kind in ['compute']" });
    expect(withoutOwnDimensions("breakdown", all)).toEqual({ ...all, ranks: null });
    expect(withoutOwnDimensions("kernel_types", all)).toEqual({ ...all, query: null });
    expect(withoutOwnDimensions("steps", all)).toEqual(FULL_SELECTION);
    for (const by of ["shape", "module", "source line"])
      expect(withoutOwnDimensions(groupedFrameId("kernels", by), all)).toEqual(FULL_SELECTION);
    const named = only({ query: "(dur_ns > 9) and name in ['a'] and kind in ['compute']" });
    expect(withoutOwnDimensions("operators", named)).toEqual(only({ query: "dur_ns > 9" }));
    expect(withoutOwnDimensions("summary", all)).toEqual(all);
    // Idle time depends on all events.
    const events = only({ ids: [[5, 1]], tracks: ["a"], query: "dur_ns > 9" });
    expect(withoutOwnDimensions("idle", events)).toEqual(FULL_SELECTION);
  });

  test("operators that are chosen with their launches filter panels of kernels", () => {
    const operators = applyBrush(only({ ranks: [1] }), { names: ["aten::mm"], launches: true }, 8);
    expect(operators).toEqual(only({ ranks: [1], query: "name in ['aten::mm']", launches: true }));
    expect(withoutOwnDimensions("kernels", operators!)).toEqual(operators);
    expect(withoutOwnDimensions("operators", operators!)).toEqual(only({ ranks: [1] }));
    expect(applyBrush(operators, { names: ["gemm"] }, 8)).toEqual(
      only({ ranks: [1], query: "name in ['gemm']" }),
    );
    expect(applyBrush(operators, { names: null, launches: true }, 8)).toEqual(only({ ranks: [1] }));
    expect(["operators", "call_tree", "kernels"].map(choosesOperators)).toEqual([
      true,
      true,
      false,
    ]);
  });
});

describe("questions", () => {
  const frame = (value: number) => ({ rows: 1, columns: { value: [value] }, attrs: {} });

  interface Call {
    panels: string[];
    selection: SelectionJson;
    /** Reply with frames for all panels except those in `left`. */
    answer(value: number, left?: string[], errors?: Record<string, ErrorReply>): Promise<void>;
    fail(error: Error): Promise<void>;
  }
  const settle = () => new Promise<void>((resolve) => setTimeout(resolve));
  let calls: Call[];
  let data: PanelData<SelectionJson>;
  const stateOf = (id: string) => data.state(id).value;

  beforeEach(() => {
    calls = [];
    const ask = (_op: string, { panels, selection }: Requests["panels"]) =>
      new Promise<never>((resolve, reject) => {
        const ids = [...panels];
        const answer: Call["answer"] = (value, left = [], errors = {}) => {
          const made = ids.filter((id) => !left.includes(id) && !(id in errors));
          const panels = Object.fromEntries(made.map((id) => [id, frame(value)]));
          const reply = { panels, errors, ...(left.length > 0 && { left }) };
          resolve({ reply, buffer: null } as never);
          return settle();
        };
        const fail = (error: Error) => {
          reject(error);
          return settle();
        };
        calls.push({ panels: ids, selection: selection as SelectionJson, answer, fail });
      });
    const { signal } = new AbortController();
    data = new PanelData(makePanelRequester({ status: "live", ask } as Source, signal), signal);
  });

  test("one at a time, and of those that were made meanwhile the last one", async () => {
    data.requestPanels(["overlap", "kernels"], only({ start_ns: 1 }));
    data.requestPanels(["overlap", "kernels"], only({ start_ns: 2 }));
    data.requestPanels(["overlap", "kernels"], only({ start_ns: 3 }));
    expect(calls.map(({ selection }) => selection.start_ns)).toEqual([1]);
    await calls[0]!.answer(1);
    expect(calls.map(({ selection }) => selection.start_ns)).toEqual([1, 3]);
    expect(stateOf("kernels")).toMatchObject({ isStale: true, frame: frame(1) });
    await calls[1]!.answer(3);
    expect(stateOf("kernels")).toMatchObject({ isStale: false, frame: frame(3) });
  });

  test("a panel does not request what it wrote itself, nor the same twice", async () => {
    data.requestPanels(["breakdown", "kernels"], FULL_SELECTION);
    await calls[0]!.answer(0);
    data.requestPanels(["breakdown", "kernels"], only({ ranks: [5] }));
    expect(calls[1]!.panels).toEqual(["kernels"]);
    await calls[1]!.answer(5);
    data.requestPanels(["breakdown", "kernels"], FULL_SELECTION);
    expect(stateOf("kernels")).toMatchObject({ isStale: false, frame: frame(0) });
    expect(calls).toHaveLength(2);
  });

  test("numbers of chosen events are marked as such, numbers of windows and ranks are not", async () => {
    const filtered = (): unknown => stateOf("queue").frame?.attrs.filtered;
    data.requestPanels(["queue"], only({ query: "kind == 'communication'" }));
    await calls[0]!.answer(0);
    expect(filtered()).toBe(1);
    data.requestPanels(["queue"], only({ start_ns: 1, ranks: [5] }));
    await calls[1]!.answer(1);
    expect(filtered()).toBe(0);
  });

  test("waiting panels are requested next, for the selection of that time", async () => {
    data.requestPanels(["overlap", "kernels", "queue"], only({ start_ns: 1 }));
    await calls[0]!.answer(1, ["kernels", "queue"]);
    expect(stateOf("overlap")).toMatchObject({ isStale: false, frame: frame(1) });
    expect(stateOf("kernels")).toMatchObject({ isStale: true, frame: null, error: null });
    expect(calls[1]!.panels).toEqual(["kernels", "queue"]);
    data.requestPanels(["overlap", "kernels", "queue"], only({ start_ns: 2 }));
    await calls[1]!.answer(1, ["kernels", "queue"]);
    expect(calls[2]!.panels).toEqual(["overlap", "kernels", "queue"]);
    expect(calls[2]!.selection.start_ns).toBe(2);
    await calls[2]!.answer(2);
    expect(stateOf("queue")).toMatchObject({ isStale: false, frame: frame(2) });
    expect(calls).toHaveLength(3);
  });

  test("a failure is shown in place of the numbers, and a new selection tries again", async () => {
    data.requestPanels(["kernels"], FULL_SELECTION);
    await calls[0]!.fail(new Error("no such column"));
    expect(stateOf("kernels").error?.message).toBe("no such column");
    data.requestPanels(["kernels"], FULL_SELECTION);
    expect(calls).toHaveLength(1);
    data.retry();
    expect(calls).toHaveLength(2);
  });

  test("an error of a panel leaves the others their numbers", async () => {
    data.requestPanels(["overlap", "kernels", "queue"], FULL_SELECTION);
    await calls[0]!.answer(1, [], {
      overlap: { code: "no_answer", message: "no column a.", remedy: "Remove it." },
    });
    expect(stateOf("overlap").error?.message).toBe("no column a. Remove it.");
    expect(stateOf("kernels")).toMatchObject({ isStale: false, frame: frame(1), error: null });
    expect(stateOf("queue")).toMatchObject({ isStale: false, frame: frame(1), error: null });
    expect(calls).toHaveLength(1);
    data.retry();
    expect(calls[1]!.panels).toEqual(["overlap"]);
  });
});

test("a table as CSV keeps what its cells hold", () => {
  const columns = { name: ['a "b", c', "d\ne", "=1+1", "-a"], count: [1, null, -1, 0] };
  expect(toCsv({ rows: 4, columns, attrs: {} })).toBe(
    'name,count\r\n"a ""b"", c",1\r\n"d\ne",\r\n\'=1+1,-1\r\n\'-a,0\r\n',
  );
});

test.each(["\n=1", "\n", " \r\n+1", "\uff1d1", "\u2003\uff20a", "\uff0b1", "\uff0d1"])(
  "a cell that spreadsheets take for a formula is text: %j",
  (cell) => {
    const table = toCsv({ rows: 1, columns: { name: [cell] }, attrs: {} });
    expect(table.slice("name\r\n".length)).toMatch(/^"?'/);
  },
);

test.each([
  ["compute", { device_total_ns: 10, communication_ns: 4, memory_ns: 5 }],
  ["communication", { device_total_ns: 10, communication_ns: 6, memory_ns: 4 }],
  ["memory", { device_total_ns: 10, communication_ns: 0, memory_ns: 10 }],
])("the bar of an operator has the colour of %s if that is most of its work", (kind, row) => {
  const columns = Object.fromEntries(Object.entries(row).map(([name, ns]) => [name, [ns]]));
  const frame = { rows: 1, columns, attrs: {} };
  const [, onDevice] = TABLES.operators!.columns(frame, "GPU");
  const bar = onDevice!.cell((name) => columns[name]?.[0] ?? null, 10, false);
  expect(bar).toMatchObject({ props: { kind } });
});
