/** Decode the reply of `ribbon`: the last rank to arrive at each collective. */

import { column, ProtocolError } from "./decode";
import type { Arrival, Reply } from "./source";

/** Arrivals as columns. */
interface Arrivals {
  bin: Uint32Array;
  /** ns after the median rank; of the job, ns that the others waited, mean. */
  ns: Float64Array;
  /** -1: several together. */
  rank: Int32Array;
  call: Uint32Array;
  name: Uint32Array;
  /** Events. */
  id: Uint32Array;
}

/** Arrivals of one rank: positions in the columns, by bin. */
interface RibbonPart {
  first: number;
  last: number;
}

export interface Ribbon {
  start: number;
  end: number;
  bins: number;
  late: Arrivals;
  byRank: ReadonlyMap<number, RibbonPart>;
  /** The last arrival at each collective. */
  job: Arrivals;
  names: readonly string[];
  /** Number of matched collectives. */
  of: number;
  /** The largest `ns` of the whole job. */
  most: number;
  jobMost: number;
}

export function decodeRibbon(
  { reply, buffer }: Reply,
  { start, end, bins }: { start: number; end: number; bins: number },
): Ribbon {
  const arrivals = (prefix: string, ns: string): Arrivals => {
    const get = <D extends "u32" | "i32" | "f64">(name: string, dtype: D) =>
      column(reply, buffer, prefix + name, dtype);
    const found = {
      bin: get("bin", "u32"),
      ns: get(ns, "f64"),
      rank: get("rank", "i32"),
      call: get("call", "u32"),
      name: get("name", "u32"),
      id: get("id", "u32"),
    };
    if (Object.values(found).some(({ length }) => length !== found.bin.length)) {
      throw new ProtocolError("The columns of the ribbon do not agree in length.");
    }
    return found;
  };
  const late = arrivals("", "late");
  const { rank } = late;
  const byRank = new Map<number, RibbonPart>();
  for (let first = 0; first < rank.length;) {
    let last = first + 1;
    while (last < rank.length && rank[last] === rank[first]) last += 1;
    byRank.set(rank[first]!, { first, last });
    first = last;
  }
  return {
    start,
    end,
    bins,
    late,
    byRank,
    job: arrivals("job_", "wait"),
    names: (reply.names ?? []) as string[],
    of: Number(reply.of ?? 0),
    most: Number(reply.most ?? 0),
    jobMost: Number(reply.job_most ?? 0),
  };
}

/** The middle of a bin. */
export function timeOfBin({ start, end, bins }: Ribbon, bin: number): number {
  return start + ((bin + 0.5) / bins) * (end - start);
}

/** The arrival nearest to `time` within `reach`; ties go to the later one. */
function nearest(
  ribbon: Ribbon,
  arrivals: Arrivals,
  { first, last }: RibbonPart,
  time: number,
  reach: number,
): Arrival | null {
  const timeAt = (at: number): number => timeOfBin(ribbon, arrivals.bin[at]!);
  let [low, high] = [first, last];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timeAt(middle) < time - reach) low = middle + 1;
    else high = middle;
  }
  let best: number | null = null;
  let distance = reach;
  for (let at = low; at < last; at += 1) {
    const away = Math.abs(timeAt(at) - time);
    if (away <= distance) {
      best = at;
      distance = away;
    } else if (timeAt(at) > time) break;
  }
  if (best === null) return null;
  return {
    name: ribbon.names[arrivals.name[best]!] ?? "",
    call: arrivals.call[best]!,
    of: ribbon.of,
    rank: arrivals.rank[best]!,
    id: arrivals.id[best]!,
    ns: arrivals.ns[best]!,
    ofJob: arrivals === ribbon.job,
  };
}

/** A rank's arrival within `reach` of a time. */
export function arrivalAt(
  ribbon: Ribbon,
  rank: number,
  time: number,
  reach: number,
): Arrival | null {
  const part = ribbon.byRank.get(rank);
  return part === undefined ? null : nearest(ribbon, ribbon.late, part, time, reach);
}

/** The job's mark at a time: the last arrival at a collective. */
export function jobArrivalAt(ribbon: Ribbon, time: number, reach: number): Arrival | null {
  const all = { first: 0, last: ribbon.job.bin.length };
  return nearest(ribbon, ribbon.job, all, time, reach);
}
