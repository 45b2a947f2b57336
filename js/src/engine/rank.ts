/** One rank whose events are all in the page. */

import { getOrMake } from "../protocol/maps";
import type { Brief, TableName } from "../protocol/source";
import { Counter, Lane } from "./cells";
import {
  type Blocks,
  Columns,
  countBelow,
  countUpTo,
  type Names,
  picked,
  positions,
  readBlock,
  readJson,
} from "./columns";
import {
  argsBlockOf,
  type EventType,
  type FullHeader,
  type SummaryHeader,
  type TrackHeader,
} from "./document";
import { Lru } from "./lru";
import { Sweep } from "./sweep";

/** A table as intervals: events, asyncs or instants. Times include the clock's shift. */
export interface Rows {
  readonly table: TableName;
  readonly start: Float64Array;
  /** 0 for asyncs whose end is not in the file. */
  readonly dur: Float64Array;
  /** Positions in `types`. */
  readonly type: Int32Array;
  /** Lane in the scene. */
  readonly lane: Int32Array;
}

interface Flows {
  readonly kind: Uint8Array;
  readonly source: Int32Array;
  readonly target: Int32Array;
  /** 1 if the file records the arrow, 0 if it is derived from a correlation. */
  readonly stated: Uint8Array;
}

/** Content of a lane. */
type LaneRef =
  | { role: "gpu" | "comm" | "cpu"; summary: SummaryHeader }
  | { role: "events" | "async" | "instant" | "counter"; track: TrackHeader; spilled: boolean };

export const COMMUNICATION = 1;
export const ANNOTATION = 5;
/** Kinds up to this one are work of the device. */
const MEMORY = 2;
const OPEN_BLOCK = 4096;

/** Operators of the host, by row; places are positions among them, -1 for none. */
export interface Operators {
  row: Int32Array;
  /** Place of the operator that encloses each one. */
  above: Int32Array;
  /** By event: place of the innermost operator around the call that launched it. */
  ofWork: Int32Array;
}

export class Rank {
  readonly number: number;
  readonly events: Rows;
  readonly asyncs: Rows;
  readonly instants: Rows;
  private readonly trackOfLane: Int32Array;
  private readonly kindOfType: Uint8Array;
  private lanes = new Map<number, Lane | Counter>();
  private readonly made = new Map<string, unknown>();

  constructor(
    readonly header: FullHeader,
    private readonly columns: Columns,
    private readonly names: Names,
  ) {
    this.number = header.rank;
    this.kindOfType = Uint8Array.from(header.types, ([, , kind]) => kind);
    this.events = this.rowsOf("events");
    this.asyncs = this.rowsOf("asyncs");
    this.instants = this.rowsOf("instants");
    this.trackOfLane = new Int32Array(header.lanes).fill(-1);
    header.tracks.forEach(({ lane0, lanes }, at) => {
      this.trackOfLane.fill(at, lane0 - header.lane0, lane0 - header.lane0 + lanes);
    });
  }

  /** Result of `make`, computed on first access. */
  private once<T>(name: string, make: () => T): T {
    if (!this.made.has(name)) this.made.set(name, make());
    return this.made.get(name) as T;
  }

  private rowsOf(table: TableName): Rows {
    const { columns, header } = this;
    const lane = columns.i32(`${table}_lane`);
    for (let i = 0; i < lane.length; i += 1) lane[i] = lane[i]! + header.lane0;
    const start = columns.f64(`${table}_start`);
    const dur = table === "instants" ? new Float64Array(start.length) : columns.f64(`${table}_dur`);
    return { table, start, dur, type: columns.i32(`${table}_type`), lane };
  }

  table(name: TableName): Rows {
    if (name === "events") return this.events;
    if (name === "asyncs") return this.asyncs;
    if (name === "instants") return this.instants;
    throw new Error(`no table "${String(name)}"; the tables are events, asyncs, instants`);
  }

  typeOf(rows: Rows, row: number): EventType {
    return this.header.types[rows.type[row]!]!;
  }

  kindOf(rows: Rows, row: number): number {
    return this.kindOfType[rows.type[row]!]!;
  }

  trackAt(lane: number): TrackHeader | null {
    return this.header.tracks[this.trackOfLane[lane - this.header.lane0] ?? -1] ?? null;
  }

  brief(rows: Rows, row: number): Brief {
    const [name, , kind] = this.typeOf(rows, row);
    return {
      rank: this.number,
      table: rows.table,
      id: row,
      lane: rows.lane[row]!,
      name: this.names.full(name),
      short: this.names.short(name),
      kind: this.names.kind(kind),
      start: rows.start[row]!,
      dur: rows.dur[row]!,
    };
  }

  /** A row of one of its tables; throws an error that states the number of rows. */
  checkedRow(rows: Rows, id: unknown): number {
    const row = Number(id);
    if (Number.isInteger(row) && row >= 0 && row < rows.start.length) return row;
    throw new Error(
      `rank ${this.number} has no ${rows.table.slice(0, -1)} ${String(id)}: ` +
        `it has ${rows.start.length}, counted from 0`,
    );
  }

  // --- lanes ---

  ref(lane: number): LaneRef {
    const summary = this.header.summary.find((one) => one.lane === lane);
    if (summary !== undefined) return { role: summary.role, summary };
    const track = this.trackAt(lane);
    if (track === null) throw new Error(`no lane ${lane} on rank ${this.number}`);
    const { role } = track;
    if (role === "counter" || role === "async" || role === "instant") {
      return { role, track, spilled: false };
    }
    return { role: "events", track, spilled: lane - track.lane0 >= track.nested };
  }

  tableOf(ref: LaneRef): Rows {
    if (ref.role === "async") return this.asyncs;
    return ref.role === "instant" ? this.instants : this.events;
  }

  /** Index of a lane, computed on first access. */
  lane(lane: number): Lane | Counter {
    return getOrMake(this.lanes, lane, () => {
      const ref = this.ref(lane);
      return ref.role === "counter" ? this.counterOf(ref.track) : this.indexed(ref, lane);
    });
  }

  /** A lane of events indexed by classes instead of kinds; null for other lanes. */
  classedLane(lane: number, classes: Uint8Array): Lane | null {
    const ref = this.ref(lane);
    if (ref.role === "counter" || this.tableOf(ref) !== this.events) return null;
    return this.once(`classes of ${lane}`, () => this.indexed(ref, lane, classes));
  }

  private indexed(ref: LaneRef, lane: number, classes: Uint8Array | null = null): Lane {
    const rows = this.tableOf(ref);
    const members = this.members(lane, ref);
    const kinds = new Uint8Array(members.length);
    for (let i = 0; i < kinds.length; i += 1) {
      kinds[i] = classes?.[members[i]!] ?? this.kindOf(rows, members[i]!);
    }
    return new Lane({
      starts: picked(rows.start, members),
      durs: picked(rows.dur, members),
      kinds,
      rows: ref.role === "cpu" || classes !== null ? null : members,
    });
  }

  /** Rows of a lane of events, asyncs or instants, in lane order. */
  members(lane: number, ref = this.ref(lane)): Int32Array {
    if (ref.role === "counter") throw new Error("a counter lane has samples, not events");
    if (ref.role === "events") return this.ofLane(lane);
    if ("summary" in ref) {
      return positions(this.events.start.length, this.summaryTest(ref.summary));
    }
    const { start, dur, lane: lanes } = this.tableOf(ref);
    const found = positions(lanes.length, (row) => lanes[row] === lane);
    return found.sort((a, b) => start[a]! - start[b]! || dur[b]! - dur[a]! || a - b);
  }

  /** A test for the events of a summary lane. */
  summaryTest({ role, tracks, annotations }: SummaryHeader): (row: number) => boolean {
    const { events } = this;
    const { lane } = events;
    const onTrack = this.onTracks((track, at) =>
      role === "cpu" ? tracks.includes(at) : track.role === "stream",
    );
    const hasKind = (kind: number): boolean =>
      role === "cpu"
        ? annotations || kind !== ANNOTATION
        : (kind === COMMUNICATION) === (role === "comm");
    return (row) => onTrack(lane[row]!) && hasKind(this.kindOf(events, row));
  }

  /** A test for the lanes of some tracks. */
  onTracks(wanted: (track: TrackHeader, at: number) => boolean): (lane: number) => boolean {
    const { tracks, lane0 } = this.header;
    const chosen = tracks.map(wanted);
    const on = Uint8Array.from(this.trackOfLane, (track) => (chosen[track] === true ? 1 : 0));
    return (lane) => on[lane - lane0] === 1;
  }

  /** Rows of the events on device streams. */
  device(): Int32Array {
    return this.once("device", () => {
      const { lane } = this.events;
      const onStream = this.onTracks(({ role }) => role === "stream");
      return positions(lane.length, (row) => onStream(lane[row]!));
    });
  }

  /** Rows of one lane of events, ascending: all lanes are sorted once. */
  private ofLane(lane: number): Int32Array {
    const { order, first } = this.once("lanes", () =>
      grouped(this.events.lane, this.header.lane0, this.header.lanes),
    );
    const at = lane - this.header.lane0;
    return order.slice(first[at], first[at + 1]);
  }

  /** 1 for device work that was launched before recording began. */
  prelaunched(): Uint8Array {
    return this.once("prelaunched", () => this.marked("prelaunched"));
  }

  /** 1 for calls that launch the first work of their thread after a stream wait. */
  behindWaits(): Uint8Array {
    return this.once("behind waits", () => this.marked("behind"));
  }

  /** 1 for the rows that a column lists. */
  private marked(name: string): Uint8Array {
    const marks = new Uint8Array(this.events.start.length);
    for (const row of this.columns.i32(`${name}_row`)) marks[row] = 1;
    return marks;
  }

  /** First start and last end of the work on the device; null for none. */
  workEdges(): [number, number] | null {
    const { start, dur } = this.events;
    let [first, last] = [Infinity, -Infinity];
    for (const row of this.device()) {
      if (this.kindOf(this.events, row) > MEMORY) continue;
      first = Math.min(first, start[row]!);
      last = Math.max(last, start[row]! + dur[row]!);
    }
    return last >= first ? [first, last] : null;
  }

  counterOf(track: TrackHeader): Counter {
    const times = this.once("counter times", () => this.columns.f64("counter_time"));
    const values = this.once("counter values", () => this.columns.floats("counter_value"));
    const series = this.header.tracks.filter(({ role }) => role === "counter");
    const at = series.indexOf(track);
    const first = this.header.counters.slice(0, at).reduce((sum, count) => sum + count, 0);
    const last = first + this.header.counters[at]!;
    return new Counter(times.slice(first, last), values.slice(first, last), this.header.range[1]);
  }

  // --- columns that few requests need ---

  /** Row of the enclosing event on the track, -1 for none. */
  parents(): Int32Array {
    return this.once("parents", () => above(this.columns.i32("parent")));
  }

  operators(): Operators {
    return this.once("operators", () => {
      const { columns, header } = this;
      const { type } = this.events;
      const streams = this.streams();
      const isOf = new Uint8Array(header.types.length);
      for (const one of header.operators) isOf[one] = 1;
      const row = positions(type.length, (one) => isOf[type[one]!] === 1 && streams[one]! < 0);
      const places = columns.i32("launched_operator");
      let at = 0;
      const ofWork = this.launches().map((call) => (call < 0 ? -1 : places[at++]! - 1));
      return { row, above: above(columns.i32("operator_above")), ofWork };
    });
  }

  /** Activities of each thread that launches work, by track: codes of causes from 1 on, or 0. */
  activities(): ReadonlyMap<TrackHeader, Sweep> {
    return this.once("activities", () => {
      const { columns, header } = this;
      const [starts, codes] = [columns.f64("activity_start"), columns.u8("activity")];
      let from = 0;
      return new Map(
        header.activities.map(([track, changes]) => {
          const until = from + changes;
          const sweep = new Sweep(starts.slice(from, until), codes.slice(from, until));
          from = until;
          return [header.tracks[track]!, sweep];
        }),
      );
    });
  }

  flows(): Flows {
    return this.once("flows", () => {
      const source = this.columns.i32("flow_source");
      const target = this.columns.i32("flow_target");
      for (let i = 0; i < target.length; i += 1) target[i] = target[i]! + source[i]!;
      const [kind, stated] = [this.columns.u8("flow_kind"), this.columns.u8("flow_stated")];
      return { kind, source, target, stated };
    });
  }

  /** Row of the host's call that launched each event, -1 for none. */
  launches(): Int32Array {
    return this.once("launches", () => {
      const calls = new Int32Array(this.events.start.length).fill(-1);
      const launch = this.header.flow_kinds.indexOf("launch");
      const { kind, source, target } = this.flows();
      for (let i = 0; i < target.length; i += 1) {
        if (kind[i] === launch) calls[target[i]!] = source[i]!;
      }
      return calls;
    });
  }

  /** Ranges of steps: their rows and steps, and 0 for a whole step or the number of its phase. */
  phases(): { row: Int32Array; step: Float64Array; phase: Int32Array } {
    return this.once("phases", () => {
      const { columns } = this;
      const [row, phase] = [columns.i32("range_row"), columns.i32("range_phase")];
      return { row, step: columns.f64("range_step"), phase };
    });
  }

  steps(): Float64Array {
    return this.once("steps", () => this.byTrack("step", false));
  }

  correlations(): Float64Array {
    return this.once("correlations", () =>
      this.columns.has("correlation_wide")
        ? this.columns.floats("correlation_wide")
        : this.byTrack("correlation", true),
    );
  }

  /** Stream of each event, -1 for none. */
  streams(): Int32Array {
    return this.once("streams", () => this.columns.i32("stream"));
  }

  /** Rows that were begun and ended by two records. */
  paired(): ReadonlySet<number> {
    return this.once("paired", () => new Set(this.columns.i32("phase_row")));
  }

  /** Decode values stored as differences along each track; `none`: 0 stands for -1. */
  private byTrack(name: string, none: boolean): Float64Array {
    const { lane } = this.events;
    const last = new Float64Array(this.header.tracks.length);
    return this.columns.f64(name).map((folded, row) => {
      if (none && folded === 0) return -1;
      const step = none ? folded - 1 : folded;
      const track = this.trackOfLane[lane[row]! - this.header.lane0]!;
      last[track] = last[track]! + (step % 2 === 0 ? step / 2 : -(step + 1) / 2);
      return last[track];
    });
  }

  /** Rows of events that began before an instant and still run then, ascending. */
  openAt(time: number): number[] {
    const { start, dur } = this.events;
    const lastEnds = this.once("last ends", () => {
      const ends = new Float64Array(Math.ceil(start.length / OPEN_BLOCK)).fill(-Infinity);
      for (let row = 0; row < start.length; row += 1) {
        const block = Math.floor(row / OPEN_BLOCK);
        ends[block] = Math.max(ends[block]!, start[row]! + dur[row]!);
      }
      return ends;
    });
    const before = countBelow(start, time);
    const found: number[] = [];
    for (let block = 0; block * OPEN_BLOCK < before; block += 1) {
      if (lastEnds[block]! <= time) continue;
      const to = Math.min((block + 1) * OPEN_BLOCK, before);
      for (let row = block * OPEN_BLOCK; row < to; row += 1) {
        if (start[row]! + dur[row]! > time) found.push(row);
      }
    }
    return found;
  }
}

/** Rows by lane, ascending within each. */
function grouped(
  lane: Int32Array,
  lane0: number,
  lanes: number,
): { order: Int32Array; first: Int32Array } {
  const first = new Int32Array(lanes + 1);
  for (const one of lane) first[one - lane0 + 1] = first[one - lane0 + 1]! + 1;
  for (let i = 0; i < lanes; i += 1) first[i + 1] = first[i + 1]! + first[i]!;
  const next = first.slice();
  const order = new Int32Array(lane.length);
  for (let row = 0; row < lane.length; row += 1) {
    const at = lane[row]! - lane0;
    order[next[at]!] = row;
    next[at] = next[at]! + 1;
  }
  return { order, first };
}

/** Places from distances to them; 0 stands for none. */
function above(distances: Int32Array): Int32Array {
  return distances.map((up, at) => (up > 0 ? at - up : -1));
}

// Arguments of events: verbatim JSON text in packed blocks, unpacked on first access.

/** Position of a text: its block, and its start and end in the block. */
type Entry = readonly [block: number, start: number, end: number];

interface Directory {
  /** By row, counted through the three tables: its first text + 1, or 0. */
  firstOf: Int32Array;
  /** Texts of events made from two records, in order. */
  several: Map<number, number[]>;
  /** End in its block and length, by text. */
  ends: Float64Array;
  sizes: Int32Array;
  /** Index of each block's first text, followed by the number of texts. */
  firstOfBlock: number[];
}

const KEPT_BLOCKS = 8;

export class Args {
  private directory: Promise<Directory> | null = null;
  private readonly texts = new Lru<number, Promise<Uint8Array>>(KEPT_BLOCKS);

  constructor(
    private readonly rank: Rank,
    private readonly blocks: Blocks,
  ) {}

  /** Reason that arguments are missing; null if they are in the page, or if the file has none. */
  get missing(): string | null {
    const { state, reason } = this.rank.header.args;
    if (state === "left out") {
      return "Arguments are not embedded in this page: they did not fit. Save it with a larger max_mb.";
    }
    return state === "unreadable"
      ? `Arguments could not be read when this page was saved: ${reason}`
      : null;
  }

  /** The texts of a row's args, as the file has them. */
  async texts_of(table: TableName, row: number): Promise<string[]> {
    if (this.rank.header.args.state !== "embedded") return [];
    this.directory ??= this.readDirectory();
    const directory = await this.directory;
    const place = this.place(table, row);
    const first = directory.firstOf[place] ?? 0;
    const texts = directory.several.get(place) ?? (first > 0 ? [first - 1] : []);
    return Promise.all(texts.map((text) => this.text(entryOf(directory, text))));
  }

  /** Key and display text of each of a row's args. */
  async display(table: TableName, row: number): Promise<[key: string, text: string][]> {
    const pairs: [string, string][] = [];
    for (const source of await this.texts_of(table, row)) {
      const value = readJson(source);
      if (value.text === "null" && value.json === "null") continue;
      if (value.pairs === null) pairs.push(["args", value.text]);
      else for (const [key, { text }] of value.pairs) pairs.push([key, text]);
    }
    return pairs;
  }

  private place(table: TableName, row: number): number {
    const { events, asyncs } = this.rank;
    if (table === "events") return row;
    return events.start.length + row + (table === "instants" ? asyncs.start.length : 0);
  }

  private async text([block, start, end]: Entry): Promise<string> {
    const bytes = await this.unpacked(block);
    return new TextDecoder().decode(bytes.subarray(start, end));
  }

  private unpacked(block: number): Promise<Uint8Array> {
    return this.texts.get(block, () =>
      readBlock(this.blocks, argsBlockOf(this.rank.number, block)),
    );
  }

  private async readDirectory(): Promise<Directory> {
    const { number, header, instants } = this.rank;
    const bytes = await readBlock(this.blocks, `${argsBlockOf(number, 0)}-directory`);
    const columns = new Columns(bytes, header.args.columns);
    const [places, sizes] = [columns.i32("row"), columns.i32("size")];
    const firstOf = new Int32Array(this.place("instants", instants.start.length));
    const several = new Map<number, number[]>();
    places.forEach((place, text) => {
      const first = firstOf[place]!;
      if (first === 0) firstOf[place] = text + 1;
      else several.set(place, [...(several.get(place) ?? [first - 1]), text]);
    });
    // An event's end may precede its beginning in the file.
    for (const place of columns.i32("swapped")) several.get(place)?.reverse();
    const firstOfBlock = [0];
    const ends = new Float64Array(sizes.length);
    for (const count of columns.i32("block")) {
      const from = firstOfBlock.at(-1)!;
      let end = 0;
      for (let text = from; text < from + count; text += 1) {
        end += sizes[text]!;
        ends[text] = end;
      }
      firstOfBlock.push(from + count);
    }
    return { firstOf, several, ends, sizes, firstOfBlock };
  }
}

function entryOf({ firstOfBlock, ends, sizes }: Directory, text: number): Entry {
  const end = ends[text]!;
  return [countUpTo(firstOfBlock, text) - 1, end - sizes[text]!, end];
}
