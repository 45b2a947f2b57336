import { expect, test } from "vitest";
import type { Brush, ChartSelection } from "../protocol/source";
import { type GestureTarget, watchGestures } from "./gestures";

const EVERYTHING: ChartSelection = { ranks: null, names: null, kinds: null, window: null };

function openPlot() {
  const plot = document.createElement("div");
  const leaked: string[] = [];
  const host = document.createElement("div");
  host.addEventListener("keydown", ({ key }) => leaked.push(key));
  host.append(plot);
  const target: Partial<Record<keyof GestureTarget, unknown>> & { selection: ChartSelection } = {
    plot,
    selection: EVERYTHING,
    drawing: {
      nextTarget: () => 1,
      targetOf: (item: number) => item,
      press: (rank: number): Brush => ({ ranks: [rank] }),
    },
    brush: ({ ranks = null }: Brush) => (target.selection = { ...EVERYTHING, ranks }),
    focus: (item: unknown) => focused.push(item),
  };
  const focused: unknown[] = [];
  watchGestures(target as unknown as GestureTarget, new AbortController().signal);
  const press = (key: string): void => {
    plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  };
  return { target, leaked, focused, press };
}

test("Escape after Enter reaches the dashboard, which clears the selection", () => {
  const { target, leaked, focused, press } = openPlot();
  for (const key of ["ArrowDown", "Enter", "Escape"]) press(key);
  expect(target.selection.ranks).toEqual([1]);
  expect(focused.at(-1)).toBeNull();
  expect(leaked).toEqual(["Escape"]);
});

test("Escape with nothing selected only removes the mark of the keyboard", () => {
  const { leaked, focused, press } = openPlot();
  for (const key of ["ArrowDown", "Escape"]) press(key);
  expect(focused.at(-1)).toBeNull();
  expect(leaked).toEqual([]);
  press("Escape");
  expect(leaked).toEqual(["Escape"]);
});
