/** The dashboard in a real browser: one selection for all panels. */

import { signal } from "@preact/signals";
import { expect, test, vi } from "vitest";
import { userEvent } from "vitest/browser";
import {
  type DashView,
  FakeChart,
  mountDash,
  openDashboard,
  waitForFigures,
} from "../../test/dash_view";
import { fill } from "../../test/fill";
import { toolsOutside } from "../../test/finding";
import { openPage } from "../../test/recorded";
import { HybridSource, type LiveSource, type OfflineData } from "../connection/answering";
import { FULL_SELECTION } from "../protocol/selection";
import type { SelectionJson } from "../protocol/source";

/** Two of the twelve kernels that a table initially shows. */
const NN = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn";
const NT = "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nt";
const BOTH = `name in ['${NN}', '${NT}']`;

const selection = (view: DashView): SelectionJson | null =>
  view.state.get("selection") as SelectionJson | null;
const names = (view: DashView, panel: string): string[] =>
  view.all(`[data-panel=${panel}] .hta-name-button`).map((node) => node.textContent ?? "");
const rows = (view: DashView): string[] =>
  view
    .all("[role=grid] [role=row]")
    .map((node) => node.getAttribute("aria-label") ?? node.textContent ?? "");

/** Return the panels in all requests whose selection satisfies `holds`. */
const askedPanels = (view: DashView, holds: (selection: SelectionJson) => boolean): string[] =>
  view.source.asked
    .filter(({ op }) => op === "panels")
    .map(({ request }) => request as { panels: string[]; selection: SelectionJson })
    .flatMap(({ panels, selection }) => (holds(selection) ? panels : []));

const itemOf = (view: DashView, selector: string, text: string): HTMLElement =>
  view.all(selector).find((item) => item.textContent?.includes(text))!;

function click(node: HTMLElement, init: MouseEventInit = {}): void {
  node.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ...init }));
}

function key(node: HTMLElement, name: string, init: KeyboardEventInit = {}): KeyboardEvent {
  const code = /^[a-z]$/i.test(name) ? `Key${name.toUpperCase()}` : name;
  const all = { key: name, code, bubbles: true, cancelable: true, ...init };
  const event = new KeyboardEvent("keydown", all);
  node.dispatchEvent(event);
  return event;
}

test("a chart's brush marks all at once, asks once, and hides the other ranks of the timeline", async () => {
  const view = await openDashboard();
  await expect.poll(() => rows(view).length).toBe(3);
  view.questions();
  view.source.held = [];
  view.chart("breakdown").brush({ ranks: [1] });
  expect(selection(view)).toMatchObject({ ranks: [1] });
  expect(view.state.get("ranks_from")).toBe("breakdown");
  await Promise.resolve();
  expect(view.chart("overlap").chosen?.ranks).toEqual([1]);
  expect(view.text(".hta-sel-chip")).toBe("rank 1");
  view.source.release();
  await expect.poll(() => view.text(".hta-sel-words")).toContain("2 130 events");
  // Panels that become visible send their request later, and none sends it twice.
  expect(view.questions().every(({ ranks }) => ranks?.join() === "1")).toBe(true);
  const askedOfRank = (): string[] =>
    askedPanels(view, ({ ranks }) => ranks !== null).filter((id) => id !== "summary");
  await expect.poll(askedOfRank).not.toEqual([]);
  const asked = askedOfRank();
  expect(new Set(asked).size).toBe(asked.length);
  expect(view.text(".hta-ranks-shown")).toContain("1 of 3 ranks shown");
  await expect.poll(() => view.find(".hta-chip").title).toContain("of rank 1, ");
  expect(view.text(".hta-said")).toBe("Selection: rank 1, 2 130 events.");
  view.find(".hta-ranks-shown").click();
  expect(view.state.get("ranks_from")).toBe("timeline");
  expect(selection(view)).toMatchObject({ ranks: [1] });
  await expect.poll(() => view.root.querySelector(".hta-ranks-shown")).toBeNull();
});

test("undo and redo go through what was brushed in different panels; Escape clears", async () => {
  const view = await openDashboard();
  view.chart("breakdown").brush({ ranks: [1] });
  click(view.find(`[data-panel=kernels] [data-name=${NN}]`));
  expect(selection(view)).toMatchObject({ ranks: [1], query: `name in ['${NN}']` });
  view.root.focus();
  expect(key(view.root, "z", { ctrlKey: true }).defaultPrevented).toBe(true);
  expect(selection(view)).toMatchObject({ ranks: [1], query: null });
  key(view.root, "z", { ctrlKey: true });
  expect(selection(view)).toBeNull();
  await expect.poll(() => view.text(".hta-sel-words")).toContain("whole job");
  key(view.root, "z", { ctrlKey: true, shiftKey: true });
  key(view.root, "z", { ctrlKey: true, shiftKey: true });
  expect(selection(view)).toMatchObject({ ranks: [1], query: `name in ['${NN}']` });
  key(view.root, "Escape");
  expect(selection(view)).toBeNull();
  // Clearing the selection can be undone, too.
  view.find("[aria-label=Undo]").click();
  expect(selection(view)).toMatchObject({ ranks: [1] });
});

test("a choice of host events says why charts of GPU work are empty", async () => {
  const view = await openDashboard();
  const empty = "None of the events is GPU work, so charts of GPU work are empty";
  view.state.set("selection", { ...FULL_SELECTION, query: "name in ['aten::native_layer_norm']" });
  await expect.poll(() => view.text(".hta-sel-words")).toContain(empty);
  click(view.find(`[data-panel=kernels] [data-name="${NN}"]`));
  await expect.poll(() => view.text(".hta-sel-words")).toContain("on GPUs");
  expect(view.text(".hta-sel-words")).not.toContain(empty);
});

test("texts speak of the devices that the job has", async () => {
  const panels = ["selection", "breakdown", "timeline", "kernels", "operators"];
  const _about = { left_out: { "no queues": ["idle"] } };
  const view = await openDashboard({ panels, _about }, ({ scene }) => {
    for (const rank of scene.ranks) rank.device = "NPU";
    for (const track of scene.ranks.flatMap(({ tracks }) => tracks)) {
      for (const text of ["key", "process", "label"] as const) {
        track[text] = track[text].replace("GPU", "NPU");
      }
    }
  });
  await expect.poll(() => view.text(".hta-sel-words")).toContain("on NPUs");
  expect(view.find("[data-panel=breakdown]").getAttribute("aria-label")).toBe(
    "Where NPU time goes",
  );
  for (const panel of ["kernels", "operators"]) {
    await expect.poll(() => view.text(`[data-panel=${panel}]`)).toContain("NPU");
  }
  await expect.poll(() => view.text(".hta-said")).toContain("of each NPU span");
  view.find("[aria-label='Choose which panels are shown']").click();
  expect(view.text(".hta-popover")).toContain("NPU idle time by cause");
  expect(view.text(".hta-dash-left-out")).toBe(
    "Not in this job: NPU idle time by cause (no queues).",
  );
  expect(view.root.innerHTML).not.toMatch(/GPU|device_word/);
});

test("names: a click chooses, Ctrl adds, a click on the only one clears; chips take back", async () => {
  const view = await openDashboard();
  const row = (name: string): HTMLElement =>
    view.find(`[data-panel=kernels] [data-name="${name}"]`);
  click(row(NN));
  await expect.poll(() => [...row(NT).classList]).toContain("hta-faint");
  expect(row(NN).classList).not.toContain("hta-faint");
  click(row(NT), { ctrlKey: true });
  expect(selection(view)?.query).toBe(BOTH);
  view.chart("breakdown").brush({ ranks: [0, 2] });
  const chips = () => view.all(".hta-sel-chip").map((chip) => chip.textContent);
  await expect
    .poll(chips)
    .toEqual(["ranks 0 and 2", expect.stringMatching(/^names gemm bf16 .* and gemm bf16 /)]);
  expect(view.text(".hta-sel-code")).toBe(`traces.select("${BOTH}", ranks=[0, 2])`);
  view.find('[aria-label="Remove ranks 0 and 2 from the selection"]').click();
  expect(selection(view)).toMatchObject({ ranks: null, query: BOTH });
  click(row(NN));
  await expect.poll(() => row(NN).querySelector("button")?.ariaPressed).toBe("true");
  click(row(NN));
  expect(selection(view)).toBeNull();
});

test("tables sort, filter, and show the rest of their names when asked", async () => {
  const above = "breakdown overlap timeline heatmap steps kernels idle queue".split(" ");
  const view = await openDashboard({ panels: [...above, "operators"] });
  // Panels far below the visible area request nothing.
  expect(names(view, "operators")).toHaveLength(0);
  view.find("[data-panel=operators]").scrollIntoView();
  await expect.poll(() => names(view, "operators")).toHaveLength(12);
  const more = view.find("[data-panel=operators] .hta-more-names");
  expect(more.textContent).toBe("41 more names");
  more.focus();
  more.click();
  await expect.poll(() => names(view, "operators")).toHaveLength(52);
  fill(view.find("[data-panel=operators] input"), "LAYER_NORM");
  await expect.poll(() => names(view, "operators")).toHaveLength(3);
  const sort = view.all("[data-panel=kernels] .hta-sort");
  sort[0]!.focus();
  sort[0]!.click();
  await expect.poll(() => names(view, "kernels")[0]).toBe("gemm bf16 128x64 nn");
  expect(document.activeElement).toBe(sort[0]);
  expect(view.find("[data-panel=kernels] [aria-sort]").getAttribute("aria-sort")).toBe("ascending");
});

test("operators that communicate have the colour of communication", async () => {
  const view = await openDashboard({ panels: ["timeline", "kernels", "operators"] });
  view.find("[data-panel=operators]").scrollIntoView();
  const kindOf = (name: string) => {
    const row = view
      .all("[data-panel=operators] [role=row], [data-panel=operators] tr")
      .find((row) => row.textContent.startsWith(name));
    return row?.querySelector("[data-kind]")?.getAttribute("data-kind");
  };
  await expect.poll(() => kindOf("aten::mm")).toBe("compute");
  expect(kindOf("record_param_comms")).toBe("communication");
});

test("hidden panels are not requested, and are remembered", async () => {
  const view = await openDashboard({ panels: ["timeline", "breakdown", "kernels"] });
  expect(new Set(askedPanels(view, () => true))).toEqual(
    new Set(["summary", "breakdown", "kernels"]),
  );
  expect(view.source.asked.some(({ op }) => op === "heatmap")).toBe(false);
  view.find('[aria-label="Choose which panels are shown"]').click();
  const field = view.find(".hta-dash-menu input") as HTMLInputElement;
  field.value = "operators";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await expect.poll(() => view.all(".hta-dash-menu [role=checkbox]").length).toBeLessThan(12);
  const item = itemOf(view, ".hta-dash-menu [role=checkbox]", "Operators");
  expect(item.getAttribute("aria-checked")).toBe("false");
  item.click();
  await expect.poll(() => item.getAttribute("aria-checked")).toBe("true");
  expect(view.model.get("panels")).toEqual(["timeline", "breakdown", "kernels", "operators"]);
  view.find("[data-panel=operators]").scrollIntoView();
  await expect.poll(() => names(view, "operators").length).toBe(12);
});

test("a failed request is reported in the panel, and can be tried again", async () => {
  const view = mountDash({}, (_, source) => source.broken.set("panels", "the kernel said no"));
  await expect.poll(() => view.text("[data-panel=kernels] .hta-failure")).toContain("said no");
  view.source.broken.clear();
  view.find("[data-panel=kernels] .hta-failure button").click();
  await expect.poll(() => names(view, "kernels")).toHaveLength(12);
});

test("figures of what is in view follow the timeline", async () => {
  const view = await openDashboard();
  view.questions();
  view.find("[data-scope=view]").click();
  expect(view.state.get("scope")).toBe("view");
  const [start, end] = view.scene.range;
  view.state.set("view", [start + 1000, end - 1000]);
  await expect
    .poll(() => view.questions().at(-1))
    .toMatchObject({ start_ns: start + 1000, end_ns: end - 1000 });
});

test("one control says and sets what figures are of", async () => {
  const view = await openDashboard();
  const pressed = (): (string | undefined)[] =>
    view.all("[data-scope][aria-pressed=true]").map(({ dataset }) => dataset.scope);
  const legend = (): string => view.find(".hta-chip").title;
  await expect.poll(pressed).toEqual(["job"]);
  await expect.poll(legend).toContain("of all 3 ranks, whole job");
  view.chart("breakdown").brush({ window: [1_000_000, 2_000_000] });
  await expect.poll(pressed).toEqual(["selection"]);
  await expect.poll(legend).toContain("selection, 1.00–2.00");
  await expect.poll(() => view.questions().at(-1)).toMatchObject({ start_ns: 1_000_000 });
  const sums = (): string => view.text(".hta-sel-words");
  await expect.poll(sums).toBe("1–2 ms: 355 events, 39 of them on GPUs.");
  view.find("[data-scope=job]").click();
  await expect.poll(pressed).toEqual(["job"]);
  expect(selection(view)).not.toBeNull();
  // The text describes the selection even while the figures do not.
  expect(sums()).toBe("1–2 ms: 355 events, 39 of them on GPUs.");
  await expect.poll(() => view.questions().at(-1)).toEqual(FULL_SELECTION);
  // After the selection is cleared, the next one narrows the figures again.
  view.root.focus();
  key(view.root, "Escape");
  expect(selection(view)).toBeNull();
  expect(view.state.get("scope")).toBe("selection");
});

test("the headline's ranks and findings select, and it describes the whole job whatever the panels show", async () => {
  const finding = { ...FULL_SELECTION, start_ns: 5, end_ns: 9 };
  const view = await openDashboard({
    _headline: {
      headline: ["2 of 3 ranks wait for ", { rank: 2, text: "rank 2" }, "."],
      more: [[{ rank: 2, text: "Rank 2" }, " is slow."]],
      findings: [
        { kind: "step", share: 0, text: "Slow.", label: "Slowest step", selection: finding },
      ],
    },
  });
  expect(view.text(".hta-headline h2")).toBe("2 of 3 ranks wait for rank 2.");
  expect(view.text(".hta-headline p")).toBe("Rank 2 is slow.");
  view.find(".hta-headline h2 button").click();
  expect(selection(view)).toMatchObject({ ranks: [2] });
  itemOf(view, ".hta-headline-findings button", "Slowest step").click();
  expect(selection(view)).toEqual(finding);
  const headText = "2 of 3 ranks wait for rank 2.";
  await expect.poll(() => view.text(".hta-headline h2")).toBe(headText);
  view.state.set("selection", null);
  await expect.poll(() => view.text(".hta-headline h2")).not.toContain("whole job");
  view.state.set("scope", "view");
  await expect.poll(() => view.text(".hta-headline h2")).toBe(headText);
});

test("communication has a name in the legend, and a page without a kernel saves none", async () => {
  const view = await openDashboard();
  const chip = view.find(".hta-chips .hta-chip[title^=communication]");
  await expect.poll(() => chip.innerText.trim()).toMatch(/^comm/);
  view.find(".hta-share-button").click();
  const texts = view.all(".hta-menu-item > span:first-child").map((node) => node.textContent);
  expect(texts).toEqual(["Picture", "Trace…", "Table…", "Copy Python"]);
});

const PANELS_ABOVE = ["kernels", "timeline", "breakdown", "overlap", "steps", "idle", "operators"];
/** A page so tall that its last panel is out of sight. */
const HIGH_PAGE = { panels: [...PANELS_ABOVE, "queue"].map((id) => [id]), height: 900 };

test("panels out of sight follow once nothing changes, so that a page is printed whole", async () => {
  const view = await openDashboard(HIGH_PAGE);
  expect(view.find("[data-panel=queue]").getBoundingClientRect().top).toBeGreaterThan(1100);
  await expect.poll(() => view.all(".hta-on-paper")).toEqual([]);
  view.find("[data-panel=kernels] .hta-name-row").click();
  await expect.poll(() => askedPanels(view, ({ query }) => query !== null)).toContain("queue");
});

test("a live page prints all panels once it has the job, and before it says what to do", async () => {
  let live!: LiveSource;
  const view = mountDash(HIGH_PAGE, undefined, 1100, (source) => {
    const kernel = Object.assign(source, { checkAlive: () => undefined });
    const progress = signal({ state: "waiting" });
    const offline = { progress, start: () => undefined } as unknown as OfflineData;
    return (live = { source: new HybridSource(kernel), offline });
  });
  await waitForFigures(view);
  const text = "Not computed yet. Scroll to this panel, then print again.";
  expect(view.text("[data-panel=queue] .hta-on-paper")).toBe(text);
  expect(askedPanels(view, () => true)).not.toContain("queue");
  live.source.page.value = openPage();
  await expect.poll(() => view.all(".hta-on-paper")).toEqual([]);
  expect(askedPanels(view, () => true)).not.toContain("queue");
});

test("a rank in the facts is in ink, missing ranks are in amber", async () => {
  const headline = [{ rank: 2, text: "Rank 2", fact: true }, " arrives last."];
  const more = [[{ rank: 1, text: "Rank 1" }, " is waited for."]];
  const view = await openDashboard({ _headline: { headline, more } }, ({ scene }) => {
    scene.ranks_of_job = "3 of 8 ranks";
  });
  const inkOf = (selector: string) => getComputedStyle(view.find(selector)).color;
  expect(inkOf(".hta-headline h2 button")).toBe(inkOf(".hta-headline h2"));
  expect(inkOf(".hta-headline p button")).not.toBe(inkOf(".hta-headline h2"));
  expect(view.text(".hta-dash-toolbar .hta-warn-text")).toBe("3 of 8 ranks");
});

test("every panel marks the ranks that the headline names, also if it comes later", async () => {
  const view = await openDashboard();
  const marked = (): unknown[] =>
    FakeChart.all
      .map(({ frame }) => frame?.attrs.late_ranks)
      .filter((ranks) => ranks !== undefined);
  /** Return all sets of late ranks that charts mark. */
  const late = () => [...new Set(marked().map((ranks) => JSON.stringify(ranks)))];
  await expect.poll(() => marked().length).toBeGreaterThan(3);
  expect(late()).toEqual(["[]"]);
  view.model.set("_headline", { headline: [], more: [], late_ranks: [2] });
  await expect.poll(late).toEqual(["[2]"]);
  view.model.set("_headline", { headline: [], more: [], fact_ranks: [1] });
  await expect.poll(() => FakeChart.all[0]!.frame?.attrs).toMatchObject({ fact_ranks: [1] });
  expect(late()).toEqual(["[]"]);
});

test.each([
  { has: true, absent: [] },
  { has: false, absent: ["communication"] },
])("charts know whether the job has communication: $has", async ({ has, absent }) => {
  await openDashboard({}, ({ scene }) => {
    for (const rank of scene.ranks) {
      rank.summary = rank.summary.filter(({ role }) => has || role !== "comm");
    }
  });
  const drawn = FakeChart.all.find(({ id }) => id === "breakdown");
  expect(drawn?.frame?.attrs.absent_kinds).toEqual(absent);
});

test("names from traces are text, whatever they hold", async () => {
  const evil = '<img src=x onerror="globalThis.pwned = true">';
  const view = await openDashboard(
    { _headline: { headline: [evil], more: [], findings: [] } },
    (page) => {
      page.names = page.names.map((name, at) => (at === 0 ? evil : name));
      page.shorts = page.shorts.map((name, at) => (at === page.short_of[0] ? evil : name));
      page.scene.title = evil;
      page.scene.truth.problems = [
        { kind: "skipped", count: 1, detail: evil, rank: 0, file: evil },
      ];
    },
  );
  click(view.find("[data-panel=kernels] .hta-name-row"));
  await expect.poll(() => view.text(".hta-sel-words")).toContain("<img");
  expect(view.text("[data-panel=problems]")).toContain("<img");
  expect(view.root.querySelector("img")).toBeNull();
  expect((globalThis as { pwned?: boolean }).pwned).toBeUndefined();
  const query = selection(view)?.query;
  expect(query).toBe(`name in ['${evil}']`);
});

test("a table shows as many names as its column has room for, and no more than its neighbours", async () => {
  const view = await openDashboard({ panels: [["kernels", "timeline"]] });
  const [table, other] = ["kernels", "timeline"].map((id) => view.find(`[data-panel=${id}]`));
  const first = table!.offsetHeight;
  other!.style.minHeight = `${first + 60}px`;
  await expect.poll(() => names(view, "kernels").length).toBe(14);
  expect(table!.offsetHeight).toBe(first + 50);
  other!.style.minHeight = "";
  await expect.poll(() => names(view, "kernels").length).toBe(12);
});

test("the link is copied with keys alone, and the focus returns to the button", async () => {
  const texts: string[] = [];
  const writeText = (text: string): Promise<void> => Promise.resolve(void texts.push(text));
  const clipboard = vi.spyOn(navigator.clipboard, "writeText").mockImplementation(writeText);
  const reach = "on this machine";
  const address = { base: "file:///page.html#", state: "", isPage: false, panels: [], reach };
  const view = await openDashboard({ _address: address });
  view.state.set("selection", { ...FULL_SELECTION, ranks: [1] });
  const share = view.find(".hta-share-button");
  view.root.parentElement!.style.cssText = "height: 300px; overflow: hidden";
  share.focus();
  await userEvent.keyboard("{Enter}");
  expect(document.activeElement?.textContent).toContain("Copy link");
  await userEvent.keyboard("{ArrowDown}{Home}{Enter}");
  await expect.poll(() => texts).toHaveLength(1);
  expect(texts[0]).toContain("ranks=1");
  expect(document.activeElement).toBe(share);
  await expect.poll(() => view.text(".hta-said")).toBe("Copied the link.");
  // The status line is outside the visible area.
  expect(view.text(".hta-flash")).toBe("Copied the link.");
  const { top } = view.find(".hta-flash").getBoundingClientRect();
  expect(top).toBeGreaterThan(share.getBoundingClientRect().bottom);
  expect(top).toBeLessThan(300);
  clipboard.mockRestore();
});

test("letters typed on a button do not reach the notebook", async () => {
  const view = await openDashboard();
  const leaked: string[] = [];
  const hear = (event: KeyboardEvent): unknown => leaked.push(event.key);
  document.addEventListener("keydown", hear);
  const button = view.find(".hta-sel-code button");
  for (const name of ["d", "Enter", "Escape"]) key(button, name);
  document.removeEventListener("keydown", hear);
  // If there is nothing to clear, Escape bubbles.
  expect(leaked).toEqual(["Escape"]);
});

test("fifty dashboards come and go, and nothing of them stays", async () => {
  const listening: number[] = [];
  for (let turn = 0; turn < 50; turn += 1) {
    const view = mountDash({ panels: ["timeline", "breakdown", "kernels", "selection"] });
    if (turn % 10 === 0) await waitForFigures(view);
    view.end.abort();
    listening.push(view.state.listenerCount + view.model.listenerCount);
    expect(view.root.isConnected).toBe(false);
  }
  expect(listening.every((count) => count === 0)).toBe(true);
});

test("the heatmap shows busy time in a job whose ranks never wait", async () => {
  const metrics = (view: DashView): unknown[] =>
    view.source.asked.filter(({ op }) => op === "heatmap").map(({ request }) => request.metric);
  const panels = ["timeline", "heatmap"];
  const waiting = mountDash({ panels });
  await expect.poll(() => metrics(waiting)).toEqual(["waiting"]);
  const view = mountDash({ panels }, ({ scene }, source) => {
    const [start, end] = scene.range;
    source.replies.set("heatmap", () => ({ ranks: [0, 1], start, end, bins: 1 }));
  });
  await expect.poll(() => metrics(view)).toEqual(["waiting", "busy"]);
  expect(view.model.get("metric")).toBe("");
  view.model.set("metric", "waiting");
  await expect.poll(() => metrics(view)).toEqual(["waiting", "busy", "waiting"]);
});

test.each([480, 700])("the name of a job is whole at %i px", async (width) => {
  const title = "llama3_8b_h100_fsdp_step_time_of_june";
  const view = mountDash({}, ({ scene }) => (scene.title = title));
  const errors = vi.fn();
  window.addEventListener("error", errors, { signal: view.end.signal });
  view.root.parentElement!.style.width = `${width}px`;
  await expect.poll(() => view.root.classList.contains("hta-tight")).toBe(true);
  const parts = view.all(".hta-dash-toolbar .hta-cut-name > span");
  await expect.poll(() => parts.map((part) => part.scrollWidth - part.clientWidth)).toEqual([0, 0]);
  expect(parts.map(({ textContent }) => textContent).join("")).toBe(title);
  expect(errors).not.toHaveBeenCalled();
});

test.each([340, 480, 700])("all buttons are in their toolbars at %i px", async (width) => {
  const view = mountDash({}, undefined, width);
  await expect.poll(() => view.root.classList.contains("hta-tight")).toBe(true);
  expect(view.all(".hta-toolbar .hta-button").length).toBeGreaterThan(10);
  expect(toolsOutside(view.root)).toEqual([]);
});

test("charts keep their height until similar ranks share rows", async () => {
  let answer = (): void => undefined;
  const answered = new Promise<void>((resolve) => (answer = resolve));
  const view = await openDashboard({ folded: true }, (_, source) => {
    source.become("live");
    source.replies.set("clusters", () => ({ clusters: [], outliers: [], note: "" }));
    const ask = source.ask.bind(source);
    source.ask = async (op, request, signal) => {
      if (op === "clusters") await answered;
      return ask(op, request, signal);
    };
  });
  const heights = (): string[] => {
    const { minHeight, maxHeight } = view.find("[data-panel=breakdown]").style;
    return [minHeight, maxHeight];
  };
  expect(view.chart("breakdown").frame).not.toBeNull();
  const [height] = heights();
  expect(height).toMatch(/^\d+px$/);
  expect(heights()).toEqual([height, height]);
  answer();
  await expect.poll(heights).toEqual(["", ""]);
});

test("the facts of a job are whole in one column", async () => {
  const view = await openDashboard({}, undefined, 700);
  const facts = view.find(".hta-dash-toolbar .hta-facts");
  expect(facts.textContent).toContain("events");
  expect(facts.scrollWidth).toBeLessThanOrEqual(facts.clientWidth);
  expect(facts.clientWidth).toBeGreaterThan(100);
});

test("a page leaves panels that it lacks to the kernel", () => {
  const page = openPage();
  const canAnswer = (...panels: string[]): boolean =>
    page.canAnswer("panels", { panels, selection: FULL_SELECTION });
  expect(canAnswer("breakdown", "kernels")).toBe(true);
  expect(canAnswer("breakdown", "memory")).toBe(false);
});
