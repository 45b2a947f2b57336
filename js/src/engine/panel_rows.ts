/** Frames of panels with rows per rank: breakdown, overlap, idle, queue, steps. */

import { CAUSES } from "../facts/panels";
import type { PanelFrame } from "../protocol/source";
import { positions } from "./columns";
import {
  COMMUNICATION,
  COMPUTE,
  deviceTimes,
  exposedWait,
  MEMORY,
  overlap,
  prelaunchedNote,
  spanOf,
  WORK,
} from "./device";
import type { PhasesHeader } from "./document";
import {
  blank,
  type Columns,
  frameOf,
  matchedKinds,
  NO_LAUNCHES,
  put,
  STILL_QUEUES,
  withoutCommunication,
  withoutSteps,
  withoutWork,
} from "./frames";
import { idle } from "./idle";
import { BUSY, isChosen, ofAllTimes, type PanelRank, type Part } from "./panel_rank";
import { queuesIn } from "./queues";
import { timeOf } from "./sweep";

const WORDS = ["COMPUTATION", "COMMUNICATION", "MEMORY"] as const;

function numbersOf(parts: readonly Part[]): number[] {
  return parts.map(({ rank }) => rank.number);
}

function countsOf(parts: readonly Part[]): number[] {
  const counts = new Array<number>(BUSY).fill(0);
  for (const part of parts) {
    deviceTimes(part).counts.forEach((count, kind) => (counts[kind] = counts[kind]! + count));
  }
  return counts;
}

/** Parts whose devices work, or idle between work, and the ranks of those without. */
function working(parts: readonly Part[]): [working: Part[], idle: number[]] {
  const at = parts.filter((part) => spanOf(part) !== null);
  return [at, numbersOf(parts.filter((part) => !at.includes(part)))];
}

export function breakdown(parts: readonly Part[]): PanelFrame {
  const columns = blank(
    "rank",
    "span_ns",
    "idle_ns",
    "compute_ns",
    "non_compute_ns",
    "busy_ns",
    "communication_ns",
    "exposed_communication_ns",
    "exposed_memory_ns",
    "exposed_wait_ns",
  );
  const [at, without] = working(parts);
  for (const part of at) {
    const [start, end] = spanOf(part)!;
    const { times } = deviceTimes(part);
    const [span, busy, compute] = [end - start, timeOf(times, WORK), timeOf(times, COMPUTE)];
    put(columns, {
      rank: part.rank.number,
      span_ns: span,
      idle_ns: span - busy,
      compute_ns: compute,
      non_compute_ns: busy - compute,
      busy_ns: busy,
      communication_ns: timeOf(times, COMMUNICATION),
      exposed_communication_ns: timeOf(times, COMMUNICATION, COMPUTE),
      exposed_memory_ns: timeOf(times, MEMORY, COMPUTE | COMMUNICATION),
      exposed_wait_ns: exposedWait(part),
    });
  }
  const attrs = { matched: matchedKinds(countsOf(parts)), missing_ranks: without };
  const notes = [withoutWork(numbersOf(parts), without), prelaunchedNote(parts)];
  return frameOf(columns, attrs, notes.filter((note) => note !== "").join("; "));
}

export function overlapRows(parts: readonly Part[]): PanelFrame {
  const columns = blank(
    "rank",
    "communication_ns",
    "overlapped_ns",
    "overlap_share",
    "exposed_ns",
    "compute_ns",
  );
  const silent: number[] = [];
  for (const part of parts) {
    const { communication, compute, both } = overlap(part);
    if (communication === 0) silent.push(part.rank.number);
    put(columns, {
      rank: part.rank.number,
      communication_ns: communication,
      overlapped_ns: both,
      overlap_share: communication > 0 ? both / communication : null,
      exposed_ns: communication - both,
      compute_ns: compute,
    });
  }
  const { compute, communication } = matchedKinds(countsOf(parts));
  const note = withoutCommunication(numbersOf(parts), silent);
  return frameOf(columns, { matched: { compute, communication } }, note);
}

export function idleCauses(parts: readonly Part[]): PanelFrame {
  const columns = blank("rank", "idle_category", "idle_ns", "gaps", "idle_share");
  const [at, without] = working(parts);
  for (const part of at) {
    const { time, gaps } = idle(part);
    const whole = time.reduce((sum, one) => sum + one, 0);
    CAUSES.forEach((category, k) => {
      put(columns, {
        rank: part.rank.number,
        idle_category: category,
        idle_ns: time[k]!,
        gaps: gaps[k]!,
        idle_share: whole > 0 ? time[k]! / whole : null,
      });
    });
  }
  const attrs = { matched: matchedKinds(countsOf(parts)), missing_ranks: without };
  return frameOf(columns, attrs, withoutWork(numbersOf(parts), without));
}

export function queues(parts: readonly Part[]): PanelFrame {
  const columns = blank("rank", "stream", "count", "time_weighted_mean", "max", "span_ns");
  let launched = 0;
  for (const part of parts) {
    const found = part.rank.once("queues", part, queuesIn);
    launched += found.launched;
    for (const { stream, count, mean, max, span } of found.queues) {
      put(columns, {
        rank: part.rank.number,
        stream,
        count,
        time_weighted_mean: mean,
        max,
        span_ns: span,
      });
    }
  }
  // Queues cover all times and are cut at the window's edges.
  const matched = { ...matchedKinds(countsOf(parts.map(ofAllTimes))), launched };
  const moved =
    columns.count!.some((one) => one !== 0) || columns.span_ns!.some((one) => one !== 0);
  const note = columns.rank!.length === 0 ? NO_LAUNCHES : moved ? "" : STILL_QUEUES;
  return frameOf(columns, { matched }, note);
}

export function kernelTypes(parts: readonly Part[]): PanelFrame {
  const times = new Float64Array(WORK + 1);
  for (const part of parts) {
    deviceTimes(part).times.forEach((time, state) => {
      times[state & WORK] = times[state & WORK]! + time;
    });
  }
  times[0] = 0;
  const whole = times.reduce((sum, time) => sum + time, 0);
  const sets = Array.from(times.keys()).filter((set) => times[set]! !== 0);
  sets.sort((a, b) => times[b]! - times[a]! || a - b);
  const columns: Columns = {
    kernel_type: sets.map((set) =>
      WORDS.filter((_, kind) => ((set >> kind) & 1) === 1).join(" overlapping "),
    ),
    sum_ns: sets.map((set) => times[set]!),
    share: sets.map((set) => times[set]! / whole),
  };
  const counts = countsOf(parts);
  const matched = matchedKinds(counts);
  const missing = Object.keys(matched).filter((kind) => matched[kind] === 0);
  const note = missing.length > 0 ? `no kernels matched ${missing.join(", ")}` : "";
  return frameOf(columns, { matched }, note);
}

/** Frame of steps. The windows of `parts` must be open. */
export function steps(parts: readonly Part[], phases: PhasesHeader): PanelFrame {
  const found = stepRows(parts, phases);
  const columns: Columns = {
    phase: found.phase,
    step: found.step,
    rank: found.rank,
    start_ns: found.start,
    dur_ns: found.dur,
    deviation_share: found.deviation,
  };
  const matched = { steps: found.steps, ...matchedKinds(countsOf(parts)) };
  const without = withoutSteps(numbersOf(parts), found.without, found.unselected);
  return frameOf(columns, { matched }, [without, found.cut].filter(Boolean).join("; "));
}

// Duration of each step and its phases per rank, compared with the other ranks.

const STEP = /^ProfilerStep\s*#\s*(\d{1,18})/;
/** Phases below this share of all steps are omitted. */
const LEAST_PCT = 1;

interface StepRow {
  row: number;
  number: number;
}

interface StepRows {
  phase: string[];
  step: number[];
  rank: number[];
  start: number[];
  dur: number[];
  deviation: (number | null)[];
  /** Number of rows that are whole steps. */
  steps: number;
  /** Ranks without a step, and the number of their steps regardless of the selection. */
  without: number[];
  unselected: number;
  /** Empty unless the window cuts steps. */
  cut: string;
}

/** Parts are of all times, or of the window of an export. */
function stepRows(parts: readonly Part[], phases: PhasesHeader): StepRows {
  const whole: Spent[] = [];
  const without: number[] = [];
  let unselected = 0;
  for (const part of parts) {
    const own = added(
      hostSteps(part.rank).filter(({ row }) => isChosen(part, row)),
      part,
      0,
    );
    if (own.length === 0) {
      without.push(part.rank.number);
      unselected += new Set(hostSteps(part.rank).map(({ number }) => number)).size;
    }
    whole.push(...own.sort((a, b) => a.step - b.step));
  }
  const found = parts.flatMap((part) => {
    const { row, step, phase } = part.rank.rank.phases();
    const own: Spent[][] = phases.names.map(() => []);
    const rows = Array.from(row, (one, i) => ({ row: one, number: step[i]!, phase: phase[i]! }));
    for (let at = 0; at < own.length; at += 1) {
      const mine = rows.filter((one) => one.phase === at && isChosen(part, one.row));
      own[at] = summed(mine, part, at + 1).sort((a, b) => a.step - b.step);
    }
    return own.flat();
  });
  const all = sum(whole);
  const lasting = phases.labels.flatMap((_, at) => {
    const mine = found.filter(({ phase }) => phase === at + 1);
    return whole.length > 0 && mine.length > 0 && sum(mine) * 100 >= all * LEAST_PCT ? [mine] : [];
  });
  const rows = [...whole, ...lasting.flat()];
  return {
    phase: rows.map(({ phase }) => (phase === 0 ? "step" : phases.labels[phase - 1]!)),
    step: rows.map(({ step }) => step),
    rank: rows.map(({ rank }) => rank),
    start: rows.map(({ start }) => start),
    dur: rows.map(({ dur }) => dur),
    deviation: [deviations(whole), ...lasting.map(deviations)].flat(),
    steps: whole.length,
    without,
    unselected,
    cut: whole.every((row) => row.whole)
      ? ""
      : "steps that the window cuts are not compared between ranks",
  };
}

interface Spent {
  /** 0: the whole step; else the place of the phase, plus one. */
  phase: number;
  rank: number;
  step: number;
  start: number;
  dur: number;
  /** Whether the step is within the window: only such steps are compared. */
  whole: boolean;
}

function clipped({ rank, low, high }: Part, row: number): [start: number, end: number] {
  const { start, dur } = rank.rank.events;
  return [Math.max(start[row]!, low), Math.min(start[row]! + dur[row]!, high)];
}

/** Steps of a rank that the window does not cut, and no export has cut. */
function wholeSteps({ rank, low, high }: Part): (step: number) => boolean {
  const { start, dur } = rank.rank.events;
  const cut = new Set(rank.rank.header.clipped_steps);
  for (const { row, number } of hostSteps(rank)) {
    if (start[row]! < low || start[row]! + dur[row]! > high) cut.add(number);
  }
  return (step) => !cut.has(step);
}

/** Span from the first start to the last end of the parts of one step. */
function added(rows: readonly StepRow[], part: Part, phase: number): Spent[] {
  const { rank } = part;
  const byStep = new Map<number, Spent & { end: number }>();
  const isWhole = wholeSteps(part);
  for (const { row, number } of rows) {
    const [from, to] = clipped(part, row);
    const known = byStep.get(number);
    if (known === undefined) {
      const [start, dur, whole] = [from, to - from, isWhole(number)];
      const made = { phase, rank: rank.number, step: number, start, dur, end: to, whole };
      byStep.set(number, made);
      continue;
    }
    known.start = Math.min(known.start, from);
    known.end = Math.max(known.end, to);
    known.dur = known.end - known.start;
  }
  return [...byStep.values()];
}

/** The first start and the total time of the parts of one step. */
function summed(rows: readonly StepRow[], part: Part, phase: number): Spent[] {
  const byStep = new Map<number, Spent>();
  const isWhole = wholeSteps(part);
  for (const { row, number } of rows) {
    const [start, end] = clipped(part, row);
    const known = byStep.get(number);
    if (known !== undefined) known.dur += end - start;
    else {
      const whole = isWhole(number);
      const rank = part.rank.number;
      byStep.set(number, { phase, rank, step: number, start, dur: end - start, whole });
    }
  }
  return [...byStep.values()];
}

/** Deviation of each duration from the median of its step, as a share of that median. */
function deviations(rows: readonly Spent[]): (number | null)[] {
  const byStep = new Map<number, number[]>();
  for (const { step, dur, whole } of rows) {
    if (!whole) continue;
    const known = byStep.get(step);
    if (known === undefined) byStep.set(step, [dur]);
    else known.push(dur);
  }
  for (const durs of byStep.values()) durs.sort((a, b) => a - b);
  return rows.map(({ step, dur, whole }) => {
    const durs = byStep.get(step);
    if (!whole || durs === undefined) return null;
    const middle = (durs[(durs.length - 1) >> 1]! + durs[durs.length >> 1]!) / 2;
    return middle === 0 ? null : (dur - middle) / middle;
  });
}

/** The host's ranges that are steps, by start. */
function hostSteps(rank: PanelRank): StepRow[] {
  return rank.once("steps", rank.all, ({ rank: { names, rank: own } }) => {
    const { type } = own.events;
    const streams = own.streams();
    const numbers = own.header.types.map(([name]) => {
      const match = STEP.exec(names.full(name));
      return match === null ? -1 : Number(match[1]);
    });
    if (numbers.every((number) => number < 0)) return [];
    const rows = positions(type.length, (row) => numbers[type[row]!]! >= 0 && streams[row]! < 0);
    return Array.from(rows, (row) => ({ row, number: numbers[type[row]!]! }));
  });
}

function sum(rows: readonly Spent[]): number {
  return rows.reduce((total, { dur }) => total + dur, 0);
}
