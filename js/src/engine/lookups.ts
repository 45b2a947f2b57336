/** Look up what is at a given time in a lane: cell, neighbors, edges, search marks. */

import { LIMITS } from "../facts/limits";
import type { Brief, Reply, Requests, Cell } from "../protocol/source";
import { CounterSeries, type IndexedLane } from "./cells";
import { countBelow, countUpTo, type NameTable, packReply } from "./columns";
import { type RankData, RankOverview } from "./overview";
import type { RankTrace, EventTable } from "./rank";
import { neighbors, overlaps } from "./spans";

export function checkWindow(
  { start, end }: { start: number; end: number },
  noun: "a window" | "a cell" = "a window",
): void {
  if (end > start) return;
  throw new Error(`${noun} must end after it starts, not ${start} to ${end}`);
}

export function checkBins(bins: number, max = LIMITS.window_bins): void {
  if (bins >= 1 && bins <= max) return;
  throw new Error(`bins must be within 1 … ${max}, not ${bins}`);
}

type CellRequest = Requests["cell"];

/** Answer `cell`: the exact contents of a time window in a lane. */
export function cellReply(rank: RankData, request: CellRequest): Cell {
  const { lane, start, end } = request;
  checkWindow(request, "a cell");
  if (rank instanceof RankOverview) return overviewCell(rank, request);
  const index = rank.laneIndex(lane);
  if (index instanceof CounterSeries) {
    const { min, max } = index.measure(Float64Array.of(start, end));
    return counterCell(index.countSamples(start, end), min[0]!, max[0]!);
  }
  const laneCell = laneCellReply(index, rank.names, request);
  if (laneCell.count === 0) return laneCell;
  return { ...laneCell, longest: longestEvent(rank, lane, start, end) };
}

/** Answer `cell` for a lane whose longest event has no name, such as a lane of waits. */
export function laneCellReply(
  index: IndexedLane,
  names: NameTable,
  { start, end }: CellRequest,
): Cell {
  checkWindow({ start, end }, "a cell");
  const { covered, count } = index.spans.measure(Float64Array.of(start, end));
  const kinds = kindTimesByName(index.kindTimes(start, end), names);
  return { count: count[0]!, busy: covered[0]!, longest: null, kinds };
}

function overviewCell(rank: RankOverview, request: CellRequest): Cell {
  const { lane, start, end } = request;
  const contents = rank.windowContents(lane, start, end);
  if (contents !== null) {
    return {
      count: contents.cells.count[0]!,
      busy: contents.cells.covered[0]!,
      longest: contents.longest,
      kinds: kindTimesByName(contents.kinds, rank.names),
    };
  }
  const extremes = rank.counterExtremes(lane, start, end);
  if (extremes === null) throw new Error("average of a wider cell; details are not embedded");
  return counterCell(null, ...extremes);
}

/** Return the reply for a counter. `min` and `max` are infinite if it has no values. */
function counterCell(count: number | null, min: number, max: number): Cell {
  const finiteOrNull = (value: number) => (Number.isFinite(value) ? value : null);
  const extremes = { min: finiteOrNull(min), max: finiteOrNull(max) };
  return { count, busy: 0, longest: null, kinds: {}, ...extremes };
}

function kindTimesByName(
  times: [kind: number, ns: number][],
  names: NameTable,
): Record<string, number> {
  return Object.fromEntries(times.map(([kind, ns]) => [names.kind(kind), ns]));
}

/** Return the longest event in a non-empty window. Ties go to the first event. */
function longestEvent(rank: RankTrace, lane: number, start: number, end: number): Brief {
  const rows = rank.tableOfContent(rank.laneContent(lane));
  let [longest, maxDur] = [-1, -1];
  for (const row of rank.laneRows(lane)) {
    const [from, dur] = [rows.start[row]!, rows.dur[row]!];
    if (from >= end) break;
    if (dur > maxDur && overlaps(from, from + dur, start)) [longest, maxDur] = [row, dur];
  }
  return rank.brief(rows, longest);
}

/** Answer `neighbor`: the next or previous event of the same lane. */
export function neighborEvent(
  rank: RankTrace,
  rows: EventTable,
  row: number,
  direction: number,
): Brief | null {
  const members = rank.laneRows(rows.lane[row]!);
  // Asyncs that start at the same time are not in row order.
  const index = members.indexOf(row) + (direction > 0 ? 1 : -1);
  return index < 0 || index >= members.length ? null : rank.brief(rows, members[index]!);
}

const edgesAround = ({ spans }: IndexedLane, time: number): number[] => [
  ...neighbors(spans.begins, time),
  ...spans.endsAround(time),
  ...neighbors(spans.points, time),
];

/** Answer `snap`: the event edge in a lane nearest to a time. Ties go to the earlier edge. */
export function snapTime(
  index: IndexedLane | CounterSeries,
  time: number,
  tolerance: number,
): number | null {
  const edges =
    index instanceof CounterSeries ? neighbors(index.times, time) : edgesAround(index, time);
  const distanceTo = (edge: number): number => Math.abs(edge - time);
  const reachable = edges.filter((edge) => distanceTo(edge) <= tolerance);
  reachable.sort((a, b) => distanceTo(a) - distanceTo(b) || a - b);
  return reachable[0] ?? null;
}

// Positions of search matches in the view, as runs of bins.

/** Rows to mark in one of a rank's tables, ascending. */
export interface MarkedRows {
  rank: RankTrace;
  rows: EventTable;
  marked: Int32Array;
}

type MarksRequest = Requests["marks"];

/** Answer `marks`: where the lanes of a view contain marked rows. */
export function marksReply(
  view: MarksRequest,
  members: Iterable<MarkedRows>,
  error: string | null,
): Reply {
  checkWindow(view);
  checkBins(view.bins);
  const shownLanes = [...new Set(view.lanes)].sort((a, b) => a - b);
  // Each match adds 1 at its first bin and subtracts 1 after its last bin.
  const width = view.bins + 1;
  const changes = new Int32Array(shownLanes.length * width);
  const binOf = makeBinner(view);
  const indexOfLane = new Map(shownLanes.map((lane, index) => [lane, index]));
  const mark = (lane: number, first: number, end: number): void => {
    const laneIndex = indexOfLane.get(lane);
    if (laneIndex === undefined) return;
    changes[laneIndex * width + first]! += 1;
    changes[laneIndex * width + end]! -= 1;
  };
  let total = 0;
  let inView = 0;
  for (const markedRows of members) {
    const { rank, rows, marked } = markedRows;
    total += marked.length;
    // Events are drawn in their summary lane as well.
    const summaries = rows.table === "events" ? rank.header.summary : [];
    const shownSummaries = summaries
      .filter(({ lane }) => indexOfLane.has(lane))
      .map((summary) => ({ lane: summary.lane, includes: rank.summaryTest(summary) }));
    for (const row of membersInWindow(markedRows, view)) {
      inView += 1;
      const start = rows.start[row]!;
      const first = binOf(start);
      const end = binOf(Math.max(start, start + rows.dur[row]! - 1)) + 1;
      mark(rows.lane[row]!, first, end);
      for (const { lane, includes } of shownSummaries) if (includes(row)) mark(lane, first, end);
    }
  }
  return packReply({ in_view: inView, total, error }, markedRuns(changes, width, shownLanes));
}

/** Return the runs of bins with a positive running sum. Each lane has `width` bins. */
function markedRuns(changes: Int32Array, width: number, lanes: readonly number[]) {
  const runs: { lane: number[]; bin: number[]; end: number[] } = { lane: [], bin: [], end: [] };
  let open = 0;
  changes.forEach((change, index) => {
    const before = open;
    open += change;
    if (before === 0 && open > 0) {
      runs.lane.push(lanes[Math.floor(index / width)]!);
      runs.bin.push(index % width);
    } else if (before > 0 && open === 0) runs.end.push(index % width);
  });
  const { lane, bin, end } = runs;
  return { lane: Uint32Array.from(lane), bin: Uint32Array.from(bin), end: Uint32Array.from(end) };
}

/** Return a function from time to bin. Times before the window belong to the first bin. */
export function makeBinner({ start, end, bins }: Omit<MarksRequest, "lanes">) {
  const step = Math.floor((end - start) / bins);
  const remainder = (end - start) % bins;
  // First instant of each bin, rounded up. The product of a time and a bin could exceed 2^53.
  const edges = new Float64Array(bins).map((_, k) => step * k + Math.ceil((remainder * k) / bins));
  return (time: number): number => countUpTo(edges, Math.max(time - start, 0)) - 1;
}

/** Yield the marked rows in the window: first those that started before it, then the rest. */
function* membersInWindow(
  { rank, rows, marked }: MarkedRows,
  { start, end }: MarksRequest,
): Generator<number> {
  // Rows are sorted by start, and `marked` is ascending.
  const countBefore = (time: number) => countBelow(marked, countBelow(rows.start, time));
  const earlier = marked.subarray(0, countBefore(start));
  if (rows.table === "events") {
    const isMarked = (row: number): boolean => earlier[countBelow(earlier, row)] === row;
    yield* rank.runningAt(start).filter(isMarked);
  } else {
    // Only the events table has an index of the events that run at a time.
    yield* earlier.filter((row) => rows.start[row]! + rows.dur[row]! > start);
  }
  yield* marked.subarray(earlier.length, countBefore(end));
}
