/** The heatmap below the timeline: the same window, one measure, chosen beside its title. */

import { asError, isAbort } from "../contract";
import { h } from "../app/dom";
import type { SelectionJson, Source, Span } from "../contract";
import { withoutOwn } from "./catalog";
import type { ChartSlot } from "./chart_slot";
import { heatmapBins, heatmapFrame } from "./charts/index";
import type { Content, Pane } from "./pane";
import type { PanelState } from "./panel_data";
import type { Chosen, PanelFrame } from "./types";

/** In the order of the list. */
export const METRICS: readonly (readonly [id: string, text: string])[] = [
  ["waiting", "waiting"],
  ["busy", "GPU busy"],
  ["compute", "compute"],
  ["communication", "communication"],
  ["exposed_communication", "exposed comm."],
  ["idle", "idle"],
];

export interface HeatmapWays {
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
      ...METRICS.map(([id, text]) => h("option", { value: id }, text)),
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

  private ask(request: Record<string, unknown>, key: string): void {
    const { source, signal } = this.ways;
    this.inFlight = true;
    source
      .ask("heatmap", request, signal)
      .then(
        ({ reply, buffer }) => {
          const values = new Float64Array(buffer ?? new ArrayBuffer(0));
          const metric = String(request.metric);
          const known = reply as unknown as Parameters<typeof heatmapFrame>[0];
          this.shownKey = key;
          const frame = heatmapFrame(known, values, metric);
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
