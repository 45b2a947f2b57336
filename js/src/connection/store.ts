/**
 * Bind a view to the model it shares with the kernel and with linked views.
 *
 * A gesture changes a signal at once; the model is saved at most once per `SAVE_MS`. The kernel
 * echoes each saved view. An echo of an older view is ignored, because it would move the view back.
 * After `COMMIT_MS` without a gesture, the state becomes an entry of the undo history.
 */

import { LIMITS } from "../facts/limits";
import { batch, computed, type ReadonlySignal, signal } from "@preact/signals";
import { nullIfUnrestricted, normalizeSelection } from "../protocol/selection";
import type { FigureScope, SelectionJson, SharedState, TimelineColor } from "../protocol/source";

/** The members of an anywidget model that this module uses. */
export interface Model {
  get(key: string): unknown;
  set(key: string, value: unknown): void;
  on(event: string, listener: () => void): void;
  off(event: string, listener: () => void): void;
  save_changes(): void;
}

/** Listen to a model until the view is removed. */
export function listenTo(
  model: Pick<Model, "on" | "off">,
  event: string,
  listener: () => void,
  signal: AbortSignal,
): void {
  model.on(event, listener);
  signal.addEventListener("abort", () => model.off(event, listener), { once: true });
}

/** Return a trait as a signal. `read` converts the trait's value, which may be undefined. */
export function traitSignal<T>(
  model: Model,
  name: string,
  read: (value: unknown) => T,
  abortSignal: AbortSignal,
): ReadonlySignal<T> {
  const trait = signal(read(model.get(name)));
  const follow = (): void => void (trait.value = read(model.get(name)));
  listenTo(model, `change:${name}`, follow, abortSignal);
  return trait;
}

/** Set and save a trait of a model, unless it already has this value. */
export function saveTrait(model: Model, name: string, value: unknown): void {
  if (isSameJson(model.get(name), value)) return;
  model.set(name, value);
  model.save_changes();
}

export type StateKey = keyof SharedState;
export const SAVE_MS = 80;
export const COMMIT_MS = 350;
/** Number of saved views whose echoes are recognized. A busy kernel echoes late. */
const MAX_ECHOES = 50;

export const INITIAL_STATE: SharedState = {
  view: null,
  selection: null,
  selected_event: null,
  search: "",
  color: "kind",
  pinned: [],
  ranks_from: "",
  scope: "selection",
};
export const STATE_KEYS = Object.keys(INITIAL_STATE) as readonly StateKey[];

export function isScope(value: unknown): value is FigureScope {
  return value === "job" || value === "view" || value === "selection";
}

export function isColor(value: unknown): value is TimelineColor {
  return value === "kind" || value === "name" || value === "bound";
}

/** Normalize a trait's value, whose form depends on the host. */
function normalizeValue<K extends StateKey>(key: K, value: unknown): SharedState[K];
function normalizeValue(key: StateKey, value: unknown): unknown {
  if (key === "view" || key === "selected_event") {
    return Array.isArray(value) && value.length === 2 ? [Number(value[0]), Number(value[1])] : null;
  }
  if (key === "selection")
    return nullIfUnrestricted(normalizeSelection(value as Partial<SelectionJson> | null));
  if (key === "search" || key === "ranks_from") return typeof value === "string" ? value : "";
  if (key === "scope") return isScope(value) ? value : INITIAL_STATE.scope;
  if (key === "color") return isColor(value) ? value : INITIAL_STATE.color;
  return Array.isArray(value) ? value.map(String) : [];
}

export class SharedStateStore {
  private model: Model | null = null;
  private subscription: AbortController | null = null;
  /** The state as a signal, for views that depend on it. */
  readonly stateSignal = signal<Readonly<SharedState>>(INITIAL_STATE);
  private readonly history = signal(readHistory(null));
  /** The state at the last history entry. Undoing the next entry restores it. */
  private readonly committed = signal<Readonly<SharedState>>(INITIAL_STATE);
  /** Compares values one by one, as unchanged values are identical and a set may be large. */
  private readonly isCommitted = computed(() =>
    STATE_KEYS.every((key) => isSameJson(this.stateSignal.value[key], this.committed.value[key])),
  );
  private readonly canUndo = computed(
    () => this.history.value.past.length > 0 || !this.isCommitted.value,
  );
  private readonly canRedo = computed(() => this.history.value.future.length > 0);
  private isMoving = false;
  /** The most recently saved views, which the host may echo. */
  private savedViews: string[] = [];
  private saveTimer = 0;
  private commitTimer = 0;
  private listeners: ((keys: ReadonlySet<StateKey>) => void)[] = [];
  private flushListeners: (() => void)[] = [];

  constructor(private readonly signal: AbortSignal) {
    signal.addEventListener("abort", () => this.close(), { once: true });
  }

  get state(): Readonly<SharedState> {
    return this.stateSignal.peek();
  }

  /** Whether there is anything to undo or redo, observable by components. */
  get steps(): { canUndo: boolean; canRedo: boolean } {
    return { canUndo: this.canUndo.value, canRedo: this.canRedo.value };
  }

  /** Listen to changes by undo or from outside, which are to be shown but not written back. */
  onChange(listener: (keys: ReadonlySet<StateKey>) => void): void {
    this.listeners.push(listener);
  }

  /** Call a listener before a gesture is recorded, to write the values that it is about to show. */
  onFlush(listener: () => void): void {
    this.flushListeners.push(listener);
  }

  /** Bind to this model instead of the previous one. */
  attach(model: Model): void {
    if (this.signal.aborted || model === this.model) return;
    this.flush();
    this.subscription?.abort();
    const subscription = new AbortController();
    this.subscription = subscription;
    this.model = model;
    const listen = (event: string, listener: () => void): void => {
      listenTo(model, event, listener, subscription.signal);
    };
    for (const key of STATE_KEYS) listen(`change:${key}`, () => this.onModelChange(key));
    const followHistory = (): void => {
      this.history.value = readHistory(model.get("_history"));
    };
    listen("change:_history", followHistory);
    followHistory();
    const changed = new Set<StateKey>();
    for (const key of STATE_KEYS) {
      const value = normalizeValue(key, model.get(key));
      if (isSameJson(value, this.state[key])) continue;
      changed.add(key);
      this.assign(key, value);
    }
    this.committed.value = this.state;
    this.notify(changed);
  }

  /** Change values in response to a gesture. If `isMoving`, saving waits for further changes. */
  set(patch: Partial<SharedState>, isMoving = false): void {
    const changed = this.applyPatch(patch);
    this.isMoving = isMoving;
    if (changed.size > 0) this.commitLater();
    if (isMoving) this.saveLater();
    else this.save();
  }

  /** Change values because a linked view changed. No history entry is added. */
  applyLinked(patch: Partial<SharedState>): void {
    this.commit();
    const changed = this.applyPatch(patch);
    this.committed.value = this.state;
    if ("view" in patch) this.saveLater();
    else this.save();
    this.notify(changed);
  }

  /**
   * Change values from outside the view, for example from a table. This adds one history entry and
   * is shown like an external change. `together` names an action that also changes other states.
   */
  commitPatch(patch: Partial<SharedState>, together: string): void {
    this.flush();
    const before = this.state;
    const changed = this.applyPatch(patch);
    if (changed.size === 0) return;
    this.setHistory({ ...pushHistory(this.history.peek(), before), together });
    this.save();
    this.notify(changed);
  }

  /** End the gesture and send its last values to the kernel. */
  endGesture(): void {
    this.isMoving = false;
    if (this.saveTimer) this.save();
  }

  undo(): boolean {
    return this.travelHistory(undoStep);
  }

  redo(): boolean {
    return this.travelHistory(redoStep);
  }

  /** Record an unfinished gesture and save the state. */
  flush(): void {
    for (const listener of this.flushListeners) listener();
    this.commit();
    this.endGesture();
  }

  private travelHistory(move: typeof undoStep): boolean {
    this.flush();
    const step = move(this.history.peek(), this.state);
    if (step === null || this.model === null) return false;
    const changed = this.applyPatch(
      Object.fromEntries(STATE_KEYS.map((key) => [key, step.state[key]])),
    );
    this.setHistory(step.history);
    this.save();
    this.notify(changed);
    return true;
  }

  private applyPatch(patch: Partial<SharedState>): Set<StateKey> {
    const changed = new Set<StateKey>();
    batch(() => {
      for (const [name, raw] of Object.entries(patch)) {
        const key = name as StateKey;
        const value = normalizeValue(key, raw);
        if (isSameJson(value, this.state[key])) continue;
        changed.add(key);
        // The signal is set first, so that the model's event is not mistaken for a new change.
        this.assign(key, value);
        this.model?.set(key, value);
      }
    });
    return changed;
  }

  private assign(key: StateKey, value: unknown): void {
    this.stateSignal.value = { ...this.state, [key]: value };
  }

  /** Replace the history. The current state follows the history's last entry. */
  private setHistory(history: History): void {
    batch(() => {
      this.history.value = history;
      this.committed.value = this.state;
    });
    this.model?.set("_history", history);
  }

  private onModelChange(key: StateKey): void {
    if (this.model === null) return;
    const value = normalizeValue(key, this.model.get(key));
    if (isSameJson(value, this.state[key])) return;
    // While the view moves, an echo contains an earlier position.
    const isMoving = this.isMoving || this.saveTimer !== 0;
    if (key === "view" && isMoving && this.savedViews.includes(JSON.stringify(value))) return;
    this.commit();
    this.assign(key, value);
    this.committed.value = { ...this.committed.peek(), [key]: value };
    this.notify(new Set([key]));
  }

  private commitLater(): void {
    clearTimeout(this.commitTimer);
    this.commitTimer = window.setTimeout(() => this.commit(), COMMIT_MS);
  }

  private commit(): void {
    if (!this.commitTimer) return;
    clearTimeout(this.commitTimer);
    this.commitTimer = 0;
    if (this.isCommitted.peek()) return;
    this.setHistory(pushHistory(this.history.peek(), this.committed.peek()));
    if (!this.isMoving) this.save();
  }

  private saveLater(): void {
    this.saveTimer ||= window.setTimeout(() => this.save(), SAVE_MS);
  }

  private save(): void {
    clearTimeout(this.saveTimer);
    this.saveTimer = 0;
    const { view } = this.state;
    this.savedViews = [...this.savedViews, JSON.stringify(view)].slice(-MAX_ECHOES);
    // An ignored echo may have changed the model's view, so the view is always written.
    this.model?.set("view", view);
    this.model?.save_changes();
  }

  private notify(changed: ReadonlySet<StateKey>): void {
    if (changed.size === 0) return;
    for (const listener of this.listeners) listener(changed);
  }

  private close(): void {
    this.flush();
    this.subscription?.abort();
    this.listeners = this.flushListeners = [];
    this.model = null;
  }
}

// The undo history of a view's state. Python keeps the same two stacks of states.

export interface History {
  past: SharedState[];
  future: SharedState[];
  /** Name of the act that made the last entry, if the act also changed other states. */
  together?: string;
}

interface HistoryStep {
  history: History;
  state: SharedState;
}

/** Push `before` as the state to return to, and clear the redo stack. */
export function pushHistory(history: History, before: SharedState): History {
  return { past: [...history.past, before].slice(-LIMITS.history_entries), future: [] };
}

export function undoStep({ past, future }: History, current: SharedState): HistoryStep | null {
  const state = past.at(-1);
  if (state === undefined) return null;
  return { state, history: { past: past.slice(0, -1), future: [...future, current] } };
}

export function redoStep({ past, future }: History, current: SharedState): HistoryStep | null {
  const state = future.at(-1);
  if (state === undefined) return null;
  return { state, history: { past: [...past, current], future: future.slice(0, -1) } };
}

/** Read a history from the model's value, which may be null or incomplete. */
export function readHistory(value: unknown): History {
  const raw = (value ?? {}) as { past?: unknown; future?: unknown; together?: unknown };
  return {
    past: Array.isArray(raw.past) ? (raw.past as SharedState[]) : [],
    future: Array.isArray(raw.future) ? (raw.future as SharedState[]) : [],
    ...(typeof raw.together === "string" && { together: raw.together }),
  };
}

/** Return whether two values are equal when written as JSON. */
export function isSameJson(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
