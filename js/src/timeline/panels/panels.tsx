/** Open and fill the panels of a timeline. */

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Totals } from "../../protocol/source";
import { copyWords } from "../../ui/controls";
import { focused } from "../../ui/dom";
import { react } from "../../ui/react";
import { formatCount, plural } from "../../ui/formats";
import { Popover } from "../../ui/menu";
import { outermost, visibleBox } from "../../ui/placing";
import type { Words } from "../../ui/text";
import { debounce, Newest, throttle } from "../context";
import { eventWords, selectionWords, spanText } from "../text";
import type { TimelineApp } from "../view";
import { EventPanel } from "./event";
import { ExportForm, ExportPanel } from "./export";
import { GapPanel } from "./gap";
import { ProblemsPanel } from "./problems";
import { AreaPanel, AreaTables } from "./selection";

/** Delay of requests for totals: a drag of an edge sends one, a series of clicks few. */
const TOTALS_MS = 60;
const SAY_MS = 100;

const PANELS = {
  event: { name: "Selected event", Panel: EventPanel },
  area: { name: "Selection", Panel: AreaPanel },
  gap: { name: "Idle time", Panel: GapPanel },
};

type PanelId = keyof typeof PANELS;

const UNKNOWN: { totals: Totals | null; error: Error | null } = { totals: null, error: null };

export class PanelControl {
  /** The panel below the lanes; null if there is none. */
  readonly shown = signal<PanelId | null>(null);
  readonly sums = signal(UNKNOWN);
  readonly tables = new AreaTables();
  private readonly form = new ExportForm(this);
  private readonly exportSheet: Popover;
  private readonly problemSheet: Popover;
  private readonly newest: Newest;

  constructor(
    readonly app: Pick<TimelineApp, "ctx" | "nav" | "picking" | "gaps" | "search" | "status">,
  ) {
    const { ctx, nav } = app;
    this.newest = new Newest(ctx.signal);
    const sheet = (name: string, content: () => VNode): Popover =>
      new Popover(() => outermost(ctx.root), name, content, ctx.signal);
    this.problemSheet = sheet("Problems", () => (
      <ProblemsPanel scene={ctx.scene} close={() => void this.problemSheet.close()} />
    ));
    this.exportSheet = sheet("Export", () => (
      <ExportPanel
        form={this.form}
        of={{ scene: ctx.scene, selection: ctx.shared.state.selection, view: nav.view() }}
        close={() => void this.exportSheet.close()}
      />
    ));
    this.follow();
  }

  show(id: PanelId): void {
    this.shown.value = id;
  }

  openExport(anchor: HTMLElement = this.app.ctx.button("export")): void {
    this.form.open(this.app.ctx.shared.state.selection);
    this.exportSheet.open(anchor);
  }

  /** The view as a picture, with a sentence above it. */
  svg(headline = ""): Promise<string> {
    const { stage, scene } = this.app.ctx;
    const shown = new Set(stage.rows().flatMap(({ rank, like }) => like ?? [rank]));
    const all = plural(scene.ranks.length, "rank");
    const ranks = shown.size < scene.ranks.length ? `${formatCount(shown.size)} of ${all}` : all;
    const words = `${ranks}, ${spanText(stage.view())}`;
    return stage.toSvg({ title: scene.title, words, headline });
  }

  openProblems(anchor: HTMLElement): void {
    this.problemSheet.toggle(anchor);
  }

  /** False if nothing was open. */
  close(): boolean {
    const isOpen = this.shown.value !== null;
    this.shown.value = null;
    return isOpen;
  }

  /** In a dashboard, other panels show the selection and its totals. */
  get hasArea(): boolean {
    return this.app.picking.window !== null && !this.app.ctx.isPart;
  }

  /** Open and close panels, and describe their content, when the selection changes. */
  private follow(): void {
    const { shown } = this;
    const { ctx, picking, gaps, status } = this.app;
    const { signal: ended } = ctx;
    const show = (id: PanelId, isThere: boolean): void => {
      if (isThere) this.show(id);
      else if (shown.value === id) {
        shown.value = picking.active ? "event" : this.hasArea ? "area" : null;
      }
    };
    react(picking.key, (key) => show("event", key !== ""), ended);
    react(
      () => this.eventWords(),
      (words) => status.say("event", words),
      ended,
    );
    const sayLater = throttle(SAY_MS, ended, () => status.say("event", this.eventWords()));
    ctx.stage.onView(() => picking.active && sayLater());
    react(gaps.gap, (gap) => show("gap", gap !== null), ended);
    if (ctx.isPart) return;
    const askLater = debounce(TOTALS_MS, ended, () => this.askTotals());
    react(
      () => [picking.chosen.value, ctx.scene],
      () => {
        this.newest.cancel();
        this.sums.value = UNKNOWN;
        if (picking.window !== null) askLater();
      },
      ended,
    );
    react(picking.chosen, (window) => show("area", window !== null), ended);
    react(
      () => {
        const { value: window } = picking.chosen;
        return window && selectionWords(window, ctx.scene, this.sums.value.totals);
      },
      (words) => status.say("area", words),
      ended,
    );
  }

  private eventWords(): Words | null {
    const { ctx, nav, picking } = this.app;
    const { brief, collective } = picking.now.value;
    if (brief === null) return null;
    const place = ctx.lanes.at(brief.lane);
    const where = place?.track?.label ?? place?.summary?.label ?? null;
    return eventWords(brief, where, nav.view(), collective);
  }

  askTotals(): void {
    const { ctx, picking } = this.app;
    const selection = picking.window;
    if (selection === null) return;
    this.sums.value = UNKNOWN;
    this.newest.ask(
      (signal) => ctx.source.ask("totals", { selection }, signal),
      ({ reply: totals }) => (this.sums.value = { totals, error: null }),
      (error) => (this.sums.value = { totals: null, error }),
    );
  }

  readonly copy = (text: string, what: string): void => {
    const { ctx, status } = this.app;
    void copyWords(text, what, ctx.root).then((words) => {
      if (!ctx.signal.aborted) status.flash([words], 1500);
    });
  };

  /**
   * The place of the panels below the lanes; it shows one at a time. If it is not visible, the
   * panel moves up over the lanes.
   */
  readonly Dock = (): VNode => {
    const { shown } = this;
    const { ctx, picking } = this.app;
    const id = shown.value;
    const place = useRef<HTMLElement>(null);
    const before = useRef<PanelId | null>(null);
    const isOpening = before.current === null && id !== null;
    const { current: drawn } = place;
    const had = drawn?.contains(focused(drawn)) === true;
    useLayoutEffect(() => {
      const el = place.current!;
      before.current = id;
      // If the focused element was removed, focus the root: keys must not reach the page.
      if (had && !el.contains(focused(el))) ctx.focus();
      if (id !== null) putInSight(el, picking.rowExtent);
    });
    useEffect(() => {
      const el = place.current!;
      const look = (): void => {
        if (shown.value !== null) putInSight(el, picking.rowExtent);
      };
      const { signal: ended } = ctx;
      document.addEventListener("scroll", look, { capture: true, passive: true, signal: ended });
      window.addEventListener("resize", look, { signal: ended });
      // The panel also moves when content above it grows.
      const cut = new IntersectionObserver(look, { threshold: [0, 0.25, 0.5, 0.75, 0.98, 1] });
      cut.observe(el);
      return () => cut.disconnect();
    }, []);
    const { name, Panel } = id === null ? { Panel: null } : PANELS[id];
    return (
      <section
        ref={place}
        class={`hta-dock${isOpening ? " hta-opening" : ""}`}
        hidden={id === null}
        aria-label={name}
        data-panel={id}
      >
        {Panel !== null && <Panel panels={this} />}
      </section>
    );
  };
}

const EVENT_GAP_PX = 6;

/** Move a panel into the visible part of the timeline, without covering the event's row. */
function putInSight(el: HTMLElement, row: { top: number; bottom: number } | null): void {
  const root = el.parentElement;
  if (root === null) return;
  const seen = visibleBox(root);
  const box = el.getBoundingClientRect();
  const before = Number(el.dataset.shift ?? 0);
  const [top, bottom] = [box.top + before, box.bottom + before];
  const most = top - root.getBoundingClientRect().top;
  let shift = Math.min(Math.max(bottom - seen.bottom, 0), most);
  if (shift > 0 && row !== null && row.bottom > top - shift) {
    const above = bottom - (row.top - EVENT_GAP_PX);
    if (above > shift && top - above >= seen.top) shift = above;
  }
  el.classList.toggle("hta-over", shift > 0);
  if (shift === before) return;
  el.dataset.shift = String(shift);
  el.style.transform = shift === 0 ? "" : `translateY(${-shift}px)`;
}
