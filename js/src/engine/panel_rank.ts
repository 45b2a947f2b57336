/** Data of one rank for panels, with masks of selections and notes. */

import { compileQuery } from "../expressions/evaluate";
import { readClauses } from "../protocol/selection";
import type { SelectionJson } from "../protocol/source";
import { BUSY, BusyIndex, Counted, type Kernel, type Part, reachOf, type Work } from "./busy";
import type { Collectives } from "./collectives";
import type { Names, Pacer } from "./columns";
import { Gaps, Launched } from "./idle";
import { OperatorTree } from "./operators";
import type { Rank } from "./rank";
import { eventColumns, trackTest } from "./search";

/** Max number of results kept per rank, in addition to the results for all events. */
const KEPT_RESULTS = 96;

type Entries = ReturnType<Collectives["part"]>;

export class PanelRank {
  readonly number: number;
  work!: Work;
  kernels: Kernel[] = [];
  busy!: BusyIndex;
  /** All events. */
  events!: Counted;
  gaps!: Gaps;
  launched!: Launched;
  operators!: OperatorTree;
  /** Its part in matched collectives. */
  matched!: Entries;
  private prepared: Promise<void> | null = null;
  private readonly known = new Map<string, unknown>();
  private readonly whole = new Map<string, unknown>();

  constructor(
    readonly rank: Rank,
    readonly names: Names,
    private readonly collectives: Collectives,
  ) {
    this.number = rank.number;
  }

  /** Make all indices, once. */
  ready(pacer: Pacer): Promise<void> {
    this.prepared ??= this.prepare(pacer).catch((error: unknown) => {
      // The first caller may have aborted: the next call starts again.
      this.prepared = null;
      throw error;
    });
    return this.prepared;
  }

  private async prepare(pacer: Pacer): Promise<void> {
    const { rank } = this;
    this.matched = this.collectives.part(this.number);
    await pacer.rest();
    rank.streams();
    await pacer.rest();
    rank.launches();
    await pacer.rest();
    this.work = this.findWork();
    await pacer.rest();
    this.busy = await BusyIndex.of(this.work, pacer);
    const { start, dur } = rank.events;
    const ends = new Float64Array(start.length);
    for (let row = 0; row < ends.length; row += 1) ends[row] = start[row]! + dur[row]!;
    await pacer.rest();
    this.events = new Counted(start, ends, reachOf(ends));
    await pacer.rest();
    this.launched = await Launched.of(this.work, pacer);
    await pacer.rest();
    this.gaps = new Gaps({ rank: this, mask: null, low: -Infinity, high: Infinity, key: "" });
    await pacer.rest();
    rank.nestedParents();
    await pacer.rest();
    this.operators = await OperatorTree.of(rank, this.names, this.work, pacer);
  }

  private findWork(): Work {
    const { rank } = this;
    const { events, header } = rank;
    const { type, start, dur } = events;
    const kernelOfType = this.kernelsOfTypes();
    let count = 0;
    for (let row = 0; row < type.length; row += 1) if (kernelOfType[type[row]!]! >= 0) count += 1;
    const work = {
      row: new Int32Array(count),
      start: new Float64Array(count),
      end: new Float64Array(count),
      kind: new Uint8Array(count),
      kernel: new Int32Array(count),
      call: new Int32Array(count),
      callStart: new Float64Array(count),
      callEnd: new Float64Array(count),
      stream: new Int32Array(count),
    };
    const [launches, streams] = [rank.launches(), rank.streams()];
    for (let row = 0, at = 0; row < type.length; row += 1) {
      const kernel = kernelOfType[type[row]!]!;
      if (kernel < 0) continue;
      const call = launches[row]!;
      work.row[at] = row;
      work.start[at] = start[row]!;
      work.end[at] = start[row]! + dur[row]!;
      work.kind[at] = header.types[type[row]!]![2];
      work.kernel[at] = kernel;
      work.call[at] = call;
      work.callStart[at] = call < 0 ? Infinity : start[call]!;
      work.callEnd[at] = call < 0 ? Infinity : start[call]! + dur[call]!;
      work.stream[at] = streams[row]!;
      at += 1;
    }
    return { ...work, reach: reachOf(work.end) };
  }

  /** Index in `kernels` of each type of events, -1 if the type is not device work. */
  private kernelsOfTypes(): Int32Array {
    const places = new Map<number, number>();
    this.kernels = [];
    const { types, host_collectives } = this.rank.header;
    return Int32Array.from(types, ([name, , kind], type) => {
      if (kind >= BUSY || host_collectives.includes(type)) return -1;
      const key = name * BUSY + kind;
      let place = places.get(key);
      if (place === undefined) {
        place = this.kernels.push({ name, kind }) - 1;
        places.set(key, place);
      }
      return place;
    });
  }

  /** Result of `make` for a part, cached. */
  once<T>(what: string, part: Part, make: (part: Part) => T): T {
    if (part.key === "" && part.low === -Infinity && part.high === Infinity) {
      if (!this.whole.has(what)) this.whole.set(what, make(part));
      return this.whole.get(what) as T;
    }
    const key = `${what} ${part.low} ${part.high} ${part.key}`;
    if (this.known.has(key)) {
      const found = this.known.get(key) as T;
      this.known.delete(key);
      this.known.set(key, found);
      return found;
    }
    const made = make(part);
    this.known.set(key, made);
    for (const old of this.known.keys()) {
      if (this.known.size <= KEPT_RESULTS) break;
      this.known.delete(old);
    }
    return made;
  }
}

// Notes of frames: number of matched members, and reasons for missing data; worded as in Python.

/** Number of members of each kind. */
export function matchedKinds(counts: readonly number[]): Record<string, number> {
  const [compute = 0, communication = 0, memory = 0] = counts;
  return { compute, communication, memory };
}

/** Note that names the ranks left out for lack of device work. */
export function withoutWork(ranks: readonly number[], idle: readonly number[]): string {
  if (idle.length === 0) return ranks.length > 0 ? "" : "no ranks are selected";
  if (idle.length === ranks.length) return "no device work is selected: no kernels and no copies";
  return `no device work on rank${idle.length > 1 ? "s" : ""} ${idle.join(", ")}`;
}

export function withoutCommunication(ranks: readonly number[], silent: readonly number[]): string {
  if (ranks.length === 0) return "no ranks are selected";
  if (silent.length === 0) return "";
  const where =
    silent.length === ranks.length
      ? ""
      : ` on rank${silent.length > 1 ? "s" : ""} ${silent.join(", ")}`;
  return `no communication kernels matched${where}`;
}

export const NO_KERNELS = "no device work is selected: no kernels and no copies";
export const NO_LAUNCHES = "no device work is selected whose launch the files hold";
export const STILL_QUEUES = "the window holds nothing: no queue changes or lasts in it";

export function withoutSteps(
  ranks: readonly number[],
  without: readonly number[],
  unselected: number,
): string {
  if (ranks.length === 0) return "no ranks are selected";
  if (without.length === 0) return "";
  if (without.length < ranks.length) {
    return `no ProfilerStep${unselected > 0 ? " selected" : ""} on ranks ${without.join(", ")}`;
  }
  if (unselected === 0) {
    return "no ProfilerStep is in the trace: call the profiler's step() once an iteration";
  }
  return (
    "the selection or window holds no range ProfilerStep#n of the host, of which" +
    ` there are ${unselected}: select them too`
  );
}

// Events of a rank that a selection includes, regardless of its window.

/** Masks that are kept of a rank. */
const KEPT_MASKS = 6;
const STRIDE = 1 << 12;

/** Columns that are the same for all events of a type. */
const OF_TYPES = new Set(["name", "category", "kind", "rank"]);

type Mask = Uint8Array | null;
type Test = (row: number) => boolean;

export class Masks {
  private readonly known = new Map<number, Map<string, Promise<Mask>>>();

  constructor(private readonly names: Names) {}

  /** Cache key of a selection's mask. */
  static key({ tracks, ids, query }: SelectionJson): string {
    return tracks === null && ids === null && query === null
      ? ""
      : JSON.stringify([tracks, ids, query]);
  }

  /** 1 by row for each event that the selection includes; null if it includes all. */
  of(rank: Rank, selection: SelectionJson, pacer: Pacer): Promise<Mask> {
    const key = Masks.key(selection);
    if (key === "") return Promise.resolve(null);
    const known = this.known.get(rank.number) ?? new Map<string, Promise<Mask>>();
    this.known.set(rank.number, known);
    let mask = known.get(key);
    if (mask === undefined) {
      mask = this.make(rank, selection, pacer);
      mask.catch(() => known.delete(key));
    }
    known.delete(key);
    known.set(key, mask);
    for (const old of known.keys()) {
      if (known.size <= KEPT_MASKS) break;
      known.delete(old);
    }
    return mask;
  }

  private async make(rank: Rank, selection: SelectionJson, pacer: Pacer): Promise<Mask> {
    const { tracks, ids, query } = selection;
    const { type, lane } = rank.events;
    const mask = new Uint8Array(type.length);
    const { types, rows } = this.tests(rank, query);
    const onTrack = trackTest(rank, tracks);
    if (ids !== null) {
      for (const [number, row] of ids) {
        if (number === rank.number && row >= 0 && row < mask.length) mask[row] = 1;
      }
    }
    if (ids === null && onTrack === null && rows === null) {
      for (let row = 0; row < mask.length; row += 1) mask[row] = types[type[row]!]!;
      return mask;
    }
    for (let row = 0; row < mask.length; row += 1) {
      if (row % STRIDE === 0) await pacer.rest();
      if (ids !== null && mask[row] === 0) continue;
      const has =
        types[type[row]!] === 1 &&
        (onTrack === null || onTrack(lane[row]!)) &&
        (rows === null || rows(row));
      mask[row] = has ? 1 : 0;
    }
    return mask;
  }

  /** Tests of a query: by type, and by single event. */
  private tests(rank: Rank, query: string | null): { types: Uint8Array; rows: Test | null } {
    const { header } = rank;
    const types = new Uint8Array(header.types.length).fill(1);
    if (query === null) return { types, rows: null };
    const { rest, names, kinds } = readClauses(query);
    const [nameSet, kindSet] = [new Set(names), new Set(kinds)];
    header.types.forEach(([name, , kind], at) => {
      if (names !== null && !nameSet.has(this.names.full(name))) types[at] = 0;
      if (kinds !== null && !kindSet.has(this.names.kind(kind))) types[at] = 0;
    });
    if (rest === null) return { types, rows: null };
    const used = new Set<string>();
    const columns = eventColumns(rank, this.names);
    const test = compileQuery(rest, (name) => {
      used.add(name);
      return columns(name);
    });
    if ([...used].some((name) => !OF_TYPES.has(name))) return { types, rows: test };
    const first = new Int32Array(types.length).fill(-1);
    const { type } = rank.events;
    for (let row = type.length - 1; row >= 0; row -= 1) first[type[row]!] = row;
    for (let at = 0; at < types.length; at += 1) {
      if (types[at] === 1 && first[at]! >= 0 && !test(first[at]!)) types[at] = 0;
    }
    return { types, rows: null };
  }
}
