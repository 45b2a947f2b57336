/** Parts of a comparison that fail state it in their own place, and can be requested again. */

import { h, render } from "preact";
import { expect, test, vi } from "vitest";
import type { Frame, Source } from "../protocol/source";
import { Charts } from "./charts";
import { type About, Frames } from "./frames";
import { ColourLegend } from "./toolbar";

const ABOUT: About = {
  labels: ["one", "two"],
  facts: "",
  cautions: [],
  rank_pairs: [[0, 0]],
  by_rank_means: false,
  steps: 1,
  matched: "",
  all_matched: true,
  has_events: true,
  has_device: true,
  tables: [],
};
const NOTHING: Frame = { rows: 0, columns: {}, attrs: { before_ns: 5e6, after_ns: 6e6 } };
const KINDS: Frame = {
  ...NOTHING,
  rows: 1,
  columns: { kind: ["compute"], before_ns: [5e6], after_ns: [6e6], diff_ns: [1e6] },
};

/** Has all frames but those that are broken. */
class Kernel implements Source {
  readonly status = "live";
  readonly broken = new Set<string>();
  readonly asked: string[] = [];

  async ask(_op: string, request: Record<string, unknown>): Promise<never> {
    const name = String(request.name);
    this.asked.push(name);
    if (this.broken.has(name)) throw new Error(`no ${name}`);
    return { reply: name === "waterfall:kind" ? KINDS : NOTHING, buffer: null } as never;
  }
}

async function mounted(broken: string[] = [], about = ABOUT) {
  const kernel = new Kernel();
  for (const name of broken) kernel.broken.add(name);
  const headline = document.createElement("div");
  const charts = new Charts({
    frames: new Frames(kernel, new AbortController().signal),
    about,
    swapped: () => false,
    showStep: vi.fn(),
    markNames: vi.fn(),
    markNode: vi.fn(),
    markChange: vi.fn(),
    tell: () => render("told", headline),
    say: vi.fn(),
    fail: vi.fn(),
    untold: (why) => render(why, headline),
    again: () => void charts.load(drawn),
  });
  const drawn = vi.fn();
  charts.strip.width.value = 800;
  const textOf = (name: "strip" | "waterfall" | "changes" | "names" | "icicle"): string =>
    charts[name].el.textContent ?? "";
  await charts.load(drawn);
  await new Promise((resolve) => setTimeout(resolve));
  return { kernel, charts, headline, drawn, textOf };
}

function press(el: HTMLElement): void {
  const button = [...el.querySelectorAll("button")].find((one) => one.textContent === "Try again");
  button!.click();
}

test("one frame that fails leaves the others drawn, and is requested again alone", async () => {
  const { kernel, charts, headline, drawn, textOf } = await mounted(["lanes", "names"]);
  expect(textOf("strip")).toContain("The steps could not be drawn");
  expect(textOf("names")).toContain("Names could not be drawn");
  expect(textOf("names")).toContain("no names");
  expect(textOf("waterfall")).toContain("Where the 1.00");
  expect(textOf("changes")).toContain("Nothing changed");
  expect(headline.textContent).toBe("told");
  expect(drawn).toHaveBeenCalledTimes(1);
  kernel.broken.clear();
  kernel.asked.length = 0;
  press(charts.names.el);
  await vi.waitFor(() => expect(textOf("names")).not.toContain("could not be drawn"));
  await vi.waitFor(() => expect(drawn).toHaveBeenCalledTimes(2));
  expect([...kernel.asked].sort()).toEqual(["lanes", "names"]);
  expect(textOf("strip")).not.toContain("could not be drawn");
});

test("if nothing can be had, every place states it", async () => {
  const { headline, kernel, drawn, textOf } = await mounted([
    ..."waterfall:kind steps names changes findings icicle".split(" "),
  ]);
  for (const name of ["strip", "waterfall", "changes", "names", "icicle"] as const) {
    expect(textOf(name)).toContain("could not be drawn");
  }
  expect(headline.textContent).toContain("The findings could not be drawn");
  kernel.broken.clear();
  press(headline);
  await vi.waitFor(() => expect(headline.textContent).toBe("told"));
  await vi.waitFor(() => expect(drawn).toHaveBeenCalledTimes(2));
  expect(textOf("waterfall")).not.toContain("could not be drawn");
});

test("parts of a kind that cannot be had say so below the kinds", async () => {
  const { charts, kernel, textOf } = await mounted(["waterfall:operator"]);
  await vi.waitFor(() => expect(textOf("waterfall")).toContain("The parts could not be drawn"));
  expect(textOf("waterfall")).toContain("Where the 1.00");
  kernel.broken.clear();
  press(charts.waterfall.el);
  await vi.waitFor(() => expect(textOf("waterfall")).not.toContain("could not be drawn"));
});

test("the legend does not wait for calls that could not be matched", () => {
  const el = document.createElement("div");
  const look = { colour: "change", swapped: false, theme: "light", counts: null } as const;
  const show = (again: (() => void) | null): void =>
    render(h(ColourLegend, { ...look, again, choose: vi.fn() }), el);
  show(null);
  expect(el.textContent).toContain("matching calls …");
  const again = vi.fn();
  show(again);
  expect(el.textContent).not.toContain("matching calls …");
  expect(el.textContent).toContain("calls could not be matched");
  press(el);
  expect(again).toHaveBeenCalledTimes(1);
});

test("titles state the ranks of matched calls, if one side has more ranks", async () => {
  const same = await mounted();
  expect(same.textOf("changes")).not.toContain("ranks");
  const rank_pairs: About["rank_pairs"] = [
    [0, 0],
    [1, 1],
  ];
  const { textOf } = await mounted([], { ...ABOUT, rank_pairs, by_rank_means: true });
  expect(textOf("changes")).toContain("What changed, mean of 2 pairs of ranks");
});
