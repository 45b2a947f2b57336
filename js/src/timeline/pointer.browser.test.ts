/** Wheel, mouse and fingers on the whole view, in a real browser. */

import { describe, expect, test } from "vitest";
import {
  client,
  drag,
  length,
  mount,
  pick,
  pointer,
  ready,
  type View,
  viewOf,
} from "../../test/app_view";
import { named } from "../../test/recorded";
import type { SelectionJson } from "../protocol/source";

test("the wheel pans with Shift", async () => {
  const view = mount();
  await ready(view);
  view.state.set("view", [10e6, 20e6]);
  await expect.poll(() => view.text(".hta-said")).toContain("10.0–20.0");
  const init = { bubbles: true, cancelable: true, ...client(view, 500, 150) };
  const wheel = new WheelEvent("wheel", { ...init, deltaY: 80, shiftKey: true });
  view.stage.dispatchEvent(wheel);
  expect(wheel.defaultPrevented).toBe(true);
  expect(viewOf(view)[0]).toBeGreaterThan(10e6);
  expect(Math.abs(length(viewOf(view)) - 10e6)).toBeLessThanOrEqual(1);
});

describe("the pointer", () => {
  test("a drag on the axis zooms, a Shift-drag pans, Escape calls a drag off", async () => {
    const view = mount();
    await ready(view);
    drag(view, [400, 45], [600, 45]);
    await expect.poll(() => viewOf(view) !== null && length(viewOf(view))).toBeLessThan(15e6);
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

  test("a click on the overview keeps the view inside the job", async () => {
    const view = mount();
    await ready(view);
    const [first, last] = view.scene.range;
    view.state.set("view", [last - 20e6, last]);
    await expect.poll(() => view.text(".hta-said")).toContain("(20.0 ms)");
    pointer(view, "pointerdown", 166, 18);
    pointer(view, "pointerup", 166, 18);
    await expect.poll(() => viewOf(view)).toEqual([first, first + 20e6]);
  });

  test("a click on a rank's name opens it, a click on nothing clears", async () => {
    const view = mount();
    await ready(view);
    const rows = (): number => view.root.querySelectorAll('[role="grid"] [role="row"]').length;
    await expect.poll(rows).toBe(3);
    pointer(view, "pointerdown", 30, 110);
    pointer(view, "pointerup", 30, 110);
    await expect.poll(rows).toBeGreaterThan(3);
    view.state.set("selection", { start_ns: 5, end_ns: 10 });
    pointer(view, "pointerdown", 165, 330);
    pointer(view, "pointerup", 165, 330);
    expect(view.state.get("selection")).toBeNull();
  });

  test("a click on a mark selects it, a second with Ctrl makes a set, a double-click zooms", async () => {
    const view = mount();
    await ready(view);
    const brief = named("AllReduce");
    view.state.set("view", [brief.start - brief.dur, brief.start + 4 * brief.dur]);
    await expect.poll(() => view.text(".hta-said")).toMatch(/^−?\d.*idle/);
    // The communication lane of the first rank, in the middle of its first kernel.
    const x = 164 + ((1.5 * brief.dur) / (5 * brief.dur)) * (1098 - 164 - 128);
    let y = 0;
    await expect
      .poll(() => {
        for (y = 136; y < 200; y += 4) {
          pointer(view, "pointerdown", x, y);
          pointer(view, "pointerup", x, y);
          if (view.state.get("selected_event") !== null) return true;
        }
        return false;
      })
      .toBe(true);
    await expect.poll(() => view.text(".hta-details h3")).toContain("AllReduce");
    pick(view, "cudaLaunchKernel");
    await expect.poll(() => view.text(".hta-details h3")).toBe("cudaLaunchKernel");
    await expect.poll(() => view.text(".hta-histogram")).toContain("events");
    pointer(view, "pointerdown", x, y, { ctrlKey: true });
    pointer(view, "pointerup", x, y, { ctrlKey: true });
    expect((view.state.get("selection") as SelectionJson).ids).toHaveLength(2);
    await expect.poll(() => view.text(".hta-area-head")).toContain("2 selected events");
    view.stage.dispatchEvent(
      new MouseEvent("dblclick", { bubbles: true, cancelable: true, ...client(view, x, y) }),
    );
    await expect.poll(() => length(viewOf(view)) / brief.dur).toBeCloseTo(1.4, 1);
  });

  test("the tooltip names what is under the pointer and leaves with it", async () => {
    const view = mount();
    await ready(view);
    pointer(view, "pointermove", 30, 110);
    await expect.poll(() => view.find(".hta-tooltip").hidden).toBe(false);
    expect(view.text(".hta-tooltip")).toContain("rank 0");
    expect(view.text(".hta-tooltip")).toContain("rank-0.json.gz");
    const pin = view.find(".hta-pin");
    expect(pin.hidden).toBe(false);
    pin.click();
    expect(view.state.get("pinned")).toEqual(["0"]);
    pointer(view, "pointerleave", -5, -5);
    await expect.poll(() => view.find(".hta-tooltip").hidden).toBe(true);
  });

  test("the tooltip goes when the page is scrolled below it", async () => {
    const view = mount();
    await ready(view);
    pointer(view, "pointermove", 30, 110);
    await expect.poll(() => view.find(".hta-tooltip").hidden).toBe(false);
    document.dispatchEvent(new Event("scroll"));
    await expect.poll(() => view.find(".hta-tooltip").hidden).toBe(true);
  });
});

describe("more of the pointer", () => {
  const shown = (view: View): boolean => !view.find(".hta-tooltip").hidden;

  test("over cells the tooltip counts, a click takes the longest, a double-click goes in", async () => {
    const view = mount();
    await ready(view);
    let x = 180;
    const y = 121;
    await expect
      .poll(() => {
        pointer(view, "pointermove", (x += 1), y);
        return view.text(".hta-tooltip");
      })
      .toMatch(/events?, [\d.]+ % busy/);
    await expect.poll(() => view.text(".hta-tooltip")).toMatch(/longest: (?!…)/);
    pointer(view, "pointerdown", x, y);
    pointer(view, "pointerup", x, y);
    await expect.poll(() => view.state.get("selected_event")).not.toBeNull();
    const [asked] = view.source.asked.filter(({ op }) => op === "cell");
    expect(asked?.request).toMatchObject({ lane: 0 });
    view.stage.dispatchEvent(
      new MouseEvent("dblclick", { bubbles: true, cancelable: true, ...client(view, x, y) }),
    );
    await expect
      .poll(() => length(viewOf(view) ?? view.scene.range) / length(view.scene.range))
      .toBeCloseTo(1 / 8, 2);
  });

  test("the tooltip goes while the view moves and comes back when it rests", async () => {
    const view = mount();
    await ready(view);
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
    const view = mount();
    await ready(view);
    const [from, to] = view.scene.range;
    const at = (x: number): number => from + ((x - 164) / (1098 - 164 - 128)) * (to - from);
    view.state.set("selection", {
      start_ns: Math.round(at(300)),
      end_ns: Math.round(at(500)),
      ranks: [0],
    });
    drag(view, [500, 130], [640, 130], { altKey: true });
    const selection = view.state.get("selection") as SelectionJson;
    expect(selection.start_ns).toBe(Math.round(at(300)));
    expect(Math.abs((selection.end_ns ?? 0) - at(640)) / (to - from)).toBeLessThan(0.002);
    expect(selection.ranks).toEqual([0]);
  });

  test("a drag snaps to the edge of an event nearby, with Alt it does not", async () => {
    const view = mount();
    await ready(view);
    const brief = named("AllReduce");
    view.state.set("view", [brief.start - brief.dur, brief.start + 4 * brief.dur]);
    await expect.poll(() => view.text(".hta-said")).toMatch(/^\d.*idle|^−/);
    const width = 1098 - 164 - 128;
    const x = 164 + width / 5;
    // The height of the communication lane is found by its tooltip.
    let y = 0;
    await expect
      .poll(async () => {
        for (y = 133; y < 160; y += 3) {
          pointer(view, "pointermove", x + 40, y);
          await new Promise(requestAnimationFrame);
          await new Promise(requestAnimationFrame);
          if (view.text(".hta-tooltip").includes("AllReduce")) return true;
        }
        return false;
      })
      .toBe(true);
    drag(view, [x + 9, y], [x + 300, y]);
    expect((view.state.get("selection") as SelectionJson).start_ns).toBe(brief.start);
    view.state.set("selection", null);
    drag(view, [x + 9, y], [x + 300, y], { altKey: true });
    expect((view.state.get("selection") as SelectionJson).start_ns).toBeGreaterThan(brief.start);
  });

  test("the overview moves, widens and sets the view", async () => {
    const view = mount();
    await ready(view);
    const whole = length(view.scene.range);
    const width = 1098 - 164 - 128;
    drag(view, [164 + width * 0.25, 16], [164 + width * 0.5, 16]);
    await expect.poll(() => length(viewOf(view) ?? [0, whole]) / whole).toBeCloseTo(0.25, 2);
    await expect.poll(() => viewOf(view)[0] / whole).toBeCloseTo(0.25, 2);
    await expect.poll(() => view.text(".hta-said")).toContain("idle");
    drag(view, [164 + width * 0.4, 16], [164 + width * 0.6, 16]);
    expect(viewOf(view)[0] / whole).toBeCloseTo(0.45, 2);
    drag(view, [164 + width * 0.7, 16], [164 + width * 0.9, 16]);
    expect(viewOf(view)[0] / whole).toBeCloseTo(0.45, 2);
    expect(viewOf(view)[1] / whole).toBeCloseTo(0.9, 2);
  });

  test("two fingers zoom, one pans", async () => {
    const view = mount();
    await ready(view);
    const whole = length(view.scene.range);
    const touch = { pointerType: "touch" };
    pointer(view, "pointerdown", 400, 150, { ...touch, pointerId: 1 });
    pointer(view, "pointerdown", 600, 150, { ...touch, pointerId: 2 });
    pointer(view, "pointermove", 300, 150, { ...touch, pointerId: 1 });
    pointer(view, "pointermove", 700, 150, { ...touch, pointerId: 2 });
    pointer(view, "pointerup", 700, 150, { ...touch, pointerId: 2 });
    pointer(view, "pointerup", 300, 150, { ...touch, pointerId: 1 });
    expect(length(viewOf(view)) / whole).toBeCloseTo(0.5, 1);
    const before = viewOf(view);
    drag(view, [500, 150], [300, 150], touch);
    expect(viewOf(view)[0]).toBeGreaterThan(before[0]);
    expect(view.state.get("selection")).toBeNull();
  });

  test("the tooltip of a counter shows its range", async () => {
    const view = mount();
    await ready(view);
    view.by("button", "Filter tracks").click();
    const input = view.by("textbox", "Show only tracks that match") as HTMLInputElement;
    input.value = "allocated";
    input.dispatchEvent(new Event("input", { bubbles: true }));
    await expect
      .poll(() => {
        pointer(view, "pointermove", 420, 150);
        return view.text(".hta-tooltip");
      })
      .toMatch(/memory \(bytes\) allocated.*1\.\d+ GB/);
  });
});
