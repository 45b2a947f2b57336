/** State shared by the parts of a timeline: context, events, errors, notes, accessibility. */

import type { ObservedSource } from "../connection/answering";
import type { Shared } from "../connection/store";
import type { LaneIndex } from "../protocol/scene";
import type { Brief, Overlay, RowInfo, Scene, Span, Stage } from "../protocol/source";
import { button, icon } from "../ui/controls";
import { aria, type Child, fill, h } from "../ui/dom";
import { formatDuration, formatTime, plural, rangesText } from "../ui/formats";

/** An event and its listeners. */
export class Emitter<T = void> {
  private readonly listeners: ((value: T) => void)[] = [];

  on(listener: (value: T) => void): void {
    this.listeners.push(listener);
  }

  emit(value: T): void {
    for (const listener of this.listeners) listener(value);
  }
}

export interface Context {
  /** The widget's own element: keys and popovers live inside it. */
  readonly root: HTMLElement;
  readonly stage: Stage;
  readonly source: ObservedSource;
  readonly shared: Shared;
  readonly signal: AbortSignal;
  /** Whether it is one of several linked panels: it hides ranks that others did not choose. */
  readonly isPart: boolean;
  /** Both replaced together when the widget gets another TraceSet. */
  scene: Scene;
  lanes: LaneIndex;
}

/** Whether the user prefers reduced motion. */
export function calm(): boolean {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Call at most once per `ms`, the last time included. */
export function throttle(ms: number, signal: AbortSignal, call: () => void): () => void {
  let timer = 0;
  let last = -Infinity;
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  return () => {
    if (timer || signal.aborted) return;
    const wait = Math.max(last + ms - performance.now(), 0);
    timer = window.setTimeout(() => {
      timer = 0;
      last = performance.now();
      call();
    }, wait);
  };
}

/** Call once, `ms` after the last request. `cancel` forgets it. */
export function debounce(
  ms: number,
  signal: AbortSignal,
  call: () => void,
): (() => void) & { cancel(): void } {
  let timer = 0;
  const cancel = (): void => {
    clearTimeout(timer);
    timer = 0;
  };
  signal.addEventListener("abort", cancel, { once: true });
  const later = (): void => {
    if (signal.aborted) return;
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      timer = 0;
      call();
    }, ms);
  };
  return Object.assign(later, { cancel });
}

// Messages over the lanes: nothing in this window, nothing matches, a failed request.

interface Way {
  text: string;
  key?: string;
  press: () => void;
}

/** A card in the middle of the lanes: a sentence and buttons. Lanes stay usable around it. */
export class Card {
  readonly el: HTMLElement;
  private shown = "";

  constructor() {
    this.el = h("div", { class: "hta-card", hidden: true, role: "status" });
  }

  show(id: string, title: string, text: string, ways: readonly Way[]): void {
    const key = `${id}\n${title}\n${text}`;
    if (key === this.shown) return;
    this.shown = key;
    const buttons = ways.map((way) =>
      button({
        text: way.text,
        press: way.press,
        ...(way.key === undefined ? {} : { key: way.key, showKey: true }),
      }),
    );
    fill(
      this.el,
      h("b", {}, title),
      h("p", {}, text),
      h("div", { class: "hta-field-row" }, ...buttons),
    );
    this.el.hidden = false;
  }

  hide(): void {
    this.shown = "";
    this.el.hidden = true;
  }
}

/** A strip under the toolbar for requests that failed: text here, not only in the console. */
export class ErrorStrip {
  readonly el: HTMLElement;

  constructor() {
    this.el = h("div", { class: "hta-error-strip", role: "alert", hidden: true });
  }

  show(title: string, text: string, ways: readonly Way[]): void {
    const buttons: Child[] = ways.map((way) => button({ text: way.text, press: way.press }));
    fill(
      this.el,
      icon("warn"),
      h("b", {}, title),
      h("span", { class: "hta-error-message", title: text }, text),
      ...buttons,
      button({ icon: "close", name: "Dismiss", press: () => this.hide() }),
    );
    this.el.hidden = false;
  }

  hide(): void {
    this.el.hidden = true;
  }
}

// The lanes for screen readers: an off-screen grid of the visible rows and the selected event.

const ROWS_SPOKEN = 60;
let grids = 0;

function whoOf({ rank, like, badge }: RowInfo): string {
  if (like === undefined) return `rank ${rank}${badge === "fold" ? ", like ranks unfolded" : ""}`;
  return `ranks ${rangesText(like)}, folded into rank ${rank}`;
}

export class AccessGrid {
  readonly el: HTMLElement;
  private readonly id = `hta-grid-${(grids += 1)}`;

  constructor(private readonly ctx: Context) {
    this.el = h("div", { class: "hta-hidden", role: "grid", "aria-label": "Ranks and tracks" });
  }

  /** Write the visible rows, with the selected event as a cell of its row. */
  print(selected: Brief | null, pinned: readonly string[]): void {
    const rows = this.ctx.stage.rows().slice(0, ROWS_SPOKEN);
    const at = selected === null ? -1 : this.rowOf(rows, selected);
    aria(this.el, "rowcount", this.ctx.stage.rows().length);
    fill(
      this.el,
      ...rows.map((row, index) => this.row(row, pinned, index === at ? selected : null)),
    );
    // Keys still act on an event whose row is folded away.
    if (selected !== null && at < 0) this.el.append(h("div", { role: "row" }, this.cell(selected)));
    aria(this.ctx.root, "activedescendant", selected === null ? null : `${this.id}-cell`);
  }

  private rowOf(rows: readonly RowInfo[], brief: Brief): number {
    const track = this.ctx.lanes.at(brief.lane)?.track?.key;
    const exact = rows.findIndex((row) => row.rank === brief.rank && row.track?.key === track);
    return exact >= 0 ? exact : rows.findIndex((row) => row.rank === brief.rank);
  }

  private row(row: RowInfo, pinned: readonly string[], selected: Brief | null): HTMLElement {
    const name =
      row.track === null
        ? `${whoOf(row)}, ${row.open ? "open" : "closed"}`
        : `rank ${row.rank}, ${row.track.label}, ${plural(row.track.events, "event")}`;
    const key = row.track === null ? String(row.rank) : `${row.rank}/${row.track.key}`;
    return h(
      "div",
      { role: "row" },
      h("span", { role: "rowheader" }, pinned.includes(key) ? `${name}, pinned` : name),
      selected !== null && this.cell(selected),
    );
  }

  private cell(brief: Brief): HTMLElement {
    const words = `${brief.short}, ${brief.kind}, ${formatDuration(brief.dur)}, starts at ${formatTime(brief.start)}`;
    return h("span", { role: "gridcell", id: `${this.id}-cell`, "aria-selected": "true" }, words);
  }
}

// Marks over the lanes, set with M; view bookmarks on the digits.

export type Note = Overlay["notes"][number];

/** The list after marking a time range: an unkept mark replaces the one before. */
export function marked(notes: readonly Note[], span: Span, kept: boolean): Note[] {
  const [start, end] = [Math.round(span[0]), Math.round(span[1])];
  const others = notes.filter(
    (note) => (kept || note.kept) && !(note.start === start && note.end === end),
  );
  return [...others, { start, end, kept }];
}

/** The list without the mark nearest to a time. */
export function unmarked(notes: readonly Note[], time: number): Note[] {
  let nearest = -1;
  let best = Infinity;
  notes.forEach((note, at) => {
    const distance = Math.max(note.start - time, time - note.end, 0);
    if (distance <= best) {
      best = distance;
      nearest = at;
    }
  });
  return notes.filter((_, at) => at !== nearest);
}

export class Bookmarks {
  private readonly views = new Map<number, Span>();

  set(digit: number, view: Span): void {
    this.views.set(digit, view);
  }

  get(digit: number): Span | null {
    return this.views.get(digit) ?? null;
  }
}

/** Width of the time axis in px. */
export function axisWidth(ctx: Context): number {
  const [start, end] = ctx.stage.view();
  return ctx.stage.xOf(end) - ctx.stage.xOf(start);
}
