/** Time of the devices in any window: unions over all streams of a rank. */

import { sum } from "../expressions/numbers";
import type { Reply, Scene, Stats } from "../protocol/source";
import { type Cells, CounterSeries } from "./cells";
import { packReply } from "./columns";
import {
  binEdges,
  COMMUNICATION,
  COMPUTE,
  deviceSpansOf,
  MEMORY,
  recordedTime,
  WORK,
} from "./device";
import { unrecordedWork } from "./idle";
import { checkBins, checkWindow } from "./lookups";
import { type RankData, RankOverview } from "./overview";
import type { RankAnalysis } from "./panel_rank";
import { timeInStates } from "./sweep";

/** Unions of device work by their names in overviews, and the states of each. */
const DEVICE_UNIONS = {
  compute: COMPUTE,
  communication: COMMUNICATION,
  memory: MEMORY,
  both: COMPUTE | COMMUNICATION,
  busy: WORK,
} as const;

type Union = keyof typeof DEVICE_UNIONS;

const PARTS = ["compute", "communication", "exposed", "memory", "busy", "memory_union"] as const;
type DeviceParts = Record<(typeof PARTS)[number], number>;

export class DeviceUsage {
  readonly rank: number;
  readonly hasDevice: boolean;
  /** Whether time within a cell of an overview is a mean. */
  readonly isApproximate: boolean;
  /** Time of each union in a window. */
  private readonly times: (start: number, end: number) => (name: Union) => number;
  /** First start and last end of its work. */
  private readonly span: readonly [number, number];
  /** Time in a window in which it was probably busy with work that is not in the file. */
  readonly unrecordedWithin: (start: number, end: number) => number;
  /** Length of a window without the time between windows of the recording. */
  private readonly recordedWithin: (start: number, end: number) => number;

  private readonly source: RankData;
  private readonly range: readonly [number, number];

  constructor(rankData: RankAnalysis | RankOverview) {
    const source = rankData instanceof RankOverview ? rankData : rankData.trace;
    this.source = source;
    this.rank = source.number;
    this.range = source.header.range;
    this.isApproximate = rankData instanceof RankOverview;
    if (rankData instanceof RankOverview) {
      this.hasDevice = rankData.header.has_device;
      this.span = rankData.header.device_range;
      const names = Object.keys(DEVICE_UNIONS) as Union[];
      const before = new Map(names.map((name) => [name, rankData.deviceTimeBefore(name)]));
      this.times = (start, end) => (name) => before.get(name)!(end) - before.get(name)!(start);
      const [unrecordedBefore, betweenWindowsBefore] = [
        rankData.deviceTimeBefore("unrecorded"),
        rankData.deviceTimeBefore("between_windows"),
      ];
      this.unrecordedWithin = (start, end) =>
        Math.round(unrecordedBefore(end) - unrecordedBefore(start));
      this.recordedWithin = (start, end) =>
        end - start - Math.round(betweenWindowsBefore(end) - betweenWindowsBefore(start));
    } else {
      this.hasDevice = rankData.trace.deviceRows().length > 0;
      this.span = rankData.trace.header.device_range ?? rankData.trace.workExtent() ?? [0, 0];
      const { sweep } = deviceSpansOf(rankData.fullSelection);
      const unrecorded = unrecordedWork(rankData);
      this.unrecordedWithin = (start, end) => unrecorded.coveredWithin(start, end);
      this.recordedWithin = (start, end) => recordedTime(rankData.fullSelection, start, end);
      this.times = (start, end) => {
        const times = sweep.timesWithin(start, end);
        return (name) => timeInStates(times, DEVICE_UNIONS[name]);
      };
    }
  }

  partsBetween(start: number, end: number): DeviceParts {
    const timeIn = this.times(start, end);
    const [compute, both, busy] = [timeIn("compute"), timeIn("both"), timeIn("busy")];
    return {
      compute,
      communication: timeIn("communication"),
      exposed: both - compute,
      memory: busy - both,
      busy,
      memory_union: timeIn("memory"),
    };
  }

  /** Contents of each host lane of the folded rank between neighbouring edges. */
  hostCells(edges: Float64Array): Omit<Cells, "mask">[] {
    const { source } = this;
    return source.header.summary.flatMap(({ role, lane }) => {
      if (role !== "cpu") return [];
      if (source instanceof RankOverview) return [source.interpolatedCells(lane, edges)];
      const index = source.laneIndex(lane);
      return index instanceof CounterSeries ? [] : [index.measure(edges)];
    });
  }

  /** Length of the part of a window that is within the rank's data. */
  dataWithin(start: number, end: number): number {
    return overlapLength(this.range, start, end);
  }

  /** Recorded time of a window between the rank's first and last device work. */
  spanWithin(start: number, end: number): number {
    const [low, high] = [Math.max(this.span[0], start), Math.min(this.span[1], end)];
    return high > low ? this.recordedWithin(low, high) : 0;
  }
}

function overlapLength([low, high]: readonly [number, number], start: number, end: number): number {
  return Math.max(0, Math.min(high, end) - Math.max(low, start));
}

/** Answer `stats`: the parts of a window, by rank and as shares of some ranks or all. */
export function statsReply(
  devices: readonly DeviceUsage[],
  start: number,
  end: number,
  ranks: readonly number[] | null = null,
): Reply<Stats> {
  checkWindow({ start, end });
  const parts = devices.map((device) =>
    roundParts(device.partsBetween(start, end), device.isApproximate),
  );
  const span = devices.map((device) => device.spanWithin(start, end));
  const unrecorded = devices.map((device) => device.unrecordedWithin(start, end));
  const sumOfRanks = (values: readonly number[]): number =>
    sum(values.filter((_, index) => ranks === null || ranks.includes(devices[index]!.rank)));
  const totalSpan = sumOfRanks(span);
  const hasShares = totalSpan > 0 && devices.some(({ hasDevice }) => hasDevice);
  const reply: Stats = {
    start,
    end,
    ranks: devices.map(({ rank }) => rank),
    compute: parts.map(({ compute }) => compute),
    communication: parts.map(({ communication }) => communication),
    exposed: parts.map(({ exposed }) => exposed),
    memory: parts.map(({ memory }) => memory),
    data: devices.map((device) => device.dataWithin(start, end)),
    span,
    idle: parts.map((part, i) => Math.max(span[i]! - part.busy - unrecorded[i]!, 0)),
    unrecorded,
    kinds: hasShares
      ? {
          compute: sumOfRanks(parts.map(({ compute }) => compute)) / totalSpan,
          communication: sumOfRanks(parts.map(({ communication }) => communication)) / totalSpan,
          memory: sumOfRanks(parts.map(({ memory_union }) => memory_union)) / totalSpan,
        }
      : {},
  };
  const approximate = devices.filter((device) => device.isApproximate).map(({ rank }) => rank);
  if (approximate.length > 0) reply.approximate = approximate;
  return { reply, buffer: null };
}

/** Means of an overview as whole nanoseconds. */
function roundParts(parts: DeviceParts, approximate: boolean): DeviceParts {
  if (!approximate) return parts;
  return Object.fromEntries(PARTS.map((name) => [name, Math.round(parts[name])])) as DeviceParts;
}

/** Answer `minimap`: the mean of all ranks, or without device work of all folded host lanes. */
export function minimapReply(devices: readonly DeviceUsage[], scene: Scene, bins: number): Reply {
  checkBins(bins);
  const [start, end] = scene.range;
  const edges = binEdges(start, end, bins);
  const onDevices = devices.some(({ hasDevice }) => hasDevice);
  const names = onDevices ? ["compute", "exposed", "memory"] : scene.kinds;
  const layers = names.map((name) => ({ name, totals: new Float64Array(bins) }));
  const readers = onDevices
    ? devices.map((device) => (bin: number): Record<string, number> => {
        return device.partsBetween(edges[bin]!, edges[bin + 1]!);
      })
    : devices.flatMap((device) =>
        device.hostCells(edges).map(({ covered, count, kind }) => (bin: number) => {
          const ns = count[bin]! > 0 ? Math.max(1, covered[bin]!) : covered[bin]!;
          return { [scene.kinds[kind[bin]!] ?? ""]: ns };
        }),
      );
  for (const timesIn of readers) {
    for (let bin = 0; bin < bins; bin += 1) {
      const times = timesIn(bin);
      for (const { name, totals } of layers) totals[bin]! += times[name] ?? 0;
    }
  }
  const shown = layers.filter(
    ({ name, totals }) => onDevices || name === "cpu" || totals.some((ns) => ns > 0),
  );
  const columns = shown.map(({ name, totals }) => {
    const shares = totals.map(
      (ns, bin) => ns / Math.max((edges[bin + 1]! - edges[bin]!) * readers.length, 1),
    );
    return [name, Float32Array.from(shares)] as const;
  });
  return packReply({ start, end, bins }, Object.fromEntries(columns));
}
