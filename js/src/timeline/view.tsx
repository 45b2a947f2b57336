/** One view of a timeline: creates its parts and puts them into the page. */

import { signal } from "@preact/signals";
import { ObservedSource } from "../connection/answering";
import { type Key, KEYS, type Model, Shared } from "../connection/store";
import {
  asError,
  isAbort,
  type Scene,
  type Source,
  type Span,
  type ThemeName,
} from "../protocol/source";
import { Stage } from "../stage/stage";
import { aria, focused, h, mount } from "../ui/dom";
import { react } from "../ui/react";
import { detectTheme, markWidth, NARROW_PX, watchBoxes, watchTheme } from "../ui/host";
import { Popover } from "../ui/menu";
import { FullWindow, outermost } from "../ui/placing";
import type { Words } from "../ui/text";
import { applyTheme } from "../ui/theme";
import { Tip, Tooltip } from "../ui/tooltip";
import { AccessGrid, type Spoken } from "./access_grid";
import { Commands } from "./commands";
import { Context, throttle } from "./context";
import { Gaps } from "./gaps";
import { Height, HeightEdge } from "./height";
import { Hover } from "./hover";
import { type Command, listenToKeys, PANEL_HELP } from "./keys";
import { Legend } from "./legend";
import { Card, ErrorStrip, type Message } from "./messages";
import { listenToWheel } from "./motion";
import { Led, Navigation } from "./navigation";
import { Help } from "./panels/help";
import { PanelControl } from "./panels/panels";
import { Pin, PinButton } from "./pin";
import { Pointer } from "./pointer";
import { Folding, Rows } from "./rows";
import { Search } from "./search";
import { Picking } from "./selected_event";
import { type Clock, type KernelSays, Status, StatusLine } from "./status";
import { searchWords } from "./text";
import { TimelineToolbar } from "./toolbar";
import { ViewFacts } from "./view_facts";

const SPOKEN_MS = 250;

interface AppOptions {
  scene: Scene;
  source: Source;
  state: Model;
  height: number;
  signal: AbortSignal;
  /** Fold similar ranks; null or left out: only if there are many. */
  folded?: boolean | null;
  /** Called when the user has folded or unfolded them. */
  keepFolded?: (folded: boolean) => void;
  /** Called when the user chooses a clock; left out if no kernel can draw another one. */
  setClock?: ((clock: Clock) => void) | undefined;
  /** Called when the user has dragged the lower edge. */
  keepHeight?: (height: number) => void;
  /** For one of several linked panels: its status line, and settings of the view around it. */
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

/** Requests whose failures are shown below the toolbar. */
const DRAWING_OPS = new Set(["tiles", "minimap", "stats", "marks"]);

export class TimelineApp {
  private readonly root: HTMLElement;
  private readonly ctx: Context;
  private readonly parts: Parts;
  private readonly failure = signal<Message | null>(null);
  private readonly spoken = signal<Spoken>({ rows: [], selected: null, pinned: [] });
  private readonly narrow = signal(false);
  private readonly edge: Height;
  /** Controller for linked timelines. */
  readonly led: Led;

  constructor(host: HTMLElement, options: AppOptions) {
    const { signal: ended, scene, part } = options;
    this.root = h("div", {
      class: part === undefined ? "hta-root" : "hta-root hta-part",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "trace timeline",
      "data-lm-suppress-shortcuts": "true",
    });
    host.append(this.root);
    const theme = part?.theme ?? detectTheme(this.root);
    applyTheme(this.root, theme);

    const source = new ObservedSource(options.source);
    const shared = new Shared(ended);
    shared.attach(options.state);
    const stage = new Stage(scene, source, theme);
    const ctx = new Context(scene, this.root, stage, source, shared, ended, part !== undefined);
    this.ctx = ctx;
    this.edge = new Height(stage, (height) => options.keepHeight?.(height));
    const { folded = null, keepFolded = () => {} } = options;
    this.parts = makeParts(ctx, {
      folded,
      keepFolded,
      kernelSays: () => part?.kernelSays() ?? null,
      showAllRanks: () => this.showAllRanks(),
      setClock: options.setClock ?? null,
      fail: (title, error) => this.fail(title, error),
    });
    this.led = this.parts.led;
    this.edge.most = options.height;
    this.draw(part);

    this.listen();
    this.show(new Set<Key>(KEYS), false);
    this.setWidth(this.root.clientWidth);
    this.parts.facts.renew();
    if (!ctx.isPart) watchTheme(this.root, ended, (name) => this.setTheme(name));
    ended.addEventListener("abort", () => this.close(), { once: true });
  }

  private draw(part: Part | undefined): void {
    const { ctx, root, edge, narrow, failure, spoken, parts } = this;
    const { panels, status, pin, facts, tip, full, commands } = parts;
    const title = part === undefined ? undefined : (part.title ?? "Timeline");
    const line = <Status line={status} />;
    const run = (command: Command): void => void commands.run(command);
    const view = (
      <>
        <TimelineToolbar {...parts} title={title} narrow={narrow} full={full} run={run} />
        <ErrorStrip shown={failure} />
        <div class="hta-stage-frame" ref={(frame) => frame?.prepend(ctx.stage.el)}>
          <HeightEdge height={edge} />
          <PinButton pin={pin} />
          <Card shown={facts.card} />
          <Tip tooltip={tip} />
        </div>
        <panels.Dock />
        <AccessGrid ctx={ctx} shown={spoken} />
        {part === undefined && line}
      </>
    );
    mount(view, root, ctx.signal);
    const frame = ctx.stage.el.parentElement!;
    react(edge.own, (height) => (frame.style.height = `${height}px`), ctx.signal);
    if (part !== undefined) mount(line, part.status, ctx.signal);
  }

  /** Bind the view to another shared state. */
  attach(state: Model): void {
    this.ctx.shared.attach(state);
  }

  /** Show another job in the same place. */
  setScene(scene: Scene): void {
    const { ctx } = this;
    ctx.source.forget();
    ctx.stage.setScene(scene);
    ctx.scene = scene;
    this.parts.rows.renew();
    this.parts.folding.renew();
    this.parts.picking.renew();
    this.parts.search.follow();
    this.parts.nav.follow(ctx.shared.state.view, false);
    this.parts.facts.renew();
  }

  /** Fold similar ranks, or show all, as set by Python. */
  setFolded(folded: boolean): void {
    this.parts.folding.set(folded, false);
  }

  /** Called when folding or its groups have changed, and initially with the current groups. */
  onFolding(listener: (now: FoldingNow) => void): void {
    const { folding, rows } = this.parts;
    const tell = (): void =>
      listener({ isOffered: folding.offered, isOn: folding.on, groups: rows.folded });
    folding.changed.on(tell);
    tell();
  }

  /** Fold similar ranks or show all, as the button does. */
  toggleFolding(): void {
    this.parts.commands.run("fold");
  }

  /** Find similar ranks now, without waiting for the first picture. */
  prepareFolding(): void {
    this.parts.folding.ready();
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
    this.parts.status.aside.value = text;
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
    return this.edge.own.value;
  }

  set height(height: number) {
    this.edge.most = height;
  }

  setTheme(name: ThemeName): void {
    applyTheme(this.root, name);
    this.ctx.stage.setTheme(name);
  }

  private listen(): void {
    const { ctx, root } = this;
    const { nav, folding, picking, pointer, rows, search, status, hover, commands } = this.parts;
    const { shared, source, stage, signal: ended } = ctx;
    shared.onChange((keys) => this.show(keys, true));
    source.onFailure((op, error) => {
      if (DRAWING_OPS.has(op)) this.fail("The timeline is not complete", error);
    });
    nav.moved.on(() => hover.moved());
    const speak = throttle(SPOKEN_MS, ended, () => {
      const { pinned } = shared.state;
      this.spoken.value = { rows: rows.now.value, selected: picking.brief, pinned };
    });
    rows.changed.on(() => {
      this.edge.fit();
      hover.moved();
    });
    react(() => [rows.now.value, picking.brief], speak, ended);
    react(
      () => shared.now.value.color,
      (color) => stage.setColor(color),
      ended,
    );
    react(
      () => {
        const { hits } = search.found.value;
        return hits === null || search.text === "" ? null : searchWords(hits);
      },
      (words) => status.say("search", words),
      ended,
    );
    // The search describes a hit that was stepped to; any other event has its own text.
    react(
      () => picking.brief,
      (brief) => brief !== null && !search.isAt(brief) && status.say("search", null),
      ended,
    );
    react(
      () => [picking.now.value.key?.rank ?? null, picking.chosen.value] as const,
      ([rank, selection]) => folding.hold(rank, selection),
      ended,
    );
    react(
      () => [picking.chosen.value, shared.now.value.ranks_from, ctx.scene],
      () => this.showRanks(),
      ended,
    );
    react(
      () => ctx.scene,
      ({ title, ranks, events }) =>
        aria(root, "label", `${title}, ${ranks.length} ranks, ${events} events`),
      ended,
    );
    listenToWheel({
      ctx,
      nav,
      hasFocus: () => root.contains(focused(root)),
      hint: () => status.flash([{ key: "Ctrl" }, " + scroll to zoom"]),
    });
    listenToKeys({
      root,
      signal: ended,
      press: (match, id) => commands.press(match, id),
      release: (id) => commands.motion.release(id),
      releaseAll: () => commands.motion.releaseAll(),
      setSpace: (held) => {
        pointer.space = held;
      },
      anyKey: () => (status.hinting.value = false),
      focus: (inside) => (status.hinting.value = inside),
    });
    watchBoxes([root], () => this.setWidth(root.clientWidth), ended);
  }

  /** Show the shared state. */
  private show(keys: ReadonlySet<Key>, animate: boolean): void {
    const { nav, rows, search, picking } = this.parts;
    if (keys.has("view")) nav.follow(this.ctx.shared.state.view, animate);
    if (keys.has("pinned")) rows.push();
    if (keys.has("search")) search.follow();
    if (keys.has("selected_event")) picking.follow();
  }

  /** In a dashboard, show only the ranks that another panel selected. */
  private showRanks(): void {
    const { isPart, scene, shared } = this.ctx;
    if (!isPart) return;
    const { selection, ranks_from: from } = shared.state;
    const ranks = from === "timeline" ? null : (selection?.ranks ?? null);
    const all = scene.ranks.length;
    this.parts.rows.showOnly(ranks);
    this.parts.status.ranks.value = [ranks?.length ?? all, all];
  }

  private showAllRanks(): void {
    this.ctx.shared.set({ ranks_from: "timeline" });
  }

  /** Set the width; 0 means hidden, and does not count. */
  private setWidth(width: number): void {
    if (width === 0) return;
    markWidth(this.root, width);
    this.narrow.value = width < NARROW_PX;
  }

  /** Show an error in the widget. */
  fail(title: string, error: unknown): void {
    const { ctx, failure } = this;
    if (isAbort(error) || ctx.signal.aborted) return;
    const retry = (): void => {
      failure.value = null;
      ctx.source.forget();
      ctx.stage.invalidate();
      this.parts.facts.renew();
    };
    const buttons = [{ text: "Try again", press: retry }];
    failure.value = { title, text: asError(error).message, buttons };
  }

  private close(): void {
    this.ctx.stage.destroy();
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

function makeParts(ctx: Context, ways: AssemblyWays) {
  const { fail } = ways;
  const focus = (): void => ctx.root.focus({ preventScroll: true });
  const button = (name: string): HTMLElement =>
    ctx.root.querySelector<HTMLElement>(`.hta-${name}-button`)!;
  const full = ctx.isPart ? null : new FullWindow(ctx.root);
  const help: Popover = new Popover(
    () => outermost(ctx.root),
    "Keys and gestures",
    () => <Help more={ctx.isPart ? [PANEL_HELP] : []} close={() => void help.close()} />,
    ctx.signal,
  );
  const nav = new Navigation(ctx);
  const rows = new Rows(ctx);
  const folding = new Folding(ctx, rows, ways.folded, ways.keepFolded, (error) =>
    fail("Similar ranks cannot be found", error),
  );
  const picking = new Picking(ctx, nav, rows);
  const gaps = new Gaps(ctx, nav, picking);
  const search = new Search(ctx, picking, (error) => fail("The search failed", error), focus);
  const status: StatusLine = new StatusLine(ctx, {
    openProblems: (anchor) => panels.openProblems(anchor),
    showAllRanks: ways.showAllRanks,
    setClock: ways.setClock,
    kernelSays: ways.kernelSays,
  });
  const panels: PanelControl = new PanelControl(ctx, nav, picking, gaps, search, status, () =>
    button("export"),
  );
  const tip = new Tooltip();
  const pin = new Pin(ctx, rows);
  const hover = new Hover(ctx, tip, rows, gaps, (row, point) => pin.show(row, point));
  const legend = new Legend(ctx);
  const parts = { ctx, nav, rows, folding, picking, status, hover };
  const pointer = new Pointer({
    ...parts,
    gaps,
    focus,
    stays: (node) => node instanceof Element && node.closest(".hta-pin") !== null,
    failed: (error) => fail("The event cannot be found", error),
  });
  const commands = new Commands({
    ...parts,
    search,
    pointer,
    full,
    openHelp: () => help.toggle(button("help")),
    openExport: () => panels.openExport(),
    closePanel: () => panels.close(),
    fail,
  });
  const led = new Led(ctx, nav, hover);
  const facts = new ViewFacts(
    { ctx, nav, rows, folding, status, legend },
    { showAllRows: () => rows.setFilter(""), back: () => void commands.run("undo") },
  );
  return { ...parts, search, pointer, commands, led, legend, panels, help, tip, pin, facts, full };
}
