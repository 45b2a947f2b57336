/** How high the lanes of a row are, and where in it they lie. CSS px. */

import type { SceneRank, SceneTrack } from "../contract";

/**
 * How marks of a band look: `solid` is device time, `pale` is host time (a tint with a dark left
 * edge), `bar` is a thread of a folded rank.
 */
export type Form = "solid" | "pale" | "bar" | "counter";

export interface Band {
  lane: number;
  /** From the top of the row. */
  top: number;
  height: number;
  form: Form;
  /** Name in the gutter, "" for none. */
  label: string;
  track: SceneTrack | null;
  /** Communication between ranks: lanes of waits and of late arrivals that are drawn over it. */
  over?: Over | undefined;
}

export interface Over {
  wait: number;
  late: number;
}

function overOf({ wait, late }: { wait?: number; late?: number }): Over | undefined {
  return wait === undefined || late === undefined ? undefined : { wait, late };
}

/** Sizes of a folded rank, the same for all ranks of a layout. */
export interface Fold {
  mode: "full" | "line" | "compact";
  height: number;
  pad: number;
  gpu: number;
  comm: number;
  /** Threads shown as bars. */
  cpuBars: number;
  /** Height of the ribbon of late arrivals below the communication; 0 for none. */
  ribbon: number;
}

const FULL = { pad: 3, gpu: 16, comm: 12, gap: 1, beforeCpu: 3, below: 2 };
const GROWN = { gpu: 24, comm: 15 };
const BAR = 3;
const MOST_BARS = 3;
/** More threads are shown as bars only where every rank still fits. */
const BARS = 2;
/** Beside an opened rank. */
const LINE = { pad: 3, gpu: 9, comm: 13, height: 27 };
const COMPACT = { pad: 2, gpu: 8, comm: 6, height: 18 };
/** From this many ranks on, threads are left to the opened rank. */
const MANY_RANKS = 40;
/** Where ranks are more than this and not all fit, the ribbon comes before threads. */
const RIBBON_FIRST = 16;
const RIBBON = 5;
/** Two lines of text in the gutter. */
const TWO_LINES = 36;

const PITCH = { thread: 17, stream: 21, annotation: 16, async: 17, instant: 12, counter: 30 };
const BELOW = { thread: 4, stream: 4, annotation: 2, async: 4, instant: 3, counter: 4 };

function lanesOf(rank: SceneRank, role: "gpu" | "comm" | "cpu") {
  return rank.summary.filter((lane) => lane.role === role);
}

/** Sizes that let `count` folded ranks use `room`; never smaller than legible, then they scroll. */
export function foldOf(
  ranks: readonly SceneRank[],
  count: number,
  room: number,
  anyOpen: boolean,
  ribbons = false,
): Fold {
  if (anyOpen) return { mode: "line", ...LINE, cpuBars: MOST_BARS, ribbon: 0 };
  const hasComm = ranks.some((rank) => lanesOf(rank, "comm").length > 0);
  const hasGpu = hasComm || ranks.some((rank) => lanesOf(rank, "gpu").length > 0);
  const threads = Math.max(0, ...ranks.map((rank) => lanesOf(rank, "cpu").length));
  const each = count > 0 ? Math.floor(room / count) : room;
  const gpuHeight = hasGpu ? FULL.gpu : 0;
  const commHeight = hasComm ? FULL.comm + FULL.gap : 0;

  if (count > MANY_RANKS && hasGpu) {
    const height = Math.max(TWO_LINES - 2, FULL.pad + gpuHeight + commHeight + FULL.below);
    if (each < height) return compactFold(each, hasComm);
    const { pad, gpu, comm } = FULL;
    const rich = height + RIBBON + FULL.gap;
    const ribbon = ribbons && rich <= each ? RIBBON : 0;
    const fold: Fold = { mode: "full", height, pad, gpu, comm, cpuBars: 0, ribbon };
    return grown(ribbon > 0 ? { ...fold, height: rich } : fold, each);
  }
  if (count > MANY_RANKS) {
    return { mode: "compact", ...COMPACT, cpuBars: Math.min(threads, MOST_BARS), ribbon: 0 };
  }
  const full = (cpuBars: number, ribbon = 0): Fold => {
    const cpu = cpuBars > 0 ? FULL.beforeCpu + cpuBars * (BAR + 1) - 1 : 0;
    const late = ribbon > 0 ? ribbon + FULL.gap : 0;
    const parts = FULL.pad + gpuHeight + commHeight + late + cpu + FULL.below;
    const height = Math.max(TWO_LINES, parts);
    return { mode: "full", height, pad: FULL.pad, gpu: FULL.gpu, comm: FULL.comm, cpuBars, ribbon };
  };
  const all = full(Math.min(threads, MOST_BARS));
  const bars = all.height <= each ? all.cpuBars : Math.min(threads, BARS);
  if (!ribbons) return grown(full(bars), each);
  const rich = full(bars, RIBBON);
  if (rich.height <= each) return grown(rich, each);
  return grown(count > RIBBON_FIRST ? full(0, RIBBON) : full(bars), each);
}

/** Where the ribbon lies in a folded row, from its top; null for none. */
export function ribbonOf(
  rank: SceneRank,
  fold: Fold,
  bands: readonly Band[],
): { top: number; height: number } | null {
  const above = bands.find(({ over }) => over !== undefined);
  if (fold.ribbon === 0 || above === undefined || lanesOf(rank, "comm").length === 0) return null;
  return { top: above.top + above.height + FULL.gap, height: fold.ribbon };
}

function compactFold(each: number, hasComm: boolean): Fold {
  const extra = Math.max(0, Math.min(each - COMPACT.height, 14));
  const forComm = hasComm ? Math.floor(extra * 0.43) : 0;
  return {
    mode: "compact",
    height: COMPACT.height + extra,
    pad: COMPACT.pad,
    gpu: COMPACT.gpu + extra - forComm + (hasComm ? 0 : COMPACT.comm),
    comm: COMPACT.comm + forComm,
    cpuBars: 0,
    ribbon: 0,
  };
}

/** Give room that is left to the device lanes, as far as they may grow. */
function grown(fold: Fold, each: number): Fold {
  const most = GROWN.gpu - fold.gpu + (GROWN.comm - fold.comm);
  const extra = Math.max(0, Math.min(each - fold.height, most));
  const forGpu = Math.round((extra * (GROWN.gpu - fold.gpu)) / most);
  return {
    ...fold,
    height: fold.height + extra,
    gpu: fold.gpu + forGpu,
    comm: fold.comm + extra - forGpu,
  };
}

/** Bands of a folded rank, or of the head of an opened one. */
export function foldedBands(rank: SceneRank, fold: Fold): Band[] {
  const bands: Band[] = [];
  const [gpu] = lanesOf(rank, "gpu");
  const [comm] = lanesOf(rank, "comm");
  const threads = lanesOf(rank, "cpu");
  const named = fold.mode === "full";
  let top = fold.pad;
  if (gpu === undefined && comm === undefined) return cpuOnlyBands(rank, threads, fold);
  const wide = comm === undefined && fold.mode !== "full" ? fold.comm : 0;
  if (gpu !== undefined) {
    const height = fold.gpu + wide;
    bands.push({
      lane: gpu.lane,
      top,
      height,
      form: "solid",
      label: named ? gpu.label : "",
      track: null,
    });
    top += height + FULL.gap;
  }
  if (comm !== undefined) {
    bands.push({
      lane: comm.lane,
      top,
      height: fold.comm,
      form: "solid",
      label: named ? comm.label : "",
      track: null,
      over: overOf(comm),
    });
    top += fold.comm + FULL.gap;
    if (fold.ribbon > 0) top += fold.ribbon + FULL.gap;
  }
  if (fold.mode !== "full" || fold.cpuBars === 0) return bands;
  top += FULL.beforeCpu - FULL.gap;
  const shown = busiest(rank, threads, fold.cpuBars);
  const label = threads.length > shown.length ? `CPU +${threads.length - shown.length}` : "CPU";
  for (const [index, thread] of shown.entries()) {
    bands.push({
      lane: thread.lane,
      top,
      height: BAR,
      form: "bar",
      label: index === 0 ? label : "",
      track: null,
    });
    top += BAR + 1;
  }
  return bands;
}

/** The threads with most events, in the scene's order. */
function busiest(rank: SceneRank, threads: SceneRank["summary"], most: number) {
  if (threads.length <= most) return threads;
  const events = (label: string) =>
    rank.tracks.find((track) => track.role === "thread" && track.label === label)?.events ?? 0;
  const byEvents = [...threads].sort((a, b) => events(b.label) - events(a.label));
  const kept = new Set(byEvents.slice(0, most));
  return threads.filter((thread) => kept.has(thread));
}

function cpuOnlyBands(rank: SceneRank, threads: SceneRank["summary"], fold: Fold): Band[] {
  const shown = busiest(rank, threads, Math.max(1, fold.cpuBars));
  if (shown.length === 0) return [];
  const room = fold.height - 2 * fold.pad - (shown.length - 1);
  const height = Math.max(2, Math.min(12, Math.floor(room / shown.length)));
  return shown.map((thread, index) => ({
    lane: thread.lane,
    top: fold.pad + index * (height + 1),
    height,
    form: "bar",
    label: index === 0 && fold.mode === "full" ? "CPU" : "",
    track: null,
  }));
}

type Sized = keyof typeof PITCH;

function sizeOf(role: SceneTrack["role"]): Sized {
  return role === "other" ? "thread" : role;
}

export function trackHeight(track: SceneTrack): number {
  const size = sizeOf(track.role);
  return PITCH[size] * Math.max(1, track.lanes) + BELOW[size];
}

/** Bands of an opened rank's track: one per depth, then one per spill lane. */
export function trackBands(track: SceneTrack, name: string): Band[] {
  const size = sizeOf(track.role);
  const pitch = PITCH[size];
  const form: Form =
    size === "counter" ? "counter" : size === "thread" || size === "annotation" ? "pale" : "solid";
  const spillsFrom = size === "counter" ? track.lanes : Math.max(1, track.nested);
  return Array.from({ length: track.lanes }, (_, depth) => ({
    lane: track.lane0 + depth,
    top: depth * pitch + 1,
    height: size === "stream" && track.lanes === 1 ? pitch : pitch - 1,
    form,
    label: depth === 0 ? name : depth >= spillsFrom ? `+${depth - spillsFrom + 1}` : "",
    track,
    over: depth === 0 ? overOf(track) : undefined,
  }));
}
