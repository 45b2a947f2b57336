/** One view of a dashboard: creates its parts, lays them out, follows the selection. */

import { type Model, same } from "../connection/store";
import type { Scene, ThemeName } from "../protocol/source";
import { throttle } from "../timeline/context";
import { match } from "../timeline/keys";
import { kernelSays, progressWords } from "../timeline/status";
import { TimelineApp } from "../timeline/view";
import { h, isTextEntry, mount } from "../ui/dom";
import { TIGHT_PX, watchBoxes, watchTheme } from "../ui/host";
import { FullWindow } from "../ui/placing";
import { react } from "../ui/react";
import { applyTheme } from "../ui/theme";
import { Board, LEAST_PX } from "./board";
import { Context, type DashOptions } from "./context";
import { Headline } from "./headline";
import { leftOutWords } from "./layout";
import { Panes } from "./panels";
import { selectionWords } from "./selection";
import { DashToolbar } from "./toolbar";

/** Interval at which figures of the window in view are updated while the view moves. */
const VIEW_MS = 160;
const FIT_MS = 120;

export class DashApp {
  private readonly ctx: Context;
  private readonly panes: Panes;
  private readonly board: Board;
  private readonly full: FullWindow;
  private fetches = false;

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
    const ctx = new Context(root, options);
    this.ctx = ctx;
    applyTheme(root, ctx.theme.value);
    const place = h("div", { class: "hta-timeline-place" });
    const status = h("div", { class: "hta-dash-status" });
    status.hidden = !ctx.offered.includes("timeline");
    this.full = new FullWindow(root, () => this.arrange());
    this.panes = new Panes(ctx, place);
    this.board = new Board(ctx, this.panes, status);
    this.draw();
    ctx.timeline = new TimelineApp(place, {
      scene,
      state,
      source,
      height: LEAST_PX,
      signal: ctx.signal,
      folded: ctx.folded.value,
      keepFolded: (on) => ctx.keep("folded", on),
      keepHeight: (height) => ctx.keep("height", height),
      setClock: live === null ? undefined : (clock) => ctx.keep("clock", clock),
      part: {
        status,
        theme: ctx.theme.value,
        kernelSays: () => (live === null ? null : kernelSays(live.source)),
      },
    });
    this.listen();
    this.react();
    // After the first requests of the timeline and the panels.
    requestAnimationFrame(() => this.askLater());
  }

  /** Follow this shared state instead of the previous one. */
  attach(state: Model): void {
    this.ctx.choosing.attach(state);
    this.ctx.timeline.attach(state);
  }

  setScene(scene: Scene): void {
    const { ctx, panes } = this;
    // The data that the page has fetched is that of the previous job.
    if (this.fetches) ctx.live?.offline.start();
    ctx.timeline.setScene(scene);
    ctx.scene.value = scene;
    panes.forget();
    requestAnimationFrame(() => this.askLater());
  }

  /** Show an error in the widget. */
  fail(title: string, error: unknown): void {
    this.ctx.timeline.fail(title, error);
  }

  /** Put toolbar and headline above the board, and a text on omitted panels below it. */
  private draw(): void {
    const { ctx, full, board } = this;
    const above = h("div", { class: "hta-dash-above" });
    const below = h("div", {});
    ctx.root.append(above, board.el, below);
    const LeftOut = () => {
      const words = leftOutWords(ctx.about.left_out ?? {}, ctx.shown.value);
      return words === "" ? null : <p class="hta-dash-left-out">{words}</p>;
    };
    const parts = (
      <>
        <DashToolbar ctx={ctx} full={full} />
        <Headline ctx={ctx} />
      </>
    );
    mount(parts, above, ctx.signal);
    mount(<LeftOut />, below, ctx.signal);
  }

  private listen(): void {
    const { ctx, panes, board } = this;
    const { root, timeline, signal: ended } = ctx;
    react(
      timeline.folding.now,
      (now) => {
        // Charts are drawn again only if other ranks share rows.
        if (!same(now, ctx.folding.peek())) ctx.folding.value = now;
      },
      ended,
    );
    // A hidden timeline sends no requests, so prepare folding after the panels have their numbers.
    ctx.source.onReply((op) => {
      if (op === "panels" && !ctx.shown.peek().includes("timeline")) timeline.folding.ready();
    });
    const moved = throttle(VIEW_MS, ended, () => panes.refresh());
    timeline.onView((view) => {
      ctx.view = view;
      moved();
    });
    watchTheme(root, ended, (theme) => this.setTheme(theme));
    watchBoxes([root], () => this.arrange(), ended);
    const others = ctx.offered.filter((id) => id !== "timeline").map((id) => panes.pane(id));
    watchBoxes(
      others,
      throttle(FIT_MS, ended, () => board.fit()),
      ended,
    );
    watchBoxes(
      [panes.pane("timeline")],
      throttle(FIT_MS, ended, () => board.fillTables()),
      ended,
    );
    ended.addEventListener("abort", () => root.remove(), { once: true });
    listenToDashKeys(ctx, this.full);
  }

  /** Update the parts that are not components when signals change. */
  private react(): void {
    const { ctx, panes, board } = this;
    const { choosing, timeline, source, live, signal: ended } = ctx;
    // Requests that a busy kernel did not answer are repeated once it is free.
    react(
      () => [source.status, live?.source.holds],
      ([status]) => status === "live" && panes.retry(),
      ended,
    );
    react(ctx.choice, () => this.arrange(), ended);
    react(ctx.height, () => board.fit(true), ended);
    react(ctx.folded, (folded) => timeline.folding.set(folded === true, false), ended);
    react(
      () => [choosing.chosen.value, choosing.scope.value, ctx.metric.value],
      () => panes.refresh(),
      ended,
    );
    react(
      () => selectionWords(ctx),
      (words) => timeline.status.say("area", words),
      ended,
    );
  }

  private arrange(): void {
    const { ctx, board, full } = this;
    const width = ctx.root.clientWidth;
    if (width > 0) ctx.root.classList.toggle("hta-tight", width < TIGHT_PX);
    if (!board.arrange(width, full.isOn)) {
      if (full.isOn) board.fit(true);
      return;
    }
    board.fit(true);
    this.askLater();
    this.panes.refresh();
  }

  private setTheme(theme: ThemeName): void {
    const { ctx } = this;
    applyTheme(ctx.root, theme);
    ctx.timeline.setTheme(theme);
    ctx.theme.value = theme;
  }

  /** After the first frame: request the headline and the data for a page without a kernel. */
  private askLater(): void {
    const { source, headline, live, timeline, signal: ended } = this.ctx;
    if (ended.aborted) return;
    // The reply sets a trait, so that all views of the model receive it.
    if (headline.value === null) source.ask("headline", {}, ended).catch(() => undefined);
    if (live === null || this.fetches) return;
    this.fetches = true;
    const { aside } = timeline.status;
    react(live.offline.progress, (now) => (aside.value = progressWords(now)), ended);
    live.offline.start();
  }
}

/** Keys while the focus is in the dashboard but not in its timeline, which has keys of its own. */
function listenToDashKeys(ctx: Context, full: FullWindow): void {
  const { root, choosing, timeline, live, signal } = ctx;
  const act = (event: KeyboardEvent): boolean => {
    const command = match(event)?.command;
    if (command === "leave") {
      const ask = new Event("hta-escape", { cancelable: true });
      root.dispatchEvent(ask);
      if (ask.defaultPrevented) return true;
      if (choosing.isEmpty) return full.leave();
      choosing.select(null);
      return true;
    }
    if (command === "undo" && (event.ctrlKey || event.metaKey)) choosing.undo();
    else if (command === "redo") choosing.redo();
    else if (command === "help") timeline.help.toggle(ctx.button("help-button"));
    else if (command === "fold") timeline.commands.run("fold");
    else if (command === "full-window") full.toggle();
    else return false;
    return true;
  };
  // A page without a kernel has only the dashboard, which handles keys even without the focus.
  if (live === null) {
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
