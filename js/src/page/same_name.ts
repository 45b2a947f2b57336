/** How long events of one name take: figures and a histogram. */

import { countBelow, countUpTo } from "./sorted";

const MAX_BINS = 40;
/** From this ratio of longest to shortest on, equal steps would put almost all into one bin. */
const LOG_FROM = 20;

/** Figures of durations, which are not none. The array is sorted in place. */
export function durationFigures(durs: Float64Array): Record<string, unknown> {
  durs.sort();
  const count = durs.length;
  const [low, high] = [durs[0]!, durs[count - 1]!];
  const sum = durs.reduce((total, dur) => total + dur, 0);
  const { edges, scale } = edgesOf(low, high, count);
  const bins = edges.length - 1;
  const below = edges.map((edge, k) => (k < bins ? countBelow(durs, edge) : countUpTo(durs, edge)));
  const half = count >> 1;
  return {
    count,
    sum,
    mean: sum / count,
    median: count % 2 === 1 ? durs[half]! : (durs[half - 1]! + durs[half]!) / 2,
    min: low,
    max: high,
    edges,
    counts: below.slice(1).map((reached, k) => reached - below[k]!),
    scale,
  };
}

function edgesOf(
  low: number,
  high: number,
  count: number,
): { edges: number[]; scale: "linear" | "log" } {
  if (low === high) return { edges: [low, low + 1], scale: "linear" };
  const wanted = Math.min(MAX_BINS, 2 * (32 - Math.clz32(count) + 1));
  const log = low > 0 && high / low >= LOG_FROM;
  const bins = log ? wanted : Math.min(wanted, high - low);
  const [from, to] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  const step = (to - from) / bins;
  const edges = Array.from({ length: bins + 1 }, (_, k) => {
    const edge = k * step + from;
    return log ? 10 ** edge : edge;
  });
  // Whatever the steps were rounded to: the ends are exact, so that nothing falls out.
  edges[0] = low;
  edges[bins] = high;
  return { edges, scale: log ? "log" : "linear" };
}
