/** How long each rank takes for each step and its phases, against the others. */

import type { PhasesHeader } from "../document";
import type { PanelRank } from "./panel_rank";
import type { Part } from "./part";

const STEP = /^ProfilerStep\s*#\s*(\d{1,18})/;
/** Phases that take less of all steps say little. */
const LEAST_PCT = 1;

interface StepRow {
  row: number;
  number: number;
}

export interface StepRows {
  phase: string[];
  step: number[];
  rank: number[];
  start: number[];
  dur: number[];
  deviation: (number | null)[];
  /** How many of them are whole steps. */
  steps: number;
  /** Ranks that have no step, and how many steps these have whatever is selected. */
  without: number[];
  unselected: number;
  /** Empty unless the window cuts steps. */
  cut: string;
}

/** Parts are of all times, or of the window of an export. */
export function stepRows(parts: readonly Part[], phases: PhasesHeader): StepRows {
  const whole: Spent[] = [];
  const without: number[] = [];
  let unselected = 0;
  for (const part of parts) {
    const own = added(
      hostSteps(part.rank).filter(({ row }) => chosen(part, row)),
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
      const mine = rows.filter((one) => one.phase === at && chosen(part, one.row));
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
  /** The step lies in the window: only such steps are compared. */
  whole: boolean;
}

function chosen({ mask }: Part, row: number): boolean {
  return mask === null || mask[row] === 1;
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

/** From the first start to the last end of what belongs to one step. */
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

/** The first start, and the time of all of what belongs to one step. */
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

/** How far durations are from the median of their step, as a share of it. */
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

const KNOWN = new WeakMap<PanelRank, StepRow[]>();

/** The host's ranges that are steps, by start. */
function hostSteps(rank: PanelRank): StepRow[] {
  let found = KNOWN.get(rank);
  if (found === undefined) {
    found = [];
    const { type } = rank.rank.events;
    const streams = rank.rank.streams();
    const numbers = rank.rank.header.types.map(([name]) => {
      const match = STEP.exec(rank.names.full(name));
      return match === null ? -1 : Number(match[1]);
    });
    if (numbers.some((number) => number >= 0)) {
      for (let row = 0; row < type.length; row += 1) {
        const number = numbers[type[row]!]!;
        if (number >= 0 && streams[row]! < 0) found.push({ row, number });
      }
    }
    KNOWN.set(rank, found);
  }
  return found;
}

function sum(rows: readonly Spent[]): number {
  return rows.reduce((total, { dur }) => total + dur, 0);
}
