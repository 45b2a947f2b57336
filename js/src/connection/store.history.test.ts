import { LIMITS } from "../facts/limits";
import { expect, test } from "vitest";
import type { SharedState } from "../protocol/source";
import { type History, INITIAL_STATE, pushHistory, readHistory, redoStep, undoStep } from "./store";

const state = (search: string): SharedState => ({ ...INITIAL_STATE, search });
const empty: History = { past: [], future: [] };

test("undo and redo traverse the same states in both directions", () => {
  let history = pushHistory(pushHistory(empty, state("a")), state("b"));
  let now = state("c");
  const seen: string[] = [];
  for (const walk of [undoStep, undoStep, redoStep, redoStep]) {
    const step = walk(history, now);
    if (step === null) throw new Error("no step");
    ({ history, state: now } = step);
    seen.push(now.search);
  }
  expect(seen).toEqual(["b", "a", "b", "c"]);
  expect(redoStep(history, now)).toBeNull();
});

test("a new entry discards undone entries", () => {
  const step = undoStep(pushHistory(empty, state("a")), state("b"));
  expect(step?.history.future).toHaveLength(1);
  expect(pushHistory(step!.history, step!.state).future).toEqual([]);
});

test("the oldest entries are dropped if there are too many", () => {
  let history = empty;
  for (let i = 0; i < LIMITS.history_entries + 5; i += 1)
    history = pushHistory(history, state(String(i)));
  expect(history.past).toHaveLength(LIMITS.history_entries);
  expect(history.past[0]?.search).toBe("5");
});

test("without entries there is nothing to undo", () => {
  expect(undoStep(readHistory(null), INITIAL_STATE)).toBeNull();
  expect(redoStep(readHistory({ past: "?" }), INITIAL_STATE)).toBeNull();
});
