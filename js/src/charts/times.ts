/** Contents of the charts of step times and kernel durations, relative to the median rank. */

import type { Kind, PanelFrame } from "../protocol/source";
import {
  formatAxis,
  formatCount,
  formatDuration,
  formatDurationDelta,
  formatShareDelta,
  plural,
} from "../ui/formats";
import { median, niceTicks, noteOf, sentences, toldApart, unmatched } from "../ui/text";
import type { Theme } from "../ui/theme";
import {
  factRanks,
  type Hit,
  type Key,
  lateRanks,
  numbers,
  type RowsContent,
  texts,
  type Tip,
} from "./content";

/** A rank stands out where it takes this share longer than the median rank … */
const LONGER = 0.05;
/** … this many times as far from it as ranks usually are … */
const STANDS_OUT = 4;
/** … and this share of a whole step: what is far off in per cent may cost next to nothing. */
const OF_STEP = 0.02;
/** The scale goes this share of a step to either side, or farther. */
const LEAST_REACH = 0.05;
/** Part of a row over which the steps are spread. */
const SPREAD = 0.56;

/** Of a rank in a phase, in the median of its steps. */
interface Far {
  rank: number;
  ns: number;
  apart: number;
}

export function steps(frame: PanelFrame, theme: Theme): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const phase = texts(frame, "phase");
  const step = numbers(frame, "step");
  const rank = numbers(frame, "rank");
  const start = numbers(frame, "start_ns");
  const dur = numbers(frame, "dur_ns");
  const phases = [...new Set(phase)];
  const rowOf = new Map(phases.map((name, row) => [name, row]));
  const of = phase.map((name) => rowOf.get(name)!);
  const members = phases.map((): number[] => []);
  of.forEach((row, at) => members[row]!.push(at));
  const usual = members.map((all) => median(all.map((at) => dur[at]!)));
  const whole = Math.max(...usual);
  const alone = rank.every((each) => each === rank[0]);
  const numbered = [...new Set(step)].sort((a, b) => a - b);
  const middle = middles(
    of.map((row, at) => (alone ? row : row * numbered.length + numbered.indexOf(step[at]!))),
    dur,
  );
  const ns = dur.map((each, at) => each - middle[at]!);
  const apart = ns.map((each, at) => (middle[at]! > 0 ? each / middle[at]! : 0));
  const place = new Map(numbered.map((each, at) => [each, at - (numbered.length - 1) / 2]));
  const pitch = SPREAD / Math.max(numbered.length - 1, 1);
  const furthest = ns.reduce((far, each) => Math.max(far, Math.abs(each)), 0);
  const reach = Math.max(furthest * 1.08, LEAST_REACH * whole, 1);
  const late = new Set(alone ? [] : lateRanks(frame));
  const facts = new Set(alone ? [] : factRanks(frame));
  const byRank = members.map((all) => (alone ? [] : medians(all, rank, ns, apart)));
  const odd = byRank.map((all) => standOut(all, whole));
  // What is marked is drawn last, over the others.
  const weight = (at: number): number =>
    late.has(rank[at]!) ? 2 : facts.has(rank[at]!) || odd[of[at]!]!.has(rank[at]!) ? 1 : 0;
  const order = rank.map((_, at) => at).sort((a, b) => weight(a) - weight(b) || a - b);
  const inks = [theme.ruleStrong, theme.ink, theme.late];
  const what = alone ? "median step" : "median rank";
  const shown = byRank.map((all) => (alone ? null : farthest(all)));
  const said = shown.map((far, row) =>
    far === null ? formatDuration(usual[row]!) : `rank ${far.rank} ${formatDurationDelta(far.ns)}`,
  );
  const shares = {
    head: "",
    texts: shown.map((far) => (far === null ? "" : formatShareDelta(far.apart))),
    least: 440,
  };
  const rowsWhere = (is: (far: Far, row: number) => boolean): Set<number> =>
    new Set(shown.flatMap((far, row) => (far !== null && is(far, row) ? [row] : [])));
  const marks = {
    late: rowsWhere((far) => late.has(far.rank) && far.apart >= LONGER),
    strong: rowsWhere(
      (far, each) => odd[each]!.has(far.rank) || (facts.has(far.rank) && far.apart >= LONGER),
    ),
  };
  const at = order.map((each) => ns[each]!);
  const row = order.map((each) => of[each]! + place.get(step[each]!)! * pitch);
  const marked = niceTicks(reach, 2, -reach);
  const gap = marked.length > 1 ? marked[1]! - marked[0]! : reach;
  const signed = (each: number): string =>
    each === 0 ? "median" : `${each > 0 ? "+" : ""}${formatAxis(each, gap)}`;
  const tipOf = (each: number): Tip => ({
    heading: `rank ${rank[each]!} · ${phase[each]!} of step ${step[each]!}`,
    lines: [
      ["takes", formatDuration(dur[each]!)],
      [
        `against the ${what}`,
        `${formatDurationDelta(ns[each]!)} · ${formatShareDelta(apart[each]!)}`,
      ],
    ],
  });
  return {
    title: `Step and phase times against the ${what}`,
    subtitle: sentences(
      `one dot per ${alone ? "step" : "rank and step"}`,
      plural(numbered.length, "step"),
      alone || phases.length < 2
        ? ""
        : "steps look even where ranks wait for each other: see the phases",
      unmatched(frame, []),
    ),
    finding: alone
      ? `median step ${formatDuration(usual[0]!)}`
      : said.map((words, each) => `${phases[each]!} ${words}`).join(", "),
    names: phases,
    seconds: usual.map(formatDuration),
    keys: shown.map((far) => [far === null ? rank[0]! : far.rank]),
    data: {
      row,
      at,
      color: order.map((each) => inks[weight(each)]!),
    },
    xStart: -reach * 1.04,
    xEnd: reach * 1.04,
    ticks: marked.map((each) => [each, signed(each)]),
    zeroLine: true,
    ruled: true,
    head: "",
    columns: alone
      ? []
      : [
          { head: "farthest", texts: said, ...marks },
          { ...shares, ...marks },
        ],
    pitch: 44,
    tip: (each) => ({
      heading: phases[each]!,
      lines: [
        ["median", formatDuration(usual[each]!)],
        ...(alone ? [] : [["farthest", said[each]!] as const]),
      ],
    }),
    hit: (x, y, reachX, reachY): Hit | null => {
      let [best, distance] = [-1, 1];
      at.forEach((dot, index) => {
        const far = Math.hypot((dot - x) / reachX, (row[index]! - y) / reachY);
        if (far <= distance) [best, distance] = [index, far];
      });
      const each = order[best];
      if (each === undefined) return null;
      return {
        tip: tipOf(each),
        ranks: [rank[each]!],
        window: [start[each]!, start[each]! + dur[each]!],
      };
    },
    within: (x0, x1, y0, y1): Key[] => {
      const inside = order.filter(
        (_, dot) => at[dot]! >= x0 && at[dot]! <= x1 && row[dot]! >= y0 && row[dot]! <= y1,
      );
      return [...new Set(inside.map((each) => rank[each]!))].sort((a, b) => a - b);
    },
    chosenMarks: ({ ranks, window }) => {
      if (ranks === null && window === null) return null;
      const wanted = ranks === null ? null : new Set(ranks);
      return order.flatMap((each, index) => {
        const meets =
          window === null || (start[each]! < window[1] && start[each]! + dur[each]! > window[0]);
        return meets && (wanted === null || wanted.has(rank[each]!)) ? [index] : [];
      });
    },
  };
}

/** For each value the median of its group. */
function middles(groups: readonly number[], values: readonly number[]): number[] {
  const of = new Map<number, number[]>();
  groups.forEach((group, at) => {
    const known = of.get(group);
    if (known === undefined) of.set(group, [values[at]!]);
    else known.push(values[at]!);
  });
  const found = new Map([...of].map(([group, all]) => [group, median(all)]));
  return groups.map((group) => found.get(group)!);
}

/** How far each rank is from the median rank in one phase, by rank. */
function medians(
  members: readonly number[],
  rank: readonly number[],
  ns: readonly number[],
  apart: readonly number[],
): Far[] {
  const of = new Map<number, number[]>();
  for (const at of members) {
    const known = of.get(rank[at]!);
    if (known === undefined) of.set(rank[at]!, [at]);
    else known.push(at);
  }
  return [...of]
    .sort(([a], [b]) => a - b)
    .map(([number, all]) => ({
      rank: number,
      ns: median(all.map((at) => ns[at]!)),
      apart: median(all.map((at) => apart[at]!)),
    }));
}

/** The ranks that take longer than others in one phase, and enough to matter. */
function standOut(all: readonly Far[], whole: number): Set<number> {
  const usual = median(all.map(({ ns }) => Math.abs(ns)));
  const found = all.filter(
    ({ ns, apart }) => apart >= LONGER && ns >= STANDS_OUT * usual && ns >= OF_STEP * whole,
  );
  return new Set(found.map(({ rank }) => rank));
}

/** The rank that is farthest in time. */
function farthest(all: readonly Far[]): Far {
  return all.reduce((far, one) => (Math.abs(one.ns) > Math.abs(far.ns) ? one : far));
}

// Which kernels take longer on one rank: as `charts.kernel_duration_by_rank` draws it.

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
