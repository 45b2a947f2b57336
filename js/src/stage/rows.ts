/** Rows and their heights: folded ranks, heads, tracks. */

import { Regular } from "../expressions/regular";
import type { Alike, RowInfo, RowState, Scene, SceneRank, SceneTrack } from "../protocol/source";
import { formatCount, rangesText } from "../ui/formats";

export interface Row {
  rank: SceneRank;
  /** Null for a folded rank or the head of an opened one. */
  track: SceneTrack | null;
  /** Name in the gutter. */
  name: string;
  /** Shorter names, used if there is less room: of several ranks, of workers' GPUs. */
  briefly: readonly string[];
  /** The ranks that the row represents, its own included. */
  like: readonly number[];
  badge: "fold" | "unfold" | null;
  /** Lanes without events in view, drawn as thin lines. */
  thin: number;
  /** Reason that the rank has its own row while similar ranks are folded; "" for none. */
  why: string;
  open: boolean;
  pinned: boolean;
  /** Offset from the top of the rows, before scrolling. */
  top: number;
  height: number;
  bands(): readonly Band[];
  /** Position of the ribbon of late arrivals, from the top of the row. */
  ribbon(): { top: number; height: number } | null;
}

export interface Layout {
  rows: readonly Row[];
  /** Index of the first row that scrolls; the rows before it stay in place. */
  sticky: number;
  stickyHeight: number;
  height: number;
  fold: Fold;
}

/** Max share of the room for pinned rows; pinned rows beyond it scroll like the others. */
const STICKY_SHARE = 0.6;

function rankKey(rank: SceneRank): string {
  return String(rank.rank);
}

function trackKey(rank: SceneRank, track: SceneTrack): string {
  return `${rank.rank}/${track.key}`;
}

/** The filter as a test; text that is not an expression is searched literally. */
export function rowTest(filter: string): ((text: string) => boolean) | null {
  if (filter === "") return null;
  let expression: Regular;
  try {
    expression = new Regular(filter, { ignoreCase: true });
  } catch {
    const text = filter.toLowerCase();
    return (candidate) => candidate.toLowerCase().includes(text);
  }
  return (candidate) => {
    try {
      return expression.test(candidate);
    } catch {
      return false; // the test takes too long
    }
  };
}

/** Tracks that have anything to show, in the scene's order. */
function tracksOf(rank: SceneRank): SceneTrack[] {
  return rank.tracks.filter((track) => track.events > 0 && track.lanes > 0);
}

/**
 * Whether a rank is folded away: ranks matched by the filter and pinned ranks keep their own row.
 */
function isFoldedAway(rank: SceneRank, state: RowState, named: boolean): boolean {
  const stands = state.alike?.hidden.get(rank.rank);
  if (stands === undefined || named || state.pinned.includes(rankKey(rank))) return false;
  return state.only?.has(stands) !== false;
}

/** Whether a choice of other ranks leaves this one out. */
function isLeftOut(rank: SceneRank, state: RowState): boolean {
  return state.only?.has(rank.rank) === false && !state.pinned.includes(rankKey(rank));
}

/** Tracks shown below the head of each rank that has a row; null: the rank stays folded. */
function shownRanks(scene: Scene, state: RowState): Map<number, SceneTrack[] | null> {
  const test = rowTest(state.filter);
  const shown = new Map<number, SceneTrack[] | null>();
  for (const rank of scene.ranks) {
    if (isLeftOut(rank, state)) continue;
    const tracks = tracksOf(rank);
    const open = state.open.has(rank.rank) && tracks.length > 0;
    const named =
      test !== null &&
      (test(`rank ${rank.rank}`) || test(rank.label) || (rank.host !== null && test(rank.host)));
    if (isFoldedAway(rank, state, named)) continue;
    if (named || test === null) {
      shown.set(rank.rank, open ? tracks : null);
      continue;
    }
    const matching = tracks.filter(({ process, label }) =>
      [process, label, `rank ${rank.rank} ${label}`, `rank ${rank.rank} ${process} ${label}`].some(
        test,
      ),
    );
    if (matching.length > 0) shown.set(rank.rank, matching);
  }
  return shown;
}

/** Name of a track in the gutter. */
function trackName(rank: SceneRank, track: SceneTrack): string {
  if (track.role === "stream") {
    const devices = new Set(
      rank.tracks.filter(({ role }) => role === "stream").map(({ process }) => process),
    );
    const device = devices.size > 1 ? track.process : "GPU";
    return `${device}  ${track.label}${track.communication ? " · NCCL" : ""}`;
  }
  if (track.role === "thread") return `CPU  ${track.label}`;
  if (track.role === "instant" || track.role === "async") {
    const process = track.process.replace(/^process\b/, "").trim();
    return process === "" ? track.label : `${process}  ${track.label}`;
  }
  return track.label;
}

function memo<T>(make: () => T): () => T {
  let value: T | undefined;
  return () => {
    value ??= make();
    return value;
  };
}

/** Names of a row that stands for several ranks, from long to short. */
function groupNames(rank: number, like: readonly number[]): string[] {
  const count = formatCount(like.length);
  const all = rangesText(like);
  const brief = [`${count} ranks like ${rank}`, `${count} like ${rank}`];
  return all.includes("…") ? brief : [`ranks ${all}`, ...brief];
}

function headRow(
  rank: SceneRank,
  open: boolean,
  pinned: boolean,
  fold: Fold,
  alike: RowState["alike"],
  like: readonly number[],
): Row {
  const own = rank.label === "" ? `rank ${rank.rank}` : rank.label;
  const brief = own.startsWith("worker ") ? [own.replace("worker ", "w")] : [];
  const [name = own, ...briefly] = like.length > 1 ? groupNames(rank.rank, like) : [own, ...brief];
  const bands = memo(() => foldedBands(rank, fold));
  const unfolded = alike?.unfolded.has(rank.rank) === true;
  return {
    rank,
    track: null,
    name,
    briefly,
    like,
    badge: unfolded ? "fold" : like.length > 1 ? "unfold" : null,
    thin: 0,
    why: alike?.why.get(rank.rank) ?? "",
    open,
    pinned,
    top: 0,
    height: fold.height,
    bands,
    ribbon: memo(() => ribbonOf(rank, fold, bands())),
  };
}

function trackRow(
  rank: SceneRank,
  track: SceneTrack,
  pinned: boolean,
  bare: ReadonlySet<number>,
): Row {
  const thin = thinOf(track, bare);
  const name = pinned ? `rank ${rank.rank} · ${track.label}` : trackName(rank, track);
  return {
    rank,
    track,
    name,
    briefly: [],
    like: [rank.rank],
    badge: null,
    thin,
    why: "",
    open: true,
    pinned,
    top: 0,
    height: trackHeight(track, thin),
    bands: memo(() => trackBands(track, name, bare)),
    ribbon: () => null,
  };
}

const NONE: ReadonlySet<number> = new Set();

/**
 * The rows of `scene` in `state`; `room` is the height that they may fill without scrolling, `bare`
 * the lanes of tracks without events in view.
 */
export function layoutRows(
  scene: Scene,
  state: RowState,
  room: number,
  ribbons = false,
  bare = NONE,
): Layout {
  const shown = shownRanks(scene, state);
  const pins = new Map(state.pinned.map((key, order) => [key, order]));
  const anyOpen = [...shown.values()].some((tracks) => tracks !== null);
  const withRows = scene.ranks.filter(({ rank }) => shown.has(rank));
  const loose = anyOpen ? 0 : pinnedTracksHeight(withRows, pins);
  const fold = foldOf(scene.ranks, shown.size, room - loose, anyOpen, ribbons);

  const first: { order: number; rows: Row[] }[] = [];
  const rest: Row[] = [];
  const isShown = (rank: number): boolean => shown.has(rank) || state.only?.has(rank) === false;
  for (const rank of scene.ranks) {
    const tracks = shown.get(rank.rank);
    // A track stays pinned if its rank is folded away.
    const isHidden = pins.size > 0 && state.alike?.hidden.has(rank.rank) === true;
    if (tracks === undefined && !isHidden) continue;
    const order = pins.get(rankKey(rank));
    const rows: Row[] = [];
    if (tracks !== undefined) {
      const like = standsFor(state.alike, rank.rank, isShown);
      const isOpen = tracks !== null;
      rows.push(headRow(rank, isOpen, order !== undefined, fold, state.alike, like));
    }
    for (const track of tracksOf(rank)) {
      const trackOrder = pins.get(trackKey(rank, track));
      if (trackOrder !== undefined) {
        first.push({ order: trackOrder, rows: [trackRow(rank, track, true, bare)] });
      } else if (tracks?.includes(track)) {
        rows.push({ ...trackRow(rank, track, false, bare), pinned: order !== undefined });
      }
    }
    if (order !== undefined) first.push({ order, rows });
    else rest.push(...rows);
  }
  first.sort((a, b) => a.order - b.order);
  const rows = [...first.flatMap((entry) => entry.rows), ...rest];
  let height = 0;
  for (const row of rows) {
    row.top = height;
    height += row.height;
  }
  const pinned = rows.length - rest.length;
  const pinnedHeight = rest[0]?.top ?? height;
  const fits = pinnedHeight <= room * STICKY_SHARE;
  return {
    rows,
    sticky: fits ? pinned : 0,
    stickyHeight: fits ? pinnedHeight : 0,
    height,
    fold,
  };
}

function pinnedTracksHeight(
  ranks: readonly SceneRank[],
  pins: ReadonlyMap<string, number>,
): number {
  let height = 0;
  for (const rank of ranks) {
    for (const track of tracksOf(rank)) {
      if (pins.has(trackKey(rank, track))) height += trackHeight(track);
    }
  }
  return height;
}

/** Height of all rows without stretching. */
export function naturalHeight(scene: Scene, state: RowState): number {
  return layoutRows(scene, state, 0).height;
}

export interface PlacedRow {
  row: Row;
  /** Top in the stage, as scrolled. */
  y: number;
  /** The part of the stage that the row may draw in. */
  clipTop: number;
  clipBottom: number;
}

/**
 * The visible rows, from back to front: rows that scroll, then the head of the opened rank whose
 * tracks are at the top, then pinned rows.
 */
export function placeRows(
  layout: Layout,
  scroll: number,
  rowsTop: number,
  rowsHeight: number,
): PlacedRow[] {
  const { rows, sticky, stickyHeight } = layout;
  const bottom = rowsTop + rowsHeight;
  const edge = Math.min(bottom, rowsTop + stickyHeight);
  const placed: PlacedRow[] = [];
  const top = scroll + stickyHeight;
  const from = rows.findIndex((row, i) => i >= sticky && row.top + row.height > top);
  const head = stickyHead(layout, from, top);
  const clipTop = head === null ? edge : Math.min(bottom, edge + head.height + head.shift);
  for (const row of from < 0 ? [] : rows.slice(from)) {
    const y = rowsTop + row.top - scroll;
    if (y >= bottom) break;
    if (row === head?.row) continue;
    placed.push({ row, y, clipTop, clipBottom: bottom });
  }
  if (head !== null) {
    placed.push({ row: head.row, y: edge + head.shift, clipTop: edge, clipBottom: clipTop });
  }
  for (const row of rows.slice(0, sticky)) {
    placed.push({ row, y: rowsTop + row.top, clipTop: rowsTop, clipBottom: edge });
  }
  return placed;
}

/** The head that covers the tracks at `top`, and how far the next rank pushes it up. */
function stickyHead(
  layout: Layout,
  from: number,
  top: number,
): { row: Row; height: number; shift: number } | null {
  const { rows, sticky } = layout;
  const first = rows[from];
  if (first === undefined) return null;
  let at = from;
  while (at > sticky && rows[at]!.track !== null) at -= 1;
  const row = rows[at]!;
  if (row.track !== null || !row.open || row.top >= top) return null;
  let end = from;
  while (end + 1 < rows.length && rows[end + 1]!.track !== null) end += 1;
  const last = rows[end]!;
  const left = last.top + last.height - top;
  return { row, height: row.height, shift: Math.min(0, left - row.height) };
}

export function rowInfo(row: Row, y: number): RowInfo {
  return {
    rank: row.rank.rank,
    track: row.track,
    top: y,
    height: row.height,
    open: row.open,
    pinned: row.pinned,
    ...(row.like.length > 1 && { like: row.like }),
    ...(row.badge !== null && { badge: row.badge }),
    ...(row.thin > 0 && { thin: row.thin }),
  };
}

// Heights of a row's lanes and their positions in it. CSS px.

/**
 * Appearance of a band's marks: `solid` is device time, `pale` is host time (a tint with a dark
 * left edge), `bar` is a thread of a folded rank.
 */
export type Form = "solid" | "pale" | "bar" | "counter";

export interface Band {
  lane: number;
  /** Offset from the top of the row. */
  top: number;
  height: number;
  form: Form;
  /** Name in the gutter, "" for none. */
  label: string;
  track: SceneTrack | null;
  /** Communication between ranks: lanes of waits and of late arrivals that are drawn over it. */
  over?: Over | undefined;
}

interface Over {
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
/** More threads are shown as bars only if every rank still fits. */
const BARS = 2;
/** Sizes of folded ranks while another rank is opened. */
const LINE = { pad: 3, gpu: 9, comm: 13, height: 27 };
const COMPACT = { pad: 2, gpu: 8, comm: 6, height: 18 };
/** From this many ranks on, threads are shown only for opened ranks. */
const MANY_RANKS = 40;
/** With more ranks than this that do not all fit, the ribbon takes priority over threads. */
const RIBBON_FIRST = 16;
const RIBBON = 5;
/** Two lines of text in the gutter. */
const TWO_LINES = 36;

const PITCH = { thread: 17, stream: 21, annotation: 16, async: 17, instant: 12, counter: 30 };
/** Pitch of a lane without events in view, and least height of a track of such lanes: its name. */
const THIN = 3;
const NAMED = 12;
const BELOW = { thread: 4, stream: 4, annotation: 2, async: 4, instant: 3, counter: 4 };

function lanesOf(rank: SceneRank, role: "gpu" | "comm" | "cpu") {
  return rank.summary.filter((lane) => lane.role === role);
}

/** Sizes with which `count` folded ranks fit into `room`; if too small to read, the rows scroll. */
function foldOf(
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

  const full = (cpuBars: number, ribbon = 0, least = TWO_LINES): Fold => {
    const cpu = cpuBars > 0 ? FULL.beforeCpu + cpuBars * (BAR + 1) - 1 : 0;
    const late = ribbon > 0 ? ribbon + FULL.gap : 0;
    const parts = FULL.pad + gpuHeight + commHeight + late + cpu + FULL.below;
    const { pad, gpu, comm } = FULL;
    return { mode: "full", height: Math.max(least, parts), pad, gpu, comm, cpuBars, ribbon };
  };
  if (count > MANY_RANKS && hasGpu) {
    const plain = full(0, 0, TWO_LINES - 2);
    if (each < plain.height) return compactFold(each, hasComm);
    const rich = full(0, RIBBON, TWO_LINES - 2);
    return grown(ribbons && rich.height <= each ? rich : plain, each);
  }
  if (count > MANY_RANKS) {
    return { mode: "compact", ...COMPACT, cpuBars: Math.min(threads, MOST_BARS), ribbon: 0 };
  }
  const all = full(Math.min(threads, MOST_BARS));
  const bars = all.height <= each ? all.cpuBars : Math.min(threads, BARS);
  if (!ribbons) return grown(full(bars), each);
  const rich = full(bars, RIBBON);
  if (rich.height <= each) return grown(rich, each);
  return grown(count > RIBBON_FIRST ? full(0, RIBBON) : full(bars), each);
}

/** Position of the ribbon in a folded row, from its top; null for none. */
function ribbonOf(
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

/** Distribute remaining room to the device lanes, up to their max height. */
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
function foldedBands(rank: SceneRank, fold: Fold): Band[] {
  const bands: Band[] = [];
  const [gpu] = lanesOf(rank, "gpu");
  const [comm] = lanesOf(rank, "comm");
  const threads = lanesOf(rank, "cpu");
  const named = fold.mode === "full";
  const blank = { form: "solid", track: null } as const;
  let top = fold.pad;
  if (gpu === undefined && comm === undefined) return cpuOnlyBands(rank, threads, fold);
  const wide = comm === undefined && fold.mode !== "full" ? fold.comm : 0;
  if (gpu !== undefined) {
    const height = fold.gpu + wide;
    bands.push({ ...blank, lane: gpu.lane, top, height, label: named ? gpu.label : "" });
    top += height + FULL.gap;
  }
  if (comm !== undefined) {
    const band = { ...blank, lane: comm.lane, top, height: fold.comm, over: overOf(comm) };
    bands.push({ ...band, label: named ? comm.label : "" });
    top += fold.comm + FULL.gap;
    if (fold.ribbon > 0) top += fold.ribbon + FULL.gap;
  }
  if (fold.mode !== "full" || fold.cpuBars === 0) return bands;
  top += FULL.beforeCpu - FULL.gap;
  const shown = busiest(rank, threads, fold.cpuBars);
  const label = threads.length > shown.length ? `CPU +${threads.length - shown.length}` : "CPU";
  for (const [index, thread] of shown.entries()) {
    const band = { ...blank, form: "bar", lane: thread.lane, top, height: BAR } as const;
    bands.push({ ...band, label: index === 0 ? label : "" });
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

function trackHeight(track: SceneTrack, thin = 0): number {
  const size = sizeOf(track.role);
  const height = PITCH[size] * Math.max(1, track.lanes) - (PITCH[size] - THIN) * thin;
  return Math.max(height + BELOW[size], NAMED);
}

function thinOf(track: SceneTrack, bare: ReadonlySet<number>): number {
  let thin = 0;
  const end = track.lane0 + track.lanes;
  for (let lane = track.lane0; lane < end; lane += 1) if (bare.has(lane)) thin += 1;
  return thin;
}

/** Bands of an opened rank's track: one per depth, then one per spill lane. */
function trackBands(track: SceneTrack, name: string, bare: ReadonlySet<number>): Band[] {
  const size = sizeOf(track.role);
  const pitch = PITCH[size];
  const form: Form =
    size === "counter" ? "counter" : size === "thread" || size === "annotation" ? "pale" : "solid";
  const spillsFrom = size === "counter" ? track.lanes : Math.max(1, track.nested);
  let below = 1;
  return Array.from({ length: track.lanes }, (_, depth) => {
    const lane = track.lane0 + depth;
    const isThin = bare.has(lane);
    const top = below;
    below += isThin ? THIN : pitch;
    const full = size === "stream" && track.lanes === 1 ? pitch : pitch - 1;
    return {
      lane,
      top,
      height: isThin ? THIN - 1 : full,
      // The ground of this form makes a thin line visible.
      form: isThin ? "solid" : form,
      label: depth === 0 ? name : depth >= spillsFrom ? `+${depth - spillsFrom + 1}` : "",
      track,
      over: depth === 0 ? overOf(track) : undefined,
    };
  });
}

// Similar ranks folded into one row: the groups, and the position of their badge.

/** Width of the badge in the gutter, CSS px. */
export const BADGE_WIDTH = 14;
/** Tolerance left and right of the badge, CSS px. */
const REACH = 5;

/** Left edge of the badge: next to an opened rank, arrows come first. */
export function badgeLeft({ mode }: Fold): number {
  return mode === "line" ? 24 : 11;
}

/** Where a press hits the badge. */
export function badgeSpot(fold: Fold): { left: number; right: number } {
  const left = badgeLeft(fold);
  return {
    left: fold.mode === "line" ? left - 2 : 0,
    right: left + BADGE_WIDTH + REACH,
  };
}

/** Ranks shown in the row of `rank`: its own first, then those that it represents. */
function standsFor(
  alike: Alike | null | undefined,
  rank: number,
  isShown: (rank: number) => boolean,
): readonly number[] {
  const group = alike?.groups.get(rank);
  return group === undefined ? [rank] : group.filter((one) => one === rank || !isShown(one));
}
