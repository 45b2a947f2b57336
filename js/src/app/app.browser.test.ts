/** The whole view in a real browser, on a made-up job. */

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { freshState, type LooseModel, withProblems } from "../../dev/app_harness";
import { AppSource } from "../../dev/app_source";
import { type FakeJob, fakeJob } from "../../dev/fake_job";
import type { SelectionJson, Span } from "../contract";
import { createStage } from "../stage";
import { TimelineApp } from "./app";
import "../entries/timeline.css";

interface View {
  root: HTMLElement;
  stage: HTMLElement;
  state: LooseModel;
  source: AppSource;
  job: FakeJob;
  app: TimelineApp;
  end: AbortController;
  find(selector: string): HTMLElement;
  text(selector: string): string;
  press(key: string, more?: KeyboardEventInit): KeyboardEvent;
}

let ends: AbortController[] = [];
beforeEach(() => {
  ends = [];
});
afterEach(() => {
  for (const end of ends) end.abort();
  document.body.replaceChildren();
});

const CODES: Record<string, string> = { "/": "Slash", " ": "Space" };

function mount(
  make: (job: FakeJob, source: AppSource) => void = () => {},
  place: ParentNode = document.body,
): View {
  const job = fakeJob(3, 1);
  const source = new AppSource(job);
  make(job, source);
  const state = freshState();
  const end = new AbortController();
  ends.push(end);
  const box = document.createElement("div");
  box.style.width = "1100px";
  place.append(box);
  const app = new TimelineApp(box, {
    scene: job.scene,
    source,
    state,
    height: 400,
    signal: end.signal,
    makeStage: createStage,
  });
  const root = box.firstElementChild as HTMLElement;
  const find = (selector: string): HTMLElement => {
    const node = root.querySelector<HTMLElement>(selector);
    if (node === null) throw new Error(`nothing is ${selector}`);
    return node;
  };
  return {
    root,
    stage: find(".hta-stage"),
    state,
    source,
    job,
    app,
    end,
    find,
    text: (selector) =>
      (root.querySelector(selector)?.textContent ?? "").replace(/[\u2009\u202f]/g, " "),
    press: (key, more = {}) => {
      const code = CODES[key] ?? (/^[a-z]$/i.test(key) ? `Key${key.toUpperCase()}` : key);
      const init = { key, code, bubbles: true, cancelable: true, composed: true, ...more };
      const focus = (root.getRootNode() as Document | ShadowRoot).activeElement;
      const target = focus !== null && root.contains(focus) ? focus : root;
      const event = new KeyboardEvent("keydown", init);
      target.dispatchEvent(event);
      target.dispatchEvent(new KeyboardEvent("keyup", init));
      return event;
    },
  };
}

/** A point of the stage, as a client position. */
function client(view: View, x: number, y: number): { clientX: number; clientY: number } {
  const box = view.stage.getBoundingClientRect();
  return { clientX: box.left + x, clientY: box.top + y };
}

function pointer(
  view: View,
  type: string,
  x: number,
  y: number,
  more: PointerEventInit = {},
): void {
  const init = { bubbles: true, cancelable: true, pointerId: 1, ...client(view, x, y), ...more };
  view.stage.dispatchEvent(new PointerEvent(type, init));
}

function drag(
  view: View,
  from: [number, number],
  to: [number, number],
  more?: PointerEventInit,
): void {
  pointer(view, "pointermove", ...from, more);
  pointer(view, "pointerdown", ...from, more);
  for (let step = 1; step <= 4; step += 1) {
    const at = (axis: 0 | 1): number => from[axis] + ((to[axis] - from[axis]) * step) / 4;
    pointer(view, "pointermove", at(0), at(1), more);
  }
  pointer(view, "pointerup", ...to, more);
}

const viewOf = (view: View): Span => view.state.get("view") as Span;
const length = (span: Span): number => span[1] - span[0];

async function ready(view: View): Promise<void> {
  await expect.poll(() => view.text(".hta-said")).toContain("compute");
}

function pick(view: View, name: string): void {
  const brief = view.source.first(name);
  view.state.set("selected_event", [brief.rank, brief.id]);
}

describe("what is said", () => {
  test("the view in words, the job in the toolbar, the truth on the badge", async () => {
    const view = mount();
    await ready(view);
    expect(view.text(".hta-said")).toMatch(/^Whole job, \d+ ms\. GPUs compute \d+ %/);
    expect(view.text(".hta-name")).toContain("made-up job3 ranks · ");
    expect(view.text(".hta-badge .hta-if-wide")).toBe("made up");
    const share = view.text(".hta-chips .hta-chip .hta-share");
    expect(share).toMatch(/^\d/);
  });

  test("one request brings the shares for the stage and the toolbar", async () => {
    const view = mount();
    await ready(view);
    expect(view.source.asked.filter(({ op }) => op === "stats")).toHaveLength(1);
  });
});

describe("the state", () => {
  test("W zooms in at the middle and tells the state, one undo takes it back", async () => {
    const view = mount();
    await ready(view);
    view.root.focus();
    view.press("w");
    await expect.poll(() => viewOf(view)).not.toBeNull();
    await expect
      .poll(() => length(viewOf(view)) / length(view.job.scene.range))
      .toBeCloseTo(1 / 1.35, 2);
    expect(viewOf(view).every(Number.isInteger)).toBe(true);
    await expect
      .poll(() => (view.state.get("_history") as { past: unknown[] }).past.length)
      .toBe(1);
    view.press("z", { ctrlKey: true });
    expect(view.state.get("view")).toBeNull();
    await expect.poll(() => view.text(".hta-said")).toContain("Whole job");
  });

  test("what Python sets is shown and not written back", async () => {
    const view = mount();
    await ready(view);
    const saves = view.state.saves;
    view.state.set("view", [10_000_000, 20_000_000]);
    await expect.poll(() => view.text(".hta-said")).toContain("10.0–20.0 ms (10.0 ms)");
    view.state.set("color", "name");
    expect(view.find(".hta-color").getAttribute("aria-pressed")).toBe("true");
    view.state.set("search", "AllReduce");
    await expect.poll(() => view.text(".hta-count")).toBe("27");
    expect((view.find(".hta-search input") as HTMLInputElement).value).toBe("AllReduce");
    expect(view.state.saves).toBe(saves);
    expect(view.state.get("view")).toEqual([10_000_000, 20_000_000]);
  });

  test("a key that comes before the view has set out for what Python asked still counts", async () => {
    const view = mount();
    await ready(view);
    view.root.focus();
    view.state.set("view", [10_000_000, 30_000_000]);
    view.press("z");
    await expect.poll(() => viewOf(view)).toEqual(view.job.scene.range);
    await expect.poll(() => view.text(".hta-said")).toContain("Whole job");
  });

  test("another state is followed after a link", async () => {
    const view = mount();
    await ready(view);
    const other = freshState();
    other.values.search = "gemm";
    view.app.attach(other);
    await expect
      .poll(() => (view.find(".hta-search input") as HTMLInputElement).value)
      .toBe("gemm");
    view.state.set("search", "old");
    expect((view.find(".hta-search input") as HTMLInputElement).value).toBe("gemm");
    view.press("c");
    expect(other.get("color")).toBe("name");
    expect(view.state.get("color")).toBe("kind");
  });
});

describe("keys", () => {
  test("nothing that is typed reaches the page, host keys do", () => {
    const view = mount();
    view.root.focus();
    const leaked: string[] = [];
    const hear = (event: KeyboardEvent): unknown => leaked.push(event.key);
    document.addEventListener("keydown", hear);
    for (const key of ["w", "a", "b", "j", "d", "m", "Enter", "Delete", "Insert", "x", "y"]) {
      view.press(key);
    }
    expect(leaked).toEqual([]);
    const host = [
      view.press("p", { ctrlKey: true }),
      view.press("P", { ctrlKey: true, shiftKey: true }),
      view.press("b", { ctrlKey: true }),
      view.press("s", { ctrlKey: true }),
    ];
    expect(leaked).toEqual(["p", "P", "b", "s"]);
    expect(host.every((event) => !event.defaultPrevented)).toBe(true);
    document.removeEventListener("keydown", hear);
    expect(view.root.dataset.lmSuppressShortcuts).toBe("true");
  });

  test("letters in the search field are text, Escape leaves it", async () => {
    const view = mount();
    view.root.focus();
    expect(view.press("/").defaultPrevented).toBe(true);
    const input = view.find(".hta-search input");
    expect(document.activeElement).toBe(input);
    view.press("w");
    view.press("c");
    expect(view.state.get("view")).toBeNull();
    expect(view.state.get("color")).toBe("kind");
    view.press("Escape");
    expect(document.activeElement).toBe(view.root);
  });

  test("Escape closes the panel, then clears, then leaves", async () => {
    const view = mount();
    view.root.focus();
    pick(view, "AllReduce");
    await expect.poll(() => view.text(".hta-details h3")).toContain("AllReduce");
    view.press("Escape");
    expect(view.find(".hta-dock").hidden).toBe(true);
    expect(view.state.get("selected_event")).not.toBeNull();
    view.press("Escape");
    expect(view.state.get("selected_event")).toBeNull();
    expect(document.activeElement).toBe(view.root);
    view.press("Escape");
    expect(document.activeElement).not.toBe(view.root);
  });

  test("the sheet opens with ?, closes with Escape and gives the focus back", () => {
    const view = mount();
    view.root.focus();
    view.press("?", { shiftKey: true, code: "Slash" });
    expect(view.text(".hta-help h3")).toBe("Keys and gestures");
    view.press("Escape");
    expect(view.root.querySelector(".hta-help")).toBeNull();
    expect(document.activeElement).toBe(view.root);
  });

  test("neighbours, arrows and bookmarks", async () => {
    const view = mount();
    await ready(view);
    view.root.focus();
    pick(view, "cudaLaunchKernel");
    await expect.poll(() => view.text(".hta-details h3")).toBe("cudaLaunchKernel");
    const [, first] = view.state.get("selected_event") as [number, number];
    view.press(".");
    await expect
      .poll(() => (view.state.get("selected_event") as [number, number])[1])
      .toBe(first + 1);
    view.press("ArrowLeft");
    await expect.poll(() => (view.state.get("selected_event") as [number, number])[1]).toBe(first);
    await expect.poll(() => view.text(".hta-details")).toContain("Launches");
    view.press("]");
    await expect.poll(() => view.text(".hta-details")).toContain("Launched by");
    view.state.set("view", [10_000_000, 30_000_000]);
    await expect.poll(() => view.text(".hta-said")).toContain("10.0–30.0 ms");
    view.press("2", { code: "Digit2", ctrlKey: true });
    view.press("0", { code: "Digit0" });
    await expect.poll(() => viewOf(view)).toEqual(view.job.scene.range);
    view.press("2", { code: "Digit2" });
    await expect.poll(() => viewOf(view)).toEqual([10_000_000, 30_000_000]);
  });

  test("a key that is held stops when the focus goes", async () => {
    const view = mount();
    await ready(view);
    view.root.focus();
    const init = { key: "d", code: "KeyD", bubbles: true, cancelable: true };
    view.press("w");
    await expect.poll(() => length(viewOf(view)) < length(view.job.scene.range)).toBe(true);
    view.root.dispatchEvent(new KeyboardEvent("keydown", init));
    view.root.blur();
    const frame = (): Promise<number> => new Promise((done) => requestAnimationFrame(done));
    // At rest two frames show the same view.
    await expect
      .poll(async () => {
        const before = viewOf(view)[0];
        await frame();
        await frame();
        return viewOf(view)[0] === before;
      })
      .toBe(true);
  });
});

describe("the wheel", () => {
  const wheel = (view: View, init: WheelEventInit): WheelEvent => {
    const event = new WheelEvent("wheel", {
      bubbles: true,
      cancelable: true,
      ...client(view, 500, 150),
      ...init,
    });
    view.stage.dispatchEvent(event);
    return event;
  };

  test("plain it belongs to the page and names the way to zoom", async () => {
    const view = mount();
    await ready(view);
    expect(wheel(view, { deltaY: 120 }).defaultPrevented).toBe(false);
    expect(view.text(".hta-said")).toBe("Ctrl + scroll to zoom");
    expect(view.state.get("view")).toBeNull();
  });

  test("with Ctrl it zooms and the time under the pointer stays", async () => {
    const view = mount();
    await ready(view);
    const x = 500;
    const box = { left: 164, width: 1098 - 164 - 128 };
    const timeAt = (span: Span): number => span[0] + ((x - box.left) / box.width) * length(span);
    const before = timeAt(view.job.scene.range);
    expect(wheel(view, { deltaY: -200, ctrlKey: true }).defaultPrevented).toBe(true);
    await expect.poll(() => viewOf(view)).not.toBeNull();
    expect(length(viewOf(view))).toBeLessThan(length(view.job.scene.range));
    expect(Math.abs(timeAt(viewOf(view)) - before) / length(viewOf(view))).toBeLessThan(0.005);
  });

  test("with Shift it pans", async () => {
    const view = mount();
    await ready(view);
    view.state.set("view", [10e6, 20e6]);
    await expect.poll(() => view.text(".hta-said")).toContain("10.0–20.0");
    expect(wheel(view, { deltaY: 80, shiftKey: true }).defaultPrevented).toBe(true);
    expect(viewOf(view)[0]).toBeGreaterThan(10e6);
    expect(Math.abs(length(viewOf(view)) - 10e6)).toBeLessThanOrEqual(1);
  });
});

describe("the pointer", () => {
  test("a drag selects a window on the rows that it crosses, and sums it up", async () => {
    const view = mount();
    await ready(view);
    drag(view, [300, 110], [600, 170], { altKey: true });
    const selection = view.state.get("selection") as SelectionJson;
    expect(selection.ranks).toEqual([0, 1]);
    expect(selection.tracks).toBeNull();
    expect(Number.isInteger(selection.start_ns)).toBe(true);
    expect(selection.end_ns).toBeGreaterThan(selection.start_ns ?? 0);
    await expect
      .poll(() => view.text(".hta-area-head"))
      .toMatch(/^Selection .* events · ranks 0, 1/);
    const [asked] = view.source.asked.filter(({ op }) => op === "totals");
    expect(asked?.request.selection).toEqual(selection);
    expect(view.root.querySelectorAll(".hta-table-kinds tbody tr").length).toBeGreaterThan(2);
  });

  test("a drag on the axis zooms, a Shift-drag pans, Escape calls a drag off", async () => {
    const view = mount();
    await ready(view);
    drag(view, [400, 45], [600, 45]);
    await expect.poll(() => viewOf(view) !== null && length(viewOf(view))).toBeLessThan(90e6);
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

  test("a click on a rank's name opens it, a click on nothing clears", async () => {
    const view = mount();
    await ready(view);
    const rows = (): number => view.root.querySelectorAll('[role="grid"] [role="row"]').length;
    await expect.poll(rows).toBe(3);
    pointer(view, "pointerdown", 30, 110);
    pointer(view, "pointerup", 30, 110);
    await expect.poll(rows).toBeGreaterThan(3);
    view.state.set("selection", { start_ns: 5, end_ns: 10 });
    pointer(view, "pointerdown", 170, 330);
    pointer(view, "pointerup", 170, 330);
    expect(view.state.get("selection")).toBeNull();
  });

  test("a click on a mark selects it, a second with Ctrl makes a set, a double-click zooms", async () => {
    const view = mount();
    await ready(view);
    const brief = view.source.first("AllReduce");
    view.state.set("view", [brief.start - brief.dur, brief.start + 4 * brief.dur]);
    await expect.poll(() => view.text(".hta-said")).toMatch(/^−?\d.*idle/);
    // The communication lane of the first rank, in the middle of its first kernel.
    const x = 164 + ((1.5 * brief.dur) / (5 * brief.dur)) * (1098 - 164 - 128);
    let y = 0;
    await expect
      .poll(() => {
        for (y = 85; y < 200; y += 4) {
          pointer(view, "pointerdown", x, y);
          pointer(view, "pointerup", x, y);
          if (view.state.get("selected_event") !== null) return true;
        }
        return false;
      })
      .toBe(true);
    await expect.poll(() => view.text(".hta-details h3")).toContain("AllReduce");
    expect(view.text(".hta-histogram")).toContain("events");
    pick(view, "cudaLaunchKernel");
    await expect.poll(() => view.text(".hta-details h3")).toBe("cudaLaunchKernel");
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
    expect(view.find(".hta-tooltip").hidden).toBe(true);
  });
});

describe("more of the pointer", () => {
  const shown = (view: View): boolean => !view.find(".hta-tooltip").hidden;

  test("over cells the tooltip counts, a click takes the longest, a double-click goes in", async () => {
    const view = mount();
    await ready(view);
    const [x, y] = [420, 92];
    await expect
      .poll(() => {
        pointer(view, "pointermove", x, y);
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
      .poll(() => length(viewOf(view) ?? view.job.scene.range) / length(view.job.scene.range))
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
    const [from, to] = view.job.scene.range;
    const at = (x: number): number => from + ((x - 164) / (1098 - 164 - 128)) * (to - from);
    view.state.set("selection", {
      start_ns: Math.round(at(300)),
      end_ns: Math.round(at(500)),
      ranks: [0],
    });
    drag(view, [500, 100], [640, 100], { altKey: true });
    const selection = view.state.get("selection") as SelectionJson;
    expect(selection.start_ns).toBe(Math.round(at(300)));
    expect(Math.abs((selection.end_ns ?? 0) - at(640)) / (to - from)).toBeLessThan(0.002);
    expect(selection.ranks).toEqual([0]);
  });

  test("a drag snaps to the edge of an event nearby, with Alt it does not", async () => {
    const view = mount();
    await ready(view);
    const brief = view.source.first("AllReduce");
    view.state.set("view", [brief.start - brief.dur, brief.start + 4 * brief.dur]);
    await expect.poll(() => view.text(".hta-said")).toMatch(/^\d.*idle|^−/);
    const width = 1098 - 164 - 128;
    const x = 164 + width / 5;
    // The height of the communication lane is found by its tooltip.
    let y = 0;
    await expect
      .poll(async () => {
        for (y = 86; y < 140; y += 3) {
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
    const whole = length(view.job.scene.range);
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
    const whole = length(view.job.scene.range);
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

  test("a counter says its range", async () => {
    const view = mount();
    await ready(view);
    pointer(view, "pointerdown", 30, 110);
    pointer(view, "pointerup", 30, 110);
    const wide = view.root.querySelectorAll('[role="row"]').length;
    await expect
      .poll(() => view.root.querySelectorAll('[role="row"]').length)
      .toBeGreaterThan(wide);
    await expect
      .poll(async () => {
        for (let y = 330; y > 120; y -= 6) {
          pointer(view, "pointermove", 420, y);
          await new Promise(requestAnimationFrame);
          await new Promise(requestAnimationFrame);
          if (view.text(".hta-tooltip").includes("GPU memory")) return true;
        }
        return false;
      })
      .toBe(true);
    await expect.poll(() => view.text(".hta-tooltip")).toContain("no value here");
  });
});

describe("failures", () => {
  test("a failed request speaks where its answer would stand", async () => {
    const view = mount((_, source) =>
      source.broken.set("event", "byte 12: gzip stream is cut off"),
    );
    await ready(view);
    pick(view, "AllReduce");
    await expect.poll(() => view.text(".hta-failure")).toContain("byte 12: gzip stream is cut off");
    view.source.broken.clear();
    view.find(".hta-failure button").click();
    await expect.poll(() => view.text(".hta-details h3")).toContain("AllReduce");
  });

  test("what the drawing lacks is said above it and can be tried again", async () => {
    const view = mount((_, source) => source.broken.set("stats", "rank-3.json.gz was replaced"));
    await expect.poll(() => view.text(".hta-error-strip")).toContain("rank-3.json.gz was replaced");
    view.source.broken.clear();
    [...view.root.querySelectorAll<HTMLElement>(".hta-error-strip button")][0]?.click();
    await ready(view);
    expect(view.find(".hta-error-strip").hidden).toBe(true);
  });

  test("a broken search expression marks the field", async () => {
    const view = mount();
    await ready(view);
    view.state.set("search", "/(");
    await expect.poll(() => view.text(".hta-count")).toBe("not searchable");
    expect(view.find(".hta-search input").getAttribute("aria-invalid")).toBe("true");
  });

  test("an export reports what it wrote, and why it could not", async () => {
    const view = mount();
    await ready(view);
    view.root.focus();
    view.press("x");
    expect((view.find(".hta-path") as HTMLInputElement).value).toBe("made-up-job-window.json.gz");
    view.find(".hta-primary").click();
    await expect
      .poll(() => view.text(".hta-result"))
      .toContain("Wrote made-up-job-window.json.gz: 1 234 events");
    view.source.broken.set("export", "No space left on device");
    view.find(".hta-primary").click();
    await expect.poll(() => view.text(".hta-result")).toBe("No space left on device");
    const [first] = view.source.asked.filter(({ op }) => op === "export");
    expect(first?.request).toMatchObject({ clip: false, counters: false, scrub: false });
    expect(first?.request.selection).toMatchObject({ start_ns: 0, ranks: null });
  });

  test("no track left is said, with the way back", async () => {
    const view = mount();
    await ready(view);
    view.find('button[aria-label="Filter tracks"]').click();
    const input = view.find(".hta-filter input") as HTMLInputElement;
    input.value = "tpu";
    input.dispatchEvent(new Event("input", { bubbles: true }));
    expect(view.text(".hta-card")).toContain("No track matches");
    view.find(".hta-card button").click();
    expect(view.find(".hta-card").hidden).toBe(true);
  });
});

test("no name in a trace becomes markup", async () => {
  const evil = '<img src=x onerror="globalThis.pwned = true">';
  const view = mount((job, source) => {
    source.rename = (name) => `${name} ${evil}`;
    Object.assign(job.scene, withProblems(job.scene), { title: evil });
    job.scene.truth = {
      level: "warn",
      text: evil,
      problems: [{ kind: evil, count: 1, detail: evil, rank: 0, file: evil }],
    };
    job.scene.ranks.forEach((rank) =>
      Object.assign(rank, { label: evil, host: evil, file: evil, truncated: evil }),
    );
    for (const track of job.scene.ranks.flatMap((rank) => rank.tracks)) {
      Object.assign(track, { label: evil, process: evil });
    }
  });
  await ready(view);
  pick(view, "cudaLaunchKernel");
  await expect.poll(() => view.text(".hta-details")).toContain("Inside");
  expect(view.text(".hta-details h3")).toBe(`cudaLaunchKernel ${evil}`);
  drag(view, [300, 110], [600, 200]);
  await expect.poll(() => view.text(".hta-table-names")).toContain(evil);
  view.state.set("search", evil);
  await expect.poll(() => view.text(".hta-said")).toContain(evil);
  view.find(".hta-badge:not(.hta-kernel)").click();
  expect(view.text(".hta-problems")).toContain(evil);
  view.root.focus();
  view.press("x");
  view.press("Escape");
  pointer(view, "pointermove", 30, 110);
  await expect.poll(() => view.text(".hta-tooltip")).toContain(evil);
  pointer(view, "pointermove", 400, 110);
  view.source.broken.set("event", evil);
  view.root.focus();
  view.press(".");
  expect(view.root.querySelector("img")).toBeNull();
  expect((globalThis as { pwned?: boolean }).pwned).toBeUndefined();
});

describe("hosts", () => {
  test("a shadow root holds it as well", async () => {
    const host = document.body.appendChild(document.createElement("div"));
    const shadow = host.attachShadow({ mode: "open" });
    const view = mount(() => {}, shadow);
    await ready(view);
    view.root.focus();
    view.press("/");
    expect(shadow.activeElement).toBe(view.find(".hta-search input"));
    view.press("Escape");
    expect(shadow.activeElement).toBe(view.root);
    view.press("c");
    expect(view.state.get("color")).toBe("name");
  });

  test("the theme is the host's, and follows it", async () => {
    document.body.dataset.jpThemeLight = "false";
    const view = mount();
    expect(view.root.dataset.theme).toBe("dark");
    expect(getComputedStyle(view.root).backgroundColor).toBe("rgb(20, 24, 31)");
    document.body.dataset.jpThemeLight = "true";
    await expect.poll(() => view.root.dataset.theme).toBe("light");
    delete document.body.dataset.jpThemeLight;
  });

  test("nothing is cut at 700 px", async () => {
    const view = mount();
    view.root.parentElement!.style.width = "700px";
    await expect.poll(() => view.root.classList.contains("hta-narrow")).toBe(true);
    const bar = view.find(".hta-toolbar");
    const edge = view.root.getBoundingClientRect().right;
    for (const node of bar.querySelectorAll("button:not([hidden])")) {
      expect(node.getBoundingClientRect().right).toBeLessThanOrEqual(edge);
    }
    expect(bar.scrollWidth).toBeLessThanOrEqual(bar.clientWidth);
    expect(view.find(".hta-more").hidden).toBe(false);
    view.find(".hta-more").click();
    const sheet = view.find(".hta-popover").getBoundingClientRect();
    expect(sheet.right).toBeLessThanOrEqual(edge);
    view.find(".hta-menu .hta-chip").click();
    expect(view.find(".hta-menu .hta-chip").getAttribute("aria-pressed")).toBe("false");
  });

  test("every button has a name", async () => {
    const view = mount();
    await ready(view);
    pick(view, "AllReduce");
    await expect.poll(() => view.text(".hta-details")).toContain("Arguments");
    for (const node of view.root.querySelectorAll("button:not([hidden])")) {
      const name = node.getAttribute("aria-label") ?? node.textContent;
      expect(name?.trim(), node.outerHTML).not.toBe("");
    }
    expect(view.root.getAttribute("role")).toBe("application");
    await expect.poll(() => view.root.getAttribute("aria-activedescendant")).not.toBeNull();
    const cell = view.root.getAttribute("aria-activedescendant") ?? "";
    expect(document.getElementById(cell)?.textContent).toContain("AllReduce");
  });
});

test("a hundred mounts leave nothing behind", async () => {
  const kept: { signal: AbortSignal | null }[] = [];
  const add = EventTarget.prototype.addEventListener;
  const remove = EventTarget.prototype.removeEventListener;
  const outside = (target: unknown): boolean =>
    target === window ||
    target === document ||
    target === document.body ||
    target instanceof MediaQueryList;
  const records = new Map<unknown, { signal: AbortSignal | null }>();
  vi.spyOn(EventTarget.prototype, "addEventListener").mockImplementation(function (
    this: EventTarget,
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: AddEventListenerOptions | boolean,
  ) {
    if (outside(this)) {
      const record = { signal: typeof options === "object" ? (options.signal ?? null) : null };
      kept.push(record);
      records.set(listener, record);
    }
    add.call(this, type, listener, options);
  });
  vi.spyOn(EventTarget.prototype, "removeEventListener").mockImplementation(function (
    this: EventTarget,
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: EventListenerOptions | boolean,
  ) {
    const record = records.get(listener);
    if (outside(this) && record !== undefined) kept.splice(kept.indexOf(record), 1);
    remove.call(this, type, listener, options);
  });
  const job = fakeJob(1, 1);
  const source = new AppSource(job);
  const state = freshState();
  try {
    for (let at = 0; at < 100; at += 1) {
      const end = new AbortController();
      const box = document.body.appendChild(document.createElement("div"));
      new TimelineApp(box, {
        scene: job.scene,
        source,
        state,
        height: 300,
        signal: end.signal,
        makeStage: createStage,
      });
      if (at % 10 === 0) {
        box.firstElementChild?.querySelector<HTMLElement>(".hta-more")?.click();
        await new Promise(requestAnimationFrame);
      }
      end.abort();
      expect(box.childElementCount).toBe(0);
      box.remove();
    }
    expect(state.listenerCount).toBe(0);
    expect(source.listenerCount).toBe(0);
    expect(kept.length).toBeGreaterThan(0);
    expect(kept.filter(({ signal }) => signal === null || !signal.aborted)).toEqual([]);
  } finally {
    vi.restoreAllMocks();
  }
});
