/** Answer `stats` and `minimap`: how each rank's device spends its time in a window. */

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

/** The unions of device work in overviews, keyed by name, and the states that they consist of. */
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

/** A rank's device times in any window. In an overview, time is spread evenly within a cell. */
interface WindowTimes {
  hasDevice: boolean;
  /** First start and last end of device work. */
  span: readonly [start: number, end: number];
  unionTimes(start: number, end: number): (name: Union) => number;
  /** Return the time in which the device probably ran work that is not in the file. */
  unrecordedWithin(start: number, end: number): number;
  /** Return the length of the window, excluding the times between recording windows. */
  recordedWithin(start: number, end: number): number;
}

function timesOfOverview(rank: RankOverview): WindowTimes {
  const timeWithin = (name: string) => {
    const timeBefore = rank.deviceTimeBefore(name);
    return (start: number, end: number): number => timeBefore(end) - timeBefore(start);
  };
  const names = Object.keys(DEVICE_UNIONS) as Union[];
  const unions = new Map(names.map((name) => [name, timeWithin(name)]));
  const [unrecorded, betweenWindows] = [timeWithin("unrecorded"), timeWithin("between_windows")];
  return {
    hasDevice: rank.header.has_device,
    span: rank.header.device_range,
    unionTimes: (start, end) => (name) => unions.get(name)!(start, end),
    unrecordedWithin: (start, end) => Math.round(unrecorded(start, end)),
    recordedWithin: (start, end) => end - start - Math.round(betweenWindows(start, end)),
  };
}

function timesOfEvents(rank: RankAnalysis): WindowTimes {
  const { trace, fullSelection } = rank;
  const { sweep } = deviceSpansOf(fullSelection);
  const unrecorded = unrecordedWork(rank);
  return {
    hasDevice: trace.deviceRows().length > 0,
    span: trace.header.device_range ?? trace.workExtent() ?? [0, 0],
    unionTimes: (start, end) => {
      const times = sweep.timesWithin(start, end);
      return (name) => timeInStates(times, DEVICE_UNIONS[name]);
    },
    unrecordedWithin: (start, end) => unrecorded.coveredWithin(start, end),
    recordedWithin: (start, end) => recordedTime(fullSelection, start, end),
  };
}

/** One rank's part of the replies to `stats` and `minimap`. */
export class DeviceUsage {
  readonly rank: number;
  readonly isApproximate: boolean;
  readonly times: WindowTimes;
  private readonly source: RankData;

  constructor(rankData: RankAnalysis | RankOverview) {
    this.isApproximate = rankData instanceof RankOverview;
    this.source = rankData instanceof RankOverview ? rankData : rankData.trace;
    this.rank = this.source.number;
    this.times =
      rankData instanceof RankOverview ? timesOfOverview(rankData) : timesOfEvents(rankData);
  }

  partsBetween(start: number, end: number): DeviceParts {
    const timeIn = this.times.unionTimes(start, end);
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

  /** Return the contents of the rank's host summary lanes between adjacent edges. */
  hostCells(edges: Float64Array): Omit<Cells, "mask">[] {
    const { source } = this;
    return source.header.summary.flatMap(({ role, lane }) => {
      if (role !== "cpu") return [];
      if (source instanceof RankOverview) return [source.interpolatedCells(lane, edges)];
      const index = source.laneIndex(lane);
      return index instanceof CounterSeries ? [] : [index.measure(edges)];
    });
  }

  /** Return how much of a window lies within the rank's data. */
  dataWithin(start: number, end: number): number {
    const [low, high] = this.source.header.range;
    return Math.max(0, Math.min(high, end) - Math.max(low, start));
  }

  /** Return how much of a window was recorded between the rank's first and last device work. */
  spanWithin(start: number, end: number): number {
    const { span, recordedWithin } = this.times;
    const [low, high] = [Math.max(span[0], start), Math.min(span[1], end)];
    return high > low ? recordedWithin(low, high) : 0;
  }
}

/** Answer `stats`: each rank's times in a window, and shares of time over `ranks` (null: all). */
export function statsReply(
  devices: readonly DeviceUsage[],
  start: number,
  end: number,
  ranks: readonly number[] | null = null,
): Stats {
  checkWindow({ start, end });
  const parts = devices.map((device) =>
    roundParts(device.partsBetween(start, end), device.isApproximate),
  );
  const span = devices.map((device) => device.spanWithin(start, end));
  const unrecorded = devices.map(({ times }) => times.unrecordedWithin(start, end));
  const sumOfRanks = (values: readonly number[]): number =>
    sum(values.filter((_, i) => ranks === null || ranks.includes(devices[i]!.rank)));
  const totalSpan = sumOfRanks(span);
  const hasShares = totalSpan > 0 && devices.some(({ times }) => times.hasDevice);
  const share = (name: keyof DeviceParts): number =>
    sumOfRanks(parts.map((part) => part[name])) / totalSpan;
  const shares = {
    compute: share("compute"),
    communication: share("communication"),
    memory: share("memory_union"),
  };
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
    kinds: hasShares ? shares : {},
  };
  const approximate = devices.filter(({ isApproximate }) => isApproximate);
  if (approximate.length > 0) reply.approximate = approximate.map(({ rank }) => rank);
  return reply;
}

function roundParts(parts: DeviceParts, approximate: boolean): DeviceParts {
  if (!approximate) return parts;
  return Object.fromEntries(PARTS.map((name) => [name, Math.round(parts[name])])) as DeviceParts;
}

/** Times of a device or lane in a bin, keyed by name. */
type TimesInBin = Partial<Record<string, number>>;

/** Answer `minimap`: the mean over all devices or, without device work, over host summary lanes. */
export function minimapReply(devices: readonly DeviceUsage[], scene: Scene, bins: number): Reply {
  checkBins(bins);
  const [start, end] = scene.range;
  const edges = binEdges(start, end, bins);
  const onDevices = devices.some(({ times }) => times.hasDevice);
  const rows = onDevices
    ? devices.map((device) => deviceTimes(device, edges))
    : devices.flatMap((device) => hostTimes(device, edges, scene.kinds));
  const names = onDevices ? ["compute", "exposed", "memory"] : scene.kinds;
  const columns = names.flatMap((name) => {
    const totals = new Float64Array(bins);
    for (const times of rows) times.forEach((inBin, bin) => (totals[bin]! += inBin[name] ?? 0));
    const isShown = onDevices || name === "cpu" || totals.some((ns) => ns > 0);
    const fullTime = (bin: number): number => (edges[bin + 1]! - edges[bin]!) * rows.length;
    const shares = totals.map((ns, bin) => ns / Math.max(fullTime(bin), 1));
    return isShown ? [[name, Float32Array.from(shares)] as const] : [];
  });
  return packReply({ start, end, bins }, Object.fromEntries(columns));
}

function deviceTimes(device: DeviceUsage, edges: Float64Array): TimesInBin[] {
  return Array.from(edges.subarray(1), (end, bin) => device.partsBetween(edges[bin]!, end));
}

/** Return, for each host summary lane, the time in each bin by the main kind of the bin. */
function hostTimes(
  device: DeviceUsage,
  edges: Float64Array,
  kinds: readonly string[],
): TimesInBin[][] {
  return device.hostCells(edges).map(({ covered, count, kind }) =>
    Array.from(covered, (ns, bin) => {
      // Zero-length events count as 1 ns, so that a bin with events is not empty.
      const time = count[bin]! > 0 ? Math.max(1, ns) : ns;
      return { [kinds[kind[bin]!] ?? ""]: time };
    }),
  );
}
