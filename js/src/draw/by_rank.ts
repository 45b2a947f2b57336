/** Figures of a window with a way to the entry of a rank. */

import type { Lateness, Stats } from "../protocol/decode";

export interface StatsByRank {
  stats: Stats;
  at: ReadonlyMap<number, number>;
}

export interface LatenessByRank {
  lateness: Lateness;
  at: ReadonlyMap<number, number>;
  late: ReadonlySet<number>;
}

function places(ranks: readonly number[]): ReadonlyMap<number, number> {
  return new Map(ranks.map((rank, index) => [rank, index]));
}

export function statsByRank(stats: Stats): StatsByRank {
  return { stats, at: places(stats.ranks) };
}

export function latenessByRank(lateness: Lateness): LatenessByRank {
  return { lateness, at: places(lateness.ranks), late: new Set(lateness.late) };
}
