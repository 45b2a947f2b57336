/** Kinds of GPU work: as `charts.kernel_type_breakdown` draws it. */

import type { Kind } from "../../contract";
import { formatDuration, formatShare } from "../../draw/format";
import type { Theme } from "../../draw/theme";
import type { PanelFrame } from "../types";
import { numbers, type RowsContent, texts } from "./content";
import { noteOf, sentences, unmatched } from "./phrases";

const KINDS: Readonly<Record<string, Kind>> = {
  COMPUTATION: "compute",
  COMMUNICATION: "communication",
  MEMORY: "memory",
};

function kindsOf(label: string): Kind[] {
  return label
    .split(" overlapping ")
    .map((word): Kind => KINDS[word.trim().toUpperCase()] ?? "other");
}

/** What people read of a label: `compute + communication`. */
export function kindWords(label: string): string {
  return kindsOf(label).join(" + ");
}

export function kernelTypes(frame: PanelFrame, theme: Theme): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const share = numbers(frame, "share");
  const sum = numbers(frame, "sum_ns");
  const kinds = texts(frame, "kernel_type").map(kindsOf);
  const names = kinds.map((each) => each.join(" + "));
  return {
    title: "Kinds of GPU work",
    subtitle: sentences(
      "busy device time, every moment counted once",
      "hatched: two kinds at once",
      unmatched(frame, []),
    ),
    finding: names.map((name, row) => `${name} ${formatShare(share[row]!)}`).join(", "),
    names,
    keys: kinds,
    data: {
      row: names.map((_, row) => row),
      share,
      fill: kinds.map((each) => theme.kind[each[0]!]),
      hatch: kinds.map((each) => (each.length > 1 ? "/" : " ")),
      hatch_color: kinds.map((each) => (each.length > 1 ? theme.kind[each[1]!] : theme.bg)),
    },
    xStart: 0,
    xEnd: Math.max(...share) || 1,
    ticks: [],
    head: "",
    columns: [
      { head: "share", texts: share.map(formatShare) },
      { head: "total", texts: sum.map(formatDuration), least: 360 },
    ],
    tip: (row) => ({
      heading: names[row]!,
      lines: [
        ["total", formatDuration(sum[row]!)],
        ["of busy time", formatShare(share[row]!)],
      ],
    }),
  };
}
