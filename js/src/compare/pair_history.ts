/** One history for two timelines: whose turn it is. Each keeps its own values. */

import type { History } from "../app/history";
import { same } from "../app/history";

type Side = 0 | 1;

/** What changes on both sides within this was one act. */
export const TOGETHER_MS = 50;

/**
 * Whatever changes or undoes, in this page or in Python, the histories of the sides tell; this
 * one keeps their order. `hta_widgets/widgets/pair_history.py` does the same.
 */
export class PairHistory {
  private past: Side[][] = [];
  private future: Side[][] = [];
  private walking: Side[] | null = null;
  private pushedAt = -Infinity;

  /** `walk` undoes or redoes on one side; false where there is nothing. */
  constructor(
    private readonly walk: (side: Side, way: "undo" | "redo") => boolean,
    private readonly now: () => number = () => performance.now(),
  ) {}

  get canUndo(): boolean {
    return this.past.length > 0;
  }

  get canRedo(): boolean {
    return this.future.length > 0;
  }

  undo(): boolean {
    return this.step(this.past, this.future, "undo");
  }

  redo(): boolean {
    return this.step(this.future, this.past, "redo");
  }

  /** A side's history was `before` and is `after` now. */
  heard(side: Side, before: History, after: History): void {
    const past = after.past.length - before.past.length;
    const future = after.future.length - before.future.length;
    if (this.walking !== null) return;
    if (past < 0 && future > 0) this.turn(side, this.past, this.future);
    // A change forgets what was undone: where one was, a redo looks like it.
    else if (future < 0 && past > 0 && after.future.length > 0)
      this.turn(side, this.future, this.past);
    // A full history grows no more: its last entry is another one.
    else if (
      after.future.length === 0 &&
      after.past.length > 0 &&
      (past > 0 || !same(after.past.at(-1), before.past.at(-1)))
    ) {
      this.push(side);
    }
  }

  private push(side: Side): void {
    const at = this.now();
    const last = this.past.at(-1);
    if (last !== undefined && at - this.pushedAt < TOGETHER_MS && !last.includes(side)) {
      last.push(side);
    } else {
      this.past.push([side]);
    }
    this.pushedAt = at;
    this.future = [];
  }

  private step(source: Side[][], target: Side[][], way: "undo" | "redo"): boolean {
    for (let sides = source.pop(); sides !== undefined; sides = source.pop()) {
      this.walking = [];
      let done: Side[];
      try {
        done = sides.filter((side) => this.walk(side, way));
      } finally {
        this.walking = null;
      }
      if (done.length === 0) continue;
      target.push(done);
      return true;
    }
    return false;
  }

  /** Somebody else undid or redid on one side. */
  private turn(side: Side, source: Side[][], target: Side[][]): void {
    for (let at = source.length - 1; at >= 0; at -= 1) {
      const sides = source[at]!;
      if (!sides.includes(side)) continue;
      const rest = sides.filter((one) => one !== side);
      source.splice(at, 1, ...(rest.length > 0 ? [rest] : []));
      target.push([side]);
      return;
    }
  }
}
