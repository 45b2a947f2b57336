/** A widget's model outside Jupyter, with the interface that anywidget's modules expect. */

import { getOrMake } from "../protocol/maps";

type Listener = (...args: unknown[]) => void;
type State = Record<string, unknown>;

/** The presence and the name of a kernel, as widgets see it. */
export interface Manager {
  kernel: { status: "idle" | "dead" };
  words?: Record<string, string> | null;
}

/** Sends data of Jupyter's widget messages to Python; throws if Python has ended. */
type Post = (data: State, buffers: readonly ArrayBuffer[]) => void;

export class RemoteModel {
  private readonly listeners = new Map<string, Set<Listener>>();
  /** Keys of values that were set here and not sent yet. */
  private readonly changed = new Set<string>();

  constructor(
    private readonly state: State,
    private readonly post: Post,
    readonly widget_manager: Manager,
  ) {}

  get(key: string): unknown {
    return this.state[key];
  }

  set(key: string, value: unknown): void {
    if (same(this.state[key], value)) return;
    this.changed.add(key);
    this.take({ [key]: value });
  }

  /** Change a value in this page only: neither Python nor other pages receive it. */
  setLocally(key: string, value: unknown): void {
    this.take({ [key]: value });
  }

  save_changes(): void {
    const state = Object.fromEntries([...this.changed].map((key) => [key, this.state[key]]));
    this.changed.clear();
    if (Object.keys(state).length === 0) return;
    try {
      this.post({ method: "update", state, buffer_paths: [] }, []);
    } catch {
      // Without Python, the page continues with its own state.
    }
  }

  send(content: unknown, _callbacks?: unknown, buffers: readonly ArrayBuffer[] = []): void {
    this.post({ method: "custom", content }, buffers);
  }

  on(event: string, listener: Listener): void {
    getOrMake(this.listeners, event, () => new Set()).add(listener);
  }

  off(event?: string | null, listener?: Listener | null): void {
    if (event === undefined || event === null) this.listeners.clear();
    else if (listener === undefined || listener === null) this.listeners.delete(event);
    else this.listeners.get(event)?.delete(listener);
  }

  emit(event: string, ...values: unknown[]): void {
    for (const listener of [...(this.listeners.get(event) ?? [])]) {
      try {
        listener(...values);
      } catch (error) {
        // An error of one listener must not prevent calls of the others.
        reportError(error);
      }
    }
  }

  /** Handle a message of Python. Values that were set here and not sent yet are newer, and stay. */
  receive(data: State, buffers: readonly DataView[]): void {
    if (data.method === "custom") this.emit("msg:custom", data.content, buffers);
    else {
      const fresh = Object.entries(stateOf(data, buffers)).filter(
        ([key]) => !this.changed.has(key),
      );
      this.take(Object.fromEntries(fresh));
    }
  }

  private take(state: State): void {
    const keys = Object.keys(state).filter((key) => !same(this.state[key], state[key]));
    for (const key of keys) this.state[key] = state[key];
    for (const key of keys) this.emit(`change:${key}`, this, state[key]);
    if (keys.length > 0) this.emit("change", this);
  }
}

/** The state of a message, with its buffers put back. */
export function stateOf(data: State, buffers: readonly DataView[]): State {
  const state = (data.state ?? {}) as State;
  const paths = (data.buffer_paths ?? []) as (string | number)[][];
  paths.forEach((path, place) => {
    const parts = path.slice(0, -1);
    const owner = parts.reduce<State>((part, key) => part[key] as State, state);
    owner[path.at(-1)!] = buffers[place];
  });
  return state;
}

/** Whether two JSON values are equal. */
export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (ArrayBuffer.isView(a) || ArrayBuffer.isView(b)) return false;
  const keys = Object.keys(a);
  if (Array.isArray(a) !== Array.isArray(b) || keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && same((a as State)[key], (b as State)[key]));
}
