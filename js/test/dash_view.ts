/** A whole dashboard in a real browser on a made-up job, its numbers written down here; for tests. */

import { afterEach, beforeEach } from "vitest";
import { freshState, LooseModel } from "../dev/app_harness";
import { AppSource } from "../dev/app_source";
import { type FakeJob, fakeJob } from "../dev/fake_job";
import type { MakeChart } from "../src/charts/chart";
import { DashApp } from "../src/dashboard/view";
import { PANELS } from "../src/facts/panels";
import type {
  Brush,
  ChartPanel,
  Chosen,
  PanelFrame,
  Reply,
  SelectionJson,
} from "../src/protocol/source";
import { createStage } from "../src/stage/stage";
import "../src/entries/dashboard.css";

/** Answers for panels too; what is asked for is kept in `asked`. */
export class DashSource extends AppSource {
  /** Charts whose figures fail, with these words. */
  readonly failing = new Map<string, string>();
  kernels = ["gemm", "AllReduce", "relu"];
  /** A row a name: more than a table shows at first. */
  operators = Array.from({ length: 30 }, (_, at) => `aten::op${at}`);

  override async ask(
    op: string,
    request: Record<string, unknown>,
    signal?: AbortSignal,
  ): Promise<Reply> {
    if (this.broken.has(op) || !["panels", "heatmap", "figures", "headline"].includes(op)) {
      return super.ask(op, request, signal);
    }
    this.asked.push({ op, request });
    if (this.held !== null) await new Promise<void>((resolve) => this.held?.push(resolve));
    if (op === "headline") return { reply: {}, buffer: null };
    if (op === "figures") {
      const [id = ""] = request.panels as string[];
      const why = this.failing.get(id);
      if (why !== undefined) throw new Error(why);
      return { reply: { figures: { [id]: { light: {}, dark: {} } } }, buffer: null };
    }
    if (op === "heatmap") {
      const { start, end, bins } = request as { start: number; end: number; bins: number };
      const values = new Float64Array(3 * bins);
      const reply = { ranks: [0, 1, 2], start, end, bins, exact: true, attrs: {} };
      return { reply, buffer: values.buffer };
    }
    const selection = request.selection as SelectionJson;
    const ids = request.panels as string[];
    const panels = Object.fromEntries(ids.map((id) => [id, this.frame(id, selection)]));
    return { reply: { panels }, buffer: null };
  }

  frame(id: string, selection: SelectionJson): PanelFrame {
    const of = selection.ranks?.length ?? 3;
    if (id === "summary") {
      const columns = { events: [100 * of], device_events: [10 * of], collectives: [of] };
      return { rows: 1, columns, attrs: {} };
    }
    const names = id === "operators" ? this.operators : id === "kernels" ? this.kernels : [];
    const each = (value: number): number[] => names.map((_, at) => (value * of) / (at + 1));
    const columns = {
      name: names,
      short: names,
      kind: names.map((_, at) => (at === 1 ? "communication" : "compute")),
      count: each(600),
      sum_ns: each(6e6),
      mean_ns: each(1e4),
      wait_ns: names.map((_, at) => (at === 1 ? 1e6 : null)),
      odd_rank: names.map((_, at) => (at === 1 ? null : 2)),
      odd_ratio: names.map((_, at) => (at === 1 ? null : 1.25)),
      device_total_ns: each(6e6),
      cpu_self_ns: each(1e6),
    };
    if (names.length > 0) return { rows: names.length, columns, attrs: { total: names.length } };
    return { rows: 3, columns: { rank: [0, 1, 2] }, attrs: {} };
  }
}

/** What stands in for a Bokeh figure: it says what it shows, and can be told to brush. */
export class FakeChart implements ChartPanel {
  static all: FakeChart[] = [];
  readonly el = document.createElement("div");
  frame: PanelFrame | null = null;
  chosen: Chosen | null = null;
  theme = "";
  ended = false;

  constructor(
    readonly id: string,
    host: HTMLElement,
    readonly brush: (brush: Brush) => void,
  ) {
    host.append(this.el);
    FakeChart.all.push(this);
  }

  show(frame: PanelFrame, chosen: Chosen): void {
    this.frame = frame;
    this.chosen = chosen;
  }

  setTheme(theme: string): void {
    this.theme = theme;
  }

  toPng = (): Promise<Blob> => Promise.resolve(new Blob());
  toSvg = (): Promise<Blob> => Promise.resolve(new Blob());

  destroy(): void {
    this.ended = true;
    this.el.remove();
  }
}

export const fakeChart: MakeChart = (id, _bokeh, _items, host, onBrush) =>
  Promise.resolve(new FakeChart(id, host, onBrush));

export interface DashView {
  root: HTMLElement;
  app: DashApp;
  state: LooseModel;
  model: LooseModel;
  source: DashSource;
  job: FakeJob;
  end: AbortController;
  find(selector: string): HTMLElement;
  all(selector: string): HTMLElement[];
  text(selector: string): string;
  chart(id: string): FakeChart;
  /** Selections that panels were asked for since the last call. */
  questions(): SelectionJson[];
}

let ends: AbortController[] = [];
beforeEach(() => {
  ends = [];
  FakeChart.all = [];
});
afterEach(() => {
  for (const end of ends) end.abort();
  document.body.replaceChildren();
});

export function mountDash(
  traits: Record<string, unknown> = {},
  make: (source: DashSource, job: FakeJob) => void = () => undefined,
  width = 1100,
  bokeh: () => Promise<unknown> = () => Promise.resolve({}),
): DashView {
  const job = fakeJob(3, 1);
  const source = new DashSource(job);
  make(source, job);
  const state = freshState();
  const model = new LooseModel({
    panels: PANELS.map(({ id }) => id).filter((id) => !/^(byteps|mpi)_/.test(id)),
    height: 300,
    folded: false,
    metric: "",
    _headline: null,
    _figures: {},
    ...traits,
  });
  const end = new AbortController();
  ends.push(end);
  const box = document.createElement("div");
  box.style.width = `${width}px`;
  document.body.append(box);
  const app = new DashApp(box, {
    scene: job.scene,
    source,
    live: null,
    state,
    model,
    signal: end.signal,
    makeStage: createStage,
    makeChart: fakeChart,
    bokeh,
  });
  const root = box.firstElementChild as HTMLElement;
  const find = (selector: string): HTMLElement => {
    const node = root.querySelector<HTMLElement>(selector);
    if (node === null) throw new Error(`nothing is ${selector}`);
    return node;
  };
  let heard = 0;
  return {
    root,
    app,
    state,
    model,
    source,
    job,
    end,
    find,
    all: (selector) => [...root.querySelectorAll<HTMLElement>(selector)],
    text: (selector) =>
      (root.querySelector(selector)?.textContent ?? "").replace(/[\u2009\u202f]/g, " "),
    chart: (id) => {
      const chart = FakeChart.all.find((one) => one.id === id && !one.ended);
      if (chart === undefined) throw new Error(`no chart ${id}`);
      return chart;
    },
    questions: () => {
      const asked = source.asked.filter(({ op }) => op === "panels").slice(heard);
      heard += asked.length;
      return asked.map(({ request }) => request.selection as SelectionJson);
    },
  };
}
