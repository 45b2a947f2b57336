/** Durations of steps and their phases on each rank, compared with the other ranks. */

import { median, sum } from "../expressions/numbers";
import { getOrMake } from "../protocol/maps";
import type { PanelFrame } from "../protocol/source";
import type { PhasesHeader } from "./document";
import {
  buildColumns,
  countByKind,
  makeFrame,
  matchedKinds,
  missingRanksNote,
  rankNumbersOf,
} from "./frames";
import { isSelected, memo, type RankAnalysis, type RankSelection } from "./panel_rank";

/** Phases below this percentage of all step time are omitted. */
const MIN_PHASE_PCT = 1;
const CUT_NOTE = "steps that the window cuts are not compared between ranks";

interface StepTime {
  phase: string;
  rank: number;
  step: number;
  start: number;
  end: number;
  dur: number;
  /** Whether the window contains the whole step. Other steps are not compared between ranks. */
  isWhole: boolean;
}

/** Return the frame of steps. Only selections of an export have a window. */
export function stepsFrame(selections: readonly RankSelection[], phases: PhasesHeader): PanelFrame {
  const timesOfPhase = (phase: number, name: string): StepTime[] =>
    selections.flatMap((selection) => stepTimes(selection, phase, name));
  const totalTime = (times: readonly StepTime[]): number => sum(times.map(({ dur }) => dur));
  const stepTimesOfRanks = selections.flatMap(stepsWithDeviceTimes);
  const minSum = totalTime(stepTimesOfRanks) * MIN_PHASE_PCT;
  const labels = stepTimesOfRanks.length > 0 ? phases.labels : [];
  const longPhases = labels
    .map((label, index) => timesOfPhase(index + 1, label))
    .filter((phaseTimes) => totalTime(phaseTimes) * 100 >= minSum);
  const groups = [stepTimesOfRanks, ...longPhases];
  const columns = buildColumns(groups.flat(), {
    phase: ({ phase }) => phase,
    step: ({ step }) => step,
    rank: ({ rank }) => rank,
    start_ns: ({ start }) => start,
    dur_ns: ({ dur }) => dur,
  });
  columns.deviation_share = groups.flatMap(deviations);
  const matched = { steps: stepTimesOfRanks.length, ...matchedKinds(countByKind(selections)) };
  return makeFrame(columns, { matched }, ...stepsNotes(selections, stepTimesOfRanks));
}

function stepsNotes(selections: readonly RankSelection[], steps: readonly StepTime[]): string[] {
  const withSteps = new Set(steps.map(({ rank }) => rank));
  const withoutSteps = selections.filter(({ analysis }) => !withSteps.has(analysis.number));
  const unselected = sum(
    withoutSteps.map(({ analysis }) => new Set(stepRows(analysis, 0).map(([, step]) => step)).size),
  );
  return [
    missingRanksNote(
      rankNumbersOf(selections),
      rankNumbersOf(withoutSteps),
      unselected > 0 ? ["no_steps_selected", "no_steps_selected_on"] : ["no_steps", "no_steps_on"],
      { ranks: rankNumbersOf(withoutSteps).join(", "), steps: unselected },
    ),
    steps.every(({ isWhole }) => isWhole) ? "" : CUT_NOTE,
  ];
}

/** Return a rank's selected steps. Steps that end early on the host have their device times. */
function stepsWithDeviceTimes(selection: RankSelection): StepTime[] {
  const { device_steps: deviceSteps } = selection.analysis.trace.header;
  const deviceStepOf = new Map(deviceSteps.map((deviceStep) => [deviceStep[0], deviceStep]));
  return stepTimes(selection, 0, "step").map((stepTime) => {
    const deviceStep = deviceStepOf.get(stepTime.step);
    if (deviceStep === undefined) return { ...stepTime, dur: stepTime.end - stepTime.start };
    const [, start, dur] = deviceStep;
    return { ...stepTime, phase: "step on device", start, end: start + dur, dur };
  });
}

function stepTimes(selection: RankSelection, phase: number, name: string): StepTime[] {
  const { analysis, low, high } = selection;
  const { start, dur } = analysis.trace.events;
  const cut = new Set(analysis.trace.header.clipped_steps);
  for (const [row, step] of stepRows(analysis, 0)) {
    if (start[row]! < low || start[row]! + dur[row]! > high) cut.add(step);
  }
  const byStep = new Map<number, StepTime>();
  for (const [row, step] of stepRows(analysis, phase)) {
    if (!isSelected(selection, row)) continue;
    const [from, end] = [Math.max(start[row]!, low), Math.min(start[row]! + dur[row]!, high)];
    const stepTime = byStep.get(step);
    if (stepTime === undefined) {
      const stepKey = { phase: name, rank: analysis.number, step };
      byStep.set(step, { ...stepKey, start: from, end, dur: end - from, isWhole: !cut.has(step) });
    } else {
      stepTime.start = Math.min(stepTime.start, from);
      stepTime.end = Math.max(stepTime.end, end);
      stepTime.dur += end - from;
    }
  }
  return [...byStep.values()].sort((a, b) => a.step - b.step);
}

/** Return the rows and steps of a phase's ranges on a rank. Phase 0 is the step itself. */
function stepRows(analysis: RankAnalysis, phase: number): [row: number, step: number][] {
  return memo(`steps ${phase}`, analysis.fullSelection, () => {
    const { row, step, phase: phases } = analysis.trace.phases();
    const indices = Array.from(row.keys()).filter((i) => phases[i] === phase);
    return indices.map((i) => [row[i]!, step[i]!]);
  });
}

/** Return each duration's relative deviation from the median duration of its step. */
function deviations(rows: readonly StepTime[]): (number | null)[] {
  const byStep = new Map<number, number[]>();
  for (const { step, dur, isWhole } of rows) {
    if (isWhole) getOrMake(byStep, step, () => []).push(dur);
  }
  const medians = new Map(Array.from(byStep, ([step, durs]) => [step, median(durs)]));
  return rows.map(({ step, dur, isWhole }) => {
    const stepMedian = medians.get(step);
    return !isWhole || stepMedian === undefined || stepMedian === 0
      ? null
      : (dur - stepMedian) / stepMedian;
  });
}
