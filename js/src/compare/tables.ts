/** Tables that only some formats have, as they are. */

import { h } from "../app/dom";
import { formatDuration } from "../draw/format";
import { type Frame, noteOf, rowsOf } from "./frames";

const MOST = 40;

function cell(name: string, value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  if (/_ns$/.test(name)) return formatDuration(value);
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

export function plainTable(name: string, frame: Frame): HTMLElement {
  const columns = Object.keys(frame.columns);
  return h(
    "section",
    { class: "hta-diff-pane hta-diff-plain" },
    h("h3", {}, name.replaceAll("_", " ")),
    frame.rows === 0
      ? h("p", { class: "hta-note" }, noteOf(frame) || "Nothing.")
      : h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ...columns.map((one) => h("th", { scope: "col" }, one.replaceAll("_", " "))),
            ),
          ),
          h(
            "tbody",
            {},
            ...rowsOf(frame)
              .slice(0, MOST)
              .map((row) => h("tr", {}, ...columns.map((one) => h("td", {}, cell(one, row[one]))))),
          ),
        ),
    frame.rows > MOST && h("p", { class: "hta-note" }, `${frame.rows - MOST} more rows in Python.`),
  );
}
