/** Columns of numbers in tables: what they are read from, and the bars behind some. */

import { type Child, h } from "../app/dom";
import { formatCount, formatDuration } from "../draw/format";
import type { ColumnLook } from "./table";
import type { Value } from "./types";

export function numberOf(value: Value): number | null {
  return typeof value === "number" ? value : null;
}

export const counted = (value: Value): string => formatCount(numberOf(value));
export const lasted = (value: Value): string => formatDuration(numberOf(value));

/** A column of the numbers `by`, shown from a width on. */
export const number = (
  by: string,
  title: string,
  hint: string,
  words: (value: Value) => string,
  from?: number,
): ColumnLook => ({
  by,
  title,
  hint,
  width: "auto",
  isNumber: true,
  ...(from !== undefined && { from }),
  cell: (row) => [words(row(by))],
});

/** A bar of a value, and its text; `wait` of it is hatched. */
export function barCell(
  value: number | null,
  most: number,
  kind: string,
  text: string,
  wait = 0,
): Child[] {
  if (value === null) return [h("span", { class: "hta-note" }, "–")];
  const part = (size: number): string => `${((100 * size) / most).toFixed(2)}%`;
  return [
    h(
      "span",
      { class: "hta-cell-bar", "aria-hidden": "true" },
      value - wait > 0 && h("i", { "data-kind": kind, style: { width: part(value - wait) } }),
      wait > 0 && h("i", { class: "hta-cell-wait", style: { width: part(wait) } }),
    ),
    h("span", {}, text),
  ];
}
