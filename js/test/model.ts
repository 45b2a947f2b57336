/** A model of plain values that notifies its listeners as a widget manager does; for tests. */

import { type Model, INITIAL_STATE } from "../src/connection/store";
import { getOrMake } from "../src/protocol/maps";

export class LooseModel implements Model {
  saves = 0;
  private readonly listeners = new Map<string, Set<() => void>>();

  constructor(readonly values: Record<string, unknown>) {}

  get(key: string): unknown {
    return this.values[key];
  }

  set(key: string, value: unknown): void {
    if (JSON.stringify(this.values[key]) === JSON.stringify(value)) return;
    this.values[key] = value;
    for (const listener of this.listeners.get(`change:${key}`) ?? []) listener();
  }

  on(event: string, listener: () => void): void {
    getOrMake(this.listeners, event, () => new Set()).add(listener);
  }

  off(event: string, listener: () => void): void {
    this.listeners.get(event)?.delete(listener);
  }

  save_changes(): void {
    this.saves += 1;
  }

  get listenerCount(): number {
    return [...this.listeners.values()].reduce((sum, set) => sum + set.size, 0);
  }
}

export function freshState(): LooseModel {
  return new LooseModel({ ...INITIAL_STATE, _history: { past: [], future: [] } });
}
