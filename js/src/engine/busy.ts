/** Unions of a rank's device work by kind, for any window and mask of events. */

import type { Metric } from "../facts/panels";
import type { Reply, Scene } from "../protocol/source";
import { Counter, coverOf } from "./cells";
import { beyond } from "./collectives";
import { countBelow, countUpTo, type Pacer, packed, picked, positions } from "./columns";
import { type AnyRank, Overview } from "./overview";
import type { PanelRank } from "./panel_rank";
import type { Rank } from "./rank";
import { Cover } from "./spans";

interface BusyTimes {
  /** Members of each kind. */
  counts: [number, number, number];
  /** Span from the first start to the last end. */
  start: number;
  end: number;
  /** Time in which any kind of a set runs; bit k of the index stands for kind k. */
  unions: Float64Array;
}

export function busyTimes(part: Part): BusyTimes {
  const { rank, mask } = part;
  return rank.once("busy", part, mask === null ? (one) => rank.busy.within(one) : find);
}

function find(part: Part): BusyTimes {
  const { work } = part.rank;
  const { mask, low, high } = part;
  const [first, last] = around(work, part);
  const counts: [number, number, number] = [0, 0, 0];
  const unions = new Float64Array(8);
  const reach = new Float64Array(8).fill(-Infinity);
  let [begin, finish] = [Infinity, -Infinity];
  for (let i = first; i < last; i += 1) {
    if (mask !== null && mask[work.row[i]!] === 0) continue;
    let [start, end] = [work.start[i]!, work.end[i]!];
    if (!overlaps(start, end, low)) continue;
    const kind = work.kind[i]!;
    counts[kind] = counts[kind]! + 1;
    if (start < low) start = low;
    if (end > high) end = high;
    if (start < begin) begin = start;
    if (end > finish) finish = end;
    const bit = 1 << kind;
    for (let set = 1; set < 8; set += 1) {
      if ((set & bit) === 0) continue;
      const reached = reach[set]!;
      if (start >= reached) unions[set] = unions[set]! + end - start;
      else if (end > reached) unions[set] = unions[set]! + end - reached;
      else continue;
      reach[set] = end;
    }
  }
  return { counts, start: begin, end: finish, unions };
}

/**
 * The window, extended to the first start and last end of the chosen work of all times: idle time
 * is defined by the work around it. Null if the window is entirely before or after that work.
 */
export function spanOf(part: Part): [start: number, end: number] | null {
  const whole = busyTimes(ofAllTimes(part));
  const { work } = part.rank.rank.header;
  const stated = work && (workOf(whole) > 0 || part.mask === null) ? work : [Infinity, -Infinity];
  const start = Math.max(Math.min(whole.start, stated[0]!), part.low);
  const end = Math.min(Math.max(whole.end, stated[1]!), part.high);
  return start < end || workOf(busyTimes(part)) > 0 ? [start, end] : null;
}

/**
 * Note on the share of the chosen device work launched before recording began, worded as in Python.
 */
export function prelaunchedNote(parts: readonly Part[]): string {
  let [count, earlyTime, time] = [0, 0, 0];
  for (const part of parts) {
    const own = part.rank.once("prelaunched", part, () => prelaunched(part));
    count += own[0];
    earlyTime += own[1];
    time += own[2];
  }
  if (count === 0) return "";
  const share = Math.floor((100 * earlyTime) / Math.max(time, 1) + 0.5);
  const what = parts.some(({ rank }) => rank.rank.header.work)
    ? "the exported window"
    : "recording";
  return (
    `${count} of the device events, ${share} % of their time, were launched before ${what}` +
    ' began; the query "prelaunched == False" leaves them out'
  );
}

function prelaunched(part: Part): [count: number, early: number, all: number] {
  const { rank, mask, low, high } = part;
  const early = rank.rank.prelaunched();
  const { work } = rank;
  const found: [number, number, number] = [0, 0, 0];
  const [first, last] = around(work, part);
  for (let i = first; i < last; i += 1) {
    const row = work.row[i]!;
    const [start, end] = [work.start[i]!, work.end[i]!];
    if ((mask !== null && mask[row] === 0) || !overlaps(start, end, low)) continue;
    const dur = Math.min(end, high) - Math.max(start, low);
    found[2] += dur;
    if (early[row] === 0) continue;
    found[0] += 1;
    found[1] += dur;
  }
  return found;
}

/** Number of members that are device work. */
export function workOf({ counts }: BusyTimes): number {
  return counts[0] + counts[1] + counts[2];
}

/** Time in which exactly the kinds of a set run; indexed as `unions`. */
export function exactly(unions: Float64Array): Float64Array {
  // Time within a set is the total less the time that only its complement covers.
  const within = Float64Array.from(unions, (_, set) => unions[7]! - unions[7 - set]!);
  return within.map((_, set) => {
    let time = 0;
    for (let part = set; part > 0; part = (part - 1) & set) {
      time += bits(set ^ part) % 2 === 0 ? within[part]! : -within[part]!;
    }
    return time;
  });
}

function bits(set: number): number {
  return (set & 1) + ((set >> 1) & 1) + ((set >> 2) & 1);
}

/**
 * Chosen communication, and all compute in the window, which hides communication even if not
 * chosen.
 */
export function overlap(part: Part): { communication: number; compute: number; both: number } {
  const all = busyTimes(part.mask === null ? part : { ...part, mask: null, key: "" }).unions;
  if (part.mask === null) {
    const [compute, communication] = [all[1 << COMPUTE]!, all[1 << COMMUNICATION]!];
    return { communication, compute, both: communication + compute - all[3]! };
  }
  return part.rank.once("overlap", part, () => {
    const chosen = busyTimes(part).unions[1 << COMMUNICATION]!;
    const either = eitherTime(part);
    const compute = all[1 << COMPUTE]!;
    return { communication: chosen, compute, both: chosen + compute - either };
  });
}

function eitherTime(part: Part): number {
  const { work } = part.rank;
  const { mask, low, high } = part;
  const [first, last] = around(work, part);
  let [time, reached] = [0, -Infinity];
  for (let i = first; i < last; i += 1) {
    const kind = work.kind[i]!;
    if (kind !== COMPUTE && !(kind === COMMUNICATION && mask![work.row[i]!] === 1)) continue;
    const start = Math.max(work.start[i]!, low);
    const end = Math.min(work.end[i]!, high);
    if (end <= reached || end <= start) continue;
    time += end - Math.max(start, reached);
    reached = end;
  }
  return time;
}

/** When any chosen work of some kinds runs, within the window. */
function coverOfKinds(part: Part, kinds: number): Cover {
  const { work } = part.rank;
  const { mask, low, high } = part;
  const [first, last] = around(work, part);
  const starts = new Float64Array(last - first);
  const ends = new Float64Array(last - first);
  let count = 0;
  for (let i = first; i < last; i += 1) {
    if (((kinds >> work.kind[i]!) & 1) === 0) continue;
    if (mask !== null && mask[work.row[i]!] === 0) continue;
    const start = Math.max(work.start[i]!, low);
    const end = Math.min(work.end[i]!, high);
    if (end <= start) continue;
    starts[count] = start;
    ends[count] = end;
    count += 1;
  }
  return Cover.of(starts.subarray(0, count), ends.subarray(0, count));
}

// Device work of a rank as columns, and its kinds.

/** Kinds 0 … 2 are device work. */
export const BUSY = 3;
const COMPUTE = 0;
export const COMMUNICATION = 1;

/** A name that device work of one kind has. */
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
  /** The host's call that launched it, -1 for none; from when to when that ran. */
  readonly call: Int32Array;
  readonly callStart: Float64Array;
  readonly callEnd: Float64Array;
  readonly stream: Int32Array;
}

// All of a rank's device time as unions that are summed up once: any window is two look-ups.

const SETS = 1 << BUSY;

export class BusyIndex {
  private constructor(
    private readonly all: Counted,
    private readonly ofKind: readonly Counted[],
    /** By set of kinds. */
    readonly covers: readonly Cover[],
  ) {}

  static async of({ start, end, reach, kind }: Work, pacer: Pacer): Promise<BusyIndex> {
    const ofKind: Counted[] = [];
    for (let one = 0; one < BUSY; one += 1) {
      const at = positions(kind.length, (i) => kind[i] === one);
      const ends = picked(end, at);
      ofKind.push(new Counted(picked(start, at), ends, reachOf(ends)));
      await pacer.rest();
    }
    const covers: Cover[] = [];
    for (let set = 0; set < SETS; set += 1) {
      const at = positions(
        kind.length,
        (i) => ((set >> kind[i]!) & 1) === 1 && end[i]! > start[i]!,
      );
      covers.push(Cover.of(picked(start, at), picked(end, at)));
      await pacer.rest();
    }
    return new BusyIndex(new Counted(start, end, reach), ofKind, covers);
  }

  within(part: Part): BusyTimes {
    const [start, end] = this.all.extent(part);
    const counts = this.ofKind.map((one) => one.within(part));
    return {
      counts: counts as [number, number, number],
      start,
      end,
      unions: Float64Array.from(this.covers, (cover) => cover.within(part.low, part.high)),
    };
  }
}

// Number of events that overlap a window, and their extent within it, without a scan.

export class Counted {
  private readonly ends: Float64Array;
  /** Instants of events without a length. */
  private readonly points: Float64Array;

  /** Build the index from events sorted by start. */
  constructor(
    private readonly start: Float64Array,
    end: Float64Array,
    private readonly reach: Float64Array,
  ) {
    this.ends = end.slice().sort();
    this.points = picked(
      start,
      positions(start.length, (i) => start[i] === end[i]),
    );
  }

  within({ low, high }: Part): number {
    if (low === high) return 0;
    // Exclude events that end at the window's start, except instants.
    const there = countUpTo(this.points, low) - countBelow(this.points, low);
    return countBelow(this.start, high) - countUpTo(this.ends, low) + there;
  }

  /** First start and last end in the window; of no event Infinity and -Infinity. */
  extent(part: Part): [start: number, end: number] {
    if (this.within(part) === 0) return [Infinity, -Infinity];
    const { low, high } = part;
    const begun = countBelow(this.start, low);
    const open = begun > 0 && this.reach[begun - 1]! > low;
    const last = countBelow(this.start, high) - 1;
    return [open ? low : this.start[begun]!, Math.min(this.reach[last]!, high)];
  }
}

// Activity of each rank's device: any of its measures, cut into bins.

const ALL = 7;

/** When a metric holds for a rank; the part is of all times. */
function coverOfMetric(part: Part, metric: Metric): Cover {
  return part.rank.once(`heatmap ${metric}`, part, () => {
    const of = (kinds: number): Cover =>
      part.mask === null
        ? part.rank.busy.covers[kinds]!
        : part.rank.once(`cover ${kinds}`, part, () => coverOfKinds(part, kinds));
    switch (metric) {
      case "busy":
        return of(ALL);
      case "compute":
        return of(1 << COMPUTE);
      case "communication":
        return of(1 << COMMUNICATION);
      case "exposed_communication":
        return beyond(of(1 << COMMUNICATION), of(1 << COMPUTE));
      case "waiting":
        return waitCover(part);
      case "idle": {
        const [start, end] = spanOf(part) ?? [0, 0];
        if (!(end > start)) return Cover.of(new Float64Array(0), new Float64Array(0));
        return beyond(Cover.of(Float64Array.of(start), Float64Array.of(end)), of(ALL));
      }
    }
  });
}

/** Edges of bins, rounded down to whole ns. */
export function binEdges(start: number, end: number, bins: number): Float64Array {
  const whole = Math.floor((end - start) / bins);
  const rest = end - start - whole * bins;
  return Float64Array.from(
    { length: bins + 1 },
    (_, k) => start + whole * k + Math.floor((rest * k) / bins),
  );
}

/** Time of the metric in each bin, rank by rank. */
export function heatmap(parts: readonly Part[], metric: Metric, edges: Float64Array): Float64Array {
  const bins = edges.length - 1;
  const out = new Float64Array(parts.length * bins);
  parts.forEach((part, at) => out.set(coverOfMetric(part, metric).between(edges), at * bins));
  return out;
}

/** Note of the heatmap: the reason that it is empty, or "". */
export function heatmapNote(parts: readonly Part[], metric: Metric, values: Float64Array): string {
  if (parts.length === 0) return "no ranks are selected";
  if (!parts.some((part) => workOf(busyTimes(part)) > 0)) {
    return "no device work is selected: no kernels and no copies";
  }
  if (!values.some((value) => value !== 0)) return `nothing is ${metric.replace(/_/g, " ")} here`;
  return "";
}

// Time in which a rank waits in collectives for other ranks.

/** Chosen events that are matched with other ranks', and from when to when in the window each waits. */
interface Waiting {
  /** Places in the rank's part of the collectives. */
  entry: Int32Array;
  begin: Float64Array;
  until: Float64Array;
}

export function waiting({ rank, mask, low, high }: Part): Waiting {
  const { id, start, dur, wait } = rank.matched;
  const size = low === high ? 0 : countBelow(start, high);
  const found = {
    entry: new Int32Array(size),
    begin: new Float64Array(size),
    until: new Float64Array(size),
  };
  let count = 0;
  for (let i = 0; i < size; i += 1) {
    const from = start[i]!;
    if (!overlaps(from, from + dur[i]!, low) || (mask !== null && mask[id[i]!] === 0)) continue;
    const until = from + wait[i]!;
    found.entry[count] = i;
    found.begin[count] = Math.min(Math.max(from, low), high);
    found.until[count] = Math.min(Math.max(until, low), high);
    count += 1;
  }
  return {
    entry: found.entry.subarray(0, count),
    begin: found.begin.subarray(0, count),
    until: found.until.subarray(0, count),
  };
}

/** Waits that no compute overlaps. */
function exposedCover(part: Part): Cover {
  return part.rank.once("exposed waits", part, () =>
    beyond(waitCover(part), coverOfKinds(part, 1 << COMPUTE)),
  );
}

/** Union of the waits. */
function waitCover(part: Part): Cover {
  const { begin, until } = waiting(part);
  const lasting = begin.map((start, i) => (until[i]! > start ? 1 : 0));
  return Cover.of(
    begin.filter((_, i) => lasting[i] === 1),
    until.filter((_, i) => lasting[i] === 1),
  );
}

/** Time spent waiting without computing; null if no communication of the rank is matched. */
export function exposedWait(part: Part): number | null {
  if (part.rank.matched.id.length === 0) return null;
  // An event that does not overlap the window does not wait in it.
  if (part.mask === null) return exposedCover(ofAllTimes(part)).within(part.low, part.high);
  return exposedCover(part).prefix.at(-1)!;
}

// Input of a panel: the chosen events of one rank, and the window that cuts them.

export interface Part {
  readonly rank: PanelRank;
  /** 1 by row for each chosen event, regardless of the window; null if all are chosen. */
  readonly mask: Uint8Array | null;
  /** Edges of the window; infinite if it is open. */
  readonly low: number;
  readonly high: number;
  /** Tells parts of one rank apart. */
  readonly key: string;
}

/** The same events at all times. */
export function ofAllTimes(part: Part): Part {
  return { ...part, low: -Infinity, high: Infinity };
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

export function reachOf(end: Float64Array): Float64Array {
  const reach = new Float64Array(end.length);
  let latest = -Infinity;
  for (let i = 0; i < end.length; i += 1) {
    if (end[i]! > latest) latest = end[i]!;
    reach[i] = latest;
  }
  return reach;
}

// Time of the devices in any window: unions over all streams of a rank.

const MEMORY = 2;
const MAX_BINS = 1 << 16;

/** Unions behind the page's figures; `both` is compute and communication. */
const UNIONS = {
  compute: [COMPUTE],
  communication: [COMMUNICATION],
  memory: [MEMORY],
  both: [COMPUTE, COMMUNICATION],
  busy: [COMPUTE, COMMUNICATION, MEMORY],
} as const;

type Union = keyof typeof UNIONS;
type Before = Record<Union, (time: number) => number>;

const PARTS = ["compute", "communication", "exposed", "memory", "busy", "memory_union"] as const;
type Parts = Record<(typeof PARTS)[number], number>;

export class DeviceTime {
  readonly rank: number;
  readonly any: boolean;
  /** Whether time within a cell of an overview is a mean. */
  readonly approximate: boolean;
  private readonly before: Before;
  /** First start and last end of its work. */
  private readonly span: readonly [number, number];
  private readonly host: (time: number) => number;

  constructor(
    private readonly source: AnyRank,
    private readonly range: readonly [number, number],
  ) {
    this.rank = source.number;
    this.approximate = source instanceof Overview;
    const before = {} as Before;
    if (source instanceof Overview) {
      this.any = source.header.has_device;
      this.span = source.header.device_range;
      for (const name of Object.keys(UNIONS) as Union[]) before[name] = source.deviceBefore(name);
    } else {
      const rows = source.device();
      this.any = rows.length > 0;
      this.span = source.header.device_range ?? extentOf(source, rows);
      for (const [name, kinds] of Object.entries(UNIONS)) {
        const cover = unionOf(source, rows, kinds);
        before[name as Union] = (time) => cover.before(time);
      }
    }
    this.before = before;
    this.host = hostTime(this.source);
  }

  between(start: number, end: number): Parts {
    const of = (name: Union): number => this.before[name](end) - this.before[name](start);
    const [compute, both, busy] = [of("compute"), of("both"), of("busy")];
    return {
      compute,
      communication: of("communication"),
      exposed: both - compute,
      memory: busy - both,
      busy,
      memory_union: of("memory"),
    };
  }

  /** Time of the first host lane. */
  hostBetween(start: number, end: number): number {
    return this.host(end) - this.host(start);
  }

  /** Length of the part of a window that is within the rank's data. */
  inside(start: number, end: number): number {
    return shared(this.range, start, end);
  }

  /** Length of the part of a window between the rank's first and last device work. */
  spanWithin(start: number, end: number): number {
    return shared(this.span, start, end);
  }
}

function shared([low, high]: readonly [number, number], start: number, end: number): number {
  return Math.max(0, Math.min(high, end) - Math.max(low, start));
}

/** First start and last end of device work; 0 for none. */
function extentOf(rank: Rank, rows: Int32Array): [number, number] {
  const { start, dur } = rank.events;
  let [low, high] = [Infinity, -Infinity];
  for (const row of rows) {
    if (rank.kindOf(rank.events, row) > MEMORY) continue;
    low = Math.min(low, start[row]!);
    high = Math.max(high, start[row]! + dur[row]!);
  }
  return low <= high ? [low, high] : [0, 0];
}

function unionOf(rank: Rank, rows: Int32Array, kinds: readonly number[]): Cover {
  const { start, dur } = rank.events;
  const chosen = rows.filter((row) => kinds.includes(rank.kindOf(rank.events, row)));
  return coverOf(picked(start, chosen), picked(dur, chosen));
}

/** When a rank computes. */
export function computeOf(rank: Rank): Cover {
  return unionOf(rank, rank.device(), UNIONS.compute);
}

function hostTime(rank: AnyRank): (time: number) => number {
  const first = rank.header.summary.find(({ role }) => role === "cpu");
  if (first === undefined) return () => 0;
  if (rank instanceof Overview) return rank.laneBefore(first.lane);
  return (time) => {
    const lane = rank.lane(first.lane);
    return lane instanceof Counter ? 0 : lane.spans.cover.before(time);
  };
}

/** Answer `stats`: the parts of a window, by rank and as shares of some ranks or all. */
export function stats(
  devices: readonly DeviceTime[],
  start: number,
  end: number,
  ranks: readonly number[] | null = null,
): Reply {
  if (!(end > start)) throw new Error(`a window must end after it starts, not ${start} to ${end}`);
  const parts = devices.map((device) => whole(device.between(start, end), device.approximate));
  const span = devices.map((device) => device.spanWithin(start, end));
  const reply: Record<string, unknown> = { ranks: devices.map(({ rank }) => rank) };
  for (const name of ["compute", "communication", "exposed", "memory"] as const) {
    reply[name] = parts.map((part) => part[name]);
  }
  reply.data = devices.map((device) => device.inside(start, end));
  reply.span = span;
  reply.idle = parts.map((part, i) => Math.max(span[i]! - part.busy, 0));
  const chosen = (values: readonly number[]): number =>
    sum(values.filter((_, at) => ranks === null || ranks.includes(devices[at]!.rank)));
  const all = chosen(span);
  reply.kinds = {};
  if (all > 0 && devices.some(({ any }) => any)) {
    reply.kinds = {
      compute: chosen(parts.map(({ compute }) => compute)) / all,
      communication: chosen(parts.map(({ communication }) => communication)) / all,
      memory: chosen(parts.map(({ memory_union }) => memory_union)) / all,
    };
  }
  const approximate = devices.filter((device) => device.approximate).map(({ rank }) => rank);
  if (approximate.length > 0) reply.approximate = approximate;
  return { reply, buffer: null };
}

/** Means of an overview as whole nanoseconds. */
function whole(parts: Parts, approximate: boolean): Parts {
  if (!approximate) return parts;
  return Object.fromEntries(PARTS.map((name) => [name, Math.round(parts[name])])) as Parts;
}

/** Answer `minimap`: the mean of all ranks over the whole job. */
export function minimap(devices: readonly DeviceTime[], scene: Scene, bins: number): Reply {
  if (!(bins >= 1 && bins <= MAX_BINS)) {
    throw new Error(`bins must be within 1 … ${MAX_BINS}, not ${bins}`);
  }
  const [start, end] = scene.range;
  const step = Math.floor((end - start) / bins);
  const rest = (end - start) % bins;
  const edge = (k: number): number => start + step * k + Math.floor((rest * k) / bins);
  const onDevices = devices.some(({ any }) => any);
  const names = onDevices ? (["compute", "exposed", "memory"] as const) : (["cpu"] as const);
  const columns: Record<string, Float32Array> = {};
  for (const name of names) columns[name] = new Float32Array(bins);
  for (let bin = 0; bin < bins; bin += 1) {
    const [low, high] = [edge(bin), edge(bin + 1)];
    const weight = (high - low) * devices.length;
    if (weight === 0) continue;
    const totals: Record<string, number> = {};
    for (const device of devices) {
      const parts = onDevices ? device.between(low, high) : { cpu: device.hostBetween(low, high) };
      for (const name of names) {
        totals[name] = (totals[name] ?? 0) + (parts as Record<string, number>)[name]!;
      }
    }
    for (const name of names) columns[name]![bin] = totals[name]! / weight;
  }
  return packed({ start, end, bins }, columns);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
