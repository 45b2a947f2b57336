/** One view of a timeline: puts the parts together and into a page. */

import type { Scene, Source, Span, Stage, ThemeName } from "../contract";
import { AccessGrid } from "./access";
import { Commands } from "./commands";
import { type Context, throttle } from "./context";
import { aria, focused, h, toggle } from "./dom";
import { FilterBox } from "./filter_box";
import { detectTheme, watchTheme } from "./host_theme";
import { PANEL_HELP } from "./keymap";
import { Folding } from "./folding";
import { Hover } from "./hover";
import { listenToKeys } from "./keyboard";
import { LaneIndex } from "./lane_index";
import { Led } from "./led";
import { kindsOf, Legend } from "./legend";
import { Navigation } from "./navigation";
import { ErrorStrip } from "./notice";
import { asError, isAbort, ObservedSource } from "./observed_source";
import { PanelControl } from "./panel_control";
import { Dock } from "./panels/dock";
import { HelpSheet } from "./panels/help";
import { Picking } from "./picking";
import { PinButton } from "./pin_button";
import { Pointer } from "./pointer";
import { Rows } from "./rows";
import { Search } from "./search";
import { SearchBox } from "./search_box";
import { type Key, KEYS, type Model, Shared } from "./shared";
import { type KernelSays, StatusLine } from "./status";
import { applyTheme } from "./theme_vars";
import { NARROW_PX, Toolbar } from "./toolbar";
import { Tooltip } from "./tooltip";
import { listenToWheel } from "./wheel";
import { ViewFacts } from "./view_facts";
import { searchWords, type Words } from "./words";

export type MakeStage = (scene: Scene, source: Source, theme: ThemeName) => Stage;

export interface AppOptions {
  scene: Scene;
  source: Source;
  state: Model;
  height: number;
  signal: AbortSignal;
  makeStage: MakeStage;
  /** Fold like ranks; null or left out: only where there are many. */
  folded?: boolean | null;
  /** The user has folded or unfolded them. */
  keepFolded?: (folded: boolean) => void;
  /** As one of several linked panels: where its status line goes, and what others look after. */
  part?: Part;
}

export interface Part {
  /** What its toolbar is called; "Timeline" without it. */
  title?: string;
  status: HTMLElement;
  theme: ThemeName;
  /** What the status of the source means here; null for the usual. */
  kernelSays(): KernelSays | null;
  openProblems(): void;
}

const LEAST_STAGE_PX = 96;
/** Below this width the hint of keys has no room. */
const TIGHT_PX = 760;
/** From this width on the tables of totals have all their columns. */
const ROOMY_PX = 1060;
/** From this width on the colour mode is written out. */
const WIDE_PX = 1280;
const WHEEL_HINTS = 3;
/** Requests without a place of their own for an error. */
const DRAWING_OPS = new Set(["tiles", "minimap", "stats", "marks"]);

export class TimelineApp {
  private readonly root: HTMLElement;
  private readonly frame: HTMLElement;
  private readonly ctx: Context;
  private readonly nav: Navigation;
  private readonly rows: Rows;
  private readonly folding: Folding;
  private readonly picking: Picking;
  private readonly search: Search;
  private readonly legend: Legend;
  private readonly toolbar: Toolbar;
  private readonly status: StatusLine;
  private readonly panels: PanelControl;
  private readonly hover: Hover;
  private readonly filter: FilterBox;
  private readonly searchBox: SearchBox;
  private readonly commands: Commands;
  private readonly strip = new ErrorStrip();
  private readonly grid: AccessGrid;
  private readonly printGrid: () => void;
  private readonly facts: ViewFacts;
  private wheelHints = 0;
  private readonly partTitle: string | undefined;
  /** For whoever lets two timelines move together. */
  readonly led: Led;

  constructor(host: HTMLElement, options: AppOptions) {
    const { signal, scene } = options;
    this.partTitle = options.part?.title;
    this.root = h("div", {
      class: options.part === undefined ? "hta-root" : "hta-root hta-part",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "trace timeline",
      "data-lm-suppress-shortcuts": "true",
    });
    this.frame = h("div", { class: "hta-stage-frame" });
    host.append(this.root);
    const theme = options.part?.theme ?? detectTheme(this.root);
    applyTheme(this.root, theme);
    this.root.append(this.frame);
    this.height = options.height;

    const source = new ObservedSource(options.source);
    const shared = new Shared(signal);
    shared.attach(options.state);
    const stage = options.makeStage(scene, source, theme);
    this.frame.append(stage.el);
    const ctx: Context = {
      root: this.root,
      stage,
      source,
      shared,
      signal,
      isPart: options.part !== undefined,
      scene,
      lanes: new LaneIndex(scene),
    };
    this.ctx = ctx;

    const focus = (): void => this.root.focus({ preventScroll: true });
    const fail = (title: string, error: unknown): void => this.fail(title, error);
    const dock = new Dock(focus);
    const help = new HelpSheet(this.frame, focus, ctx.isPart ? [PANEL_HELP] : []);
    this.nav = new Navigation(ctx);
    this.rows = new Rows(ctx);
    const { folded = null, keepFolded = () => {} } = options;
    this.folding = new Folding(ctx, this.rows, folded, keepFolded, (error) =>
      fail("Ranks that are alike cannot be found", error),
    );
    this.picking = new Picking(ctx, this.nav, this.rows);
    this.search = new Search(ctx, this.picking);
    this.status = new StatusLine(ctx, {
      openProblems: options.part?.openProblems ?? (() => this.panels.openProblems()),
      showAllRanks: () => this.showAllRanks(),
      kernelSays: () => options.part?.kernelSays() ?? null,
    });
    this.panels = new PanelControl(ctx, dock, this.nav, this.picking, this.search, this.status);
    const tip = new Tooltip(this.frame);
    const pin = new PinButton(ctx, this.rows);
    this.hover = new Hover(ctx, tip, this.rows, (row, point) => pin.show(row, point));
    this.legend = new Legend(ctx, signal);
    this.searchBox = new SearchBox(ctx, this.search, focus, (error) =>
      fail("The search failed", error),
    );
    this.filter = new FilterBox(ctx, this.rows);
    const parts = {
      ctx,
      nav: this.nav,
      rows: this.rows,
      folding: this.folding,
      picking: this.picking,
      status: this.status,
      hover: this.hover,
    };
    const pointer = new Pointer({
      ...parts,
      focus,
      stays: (node) => pin.el.contains(node),
      failed: (error) => fail("The event cannot be found", error),
    });
    this.commands = new Commands({
      ...parts,
      search: this.search,
      pointer,
      help,
      focusSearch: () => this.searchBox.focus(),
      openExport: () => this.panels.openExport(),
      closePanel: () => dock.close(),
      fail,
    });
    this.led = new Led(ctx, this.nav, this.hover, this.commands);
    this.toolbar = new Toolbar(this.legend, this.searchBox, this.filter, (command) =>
      this.commands.run(command),
    );
    this.facts = new ViewFacts(
      {
        ctx,
        nav: this.nav,
        rows: this.rows,
        folding: this.folding,
        status: this.status,
        legend: this.legend,
      },
      { showAllRows: () => this.filter.clear(), back: () => void this.commands.run("undo") },
    );
    this.grid = new AccessGrid(ctx);
    this.printGrid = throttle(250, signal, () =>
      this.grid.print(this.picking.brief, shared.state.pinned),
    );

    this.frame.append(pin.el, this.facts.card.el, tip.el);
    this.root.prepend(this.toolbar.el, this.strip.el);
    this.root.append(dock.el, this.grid.el);
    (options.part?.status ?? this.root).append(this.status.el);

    this.listen(pointer);
    this.showScene();
    this.show(new Set<Key>(KEYS), false);
    this.setWidth(this.root.clientWidth);
    this.facts.renew();
    if (!ctx.isPart) watchTheme(this.root, signal, (name) => this.setTheme(name));
    signal.addEventListener("abort", () => this.close(), { once: true });
  }

  /** Follow another shared state from now on. */
  attach(state: Model): void {
    this.ctx.shared.attach(state);
  }

  /** Show another job in the same place. */
  setScene(scene: Scene): void {
    const { ctx } = this;
    ctx.scene = scene;
    ctx.lanes = new LaneIndex(scene);
    ctx.source.forget();
    ctx.stage.setScene(scene);
    this.showScene();
    this.rows.renew();
    this.folding.renew();
    this.picking.renew();
    this.panels.renew();
    this.search.follow();
    this.nav.follow(ctx.shared.state.view, false);
    this.facts.renew();
  }

  /** Fold like ranks, or show all, as Python says. */
  setFolded(folded: boolean): void {
    this.folding.set(folded, false);
  }

  /** Height of the drawing in which every row has room. */
  get naturalHeight(): number {
    return this.ctx.stage.contentHeight();
  }

  /** Called with the window in view, also while it moves. */
  onView(listener: (view: Span) => void): void {
    this.ctx.stage.onView(listener);
    listener(this.ctx.stage.view());
  }

  /** What linked panels say of the selection; null for nothing. */
  saySelection(words: Words | null): void {
    this.status.say("area", words);
  }

  /** Say something at the side of the status line; "" for nothing. */
  sayAside(text: string): void {
    this.status.setAside(text);
  }

  /** Say something for a moment. */
  flash(words: Words): void {
    this.status.flash(words);
  }

  openExport(): void {
    this.panels.openExport();
    this.root.scrollIntoView({ block: "nearest" });
  }

  openHelp(): void {
    this.commands.run("help");
    this.root.scrollIntoView({ block: "nearest" });
  }

  openProblems(): void {
    this.panels.openProblems();
  }

  /** Write down a gesture that is still settling: an undo from elsewhere then undoes it. */
  settle(): void {
    this.ctx.shared.flush();
  }

  /** The view as an SVG picture, with a sentence above it. */
  toSvg(headline = ""): Promise<string> {
    return this.panels.svg(headline);
  }

  /** Height of the drawing; toolbar, status line and panels come on top. */
  get height(): number {
    return Number.parseFloat(this.frame.style.height);
  }

  set height(height: number) {
    this.frame.style.height = `${Math.max(height, LEAST_STAGE_PX)}px`;
  }

  setTheme(name: ThemeName): void {
    applyTheme(this.root, name);
    this.ctx.stage.setTheme(name);
  }

  private listen(pointer: Pointer): void {
    const { ctx, nav, status } = this;
    const { shared, source, signal } = ctx;
    shared.onChange((keys) => this.show(keys, true));
    shared.onHistory(() => this.toolbar.setHistory(shared.canUndo, shared.canRedo));
    source.onStatus((now) => status.setKernel(now), signal);
    source.onFailure((op, error) => {
      if (DRAWING_OPS.has(op)) this.fail("The timeline is not complete", error);
    });
    nav.moved.on(() => this.hover.moved());
    this.search.changed.on(() => this.saySearch());
    this.picking.event.on(() => {
      this.printGrid();
      // A hit that was stepped to is what the search says; any other event speaks for itself.
      const { brief } = this.picking;
      if (brief !== null && !this.search.isAt(brief)) status.say("search", null);
    });
    this.rows.changed.on(() => this.printGrid());
    this.folding.changed.on(() => this.showFolding());
    const hold = (): void => this.folding.hold(this.picking.rank, shared.state.selection);
    this.picking.event.on(hold);
    this.picking.selection.on(hold);
    this.picking.selection.on(() => this.showRanks());
    listenToWheel({
      ctx,
      nav,
      hasFocus: () => this.root.contains(focused(this.root)),
      hint: () => this.hintWheel(),
      used: () => {
        this.wheelHints = WHEEL_HINTS;
      },
    });
    listenToKeys({
      root: this.root,
      signal,
      press: (match, id) => this.commands.press(match, id),
      release: (id) => this.commands.motion.release(id),
      releaseAll: () => this.commands.motion.releaseAll(),
      setSpace: (held) => {
        pointer.space = held;
      },
      anyKey: () => status.setHint(false),
    });
    this.root.addEventListener(
      "focusin",
      (event) => {
        if (!this.root.contains(event.relatedTarget as Node | null)) status.setHint(true);
      },
      { signal },
    );
    this.root.addEventListener(
      "focusout",
      (event) => {
        if (!this.root.contains(event.relatedTarget as Node | null)) status.setHint(false);
      },
      { signal },
    );
    const resized = new ResizeObserver(() => this.setWidth(this.root.clientWidth));
    resized.observe(this.root);
    signal.addEventListener("abort", () => resized.disconnect(), { once: true });
  }

  /** Show what the shared state says. */
  private show(keys: ReadonlySet<Key>, animate: boolean): void {
    const { state, canUndo, canRedo } = this.ctx.shared;
    if (keys.has("view")) this.nav.follow(state.view, animate);
    if (keys.has("color")) {
      this.ctx.stage.setColor(state.color);
      this.toolbar.setColor(state.color);
    }
    if (keys.has("pinned")) this.rows.push();
    this.showRanks();
    if (keys.has("search")) this.search.follow();
    if (keys.has("selection") || keys.has("selected_event")) {
      this.picking.follow({ event: keys.has("selected_event"), selection: keys.has("selection") });
    }
    this.toolbar.setHistory(canUndo, canRedo);
  }

  /** In a dashboard: only the ranks that another panel selected. */
  private showRanks(): void {
    const { isPart, scene, shared } = this.ctx;
    if (!isPart) return;
    const { selection, ranks_from: from } = shared.state;
    const ranks = from === "timeline" ? null : (selection?.ranks ?? null);
    this.rows.showOnly(ranks);
    this.status.setRanks(ranks?.length ?? scene.ranks.length, scene.ranks.length);
  }

  private showAllRanks(): void {
    this.ctx.shared.set({ ranks_from: "timeline" });
    this.showRanks();
  }

  private showScene(): void {
    const { scene } = this.ctx;
    this.toolbar.setScene(scene, this.ctx.isPart ? (this.partTitle ?? "Timeline") : scene.title);
    this.legend.setKinds(kindsOf(scene));
    this.status.setTruth(scene.truth);
    this.status.setEmbedded(scene.embedded);
    this.showFolding();
    aria(this.root, "label", `${scene.title}, ${scene.ranks.length} ranks, ${scene.events} events`);
    this.printGrid();
  }

  private showFolding(): void {
    this.toolbar.setFolding(this.folding.offered, this.folding.on);
  }

  /** Width 0 means hidden: nothing is known of the room then. */
  private setWidth(width: number): void {
    if (width === 0) return;
    toggle(this.root, "hta-narrow", width < NARROW_PX);
    toggle(this.root, "hta-tight", width < TIGHT_PX);
    toggle(this.root, "hta-roomy", width >= ROOMY_PX);
    toggle(this.root, "hta-wide", width >= WIDE_PX);
    this.toolbar.setWidth(width);
  }

  private saySearch(): void {
    const { hits, text } = this.search;
    this.status.say("search", hits === null || text === "" ? null : searchWords(hits));
  }

  private hintWheel(): void {
    if (this.wheelHints >= WHEEL_HINTS) return;
    this.wheelHints += 1;
    this.status.flash([{ key: "Ctrl" }, " + scroll to zoom"]);
  }

  /** Say in the widget what went wrong. */
  fail(title: string, error: unknown): void {
    if (isAbort(error) || this.ctx.signal.aborted) return;
    this.strip.show(title, asError(error).message, [
      {
        text: "Try again",
        press: () => {
          this.strip.hide();
          this.ctx.source.forget();
          this.ctx.stage.invalidate();
          this.facts.renew();
        },
      },
    ]);
  }

  private close(): void {
    this.ctx.stage.destroy();
    this.status.el.remove();
    this.root.remove();
  }
}
