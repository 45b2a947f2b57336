/** A rank as used by panels: its device work, the selected part of it, and cached results. */

import { gather, indicesWhere } from "../expressions/numbers";
import { getOrMake } from "../protocol/maps";
import type { Collectives } from "./collectives";
import { countBelow, countUpTo } from "./columns";
import { LruCache } from "./lru";
import { DEVICE_KIND_COUNT, type RankTrace } from "./rank";
import { overlaps } from "./spans";

/** Number of results cached per rank, in addition to the results for all events. */
const MAX_RESULTS = 48;

/**
 * The part of a selection that is on one rank: the input of the panels. Events that overlap the
 * window are cut at its edges.
 */
export interface RankSelection {
  readonly analysis: RankAnalysis;
  /** 1 for each selected row, ignoring the window; null if all rows are selected. */
  readonly mask: Uint8Array | null;
  /** Edges of the window; infinite if it is open. */
  readonly low: number;
  readonly high: number;
  /** Identifies the mask in caches; "" if all events are selected. */
  readonly key: string;
}

/** Return the selection without its window. */
export function withOpenWindow(selection: RankSelection): RankSelection {
  return { ...selection, low: -Infinity, high: Infinity };
}

/** Return a selection of all events in the same window. */
export function withoutMask(selection: RankSelection): RankSelection {
  return { ...selection, mask: null, key: "" };
}

export function isSelected({ mask }: RankSelection, row: number): boolean {
  return mask === null || mask[row] === 1;
}

/** Events sorted by start. */
export interface SortedIntervals {
  readonly start: Float64Array;
  readonly end: Float64Array;
  /** Latest end among this event and all earlier ones. */
  readonly latestEnd: Float64Array;
}

/** Call `visit` with each event that overlaps the window: its index and its clipped times. */
export function forEachInWindow(
  events: SortedIntervals,
  selection: RankSelection,
  visit: (index: number, start: number, end: number) => void,
): void {
  const { low, high } = selection;
  const { start: starts, end: ends } = events;
  const [first, last] = candidateRange(events, selection);
  for (let index = first; index < last; index += 1) {
    const start = starts[index]!;
    const end = ends[index]!;
    // Comparisons are used because Math.min and Math.max are slow for millions of events.
    if (end > low || start >= low) visit(index, start < low ? low : start, end > high ? high : end);
  }
}

/** Return the index range of events that may overlap the window; the end is exclusive. */
export function candidateRange(
  { start, latestEnd }: SortedIntervals,
  { low, high }: RankSelection,
): [number, number] {
  if (low === high) return [0, 0];
  const first = Math.min(countUpTo(latestEnd, low), countBelow(start, low));
  return [first, countBelow(start, high)];
}

/** Return the indices of selected, matched collective entries that overlap the window. */
export function matchedInWindow(selection: RankSelection): Int32Array {
  const { low, high } = selection;
  const { id, start, dur } = selection.analysis.collectiveEntries;
  // Sorted by start, so all later entries start after the window.
  const last = low === high ? 0 : countBelow(start, high);
  return indicesWhere(
    last,
    (i) => isSelected(selection, id[i]!) && overlaps(start[i]!, start[i]! + dur[i]!, low),
  );
}

/** Return the running maximum of the ends. */
export function latestEnds(end: Float64Array): Float64Array {
  let latest = -Infinity;
  return end.map((time) => (latest = Math.max(latest, time)));
}

/** Device work sorted by start. */
export interface DeviceWork extends SortedIntervals {
  readonly row: Int32Array;
  readonly kind: Uint8Array;
  /** Index into the `kernels` of the rank. */
  readonly kernel: Int32Array;
  /** The launch call, with its start and end; -1 if unknown. */
  readonly call: Int32Array;
  readonly callStart: Float64Array;
  readonly callEnd: Float64Array;
  readonly stream: Float64Array;
}

export class RankAnalysis {
  readonly number: number;
  readonly work: DeviceWork;
  readonly kernels: { name: number; kind: number }[] = [];
  readonly collectiveEntries: ReturnType<Collectives["entriesOfRank"]>;
  /** Rows of the rank's unmatched communication; null if the job has only one rank. */
  readonly unmatchedIds: Int32Array | null;
  /** Results of `memo`: for all events, and for particular masks and windows. */
  readonly fullResults = new Map<string, unknown>();
  readonly windowResults = new LruCache<string, unknown>(MAX_RESULTS);

  constructor(
    readonly trace: RankTrace,
    collectives: Collectives,
  ) {
    this.number = trace.number;
    this.collectiveEntries = collectives.entriesOfRank(trace.number);
    this.unmatchedIds = collectives.unmatchedOf(trace.number);
    this.work = this.indexWork();
  }

  /** All events of the rank at all times. */
  get fullSelection(): RankSelection {
    return { analysis: this, mask: null, low: -Infinity, high: Infinity, key: "" };
  }

  private indexWork(): DeviceWork {
    const { events, header } = this.trace;
    const { type } = events;
    const [launches, streams] = [this.trace.launches(), this.trace.streams()];
    const kernelOfType = this.kernelOfTypes();
    const row = indicesWhere(type.length, (eventRow) => kernelOfType[type[eventRow]!]! >= 0);
    const start = gather(events.start, row);
    const end = gather(events.dur, row).map((dur, i) => start[i]! + dur);
    const call = gather(launches, row);
    const callStart = new Float64Array(row.length).fill(Infinity);
    const callEnd = callStart.slice();
    call.forEach((callRow, i) => {
      if (callRow < 0) return;
      callStart[i] = events.start[callRow]!;
      callEnd[i] = events.start[callRow]! + events.dur[callRow]!;
    });
    return {
      row,
      start,
      end,
      latestEnd: latestEnds(end),
      kind: Uint8Array.from(row, (eventRow) => header.types[type[eventRow]!]![2]),
      kernel: row.map((eventRow) => kernelOfType[type[eventRow]!]!),
      call,
      callStart,
      callEnd,
      stream: gather(streams, row),
    };
  }

  /** Return the index into `kernels` for each event type; -1 if the type is not device work. */
  private kernelOfTypes(): Int32Array {
    const kernelOfKey = new Map<number, number>();
    const { types, host_collectives } = this.trace.header;
    return Int32Array.from(types, ([name, , kind], type) => {
      if (kind >= DEVICE_KIND_COUNT || host_collectives.includes(type)) return -1;
      const key = name * DEVICE_KIND_COUNT + kind;
      return getOrMake(kernelOfKey, key, () => this.kernels.push({ name, kind }) - 1);
    });
  }
}

/** Return the result of `make` for a selection, cached under `name`. */
export function memo<T>(
  name: string,
  selection: RankSelection,
  make: (selection: RankSelection) => T,
): T {
  const { analysis, low, high, key } = selection;
  if (key === "" && low === -Infinity && high === Infinity) {
    return getOrMake(analysis.fullResults, name, () => make(selection)) as T;
  }
  return analysis.windowResults.get(`${name} ${low} ${high} ${key}`, () => make(selection));
}
