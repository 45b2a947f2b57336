/** Look up the items at a time of a lane: cell, neighbours, edges, search marks. */

import type { Brief, Reply, Requests, Cell } from "../protocol/source";
import { Counter, type Lane } from "./cells";
import { countBelow, countUpTo, type Names, packed, positions } from "./columns";
import { type AnyRank, Overview } from "./overview";
import type { Rank, Rows } from "./rank";
import { around } from "./spans";

export function checkWindow(
  { start, end }: { start: number; end: number },
  what: "a window" | "a cell" = "a window",
): void {
  if (end > start) return;
  throw new Error(`${what} must end after it starts, not ${start} to ${end}`);
}

export function checkBins(bins: number, most = MAX_BINS): void {
  if (bins >= 1 && bins <= most) return;
  throw new Error(`bins must be within 1 … ${most}, not ${bins}`);
}

/** Answer `cell`: exact contents of a window of a lane. */
export function cell(rank: AnyRank, names: Names, lane: number, start: number, end: number): Cell {
  checkWindow({ start, end }, "a cell");
  if (rank instanceof Overview) return overviewCell(rank, names, lane, start, end);
  const index = rank.lane(lane);
  if (index instanceof Counter) {
    const edges = Float64Array.of(start, end);
    const { smallest, largest } = index.measure(edges);
    const held = !Number.isNaN(smallest[0]);
    return {
      count: index.count(start, end),
      busy: 0,
      longest: null,
      kinds: {},
      min: held ? smallest[0]! : null,
      max: held ? largest[0]! : null,
    };
  }
  const found = laneCell(index, names, start, end);
  return found.count === 0 ? found : { ...found, longest: longest(rank, lane, start, end) };
}

/** Answer `cell` of a lane whose events have no names of their own. */
export function laneCell(index: Lane, names: Names, start: number, end: number): Cell {
  checkWindow({ start, end }, "a cell");
  const { covered, count } = index.spans.measure(Float64Array.of(start, end));
  const kinds = byName(index.kindTimes(start, end), names);
  return { count: count[0]!, busy: covered[0]!, longest: null, kinds };
}

function overviewCell(
  rank: Overview,
  names: Names,
  lane: number,
  start: number,
  end: number,
): Cell {
  const found = rank.window(lane, start, end);
  if (found !== null) {
    return {
      count: found.cells.count[0]!,
      busy: found.cells.covered[0]!,
      longest: found.longest,
      kinds: byName(found.kinds, names),
    };
  }
  const held = rank.held(lane, start, end);
  if (held === null) throw new Error("average of a wider cell; detail not embedded");
  const [min, max] = held.map((value) => (Number.isFinite(value) ? value : null));
  return { count: null, busy: 0, longest: null, kinds: {}, min, max };
}

function byName(times: [kind: number, ns: number][], names: Names): Record<string, number> {
  return Object.fromEntries(times.map(([kind, ns]) => [names.kind(kind), ns]));
}

/** The longest event of a window that has any; ties go to the first. */
function longest(rank: Rank, lane: number, start: number, end: number): Brief {
  const rows = rank.tableOf(rank.ref(lane));
  let most = -1;
  let found = -1;
  for (const row of rank.members(lane)) {
    const [from, dur] = [rows.start[row]!, rows.dur[row]!];
    if (from >= end) break;
    if (dur > most && (dur > 0 ? from + dur > start : from >= start)) {
      most = dur;
      found = row;
    }
  }
  return rank.brief(rows, found);
}

/** Answer `neighbor`: the next or previous event of the same lane. */
export function neighbor(rank: Rank, rows: Rows, row: number, direction: number): Brief | null {
  const members = rank.members(rows.lane[row]!);
  // Asyncs with the same start are not in the order of their rows.
  const at = members.indexOf(row) + (direction > 0 ? 1 : -1);
  return at < 0 || at >= members.length ? null : rank.brief(rows, members[at]!);
}

/** Answer `snap`: the nearest edge of an event of a lane; ties go to the earlier one. */
export function snap(index: Lane | Counter, time: number, tolerance: number): number | null {
  const edges =
    index instanceof Counter
      ? around(index.times, time)
      : [
          ...around(index.spans.begins, time),
          ...index.spans.endsAround(time),
          ...around(index.spans.points, time),
        ];
  let best: number | null = null;
  for (const edge of edges) {
    const distance = Math.abs(edge - time);
    if (distance > tolerance) continue;
    const nearer = best === null ? -1 : distance - Math.abs(best - time);
    if (nearer < 0 || (nearer === 0 && edge < best!)) best = edge;
  }
  return best;
}

// Positions of matches in the view: at most one mark per lane and bin.

export const MAX_BINS = 1 << 16;

/** Rows of one of a rank's tables, ascending, that are to be marked. */
export interface Members {
  rank: Rank;
  rows: Rows;
  chosen: Int32Array;
}

type View = Requests["marks"];

/** Answer `marks`. */
export function marks(view: View, members: Iterable<Members>, error: string | null): Reply {
  checkWindow(view);
  checkBins(view.bins);
  const shown = [...new Set(view.lanes)].sort((a, b) => a - b);
  const grid = new Uint8Array(shown.length * view.bins);
  const binOf = binner(view);
  const rowOf = new Map(shown.map((lane, at) => [lane, at]));
  let total = 0;
  let inView = 0;
  for (const one of members) {
    total += one.chosen.length;
    const { rank, rows } = one;
    // Events are on a summary lane as well.
    const above = rows.table === "events" ? rank.header.summary : [];
    const folded = above
      .filter(({ lane }) => rowOf.has(lane))
      .map((summary) => ({ at: rowOf.get(summary.lane)!, holds: rank.summaryTest(summary) }));
    for (const member of inWindow(one, view)) {
      inView += 1;
      const bin = binOf(rows.start[member]!);
      const own = rowOf.get(rows.lane[member]!);
      if (own !== undefined) grid[own * view.bins + bin] = 1;
      for (const { at, holds } of folded) if (holds(member)) grid[at * view.bins + bin] = 1;
    }
  }
  const marked = positions(grid.length, (at) => grid[at] === 1);
  return packed(
    { in_view: inView, total, error },
    {
      lane: Uint32Array.from(marked, (at) => shown[Math.floor(at / view.bins)]!),
      bin: Uint32Array.from(marked, (at) => at % view.bins),
    },
  );
}

/** The bin of a time; times before the window fall into the first bin. */
export function binner({ start, end, bins }: Omit<View, "lanes">): (time: number) => number {
  const step = Math.floor((end - start) / bins);
  const rest = (end - start) % bins;
  // First instant of each bin, rounded up; products of times and bins could leave 2^53.
  const edges = Float64Array.from(
    { length: bins },
    (_, k) => step * k + Math.ceil((rest * k) / bins),
  );
  return (time) => countUpTo(edges, Math.max(time - start, 0)) - 1;
}

/** Members that overlap the window. */
function* inWindow({ rank, rows, chosen }: Members, { start, end }: View): Generator<number> {
  const low = countBelow(chosen, countBelow(rows.start, start));
  const high = countBelow(chosen, countBelow(rows.start, end));
  if (rows.table === "events") {
    for (const open of rank.openAt(start)) {
      if (chosen[countBelow(chosen, open)] === open) yield open;
    }
  } else {
    for (let at = 0; at < low; at += 1) {
      const row = chosen[at]!;
      if (rows.start[row]! + rows.dur[row]! > start) yield row;
    }
  }
  for (let at = low; at < high; at += 1) yield chosen[at]!;
}
