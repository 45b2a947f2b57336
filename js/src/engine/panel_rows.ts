/** Frames of panels with rows per rank: breakdown, overlap, idle, queue, steps. */

import { CAUSES } from "../facts/panels";
import { sum } from "../expressions/numbers";
import { noteFor } from "../facts/notes";
import type { PanelFrame } from "../protocol/source";
import {
  COMMUNICATION,
  COMPUTE,
  deviceTimes,
  exposedWait,
  MEMORY,
  overlap,
  prelaunchedNote,
  spanOf,
  UNMATCHED,
  WORK,
} from "./device";
import {
  columnsOf,
  countsOf,
  frameOf,
  type Lack,
  matchedKinds,
  noteWithout,
  numbersOf,
} from "./frames";
import { idle } from "./idle";
import { ofAllTimes, type Part } from "./panel_rank";
import { queuesIn } from "./queues";
import { timeOf } from "./sweep";

const NO_WORK: Lack = ["no_device_work", "no_device_work_on"];
const NO_COMMUNICATION: Lack = ["no_communication", "no_communication_on"];
const NO_TIME: Lack = ["no_communication_time", "no_communication_time_on"];
const WORDS = ["COMPUTATION", "COMMUNICATION", "MEMORY"] as const;

/** Parts whose window touches the device work, and the ranks of the others. */
function working(parts: readonly Part[]): [working: Part[], idle: number[]] {
  const at = parts.filter((part) => spanOf(part) !== null);
  return [at, numbersOf(parts.filter((part) => !at.includes(part)))];
}

export function breakdown(parts: readonly Part[]): PanelFrame {
  const [at, without] = working(parts);
  const rows = at.map((part) => {
    const [start, end] = spanOf(part)!;
    const { times } = deviceTimes(part);
    const [wait, known] = [exposedWait(part), part.rank.unmatched !== null];
    return { rank: part.rank.number, span: end - start, times, wait, known };
  });
  const columns = columnsOf(rows, {
    rank: ({ rank }) => rank,
    span_ns: ({ span }) => span,
    idle_ns: ({ span, times }) => span - timeOf(times, WORK),
    compute_ns: ({ times }) => timeOf(times, COMPUTE),
    non_compute_ns: ({ times }) => timeOf(times, COMMUNICATION | MEMORY, COMPUTE),
    busy_ns: ({ times }) => timeOf(times, WORK),
    communication_ns: ({ times }) => timeOf(times, COMMUNICATION),
    exposed_communication_ns: ({ times }) => timeOf(times, COMMUNICATION, COMPUTE),
    exposed_memory_ns: ({ times }) => timeOf(times, MEMORY, COMPUTE | COMMUNICATION),
    exposed_wait_ns: ({ wait }) => wait,
    unmatched_exposed_ns: ({ known, times }) => (known ? timeOf(times, UNMATCHED, COMPUTE) : null),
  });
  const attrs = { matched: matchedKinds(countsOf(parts)), missing_ranks: without };
  const notes = [noteWithout(numbersOf(parts), without, NO_WORK), prelaunchedNote(parts)];
  return frameOf(columns, attrs, notes.filter((note) => note !== "").join("; "));
}

export function overlapRows(parts: readonly Part[]): PanelFrame {
  const rows = parts.map((part) => {
    const [, kernels = 0] = deviceTimes(part).counts;
    return { rank: part.rank.number, kernels, ...overlap(part) };
  });
  const columns = columnsOf(rows, {
    rank: ({ rank }) => rank,
    communication_ns: ({ communication }) => communication,
    overlapped_ns: ({ both }) => both,
    overlap_share: ({ communication, both }) => (communication > 0 ? both / communication : null),
    exposed_ns: ({ communication, both }) => communication - both,
    compute_ns: ({ compute }) => compute,
  });
  const { compute, communication } = matchedKinds(countsOf(parts));
  const silent = rows.filter((row) => row.communication === 0);
  const ranksWhere = (has: boolean): number[] =>
    silent.filter(({ kernels }) => kernels > 0 === has).map(({ rank }) => rank);
  const notes = new Set([
    noteWithout(numbersOf(parts), ranksWhere(false), NO_COMMUNICATION),
    noteWithout(numbersOf(parts), ranksWhere(true), NO_TIME),
  ]);
  const note = [...notes].filter(Boolean).join("; ");
  return frameOf(columns, { matched: { compute, communication } }, note);
}

export function idleCauses(parts: readonly Part[]): PanelFrame {
  const [at, without] = working(parts);
  const rows = at.flatMap((part) => {
    const { time, gaps } = idle(part);
    const whole = sum(time);
    return CAUSES.map((cause, k) => ({
      ...{ rank: part.rank.number, cause, time: time[k]!, gaps: gaps[k]! },
      share: whole > 0 ? time[k]! / whole : null,
    }));
  });
  const columns = columnsOf(rows, {
    rank: ({ rank }) => rank,
    idle_category: ({ cause }) => cause,
    idle_ns: ({ time }) => time,
    gaps: ({ gaps }) => gaps,
    idle_share: ({ share }) => share,
  });
  const attrs = { matched: matchedKinds(countsOf(parts)), missing_ranks: without };
  return frameOf(columns, attrs, noteWithout(numbersOf(parts), without, NO_WORK));
}

export function queues(parts: readonly Part[]): PanelFrame {
  const rows = parts.flatMap((part) =>
    queuesIn(part).map((queue) => ({ rank: part.rank.number, ...queue })),
  );
  const columns = columnsOf(rows, {
    rank: ({ rank }) => rank,
    stream: ({ stream }) => stream,
    count: ({ count }) => count,
    time_weighted_mean: ({ mean }) => mean,
    max: ({ max }) => max,
    span_ns: ({ span }) => span,
  });
  const launched = sum(rows.map((row) => row.launched));
  // Queues cover all times and are cut at the window's edges.
  const matched = { ...matchedKinds(countsOf(parts.map(ofAllTimes))), launched };
  const moved = rows.some(({ count, span }) => count !== 0 || span !== 0);
  const note =
    rows.length === 0 ? noteFor("no_launches") : moved ? "" : noteFor("no_queue_changes");
  return frameOf(columns, { matched }, note);
}

export function kernelTypes(parts: readonly Part[]): PanelFrame {
  const times = new Float64Array(WORK + 1);
  for (const part of parts) {
    deviceTimes(part).times.forEach((time, state) => {
      const set = state & WORK;
      if (set > 0) times[set] = times[set]! + time;
    });
  }
  const whole = sum(times);
  const sets = Array.from(times.keys()).filter((set) => times[set]! !== 0);
  sets.sort((a, b) => times[b]! - times[a]! || a - b);
  const columns = columnsOf(sets, {
    kernel_type: (set) =>
      WORDS.filter((_, kind) => ((set >> kind) & 1) === 1).join(" overlapping "),
    sum_ns: (set) => times[set]!,
    share: (set) => times[set]! / whole,
  });
  const counts = countsOf(parts);
  const matched = matchedKinds(counts);
  const missing = Object.keys(matched).filter((kind) => matched[kind] === 0);
  const note = missing.length > 0 ? noteFor("no_kernels_of", { kinds: missing.join(", ") }) : "";
  return frameOf(columns, { matched }, note);
}
