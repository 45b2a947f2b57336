/** What the heatmap shows before it is laid out: as `charts.rank_time_heatmap` has it. */

import { formatDuration, formatShare } from "../../draw/format";
import type { PanelFrame } from "../types";
import { markedRows, numbers } from "./content";
import { extremes, noteOf, sentences, sum, unmatched } from "./phrases";

interface Metric {
  words: string;
  said: string;
  ramp: "busy" | "waiting";
}

const METRICS: Readonly<Record<string, Metric>> = {
  busy: {
    words: "GPU busy",
    said: "busy includes waiting, so a slow rank looks least busy",
    ramp: "busy",
  },
  compute: { words: "compute", said: "", ramp: "busy" },
  communication: { words: "communication", said: "waiting included", ramp: "waiting" },
  exposed_communication: {
    words: "exposed communication",
    said: "that no compute hides",
    ramp: "waiting",
  },
  waiting: {
    words: "waiting",
    said: "a rank that never waits comes last",
    ramp: "waiting",
  },
  idle: { words: "idle", said: "between a rank's first work and its last", ramp: "busy" },
};

/** The reply to the op `heatmap` and its buffer, as a frame: a row a rank, its bins in `value_ns`. */
export function heatmapFrame(
  reply: { ranks: readonly number[]; start: number; end: number; bins: number; attrs?: object },
  values: Float64Array,
  metric: string,
): PanelFrame {
  const { ranks, start, end, bins } = reply;
  return {
    rows: ranks.length,
    columns: {
      rank: ranks,
      total_ns: ranks.map((_, row) =>
        values.subarray(row * bins, (row + 1) * bins).reduce((sum, ns) => sum + ns, 0),
      ),
      value_ns: values as unknown as readonly number[],
    },
    attrs: { ...reply.attrs, start, end, bins, metric },
  };
}

/** The kinds of events that a metric needs; the others need not match any. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  compute: ["compute"],
  communication: ["communication"],
  exposed_communication: ["communication"],
  waiting: ["communication"],
};

export interface HeatmapContent {
  title: string;
  subtitle: string;
  finding: string;
  ranks: number[];
  names: string[];
  start: number;
  end: number;
  bins: number;
  ramp: "busy" | "waiting";
  /** Row by row. */
  share: Float64Array;
  value: ArrayLike<number>;
  mean: number[];
  total: number[];
  late: Set<number>;
  facts: Set<number>;
}

/** What the heatmap shows before it is laid out. */
export function heatmapContent(frame: PanelFrame): HeatmapContent | string {
  const ranks = [...new Set(numbers(frame, "rank"))];
  const value = (frame.columns.value_ns ?? []) as unknown as ArrayLike<number>;
  const bins = ranks.length === 0 ? 0 : Math.floor(value.length / ranks.length);
  // Frames of Python's analysis have a row a cell, and its edges.
  const starts = frame.columns.start_ns;
  const start = Number(starts === undefined ? frame.attrs.start : (starts[0] ?? 0));
  const end = Number(
    frame.columns.end_ns === undefined ? frame.attrs.end : (frame.columns.end_ns[bins - 1] ?? 0),
  );
  if (bins === 0 || !(end > start)) return noteOf(frame) || "nothing to draw";
  const metric = typeof frame.attrs.metric === "string" ? frame.attrs.metric : "busy";
  const { words, said, ramp } = METRICS[metric] ?? {
    words: metric.replaceAll("_", " "),
    said: "",
    ramp: "busy" as const,
  };
  const edges = Array.from({ length: bins + 1 }, (_, at) => edge(start, end, bins, at));
  const share = new Float64Array(ranks.length * bins);
  const total = ranks.map(() => 0);
  const sums = new Array<number>(bins).fill(0);
  for (let row = 0; row < ranks.length; row += 1) {
    for (let bin = 0; bin < bins; bin += 1) {
      const size = edges[bin + 1]! - edges[bin]!;
      const ns = value[row * bins + bin]!;
      const part = size > 0 ? ns / size : 0;
      share[row * bins + bin] = part;
      total[row]! += ns;
      sums[bin]! += part;
    }
  }
  const names = ranks.map((rank) => `rank ${rank}`);
  const spans = (frame.attrs.span_ns ?? []) as number[];
  // As the timeline's legend: of all spans together.
  const ofAll = sum(total) / Math.max(sum(spans), 1);
  return {
    title: `Rank × time: ${words}`,
    subtitle: sentences(
      `share of each ${formatDuration((end - start) / bins)} cell`,
      ranks.length === 1 ? "" : said,
      extremes(names, total, formatDuration),
      unmatched(frame, KINDS[metric] ?? []),
    ),
    finding: `${formatShare(ofAll)} of ${ranks.length === 1 ? "the" : "each"} rank's GPU span`,
    ranks,
    names,
    start,
    end,
    bins,
    ramp,
    share,
    value,
    mean: sums.map((each) => each / ranks.length),
    total,
    ...markedRows(frame, ranks),
  };
}

/** Where a bin begins. */
export function edge(start: number, end: number, bins: number, at: number): number {
  return start + Math.floor(((end - start) * at) / bins);
}
