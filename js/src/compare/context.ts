/** State that the parts of a comparison share. */

import { type ReadonlySignal, signal } from "@preact/signals";
import type { LiveSource } from "../connection/answering";
import { type Model, traitOf } from "../connection/store";
import { asError, type Frame, isAbort, type Scene, type Source } from "../protocol/source";
import type { ThemeName } from "../protocol/source";
import { Emitter } from "../timeline/context";
import type { Base } from "./align";
import { type About, type Both, Frames, sideOf, turned } from "./frames";

export type Colour = "change" | "kind" | "name";
export type Arrange = "stacked" | "beside";

export interface DiffOptions {
  scenes: Both<Scene>;
  states: Both<Model>;
  source: Source;
  /** The widget's own traits. */
  model: Model;
  /** The kernel, which writes files, and the data fetched from it; null without a kernel. */
  live: LiveSource | null;
  signal: AbortSignal;
}

/** What is chosen in the panels. */
export interface Choice {
  step: number | null;
  /** The row of changes or the name whose events are marked. */
  change: number | null;
  name: string | null;
  /** The marked node of the tree, -1 for none, and the node at its top, -1 for all nodes. */
  node: number;
  top: number;
}

export const NO_CHOICE: Choice = { step: null, change: null, name: null, node: -1, top: -1 };

export class Context {
  readonly about: About;
  readonly frames: Frames;
  /** Before and after, as the sources of their timelines. */
  readonly sources: Both<Source>;
  readonly swapped: ReadonlySignal<boolean>;
  readonly coupled: ReadonlySignal<boolean>;
  readonly base: ReadonlySignal<Base>;
  /** The pair of ranks for figures and timelines; null for all. */
  readonly pair: ReadonlySignal<number | null>;
  readonly colour: ReadonlySignal<Colour>;
  readonly arrange: ReadonlySignal<Arrange>;
  readonly theme = signal<ThemeName>("light");
  /** Text of the status line; null for its hint. */
  readonly said = signal<string | null>(null);
  readonly choice = signal(NO_CHOICE);
  /** The pair of ranks whose tree is shown; null for all. */
  treeOf: number | null = null;
  /** Emitted to repeat failed requests. */
  readonly again = new Emitter();

  constructor(readonly options: DiffOptions) {
    const { model, source, signal: ended } = options;
    const trait = <T>(name: string, read: (value: unknown) => T): ReadonlySignal<T> =>
      traitOf(model, name, read, ended);
    this.about = model.get("_about") as About;
    this.frames = new Frames(source, ended);
    this.sources = [sideOf(source, 0), sideOf(source, 1)];
    this.swapped = trait("swapped", (on) => on === true);
    this.coupled = trait("coupled", (on) => on === true);
    this.base = trait("align", (base) => (base ?? "steps") as Base);
    this.pair = trait("pair", (at) => (typeof at === "number" ? at : null));
    this.colour = trait("color", (by) => (by ?? "change") as Colour);
    this.arrange = trait("arrange", (by) => (by ?? "stacked") as Arrange);
  }

  /** Write one of the widget's own traits. */
  keep(name: string, value: unknown): void {
    const { model } = this.options;
    model.set(name, value);
    model.save_changes();
  }

  /** Show an error in the status line. */
  fail(error: unknown): void {
    if (isAbort(error) || this.options.signal.aborted) return;
    this.said.value = asError(error).message;
  }

  /** Before and after in the order of display. */
  inOrder<T>([before, after]: Both<T>): [T, T] {
    return this.swapped.value ? [after, before] : [before, after];
  }

  /** The name of the frame of findings, whose texts follow the order of display. */
  get findings(): string {
    return this.swapped.value ? "findings:swapped" : "findings";
  }

  /** A frame with its sides in the order of display. */
  async framed(name: string): Promise<Frame> {
    const frame = await this.frames.get(name);
    return this.swapped.value ? turned(frame) : frame;
  }
}
