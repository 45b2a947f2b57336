/** One view of a dashboard: puts the parts together, and the selection through all of them. */

import { type MakeStage, TimelineApp } from "../app/app";
import { copyText } from "../app/clipboard";
import { throttle } from "../app/context";
import { h } from "../app/dom";
import { detectTheme, watchTheme } from "../app/host_theme";
import { problemLines } from "../app/panels/problems";
import { same } from "../app/history";
import { EVERYTHING } from "../app/selection";
import { type Key, type Model, Shared } from "../app/shared";
import { applyTheme } from "../app/theme_vars";
import type { Scene, SelectionJson, Source, Span, ThemeName } from "../contract";
import { plural } from "../draw/format";
import type { LiveSource } from "../data/offline";
import { Board } from "./board";
import { panelKind, PANELS } from "./catalog";
import { ChartSlot, type FigureItems, type MakeChart } from "./chart_slot";
import { brushed, chosenOf, NONE_CHOSEN, picked } from "./choice";
import { allExports, type Exportable, type ExportWays, panelExports } from "./exports";
import { Headline, type HeadlineFacts } from "./headline";
import { HeatmapView } from "./heatmap_view";
import { kernelSays, progressWords } from "./kernel_words";
import { listenToDashKeys } from "./keys";
import { type Choice, shownIds, withPanel } from "./layout";
import { type MenuItem, Pane } from "./pane";
import { PanelData } from "./panel_data";
import { ProblemsPane } from "./problems_panel";
import { saveForm } from "./save_form";
import { SelectionPanel } from "./selection_panel";
import { Sight } from "./sight";
import { NameTable } from "./table";
import { KERNELS, OPERATORS } from "./tables";
import { DashToolbar } from "./toolbar";
import type { Brush, Chosen } from "./types";
import { phrasesOf } from "./words";

export interface DashOptions {
  scene: Scene;
  source: Source;
  /** What linked views share. */
  state: Model;
  /** The dashboard's own traits. */
  model: Model;
  signal: AbortSignal;
  makeStage: MakeStage;
  makeChart: MakeChart | null;
  /** A kernel, and what the page fetches so that it can do without it; null in saved pages. */
  live: LiveSource | null;
  /** BokehJS, once the model names its widget; null while it does not. */
  bokeh(): Promise<unknown> | null;
}

/** While the view moves, figures of what is in view follow at this pace. */
const VIEW_MS = 160;
const FIT_MS = 120;
const MOST_OFFERS = 4;
const LEAST_TIMELINE_PX = 220;
const MOST_TIMELINE_PX = 560;
/** Higher rows than this are empty. */
const STRETCH = 1.35;

export class DashApp {
  private readonly root: HTMLElement;
  private readonly shared: Shared;
  private readonly timeline: TimelineApp;
  private readonly board: Board;
  private readonly toolbar: DashToolbar;
  private readonly headline: Headline;
  private readonly words: SelectionPanel;
  private readonly problems: ProblemsPane;
  private readonly data: PanelData;
  private readonly sight: Sight;
  private readonly panes = new Map<string, Pane>();
  private readonly slots = new Map<string, ChartSlot>();
  private heatmap: HeatmapView | null = null;
  private chosen: Chosen = NONE_CHOSEN;
  /** What the timeline shows now, be it on its way. */
  private view: Span;
  private scene: Scene;
  private theme: ThemeName;
  /** Figures that the kernel has made for this view. */
  private readonly items: Record<string, FigureItems | undefined> = {};
  private fetches = false;
  private refreshing = false;
  private fitted = false;
  private asksFigures = false;

  constructor(
    host: HTMLElement,
    private readonly options: DashOptions,
  ) {
    const { signal, scene, source } = options;
    this.scene = scene;
    this.view = scene.range;
    this.root = h("div", {
      class: "hta-root hta-dash",
      tabindex: -1,
      role: "group",
      "aria-label": `Dashboard of ${scene.title}`,
      "data-lm-suppress-shortcuts": "true",
    });
    host.append(this.root);
    this.theme = detectTheme(this.root);
    applyTheme(this.root, this.theme);

    this.shared = new Shared(signal);
    this.shared.attach(options.state);
    this.data = new PanelData(source, (ids) => this.showPanels(ids), signal);
    this.sight = new Sight(() => this.refresh(), signal);
    this.headline = new Headline((rank, add) => this.chooseRank(rank, add));
    this.problems = new ProblemsPane(() => this.scene);
    this.words = new SelectionPanel({
      select: (selection) => this.select(selection, this.shared.state.ranks_from),
      copy: (text, what) => void this.copy(text, what),
      openExport: () => this.timeline.openExport(),
      scene: () => this.scene,
      shortName: (name) => this.shortName(name),
    });
    this.toolbar = new DashToolbar({
      root: this.root,
      signal,
      undo: () => this.undo(),
      redo: () => this.redo(),
      setScope: (scope) => this.set({ scope }),
      clear: () => this.select(null, ""),
      showPanel: (id, on) => this.setChoice(withPanel(this.choice, id, on)),
      isShown: (id) => shownIds(this.choice).includes(id),
      exports: () => this.exports(),
      saveForm: () => this.saveForm(),
      help: () => this.timeline.openHelp(),
      openProblems: () => this.openProblems(),
    });
    const status = h("div", { class: "hta-dash-status" });
    const place = this.pane("timeline");
    const box = h("div", { class: "hta-timeline-place" });
    place.setContent({ el: box, hasTitle: true, show: () => undefined });
    this.board = new Board(this.root, (id) => this.pane(id).el, status);
    this.root.append(this.toolbar.el, this.headline.el, this.board.el);

    const folded = options.model.get("folded");
    this.timeline = new TimelineApp(box, {
      scene,
      state: options.state,
      source,
      height: LEAST_TIMELINE_PX,
      signal,
      makeStage: options.makeStage,
      folded: typeof folded === "boolean" ? folded : null,
      keepFolded: (on) => this.keep("folded", on),
      part: {
        status,
        theme: this.theme,
        kernelSays: () => (options.live === null ? null : kernelSays(options.live.source)),
        openProblems: () => this.openProblems(),
      },
    });
    place.show(
      { frame: { rows: 1, columns: {}, attrs: {} }, isStale: false, error: null },
      NONE_CHOSEN,
    );
    const moved = throttle(VIEW_MS, signal, () => this.viewMoved());
    this.timeline.onView((view) => {
      this.view = view;
      moved();
    });

    this.listen();
    this.showScene();
    this.arrange();
    this.fitTimeline();
    this.follow();
    // First the timeline and the numbers: the library of the charts takes longer than those.
    requestAnimationFrame(() => this.askLater());
  }

  /** Follow another shared state from now on. */
  attach(state: Model): void {
    this.shared.attach(state);
    this.timeline.attach(state);
  }

  setScene(scene: Scene): void {
    this.scene = scene;
    this.timeline.setScene(scene);
    this.showScene();
    this.data.forget();
    this.follow();
  }

  private listen(): void {
    const { shared, root, options } = this;
    const { signal, model, source } = options;
    shared.onChange((keys) => this.heard(keys));
    shared.onHistory(() => this.toolbar.setHistory(shared.canUndo, shared.canRedo));
    const listen = (name: string, listener: () => void): void => {
      model.on(`change:${name}`, listener);
      signal.addEventListener("abort", () => model.off(`change:${name}`, listener), { once: true });
    };
    listen("panels", () => this.arrange());
    listen("height", () => {
      this.fitted = false;
      this.fitTimeline();
    });
    listen("folded", () => this.timeline.setFolded(model.get("folded") === true));
    listen("_figures", () => void this.startCharts());
    listen("bokehjs", () => void this.startCharts());
    listen("_headline", () => this.showHeadline());
    listen("metric", () => this.metricChanged());
    source.onStatus((status) => {
      // What a busy kernel could not tell is asked again once it is free.
      if (status === "live") this.retry();
    }, signal);
    options.live?.source.onReturn(() => this.retry(), signal);
    watchTheme(root, signal, (theme) => this.setTheme(theme));
    const resized = new ResizeObserver(() => this.arrange());
    resized.observe(root);
    const fit = throttle(FIT_MS, signal, () => this.fitTimeline());
    const grown = new ResizeObserver(fit);
    for (const { id } of PANELS) if (id !== "timeline") grown.observe(this.pane(id).el);
    signal.addEventListener("abort", () => grown.disconnect(), { once: true });
    signal.addEventListener("abort", () => this.close(resized), { once: true });
    listenToDashKeys(root, signal, {
      undo: () => this.undo(),
      redo: () => this.redo(),
      clear: () => this.select(null, ""),
      isEmpty: () => shared.state.selection === null && shared.state.selected_event === null,
      help: () => this.timeline.openHelp(),
    });
  }

  // --- the selection ------------------------------------------------------------------------------

  private heard(keys: ReadonlySet<Key>): void {
    if (keys.has("selection") || keys.has("scope")) this.follow();
  }

  /** A panel asks for something to be selected. */
  private brush(id: string, brush: Brush): void {
    const { selection, ranks_from: from } = this.shared.state;
    const next = brushed(selection, brush, this.scene.ranks.length);
    this.select(next, brush.ranks === undefined ? from : id);
  }

  private chooseRank(rank: number, add: boolean): void {
    this.brush("headline", { ranks: picked(this.chosen.ranks, rank, add) });
  }

  private select(selection: SelectionJson | null, from: string): void {
    const ranks_from = (selection?.ranks ?? null) === null ? "" : from;
    const patch = selection === null ? { selected_event: null } : {};
    this.set({ ...patch, selection, ranks_from });
  }

  /** Each choice is a step of its own to come back to. */
  private set(patch: Parameters<Shared["set"]>[0]): void {
    this.timeline.settle();
    this.shared.set(patch);
    this.shared.flush();
    this.follow();
  }

  private undo(): void {
    this.timeline.settle();
    if (!this.shared.undo()) this.timeline.flash(["Nothing to undo."]);
  }

  private redo(): void {
    this.timeline.settle();
    if (!this.shared.redo()) this.timeline.flash(["Nothing to redo."]);
  }

  /** Show what is selected: marks at once, numbers when they come. */
  private follow(): void {
    const { selection, scope } = this.shared.state;
    this.chosen = chosenOf(selection, this.scene);
    this.toolbar.setScope(scope, selection !== null);
    this.toolbar.setHistory(this.shared.canUndo, this.shared.canRedo);
    this.words.select(selection);
    this.saySelection();
    for (const pane of this.panes.values()) this.showPanel(pane.id);
    this.refresh();
  }

  private viewMoved(): void {
    if (this.shared.state.scope === "view") this.refresh();
    else this.heatmap?.refresh();
  }

  /** What figures are of. */
  private get effective(): SelectionJson {
    const { selection, scope } = this.shared.state;
    const whole: SelectionJson = { ...EVERYTHING, ...selection };
    if (scope !== "view" || whole.start_ns !== null || whole.end_ns !== null) return whole;
    const [start, end] = this.view;
    return { ...whole, start_ns: Math.floor(start), end_ns: Math.ceil(end) };
  }

  /** Ask for what the panels in sight lack, once for all that changes together. */
  private refresh(): void {
    if (this.refreshing || this.options.signal.aborted) return;
    this.refreshing = true;
    queueMicrotask(() => {
      this.refreshing = false;
      if (this.options.signal.aborted) return;
      this.heatmap?.refresh();
      const ids = [...this.panes.values()]
        .filter((pane) => this.sight.isSeen(pane.el))
        .map(({ id }) => (id === "selection" ? "summary" : id))
        .filter((id) => id === "summary" || isCounted(id));
      if (ids.length > 0)
        this.data.want(["summary", ...ids.filter((id) => id !== "summary")], this.effective);
    });
  }

  private showPanels(ids: readonly string[]): void {
    for (const id of ids) this.showPanel(id);
    this.saySelection();
  }

  private showPanel(id: string): void {
    if (id === "summary" || id === "selection") {
      const { frame, isStale } = this.data.state("summary");
      if (frame !== null && !isStale) this.words.show(frame);
      return;
    }
    if (id === "heatmap") this.heatmap?.mark();
    if (isCounted(id)) this.panes.get(id)?.show(this.data.state(id), this.chosen);
  }

  /** What the tables call it. */
  private shortName(name: string): string {
    const frame = this.data.state("kernels").frame;
    const row = frame?.columns.name?.indexOf(name) ?? -1;
    const short = row < 0 ? null : frame?.columns.short?.[row];
    return typeof short === "string" ? short : name;
  }

  private saySelection(): void {
    const { selection } = this.shared.state;
    if (selection === null) {
      this.timeline.saySelection(null);
      return;
    }
    const { frame, isStale } = this.data.state("summary");
    const events = frame?.columns.events?.[0];
    const phrases = phrasesOf(selection, (name) => this.shortName(name)).map(({ text }) => text);
    const count = isStale || typeof events !== "number" ? "" : `, ${plural(events, "event")}`;
    this.timeline.saySelection([{ strong: "Selection:" }, ` ${phrases.join(", ")}${count}.`]);
  }

  // --- the panels ---------------------------------------------------------------------------------

  private get choice(): Choice {
    const given = this.options.model.get("panels");
    return Array.isArray(given) ? (given as string[]) : PANELS.map(({ id }) => id);
  }

  private setChoice(choice: Choice): void {
    this.keep("panels", choice);
    this.arrange();
  }

  private pane(id: string): Pane {
    const known = this.panes.get(id);
    if (known !== undefined) return known;
    const pane = new Pane(id, {
      root: this.root,
      signal: this.options.signal,
      retry: () => this.retry(),
      menu: (one) => this.paneMenu(one),
    });
    this.panes.set(id, pane);
    this.sight.watch(pane.el);
    this.fillPane(pane);
    return pane;
  }

  private fillPane(pane: Pane): void {
    const { id } = pane;
    const { signal, makeChart } = this.options;
    const names = (chosen: string[] | null): void => this.brush(id, { names: chosen });
    if (id === "kernels") pane.setContent(new NameTable(KERNELS, names, signal));
    else if (id === "operators") pane.setContent(new NameTable(OPERATORS, names, signal));
    else if (id === "selection") this.fixed(pane, this.words);
    else if (id === "problems") this.fixed(pane, this.problems);
    else if (makeChart !== null && isChart(id)) {
      const brush = (asked: Brush): void => this.brush(id, asked);
      const slot = new ChartSlot(id, makeChart, brush, this.theme, signal);
      this.slots.set(id, slot);
      if (id === "heatmap") this.heatmap = this.makeHeatmap(pane, slot);
      pane.setContent(this.heatmap !== null && id === "heatmap" ? this.heatmap : slot);
    }
  }

  private makeHeatmap(pane: Pane, slot: ChartSlot): HeatmapView {
    const { source, signal, model } = this.options;
    return new HeatmapView(pane, slot, {
      source,
      signal,
      selection: () => this.effective,
      view: () => this.view,
      chosen: () => this.chosen,
      isSeen: () => this.sight.isSeen(pane.el),
      metric: () => {
        const given = model.get("metric");
        if (typeof given === "string" && given !== "") return given;
        const matched = this.scene.ranks.some(({ summary }) =>
          summary.some((one) => one.wait !== undefined),
        );
        return matched ? "waiting" : "busy";
      },
      setMetric: (metric) => {
        this.keep("metric", metric);
        this.metricChanged();
      },
    });
  }

  private metricChanged(): void {
    this.heatmap?.followMetric();
    this.heatmap?.refresh();
  }

  private retry(): void {
    this.data.retry();
    this.heatmap?.retry();
  }

  /** A panel that shows itself. */
  private fixed(pane: Pane, content: { el: HTMLElement }): void {
    pane.setContent({ el: content.el, hasTitle: true, show: () => undefined });
    pane.show(
      { frame: { rows: 1, columns: {}, attrs: {} }, isStale: false, error: null },
      NONE_CHOSEN,
    );
  }

  private arrange(): void {
    const width = this.root.clientWidth;
    if (!this.board.arrange(width, this.choice)) return;
    this.fitted = false;
    for (const pane of this.panes.values()) this.showPanel(pane.id);
    this.fitTimeline();
    this.askLater();
    this.refresh();
  }

  /** As given; else what its ranks need, and what the columns beside it leave. */
  private timelineHeight(natural: number): number {
    const given = this.options.model.get("height");
    if (typeof given === "number") return given;
    const needed = Math.min(Math.max(natural, LEAST_TIMELINE_PX), MOST_TIMELINE_PX);
    return Math.max(needed, Math.min(this.roomBeside(), needed * STRETCH));
  }

  /** The height of the timeline at which its column is as high as those beside it. */
  private roomBeside(): number {
    const columns = this.board.columnsBeside("timeline");
    if (columns === null) return 0;
    const height = (ids: readonly string[]): number =>
      ids.reduce((sum, id) => sum + this.pane(id).el.offsetHeight, 0);
    const own = height(columns.own) - this.timeline.height;
    return Math.max(...columns.others.map(height)) - own;
  }

  private fitTimeline(): void {
    // While something is selected, rows come and go: what is looked at should stay in its place.
    if (this.fitted && this.shared.state.selection !== null) return;
    this.fitted = true;
    this.timeline.height = this.timelineHeight(this.timeline.naturalHeight);
  }

  private showScene(): void {
    const { scene } = this;
    const about = this.options.model.get("_about") as { format?: string } | null | undefined;
    this.toolbar.setScene(scene, about?.format ?? "");
    this.toolbar.setProblems(problemLines(scene).length, scene);
    this.problems.print();
    this.showHeadline();
  }

  private showHeadline(): void {
    const facts = (this.options.model.get("_headline") ?? null) as HeadlineFacts | null;
    this.headline.show(facts);
    const findings = facts?.findings ?? [];
    this.words.offer(
      findings.slice(0, MOST_OFFERS).map(({ label, text, selection }) => ({
        text: label,
        name: text,
        press: () => this.select(selection, "headline"),
      })),
    );
  }

  private setTheme(theme: ThemeName): void {
    this.theme = theme;
    applyTheme(this.root, theme);
    this.timeline.setTheme(theme);
    for (const slot of this.slots.values()) slot.setTheme(theme);
  }

  // --- charts and words come later -----------------------------------------------------------------

  private figures(): Record<string, FigureItems | undefined> {
    const given = this.options.model.get("_figures") as typeof this.items | null | undefined;
    return { ...given, ...this.items };
  }

  /** Ask the kernel for what it makes only when somebody looks. */
  private askLater(): void {
    const { source, signal, model } = this.options;
    if (signal.aborted) return;
    const ask = (op: string): void => {
      // Answers come as traits: every view of the model has them then.
      source.ask(op, {}, signal).catch(() => undefined);
    };
    if (model.get("_headline") === null || model.get("_headline") === undefined) ask("headline");
    void this.askFigures();
    void this.startCharts();
  }

  /** One by one, so that a kernel answers other questions in between. */
  private async askFigures(): Promise<void> {
    const { source, signal } = this.options;
    if (this.asksFigures) return;
    this.asksFigures = true;
    try {
      for (const id of this.lacking()) {
        const { reply } = await source.ask("figures", { panels: [id] }, signal);
        Object.assign(this.items, reply.figures);
        await this.startCharts();
      }
    } catch {
      // Numbers say themselves what is the matter with the kernel.
    } finally {
      this.asksFigures = false;
      this.fetchOffline();
    }
  }

  /** What the page needs to do without the kernel, once all is drawn. */
  private fetchOffline(): void {
    const { live, signal } = this.options;
    if (live === null || this.fetches || signal.aborted) return;
    this.fetches = true;
    live.offline.onProgress((progress) => this.timeline.sayAside(progressWords(progress)), signal);
    live.offline.start();
  }

  /** Charts on the board without a figure, in its order. */
  private lacking(): string[] {
    const figures = this.figures();
    const lacking = shownIds(this.choice).filter(isChart);
    return lacking.filter((id) => figures[id] === undefined);
  }

  private async startCharts(): Promise<void> {
    const { signal } = this.options;
    const bokeh = await this.options.bokeh();
    if (bokeh === null || signal.aborted) return;
    const figures = this.figures();
    const shown = shownIds(this.choice);
    for (const [id, slot] of this.slots) {
      if (!shown.includes(id)) continue;
      const items = figures[id];
      if (items?.light === undefined) continue;
      await slot.start(bokeh, items);
      this.showPanel(id);
    }
  }

  // --- what can be taken away ----------------------------------------------------------------------

  private paneMenu(id: string): MenuItem[] {
    return [
      ...panelExports(this.exportable(id), this.exportWays()),
      {
        text: "Hide this panel",
        press: () => this.setChoice(withPanel(this.choice, id, false)),
      },
    ];
  }

  private exports(): MenuItem[] {
    const shown = shownIds(this.choice).filter((id) => isCounted(id) || isChart(id));
    return allExports(
      shown.map((id) => this.exportable(id)),
      this.exportWays(),
    );
  }

  private exportable(id: string): Exportable {
    const chart = this.slots.get(id)?.chart ?? null;
    // The heatmap's cells are no table of rows.
    const frame = isCounted(id) ? this.data.state(id).frame : null;
    return { id, title: panelKind(id).title, chart, frame };
  }

  private exportWays(): ExportWays {
    const { timeline, scene, headline } = this;
    const { source, signal } = this.options;
    return {
      title: scene.title,
      source,
      signal,
      openTrace: () => timeline.openExport(),
      timelineSvg: () => timeline.toSvg(headline.text),
      copy: (text, what) => void this.copy(text, what),
      fail: (title, error) => timeline.fail(title, error),
    };
  }

  private saveForm(): HTMLElement {
    const { source, signal } = this.options;
    return saveForm(source, signal, {
      op: "save_html",
      request: { max_mb: 25 },
      path: `${this.scene.title.replace(/[^\p{L}\p{N}._-]+/gu, "-") || "dashboard"}.html`,
      about:
        "One file that needs no kernel and no network; what does not fit into 25 MB is left out.",
    });
  }

  private async copy(text: string, what: string): Promise<void> {
    const done = await copyText(text, this.root);
    if (this.options.signal.aborted) return;
    this.timeline.flash([done ? `Copied ${what}.` : "The browser does not allow copying here."]);
  }

  private openProblems(): void {
    const pane = this.panes.get("problems");
    if (pane === undefined || !shownIds(this.choice).includes("problems")) {
      this.timeline.openProblems();
      return;
    }
    this.problems.showAll();
    pane.el.scrollIntoView({ block: "nearest" });
  }

  /** Say in the widget what went wrong. */
  fail(title: string, error: unknown): void {
    this.timeline.fail(title, error);
  }

  /** Remember a trait of the dashboard's own. */
  private keep(name: string, value: unknown): void {
    const { model } = this.options;
    if (same(model.get(name), value)) return;
    model.set(name, value);
    model.save_changes();
  }

  private close(resized: ResizeObserver): void {
    resized.disconnect();
    this.root.remove();
  }
}

/** Is it drawn by BokehJS? */
function isChart(id: string): boolean {
  const { look } = panelKind(id);
  return look === "chart" || look === "heatmap";
}

/** Is it made of numbers that are asked for? */
function isCounted(id: string): boolean {
  const { look } = panelKind(id);
  return look === "chart" || look === "table";
}
