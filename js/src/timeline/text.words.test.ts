import { rangesText } from "../facts/rank_text";
import { describe, expect, test } from "vitest";
import { plain as spaced } from "../../test/plain";
import { recordedScene } from "../../test/recorded";
import { FULL_SELECTION } from "../protocol/selection";
import type { Scene, SceneRank, Span, Stats } from "../protocol/source";
import type { RichText } from "../ui/text";
import {
  cutText,
  plainText,
  rowsText,
  searchText,
  selectionHead,
  selectionText,
  spanText,
  viewText,
} from "./text";

const scene = recordedScene();
const [start, end] = scene.range;

const text = (sentence: RichText | string): string =>
  spaced(typeof sentence === "string" ? sentence : plainText(sentence));
const said = (span: Span, of: Scene, figures: Stats | null): string =>
  text(viewText(span, of, figures));
/** Describe a whole job. */
const wholly = (of: Scene, more: Partial<Stats> = {}): string => said(of.range, of, stats(more));
/** The scene of an exported window. */
const exported: Scene = {
  ...scene,
  range: [60e6, 81e6],
  part: { job_ranks: 8, all_time: false, all_events: true, cut_events: 3 },
};
const ranksWith = (change: (rank: SceneRank) => Partial<SceneRank>): Scene => ({
  ...scene,
  ranks: scene.ranks.map((rank) => ({ ...rank, ...change(rank) })),
});

function stats(more: Partial<Stats> = {}): Stats {
  return {
    start,
    end,
    ranks: [0, 1, 2],
    data: [1000, 1000, 1000],
    span: [1000, 1000, 1000],
    compute: [200, 200, 110],
    communication: [100, 100, 100],
    exposed: [50, 50, 50],
    memory: [10, 10, 10],
    idle: [740, 740, 830],
    unrecorded: [0, 0, 0],
    kinds: {},
    ...more,
  };
}

describe("the view as text", () => {
  test("the whole job or export, with its shares", () => {
    expect(wholly({ ...scene, range: [0, 824e6] })).toBe(
      "Whole job, 824 ms. GPUs compute 17 %, communicate 10 % (5.0 % exposed) " +
        "and idle 77 % of each GPU span.",
    );
    expect(wholly(exported)).toMatch(/^Whole export, 21\.0 ms\./u);
  });

  test("shares name the ranks whose files end early, which they leave out", () => {
    const cut = (ranks: number): Scene =>
      ranksWith(({ rank }) => ({ truncated: rank < ranks ? "ends early" : null }));
    expect(wholly(cut(1))).toContain(
      "GPUs compute 16 %, communicate 10 % (5.0 % exposed) and idle 79 % of each GPU span. " +
        "Excludes rank 0, whose file ends early.",
    );
    expect(wholly(cut(2))).toMatch(
      /The GPU computes 11 %.* Excludes 2 ranks, whose files end early\.$/u,
    );
    expect(wholly(cut(0))).not.toContain("Without");
  });

  test.each([
    [59e6, 4e6, "begins 1.00 ms before the export's window"],
    [80e6, 3e6, "ends 2.00 ms after the export's window"],
    [59e6, 40e6, "begins 1.00 ms before and ends 18.0 ms after the export's window"],
    [60e6, 4e6, "reaches the edge of the export's window, which may have cut it"],
    [61e6, 4e6, ""],
  ])("an event from %d on for %d ns that an export cut has a note", (start, dur, clause) => {
    expect(spaced(cutText({ start, dur }, exported))).toBe(clause);
    expect(cutText({ start, dur }, scene)).toBe("");
  });

  test("one rank has a sentence in the singular, without a share of no communication", () => {
    const singleRank: Scene = { ...scene, ranks: scene.ranks.slice(0, 1) };
    expect(wholly(singleRank, { communication: [0, 0, 0], exposed: [0, 0, 0] })).toContain(
      "The GPU computes 20 % and idles 74 % of the GPU span.",
    );
  });

  test.each([
    [49, "GPUs compute 17 %, communicate 10 % (5.0 % exposed) and idle 77 %"],
    [50, "GPUs compute 17 %, communicate 10 % (5.0 % exposed), only copy 5.0 % and idle 77 %"],
    [970, "GPUs compute 17 %, communicate 10 % (5.0 % exposed), only copy 97 % and idle 77 %"],
  ])("copies of %d in 1000 ns", (ns, words) => {
    expect(wholly(scene, { memory: [ns, ns, ns] })).toContain(`${words} of each GPU span.`);
  });

  test("a device that probably runs unrecorded work is not idle", () => {
    const singleRank: Scene = { ...scene, ranks: scene.ranks.slice(0, 1) };
    const [idle, unrecorded] = [
      [10, 0, 0],
      [730, 0, 0],
    ];
    expect(wholly(singleRank, { idle, unrecorded })).toContain(
      "The GPU computes 20 %, communicates 10 % (5.0 % exposed), probably runs unrecorded work " +
        "73 % and idles 1.0 % of the GPU span.",
    );
  });

  test("devices have the names of their files", () => {
    const mtia = ranksWith(() => ({ device: "MTIA" }));
    expect(wholly(mtia)).toContain("MTIAs compute");
  });

  test("shares are of the devices' spans, not of the ranks' data, nor of ranks without any", () => {
    expect(wholly(scene, { span: [500, 500, 500], idle: [240, 240, 330] })).toContain("idle 54 %");
    expect(wholly(scene, { span: [1000, 0, 0] })).toMatch(/compute.*20 %/);
    expect(wholly(scene, { span: [0, 0, 0], idle: [0, 0, 0] })).toContain("No GPU works here");
  });

  test("a window is named by its ends and its length, or by the step that fills it", () => {
    expect(said([451.32e6, 453.36e6], scene, null)).toBe("451.32–453.36 ms (2.04 ms).");
    const step = scene.steps[0]!;
    const sentence = said([step.start, step.start + step.dur], scene, null);
    expect(sentence).toBe("ProfilerStep#1 in view, 13.9 ms.");
    expect(said([end + 10, end + 20], scene, stats())).toContain("Outside the job");
  });

  test("a job without devices has no idle share", () => {
    const sentence = wholly(ranksWith(() => ({ summary: [] })));
    expect(sentence).toContain("No GPU events in these files.");
    expect(sentence).not.toContain("0 %");
  });

  test("MPI calls do not count as device time, and the remainder is not idle", () => {
    const sentence = wholly(
      ranksWith(() => ({ summary: [{ lane: 0, role: "comm", label: "MPI" }] })),
    );
    expect(sentence).toContain("Ranks are in MPI 10 % and elsewhere 77 % of the time.");
    expect(sentence).not.toContain("GPU");
  });
});

describe("spans", () => {
  test.each([
    [[0, 824e6], "0–824 ms"],
    [[1.5e9, 1.6e9], "1.500–1.600 s"],
    [[10, 90], "10–90 ns"],
    [[-5e6, 34e6], "−5.0 to 34.0 ms"],
    [[451_974_999, 451_975_400], "451.974999–451.975400 ms"],
  ] as const)("%o", (span, expected) => {
    expect(text(spanText(span))).toBe(expected);
  });
});

describe("selections", () => {
  test("ranks are written as ranges", () => {
    expect(rangesText([0, 1, 2, 3, 5])).toBe("0–3, 5");
    expect(rangesText([7, 6])).toBe("6, 7");
    expect(rangesText([0, 2, 4, 6, 7, 8])).toBe("0, 2, 4 and 3 more");
  });

  test("rows are all, some, or tracks of some", () => {
    const keys = ["GPU 0 · stream 7"];
    expect(rowsText(FULL_SELECTION, scene)).toBe("all 3 ranks");
    expect(rowsText({ ...FULL_SELECTION, ranks: [1] }, scene)).toBe("rank 1");
    expect(rowsText({ ...FULL_SELECTION, ranks: [0, 1], tracks: keys }, scene)).toBe(
      "ranks 0, 1, GPU 0 · stream 7",
    );
    expect(rowsText({ ...FULL_SELECTION, tracks: ["a", "b"] }, scene)).toBe(
      "all 3 ranks, 2 tracks",
    );
  });

  test("windows, events and queries have different headings", () => {
    const window = { ...FULL_SELECTION, start_ns: 163e6, end_ns: 350e6 };
    expect(text(selectionHead(window, scene))).toBe("Selection 163–350 ms (187 ms)");
    const ids: [number, number][] = [1, 2].map((id) => [0, id]);
    expect(selectionHead({ ...FULL_SELECTION, ids }, scene)).toBe("2 selected events");
    expect(selectionHead({ ...FULL_SELECTION, query: "dur_ns > 5" }, scene)).toBe(
      "Events by query",
    );
    const row = { count: 1, sum: 95e6, mean: 1, min: 1, max: 1, device: 0, host: 0 };
    const sentence = selectionText(window, scene, {
      events: 15775,
      kinds: [
        { ...row, kind: "annotation", sum: 1.8e9 },
        { ...row, kind: "communication" },
        { ...row, kind: "compute", sum: 102e6 },
      ],
      names: [],
      names_total: 0,
    });
    expect(text(sentence)).toBe(
      "Selection 163–350 ms (187 ms) on all 3 ranks: 15 775 events, 102 ms compute, " +
        "95.0 ms communication.",
    );
  });
});

test("the search shows its position", () => {
  const hits = { text: "wgrad", index: 2, total: 120, inView: 10 };
  expect(text(searchText(hits))).toBe(
    "Search wgrad: hit 2 of 120, 10 in view · Enter next · Esc leave",
  );
  expect(text(searchText({ ...hits, total: 0 }))).toBe("No name matches wgrad.");
});
