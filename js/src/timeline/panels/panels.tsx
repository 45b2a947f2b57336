/** Open and fill the panels of a timeline. */

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Totals } from "../../protocol/source";
import { copyAndReport } from "../../ui/controls";
import { activeElement } from "../../ui/dom";
import { onSignal } from "../../ui/react";
import { formatCount, plural } from "../../ui/formats";
import { Popover } from "../../ui/menu";
import { watchBoxes } from "../../ui/host";
import { outermostElement, visibleRect } from "../../ui/placing";
import type { RichText } from "../../ui/text";
import { debounce, LatestRequest, throttle } from "../context";
import { eventText, selectionText, spanText } from "../text";
import type { TimelineApp } from "../view";
import { EventPanel } from "./event";
import { ExportForm, ExportPanel } from "./export";
import { GapPanel } from "./gap";
import { ProblemsPanel } from "./problems";
import { AreaPanel, AreaTables } from "./selection";

/** Delay of requests for totals: a drag of an edge sends one, a series of clicks few. */
const TOTALS_MS = 60;
const ANNOUNCE_DELAY_MS = 100;

const PANELS = {
  event: { name: "Selected event", Panel: EventPanel },
  area: { name: "Selection", Panel: AreaPanel },
  gap: { name: "Idle time", Panel: GapPanel },
};

type PanelId = keyof typeof PANELS;

const UNKNOWN_TOTALS: { totals: Totals | null; error: Error | null } = {
  totals: null,
  error: null,
};

export class PanelControl {
  /** The panel below the lanes; null if there is none. */
  readonly shown = signal<PanelId | null>(null);
  readonly totalsSignal = signal(UNKNOWN_TOTALS);
  readonly tables = new AreaTables();
  private readonly form = new ExportForm(this);
  private readonly exportSheet: Popover;
  private readonly problemSheet: Popover;
  private readonly newest: LatestRequest;

  constructor(
    readonly app: Pick<
      TimelineApp,
      "ctx" | "nav" | "picking" | "gapSelection" | "search" | "status"
    >,
  ) {
    const { ctx, nav } = app;
    this.newest = new LatestRequest(ctx.signal);
    const sheet = (name: string, content: () => VNode): Popover =>
      new Popover(() => outermostElement(ctx.root), name, content, ctx.signal);
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
    const shown = new Set(stage.rows().flatMap(({ rank, memberRanks }) => memberRanks ?? [rank]));
    const all = plural(scene.ranks.length, "rank");
    const ranks = shown.size < scene.ranks.length ? `${formatCount(shown.size)} of ${all}` : all;
    const summary = `${ranks}, ${spanText(stage.view())}`;
    return stage.toSvg({ title: scene.title, summary, headline });
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
    return this.app.picking.window !== null && !this.app.ctx.isLinkedPanel;
  }

  /** Open and close panels, and describe their content, when the selection changes. */
  private follow(): void {
    const { shown } = this;
    const { ctx, picking, gapSelection, status } = this.app;
    const { signal: abortSignal } = ctx;
    const show = (id: PanelId, isThere: boolean): void => {
      if (isThere) this.show(id);
      else if (shown.value === id) {
        shown.value = picking.active ? "event" : this.hasArea ? "area" : null;
      }
    };
    onSignal(picking.key, (key) => show("event", key !== ""), abortSignal);
    onSignal(
      () => this.eventText(),
      (text) => status.setMessage("event", text),
      abortSignal,
    );
    const announceLater = throttle(ANNOUNCE_DELAY_MS, abortSignal, () =>
      status.setMessage("event", this.eventText()),
    );
    ctx.stage.onView(() => picking.active && announceLater());
    onSignal(gapSelection.gap, (gap) => show("gap", gap !== null), abortSignal);
    if (ctx.isLinkedPanel) return;
    const requestLater = debounce(TOTALS_MS, abortSignal, () => this.askTotals());
    onSignal(
      () => [picking.selectionSignal.value, ctx.scene],
      () => {
        this.newest.cancel();
        this.totalsSignal.value = UNKNOWN_TOTALS;
        if (picking.window !== null) requestLater();
      },
      abortSignal,
    );
    onSignal(picking.selectionSignal, (window) => show("area", window !== null), abortSignal);
    onSignal(
      () => {
        const { value: window } = picking.selectionSignal;
        return window && selectionText(window, ctx.scene, this.totalsSignal.value.totals);
      },
      (text) => status.setMessage("area", text),
      abortSignal,
    );
  }

  private eventText(): RichText | null {
    const { ctx, nav, picking } = this.app;
    const { brief, collective } = picking.stateSignal.value;
    if (brief === null) return null;
    const place = ctx.lanes.locate(brief.lane);
    const placeText = place?.track?.label ?? place?.summary?.label ?? null;
    return eventText(brief, placeText, nav.view(), collective);
  }

  askTotals(): void {
    const { ctx, picking } = this.app;
    const selection = picking.window;
    if (selection === null) return;
    this.totalsSignal.value = UNKNOWN_TOTALS;
    this.newest.ask(
      (signal) => ctx.source.ask("totals", { selection }, signal),
      ({ reply: totals }) => (this.totalsSignal.value = { totals, error: null }),
      (error) => (this.totalsSignal.value = { totals: null, error }),
    );
  }

  readonly copy = (text: string, label: string): void => {
    const { ctx, status } = this.app;
    void copyAndReport(text, label, ctx.root).then((message) => {
      if (!ctx.signal.aborted) status.flashMessage([message], 1500);
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
    const hadFocus = drawn?.contains(activeElement(drawn)) === true;
    useLayoutEffect(() => {
      const el = place.current!;
      before.current = id;
      // If the focused element was removed, focus the root: keys must not reach the page.
      if (hadFocus && !el.contains(activeElement(el))) ctx.focus();
      if (id !== null) moveIntoView(el, picking.rowExtent);
    });
    useEffect(() => {
      const el = place.current!;
      const reveal = (): void => {
        if (shown.value !== null) moveIntoView(el, picking.rowExtent);
      };
      const { signal: abortSignal } = ctx;
      document.addEventListener("scroll", reveal, {
        capture: true,
        passive: true,
        signal: abortSignal,
      });
      window.addEventListener("resize", reveal, { signal: abortSignal });
      // The height of the lanes also changes, and content above the timeline grows. Moving the panel
      // can change that height again, which an observer of sizes must not do at once.
      watchBoxes([el.parentElement!], () => requestAnimationFrame(reveal), abortSignal);
      const observer = new IntersectionObserver(reveal, {
        threshold: [0, 0.25, 0.5, 0.75, 0.98, 1],
      });
      observer.observe(el);
      return () => observer.disconnect();
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

/**
 * Move a panel into the visible part of the timeline, without covering the row that it is about:
 * above the row if there is room, else as far as the row allows.
 */
function moveIntoView(el: HTMLElement, row: { top: number; bottom: number } | null): void {
  const root = el.parentElement;
  if (root === null) return;
  const visibleBox = visibleRect(root);
  const availablePx = row === null ? Infinity : visibleBox.bottom - row.bottom - EVENT_GAP_PX;
  el.style.setProperty("--hta-panel-available", `${Math.min(availablePx, window.innerHeight)}px`);
  const box = el.getBoundingClientRect();
  const before = Number(el.dataset.shift ?? 0);
  const [top, bottom] = [box.top + before, box.bottom + before];
  const maxScroll = top - root.getBoundingClientRect().top;
  let shift = Math.min(Math.max(bottom - visibleBox.bottom, 0), maxScroll);
  if (shift > 0 && row !== null && row.bottom > top - shift) {
    const above = bottom - (row.top - EVENT_GAP_PX);
    if (top - above >= visibleBox.top) shift = Math.max(above, shift);
    else shift = Math.max(top - row.bottom - EVENT_GAP_PX, 0);
  }
  el.classList.toggle("hta-over", shift > 0);
  if (shift === before) return;
  el.dataset.shift = String(shift);
  el.style.transform = shift === 0 ? "" : `translateY(${-shift}px)`;
}
