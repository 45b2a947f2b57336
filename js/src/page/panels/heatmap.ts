/** What each rank's device does when: any of its times, cut into bins. */

import { beyond } from "../lateness";
import { Cover } from "../spans";
import { busyTimes, coverOfKinds, spanOf, workOf } from "./busy_times";
import type { Part } from "./part";
import { COMMUNICATION, COMPUTE } from "./work";
import { waitCover } from "./waits";

export const METRICS = [
  "busy",
  "compute",
  "communication",
  "exposed_communication",
  "waiting",
  "idle",
] as const;
export type Metric = (typeof METRICS)[number];

const ALL = 7;

/** When a metric holds for a rank; the part is of all times. */
function coverOfMetric(part: Part, metric: Metric): Cover {
  return part.rank.once(`heatmap ${metric}`, part, () => {
    const of = (kinds: number): Cover =>
      part.mask === null
        ? part.rank.busy.covers[kinds]!
        : part.rank.once(`cover ${kinds}`, part, () => coverOfKinds(part, kinds));
    switch (metric) {
      case "busy":
        return of(ALL);
      case "compute":
        return of(1 << COMPUTE);
      case "communication":
        return of(1 << COMMUNICATION);
      case "exposed_communication":
        return beyond(of(1 << COMMUNICATION), of(1 << COMPUTE));
      case "waiting":
        return waitCover(part);
      case "idle": {
        const [start, end] = spanOf(part) ?? [0, 0];
        if (!(end > start)) return Cover.of(new Float64Array(0), new Float64Array(0));
        return beyond(Cover.of(Float64Array.of(start), Float64Array.of(end)), of(ALL));
      }
    }
  });
}

/** Edges of bins, rounded down to whole ns. */
export function binEdges(start: number, end: number, bins: number): Float64Array {
  const whole = Math.floor((end - start) / bins);
  const rest = end - start - whole * bins;
  return Float64Array.from(
    { length: bins + 1 },
    (_, k) => start + whole * k + Math.floor((rest * k) / bins),
  );
}

/** Time of the metric in each bin, rank by rank. */
export function heatmap(parts: readonly Part[], metric: Metric, edges: Float64Array): Float64Array {
  const bins = edges.length - 1;
  const out = new Float64Array(parts.length * bins);
  parts.forEach((part, at) => out.set(coverOfMetric(part, metric).between(edges), at * bins));
  return out;
}

/** What there is to say of it. */
export function heatmapNote(parts: readonly Part[], metric: Metric, values: Float64Array): string {
  if (parts.length === 0) return "no ranks are selected";
  if (!parts.some((part) => workOf(busyTimes(part)) > 0)) {
    return "no device work is selected: no kernels and no copies";
  }
  if (!values.some((value) => value !== 0)) return `nothing is ${metric.replace(/_/g, " ")} here`;
  return "";
}
