/** Panel frames with rows for each rank: breakdown, overlap, idle, queue, steps. */

import { CAUSES } from "../facts/panels";
import { sum } from "../expressions/numbers";
import { noteFor } from "../facts/notes";
import type { PanelFrame } from "../protocol/source";
import {
  COMMUNICATION,
  COMPUTE,
  deviceTimesOf,
  exposedWaitTime,
  MEMORY,
  overlapTimes,
  prelaunchedNote,
  recordedTime,
  deviceSpan,
  selectedTimes,
  UNMATCHED,
  WORK,
} from "./device";
import {
  buildColumns,
  countByKind,
  makeFrame,
  type MissingNotes,
  matchedKinds,
  missingRanksNote,
  rankNumbersOf,
} from "./frames";
import { idleByCause, unrecordedWork } from "./idle";
import { withoutMask, withOpenWindow, type RankSelection } from "./panel_rank";
import { queueFigures } from "./queues";
import { timeInStates } from "./sweep";

const NO_WORK: MissingNotes = ["no_device_work", "no_device_work_on"];
const NO_COMMUNICATION: MissingNotes = ["no_communication", "no_communication_on"];
const NO_TIME: MissingNotes = ["no_communication_time", "no_communication_time_on"];
const KIND_LABELS = ["COMPUTATION", "COMMUNICATION", "MEMORY"] as const;

/** Return the selections with device work in or around their window, and the ranks without it. */
function splitByWork(
  selections: readonly RankSelection[],
): [active: RankSelection[], ranksWithoutWork: number[]] {
  const active = selections.filter((selection) => deviceSpan(selection) !== null);
  return [active, rankNumbersOf(selections.filter((selection) => !active.includes(selection)))];
}

/** Return the device time in the window, for all work and for the selected work. */
export function breakdownFrame(selections: readonly RankSelection[]): PanelFrame {
  const allWork = selections.map(withoutMask);
  const [active, ranksWithoutWork] = splitByWork(allWork);
  const rows = active.map((all) => {
    const [start, end] = deviceSpan(all)!;
    return {
      rank: all.analysis.number,
      span: recordedTime(all, start, end),
      times: deviceTimesOf(all).times,
      wait: exposedWaitTime(all),
      isMatchKnown: all.analysis.unmatchedIds !== null,
      unrecorded: unrecordedWork(all.analysis).coveredWithin(start, end),
      selected: selectedTimes(selections[allWork.indexOf(all)]!),
    };
  });
  const columns = buildColumns(rows, {
    rank: ({ rank }) => rank,
    span_ns: ({ span }) => span,
    idle_ns: ({ span, times }) => span - timeInStates(times, WORK),
    compute_ns: ({ times }) => timeInStates(times, COMPUTE),
    non_compute_ns: ({ times }) => timeInStates(times, COMMUNICATION | MEMORY, COMPUTE),
    busy_ns: ({ times }) => timeInStates(times, WORK),
    communication_ns: ({ times }) => timeInStates(times, COMMUNICATION),
    exposed_communication_ns: ({ times }) => timeInStates(times, COMMUNICATION, COMPUTE),
    exposed_memory_ns: ({ times }) => timeInStates(times, MEMORY, COMPUTE | COMMUNICATION),
    unrecorded_ns: ({ unrecorded }) => unrecorded,
    exposed_wait_ns: ({ wait }) => wait,
    unmatched_exposed_ns: ({ isMatchKnown, times }) =>
      isMatchKnown ? timeInStates(times, UNMATCHED, COMPUTE) : null,
    selected_compute_ns: ({ selected }) => selected?.compute ?? null,
    selected_communication_ns: ({ selected }) => selected?.communication ?? null,
    selected_wait_ns: ({ selected }) => selected?.wait ?? null,
    selected_memory_ns: ({ selected }) => selected?.memory ?? null,
  });
  const matched = matchedKinds(countByKind(allWork));
  const workNote = missingRanksNote(rankNumbersOf(allWork), ranksWithoutWork, NO_WORK);
  return makeFrame(columns, { matched }, workNote, prelaunchedNote(allWork));
}

export function overlapFrame(selections: readonly RankSelection[]): PanelFrame {
  const rows = selections.map((selection) => {
    const [, kernels = 0] = deviceTimesOf(selection).counts;
    return { rank: selection.analysis.number, kernels, ...overlapTimes(selection) };
  });
  const columns = buildColumns(rows, {
    rank: ({ rank }) => rank,
    communication_ns: ({ communication }) => communication,
    overlapped_ns: ({ both }) => both,
    overlap_share: ({ communication, both }) => (communication > 0 ? both / communication : null),
    exposed_ns: ({ communication, both }) => communication - both,
    compute_ns: ({ compute }) => compute,
  });
  const { compute, communication } = matchedKinds(countByKind(selections));
  const rowsWithoutCommunication = rows.filter((row) => row.communication === 0);
  const ranksWhere = (hasKernels: boolean): number[] =>
    rowsWithoutCommunication
      .filter(({ kernels }) => kernels > 0 === hasKernels)
      .map(({ rank }) => rank);
  // If no ranks are selected, both notes are the same.
  const notes = new Set([
    missingRanksNote(rankNumbersOf(selections), ranksWhere(false), NO_COMMUNICATION),
    missingRanksNote(rankNumbersOf(selections), ranksWhere(true), NO_TIME),
  ]);
  return makeFrame(columns, { matched: { compute, communication } }, ...notes);
}

export function idleFrame(selections: readonly RankSelection[]): PanelFrame {
  const [active, ranksWithoutWork] = splitByWork(selections);
  const rows = active.flatMap((selection) => {
    const { time, gaps } = idleByCause(selection);
    const totalTime = sum(time);
    return CAUSES.map((cause, k) => ({
      rank: selection.analysis.number,
      cause,
      time: time[k]!,
      gaps: gaps[k]!,
      share: totalTime > 0 ? time[k]! / totalTime : null,
    }));
  });
  const columns = buildColumns(rows, {
    rank: ({ rank }) => rank,
    idle_category: ({ cause }) => cause,
    idle_ns: ({ time }) => time,
    gaps: ({ gaps }) => gaps,
    idle_share: ({ share }) => share,
  });
  const matched = matchedKinds(countByKind(selections));
  const note = missingRanksNote(rankNumbersOf(selections), ranksWithoutWork, NO_WORK);
  return makeFrame(columns, { matched }, note);
}

export function queuesFrame(selections: readonly RankSelection[]): PanelFrame {
  const rows = selections.flatMap((selection) =>
    queueFigures(selection).map((queue) => ({ rank: selection.analysis.number, ...queue })),
  );
  const columns = buildColumns(rows, {
    rank: ({ rank }) => rank,
    stream: ({ stream }) => stream,
    count: ({ count }) => count,
    time_weighted_mean: ({ mean }) => mean,
    max: ({ max }) => max,
    span_ns: ({ span }) => span,
  });
  const launched = sum(rows.map((row) => row.launched));
  // Queues are computed over all times and cut at the edges of the window.
  const matched = { ...matchedKinds(countByKind(selections.map(withOpenWindow))), launched };
  if (rows.length === 0) return makeFrame(columns, { matched }, noteFor("no_launches"));
  const hasChanges = rows.some(({ count, span }) => count !== 0 || span !== 0);
  return makeFrame(columns, { matched }, hasChanges ? "" : noteFor("no_queue_changes"));
}

export function kernelTypesFrame(selections: readonly RankSelection[]): PanelFrame {
  const times = new Float64Array(WORK + 1);
  for (const selection of selections) {
    deviceTimesOf(selection).times.forEach((time, state) => {
      const set = state & WORK;
      if (set > 0) times[set]! += time;
    });
  }
  const totalTime = sum(times);
  const sets = Array.from(times.keys()).filter((set) => times[set]! !== 0);
  sets.sort((a, b) => times[b]! - times[a]! || a - b);
  const columns = buildColumns(sets, {
    kernel_type: (set) =>
      KIND_LABELS.filter((_, kind) => ((set >> kind) & 1) === 1).join(" overlapping "),
    sum_ns: (set) => times[set]!,
    share: (set) => times[set]! / totalTime,
  });
  const matched = matchedKinds(countByKind(selections));
  const missing = Object.keys(matched).filter((kind) => matched[kind] === 0);
  const note = missing.length > 0 ? noteFor("no_kernels_of", { kinds: missing.join(", ") }) : "";
  return makeFrame(columns, { matched }, note);
}
