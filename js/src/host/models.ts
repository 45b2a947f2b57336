/** The model of a widget outside Jupyter, with the interface that anywidget modules expect. */

import { getOrMake } from "../protocol/maps";

type ModelListener = (...args: unknown[]) => void;
type ModelState = Record<string, unknown>;

/** State of the kernel, and what to call it, as read by widgets. */
export interface Manager {
  kernel: { status: "idle" | "dead" };
  words?: Record<string, string> | null;
}

/** Send the data of a Jupyter widget message to Python. Throws if Python has ended. */
type PostMessage = (data: ModelState, buffers: readonly ArrayBuffer[]) => void;

export class RemoteModel {
  private readonly listeners = new Map<string, Set<ModelListener>>();
  /** Keys set in this page but not sent yet. */
  private readonly changedKeys = new Set<string>();

  constructor(
    private readonly state: ModelState,
    private readonly post: PostMessage,
    readonly widget_manager: Manager,
  ) {}

  get(key: string): unknown {
    return this.state[key];
  }

  set(key: string, value: unknown): void {
    if (isSameValue(this.state[key], value)) return;
    this.changedKeys.add(key);
    this.applyState({ [key]: value });
  }

  /** Change a value in this page only. It is sent neither to Python nor to other pages. */
  setLocally(key: string, value: unknown): void {
    this.applyState({ [key]: value });
  }

  save_changes(): void {
    const state = Object.fromEntries([...this.changedKeys].map((key) => [key, this.state[key]]));
    this.changedKeys.clear();
    if (Object.keys(state).length === 0) return;
    try {
      this.post({ method: "update", state, buffer_paths: [] }, []);
    } catch {
      // Without Python, the values stay in this page.
    }
  }

  send(content: unknown, _callbacks?: unknown, buffers: readonly ArrayBuffer[] = []): void {
    this.post({ method: "custom", content }, buffers);
  }

  on(event: string, listener: ModelListener): void {
    getOrMake(this.listeners, event, () => new Set()).add(listener);
  }

  off(event?: string | null, listener?: ModelListener | null): void {
    if (event === undefined || event === null) this.listeners.clear();
    else if (listener === undefined || listener === null) this.listeners.delete(event);
    else this.listeners.get(event)?.delete(listener);
  }

  emit(event: string, ...values: unknown[]): void {
    for (const listener of [...(this.listeners.get(event) ?? [])]) {
      try {
        listener(...values);
      } catch (error) {
        // An error in one listener must not stop the others.
        reportError(error);
      }
    }
  }

  /** Handle a message from Python. Values set here and not sent yet take precedence. */
  receive(data: ModelState, buffers: readonly DataView[]): void {
    if (data.method === "custom") this.emit("msg:custom", data.content, buffers);
    else {
      const newEntries = Object.entries(decodeState(data, buffers)).filter(
        ([key]) => !this.changedKeys.has(key),
      );
      this.applyState(Object.fromEntries(newEntries));
    }
  }

  private applyState(state: ModelState): void {
    const keys = Object.keys(state).filter((key) => !isSameValue(this.state[key], state[key]));
    for (const key of keys) this.state[key] = state[key];
    for (const key of keys) this.emit(`change:${key}`, this, state[key]);
    if (keys.length > 0) this.emit("change", this);
  }
}

/** Return the state in a message, with its buffers inserted. */
export function decodeState(data: ModelState, buffers: readonly DataView[]): ModelState {
  const state = (data.state ?? {}) as ModelState;
  const paths = (data.buffer_paths ?? []) as (string | number)[][];
  paths.forEach((path, index) => {
    const parts = path.slice(0, -1);
    const owner = parts.reduce<ModelState>((part, key) => part[key] as ModelState, state);
    owner[path.at(-1)!] = buffers[index];
  });
  return state;
}

/** Return whether two JSON values are equal. Binary values are equal only if identical. */
export function isSameValue(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (ArrayBuffer.isView(a) || ArrayBuffer.isView(b)) return false;
  const keys = Object.keys(a);
  if (Array.isArray(a) !== Array.isArray(b) || keys.length !== Object.keys(b).length) return false;
  return keys.every(
    (key) => Object.hasOwn(b, key) && isSameValue((a as ModelState)[key], (b as ModelState)[key]),
  );
}
