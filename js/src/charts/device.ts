/**
 * Contents of the charts of device time: breakdown, overlap, kinds of work, idle causes, launch
 * queue.
 */

import causes from "../../../hta_widgets/facts/causes.json";
import { type Cause, CAUSES } from "../facts/panels";
import type { Kind, PanelFrame } from "../protocol/source";
import {
  formatAxis,
  formatCount,
  formatDuration,
  formatShare,
  formatValue,
  plural,
} from "../ui/formats";
import { extremes, niceTicks, noteOf, prefixed, sentences, sum, unmatched } from "../ui/text";
import type { Theme } from "../ui/theme";
import { type Inside, markedRows, numbers, type RowsContent, texts } from "./content";

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

// Communication, and how much compute hides: as `charts.comm_comp_overlap` draws it.

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

// Kinds of GPU work: as `charts.kernel_type_breakdown` draws it.

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

// Why devices are idle: as `charts.device_idle_breakdown` draws it.

const MEANING: Readonly<Record<string, string>> = {
  kernel_wait: "kernel wait: launched in time, a short gap",
};

/** What people read of a cause: `host: data loading`. */
export function causeWords(name: string): string {
  return name in causes ? causes[name as Cause].label : name.replaceAll("_", " ");
}

export function idle(frame: PanelFrame, theme: Theme): RowsContent | string {
  const ns = numbers(frame, "idle_ns");
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  if (!ns.some((each) => each > 0)) return noteOf(frame) || "never idle";
  const ofRow = numbers(frame, "rank");
  const category = texts(frame, "idle_category");
  const share = numbers(frame, "idle_share");
  const gaps = numbers(frame, "gaps");
  const ranks = [...new Set(ofRow)];
  const rowOf = new Map(ranks.map((rank, row) => [rank, row]));
  const row = ofRow.map((rank) => rowOf.get(rank)!);
  const total = new Array<number>(ranks.length).fill(0);
  const left: number[] = [];
  const right: number[] = [];
  const inside: Inside[] = [];
  const plain: Readonly<Record<string, string>> = {
    sync_wait: theme.onKind.sync,
    host_data_loading: theme.onKind.cpu,
    host_operator: theme.ink,
    host_python: theme.ink,
    host_nothing: theme.ink,
    unknown: theme.ink2,
  };
  const parts = ranks.map((): number[] => []);
  ns.forEach((each, at) => {
    const size = Math.max(each, 0);
    const before = total[row[at]!]!;
    total[row[at]!] = before + size;
    // Outlines of nothing would be seen.
    left.push(size > 0 ? before : NaN);
    right.push(size > 0 ? before + size : NaN);
    parts[row[at]!]!.push(at);
    const color = plain[category[at]!];
    if (color === undefined || !(share[at]! > 0)) return;
    const edges = { left: left[at]!, right: right[at]! };
    inside.push({ row: row[at]!, ...edges, text: formatShare(share[at]!), color });
  });
  const kept = CAUSES.map((name, mark) => ({ name, mark })).filter(({ name }) =>
    category.some((each, at) => each === name && ns[at]! > 0),
  );
  const names = ranks.map((rank) => `rank ${rank}`);
  const most = Math.max(...total) || 1;
  const ticks = niceTicks(most, 3);
  const step = ticks[1] ?? most;
  const all = total.reduce((sum, each) => sum + each, 0);
  const said = kept.map(({ name }) => {
    const of = ns.reduce((sum, each, at) => sum + (category[at] === name ? each : 0), 0);
    return `${causeWords(name)} ${formatShare(of / all)}`;
  });
  return {
    title: "Why devices are idle",
    subtitle: sentences(
      "time in which no stream of the device works, split by what it waits for",
      ...meanings(category.filter((_, at) => ns[at]! > 0)),
      extremes(names, total, formatDuration),
      unmatched(frame, []),
    ),
    finding: `of all idle time ${said.join(", ")}`,
    names,
    keys: ranks.map((rank) => [rank]),
    ...markedRows(frame, ranks),
    data: { row, left, right, idle_category: category },
    xStart: 0,
    xEnd: most * 1.01,
    ticks: ticks.map((at) => [at, formatAxis(at, step)]),
    head: "",
    columns: [{ head: "idle", texts: total.map(formatDuration) }],
    inside,
    legend: kept.map(({ name, mark }) => [mark, causeWords(name)]),
    tip: (at) => ({
      heading: `${names[at]!} · idle ${formatDuration(total[at]!)}`,
      lines: parts[at]!.filter((each) => ns[each]! > 0).map((each) => [
        causeWords(category[each]!),
        `${formatDuration(ns[each]!)} · ${formatShare(share[each]!)}` +
          (Number.isFinite(gaps[each]) ? ` · ${formatCount(gaps[each]!)} gaps` : ""),
      ]),
    }),
  };
}

function meanings(categories: readonly string[]): string[] {
  const kept = [...new Set(categories)];
  return kept.length <= 3 ? kept.map((name) => MEANING[name] ?? "") : [];
}

// How much launched work waits: as `charts.queue_length_summary` draws it.

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
