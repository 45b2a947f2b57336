/** One view of a dashboard: puts the parts together, and the selection through all of them. */

import { type MakeStage, TimelineApp } from "../app/app";
import { copyText } from "../app/clipboard";
import { throttle } from "../app/context";
import { h, toggle } from "../app/dom";
import { detectTheme, watchTheme } from "../app/host_theme";
import { problemLines } from "../app/panels/problems";
import { same } from "../app/history";
import type { Model } from "../app/shared";
import { applyTheme } from "../app/theme_vars";
import type { Scene, Source, Span, ThemeName } from "../contract";
import { plural } from "../draw/format";
import type { LiveSource } from "../data/offline";
import { Board } from "./board";
import { type Tables } from "./by_format/rows";
import { withTables } from "./by_format/source";
import { PANELS } from "./catalog";
import type { FigureItems, MakeChart } from "./chart_slot";
import { ChartsLoader } from "./charts_loader";
import { Choosing } from "./choosing";
import { Headline, type HeadlineFacts } from "./headline";
import { kernelSays, progressWords } from "./kernel_words";
import { listenToDashKeys } from "./keys";
import { type Choice, shownIds, withPanel } from "./layout";
import type { MenuItem } from "./pane";
import { Panes } from "./panes";
import { ProblemsPane } from "./problems_panel";
import { SelectionPanel } from "./selection_panel";
import { TakeAway } from "./take_away";
import { LEAST_PX, TimelineFit } from "./timeline_fit";
import { DashToolbar } from "./toolbar";
import type { Brush } from "./types";
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
  makeChart: MakeChart;
  /** A kernel, and what the page fetches so that it can do without it; null in saved pages. */
  live: LiveSource | null;
  /** BokehJS, once the model names its widget; null while it does not. */
  bokeh(): Promise<unknown> | null;
}

/** While the view moves, figures of what is in view follow at this pace. */
const VIEW_MS = 160;
const FIT_MS = 120;
/** Below this width badges are brief. */
const TIGHT_PX = 760;
const MOST_OFFERS = 4;

export class DashApp {
  private readonly root: HTMLElement;
  private readonly choosing: Choosing;
  private readonly timeline: TimelineApp;
  private readonly board: Board;
  private readonly toolbar: DashToolbar;
  private readonly headline: Headline;
  private readonly words: SelectionPanel;
  private readonly problems: ProblemsPane;
  private readonly panes: Panes;
  private readonly charts: ChartsLoader;
  private readonly takeAway: TakeAway;
  private readonly fit: TimelineFit;
  /** What the timeline shows now, be it on its way. */
  private view: Span;
  private scene: Scene;
  private theme: ThemeName;
  private fetches = false;

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

    this.choosing = this.makeChoosing();
    this.charts = this.makeCharts();
    this.takeAway = new TakeAway({
      exports: () => ({
        title: this.scene.title,
        source,
        signal,
        openTrace: () => this.timeline.openExport(),
        timelineSvg: () => this.timeline.toSvg(this.headline.text),
        copy: (text, what) => void this.copy(text, what),
        fail: (title, error) => this.fail(title, error),
      }),
      chart: (id) => this.charts.chart(id),
      frame: (id) => this.panes.frame(id),
    });
    this.headline = new Headline((rank, add) => this.choosing.chooseRank(rank, add));
    this.problems = new ProblemsPane(() => this.scene);
    this.words = new SelectionPanel({
      select: (selection) => this.choosing.select(selection, this.choosing.ranksFrom),
      copy: (text, what) => void this.copy(text, what),
      openExport: () => this.timeline.openExport(),
      scene: () => this.scene,
      shortName: (name) => this.shortName(name),
    });
    this.panes = this.makePanes();
    this.toolbar = new DashToolbar({
      root: this.root,
      signal,
      undo: () => this.choosing.undo(),
      redo: () => this.choosing.redo(),
      setScope: (scope) => this.choosing.setScope(scope),
      clear: () => this.choosing.select(null),
      showPanel: (id, on) => this.setChoice(withPanel(this.choice, id, on)),
      isShown: (id) => shownIds(this.choice).includes(id),
      isOffered: (id) => this.offered?.includes(id) ?? true,
      exports: () => this.takeAway.all(shownIds(this.choice)),
      saveForm: () => this.takeAway.saveForm(),
      help: () => this.timeline.openHelp(),
      openProblems: () => this.openProblems(),
    });
    const status = h("div", { class: "hta-dash-status" });
    status.hidden = this.offered?.includes("timeline") === false;
    const box = h("div", { class: "hta-timeline-place" });
    this.panes.setFixed("timeline", box);
    this.board = new Board(this.root, (id) => this.panes.pane(id).el, status);
    this.root.append(this.toolbar.el, this.headline.el, this.board.el);

    const folded = options.model.get("folded");
    this.timeline = new TimelineApp(box, {
      scene,
      state: options.state,
      source,
      height: LEAST_PX,
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
    this.fit = new TimelineFit({
      timeline: this.timeline,
      board: this.board,
      given: () => (options.model.get("height") ?? null) as number | null,
      heightOf: (id) => this.panes.pane(id).el.offsetHeight,
      isCalm: () => this.choosing.selection === null,
    });
    const moved = throttle(VIEW_MS, signal, () => this.panes.viewMoved());
    this.timeline.onView((view) => {
      this.view = view;
      moved();
    });

    this.listen();
    this.showScene();
    this.arrange();
    this.choosing.follow();
    // First the timeline and the numbers: the library of the charts takes longer than those.
    requestAnimationFrame(() => this.askLater());
  }

  /** Follow another shared state from now on. */
  attach(state: Model): void {
    this.choosing.attach(state);
    this.timeline.attach(state);
  }

  setScene(scene: Scene): void {
    this.scene = scene;
    this.timeline.setScene(scene);
    this.showScene();
    this.panes.forget();
    this.choosing.follow();
  }

  private makeChoosing(): Choosing {
    const { state, signal } = this.options;
    const ways = {
      scene: () => this.scene,
      view: () => this.view,
      settle: () => this.timeline.settle(),
      changed: () => this.follow(),
      history: () => this.showHistory(),
      say: (text: string) => this.timeline.flash([text]),
    };
    return new Choosing(state, ways, signal);
  }

  private makeCharts(): ChartsLoader {
    const { source, signal, model, bokeh, makeChart } = this.options;
    const given = (): Record<string, FigureItems> =>
      (model.get("_figures") ?? {}) as Record<string, FigureItems>;
    const ways = {
      source,
      signal,
      makeChart,
      bokeh,
      given,
      shown: () => shownIds(this.choice),
      brush: (id: string, brush: Brush) => this.choosing.brush(id, brush),
      drawn: (id: string) => this.panes.show(id),
      done: () => this.fetchOffline(),
    };
    return new ChartsLoader(ways, this.theme);
  }

  private makePanes(): Panes {
    const { source, signal, model } = this.options;
    const tables = (): Tables => (model.get("_tables") ?? {}) as Tables;
    return new Panes({
      root: this.root,
      source: withTables(source, tables),
      signal,
      choosing: this.choosing,
      charts: this.charts,
      words: this.words,
      problems: this.problems,
      scene: () => this.scene,
      view: () => this.view,
      menu: (id) => this.paneMenu(id),
      metric: () => (model.get("metric") ?? "") as string,
      setMetric: (metric) => {
        this.keep("metric", metric);
        this.panes.metricChanged();
      },
      shown: () => this.saySelection(),
    });
  }

  private readonly shortName = (name: string): string => this.panes.shortName(name);

  private listen(): void {
    const { root, options } = this;
    const { signal, model, source } = options;
    const listen = (name: string, listener: () => void): void => {
      model.on(`change:${name}`, listener);
      signal.addEventListener("abort", () => model.off(`change:${name}`, listener), { once: true });
    };
    listen("panels", () => this.arrange());
    listen("height", () => this.fit.fit(true));
    listen("folded", () => this.timeline.setFolded(model.get("folded") === true));
    listen("_figures", () => void this.charts.start());
    listen("bokehjs", () => void this.charts.start());
    listen("_headline", () => this.showHeadline());
    listen("metric", () => this.panes.metricChanged());
    source.onStatus((status) => {
      // What a busy kernel could not tell is asked again once it is free.
      if (status === "live") this.panes.retry();
    }, signal);
    options.live?.source.onReturn(() => this.panes.retry(), signal);
    watchTheme(root, signal, (theme) => this.setTheme(theme));
    const resized = new ResizeObserver(() => this.arrange());
    resized.observe(root);
    const fit = throttle(FIT_MS, signal, () => this.fit.fit());
    const grown = new ResizeObserver(fit);
    for (const id of this.offered ?? PANELS.map((one) => one.id)) {
      if (id !== "timeline") grown.observe(this.panes.pane(id).el);
    }
    signal.addEventListener("abort", () => grown.disconnect(), { once: true });
    signal.addEventListener("abort", () => this.close(resized), { once: true });
    const keys = {
      undo: () => this.choosing.undo(),
      redo: () => this.choosing.redo(),
      clear: () => this.choosing.select(null),
      isEmpty: () => this.choosing.isEmpty,
      help: () => this.timeline.openHelp(),
    };
    listenToDashKeys(root, signal, keys, options.live === null);
  }

  // --- the selection ------------------------------------------------------------------------------

  /** Show what is selected: marks at once, numbers when they come. */
  private follow(): void {
    const { selection, scope } = this.choosing;
    this.toolbar.setScope(scope, selection !== null);
    this.showHistory();
    this.words.select(selection);
    this.saySelection();
    this.panes.showAll();
    this.panes.refresh();
  }

  private showHistory(): void {
    this.toolbar.setHistory(this.choosing.canUndo, this.choosing.canRedo);
  }

  private saySelection(): void {
    const { selection } = this.choosing;
    if (selection === null) {
      this.timeline.saySelection(null);
      return;
    }
    const { events } = this.panes;
    const phrases = phrasesOf(selection, this.shortName).map(({ text }) => text);
    const count = events === null ? "" : `, ${plural(events, "event")}`;
    this.timeline.saySelection([{ strong: "Selection:" }, ` ${phrases.join(", ")}${count}.`]);
  }

  // --- the panels ---------------------------------------------------------------------------------

  /** The panels that the job's files have something for; null where nobody says. */
  private get offered(): string[] | null {
    const about = this.options.model.get("_about") as { panels?: string[] } | null | undefined;
    return about?.panels ?? null;
  }

  private get choice(): Choice {
    const given = this.options.model.get("panels");
    return Array.isArray(given)
      ? (given as string[])
      : (this.offered ?? PANELS.map(({ id }) => id));
  }

  private setChoice(choice: Choice): void {
    this.keep("panels", choice);
    this.arrange();
  }

  private arrange(): void {
    const width = this.root.clientWidth;
    if (width > 0) toggle(this.root, "hta-tight", width < TIGHT_PX);
    if (!this.board.arrange(width, this.choice)) return;
    this.panes.showAll();
    this.fit.fit(true);
    this.askLater();
    this.panes.refresh();
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
        press: () => this.choosing.select(selection, "headline"),
      })),
    );
  }

  private setTheme(theme: ThemeName): void {
    this.theme = theme;
    applyTheme(this.root, theme);
    this.timeline.setTheme(theme);
    this.charts.setTheme(theme);
  }

  // --- charts and words come later -----------------------------------------------------------------

  /** Ask the kernel for what it makes only when somebody looks. */
  private askLater(): void {
    const { source, signal, model } = this.options;
    if (signal.aborted) return;
    const headline = model.get("_headline") ?? null;
    // It comes as a trait: every view of the model has it then.
    if (headline === null) source.ask("headline", {}, signal).catch(() => undefined);
    this.charts.load();
  }

  /** What the page needs to do without the kernel, once all is drawn. */
  private fetchOffline(): void {
    const { live, signal } = this.options;
    if (live === null || this.fetches || signal.aborted) return;
    this.fetches = true;
    live.offline.onProgress((progress) => this.timeline.sayAside(progressWords(progress)), signal);
    live.offline.start();
  }

  // --- what can be taken away ----------------------------------------------------------------------

  private paneMenu(id: string): MenuItem[] {
    return [
      ...this.takeAway.panel(id),
      {
        text: "Hide this panel",
        press: () => this.setChoice(withPanel(this.choice, id, false)),
      },
    ];
  }

  private async copy(text: string, what: string): Promise<void> {
    const done = await copyText(text, this.root);
    if (this.options.signal.aborted) return;
    this.timeline.flash([done ? `Copied ${what}.` : "The browser does not allow copying here."]);
  }

  private openProblems(): void {
    if (!shownIds(this.choice).includes("problems")) {
      this.timeline.openProblems();
      return;
    }
    this.problems.showAll();
    this.panes.pane("problems").el.scrollIntoView({ block: "nearest" });
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
