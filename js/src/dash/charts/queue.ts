/** How much launched work waits: as `charts.queue_length_summary` draws it. */

import { formatCount, formatValue } from "../../draw/format";
import type { PanelFrame } from "../types";
import { markedRows, numbers, type RowsContent, texts } from "./content";
import { niceTicks, noteOf, sentences, unmatched } from "./phrases";

/** More queues than this are drawn as one a rank. */
const MOST = 48;

export function queue(frame: PanelFrame): RowsContent | string {
  const rank = numbers(frame, "rank");
  const stream = texts(frame, "stream");
  const means = numbers(frame, "time_weighted_mean");
  const most = numbers(frame, "max");
  const count = numbers(frame, "count");
  let kept = rank.map((_, at) => at).filter((at) => Number.isFinite(most[at]));
  if (kept.length === 0) return noteOf(frame) || "nothing to draw";
  let said = "";
  if (kept.length > MOST && new Set(kept.map((at) => rank[at])).size < kept.length) {
    const longest = new Map<number, number>();
    for (const at of kept) {
      const before = longest.get(rank[at]!);
      if (before === undefined || (means[at]! || 0) > (means[before]! || 0)) {
        longest.set(rank[at]!, at);
      }
    }
    kept = [...longest.keys()].sort((a, b) => a - b).map((each) => longest.get(each)!);
    said = "of each rank the stream with the longest queue";
  }
  const several = kept.some((at) => rank[at] !== rank[kept[0]!]);
  const names = kept.map((at) =>
    several ? `rank ${rank[at]} · stream ${stream[at]}` : `stream ${stream[at]}`,
  );
  const highest = kept.reduce((high, at) => Math.max(high, most[at]!), 0) || 1;
  const ticks = niceTicks(highest, 3).filter((at) => Number.isInteger(at));
  const longest = kept.reduce((a, b) => ((means[b]! || 0) > (means[a]! || 0) ? b : a));
  return {
    title: "Launched and not yet started",
    subtitle: sentences(
      "kernels and copies in a stream's queue",
      "a short queue: the GPU waits for launches",
      said,
      unmatched(frame, ["launched"]),
    ),
    finding: `longest: ${names[kept.indexOf(longest)]!}, ${length(means[longest]!)} in the mean, ${formatValue(most[longest]!)} at most`,
    names,
    keys: kept.map((at) => [rank[at]!]),
    ...(several
      ? markedRows(
          frame,
          kept.map((at) => rank[at]!),
        )
      : {}),
    data: {
      row: kept.map((_, row) => row),
      max: kept.map((at) => most[at]!),
      mean: kept.map((at) => means[at]! || 0),
    },
    xStart: 0,
    xEnd: highest * 1.02,
    ticks: ticks.map((at) => [at, formatCount(at)]),
    head: "",
    columns: [
      { head: "mean", texts: kept.map((at) => length(means[at]!)) },
      { head: "most", texts: kept.map((at) => formatValue(most[at]!)) },
    ],
    legend: [
      [1, "mean over time"],
      [0, "most"],
    ],
    tip: (row) => ({
      heading: `rank ${rank[kept[row]!]} · stream ${stream[kept[row]!]}`,
      lines: [
        ["mean over time", length(means[kept[row]!]!)],
        ["most", formatValue(most[kept[row]!]!)],
        ["changes", formatCount(count[kept[row]!]!)],
      ],
    }),
  };
}

/** Two digits tell short queues apart, and more say nothing. */
function length(mean: number): string {
  if (!Number.isFinite(mean)) return formatValue(NaN);
  if (mean > 0 && mean < 0.01) return "<0.01";
  return formatValue(mean >= 10 ? Math.round(mean) : Number(mean.toPrecision(2)));
}
