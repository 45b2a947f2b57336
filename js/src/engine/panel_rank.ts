/** Device work of one rank, results kept for choices of its events, and windows that cut them. */

import { getOrMake } from "../protocol/maps";
import type { Collectives } from "./collectives";
import { countBelow, countUpTo, type Names, picked, positions } from "./columns";
import { Lru } from "./lru";
import type { Rank } from "./rank";

/** Max number of results kept per rank, in addition to the results for all events. */
const KEPT_RESULTS = 48;
/** Kinds 0 … 2 are device work. */
export const BUSY = 3;
export const COMMUNICATION = 1;

/** Input of a panel: the chosen events of one rank, and the window that cuts them. */
export interface Part {
  readonly rank: PanelRank;
  /** 1 by row for each chosen event, regardless of the window; null if all are chosen. */
  readonly mask: Uint8Array | null;
  /** Edges of the window; infinite if it is open. */
  readonly low: number;
  readonly high: number;
  /** Distinguishes parts of one rank. */
  readonly key: string;
}

/** The same events at all times. */
export function ofAllTimes(part: Part): Part {
  return { ...part, low: -Infinity, high: Infinity };
}

/** All events in the window of a part. */
export function unmasked(part: Part): Part {
  return { ...part, mask: null, key: "" };
}

export function isChosen({ mask }: Part, row: number): boolean {
  return mask === null || mask[row] === 1;
}

/** Events sorted by start. */
export interface Sorted {
  readonly start: Float64Array;
  readonly end: Float64Array;
  /** The latest end so far. */
  readonly reach: Float64Array;
}

/** Range of positions, end exclusive, of the events that may overlap the window of a part. */
export function around({ start, reach }: Sorted, { low, high }: Part): [number, number] {
  if (low === high) return [0, 0];
  const first = Math.min(countUpTo(reach, low), countBelow(start, low));
  return [first, countBelow(start, high)];
}

/** Return whether an event that starts before the window's end overlaps the window. */
export function overlaps(start: number, end: number, low: number): boolean {
  return end > low || start >= low;
}

/** Places of the chosen entries in matched collectives that overlap the window. */
export function matchedIn(part: Part): Int32Array {
  const { low, high } = part;
  const { id, start, dur } = part.rank.matched;
  // Sorted by start: all later ones start after the window.
  const last = low === high ? 0 : countBelow(start, high);
  return positions(
    last,
    (i) => isChosen(part, id[i]!) && overlaps(start[i]!, start[i]! + dur[i]!, low),
  );
}

export function reachOf(end: Float64Array): Float64Array {
  let latest = -Infinity;
  return end.map((time) => (latest = Math.max(latest, time)));
}

/** Name and kind of device work. */
export interface Kernel {
  name: number;
  kind: number;
}

/** Device work, by start. */
export interface Work extends Sorted {
  readonly row: Int32Array;
  readonly kind: Uint8Array;
  /** Place in the rank's kernels. */
  readonly kernel: Int32Array;
  /** The launching call, -1 for none, and its start and end. */
  readonly call: Int32Array;
  readonly callStart: Float64Array;
  readonly callEnd: Float64Array;
  readonly stream: Int32Array;
}

export class PanelRank {
  readonly number: number;
  readonly work: Work;
  readonly kernels: Kernel[] = [];
  /** Its part in matched collectives. */
  readonly matched: ReturnType<Collectives["part"]>;
  /** Its communication without a match on other ranks; null if not known. */
  readonly unmatched: Int32Array | null;
  private readonly known = new Lru<string, unknown>(KEPT_RESULTS);
  private readonly whole = new Map<string, unknown>();

  constructor(
    readonly rank: Rank,
    readonly names: Names,
    collectives: Collectives,
  ) {
    this.number = rank.number;
    this.matched = collectives.part(rank.number);
    this.unmatched = collectives.unmatched(rank.number);
    this.work = this.findWork();
  }

  /** All its events at all times. */
  get all(): Part {
    return { rank: this, mask: null, low: -Infinity, high: Infinity, key: "" };
  }

  private findWork(): Work {
    const { events, header } = this.rank;
    const { type } = events;
    const [launches, streams] = [this.rank.launches(), this.rank.streams()];
    const kernelOfType = this.kernelsOfTypes();
    const row = positions(type.length, (one) => kernelOfType[type[one]!]! >= 0);
    const start = picked(events.start, row);
    const end = picked(events.dur, row).map((dur, i) => start[i]! + dur);
    const call = row.map((one) => launches[one]!);
    const callStart = new Float64Array(row.length).fill(Infinity);
    const callEnd = callStart.slice();
    call.forEach((one, i) => {
      if (one < 0) return;
      callStart[i] = events.start[one]!;
      callEnd[i] = events.start[one]! + events.dur[one]!;
    });
    return {
      row,
      start,
      end,
      reach: reachOf(end),
      kind: Uint8Array.from(row, (one) => header.types[type[one]!]![2]),
      kernel: row.map((one) => kernelOfType[type[one]!]!),
      call,
      callStart,
      callEnd,
      stream: row.map((one) => streams[one]!),
    };
  }

  /** Index in `kernels` of each type of events, -1 if the type is not device work. */
  private kernelsOfTypes(): Int32Array {
    const places = new Map<number, number>();
    const { types, host_collectives } = this.rank.header;
    return Int32Array.from(types, ([name, , kind], type) => {
      if (kind >= BUSY || host_collectives.includes(type)) return -1;
      return getOrMake(places, name * BUSY + kind, () => this.kernels.push({ name, kind }) - 1);
    });
  }

  /** Result of `make` for a part, cached. */
  once<T>(what: string, part: Part, make: (part: Part) => T): T {
    if (part.key === "" && part.low === -Infinity && part.high === Infinity) {
      if (!this.whole.has(what)) this.whole.set(what, make(part));
      return this.whole.get(what) as T;
    }
    return this.known.get(`${what} ${part.low} ${part.high} ${part.key}`, () => make(part));
  }
}
