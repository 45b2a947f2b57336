/** Parts of a comparison report their failures in place and can be requested again. */

import { h, render } from "preact";
import { expect, test, vi } from "vitest";
import { contextOf, frame, FrameSource } from "../../test/two_runs";
import { DiffCharts } from "./charts";
import type { DiffFacts } from "./frames";
import type { TimelineLink } from "./link";
import { Headline } from "./pane";
import { ColorLegend } from "./legend";

const totals = { before_ns: 5e6, after_ns: 6e6 };
const nothing = frame({}, totals);
const kinds = frame(
  { kind: ["compute"], before_ns: [5e6], after_ns: [6e6], diff_ns: [1e6] },
  totals,
);

/** The headline without findings. */
const TOLD = "Nothing changed beyond the noise.";

async function mounted(broken: string[] = [], about: Partial<DiffFacts> = {}) {
  const lacks = new Set(broken);
  const kernel = new FrameSource((name) => {
    if (lacks.has(name)) return undefined;
    return name === "waterfall:kind" ? kinds : nothing;
  });
  const ctx = contextOf({ steps: 1, ...about }, kernel);
  const part = new Headline(ctx);
  const charts = new DiffCharts(ctx, part, {} as TimelineLink);
  const load = vi.fn(() => charts.load());
  ctx.reloadRequested.on(() => void load());
  const { el: headline } = part;
  charts.strip.width.value = 800;
  const textOf = (name: "strip" | "waterfall" | "changes" | "names" | "icicle"): string =>
    charts[name].el.textContent ?? "";
  await load();
  await new Promise((resolve) => setTimeout(resolve));
  return { kernel, lacks, charts, headline, load, textOf };
}

function press(el: HTMLElement): void {
  const button = [...el.querySelectorAll("button")].find(
    (candidate) => candidate.textContent === "Try again",
  );
  button!.click();
}

test("one frame that fails leaves the others drawn, and is requested again alone", async () => {
  const { kernel, lacks, charts, headline, load, textOf } = await mounted(["lanes", "names"]);
  expect(textOf("strip")).toContain("The steps could not be drawn");
  expect(textOf("names")).toContain("Names could not be drawn");
  expect(textOf("names")).toContain("no names");
  expect(textOf("waterfall")).toContain("Where the 1.00");
  expect(textOf("changes")).toContain("Nothing changed");
  expect(headline.textContent).toContain(TOLD);
  expect(load).toHaveResolvedTimes(1);
  lacks.clear();
  kernel.asked.length = 0;
  press(charts.names.el);
  await vi.waitFor(() => expect(textOf("names")).not.toContain("could not be drawn"));
  await vi.waitFor(() => expect(load).toHaveResolvedTimes(2));
  expect([...kernel.asked].sort()).toEqual(["frame lanes", "frame names"]);
  expect(textOf("strip")).not.toContain("could not be drawn");
});

test("places of frames that are not loaded are marked; a place without content is empty", async () => {
  const { load } = DiffCharts.prototype;
  const loading = vi.spyOn(DiffCharts.prototype, "load").mockResolvedValue();
  const { charts, headline } = await mounted();
  const skeletons = [headline, charts.waterfall.el, charts.names.el].map(
    (el) => el.querySelectorAll(".hta-skeleton").length,
  );
  expect(skeletons).toEqual([1, 1, 1]);
  loading.mockRestore();
  await load.call(charts);
  await vi.waitFor(() => expect(headline.textContent).toContain(TOLD));
  expect([headline, charts.waterfall.el].map((el) => el.querySelector(".hta-skeleton"))).toEqual([
    null,
    null,
  ]);
});

test("if all requests fail, each place states it", async () => {
  const { headline, lacks, load, textOf } = await mounted([
    ..."waterfall:kind steps names changes findings icicle".split(" "),
  ]);
  for (const name of ["strip", "waterfall", "changes", "names", "icicle"] as const) {
    expect(textOf(name)).toContain("could not be drawn");
  }
  expect(headline.textContent).toContain("The findings could not be drawn");
  lacks.clear();
  press(headline);
  await vi.waitFor(() => expect(headline.textContent).toContain(TOLD));
  await vi.waitFor(() => expect(load).toHaveResolvedTimes(2));
  expect(textOf("waterfall")).not.toContain("could not be drawn");
});

test("a failed request for the parts of a kind is stated below the kinds", async () => {
  const { charts, lacks, textOf } = await mounted(["waterfall:operator"]);
  await vi.waitFor(() => expect(textOf("waterfall")).toContain("The parts could not be drawn"));
  expect(textOf("waterfall")).toContain("Where the 1.00");
  lacks.clear();
  press(charts.waterfall.el);
  await vi.waitFor(() => expect(textOf("waterfall")).not.toContain("could not be drawn"));
});

test("the legend does not wait for unmatched calls", () => {
  const el = document.createElement("div");
  const look = { color: "change", swapped: false, theme: "light", counts: null } as const;
  const show = (again: (() => void) | null): void =>
    render(h(ColorLegend, { ...look, again, choose: vi.fn() }), el);
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
  const rank_pairs: DiffFacts["rank_pairs"] = [
    [0, 0],
    [1, 1],
  ];
  const { textOf } = await mounted([], { rank_pairs, by_rank_means: true });
  expect(textOf("changes")).toContain("What changed, mean of 2 pairs of ranks");
});

test("operators without time are hidden, as if the panel had none", async () => {
  const { icicle } = (await mounted()).charts;
  for (const width of [0, 800, 0]) {
    icicle.width.value = width;
    await new Promise((resolve) => setTimeout(resolve));
    expect([width, icicle.el.hidden]).toEqual([width, true]);
  }
});
