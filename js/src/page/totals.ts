/** How much time a selection holds, by kind and by name. */

import type { SelectionJson } from "../contract";
import type { Names } from "./names";
import type { Rank } from "./rank";
import { membersOf } from "./selection";

const MOST_NAMES = 200;

interface Sums {
  kind: number;
  /** Position in the job's names; -1 for a sum over all names. */
  name: number;
  /** In which order the group was met. */
  at: number;
  count: number;
  sum: number;
  least: number;
  most: number;
  device: number;
}

/** Answer `totals`. */
export function totals(
  ranks: readonly Rank[],
  selection: SelectionJson,
  names: Names,
): Record<string, unknown> {
  const byName = new Map<string, Sums>();
  for (const rank of ranks) addUp(rank, selection, names, byName);
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
  selection: SelectionJson,
  names: Names,
  groups: Map<string, Sums>,
): void {
  const { start, dur, type } = rank.events;
  const { start_ns: from, end_ns: to } = selection;
  const streams = rank.streams();
  const byType: (Sums | undefined)[] = [];
  for (const row of membersOf(rank, selection, names)) {
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
  // Types are in the order in which the kernel would meet their names.
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
  let found = groups.get(key);
  if (found === undefined) {
    found = blank(of);
    groups.set(key, found);
  }
  return found;
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

function record(sums: Sums, names: Names): Record<string, unknown> {
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
