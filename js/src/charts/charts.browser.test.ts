/** Charts in a real browser. */

import { signal } from "@preact/signals";
import { afterEach, describe, expect, test, vi } from "vitest";
import "../entries/widgets.css";
import vectors from "../../../tests/vectors/charts.json";
import { CHART_IDS, makeChart } from "../dashboard/charts";
import { ChartSlot } from "./chart";
import type { Brush, ChartPanel, ChartSelection, PanelFrame, ThemeName } from "../protocol/source";
import { heatmapFrame } from "./grid";

interface Case {
  name: string;
  panel: string;
  frame: PanelFrame;
}

const CASES = (vectors as unknown as { cases: Case[] }).cases;
const NOTHING: ChartSelection = { ranks: null, names: null, kinds: null, window: null };

/** The charts of BytePS and MPI are tested in tests/e2e. */
const DRAWN_IDS = CHART_IDS.filter((id) => CASES.some(({ name }) => name === `${id} of 5`));

function frameOf(panel: string, ranks = 5): PanelFrame {
  return CASES.find(({ name }) => name === `${panel} of ${ranks}`)!.frame;
}

const open: ChartPanel[] = [];
const theme = signal<ThemeName>("light");
document.body.className = "hta-root";

afterEach(() => {
  for (const panel of open.splice(0)) panel.destroy();
  document.body.replaceChildren();
  theme.value = "light";
});

async function mount(
  id: string,
  { width = 400, frame = frameOf(id), chosen = {} } = {},
): Promise<{ panel: ChartPanel; brushes: Brush[]; plot: HTMLElement }> {
  const host = document.createElement("div");
  host.style.width = `${width}px`;
  document.body.append(host);
  const brushes: Brush[] = [];
  const panel = makeChart(id, (brush) => brushes.push(brush), theme, "GPU");
  host.append(panel.el);
  open.push(panel);
  panel.show(frame, { ...NOTHING, ...chosen });
  await painted();
  return { panel, brushes, plot: panel.el.querySelector<HTMLElement>(".hta-chart-plot")! };
}

async function painted(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise(requestAnimationFrame);
  await new Promise((done) => setTimeout(done, 60));
}

/** Return the position of a row, found by its name in the SVG. */
async function rowAt(panel: ChartPanel, name: string): Promise<{ x: number; y: number }> {
  const svg = await (await panel.toSvg()).text();
  const svgDocument = new DOMParser().parseFromString(svg, "image/svg+xml");
  for (const text of svgDocument.querySelectorAll("text")) {
    if (text.textContent !== name) continue;
    return { x: Number(text.getAttribute("x")), y: Number(text.getAttribute("y")) - 4 };
  }
  throw new Error(`no text ${name}`);
}

/** Return the colors in a region of the picture. */
async function pixels(panel: ChartPanel, ...region: [number, number, number, number]) {
  const png = await createImageBitmap(await panel.toPng());
  const pen = new OffscreenCanvas(png.width, png.height).getContext("2d")!;
  pen.drawImage(png, 0, 0);
  return { png, data: pen.getImageData(...region).data };
}

function press(
  plot: HTMLElement,
  x: number,
  y: number,
  held: { ctrlKey?: boolean } = {},
  to = { x, y },
): void {
  const box = plot.getBoundingClientRect();
  const send = (type: string, at: { x: number; y: number }): void => {
    const spot = { clientX: box.left + at.x, clientY: box.top + at.y };
    const event = { bubbles: true, pointerId: 1, isPrimary: true, button: 0, ...held, ...spot };
    plot.dispatchEvent(new PointerEvent(type, event));
  };
  vi.spyOn(plot, "setPointerCapture").mockImplementation(() => {});
  send("pointerdown", { x, y });
  if (to.x !== x || to.y !== y) send("pointermove", to);
  send("pointerup", to);
}

describe("charts", () => {
  test.each(DRAWN_IDS)("%s is drawn, says what it shows, and is saved", async (id) => {
    const { panel, plot } = await mount(id);
    expect(plot.getAttribute("role")).toBe("img");
    expect(plot.getAttribute("aria-label")!.length).toBeGreaterThan(20);
    expect(plot.clientHeight).toBeGreaterThan(60);
    const svg = await (await panel.toSvg()).text();
    expect(svg.startsWith("<svg")).toBe(true);
    expect(svg.includes(plot.getAttribute("aria-label")!.split(":")[0]!.slice(0, 20))).toBe(true);
    const { png, data } = await pixels(panel, 0, 0, 400, plot.clientHeight);
    expect([png.width, png.height]).toEqual([400, plot.clientHeight]);
    expect(new Set(new Uint32Array(data.buffer)).size).toBeGreaterThan(8);
  });

  test("a click takes one rank, another with Ctrl adds one, and the same again clears", async () => {
    const { panel, brushes, plot } = await mount("breakdown");
    const frame = frameOf("breakdown");
    const [firstRow, secondRow] = [await rowAt(panel, "rank 1"), await rowAt(panel, "rank 3")];
    press(plot, 200, firstRow.y);
    panel.show(frame, { ...NOTHING, ranks: [1] });
    press(plot, 200, secondRow.y, { ctrlKey: true });
    press(plot, 200, firstRow.y);
    press(plot, 200, 4);
    expect(brushes).toEqual([{ ranks: [1] }, { ranks: [1, 3] }, { ranks: null }, { ranks: null }]);
  });

  test("a drag takes the rows that it meets", async () => {
    const { panel, brushes, plot } = await mount("overlap");
    const [from, to] = [await rowAt(panel, "rank 1"), await rowAt(panel, "rank 3")];
    press(plot, 200, from.y, {}, { x: 220, y: to.y });
    expect(brushes).toEqual([{ ranks: [1, 2, 3] }]);
  });

  test("a click on a bar selects its kinds or its name", async () => {
    const kinds = await mount("kernel_types");
    press(kinds.plot, 200, (await rowAt(kinds.panel, "compute + copies")).y);
    const names = await mount("kernel_durations", { width: 700 });
    press(names.plot, 300, (await rowAt(names.panel, "add (Half)")).y);
    expect([kinds.brushes, names.brushes]).toEqual([
      [{ kinds: ["compute", "memory"] }],
      [{ names: ["add<c10::Half>"] }],
    ]);
  });

  test("a dot of a phase is its rank and its time", async () => {
    const { panel, brushes, plot } = await mount("steps");
    const frame = frameOf("steps");
    const late = await rowAt(panel, "rank 2 +18.1\u202fms");
    plot.focus();
    for (const key of ["Home", "ArrowDown", "Enter"]) {
      plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    }
    expect(brushes.pop()).toEqual({ ranks: [2], window: null });
    // The rank's dots are to the right of the middle; look for one along the height of the row.
    const middle = (await rowAt(panel, "median")).x;
    for (let y = late.y - 18; y < late.y + 18; y += 3) {
      for (let x = Math.round(middle) + 90; x < 340; x += 5) press(plot, x, y);
    }
    const dots = brushes.filter((brush) => brush.window !== undefined && brush.window !== null);
    const { phase, rank, start_ns } = frame.columns;
    const windows = start_ns!.filter((_, at) => phase![at] === "forward" && rank![at] === 2);
    expect(new Set(dots.map((brush) => brush.window![0]))).toEqual(new Set(windows.map(Number)));
    expect(dots.every((brush) => brush.ranks![0] === 2)).toBe(true);
  });

  test("marks that are not selected are faint", async () => {
    const frame = frameOf("overlap");
    const { panel } = await mount("overlap", { chosen: { ranks: [1] } });
    const color = async (name: string): Promise<number[]> => {
      const { y } = await rowAt(panel, name);
      const { x } = await rowAt(panel, "0\u202fms");
      const { data } = await pixels(panel, Math.round(x) + 6, Math.round(y) + 2, 1, 1);
      return [...data.slice(0, 3)];
    };
    // Orange at a quarter of its strength, because compute hides the wait.
    expect(await color("rank 1")).toEqual([247, 216, 195]);
    expect((await color("rank 3"))[2]!).toBeGreaterThan(220);
    panel.show(frame, NOTHING);
    await painted();
    expect(await color("rank 3")).toEqual([247, 216, 195]);
  });

  test("a rectangle of the heatmap is a window and its ranks", async () => {
    const values = Float64Array.from({ length: 40 }, (_, at) => at);
    const reply = { ranks: [0, 1, 2, 3], start: 1000, end: 2000, bins: 10 };
    const frame = heatmapFrame(reply, values, "waiting");
    const { panel, brushes, plot } = await mount("heatmap", { width: 1000, frame });
    const row = async (name: string): Promise<number> => (await rowAt(panel, name)).y;
    // A gutter of 164 px and a margin of 128 px leave 70.8 px per bin.
    press(plot, 164 + 75, await row("rank 1"), {}, { x: 164 + 215, y: await row("rank 2") });
    press(plot, 60, await row("rank 3"));
    press(plot, 400, await row("rank 0"), {}, { x: 520, y: await row("rank 3") });
    expect(brushes).toEqual([
      { ranks: [1, 2], window: [1100, 1400] },
      { ranks: [3], window: null },
      { ranks: null, window: [1300, 1600] },
    ]);
  });

  test("a chart without data states the reason in its place", async () => {
    const { panel } = await mount("overlap");
    const empty = { rows: 0, columns: {}, attrs: { note: "no communication kernels matched" } };
    panel.show(empty, NOTHING);
    expect(panel.el.querySelector(".hta-chart-note")!.textContent).toContain(
      "No communication kernels matched.",
    );
    expect(panel.el.querySelector<HTMLElement>(".hta-chart-view")!.hidden).toBe(true);
    await expect(panel.toPng()).rejects.toThrow("the chart is empty");
    panel.show(frameOf("overlap"), NOTHING);
    await painted();
    expect(panel.el.querySelector<HTMLElement>(".hta-chart-view")!.hidden).toBe(false);
    expect((await panel.toPng()).size).toBeGreaterThan(1000);
  });

  test("another theme has other colours and the same numbers", async () => {
    const { panel } = await mount("breakdown");
    theme.value = "dark";
    await vi.waitFor(async () => {
      await painted();
      const svg = await (await panel.toSvg()).text();
      expect(svg.includes("#3d8ff2")).toBe(true);
      expect(svg.includes("rank 4")).toBe(true);
    });
    expect(panel.el.querySelectorAll(".hta-chart-canvas").length).toBe(1);
  });

  test("pairs of kinds have their whole names in a column of charts", async () => {
    const { panel } = await mount("kernel_types", { width: 364 });
    const columns = {
      kernel_type: ["COMMUNICATION overlapping MEMORY"],
      sum_ns: [10],
      share: [1],
    };
    panel.show({ rows: 1, columns, attrs: {} }, NOTHING);
    await painted();
    expect((await rowAt(panel, "communication + copies")).x).toBeGreaterThan(0);
  });

  test("nothing is drawn beyond the chart's width, and the table has the frame's numbers", async () => {
    const { panel } = await mount("overlap", { width: 300 });
    expect(panel.el.scrollWidth).toBeLessThanOrEqual(300);
    panel.el.querySelector<HTMLButtonElement>(".hta-chart-show")!.click();
    const rows = panel.el.querySelectorAll("tbody tr");
    expect(rows.length).toBe(5);
    expect(rows[2]!.textContent).toContain("%");
  });

  test("a chart that cannot be drawn says so, and can be tried again", () => {
    let broken = true;
    const host = document.createElement("div");
    const slot = new ChartSlot(() => {
      if (broken) throw new Error("no chart nonsense");
      return makeChart("breakdown", () => {}, theme, "GPU");
    }, new AbortController().signal);
    document.body.append(host);
    host.append(slot.el);
    slot.show(frameOf("breakdown"), NOTHING);
    expect([slot.chart, slot.el.textContent]).toEqual([
      null,
      expect.stringContaining("no chart nonsense"),
    ]);
    broken = false;
    slot.el.querySelector("button")!.click();
    expect(slot.el.querySelectorAll("canvas").length).toBe(1);
    expect(slot.el.querySelector(".hta-failure")).toBeNull();
    slot.chart!.destroy();
  });
});

test("the table scrolls instead of breaking its words", async () => {
  const { panel } = await mount("kernel_durations", { width: 240 });
  panel.el.querySelector<HTMLElement>(".hta-chart-show")!.click();
  const cells = [...panel.el.querySelectorAll("td.hta-chart-text")];
  const words = cells.filter(({ textContent }) => /^\w{4,20}$/.test(textContent ?? ""));
  expect(words.length).toBeGreaterThan(0);
  const range = document.createRange();
  for (const word of words) {
    range.selectNodeContents(word);
    expect([word.textContent, range.getClientRects().length]).toEqual([word.textContent, 1]);
  }
});

test("an axis has the labels of all its ticks, or of each second one", async () => {
  const axes = new Set<string>();
  const frame = frameOf("overlap");
  const times = Object.entries(frame.columns).map(([name, column]) => {
    return [name, name.endsWith("_ns") ? column.map((ns) => Number(ns) / 300) : column];
  });
  const short = { ...frame, columns: Object.fromEntries(times) as PanelFrame["columns"] };
  for (let width = 140; width <= 400; width += 20) {
    const { panel } = await mount("overlap", { width, frame: short });
    const svg = await (await panel.toSvg()).text();
    const texts = [...svg.matchAll(/ y="([\d.]+)"[^>]*>([\d.]+)\u202f[µm]?s</g)];
    const y = texts.find(([, , text]) => Number(text) === 0)?.[1];
    const axis = texts.filter((text) => text[1] === y).map((text) => Number(text[2]));
    axes.add(axis.sort((a, b) => a - b).join(" "));
  }
  expect([...axes]).toEqual(["0", "0 1", "0 0.5 1 1.5"]);
});
