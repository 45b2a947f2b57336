/** One view of a dashboard: puts the parts together, and the selection through all of them. */

import { type MakeStage, TimelineApp } from "../app/app";
import { copyWords } from "../app/clipboard";
import { throttle } from "../app/context";
import { h, toggle } from "../app/dom";
import { detectTheme, watchTheme } from "../app/host_theme";
import { ObservedSource } from "../app/observed_source";
import { problemLines } from "../app/panels/problems";
import type { Model } from "../app/shared";
import { applyTheme } from "../app/theme_vars";
import { TIGHT_PX } from "../app/widths";
import type { Scene, Source, Span, ThemeName } from "../contract";
import { plural } from "../draw/format";
import type { LiveSource } from "../data/offline";
import { watchBoxes } from "../layout/size_watcher";
import { Board } from "./board";
import { withTables } from "./by_format/source";
import { PANELS } from "./catalog";
import type { MakeChart } from "./chart_slot";
import { ChartsLoader } from "./charts_loader";
import { Choosing } from "./choosing";
import { Headline } from "./headline";
import { kernelSays, progressWords } from "./kernel_words";
import { listenToDashKeys } from "./keys";
import { type Choice, leftOutWords, shownIds, withPanel } from "./layout";
import type { MenuItem } from "./pane";
import { Panes } from "./panes";
import { ProblemsPane } from "./problems_panel";
import { SelectionPanel } from "./selection_panel";
import { TakeAway } from "./take_away";
import { LEAST_PX, TimelineFit } from "./timeline_fit";
import { DashToolbar } from "./toolbar";
import { Traits } from "./traits";
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
  private readonly traits: Traits;
  /** What the timeline shows now, be it on its way. */
  private view: Span;
  private scene: Scene;
  private theme: ThemeName;
  private fetches = false;

  private readonly leftOut = h("p", { class: "hta-dash-left-out", hidden: true });

  private readonly options: DashOptions;

  constructor(host: HTMLElement, given: DashOptions) {
    // The timeline watches over what it asks itself.
    const options = { ...given, source: new ObservedSource(given.source) };
    this.options = options;
    const { signal, scene, source } = options;
    this.traits = new Traits(options.model, signal);
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
      showPanel: (id, on) => this.setChoice(withPanel(this.traits.choice, id, on)),
      isShown: (id) => shownIds(this.traits.choice).includes(id),
      isOffered: (id) => this.traits.offered?.includes(id) ?? true,
      exports: () => this.takeAway.all(shownIds(this.traits.choice)),
      saveForm: () => this.takeAway.saveForm(),
      help: () => this.timeline.openHelp(),
      openProblems: () => this.openProblems(),
    });
    const status = h("div", { class: "hta-dash-status" });
    status.hidden = this.traits.offered?.includes("timeline") === false;
    const box = h("div", { class: "hta-timeline-place" });
    this.panes.setFixed("timeline", box);
    this.board = new Board(this.root, (id) => this.panes.pane(id).el, status);
    this.root.append(this.toolbar.el, this.headline.el, this.board.el, this.leftOut);

    this.timeline = new TimelineApp(box, {
      scene,
      state: options.state,
      source: given.source,
      height: LEAST_PX,
      signal,
      makeStage: options.makeStage,
      folded: this.traits.folded,
      keepFolded: (on) => this.traits.keep("folded", on),
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
      given: () => this.traits.height,
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
    const { source, signal, bokeh, makeChart } = this.options;
    const ways = {
      source,
      signal,
      makeChart,
      bokeh,
      given: () => this.traits.figures,
      shown: () => shownIds(this.traits.choice),
      brush: (id: string, brush: Brush) => this.choosing.brush(id, brush),
      drawn: (id: string) => this.panes.show(id),
      done: () => this.fetchOffline(),
    };
    return new ChartsLoader(ways, this.theme);
  }

  private makePanes(): Panes {
    const { source, signal } = this.options;
    return new Panes({
      root: this.root,
      source: withTables(source, () => this.traits.tables),
      signal,
      choosing: this.choosing,
      charts: this.charts,
      words: this.words,
      problems: this.problems,
      scene: () => this.scene,
      view: () => this.view,
      menu: (id) => this.paneMenu(id),
      headline: () => this.traits.headline,
      metric: () => this.traits.metric,
      setMetric: (metric) => {
        this.traits.keep("metric", metric);
        this.panes.metricChanged();
      },
      shown: () => this.saySelection(),
    });
  }

  private readonly shortName = (name: string): string => this.panes.shortName(name);

  private listen(): void {
    const { root, options, traits } = this;
    const { signal, source } = options;
    traits.onChange("panels", () => this.arrange());
    traits.onChange("height", () => this.fit.fit(true));
    traits.onChange("folded", () => this.timeline.setFolded(traits.folded === true));
    traits.onChange("_figures", () => void this.charts.start());
    traits.onChange("bokehjs", () => void this.charts.start());
    traits.onChange("_headline", () => this.showHeadline());
    traits.onChange("metric", () => this.panes.metricChanged());
    source.onStatus((status) => {
      // What a busy kernel could not tell is asked again once it is free.
      if (status === "live") this.panes.retry();
    }, signal);
    options.live?.source.onReturn(() => this.panes.retry(), signal);
    watchTheme(root, signal, (theme) => this.setTheme(theme));
    watchBoxes([root], () => this.arrange(), signal);
    const panels = (traits.offered ?? PANELS.map(({ id }) => id)).filter((id) => id !== "timeline");
    watchBoxes(
      panels.map((id) => this.panes.pane(id).el),
      throttle(FIT_MS, signal, () => this.fit.fit()),
      signal,
    );
    signal.addEventListener("abort", () => root.remove(), { once: true });
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

  private setChoice(choice: Choice): void {
    this.traits.keep("panels", choice);
    this.arrange();
  }

  private arrange(): void {
    const width = this.root.clientWidth;
    if (width > 0) toggle(this.root, "hta-tight", width < TIGHT_PX);
    const words = leftOutWords(this.traits.leftOut, shownIds(this.traits.choice));
    this.leftOut.hidden = words === "";
    this.leftOut.textContent = words;
    if (!this.board.arrange(width, this.traits.choice)) return;
    this.panes.showAll();
    this.fit.fit(true);
    this.askLater();
    this.panes.refresh();
  }

  private showScene(): void {
    const { scene } = this;
    this.toolbar.setScene(scene, this.traits.format);
    this.toolbar.setProblems(problemLines(scene).length, scene);
    this.problems.print();
    this.showHeadline();
  }

  private showHeadline(): void {
    const facts = this.traits.headline;
    this.headline.show(facts);
    this.panes.showAll();
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
    const { source, signal } = this.options;
    if (signal.aborted) return;
    // It comes as a trait: every view of the model has it then.
    if (this.traits.headline === null) source.ask("headline", {}, signal).catch(() => undefined);
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
        press: () => this.setChoice(withPanel(this.traits.choice, id, false)),
      },
    ];
  }

  private async copy(text: string, what: string): Promise<void> {
    const words = await copyWords(text, what, this.root);
    if (!this.options.signal.aborted) this.timeline.flash(words);
  }

  private openProblems(): void {
    if (!shownIds(this.traits.choice).includes("problems")) {
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
}
