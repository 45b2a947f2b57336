/** Where the devices' time goes, in any window: unions over all streams of a rank. */

import type { Reply, Scene } from "../contract";
import { Counter } from "./counter";
import type { AnyRank } from "./job";
import { coverOf } from "./lane";
import { Overview } from "./overview";
import { packed } from "./pack";
import type { Rank } from "./rank";
import { picked } from "./sorted";
import type { Cover } from "./spans";

const COMPUTE = 0;
const COMMUNICATION = 1;
const MEMORY = 2;
const MAX_BINS = 1 << 16;

/** Unions of which the page's figures are made; `both`: compute and communication. */
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

  /** How much of a window lies within the rank's data. */
  inside(start: number, end: number): number {
    return shared(this.range, start, end);
  }

  /** How much of a window lies between the rank's first and last device work. */
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
