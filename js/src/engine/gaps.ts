/** The idle gap of a device at an instant: its causes, and what the host did during it. */

import { sum } from "../expressions/numbers";
import { LIMITS } from "../facts/limits";
import { CAUSES } from "../facts/panels";
import { addTo, getOrMake } from "../protocol/maps";
import type { Gap, HostTime, LaneGap } from "../protocol/source";
import { gapIndexOf, idleByCause } from "./idle";
import type { RankAnalysis } from "./panel_rank";
import { COMMUNICATION, DEVICE_KIND_COUNT, type RankTrace } from "./rank";

const HOST_KINDS: ReadonlySet<string> = new Set(["cpu", "annotation", "sync"]);

export function gapAt(analysis: RankAnalysis, instant: number): Gap | null {
  const { trace, work } = analysis;
  const gap = gapIndexOf(analysis.fullSelection).find(instant);
  if (gap === null) return null;
  const { start, end, next } = gap;
  const spent = idleByCause({ ...analysis.fullSelection, low: start, high: end }).time;
  const call = work.call[next]!;
  const causes = CAUSES.map((cause, index) => ({ cause, time: spent[index]! }))
    .filter((share) => share.time > 0)
    .sort((a, b) => b.time - a.time);
  const hostTimes = timesOfOneThread(trace, hostSelfTimes(trace, start, end), call);
  const byName = new TimeSums<number>();
  for (const [row, time] of hostTimes) byName.add(trace.typeOf(trace.events, row)[0], row, time);
  return {
    rank: trace.number,
    start,
    end,
    causes,
    ends: trace.brief(trace.events, work.row[next]!),
    launch: call < 0 ? null : trace.brief(trace.events, call),
    host: byName.largest(trace),
    host_time: sum(hostTimes.map(([, time]) => time)),
  };
}

/** Return the gap at an instant in a lane of device work; null if there is none. */
export function laneGapAt(trace: RankTrace, lane: number, time: number): LaneGap | null {
  const { start, dur, lane: lanes } = trace.events;
  const streams = trace.streams();
  const track = trace.trackAt(lane);
  const summaryRole = trace.header.summary.find((summary) => summary.lane === lane)?.role;
  const isDeviceSummary = summaryRole === "gpu" || summaryRole === "comm";
  if (!isDeviceSummary && track?.role !== "stream") return null;
  const isInLane = (row: number, kind: number): boolean =>
    isDeviceSummary
      ? (kind === COMMUNICATION) === (summaryRole === "comm")
      : trace.trackAt(lanes[row]!) === track;
  const rowsOfOtherLanes: number[] = [];
  let [low, high] = [-Infinity, Infinity];
  for (let row = 0; row < start.length; row += 1) {
    const kind = trace.kindOf(trace.events, row);
    if (streams[row]! < 0 || kind >= DEVICE_KIND_COUNT) continue;
    if (!isInLane(row, kind)) rowsOfOtherLanes.push(row);
    else if (start[row]! <= time) low = Math.max(low, start[row]! + dur[row]!);
    else high = Math.min(high, start[row]!);
  }
  if (low > time || low === -Infinity || high === Infinity) return null;
  const sums = new TimeSums<string>();
  for (const row of rowsOfOtherLanes) {
    const timeInGap = Math.min(start[row]! + dur[row]!, high) - Math.max(start[row]!, low);
    if (timeInGap <= 0) continue;
    const [name] = trace.typeOf(trace.events, row);
    sums.add(`${trace.trackAt(lanes[row]!)?.lane0} ${name}`, row, timeInGap);
  }
  return { start: low, end: high, running: sums.largest(trace) };
}

/** Return the self time of each host event during a gap, keyed by row, ascending. */
function hostSelfTimes(
  trace: RankTrace,
  gapStart: number,
  gapEnd: number,
): [row: number, time: number][] {
  const { start, dur } = trace.events;
  const [parents, streams] = [trace.parents(), trace.streams()];
  const timeInGap = new Map<number, number>();
  for (let row = 0; row < start.length; row += 1) {
    const end = start[row]! + dur[row]!;
    if (start[row]! >= gapEnd || end <= gapStart || dur[row] === 0 || streams[row]! >= 0) continue;
    if (!HOST_KINDS.has(trace.names.kind(trace.kindOf(trace.events, row)))) continue;
    timeInGap.set(row, Math.min(end, gapEnd) - Math.max(start[row]!, gapStart));
  }
  const selfTimes = new Map(timeInGap);
  for (const [row, time] of timeInGap) {
    const parent = parents[row]!;
    if (timeInGap.has(parent)) selfTimes.set(parent, selfTimes.get(parent)! - time);
  }
  return [...selfTimes].filter(([, time]) => time > 0);
}

/** Return the times on the thread of `call`, or on the busiest thread if that thread was idle. */
function timesOfOneThread(
  trace: RankTrace,
  times: [row: number, time: number][],
  call: number,
): [row: number, time: number][] {
  const trackOf = (row: number): number => trace.trackAt(trace.events.lane[row]!)?.lane0 ?? -1;
  const timeOfTrack = new Map<number, number>();
  for (const [row, time] of times) {
    const track = trackOf(row);
    addTo(timeOfTrack, track, time);
  }
  const byTime = [...timeOfTrack].sort(([a, timeA], [b, timeB]) => timeB - timeA || a - b);
  const trackOfCall = call < 0 ? -1 : trackOf(call);
  const track = timeOfTrack.has(trackOfCall) ? trackOfCall : byTime[0]?.[0];
  return times.filter(([row]) => trackOf(row) === track);
}

/** Count events per key, with their total time and the longest event. */
class TimeSums<Key> {
  private readonly byKey = new Map<
    Key,
    { longest: number; maxTime: number; count: number; time: number }
  >();

  add(key: Key, row: number, time: number): void {
    const empty = { longest: row, maxTime: 0, count: 0, time: 0 };
    const entry = getOrMake(this.byKey, key, () => empty);
    if (time > entry.maxTime) [entry.longest, entry.maxTime] = [row, time];
    entry.count += 1;
    entry.time += time;
  }

  /** Return the entries with the most time. */
  largest(trace: RankTrace): HostTime[] {
    return [...this.byKey.values()]
      .sort((a, b) => b.time - a.time || a.longest - b.longest)
      .slice(0, LIMITS.gap_names)
      .map(({ longest, count, time }) => ({
        longest: trace.brief(trace.events, longest),
        count,
        time,
      }));
  }
}
