/** Bars of tables. */

import { h, render } from "preact";
import { expect, test } from "vitest";
import { BarCell, Table } from "./table";

/** Return the bar widths in a column of values. */
function barWidths(values: readonly number[]): string[] {
  const el = document.createElement("div");
  document.body.append(el);
  const columns = [
    {
      by: "time",
      title: "time",
      cell: (value: number, max: number) => h(BarCell, { value, max, kind: "cpu", text: "" }),
    },
  ];
  const table = h(Table<number>, {
    name: "times",
    columns,
    rows: [...values],
    value: (value) => value,
    namesOf: (value) => [String(value)],
    isOn: () => false,
    press: () => undefined,
  });
  render(table, el);
  const widths = [...el.querySelectorAll("i")].map((bar) => bar.style.width);
  el.remove();
  return widths;
}

test.each([
  ["nanoseconds", [4_000_000, 1_000_000], ["100%", "25%"]],
  ["seconds, all below one", [0.04, 0.01], ["100%", "25%"]],
  ["zeros", [0, 0], []],
])("the longest bar fills its column: %s", (_, values, expected) => {
  expect(barWidths(values)).toEqual(expected);
});
