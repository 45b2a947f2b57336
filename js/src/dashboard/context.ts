/** State shared by the parts of a dashboard. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { ChartSlot, type MakeChart } from "../charts/chart";
import { type LiveSource, ObservedSource } from "../connection/answering";
import type { ViewAddress } from "../connection/address";
import { addressTrait, linkOf } from "../connection/link";
import { type Model, saveTrait, traitSignal } from "../connection/store";
import { findPanelKind, PANELS } from "../facts/panels";
import type { ColumnTables } from "../formats/shared";
import { withTables } from "../formats/source";
import { getOrMake } from "../protocol/maps";
import { deviceOf, fillDeviceWord, hasLateness } from "../protocol/scene";
import type {
  Brush,
  PanelFrame,
  Scene,
  SelectionJson,
  Source,
  Span,
  ThemeName,
} from "../protocol/source";
import { problemLines } from "../timeline/panels/problems";
import type { FoldingState } from "../timeline/folding";
import type { TimelineApp } from "../timeline/view";
import { copyAndReport } from "../ui/controls";
import { detectTheme } from "../ui/host";
import type { HeadlineFacts } from "./findings";
import { type PanelChoice, findIdlePanels, shownIds, choiceWithPanel } from "./layout";
import { PanelData, makePanelRequester } from "./panel_data";
import { DashSelection } from "./selection_state";

export interface DashOptions {
  scene: Scene;
  source: Source;
  /** The state shared by linked views. */
  state: Model;
  /** The dashboard's traits. */
  model: Model;
  signal: AbortSignal;
  makeChart: MakeChart;
  /** The kernel and the data fetched from it for use without it; null in saved pages. */
  live: LiveSource | null;
}

interface JobFacts {
  /** The panels for which the job's files have data. */
  panels?: string[];
  format?: string;
  /** Panels that would be empty, grouped by the kind of data missing from the files. */
  left_out?: Record<string, string[]>;
}

export class DashContext {
  readonly signal: AbortSignal;
  readonly live: LiveSource | null;
  /** The source through which the timeline and the panels send requests. */
  readonly source: ObservedSource;
  readonly scene: Signal<Scene>;
  readonly theme: Signal<ThemeName>;
  readonly selectionState: DashSelection;
  /** Data of all panels except the heatmap. */
  readonly data: PanelData<SelectionJson>;
  /** Totals of the selection, regardless of the scope that panels show. */
  readonly totals: PanelData<SelectionJson>;

  // The model's traits that linked views do not share.
  /** Whether similar ranks are folded; null if the user has not decided. */
  readonly folded: ReadonlySignal<boolean | null>;
  /** Height of the timeline; null to fit its contents. */
  readonly height: ReadonlySignal<number | null>;
  readonly metric: ReadonlySignal<string>;
  /** Whether ranks wait for each other. True until a heatmap of the whole job shows no waiting. */
  readonly hasWaits = signal(true);
  /** Whether the reply with the headline has not arrived yet. */
  readonly isHeadlinePending = signal(true);
  /** Contains the ranks to mark. Null until loaded. */
  readonly headline: ReadonlySignal<HeadlineFacts | null>;
  readonly panelChoice: ReadonlySignal<PanelChoice>;

  readonly shownPanels = computed(() => shownIds(this.panelChoice.value));
  /** Panels that are not laid out because they have nothing to show. */
  readonly idlePanels = computed(() => {
    const scene = this.scene.value;
    return findIdlePanels({ ...scene, problems: problemLines(scene).length });
  });
  /** The ranks that charts draw as one row. */
  readonly folding = signal<FoldingState>({
    isOffered: false,
    isOn: false,
    isPending: false,
    groups: [],
  });
  /** Whether the view fills its page or tab with columns. */
  readonly isFilled = signal(false);
  /** The timeline's window, or the window that it is moving to. */
  view: Span;
  /** Set when the panel that contains the timeline is created. */
  timeline!: TimelineApp;
  private readonly slots = new Map<string, ChartSlot>();
  private readonly model: Model;
  private readonly makeChart: MakeChart;

  constructor(
    readonly root: HTMLElement,
    { scene, source, state, model, signal: abortSignal, makeChart, live }: DashOptions,
  ) {
    this.signal = abortSignal;
    this.live = live;
    this.source = new ObservedSource(source);
    this.scene = signal(scene);
    this.theme = signal(detectTheme(root));
    this.view = scene.range;
    this.model = model;
    this.makeChart = makeChart;
    const trait = <T>(name: string, read: (value: unknown) => T): ReadonlySignal<T> =>
      traitSignal(model, name, read, abortSignal);
    this.folded = trait("folded", (on) => (typeof on === "boolean" ? on : null));
    this.height = trait("height", (height) => (height ?? null) as number | null);
    const metric = trait("metric", (value) => (value ?? "") as string);
    const defaultMetric = (): string =>
      this.hasWaits.value && hasLateness(this.scene.value) ? "waiting" : "busy";
    this.metric = computed(() => metric.value || defaultMetric());
    this.headline = trait("_headline", (facts) => (facts ?? null) as HeadlineFacts | null);
    const { offeredPanels } = this;
    const readPanels = (ids: unknown): PanelChoice =>
      Array.isArray(ids) ? (ids as PanelChoice) : offeredPanels;
    this.panelChoice = trait("panels", readPanels);
    this.selectionState = new DashSelection(this, state);
    const tables = (): ColumnTables => (model.get("_tables") ?? {}) as ColumnTables;
    const requester = makePanelRequester(withTables(this.source, tables), abortSignal);
    this.data = new PanelData(requester, abortSignal);
    this.totals = new PanelData(requester, abortSignal);
  }

  get jobFacts(): JobFacts {
    return this.model.get("_about") ?? {};
  }

  /** The view's address; null in notebooks. */
  get address(): ViewAddress | null {
    return addressTrait(this.model);
  }

  /** Return a link to what is shown; null if the selection is too long for a link. */
  link(): string | null {
    return linkOf(this.model, this.timeline.ctx.shared.state, this.scene.peek());
  }

  /** Whether the view is alone in its page or tab. Only our own hosts set this trait. */
  get fills(): boolean {
    return this.model.get("_fills") === true;
  }

  /** The panels for which the job's files have data; all panels if unknown. */
  get offeredPanels(): readonly string[] {
    return this.jobFacts.panels ?? PANELS.map(({ id }) => id);
  }

  saveTrait(name: string, value: unknown): void {
    saveTrait(this.model, name, value);
  }

  showPanel(id: string, on: boolean): void {
    this.saveTrait("panels", choiceWithPanel(this.panelChoice.value, id, on));
  }

  get device(): string {
    return deviceOf(this.scene.peek());
  }

  titleOf(id: string): string {
    return fillDeviceWord(findPanelKind(id).title, this.device);
  }

  bringIntoView(id: string): void {
    this.root.querySelector(`[data-panel=${id}]`)?.scrollIntoView({ block: "nearest" });
  }

  slot(id: string): ChartSlot {
    return getOrMake(this.slots, id, () => {
      const { selectionState, makeChart, theme, signal: abortSignal } = this;
      return new ChartSlot(() => {
        const brush = (change: Brush): void => selectionState.brush(id, change);
        return makeChart(id, brush, theme, this.device);
      }, abortSignal);
    });
  }

  /** Return the last data loaded for a panel; null if there is none. */
  frame(id: string): PanelFrame | null {
    return this.data.state(id).value.frame;
  }

  /** Totals of the selection; null until loaded. */
  get selectionTotals(): PanelFrame | null {
    const { frame, isStale } = this.totals.state("summary").value;
    return isStale ? null : frame;
  }

  shortName(name: string): string {
    const { name: names = [], short = [] } = this.frame("kernels")?.columns ?? {};
    const shortName = short[names.indexOf(name)];
    return typeof shortName === "string" ? shortName : name;
  }

  button(name: "share-button" | "help-button"): HTMLElement {
    return this.root.querySelector<HTMLElement>(`.hta-dash-toolbar .hta-${name}`)!;
  }

  async copy(text: string, subject: string): Promise<void> {
    const message = await copyAndReport(text, subject, this.root);
    if (!this.signal.aborted) this.timeline.status.flashMessage([message]);
  }
}
