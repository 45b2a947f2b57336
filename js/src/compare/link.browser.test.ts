/** User actions before the alignment has arrived are applied to the partner afterwards. */

import { expect, test } from "vitest";
import { makeBox, toolsOutside } from "../../test/finding";
import { freshState, LooseModel } from "../../test/model";
import { eventNamed, openPage, recordedScene } from "../../test/recorded";
import { ABOUT, frame } from "../../test/two_runs";
import { Watched } from "../../test/watched";
import "../entries/widgets.css";
import { FULL_SELECTION } from "../protocol/selection";
import { applyComparisonAddress } from "./address";
import { DiffContext, type DiffOptions } from "./context";
import { TimelinePair } from "./timelines";

/** The second run does the same as the first, this much later. */
const SHIFT_NS = 1000;
const before = recordedScene();
const [start, end] = before.range;
const after = { ...before, range: [start + SHIFT_NS, end + SHIFT_NS] as [number, number] };
const WINDOW: [number, number] = [start + 100, start + 900];
const segments = frame({
  side: ["before", "after"],
  own_start_ns: [start, start + SHIFT_NS],
  own_end_ns: [end, end + SHIFT_NS],
  common_start_ns: [start, start],
  common_end_ns: [end, end],
});

async function openPair(
  views: [[number, number], [number, number]] | null = null,
  rank_pairs = ABOUT.rank_pairs,
  width = 1100,
) {
  const { box, end: aborter } = makeBox(width);
  const states = [freshState(), freshState()] as const;
  for (const side of [0, 1] as const) states[side].set("view", views?.[side] ?? null);
  const source = new Watched(openPage());
  source.replies.set("frame", () => segments);
  const model = new LooseModel({
    _about: { ...ABOUT, rank_pairs },
    coupled: true,
    align: "steps",
    height: 300,
  });
  const options = { scenes: [before, after], states, source, model, live: null } as const;
  const ctx = new DiffContext({ ...options, signal: aborter.signal } satisfies DiffOptions);
  const pair = new TimelinePair(ctx);
  box.className = "hta-root hta-diff";
  box.append(pair.el);
  const [canvas] = pair.el.getElementsByTagName("canvas");
  await expect.poll(() => canvas?.clientWidth).toBeGreaterThan(0);
  return { pair, ctx, states, source };
}

test.each([340, 480, 700])(
  "all buttons are in the toolbars of timelines at %i px",
  async (width) => {
    const { pair } = await openPair(null, ABOUT.rank_pairs, width);
    pair.el.parentElement!.classList.add("hta-tight");
    expect(pair.el.querySelectorAll(".hta-toolbar .hta-button").length).toBeGreaterThan(5);
    expect(toolsOutside(pair.el)).toEqual([]);
  },
);

test.each([400, 700])("names and status lines of both sides differ at %i px", async (width) => {
  const { pair } = await openPair(null, ABOUT.rank_pairs, width);
  pair.el.parentElement!.classList.add("hta-tight", "hta-diff-narrow");
  const sides = (): string[] =>
    [...pair.el.querySelectorAll(".hta-diff-side-status .hta-words")]
      .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
      .map((line) => getComputedStyle(line, "::before").content);
  expect(sides()).toEqual(['"before"', '"after"']);
  const boxes = (): DOMRect[] =>
    [...pair.el.querySelectorAll(".hta-toolbar .hta-title")].map((title) =>
      title.getBoundingClientRect(),
    );
  await expect.poll(() => Math.abs(boxes()[0]!.top - boxes()[1]!.top)).toBeLessThan(1);
  expect(boxes()[0]!.right).toBeLessThan(boxes()[1]!.left);
});

test("a window zoomed before the alignment arrives is shown on both sides afterwards", async () => {
  const { pair, states } = await openPair();
  pair.el.querySelector<HTMLElement>("[aria-label='Zoom in']")!.click();
  await pair.link.realign(false);
  const [view, partnerView] = states.map((state) => state.get("view") as [number, number]);
  expect(view![1] - view![0]).toBeLessThan(end - start);
  expect(partnerView).toEqual(view!.map((time) => time + SHIFT_NS));
});

test("a selection made before the alignment arrives is shifted, not dropped", async () => {
  const { pair, states } = await openPair();
  const [start_ns, end_ns] = WINDOW;
  states[0].set("selection", { ...FULL_SELECTION, start_ns, end_ns });
  await pair.link.realign(false);
  const shifted = { start_ns: start_ns + SHIFT_NS, end_ns: end_ns + SHIFT_NS };
  expect(states[1].get("selection")).toMatchObject(shifted);
});

test("a selection has the partners of its ranks, and the same tracks, on the other side", async () => {
  const { pair, states } = await openPair(null, [
    [0, 1],
    [1, 0],
  ]);
  await pair.link.realign(false);
  const chosen = { ranks: [0], tracks: ["stream 7", [1, "stream 20"]], query: "kind == 'compute'" };
  states[0].set("selection", { ...FULL_SELECTION, ...chosen });
  const partner = { ...chosen, ranks: [1], tracks: ["stream 7", [0, "stream 20"]] };
  expect(states[1].get("selection")).toEqual({ ...FULL_SELECTION, ...partner });
});

test("an event selected before the alignment arrives starts in line with its partner", async () => {
  const { pair, ctx, states, source } = await openPair();
  const [event, partner] = [eventNamed("gemm"), eventNamed("nccl")];
  source.replies.set("partner", () => ({ rank: 0, id: partner.id, status: null, node: -1 }));
  states[0].set("selected_event", [event.rank, event.id]);
  await expect.poll(() => states[1].get("selected_event")).toEqual([partner.rank, partner.id]);
  await pair.link.realign(false);
  states[0].set("view", WINDOW);
  const shift = partner.start - event.start;
  await expect.poll(() => states[1].get("view")).toEqual(WINDOW.map((time) => time + shift));
  expect(ctx.statusText.value).toBeNull();
});

test("the details of a pair of events cover the row of neither", async () => {
  const { pair, states, source } = await openPair();
  const [event, partner] = [eventNamed("gemm"), eventNamed("nccl")];
  source.replies.set("partner", () => ({ rank: 0, id: partner.id, status: null, node: -1 }));
  const box = pair.el.parentElement!;
  box.classList.add("hta-diff-roomy");
  box.style.cssText = "height: 430px; overflow: auto";
  states[0].set("selected_event", [event.rank, event.id]);
  await expect.poll(() => states[1].get("selected_event")).toEqual([partner.rank, partner.id]);
  const docks = [...pair.el.querySelectorAll<HTMLElement>(".hta-dock")];
  const tops = (): number[] => docks.map((dock) => Math.round(dock.getBoundingClientRect().top));
  await expect.poll(() => docks.every((dock) => dock.classList.contains("hta-over"))).toBe(true);
  await expect.poll(() => tops()[0]! - tops()[1]!).toBe(0);
});

test("windows of both sides from an address stay, when it is opened and when another one is", async () => {
  const opened: [[number, number], [number, number]] = [WINDOW, [start + 50, start + 700]];
  const { pair, ctx, states } = await openPair(opened);
  await pair.link.realign(false);
  expect(states.map((state) => state.get("view"))).toEqual(opened);
  const text = `before=view%3D${start}_${start + 300}&after=view%3D${start + 40}_${start + 90}`;
  ctx.options.model.set("_address", { base: "", state: text, isPage: true, panels: [] });
  pair.link.changeBoth(() => applyComparisonAddress(ctx.options));
  expect(states.map((state) => state.get("view"))).toEqual([
    [start, start + 300],
    [start + 40, start + 90],
  ]);
});
