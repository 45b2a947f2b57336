/** Events by name: counted, and stepped through. */

import type { Brief, TableName } from "../contract";
import type { Job } from "./job";
import { matcher } from "./matching";
import { Overview } from "./overview";
import type { Rank } from "./rank";
import { countBelow, countUpTo, picked, positions } from "./sorted";

export const TABLES = ["events", "asyncs", "instants"] as const;
const KEPT_TEXTS = 4;

interface Ordered {
  start: Float64Array;
  /** Positions in `TABLES`. */
  table: Uint8Array;
  row: Int32Array;
}

/** The matches of one rank. */
export class RankHits {
  private inOrder: Ordered | null = null;
  private readonly byTable = new Map<TableName, Int32Array>();

  constructor(
    readonly rank: Rank,
    /** By type: does its name match? */
    private readonly matching: Uint8Array,
    readonly count: number,
  ) {}

  /** Matching rows of a table, ascending. */
  rows(name: TableName): Int32Array {
    let rows = this.byTable.get(name);
    if (rows === undefined) {
      const { type } = this.rank.table(name);
      const { matching } = this;
      rows = positions(this.count > 0 ? type.length : 0, (row) => matching[type[row]!] === 1);
      this.byTable.set(name, rows);
    }
    return rows;
  }

  /** All matches in the order of stepping. */
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

  /** How many matches come before a place, or also the one that is there. */
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

export interface Hits {
  ranks: RankHits[];
  /** How many names match. */
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
  private readonly kept = new Map<string, Promise<Hits>>();

  constructor(private readonly job: Job) {}

  /** The matches of a text; those of the last few texts are remembered. */
  hits(text: string): Promise<Hits> {
    const found = this.kept.get(text) ?? this.match(text);
    this.kept.delete(text);
    this.kept.set(text, found);
    for (const old of this.kept.keys()) {
      if (this.kept.size <= KEPT_TEXTS) break;
      this.kept.delete(old);
    }
    return found;
  }

  private async match(text: string): Promise<Hits> {
    const { test, error } = matcher(text);
    const matching = Uint8Array.from(this.job.names.all, (name) => (test(name) ? 1 : 0));
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
  async summary(text: string): Promise<Record<string, unknown>> {
    const { total, names, ranks, error, leftOut } = await this.hits(text);
    const reply: Record<string, unknown> = {
      total,
      names,
      ranks: ranks.filter(({ count }) => count > 0).map(({ rank, count }) => [rank.number, count]),
      error,
    };
    if (leftOut.length > 0) reply.left_out = leftOut;
    return reply;
  }

  /** Answer `find`: the next or previous match after a place, around the end if need be. */
  async step(
    text: string,
    from: Place | null,
    direction: number,
  ): Promise<Record<string, unknown>> {
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
  // A place without a row lies before all that start with it.
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

/** Events, asyncs and instants of each type. */
function typeCounts(rank: Rank): Float64Array {
  let counts = counted.get(rank);
  if (counts === undefined) {
    counts = new Float64Array(rank.header.types.length);
    for (const name of TABLES) {
      for (const type of rank.table(name).type) counts[type] = counts[type]! + 1;
    }
    counted.set(rank, counts);
  }
  return counts;
}
