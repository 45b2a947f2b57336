/**
 * Combine the histories of two timelines into one order. Each timeline keeps its own values.
 *
 * An entry is an act and the sides that it changed. Changes with the same act arrive separately and
 * join the same entry:
 *
 *   mark a name in the list of changes   past: {act "a", sides 0 and 1}
 *   zoom on side 0                       past: "a", {act "1", side 0}
 *   undo                                 past: "a"; future: "1"
 *   Python undoes on side 0              past: {act "a", side 1}; future: "1", {act "a", side 0}
 *   Python undoes on side 1              past: empty; future: "1", {act "a", sides 0 and 1}
 */

import { type Signal, signal } from "@preact/signals";
import { type History, isSameJson } from "../connection/store";
import type { Side } from "./frames";

interface HistoryEntry {
  act: string;
  sides: readonly Side[];
  /** Undo or redo the choice made outside the timelines. */
  swapChoice?: (() => void) | undefined;
}

type Stack = Signal<readonly HistoryEntry[]>;

/**
 * Each side's history records all changes, from this page and from Python. This class keeps their
 * order, as does `hta_widgets/widgets/pair_history.py`.
 */
export class PairHistory {
  private readonly past: Stack = signal([]);
  private readonly future: Stack = signal([]);
  private isTravelling = false;
  private unnamedCount = 0;

  /**
   * `moveSide` undoes or redoes on one side; it returns false if it cannot. `together` runs the
   * moves of both sides without making either side the leader.
   */
  constructor(
    private readonly moveSide: (side: Side, direction: "undo" | "redo") => boolean,
    private readonly together: (move: () => void) => void,
  ) {}

  get canUndo(): boolean {
    return this.past.value.length > 0;
  }

  get canRedo(): boolean {
    return this.future.value.length > 0;
  }

  /**
   * Begin an act. A change of either side belongs to it if `History.together` holds the act's name.
   * Each undo and redo of the entry calls `swapChoice`.
   */
  beginAct(act: string, swapChoice: () => void): void {
    this.past.value = [...this.past.value, { act, sides: [], swapChoice }];
    this.future.value = [];
  }

  /** Record that a side's history changed from `before` to `after`. */
  recordChange(side: Side, before: History, after: History): void {
    const step = stepBetween(before, after);
    if (this.isTravelling || step === null) return;
    if (step === "undo") this.travelSide(side, this.past, this.future);
    else if (step === "redo") this.travelSide(side, this.future, this.past);
    else {
      // A change without an act becomes an act of its own.
      this.unnamedCount += 1;
      addSide(this.past, side, { act: after.together ?? String(this.unnamedCount) });
      this.future.value = [];
    }
  }

  /** Undo or redo one entry. Return false at the end of the history. */
  travel(direction: "undo" | "redo"): boolean {
    const { past, future } = this;
    const [source, target] = direction === "undo" ? [past, future] : [future, past];
    for (let entry = source.value.at(-1); entry !== undefined; entry = source.value.at(-1)) {
      const { sides, swapChoice } = entry;
      source.value = source.value.slice(0, -1);
      let movedSides: readonly Side[] = [];
      const move = (): void => {
        movedSides = sides.filter((side) => this.moveSide(side, direction));
      };
      this.isTravelling = true;
      try {
        if (sides.length > 1) this.together(move);
        else move();
      } finally {
        this.isTravelling = false;
      }
      if (movedSides.length === 0 && swapChoice === undefined) continue;
      swapChoice?.();
      target.value = [...target.value, { ...entry, sides: movedSides }];
      return true;
    }
    return false;
  }

  /** Follow an undo or redo made on one side, for example from Python. */
  private travelSide(side: Side, source: Stack, target: Stack): void {
    const entry = source.value.filter(({ sides }) => sides.includes(side)).at(-1);
    if (entry === undefined) return;
    const { act, swapChoice } = entry;
    const sides = entry.sides.filter((other) => other !== side);
    // The choice is undone or redone when the first side reports the move.
    const rest = sides.length > 0 ? [{ act, sides }] : [];
    source.value = source.value.flatMap((other) => (other === entry ? rest : [other]));
    swapChoice?.();
    addSide(target, side, { act, swapChoice });
  }
}

/** Add a side to the last entry if it is the same act; otherwise add a new entry. */
function addSide(stack: Stack, side: Side, act: Omit<HistoryEntry, "sides">): void {
  const last = stack.value.at(-1);
  const joins = last?.act === act.act && !last.sides.includes(side);
  stack.value = joins
    ? [...stack.value.slice(0, -1), { ...last, sides: [...last.sides, side] }]
    : [...stack.value, { ...act, sides: [side] }];
}

/** Return the step from one state of a side's history to the next; null if only values changed. */
function stepBetween(before: History, after: History): "undo" | "redo" | "change" | null {
  const past = after.past.length - before.past.length;
  const future = after.future.length - before.future.length;
  if (past < 0 && future > 0) return "undo";
  if (after.future.length > 0) return past > 0 && future < 0 ? "redo" : null;
  // If the history is full, a change replaces the last entry and the length stays the same.
  const isChange = past > 0 || !isSameJson(after.past.at(-1), before.past.at(-1));
  return isChange && after.past.length > 0 ? "change" : null;
}
