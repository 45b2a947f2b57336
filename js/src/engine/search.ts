/** Search events by name; compute the totals of a selection. */

import { LIMITS } from "../facts/limits";
import { matchNames } from "../expressions/evaluate";
import { allIndices, gather, indicesWhere, sum } from "../expressions/numbers";
import { getOrMake } from "../protocol/maps";
import type {
  Brief,
  SelectionJson,
  TableName,
  MatchCount,
  Match,
  Totals,
  SameName,
  Sums as KindSums,
} from "../protocol/source";
import { countBelow, countUpTo, type NameTable } from "./columns";
import type { PageJob } from "./job";
import { LruCache } from "./lru";
import { RankOverview } from "./overview";
import type { RankTrace } from "./rank";

export const TABLES = ["events", "asyncs", "instants"] as const;
const MAX_TEXTS = 4;

interface OrderedHits {
  start: Float64Array;
  /** Positions in `TABLES`. */
  table: Uint8Array;
  row: Int32Array;
}

class RankHits {
  private cachedOrder: OrderedHits | null = null;
  private readonly byTable = new Map<TableName, Int32Array>();

  constructor(
    readonly rank: RankTrace,
    /** For each type: 1 if its name matches. */
    private readonly matching: Uint8Array,
    readonly count: number,
  ) {}

  /** Return the matching rows of a table, ascending. */
  matchingRows(name: TableName): Int32Array {
    return getOrMake(this.byTable, name, () => {
      const { type } = this.rank.tableByName(name);
      const { matching } = this;
      return indicesWhere(this.count > 0 ? type.length : 0, (row) => matching[type[row]!] === 1);
    });
  }

  /** All matches in the order in which the user steps through them. */
  get orderedHits(): OrderedHits {
    if (this.cachedOrder !== null) return this.cachedOrder;
    const rowsByTable = TABLES.map((name) => this.matchingRows(name));
    const length = sum(rowsByTable.map((rows) => rows.length));
    const all: OrderedHits = {
      start: new Float64Array(length),
      table: new Uint8Array(length),
      row: new Int32Array(length),
    };
    let at = 0;
    rowsByTable.forEach((rows, table) => {
      all.start.set(gather(this.rank.tableByName(TABLES[table]!).start, rows), at);
      all.table.fill(table, at, at + rows.length);
      all.row.set(rows, at);
      at += rows.length;
    });
    // If all rows are `events`, they are in order.
    this.cachedOrder = rowsByTable[0]!.length === length ? all : sortHits(all);
    return this.cachedOrder;
  }

  brief(position: number): Brief {
    const { table, row } = this.orderedHits;
    return this.rank.brief(this.rank.tableByName(TABLES[table[position]!]!), row[position]!);
  }

  /** Return how many matches precede a row. `inclusive` also counts the row itself. */
  countBefore(time: number, table: number, row: number, inclusive: boolean): number {
    const hits = this.orderedHits;
    const low = countBelow(hits.start, time);
    const high = countUpTo(hits.start, time);
    let before = low;
    for (let hit = low; hit < high; hit += 1) {
      const order = hits.table[hit]! - table || hits.row[hit]! - row;
      if (order < 0 || (inclusive && order === 0)) before += 1;
    }
    return before;
  }
}

function sortHits({ start, table, row }: OrderedHits): OrderedHits {
  const order = allIndices(start.length).sort(
    (a, b) => start[a]! - start[b]! || table[a]! - table[b]! || row[a]! - row[b]!,
  );
  return { start: gather(start, order), table: gather(table, order), row: gather(row, order) };
}

interface SearchHits {
  ranks: RankHits[];
  names: number;
  total: number;
  error: string | null;
  /** Number of matches on each rank whose individual events are not in the page. */
  leftOut: [rank: number, count: number][];
}

export interface SearchOrigin {
  rank: number;
  start: number;
  table?: string;
  id?: number;
}

export class EventSearch {
  private readonly cache = new LruCache<string, Promise<SearchHits>>(MAX_TEXTS);

  constructor(private readonly job: PageJob) {}

  /** Return the matches of a text. The results for the most recent texts are cached. */
  hits(text: string): Promise<SearchHits> {
    return this.cache.get(text, () => this.matchRanks(text));
  }

  private async matchRanks(text: string): Promise<SearchHits> {
    const { matching, error } = matchNames(text, this.job.names.all);
    const usedNames = new Set<number>();
    const hits: SearchHits = { ranks: [], names: 0, total: 0, error, leftOut: [] };
    for (const rank of await this.job.loadRanks()) {
      const counts = rank instanceof RankOverview ? rank.header.counts : typeCounts(rank);
      const matchesType = Uint8Array.from(rank.header.types, ([name]) => matching[name]!);
      let count = 0;
      rank.header.types.forEach(([name], type) => {
        if (matchesType[type] === 0 || counts[type] === 0) return;
        count += counts[type]!;
        usedNames.add(name);
      });
      if (rank instanceof RankOverview) {
        if (count > 0) hits.leftOut.push([rank.number, count]);
      } else {
        hits.ranks.push(new RankHits(rank, matchesType, count));
        hits.total += count;
      }
    }
    hits.names = usedNames.size;
    return hits;
  }

  async searchReply(text: string): Promise<MatchCount> {
    const { total, names, ranks, error, leftOut } = await this.hits(text);
    const reply: MatchCount = {
      total,
      names,
      ranks: ranks.filter(({ count }) => count > 0).map(({ rank, count }) => [rank.number, count]),
      error,
    };
    if (leftOut.length > 0) reply.left_out = leftOut;
    return reply;
  }

  /** Answer `find`: the match after or before an origin. The search wraps around at the ends. */
  async findReply(text: string, from: SearchOrigin | null, direction: number): Promise<Match> {
    const hits = await this.hits(text);
    const { total, error } = hits;
    if (total === 0) return { brief: null, index: 0, total: 0, wrapped: false, error };
    const forward = direction > 0;
    const firstPosition = forward ? 0 : total - 1;
    const target = from === null ? firstPosition : nextPosition(hits, from, forward);
    const position = ((target % total) + total) % total;
    const brief = briefAt(hits, position);
    return { brief, index: position + 1, total, wrapped: position !== target, error };
  }
}

function briefAt(hits: SearchHits, position: number): Brief | null {
  let remaining = position;
  for (const rankHits of hits.ranks) {
    if (remaining < rankHits.count) return rankHits.brief(remaining);
    remaining -= rankHits.count;
  }
  return null;
}

/** Return the position of the next or previous match among those of all ranks. */
function nextPosition(hits: SearchHits, from: SearchOrigin, forward: boolean): number {
  // An origin without an id precedes all rows with the same start.
  const table = Math.max(TABLES.indexOf((from.table ?? "events") as TableName), 0);
  const row = from.id ?? -1;
  let before = 0;
  for (const rankHits of hits.ranks) {
    if (rankHits.rank.number < from.rank) before += rankHits.count;
    else if (rankHits.rank.number === from.rank && rankHits.count > 0) {
      before += rankHits.countBefore(from.start, table, row, forward);
    }
  }
  return forward ? before : before - 1;
}

const countsOfRank = new WeakMap<RankTrace, Float64Array>();

function typeCounts(rank: RankTrace): Float64Array {
  return getOrMake(countsOfRank, rank, () => {
    const counts = new Float64Array(rank.header.types.length);
    for (const name of TABLES) {
      for (const type of rank.tableByName(name).type) counts[type]! += 1;
    }
    return counts;
  });
}

// Selected time by kind and by name.

interface TotalsEntry {
  kind: number;
  /** Position in the job's names; -1 for a sum over all names. */
  name: number;
  /** Position in the order of first occurrence. */
  order: number;
  count: number;
  sum: number;
  min: number;
  max: number;
  device: number;
}

const NO_TOTALS = { count: 0, sum: 0, min: Infinity, max: 0, device: 0 };

export async function totalsReply(
  { masks, names }: PageJob,
  ranks: readonly RankTrace[],
  selection: SelectionJson,
): Promise<Totals> {
  const byName = new Map<string, TotalsEntry>();
  for (const rank of ranks)
    addTotals(rank, await masks.memberRows(rank, selection), selection, byName);
  const kinds = new Map<number, TotalsEntry>();
  for (const entry of byName.values()) {
    const { kind } = entry;
    const empty = { ...NO_TOTALS, kind, name: -1, order: kind };
    mergeInto(
      getOrMake(kinds, kind, () => empty),
      entry,
    );
  }
  const nameTotals = [...byName.values()].sort(compareTotals);
  return {
    events: sum(nameTotals.map(({ count }) => count)),
    kinds: [...kinds.values()].sort(compareTotals).map((sums) => toRecord(sums, names)),
    names: nameTotals.slice(0, LIMITS.totals_names).map((sums) => ({
      name: names.full(sums.name),
      short: names.short(sums.name),
      ...toRecord(sums, names),
    })),
    names_total: nameTotals.length,
  };
}

/** Add the time of a rank's selected events in the window to the totals per kind and name. */
function addTotals(
  rank: RankTrace,
  members: Int32Array,
  { start_ns: from, end_ns: to }: SelectionJson,
  byName: Map<string, TotalsEntry>,
): void {
  const { start, dur, type } = rank.events;
  const streams = rank.streams();
  const byType: (TotalsEntry | undefined)[] = [];
  for (const row of members) {
    const low = Math.max(start[row]!, from ?? -Infinity);
    const time = Math.min(start[row]! + dur[row]!, to ?? Infinity) - low;
    const [name, , kind] = rank.header.types[type[row]!]!;
    const sums = (byType[type[row]!] ??= { ...NO_TOTALS, kind, name, order: type[row]! });
    sums.count += 1;
    sums.sum += time;
    sums.min = Math.min(sums.min, time);
    sums.max = Math.max(sums.max, time);
    if (streams[row]! >= 0) sums.device += time;
  }
  // Types are in the order in which their names first occur.
  for (const sums of byType) {
    if (sums === undefined) continue;
    const { kind, name } = sums;
    const empty = { ...NO_TOTALS, kind, name, order: byName.size };
    mergeInto(
      getOrMake(byName, `${kind} ${name}`, () => empty),
      sums,
    );
  }
}

function mergeInto(into: TotalsEntry, part: TotalsEntry): void {
  into.count += part.count;
  into.sum += part.sum;
  into.min = Math.min(into.min, part.min);
  into.max = Math.max(into.max, part.max);
  into.device += part.device;
}

function compareTotals(a: TotalsEntry, b: TotalsEntry): number {
  return b.sum - a.sum || b.count - a.count || a.kind - b.kind || a.order - b.order;
}

function toRecord(sums: TotalsEntry, names: NameTable): KindSums {
  return {
    kind: names.kind(sums.kind),
    count: sums.count,
    sum: sums.sum,
    mean: sums.sum / Math.max(sums.count, 1),
    min: sums.min,
    max: sums.max,
    device: sums.device,
    host: sums.sum - sums.device,
  };
}

// Durations of events with the same name: statistics and a histogram.

/** Return statistics of one or more durations. Sorts the array in place. */
export function durationFigures(durs: Float64Array): SameName {
  durs.sort();
  const count = durs.length;
  const [low, high] = [durs[0]!, durs[count - 1]!];
  const total = sum(durs);
  const { edges, scale } = histogramEdges(low, high, count);
  const bins = edges.length - 1;
  const below = edges.map((edge, k) => (k < bins ? countBelow(durs, edge) : countUpTo(durs, edge)));
  return {
    count,
    sum: total,
    mean: total / count,
    median: (durs[(count - 1) >> 1]! + durs[count >> 1]!) / 2,
    min: low,
    max: high,
    edges,
    counts: below.slice(1).map((reached, k) => reached - below[k]!),
    scale,
  };
}

function histogramEdges(
  low: number,
  high: number,
  count: number,
): { edges: number[]; scale: "linear" | "log" } {
  if (low === high) return { edges: [low, low + 1], scale: "linear" };
  // Two bins for each doubling of the count, as in the kernel.
  const bitLength = 32 - Math.clz32(count);
  const maxBins = Math.min(LIMITS.histogram_bins, 2 * (bitLength + 1));
  const isLog = low > 0 && high / low >= LIMITS.log_bins_ratio;
  // Durations are whole ns, so linear bins are at least 1 ns wide.
  const bins = isLog ? maxBins : Math.min(maxBins, high - low);
  const [from, to] = isLog ? [Math.log10(low), Math.log10(high)] : [low, high];
  const step = (to - from) / bins;
  const edges = Array.from({ length: bins + 1 }, (_, k) => {
    const edge = k * step + from;
    return isLog ? 10 ** edge : edge;
  });
  // The end edges are set exactly, so rounding cannot lose a value.
  edges[0] = low;
  edges[bins] = high;
  return { edges, scale: isLog ? "log" : "linear" };
}
