/** One rank's events as panels need them: made once, step by step, and what was found of them. */

import type { Collectives } from "../collectives";
import type { Names } from "../names";
import type { Pacer } from "../pacer";
import type { Rank } from "../rank";
import { BusyIndex } from "./busy_index";
import { Counted } from "./counted";
import { Gaps } from "./idle";
import { Launched } from "./launched";
import { OperatorTree } from "./operator_tree";
import { type Part, reachOf } from "./part";
import { BUSY, type Kernel, type Work } from "./work";

/** Answers that are kept of a rank, beside those of everything. */
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
      // Whoever asked first may have left: the next one begins anew.
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

  /** Of each type of events its place among `kernels`, -1 where it is no device work. */
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

  /** What `make` finds in a part; answers are kept for a while. */
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
