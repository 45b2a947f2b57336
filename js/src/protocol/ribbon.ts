/** Decode the reply to `ribbon`: the last rank to arrive at each collective. */

import { readColumn, ProtocolError } from "./decode";
import { getOrMake } from "./maps";
import type { Arrival, Reply } from "./source";

interface RibbonArrivals {
  bin: Uint32Array;
  /** Delay after the median rank; for arrivals of the job, the mean wait of the other ranks. */
  ns: Float64Array;
  /** The rank; -1 if several ranks came last together. */
  rank: Int32Array;
  call: Uint32Array;
  name: Uint32Array;
  /** ID of the arriving event. */
  id: Uint32Array;
}

/** The arrivals of one rank, sorted by bin: columns from `first` up to but excluding `last`. */
interface ArrivalRange {
  first: number;
  last: number;
}

export interface Ribbon {
  start: number;
  end: number;
  bins: number;
  rankArrivals: RibbonArrivals;
  rangeOfRank: ReadonlyMap<number, ArrivalRange>;
  /** The last arrival at each collective. */
  jobArrivals: RibbonArrivals;
  names: readonly string[];
  collectiveCount: number;
  /** The largest `ns` in the whole job. */
  maxNs: number;
  jobMaxNs: number;
}

/** Read the columns whose names begin with `prefix`. `nsName` names the column of delays. */
function readArrivals({ reply, buffer }: Reply, prefix: string, nsName: string): RibbonArrivals {
  const get = <D extends "u32" | "i32" | "f64">(name: string, dtype: D) =>
    readColumn(reply, buffer, prefix + name, dtype);
  const columns = {
    bin: get("bin", "u32"),
    ns: get(nsName, "f64"),
    rank: get("rank", "i32"),
    call: get("call", "u32"),
    name: get("name", "u32"),
    id: get("id", "u32"),
  };
  if (Object.values(columns).some(({ length }) => length !== columns.bin.length)) {
    throw new ProtocolError("The columns of the ribbon differ in length.");
  }
  return columns;
}

export function decodeRibbon(
  answer: Reply,
  { start, end, bins }: { start: number; end: number; bins: number },
): Ribbon {
  const { reply } = answer;
  const rankArrivals = readArrivals(answer, "", "late");
  const rangeOfRank = new Map<number, ArrivalRange>();
  rankArrivals.rank.forEach((rank, index) => {
    const range = getOrMake(rangeOfRank, rank, () => ({ first: index, last: index }));
    range.last = index + 1;
  });
  return {
    start,
    end,
    bins,
    rankArrivals,
    rangeOfRank,
    jobArrivals: readArrivals(answer, "job_", "wait"),
    names: (reply.names ?? []) as string[],
    collectiveCount: Number(reply.of ?? 0),
    maxNs: Number(reply.most ?? 0),
    jobMaxNs: Number(reply.job_most ?? 0),
  };
}

export function timeOfBin({ start, end, bins }: Ribbon, bin: number): number {
  return start + ((bin + 0.5) / bins) * (end - start);
}

/** Return the arrival nearest to `time` within `toleranceNs`. Ties go to the later arrival. */
function nearestArrival(
  ribbon: Ribbon,
  arrivals: RibbonArrivals,
  { first, last }: ArrivalRange,
  time: number,
  toleranceNs: number,
): Arrival | null {
  const timeAt = (index: number): number => timeOfBin(ribbon, arrivals.bin[index]!);
  let [low, high] = [first, last];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timeAt(middle) < time - toleranceNs) low = middle + 1;
    else high = middle;
  }
  let best: number | null = null;
  let distance = toleranceNs;
  for (let index = low; index < last; index += 1) {
    const distanceToBin = Math.abs(timeAt(index) - time);
    if (distanceToBin <= distance) {
      best = index;
      distance = distanceToBin;
    } else if (timeAt(index) > time) break;
  }
  return best === null ? null : readArrival(ribbon, arrivals, best);
}

function readArrival(ribbon: Ribbon, arrivals: RibbonArrivals, index: number): Arrival {
  return {
    name: ribbon.names[arrivals.name[index]!] ?? "",
    call: arrivals.call[index]!,
    of: ribbon.collectiveCount,
    rank: arrivals.rank[index]!,
    id: arrivals.id[index]!,
    ns: arrivals.ns[index]!,
    ofJob: arrivals === ribbon.jobArrivals,
  };
}

/** Return the arrival of a rank within `toleranceNs` of a time. */
export function arrivalAt(
  ribbon: Ribbon,
  rank: number,
  time: number,
  toleranceNs: number,
): Arrival | null {
  const range = ribbon.rangeOfRank.get(rank);
  return range === undefined
    ? null
    : nearestArrival(ribbon, ribbon.rankArrivals, range, time, toleranceNs);
}

/** Return the last arrival at a collective, as marked near a time in the job's row. */
export function jobArrivalAt(ribbon: Ribbon, time: number, toleranceNs: number): Arrival | null {
  const wholeRange = { first: 0, last: ribbon.jobArrivals.bin.length };
  return nearestArrival(ribbon, ribbon.jobArrivals, wholeRange, time, toleranceNs);
}
