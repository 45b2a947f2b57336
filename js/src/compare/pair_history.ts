/** One history for two timelines: whose turn it is. Each keeps its own values. */

import type { History } from "../app/history";
import { same } from "../app/history";

type Side = 0 | 1;

interface Entry {
  sides: Side[];
  /** Brings what was chosen beside the timelines back to the other end of the entry. */
  turn?: (() => void) | undefined;
}

/** What changes on both sides within this was one act. */
export const TOGETHER_MS = 50;

/**
 * Whatever changes or undoes, in this page or in Python, the histories of the sides tell; this
 * one keeps their order. `hta_widgets/widgets/trace_diff.py` does the same.
 */
export class PairHistory {
  private past: Entry[] = [];
  private future: Entry[] = [];
  private walking = false;
  private acting: Side[] | null = null;
  private pushedAt = -Infinity;
  private turnedAt = -Infinity;

  /**
   * `walk` undoes or redoes on one side; false where there is nothing. `both` runs the walk of an
   * entry of both sides, where neither may lead the other.
   */
  constructor(
    private readonly walk: (side: Side, way: "undo" | "redo") => boolean,
    private readonly both: (walk: () => void) => void = (run) => run(),
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

  /**
   * Whatever `act` changes, on whichever side, is one entry. `turn` goes with it: it is called for
   * each undo and redo.
   */
  one(act: () => void, turn?: () => void): void {
    this.acting = [];
    let sides: Side[];
    try {
      act();
    } finally {
      sides = this.acting;
      this.acting = null;
    }
    if (sides.length === 0 && turn === undefined) return;
    this.past.push({ sides, turn });
    this.future = [];
    // What follows is another act, however soon.
    this.pushedAt = -Infinity;
  }

  /** A side's history was `before` and is `after` now. */
  heard(side: Side, before: History, after: History): void {
    const past = after.past.length - before.past.length;
    const future = after.future.length - before.future.length;
    if (this.walking) return;
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
      if (this.acting === null) this.push(side);
      else if (!this.acting.includes(side)) this.acting.push(side);
    }
  }

  private push(side: Side): void {
    const at = this.now();
    const last = this.past.at(-1);
    if (last !== undefined && at - this.pushedAt < TOGETHER_MS && !last.sides.includes(side)) {
      last.sides.push(side);
    } else {
      this.past.push({ sides: [side] });
    }
    this.pushedAt = at;
    this.future = [];
  }

  private step(source: Entry[], target: Entry[], way: "undo" | "redo"): boolean {
    for (let entry = source.pop(); entry !== undefined; entry = source.pop()) {
      const { sides, turn } = entry;
      let done: Side[] = [];
      const walk = (): void => {
        done = sides.filter((side) => this.walk(side, way));
      };
      this.walking = true;
      try {
        if (sides.length > 1) this.both(walk);
        else walk();
      } finally {
        this.walking = false;
      }
      if (done.length === 0 && turn === undefined) continue;
      turn?.();
      target.push({ sides: done, turn });
      return true;
    }
    return false;
  }

  /** Somebody else undid or redid on one side. */
  private turn(side: Side, source: Entry[], target: Entry[]): void {
    const entry = [...source].reverse().find(({ sides }) => sides.includes(side));
    if (entry === undefined) return;
    const rest = entry.sides.filter((one) => one !== side);
    // What was chosen goes with the side that is heard of first.
    source.splice(source.indexOf(entry), 1, ...(rest.length > 0 ? [{ sides: rest }] : []));
    entry.turn?.();
    const now = this.now();
    const last = target.at(-1);
    if (last !== undefined && now - this.turnedAt < TOGETHER_MS && !last.sides.includes(side)) {
      last.sides.push(side);
    } else {
      target.push({ sides: [side], turn: entry.turn });
    }
    this.turnedAt = now;
  }
}
