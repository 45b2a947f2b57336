/** The answer of op `collective`, checked, and what it says in words. */

import type { Reply } from "../contract";
import { formatCount, formatDuration, formatRange } from "../draw/format";

export interface Member {
  rank: number;
  id: number;
  /** ns after the first. */
  arrival: number;
  wait: number;
  transfer: number;
}

/** The same call on all ranks that take part. */
export interface Collective {
  /** From 1, of `of` matched ones. */
  number: number;
  of: number;
  name: string;
  group: string;
  /** Bytes; -1 where the file does not say. */
  size: number;
  algbw: number | null;
  busbw: number | null;
  /** -1 where several came at once. */
  last_rank: number;
  /** ns that the last came after the median of the others; 0 if it was not alone. */
  late: number;
  ranks: Member[];
}

export function readCollective(reply: Reply): Collective | null {
  const given = reply.reply.collective as Collective | null | undefined;
  if (given === null || given === undefined) return null;
  if (!Array.isArray(given.ranks)) throw new Error('the answer to "collective" has no ranks');
  return given;
}

/** The rank that came last, alone. */
export function lastOf(collective: Collective): Member | null {
  if (collective.late <= 0) return null;
  return collective.ranks.find(({ rank }) => rank === collective.last_rank) ?? null;
}

/** `Collective 13 of 21` */
export function numberWords({ number, of }: Collective): string {
  return `Collective ${formatCount(number)} of ${formatCount(of)}`;
}

/** `7 ranks waited 5.49–6.23 ms; the transfer took 1.21 ms` */
export function waitsWords({ ranks }: Collective): string {
  const waits = ranks.map(({ wait }) => wait).filter((wait) => wait > 0);
  const transfers = ranks.map(({ transfer }) => transfer).sort((a, b) => a - b);
  const transfer = transfers[transfers.length >> 1] ?? 0;
  const took = `transfer ${formatDuration(transfer)}`;
  if (waits.length === 0) return `nobody waited, ${took}`;
  const range = formatRange(Math.min(...waits), Math.max(...waits));
  return `${formatCount(waits.length)} waited ${range}, ${took}`;
}
