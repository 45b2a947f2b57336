/** State shared by the parts of a comparison. */

import { type ReadonlySignal, signal } from "@preact/signals";
import type { LiveSource } from "../connection/answering";
import { type Model, saveTrait, traitSignal } from "../connection/store";
import {
  asError,
  type PanelFrame,
  isAbort,
  type Scene,
  type Source,
  type Span,
  type ThemeName,
} from "../protocol/source";
import { Emitter } from "../timeline/context";
import type { AlignmentBase } from "./align";
import {
  type DiffFacts,
  type BySide,
  type PairedEvents,
  FrameCache,
  perStep,
  sideSource,
  swapSides,
} from "./frames";

export type Color = "change" | "kind" | "name";

export interface DiffOptions {
  scenes: BySide<Scene>;
  states: BySide<Model>;
  source: Source;
  /** The widget's traits. */
  model: Model;
  /** Data from the kernel, which also writes files; null without a kernel. */
  live: LiveSource | null;
  signal: AbortSignal;
}

/** The user's selection in the panels. */
export interface DiffChoice {
  step: number | null;
  /** The row of the change whose events are marked. */
  change: number | null;
  name: string | null;
  /** The marked node of the tree (-1: none) and the topmost node shown (-1: all are shown). */
  node: number;
  top: number;
}

export const NO_CHOICE: DiffChoice = { step: null, change: null, name: null, node: -1, top: -1 };

export class DiffContext {
  readonly about: DiffFacts;
  readonly frames: FrameCache;
  /** The timelines' data sources, before and after. */
  readonly sources: BySide<Source>;
  readonly swapped: ReadonlySignal<boolean>;
  readonly coupled: ReadonlySignal<boolean>;
  readonly base: ReadonlySignal<AlignmentBase>;
  /** The rank pair to which figures and timelines are restricted; null for all. */
  readonly pair: ReadonlySignal<number | null>;
  readonly color: ReadonlySignal<Color>;
  readonly theme = signal<ThemeName>("light");
  /** Text of the status line. Null shows the default hint. */
  readonly statusText = signal<string | null>(null);
  readonly choice = signal(NO_CHOICE);
  /** The event under the pointer and the selected event, with their partners in the other run. */
  readonly hoveredPair = signal<PairedEvents | null>(null);
  readonly selectedPair = signal<PairedEvents | null>(null);
  /** The windows that show all of the runs before and after in the current alignment. */
  wholes: BySide<Span>;
  /** The rank pair whose operator tree is shown; null for all. */
  treeOf: number | null = null;
  /** Emitted to repeat failed requests. */
  readonly reloadRequested = new Emitter();

  constructor(readonly options: DiffOptions) {
    const { model, scenes, source, signal: abortSignal } = options;
    this.wholes = [scenes[0].range, scenes[1].range];
    const trait = <T>(name: string, read: (value: unknown) => T): ReadonlySignal<T> =>
      traitSignal(model, name, read, abortSignal);
    this.about = model.get("_about") as DiffFacts;
    this.frames = new FrameCache(source, abortSignal);
    this.sources = [sideSource(source, 0), sideSource(source, 1)];
    this.swapped = trait("swapped", (on) => on === true);
    this.coupled = trait("coupled", (on) => on === true);
    this.base = trait("align", (base) => (base ?? "steps") as AlignmentBase);
    this.pair = trait("pair", (value) => (typeof value === "number" ? value : null));
    this.color = trait("color", (value) => (value ?? "change") as Color);
  }

  saveTrait(name: string, value: unknown): void {
    saveTrait(this.options.model, name, value);
  }

  fail(error: unknown): void {
    if (isAbort(error) || this.options.signal.aborted) return;
    this.statusText.value = asError(error).message;
  }

  /** Return the values before and after in display order. */
  inOrder<T>([before, after]: BySide<T>): [T, T] {
    return this.swapped.value ? [after, before] : [before, after];
  }

  /** Return the name of the findings frame, whose texts follow the display order. */
  get findings(): string {
    return this.swapped.value ? "findings:swapped" : "findings";
  }

  /** Return a frame with its sides in display order. */
  async loadFrame(name: string): Promise<PanelFrame> {
    const frame = await this.frames.get(name);
    const shown = /^(waterfall|names)\b/.test(name) ? perStep(frame) : frame;
    return this.swapped.value ? swapSides(shown) : shown;
  }
}
