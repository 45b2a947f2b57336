/** How late each rank comes to each collective, and what that costs the others, in bins. */

import type { Reply } from "../contract";
import { binner, MAX_BINS } from "./marks";
import { packed } from "./pack";
import { countBelow } from "./sorted";

/** One rank's arrivals at collectives, by start, then id. */
export interface Arrivals {
  start: Float64Array;
  call: Int32Array;
  id: Int32Array;
  /** From its own arrival to the last one's. */
  wait: Float64Array;
  /** To be added to a start for the clock that collectives were matched by. */
  clock: Float64Array;
  /** Places of the collectives' names, as this rank calls them. */
  named: Int32Array;
}

export interface RankArrivals extends Arrivals {
  rank: number;
}

/** What a request asks for. */
export interface Asked {
  start: number;
  end: number;
  bins: number;
  /** null: of all. */
  ranks: readonly number[] | null;
}

/** Check and return what a request states. */
export function arrivalsAsked(request: Record<string, unknown>): Asked {
  const [start, end, bins] = [Number(request.start), Number(request.end), Number(request.bins)];
  if (!(end > start)) throw new Error(`a window must end after it starts, not ${start} to ${end}`);
  if (!(bins >= 1 && bins <= MAX_BINS)) {
    throw new Error(`a window has 1 to ${MAX_BINS} bins, not ${bins}`);
  }
  return { start, end, bins, ranks: (request.ranks ?? null) as readonly number[] | null };
}

/** One rank's part in a collective. */
interface Member {
  of: RankArrivals;
  /** Place in its arrivals. */
  at: number;
  arrival: number;
}

/** A collective, where its last rank comes. */
interface Call {
  time: number;
  /** What the others waited, mean. */
  wait: number;
  /** -1: several came last at once. */
  rank: number;
  name: number;
  id: number;
}

export class Ribbon {
  private readonly calls: Call[];
  /** By rank: how long after the median rank it comes. */
  private readonly late: Map<number, Float64Array>;
  private readonly most: number;
  private readonly jobMost: number;

  /** `ranks` ascending; `names` sorted. */
  constructor(
    private readonly ranks: readonly RankArrivals[],
    private readonly names: readonly string[],
  ) {
    this.late = new Map(ranks.map(({ rank, start }) => [rank, new Float64Array(start.length)]));
    this.calls = membersOf(ranks).map((members) => {
      this.compare(members);
      return callOf(members);
    });
    this.most = [...this.late.values()].reduce((most, values) => largest(values, most), 0);
    this.jobMost = this.calls.reduce((most, { wait }) => Math.max(most, wait), 0);
  }

  /** Answer `ribbon`: the latest arrival of each rank and bin, the costliest call of each bin. */
  within(asked: Asked): Reply {
    const binOf = binner(asked);
    const kept = this.ranks
      .filter(({ rank }) => asked.ranks === null || asked.ranks.includes(rank))
      .flatMap((one) => this.latest(one, asked, binOf));
    const jobs = this.costliest(asked, binOf);
    const call = ({ at }: JobMark): Call => this.calls[at]!;
    return packed(
      { names: this.names, of: this.calls.length, most: this.most, job_most: this.jobMost },
      {
        rank: Int32Array.from(kept, ({ of }) => of.rank),
        bin: Uint32Array.from(kept, ({ bin }) => bin),
        late: Float64Array.from(kept, ({ late }) => late),
        call: Uint32Array.from(kept, ({ of, at }) => of.call[at]! + 1),
        name: Uint32Array.from(kept, ({ of, at }) => of.named[at]!),
        id: Uint32Array.from(kept, ({ of, at }) => of.id[at]!),
        job_bin: Uint32Array.from(jobs, ({ bin }) => bin),
        job_time: Float64Array.from(jobs, (job) => call(job).time),
        job_wait: Float64Array.from(jobs, (job) => call(job).wait),
        job_rank: Int32Array.from(jobs, (job) => call(job).rank),
        job_call: Uint32Array.from(jobs, ({ at }) => at + 1),
        job_name: Uint32Array.from(jobs, (job) => call(job).name),
        job_id: Uint32Array.from(jobs, (job) => call(job).id),
      },
    );
  }

  /** Compare with the median rank, the earlier one of two. */
  private compare(members: readonly Member[]): void {
    const arrivals = Float64Array.from(members, ({ arrival }) => arrival).sort();
    const median = arrivals[(arrivals.length - 1) >> 1]!;
    for (const { of, at, arrival } of members) {
      this.late.get(of.rank)![at] = Math.max(arrival - median, 0);
    }
  }

  /** The latest of each bin, the first among equals. */
  private latest(of: RankArrivals, { start, end }: Asked, binOf: BinOf): Mark[] {
    const marks: Mark[] = [];
    const lateness = this.late.get(of.rank)!;
    const last = countBelow(of.start, end);
    for (let at = countBelow(of.start, start); at < last; at += 1) {
      const bin = binOf(of.start[at]!);
      const late = lateness[at]!;
      const before = marks.at(-1);
      if (before?.bin !== bin) marks.push({ of, at, bin, late });
      else if (late > before.late) Object.assign(before, { at, late });
    }
    return marks;
  }

  /** The one of each bin that the others waited longest for, the first among equals. */
  private costliest({ start, end }: Asked, binOf: BinOf): JobMark[] {
    const best = new Map<number, number>();
    this.calls.forEach(({ time, wait }, at) => {
      if (time < start || time >= end) return;
      const bin = binOf(time);
      const before = best.get(bin);
      if (before === undefined || wait > this.calls[before]!.wait) best.set(bin, at);
    });
    return [...best].map(([bin, at]) => ({ bin, at })).sort((a, b) => a.bin - b.bin);
  }
}

type BinOf = (time: number) => number;

interface Mark {
  of: RankArrivals;
  at: number;
  bin: number;
  late: number;
}

interface JobMark {
  bin: number;
  /** Place of the collective. */
  at: number;
}

/** Members of each collective, by rank. */
function membersOf(ranks: readonly RankArrivals[]): Member[][] {
  const calls = ranks.reduce((most, { call }) => largest(call, most), -1) + 1;
  const members = Array.from({ length: calls }, (): Member[] => []);
  for (const of of ranks) {
    of.call.forEach((call, at) => {
      members[call]!.push({ of, at, arrival: of.start[at]! + of.clock[at]! });
    });
  }
  return members;
}

function callOf(members: readonly Member[]): Call {
  // Of several that come last at once, the last in order of ranks.
  const last = members.reduce((one, other) => (other.arrival >= one.arrival ? other : one));
  const together = members.filter(({ arrival }) => arrival === last.arrival).length;
  const waited = members.reduce((sum, { of, at }) => sum + of.wait[at]!, 0);
  return {
    time: last.of.start[last.at]!,
    wait: Math.floor(waited / Math.max(members.length - 1, 1)),
    rank: members.length > 1 && together === 1 ? last.of.rank : -1,
    name: last.of.named[last.at]!,
    id: last.of.id[last.at]!,
  };
}

function largest(values: ArrayLike<number>, most: number): number {
  for (let i = 0; i < values.length; i += 1) most = Math.max(most, values[i]!);
  return most;
}
