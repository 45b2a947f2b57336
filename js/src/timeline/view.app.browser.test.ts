/** The whole view in a real browser: texts, linked state, refused requests, and cleanup. */

import { describe, expect, test, vi } from "vitest";
import {
  drag,
  spanLength,
  mount,
  openTimeline,
  pick,
  pointer,
  waitForFigures,
  viewOf,
} from "../../test/app_view";
import { fill } from "../../test/fill";
import { freshState } from "../../test/model";
import { recordedScene } from "../../test/recorded";
import { Watched } from "../../test/watched";
import { FULL_SELECTION } from "../protocol/selection";
import { TimelineApp } from "./view";

describe("the status line", () => {
  test("view, job and data quality are shown, and each is requested once", async () => {
    const view = await openTimeline();
    expect(view.text(".hta-said")).toMatch(/^Whole job, [\d.]+ ms\. .*GPUs compute \d+ %/);
    expect(view.text(".hta-name")).toContain("demo-job3 ranks · ");
    expect(view.text(".hta-badge .hta-if-wide")).toBe("exact: 6 496 events, 0 dropped");
    expect(view.text(".hta-chips .hta-chip .hta-share")).toMatch(/^\d/);
    expect(view.source.asked.filter(({ op }) => op === "stats")).toHaveLength(1);
  });
});

describe("the state", () => {
  test("W zooms in at the middle and writes the state; one undo reverts it", async () => {
    const view = await openTimeline();
    view.root.focus();
    view.press("w");
    await expect.poll(() => viewOf(view)).not.toBeNull();
    await expect
      .poll(() => spanLength(viewOf(view)) / spanLength(view.scene.range))
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
    const view = await openTimeline();
    const saves = view.state.saves;
    view.state.set("view", [10_000_000, 20_000_000]);
    await expect.poll(() => view.text(".hta-said")).toContain("10.0–20.0 ms (10.0 ms)");
    view.state.set("color", "name");
    const color = view.by("button", "Colour by kind");
    await expect.poll(() => color.getAttribute("aria-pressed")).toBe("true");
    view.state.set("search", "AllReduce_Sum");
    await expect.poll(() => view.text(".hta-count")).toBe("36");
    expect((view.find(".hta-search input") as HTMLInputElement).value).toBe("AllReduce_Sum");
    expect(view.state.saves).toBe(saves);
    expect(view.state.get("view")).toEqual([10_000_000, 20_000_000]);
  });

  test("C also colours by what limits the work, if the job has shapes", async () => {
    const view = await openTimeline();
    view.root.focus();
    const asksForClasses = () => view.source.asked.some(({ request }) => "classed" in request);
    view.app.setScene({ ...view.scene, without_bounds: "no shapes" });
    for (const color of ["name", "kind"]) {
      view.press("c");
      expect(view.state.get("color")).toBe(color);
    }
    view.app.setScene({ ...view.scene, without_bounds: "" });
    view.press("c");
    expect(asksForClasses()).toBe(false);
    view.press("c");
    expect(view.state.get("color")).toBe("bound");
    await expect.poll(asksForClasses).toBe(true);
    await expect.poll(() => view.text(".hta-legend")).toContain("memory-bound");
    view.press("c");
    await expect.poll(() => view.text(".hta-legend")).not.toContain("memory-bound");
  });

  test("a key that is pressed before the view moves to Python's window still counts", async () => {
    const view = await openTimeline();
    view.root.focus();
    view.state.set("view", [10_000_000, 30_000_000]);
    view.press("z");
    await expect.poll(() => viewOf(view)).toEqual(view.scene.range);
    await expect.poll(() => view.text(".hta-said")).toContain("Whole job");
  });
});

describe("failures", () => {
  test("a failed request is stated in place of its answer", async () => {
    const view = await openTimeline((_, source) =>
      source.broken.set("event", "byte 12: gzip stream is cut off"),
    );
    pick(view, "AllReduce");
    await expect.poll(() => view.text(".hta-failure")).toContain("byte 12: gzip stream is cut off");
    view.source.broken.clear();
    view.by("button", "Try again").click();
    await expect.poll(() => view.text(".hta-details h3")).toContain("AllReduce");
  });

  test("a note above the drawing states missing data and offers a retry", async () => {
    const view = mount((_, source) => source.broken.set("stats", "rank-3.json.gz was replaced"));
    await expect.poll(() => view.text(".hta-error-strip")).toContain("rank-3.json.gz was replaced");
    view.source.broken.clear();
    view.by("button", "Try again").click();
    await waitForFigures(view);
    expect(view.find(".hta-error-strip").hidden).toBe(true);
  });

  test("a broken search expression marks the field", async () => {
    const view = await openTimeline();
    view.state.set("search", "/(/");
    await expect.poll(() => view.text(".hta-count")).toBe("not searchable");
    expect(view.find(".hta-search input").getAttribute("aria-invalid")).toBe("true");
  });

  test("an export reports what it wrote, and why it could not", async () => {
    const view = await openTimeline();
    view.root.focus();
    view.press("x");
    expect((view.by("textbox", "File to write") as HTMLInputElement).value).toBe(
      "demo-job-window.trace.json.gz",
    );
    view.by("button", "Write file").click();
    await expect
      .poll(() => view.text(".hta-result"))
      .toMatch(/^Wrote demo-job-window.trace.json.gz: [1-9][\d ]+ events/);
    view.source.broken.set("export", "No space left on device");
    view.by("button", "Write file").click();
    await expect.poll(() => view.text(".hta-result")).toBe("No space left on device");
    const [first] = view.source.asked.filter(({ op }) => op === "export");
    expect(first?.request).toMatchObject({ launches: true, counters: false, scrub: false });
    expect(first?.request.selection).toMatchObject({ start_ns: 0, ranks: null });
  });

  test("if all tracks are hidden, a note states it and offers to show them", async () => {
    const view = await openTimeline();
    view.by("button", "Filter tracks").click();
    fill(view.by("textbox", "Show only tracks that match"), "tpu");
    await expect.poll(() => view.text(".hta-card")).toContain("No track matches");
    view.find(".hta-card button").click();
    await expect.poll(() => view.find(".hta-card").hidden).toBe(true);
  });
});

test("the table of a selection begins with work, can be filtered and copied", async () => {
  const view = await openTimeline();
  view.state.set("selection", { ...FULL_SELECTION, start_ns: 0, end_ns: view.scene.range[1] });
  const rows = (): HTMLElement[] => view.all(".hta-table-names tbody tr");
  await expect.poll(() => rows().length).toBeGreaterThan(10);
  const kinds = rows().map((row) => row.querySelector<HTMLElement>(".hta-swatch")?.dataset.kind);
  const places = kinds.map((kind) =>
    ["compute", "communication", "memory"].includes(kind!) ? 0 : kind === "annotation" ? 2 : 1,
  );
  expect(places).toEqual([...places].sort());
  expect(new Set(places)).toEqual(new Set([0, 1, 2]));
  const filter = view.find(".hta-table-filter");
  filter.focus();
  fill(filter, "allreduce");
  const isAllReduce = (row: HTMLElement): boolean => /allreduce/i.test(row.textContent ?? "");
  await expect.poll(() => rows().every(isAllReduce)).toBe(true);
  expect(rows().length).toBeGreaterThan(0);
  expect(document.activeElement).toBe(filter);
  fill(filter, "no such name");
  await expect.poll(() => view.text(".hta-table-names tbody")).toBe("No name matches this filter.");
  view.by("button", "Copy the table as CSV");
});

test("no name in a trace becomes markup", async () => {
  const evil = '<img src=x onerror="globalThis.pwned = true">';
  const view = await openTimeline((page) => {
    const { scene } = page;
    page.shorts = page.shorts.map((name) => `${name} ${evil}`);
    page.names = page.names.map((name) => `${name} ${evil}`);
    scene.title = evil;
    scene.truth = {
      level: "warn",
      text: evil,
      problems: [{ kind: evil, count: 1, detail: evil, rank: 0, file: evil }],
    };
    scene.ranks.forEach((rank) => Object.assign(rank, { label: evil, host: evil, file: evil }));
    scene.ranks[0]!.truncated = evil;
    for (const track of scene.ranks.flatMap((rank) => rank.tracks)) {
      Object.assign(track, { label: evil, process: evil });
    }
  });
  pick(view, "cudaLaunchKernel");
  await expect.poll(() => view.text(".hta-details")).toContain("Inside");
  expect(view.text(".hta-details h3")).toBe(`cudaLaunchKernel ${evil}`);
  view.state.set("search", evil);
  await expect.poll(() => view.text(".hta-said")).toContain(evil);
  drag(view, [300, 110], [600, 200]);
  await expect.poll(() => view.text(".hta-table-names")).toContain(evil);
  view.find(".hta-status > .hta-badge:last-child").click();
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
  test("works in a shadow root", async () => {
    const host = document.body.appendChild(document.createElement("div"));
    const shadow = host.attachShadow({ mode: "open" });
    const view = await openTimeline(() => {}, shadow);
    view.root.focus();
    view.press("/");
    expect(shadow.activeElement).toBe(view.find(".hta-search input"));
    view.press("Escape");
    expect(shadow.activeElement).toBe(view.root);
    view.press("c");
    expect(view.state.get("color")).toBe("name");
  });

  test("a name is shortened only after the facts beside it", async () => {
    const view = mount();
    const title = view.find(".hta-title");
    const facts = view.find(".hta-facts");
    await expect.poll(() => view.text(".hta-title")).toBe(view.scene.title);
    const whole = title.getBoundingClientRect().width;
    const name = view.find(".hta-name");
    name.style.flex = "none";
    for (const width of [whole + 40, whole + 10, whole]) {
      name.style.width = `${width}px`;
      expect(facts.getBoundingClientRect().width).toBeLessThan(width - whole + 4);
      expect(title.getBoundingClientRect().width).toBeGreaterThan(Math.min(whole, width) - 9);
    }
  });

  test("nothing is truncated at 700 px", async () => {
    const view = mount(({ scene }) => (scene.title = "llama3_8b_h100_fsdp_step_time_of_june"));
    const errors = vi.fn();
    window.addEventListener("error", errors, { signal: view.end.signal });
    view.root.parentElement!.style.width = "700px";
    await expect.poll(() => view.root.classList.contains("hta-narrow")).toBe(true);
    const bar = view.find(".hta-toolbar");
    const edge = view.root.getBoundingClientRect().right;
    for (const node of bar.querySelectorAll("button:not([hidden])")) {
      expect(node.getBoundingClientRect().right).toBeLessThanOrEqual(edge);
    }
    expect(bar.scrollWidth).toBeLessThanOrEqual(bar.clientWidth);
    for (const part of bar.querySelectorAll(".hta-cut-name > span")) {
      expect(part.scrollWidth).toBe(part.clientWidth);
    }
    expect(errors).not.toHaveBeenCalled();
    expect(view.find(".hta-more").hidden).toBe(false);
    view.find(".hta-more").click();
    const sheet = view.find(".hta-popover").getBoundingClientRect();
    expect(sheet.right).toBeLessThanOrEqual(edge);
    view.find(".hta-menu .hta-chip").click();
    await expect
      .poll(() => view.find(".hta-menu .hta-chip").getAttribute("aria-pressed"))
      .toBe("false");
  });

  test.each([
    ["kind", "Kinds"],
    ["bound", "Limits"],
  ])("the legend by %s counts the keys that do not fit", async (color, word) => {
    const view = mount(({ scene }) => {
      const [start, end] = scene.range;
      scene.ranks[0]!.range = [start, (start + end) / 2];
    });
    view.state.set("color", color);
    const textOfHidden = (): string => {
      const chips = view.all(".hta-chips > .hta-chip");
      const count = chips.filter((chip) => chip.hidden).length;
      return count < chips.length ? `+${count}` : word;
    };
    const more = view.find(".hta-more");
    const texts = new Set<string | null>();
    for (let width = 1300; width > 910; width -= 10) {
      view.root.parentElement!.style.width = `${width}px`;
      for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
      const text = (): string | null => (more.hidden ? "+0" : more.textContent);
      await expect.poll(() => [width, text()]).toEqual([width, textOfHidden()]);
      texts.add(text());
    }
    expect(texts.size).toBeGreaterThan(3);
    expect(view.all(".hta-chip").filter((chip) => /\bcomm\b/u.test(chip.textContent))).toEqual([]);
    view.find(".hta-more").click();
    expect(view.text(".hta-menu")).toContain("no data");
  });

  test("every button has a name", async () => {
    const view = await openTimeline();
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

test("a hundred mounts leave no listeners or elements behind", async () => {
  const kept = new Map<unknown, AbortSignal | null>();
  const outside = (target: unknown): boolean =>
    [window, document, document.body].includes(target as never) || target instanceof MediaQueryList;
  const { addEventListener: add, removeEventListener: remove } = EventTarget.prototype;
  vi.spyOn(EventTarget.prototype, "addEventListener").mockImplementation(function (
    this: EventTarget,
    ...[type, listener, options]: Parameters<typeof add>
  ) {
    const signal = typeof options === "object" ? (options.signal ?? null) : null;
    if (outside(this)) kept.set(listener, signal);
    add.call(this, type, listener, options);
  });
  vi.spyOn(EventTarget.prototype, "removeEventListener").mockImplementation(function (
    this: EventTarget,
    ...[type, listener, options]: Parameters<typeof remove>
  ) {
    if (outside(this)) kept.delete(listener);
    remove.call(this, type, listener, options);
  });
  const observe = vi.spyOn(ResizeObserver.prototype, "observe");
  const disconnect = vi.spyOn(ResizeObserver.prototype, "disconnect");
  const scene = recordedScene();
  const source = new Watched();
  const state = freshState();
  const elements = document.querySelectorAll("*").length;
  try {
    for (let at = 0; at < 100; at += 1) {
      const end = new AbortController();
      const box = document.body.appendChild(document.createElement("div"));
      new TimelineApp(box, { scene, source, state, height: 300, signal: end.signal });
      state.set("view", at % 2 === 0 ? [1e7, 2e7] : null);
      if (at % 10 === 0) {
        box.firstElementChild?.querySelector<HTMLElement>(".hta-more")?.click();
        await new Promise(requestAnimationFrame);
      }
      end.abort();
      expect(box.childElementCount).toBe(0);
      box.remove();
    }
    expect(state.listenerCount).toBe(0);
    expect(source.isWatched).toBe(false);
    expect(kept.size).toBeGreaterThan(0);
    expect([...kept.values()].filter((signal) => signal?.aborted !== true)).toEqual([]);
    expect(document.querySelectorAll("*")).toHaveLength(elements);
    expect(new Set(disconnect.mock.contexts)).toEqual(new Set(observe.mock.contexts));
    const asked = source.asked.length;
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect(source.asked).toHaveLength(asked);
  } finally {
    vi.restoreAllMocks();
  }
});
