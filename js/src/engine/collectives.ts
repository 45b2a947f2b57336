/** Matched collectives in the page: waits, late arrivals, and the ribbon. */

import { sum } from "../expressions/numbers";
import { getOrMake } from "../protocol/maps";
import type { ClockFacts, Reply, Requests, Collective, Lateness } from "../protocol/source";
import { Lane, type SliceOut } from "./cells";
import {
  type Blocks,
  Columns,
  countBelow,
  countUpTo,
  type Names,
  packed,
  readBlock,
} from "./columns";
import type { CollectivesHeader, OverlayHeader } from "./document";
import { binner, checkWindow, MAX_BINS } from "./lookups";
import { COMMUNICATION } from "./rank";
import { Cover, Spans } from "./spans";

/** The block that holds the entries. */
const BLOCK = "collectives";
const TRIMMED = 1;

/** A lane of parts of events; `slice` returns the fields of an event to send. */
interface OverlayLane {
  index: Lane;
  slice(at: number): SliceOut;
}

/** Columns of one entry per event, of one rank or of all. */
interface Entries extends Part, Arrivals {
  /** Time by which the transfer exceeds the event less its wait; 0 unless clocks disagree. */
  added: Float64Array;
  size: Float64Array;
  track: Int32Array;
  name: Int32Array;
}

export class Collectives {
  private readonly all: Entries;
  private readonly firsts: number[];
  private readonly calls: { name: Int32Array; group: Int32Array; last: Int32Array };
  private readonly busFactor: Float64Array;
  /** Communication without a match on other ranks, by rank. */
  private readonly alone: Int32Array;
  private readonly lanes = new Map<string, OverlayLane>();
  /** Positions of each collective's entries, by rank. */
  private members: number[][] | null = null;
  private arrivals: Ribbon | null = null;

  constructor(
    private readonly header: CollectivesHeader,
    columns: Columns,
    private readonly ranks: readonly number[],
    private readonly names: Names,
  ) {
    this.all = {
      call: columns.i32("call"),
      id: columns.i32("id"),
      start: columns.f64("start"),
      dur: columns.f64("dur"),
      wait: columns.f64("wait"),
      added: columns.f64("transfer_added"),
      clock: columns.f64("clock"),
      late: columns.f64("late"),
      imposed: columns.f64("imposed"),
      last_alone: new Int32Array(0),
      size: columns.f64("size"),
      track: columns.i32("track"),
      name: columns.i32("name"),
      named: columns.i32("call_name_added"),
    };
    this.calls = {
      name: columns.i32("call_name"),
      group: columns.i32("call_group"),
      last: columns.i32("call_last_rank"),
    };
    const { call, named } = this.all;
    for (let i = 0; i < named.length; i += 1) named[i]! += this.calls.name[call[i]!]!;
    this.all.last_alone = call.map((of) => this.calls.last[of]!);
    this.busFactor = columns.floats("call_bus_factor");
    this.alone = columns.i32("unmatched");
    this.firsts = [0];
    for (const count of header.counts ?? ranks.map(() => 0)) {
      this.firsts.push(this.firsts.at(-1)! + count);
    }
  }

  static async read(
    header: CollectivesHeader,
    blocks: Blocks,
    ranks: readonly number[],
    names: Names,
  ): Promise<Collectives> {
    const any = Object.keys(header.columns).length > 0;
    const bytes = any ? await readBlock(blocks, BLOCK) : new Uint8Array(0);
    return new Collectives(header, new Columns(bytes, header.columns), ranks, names);
  }

  get clock(): ClockFacts | null {
    return this.header.clock ?? null;
  }

  get note(): string {
    return this.header.note;
  }

  /** The ranks that the others wait for, in the whole job. */
  get late(): readonly number[] {
    return this.header.late ?? [];
  }

  get any(): boolean {
    return this.all.id.length > 0;
  }

  /** One rank's entries. */
  part(rank: number): Entries {
    const at = this.ranks.indexOf(rank);
    const [from, to] = [this.firsts[at] ?? 0, this.firsts[at + 1] ?? 0];
    const cut = Object.entries(this.all).map(([name, values]) => [
      name,
      (values as Float64Array).subarray(from, to),
    ]);
    return Object.fromEntries(cut) as Entries;
  }

  /** One rank's communication without a match on other ranks; null if not known. */
  unmatched(rank: number): Int32Array | null {
    const { unmatched } = this.header;
    if (unmatched === undefined) return null;
    const at = this.ranks.indexOf(rank);
    const from = sum(unmatched.slice(0, at));
    return this.alone.subarray(from, from + (unmatched[at] ?? 0));
  }

  lane(rank: number, overlay: OverlayHeader): OverlayLane {
    const key = `${rank} ${overlay.role} ${overlay.track}`;
    return getOrMake(this.lanes, key, () => this.made(this.part(rank), overlay));
  }

  private made(part: Entries, { role, track }: OverlayHeader): OverlayLane {
    const ofAll = role === "late" ? delaysOf : waitsWithoutTransfers;
    const ofTrack = role === "late" ? delaysOf : waitsOf;
    const { start, dur, entry } =
      track < 0 ? ofAll(part) : onTrack(ofTrack(part), part.track, track);
    const index = new Lane({
      starts: start,
      durs: dur,
      kinds: new Uint8Array(start.length).fill(COMMUNICATION),
      rows: Int32Array.from(start, (_, row) => row),
    });
    const slice = (at: number): SliceOut => {
      const row = index.rows[at]!;
      return {
        start: start[row]!,
        dur: dur[row]!,
        id: row,
        name: this.names.key(part.name[entry[row]!]!),
        kind: COMMUNICATION,
        flags: index.overlapped(at) ? TRIMMED : 0,
      };
    };
    return { index, slice };
  }

  /** Arrivals of each rank at each collective. */
  get ribbon(): Ribbon {
    this.arrivals ??= new Ribbon(
      this.ranks.map((rank) => ({ rank, ...this.part(rank) })),
      this.header.names ?? [],
    );
    return this.arrivals;
  }

  /** Reply to `collective`: the same call on all ranks; null if the event is not matched. */
  collective(rank: number, id: number): Collective | null {
    const { all, calls } = this;
    const place = this.ranks.indexOf(rank);
    const own = all.id.subarray(0, this.firsts[place + 1]).indexOf(id, this.firsts[place]);
    if (own < 0) return null;
    const call = all.call[own]!;
    const members = this.membersOf(call);
    const arrivals = members.map((at) => all.start[at]! + all.clock[at]!);
    const first = Math.min(...arrivals);
    const algbw = this.bandwidth(own);
    const factor = this.busFactor[call]!;
    return {
      number: call + 1,
      of: calls.name.length,
      name: this.header.names![calls.name[call]!]!,
      group: this.header.groups![calls.group[call]!]!,
      size: all.size[members[0]!]!,
      algbw,
      busbw: algbw === null || Number.isNaN(factor) ? null : algbw * factor,
      last_rank: calls.last[call]!,
      late: Math.max(...members.map((at) => all.late[at]!)),
      ranks: members.map((at, i) => ({
        rank: this.rankAt(at),
        id: all.id[at]!,
        arrival: arrivals[i]! - first,
        wait: all.wait[at]!,
        transfer: this.transfer(at),
      })),
    };
  }

  private transfer(at: number): number {
    const { dur, wait, added } = this.all;
    return dur[at]! - wait[at]! + added[at]!;
  }

  /** Bandwidth in bytes per ns; 1 is 10^9 bytes per second. */
  private bandwidth(at: number): number | null {
    const [size, transfer] = [this.all.size[at]!, this.transfer(at)];
    return size > 0 && transfer > 0 ? size / transfer : null;
  }

  private membersOf(call: number): number[] {
    if (this.members === null) {
      this.members = Array.from(this.calls.name, () => []);
      this.all.call.forEach((of, at) => this.members![of]!.push(at));
    }
    return this.members[call]!;
  }

  private rankAt(entry: number): number {
    return this.ranks[countUpTo(this.firsts, entry) - 1]!;
  }
}

function onTrack({ start, dur, entry }: Pieces, trackOf: Int32Array, track: number): Pieces {
  const ours = (i: number): boolean => trackOf[entry[i]!] === track;
  return {
    start: start.filter((_, i) => ours(i)),
    dur: dur.filter((_, i) => ours(i)),
    entry: entry.filter((_, i) => ours(i)),
  };
}

// Waits within collectives: as intervals, and summed over a view.

/** One rank's events that are part of collectives, by start, then id. */
export interface Part {
  start: Float64Array;
  dur: Float64Array;
  /** Time until the last rank arrives, or until the event's own end if that is earlier. */
  wait: Float64Array;
  /** Delay after the median arrival of the others if it alone came last; else 0. */
  late: Float64Array;
  /** Total wait that the late arrival imposed on the others. */
  imposed: Float64Array;
  /** The rank that alone came last to the collective, -1 if several came last together. */
  last_alone: Int32Array;
}

/** Parts of events in the order of a lane; `entry`: position in the `Part`. */
export interface Pieces {
  start: Float64Array;
  dur: Float64Array;
  entry: Int32Array;
}

/** Intervals from a rank's own arrival to the last one's. */
export function waitsOf({ start, wait }: Part): Pieces {
  return inOrder(start, wait);
}

/** Intervals from the median arrival of the others to its own, if it alone came last. */
export function delaysOf({ start, late }: Part): Pieces {
  return inOrder(
    start.map((time, i) => time - late[i]!),
    late,
  );
}

/**
 * Time in which a rank only waits: the union of its waits less all its transfers. If waits
 * overlap, the time belongs to the first one in order.
 */
export function waitsWithoutTransfers(part: Part): Pieces {
  const waits = waitsOf(part);
  const begins: number[] = [];
  const ends: number[] = [];
  const owners: number[] = [];
  let reached = Number.NEGATIVE_INFINITY;
  waits.start.forEach((start, i) => {
    const end = start + waits.dur[i]!;
    // Time covered by an earlier wait stays with that wait.
    if (end > reached) {
      begins.push(Math.max(start, reached));
      ends.push(end);
      owners.push(waits.entry[i]!);
      reached = end;
    }
  });
  const left: [start: number, dur: number, entry: number][] = [];
  const own = Cover.of(Float64Array.from(begins), Float64Array.from(ends));
  own.eachBeyond(transfersOf(part), (start, end, piece) => {
    left.push([start, end - start, owners[piece]!]);
  });
  return {
    start: Float64Array.from(left, ([start]) => start),
    dur: Float64Array.from(left, ([, dur]) => dur),
    entry: Int32Array.from(left, ([, , entry]) => entry),
  };
}

/** Time of its waits, including time in which it also transfers. */
export function waitedOf(part: Part): Cover {
  const { start, dur } = waitsOf(part);
  return Spans.of(start, dur).cover;
}

function transfersOf({ start, dur, wait }: Part): Cover {
  const moved = inOrder(
    start.map((time, i) => time + wait[i]!),
    dur.map((whole, i) => whole - wait[i]!),
  );
  return Spans.of(moved.start, moved.dur).cover;
}

/** The pieces with a length: by start, then longest first. */
function inOrder(start: Float64Array, dur: Float64Array): Pieces {
  const order: number[] = [];
  dur.forEach((length, i) => {
    if (length > 0) order.push(i);
  });
  order.sort((a, b) => start[a]! - start[b]! || dur[b]! - dur[a]! || a - b);
  return {
    start: Float64Array.from(order, (i) => start[i]!),
    dur: Float64Array.from(order, (i) => dur[i]!),
    entry: Int32Array.from(order),
  };
}

/** One rank's figures in any window. */
export class RankLateness {
  private readonly waited: Cover;
  /** Cover by late ranks; these rarely change with the window. */
  private readonly waitedFor = new Map<string, Cover>();

  /** `exposed`: the rank's wait without compute, within a window. */
  constructor(
    readonly rank: number,
    private readonly part: Part,
    private readonly exposed: (from: number, to: number) => number,
    /** Whether exposed time within a cell of an overview is a mean. */
    readonly approximate: boolean,
  ) {
    this.waited = waitedOf(part);
  }

  between(from: number, to: number): Figures {
    const { start, dur, late, imposed } = this.part;
    const out = { collectives: 0, last: 0, wait: 0, exposed_wait: 0, imposed: 0 };
    for (let i = 0; i < start.length && start[i]! < to; i += 1) {
      if (!(start[i]! + dur[i]! > from || start[i]! >= from)) continue;
      out.collectives += 1;
      if (late[i]! > 0) out.last += 1;
      out.imposed += imposed[i]!;
    }
    out.wait = this.waited.within(from, to);
    out.exposed_wait = this.exposed(from, to);
    if (this.approximate) out.exposed_wait = Math.round(out.exposed_wait);
    return out;
  }

  /** Waiting time of the rank in collectives at which one of `late` alone comes last. */
  waitFor(late: readonly number[], from: number, to: number): number {
    const cover = getOrMake(this.waitedFor, late.join(), () => {
      const { start, wait, last_alone: last } = this.part;
      const theirs = wait.map((ns, i) => (late.includes(last[i]!) ? ns : 0));
      const { start: begin, dur } = inOrder(start, theirs);
      return Spans.of(begin, dur).cover;
    });
    return cover.within(from, to);
  }
}

interface Figures {
  collectives: number;
  last: number;
  wait: number;
  exposed_wait: number;
  imposed: number;
}

/** Results that hold for the whole job. */
interface OfJob {
  /** The ranks that the others wait for. */
  late: readonly number[];
  note: string;
  clock: ClockFacts | null;
}

/** Reply to `lateness`: totals per rank of the collectives that overlap a window. */
export function lateness(
  ranks: readonly RankLateness[],
  start: number,
  end: number,
  { late: ofJob, note, clock }: OfJob,
): Lateness {
  checkWindow({ start, end });
  const figures = ranks.map((one) => one.between(start, end));
  // Late ranks of the whole job, limited to ranks that delay others in this window.
  const late = ranks.flatMap(({ rank }, i) =>
    ofJob.includes(rank) && figures[i]!.imposed > 0 ? [rank] : [],
  );
  const reply: Lateness = {
    start,
    end,
    ranks: ranks.map(({ rank }) => rank),
    collectives: figures.map((one) => one.collectives),
    last: figures.map((one) => one.last),
    wait: figures.map((one) => one.wait),
    exposed_wait: figures.map((one) => one.exposed_wait),
    imposed: figures.map((one) => one.imposed),
    wait_for_late: ranks.map((one) => one.waitFor(late, start, end)),
    late,
    note,
    clock,
  };
  const approximate = ranks.filter((one) => one.approximate).map(({ rank }) => rank);
  if (approximate.length > 0) reply.approximate = approximate;
  return reply;
}

// Arrival delay of each rank at each collective, and its cost to the others, in bins.

/** One rank's arrivals at collectives, by start, then id. */
interface Arrivals {
  start: Float64Array;
  call: Int32Array;
  id: Int32Array;
  /** Time from its own arrival to the last one's. */
  wait: Float64Array;
  /** Shift from a start to the clock on which arrivals are compared. */
  clock: Float64Array;
  /** Name code of each collective as recorded on this rank. */
  named: Int32Array;
}

export interface RankArrivals extends Arrivals {
  rank: number;
}

/** The arrivals of a rank, and their delays after the median rank. */
interface Late extends RankArrivals {
  late: Float64Array;
}

/** One rank's part in a collective. */
interface Member {
  of: Late;
  /** Place in its arrivals. */
  at: number;
  arrival: number;
}

/** A collective, at the arrival of its last rank. */
interface Call {
  number: number;
  time: number;
  /** Mean wait of the others. */
  wait: number;
  /** -1: several came last together. */
  rank: number;
  name: number;
  id: number;
}

export class Ribbon {
  private readonly ranks: readonly Late[];
  private readonly calls: Call[];
  private readonly most: number;
  private readonly jobMost: number;

  /** `ranks` ascending; `names` sorted. */
  constructor(
    ranks: readonly RankArrivals[],
    private readonly names: readonly string[],
  ) {
    this.ranks = ranks.map((one) => ({ ...one, late: new Float64Array(one.start.length) }));
    const members = membersOf(this.ranks);
    members.forEach(compare);
    this.calls = members.map(callOf);
    this.most = this.ranks.reduce((most, { late }) => largest(late, most), 0);
    this.jobMost = this.calls.reduce((most, { wait }) => Math.max(most, wait), 0);
  }

  /** Answer `ribbon`: the latest arrival of each rank and bin, the costliest call of each bin. */
  within(asked: Asked): Reply {
    const { bins, ranks = null } = asked;
    checkWindow(asked);
    if (!(bins >= 1 && bins <= MAX_BINS)) {
      throw new Error(`a window has 1 to ${MAX_BINS} bins, not ${bins}`);
    }
    const binOf = binner(asked);
    const kept = this.ranks
      .filter(({ rank }) => ranks === null || ranks.includes(rank))
      .flatMap((one) => latest(one, asked, binOf));
    const costliest = this.costliest(asked, binOf);
    const jobs = costliest.map(([, call]) => call);
    return packed(
      { names: this.names, of: this.calls.length, most: this.most, job_most: this.jobMost },
      {
        rank: Int32Array.from(kept, ({ of }) => of.rank),
        bin: Uint32Array.from(kept, ({ bin }) => bin),
        late: Float64Array.from(kept, ({ of, at }) => of.late[at]!),
        call: Uint32Array.from(kept, ({ of, at }) => of.call[at]! + 1),
        name: Uint32Array.from(kept, ({ of, at }) => of.named[at]!),
        id: Uint32Array.from(kept, ({ of, at }) => of.id[at]!),
        job_bin: Uint32Array.from(costliest, ([bin]) => bin),
        job_time: Float64Array.from(jobs, ({ time }) => time),
        job_wait: Float64Array.from(jobs, ({ wait }) => wait),
        job_rank: Int32Array.from(jobs, ({ rank }) => rank),
        job_call: Uint32Array.from(jobs, ({ number }) => number),
        job_name: Uint32Array.from(jobs, ({ name }) => name),
        job_id: Uint32Array.from(jobs, ({ id }) => id),
      },
    );
  }

  /** The most expensive call of each bin; ties go to the first. */
  private costliest({ start, end }: Asked, binOf: BinOf): [bin: number, call: Call][] {
    const best = new Map<number, Call>();
    for (const call of this.calls) {
      if (call.time < start || call.time >= end) continue;
      const bin = binOf(call.time);
      if (call.wait > (best.get(bin)?.wait ?? -Infinity)) best.set(bin, call);
    }
    return [...best].sort(([a], [b]) => a - b);
  }
}

type Asked = Requests["ribbon"];
type BinOf = (time: number) => number;

interface Mark {
  of: Late;
  at: number;
  bin: number;
}

/** The latest arrival of each bin; ties go to the first. */
function latest(of: Late, { start, end }: Asked, binOf: BinOf): Mark[] {
  const marks: Mark[] = [];
  const last = countBelow(of.start, end);
  for (let at = countBelow(of.start, start); at < last; at += 1) {
    const bin = binOf(of.start[at]!);
    const before = marks.at(-1);
    if (before?.bin !== bin) marks.push({ of, at, bin });
    else if (of.late[at]! > of.late[before.at]!) before.at = at;
  }
  return marks;
}

/** Members of each collective, by rank. */
function membersOf(ranks: readonly Late[]): Member[][] {
  const calls = ranks.reduce((most, { call }) => largest(call, most), -1) + 1;
  const members = Array.from({ length: calls }, (): Member[] => []);
  for (const of of ranks) {
    of.call.forEach((call, at) => {
      members[call]!.push({ of, at, arrival: of.start[at]! + of.clock[at]! });
    });
  }
  return members;
}

/** Set the delays after the median rank, or after the earlier of two middle ones. */
function compare(members: readonly Member[]): void {
  const arrivals = Float64Array.from(members, ({ arrival }) => arrival).sort();
  const median = arrivals[(arrivals.length - 1) >> 1]!;
  for (const { of, at, arrival } of members) of.late[at] = Math.max(arrival - median, 0);
}

function callOf(members: readonly Member[], place: number): Call {
  // If several come last at the same time, take the last in order of ranks.
  const last = members.reduce((one, other) => (other.arrival >= one.arrival ? other : one));
  const together = members.filter(({ arrival }) => arrival === last.arrival).length;
  const waited = members.reduce((sum, { of, at }) => sum + of.wait[at]!, 0);
  return {
    number: place + 1,
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
