/** One view of a timeline: creates its parts and puts them into the page. */

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { ObservedSource } from "../connection/answering";
import { type Key, KEYS, type Model, Shared } from "../connection/store";
import type { Brief, Scene, Source, Span, ThemeName } from "../protocol/source";
import { Stage } from "../stage/stage";
import { aria, h, mount } from "../ui/dom";
import { react } from "../ui/react";
import { detectTheme, markWidth, NARROW_PX, watchBoxes, watchTheme } from "../ui/host";
import { Popover } from "../ui/menu";
import { FullWindow, outermost } from "../ui/placing";
import { applyTheme } from "../ui/theme";
import { Tip } from "../ui/tooltip";
import { AccessGrid, type Spoken } from "./access_grid";
import { Commands } from "./commands";
import { Context, throttle } from "./context";
import { Gaps } from "./gaps";
import { Height, HeightEdge } from "./height";
import { Hover } from "./hover";
import { listenToKeys, PANEL_HELP } from "./keys";
import { Legend } from "./legend";
import { Card, ErrorStrip } from "./messages";
import { listenToWheel } from "./motion";
import { Navigation } from "./navigation";
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

export interface AppOptions {
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
  readonly ctx: Context;
  readonly nav: Navigation;
  readonly rows: Rows;
  readonly picking: Picking;
  readonly folding: Folding;
  readonly gaps: Gaps;
  readonly search: Search;
  readonly status: StatusLine;
  readonly panels: PanelControl;
  readonly help: Popover;
  readonly pin: Pin;
  readonly hover: Hover;
  readonly legend: Legend;
  readonly pointer: Pointer;
  readonly commands: Commands;
  /** Null in a panel of a dashboard: the dashboard fills the window. */
  readonly full: FullWindow | null;
  private readonly facts: ViewFacts;
  private readonly edge: Height;
  private readonly narrow = signal(false);
  private readonly spoken = signal<Spoken>({ rows: [], selected: null, pinned: [] });

  constructor(host: HTMLElement, options: AppOptions) {
    const { signal: ended, scene, part } = options;
    const isPart = part !== undefined;
    const root = h("div", {
      class: isPart ? "hta-root hta-part" : "hta-root",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "trace timeline",
      "data-lm-suppress-shortcuts": "true",
    });
    host.append(root);
    const theme = part?.theme ?? detectTheme(root);
    applyTheme(root, theme);

    const source = new ObservedSource(options.source);
    const shared = new Shared(ended);
    shared.attach(options.state);
    const stage = new Stage(scene, source, theme);
    const ctx = new Context(scene, root, stage, source, shared, ended, isPart);
    this.ctx = ctx;
    this.edge = new Height(stage, (height) => options.keepHeight?.(height));
    this.full = isPart ? null : new FullWindow(root);
    const help = (): VNode => (
      <Help more={isPart ? [PANEL_HELP] : []} close={() => void this.help.close()} />
    );
    this.help = new Popover(() => outermost(root), "Keys and gestures", help, ended);
    this.nav = new Navigation(ctx);
    this.rows = new Rows(ctx);
    this.picking = new Picking(this);
    this.folding = new Folding(this, options);
    this.gaps = new Gaps(this);
    this.search = new Search(this);
    this.status = new StatusLine(this, options);
    this.panels = new PanelControl(this);
    this.pin = new Pin(this);
    this.hover = new Hover(this);
    this.legend = new Legend(ctx);
    this.pointer = new Pointer(this);
    this.commands = new Commands(this);
    this.facts = new ViewFacts(this);
    this.edge.most = options.height;
    this.draw(part);

    this.listen();
    this.show(new Set<Key>(KEYS), false);
    this.setWidth(root.clientWidth);
    this.facts.renew();
    if (!isPart) watchTheme(root, ended, (name) => this.setTheme(name));
    ended.addEventListener("abort", () => this.close(), { once: true });
  }

  private draw(part: Part | undefined): void {
    const { ctx, edge, narrow, facts, panels, pin, hover, spoken } = this;
    const { root, stage, signal: ended } = ctx;
    const title = part && (part.title ?? "Timeline");
    const line = <Status line={this.status} />;
    const view = (
      <>
        <TimelineToolbar app={this} title={title} narrow={narrow} />
        <ErrorStrip shown={ctx.failure} />
        <div class="hta-stage-frame" ref={(frame) => frame?.prepend(stage.el)}>
          <HeightEdge height={edge} />
          <PinButton pin={pin} />
          <Card shown={facts.card} />
          <Tip tooltip={hover.tip} />
        </div>
        <panels.Dock />
        <AccessGrid ctx={ctx} shown={spoken} />
        {part === undefined && line}
      </>
    );
    mount(view, root, ended);
    const frame = stage.el.parentElement!;
    react(edge.own, (height) => (frame.style.height = `${height}px`), ended);
    if (part !== undefined) mount(line, part.status, ended);
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
    this.rows.renew();
    this.folding.renew();
    this.picking.renew();
    this.search.follow();
    this.nav.showState();
    this.facts.renew();
  }

  /** Called with the window in view, also while it moves. */
  onView(listener: (view: Span) => void): void {
    this.ctx.stage.onView(listener);
    listener(this.ctx.stage.view());
  }

  /** Outline an event as if the pointer were on it, on its rank's first rows or on its own lane. */
  outline(event: Brief | null, inSummary = false): void {
    const { ctx, rows } = this;
    if (event === null) {
      ctx.stage.setOverlay({ hover: null });
      return;
    }
    const { rank, lane, start, dur } = event;
    const folded = inSummary || !rows.isOpen(rank) ? ctx.foldedLane(lane) : null;
    ctx.stage.setOverlay({ hover: { lane: folded ?? lane, start, dur } });
  }

  /** Height of the drawing; toolbar, status line and panels come on top. Rows may need less. */
  get height(): number {
    return this.edge.own.value;
  }

  set height(height: number) {
    this.edge.most = height;
  }

  setTheme(name: ThemeName): void {
    applyTheme(this.ctx.root, name);
    this.ctx.stage.setTheme(name);
  }

  /** Show an error in the widget. */
  fail(title: string, error: unknown): void {
    this.ctx.fail(title, error);
  }

  private listen(): void {
    const { ctx, rows, picking, search, status } = this;
    const { root, shared, source, stage, signal: ended } = ctx;
    shared.onChange((keys) => this.show(keys, true));
    source.onFailure((op, error) => {
      if (DRAWING_OPS.has(op)) ctx.fail("The timeline is not complete", error);
    });
    const speak = throttle(SPOKEN_MS, ended, () => {
      const { pinned } = shared.state;
      this.spoken.value = { rows: rows.now.value, selected: picking.brief, pinned };
    });
    react(() => [rows.now.value, picking.brief], speak, ended);
    react(rows.now, () => this.edge.fit(), ended);
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
    listenToWheel(this);
    listenToKeys(this);
    watchBoxes([root], () => this.setWidth(root.clientWidth), ended);
  }

  /** Show the shared state. */
  private show(keys: ReadonlySet<Key>, animate: boolean): void {
    if (keys.has("view")) this.nav.follow(this.ctx.shared.state.view, animate);
    if (keys.has("search")) this.search.follow();
    if (keys.has("selected_event")) this.picking.follow();
  }

  /** In a dashboard, show only the ranks that another panel selected. */
  private showRanks(): void {
    const { isPart, scene, shared } = this.ctx;
    if (!isPart) return;
    const { selection, ranks_from: from } = shared.state;
    const ranks = from === "timeline" ? null : (selection?.ranks ?? null);
    const all = scene.ranks.length;
    this.rows.showOnly(ranks);
    this.status.ranks.value = [ranks?.length ?? all, all];
  }

  /** Set the width; 0 means hidden, and does not count. */
  private setWidth(width: number): void {
    if (width === 0) return;
    markWidth(this.ctx.root, width);
    this.narrow.value = width < NARROW_PX;
  }

  private close(): void {
    this.ctx.stage.destroy();
    this.ctx.root.remove();
  }
}
