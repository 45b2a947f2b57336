/** A chart's numbers as a table, for those who read rather than see. */

import { fill, h } from "../../app/dom";
import { formatCount, formatDuration, formatShare } from "../../draw/format";
import type { PanelFrame, Value } from "../types";
import { causeWords } from "./idle";
import { kindWords } from "./kernel_types";

const MOST = 500;

export function fillTable(el: HTMLElement, frame: PanelFrame): void {
  const names = Object.keys(frame.columns).filter((name) => plain(frame, name));
  const rows = Math.min(frame.rows, MOST);
  const text = (name: string): string =>
    names.length > 0 && typeof frame.columns[name]?.[0] === "string" ? "hta-chart-text" : "";
  const head = h("tr", {}, ...names.map((name) => h("th", { class: text(name) }, words(name))));
  const body = Array.from({ length: rows }, (_, row) =>
    h(
      "tr",
      {},
      ...names.map((name) =>
        h("td", { class: text(name) }, told(name, frame.columns[name]?.[row] ?? null)),
      ),
    ),
  );
  const more =
    frame.rows > rows ? [h("p", {}, `${formatCount(frame.rows - rows)} more rows not listed`)] : [];
  fill(el, h("table", {}, h("thead", {}, head), h("tbody", {}, ...body)), ...more);
}

function plain(frame: PanelFrame, name: string): boolean {
  return frame.columns[name]?.length === frame.rows;
}

function words(name: string): string {
  return name.replace(/_(ns|share)$/, "").replaceAll("_", " ");
}

function told(name: string, value: Value): string {
  if (typeof value === "string") {
    if (name === "idle_category") return causeWords(value);
    return name === "kernel_type" ? kindWords(value) : value;
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (name.endsWith("_ns")) return formatDuration(value);
  if (name.endsWith("_share") || name === "share") return formatShare(value);
  if (value === null) return "–";
  return Number.isInteger(value) ? formatCount(value) : String(Number(value.toPrecision(4)));
}
