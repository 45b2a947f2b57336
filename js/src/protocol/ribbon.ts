/** Decode the reply of `ribbon`: the last rank to arrive at each collective. */

import { column, ProtocolError } from "./decode";
import type { Arrival, Reply } from "./source";

/** Arrivals of one rank: positions in the columns, by bin. */
interface RibbonPart {
  first: number;
  last: number;
}

export interface Ribbon {
  start: number;
  end: number;
  bins: number;
  bin: Uint32Array;
  /** ns after the median rank. */
  late: Float64Array;
  call: Uint32Array;
  name: Uint32Array;
  /** Events. */
  id: Uint32Array;
  byRank: ReadonlyMap<number, RibbonPart>;
  jobBin: Uint32Array;
  /** Arrival time of the last rank. */
  jobTime: Float64Array;
  /** ns that the others waited, mean. */
  jobWait: Float64Array;
  /** -1: several together. */
  jobRank: Int32Array;
  jobCall: Uint32Array;
  jobName: Uint32Array;
  jobId: Uint32Array;
  names: readonly string[];
  /** Number of matched collectives. */
  of: number;
  /** The largest `late` and `jobWait` of the whole job. */
  most: number;
  jobMost: number;
}

export function decodeRibbon(
  { reply, buffer }: Reply,
  { start, end, bins }: { start: number; end: number; bins: number },
): Ribbon {
  const get = <D extends "u32" | "i32" | "f64">(name: string, dtype: D) =>
    column(reply, buffer, name, dtype);
  const rank = get("rank", "i32");
  const byRank = new Map<number, RibbonPart>();
  for (let first = 0; first < rank.length;) {
    let last = first + 1;
    while (last < rank.length && rank[last] === rank[first]) last += 1;
    byRank.set(rank[first]!, { first, last });
    first = last;
  }
  const ribbon: Ribbon = {
    start,
    end,
    bins,
    bin: get("bin", "u32"),
    late: get("late", "f64"),
    call: get("call", "u32"),
    name: get("name", "u32"),
    id: get("id", "u32"),
    byRank,
    jobBin: get("job_bin", "u32"),
    jobTime: get("job_time", "f64"),
    jobWait: get("job_wait", "f64"),
    jobRank: get("job_rank", "i32"),
    jobCall: get("job_call", "u32"),
    jobName: get("job_name", "u32"),
    jobId: get("job_id", "u32"),
    names: (reply.names ?? []) as string[],
    of: Number(reply.of ?? 0),
    most: Number(reply.most ?? 0),
    jobMost: Number(reply.job_most ?? 0),
  };
  if (ribbon.late.length !== rank.length || ribbon.jobWait.length !== ribbon.jobBin.length) {
    throw new ProtocolError("The columns of the ribbon do not agree in length.");
  }
  return ribbon;
}

/** The middle of a bin. */
export function timeOfBin({ start, end, bins }: Ribbon, bin: number): number {
  return start + ((bin + 0.5) / bins) * (end - start);
}

/** The mark nearest to `time` within `reach`; ties go to the later arrival. */
function nearest(
  ribbon: Ribbon,
  bin: Uint32Array,
  { first, last }: RibbonPart,
  time: number,
  reach: number,
): number | null {
  let best: number | null = null;
  let distance = reach;
  for (let at = lowerBound(ribbon, bin, first, last, time - reach); at < last; at += 1) {
    const away = Math.abs(timeOfBin(ribbon, bin[at]!) - time);
    if (away <= distance) {
      best = at;
      distance = away;
    } else if (timeOfBin(ribbon, bin[at]!) > time) break;
  }
  return best;
}

function lowerBound(
  ribbon: Ribbon,
  bin: Uint32Array,
  first: number,
  last: number,
  time: number,
): number {
  let [low, high] = [first, last];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timeOfBin(ribbon, bin[middle]!) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A rank's arrival within `reach` of a time. */
export function arrivalAt(
  ribbon: Ribbon,
  rank: number,
  time: number,
  reach: number,
): Arrival | null {
  const part = ribbon.byRank.get(rank);
  const at = part === undefined ? null : nearest(ribbon, ribbon.bin, part, time, reach);
  if (at === null) return null;
  const name = ribbon.names[ribbon.name[at]!] ?? "";
  return {
    name,
    call: ribbon.call[at]!,
    of: ribbon.of,
    rank,
    id: ribbon.id[at]!,
    ns: ribbon.late[at]!,
    ofJob: false,
  };
}

/** The job's mark at a time: the last arrival at a collective. */
export function jobArrivalAt(ribbon: Ribbon, time: number, reach: number): Arrival | null {
  const { jobBin } = ribbon;
  const at = nearest(ribbon, jobBin, { first: 0, last: jobBin.length }, time, reach);
  if (at === null) return null;
  const name = ribbon.names[ribbon.jobName[at]!] ?? "";
  const [call, rank, ns] = [ribbon.jobCall[at]!, ribbon.jobRank[at]!, ribbon.jobWait[at]!];
  return { name, call, of: ribbon.of, rank, id: ribbon.jobId[at]!, ns, ofJob: true };
}
