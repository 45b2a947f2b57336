/** The panels: what is in each, which of them are in sight, and the numbers that those need. */

import type { Scene, Source, Span } from "../contract";
import { isOfFormat } from "./by_format/catalog";
import { formatContent } from "./by_format/contents";
import { isChart, isCounted } from "./catalog";
import type { ChartSlot } from "./chart_slot";
import type { ChartsLoader } from "./charts_loader";
import { NONE_CHOSEN } from "./choice";
import type { Choosing } from "./choosing";
import type { HeadlineFacts } from "./headline";
import { HeatmapView } from "./heatmap_view";
import { type MenuItem, Pane } from "./pane";
import { PanelData } from "./panel_data";
import type { ProblemsPane } from "./problems_panel";
import { expectedHeight } from "./room";
import type { SelectionPanel } from "./selection_panel";
import { Sight } from "./sight";
import { NameTable } from "./table";
import { KERNELS, OPERATORS } from "./tables";
import type { Brush, PanelFrame } from "./types";

export interface PaneParts {
  root: HTMLElement;
  source: Source;
  signal: AbortSignal;
  choosing: Choosing;
  charts: ChartsLoader;
  words: SelectionPanel;
  problems: ProblemsPane;
  scene(): Scene;
  view(): Span;
  menu(id: string): MenuItem[];
  /** The headline, which names the ranks to mark. */
  headline(): HeadlineFacts | null;
  /** What the heatmap shows; "" where nobody has chosen. */
  metric(): string;
  setMetric(metric: string): void;
  /** Numbers have come. */
  shown(): void;
}

/** A panel that shows itself has no numbers to wait for. */
const SELF = {
  frame: { rows: 1, columns: {}, attrs: {} },
  isStale: false,
  error: null,
};

export class Panes {
  private readonly all = new Map<string, Pane>();
  private readonly data: PanelData;
  private readonly sight: Sight;
  private heatmap: HeatmapView | null = null;
  private refreshing = false;

  constructor(private readonly parts: PaneParts) {
    const { source, signal } = parts;
    this.data = new PanelData(source, (ids) => this.showSome(ids), signal);
    this.sight = new Sight(() => this.refresh(), signal);
  }

  /** A panel, made when it is first asked for. */
  pane(id: string): Pane {
    const known = this.all.get(id);
    if (known !== undefined) return known;
    const { root, signal, menu, headline, scene, charts } = this.parts;
    const retry = (): void => {
      this.retry();
      charts.load();
    };
    const pane = new Pane(id, { root, signal, retry, menu, headline, scene });
    this.all.set(id, pane);
    this.sight.watch(pane.el);
    pane.reserve(expectedHeight(id, scene()));
    this.fill(pane);
    return pane;
  }

  /** Numbers of a panel, as they are known. */
  frame(id: string): PanelFrame | null {
    return this.data.state(id).frame;
  }

  /** How many events are selected; null while that is not known. */
  get events(): number | null {
    const { frame, isStale } = this.data.state("summary");
    const events = frame?.columns.events?.[0];
    return isStale || typeof events !== "number" ? null : events;
  }

  /** What the tables call it. */
  shortName(name: string): string {
    const { name: names = [], short = [] } = this.frame("kernels")?.columns ?? {};
    const found = short[names.indexOf(name)];
    return typeof found === "string" ? found : name;
  }

  /** A panel that shows itself. */
  setFixed(id: string, el: HTMLElement): void {
    const pane = this.pane(id);
    pane.setContent({ el, hasTitle: true, show: () => undefined });
    pane.show(SELF, NONE_CHOSEN);
  }

  /** Show what is known, marked as it is chosen now. */
  showAll(): void {
    for (const id of this.all.keys()) this.show(id);
  }

  show(id: string): void {
    if (id === "summary" || id === "selection") {
      const { frame, isStale } = this.data.state("summary");
      if (frame !== null && !isStale) this.parts.words.show(frame);
    } else if (id === "heatmap") this.heatmap?.mark();
    else if (isCounted(id)) {
      this.all.get(id)?.show(this.data.state(id), this.parts.choosing.chosen);
    }
  }

  /** Ask for what the panels in sight lack, once for all that changes together. */
  refresh(): void {
    const { signal, choosing } = this.parts;
    if (this.refreshing || signal.aborted) return;
    this.refreshing = true;
    queueMicrotask(() => {
      this.refreshing = false;
      if (signal.aborted) return;
      this.heatmap?.refresh();
      const seen = [...this.all.values()].filter(({ el }) => this.sight.isSeen(el));
      if (seen.length === 0) return;
      const counted = seen.map(({ id }) => id).filter(isCounted);
      this.data.want(["summary", ...counted], choosing.effective);
    });
  }

  /** The window in view is another one. */
  viewMoved(): void {
    if (this.parts.choosing.scope === "view") this.refresh();
    else this.heatmap?.refresh();
  }

  metricChanged(): void {
    this.heatmap?.followMetric();
    this.heatmap?.refresh();
  }

  /** Ask again for what has failed. */
  retry(): void {
    this.data.retry();
    this.heatmap?.retry();
  }

  /** After another scene. */
  forget(): void {
    this.data.forget();
  }

  private showSome(ids: readonly string[]): void {
    for (const id of ids) this.show(id);
    this.parts.shown();
  }

  private fill(pane: Pane): void {
    const { id } = pane;
    const { signal, choosing, charts, words, problems } = this.parts;
    const names = (chosen: string[] | null): void => choosing.brush(id, { names: chosen });
    if (id === "kernels") pane.setContent(new NameTable(KERNELS, names, signal));
    else if (id === "operators") pane.setContent(new NameTable(OPERATORS, names, signal));
    else if (id === "selection") this.setFixed(id, words.el);
    else if (id === "problems") this.setFixed(id, problems.el);
    else if (id === "heatmap") {
      this.heatmap = this.makeHeatmap(pane);
      pane.setContent(this.heatmap);
    } else if (isOfFormat(id)) {
      const slot = (one: string): ChartSlot => charts.slot(one);
      const brush = (from: string, to: Brush): void => choosing.brush(from, to);
      pane.setContent(formatContent(id, { signal, slot, brush }));
    } else if (isChart(id)) pane.setContent(charts.slot(id));
  }

  private makeHeatmap(pane: Pane): HeatmapView {
    const { source, signal, choosing, charts, scene, view, metric, setMetric } = this.parts;
    return new HeatmapView(pane, charts.slot("heatmap"), {
      source,
      signal,
      selection: () => choosing.effective,
      view,
      chosen: () => choosing.chosen,
      isSeen: () => this.sight.isSeen(pane.el),
      metric: () => {
        const given = metric();
        if (given !== "") return given;
        const matched = scene().ranks.some(({ summary }) =>
          summary.some((one) => one.wait !== undefined),
        );
        return matched ? "waiting" : "busy";
      },
      setMetric,
      hasDevices: () =>
        scene().ranks.some(({ summary }) => summary.some(({ role }) => role !== "cpu")),
    });
  }
}
