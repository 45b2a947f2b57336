/** Durations of one name on one rank, with one event marked. */

import type { Kind } from "../../contract";
import {
  formatDuration,
  formatRange,
  formatShareDelta,
  formatValue,
  plural,
} from "../../draw/format";
import type { EventDetail, SameName } from "../detail";
import { h } from "../dom";

const THIN = "\u2009";
const NARROW_UNBROKEN = "\u202f";

/** Where a duration lies along the bins, from 0 to 1. Bins are drawn equally wide. */
export function alongBins(edges: readonly number[], value: number): number {
  const bins = edges.length - 1;
  if (bins < 1) return 0;
  for (let bin = 0; bin < bins; bin += 1) {
    const low = edges[bin] ?? 0;
    const high = edges[bin + 1] ?? 0;
    if (value > high && bin < bins - 1) continue;
    const within = high > low ? (value - low) / (high - low) : 0.5;
    return (bin + Math.min(Math.max(within, 0), 1)) / bins;
  }
  return 1;
}

/** The finding, in words. */
export function histogramWords(same: SameName, dur: number): string {
  const range =
    same.min === same.max
      ? `all ${formatDuration(same.min)}`
      : `${formatRange(same.min, same.max)}, median ${formatDuration(same.median)}`;
  const ratio = same.median > 0 ? dur / same.median : 1;
  const against =
    ratio >= 2
      ? `; this one ${formatValue(Number(ratio.toPrecision(2)))}× the median`
      : `; this one ${formatShareDelta(ratio - 1)}`;
  const words = `${plural(same.count, "event")}, ${range}${same.min === same.max ? "" : against}`;
  return words.replaceAll(THIN, NARROW_UNBROKEN);
}

export function histogram(detail: EventDetail): HTMLElement {
  const { event, same } = detail;
  const title = h("h3", {}, `This name on rank ${event.rank}`);
  if (same === null || same.count === 0) {
    return h("div", { class: "hta-histogram" }, title, h("p", { class: "hta-note" }, "Not known."));
  }
  if (same.count === 1) {
    const only = `The only event of this name on rank ${event.rank}.`;
    return h("div", { class: "hta-histogram" }, title, h("p", { class: "hta-note" }, only));
  }
  const words = histogramWords(same, event.dur);
  return h(
    "div",
    { class: "hta-histogram" },
    title,
    h("p", { class: "hta-note" }, words),
    same.counts.length > 1 && chart(same, event.dur, event.kind, words),
  );
}

function chart(same: SameName, dur: number, kind: Kind, words: string): HTMLElement {
  const most = Math.max(...same.counts, 1);
  const at = alongBins(same.edges, dur);
  const own = Math.min(Math.floor(at * same.counts.length), same.counts.length - 1);
  const first = same.edges[0] ?? same.min;
  const last = same.edges.at(-1) ?? same.max;
  const bars = same.counts.map((count, bin) =>
    h("div", {
      class: `hta-bar${bin === own ? " hta-own" : ""}`,
      "data-kind": kind,
      style: { height: count === 0 ? "0" : `max(2px, ${(count / most) * 100}%)` },
      title: `${formatDuration(same.edges[bin] ?? 0)} to ${formatDuration(same.edges[bin + 1] ?? 0)}: ${plural(count, "event")}`,
    }),
  );
  return h(
    "div",
    { class: "hta-chart", role: "img", "aria-label": `Durations: ${words}` },
    h(
      "span",
      { class: "hta-chart-top" },
      `tallest bar: ${plural(most, "event")}${same.scale === "log" ? " · logarithmic widths" : ""}`,
    ),
    h(
      "div",
      { class: "hta-bars" },
      ...bars,
      h("div", { class: "hta-bar-mark", style: { left: `${at * 100}%` } }),
    ),
    h(
      "div",
      { class: "hta-chart-axis" },
      h("span", {}, formatDuration(first)),
      h("b", {}, `this one ${formatDuration(dur)}`),
      h("span", {}, formatDuration(last)),
    ),
  );
}
