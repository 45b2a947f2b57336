import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { freshState, type LooseModel } from "../../test/model";
import { COMMIT_MS, type History, type StateKey, SAVE_MS, SharedStateStore } from "./store";

let end: AbortController;
let model: LooseModel;
let shared: SharedStateStore;
let heard: StateKey[][];

beforeEach(() => {
  vi.useFakeTimers();
  end = new AbortController();
  model = freshState();
  shared = new SharedStateStore(end.signal);
  shared.attach(model);
  heard = [];
  shared.onChange((keys) => heard.push([...keys]));
});
afterEach(() => {
  end.abort();
  vi.useRealTimers();
});

const historyOf = () => model.get("_history") as History;
const past = (): number => historyOf().past.length;

describe("writing", () => {
  test("a moving view is set immediately and saved rarely, its end immediately", () => {
    for (let at = 0; at < 10; at += 1) {
      shared.set({ view: [at, at + 100] }, true);
      vi.advanceTimersByTime(16);
    }
    expect(model.get("view")).toEqual([9, 109]);
    expect(model.saves).toBe(Math.floor(160 / SAVE_MS));
    shared.set({ view: [20, 120] }, true);
    const before = model.saves;
    shared.endGesture();
    expect(model.saves).toBe(before + 1);
    vi.advanceTimersByTime(SAVE_MS * 2);
    expect(model.saves).toBe(before + 1);
  });

  test("put() from outside the view adds one entry, and notifies listeners", () => {
    shared.set({ view: [0, 10] }, true);
    shared.commitPatch({ view: [5, 20], search: "gemm" }, "act");
    // The pending gesture is a separate entry.
    expect(past()).toBe(2);
    expect(historyOf().together).toBe("act");
    expect(heard).toEqual([["view", "search"]]);
    shared.commitPatch({ search: "gemm" }, "another");
    expect(past()).toBe(2);
    shared.undo();
    expect([model.get("view"), model.get("search")]).toEqual([[0, 10], ""]);
    shared.redo();
    expect([model.get("view"), model.get("search")]).toEqual([[5, 20], "gemm"]);
  });

  test("its own changes are not reported, changes of others are", () => {
    shared.set({ search: "gemm" });
    expect(heard).toEqual([]);
    model.set("search", "nccl");
    expect(heard).toEqual([["search"]]);
    expect(shared.state.search).toBe("nccl");
  });

  test("an event without a change is ignored", () => {
    model.values.search = "";
    // marimo emits an event even if the value is the same.
    model.set("search", "x");
    model.set("search", "x");
    expect(heard).toEqual([["search"]]);
  });

  test("a late echo does not reset a moving view", () => {
    shared.set({ view: [0, 100] }, true);
    shared.endGesture();
    shared.set({ view: [10, 110] }, true);
    model.set("view", [0, 100]);
    expect(heard).toEqual([]);
    expect(shared.state.view).toEqual([10, 110]);
    shared.endGesture();
    expect(model.get("view")).toEqual([10, 110]);
    // After the gesture, the same value is a deliberate change, for example an undo in Python.
    model.set("view", [5, 105]);
    expect(shared.state.view).toEqual([5, 105]);
  });

  test("a linked view follows without history, and no late echo resets it", () => {
    shared.applyLinked({ view: [0, 100] });
    vi.advanceTimersByTime(SAVE_MS);
    shared.applyLinked({ view: [10, 110] });
    model.set("view", [0, 100]);
    expect(heard).toEqual([["view"], ["view"]]);
    expect(shared.state.view).toEqual([10, 110]);
    vi.advanceTimersByTime(COMMIT_MS);
    expect(model.get("view")).toEqual([10, 110]);
    expect(past()).toBe(0);
  });

  test("unusual values of a host are converted", () => {
    model.set("selection", {});
    expect(shared.state.selection).toBeNull();
    model.set("selection", { start_ns: 5, end_ns: 9 });
    expect(shared.state.selection).toMatchObject({ start_ns: 5, end_ns: 9, ranks: null });
    model.set("pinned", undefined);
    expect(shared.state.pinned).toEqual([]);
  });
});

describe("history", () => {
  test("a gesture of many steps is one entry", () => {
    for (let at = 1; at < 20; at += 1) {
      shared.set({ view: [at, at + 100] }, true);
      vi.advanceTimersByTime(30);
    }
    expect(past()).toBe(0);
    vi.advanceTimersByTime(COMMIT_MS);
    expect(past()).toBe(1);
    expect(historyOf().past[0]?.view).toBeNull();
  });

  test("undo returns to the state before the gesture, redo to the state after it", () => {
    shared.set({ view: [1, 2], search: "a" });
    vi.advanceTimersByTime(COMMIT_MS);
    shared.set({ search: "b" });
    // The gesture has not settled yet, but undo reverts it.
    expect(shared.undo()).toBe(true);
    expect(shared.state).toMatchObject({ view: [1, 2], search: "a" });
    expect(shared.undo()).toBe(true);
    expect(shared.state).toMatchObject({ view: null, search: "" });
    expect(shared.undo()).toBe(false);
    expect(shared.redo()).toBe(true);
    expect(shared.redo()).toBe(true);
    expect(model.get("search")).toBe("b");
    expect(shared.redo()).toBe(false);
    expect(heard.flat()).toContain("view");
  });

  test("a change from Python is not recorded a second time", () => {
    model.set("_history", { past: [{ ...shared.state }], future: [] });
    model.set("view", [5, 50]);
    vi.advanceTimersByTime(COMMIT_MS * 2);
    expect(past()).toBe(1);
    shared.set({ search: "x" });
    vi.advanceTimersByTime(COMMIT_MS);
    expect(past()).toBe(2);
    // The entry restores the value set in Python, not an earlier one.
    expect(historyOf().past[1]).toMatchObject({ view: [5, 50], search: "" });
  });

  test("undo becomes possible with a gesture, and one that returns to its start leaves no entry", () => {
    expect(shared.steps.canUndo).toBe(false);
    shared.set({ search: "a" });
    expect(shared.steps.canUndo).toBe(true);
    shared.set({ search: "" });
    vi.advanceTimersByTime(COMMIT_MS);
    expect(past()).toBe(0);
  });
});

describe("linking", () => {
  test("another model is followed, the previous one is released", () => {
    const other = freshState();
    other.set("search", "other");
    shared.attach(other);
    expect(model.listenerCount).toBe(0);
    expect(shared.state.search).toBe("other");
    expect(heard.at(-1)).toEqual(["search"]);
    model.set("search", "ignored");
    expect(shared.state.search).toBe("other");
    shared.set({ color: "name" });
    expect(other.get("color")).toBe("name");
    expect(model.get("color")).toBe("kind");
  });

  test("two views of one state follow each other and record once", () => {
    const second = new SharedStateStore(end.signal);
    second.attach(model);
    const searched: unknown[] = [];
    second.onChange(() => searched.push(second.state.search));
    shared.set({ search: "a" });
    vi.advanceTimersByTime(COMMIT_MS * 2);
    expect(searched).toEqual(["a"]);
    expect(past()).toBe(1);
    expect(second.undo()).toBe(true);
    expect(shared.state.search).toBe("");
  });

  test("at the end listeners are removed, and the last gesture is saved", () => {
    shared.set({ view: [3, 4] }, true);
    end.abort();
    expect(model.listenerCount).toBe(0);
    expect(past()).toBe(1);
    expect(model.saves).toBeGreaterThan(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});
