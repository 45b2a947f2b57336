/** State shared by the parts of a timeline: context, events, requests, marks. */

import { computed, signal, Signal } from "@preact/signals";
import type { ObservedSource } from "../connection/answering";
import type { SharedStateStore } from "../connection/store";
import { LaneIndex } from "../protocol/scene";
import {
  asError,
  type FigureWindow,
  isAbort,
  type Scene,
  type Span,
  type ThemeName,
  type TimelineColor,
} from "../protocol/source";
import type { TimeMark } from "../stage/overlay";
import type { Stage } from "../stage/stage";
import type { CardMessage } from "./messages";

export class Emitter {
  private readonly listeners: (() => void)[] = [];

  on(listener: () => void): void {
    this.listeners.push(listener);
  }

  emit(): void {
    for (const listener of this.listeners) listener();
  }
}

export class TimelineContext {
  /** The last failure, shown below the toolbar. */
  readonly failure = signal<CardMessage | null>(null);
  readonly theme = signal<ThemeName>("light");
  /** Window of the figures in the legend and margin; null: the view. */
  readonly figures = signal<FigureWindow | null>(null);
  /** Emitted when the user retries failed requests. */
  readonly retryRequested = new Emitter();
  /** Requests that select an event, sent for keys and clicks. */
  readonly requests = new RequestQueue();
  private readonly sceneSignal;
  private readonly laneIndex = computed(() => new LaneIndex(this.scene));

  /** The property that determines event colors: the selected one if this job supports it. */
  readonly color = computed((): TimelineColor => {
    const { color } = this.shared.stateSignal.value;
    return color === "bound" && !this.hasBounds ? "kind" : color;
  });

  constructor(
    scene: Scene,
    /** The widget's element, which receives key presses. */
    readonly root: HTMLElement,
    readonly stage: Stage,
    readonly source: ObservedSource,
    readonly shared: SharedStateStore,
    readonly signal: AbortSignal,
    /** Whether the timeline is a panel linked with others, which may limit the displayed ranks. */
    readonly isLinkedPanel: boolean,
  ) {
    this.sceneSignal = new Signal(scene);
  }

  /** The scene. It is replaced when the widget gets another TraceSet. */
  get scene(): Scene {
    return this.sceneSignal.value;
  }

  set scene(scene: Scene) {
    this.sceneSignal.value = scene;
  }

  /** Whether events can be colored by their bound. */
  get hasBounds(): boolean {
    return this.scene.without_bounds === "";
  }

  get nextColor(): TimelineColor {
    const colors: TimelineColor[] = this.hasBounds ? ["kind", "name", "bound"] : ["kind", "name"];
    return colors[(colors.indexOf(this.color.value) + 1) % colors.length]!;
  }

  get lanes(): LaneIndex {
    return this.laneIndex.value;
  }

  /** Return the summary lane with the events of a stream's lane; null for other lanes. */
  foldedLane(lane: number): number | null {
    const place = this.lanes.locate(lane);
    if (place?.track?.role !== "stream") return null;
    const role = place.track.communication ? "comm" : "gpu";
    return place.rank.summary.find((summary) => summary.role === role)?.lane ?? null;
  }

  get axisWidth(): number {
    const [start, end] = this.stage.view();
    return Math.max(this.stage.xOf(end) - this.stage.xOf(start), 1);
  }

  button(name: "export" | "help"): HTMLElement {
    return this.root.querySelector<HTMLElement>(`.hta-${name}-button`)!;
  }

  focus(): void {
    this.root.focus({ preventScroll: true });
  }

  fail(title: string, error: unknown): void {
    if (isAbort(error) || this.signal.aborted) return;
    const retry = (): void => {
      this.failure.value = null;
      this.source.clearCache();
      this.stage.invalidate();
      this.retryRequested.emit();
    };
    const buttons = [{ text: "Try again", press: retry }];
    this.failure.value = { title, text: asError(error).message, buttons };
  }
}

/** A series of requests. Each request aborts the previous one. */
export class LatestRequest {
  readonly isPending = signal(false);
  private aborter = new AbortController();

  constructor(private readonly abortSignal: AbortSignal) {
    abortSignal.addEventListener("abort", () => this.cancel(), { once: true });
  }

  cancel(): void {
    this.aborter.abort();
    this.isPending.value = false;
  }

  /** Send a request. Pass on its reply or failure unless it is aborted. */
  ask<T>(
    send: (signal: AbortSignal) => Promise<T>,
    show: (reply: T) => void,
    fail: (error: Error) => void = () => undefined,
  ): void {
    this.cancel();
    if (this.abortSignal.aborted) return;
    this.aborter = new AbortController();
    const { signal: requestSignal } = this.aborter;
    this.isPending.value = true;
    send(requestSignal)
      .then((reply) => {
        if (!requestSignal.aborted) show(reply);
      })
      .catch((error: unknown) => {
        if (!requestSignal.aborted && !isAbort(error)) fail(asError(error));
      })
      .finally(() => {
        if (!requestSignal.aborted) this.isPending.value = false;
      });
  }
}

/**
 * Requests sent for keys and clicks, one at a time. A key pressed before the reply to an earlier
 * key acts on the event selected by that reply.
 */
export class RequestQueue {
  private waiting: (() => void)[] = [];
  private inFlight: AbortController | null = null;

  /** Act now, or after all earlier requests. */
  run(act: () => void): void {
    if (this.inFlight === null) act();
    else this.waiting.push(act);
  }

  /** Send a request after all earlier ones. Pass on its reply or failure unless it is canceled. */
  ask<T>(
    send: (signal: AbortSignal) => Promise<T>,
    show: (reply: T) => void,
    fail: (error: unknown) => void,
  ): void {
    this.run(() => {
      const aborter = new AbortController();
      this.inFlight = aborter;
      const settle = (act: () => void): void => {
        if (this.inFlight !== aborter) return;
        this.inFlight = null;
        act();
        while (this.inFlight === null && this.waiting.length > 0) this.waiting.shift()!();
      };
      send(aborter.signal).then(
        (reply) => settle(() => show(reply)),
        (error: unknown) => settle(() => fail(error)),
      );
    });
  }

  /** Cancel the request in flight, and drop all requests that wait for it. */
  cancel(): void {
    this.inFlight?.abort();
    this.inFlight = null;
    this.waiting = [];
  }
}

/** Return a function that runs `call` at most once per `ms`, and always after the last request. */
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

/** Return a function that runs `call` once, `ms` after its own last call, unless canceled. */
export function debounce(
  ms: number,
  signal: AbortSignal,
  call: () => void,
): (() => void) & { cancel(): void } {
  let timer = 0;
  const cancel = (): void => clearTimeout(timer);
  signal.addEventListener("abort", cancel, { once: true });
  const restart = (): void => {
    cancel();
    if (!signal.aborted) timer = window.setTimeout(call, ms);
  };
  return Object.assign(restart, { cancel });
}

// Time marks over the lanes, set with M.

/** Add a mark for a time range. Of the marks that are not kept, only the newest remains. */
export function addTimeMark(marks: readonly TimeMark[], span: Span, isKept: boolean): TimeMark[] {
  const [start, end] = [Math.round(span[0]), Math.round(span[1])];
  const others = marks.filter(
    (mark) => (isKept || mark.kept) && !(mark.start === start && mark.end === end),
  );
  return [...others, { start, end, kept: isKept }];
}

/** Remove the mark nearest to a time; if several are equally near, the last one. */
export function removeNearestTimeMark(marks: readonly TimeMark[], time: number): TimeMark[] {
  const distances = marks.map(({ start, end }) => Math.max(start - time, time - end, 0));
  const nearest = distances.lastIndexOf(Math.min(...distances));
  return marks.filter((_, index) => index !== nearest);
}
