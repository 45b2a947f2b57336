/** A timeline's view: creates its parts and adds them to the page. */

import { computed, signal } from "@preact/signals";
import type { VNode } from "preact";
import { ObservedSource } from "../connection/answering";
import { type StateKey, STATE_KEYS, type Model, SharedStateStore } from "../connection/store";
import { BOUND_PALETTE } from "../facts/bound_classes";
import type { Brief, Scene, Source, Span, ThemeName } from "../protocol/source";
import { Stage } from "../stage/stage";
import { aria, h, renderInto } from "../ui/dom";
import { onSignal } from "../ui/react";
import { detectTheme, setWidthClass, NARROW_BELOW_PX, watchBoxes, watchTheme } from "../ui/host";
import { Popover } from "../ui/menu";
import { FullWindow, outermostElement } from "../ui/placing";
import { applyTheme } from "../ui/theme";
import { TooltipView } from "../ui/tooltip";
import { AccessGrid, type AccessGridContent } from "./access_grid";
import { Commands } from "./commands";
import { TimelineContext, throttle } from "./context";
import { FoldingController, type FoldingOptions } from "./folding";
import { GapSelection } from "./gaps";
import { HeightControl, HeightEdge } from "./height";
import { HoverController } from "./hover";
import { listenToKeys } from "./keyboard";
import { type HelpGroup, PANEL_HELP } from "./keys";
import { Legend } from "./legend";
import { Card, ErrorStrip, WheelHint } from "./messages";
import { listenToWheel } from "./motion";
import { Navigation } from "./navigation";
import { Help } from "./panels/help";
import { PanelControl } from "./panels/control";
import { PanelDock } from "./panels/dock";
import { RowPin, PinButton } from "./pin";
import { PointerInput } from "./pointer";
import { RowsController } from "./rows";
import { SearchController } from "./search";
import { EventSelection } from "./selected_event";
import { type KernelStatus, Status, StatusLine, type StatusOptions } from "./status";
import { searchText } from "./text";
import { TimelineToolbar } from "./toolbar";
import { ViewFacts } from "./view_facts";

const GRID_DELAY_MS = 250;

export interface AppOptions extends FoldingOptions, StatusOptions {
  scene: Scene;
  source: Source;
  state: Model;
  height: number;
  signal: AbortSignal;
  /** Called when the user has dragged the lower edge. */
  saveHeight?: (height: number) => void;
  /** If the timeline is a linked panel: status line and settings of the enclosing view. */
  linkedPanel?: LinkedPanelOptions;
}

interface LinkedPanelOptions {
  /** Name of the toolbar. Default: "Timeline". */
  title?: string;
  status: HTMLElement;
  theme: ThemeName;
  /** Keys and gestures of the enclosing view. Default: those of a dashboard. */
  help?: HelpGroup;
  /** Describe the status of the source; null for the default text. */
  kernelStatus(): KernelStatus | null;
}

/** Requests whose failures are shown below the toolbar. */
const DRAWING_OPS = new Set(["tiles", "minimap", "stats", "marks"]);

export class TimelineApp {
  readonly ctx: TimelineContext;
  readonly nav: Navigation;
  readonly rows: RowsController;
  readonly picking: EventSelection;
  readonly folding: FoldingController;
  readonly gapSelection: GapSelection;
  readonly search: SearchController;
  readonly status: StatusLine;
  readonly panels: PanelControl;
  readonly help: Popover;
  readonly pin: RowPin;
  readonly hover: HoverController;
  readonly legend: Legend;
  readonly pointer: PointerInput;
  readonly commands: Commands;
  /** Null if the timeline is a panel of a dashboard, because the dashboard fills the window. */
  readonly fullWindow: FullWindow | null;
  private readonly facts: ViewFacts;
  private readonly heightEdge: HeightControl;
  /** Whether the hint that Ctrl + wheel zooms is shown. */
  readonly wheelHint = signal(false);
  private readonly isNarrow = signal(false);
  private readonly accessGrid = signal<AccessGridContent>({ rows: [], selected: null, pinned: [] });

  constructor(host: HTMLElement, options: AppOptions) {
    const { linkedPanel } = options;
    this.ctx = makeContext(host, options);
    const { ctx } = this;
    const { root } = ctx;
    this.heightEdge = new HeightControl(ctx.stage, (height) => options.saveHeight?.(height));
    this.fullWindow = linkedPanel === undefined ? new FullWindow(root) : null;
    const help = (): VNode => (
      <Help
        more={linkedPanel === undefined ? [] : [linkedPanel.help ?? PANEL_HELP]}
        followsPointer={root.closest("[data-hta-page]") !== null}
        close={() => void this.help.close()}
      />
    );
    this.help = new Popover(() => outermostElement(root), "Keys and gestures", help, ctx.signal);
    // Each part may use parts created before it.
    this.nav = new Navigation(ctx);
    this.rows = new RowsController(ctx);
    this.picking = new EventSelection(this);
    this.folding = new FoldingController(this, options);
    this.gapSelection = new GapSelection(this);
    this.search = new SearchController(this);
    this.status = new StatusLine(this, options);
    this.panels = new PanelControl(this);
    this.pin = new RowPin(this);
    this.hover = new HoverController(this);
    this.legend = new Legend(ctx);
    this.pointer = new PointerInput(this);
    this.commands = new Commands(this);
    this.facts = new ViewFacts(this);
    this.heightEdge.maxHeight = options.height;
    this.draw(linkedPanel);
    this.listen();
    this.show(new Set<StateKey>(STATE_KEYS), false);
    this.setWidth(root.clientWidth);
    this.facts.reset();
  }

  private draw(part: LinkedPanelOptions | undefined): void {
    const { ctx, heightEdge, isNarrow, facts, panels, pin, hover, accessGrid } = this;
    const { root, stage, signal: abortSignal } = ctx;
    const title = part && (part.title ?? "Timeline");
    const line = <Status line={this.status} />;
    const view = (
      <>
        <TimelineToolbar app={this} title={title} narrow={isNarrow} />
        <ErrorStrip shown={ctx.failure} />
        <div class="hta-stage-frame" ref={(frame) => frame?.prepend(stage.el)}>
          <HeightEdge height={heightEdge} />
          <PinButton pin={pin} />
          <Card messageSignal={facts.card} />
          <WheelHint shown={this.wheelHint} />
          <TooltipView tooltip={hover.tooltip} />
        </div>
        <PanelDock panels={panels} />
        <AccessGrid ctx={ctx} content={accessGrid} />
        {part === undefined && line}
      </>
    );
    renderInto(view, root, abortSignal);
    const frame = stage.el.parentElement!;
    onSignal(heightEdge.userHeight, (height) => (frame.style.height = `${height}px`), abortSignal);
    if (part !== undefined) renderInto(line, part.status, abortSignal);
  }

  attach(state: Model): void {
    this.ctx.shared.attach(state);
  }

  /** Replace the job. */
  setScene(scene: Scene): void {
    const { ctx } = this;
    ctx.source.clearCache();
    ctx.stage.setScene(scene);
    ctx.scene = scene;
    this.rows.reset();
    this.folding.reset();
    this.picking.reset();
    this.search.syncText();
    this.nav.showState();
    this.facts.reset();
  }

  /** Call `listener` with the visible window, now and whenever it moves. */
  onView(listener: (view: Span) => void): void {
    this.ctx.stage.onView(listener);
    listener(this.ctx.stage.view());
  }

  /** Outline an event as if the pointer were on it, in its own lane or in a summary lane. */
  outlineEvent(event: Brief | null, inSummary = false): void {
    const { ctx, rows } = this;
    if (event === null) {
      ctx.stage.setOverlay({ hover: null });
      return;
    }
    const { rank, lane, start, dur } = event;
    const folded = inSummary || !rows.isOpen(rank) ? ctx.foldedLane(lane) : null;
    ctx.stage.setOverlay({ hover: { lane: folded ?? lane, start, dur } });
  }

  /** Maximum height of the drawing in px, without toolbar, status line and panels. */
  get height(): number {
    return this.heightEdge.userHeight.value;
  }

  set height(height: number) {
    this.heightEdge.maxHeight = height;
  }

  setTheme(name: ThemeName): void {
    applyTheme(this.ctx.root, name);
    this.ctx.stage.setTheme(name);
    this.ctx.theme.value = name;
  }

  fail(title: string, error: unknown): void {
    this.ctx.fail(title, error);
  }

  flash(text: string): void {
    if (text !== "") this.status.flashMessage([text]);
  }

  private listen(): void {
    const { ctx } = this;
    const { root, shared, source, stage, signal: abortSignal } = ctx;
    shared.onChange((keys) => this.show(keys, true));
    source.onFailure((op, error) => {
      if (DRAWING_OPS.has(op)) ctx.fail("The timeline is not complete", error);
    });
    this.installEffects();
    listenToWheel(this);
    listenToKeys(this);
    // Wrapping the toolbar changes the observed height, which must not happen in an observer.
    const setWidth = (): void => this.setWidth(root.clientWidth);
    watchBoxes([root], () => requestAnimationFrame(setWidth), abortSignal);
    if (!ctx.isLinkedPanel) watchTheme(root, abortSignal, (name) => this.setTheme(name));
    const close = (): void => {
      stage.destroy();
      root.remove();
    };
    abortSignal.addEventListener("abort", close, { once: true });
  }

  private installEffects(): void {
    const { ctx, rows, picking, search, status } = this;
    const { root, shared, stage, signal: abortSignal } = ctx;
    const updateAccessGrid = throttle(GRID_DELAY_MS, abortSignal, () => {
      const { pinned } = shared.state;
      this.accessGrid.value = { rows: rows.stateSignal.value, selected: picking.brief, pinned };
    });
    onSignal(() => [rows.stateSignal.value, picking.brief], updateAccessGrid, abortSignal);
    onSignal(rows.stateSignal, () => this.heightEdge.fit(), abortSignal);
    onSignal(ctx.color, (color) => stage.setColor(color), abortSignal);
    // Not called for other color changes, because a comparison sets its own classes.
    onSignal(
      computed(() => ctx.color.value === "bound"),
      (isByBound) => stage.setClasses(isByBound ? BOUND_PALETTE : null, true, null),
      abortSignal,
    );
    onSignal(
      () => {
        const { hits } = search.result.value;
        return hits === null || search.text === "" ? null : searchText(hits);
      },
      (text) => status.setMessage("search", text),
      abortSignal,
    );
    // If an event other than the current match is selected, its text replaces the search's.
    onSignal(
      () => picking.brief,
      (brief) => brief !== null && !search.isAt(brief) && status.setMessage("search", null),
      abortSignal,
    );
    onSignal(
      () => [picking.selectionSignal.value, shared.stateSignal.value.ranks_from, ctx.scene],
      () => this.showRanks(),
      abortSignal,
    );
    onSignal(
      () => ctx.scene,
      ({ title, ranks, events }) =>
        aria(root, "label", `${title}, ${ranks.length} ranks, ${events} events`),
      abortSignal,
    );
  }

  private show(keys: ReadonlySet<StateKey>, animate: boolean): void {
    if (keys.has("view")) this.nav.follow(this.ctx.shared.state.view, animate);
    if (keys.has("search")) this.search.syncText();
    if (keys.has("selected_event")) this.picking.follow();
  }

  /** In a dashboard, show only the ranks selected in another panel. */
  private showRanks(): void {
    const { isLinkedPanel, scene, shared } = this.ctx;
    if (!isLinkedPanel) return;
    const { selection, ranks_from: from } = shared.state;
    const ranks = from === "timeline" ? null : (selection?.ranks ?? null);
    const all = scene.ranks.length;
    this.rows.showOnly(ranks);
    this.status.ranks.value = [ranks?.length ?? all, all];
  }

  /** Set the width. A width of 0 is ignored, because it is that of a hidden element. */
  private setWidth(width: number): void {
    if (width === 0) return;
    setWidthClass(this.ctx.root, width);
    this.isNarrow.value = width < NARROW_BELOW_PX;
  }
}

/** Add a view's element to the page. Create the context shared by its parts. */
function makeContext(host: HTMLElement, options: AppOptions): TimelineContext {
  const { scene, signal, linkedPanel } = options;
  const isPart = linkedPanel !== undefined;
  const root = h("div", {
    class: isPart ? "hta-root hta-part" : "hta-root",
    tabindex: 0,
    role: "application",
    "aria-roledescription": "trace timeline",
    "data-lm-suppress-shortcuts": "true",
  });
  host.append(root);
  const theme = linkedPanel?.theme ?? detectTheme(root);
  applyTheme(root, theme);
  const source = new ObservedSource(options.source);
  const shared = new SharedStateStore(signal);
  shared.attach(options.state);
  const stage = new Stage(scene, source, theme);
  const ctx = new TimelineContext(scene, root, stage, source, shared, signal, isPart);
  ctx.theme.value = theme;
  return ctx;
}
