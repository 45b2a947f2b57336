/** Open and fill the panels of a timeline. */

import { EVERYTHING } from "../../protocol/selection";
import { asError, isAbort, type Totals } from "../../protocol/source";
import { copyWords } from "../../ui/controls";
import { focused, h } from "../../ui/dom";
import { formatCount, plural } from "../../ui/formats";
import { Sheet } from "../../ui/menu";
import { outermost, visibleBox } from "../../ui/placing";
import { type Context, debounce, Emitter, throttle } from "../context";
import type { Navigation } from "../navigation";
import type { Search } from "../search";
import type { Picking } from "../selected_event";
import type { StatusLine } from "../status";
import { cutWords, eventWords, selectionWords, spanText } from "../text";
import type { Gaps } from "../gaps";
import { DetailsPanel } from "./event";
import { ExportPanel } from "./export";
import { GapPanel } from "./gap";
import { ProblemsPanel } from "./problems";
import { AreaPanel } from "./selection";

/** Delay by which a drag of an edge causes one request, and a sequence of clicks few. */
const TOTALS_MS = 60;
const SAY_MS = 100;

export class PanelControl {
  private readonly details: DetailsPanel;
  private readonly area: AreaPanel;
  private readonly gap: GapPanel;
  private readonly problems: ProblemsPanel;
  private readonly problemSheet: Sheet;
  private readonly exporting: ExportPanel;
  private readonly exportSheet: Sheet;
  private totals: Totals | null = null;
  private totalsError: Error | null = null;
  private totalsFor = "";
  private asked: AbortController | null = null;
  private readonly askLater: () => void;
  private eventKey = "";
  private areaKey = "null";

  constructor(
    private readonly ctx: Context,
    private readonly dock: Dock,
    private readonly nav: Navigation,
    private readonly picking: Picking,
    private readonly gaps: Gaps,
    search: Search,
    private readonly status: StatusLine,
    /** The button of forms that a key opens. */
    private readonly exportButton: () => HTMLElement,
  ) {
    const close = (): void => void dock.close();
    const copy = (text: string, what: string): void => void this.copy(text, what);
    const zoom = (): void => nav.toggleZoom(picking.target());
    this.details = new DetailsPanel({
      close,
      zoom,
      copy,
      go: (brief) => picking.go(brief),
      goTo: (rank, id) => picking.pick({ rank, table: "events", id }, null),
      selectName: () => picking.selectName(),
      selectIds: (rank, ids) => picking.selectIds(rank, ids),
      exportWindow: (anchor) => this.openExport(anchor),
      retry: () => picking.retry(),
      showArea: () => dock.show("area"),
    });
    this.area = new AreaPanel({
      close,
      zoom: () => nav.toggleZoom(picking.windowTarget() ?? picking.target()),
      clear: () => picking.clearAll(),
      exportSelection: (anchor) => this.openExport(anchor),
      search: (name) => search.set(name),
      retry: () => this.askTotals(),
      copy,
      showEvent: () => dock.show("event"),
    });
    this.gap = new GapPanel({
      close,
      zoom: () => nav.toggleZoom(picking.windowTarget()),
      go: (brief) => picking.go(brief),
      showArea: ctx.isPart ? null : () => dock.show("area"),
      trackOf: (lane) => ctx.lanes.at(lane)?.track?.label ?? "",
    });
    const sheet = ({ name, el }: Panel): Sheet =>
      new Sheet(() => outermost(ctx.root), name, el, ctx.signal);
    this.problems = new ProblemsPanel(() => this.problemSheet.close());
    this.problemSheet = sheet(this.problems);
    this.exporting = new ExportPanel(
      ctx.source,
      { close: () => this.exportSheet.close(), copy, svg: () => this.svg() },
      ctx.signal,
    );
    this.exportSheet = sheet(this.exporting);
    for (const panel of [this.details, this.area, this.gap]) dock.add(panel);
    this.askLater = debounce(TOTALS_MS, ctx.signal, () => this.askTotals());
    ctx.signal.addEventListener("abort", () => this.asked?.abort(), { once: true });
    picking.event.on(() => this.eventChanged());
    picking.selection.on(() => this.selectionChanged());
    gaps.changed.on(() => this.gapChanged());
    const say = throttle(SAY_MS, ctx.signal, () => this.sayEvent());
    nav.moved.on(() => picking.active && say());
  }

  openExport(anchor: HTMLElement = this.exportButton()): void {
    const { scene, shared } = this.ctx;
    this.exporting.show({ scene, selection: shared.state.selection, view: this.nav.view() });
    this.exportSheet.open(anchor);
    this.exporting.focus();
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
    this.problems.show(this.ctx.scene);
    this.problemSheet.toggle(anchor);
  }

  /** Reset the panels for a new scene. */
  renew(): void {
    this.totalsFor = "";
    this.problems.show(this.ctx.scene);
    this.selectionChanged();
  }

  private eventChanged(): void {
    const { picking, dock } = this;
    const { brief, detail, collective, error, active } = picking;
    const hasArea = picking.window !== null && !this.ctx.isPart;
    const cut = brief === null ? "" : cutWords(brief, this.ctx.scene);
    this.details.show({ brief, detail, collective, error, hasArea, place: this.place(), cut });
    this.sayEvent();
    const shared = this.ctx.shared.state.selected_event;
    const key = active
      ? `${brief?.rank ?? shared?.[0]}/${brief?.table ?? "events"}/${brief?.id ?? shared?.[1]}`
      : "";
    const other = key !== this.eventKey;
    this.eventKey = key;
    if (this.dock.current === "area") this.printArea();
    if (!other) return;
    if (active) dock.show("event");
    else if (dock.current === "event") this.fallBack(hasArea ? "area" : null);
  }

  private place(): string {
    const { brief } = this.picking;
    const track = brief === null ? null : (this.ctx.lanes.at(brief.lane)?.track ?? null);
    if (track === null) return "";
    return [track.process, track.label].filter((part) => part !== "").join(" · ");
  }

  private selectionChanged(): void {
    const { picking, dock } = this;
    // In a dashboard, other panels show the selection and its totals.
    if (this.ctx.isPart) return;
    const key = JSON.stringify(picking.window);
    const other = key !== this.areaKey;
    this.areaKey = key;
    if (picking.window === null) {
      this.asked?.abort();
      this.totals = null;
      this.totalsFor = "";
      this.status.say("area", null);
      if (dock.current === "area") this.fallBack(picking.active ? "event" : null);
    } else if (key !== this.totalsFor) {
      this.totals = null;
      this.totalsError = null;
      this.askLater();
    }
    this.sayArea();
    this.printArea();
    if (dock.current === "event") this.eventChanged();
    if (other && picking.window !== null) dock.show("area");
  }

  private gapChanged(): void {
    const { gap } = this.gaps;
    if (gap !== null) {
      this.gap.show(gap);
      this.dock.show("gap");
    } else if (this.dock.current === "gap") {
      const hasArea = this.picking.window !== null && !this.ctx.isPart;
      this.fallBack(this.picking.active ? "event" : hasArea ? "area" : null);
    }
  }

  private fallBack(to: "area" | "event" | null): void {
    if (to === null) this.dock.close();
    else this.dock.show(to);
  }

  private askTotals(): void {
    const selection = this.picking.window;
    if (selection === null) return;
    this.asked?.abort();
    const asked = new AbortController();
    this.asked = asked;
    const key = JSON.stringify(selection);
    this.totalsFor = key;
    this.totalsError = null;
    this.ctx.source
      .ask("totals", { selection: { ...EVERYTHING, ...selection } }, asked.signal)
      .then((reply) => {
        if (asked.signal.aborted) return;
        this.totals = reply.reply;
      })
      .catch((error: unknown) => {
        if (asked.signal.aborted || isAbort(error)) return;
        this.totalsError = asError(error);
      })
      .finally(() => {
        if (asked.signal.aborted) return;
        this.sayArea();
        this.printArea();
      });
  }

  private printArea(): void {
    this.area.show({
      selection: this.picking.window,
      scene: this.ctx.scene,
      totals: this.totals,
      error: this.totalsError,
      hasEvent: this.picking.active,
    });
  }

  private sayEvent(): void {
    const { brief } = this.picking;
    const place = brief === null ? null : this.ctx.lanes.at(brief.lane);
    const where = place?.track?.label ?? place?.summary?.label ?? null;
    const { collective } = this.picking;
    this.status.say(
      "event",
      brief === null ? null : eventWords(brief, where, this.nav.view(), collective),
    );
  }

  private sayArea(): void {
    const { window } = this.picking;
    if (window === null) return;
    const { totals } = this;
    this.status.say("area", selectionWords(window, this.ctx.scene, totals));
  }

  private async copy(text: string, what: string): Promise<void> {
    const words = await copyWords(text, what, this.ctx.root);
    if (!this.ctx.signal.aborted) this.status.flash(words, 1500);
  }
}

// The place below the lanes that panels are pushed into, one at a time. If it is not visible, the
// panel moves up over the lanes.

type PanelId = "event" | "area" | "gap";

interface Panel {
  readonly name: string;
  readonly el: HTMLElement;
}

interface DockedPanel extends Panel {
  readonly id: PanelId;
}

interface Extent {
  top: number;
  bottom: number;
}

const EVENT_GAP_PX = 6;

export class Dock {
  readonly el: HTMLElement;
  readonly changed = new Emitter();
  current: PanelId | null = null;
  private readonly panels = new Map<PanelId, DockedPanel>();
  private shift = 0;

  constructor(
    private readonly giveFocus: () => void,
    /** Top and bottom in the window of the row that must stay visible; null for none. */
    private readonly eventRow: () => Extent | null,
    signal: AbortSignal,
  ) {
    this.el = h("section", { class: "hta-dock", hidden: true });
    const place = (): void => this.place();
    document.addEventListener("scroll", place, { capture: true, passive: true, signal });
    window.addEventListener("resize", place, { signal });
    // Content above may grow, too.
    const cut = new IntersectionObserver(place, { threshold: [0, 0.25, 0.5, 0.75, 0.98, 1] });
    cut.observe(this.el);
    signal.addEventListener("abort", () => cut.disconnect(), { once: true });
  }

  add(panel: DockedPanel): void {
    this.panels.set(panel.id, panel);
  }

  show(id: PanelId): void {
    const panel = this.panels.get(id);
    if (panel === undefined) return;
    const opening = this.current === null;
    this.keepFocus(() => {
      this.current = id;
      this.el.hidden = false;
      this.el.setAttribute("aria-label", panel.name);
      this.el.dataset.panel = id;
      this.el.replaceChildren(panel.el);
    });
    this.el.classList.toggle("hta-opening", opening);
    this.place();
    this.changed.emit();
  }

  /** False if nothing was open. */
  close(): boolean {
    if (this.current === null) return false;
    this.keepFocus(() => {
      this.current = null;
      this.el.hidden = true;
      this.el.replaceChildren();
    });
    this.changed.emit();
    return true;
  }

  /** Bring the panel into the part of the timeline that can be seen, and off the event's row. */
  place(): void {
    const { el, current } = this;
    const root = el.parentElement;
    if (current === null || root === null) return;
    const seen = visibleBox(root);
    const box = el.getBoundingClientRect();
    const [top, bottom] = [box.top + this.shift, box.bottom + this.shift];
    const most = top - root.getBoundingClientRect().top;
    let shift = Math.min(Math.max(bottom - seen.bottom, 0), most);
    const row = this.eventRow();
    if (shift > 0 && row !== null && row.bottom > top - shift) {
      const above = bottom - (row.top - EVENT_GAP_PX);
      if (above > shift && top - above >= seen.top) shift = above;
    }
    if (shift === this.shift) return;
    this.shift = shift;
    el.style.transform = shift === 0 ? "" : `translateY(${-shift}px)`;
    el.classList.toggle("hta-over", shift > 0);
  }

  /** Keep the focus when a focused element is replaced; keys must not reach the page. */
  private keepFocus(change: () => void): void {
    const had = this.el.contains(focused(this.el));
    change();
    if (had && !this.el.contains(focused(this.el))) this.giveFocus();
  }
}
