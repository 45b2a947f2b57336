/** One view of a dashboard: creates its parts, lays them out, follows the selection. */

import { ChartSlots, type MakeChart } from "../charts/chart";
import { type LiveSource, ObservedSource } from "../connection/answering";
import { listenTo, type Model, same } from "../connection/store";
import { PANELS } from "../facts/panels";
import type { Tables } from "../formats/shared";
import { withTables } from "../formats/source";
import type { Brush, Scene, Source, Span, ThemeName } from "../protocol/source";
import { throttle } from "../timeline/context";
import { match } from "../timeline/keys";
import { problemLines } from "../timeline/panels/problems";
import { kernelSays, progressWords } from "../timeline/status";
import { type MakeStage, TimelineApp } from "../timeline/view";
import { copyWords } from "../ui/controls";
import { h, isTextEntry, toggle } from "../ui/dom";
import { plural } from "../ui/formats";
import { detectTheme, TIGHT_PX, watchBoxes, watchTheme } from "../ui/host";
import { FullWindow } from "../ui/placing";
import { applyTheme } from "../ui/theme";
import { Board, type Choice, leftOutWords, shownIds, withPanel } from "./layout";
import type { HeadlineFacts, MenuItem } from "./pane";
import { Headline, Panes, ProblemsPane } from "./panels";
import { TakeAway } from "./save";
import { Choosing, phrasesOf, SelectionPanel } from "./selection";
import { DashToolbar } from "./toolbar";

interface DashOptions {
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
  private readonly full: FullWindow;
  private readonly headline: Headline;
  private readonly words: SelectionPanel;
  private readonly problems: ProblemsPane;
  private readonly panes: Panes;
  private readonly charts: ChartSlots;
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
    const brush = (id: string, asked: Brush): void => this.choosing.brush(id, asked);
    this.charts = new ChartSlots(options.makeChart, brush, this.theme, signal);
    this.takeAway = new TakeAway({
      exports: () => ({
        title: this.scene.title,
        source,
        signal,
        openTrace: () => this.timeline.openExport(this.toolbar.exporting),
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
      openExport: (anchor) => this.timeline.openExport(anchor),
      scene: () => this.scene,
      shortName: (name) => this.shortName(name),
    });
    this.panes = this.makePanes();
    this.full = new FullWindow(this.root, () => this.arrange());
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
      help: (anchor) => this.timeline.openHelp(anchor),
      openProblems: (anchor) => this.timeline.openProblems(anchor),
      full: this.full.button,
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
    // First the timeline and the numbers.
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
      help: () => this.timeline.openHelp(this.toolbar.helpButton),
      full: this.full,
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
    if (!this.board.arrange(width, this.traits.choice, this.full.isOn)) {
      if (this.full.isOn) this.fit.fit(true);
      return;
    }
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
        press: () => {
          this.choosing.select(selection, "headline");
          const { start_ns: start, end_ns: end } = selection;
          if (start !== null && end !== null) this.timeline.zoomTo(start, end);
        },
      })),
    );
  }

  private setTheme(theme: ThemeName): void {
    this.theme = theme;
    applyTheme(this.root, theme);
    this.timeline.setTheme(theme);
    this.charts.setTheme(theme);
  }

  // --- what comes later ----------------------------------------------------------------------------

  /** Request what the kernel makes only once the dashboard is visible. */
  private askLater(): void {
    const { source, signal } = this.options;
    if (signal.aborted) return;
    // It comes as a trait: every view of the model has it then.
    if (this.traits.headline === null) source.ask("headline", {}, signal).catch(() => undefined);
    this.fetchOffline();
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

  /** Say in the widget what went wrong. */
  fail(title: string, error: unknown): void {
    this.timeline.fail(title, error);
  }
}

// How high the timeline is among its neighbours.

const LEAST_PX = 220;
const MOST_PX = 560;
/** Rows grow no more than this. */
const STRETCH = 1.35;
/** A room that is free anyhow is of use up to this height: a rank opens into its tracks there. */
const ROOMY_PX = 440;

interface FitWays {
  timeline: TimelineApp;
  board: Board;
  /** As the user of Python wants it; null for what fits. */
  given(): number | null;
  heightOf(id: string): number;
  /** While something is selected, rows come and go: what is looked at should stay in its place. */
  isCalm(): boolean;
}

class TimelineFit {
  private fitted = false;

  constructor(private readonly ways: FitWays) {}

  /** As given; else what its ranks need, and what the columns beside it leave. */
  fit(anew = false): void {
    const { timeline, given, isCalm } = this.ways;
    if (!anew && this.fitted && !isCalm()) return;
    this.fitted = true;
    const needed = Math.min(Math.max(timeline.naturalHeight, LEAST_PX), MOST_PX);
    const most = Math.max(needed * STRETCH, ROOMY_PX);
    const all = this.ways.board.roomInFull("timeline", this.ways.heightOf);
    timeline.height =
      all === null
        ? (given() ?? Math.max(needed, Math.min(this.room(), most)))
        : Math.max(timeline.height + all, LEAST_PX);
  }

  /** The height of the timeline at which its column is as high as those beside it. */
  private room(): number {
    const { board, timeline, heightOf } = this.ways;
    const columns = board.columnsBeside("timeline");
    if (columns === null) return 0;
    const height = (ids: readonly string[]): number =>
      ids.reduce((sum, id) => sum + heightOf(id), 0);
    const own = height(columns.own) - timeline.height;
    return Math.max(...columns.others.map(height)) - own;
  }
}

// Keys while the focus is in the dashboard but not in its timeline, which has keys of its own.

interface DashKeys {
  undo(): void;
  redo(): void;
  clear(): void;
  isEmpty(): boolean;
  help(): void;
  full: FullWindow;
}

/** `isAlone`: the page is the dashboard's, so that keys are its own before anything has the focus. */
function listenToDashKeys(
  root: HTMLElement,
  signal: AbortSignal,
  keys: DashKeys,
  isAlone = false,
): void {
  const act = (event: KeyboardEvent): boolean => {
    const command = match(event)?.command;
    if (command === "leave") {
      const ask = new Event("hta-escape", { cancelable: true });
      root.dispatchEvent(ask);
      if (ask.defaultPrevented) return true;
      if (keys.isEmpty()) return keys.full.leave();
      keys.clear();
      return true;
    }
    if (command === "undo" && (event.ctrlKey || event.metaKey)) keys.undo();
    else if (command === "redo") keys.redo();
    else if (command === "help") keys.help();
    else if (command === "full-window") keys.full.toggle();
    else return false;
    return true;
  };
  if (isAlone) {
    document.addEventListener(
      "keydown",
      (event) => {
        if (event.target === document.body && !event.defaultPrevented && act(event)) {
          event.preventDefault();
        }
      },
      { signal },
    );
  }
  root.addEventListener(
    "keydown",
    (event) => {
      if (event.isComposing || event.defaultPrevented) return;
      const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
      const typing = isTextEntry(event.target);
      if ((!typing || event.key === "Escape") && act(event)) {
        event.preventDefault();
        event.stopPropagation();
        return;
      }
      // Notebooks act on letters in command mode: D D deletes the cell.
      if (plain && (typing || event.key.length === 1 || event.key === "Enter")) {
        event.stopPropagation();
      }
    },
    { signal },
  );
}

// What the dashboard's model says, beside what linked views share.

interface About {
  panels?: string[];
  format?: string;
  /** Panels that would stay empty, by what the files lack. */
  left_out?: Record<string, string[]>;
}

class Traits {
  constructor(
    private readonly model: Model,
    private readonly signal: AbortSignal,
  ) {}

  /** Are like ranks folded? null where nobody chose. */
  get folded(): boolean | null {
    const folded = this.model.get("folded");
    return typeof folded === "boolean" ? folded : null;
  }

  /** Of the timeline; null for what fits. */
  get height(): number | null {
    return (this.model.get("height") ?? null) as number | null;
  }

  /** Of the heatmap. */
  get metric(): string {
    return (this.model.get("metric") ?? "") as string;
  }

  get tables(): Tables {
    return (this.model.get("_tables") ?? {}) as Tables;
  }

  get headline(): HeadlineFacts | null {
    return (this.model.get("_headline") ?? null) as HeadlineFacts | null;
  }

  get format(): string {
    return this.about.format ?? "";
  }

  /** The panels that the job's files have something for; null where nobody says. */
  get offered(): string[] | null {
    return this.about.panels ?? null;
  }

  get leftOut(): Record<string, string[]> {
    return this.about.left_out ?? {};
  }

  /** The panels that are to be shown. */
  get choice(): Choice {
    const given = this.model.get("panels");
    return Array.isArray(given)
      ? (given as string[])
      : (this.offered ?? PANELS.map(({ id }) => id));
  }

  onChange(name: string, listener: () => void): void {
    listenTo(this.model, `change:${name}`, listener, this.signal);
  }

  /** Remember what the user chose. */
  keep(name: string, value: unknown): void {
    if (same(this.model.get(name), value)) return;
    this.model.set(name, value);
    this.model.save_changes();
  }

  private get about(): About {
    return this.model.get("_about") ?? {};
  }
}
