/** Which kernels take longer on one rank: as `charts.kernel_durations` draws it. */

import type { Kind } from "../../contract";
import { formatAxis, formatCount, formatDuration, formatShareDelta } from "../../draw/format";
import type { Theme } from "../../draw/theme";
import type { PanelFrame } from "../types";
import { numbers, type RowsContent, texts } from "./content";
import { niceTicks, noteOf, sentences, unmatched } from "./phrases";
import { toldApart } from "./told_apart";

/** A few per cent are what any two GPUs of one kind differ by. */
const APART = 0.05;
const FARTHEST = 1;
const NEAREST = 0.1;

export function kernelDurations(frame: PanelFrame, theme: Theme): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const name = texts(frame, "name");
  const kind = texts(frame, "kind");
  const mean = numbers(frame, "mean_ns");
  const [least, most] = [numbers(frame, "min_ns"), numbers(frame, "max_ns")];
  const [leastRank, mostRank] = [numbers(frame, "min_rank"), numbers(frame, "max_rank")];
  const count = numbers(frame, "count");
  const one = Math.max(...numbers(frame, "ranks")) <= 1;
  const names = toldApart(texts(frame, "short"), name);
  const apart = (ns: number[]): number[] =>
    ns.map((each, row) => (mean[row]! > 0 ? each / mean[row]! - 1 : 0));
  const [low, high] = [apart(least), apart(most)];
  const reach = reachOf(low, high, kind);
  const clipped = (values: number[]): number[] =>
    values.map((each) => (one ? NaN : Math.min(Math.max(each, -reach), reach)));
  const slower = low.map((each, row) => Math.abs(high[row]!) >= Math.abs(each));
  const rank = slower.map((is, row) => (is ? mostRank[row]! : leastRank[row]!));
  const by = slower.map((is, row) => (is ? high[row]! : low[row]!));
  const words = by.map((each, row) =>
    Math.abs(each) >= APART ? `rank ${rank[row]!} ${formatShareDelta(each)}` : "within ±5\u2009%",
  );
  const late = new Set(
    by.flatMap((each, row) => (each >= APART && kind[row] !== "communication" ? [row] : [])),
  );
  const longest = Math.max(...mean) || 1;
  const times = niceTicks(longest, 3);
  const shares = niceTicks(reach, reach < 0.15 ? 1 : 2, -reach);
  const means = { head: "mean", texts: mean.map(formatDuration) };
  const first = [...late][0];
  const fill = kind.map((each) => theme.kind[each as Kind] ?? theme.kind.other);
  return {
    title: "Kernel durations over ranks",
    subtitle: sentences(
      one
        ? "mean duration, by name with most time"
        : "from the rank with the shortest mean duration to that with the longest",
      one ? "" : "communication includes waiting: who waits less is not faster",
      unmatched(frame),
    ),
    finding: one
      ? `${names[0]!} takes ${formatDuration(mean[0]!)} in the mean`
      : first === undefined
        ? "no rank takes longer for any of these kernels"
        : `${names[first]!} takes ${words[first]!} longer than the mean of ranks`,
    names,
    keys: name.map((each) => [each]),
    data: {
      row: name.map((_, row) => row),
      end: one ? mean : mean.map(() => NaN),
      fill,
      low: clipped(low),
      high: clipped(high),
      far: clipped(by),
      ink: by.map((_, row) => (late.has(row) ? theme.late : fill[row]!)),
    },
    xStart: one ? 0 : -reach * 1.04,
    xEnd: one ? longest * 1.02 : reach * 1.04,
    ticks: one
      ? times.map((at) => [at, formatAxis(at, times[1] ?? longest)])
      : shares.map((at) => [at, at === 0 ? "mean" : formatShareDelta(at)]),
    zeroLine: !one,
    head: "kernel",
    columns: one
      ? [means]
      : [
          { head: "farthest", texts: words, late },
          { ...means, least: 480 },
        ],
    tip: (row) => ({
      heading: name[row]!,
      lines: [
        ["kind", kind[row]!],
        ...(one
          ? [["mean", formatDuration(mean[row]!)] as const]
          : ([
              ["mean of ranks", formatDuration(mean[row]!)],
              ["shortest", `${formatDuration(least[row]!)} on rank ${leastRank[row]!}`],
              ["longest", `${formatDuration(most[row]!)} on rank ${mostRank[row]!}`],
            ] as const)),
        ["kernels", formatCount(count[row]!)],
      ],
    }),
  };
}

/** How far the scale goes: to the farthest kernel that does not wait. */
function reachOf(low: number[], high: number[], kind: readonly string[]): number {
  const far = low.map((each, row) => Math.max(Math.abs(each), Math.abs(high[row]!)));
  const works = far.filter((_, row) => kind[row] !== "communication");
  return Math.min(Math.max(...(works.length > 0 ? works : far), NEAREST), FARTHEST);
}
