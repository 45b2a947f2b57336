/** Where each rank's GPU time goes: as `charts.temporal_breakdown` draws it. */

import { formatDuration, formatShare, plural } from "../../draw/format";
import type { Theme } from "../../draw/theme";
import type { PanelFrame } from "../types";
import { type Inside, markedRows, numbers, type RowsContent } from "./content";
import { extremes, noteOf, prefixed, sentences, sum, unmatched } from "./phrases";

const TITLE = "Where GPU time goes";
const WAIT = "exposed wait";

export function breakdown(frame: PanelFrame, theme: Theme): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const column = (name: string): number[] => numbers(frame, name);
  const ranks = column("rank");
  const span = column("span_ns");
  const exposed = column("exposed_communication_ns");
  const memory = column("exposed_memory_ns");
  const waits = column("exposed_wait_ns");
  const matched = waits.some(Number.isFinite);
  const wait = exposed.map((most, row) => Math.min(Math.max(waits[row]! || 0, 0), most));
  const idle = column("idle_ns");
  const busy = column("non_compute_ns");
  const pieces: readonly (readonly [name: string, ns: number[], ink: string])[] = [
    ["compute", column("compute_ns"), theme.onKind.compute],
    ["transfer", exposed.map((ns, row) => ns - wait[row]!), theme.onKind.communication],
    [WAIT, wait, theme.ink],
    ["copies", memory, theme.onKind.memory],
    ["other work", busy.map((ns, row) => ns - exposed[row]! - memory[row]!), theme.onKind.other],
    ["idle", idle, theme.ink2],
  ];
  const data: Record<string, number[]> = { row: ranks.map((_, row) => row) };
  const inside: Inside[] = [];
  let left = new Array<number>(frame.rows).fill(0);
  const shares = pieces.map(([name, ns, color], number) => {
    const size = ns.map((each, row) => (span[row]! > 0 ? each / span[row]! : 0));
    const right = left.map((each, row) => each + size[row]!);
    // Outlines of nothing would be seen.
    const shown = (edges: number[]): number[] =>
      name === WAIT ? edges.map((each, row) => (size[row]! > 0 ? each : NaN)) : edges;
    data[`left_${number}`] = shown(left);
    data[`right_${number}`] = shown(right);
    for (let row = 0; row < frame.rows; row += 1) {
      if (size[row]! <= 0) continue;
      const text = formatShare(size[row]!);
      const plate = name === WAIT ? theme.waitFill : undefined;
      const atEnd = name === "idle";
      inside.push({ row, left: left[row]!, right: right[row]!, text, color, plate, atEnd });
    }
    left = right;
    return size;
  });
  const names = ranks.map((rank) => `rank ${rank}`);
  const idleShare = idle.map((ns, row) => ns / Math.max(span[row]!, 1));
  const kept = pieces.map((_, at) => at).filter((at) => pieces[at]![1].some((ns) => ns > 0));
  // Of all spans together, as the headline and the timeline have it.
  const whole = Math.max(sum(span), 1);
  const said = kept
    .map((at) => `${label(at)} ${formatShare(sum(pieces[at]![1]) / whole)}`)
    .join(", ");
  function label(at: number): string {
    const name = pieces[at]![0];
    return name === "transfer" && !matched ? "communication" : name;
  }
  return {
    title: TITLE,
    subtitle: sentences(
      "share of each rank's GPU span, from its first device event to its last",
      "communication and waiting: only what no compute hides",
      prefixed("idle ", extremes(names, idleShare, formatShare)),
      unmatched(frame),
    ),
    finding: frame.rows === 1 ? said : `${plural(frame.rows, "rank")}: ${said}`,
    names,
    keys: ranks.map((rank) => [rank]),
    ...markedRows(frame, ranks),
    data,
    xStart: 0,
    xEnd: 1,
    ticks: [],
    head: "",
    columns: [{ head: "span", texts: span.map(formatDuration), least: 420 }],
    inside,
    legend: kept.map((at) => [at, label(at)]),
    tip: (row) => ({
      heading: names[row]!,
      lines: [
        ...kept.map((at): [string, string] => [
          label(at),
          `${formatDuration(pieces[at]![1][row]!)} · ${formatShare(shares[at]![row]!)}`,
        ]),
        ["span", formatDuration(span[row]!)],
      ],
    }),
  };
}
