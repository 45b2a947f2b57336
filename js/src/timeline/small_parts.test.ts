/** Parts around the stage that can be tested without a browser. */

import { afterEach, describe, expect, test, vi } from "vitest";
import { plain } from "../../test/plain";
import { recordedScene } from "../../test/recorded";
import { ObservedSource, wholeNsWindow, REPLY_BUDGET_MS } from "../connection/answering";
import { readScene } from "../protocol/scene";
import {
  nextOrder,
  type NameSums,
  type Reply,
  type Scene,
  sortTotals,
  type Source,
  mainKinds,
} from "../protocol/source";
import { detectTheme, watchTheme } from "../ui/host";
import { addTimeMark, removeNearestTimeMark } from "./context";
import { busyText } from "./hover";
import { lacksData, legendKinds } from "./legend";
import { positionInBins, histogramText } from "./panels/event";
import { defaultPath } from "./panels/export";
import { problemLines } from "./panels/problems";
import { filterError, pinName } from "./rows";

describe("marks", () => {
  test("an unkept mark replaces the previous one, a kept one stays", () => {
    let marks = addTimeMark([], [10, 20], false);
    marks = addTimeMark(marks, [30, 40], false);
    expect(marks).toEqual([{ start: 30, end: 40, kept: false }]);
    marks = addTimeMark(marks, [50, 60], true);
    marks = addTimeMark(marks, [70, 80], false);
    expect(marks.map((note) => note.start)).toEqual([50, 70]);
  });

  test("keeping the marked window makes one mark of it", () => {
    const marks = addTimeMark(addTimeMark([], [10, 20], false), [10, 20], true);
    expect(marks).toEqual([{ start: 10, end: 20, kept: true }]);
  });

  test("the nearest mark is removed first", () => {
    const marks = [
      { start: 0, end: 10, kept: true },
      { start: 100, end: 110, kept: true },
    ];
    expect(removeNearestTimeMark(marks, 90).map((note) => note.start)).toEqual([0]);
    expect(removeNearestTimeMark([], 5)).toEqual([]);
  });
});

describe("totals", () => {
  const row = (name: string, count: number, sum: number): NameSums => ({
    name,
    short: name,
    kind: "compute",
    count,
    sum,
    mean: sum / count,
    min: 1,
    max: sum,
    device: sum,
    host: 0,
  });
  const rows = [row("b", 2, 10), row("a", 5, 10), row("c", 1, 30)];

  test("numbers sort largest first, a second click reverses, ties have a stable order", () => {
    const order = (by: ReturnType<typeof nextOrder>): string =>
      sortTotals(rows, by, ({ name }) => name)
        .map(({ name }) => name)
        .join("");
    const start = nextOrder({ column: "name", descending: false }, "sum");
    const turned = nextOrder(start, "sum");
    expect([start, turned, nextOrder(turned, "name")].map(order)).toEqual(["cab", "abc", "abc"]);
  });

  test("kinds of the device summarize a selection, nested kinds only without them", () => {
    const shown = (sums: Partial<Record<NameSums["kind"], number>>) => {
      const kinds = Object.entries(sums).map(([kind, sum]) => ({ ...row(kind, 1, sum), kind }));
      const totals = { events: 3, kinds: kinds as NameSums[], names: [], names_total: 0 };
      return mainKinds(totals).map(({ kind }) => kind);
    };
    expect(shown({ annotation: 900, cpu: 500, compute: 30 })).toEqual(["compute"]);
    expect(shown({ annotation: 900, cpu: 500 })).toEqual(["annotation", "cpu"]);
    expect(shown({ compute: 0 })).toEqual([]);
  });
});

describe("problems", () => {
  test("a problem of several ranks is one line, a truncated file is always listed", () => {
    const scene = recordedScene();
    const cut = { ...scene.ranks[2]!, truncated: "ends early at 440 ms" };
    const unpaired = (count: number, detail: string, rank: number) =>
      ({ kind: "unpaired", count, detail, rank, file: `a/rank-${rank}.json` }) as const;
    const [no, end] = ["no start", "no end"];
    const problems = [unpaired(4878, no, 0), unpaired(4000, no, 1), unpaired(88, end, 0)];
    const truth = { level: "warn", text: "", problems } as const;
    const lines = problemLines({ ...scene, ranks: [...scene.ranks.slice(0, 2), cut], truth });
    expect(lines.map(({ kind, count, ranks }) => `${kind} ${count}: ${ranks.join()}`)).toEqual([
      "unpaired 8878: 0,1",
      "unpaired 88: 0",
      "truncated 1: 2",
    ]);
  });

  test("details that differ only in names are one line, and thousands are grouped", () => {
    const problem = (kind: string, detail: string, rank: number | null) => ({
      ...{ kind, count: 1, detail, rank, file: null },
    });
    const problems = [
      ...[0, 1, 2].map((n) => problem("duplicate_rank", `left out: rank_${n}.json repeats`, null)),
      ...[1, 2].map((n) => problem("clock", `${n},234,567 s from 'f<1,024>'`, n)),
    ];
    const truth = { level: "warn", text: "", problems } as const;
    const lines = problemLines({ ...recordedScene(), ranks: [], truth });
    expect(lines.map(({ count, detail }) => `${count} ${plain(detail)}`)).toEqual([
      "3 left out: … repeats",
      "1 1 234 567 s from 'f<1,024>'",
      "1 2 234 567 s from 'f<1,024>'",
    ]);
    expect([...lines[0]!.details][2]).toBe("left out: rank_2.json repeats");
  });
});

describe("histograms", () => {
  test("a duration lies in its bin, and all bins are equally wide", () => {
    const edges = [1, 10, 100];
    expect(positionInBins(edges, 1)).toBe(0);
    expect(positionInBins(edges, 5.5)).toBeCloseTo(0.25);
    expect(positionInBins(edges, 55)).toBeCloseTo(0.75);
    expect(positionInBins(edges, 100)).toBe(1);
    expect(positionInBins([5, 5], 5)).toBe(0.5);
  });

  test("the text compares with the median", () => {
    const figures = { count: 15, sum: 1, mean: 1, median: 100, min: 50, max: 200 };
    const same = { ...figures, edges: [], counts: [], scale: "linear" } as const;
    const sentence = (dur: number): string => plain(histogramText(same, dur));
    expect(sentence(90)).toBe("15 events, 50–200 ns, median 100 ns; this one −10 %");
    expect(sentence(450)).toContain("this one 4.5× the median");
    expect(sentence(100)).toContain("±0 %");
  });
});

describe("themes", () => {
  afterEach(() => {
    for (const node of [document.body, document.documentElement]) {
      for (const name of [...node.getAttributeNames()]) node.removeAttribute(name);
    }
    document.body.replaceChildren();
    vi.unstubAllGlobals();
  });
  const media = (dark: boolean): void =>
    void vi.stubGlobal("matchMedia", () => ({ matches: dark, addEventListener: () => {} }));

  test.each([
    ["data-jp-theme-light", "false", "dark"],
    ["data-jp-theme-light", "true", "light"],
    ["data-vscode-theme-kind", "vscode-dark", "dark"],
    ["data-vscode-theme-kind", "vscode-high-contrast", "dark"],
    ["data-vscode-theme-kind", "vscode-high-contrast-light", "light"],
    ["data-vscode-theme-kind", "vscode-light", "light"],
    ["class", "dark dark-theme", "dark"],
    ["data-theme", "dark", "dark"],
    ["theme", "dark", "dark"],
    ["class", "darkroom", "light"],
  ])("%s=%s", (name, value, theme) => {
    media(theme === "light" ? name !== "class" : false);
    document.body.setAttribute(name, value);
    const el = document.body.appendChild(document.createElement("div"));
    expect(detectTheme(el)).toBe(theme);
  });

  test("the host's theme overrides the system's, also through a shadow root", () => {
    media(true);
    const host = document.body.appendChild(document.createElement("div"));
    host.className = "light";
    const el = host.attachShadow({ mode: "open" }).appendChild(document.createElement("div"));
    expect(detectTheme(el)).toBe("light");
    host.className = "";
    expect(detectTheme(el)).toBe("dark");
  });

  test("a switch of the theme is followed until the signal aborts", async () => {
    media(false);
    const el = document.body.appendChild(document.createElement("div"));
    const end = new AbortController();
    const seen: string[] = [];
    watchTheme(el, end.signal, (theme) => seen.push(theme));
    document.body.dataset.jpThemeLight = "false";
    await vi.waitFor(() => expect(seen).toEqual(["dark"]));
    end.abort();
    document.body.dataset.jpThemeLight = "true";
    await Promise.resolve();
    expect(seen).toEqual(["dark"]);
  });
});

describe("one source for all", () => {
  const reply: Reply = { reply: { in_view: 1 }, buffer: null };

  function source(): { inner: Source; asked: string[]; fail: { on: boolean } } {
    const asked: string[] = [];
    const fail = { on: false };
    const inner: Source = {
      status: "live",
      ask: (op) => {
        asked.push(op);
        return fail.on ? Promise.reject(new Error("broken")) : Promise.resolve(reply as never);
      },
    };
    return { inner, asked, fail };
  }

  test("shares of one window are requested once, an abort of one caller does not affect the others", async () => {
    const { inner, asked } = source();
    const observed = new ObservedSource(inner);
    const gone = new AbortController();
    const first = observed.ask("stats", { start: 0, end: 5 }, gone.signal);
    const second = observed.ask("stats", { start: 0, end: 5 });
    gone.abort();
    await expect(first).rejects.toMatchObject({ name: "AbortError" });
    await expect(second).resolves.toBe(reply);
    await observed.ask("stats", { start: 0, end: 6 });
    expect(asked).toEqual(["stats", "stats"]);
  });

  test("an unfinished reply is requested again, and reported when complete", async () => {
    const { inner } = source();
    const shown: unknown[] = [];
    const requests: unknown[] = [];
    inner.ask = (_op, request) => {
      requests.push(request);
      const there = requests.length > 2;
      return Promise.resolve((there ? reply : { reply: { pending: true }, buffer: null }) as never);
    };
    const observed = new ObservedSource(inner);
    observed.onReply((op, request) => shown.push([op, request]));
    await expect(observed.ask("lateness", { start: 0 } as never)).resolves.toBe(reply);
    expect(requests).toEqual(Array(3).fill({ start: 0, within_ms: REPLY_BUDGET_MS }));
    expect(shown).toEqual([["lateness", { start: 0 }]]);
  });

  test("a failure is reported and not remembered", async () => {
    const { inner, asked, fail } = source();
    const observed = new ObservedSource(inner);
    const failures: string[] = [];
    observed.onFailure((op, error) => failures.push(`${op}: ${error.message}`));
    fail.on = true;
    await expect(observed.ask("stats", { start: 0 } as never)).rejects.toThrow("broken");
    fail.on = false;
    await expect(observed.ask("stats", { start: 0 } as never)).resolves.toBe(reply);
    expect(failures).toEqual(["stats: broken"]);
    expect(asked).toHaveLength(2);
  });

  test("windows are requested in whole nanoseconds", () => {
    expect(wholeNsWindow([0.4, 10.2])).toEqual({ start: 0, end: 11 });
    expect(wholeNsWindow([5, 5])).toEqual({ start: 5, end: 6 });
  });
});

describe("names and values", () => {
  test.each([
    ["ddp_8rank", "ddp_8rank-window.trace.json.gz"],
    ["resnet50.pt.trace.json.gz", "resnet50-window.trace.json.gz"],
    ["my job / 3", "my-job-3-window.trace.json.gz"],
    ["../../etc", "etc-window.trace.json.gz"],
    ["", "trace-window.trace.json.gz"],
  ])("%s is exported to %s", (title, path) => {
    expect(defaultPath(title)).toBe(path);
  });

  test.each([
    [0, "0 %"],
    [0.0001, "<0.1 %"],
    [0.124, "12.4 %"],
    [0.9999, ">99.9 %"],
    [1, "100 %"],
  ])("a busy share of %f is %s", (share, text) => {
    expect(plain(busyText(share))).toBe(text);
  });

  test("rows have the names that pins have in Python", () => {
    const track = recordedScene().ranks[0]!.tracks.find(({ role }) => role === "stream")!;
    expect(pinName({ rank: 5, track: null })).toBe("5");
    expect(pinName({ rank: 5, track })).toBe("5/GPU 0 · stream 7");
  });

  test("a broken filter shows its error", () => {
    expect(filterError("rank [0-3]|stream 7")).toBeNull();
    expect(filterError("rank [")).toBe("missing ]");
  });

  test("chips name only kinds that the tracks can hold", () => {
    const scene = recordedScene();
    expect(legendKinds(scene).join(" ")).toBe(
      "compute communication memory cpu sync annotation other",
    );
    const cpu = scene.ranks.map((rank) => ({
      ...rank,
      summary: rank.summary.filter((row) => row.role === "cpu"),
      tracks: rank.tracks.filter((track) => track.role === "thread"),
    }));
    expect(legendKinds({ ...scene, steps: [], ranks: cpu })).toEqual(["cpu"]);
    const gloo: Scene = { ...scene, steps: [], ranks: cpu, host_kinds: ["communication", "cpu"] };
    expect(legendKinds(gloo)).toEqual(["communication", "cpu"]);
    // The roles of BytePS tracks do not imply a kind.
    const host_kinds: Scene["host_kinds"] = ["communication", "memory", "sync", "annotation"];
    expect(legendKinds({ ...gloo, host_kinds, ranks: [] })).toEqual(host_kinds);
  });

  test("an invalid scene is rejected with a message", () => {
    expect(() => readScene(null)).toThrow("no scene");
    expect(() => readScene({ version: 2 })).toThrow("version 2");
  });
});

test.each([
  ["all data", 0, 1000, false],
  ["half a percent less", 5, 1000, false],
  ["a late start", 30, 1000, true],
  ["an early end", 0, 950, true],
])("the legend explains hatches of a rank with %s", (_, start, end, expected) => {
  const scene = recordedScene();
  const [rank] = scene.ranks;
  const ranks = [
    { ...rank!, range: [0, 1000] as const },
    { ...rank!, range: [start, end] as const },
  ];
  expect(lacksData({ ...scene, range: [0, 1000], ranks: ranks as never })).toBe(expected);
});
