/** The gap of a rank's device at an instant: its causes, and the host's activities. */

import { CAUSES } from "../facts/panels";
import type { Gap, HostTime } from "../protocol/source";
import { gapsOf, idle } from "./idle";
import type { PanelRank } from "./panel_rank";

const MOST_NAMES = 8;
const HOST_KINDS: ReadonlySet<string> = new Set(["cpu", "annotation", "sync"]);

export function gapAt(panel: PanelRank, time: number): Gap | null {
  const { rank, work } = panel;
  const found = gapsOf(panel.all).at(time);
  if (found === null) return null;
  const { start, end, next } = found;
  const spent = idle({ ...panel.all, low: start, high: end }).time;
  const call = work.call[next]!;
  const causes = CAUSES.map((cause, at) => ({ cause, time: spent[at]! }))
    .filter((one) => one.time > 0)
    .sort((a, b) => b.time - a.time);
  const times = hostTimes(panel, start, end, call);
  const byName = new Map<number, { longest: number; most: number; count: number; time: number }>();
  let total = 0;
  for (const [row, own] of times) {
    total += own;
    const [name] = rank.typeOf(rank.events, row);
    const one = byName.get(name) ?? { longest: row, most: 0, count: 0, time: 0 };
    if (own > one.most) [one.longest, one.most] = [row, own];
    one.count += 1;
    one.time += own;
    byName.set(name, one);
  }
  const host = [...byName.values()]
    .sort((a, b) => b.time - a.time || a.longest - b.longest)
    .slice(0, MOST_NAMES)
    .map(({ longest, count, time: own }): HostTime => ({
      longest: rank.brief(rank.events, longest),
      count,
      time: own,
    }));
  return {
    rank: rank.number,
    start,
    end,
    causes,
    ends: rank.brief(rank.events, work.row[next]!),
    launch: call < 0 ? null : rank.brief(rank.events, call),
    host,
    host_time: total,
  };
}

/**
 * Time of each host event during a gap, less that of its children; by row, ascending. Only of the
 * thread of `call`, or of the busiest thread.
 */
function hostTimes(
  { rank, names }: PanelRank,
  gapStart: number,
  gapEnd: number,
  call: number,
): Map<number, number> {
  const { start, dur, lane } = rank.events;
  const [above, streams] = [rank.parents(), rank.streams()];
  const inside = new Map<number, number>();
  for (let row = 0; row < start.length; row += 1) {
    const end = start[row]! + dur[row]!;
    if (start[row]! >= gapEnd || end <= gapStart || dur[row] === 0 || streams[row]! >= 0) continue;
    if (!HOST_KINDS.has(names.kind(rank.kindOf(rank.events, row)))) continue;
    inside.set(row, Math.min(end, gapEnd) - Math.max(start[row]!, gapStart));
  }
  const spent = new Map(inside);
  for (const [row, time] of inside) {
    const outer = above[row]!;
    if (inside.has(outer)) spent.set(outer, spent.get(outer)! - time);
  }
  const byTrack = new Map<number, number>();
  const trackOf = (row: number): number => rank.trackAt(lane[row]!)?.lane0 ?? -1;
  for (const [row, time] of spent) {
    byTrack.set(trackOf(row), (byTrack.get(trackOf(row)) ?? 0) + Math.max(time, 0));
  }
  let chosen = call < 0 ? -1 : trackOf(call);
  if (!((byTrack.get(chosen) ?? 0) > 0)) {
    const most = [...byTrack].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    chosen = most[0]?.[0] ?? -1;
  }
  return new Map([...spent].filter(([row, time]) => time > 0 && trackOf(row) === chosen));
}
