/** Bind a view to the shared model: echo guard, throttled saving, undo history. */

import { batch, computed, type ReadonlySignal, signal } from "@preact/signals";
import type { RenderProps } from "@anywidget/types";
import { orNothing, readSelection } from "../protocol/selection";
import { readScene } from "../protocol/scene";
import { asError, type Scene, type SelectionJson, type SharedState } from "../protocol/source";
import { showBroken } from "../ui/controls";

/** Members of an anywidget model that are used here. */
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

/** A trait as a signal; `read` converts its value, or undefined. */
export function traitOf<T>(
  model: Model,
  name: string,
  read: (value: unknown) => T,
  ended: AbortSignal,
): ReadonlySignal<T> {
  const trait = signal(read(model.get(name)));
  const follow = (): void => void (trait.value = read(model.get(name)));
  listenTo(model, `change:${name}`, follow, ended);
  return trait;
}

export type Key = keyof SharedState;
export const SAVE_MS = 80;
export const COMMIT_MS = 350;
/** Max number of saved views that are known as echoes; a busy kernel answers late. */
const MOST_ECHOES = 50;

export const NOTHING: SharedState = {
  view: null,
  selection: null,
  selected_event: null,
  search: "",
  color: "kind",
  pinned: [],
  ranks_from: "",
  scope: "selection",
};
export const KEYS = Object.keys(NOTHING) as readonly Key[];

/** A trait's value in normal form; hosts use different forms. */
function normal<K extends Key>(key: K, value: unknown): SharedState[K];
function normal(key: Key, value: unknown): unknown {
  if (key === "view" || key === "selected_event") {
    return Array.isArray(value) && value.length === 2 ? [Number(value[0]), Number(value[1])] : null;
  }
  if (key === "selection") return orNothing(readSelection(value as Partial<SelectionJson> | null));
  if (key === "search" || key === "ranks_from") return typeof value === "string" ? value : "";
  if (key === "scope") return value === "view" ? "view" : "selection";
  if (key === "color") return value === "name" ? "name" : "kind";
  return Array.isArray(value) ? value.map(String) : [];
}

export class Shared {
  private model: Model | null = null;
  private subscription: AbortController | null = null;
  /** The state, for views that follow it. */
  readonly now = signal<Readonly<SharedState>>(NOTHING);
  private readonly history = signal(readHistory(null));
  /** The state at the last entry of the history, to which the next entry returns. */
  private readonly settled = signal<Readonly<SharedState>>(NOTHING);
  /** Compared value by value: unchanged values are the same objects, and a set may be large. */
  private readonly isSettled = computed(() =>
    KEYS.every((key) => same(this.now.value[key], this.settled.value[key])),
  );
  private readonly canUndo = computed(
    () => this.history.value.past.length > 0 || !this.isSettled.value,
  );
  private readonly canRedo = computed(() => this.history.value.future.length > 0);
  private moving = false;
  /** Views that were saved last; the host may send echoes of them. */
  private sent: string[] = [];
  private saveTimer = 0;
  private commitTimer = 0;
  private listeners: ((keys: ReadonlySet<Key>) => void)[] = [];

  constructor(private readonly signal: AbortSignal) {
    signal.addEventListener("abort", () => this.close(), { once: true });
  }

  get state(): Readonly<SharedState> {
    return this.now.peek();
  }

  /** Whether there are steps to undo and redo; components follow it. */
  get steps(): { canUndo: boolean; canRedo: boolean } {
    return { canUndo: this.canUndo.value, canRedo: this.canRedo.value };
  }

  /** Called with changes from elsewhere or by undo: show them, without writing them back. */
  onChange(listener: (keys: ReadonlySet<Key>) => void): void {
    this.listeners.push(listener);
  }

  /** Follow this model from now on, and no other. */
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
    for (const key of KEYS) listen(`change:${key}`, () => this.hear(key));
    const followHistory = (): void => {
      this.history.value = readHistory(model.get("_history"));
    };
    listen("change:_history", followHistory);
    followHistory();
    const changed = new Set<Key>();
    for (const key of KEYS) {
      const value = normal(key, model.get(key));
      if (same(value, this.state[key])) continue;
      changed.add(key);
      this.keep(key, value);
    }
    this.settled.value = this.state;
    this.tell(changed);
  }

  /**
   * Change values by a gesture of the user. `moving`: more of the gesture follows, so the kernel
   * need not receive each step.
   */
  set(patch: Partial<SharedState>, moving = false): void {
    const changed = this.write(patch);
    this.moving = moving;
    if (changed.size > 0) this.commitLater();
    if (moving) this.saveLater();
    else this.save();
  }

  /** Change values as a linked view does: this adds no entry to the history. */
  follow(patch: Partial<SharedState>): void {
    this.commit();
    const changed = this.write(patch);
    this.settled.value = this.state;
    if ("view" in patch) this.saveLater();
    else this.save();
    this.tell(changed);
  }

  /**
   * Change values from outside the view, such as from a table: one entry of the history, shown as
   * an external change. `together` names an act that changes other states with this one.
   */
  put(patch: Partial<SharedState>, together: string): void {
    this.flush();
    const before = this.state;
    const changed = this.write(patch);
    if (changed.size === 0) return;
    this.enter({ ...pushed(this.history.peek(), before), together });
    this.save();
    this.tell(changed);
  }

  /** End the gesture: send its last values to the kernel. */
  rest(): void {
    this.moving = false;
    if (this.saveTimer) this.save();
  }

  undo(): boolean {
    return this.step(undone);
  }

  redo(): boolean {
    return this.step(redone);
  }

  /** Record an unfinished gesture, and save. */
  flush(): void {
    this.commit();
    this.rest();
  }

  private step(walk: typeof undone): boolean {
    this.flush();
    const step = walk(this.history.peek(), this.state);
    if (step === null || this.model === null) return false;
    const changed = this.write(Object.fromEntries(KEYS.map((key) => [key, step.state[key]])));
    this.enter(step.history);
    this.save();
    this.tell(changed);
    return true;
  }

  private write(patch: Partial<SharedState>): Set<Key> {
    const changed = new Set<Key>();
    batch(() => {
      for (const [name, given] of Object.entries(patch)) {
        const key = name as Key;
        const value = normal(key, given);
        if (same(value, this.state[key])) continue;
        changed.add(key);
        // Set first, so that the model's own event is not taken for a change.
        this.keep(key, value);
        this.model?.set(key, value);
      }
    });
    return changed;
  }

  private keep(key: Key, value: unknown): void {
    this.now.value = { ...this.state, [key]: value };
  }

  /** Write a history whose last entry the current state follows. */
  private enter(history: History): void {
    batch(() => {
      this.history.value = history;
      this.settled.value = this.state;
    });
    this.model?.set("_history", history);
  }

  private hear(key: Key): void {
    if (this.model === null) return;
    const value = normal(key, this.model.get(key));
    if (same(value, this.state[key])) return;
    // While the view moves, the echo of a host has an earlier position.
    const isMoving = this.moving || this.saveTimer !== 0;
    if (key === "view" && isMoving && this.sent.includes(JSON.stringify(value))) return;
    this.commit();
    this.keep(key, value);
    this.settled.value = { ...this.settled.peek(), [key]: value };
    this.tell(new Set([key]));
  }

  private commitLater(): void {
    clearTimeout(this.commitTimer);
    this.commitTimer = window.setTimeout(() => this.commit(), COMMIT_MS);
  }

  private commit(): void {
    if (!this.commitTimer) return;
    clearTimeout(this.commitTimer);
    this.commitTimer = 0;
    if (this.isSettled.peek()) return;
    this.enter(pushed(this.history.peek(), this.settled.peek()));
    if (!this.moving) this.save();
  }

  private saveLater(): void {
    this.saveTimer ||= window.setTimeout(() => this.save(), SAVE_MS);
  }

  private save(): void {
    clearTimeout(this.saveTimer);
    this.saveTimer = 0;
    const { view } = this.state;
    this.sent = [...this.sent, JSON.stringify(view)].slice(-MOST_ECHOES);
    // An ignored echo has changed the view in the model: write the current view again.
    this.model?.set("view", view);
    this.model?.save_changes();
  }

  private tell(changed: ReadonlySet<Key>): void {
    if (changed.size === 0) return;
    for (const listener of this.listeners) listener(changed);
  }

  private close(): void {
    this.flush();
    this.subscription?.abort();
    this.listeners = [];
    this.model = null;
  }
}

// Undo and redo of a view's state, by value: Python keeps the same two stacks.

export interface History {
  past: SharedState[];
  future: SharedState[];
  /** Name of the act that made the last entry, if it changed other states with this one. */
  together?: string;
}

export const HISTORY_CAP = 100;

interface Step {
  history: History;
  state: SharedState;
}

/** Push `before` as the state to return to; this clears the redo stack. */
export function pushed(history: History, before: SharedState): History {
  return { past: [...history.past, before].slice(-HISTORY_CAP), future: [] };
}

export function undone({ past, future }: History, now: SharedState): Step | null {
  const state = past.at(-1);
  if (state === undefined) return null;
  return { state, history: { past: past.slice(0, -1), future: [...future, now] } };
}

export function redone({ past, future }: History, now: SharedState): Step | null {
  const state = future.at(-1);
  if (state === undefined) return null;
  return { state, history: { past: [...past, now], future: future.slice(0, -1) } };
}

/** A history from the model's value; hosts may pass null or incomplete values. */
export function readHistory(value: unknown): History {
  const raw = (value ?? {}) as { past?: unknown; future?: unknown };
  return {
    past: Array.isArray(raw.past) ? (raw.past as SharedState[]) : [],
    future: Array.isArray(raw.future) ? (raw.future as SharedState[]) : [],
  };
}

/** Whether two values have the same content, compared as JSON. */
export function same(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

// View of a widget: an app that follows the state and the traces of the widget's model.

export interface FollowedTraits {
  [key: string]: unknown;
  /** Names the state widget; another name after `link`. */
  state: string;
  _scene: Scene;
}

interface FollowingApp {
  attach(state: Model): void;
  setScene(scene: Scene): void;
  fail(title: string, error: unknown): void;
}

/** Make an app and bind it to the model's state and traces; on failure, show the reason. */
export async function showFollowing<T extends FollowedTraits>(
  { model, el, host, signal }: RenderProps<T>,
  failed: string,
  makeApp: (scene: Scene, state: Model) => FollowingApp,
): Promise<void> {
  const stateModel = async (): Promise<Model> => await host.getModel(model.get("state"));
  try {
    const scene = readScene(model.get("_scene"));
    const state = await stateModel();
    if (signal.aborted) return;
    const app = makeApp(scene, state);
    let ref = model.get("state");
    let shown = model.get("_scene");
    const attach = (): void => {
      const next = model.get("state");
      if (next === ref) return;
      ref = next;
      stateModel().then(
        (other) => {
          // The model of a later change may have arrived first.
          if (ref === next && !signal.aborted) app.attach(other);
        },
        (error: unknown) => app.fail("The linked state cannot be reached", error),
      );
    };
    const setScene = (): void => {
      const next = model.get("_scene");
      if (next === shown) return;
      shown = next;
      try {
        app.setScene(readScene(next));
      } catch (error) {
        app.fail("The new traces cannot be shown", error);
      }
    };
    listenTo(model, "change:state", attach, signal);
    listenTo(model, "change:_scene", setScene, signal);
  } catch (error) {
    showBroken(el, failed, asError(error), signal);
  }
}
