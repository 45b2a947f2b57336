/** State shared by the parts of a timeline: context, events, marks, bookmarks. */

import { computed, Signal } from "@preact/signals";
import type { ObservedSource } from "../connection/answering";
import type { Shared } from "../connection/store";
import { LaneIndex } from "../protocol/scene";
import type { Overlay, Scene, Span } from "../protocol/source";
import type { Stage } from "../stage/stage";

/** An event and its listeners. */
export class Emitter<T = void> {
  private readonly listeners: ((value: T) => void)[] = [];

  on(listener: (value: T) => void): void {
    this.listeners.push(listener);
  }

  emit(value: T): void {
    for (const listener of this.listeners) listener(value);
  }
}

/** State that the parts of a timeline share. */
export class Context {
  private readonly job: Signal<Scene>;
  private readonly index = computed(() => new LaneIndex(this.job.value));

  constructor(
    scene: Scene,
    /** The widget's own element: keys and popovers live inside it. */
    readonly root: HTMLElement,
    readonly stage: Stage,
    readonly source: ObservedSource,
    readonly shared: Shared,
    readonly signal: AbortSignal,
    /** Whether it is one of several linked panels: it hides ranks that others did not choose. */
    readonly isPart: boolean,
  ) {
    this.job = new Signal(scene);
  }

  /** Replaced when the widget gets another TraceSet; views that read it are drawn again. */
  get scene(): Scene {
    return this.job.value;
  }

  set scene(scene: Scene) {
    this.job.value = scene;
  }

  get lanes(): LaneIndex {
    return this.index.value;
  }
}

/** Whether the user prefers reduced motion. */
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

// Marks over the lanes, set with M; view bookmarks on the digits.

export type Note = Overlay["notes"][number];

/** The list after marking a time range: an unkept mark replaces the one before. */
export function marked(notes: readonly Note[], span: Span, kept: boolean): Note[] {
  const [start, end] = [Math.round(span[0]), Math.round(span[1])];
  const others = notes.filter(
    (note) => (kept || note.kept) && !(note.start === start && note.end === end),
  );
  return [...others, { start, end, kept }];
}

/** The list without the mark nearest to a time. */
export function unmarked(notes: readonly Note[], time: number): Note[] {
  let nearest = -1;
  let best = Infinity;
  notes.forEach((note, at) => {
    const distance = Math.max(note.start - time, time - note.end, 0);
    if (distance <= best) {
      best = distance;
      nearest = at;
    }
  });
  return notes.filter((_, at) => at !== nearest);
}

export class Bookmarks {
  private readonly views = new Map<number, Span>();

  set(digit: number, view: Span): void {
    this.views.set(digit, view);
  }

  get(digit: number): Span | null {
    return this.views.get(digit) ?? null;
  }
}

/** Width of the time axis in px. */
export function axisWidth(ctx: Context): number {
  const [start, end] = ctx.stage.view();
  return ctx.stage.xOf(end) - ctx.stage.xOf(start);
}
