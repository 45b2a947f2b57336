/** One panel's frame in the page, and the request of its data. */

import type { ChartSlot } from "../charts/chart";
import { heatmapBins, heatmapFrame } from "../charts/grid";
import { WITHIN_MS } from "../connection/answering";
import { METRICS, panelKind, withoutOwn } from "../facts/panels";
import {
  asError,
  type Chosen,
  isAbort,
  type PanelFrame,
  type Scene,
  type SelectionJson,
  type Source,
  type Span,
  type Requests,
} from "../protocol/source";
import { button, type Content, failure } from "../ui/controls";
import { type Child, fill, h, toggle } from "../ui/dom";
import { Popover } from "../ui/menu";

interface PanelState {
  frame: PanelFrame | null;
  /** The frame is of an earlier selection; the new one is on its way. */
  isStale: boolean;
  error: Error | null;
}

interface Entry {
  key: string;
  frame: PanelFrame | null;
  shownKey: string;
  error: Error | null;
}

/** Frames of earlier selections, by panel: undo shows them at once. */
const KEPT = 12;

export class PanelData {
  private readonly entries = new Map<string, Entry>();
  private readonly kept = new Map<string, PanelFrame>();
  private wanted: { selection: SelectionJson; panels: readonly string[] } | null = null;
  private inFlight = false;
  private readonly aborter = new AbortController();

  constructor(
    private readonly source: Source,
    /** Something has changed for these panels. */
    private readonly changed: (panels: readonly string[]) => void,
    signal: AbortSignal,
  ) {
    signal.addEventListener("abort", () => this.aborter.abort(), { once: true });
  }

  get isWaiting(): boolean {
    return this.inFlight;
  }

  state(id: string): PanelState {
    const entry = this.entries.get(id);
    return {
      frame: entry?.frame ?? null,
      isStale: entry !== undefined && entry.error === null && entry.shownKey !== entry.key,
      error: entry?.error ?? null,
    };
  }

  /** These panels are in sight, and this is what they should be of. */
  want(panels: readonly string[], selection: SelectionJson): void {
    this.wanted = { selection, panels };
    const changed: string[] = [];
    for (const id of panels) {
      const key = keyOf(id, selection);
      const entry = this.entries.get(id) ?? { key: "", frame: null, shownKey: "", error: null };
      this.entries.set(id, entry);
      if (entry.key === key) continue;
      entry.key = key;
      entry.error = null;
      const known = this.kept.get(`${id} ${key}`);
      if (known !== undefined) this.put(id, key, known);
      changed.push(id);
    }
    if (changed.length > 0) this.changed(changed);
    this.ask();
  }

  /** Ask again for what has failed. */
  retry(): void {
    for (const entry of this.entries.values()) {
      if (entry.error !== null) entry.error = null;
    }
    this.ask();
  }

  /** The kernel is back, or another one: what failed may be known there. */
  forget(): void {
    this.kept.clear();
    for (const entry of this.entries.values()) entry.key = entry.shownKey = "";
    if (this.wanted !== null) this.want(this.wanted.panels, this.wanted.selection);
  }

  private ask(): void {
    if (this.inFlight || this.wanted === null || this.aborter.signal.aborted) return;
    const { selection, panels } = this.wanted;
    const open = panels.filter((id) => {
      const entry = this.entries.get(id);
      return entry !== undefined && entry.error === null && entry.shownKey !== entry.key;
    });
    if (open.length === 0) return;
    this.inFlight = true;
    const keys = open.map((id) => keyOf(id, selection));
    let told: readonly string[] = open;
    this.source
      // What is left is asked for next, of the selection that is wanted by then.
      .ask("panels", { panels: open, selection, within_ms: WITHIN_MS }, this.aborter.signal)
      .then(
        ({ reply }) => {
          const left = new Set(reply.left ?? []);
          told = open.filter((id) => !left.has(id));
          open.forEach((id, at) => {
            if (left.has(id)) return;
            const frame = reply.panels[id];
            const key = keys[at]!;
            if (frame === undefined) this.fail(id, key, new Error("No answer for this panel."));
            else this.put(id, key, frame);
          });
        },
        (error: unknown) => {
          if (isAbort(error)) return;
          open.forEach((id, at) => this.fail(id, keys[at]!, asError(error)));
        },
      )
      .finally(() => {
        this.inFlight = false;
        if (this.aborter.signal.aborted) return;
        this.changed(told);
        this.ask();
      });
  }

  /** Numbers of a selection that is no longer wanted are still newer than those shown. */
  private put(id: string, key: string, frame: PanelFrame): void {
    const entry = this.entries.get(id);
    if (entry !== undefined) {
      entry.frame = frame;
      entry.shownKey = key;
    }
    const name = `${id} ${key}`;
    this.kept.delete(name);
    this.kept.set(name, frame);
    const own = [...this.kept.keys()].filter((one) => one.startsWith(`${id} `));
    for (const old of own.slice(0, -KEPT)) this.kept.delete(old);
  }

  private fail(id: string, key: string, error: Error): void {
    const entry = this.entries.get(id);
    if (entry !== undefined && entry.key === key) entry.error = error;
  }
}

function keyOf(id: string, selection: SelectionJson): string {
  return JSON.stringify(withoutOwn(id, selection));
}

// The heatmap below the timeline: the same window, one measure, chosen beside its title.

interface HeatmapWays {
  source: Source;
  signal: AbortSignal;
  /** What figures are of. */
  selection(): SelectionJson;
  view(): Span;
  chosen(): Chosen;
  isSeen(): boolean;
  metric(): string;
  setMetric(metric: string): void;
  /** Do the files hold work of devices? */
  hasDevices(): boolean;
}

export class HeatmapView implements Content {
  readonly el: HTMLElement;
  private readonly choice: HTMLSelectElement;
  private state: PanelState = { frame: null, isStale: false, error: null };
  private shownKey = "";
  private wantedKey = "";
  private inFlight = false;

  constructor(
    private readonly pane: Pane,
    private readonly slot: ChartSlot,
    private readonly ways: HeatmapWays,
  ) {
    this.choice = h(
      "select",
      {
        class: "hta-input hta-heat-metric",
        "aria-label": "What the heatmap shows",
        on: { change: () => ways.setMetric(this.choice.value) },
      },
      ...Object.entries(METRICS).map(([id, { label }]) => h("option", { value: id }, label)),
    );
    this.el = h("div", { class: "hta-heat" }, this.choice, slot.el);
    this.followMetric();
  }

  get hasTitle(): boolean {
    return this.slot.hasTitle;
  }

  get frame(): PanelFrame | null {
    return this.state.frame;
  }

  show(frame: PanelFrame, chosen: Chosen): void {
    this.slot.show(frame, chosen);
  }

  followMetric(): void {
    this.choice.value = this.ways.metric();
  }

  /** What is chosen has changed, or the theme. */
  mark(): void {
    this.pane.show(this.state, this.ways.chosen());
  }

  retry(): void {
    if (this.state.error === null) return;
    this.state = { ...this.state, error: null };
    this.wantedKey = "";
    this.refresh();
  }

  /** Ask for the window in view, unless its numbers are here. */
  refresh(): void {
    const { ways } = this;
    const width = this.pane.el.clientWidth;
    if (width === 0 || !ways.isSeen() || ways.signal.aborted) return;
    const [start, end] = ways.view();
    const request = {
      metric: ways.metric(),
      start: Math.floor(start),
      end: Math.max(Math.ceil(end), Math.floor(start) + 1),
      bins: Math.min(heatmapBins(width), Math.max(1, Math.ceil(end - start))),
      selection: withoutOwn("heatmap", ways.selection()),
    };
    const key = JSON.stringify(request);
    if (key === this.wantedKey) return;
    this.wantedKey = key;
    this.set({ isStale: key !== this.shownKey });
    if (!this.inFlight) this.ask(request, key);
  }

  private ask(request: Requests["heatmap"], key: string): void {
    const { source, signal } = this.ways;
    this.inFlight = true;
    source
      .ask("heatmap", request, signal)
      .then(
        ({ reply, buffer }) => {
          const values = new Float64Array(buffer ?? new ArrayBuffer(0));
          this.shownKey = key;
          const frame = heatmapFrame(reply, values, request.metric);
          // Rows of nothing say less than the sentence why.
          const isVain = !this.ways.hasDevices() && values.every((value) => value === 0);
          this.set({ frame: isVain ? { ...frame, rows: 0 } : frame, error: null });
        },
        (error: unknown) => {
          if (!isAbort(error)) this.set({ error: asError(error) });
        },
      )
      .finally(() => {
        this.inFlight = false;
        if (signal.aborted) return;
        this.set({ isStale: this.shownKey !== this.wantedKey && this.state.error === null });
        if (key !== this.wantedKey) {
          this.wantedKey = "";
          this.refresh();
        }
      });
  }

  private set(patch: Partial<PanelState>): void {
    this.state = { ...this.state, ...patch };
    this.mark();
  }
}

// The frame around a panel: what it says while numbers are missing, late or failed, and its menu.

export interface MenuItem {
  text: string;
  press(): void;
}

interface PaneWays {
  root: HTMLElement;
  signal: AbortSignal;
  retry(): void;
  menu(id: string): MenuItem[];
  /** The headline, which names the ranks to mark. */
  headline(): HeadlineFacts | null;
  scene(): Scene;
}

export class Pane {
  readonly el: HTMLElement;
  readonly id: string;
  private readonly head: HTMLElement;
  private readonly body: HTMLElement;
  private readonly said: HTMLElement;
  private content: Content | null = null;

  constructor(id: string, ways: PaneWays) {
    const kind = panelKind(id);
    this.id = id;
    this.head = h("header", { class: "hta-pane-head" }, h("h3", {}, kind.title));
    this.body = h("div", { class: "hta-pane-body" });
    this.said = h("div", { class: "hta-pane-said", hidden: true });
    const more = button({
      icon: "more",
      name: `${kind.title}: save, copy, hide`,
      class: "hta-pane-more",
      press: () => this.openMenu(more, ways),
    });
    this.el = h(
      "section",
      { class: `hta-pane hta-pane-${kind.look}`, "data-panel": id, "aria-label": kind.title },
      this.head,
      this.said,
      this.body,
      more,
    );
    this.retry = () => ways.retry();
    this.headline = () => ways.headline();
    this.scene = () => ways.scene();
  }

  private readonly retry: () => void;
  private readonly headline: () => HeadlineFacts | null;
  private readonly scene: () => Scene;
  private marked: { of: PanelFrame; by: HeadlineFacts | null; frame: PanelFrame } | null = null;
  private menu: Popover | null = null;

  /** Put a line under the title, or controls beside it. */
  setHead(...children: Child[]): void {
    fill(this.head, ...children);
  }

  setContent(content: Content): void {
    this.content = content;
    this.body.replaceChildren(content.el);
  }

  get hasContent(): boolean {
    return this.content !== null;
  }

  /** Keep this much room until there is something to show. */
  reserve(height: number | null): void {
    this.el.style.minHeight = height === null ? "" : `${height}px`;
  }

  /** Show numbers, or say why there are none. */
  show({ frame, isStale, error }: PanelState, chosen: Chosen): void {
    toggle(this.el, "hta-stale", isStale && frame !== null);
    this.el.setAttribute("aria-busy", String(isStale));
    const isDrawn = frame !== null && (frame.rows === 0 || this.content?.hasTitle === true);
    if (isDrawn || error !== null) this.reserve(null);
    if (error !== null) {
      this.say(failure("These numbers cannot be shown", error, this.retry));
      return;
    }
    if (frame === null) {
      this.say(h("p", { class: "hta-note" }, "Adding up…"));
      return;
    }
    const note = frame.attrs.note;
    if (frame.rows === 0) {
      this.say(h("p", {}, typeof note === "string" ? sentence(note) : "Nothing here is selected."));
      return;
    }
    this.say(null);
    this.content?.show(this.withMarks(frame), chosen);
  }

  /** Add the ranks to mark, and kinds that the job has none of; the same object while unchanged. */
  private withMarks(of: PanelFrame): PanelFrame {
    const by = this.headline();
    if (this.marked?.of !== of || this.marked.by !== by) {
      const { late_ranks = [], fact_ranks = [] } = by ?? {};
      const roles = this.scene().ranks.flatMap(({ summary }) => summary.map(({ role }) => role));
      const absent_kinds = roles.includes("comm") ? [] : ["communication"];
      const attrs = { ...of.attrs, late_ranks, fact_ranks, absent_kinds };
      this.marked = { of, by, frame: { ...of, attrs } };
    }
    return this.marked.frame;
  }

  /** In place of the numbers; null shows them. */
  private say(node: HTMLElement | null): void {
    this.said.hidden = node === null;
    this.body.hidden = node !== null;
    this.head.hidden = node === null && this.content?.hasTitle === true;
    fill(this.said, node);
  }

  private openMenu(anchor: HTMLElement, ways: PaneWays): void {
    if (this.menu?.isOpen === true) {
      this.menu.close();
      return;
    }
    const items = ways.menu(this.id).map(({ text, press }) =>
      h(
        "button",
        {
          type: "button",
          class: "hta-menu-item",
          on: {
            click: () => {
              this.menu?.close();
              press();
            },
          },
        },
        text,
      ),
    );
    const list = h("div", { class: "hta-dash-menu" }, ...items);
    this.menu = new Popover(ways.root, anchor, panelKind(this.id).title, list, ways.signal);
    this.menu.open();
  }
}

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

/** A piece of a sentence: text, or a rank that can be chosen; `fact`: others do not wait for it. */
export type HeadPiece = string | { rank: number; text?: string; fact?: boolean };

export interface HeadlineFacts {
  headline: HeadPiece[];
  more: HeadPiece[][];
  /** The ranks that the others wait for. */
  late_ranks?: number[];
  /** The ranks of pieces with `fact`. */
  fact_ranks?: number[];
  /** What each finding selects, what matters most first. */
  findings?: { label: string; text: string; selection: SelectionJson }[];
}
