/** Which kernels take longer on one rank: as `charts.kernel_duration_by_rank` draws it. */

import type { Kind } from "../../contract";
import { formatAxis, formatCount, formatDuration, formatShareDelta } from "../../draw/format";
import type { Theme } from "../../draw/theme";
import type { PanelFrame } from "../types";
import { factRanks, lateRanks, numbers, type RowsContent, texts } from "./content";
import { median, niceTicks, noteOf, sentences, unmatched } from "./phrases";
import { toldApart } from "./told_apart";

/** A few per cent are what any two GPUs of one kind differ by. */
const APART = 0.05;
/** Of a rank's time for the kernels that are drawn: what is less stands out in per cent only. */
const OF_WORK = 0.01;
/** The scale goes at least and at most this far from the median. */
const LEAST_SCALE = 0.1;
const FARTHEST = 1;

export function kernelDurations(frame: PanelFrame, theme: Theme): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const [name, short, kind] = [texts(frame, "name"), texts(frame, "short"), texts(frame, "kind")];
  const rank = numbers(frame, "rank");
  const mean = numbers(frame, "mean_ns");
  const count = numbers(frame, "count");
  const members = rowsOf(name, kind);
  const heads = members.map(([first]) => first!);
  const row = new Array<number>(frame.rows);
  members.forEach((all, at) => all.forEach((each) => (row[each] = at)));
  const alone = new Set(rank).size === 1;
  const medians = members.map((all) => median(all.map((at) => mean[at]!)));
  const of = row.map((each) => medians[each]!);
  const apart = mean.map((ns, at) => (of[at]! > 0 ? ns / of[at]! - 1 : 0));
  const waits = kind.map((each) => each === "communication");
  const reach = reachOf(apart, waits);
  const beyond = apart.map((each) => Math.abs(each) > reach);
  const far = members.map((all) =>
    all.reduce((most, at) => (Math.abs(apart[at]!) > Math.abs(apart[most]!) ? at : most)),
  );
  const spent = new Map<number, number>();
  rank.forEach((each, at) => spent.set(each, (spent.get(each) ?? 0) + mean[at]! * count[at]!));
  const whole = median([...spent.values()]);
  const late = new Set(lateRanks(frame));
  const facts = new Set(factRanks(frame));
  const isFar = new Set(far);
  const isOdd = (at: number): boolean =>
    isFar.has(at) &&
    !waits[at]! &&
    Math.abs(apart[at]!) >= APART &&
    Math.abs(mean[at]! - of[at]!) * count[at]! >= OF_WORK * whole;
  const weight = rank.map((each, at) =>
    late.has(each) ? 2 : facts.has(each) || isOdd(at) ? 1 : 0,
  );
  const inks = [theme.ruleStrong, theme.ink, theme.late];
  // What is marked is drawn last, over the others.
  const order = rank.map((_, at) => at).sort((a, b) => weight[a]! - weight[b]! || a - b);
  const isApart = (at: number): boolean => Math.abs(apart[at]!) >= APART;
  const words = far.map((at) =>
    isApart(at) ? `rank ${rank[at]} ${formatShareDelta(apart[at]!)}` : "within ±5\u2009%",
  );
  const rowsWhere = (is: (at: number) => boolean): Set<number> =>
    new Set(far.flatMap((at, each) => (is(at) ? [each] : [])));
  const names = toldApart(
    heads.map((at) => short[at]!),
    heads.map((at) => name[at]!),
  );
  const longest = Math.max(...mean) || 1;
  const times = niceTicks(longest, 3);
  const shares = niceTicks(reach, reach < 0.15 ? 1 : 2, -reach);
  const middle = {
    head: alone ? "mean" : "median",
    texts: medians.map(formatDuration),
    least: 480,
  };
  const slow = far.findIndex((at) => apart[at]! >= APART && !waits[at]!);
  return {
    title: "Kernel durations over ranks",
    subtitle: sentences(
      alone
        ? "mean duration, by name with most time"
        : "one dot per rank: its mean duration against the median rank's",
      alone ? "" : "communication includes waiting: who waits less is not faster",
      beyond.includes(true) && !alone ? "arrow: beyond the scale" : "",
      unmatched(frame, []),
    ),
    finding: alone
      ? `${names[0]!} takes ${formatDuration(mean[0]!)} in the mean`
      : slow < 0
        ? "no rank takes longer for any of these kernels"
        : `${names[slow]!} takes ${words[slow]!} longer than on the median rank`,
    names,
    keys: heads.map((at) => [name[at]!]),
    data: {
      row: order.map((at) => row[at]!),
      end: order.map((at) => (alone ? mean[at]! : NaN)),
      fill: order.map((at) => theme.kind[kind[at] as Kind] ?? theme.kind.other),
      at: order.map((at) => (alone ? NaN : Math.min(Math.max(apart[at]!, -reach), reach))),
      ink: order.map((at) => inks[weight[at]!]!),
      marker: order.map((at) => (beyond[at]! ? "triangle" : "circle")),
      size: order.map((at) => (beyond[at]! ? 11 : 8)),
      angle: order.map((at) => (beyond[at]! ? (-Math.sign(apart[at]!) * Math.PI) / 2 : 0)),
    },
    xStart: alone ? 0 : -reach * 1.04,
    xEnd: alone ? longest * 1.02 : reach * 1.04,
    ticks: alone
      ? times.map((at) => [at, formatAxis(at, times[1] ?? longest)])
      : shares.map((at) => [at, at === 0 ? "median" : formatShareDelta(at)]),
    zeroLine: !alone,
    head: "kernel",
    columns: alone
      ? [middle]
      : [
          {
            head: "farthest",
            texts: words,
            late: rowsWhere((at) => late.has(rank[at]!) && isApart(at)),
            strong: rowsWhere((at) => isOdd(at) || (facts.has(rank[at]!) && isApart(at))),
          },
          middle,
        ],
    tip: (each) => tipOf(each),
  };

  function tipOf(each: number): ReturnType<RowsContent["tip"]> {
    const all = [...members[each]!].sort((a, b) => mean[a]! - mean[b]! || a - b);
    const [least, most] = [all[0]!, all.at(-1)!];
    const calls = all.reduce((sum, at) => sum + count[at]!, 0);
    const on = (at: number): string => `${formatDuration(mean[at]!)} on rank ${rank[at]!}`;
    return {
      heading: name[heads[each]!]!,
      lines: [
        ["kind", kind[heads[each]!]!],
        [alone ? "mean" : "median of ranks", formatDuration(medians[each]!)],
        ...(alone
          ? []
          : ([
              ["shortest", on(least)],
              ["longest", on(most)],
            ] as const)),
        ["kernels", formatCount(calls)],
      ],
    };
  }
}

/** The frame's rows of each kernel, in the order in which kernels come. */
function rowsOf(name: readonly string[], kind: readonly string[]): number[][] {
  const found = new Map<string, number[]>();
  name.forEach((each, at) => {
    const key = `${kind[at]!} ${each}`;
    const known = found.get(key);
    if (known === undefined) found.set(key, [at]);
    else known.push(at);
  });
  return [...found.values()];
}

/** How far the scale goes: to the farthest kernel that does not wait. */
function reachOf(apart: readonly number[], waits: readonly boolean[]): number {
  const all = waits.every(Boolean);
  const far = apart.reduce(
    (most, each, at) => (all || !waits[at]! ? Math.max(most, Math.abs(each)) : most),
    LEAST_SCALE,
  );
  return Math.min(far, FARTHEST);
}
