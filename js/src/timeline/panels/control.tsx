/** The panel below a timeline's lanes, and the data of the timeline's panels. */

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import {
  BY_WORK,
  type NameSums,
  sortTotals,
  type Totals,
  type TotalsOrder,
} from "../../protocol/source";
import { copyAndReport } from "../../ui/controls";
import { onSignal } from "../../ui/react";
import { formatCount, plural } from "../../ui/formats";
import { Popover } from "../../ui/menu";
import { outermostElement } from "../../ui/placing";
import type { RichText } from "../../ui/text";
import { debounce, LatestRequest, throttle, type TimelineContext } from "../context";
import type { GapSelection } from "../gaps";
import type { Navigation } from "../navigation";
import type { SearchController } from "../search";
import type { EventSelection } from "../selected_event";
import type { StatusLine } from "../status";
import { eventText, selectionText, spanText } from "../text";
import { ExportForm, ExportPanel } from "./export";
import { ProblemsPanel } from "./problems";

/** Requests for totals are delayed, so that a drag or a series of clicks sends only a few. */
const TOTALS_MS = 60;
const ANNOUNCE_DELAY_MS = 100;

/** Details of an event, totals of a selection, or causes of a gap. */
export type PanelId = "event" | "area" | "gap";

const UNKNOWN_TOTALS: { totals: Totals | null; error: Error | null } = {
  totals: null,
  error: null,
};

/** Order and filter of the tables. They are kept when the selection changes. */
class AreaTables {
  readonly kinds = signal<TotalsOrder>({ column: BY_WORK, descending: true });
  readonly names = signal<TotalsOrder>({ column: BY_WORK, descending: true });
  readonly filter = signal("");

  /** Return the names that match the filter, in order. */
  matchingNames({ names }: Totals): NameSums[] {
    const filterText = this.filter.value.trim().toLowerCase();
    const matches = names.filter(({ name, short }) =>
      [name, short].some((text) => text.toLowerCase().includes(filterText)),
    );
    return sortTotals(matches, this.names.value, (row) => row.short);
  }
}

interface PanelParts {
  readonly ctx: TimelineContext;
  readonly nav: Navigation;
  readonly picking: EventSelection;
  readonly gapSelection: GapSelection;
  readonly search: SearchController;
  readonly status: StatusLine;
}

export class PanelControl {
  /** The panel below the lanes; null if there is none. */
  readonly shown = signal<PanelId | null>(null);
  readonly totalsSignal = signal(UNKNOWN_TOTALS);
  readonly tables = new AreaTables();
  private readonly form: ExportForm;
  private readonly exportSheet: Popover;
  private readonly problemSheet: Popover;
  private readonly newest: LatestRequest;

  constructor(readonly app: PanelParts) {
    const { ctx, nav } = app;
    this.form = new ExportForm({ ctx, copy: this.copy, svg: () => this.svg() });
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

  /** Return the view as an SVG picture with a sentence above it. */
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

  /** Close the panel (an event panel also its event). Return false if no panel was open. */
  close(): boolean {
    const id = this.shown.value;
    if (id === "event") this.app.picking.clearEvent();
    else this.shown.value = null;
    return id !== null;
  }

  /** Whether there are totals to show. In a dashboard, another panel shows the totals. */
  get hasArea(): boolean {
    return this.app.picking.window !== null && !this.app.ctx.isLinkedPanel;
  }

  /** Open, close and describe panels when the selection changes. */
  private follow(): void {
    const { shown } = this;
    const { ctx, picking, gapSelection, status } = this.app;
    const { signal: abortSignal } = ctx;
    const show = (id: PanelId, hasContent: boolean): void => {
      if (hasContent) this.show(id);
      else if (shown.value === id) {
        const area = this.hasArea ? "area" : null;
        shown.value = picking.active ? "event" : area;
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
    this.followTotals();
    onSignal(picking.selectionSignal, (window) => show("area", window !== null), abortSignal);
  }

  /** Request the totals of the selected window, and show them in the status line. */
  private followTotals(): void {
    const { ctx, picking, status } = this.app;
    const requestLater = debounce(TOTALS_MS, ctx.signal, () => this.askTotals());
    onSignal(
      () => [picking.selectionSignal.value, ctx.scene],
      () => {
        this.newest.cancel();
        this.totalsSignal.value = UNKNOWN_TOTALS;
        if (picking.window !== null) requestLater();
      },
      ctx.signal,
    );
    onSignal(
      () => {
        const { value: window } = picking.selectionSignal;
        return window && selectionText(window, ctx.scene, this.totalsSignal.value.totals);
      },
      (text) => status.setMessage("area", text),
      ctx.signal,
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
}
