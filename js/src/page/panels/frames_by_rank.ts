/** Panels with rows for each rank: breakdown, overlap, idle, queue, steps; and the kinds of work. */

import type { PanelFrame, Value } from "../../dash/types";
import type { PhasesHeader } from "../document";
import { CAUSES } from "../../dash/charts/idle";
import { busyTimes, exactly, overlap, prelaunchedNote, spanOf } from "./busy_times";
import { idle } from "./idle";
import {
  matchedKinds,
  NO_LAUNCHES,
  STILL_QUEUES,
  withoutCommunication,
  withoutSteps,
  withoutWork,
} from "./notes";
import { ofAllTimes, type Part } from "./part";
import { BUSY } from "./work";
import { stepRows } from "./steps";
import { exposedWait } from "./waits";

const WORDS = ["COMPUTATION", "COMMUNICATION", "MEMORY"] as const;
const ALL = 7;

export type Columns = Record<string, Value[]>;

export function frameOf(columns: Columns, attrs: Record<string, unknown>, note = ""): PanelFrame {
  const rows = Object.values(columns)[0]?.length ?? 0;
  const said = note !== "" ? note : rows === 0 ? "no events match" : "";
  return { rows, columns, attrs: said === "" ? attrs : { ...attrs, note: said } };
}

/** An empty column of each name. */
export function blank(...names: string[]): Columns {
  return Object.fromEntries(names.map((name) => [name, []]));
}

export function put(columns: Columns, row: Record<string, Value>): void {
  for (const [name, value] of Object.entries(row)) columns[name]!.push(value);
}

export function numbersOf(parts: readonly Part[]): number[] {
  return parts.map(({ rank }) => rank.number);
}

function countsOf(parts: readonly Part[]): number[] {
  const counts = new Array<number>(BUSY).fill(0);
  for (const part of parts) {
    busyTimes(part).counts.forEach((count, kind) => (counts[kind] = counts[kind]! + count));
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
    const { unions } = busyTimes(part);
    const [span, busy, compute, either] = [end - start, unions[ALL]!, unions[1]!, unions[3]!];
    put(columns, {
      rank: part.rank.number,
      span_ns: span,
      idle_ns: span - busy,
      compute_ns: compute,
      non_compute_ns: busy - compute,
      busy_ns: busy,
      communication_ns: unions[2]!,
      exposed_communication_ns: either - compute,
      exposed_memory_ns: busy - either,
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
    const found = part.rank.once("queue", part, (one) => one.rank.launched.within(one));
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
  // Queues are those of all times, cut at the window's edges.
  const matched = { ...matchedKinds(countsOf(parts.map(ofAllTimes))), launched };
  const moved =
    columns.count!.some((one) => one !== 0) || columns.span_ns!.some((one) => one !== 0);
  const note = columns.rank!.length === 0 ? NO_LAUNCHES : moved ? "" : STILL_QUEUES;
  return frameOf(columns, { matched }, note);
}

export function kernelTypes(parts: readonly Part[]): PanelFrame {
  const times = new Float64Array(ALL + 1);
  for (const part of parts) {
    exactly(busyTimes(part).unions).forEach((time, set) => {
      if (set > 0) times[set] = times[set]! + time;
    });
  }
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

/** Of parts of all times. */
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
