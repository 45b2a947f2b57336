/** The view of a dashboard: creates its parts, lays them out, and reacts to the selection. */

import { type Model, isSameJson } from "../connection/store";
import type { Scene, ThemeName } from "../protocol/source";
import { throttle } from "../timeline/context";
import { matchKey } from "../timeline/keys";
import { kernelStatusOf, progressText } from "../timeline/status";
import { TimelineApp } from "../timeline/view";
import { h, isTextEntry, renderInto } from "../ui/dom";
import { TIGHT_BELOW_PX, watchBoxes, watchTheme } from "../ui/host";
import { FullWindow } from "../ui/placing";
import { onSignal } from "../ui/react";
import { applyTheme } from "../ui/theme";
import { PanelGrid, MIN_PX } from "./board";
import { DashContext, type DashOptions } from "./context";
import { Headline } from "./headline";
import { leftOutText } from "./layout";
import { PaneSet } from "./panels";
import { selectionText } from "./selection";
import { DashToolbar } from "./toolbar";

/** Interval at which figures of the visible window are updated while the view moves. */
const VIEW_DELAY_MS = 160;
const FIT_DELAY_MS = 120;

export class DashApp {
  private readonly ctx: DashContext;
  private readonly panes: PaneSet;
  private readonly grid: PanelGrid;
  private readonly fullWindow: FullWindow;
  private isFetching = false;

  constructor(host: HTMLElement, options: DashOptions) {
    const { scene, state, source, live } = options;
    const root = h("div", {
      class: "hta-root hta-dash",
      tabindex: -1,
      role: "group",
      "aria-label": `Dashboard of ${scene.title}`,
      "data-lm-suppress-shortcuts": "true",
    });
    host.append(root);
    const ctx = new DashContext(root, options);
    this.ctx = ctx;
    applyTheme(root, ctx.theme.value);
    const place = h("div", { class: "hta-timeline-place" });
    const status = h("div", { class: "hta-dash-status" });
    status.hidden = !ctx.offeredPanels.includes("timeline");
    this.fullWindow = new FullWindow(root, () => this.arrange());
    this.panes = new PaneSet(ctx, place);
    const leftOut = h("div", {});
    this.grid = new PanelGrid(ctx, this.panes, status, leftOut);
    this.draw(leftOut);
    ctx.timeline = new TimelineApp(place, {
      scene,
      state,
      source,
      height: MIN_PX,
      signal: ctx.signal,
      folded: ctx.folded.value,
      saveFolded: (on) => ctx.saveTrait("folded", on),
      saveHeight: (height) => ctx.saveTrait("height", height),
      setClock: live === null ? undefined : (clock) => ctx.saveTrait("clock", clock),
      linkedPanel: {
        status,
        theme: ctx.theme.value,
        kernelStatus: () => (live === null ? null : kernelStatusOf(live.source)),
      },
    });
    this.listen();
    this.installEffects();
    // Runs after the timeline and the panels have sent their first requests.
    requestAnimationFrame(() => this.loadAfterFirstFrame());
  }

  attach(state: Model): void {
    this.ctx.selectionState.attach(state);
    this.ctx.timeline.attach(state);
  }

  setScene(scene: Scene): void {
    const { ctx, panes } = this;
    // The data that the page has fetched belongs to the previous job.
    if (this.isFetching) ctx.live?.offline.start();
    ctx.timeline.setScene(scene);
    ctx.scene.value = scene;
    panes.clear();
    requestAnimationFrame(() => this.loadAfterFirstFrame());
  }

  fail(title: string, error: unknown): void {
    this.ctx.timeline.fail(title, error);
  }

  flash(text: string): void {
    this.ctx.timeline.flash(text);
  }

  /** Put toolbar and headline above the grid, and show the text about omitted panels. */
  private draw(leftOut: HTMLElement): void {
    const { ctx, fullWindow, grid } = this;
    const above = h("div", { class: "hta-dash-above" });
    ctx.root.append(above, grid.el);
    const LeftOut = () => {
      const { left_out: leftOutPanels = {} } = ctx.jobFacts;
      const text = leftOutText(leftOutPanels, ctx.shownPanels.value, (id) => ctx.titleOf(id));
      return text === "" ? null : <p class="hta-dash-left-out">{text}</p>;
    };
    const parts = (
      <>
        <DashToolbar ctx={ctx} full={fullWindow} />
        <Headline ctx={ctx} />
      </>
    );
    renderInto(parts, above, ctx.signal);
    renderInto(<LeftOut />, leftOut, ctx.signal);
  }

  private listen(): void {
    const { ctx, panes } = this;
    const { root, timeline, signal: abortSignal } = ctx;
    onSignal(
      timeline.folding.stateSignal,
      (now) => {
        // Charts are redrawn only if the set of ranks that share rows has changed.
        if (!isSameJson(now, ctx.folding.peek())) ctx.folding.value = now;
      },
      abortSignal,
    );
    // A hidden timeline sends no requests, so folding starts once the panels have their data.
    ctx.source.onReply((op) => {
      if (op === "panels" && !ctx.shownPanels.peek().includes("timeline")) timeline.folding.ready();
    });
    const refreshPanes = throttle(VIEW_DELAY_MS, abortSignal, () => panes.refresh());
    timeline.onView((view) => {
      ctx.view = view;
      refreshPanes();
    });
    watchTheme(root, abortSignal, (theme) => this.setTheme(theme));
    this.watchSizes();
    abortSignal.addEventListener("abort", () => root.remove(), { once: true });
    listenToDashKeys(ctx, this.fullWindow);
  }

  /** Fit timeline and tables in their columns when the view or a panel is resized. */
  private watchSizes(): void {
    const { ctx, panes, grid } = this;
    const { root, signal: abortSignal } = ctx;
    watchBoxes([root], () => this.arrange(), abortSignal);
    const others = ctx.offeredPanels.filter((id) => id !== "timeline").map((id) => panes.pane(id));
    const fitTimeline = throttle(FIT_DELAY_MS, abortSignal, () => grid.fitTimeline());
    watchBoxes(others, fitTimeline, abortSignal);
    const fitColumn = throttle(FIT_DELAY_MS, abortSignal, () =>
      grid.hasColumns ? grid.fitTimeline({ always: true }) : grid.fillTables(),
    );
    watchBoxes([panes.pane("timeline")], fitColumn, abortSignal);
  }

  private installEffects(): void {
    const { ctx, panes, grid } = this;
    const { selectionState, timeline, source, live, signal: abortSignal } = ctx;
    // Requests that a busy kernel did not answer are repeated once it is free.
    onSignal(
      () => [source.status, live?.source.pageExtent],
      ([status]) => {
        if (status === "live") panes.retry();
        panes.refresh();
      },
      abortSignal,
    );
    onSignal(ctx.panelChoice, () => this.arrange(), abortSignal);
    onSignal(ctx.height, () => grid.fitTimeline({ always: true }), abortSignal);
    onSignal(ctx.folded, (folded) => timeline.folding.set(folded === true, false), abortSignal);
    onSignal(
      () => [selectionState.chartSelection.value, selectionState.scope.value, ctx.metric.value],
      () => panes.refresh(),
      abortSignal,
    );
    onSignal(
      selectionState.figures,
      (figures) => {
        if (!isSameJson(figures, timeline.ctx.figures.peek())) timeline.ctx.figures.value = figures;
      },
      abortSignal,
    );
    onSignal(
      () => selectionText(ctx),
      (text) => timeline.status.setMessage("area", text),
      abortSignal,
    );
  }

  private arrange(): void {
    const { ctx, grid, fullWindow } = this;
    const width = ctx.root.clientWidth;
    if (width > 0) ctx.root.classList.toggle("hta-tight", width < TIGHT_BELOW_PX);
    if (!grid.arrange(width, ctx.fills || fullWindow.isOn)) {
      if (grid.hasColumns) grid.fitTimeline({ always: true });
      return;
    }
    ctx.isFilled.value = grid.hasColumns && ctx.fills;
    ctx.root.classList.toggle("hta-fills", ctx.isFilled.value);
    grid.fitTimeline({ always: true });
    this.loadAfterFirstFrame();
    this.panes.refresh();
  }

  private setTheme(theme: ThemeName): void {
    const { ctx } = this;
    applyTheme(ctx.root, theme);
    ctx.timeline.setTheme(theme);
    ctx.theme.value = theme;
  }

  /** Request the headline, and the data for use without a kernel. */
  private loadAfterFirstFrame(): void {
    const { root, source, headline, isHeadlinePending, live, timeline } = this.ctx;
    const { signal: abortSignal } = this.ctx;
    if (abortSignal.aborted) return;
    // The reply sets a trait, so all views of the model receive it.
    if (headline.value === null) {
      source
        .ask("headline", {}, abortSignal)
        .catch(() => undefined)
        .finally(() => (isHeadlinePending.value = false));
    }
    if (live === null || this.isFetching) return;
    this.isFetching = true;
    const { asideText } = timeline.status;
    onSignal(
      live.offline.progress,
      (now) => {
        asideText.value = progressText(now);
        root.dataset.pageData = now.state;
      },
      abortSignal,
    );
    live.offline.start();
  }
}

/** Handle shortcuts in the dashboard, except inside the timeline, which handles them itself. */
function listenToDashKeys(ctx: DashContext, full: FullWindow): void {
  const { root, live, signal } = ctx;
  const onDown = (event: KeyboardEvent): void => {
    if (event.isComposing || event.defaultPrevented) return;
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const typing = isTextEntry(event.target);
    if ((!typing || event.key === "Escape") && actOnKey(ctx, full, event)) {
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    // In command mode, notebooks react to letters: D D deletes the cell.
    if (plain && (typing || event.key.length === 1 || event.key === "Enter")) {
      event.stopPropagation();
    }
  };
  root.addEventListener("keydown", onDown, { signal });
  if (live !== null) return;
  // A page without a kernel contains only the dashboard, which handles keys even without focus.
  const onPageDown = (event: KeyboardEvent): void => {
    if (event.target !== document.body || event.defaultPrevented) return;
    if (actOnKey(ctx, full, event)) event.preventDefault();
  };
  document.addEventListener("keydown", onPageDown, { signal });
}

function actOnKey(ctx: DashContext, full: FullWindow, event: KeyboardEvent): boolean {
  const { root, selectionState, timeline } = ctx;
  const command = matchKey(event)?.command;
  if (command === "leave") {
    const ask = new Event("hta-escape", { cancelable: true });
    root.dispatchEvent(ask);
    if (ask.defaultPrevented) return true;
    if (selectionState.isEmpty) return full.leave();
    selectionState.select(null);
    return true;
  }
  if (command === "undo" && (event.ctrlKey || event.metaKey)) selectionState.travel(command);
  else if (command === "redo") selectionState.travel(command);
  else if (command === "help") timeline.help.toggle(ctx.button("help-button"));
  else if (command === "fold" || command === "search") timeline.commands.run(command);
  else if (command === "full-window") full.toggle();
  else return false;
  return true;
}
