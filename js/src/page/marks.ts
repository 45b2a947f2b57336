/** Where matches lie in the view: one mark per lane and bin, however many there are. */

import type { Reply } from "../contract";
import { packed } from "./pack";
import { ANNOTATION, COMMUNICATION, type Rank, type Rows } from "./rank";
import { countBelow, countUpTo } from "./sorted";

export const MAX_BINS = 1 << 16;
const KINDS = 8;

/** Rows of one of a rank's tables, ascending, that are to be marked. */
export interface Members {
  rank: Rank;
  rows: Rows;
  chosen: Int32Array;
}

export interface View {
  start: number;
  end: number;
  bins: number;
  /** Sorted, each once. */
  lanes: number[];
}

/** Check and return a view as a request states it. */
export function viewOf(request: Record<string, unknown>): View {
  const [start, end, bins] = [Number(request.start), Number(request.end), Number(request.bins)];
  if (!(end > start)) throw new Error(`a window must end after it starts, not ${start} to ${end}`);
  if (!(bins >= 1 && bins <= MAX_BINS)) {
    throw new Error(`bins must be within 1 … ${MAX_BINS}, not ${bins}`);
  }
  const lanes = [...new Set(request.lanes as number[])].sort((a, b) => a - b);
  return { start, end, bins, lanes };
}

/** Answer `marks`. */
export function marks(view: View, members: Iterable<Members>, error: string | null): Reply {
  const grid = new Uint8Array(view.lanes.length * view.bins);
  const binOf = binner(view);
  const row = new Map(view.lanes.map((lane, at) => [lane, at]));
  let total = 0;
  let inView = 0;
  for (const one of members) {
    total += one.chosen.length;
    const lanes = lanesOf(one);
    for (const member of inWindow(one, view)) {
      inView += 1;
      const bin = binOf(one.rows.start[member]!);
      for (const lane of lanes(member)) {
        const at = row.get(lane);
        if (at !== undefined) grid[at * view.bins + bin] = 1;
      }
    }
  }
  const marked: number[] = [];
  grid.forEach((mark, at) => {
    if (mark === 1) marked.push(at);
  });
  return packed(
    { in_view: inView, total, error },
    {
      lane: Uint32Array.from(marked, (at) => view.lanes[Math.floor(at / view.bins)]!),
      bin: Uint32Array.from(marked, (at) => at % view.bins),
    },
  );
}

/** The bin of a time; what is before the window goes into the first. */
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

/** The lanes of a row: events are on a summary lane as well. */
function lanesOf({ rank, rows }: Members): (row: number) => number[] {
  if (rows.table !== "events") return (row) => [rows.lane[row]!];
  const { tracks, summary } = rank.header;
  const folded = new Int32Array(tracks.length * KINDS).fill(-1);
  const streams = tracks.flatMap(({ role }, at) => (role === "stream" ? [at] : []));
  for (const one of summary) {
    const members = one.role === "cpu" ? one.tracks : streams;
    for (let kind = 0; kind < KINDS; kind += 1) {
      if (one.role === "comm" ? kind !== COMMUNICATION : !holds(one, kind)) continue;
      for (const track of members) folded[track * KINDS + kind] = one.lane;
    }
  }
  const at = new Map(tracks.map((track, i) => [track, i]));
  return (row) => {
    const lane = rows.lane[row]!;
    const track = rank.trackAt(lane);
    const above = track === null ? -1 : folded[at.get(track)! * KINDS + rank.kindOf(rows, row)]!;
    return above < 0 ? [lane] : [lane, above];
  };
}

function holds(summary: { role: string; annotations: boolean }, kind: number): boolean {
  if (summary.role === "gpu") return kind !== COMMUNICATION || summary.annotations;
  return kind !== ANNOTATION || summary.annotations;
}
