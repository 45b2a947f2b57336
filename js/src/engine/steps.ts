/** Duration of each step and its phases per rank, compared with the other ranks. */

import { median, sum } from "../expressions/numbers";
import { getOrMake } from "../protocol/maps";
import type { PanelFrame } from "../protocol/source";
import type { PhasesHeader } from "./document";
import { columnsOf, countsOf, frameOf, matchedKinds, noteWithout, numbersOf } from "./frames";
import { isChosen, type PanelRank, type Part } from "./panel_rank";

/** Phases below this share of all steps are omitted. */
const LEAST_PCT = 1;
const CUT = "steps that the window cuts are not compared between ranks";

/** One step of a rank, or one of its phases. */
interface Spent {
  phase: string;
  rank: number;
  step: number;
  start: number;
  end: number;
  dur: number;
  /** Whether the step is within the window: only such steps are compared. */
  whole: boolean;
}

/** Frame of steps; the windows of the parts are open, or that of an export. */
export function steps(parts: readonly Part[], phases: PhasesHeader): PanelFrame {
  const ofPhase = (phase: number, name: string): Spent[] =>
    parts.flatMap((part) => spent(part, phase, name));
  const whole = ofPhase(0, "step").map((one) => ({ ...one, dur: one.end - one.start }));
  const least = sum(whole.map(({ dur }) => dur)) * LEAST_PCT;
  const lasting = phases.labels
    .map((label, at) => ofPhase(at + 1, label))
    .filter((one) => whole.length > 0 && sum(one.map(({ dur }) => dur)) * 100 >= least);
  const groups = [whole, ...lasting];
  const columns = columnsOf(groups.flat(), {
    phase: ({ phase }) => phase,
    step: ({ step }) => step,
    rank: ({ rank }) => rank,
    start_ns: ({ start }) => start,
    dur_ns: ({ dur }) => dur,
  });
  columns.deviation_share = groups.flatMap(deviations);
  const withSteps = new Set(whole.map(({ rank }) => rank));
  const without = parts.filter(({ rank }) => !withSteps.has(rank.number));
  const unselected = sum(
    without.map(({ rank }) => new Set(stepRows(rank, 0).map(([, step]) => step)).size),
  );
  const matched = { steps: whole.length, ...matchedKinds(countsOf(parts)) };
  const notes = [
    noteWithout(
      numbersOf(parts),
      numbersOf(without),
      unselected > 0 ? ["no_steps_selected", "no_steps_selected_on"] : ["no_steps", "no_steps_on"],
      { ranks: numbersOf(without).join(", "), steps: unselected },
    ),
    whole.every((one) => one.whole) ? "" : CUT,
  ];
  return frameOf(columns, { matched }, notes.filter(Boolean).join("; "));
}

/** The chosen ranges of a phase, added up by step. */
function spent(part: Part, phase: number, name: string): Spent[] {
  const { rank, low, high } = part;
  const { start, dur } = rank.rank.events;
  const cut = new Set(rank.rank.header.clipped_steps);
  for (const [row, step] of stepRows(rank, 0)) {
    if (start[row]! < low || start[row]! + dur[row]! > high) cut.add(step);
  }
  const byStep = new Map<number, Spent>();
  for (const [row, step] of stepRows(rank, phase)) {
    if (!isChosen(part, row)) continue;
    const [from, end] = [Math.max(start[row]!, low), Math.min(start[row]! + dur[row]!, high)];
    const known = byStep.get(step);
    if (known === undefined) {
      const names = { phase: name, rank: rank.number, step };
      byStep.set(step, { ...names, start: from, end, dur: end - from, whole: !cut.has(step) });
    } else {
      known.start = Math.min(known.start, from);
      known.end = Math.max(known.end, end);
      known.dur += end - from;
    }
  }
  return [...byStep.values()].sort((a, b) => a.step - b.step);
}

/** Rows and steps of a rank's ranges of a phase; phase 0 is the step itself. */
function stepRows(rank: PanelRank, phase: number): [row: number, step: number][] {
  return rank.once(`steps ${phase}`, rank.all, () => {
    const { row, step, phase: of } = rank.rank.phases();
    const own = Array.from(row.keys()).filter((i) => of[i] === phase);
    return own.map((i) => [row[i]!, step[i]!]);
  });
}

/** Deviation of each duration from the median of its step, as a share of that median. */
function deviations(rows: readonly Spent[]): (number | null)[] {
  const byStep = new Map<number, number[]>();
  for (const { step, dur, whole } of rows) {
    if (whole) getOrMake(byStep, step, () => []).push(dur);
  }
  const middles = new Map(Array.from(byStep, ([step, durs]) => [step, median(durs)]));
  return rows.map(({ step, dur, whole }) => {
    const middle = middles.get(step);
    return !whole || middle === undefined || middle === 0 ? null : (dur - middle) / middle;
  });
}
