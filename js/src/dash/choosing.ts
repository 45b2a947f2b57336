/** What is selected, and every way to change it: each change is a step to come back to. */

import { EVERYTHING } from "../app/selection";
import { type Key, type Model, Shared } from "../app/shared";
import type { Scene, SelectionJson, SharedState, Span } from "../contract";
import { brushed, chosenOf, NONE_CHOSEN, picked } from "./choice";
import type { Brush, Chosen } from "./types";

export interface ChoosingWays {
  scene(): Scene;
  /** What the timeline shows now. */
  view(): Span;
  /** Gestures of the timeline that are still settling come first. */
  settle(): void;
  /** Something else is selected, or figures are of something else. */
  changed(): void;
  history(): void;
  say(text: string): void;
}

export class Choosing {
  chosen: Chosen = NONE_CHOSEN;
  private readonly shared: Shared;

  constructor(
    state: Model,
    private readonly ways: ChoosingWays,
    signal: AbortSignal,
  ) {
    this.shared = new Shared(signal);
    this.shared.attach(state);
    this.chosen = chosenOf(this.selection, ways.scene());
    this.shared.onChange((keys) => this.heard(keys));
    this.shared.onHistory(() => ways.history());
  }

  get selection(): SelectionJson | null {
    return this.shared.state.selection;
  }

  get scope(): SharedState["scope"] {
    return this.shared.state.scope;
  }

  get ranksFrom(): string {
    return this.shared.state.ranks_from;
  }

  get isEmpty(): boolean {
    return this.selection === null && this.shared.state.selected_event === null;
  }

  get canUndo(): boolean {
    return this.shared.canUndo;
  }

  get canRedo(): boolean {
    return this.shared.canRedo;
  }

  /** What figures are of. */
  get effective(): SelectionJson {
    const whole: SelectionJson = { ...EVERYTHING, ...this.selection };
    const hasWindow = whole.start_ns !== null || whole.end_ns !== null;
    if (this.scope !== "view" || hasWindow) return whole;
    const [start, end] = this.ways.view();
    return { ...whole, start_ns: Math.floor(start), end_ns: Math.ceil(end) };
  }

  /** Follow another shared state from now on. */
  attach(state: Model): void {
    this.shared.attach(state);
  }

  /** A panel asks for something to be selected. */
  brush(id: string, brush: Brush): void {
    const next = brushed(this.selection, brush, this.ways.scene().ranks.length);
    this.select(next, brush.ranks === undefined ? this.ranksFrom : id);
  }

  chooseRank(rank: number, add: boolean): void {
    this.brush("headline", { ranks: picked(this.chosen.ranks, rank, add) });
  }

  /** `from`: the panel that chose its ranks. */
  select(selection: SelectionJson | null, from = ""): void {
    const ranks_from = (selection?.ranks ?? null) === null ? "" : from;
    const patch = selection === null ? { selected_event: null } : {};
    this.set({ ...patch, selection, ranks_from });
  }

  setScope(scope: SharedState["scope"]): void {
    this.set({ scope });
  }

  undo(): void {
    this.ways.settle();
    if (!this.shared.undo()) this.ways.say("Nothing to undo.");
  }

  redo(): void {
    this.ways.settle();
    if (!this.shared.redo()) this.ways.say("Nothing to redo.");
  }

  /** Take over what the shared state says. */
  follow(): void {
    this.chosen = chosenOf(this.selection, this.ways.scene());
    this.ways.changed();
  }

  private set(patch: Partial<SharedState>): void {
    this.ways.settle();
    this.shared.set(patch);
    this.shared.flush();
    this.follow();
  }

  private heard(keys: ReadonlySet<Key>): void {
    if (keys.has("selection") || keys.has("scope")) this.follow();
  }
}
