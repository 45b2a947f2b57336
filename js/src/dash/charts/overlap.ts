/** Communication, and how much compute hides: as `charts.comm_comp_overlap` draws it. */

import { formatAxis, formatDuration, formatShare } from "../../draw/format";
import type { PanelFrame } from "../types";
import { markedRows, numbers, type RowsContent } from "./content";
import { extremes, niceTicks, noteOf, prefixed, sentences, unmatched } from "./phrases";

const NONE = "no communication kernels matched, so overlap is not shown (not 0 %)";

export function overlap(frame: PanelFrame): RowsContent | string {
  const ranks = numbers(frame, "rank");
  const total = numbers(frame, "communication_ns");
  const hidden = numbers(frame, "overlapped_ns");
  const shares = numbers(frame, "overlap_share");
  const sum = total.reduce((all, each) => all + each, 0);
  if (!(sum > 0)) return noteOf(frame) || NONE;
  const names = ranks.map((rank) => `rank ${rank}`);
  const most = Math.max(...total);
  const ticks = niceTicks(most, 3);
  const step = ticks[1] ?? most;
  const ofAll = hidden.reduce((all, each) => all + each, 0) / sum;
  return {
    title: "Communication, and how much compute hides",
    subtitle: sentences(
      "time in which any communication kernel runs, waiting included",
      `${formatShare(ofAll)} of it hidden`,
      prefixed("hidden ", extremes(names, shares, formatShare)),
      unmatched(frame),
    ),
    finding: `${formatShare(ofAll)} of communication is hidden behind compute`,
    names,
    keys: ranks.map((rank) => [rank]),
    ...markedRows(frame, ranks),
    data: {
      row: ranks.map((_, row) => row),
      overlapped_ns: hidden,
      exposed_end: total,
    },
    xStart: 0,
    xEnd: most * 1.02,
    ticks: ticks.map((at) => [at, formatAxis(at, step)]),
    head: "",
    columns: [{ head: "hidden", texts: shares.map(formatShare) }],
    ends: total.map((at, row) => ({ row, at, text: formatDuration(at) })),
    legend: [
      [0, "behind compute"],
      [1, "exposed"],
    ],
    tip: (row) => ({
      heading: names[row]!,
      lines: [
        ["communication", formatDuration(total[row]!)],
        ["behind compute", `${formatDuration(hidden[row]!)} · ${formatShare(shares[row]!)}`],
        ["exposed", formatDuration(total[row]! - hidden[row]!)],
      ],
    }),
  };
}
