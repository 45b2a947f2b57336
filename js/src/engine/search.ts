/** Search events by name, and totals of a selection. */

import { matchNames } from "../expressions/evaluate";
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
import { countBelow, countUpTo, type Names, picked, positions } from "./columns";
import type { Job } from "./job";
import { Lru } from "./lru";
import { Overview } from "./overview";
import type { Rank } from "./rank";

export const TABLES = ["events", "asyncs", "instants"] as const;
const KEPT_TEXTS = 4;

interface Ordered {
  start: Float64Array;
  /** Positions in `TABLES`. */
  table: Uint8Array;
  row: Int32Array;
}

/** The matches of one rank. */
class RankHits {
  private inOrder: Ordered | null = null;
  private readonly byTable = new Map<TableName, Int32Array>();

  constructor(
    readonly rank: Rank,
    /** By type: 1 if its name matches. */
    private readonly matching: Uint8Array,
    readonly count: number,
  ) {}

  /** Matching rows of a table, ascending. */
  rows(name: TableName): Int32Array {
    return getOrMake(this.byTable, name, () => {
      const { type } = this.rank.table(name);
      const { matching } = this;
      return positions(this.count > 0 ? type.length : 0, (row) => matching[type[row]!] === 1);
    });
  }

  /** All matches, in the order in which users step through them. */
  get ordered(): Ordered {
    if (this.inOrder !== null) return this.inOrder;
    const parts = TABLES.map((name) => this.rows(name));
    const length = parts.reduce((sum, rows) => sum + rows.length, 0);
    const all: Ordered = {
      start: new Float64Array(length),
      table: new Uint8Array(length),
      row: new Int32Array(length),
    };
    let at = 0;
    parts.forEach((rows, table) => {
      all.start.set(picked(this.rank.table(TABLES[table]!).start, rows), at);
      all.table.fill(table, at, at + rows.length);
      all.row.set(rows, at);
      at += rows.length;
    });
    const inOrder = parts[0]!.length === length ? all : sorted(all);
    return (this.inOrder = inOrder);
  }

  brief(position: number): Brief {
    const { table, row } = this.ordered;
    return this.rank.brief(this.rank.table(TABLES[table[position]!]!), row[position]!);
  }

  /** Number of matches before a place; `inclusive` also counts the match at the place. */
  before(time: number, table: number, row: number, inclusive: boolean): number {
    const places = this.ordered;
    const low = countBelow(places.start, time);
    const high = countUpTo(places.start, time);
    let before = low;
    for (let at = low; at < high; at += 1) {
      const order = places.table[at]! - table || places.row[at]! - row;
      if (order < 0 || (inclusive && order === 0)) before += 1;
    }
    return before;
  }
}

function sorted({ start, table, row }: Ordered): Ordered {
  const order = positions(start.length, () => true).sort(
    (a, b) => start[a]! - start[b]! || table[a]! - table[b]! || row[a]! - row[b]!,
  );
  return {
    start: picked(start, order),
    table: picked(table, order),
    row: order.map((at) => row[at]!),
  };
}

interface Hits {
  ranks: RankHits[];
  /** Number of names that match. */
  names: number;
  total: number;
  error: string | null;
  /** Matches on ranks whose single events are not in the page. */
  leftOut: [rank: number, count: number][];
}

export interface Place {
  rank: number;
  start: number;
  table?: string;
  id?: number;
}

export class Search {
  private readonly kept = new Lru<string, Promise<Hits>>(KEPT_TEXTS);

  constructor(private readonly job: Job) {}

  /** Matches of a text; the results of the last few texts are cached. */
  hits(text: string): Promise<Hits> {
    return this.kept.get(text, () => this.match(text));
  }

  private async match(text: string): Promise<Hits> {
    const { matching, error } = matchNames(text, this.job.names.all);
    const used = new Set<number>();
    const hits: Hits = { ranks: [], names: 0, total: 0, error, leftOut: [] };
    for (const rank of await this.job.all()) {
      const counts = rank instanceof Overview ? rank.header.counts : typeCounts(rank);
      const types = Uint8Array.from(rank.header.types, ([name]) => matching[name]!);
      let count = 0;
      rank.header.types.forEach(([name], type) => {
        if (types[type] === 0 || counts[type] === 0) return;
        count += counts[type]!;
        used.add(name);
      });
      if (rank instanceof Overview) {
        if (count > 0) hits.leftOut.push([rank.number, count]);
      } else {
        hits.ranks.push(new RankHits(rank, types, count));
        hits.total += count;
      }
    }
    hits.names = used.size;
    return hits;
  }

  /** Answer `search`. */
  async summary(text: string): Promise<MatchCount> {
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

  /** Answer `find`: the next or previous match after a place, wrapping around at the end. */
  async step(text: string, from: Place | null, direction: number): Promise<Match> {
    const hits = await this.hits(text);
    const { total, error } = hits;
    if (total === 0) return { brief: null, index: 0, total: 0, wrapped: false, error };
    const forward = direction > 0;
    let position = from === null ? (forward ? 0 : total - 1) : next(hits, from, forward);
    const wrapped = position < 0 || position >= total;
    position = ((position % total) + total) % total;
    let rest = position;
    let brief: Brief | null = null;
    for (const one of hits.ranks) {
      if (rest < one.count) {
        brief = one.brief(rest);
        break;
      }
      rest -= one.count;
    }
    return { brief, index: position + 1, total, wrapped, error };
  }
}

/** The position after (or before) a place among the matches of all ranks. */
function next(hits: Hits, from: Place, forward: boolean): number {
  // A place without a row precedes all rows with the same start.
  const table = Math.max(TABLES.indexOf((from.table ?? "events") as TableName), 0);
  const row = from.id ?? -1;
  let before = 0;
  for (const one of hits.ranks) {
    if (one.rank.number < from.rank) before += one.count;
    else if (one.rank.number === from.rank && one.count > 0) {
      before += one.before(from.start, table, row, forward);
    }
  }
  return forward ? before : before - 1;
}

const counted = new WeakMap<Rank, Float64Array>();

/** Number of events, asyncs and instants of each type. */
function typeCounts(rank: Rank): Float64Array {
  return getOrMake(counted, rank, () => {
    const counts = new Float64Array(rank.header.types.length);
    for (const name of TABLES) {
      for (const type of rank.table(name).type) counts[type] = counts[type]! + 1;
    }
    return counts;
  });
}

// Time of a selection, by kind and by name.

const MOST_NAMES = 200;

interface Sums {
  kind: number;
  /** Position in the job's names; -1 for a sum over all names. */
  name: number;
  /** Position in order of first occurrence. */
  at: number;
  count: number;
  sum: number;
  least: number;
  most: number;
  device: number;
}

/** Answer `totals`. */
export async function totals(
  { masks, names }: Job,
  ranks: readonly Rank[],
  selection: SelectionJson,
): Promise<Totals> {
  const byName = new Map<string, Sums>();
  for (const rank of ranks) addUp(rank, await masks.members(rank, selection), selection, byName);
  const kinds = new Map<number, Sums>();
  for (const one of byName.values()) {
    merge(group(kinds, one.kind, { kind: one.kind, name: -1, at: one.kind }), one);
  }
  const named = [...byName.values()].sort(byTime);
  return {
    events: named.reduce((events, { count }) => events + count, 0),
    kinds: [...kinds.values()].sort(byTime).map((sums) => record(sums, names)),
    names: named.slice(0, MOST_NAMES).map((sums) => ({
      name: names.full(sums.name),
      short: names.short(sums.name),
      ...record(sums, names),
    })),
    names_total: named.length,
  };
}

function addUp(
  rank: Rank,
  members: Int32Array,
  { start_ns: from, end_ns: to }: SelectionJson,
  groups: Map<string, Sums>,
): void {
  const { start, dur, type } = rank.events;
  const streams = rank.streams();
  const byType: (Sums | undefined)[] = [];
  for (const row of members) {
    const low = from === null ? start[row]! : Math.max(start[row]!, from);
    const end = start[row]! + dur[row]!;
    const inside = (to === null ? end : Math.min(end, to)) - low;
    const [name, , kind] = rank.header.types[type[row]!]!;
    const sums = (byType[type[row]!] ??= blank({ kind, name, at: type[row]! }));
    sums.count += 1;
    sums.sum += inside;
    sums.least = Math.min(sums.least, inside);
    sums.most = Math.max(sums.most, inside);
    if (streams[row]! >= 0) sums.device += inside;
  }
  // Types are in the order in which the kernel would find their names.
  for (const sums of byType) {
    if (sums === undefined) continue;
    const key = `${sums.kind} ${sums.name}`;
    merge(group(groups, key, { ...sums, at: groups.size }), sums);
  }
}

function blank({ kind, name, at }: Pick<Sums, "kind" | "name" | "at">): Sums {
  return { kind, name, at, count: 0, sum: 0, least: Infinity, most: 0, device: 0 };
}

function group<K>(groups: Map<K, Sums>, key: K, of: Pick<Sums, "kind" | "name" | "at">): Sums {
  return getOrMake(groups, key, () => blank(of));
}

function merge(into: Sums, part: Sums): void {
  into.count += part.count;
  into.sum += part.sum;
  into.least = Math.min(into.least, part.least);
  into.most = Math.max(into.most, part.most);
  into.device += part.device;
}

function byTime(a: Sums, b: Sums): number {
  return b.sum - a.sum || b.count - a.count || a.kind - b.kind || a.at - b.at;
}

function record(sums: Sums, names: Names): KindSums {
  return {
    kind: names.kind(sums.kind),
    count: sums.count,
    sum: sums.sum,
    mean: sums.sum / Math.max(sums.count, 1),
    min: sums.least,
    max: sums.most,
    device: sums.device,
    host: sums.sum - sums.device,
  };
}

// Durations of events of one name: figures and a histogram.

const MAX_BINS = 40;
/**
 * From this ratio of longest to shortest on, equal steps would put almost all events into one bin.
 */
const LOG_FROM = 20;

/** Figures of a non-empty array of durations. The array is sorted in place. */
export function durationFigures(durs: Float64Array): SameName {
  durs.sort();
  const count = durs.length;
  const [low, high] = [durs[0]!, durs[count - 1]!];
  const sum = durs.reduce((total, dur) => total + dur, 0);
  const { edges, scale } = edgesOf(low, high, count);
  const bins = edges.length - 1;
  const below = edges.map((edge, k) => (k < bins ? countBelow(durs, edge) : countUpTo(durs, edge)));
  const half = count >> 1;
  return {
    count,
    sum,
    mean: sum / count,
    median: count % 2 === 1 ? durs[half]! : (durs[half - 1]! + durs[half]!) / 2,
    min: low,
    max: high,
    edges,
    counts: below.slice(1).map((reached, k) => reached - below[k]!),
    scale,
  };
}

function edgesOf(
  low: number,
  high: number,
  count: number,
): { edges: number[]; scale: "linear" | "log" } {
  if (low === high) return { edges: [low, low + 1], scale: "linear" };
  const wanted = Math.min(MAX_BINS, 2 * (32 - Math.clz32(count) + 1));
  const log = low > 0 && high / low >= LOG_FROM;
  const bins = log ? wanted : Math.min(wanted, high - low);
  const [from, to] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  const step = (to - from) / bins;
  const edges = Array.from({ length: bins + 1 }, (_, k) => {
    const edge = k * step + from;
    return log ? 10 ** edge : edge;
  });
  // Set the ends exactly, so that rounding of the steps excludes no value.
  edges[0] = low;
  edges[bins] = high;
  return { edges, scale: log ? "log" : "linear" };
}
