/** One view of a timeline: creates its parts and puts them into the page. */

import { ObservedSource } from "../connection/answering";
import { type Key, KEYS, type Model, Shared } from "../connection/store";
import { LaneIndex } from "../protocol/scene";
import { roomAround } from "../protocol/selection";
import {
  asError,
  isAbort,
  type Scene,
  type Source,
  type Span,
  type Stage,
  type ThemeName,
} from "../protocol/source";
import { aria, focused, h } from "../ui/dom";
import { detectTheme, markWidth, watchBoxes, watchTheme } from "../ui/host";
import { FullWindow, outermost } from "../ui/placing";
import type { Words } from "../ui/text";
import { applyTheme } from "../ui/theme";
import { Tooltip } from "../ui/tooltip";
import { Commands } from "./commands";
import { AccessGrid, type Context, ErrorStrip, throttle } from "./context";
import { Gaps } from "./gaps";
import { Hover } from "./hover";
import { listenToKeys, PANEL_HELP } from "./keys";
import { kindsOf, Legend } from "./legend";
import { listenToWheel } from "./motion";
import { Led, Navigation } from "./navigation";
import { HeightEdge } from "./height";
import { HelpSheet } from "./panels/help";
import { Dock, PanelControl } from "./panels/panels";
import { Pointer } from "./pointer";
import { Folding, PinButton, Rows } from "./rows";
import { Search, SearchBox } from "./search";
import { Picking } from "./selected_event";
import { type Clock, type KernelSays, StatusLine, ViewFacts } from "./status";
import { searchWords } from "./text";
import { FilterBox, Toolbar } from "./toolbar";

export type MakeStage = (scene: Scene, source: Source, theme: ThemeName) => Stage;

interface AppOptions {
  scene: Scene;
  source: Source;
  state: Model;
  height: number;
  signal: AbortSignal;
  makeStage: MakeStage;
  /** Fold similar ranks; null or left out: only if there are many. */
  folded?: boolean | null;
  /** Called when the user has folded or unfolded them. */
  keepFolded?: (folded: boolean) => void;
  /** Called when the user chooses a clock; left out if no kernel can draw another one. */
  setClock?: ((clock: Clock) => void) | undefined;
  /** Called when the user has dragged the lower edge. */
  keepHeight?: (height: number) => void;
  /** For one of several linked panels: the place of its status line, and what others handle. */
  part?: Part;
}

export interface FoldingNow {
  isOffered: boolean;
  isOn: boolean;
  /** The ranks that share a row. */
  groups: readonly (readonly number[])[];
}

interface Part {
  /** Name of its toolbar; default "Timeline". */
  title?: string;
  status: HTMLElement;
  theme: ThemeName;
  /** Describe the source's status; null for the default text. */
  kernelSays(): KernelSays | null;
}

/** Requests whose errors have no place of their own. */
const DRAWING_OPS = new Set(["tiles", "minimap", "stats", "marks"]);

export class TimelineApp {
  private readonly root: HTMLElement;
  private readonly frame: HTMLElement;
  private readonly ctx: Context;
  private readonly parts: Parts;
  private readonly strip = new ErrorStrip();
  private readonly printGrid: () => void;
  private readonly edge: HeightEdge;
  private readonly partTitle: string | undefined;
  /** Controller for linked timelines. */
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

    const source = new ObservedSource(options.source);
    const shared = new Shared(signal);
    shared.attach(options.state);
    const stage = options.makeStage(scene, source, theme);
    this.frame.append(stage.el);
    this.edge = new HeightEdge(this.frame, stage, signal, (height) => options.keepHeight?.(height));
    this.edge.most = options.height;
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

    const { folded = null, keepFolded = () => {}, part } = options;
    this.parts = makeParts(ctx, this.frame, {
      folded,
      keepFolded,
      kernelSays: () => part?.kernelSays() ?? null,
      showAllRanks: () => this.showAllRanks(),
      setClock: options.setClock ?? null,
      fail: (title, error) => this.fail(title, error),
    });
    this.led = this.parts.led;
    this.printGrid = throttle(250, signal, () =>
      this.parts.grid.print(this.parts.picking.brief, shared.state.pinned),
    );

    const { dock, facts, grid, pin, status, tip, toolbar } = this.parts;
    this.frame.append(pin.el, facts.card.el, tip.el);
    this.root.prepend(toolbar.el, this.strip.el);
    this.root.append(dock.el, grid.el);
    (options.part?.status ?? this.root).append(status.el);

    this.listen();
    this.showScene();
    this.show(new Set<Key>(KEYS), false);
    this.setWidth(this.root.clientWidth);
    this.parts.facts.renew();
    if (!ctx.isPart) watchTheme(this.root, signal, (name) => this.setTheme(name));
    signal.addEventListener("abort", () => this.close(), { once: true });
  }

  /** Bind the view to another shared state. */
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
    this.parts.rows.renew();
    this.parts.folding.renew();
    this.parts.picking.renew();
    this.parts.panels.renew();
    this.parts.search.follow();
    this.parts.nav.follow(ctx.shared.state.view, false);
    this.parts.facts.renew();
  }

  /** Fold similar ranks, or show all, as set by Python. */
  setFolded(folded: boolean): void {
    this.parts.folding.set(folded, false);
  }

  /** Called when other ranks share a row, also with those that do now. */
  onFolding(listener: (now: FoldingNow) => void): void {
    const { folding, rows } = this.parts;
    const tell = (): void =>
      listener({ isOffered: folding.offered, isOn: folding.on, groups: rows.folded });
    folding.changed.on(tell);
    tell();
  }

  /** As a press of its button. */
  toggleFolding(): void {
    this.parts.commands.run("fold");
  }

  /** Find similar ranks now, without waiting for the first picture. */
  prepareFolding(): void {
    this.parts.folding.ready();
  }

  /** Show a window with a margin. */
  zoomTo(start: number, end: number): void {
    this.parts.nav.zoomTo(roomAround(start, end - start, 0.1));
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

  /** Set the text of linked panels on the selection; null for none. */
  saySelection(words: Words | null): void {
    this.parts.status.say("area", words);
  }

  /** Set the text at the side of the status line; "" for none. */
  sayAside(text: string): void {
    this.parts.status.setAside(text);
  }

  /** Show a message briefly. */
  flash(words: Words): void {
    this.parts.status.flash(words);
  }

  /** Open the export form at a button of the view around this one; by default at its own. */
  openExport(anchor?: HTMLElement): void {
    this.parts.panels.openExport(anchor);
  }

  openHelp(anchor: HTMLElement): void {
    this.parts.help.toggle(anchor);
  }

  openProblems(anchor: HTMLElement): void {
    this.parts.panels.openProblems(anchor);
  }

  /** Record an unfinished gesture, so that an undo from elsewhere undoes it. */
  settle(): void {
    this.ctx.shared.flush();
  }

  /** The view as an SVG picture, with a sentence above it. */
  toSvg(headline = ""): Promise<string> {
    return this.parts.panels.svg(headline);
  }

  /** Height of the drawing; toolbar, status line and panels come on top. Rows may need less. */
  get height(): number {
    return this.edge.height;
  }

  set height(height: number) {
    this.edge.most = height;
  }

  setTheme(name: ThemeName): void {
    applyTheme(this.root, name);
    this.ctx.stage.setTheme(name);
  }

  private listen(): void {
    const { ctx } = this;
    const { nav, folding, picking, pointer, search, status } = this.parts;
    const { shared, source, signal } = ctx;
    shared.onChange((keys) => this.show(keys, true));
    shared.onHistory(() => this.parts.toolbar.setHistory(shared.canUndo, shared.canRedo));
    source.onStatus((now) => status.setKernel(now), signal);
    source.onFailure((op, error) => {
      if (DRAWING_OPS.has(op)) this.fail("The timeline is not complete", error);
    });
    nav.moved.on(() => this.parts.hover.moved());
    search.changed.on(() => this.saySearch());
    picking.event.on(() => {
      this.printGrid();
      // The search describes a hit that was stepped to; any other event has its own text.
      const { brief } = picking;
      if (brief !== null && !search.isAt(brief)) status.say("search", null);
    });
    this.parts.rows.changed.on(() => {
      this.edge.fit();
      this.parts.hover.moved();
      this.printGrid();
    });
    folding.changed.on(() => this.showFolding());
    const hold = (): void => folding.hold(picking.rank, shared.state.selection);
    picking.event.on(hold);
    picking.selection.on(hold);
    picking.selection.on(() => this.showRanks());
    listenToWheel({
      ctx,
      nav,
      hasFocus: () => this.root.contains(focused(this.root)),
      hint: () => status.flash([{ key: "Ctrl" }, " + scroll to zoom"]),
    });
    listenToKeys({
      root: this.root,
      signal,
      press: (match, id) => this.parts.commands.press(match, id),
      release: (id) => this.parts.commands.motion.release(id),
      releaseAll: () => this.parts.commands.motion.releaseAll(),
      setSpace: (held) => {
        pointer.space = held;
      },
      anyKey: () => status.setHint(false),
      focus: (inside) => status.setHint(inside),
    });
    watchBoxes([this.root], () => this.setWidth(this.root.clientWidth), signal);
  }

  /** Show the shared state. */
  private show(keys: ReadonlySet<Key>, animate: boolean): void {
    const { state, canUndo, canRedo } = this.ctx.shared;
    if (keys.has("view")) this.parts.nav.follow(state.view, animate);
    if (keys.has("color")) {
      this.ctx.stage.setColor(state.color);
      this.parts.toolbar.setColor(state.color);
    }
    if (keys.has("pinned")) this.parts.rows.push();
    this.showRanks();
    if (keys.has("search")) this.parts.search.follow();
    if (keys.has("selection") || keys.has("selected_event")) {
      this.parts.picking.follow({
        event: keys.has("selected_event"),
        selection: keys.has("selection"),
      });
    }
    this.parts.toolbar.setHistory(canUndo, canRedo);
  }

  /** In a dashboard, show only the ranks that another panel selected. */
  private showRanks(): void {
    const { isPart, scene, shared } = this.ctx;
    if (!isPart) return;
    const { selection, ranks_from: from } = shared.state;
    const ranks = from === "timeline" ? null : (selection?.ranks ?? null);
    this.parts.rows.showOnly(ranks);
    this.parts.status.setRanks(ranks?.length ?? scene.ranks.length, scene.ranks.length);
  }

  private showAllRanks(): void {
    this.ctx.shared.set({ ranks_from: "timeline" });
    this.showRanks();
  }

  private showScene(): void {
    const { scene } = this.ctx;
    this.parts.toolbar.setScene(
      scene,
      this.ctx.isPart ? (this.partTitle ?? "Timeline") : scene.title,
    );
    this.parts.legend.setKinds(kindsOf(scene));
    this.parts.status.setTruth(scene.truth);
    this.parts.status.setEmbedded(scene.embedded);
    this.showFolding();
    aria(this.root, "label", `${scene.title}, ${scene.ranks.length} ranks, ${scene.events} events`);
    this.printGrid();
  }

  private showFolding(): void {
    this.parts.toolbar.setFolding(this.parts.folding.offered, this.parts.folding.on);
  }

  /** Set the width; 0 means hidden, and does not count. */
  private setWidth(width: number): void {
    if (width === 0) return;
    markWidth(this.root, width);
    this.parts.toolbar.setWidth(width);
  }

  private saySearch(): void {
    const { hits, text } = this.parts.search;
    this.parts.status.say("search", hits === null || text === "" ? null : searchWords(hits));
  }

  /** Show an error in the widget. */
  fail(title: string, error: unknown): void {
    if (isAbort(error) || this.ctx.signal.aborted) return;
    this.strip.show(title, asError(error).message, [
      {
        text: "Try again",
        press: () => {
          this.strip.hide();
          this.ctx.source.forget();
          this.ctx.stage.invalidate();
          this.parts.facts.renew();
        },
      },
    ]);
  }

  private close(): void {
    this.ctx.stage.destroy();
    this.parts.status.el.remove();
    this.root.remove();
  }
}

// Creates the parts of a timeline, each with the others that it needs.

interface AssemblyWays {
  folded: boolean | null;
  keepFolded(folded: boolean): void;
  /** Describe the source's status; null for the default text. */
  kernelSays(): KernelSays | null;
  showAllRanks(): void;
  setClock: ((clock: Clock) => void) | null;
  fail(title: string, error: unknown): void;
}

type Parts = ReturnType<typeof makeParts>;

function makeParts(ctx: Context, frame: HTMLElement, ways: AssemblyWays) {
  const { fail } = ways;
  const focus = (): void => ctx.root.focus({ preventScroll: true });
  const around = (): HTMLElement => outermost(ctx.root);
  const help = new HelpSheet(around, ctx.signal, ctx.isPart ? [PANEL_HELP] : []);
  const full = ctx.isPart ? null : new FullWindow(ctx.root);
  const nav = new Navigation(ctx);
  const rows = new Rows(ctx);
  const folding = new Folding(ctx, rows, ways.folded, ways.keepFolded, (error) =>
    fail("Similar ranks cannot be found", error),
  );
  const picking = new Picking(ctx, nav, rows);
  const gaps = new Gaps(ctx, nav, picking);
  const dock = new Dock(focus, () => picking.rowExtent, ctx.signal);
  const search = new Search(ctx, picking);
  const status: StatusLine = new StatusLine(ctx, {
    openProblems: (anchor) => panels.openProblems(anchor),
    showAllRanks: ways.showAllRanks,
    setClock: ways.setClock,
    kernelSays: ways.kernelSays,
  });
  const panels: PanelControl = new PanelControl(
    ctx,
    dock,
    nav,
    picking,
    gaps,
    search,
    status,
    () => toolbar.exporting,
  );
  const tip = new Tooltip(frame);
  const pin = new PinButton(ctx, rows);
  const hover = new Hover(ctx, tip, rows, gaps, (row, point) => pin.show(row, point));
  const legend = new Legend(ctx, ctx.signal);
  const searchBox = new SearchBox(ctx, search, focus, (error) => fail("The search failed", error));
  const filter = new FilterBox(ctx, rows);
  const parts = { ctx, nav, rows, folding, picking, status, hover };
  const pointer = new Pointer({
    ...parts,
    gaps,
    focus,
    stays: (node) => pin.el.contains(node),
    failed: (error) => fail("The event cannot be found", error),
  });
  const commands = new Commands({
    ...parts,
    search,
    pointer,
    help,
    helpButton: () => toolbar.help,
    full,
    focusSearch: () => searchBox.focus(),
    openExport: () => panels.openExport(),
    closePanel: () => dock.close(),
    fail,
  });
  const led = new Led(ctx, nav, hover);
  const toolbar: Toolbar = new Toolbar(legend, searchBox, filter, full?.button ?? null, (command) =>
    commands.run(command),
  );
  const facts = new ViewFacts(
    { ctx, nav, rows, folding, status, legend },
    { showAllRows: () => filter.clear(), back: () => void commands.run("undo") },
  );
  const grid = new AccessGrid(ctx);
  return {
    ...{ nav, rows, folding, picking, search, hover, pointer, commands, led },
    ...{ toolbar, legend, status, panels, dock, help, tip, pin, facts, grid },
  };
}
