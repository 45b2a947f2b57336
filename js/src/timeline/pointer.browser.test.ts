/** Wheel, mouse and touch on the whole view in a real browser. */

import { describe, expect, test, vi } from "vitest";
import {
  clientPosition,
  doubleClick,
  drag,
  spanLength,
  openTimeline,
  pick,
  pointer,
  tap,
  type View,
  viewOf,
} from "../../test/app_view";
import { fill } from "../../test/fill";
import { eventsOf, eventNamed } from "../../test/recorded";
import type { Brief, SelectionJson } from "../protocol/source";

const shown = (view: View): boolean => !view.find(".hta-tooltip").hidden;
const selected = (view: View): SelectionJson => view.state.get("selection") as SelectionJson;
/** Left edge and width of the lanes in px. */
const LEFT = 164;
const WIDTH = 1098 - 164 - 128;

/** Show the first collective of rank 0 with a fifth of the view before it. */
async function atCollective(view: View): Promise<Brief> {
  const brief = eventNamed("AllReduce");
  view.state.set("view", [brief.start - brief.dur, brief.start + 4 * brief.dur]);
  await expect.poll(() => view.text(".hta-said")).toMatch(/^−?\d.*idle/);
  return brief;
}

test("the wheel pans with Shift", async () => {
  const view = await openTimeline();
  view.state.set("view", [10e6, 20e6]);
  await expect.poll(() => view.text(".hta-said")).toContain("10.0–20.0");
  const init = { bubbles: true, cancelable: true, ...clientPosition(view, 500, 150) };
  const wheel = new WheelEvent("wheel", { ...init, deltaY: 80, shiftKey: true });
  view.stage.dispatchEvent(wheel);
  expect(wheel.defaultPrevented).toBe(true);
  expect(viewOf(view)[0]).toBeGreaterThan(10e6);
  expect(Math.abs(spanLength(viewOf(view)) - 10e6)).toBeLessThanOrEqual(1);
});

describe("the pointer", () => {
  test("a drag on the axis zooms, a Shift-drag pans, Escape cancels a drag", async () => {
    const view = await openTimeline();
    drag(view, [400, 45], [600, 45]);
    await expect.poll(() => viewOf(view) !== null && spanLength(viewOf(view))).toBeLessThan(15e6);
    await expect.poll(() => view.text(".hta-said")).toMatch(/idle|\d–/);
    const before = viewOf(view);
    drag(view, [400, 150], [300, 150], { shiftKey: true });
    expect(viewOf(view)[0]).toBeGreaterThan(before[0]);
    pointer(view, "pointerdown", 400, 150);
    pointer(view, "pointermove", 500, 150);
    view.root.focus();
    view.press("Escape");
    pointer(view, "pointerup", 500, 150);
    expect(view.state.get("selection")).toBeNull();
  });

  test("a click on a rank's name opens it, a click on empty space clears the selection", async () => {
    const view = await openTimeline();
    const rows = (): number => view.root.querySelectorAll('[role="grid"] [role="row"]').length;
    await expect.poll(rows).toBe(3);
    tap(view, 30, 110);
    await expect.poll(rows).toBeGreaterThan(3);
    view.state.set("selection", { start_ns: 5, end_ns: 10 });
    tap(view, 165, 330);
    expect(view.state.get("selection")).toBeNull();
  });

  test("a click on a mark selects it, a second with Ctrl makes a set, a double-click zooms", async () => {
    const view = await openTimeline();
    const brief = await atCollective(view);
    // The communication lane of the first rank, at the middle of the first kernel.
    const x = LEFT + 0.3 * WIDTH;
    let y = 132;
    await expect
      .poll(() => {
        y = y < 196 ? y + 4 : 136;
        tap(view, x, y);
        return view.state.get("selected_event");
      })
      .not.toBeNull();
    await expect.poll(() => view.text(".hta-details h3")).toContain("AllReduce");
    pick(view, "ProfilerStep#0");
    await expect.poll(() => view.text(".hta-histogram")).toContain("The only event of this name");
    expect(view.text(".hta-doings")).not.toContain("of this name");
    pick(view, "cudaLaunchKernel");
    await expect.poll(() => view.text(".hta-details h3")).toBe("cudaLaunchKernel");
    await expect.poll(() => view.text(".hta-histogram")).toContain("events");
    expect(view.text(".hta-doings")).toMatch(/All [2-9]\d* of this name/);
    tap(view, x, y, { ctrlKey: true });
    expect(selected(view).ids).toHaveLength(2);
    await expect.poll(() => view.text(".hta-area-head")).toContain("2 selected events");
    doubleClick(view, x, y);
    await expect.poll(() => spanLength(viewOf(view)) / brief.dur).toBeCloseTo(1.4, 1);
  });

  test("the tooltip names what is under the pointer, and disappears with it or on a scroll", async () => {
    const view = await openTimeline();
    pointer(view, "pointermove", 30, 110);
    await expect.poll(() => shown(view)).toBe(true);
    expect(view.text(".hta-tooltip")).toContain("rank 0");
    expect(view.text(".hta-tooltip")).toContain("rank-0.trace.json.gz");
    // The gutter shows "comm" if the whole word does not fit.
    expect(view.text(".hta-tooltip")).toContain("Lanes: compute, communication, ");
    const pin = view.find(".hta-pin");
    expect(pin.hidden).toBe(false);
    pin.click();
    expect(view.state.get("pinned")).toEqual(["0"]);
    pointer(view, "pointerleave", -5, -5);
    await expect.poll(() => shown(view)).toBe(false);
    pointer(view, "pointermove", 30, 110);
    await expect.poll(() => shown(view)).toBe(true);
    document.dispatchEvent(new Event("scroll"));
    await expect.poll(() => shown(view)).toBe(false);
  });

  test("over cells the tooltip counts, a click selects the longest, a double-click zooms", async () => {
    const view = await openTimeline();
    let x = 180;
    const y = 121;
    await expect
      .poll(() => {
        pointer(view, "pointermove", (x += 1), y);
        return view.text(".hta-tooltip");
      })
      .toMatch(/events?, [\d.]+ % busy/);
    await expect.poll(() => view.text(".hta-tooltip")).toMatch(/longest: (?!…)/);
    tap(view, x, y);
    await expect.poll(() => view.state.get("selected_event")).not.toBeNull();
    const [asked] = view.source.asked.filter(({ op }) => op === "cell");
    expect(asked?.request).toMatchObject({ lane: 0 });
    doubleClick(view, x, y);
    await expect
      .poll(() => spanLength(viewOf(view) ?? view.scene.range) / spanLength(view.scene.range))
      .toBeCloseTo(1 / 8, 2);
  });

  test("the tooltip disappears while the view moves and reappears afterwards", async () => {
    const view = await openTimeline();
    pointer(view, "pointermove", 400, 45);
    await expect.poll(() => shown(view)).toBe(true);
    const said = view.text(".hta-tooltip");
    view.root.focus();
    view.press("d");
    await expect.poll(() => shown(view)).toBe(false);
    await expect.poll(() => shown(view)).toBe(true);
    expect(view.text(".hta-tooltip")).not.toBe(said);
  });

  test("an edge of the selection follows the pointer, the other stays", async () => {
    const view = await openTimeline();
    const [from, to] = view.scene.range;
    const at = (x: number): number => from + ((x - LEFT) / WIDTH) * (to - from);
    view.state.set("selection", {
      start_ns: Math.round(at(300)),
      end_ns: Math.round(at(500)),
      ranks: [0],
    });
    drag(view, [500, 130], [640, 130], { altKey: true });
    const { start_ns, end_ns, ranks } = selected(view);
    expect([start_ns, ranks]).toEqual([Math.round(at(300)), [0]]);
    expect(Math.abs((end_ns ?? 0) - at(640)) / (to - from)).toBeLessThan(0.002);
  });

  test("a drag snaps to the edge of an event nearby, with Alt it does not", async () => {
    const view = await openTimeline();
    const brief = await atCollective(view);
    const x = LEFT + WIDTH / 5;
    // The communication lane is located by its tooltip.
    let y = 130;
    await expect
      .poll(async () => {
        y = y < 157 ? y + 3 : 133;
        pointer(view, "pointermove", x + 40, y);
        for (let turn = 0; turn < 2; turn += 1) await new Promise(requestAnimationFrame);
        return view.text(".hta-tooltip");
      })
      .toContain("AllReduce");
    drag(view, [x + 9, y], [x + 300, y]);
    expect(selected(view).start_ns).toBe(brief.start);
    view.state.set("selection", null);
    drag(view, [x + 9, y], [x + 300, y], { altKey: true });
    expect(selected(view).start_ns).toBeGreaterThan(brief.start);
  });

  test("the overview pans, resizes and sets the view", async () => {
    const view = await openTimeline();
    const jobLength = spanLength(view.scene.range);
    const across = (from: number, to: number): void =>
      drag(view, [LEFT + WIDTH * from, 16], [LEFT + WIDTH * to, 16]);
    across(0.25, 0.5);
    await expect
      .poll(() => spanLength(viewOf(view) ?? [0, jobLength]) / jobLength)
      .toBeCloseTo(0.25, 2);
    await expect.poll(() => viewOf(view)[0] / jobLength).toBeCloseTo(0.25, 2);
    await expect.poll(() => view.text(".hta-said")).toContain("idle");
    across(0.4, 0.6);
    expect(viewOf(view)[0] / jobLength).toBeCloseTo(0.45, 2);
    across(0.7, 0.9);
    expect(viewOf(view)[0] / jobLength).toBeCloseTo(0.45, 2);
    expect(viewOf(view)[1] / jobLength).toBeCloseTo(0.9, 2);
    // A click near the end of the job keeps the view inside the job.
    const [first, last] = view.scene.range;
    view.state.set("view", [last - 20e6, last]);
    await expect.poll(() => view.text(".hta-said")).toContain("(20.0 ms)");
    tap(view, 166, 18);
    await expect.poll(() => viewOf(view)).toEqual([first, first + 20e6]);
  });

  test("two fingers zoom, one pans", async () => {
    const view = await openTimeline();
    const jobLength = spanLength(view.scene.range);
    const touch = { pointerType: "touch" };
    const fingers = (type: string, ...places: [pointerId: number, x: number][]): void =>
      places.forEach(([pointerId, x]) => pointer(view, type, x, 150, { ...touch, pointerId }));
    fingers("pointerdown", [1, 400], [2, 600]);
    fingers("pointermove", [1, 300], [2, 700]);
    fingers("pointerup", [2, 700], [1, 300]);
    expect(spanLength(viewOf(view)) / jobLength).toBeCloseTo(0.5, 1);
    const before = viewOf(view);
    drag(view, [500, 150], [300, 150], touch);
    expect(viewOf(view)[0]).toBeGreaterThan(before[0]);
    expect(view.state.get("selection")).toBeNull();
  });

  test("the tooltip of a counter shows its range", async () => {
    const view = await openTimeline();
    view.by("button", "Filter tracks").click();
    fill(view.by("textbox", "Show only tracks that match"), "allocated");
    await expect
      .poll(() => {
        pointer(view, "pointermove", 420, 150);
        return view.text(".hta-tooltip");
      })
      .toMatch(/memory \(bytes\) allocated.*1\.\d+ GB/);
  });
});

test("the first plain turn of the wheel shows the zoom hint, buttons zoom at the middle", async () => {
  const view = await openTimeline();
  const hint = view.find(".hta-wheel-hint");
  const turn = (init: WheelEventInit) =>
    view.stage.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, ...init }));
  expect(hint.hidden).toBe(true);
  turn({ deltaY: 40 });
  await expect.poll(() => hint.hidden).toBe(false);
  expect(hint.textContent).toContain("wheel zooms");
  turn({ deltaY: -40, ctrlKey: true });
  await expect.poll(() => hint.hidden).toBe(true);
  turn({ deltaY: 40 });
  expect(hint.hidden).toBe(true);
  view.state.set("view", [1e7, 5e7]);
  await expect.poll(() => view.app.ctx.stage.view()).toEqual([1e7, 5e7]);
  view.by("button", "Zoom in").click();
  await expect.poll(() => viewOf(view)).toEqual([2e7, 4e7]);
  view.by("button", "Zoom out").click();
  await expect.poll(() => viewOf(view)).toEqual([1e7, 5e7]);
});

test("a click on idle time selects it and moves neither the view nor its row", async () => {
  const view = await openTimeline();
  const { stage } = view.app.ctx;
  const before = stage.view();
  const device = view.scene.ranks[0]!.summary.filter(({ role }) => role !== "cpu");
  const events = device.flatMap(({ lane }) => eventsOf(lane)).sort((a, b) => a.start - b.start);
  let idleFrom = events[0]!.start;
  const next = events.find(({ start, dur }) => {
    if (start - idleFrom > 5e5) return true;
    idleFrom = Math.max(idleFrom, start + dur);
    return false;
  })!;
  const row = () => stage.rows()[0]!;
  const { top } = row();
  tap(view, stage.xOf((idleFrom + next.start) / 2), top + 8);
  await expect.poll(() => view.text(".hta-gap h3")).toContain("GPU idle");
  expect(stage.view()).toEqual(before);
  expect(row().top).toBe(top);
  const panel = view.find(".hta-dock").getBoundingClientRect();
  const stageTop = view.stage.getBoundingClientRect().top;
  const [rowTop, rowBottom] = [stageTop + top, stageTop + top + row().height];
  expect(panel.top >= rowBottom || panel.bottom <= rowTop).toBe(true);
  view.root.focus();
  view.press("f");
  await expect.poll(() => spanLength(viewOf(view))).toBeLessThan(spanLength(before) / 2);
  view.root.parentElement!.style.width = "560px";
  const facts = view.all(".hta-gap dd:not(.hta-line)");
  const cut = facts.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth);
  expect(cut.map(({ textContent }) => textContent)).toEqual([]);
});

test.each(["start", "middle"])(
  "a zoom whose frames are late from its %s is in the state",
  async (from) => {
    const view = await openTimeline();
    const { stage } = view.app.ctx;
    const [start] = view.scene.range;
    const { requestAnimationFrame: nextFrame } = window;
    const before = stage.view();
    const frames = vi.spyOn(window, "requestAnimationFrame").mockImplementation((draw) => {
      const isLate = from === "start" || stage.view() !== before;
      return isLate ? window.setTimeout(() => nextFrame(draw), 1000) : nextFrame(draw);
    });
    view.state.set("selection", { start_ns: start + 1e6, end_ns: start + 3e6 });
    view.root.focus();
    view.press("f");
    await expect.poll(() => viewOf(view)).toEqual([start + 1e6, start + 3e6]);
    frames.mockRestore();
  },
);

test("in a low place, rows scroll up so that details cover neither their row nor the ruler", async () => {
  const view = await openTimeline();
  const { stage } = view.app.ctx;
  const all = view.stage.getBoundingClientRect().height;
  const edge = view.by("separator", "Height of the rows");
  for (const height of [all - 24, all - 48, all - 72, all - 96]) {
    edge.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
    await expect.poll(() => view.stage.getBoundingClientRect().height).toBe(height);
  }
  await expect.poll(() => stage.rows()[1]!.height).toBeLessThan(50);
  const second = stage.rows()[1]!;
  const place = view.root.parentElement!;
  const stageTop = view.stage.getBoundingClientRect().top - place.getBoundingClientRect().top;
  place.style.cssText = `overflow: hidden; height: ${stageTop + second.top + second.height + 130}px`;
  const event = eventsOf(view.scene.ranks[1]!.summary[0]!.lane)[0]!;
  tap(view, stage.xOf(event.start + event.dur / 2), second.top + 8);
  await expect.poll(() => view.text(".hta-dock")).toContain("rank 1");
  const ranges = () => {
    const { top, bottom } = view.find(".hta-dock").getBoundingClientRect();
    const { top: origin } = view.stage.getBoundingClientRect();
    return { top: top - origin, bottom: bottom - origin, row: stage.rows()[1]! };
  };
  await expect.poll(() => ranges().row.top).toBeLessThan(second.top);
  const { top, row } = ranges();
  expect(row.top).toBeGreaterThanOrEqual(stage.geometry.rowsTop);
  expect(top).toBeGreaterThanOrEqual(row.top + row.height);
});

test("a lane that is empty while other streams run names their work; a click selects the time", async () => {
  const view = await openTimeline();
  const { stage } = view.app.ctx;
  const [compute, communication] = view.scene.ranks[0]!.summary.map(({ lane }) => eventsOf(lane));
  const isBusy = (time: number) =>
    compute!.some(({ start, dur }) => start <= time && time < start + dur);
  const middle = ({ start, dur }: Brief) => Math.floor(start + dur / 2);
  const call = communication!.find((event) => event.dur > 5e5 && !isBusy(middle(event)))!;
  const time = middle(call);
  const at = (): [number, number] => [stage.xOf(time), stage.rows()[0]!.top + 8];
  await expect
    .poll(() => {
      pointer(view, "pointermove", ...at());
      return view.text(".hta-tooltip");
    })
    .toMatch(/^No compute for [\d.]+\s[mµ]s\s*AllReduce.* runs.* on stream \d+, [>\d]+\s%/);
  tap(view, ...at());
  await expect.poll(() => view.state.get("selection")).not.toBeNull();
  const { start_ns: start, end_ns: end, ranks } = view.state.get("selection") as SelectionJson;
  expect([start! <= time && time < end!, ranks]).toEqual([true, [0]]);
});
