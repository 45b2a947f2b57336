/** Undo and redo of what a view shows, as values: Python keeps the same two stacks. */

import type { SharedState } from "../contract";

export interface History {
  past: SharedState[];
  future: SharedState[];
  /** Names the act that made the last entry, where it changed other states with this one. */
  together?: string;
}

export const HISTORY_CAP = 100;

export interface Step {
  history: History;
  state: SharedState;
}

/** Remember `before` as the state to come back to; what had been undone is gone. */
export function pushed(history: History, before: SharedState, cap = HISTORY_CAP): History {
  return { past: [...history.past, before].slice(-cap), future: [] };
}

export function undone(history: History, now: SharedState): Step | null {
  const state = history.past.at(-1);
  if (state === undefined) return null;
  return {
    state,
    history: { past: history.past.slice(0, -1), future: [...history.future, now] },
  };
}

export function redone(history: History, now: SharedState): Step | null {
  const state = history.future.at(-1);
  if (state === undefined) return null;
  return {
    state,
    history: { past: [...history.past, now], future: history.future.slice(0, -1) },
  };
}

/** A history from whatever the model holds; hosts may hand over null or halves. */
export function readHistory(value: unknown): History {
  const raw = (value ?? {}) as { past?: unknown; future?: unknown };
  return {
    past: Array.isArray(raw.past) ? (raw.past as SharedState[]) : [],
    future: Array.isArray(raw.future) ? (raw.future as SharedState[]) : [],
  };
}

/** Same content? Values are JSON, so their text decides. */
export function same(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
