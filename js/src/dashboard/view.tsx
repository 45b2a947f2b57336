/** One view of a dashboard: creates its parts, lays them out, follows the selection. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { ChartSlots, type MakeChart } from "../charts/chart";
import { type LiveSource, ObservedSource, wholeSpan } from "../connection/answering";
import { type Model, same, traitOf } from "../connection/store";
import { PANELS } from "../facts/panels";
import type { Tables } from "../formats/shared";
import { withTables } from "../formats/source";
import { roomAround } from "../protocol/selection";
import type { Scene, SharedState, Source, Span, ThemeName } from "../protocol/source";
import { throttle } from "../timeline/context";
import { match } from "../timeline/keys";
import type { FoldingNow } from "../timeline/rows";
import { kernelSays, progressWords } from "../timeline/status";
import { TimelineApp } from "../timeline/view";
import { copyWords } from "../ui/controls";
import { h, isTextEntry, mount } from "../ui/dom";
import { react } from "../ui/react";
import { plural, wholeName } from "../ui/formats";
import { detectTheme, TIGHT_PX, watchBoxes, watchTheme } from "../ui/host";
import type { MenuItem } from "../ui/menu";
import { FullWindow } from "../ui/placing";
import type { Words } from "../ui/text";
import { applyTheme } from "../ui/theme";
import { Board, type Choice, leftOutWords, shownIds, withPanel } from "./layout";
import { type Finding, Held, type HeadlineFacts } from "./pane";
import { Headline, headlineText, Panes, Problems } from "./panels";
import { TakeAway } from "./save";
import { Choosing, phrasesOf, SelectionPanel } from "./selection";
import { DashToolbar } from "./toolbar";

interface DashOptions {
  scene: Scene;
  source: Source;
  /** State that linked views share. */
  state: Model;
  /** The dashboard's own traits. */
  model: Model;
  signal: AbortSignal;
  makeChart: MakeChart;
  /** The kernel, and the data fetched from it for a page without a kernel; null in saved pages. */
  live: LiveSource | null;
}

/** Interval at which figures of the window in view are updated while the view moves. */
const VIEW_MS = 160;
const FIT_MS = 120;
const MOST_OFFERS = 4;

export class DashApp {
  private readonly root: HTMLElement;
  private readonly choosing: Choosing;
  private readonly timeline: TimelineApp;
  private readonly board: Board;
  private readonly full: FullWindow;
  private readonly panes: Panes;
  private readonly charts: ChartSlots;
  private readonly takeAway: TakeAway;
  private readonly fit: TimelineFit;
  private readonly traits: Traits;
  private readonly scene: Signal<Scene>;
  private readonly shown: ReadonlySignal<readonly string[]>;
  /** The panel that the menu added last. */
  private added = "";
  private readonly folding = signal<FoldingNow>({ isOffered: false, isOn: false, groups: [] });
  /** Window of the timeline, or the one that it moves to. */
  private view: Span;
  private theme: ThemeName;
  private fetches = false;
  private readonly options: DashOptions;

  constructor(host: HTMLElement, given: DashOptions) {
    // The timeline observes its own requests.
    const options = { ...given, source: new ObservedSource(given.source) };
    this.options = options;
    const { signal: ended, scene, source } = options;
    const traits = new Traits(options.model, ended);
    this.traits = traits;
    this.scene = signal(scene);
    this.shown = computed(() => shownIds(traits.choice.value));
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

    const ways = {
      view: () => this.view,
      settle: () => this.timeline.ctx.shared.flush(),
      say: (text: string) => this.timeline.status.flash([text]),
    };
    this.choosing = new Choosing(options.state, this.scene, ways, ended);
    this.charts = new ChartSlots(
      options.makeChart,
      (id, brush) => this.choosing.brush(id, brush),
      this.theme,
      ended,
    );
    this.takeAway = new TakeAway({
      exports: () => ({
        title: this.scene.value.title,
        source,
        signal: ended,
        openTrace: () => this.timeline.panels.openExport(this.button("exporting")),
        timelineSvg: () => this.timeline.panels.svg(headlineText(traits.headline.value)),
        copy: (text, what) => void this.copy(text, what),
        fail: (title, error) => this.fail(title, error),
      }),
      chart: (id) => this.charts.chart(id),
      frame: (id) => this.panes.frame(id),
    });
    const box = h("div", { class: "hta-timeline-place" });
    this.panes = this.makePanes(box);
    this.full = new FullWindow(this.root, () => this.arrange());
    const status = h("div", { class: "hta-dash-status" });
    status.hidden = traits.offered?.includes("timeline") === false;
    this.board = new Board(this.root, (id) => this.panes.pane(id), status);
    this.drawFrame();

    this.timeline = new TimelineApp(box, {
      scene,
      state: options.state,
      source: given.source,
      height: LEAST_PX,
      signal: ended,
      folded: traits.folded.value,
      keepFolded: (on) => traits.keep("folded", on),
      keepHeight: (height) => traits.keep("height", height),
      setClock: options.live === null ? undefined : (clock) => traits.keep("clock", clock),
      part: {
        status,
        theme: this.theme,
        kernelSays: () => (options.live === null ? null : kernelSays(options.live.source)),
      },
    });
    this.fit = new TimelineFit({
      timeline: this.timeline,
      board: this.board,
      panes: this.panes,
      given: () => traits.height.value,
      isCalm: () => this.choosing.selection.value === null,
    });
    react(
      this.timeline.folding.now,
      (now) => {
        // Charts are drawn again only if other ranks share rows.
        if (!same(now, this.folding.peek())) this.folding.value = now;
      },
      ended,
    );
    // A hidden timeline sends no requests, so prepare folding after the panels have their numbers.
    options.source.onReply((op) => {
      if (op === "panels" && !this.shown.peek().includes("timeline")) this.timeline.folding.ready();
    });
    const moved = throttle(VIEW_MS, ended, () => this.panes.refresh());
    this.timeline.onView((view) => {
      this.view = view;
      moved();
    });
    this.listen();
    this.react();
    // After the first requests of the timeline and the panels.
    requestAnimationFrame(() => this.askLater());
  }

  /** Follow this shared state instead of the previous one. */
  attach(state: Model): void {
    this.choosing.attach(state);
    this.timeline.attach(state);
  }

  setScene(scene: Scene): void {
    // The data that the page has fetched is that of the previous job.
    if (this.fetches) this.options.live?.offline.start();
    this.timeline.setScene(scene);
    this.scene.value = scene;
    this.panes.forget();
    requestAnimationFrame(() => this.askLater());
  }

  /** Put toolbar and headline above the board, and a text on omitted panels below it. */
  private drawFrame(): void {
    const { root, traits, choosing, takeAway, options } = this;
    const above = h("div", { class: "hta-dash-above" });
    const below = h("div", {});
    root.append(above, this.board.el, below);
    const help = (anchor: HTMLElement): void => this.timeline.help.toggle(anchor);
    const openProblems = (anchor: HTMLElement): void => this.timeline.panels.openProblems(anchor);
    const showPanel = (id: string, on: boolean): void => this.showPanel(id, on);
    const showAdded = (): void => this.showAdded();
    const Above = () => (
      <>
        <DashToolbar
          scene={this.scene.value}
          format={traits.format}
          choosing={choosing}
          shown={this.shown}
          offered={traits.offered}
          full={this.full}
          folding={this.folding}
          fold={() => this.timeline.commands.run("fold")}
          showPanel={showPanel}
          showAdded={showAdded}
          exports={() => takeAway.all(this.shown.value)}
          form={options.live === null ? null : takeAway.saveForm()}
          help={help}
          openProblems={openProblems}
        />
        <Headline
          facts={traits.headline.value}
          scope={
            choosing.selection.value !== null || choosing.scope.value === "view"
              ? `of the ${wholeName(this.scene.value)}`
              : ""
          }
          chooseRank={(rank, add) => choosing.chooseRank(rank, add)}
        />
      </>
    );
    const Below = () => {
      const words = leftOutWords(traits.leftOut, this.shown.value);
      return words === "" ? null : <p class="hta-dash-left-out">{words}</p>;
    };
    mount(<Above />, above, options.signal);
    mount(<Below />, below, options.signal);
  }

  private makePanes(timeline: HTMLElement): Panes {
    const { options, traits, choosing, charts } = this;
    const Selected = () => (
      <SelectionPanel
        scene={this.scene.value}
        choosing={choosing}
        sums={this.panes.sums}
        findings={traits.headline.value?.findings?.slice(0, MOST_OFFERS) ?? []}
        choose={(finding) => this.choose(finding)}
        copy={(text, what) => void this.copy(text, what)}
        openExport={(anchor) => this.timeline.panels.openExport(anchor)}
        shortName={this.shortName}
      />
    );
    const Known = () => <Problems scene={this.scene.value} />;
    return new Panes({
      source: withTables(options.source, () => traits.tables),
      signal: options.signal,
      choosing,
      charts,
      scene: this.scene,
      view: () => this.view,
      menu: (id) => this.paneMenu(id),
      headline: traits.headline,
      folding: this.folding,
      metric: traits.metric,
      setMetric: (metric) => traits.keep("metric", metric),
      followsAll: options.live === null,
      own: {
        timeline: () => <Held el={timeline} />,
        selection: () => <Selected />,
        problems: () => <Known />,
      },
    });
  }

  private readonly shortName = (name: string): string => this.panes.shortName(name);

  /** A button of the toolbar. */
  private button(name: "exporting" | "help-button"): HTMLElement {
    return this.root.querySelector<HTMLElement>(`.hta-dash-toolbar .hta-${name}`)!;
  }

  private listen(): void {
    const { root, options, traits } = this;
    const { signal: ended, source, live } = options;
    // Requests that a busy kernel did not answer are repeated once it is free.
    react(
      () => [source.status, live?.source.holds],
      ([status]) => status === "live" && this.panes.retry(),
      ended,
    );
    watchTheme(root, ended, (theme) => this.setTheme(theme));
    watchBoxes([root], () => this.arrange(), ended);
    const panels = (traits.offered ?? PANELS.map(({ id }) => id)).filter((id) => id !== "timeline");
    watchBoxes(
      panels.map((id) => this.panes.pane(id)),
      throttle(FIT_MS, ended, () => this.fit.fit()),
      ended,
    );
    const timeline = this.panes.pane("timeline");
    watchBoxes(
      [timeline],
      throttle(FIT_MS, ended, () => this.fit.fillTables()),
      ended,
    );
    ended.addEventListener("abort", () => root.remove(), { once: true });
    const keys = {
      undo: () => this.choosing.undo(),
      redo: () => this.choosing.redo(),
      clear: () => this.choosing.select(null),
      isEmpty: () => this.choosing.isEmpty,
      help: () => this.timeline.help.toggle(this.button("help-button")),
      fold: () => this.timeline.commands.run("fold"),
      full: this.full,
    };
    listenToDashKeys(root, ended, keys, options.live === null);
  }

  /** Update the parts that are not components when signals change. */
  private react(): void {
    const { traits, choosing, panes, options } = this;
    const { signal: ended } = options;
    react(traits.choice, () => this.arrange(), ended);
    react(traits.height, () => this.fit.fit(true), ended);
    react(traits.folded, (folded) => this.timeline.folding.set(folded === true, false), ended);
    react(
      () => [choosing.chosen.value, choosing.scope.value, traits.metric.value],
      () => panes.refresh(),
      ended,
    );
    react(
      () => this.selectionWords(),
      (words) => this.timeline.status.say("area", words),
      ended,
    );
  }

  private selectionWords(): Words | null {
    const selection = this.choosing.selection.value;
    if (selection === null) return null;
    const events = this.panes.sums?.columns.events?.[0];
    const phrases = phrasesOf(selection, this.shortName).map(({ text }) => text);
    const count = typeof events === "number" ? `, ${plural(events, "event")}` : "";
    return [{ strong: "Selection:" }, ` ${phrases.join(", ")}${count}.`];
  }

  private choose({ selection }: Finding): void {
    const { start_ns: start, end_ns: end } = selection;
    const more: Partial<SharedState> = {};
    if (start !== null && end !== null) {
      const room = wholeSpan(roomAround(start, end - start, 0.1));
      const [first, last] = this.scene.value.range;
      more.view = [Math.max(room.start, first), Math.min(room.end, last)];
    }
    this.choosing.select(selection, "headline", more);
    if (more.view !== undefined) this.bringIntoView("timeline");
  }

  // --- the panels ---------------------------------------------------------------------------------

  private showPanel(id: string, on: boolean): void {
    this.traits.keep("panels", withPanel(this.traits.choice.value, id, on));
    this.added = on ? id : "";
  }

  private showAdded(): void {
    if (this.added !== "") this.bringIntoView(this.added);
    this.added = "";
  }

  private bringIntoView(id: string): void {
    if (!this.shown.value.includes(id)) return;
    this.panes.pane(id).scrollIntoView({ block: "nearest" });
  }

  private arrange(): void {
    const width = this.root.clientWidth;
    if (width > 0) this.root.classList.toggle("hta-tight", width < TIGHT_PX);
    if (!this.board.arrange(width, this.traits.choice.value, this.full.isOn)) {
      if (this.full.isOn) this.fit.fit(true);
      return;
    }
    this.fit.fit(true);
    this.askLater();
    this.panes.refresh();
  }

  private setTheme(theme: ThemeName): void {
    this.theme = theme;
    applyTheme(this.root, theme);
    this.timeline.setTheme(theme);
    this.charts.setTheme(theme);
  }

  // --- requests after the first frame --------------------------------------------------------------

  /** Request the headline and the data for a page without a kernel, after the first frame. */
  private askLater(): void {
    const { source, signal: ended } = this.options;
    if (ended.aborted) return;
    // The reply sets a trait, so that all views of the model receive it.
    if (this.traits.headline.value === null)
      source.ask("headline", {}, ended).catch(() => undefined);
    this.fetchOffline();
  }

  /** Start fetching the data with which the page works without a kernel. */
  private fetchOffline(): void {
    const { live, signal: ended } = this.options;
    if (live === null || this.fetches || ended.aborted) return;
    this.fetches = true;
    const { aside } = this.timeline.status;
    react(live.offline.progress, (now) => (aside.value = progressWords(now)), ended);
    live.offline.start();
  }

  // --- menus and messages --------------------------------------------------------------------------

  private paneMenu(id: string): MenuItem[] {
    return [
      ...this.takeAway.panel(id),
      { text: "Hide this panel", press: () => this.showPanel(id, false) },
    ];
  }

  private async copy(text: string, what: string): Promise<void> {
    const words = await copyWords(text, what, this.root);
    if (!this.options.signal.aborted) this.timeline.status.flash([words]);
  }

  /** Show an error in the widget. */
  fail(title: string, error: unknown): void {
    this.timeline.fail(title, error);
  }
}

// Height of the timeline among its neighbours.

const LEAST_PX = 220;
const MOST_PX = 560;
/** Factor up to which the timeline exceeds its natural height to fill free space. */
const STRETCH = 1.35;
/** Height up to which it fills free space in any case: there, a rank can be opened. px. */
const ROOMY_PX = 440;

interface FitWays {
  timeline: TimelineApp;
  board: Board;
  panes: Panes;
  /** The height set from Python or by dragging; null to fit the content. */
  given(): number | null;
  /** Whether nothing is selected; a selection changes the rows, and the height must not follow. */
  isCalm(): boolean;
}

class TimelineFit {
  private fitted = false;

  constructor(private readonly ways: FitWays) {}

  /** Set the height: as given, or by its ranks and the neighbouring columns. Then fill tables. */
  fit(anew = false): void {
    const { timeline, board, given, isCalm } = this.ways;
    if (!anew && this.fitted && !isCalm()) return;
    this.fitted = true;
    const needed = Math.min(Math.max(timeline.ctx.stage.contentHeight(), LEAST_PX), MOST_PX);
    const most = Math.max(needed * STRETCH, ROOMY_PX);
    const all = board.roomInFull("timeline", this.heightOf);
    const room = timeline.height + board.roomBeside("timeline", this.heightOf);
    timeline.height =
      all === null
        ? (given() ?? Math.max(needed, Math.min(room, most)))
        : Math.max(timeline.height + all, LEAST_PX);
    this.fillTables();
  }

  fillTables(): void {
    const { board, panes } = this.ways;
    const isFull = board.layout?.name === "full";
    panes.fillTables((id) => (isFull ? 0 : board.roomBeside(id, this.heightOf)));
  }

  private readonly heightOf = (id: string): number => this.ways.panes.heightOf(id);
}

// Keys while the focus is in the dashboard but not in its timeline, which has keys of its own.

interface DashKeys {
  undo(): void;
  redo(): void;
  clear(): void;
  isEmpty(): boolean;
  help(): void;
  fold(): void;
  full: FullWindow;
}

/** `isAlone`: the page has only the dashboard, which handles keys even without the focus. */
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
    else if (command === "fold") keys.fold();
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

// Values of the dashboard's model that linked views do not share.

interface About {
  panels?: string[];
  format?: string;
  /** Panels that would be empty, by the reason: the kind of data that the files lack. */
  left_out?: Record<string, string[]>;
}

class Traits {
  /** Whether similar ranks are folded; null if not chosen. */
  readonly folded;
  /** Height of the timeline; null for one that fits. */
  readonly height;
  /** Metric of the heatmap. */
  readonly metric;
  readonly headline;
  /** The panels to show. */
  readonly choice;

  constructor(
    private readonly model: Model,
    ended: AbortSignal,
  ) {
    const all = this.offered ?? PANELS.map(({ id }) => id);
    this.folded = traitOf(model, "folded", (on) => (typeof on === "boolean" ? on : null), ended);
    this.height = traitOf(model, "height", (height) => (height ?? null) as number | null, ended);
    this.metric = traitOf(model, "metric", (metric) => (metric ?? "") as string, ended);
    this.headline = traitOf(
      model,
      "_headline",
      (facts) => (facts ?? null) as HeadlineFacts | null,
      ended,
    );
    this.choice = traitOf(
      model,
      "panels",
      (given) => (Array.isArray(given) ? given : all) as Choice,
      ended,
    );
  }

  get tables(): Tables {
    return (this.model.get("_tables") ?? {}) as Tables;
  }

  get format(): string {
    return this.about.format ?? "";
  }

  /** The panels that the job's files have data for; null if unknown. */
  get offered(): string[] | null {
    return this.about.panels ?? null;
  }

  get leftOut(): Record<string, string[]> {
    return this.about.left_out ?? {};
  }

  /** Save a choice of the user in the model. */
  keep(name: string, value: unknown): void {
    if (same(this.model.get(name), value)) return;
    this.model.set(name, value);
    this.model.save_changes();
  }

  private get about(): About {
    return this.model.get("_about") ?? {};
  }
}
