import { expect, test } from "vitest";
import type { SharedState } from "../protocol/source";
import { type History, HISTORY_CAP, NOTHING, pushed, readHistory, redone, undone } from "./store";

const state = (search: string): SharedState => ({ ...NOTHING, search });
const empty: History = { past: [], future: [] };

test("undo and redo walk the same states in both directions", () => {
  let history = pushed(pushed(empty, state("a")), state("b"));
  let now = state("c");
  const seen: string[] = [];
  for (const walk of [undone, undone, redone, redone]) {
    const step = walk(history, now);
    if (step === null) throw new Error("no step");
    ({ history, state: now } = step);
    seen.push(now.search);
  }
  expect(seen).toEqual(["b", "a", "b", "c"]);
  expect(redone(history, now)).toBeNull();
});

test("a new entry discards what had been undone", () => {
  const step = undone(pushed(empty, state("a")), state("b"));
  expect(step?.history.future).toHaveLength(1);
  expect(pushed(step!.history, step!.state).future).toEqual([]);
});

test("the oldest entries go when there are too many", () => {
  let history = empty;
  for (let i = 0; i < HISTORY_CAP + 5; i += 1) history = pushed(history, state(String(i)));
  expect(history.past).toHaveLength(HISTORY_CAP);
  expect(history.past[0]?.search).toBe("5");
});

test("without entries there is nothing to undo", () => {
  expect(undone(readHistory(null), NOTHING)).toBeNull();
  expect(redone(readHistory({ past: "?" }), NOTHING)).toBeNull();
});
