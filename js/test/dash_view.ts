/** A whole dashboard in a real browser on the recorded job; for tests. */

import { beforeEach, expect } from "vitest";
import type { MakeChart } from "../src/charts/chart";
import type { LiveSource } from "../src/connection/answering";
import { DashApp } from "../src/dashboard/view";
import { PANELS, WHOLE_JOB_PANELS } from "../src/facts/panels";
import type { PageDocument } from "../src/engine/document";
import type {
  Brush,
  ChartPanel,
  ChartSelection,
  PanelFrame,
  Scene,
  SelectionJson,
} from "../src/protocol/source";
import "../src/entries/widgets.css";
import { type ViewQueries, queriesBelow, makeBox } from "./finding";
import { freshState, LooseModel } from "./model";
import { openPage, recordedPage } from "./recorded";
import { Watched } from "./watched";

/** A fake chart: it records what it shows, and tests can make it brush. */
export class FakeChart implements ChartPanel {
  static all: FakeChart[] = [];
  readonly el = document.createElement("div");
  frame: PanelFrame | null = null;
  chosen: ChartSelection | null = null;
  ended = false;

  constructor(
    readonly id: string,
    readonly brush: (brush: Brush) => void,
  ) {
    FakeChart.all.push(this);
  }

  show(frame: PanelFrame, chosen: ChartSelection): void {
    this.frame = frame;
    this.chosen = chosen;
  }

  toPng = (): Promise<Blob> => Promise.resolve(new Blob());
  toSvg = (): Promise<Blob> => Promise.resolve(new Blob());

  destroy(): void {
    this.ended = true;
    this.el.remove();
  }
}

const fakeChart: MakeChart = (id, brush) => new FakeChart(id, brush);

export interface DashView extends ViewQueries {
  root: HTMLElement;
  app: DashApp;
  state: LooseModel;
  model: LooseModel;
  source: Watched;
  scene: Scene;
  end: AbortController;
  chart(id: string): FakeChart;
  /** Selections of the panels' requests since the last call. */
  questions(): SelectionJson[];
}

beforeEach(() => {
  FakeChart.all = [];
});

/** Without panels whose tables the page lacks: the request of one is refused with all others of it. */
export function mountDash(
  traits: Record<string, unknown> = {},
  change: (page: PageDocument, source: Watched) => void = () => undefined,
  width = 1100,
  makeLive: (source: Watched) => LiveSource | null = () => null,
): DashView {
  const page = recordedPage();
  const { scene } = page;
  const source = new Watched(openPage(page));
  source.replies.set("headline", () => ({}));
  change(page, source);
  const state = freshState();
  const model = new LooseModel({
    panels: PANELS.map(({ id }) => id).filter(
      (id) => !/^(byteps|flight|mpi|snapshot)_/.test(id) && !WHOLE_JOB_PANELS.includes(id),
    ),
    height: 300,
    folded: false,
    metric: "",
    _headline: null,
    ...traits,
  });
  const { box, end } = makeBox(width);
  const live = makeLive(source);
  const app = new DashApp(box, {
    scene,
    source: live?.source ?? source,
    live,
    state,
    model,
    signal: end.signal,
    makeChart: fakeChart,
  });
  const root = box.firstElementChild as HTMLElement;
  let heard = 0;
  return {
    root,
    app,
    state,
    model,
    source,
    scene,
    end,
    ...queriesBelow(root),
    chart: (id) => {
      const chart = FakeChart.all.find((made) => made.id === id && !made.ended);
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

/** A dashboard that shows its first figures. */
export async function openDashboard(...args: Parameters<typeof mountDash>): Promise<DashView> {
  const view = mountDash(...args);
  await waitForFigures(view);
  return view;
}

export async function waitForFigures(view: DashView): Promise<void> {
  const kernels = (): HTMLElement[] => view.all("[data-panel=kernels] .hta-name-button");
  // The first view of a file decompresses its page, which takes long on a busy machine.
  await expect.poll(kernels, { timeout: 10_000 }).toHaveLength(12);
  await expect.poll(() => view.text(".hta-said")).toContain("compute");
}
