/** Questions about a spot of one lane: what a cell holds, what comes next, the nearest edge. */

import type { Brief } from "../contract";
import { Counter } from "./counter";
import type { AnyRank } from "./job";
import type { Lane } from "./lane";
import type { Names } from "./names";
import { Overview } from "./overview";
import type { Rank, Rows } from "./rank";
import { around } from "./spans";

/** Answer `cell`: exact contents of a window of a lane. */
export function cell(
  rank: AnyRank,
  names: Names,
  lane: number,
  start: number,
  end: number,
): Record<string, unknown> {
  if (!(end > start)) throw new Error(`a cell must end after it starts, not ${start} to ${end}`);
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
export function laneCell(index: Lane, names: Names, start: number, end: number): LaneCell {
  if (!(end > start)) throw new Error(`a cell must end after it starts, not ${start} to ${end}`);
  const { covered, count } = index.spans.measure(Float64Array.of(start, end));
  const kinds = byName(index.kindTimes(start, end), names);
  return { count: count[0]!, busy: covered[0]!, longest: null, kinds };
}

interface LaneCell extends Record<string, unknown> {
  count: number;
  busy: number;
  longest: null;
  kinds: Record<string, number>;
}

function overviewCell(
  rank: Overview,
  names: Names,
  lane: number,
  start: number,
  end: number,
): Record<string, unknown> {
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

/** The longest event of a window that has one, the first among equals. */
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
  // Asyncs of one start are not in the order of their rows.
  const at = members.indexOf(row) + (direction > 0 ? 1 : -1);
  return at < 0 || at >= members.length ? null : rank.brief(rows, members[at]!);
}

/** Answer `snap`: the nearest edge of an event of a lane, the earlier one among equals. */
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
