/** Open and fill the panels of a timeline. */

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { EVERYTHING } from "../../protocol/selection";
import { asError, isAbort, type Totals } from "../../protocol/source";
import { copyWords } from "../../ui/controls";
import { focused } from "../../ui/dom";
import { react } from "../../ui/react";
import { formatCount, plural } from "../../ui/formats";
import { Popover } from "../../ui/menu";
import { outermost, visibleBox } from "../../ui/placing";
import type { Words } from "../../ui/text";
import { type Context, debounce, throttle } from "../context";
import type { Gaps } from "../gaps";
import type { Navigation } from "../navigation";
import type { Search } from "../search";
import type { Picking } from "../selected_event";
import type { StatusLine } from "../status";
import { cutWords, eventWords, selectionWords, spanText } from "../text";
import { EventPanel } from "./event";
import { ExportForm, ExportPanel } from "./export";
import { GapPanel } from "./gap";
import { ProblemsPanel } from "./problems";
import { AreaPanel, AreaTables } from "./selection";

/** Delay of requests for totals: a drag of an edge sends one, a series of clicks few. */
const TOTALS_MS = 60;
const SAY_MS = 100;

type PanelId = "event" | "area" | "gap";

const NAMES: Record<PanelId, string> = {
  event: "Selected event",
  area: "Selection",
  gap: "Idle time",
};

const UNKNOWN: { totals: Totals | null; error: Error | null } = { totals: null, error: null };

export class PanelControl {
  /** The panel below the lanes; null if there is none. */
  readonly shown = signal<PanelId | null>(null);
  private readonly sums = signal(UNKNOWN);
  private readonly tables = new AreaTables();
  private readonly form: ExportForm;
  private readonly exportSheet: Popover;
  private readonly problemSheet: Popover;
  private asked: AbortController | null = null;

  constructor(
    private readonly ctx: Context,
    private readonly nav: Navigation,
    private readonly picking: Picking,
    private readonly gaps: Gaps,
    private readonly search: Search,
    private readonly status: StatusLine,
    /** The button at which the export form opens if a key opens it. */
    private readonly exportButton: () => HTMLElement,
  ) {
    const { signal: ended, source } = ctx;
    this.form = new ExportForm(source, { copy: this.copy, svg: () => this.svg() }, ended);
    const sheet = (name: string, content: () => VNode): Popover =>
      new Popover(() => outermost(ctx.root), name, content, ended);
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
    ended.addEventListener("abort", () => this.asked?.abort(), { once: true });
    this.follow();
  }

  openExport(anchor: HTMLElement = this.exportButton()): void {
    this.form.open(this.ctx.shared.state.selection);
    this.exportSheet.open(anchor);
  }

  /** The view as a picture, with a sentence above it. */
  svg(headline = ""): Promise<string> {
    const { stage, scene } = this.ctx;
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
  private get hasArea(): boolean {
    return this.picking.window !== null && !this.ctx.isPart;
  }

  /** Open and close panels, and describe their content, when the selection changes. */
  private follow(): void {
    const { ctx, picking, gaps, status, nav, shown } = this;
    const { signal: ended } = ctx;
    const show = (id: PanelId, isThere: boolean): void => {
      if (isThere) shown.value = id;
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
    nav.moved.on(() => picking.active && sayLater());
    react(gaps.gap, (gap) => show("gap", gap !== null), ended);
    if (ctx.isPart) return;
    const askLater = debounce(TOTALS_MS, ended, () => this.askTotals());
    react(
      () => [picking.chosen.value, ctx.scene],
      () => {
        this.asked?.abort();
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
    const { brief, collective } = this.picking.now.value;
    if (brief === null) return null;
    const place = this.ctx.lanes.at(brief.lane);
    const where = place?.track?.label ?? place?.summary?.label ?? null;
    return eventWords(brief, where, this.nav.view(), collective);
  }

  private askTotals(): void {
    const selection = this.picking.window;
    if (selection === null) return;
    this.asked?.abort();
    const asked = new AbortController();
    this.asked = asked;
    this.sums.value = UNKNOWN;
    this.ctx.source
      .ask("totals", { selection: { ...EVERYTHING, ...selection } }, asked.signal)
      .then(({ reply }) => {
        if (!asked.signal.aborted) this.sums.value = { totals: reply, error: null };
      })
      .catch((error: unknown) => {
        if (asked.signal.aborted || isAbort(error)) return;
        this.sums.value = { totals: null, error: asError(error) };
      });
  }

  private readonly copy = (text: string, what: string): void => {
    const { root, signal: ended } = this.ctx;
    void copyWords(text, what, root).then((words) => {
      if (!ended.aborted) this.status.flash([words], 1500);
    });
  };

  private readonly panels: Record<PanelId, () => VNode | null> = {
    event: () => {
      const { ctx, picking, nav } = this;
      const { brief } = picking.now.value;
      const track = brief === null ? null : (ctx.lanes.at(brief.lane)?.track ?? null);
      return (
        <EventPanel
          picked={picking.now.value}
          place={[track?.process ?? "", track?.label ?? ""].filter(Boolean).join(" · ")}
          cut={brief === null ? "" : cutWords(brief, ctx.scene)}
          showArea={this.hasArea ? () => (this.shown.value = "area") : null}
          close={() => this.close()}
          go={(other) => picking.go(other)}
          goTo={(rank, id) => picking.pick({ rank, table: "events", id }, null)}
          zoom={() => nav.toggleZoom(picking.target())}
          selectName={() => picking.selectName()}
          selectIds={(rank, ids) => picking.selectIds(rank, ids)}
          exportWindow={(anchor) => this.openExport(anchor)}
          retry={() => picking.retry()}
          copy={this.copy}
        />
      );
    },
    area: () => {
      const { ctx, picking, nav } = this;
      const { value: selection } = picking.chosen;
      if (selection === null) return null;
      return (
        <AreaPanel
          {...this.sums.value}
          selection={selection}
          scene={ctx.scene}
          tables={this.tables}
          showEvent={picking.active ? () => (this.shown.value = "event") : null}
          close={() => this.close()}
          zoom={() => nav.toggleZoom(picking.windowTarget() ?? picking.target())}
          clear={() => picking.clearAll()}
          exportSelection={(anchor) => this.openExport(anchor)}
          search={(name) => this.search.search(name)}
          retry={() => this.askTotals()}
          copy={this.copy}
        />
      );
    },
    gap: () => {
      const { ctx, picking, nav, gaps } = this;
      const { value: gap } = gaps.gap;
      if (gap === null) return null;
      return (
        <GapPanel
          gap={gap}
          close={() => this.close()}
          zoom={() => nav.toggleZoom(picking.windowTarget())}
          go={(event) => picking.go(event)}
          showArea={ctx.isPart ? null : () => (this.shown.value = "area")}
          trackOf={(lane) => ctx.lanes.at(lane)?.track?.label ?? ""}
        />
      );
    },
  };

  /**
   * The place of the panels below the lanes; it shows one at a time. If it is not visible, the
   * panel moves up over the lanes.
   */
  readonly Dock = (): VNode => {
    const { ctx, picking, shown } = this;
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
      if (had && !el.contains(focused(el))) ctx.root.focus({ preventScroll: true });
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
    const Panel = id === null ? null : this.panels[id];
    return (
      <section
        ref={place}
        class={`hta-dock${isOpening ? " hta-opening" : ""}`}
        hidden={id === null}
        aria-label={id === null ? undefined : NAMES[id]}
        data-panel={id}
      >
        {Panel !== null && <Panel />}
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
