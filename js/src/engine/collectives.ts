/** The matched collectives of a saved page: waits, late arrivals, and the ribbon. */

import { FLAGS } from "../facts/limits";
import { allIndices, gather, indicesWhere, sum } from "../expressions/numbers";
import { getOrMake } from "../protocol/maps";
import type { Reply, Requests, Collective, Lateness } from "../protocol/source";
import { IndexedLane, type TileSlice } from "./cells";
import {
  type Blocks,
  ColumnReader,
  countBelow,
  countUpTo,
  type NameTable,
  packReply,
  readBlock,
} from "./columns";
import type { CollectivesHeader, OverlayHeader } from "./document";
import { checkBins, checkWindow, makeBinner } from "./lookups";
import { COMMUNICATION } from "./rank";
import { IntervalUnion, IntervalSet } from "./spans";

/** Name of the block with the columns of all entries. */
const BLOCK_NAME = "collectives";

/** A lane of waits or delays. `slice` returns the fields of an item. */
interface OverlayLane {
  index: IndexedLane;
  slice(position: number): TileSlice;
}

/** Columns with one entry per event of a collective, for one rank or all ranks. */
interface CollectiveEntries extends CollectiveEvents, ArrivalColumns {
  /** Transfer time that exceeds the rest of the event after its wait; 0 unless clocks disagree. */
  transferAddedNs: Float64Array;
  size: Float64Array;
  track: Int32Array;
  name: Int32Array;
}

export class Collectives {
  private readonly entries: CollectiveEntries;
  private readonly rankOffsets: number[];
  private readonly calls: { name: Int32Array; group: Int32Array; last: Int32Array };
  private readonly busFactor: Float64Array;
  /** Rows of communication events without a match on other ranks, rank by rank. */
  private readonly unmatchedIds: Int32Array;
  private readonly lanes = new Map<string, OverlayLane>();
  /** For each collective, the positions of its entries, in rank order. */
  private members: number[][] | null = null;
  private ribbonIndex: RibbonIndex | null = null;

  constructor(
    readonly header: CollectivesHeader,
    columns: ColumnReader,
    private readonly ranks: readonly number[],
    private readonly names: NameTable,
  ) {
    this.calls = {
      name: columns.i32("call_name"),
      group: columns.i32("call_group"),
      last: columns.i32("call_last_rank"),
    };
    const { name, last } = this.calls;
    const call = columns.i32("call");
    this.entries = {
      call,
      id: columns.i32("id"),
      start: columns.f64("start"),
      dur: columns.f64("dur"),
      wait: columns.f64("wait"),
      transferAddedNs: columns.f64("transfer_added"),
      clock: columns.f64("clock"),
      late: columns.f64("late"),
      imposed: columns.f64("imposed"),
      lastRank: call.map((callIndex) => last[callIndex]!),
      size: columns.f64("size"),
      track: columns.i32("track"),
      name: columns.i32("name"),
      // The page stores the name code as a difference from the collective's.
      recordedName: columns
        .i32("call_name_added")
        .map((difference, entry) => name[call[entry]!]! + difference),
    };
    this.busFactor = columns.floats("call_bus_factor");
    this.unmatchedIds = columns.i32("unmatched");
    this.rankOffsets = [0];
    for (const count of header.counts ?? ranks.map(() => 0)) {
      this.rankOffsets.push(this.rankOffsets.at(-1)! + count);
    }
  }

  static async read(
    header: CollectivesHeader,
    blocks: Blocks,
    ranks: readonly number[],
    names: NameTable,
  ): Promise<Collectives> {
    const hasColumns = Object.keys(header.columns).length > 0;
    const bytes = hasColumns ? await readBlock(blocks, BLOCK_NAME) : new Uint8Array(0);
    return new Collectives(header, new ColumnReader(bytes, header.columns), ranks, names);
  }

  get hasEntries(): boolean {
    return this.entries.id.length > 0;
  }

  entriesOfRank(rank: number): CollectiveEntries {
    const index = this.ranks.indexOf(rank);
    const [from, to] = [this.rankOffsets[index] ?? 0, this.rankOffsets[index + 1] ?? 0];
    const slices = Object.entries(this.entries).map(([name, values]) => [
      name,
      (values as Float64Array).subarray(from, to),
    ]);
    return Object.fromEntries(slices) as CollectiveEntries;
  }

  /** Return the rows of a rank's unmatched communication; null if the job has only one rank. */
  unmatchedOf(rank: number): Int32Array | null {
    const { unmatched } = this.header;
    if (unmatched === undefined) return null;
    const index = this.ranks.indexOf(rank);
    const from = sum(unmatched.slice(0, index));
    return this.unmatchedIds.subarray(from, from + (unmatched[index] ?? 0));
  }

  overlayLane(rank: number, overlay: OverlayHeader): OverlayLane {
    const key = `${rank} ${overlay.role} ${overlay.track}`;
    return getOrMake(this.lanes, key, () =>
      this.buildOverlayLane(this.entriesOfRank(rank), overlay),
    );
  }

  private buildOverlayLane(
    entries: CollectiveEntries,
    { role, track }: OverlayHeader,
  ): OverlayLane {
    const isWholeRank = track < 0;
    const waits = isWholeRank ? waitsWithoutTransfers : waitPieces;
    const pieces = role === "late" ? delayPieces(entries) : waits(entries);
    const { start, dur, entry } = isWholeRank
      ? pieces
      : piecesOnTrack(pieces, entries.track, track);
    const index = new IndexedLane({
      starts: start,
      durs: dur,
      kinds: new Uint8Array(start.length).fill(COMMUNICATION),
      rows: allIndices(start.length),
    });
    const slice = (position: number): TileSlice => {
      const piece = index.rows[position]!;
      return {
        start: start[piece]!,
        dur: dur[piece]!,
        id: piece,
        name: this.names.shortKey(entries.name[entry[piece]!]!),
        kind: COMMUNICATION,
        flags: index.overlapsEarlier(position) ? FLAGS.slice.trimmed : 0,
      };
    };
    return { index, slice };
  }

  /** Index of the arrivals of each rank at each collective. */
  get ribbon(): RibbonIndex {
    this.ribbonIndex ??= new RibbonIndex(
      this.ranks.map((rank) => ({ rank, ...this.entriesOfRank(rank) })),
      this.header.names ?? [],
    );
    return this.ribbonIndex;
  }

  /** Answer `collective`: the call on all ranks; null if the event is unmatched. */
  collectiveReply(rank: number, id: number): Collective | null {
    const { entries, calls } = this;
    const rankIndex = this.ranks.indexOf(rank);
    const [first, last] = [this.rankOffsets[rankIndex], this.rankOffsets[rankIndex + 1]];
    const entry = entries.id.subarray(0, last).indexOf(id, first);
    if (entry < 0) return null;
    const call = entries.call[entry]!;
    const members = this.membersOf(call);
    const arrivals = members.map((member) => entries.start[member]! + entries.clock[member]!);
    const firstArrival = Math.min(...arrivals);
    const algbw = this.bandwidth(entry);
    const factor = this.busFactor[call]!;
    return {
      number: call + 1,
      of: calls.name.length,
      name: this.header.names![calls.name[call]!]!,
      group: this.header.groups![calls.group[call]!]!,
      size: entries.size[members[0]!]!,
      algbw,
      busbw: algbw === null || Number.isNaN(factor) ? null : algbw * factor,
      last_rank: calls.last[call]!,
      late: Math.max(...members.map((member) => entries.late[member]!)),
      ranks: members.map((member, i) => ({
        rank: this.ranks[countUpTo(this.rankOffsets, member) - 1]!,
        id: entries.id[member]!,
        arrival: arrivals[i]! - firstArrival,
        wait: entries.wait[member]!,
        transfer: this.transfer(member),
      })),
    };
  }

  private transfer(entry: number): number {
    const { dur, wait, transferAddedNs } = this.entries;
    return dur[entry]! - wait[entry]! + transferAddedNs[entry]!;
  }

  /** Return the bandwidth in bytes per ns, which equals GB/s. */
  private bandwidth(entry: number): number | null {
    const [size, transfer] = [this.entries.size[entry]!, this.transfer(entry)];
    return size > 0 && transfer > 0 ? size / transfer : null;
  }

  private membersOf(call: number): number[] {
    if (this.members === null) {
      this.members = Array.from(this.calls.name, () => []);
      this.entries.call.forEach((callIndex, entry) => this.members![callIndex]!.push(entry));
    }
    return this.members[call]!;
  }
}

function piecesOnTrack(
  { start, dur, entry }: EventPieces,
  trackOf: Int32Array,
  track: number,
): EventPieces {
  const onTrack = indicesWhere(entry.length, (i) => trackOf[entry[i]!] === track);
  return {
    start: gather(start, onTrack),
    dur: gather(dur, onTrack),
    entry: gather(entry, onTrack),
  };
}

// Waits within collectives: their intervals, and their totals in a window.

/** The events of one rank that belong to collectives, by start, then id. */
export interface CollectiveEvents {
  start: Float64Array;
  dur: Float64Array;
  /** Time until the last rank arrives or the event ends, whichever is first. */
  wait: Float64Array;
  /** Delay relative to the other ranks' median arrival if only this rank came last; otherwise 0. */
  late: Float64Array;
  /** Total wait of the other ranks caused by the late arrival. */
  imposed: Float64Array;
  /** The rank that came last to the collective; -1 if several came last together. */
  lastRank: Int32Array;
}

/** Parts of events in lane order. `entry` is the position in the `CollectiveEvents`. */
export interface EventPieces {
  start: Float64Array;
  dur: Float64Array;
  entry: Int32Array;
}

/** Return the intervals from the arrival of this rank to the arrival of the last rank. */
export function waitPieces({ start, wait }: CollectiveEvents): EventPieces {
  return sortPieces(start, wait);
}

/** Return intervals from the others' median arrival to this rank's, where only it came last. */
export function delayPieces({ start, late }: CollectiveEvents): EventPieces {
  return sortPieces(
    start.map((time, i) => time - late[i]!),
    late,
  );
}

/**
 * Return the intervals in which a rank waits and does not transfer. Where waits overlap, the time
 * belongs to the earlier wait.
 */
export function waitsWithoutTransfers(events: CollectiveEvents): EventPieces {
  const waits = waitPieces(events);
  const begins: number[] = [];
  const ends: number[] = [];
  const owners: number[] = [];
  let reached = -Infinity;
  waits.start.forEach((start, i) => {
    const end = start + waits.dur[i]!;
    if (end <= reached) return;
    begins.push(Math.max(start, reached));
    ends.push(end);
    owners.push(waits.entry[i]!);
    reached = end;
  });
  // The parts do not overlap, so each is a piece of the union.
  const union = IntervalUnion.of(new Float64Array(begins), new Float64Array(ends));
  const remaining: { start: number; dur: number; entry: number }[] = [];
  union.forEachDifference(transferUnion(events), (start, end, piece) => {
    remaining.push({ start, dur: end - start, entry: owners[piece]! });
  });
  return {
    start: Float64Array.from(remaining, ({ start }) => start),
    dur: Float64Array.from(remaining, ({ dur }) => dur),
    entry: Int32Array.from(remaining, ({ entry }) => entry),
  };
}

/** Return the union of a rank's waits, including time in which it also transfers. */
export function waitUnion(events: CollectiveEvents): IntervalUnion {
  const { start, dur } = waitPieces(events);
  return IntervalSet.of(start, dur).cover;
}

function transferUnion({ start, dur, wait }: CollectiveEvents): IntervalUnion {
  const transfers = sortPieces(
    start.map((time, i) => time + wait[i]!),
    dur.map((length, i) => length - wait[i]!),
  );
  return IntervalSet.of(transfers.start, transfers.dur).cover;
}

/** Return the pieces that have a length, by start, longest first. */
function sortPieces(start: Float64Array, dur: Float64Array): EventPieces {
  const order = indicesWhere(dur.length, (i) => dur[i]! > 0);
  order.sort((a, b) => start[a]! - start[b]! || dur[b]! - dur[a]! || a - b);
  return { start: gather(start, order), dur: gather(dur, order), entry: order };
}

/** The time in which a rank waits without computing. */
export interface ExposedWait {
  within(from: number, to: number): number;
  /** Whether it comes from an overview, which has only the mean of each cell. */
  readonly isApproximate: boolean;
}

/** A rank's lateness figures, for a given window. */
export class RankLateness {
  private readonly waitUnion: IntervalUnion;
  /** Keyed by the late ranks, which rarely change with the window. */
  private readonly waitUnionByLateRanks = new Map<string, IntervalUnion>();

  constructor(
    readonly rank: number,
    private readonly events: CollectiveEvents,
    private readonly exposed: ExposedWait,
  ) {
    this.waitUnion = waitUnion(events);
  }

  get isApproximate(): boolean {
    return this.exposed.isApproximate;
  }

  figuresBetween(from: number, to: number) {
    const { start, dur, late, imposed } = this.events;
    const counts = { collectives: 0, last: 0, imposed: 0 };
    for (let i = 0; i < start.length && start[i]! < to; i += 1) {
      const endsBefore = start[i]! < from && start[i]! + dur[i]! <= from;
      if (endsBefore) continue;
      counts.collectives += 1;
      if (late[i]! > 0) counts.last += 1;
      counts.imposed += imposed[i]!;
    }
    const exposedWait = this.exposed.within(from, to);
    return {
      ...counts,
      wait: this.waitUnion.coveredWithin(from, to),
      exposed_wait: this.isApproximate ? Math.round(exposedWait) : exposedWait,
    };
  }

  /** Return how long this rank waits in collectives to which only one of `late` comes last. */
  waitForRanks(late: readonly number[], from: number, to: number): number {
    const cover = getOrMake(this.waitUnionByLateRanks, late.join(), () => {
      const { start, wait, lastRank } = this.events;
      const waitsForLate = wait.map((ns, i) => (late.includes(lastRank[i]!) ? ns : 0));
      const { start: begin, dur } = sortPieces(start, waitsForLate);
      return IntervalSet.of(begin, dur).cover;
    });
    return cover.coveredWithin(from, to);
  }
}

/** Answer `lateness`: each rank's totals over the collectives that overlap a window. */
export function latenessReply(
  ranks: readonly RankLateness[],
  start: number,
  end: number,
  { late: lateRanksOfJob = [], note, clock = null }: Omit<CollectivesHeader, "columns">,
): Lateness {
  checkWindow({ start, end });
  const figures = ranks.map((rankLateness) => rankLateness.figuresBetween(start, end));
  // The job's late ranks, except those that delay no other rank in this window.
  const lateRanks = ranks.flatMap(({ rank }, i) =>
    lateRanksOfJob.includes(rank) && figures[i]!.imposed > 0 ? [rank] : [],
  );
  const reply: Lateness = {
    start,
    end,
    ranks: ranks.map(({ rank }) => rank),
    collectives: figures.map((figure) => figure.collectives),
    last: figures.map((figure) => figure.last),
    wait: figures.map((figure) => figure.wait),
    exposed_wait: figures.map((figure) => figure.exposed_wait),
    imposed: figures.map((figure) => figure.imposed),
    wait_for_late: ranks.map((rankLateness) => rankLateness.waitForRanks(lateRanks, start, end)),
    late: lateRanks,
    note,
    clock,
  };
  const approximate = ranks.filter(({ isApproximate }) => isApproximate);
  if (approximate.length > 0) reply.approximate = approximate.map(({ rank }) => rank);
  return reply;
}

// Per bin of time: each rank's delay at collectives, and what it costs the other ranks.

/** Arrivals of one rank at collectives, by start, then id. */
interface ArrivalColumns {
  start: Float64Array;
  call: Int32Array;
  id: Int32Array;
  /** Time from this rank's arrival to the last arrival. */
  wait: Float64Array;
  /** Offset from a start time to the clock on which arrivals are compared. */
  clock: Float64Array;
  /** Name code of each collective, as recorded on this rank. */
  recordedName: Int32Array;
}

export interface RankArrivals extends ArrivalColumns {
  rank: number;
}

/** The arrivals of a rank with their delays after the median arrival. */
interface RankDelays extends RankArrivals {
  delay: Float64Array;
}

interface CallMember {
  rankDelays: RankDelays;
  /** Index into the arrivals of the rank. */
  index: number;
  arrival: number;
}

/** A collective, at the arrival time of its last rank. */
interface CollectiveCall {
  number: number;
  time: number;
  /** Mean wait of the other ranks. */
  wait: number;
  /** The rank that came last; -1 if several came last together. */
  rank: number;
  name: number;
  id: number;
}

export class RibbonIndex {
  private readonly ranks: readonly RankDelays[];
  private readonly calls: CollectiveCall[];
  private readonly maxDelay: number;
  private readonly maxWait: number;

  /** `ranks` must ascend; `names` must be sorted. */
  constructor(
    ranks: readonly RankArrivals[],
    private readonly names: readonly string[],
  ) {
    this.ranks = ranks.map((rank) => ({ ...rank, delay: new Float64Array(rank.start.length) }));
    const members = groupMembers(this.ranks);
    members.forEach(setDelays);
    this.calls = members.map(summarizeCall);
    this.maxDelay = this.ranks.reduce((max, { delay }) => delay.reduce(largerOf, max), 0);
    this.maxWait = this.calls.reduce((maxWait, { wait }) => Math.max(maxWait, wait), 0);
  }

  /** Answer `ribbon`: the latest arrival per rank and bin, and the costliest call per bin. */
  ribbonReply(request: RibbonRequest): Reply {
    const { bins, ranks = null } = request;
    checkWindow(request);
    checkBins(bins);
    const binOf = makeBinner(request);
    const latestArrivals = this.ranks
      .filter(({ rank }) => ranks === null || ranks.includes(rank))
      .flatMap((rankDelays) => latestPerBin(rankDelays, request, binOf));
    const latestValues = (column: "delay" | "call" | "recordedName" | "id"): number[] =>
      latestArrivals.map(({ rankDelays, index }) => rankDelays[column][index]!);
    const costliest = this.costliestCalls(request, binOf);
    const costliestCalls = costliest.map(([, call]) => call);
    return packReply(
      { names: this.names, of: this.calls.length, most: this.maxDelay, job_most: this.maxWait },
      {
        rank: Int32Array.from(latestArrivals, ({ rankDelays }) => rankDelays.rank),
        bin: Uint32Array.from(latestArrivals, ({ bin }) => bin),
        late: Float64Array.from(latestValues("delay")),
        call: Uint32Array.from(latestValues("call"), (call) => call + 1),
        name: Uint32Array.from(latestValues("recordedName")),
        id: Uint32Array.from(latestValues("id")),
        job_bin: Uint32Array.from(costliest, ([bin]) => bin),
        job_time: Float64Array.from(costliestCalls, ({ time }) => time),
        job_wait: Float64Array.from(costliestCalls, ({ wait }) => wait),
        job_rank: Int32Array.from(costliestCalls, ({ rank }) => rank),
        job_call: Uint32Array.from(costliestCalls, ({ number }) => number),
        job_name: Uint32Array.from(costliestCalls, ({ name }) => name),
        job_id: Uint32Array.from(costliestCalls, ({ id }) => id),
      },
    );
  }

  /** Return the call with the longest mean wait in each bin. Ties go to the earliest call. */
  private costliestCalls(
    { start, end }: RibbonRequest,
    binOf: BinOf,
  ): [bin: number, call: CollectiveCall][] {
    const best = new Map<number, CollectiveCall>();
    for (const call of this.calls) {
      if (call.time < start || call.time >= end) continue;
      const bin = binOf(call.time);
      if (call.wait > (best.get(bin)?.wait ?? -Infinity)) best.set(bin, call);
    }
    return [...best].sort(([a], [b]) => a - b);
  }
}

type RibbonRequest = Requests["ribbon"];
type BinOf = (time: number) => number;

interface BinnedArrival {
  rankDelays: RankDelays;
  index: number;
  bin: number;
}

/** Return the latest arrival in each bin. Ties go to the earliest entry. */
function latestPerBin(
  rankDelays: RankDelays,
  { start, end }: RibbonRequest,
  binOf: BinOf,
): BinnedArrival[] {
  const arrivals: BinnedArrival[] = [];
  const last = countBelow(rankDelays.start, end);
  for (let index = countBelow(rankDelays.start, start); index < last; index += 1) {
    const bin = binOf(rankDelays.start[index]!);
    const previous = arrivals.at(-1);
    if (previous?.bin !== bin) arrivals.push({ rankDelays, index, bin });
    else if (rankDelays.delay[index]! > rankDelays.delay[previous.index]!) previous.index = index;
  }
  return arrivals;
}

function groupMembers(ranks: readonly RankDelays[]): CallMember[][] {
  const maxCall = ranks.reduce((max, { call }) => call.reduce(largerOf, max), -1);
  const members = Array.from({ length: maxCall + 1 }, (): CallMember[] => []);
  for (const rankDelays of ranks) {
    const { start, clock } = rankDelays;
    rankDelays.call.forEach((call, index) => {
      members[call]!.push({ rankDelays, index, arrival: start[index]! + clock[index]! });
    });
  }
  return members;
}

/** Set the delays after the median arrival, the earlier one if there are two middle arrivals. */
function setDelays(members: readonly CallMember[]): void {
  const arrivals = Float64Array.from(members, ({ arrival }) => arrival).sort();
  const median = arrivals[(arrivals.length - 1) >> 1]!;
  for (const { rankDelays, index, arrival } of members)
    rankDelays.delay[index] = Math.max(arrival - median, 0);
}

function summarizeCall(members: readonly CallMember[], callIndex: number): CollectiveCall {
  // If several ranks come last at the same time, use the last one in rank order.
  const last = members.reduce((latest, member) =>
    member.arrival >= latest.arrival ? member : latest,
  );
  const lastCount = members.filter(({ arrival }) => arrival === last.arrival).length;
  const totalWait = sum(members.map(({ rankDelays, index }) => rankDelays.wait[index]!));
  return {
    number: callIndex + 1,
    time: last.rankDelays.start[last.index]!,
    wait: Math.floor(totalWait / Math.max(members.length - 1, 1)),
    rank: members.length > 1 && lastCount === 1 ? last.rankDelays.rank : -1,
    name: last.rankDelays.recordedName[last.index]!,
    id: last.rankDelays.id[last.index]!,
  };
}

const largerOf = (a: number, b: number): number => Math.max(a, b);
