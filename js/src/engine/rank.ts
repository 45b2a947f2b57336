/** A rank whose individual events are all in the page. */

import { allIndices, gather, indicesWhere, sortByGroup, sum } from "../expressions/numbers";
import { NO_FIGURE } from "../facts/bound_classes";
import { kindCode } from "../facts/limits";
import { getOrMake } from "../protocol/maps";
import type { Brief, CallFigures, TableName } from "../protocol/source";
import { CounterSeries, IndexedLane } from "./cells";
import {
  type Blocks,
  ColumnReader,
  countBelow,
  countUpTo,
  fromZigzag,
  type NameTable,
  readBlock,
  readJson,
} from "./columns";
import {
  argsBlockName,
  type EventType,
  type FullHeader,
  type SummaryHeader,
  type TrackHeader,
} from "./document";
import { LruCache } from "./lru";
import { Sweep } from "./sweep";

/** A table as intervals: events, asyncs or instants. Times include the rank's clock shift. */
export interface EventTable {
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
  readonly kind: Int32Array;
  readonly source: Int32Array;
  readonly target: Int32Array;
  /** 1 if the arrow is in the file, 0 if it was derived from a correlation. */
  readonly stated: Uint8Array;
}

type LaneContent =
  | { role: "gpu" | "comm" | "cpu"; summary: SummaryHeader }
  | { role: "events" | "async" | "instant" | "counter"; track: TrackHeader; spilled: boolean };

export const COMMUNICATION = kindCode("communication");
export const MEMORY = kindCode("memory");
const ANNOTATION = kindCode("annotation");
const SYNC = kindCode("sync");
/** Number of kinds that are device work. Their codes come first. */
export const DEVICE_KIND_COUNT = kindCode("memory") + 1;
/** Events per block. Blocks that end before the window are skipped. */
const EVENTS_PER_BLOCK = 4096;

/** Host operators, numbered in row order; -1 if there is none. */
interface OperatorRows {
  row: Int32Array;
  /** Index of the enclosing operator. */
  parent: Int32Array;
  /** For each event row, the index of the innermost operator around its launch call. */
  ofWork: Int32Array;
}

export class RankTrace {
  readonly number: number;
  readonly events: EventTable;
  readonly asyncs: EventTable;
  readonly instants: EventTable;
  private readonly trackOfLane: Int32Array;
  private readonly kindOfType: Uint8Array;
  private lanes = new Map<number, IndexedLane | CounterSeries>();
  private readonly memoized = new Map<string, unknown>();

  constructor(
    readonly header: FullHeader,
    private readonly columns: ColumnReader,
    readonly names: NameTable,
  ) {
    this.number = header.rank;
    this.kindOfType = Uint8Array.from(header.types, ([, , kind]) => kind);
    this.events = this.readTable("events");
    this.asyncs = this.readTable("asyncs");
    this.instants = this.readTable("instants");
    this.trackOfLane = new Int32Array(header.lanes).fill(-1);
    header.tracks.forEach(({ lane0, lanes }, index) => {
      this.trackOfLane.fill(index, lane0 - header.lane0, lane0 - header.lane0 + lanes);
    });
  }

  private memo<T>(name: string, make: () => T): T {
    return getOrMake(this.memoized, name, make) as T;
  }

  private readTable(table: TableName): EventTable {
    const { columns, header } = this;
    const lane = columns.i32(`${table}_lane`);
    for (let i = 0; i < lane.length; i += 1) lane[i]! += header.lane0;
    const start = columns.f64(`${table}_start`);
    const dur = table === "instants" ? new Float64Array(start.length) : columns.f64(`${table}_dur`);
    return { table, start, dur, type: columns.i32(`${table}_type`), lane };
  }

  tableByName(name: TableName): EventTable {
    if (["events", "asyncs", "instants"].includes(name)) return this[name];
    throw new Error(`no table "${name}"; the tables are events, asyncs, instants`);
  }

  typeOf(rows: EventTable, row: number): EventType {
    return this.header.types[rows.type[row]!]!;
  }

  kindOf(rows: EventTable, row: number): number {
    return this.kindOfType[rows.type[row]!]!;
  }

  trackAt(lane: number): TrackHeader | null {
    return this.header.tracks[this.trackOfLane[lane - this.header.lane0] ?? -1] ?? null;
  }

  brief(rows: EventTable, row: number): Brief {
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

  /** Return `id` as a row of the table. Throw an error if there is no such row. */
  checkRow(rows: EventTable, id: unknown): number {
    const row = Number(id);
    if (Number.isInteger(row) && row >= 0 && row < rows.start.length) return row;
    throw new Error(
      `rank ${this.number} has no ${rows.table.slice(0, -1)} ${String(id)}: ` +
        `it has ${rows.start.length}, counted from 0`,
    );
  }

  laneContent(lane: number): LaneContent {
    const summary = this.header.summary.find((candidate) => candidate.lane === lane);
    if (summary !== undefined) return { role: summary.role, summary };
    const track = this.trackAt(lane);
    if (track === null) throw new Error(`no lane ${lane} on rank ${this.number}`);
    const { role } = track;
    if (role === "counter" || role === "async" || role === "instant") {
      return { role, track, spilled: false };
    }
    return { role: "events", track, spilled: lane - track.lane0 >= track.nested };
  }

  tableOfContent(content: LaneContent): EventTable {
    if (content.role === "async") return this.asyncs;
    return content.role === "instant" ? this.instants : this.events;
  }

  /** Return the index of a lane's contents, computed on first access. */
  laneIndex(lane: number): IndexedLane | CounterSeries {
    return getOrMake(this.lanes, lane, () => {
      const content = this.laneContent(lane);
      return content.role === "counter"
        ? this.counterSeries(content.track)
        : this.buildLane(content, lane);
    });
  }

  /** Return a lane of events, indexed by class instead of kind; null for other lanes. */
  classLane(lane: number, classes: Uint8Array): IndexedLane | null {
    const content = this.laneContent(lane);
    if (content.role === "counter" || this.tableOfContent(content) !== this.events) return null;
    return this.memo(`classes of ${lane}`, () => this.buildLane(content, lane, classes));
  }

  private buildLane(
    content: LaneContent,
    lane: number,
    classes: Uint8Array | null = null,
  ): IndexedLane {
    const rows = this.tableOfContent(content);
    const members = this.laneRows(lane, content);
    const kinds = new Uint8Array(members.length);
    for (let i = 0; i < kinds.length; i += 1) {
      kinds[i] = classes?.[members[i]!] ?? this.kindOf(rows, members[i]!);
    }
    return new IndexedLane({
      starts: gather(rows.start, members),
      durs: gather(rows.dur, members),
      kinds,
      rows: content.role === "cpu" || classes !== null ? null : members,
    });
  }

  /** Return the rows of a lane of events, asyncs or instants, in lane order. */
  laneRows(lane: number, content = this.laneContent(lane)): Int32Array {
    if (content.role === "counter") throw new Error("a counter lane has samples, not events");
    if (content.role === "events") return this.eventRowsOfLane(lane);
    if ("summary" in content) {
      return indicesWhere(this.events.start.length, this.summaryTest(content.summary));
    }
    const { start, dur, lane: lanes } = this.tableOfContent(content);
    const laneMembers = indicesWhere(lanes.length, (row) => lanes[row] === lane);
    return laneMembers.sort((a, b) => start[a]! - start[b]! || dur[b]! - dur[a]! || a - b);
  }

  /** Return a test of event rows for a summary lane of host calls, communication or other work. */
  summaryTest({ role, tracks, annotations }: SummaryHeader): (row: number) => boolean {
    const { events } = this;
    const isOnTrack = this.trackFilter((track, trackIndex) =>
      role === "cpu" ? tracks.includes(trackIndex) : track.role === "stream",
    );
    const hasKind = (kind: number): boolean => {
      if (role === "cpu") return annotations || kind !== ANNOTATION;
      if (role === "comm") return kind === COMMUNICATION;
      return kind !== COMMUNICATION && kind !== SYNC;
    };
    return (row) => isOnTrack(events.lane[row]!) && hasKind(this.kindOf(events, row));
  }

  /** Return a test for the lanes of tracks that satisfy the predicate. */
  trackFilter(
    predicate: (track: TrackHeader, trackIndex: number) => boolean,
  ): (lane: number) => boolean {
    const { tracks, lane0 } = this.header;
    const isIncluded = tracks.map(predicate);
    const ofLane = Uint8Array.from(this.trackOfLane, (track) => Number(isIncluded[track] === true));
    return (lane) => ofLane[lane - lane0] === 1;
  }

  deviceRows(): Int32Array {
    return this.memo("device", () => {
      const { lane } = this.events;
      const onStream = this.trackFilter(({ role }) => role === "stream");
      return indicesWhere(lane.length, (row) => onStream(lane[row]!));
    });
  }

  /** Return the event rows of a lane, ascending. All lanes are sorted together, once. */
  private eventRowsOfLane(lane: number): Int32Array {
    const { lane0, lanes } = this.header;
    const { lane: laneOfRow } = this.events;
    const { order, first } = this.memo("lanes", () =>
      sortByGroup(allIndices(laneOfRow.length), lanes, (row) => laneOfRow[row]! - lane0),
    );
    const index = lane - lane0;
    return order.slice(first[index], first[index + 1]);
  }

  /** Return a mask of event rows: device work launched before recording began. */
  prelaunchedMask(): Uint8Array {
    return this.memo("prelaunched", () => this.flagRows("prelaunched"));
  }

  /** Return a mask of event rows: calls that launch a thread's first work after a stream wait. */
  behindWaits(): Uint8Array {
    return this.memo("behind waits", () => this.flagRows("behind"));
  }

  /** Return a mask of the event rows that a column lists. */
  private flagRows(name: string): Uint8Array {
    const flags = new Uint8Array(this.events.start.length);
    for (const row of this.columns.i32(`${name}_row`)) flags[row] = 1;
    return flags;
  }

  /** Return the first start and last end of device work; null if there is none. */
  workExtent(): [number, number] | null {
    const { start, dur } = this.events;
    let [first, last] = [Infinity, -Infinity];
    for (const row of this.deviceRows()) {
      if (this.kindOf(this.events, row) >= DEVICE_KIND_COUNT) continue;
      first = Math.min(first, start[row]!);
      last = Math.max(last, start[row]! + dur[row]!);
    }
    return last >= first ? [first, last] : null;
  }

  counterSeries(track: TrackHeader): CounterSeries {
    const times = this.memo("counter times", () => this.columns.f64("counter_time"));
    const values = this.memo("counter values", () => this.columns.floats("counter_value"));
    const counterTracks = this.header.tracks.filter(({ role }) => role === "counter");
    const index = counterTracks.indexOf(track);
    const first = sum(this.header.counters.slice(0, index));
    const end = first + this.header.counters[index]!;
    return new CounterSeries(
      times.slice(first, end),
      values.slice(first, end),
      this.header.range[1],
    );
  }

  /** Return the row of each event's enclosing event on the track; -1 if there is none. */
  parents(): Int32Array {
    return this.memo("parents", () => parentIndices(this.columns.i32("parent")));
  }

  operators(): OperatorRows {
    return this.memo("operators", () => {
      const { columns, header } = this;
      const { type } = this.events;
      const streams = this.streams();
      const isOperatorType = new Uint8Array(header.types.length);
      for (const operatorType of header.operators) isOperatorType[operatorType] = 1;
      const row = indicesWhere(
        type.length,
        (eventRow) => isOperatorType[type[eventRow]!] === 1 && streams[eventRow]! < 0,
      );
      // One entry per launched event, in row order: the operator's index plus 1; 0 if none.
      const operatorOfLaunch = columns.i32("launched_operator").values();
      const ofWork = this.launches().map((call) =>
        call < 0 ? -1 : operatorOfLaunch.next().value! - 1,
      );
      return { row, parent: parentIndices(columns.i32("operator_above")), ofWork };
    });
  }

  /** Return the activities of each launching thread: idle cause plus 1; 0 if no activity. */
  activities(): ReadonlyMap<TrackHeader, Sweep> {
    return this.memo("activities", () => {
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

  /** Return, for each event row, the index of its operator call; -1 if there is none. */
  callIndices(): Int32Array {
    return this.memo("call indices", () => {
      const callOfRow = new Int32Array(this.events.start.length).fill(-1);
      const calls = this.columns.i32("figures_call");
      this.columns.i32("figures_event").forEach((row, index) => (callOfRow[row] = calls[index]!));
      return callOfRow;
    });
  }

  /** Return, for each event row, the class of its call's bound; null if the rank has no figures. */
  boundClasses(): Uint8Array | null {
    if ((this.header.signatures ?? []).length === 0) return null;
    return this.memo("bound classes", () => {
      const classes = this.columns.u8("call_class");
      return Uint8Array.from(this.callIndices(), (call) => classes[call] ?? NO_FIGURE);
    });
  }

  /** Return the row of the longest device work of each call, ascending. */
  longestWork(): Int32Array {
    return this.memo("longest work", () => this.columns.i32("call_longest").sort());
  }

  /** Return the figures of an event's operator call; null if there are none. */
  callFigures(row: number): CallFigures | null {
    const call = this.callIndices()[row]!;
    if (call < 0) return null;
    const { columns } = this;
    const integer = (name: string) => this.memo(name, () => columns.i32(`call_${name}`))[call]!;
    const rate = (name: string): number | null => {
      const value = this.memo(name, () => columns.floats(`call_${name}`))[call]!;
      return Number.isNaN(value) ? null : value;
    };
    return {
      call: this.brief(this.events, integer("row")),
      kernels: integer("kernels"),
      device_ns: this.memo("device_ns", () => columns.f64("call_device_ns"))[call]!,
      tflop_per_s: rate("tflop_per_s"),
      gb_per_s: rate("gb_per_s"),
      roofline_share: rate("roofline_share"),
      ...this.header.signatures![integer("signature")]!,
    };
  }

  flows(): Flows {
    return this.memo("flows", () => {
      const source = this.columns.i32("flow_source");
      const target = this.columns.i32("flow_target");
      for (let i = 0; i < target.length; i += 1) target[i]! += source[i]!;
      const [kind, stated] = [this.columns.i32("flow_kind"), this.columns.u8("flow_stated")];
      return { kind, source, target, stated };
    });
  }

  /** Return, for each event, the row of the host call that launched it; -1 if there is none. */
  launches(): Int32Array {
    return this.memo("launches", () => {
      const calls = new Int32Array(this.events.start.length).fill(-1);
      const launchKind = this.header.flow_kinds.indexOf("launch");
      const { kind, source, target } = this.flows();
      for (let i = 0; i < target.length; i += 1) {
        if (kind[i] === launchKind) calls[target[i]!] = source[i]!;
      }
      return calls;
    });
  }

  /** Return the ranges of steps and phases: event row, step, and phase number (0 for the step). */
  phases(): { row: Int32Array; step: Float64Array; phase: Int32Array } {
    return this.memo("phases", () => {
      const { columns } = this;
      const [row, phase] = [columns.i32("range_row"), columns.i32("range_phase")];
      return { row, step: columns.f64("range_step"), phase };
    });
  }

  steps(): Float64Array {
    return this.memo("steps", () => this.decodeByTrack("step", { hasNone: false }));
  }

  correlations(): Float64Array {
    return this.memo("correlations", () =>
      this.ids("correlation", () => this.decodeByTrack("correlation", { hasNone: true })),
    );
  }

  /** Return a column of ids. Ids beyond 2^53 are stored as floats in a column named "…_wide". */
  private ids(name: string, packed: () => Float64Array): Float64Array {
    const wide = `${name}_wide`;
    return this.columns.has(wide) ? this.columns.floats(wide) : packed();
  }

  /** Return the stream of each event; -1 if there is none. */
  streams(): Float64Array {
    return this.memo("streams", () => this.ids("stream", () => this.columns.f64("stream")));
  }

  /** Return the rows of events that the file stores as two records: begin and end. */
  pairedRows(): ReadonlySet<number> {
    return this.memo("paired", () => new Set(this.columns.i32("phase_row")));
  }

  /** Decode values stored as differences along each track. If `hasNone` is set, 0 means -1. */
  private decodeByTrack(name: string, { hasNone }: { hasNone: boolean }): Float64Array {
    const { lane } = this.events;
    const last = new Float64Array(this.header.tracks.length);
    return this.columns.f64(name).map((code, row) => {
      if (hasNone && code === 0) return -1;
      const track = this.trackOfLane[lane[row]! - this.header.lane0]!;
      last[track]! += fromZigzag(hasNone ? code - 1 : code);
      return last[track]!;
    });
  }

  /** Return the rows of events that started before an instant and have not ended, ascending. */
  runningAt(time: number): number[] {
    const { start, dur } = this.events;
    const latestEndOfBlock = this.memo("latest ends", () => {
      const ends = new Float64Array(Math.ceil(start.length / EVENTS_PER_BLOCK)).fill(-Infinity);
      for (let row = 0; row < start.length; row += 1) {
        const block = Math.floor(row / EVENTS_PER_BLOCK);
        ends[block] = Math.max(ends[block]!, start[row]! + dur[row]!);
      }
      return ends;
    });
    const begun = countBelow(start, time);
    const rows: number[] = [];
    for (let block = 0; block * EVENTS_PER_BLOCK < begun; block += 1) {
      if (latestEndOfBlock[block]! <= time) continue;
      const to = Math.min((block + 1) * EVENTS_PER_BLOCK, begun);
      for (let row = block * EVENTS_PER_BLOCK; row < to; row += 1) {
        if (start[row]! + dur[row]! > time) rows.push(row);
      }
    }
    return rows;
  }
}

/** Convert each entry's distance to its parent into an index; a distance of 0 means no parent. */
function parentIndices(distances: Int32Array): Int32Array {
  return distances.map((distance, index) => (distance > 0 ? index - distance : -1));
}

// Arguments of events: original JSON texts in packed blocks, unpacked on first access.

/** Location of an event's argument text: block number, and start and end in the block. */
type TextRange = readonly [block: number, start: number, end: number];

interface ArgsDirectory {
  /** By row number (see `rowNumber`), the index of the first text plus 1; 0 if there is none. */
  firstOf: Int32Array;
  /** By row number, the texts of events that consist of two records, in order. */
  multiple: Map<number, number[]>;
  /** For each text, its end in its block, and its length. */
  ends: Float64Array;
  sizes: Int32Array;
  /** Index of the first text of each block, followed by the number of texts. */
  firstOfBlock: number[];
}

const MAX_CACHED_BLOCKS = 8;

export class ArgsReader {
  private directory: Promise<ArgsDirectory> | null = null;
  private readonly blockCache = new LruCache<number, Promise<Uint8Array>>(MAX_CACHED_BLOCKS);

  constructor(
    private readonly rank: RankTrace,
    private readonly blocks: Blocks,
  ) {}

  /** Why arguments are missing; null if the page has them or the file contains none. */
  get missing(): string | null {
    const { state, reason } = this.rank.header.args;
    if (state === "left out") {
      return "Arguments are not embedded in this page: they did not fit. Save it with a larger max_mb.";
    }
    return state === "unreadable"
      ? `Arguments could not be read when this page was saved: ${reason}`
      : null;
  }

  /** Return the texts of a row's args, exactly as in the file. */
  async textsOf(table: TableName, row: number): Promise<string[]> {
    if (this.rank.header.args.state !== "embedded") return [];
    this.directory ??= this.readDirectory();
    const directory = await this.directory;
    const rowNumber = this.rowNumber(table, row);
    const first = directory.firstOf[rowNumber] ?? 0;
    const textIndices = directory.multiple.get(rowNumber) ?? (first > 0 ? [first - 1] : []);
    return Promise.all(
      textIndices.map((textIndex) => this.readText(textRange(directory, textIndex))),
    );
  }

  /** Return the keys of a row's args, with their values as display text. */
  async displayPairs(table: TableName, row: number): Promise<[key: string, text: string][]> {
    const pairs: [string, string][] = [];
    for (const source of await this.textsOf(table, row)) {
      const value = readJson(source);
      if (value.text === "null" && value.json === "null") continue;
      if (value.pairs === null) pairs.push(["args", value.text]);
      else for (const [key, { text }] of value.pairs) pairs.push([key, text]);
    }
    return pairs;
  }

  /** Return the number of a row, counting events, then asyncs, then instants. */
  private rowNumber(table: TableName, row: number): number {
    const { events, asyncs } = this.rank;
    if (table === "events") return row;
    return events.start.length + row + (table === "instants" ? asyncs.start.length : 0);
  }

  private async readText([block, start, end]: TextRange): Promise<string> {
    const bytes = await this.loadBlock(block);
    return new TextDecoder().decode(bytes.subarray(start, end));
  }

  private loadBlock(block: number): Promise<Uint8Array> {
    return this.blockCache.get(block, () =>
      readBlock(this.blocks, argsBlockName(this.rank.number, block)),
    );
  }

  private async readDirectory(): Promise<ArgsDirectory> {
    const { number, header, instants } = this.rank;
    const bytes = await readBlock(this.blocks, `${argsBlockName(number, 0)}-directory`);
    const columns = new ColumnReader(bytes, header.args.columns);
    const sizes = columns.i32("size");
    const firstOf = new Int32Array(this.rowNumber("instants", instants.start.length));
    const multiple = new Map<number, number[]>();
    columns.i32("row").forEach((rowNumber, textIndex) => {
      const first = firstOf[rowNumber]!;
      if (first === 0) firstOf[rowNumber] = textIndex + 1;
      else getOrMake(multiple, rowNumber, () => [first - 1]).push(textIndex);
    });
    // In a file, the end record of an event may precede its begin record.
    for (const rowNumber of columns.i32("swapped")) multiple.get(rowNumber)?.reverse();
    const firstOfBlock = [0];
    const ends = new Float64Array(sizes.length);
    for (const count of columns.i32("block")) {
      const from = firstOfBlock.at(-1)!;
      let end = 0;
      for (let textIndex = from; textIndex < from + count; textIndex += 1) {
        end += sizes[textIndex]!;
        ends[textIndex] = end;
      }
      firstOfBlock.push(from + count);
    }
    return { firstOf, multiple, ends, sizes, firstOfBlock };
  }
}

function textRange({ firstOfBlock, ends, sizes }: ArgsDirectory, textIndex: number): TextRange {
  const end = ends[textIndex]!;
  return [countUpTo(firstOfBlock, textIndex) - 1, end - sizes[textIndex]!, end];
}
