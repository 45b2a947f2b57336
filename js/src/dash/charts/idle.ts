/** Why devices are idle: as `charts.device_idle_breakdown` draws it. */

import { formatAxis, formatCount, formatDuration, formatShare } from "../../draw/format";
import type { Theme } from "../../draw/theme";
import type { PanelFrame } from "../types";
import { type Inside, markedRows, numbers, type RowsContent, texts } from "./content";
import { extremes, niceTicks, noteOf, sentences, unmatched } from "./phrases";

/** All there are, in the order in which they follow each other within a gap (`IDLE_CATEGORIES`). */
export const CAUSES = [
  "sync_wait",
  "host_data_loading",
  "host_operator",
  "host_python",
  "host_nothing",
  "launch_call",
  "launch_latency",
  "kernel_wait",
  "stream_wait",
  "blocked",
  "unknown",
] as const;

const MEANING: Readonly<Record<string, string>> = {
  kernel_wait: "kernel wait: launched in time, a short gap",
};

/** What people read of a cause: `host: data loading`. */
export function causeWords(name: string): string {
  const [head, ...rest] = name.split("_");
  const does = rest.join(" ");
  if (head !== "host") return name.replaceAll("_", " ");
  return `host: ${does === "python" ? "Python" : does === "nothing" ? "nothing recorded" : does}`;
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
