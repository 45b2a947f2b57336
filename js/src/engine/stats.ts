/** Time of the devices in any window: unions over all streams of a rank. */

import { sum } from "../expressions/numbers";
import type { Reply, Scene, Stats } from "../protocol/source";
import { Counter } from "./cells";
import { packed } from "./columns";
import { binEdges, COMMUNICATION, COMPUTE, deviceOf, MEMORY, WORK } from "./device";
import { checkBins, checkWindow } from "./lookups";
import { type AnyRank, Overview } from "./overview";
import type { PanelRank } from "./panel_rank";
import { timeOf } from "./sweep";

/** Unions of device work by their names in overviews, and the states of each. */
const UNIONS = {
  compute: COMPUTE,
  communication: COMMUNICATION,
  memory: MEMORY,
  both: COMPUTE | COMMUNICATION,
  busy: WORK,
} as const;

type Union = keyof typeof UNIONS;

const PARTS = ["compute", "communication", "exposed", "memory", "busy", "memory_union"] as const;
type Parts = Record<(typeof PARTS)[number], number>;

export class DeviceTime {
  readonly rank: number;
  readonly any: boolean;
  /** Whether time within a cell of an overview is a mean. */
  readonly approximate: boolean;
  /** Time of each union in a window. */
  private readonly times: (start: number, end: number) => (name: Union) => number;
  /** First start and last end of its work. */
  private readonly span: readonly [number, number];
  private readonly host: (time: number) => number;

  private readonly range: readonly [number, number];

  constructor(of: PanelRank | Overview) {
    const source = of instanceof Overview ? of : of.rank;
    this.rank = source.number;
    this.range = source.header.range;
    this.approximate = of instanceof Overview;
    if (of instanceof Overview) {
      this.any = of.header.has_device;
      this.span = of.header.device_range;
      const names = Object.keys(UNIONS) as Union[];
      const before = new Map(names.map((name) => [name, of.deviceBefore(name)]));
      this.times = (start, end) => (name) => before.get(name)!(end) - before.get(name)!(start);
    } else {
      this.any = of.rank.device().length > 0;
      this.span = of.rank.header.device_range ?? of.rank.workEdges() ?? [0, 0];
      const { sweep } = deviceOf(of.all);
      this.times = (start, end) => {
        const times = sweep.within(start, end);
        return (name) => timeOf(times, UNIONS[name]);
      };
    }
    this.host = hostTime(source);
  }

  between(start: number, end: number): Parts {
    const of = this.times(start, end);
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
): Reply<Stats> {
  checkWindow({ start, end });
  const parts = devices.map((device) => whole(device.between(start, end), device.approximate));
  const span = devices.map((device) => device.spanWithin(start, end));
  const chosen = (values: readonly number[]): number =>
    sum(values.filter((_, at) => ranks === null || ranks.includes(devices[at]!.rank)));
  const all = chosen(span);
  const shares = all > 0 && devices.some(({ any }) => any);
  const reply: Stats = {
    start,
    end,
    ranks: devices.map(({ rank }) => rank),
    compute: parts.map(({ compute }) => compute),
    communication: parts.map(({ communication }) => communication),
    exposed: parts.map(({ exposed }) => exposed),
    memory: parts.map(({ memory }) => memory),
    data: devices.map((device) => device.inside(start, end)),
    span,
    idle: parts.map((part, i) => Math.max(span[i]! - part.busy, 0)),
    kinds: shares
      ? {
          compute: chosen(parts.map(({ compute }) => compute)) / all,
          communication: chosen(parts.map(({ communication }) => communication)) / all,
          memory: chosen(parts.map(({ memory_union }) => memory_union)) / all,
        }
      : {},
  };
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
  checkBins(bins);
  const [start, end] = scene.range;
  const edges = binEdges(start, end, bins);
  const onDevices = devices.some(({ any }) => any);
  const names = onDevices ? (["compute", "exposed", "memory"] as const) : (["cpu"] as const);
  const columns: Record<string, Float32Array> = {};
  for (const name of names) columns[name] = new Float32Array(bins);
  for (let bin = 0; bin < bins; bin += 1) {
    const [low, high] = [edges[bin]!, edges[bin + 1]!];
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
