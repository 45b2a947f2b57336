/** Place the lanes of a row: heights and vertical positions in CSS px. */

import type { SceneRank, SceneTrack } from "../protocol/source";

/**
 * How the marks of a band look. `solid`: device time; `pale`: host time, tinted with a dark left
 * edge; `bar`: a thread of a folded rank.
 */
export type BandForm = "solid" | "pale" | "bar" | "counter";

export interface Band {
  lane: number;
  /** Distance from the top of the row. */
  top: number;
  height: number;
  form: BandForm;
  /** Name in the gutter; "" if it has none. */
  label: string;
  track: SceneTrack | null;
  /** For communication between ranks: lanes of waits and late arrivals, drawn over it. */
  over?: OverlayLanes | undefined;
  /** Number of frames in the Python stack that begins here. */
  frames?: number | undefined;
  /** Lanes of a folded stack, outermost frame first. All of them are drawn in this band. */
  stackLanes?: readonly number[] | undefined;
}

interface OverlayLanes {
  wait: number;
  late: number;
}

function overlayLanes({ wait, late }: { wait?: number; late?: number }): OverlayLanes | undefined {
  return wait === undefined || late === undefined ? undefined : { wait, late };
}

/** Sizes of folded ranks, the same for all ranks of a layout. */
export interface FoldSizes {
  mode: "full" | "line" | "compact";
  height: number;
  pad: number;
  gpu: number;
  comm: number;
  /** Number of threads shown as bars. */
  cpuBars: number;
  /** Height of the ribbon of late arrivals below the communication lane; 0 if there is none. */
  ribbon: number;
}

const FULL_SIZES = { pad: 3, gpu: 16, comm: 12, gap: 1, beforeCpu: 3, below: 2 };
const MAX_GROWN_SIZES = { gpu: 24, comm: 15 };
const CPU_BAR_HEIGHT = 3;
const MAX_CPU_BARS = 3;
/** Number of threads shown as bars if the ranks do not fit with all their threads. */
const MIN_CPU_BARS = 2;
/** Sizes of folded ranks while another rank is open. */
const LINE_SIZES = { pad: 3, gpu: 9, comm: 13, height: 27 };
const COMPACT_SIZES = { pad: 2, gpu: 8, comm: 6, height: 18 };
/** From this many ranks on, threads are shown only for open ranks. */
const MANY_RANKS_FROM = 40;
/** Up to this many ranks, threads take precedence over the ribbon if space is short. */
const RIBBON_FIRST = 16;
const RIBBON_HEIGHT = 5;
/** Height of two text lines in the gutter. The second value is used if it makes all ranks fit. */
const TWO_LINES_HEIGHT = 36;
const MIN_TWO_LINES_HEIGHT = 32;

/** The drawing of a track's lanes, by role: lane pitch, gap below the last lane, and form. */
const TRACK_LANES: Readonly<
  Record<SceneTrack["role"], { pitch: number; gapBelow: number; form: BandForm }>
> = {
  thread: { pitch: 17, gapBelow: 4, form: "pale" },
  stream: { pitch: 21, gapBelow: 4, form: "solid" },
  annotation: { pitch: 16, gapBelow: 2, form: "pale" },
  async: { pitch: 17, gapBelow: 4, form: "solid" },
  instant: { pitch: 12, gapBelow: 3, form: "solid" },
  counter: { pitch: 30, gapBelow: 4, form: "counter" },
  other: { pitch: 17, gapBelow: 4, form: "pale" },
};
/** Pitch of a lane without events in view, and the minimum height of a track to fit its name. */
const THIN_LANE_HEIGHT = 3;
const NAMED_LANE_HEIGHT = 12;

function lanesOf(rank: SceneRank, role: "gpu" | "comm" | "cpu") {
  return rank.summary.filter((lane) => lane.role === role);
}

/**
 * Return sizes that fit `count` folded ranks into a height. If the rows would be too small to read,
 * they scroll. Among sizes that fit, those with more bars and a ribbon are preferred.
 */
export function computeFoldSizes(
  ranks: readonly SceneRank[],
  count: number,
  availableHeight: number,
  anyOpen: boolean,
  ribbons = false,
): FoldSizes {
  if (anyOpen) return { mode: "line", ...LINE_SIZES, cpuBars: MAX_CPU_BARS, ribbon: 0 };
  const hasComm = ranks.some((rank) => lanesOf(rank, "comm").length > 0);
  const hasGpu = ranks.some((rank) => lanesOf(rank, "gpu").length > 0);
  const threads = Math.max(0, ...ranks.map((rank) => lanesOf(rank, "cpu").length));
  const maxBars = Math.min(threads, MAX_CPU_BARS);
  if (count > MANY_RANKS_FROM && !hasGpu && !hasComm) {
    return { mode: "compact", ...COMPACT_SIZES, cpuBars: maxBars, ribbon: 0 };
  }
  const rankHeight = count > 0 ? Math.floor(availableHeight / count) : availableHeight;
  const foldWith = (cpuBars: number, ribbon = 0): FoldSizes =>
    fullFold({ hasGpu, hasComm, cpuBars, ribbon }, minFoldHeight(count, rankHeight));
  const grow = (fold: FoldSizes): FoldSizes => growFold(fold, rankHeight);
  const fits = ({ height }: FoldSizes): boolean => height <= rankHeight;
  if (count > MANY_RANKS_FROM) {
    const withRibbon = foldWith(0, RIBBON_HEIGHT);
    if (ribbons && fits(withRibbon)) return grow(withRibbon);
    return fits(foldWith(0)) ? grow(foldWith(0)) : compactFold(rankHeight, hasComm);
  }
  const bars = fits(foldWith(maxBars)) ? maxBars : Math.min(threads, MIN_CPU_BARS);
  if (!ribbons) return grow(foldWith(bars));
  const withRibbon = foldWith(bars, RIBBON_HEIGHT);
  if (fits(withRibbon)) return grow(withRibbon);
  return grow(count > RIBBON_FIRST ? foldWith(0, RIBBON_HEIGHT) : foldWith(bars));
}

/** Return the height of a folded rank's two text lines. */
function minFoldHeight(count: number, rankHeight: number): number {
  if (count > MANY_RANKS_FROM) return TWO_LINES_HEIGHT - 2;
  return rankHeight < MIN_TWO_LINES_HEIGHT
    ? TWO_LINES_HEIGHT
    : Math.min(rankHeight, TWO_LINES_HEIGHT);
}

/** Return a folded rank's sizes with all its parts, at the minimum height for texts and lanes. */
function fullFold(
  parts: { hasGpu: boolean; hasComm: boolean; cpuBars: number; ribbon: number },
  minHeight: number,
): FoldSizes {
  const { pad, gpu, comm, gap, beforeCpu, below } = FULL_SIZES;
  const { cpuBars, ribbon } = parts;
  const deviceHeight = (parts.hasGpu ? gpu : 0) + (parts.hasComm ? comm + gap : 0);
  const cpuHeight = cpuBars > 0 ? beforeCpu + cpuBars * (CPU_BAR_HEIGHT + 1) - 1 : 0;
  const ribbonHeight = ribbon > 0 ? ribbon + gap : 0;
  const height = Math.max(minHeight, pad + deviceHeight + ribbonHeight + cpuHeight + below);
  return { mode: "full", height, pad, gpu, comm, cpuBars, ribbon };
}

/** Return the ribbon's position relative to the top of a folded row; null without a ribbon. */
export function ribbonExtent(
  rank: SceneRank,
  fold: FoldSizes,
  bands: readonly Band[],
): { top: number; height: number } | null {
  const above = bands.find(({ over }) => over !== undefined);
  if (fold.ribbon === 0 || above === undefined || lanesOf(rank, "comm").length === 0) return null;
  return { top: above.top + above.height + FULL_SIZES.gap, height: fold.ribbon };
}

function compactFold(rankHeight: number, hasComm: boolean): FoldSizes {
  const extra = Math.max(0, Math.min(rankHeight - COMPACT_SIZES.height, 14));
  const forComm = hasComm ? Math.floor(extra * 0.43) : 0;
  return {
    mode: "compact",
    height: COMPACT_SIZES.height + extra,
    pad: COMPACT_SIZES.pad,
    gpu: COMPACT_SIZES.gpu + extra - forComm + (hasComm ? 0 : COMPACT_SIZES.comm),
    comm: COMPACT_SIZES.comm + forComm,
    cpuBars: 0,
    ribbon: 0,
  };
}

/** Distribute the remaining height among the device lanes, up to their maximum height. */
function growFold(fold: FoldSizes, rankHeight: number): FoldSizes {
  const maxGrowth = MAX_GROWN_SIZES.gpu - fold.gpu + (MAX_GROWN_SIZES.comm - fold.comm);
  const extra = Math.max(0, Math.min(rankHeight - fold.height, maxGrowth));
  const forGpu = Math.round((extra * (MAX_GROWN_SIZES.gpu - fold.gpu)) / maxGrowth);
  return {
    ...fold,
    height: fold.height + extra,
    gpu: fold.gpu + forGpu,
    comm: fold.comm + extra - forGpu,
  };
}

/** Return the bands of a folded rank, or of an open rank's head. */
export function foldedBands(rank: SceneRank, fold: FoldSizes): Band[] {
  const [gpu] = lanesOf(rank, "gpu");
  const [comm] = lanesOf(rank, "comm");
  const threads = lanesOf(rank, "cpu");
  if (gpu === undefined && comm === undefined) return cpuOnlyBands(rank, threads, fold);
  const isFull = fold.mode === "full";
  const bands: Band[] = [];
  let top = fold.pad;
  const addBand = (lane: number, height: number, band: Pick<Band, "form" | "label" | "over">) => {
    bands.push({ ...band, lane, top, height, track: null });
    top += height + FULL_SIZES.gap;
  };
  if (gpu !== undefined) {
    // In a low row without communication, the other device work also takes its height.
    const height = fold.gpu + (comm === undefined && !isFull ? fold.comm : 0);
    addBand(gpu.lane, height, { form: "solid", label: isFull ? gpu.label : "" });
  }
  if (comm !== undefined) {
    const label = isFull ? comm.label : "";
    addBand(comm.lane, fold.comm, { form: "solid", label, over: overlayLanes(comm) });
    if (fold.ribbon > 0) top += fold.ribbon + FULL_SIZES.gap;
  }
  if (!isFull || fold.cpuBars === 0) return bands;
  top += FULL_SIZES.beforeCpu - FULL_SIZES.gap;
  const shown = busiestThreads(rank, threads, fold.cpuBars);
  const label = threads.length > shown.length ? `CPU +${threads.length - shown.length}` : "CPU";
  for (const [index, { lane }] of shown.entries()) {
    addBand(lane, CPU_BAR_HEIGHT, { form: "bar", label: index === 0 ? label : "" });
  }
  return bands;
}

function busiestThreads(rank: SceneRank, threads: SceneRank["summary"], maxCount: number) {
  if (threads.length <= maxCount) return threads;
  const events = (label: string) =>
    rank.tracks.find((track) => track.role === "thread" && track.label === label)?.events ?? 0;
  const byEvents = [...threads].sort((a, b) => events(b.label) - events(a.label));
  const chosen = new Set(byEvents.slice(0, maxCount));
  return threads.filter((thread) => chosen.has(thread));
}

function cpuOnlyBands(rank: SceneRank, threads: SceneRank["summary"], fold: FoldSizes): Band[] {
  const shown = busiestThreads(rank, threads, Math.max(1, fold.cpuBars));
  if (shown.length === 0) return [];
  const availableHeight = fold.height - 2 * fold.pad - (shown.length - 1);
  const evenHeight = Math.floor(availableHeight / shown.length);
  const height = Math.max(2, Math.min(MAX_GROWN_SIZES.gpu, evenHeight));
  return shown.map((thread, index) => ({
    lane: thread.lane,
    top: fold.pad + index * (height + 1),
    height,
    form: "bar",
    label: index === 0 && fold.mode === "full" ? "CPU" : "",
    track: null,
  }));
}

/** First depth of a stack, and its number of depths. */
export type StackSpan = readonly [first: number, count: number];

/** Return where each depth of a track is drawn. A folded stack is drawn at its outermost frame. */
function drawnDepths(track: SceneTrack, folded: readonly StackSpan[]): number[] {
  return Array.from({ length: track.lanes }, (_, depth) => {
    const stack = folded.find(([first, count]) => depth >= first && depth < first + count);
    return stack?.[0] ?? depth;
  });
}

export function trackHeight(
  track: SceneTrack,
  folded: readonly StackSpan[],
  emptyLanes: ReadonlySet<number> = new Set(),
): number {
  const { pitch, gapBelow } = TRACK_LANES[track.role];
  let height = track.lanes === 0 ? pitch : 0;
  for (const depth of new Set(drawnDepths(track, folded)))
    height += emptyLanes.has(track.lane0 + depth) ? THIN_LANE_HEIGHT : pitch;
  return Math.max(height + gapBelow, NAMED_LANE_HEIGHT);
}

export function countThin(
  track: SceneTrack,
  folded: readonly StackSpan[],
  emptyLanes: ReadonlySet<number>,
): number {
  return drawnDepths(track, folded).filter((depth) => emptyLanes.has(track.lane0 + depth)).length;
}

/** Return the bands of an open rank's track: one per depth, then one per overflow lane. */
export function trackBands(
  track: SceneTrack,
  name: string,
  folded: readonly StackSpan[],
  emptyLanes: ReadonlySet<number>,
): Band[] {
  const { pitch, form } = TRACK_LANES[track.role];
  const spillsFrom = form === "counter" ? track.lanes : Math.max(1, track.nested);
  const labelAt = (depth: number): string => {
    if (depth === 0) return name;
    return depth >= spillsFrom ? `+${depth - spillsFrom + 1}` : "";
  };
  const laneHeight = track.role === "stream" && track.lanes === 1 ? pitch : pitch - 1;
  const bands: Band[] = [];
  let top = 1;
  for (const [depth, drawnDepth] of drawnDepths(track, folded).entries()) {
    const lane = track.lane0 + depth;
    const outermost = bands[drawnDepth];
    if (outermost !== undefined) {
      bands.push({ ...outermost, lane, label: "", frames: undefined });
      continue;
    }
    const isThin = emptyLanes.has(lane);
    const [, frames = 0] = track.stacks?.find(([first]) => first === depth) ?? [];
    const isFolded = folded.some(([first]) => first === depth);
    bands.push({
      lane,
      top,
      height: isThin ? THIN_LANE_HEIGHT - 1 : laneHeight,
      // This form's background makes a thin line visible.
      form: isThin ? "solid" : form,
      label: labelAt(depth),
      track,
      over: depth === 0 ? overlayLanes(track) : undefined,
      frames: frames || undefined,
      stackLanes: isFolded ? Array.from({ length: frames }, (_, index) => lane + index) : undefined,
    });
    top += isThin ? THIN_LANE_HEIGHT : pitch;
  }
  return bands;
}
