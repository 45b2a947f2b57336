/** Steps and their phases against the median rank: as `charts.step_phases` draws them. */

import { formatDuration, formatShareDelta, plural } from "../../draw/format";
import type { Theme } from "../../draw/theme";
import type { PanelFrame } from "../types";
import { type Hit, type Key, numbers, type RowsContent, texts, type Tip } from "./content";
import { median, niceTicks, noteOf, sentences, unmatched } from "./phrases";

/** Takes this share longer than the median rank … */
const LONGER = 0.05;
/** … and is this many times as far from it as ranks usually are. */
const STANDS_OUT = 4;
const FARTHEST = 1;
const NEAREST = 0.05;
/** Part of a row over which the steps are spread. */
const SPREAD = 0.56;

interface Far {
  rank: number;
  apart: number;
  late: boolean;
}

export function steps(frame: PanelFrame, theme: Theme): RowsContent | string {
  if (frame.rows === 0) return noteOf(frame) || "nothing to draw";
  const phase = texts(frame, "phase");
  const step = numbers(frame, "step");
  const rank = numbers(frame, "rank");
  const start = numbers(frame, "start_ns");
  const dur = numbers(frame, "dur_ns");
  const deviation = numbers(frame, "deviation_share");
  const phases = [...new Set(phase)];
  const rowOf = new Map(phases.map((name, row) => [name, row]));
  const of = phase.map((name) => rowOf.get(name)!);
  const members = phases.map((): number[] => []);
  of.forEach((row, at) => members[row]!.push(at));
  const usual = members.map((all) => median(all.map((at) => dur[at]!)));
  const alone = rank.every((each) => each === rank[0]);
  const apart = deviation.map((each, at) => {
    if (!alone) return Number.isFinite(each) ? each : 0;
    return usual[of[at]!]! > 0 ? dur[at]! / usual[of[at]!]! - 1 : 0;
  });
  const numbered = [...new Set(step)].sort((a, b) => a - b);
  const place = new Map(numbered.map((each, at) => [each, at - (numbered.length - 1) / 2]));
  const pitch = SPREAD / Math.max(numbered.length - 1, 1);
  const furthest = apart.reduce((far, each) => Math.max(far, Math.abs(each)), 0);
  const reach = Math.min(Math.max(furthest * 1.08, NEAREST), FARTHEST);
  const found = members.map((all) => farthest(all, rank, apart));
  const late = alone ? null : latest(found);
  // Who is late is drawn last, over the others.
  const order = rank.map((_, at) => at);
  if (late !== null) {
    const mine = (at: number): number => (rank[at] === late ? 1 : 0);
    order.sort((a, b) => mine(a) - mine(b) || a - b);
  }
  const what = alone ? "median step" : "median rank";
  const shown = found.map((far, row): Far | null => {
    if (alone) return null;
    if (late === null) return far;
    const mine = members[row]!.filter((at) => rank[at] === late);
    if (mine.length === 0) return null;
    const by = median(mine.map((at) => apart[at]!));
    return { rank: late, apart: by, late: by >= LONGER };
  });
  const said = shown.map((far, row) => {
    if (alone) return formatDuration(usual[row]!);
    return far === null ? "" : `rank ${far.rank} ${formatShareDelta(far.apart)}`;
  });
  const lateRows = new Set(shown.flatMap((far, row) => (far?.late === true ? [row] : [])));
  const at = order.map((each) => Math.min(Math.max(apart[each]!, -reach), reach));
  const row = order.map((each) => of[each]! + place.get(step[each]!)! * pitch);
  const shares = niceTicks(reach, reach < 0.1 ? 1 : 2, -reach);
  const tipOf = (each: number): Tip => ({
    heading: `rank ${rank[each]!} · ${phase[each]!} of step ${step[each]!}`,
    lines: [
      ["takes", formatDuration(dur[each]!)],
      [`against the ${what}`, formatShareDelta(apart[each]!)],
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
      unmatched(frame),
    ),
    finding: alone
      ? `median step ${formatDuration(usual[0]!)}`
      : said.map((words, each) => `${phases[each]!} ${words}`).join(", "),
    names: phases,
    seconds: usual.map(formatDuration),
    keys: shown.map((far) => (alone ? [rank[0]!] : far === null ? [] : [far.rank])),
    data: {
      row,
      at,
      color: order.map((each) => (rank[each] === late ? theme.late : theme.ruleStrong)),
    },
    xStart: -reach * 1.04,
    xEnd: reach * 1.04,
    ticks: shares.map((each) => [each, each === 0 ? what : formatShareDelta(each)]),
    zeroLine: true,
    ruled: true,
    head: "",
    columns: alone ? [] : [{ head: "", texts: said, late: lateRows }],
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

/** The rank that is farthest in the median of steps. */
function farthest(members: readonly number[], rank: number[], apart: number[]): Far {
  const of = new Map<number, number[]>();
  for (const at of members) {
    const known = of.get(rank[at]!);
    if (known === undefined) of.set(rank[at]!, [apart[at]!]);
    else known.push(apart[at]!);
  }
  const ranks = [...of.keys()].sort((a, b) => a - b);
  const medians = ranks.map((each) => median(of.get(each)!));
  let best = 0;
  medians.forEach((each, at) => {
    if (Math.abs(each) > Math.abs(medians[best]!)) best = at;
  });
  const by = medians[best]!;
  const usual = median(medians.map(Math.abs));
  return { rank: ranks[best]!, apart: by, late: by >= LONGER && by >= STANDS_OUT * usual };
}

function latest(found: readonly Far[]): number | null {
  let best: Far | null = null;
  for (const far of found) {
    if (!far.late) continue;
    if (
      best === null ||
      far.apart > best.apart ||
      (far.apart === best.apart && far.rank > best.rank)
    ) {
      best = far;
    }
  }
  return best?.rank ?? null;
}
