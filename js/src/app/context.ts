/** What the parts of the timeline share. */

import type { Scene, Stage } from "../contract";
import type { LaneIndex } from "./lane_index";
import type { Shared } from "./shared";
import type { ObservedSource } from "./observed_source";

/** Something that happens, and who wants to know. */
export class Emitter<T = void> {
  private readonly listeners: ((value: T) => void)[] = [];

  on(listener: (value: T) => void): void {
    this.listeners.push(listener);
  }

  emit(value: T): void {
    for (const listener of this.listeners) listener(value);
  }
}

export interface Context {
  /** The widget's own element: keys and popovers live inside it. */
  readonly root: HTMLElement;
  readonly stage: Stage;
  readonly source: ObservedSource;
  readonly shared: Shared;
  readonly signal: AbortSignal;
  /** One of several linked panels: it hides ranks that others did not choose, and keeps names. */
  readonly isPart: boolean;
  /** Both replaced together when the widget gets another TraceSet. */
  scene: Scene;
  lanes: LaneIndex;
}

/** No motion wanted? */
export function calm(): boolean {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Call at most once per `ms`, the last time included. */
export function throttle(ms: number, signal: AbortSignal, call: () => void): () => void {
  let timer = 0;
  let last = -Infinity;
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  return () => {
    if (timer || signal.aborted) return;
    const wait = Math.max(last + ms - performance.now(), 0);
    timer = window.setTimeout(() => {
      timer = 0;
      last = performance.now();
      call();
    }, wait);
  };
}

/** Call once, `ms` after the last request. `cancel` forgets it. */
export function debounce(
  ms: number,
  signal: AbortSignal,
  call: () => void,
): (() => void) & { cancel(): void } {
  let timer = 0;
  const cancel = (): void => {
    clearTimeout(timer);
    timer = 0;
  };
  signal.addEventListener("abort", cancel, { once: true });
  const later = (): void => {
    if (signal.aborted) return;
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      timer = 0;
      call();
    }, ms);
  };
  return Object.assign(later, { cancel });
}
