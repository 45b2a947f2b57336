/** One history for two timelines: the order of their entries. Each keeps its own values. */

import { signal } from "@preact/signals";
import { type History, isSameJson } from "../connection/store";
import type { Side } from "./frames";

interface HistoryEntry {
  sides: readonly Side[];
  /** When a side was added, ms; -Infinity if no other side may join. */
  at: number;
  /** Undoes or redoes the choice made outside the timelines. */
  turn?: (() => void) | undefined;
}

/** Changes of both sides within this time are one entry. */
const MERGE_WITHIN_MS = 50;

/**
 * The histories of the sides record all changes, from this page and from Python; this one keeps
 * their order. `hta_widgets/widgets/pair_history.py` does the same.
 */
export class PairHistory {
  private readonly past = signal<readonly HistoryEntry[]>([]);
  private readonly future = signal<readonly HistoryEntry[]>([]);
  private isWalking = false;
  private sidesOfAct: Side[] | null = null;

  /**
   * `walk` undoes or redoes on one side; false if there is nothing. `both` runs the walk of an
   * entry of both sides, during which neither may lead the other.
   */
  constructor(
    private readonly walk: (side: Side, way: "undo" | "redo") => boolean,
    private readonly both: (walk: () => void) => void,
    private readonly now: () => number = () => performance.now(),
  ) {}

  get canUndo(): boolean {
    return this.past.value.length > 0;
  }

  get canRedo(): boolean {
    return this.future.value.length > 0;
  }

  /**
   * Record all changes by `act`, on either side, as one entry. `turn` belongs to the entry: it is
   * called at each undo and redo.
   */
  recordAct(act: () => void, turn: () => void): void {
    const sides: Side[] = [];
    this.sidesOfAct = sides;
    try {
      act();
    } finally {
      this.sidesOfAct = null;
    }
    this.past.value = [...this.past.value, { sides, at: -Infinity, turn }];
    this.future.value = [];
  }

  /** Record that a side's history has changed from `before` to `after`. */
  recordChange(side: Side, before: History, after: History): void {
    const past = after.past.length - before.past.length;
    const future = after.future.length - before.future.length;
    if (this.isWalking) return;
    if (past < 0 && future > 0) this.travelSide(side, "past", "future");
    // A new change clears the redo entries; if there were any, a redo looks the same here.
    else if (future < 0 && past > 0 && after.future.length > 0)
      this.travelSide(side, "future", "past");
    // A full history does not grow, but its last entry changes.
    else if (
      after.future.length === 0 &&
      after.past.length > 0 &&
      (past > 0 || !isSameJson(after.past.at(-1), before.past.at(-1)))
    ) {
      if (this.sidesOfAct === null) {
        this.add(side, "past");
        this.future.value = [];
      } else if (!this.sidesOfAct.includes(side)) this.sidesOfAct.push(side);
    }
  }

  /** Go one step back or forward; false at the end of the history. */
  travel(way: "undo" | "redo"): boolean {
    const [source, target] = way === "undo" ? [this.past, this.future] : [this.future, this.past];
    for (let entry = source.value.at(-1); entry !== undefined; entry = source.value.at(-1)) {
      const { sides, turn } = entry;
      source.value = source.value.slice(0, -1);
      let done: readonly Side[] = [];
      const walk = (): void => {
        done = sides.filter((side) => this.walk(side, way));
      };
      this.isWalking = true;
      try {
        if (sides.length > 1) this.both(walk);
        else walk();
      } finally {
        this.isWalking = false;
      }
      if (done.length === 0 && turn === undefined) continue;
      turn?.();
      target.value = [...target.value, { sides: done, at: -Infinity, turn }];
      return true;
    }
    return false;
  }

  /** Handle an undo or redo that was made elsewhere on one side. */
  private travelSide(side: Side, from: "past" | "future", to: "past" | "future"): void {
    const source = this[from];
    const entry = source.value.filter(({ sides }) => sides.includes(side)).at(-1);
    if (entry === undefined) return;
    const rest = entry.sides.filter((one) => one !== side);
    // The choice is undone or redone with the side that reports first.
    const left = rest.length > 0 ? [{ sides: rest, at: -Infinity }] : [];
    source.value = source.value.flatMap((one) => (one === entry ? left : [one]));
    entry.turn?.();
    this.add(side, to, entry.turn);
  }

  /** Add a side to the last entry if the other one changed just before, else as a new entry. */
  private add(side: Side, to: "past" | "future", turn?: () => void): void {
    const stack = this[to];
    const at = this.now();
    const last = stack.value.at(-1);
    stack.value =
      last !== undefined && at - last.at < MERGE_WITHIN_MS && !last.sides.includes(side)
        ? [...stack.value.slice(0, -1), { ...last, sides: [...last.sides, side], at }]
        : [...stack.value, { sides: [side], at, turn }];
  }
}
