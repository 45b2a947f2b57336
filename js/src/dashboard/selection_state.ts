/** The selection of a dashboard and the ways to change it. Each change is a history entry. */

import { computed, type ReadonlySignal } from "@preact/signals";
import { wholeNsWindow } from "../connection/answering";
import { type Model, SharedStateStore } from "../connection/store";
import { choosesOperators } from "../facts/panels";
import {
  applyBrush,
  chartSelectionOf,
  FULL_SELECTION,
  padSpan,
  selectionSpan,
  togglePick,
} from "../protocol/selection";
import type {
  Brush,
  FigureScope,
  FigureWindow,
  Scene,
  SelectionJson,
  SharedState,
  Span,
} from "../protocol/source";
import type { TimelineApp } from "../timeline/view";
import { wholeRunName } from "../ui/formats";
import type { Finding } from "./findings";

/** The members of a dashboard that this module uses. */
interface SelectionHost {
  readonly signal: AbortSignal;
  readonly scene: ReadonlySignal<Scene>;
  readonly timeline: TimelineApp;
  readonly view: Span;
  bringIntoView(id: string): void;
}

export class DashSelection {
  readonly selection = computed(() => this.shared.stateSignal.value.selection);
  /** What the figures cover. Without a selection, `selection` means the whole job. */
  readonly scope = computed((): FigureScope => {
    const { scope } = this.shared.stateSignal.value;
    return scope === "selection" && this.selection.value === null ? "job" : scope;
  });
  /** The window of figures that support no other restriction; null for the view. */
  readonly figures = computed((): FigureWindow | null => {
    const scene = this.ctx.scene.value;
    if (this.scope.value === "view") return null;
    const span = this.scope.value === "job" ? null : selectionSpan(this.selection.value, scene);
    if (span === null) return { span: scene.range, label: wholeRunName(scene) };
    return { span, label: "selection" };
  });
  readonly chartSelection = computed(() =>
    chartSelectionOf(this.selection.value, this.ctx.scene.value),
  );
  private readonly shared: SharedStateStore;

  constructor(
    private readonly ctx: SelectionHost,
    state: Model,
  ) {
    this.shared = new SharedStateStore(ctx.signal);
    this.shared.attach(state);
  }

  get steps(): { canUndo: boolean; canRedo: boolean } {
    return this.shared.steps;
  }

  get ranksFrom(): string {
    return this.shared.state.ranks_from;
  }

  get isEmpty(): boolean {
    return this.selection.value === null && this.shared.state.selected_event === null;
  }

  /** The selection; without one, a selection that includes everything. */
  get chosen(): SelectionJson {
    return { ...FULL_SELECTION, ...this.selection.value };
  }

  /** The selection that restricts the figures, depending on the scope. */
  get effective(): SelectionJson {
    const scope = this.scope.value;
    if (scope === "selection") return this.chosen;
    if (scope === "job") return FULL_SELECTION;
    const [start, end] = this.ctx.view;
    return { ...FULL_SELECTION, start_ns: Math.floor(start), end_ns: Math.ceil(end) };
  }

  attach(state: Model): void {
    this.shared.attach(state);
  }

  /** Apply a brush of the panel `id` to the selection. */
  brush(id: string, brush: Brush): void {
    const ranks = this.ctx.scene.value.ranks.length;
    const fullBrush = { ...brush, launches: choosesOperators(id) };
    const next = applyBrush(this.selection.value, fullBrush, ranks);
    this.select(next, brush.ranks === undefined ? this.ranksFrom : id);
  }

  chooseRank(rank: number, add: boolean): void {
    this.brush("headline", { ranks: togglePick(this.chartSelection.value.ranks, rank, add) });
  }

  /** Select a finding and move its window into view. */
  chooseWindow({ selection }: Finding): void {
    const { start_ns: start, end_ns: end } = selection;
    if (start === null || end === null) {
      this.select(selection, "headline");
      return;
    }
    const padded = wholeNsWindow(padSpan(start, end - start, 0.1));
    const [first, last] = this.ctx.scene.value.range;
    const view: [number, number] = [Math.max(padded.start, first), Math.min(padded.end, last)];
    this.select(selection, "headline", { view });
    this.ctx.bringIntoView("timeline");
  }

  /** Set the selection and the `more` values. `ranksFrom` is the panel that set the ranks. */
  select(selection: SelectionJson | null, ranksFrom = "", more: Partial<SharedState> = {}): void {
    const ranks_from = (selection?.ranks ?? null) === null ? "" : ranksFrom;
    const patch: Partial<SharedState> = selection === null ? { selected_event: null } : {};
    if (selection === null && this.scope.value === "job") patch.scope = "selection";
    this.commit({ ...patch, ...more, selection, ranks_from });
  }

  /** Without a selection, the whole job is stored as `selection`, so the next one narrows it. */
  setScope(scope: FigureScope): void {
    this.commit({ scope: scope === "job" && this.selection.value === null ? "selection" : scope });
  }

  travel(direction: "undo" | "redo"): void {
    const { timeline } = this.ctx;
    timeline.ctx.shared.flush();
    if (!this.shared[direction]()) timeline.flash(`Nothing to ${direction}.`);
  }

  private commit(patch: Partial<SharedState>): void {
    this.ctx.timeline.ctx.shared.flush();
    this.shared.set(patch);
    this.shared.flush();
  }
}
