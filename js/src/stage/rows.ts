/** Rows and their heights: folded ranks, heads, tracks. */

import { LinearRegExp } from "../expressions/regular";
import type {
  RankGroups,
  RowInfo,
  RowState,
  Scene,
  SceneRank,
  SceneTrack,
} from "../protocol/source";
import { formatCount, rangesText } from "../ui/formats";

export interface StageRow {
  rank: SceneRank;
  /** Null for a folded rank or the head of an opened one. */
  track: SceneTrack | null;
  /** Name in the gutter. */
  name: string;
  /** Shorter names, used if there is less room: of several ranks, of workers' GPUs. */
  shortNames: readonly string[];
  /** Set in paired rows: the name to draw, and whether it belongs to the row above. */
  pairName?: string | null;
  isJoined?: boolean;
  /** The ranks that the row represents, its own included. */
  memberRanks: readonly number[];
  badge: "fold" | "unfold" | null;
  /** Lanes without events in view, drawn as thin lines. */
  thinLanes: number;
  /** Reason that the rank has its own row while similar ranks are folded; "" for none. */
  reason: string;
  open: boolean;
  pinned: boolean;
  /** Offset from the top of the rows, before scrolling. */
  top: number;
  height: number;
  bands(): readonly Band[];
  /** Position of the ribbon of late arrivals, from the top of the row. */
  ribbon(): { top: number; height: number } | null;
}

export interface RowLayout {
  rows: readonly StageRow[];
  /** Index of the first row that scrolls; the rows before it stay in place. */
  stickyCount: number;
  stickyHeight: number;
  height: number;
  foldSizes: FoldSizes;
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
export function compileRowFilter(filter: string): ((text: string) => boolean) | null {
  if (filter === "") return null;
  let expression: LinearRegExp;
  try {
    expression = new LinearRegExp(filter, { ignoreCase: true });
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
  const stands = state.rankGroups?.hidden.get(rank.rank);
  if (stands === undefined || named || state.pinned.includes(rankKey(rank))) return false;
  return state.onlyRanks?.has(stands) !== false;
}

/** Whether a choice of other ranks leaves this one out. */
function isLeftOut(rank: SceneRank, state: RowState): boolean {
  return state.onlyRanks?.has(rank.rank) === false && !state.pinned.includes(rankKey(rank));
}

/** Tracks shown below the head of each rank that has a row; null: the rank stays folded. */
function shownRanks(scene: Scene, state: RowState): Map<number, SceneTrack[] | null> {
  const test = compileRowFilter(state.filter);
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
    return `${device}  ${track.label}${track.communication ? " · comm" : ""}`;
  }
  if (track.role === "thread") return `CPU  ${track.label}`;
  if (track.role === "instant" || track.role === "async") {
    const process = track.process.replace(/^process\b/, "").trim();
    return process === "" ? track.label : `${process}  ${track.label}`;
  }
  return track.label;
}

function memoizeByKey<T>(make: () => T): () => T {
  let value: T | undefined;
  return () => {
    value ??= make();
    return value;
  };
}

/** Names of a row that stands for several ranks, from long to short. */
function groupNames(rank: number, memberRanks: readonly number[]): string[] {
  const count = formatCount(memberRanks.length);
  const all = rangesText(memberRanks);
  const shortNames = [`${count} ranks like ${rank}`, `${count} like ${rank}`];
  return all.includes("…") ? shortNames : [`ranks ${all}`, ...shortNames];
}

function headRow(
  rank: SceneRank,
  open: boolean,
  pinned: boolean,
  fold: FoldSizes,
  rankGroups: RowState["rankGroups"],
  memberRanks: readonly number[],
): StageRow {
  const rankName = rank.label === "" ? `rank ${rank.rank}` : rank.label;
  const brief = rankName.startsWith("worker ") ? [rankName.replace("worker ", "w")] : [];
  const [name = rankName, ...shortNames] =
    memberRanks.length > 1 ? groupNames(rank.rank, memberRanks) : [rankName, ...brief];
  const bands = memoizeByKey(() => foldedBands(rank, fold));
  const unfolded = rankGroups?.unfolded.has(rank.rank) === true;
  return {
    rank,
    track: null,
    name,
    shortNames,
    memberRanks,
    badge: unfolded ? "fold" : memberRanks.length > 1 ? "unfold" : null,
    thinLanes: 0,
    reason: rankGroups?.reasons.get(rank.rank) ?? "",
    open,
    pinned,
    top: 0,
    height: fold.height,
    bands,
    ribbon: memoizeByKey(() => ribbonExtent(rank, fold, bands())),
  };
}

function trackRow(
  rank: SceneRank,
  track: SceneTrack,
  pinned: boolean,
  emptyLanes: ReadonlySet<number>,
): StageRow {
  const thinLanes = countThin(track, emptyLanes);
  const name = pinned ? `rank ${rank.rank} · ${track.label}` : trackName(rank, track);
  return {
    rank,
    track,
    name,
    shortNames: [],
    memberRanks: [rank.rank],
    badge: null,
    thinLanes,
    reason: "",
    open: true,
    pinned,
    top: 0,
    height: trackHeight(track, thinLanes),
    bands: memoizeByKey(() => trackBands(track, name, emptyLanes)),
    ribbon: () => null,
  };
}

const NO_LANES: ReadonlySet<number> = new Set();

/**
 * The rows of `scene` in `state`; `availableHeight` is the height that they may fill without
 * scrolling, `emptyLanes` the lanes of tracks without events in view.
 */
export function layoutRows(
  scene: Scene,
  state: RowState,
  availableHeight: number,
  ribbons = false,
  emptyLanes = NO_LANES,
): RowLayout {
  const visibleRanks = shownRanks(scene, state);
  const pins = new Map(state.pinned.map((key, order) => [key, order]));
  const anyOpen = [...visibleRanks.values()].some((tracks) => tracks !== null);
  const withRows = scene.ranks.filter(({ rank }) => visibleRanks.has(rank));
  const scrolledRows = anyOpen ? 0 : pinnedTracksHeight(withRows, pins);
  const foldSizes = computeFoldSizes(
    scene.ranks,
    visibleRanks.size,
    availableHeight - scrolledRows,
    anyOpen,
    ribbons,
  );

  const first: { order: number; rows: StageRow[] }[] = [];
  const unpinned: StageRow[] = [];
  const isShown = (rank: number): boolean =>
    visibleRanks.has(rank) || state.onlyRanks?.has(rank) === false;
  for (const rank of scene.ranks) {
    const tracks = visibleRanks.get(rank.rank);
    // A track stays pinned if its rank is folded away.
    const isHidden = pins.size > 0 && state.rankGroups?.hidden.has(rank.rank) === true;
    if (tracks === undefined && !isHidden) continue;
    const order = pins.get(rankKey(rank));
    const rows: StageRow[] = [];
    if (tracks !== undefined) {
      const memberRanks = membersOf(state.rankGroups, rank.rank, isShown);
      const isOpen = tracks !== null;
      rows.push(
        headRow(rank, isOpen, order !== undefined, foldSizes, state.rankGroups, memberRanks),
      );
    }
    for (const track of tracksOf(rank)) {
      const trackOrder = pins.get(trackKey(rank, track));
      if (trackOrder !== undefined) {
        first.push({ order: trackOrder, rows: [trackRow(rank, track, true, emptyLanes)] });
      } else if (tracks?.includes(track)) {
        rows.push({ ...trackRow(rank, track, false, emptyLanes), pinned: order !== undefined });
      }
    }
    if (order !== undefined) first.push({ order, rows });
    else unpinned.push(...rows);
  }
  first.sort((a, b) => a.order - b.order);
  const rows = [...first.flatMap((entry) => entry.rows), ...unpinned];
  let height = 0;
  for (const row of rows) {
    row.top = height;
    height += row.height;
  }
  const pinned = rows.length - unpinned.length;
  const pinnedHeight = unpinned[0]?.top ?? height;
  const fits = pinnedHeight <= availableHeight * STICKY_SHARE;
  return {
    rows,
    stickyCount: fits ? pinned : 0,
    stickyHeight: fits ? pinnedHeight : 0,
    height,
    foldSizes,
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
  row: StageRow;
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
  layout: RowLayout,
  scroll: number,
  rowsTop: number,
  rowsHeight: number,
): PlacedRow[] {
  const { rows, stickyCount, stickyHeight } = layout;
  const bottom = rowsTop + rowsHeight;
  const edge = Math.min(bottom, rowsTop + stickyHeight);
  const placed: PlacedRow[] = [];
  const top = scroll + stickyHeight;
  const from = rows.findIndex((row, i) => i >= stickyCount && row.top + row.height > top);
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
  for (const row of rows.slice(0, stickyCount)) {
    placed.push({ row, y: rowsTop + row.top, clipTop: rowsTop, clipBottom: edge });
  }
  return placed;
}

/** The head that covers the tracks at `top`, and how far the next rank pushes it up. */
function stickyHead(
  layout: RowLayout,
  from: number,
  top: number,
): { row: StageRow; height: number; shift: number } | null {
  const { rows, stickyCount } = layout;
  const first = rows[from];
  if (first === undefined) return null;
  let index = from;
  while (index > stickyCount && rows[index]!.track !== null) index -= 1;
  const row = rows[index]!;
  if (row.track !== null || !row.open || row.top >= top) return null;
  // It would cover rows of the other stage.
  if (row.pairName !== undefined) return null;
  let end = from;
  while (end + 1 < rows.length && rows[end + 1]!.track !== null) end += 1;
  const last = rows[end]!;
  const left = last.top + last.height - top;
  return { row, height: row.height, shift: Math.min(0, left - row.height) };
}

export function makeRowInfo(row: StageRow, y: number): RowInfo {
  return {
    rank: row.rank.rank,
    track: row.track,
    top: y,
    height: row.height,
    open: row.open,
    pinned: row.pinned,
    ...(row.memberRanks.length > 1 && { memberRanks: row.memberRanks }),
    ...(row.badge !== null && { badge: row.badge }),
    ...(row.thinLanes > 0 && { thinLanes: row.thinLanes }),
  };
}

// Heights of a row's lanes and their positions in it. CSS px.

/**
 * Appearance of a band's marks: `solid` is device time, `pale` is host time (a tint with a dark
 * left edge), `bar` is a thread of a folded rank.
 */
export type BandForm = "solid" | "pale" | "bar" | "counter";

export interface Band {
  lane: number;
  /** Offset from the top of the row. */
  top: number;
  height: number;
  form: BandForm;
  /** Name in the gutter, "" for none. */
  label: string;
  track: SceneTrack | null;
  /** Communication between ranks: lanes of waits and of late arrivals that are drawn over it. */
  over?: OverlayLanes | undefined;
}

interface OverlayLanes {
  wait: number;
  late: number;
}

function overlayLanes({ wait, late }: { wait?: number; late?: number }): OverlayLanes | undefined {
  return wait === undefined || late === undefined ? undefined : { wait, late };
}

/** Sizes of a folded rank, the same for all ranks of a layout. */
export interface FoldSizes {
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

const FULL_SIZES = { pad: 3, gpu: 16, comm: 12, gap: 1, beforeCpu: 3, below: 2 };
const MAX_GROWN_SIZES = { gpu: 24, comm: 15 };
const CPU_BAR_HEIGHT = 3;
const MAX_CPU_BARS = 3;
/** More threads are shown as bars only if every rank still fits. */
const MIN_CPU_BARS = 2;
/** Sizes of folded ranks while another rank is opened. */
const LINE_SIZES = { pad: 3, gpu: 9, comm: 13, height: 27 };
const COMPACT_SIZES = { pad: 2, gpu: 8, comm: 6, height: 18 };
/** From this many ranks on, threads are shown only for opened ranks. */
const MANY_RANKS_FROM = 40;
/** With more ranks than this that do not all fit, the ribbon takes priority over threads. */
const RIBBON_FIRST = 16;
const RIBBON_HEIGHT = 5;
/** Two lines of text in the gutter. */
const TWO_LINES_HEIGHT = 36;

const LANE_PITCHES = {
  thread: 17,
  stream: 21,
  annotation: 16,
  async: 17,
  instant: 12,
  counter: 30,
};
/** Pitch of a lane without events in view, and least height of a track of such lanes: its name. */
const THIN_LANE_HEIGHT = 3;
const NAMED_LANE_HEIGHT = 12;
const GAPS_BELOW = { thread: 4, stream: 4, annotation: 2, async: 4, instant: 3, counter: 4 };

function lanesOf(rank: SceneRank, role: "gpu" | "comm" | "cpu") {
  return rank.summary.filter((lane) => lane.role === role);
}

/**
 * Sizes with which `count` folded ranks fit into `availableHeight`; if too small to read, the rows
 * scroll.
 */
function computeFoldSizes(
  ranks: readonly SceneRank[],
  count: number,
  availableHeight: number,
  anyOpen: boolean,
  ribbons = false,
): FoldSizes {
  if (anyOpen) return { mode: "line", ...LINE_SIZES, cpuBars: MAX_CPU_BARS, ribbon: 0 };
  const hasComm = ranks.some((rank) => lanesOf(rank, "comm").length > 0);
  const hasGpu = hasComm || ranks.some((rank) => lanesOf(rank, "gpu").length > 0);
  const threads = Math.max(0, ...ranks.map((rank) => lanesOf(rank, "cpu").length));
  const rankHeight = count > 0 ? Math.floor(availableHeight / count) : availableHeight;
  const gpuHeight = hasGpu ? FULL_SIZES.gpu : 0;
  const commHeight = hasComm ? FULL_SIZES.comm + FULL_SIZES.gap : 0;

  const full = (cpuBars: number, ribbon = 0, min = TWO_LINES_HEIGHT): FoldSizes => {
    const cpu = cpuBars > 0 ? FULL_SIZES.beforeCpu + cpuBars * (CPU_BAR_HEIGHT + 1) - 1 : 0;
    const late = ribbon > 0 ? ribbon + FULL_SIZES.gap : 0;
    const parts = FULL_SIZES.pad + gpuHeight + commHeight + late + cpu + FULL_SIZES.below;
    const { pad, gpu, comm } = FULL_SIZES;
    return { mode: "full", height: Math.max(min, parts), pad, gpu, comm, cpuBars, ribbon };
  };
  if (count > MANY_RANKS_FROM && hasGpu) {
    const plain = full(0, 0, TWO_LINES_HEIGHT - 2);
    if (rankHeight < plain.height) return compactFold(rankHeight, hasComm);
    const rich = full(0, RIBBON_HEIGHT, TWO_LINES_HEIGHT - 2);
    return growFold(ribbons && rich.height <= rankHeight ? rich : plain, rankHeight);
  }
  if (count > MANY_RANKS_FROM) {
    return {
      mode: "compact",
      ...COMPACT_SIZES,
      cpuBars: Math.min(threads, MAX_CPU_BARS),
      ribbon: 0,
    };
  }
  const all = full(Math.min(threads, MAX_CPU_BARS));
  const bars = all.height <= rankHeight ? all.cpuBars : Math.min(threads, MIN_CPU_BARS);
  if (!ribbons) return growFold(full(bars), rankHeight);
  const rich = full(bars, RIBBON_HEIGHT);
  if (rich.height <= rankHeight) return growFold(rich, rankHeight);
  return growFold(count > RIBBON_FIRST ? full(0, RIBBON_HEIGHT) : full(bars), rankHeight);
}

/** Position of the ribbon in a folded row, from its top; null for none. */
function ribbonExtent(
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

/** Distribute remaining room to the device lanes, up to their max height. */
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

/** Bands of a folded rank, or of the head of an opened one. */
function foldedBands(rank: SceneRank, fold: FoldSizes): Band[] {
  const bands: Band[] = [];
  const [gpu] = lanesOf(rank, "gpu");
  const [comm] = lanesOf(rank, "comm");
  const threads = lanesOf(rank, "cpu");
  const isFull = fold.mode === "full";
  const emptyBand = { form: "solid", track: null } as const;
  let top = fold.pad;
  if (gpu === undefined && comm === undefined) return cpuOnlyBands(rank, threads, fold);
  const lineHeight = comm === undefined && fold.mode !== "full" ? fold.comm : 0;
  if (gpu !== undefined) {
    const height = fold.gpu + lineHeight;
    bands.push({ ...emptyBand, lane: gpu.lane, top, height, label: isFull ? gpu.label : "" });
    top += height + FULL_SIZES.gap;
  }
  if (comm !== undefined) {
    const band = {
      ...emptyBand,
      lane: comm.lane,
      top,
      height: fold.comm,
      over: overlayLanes(comm),
    };
    bands.push({ ...band, label: isFull ? comm.label : "" });
    top += fold.comm + FULL_SIZES.gap;
    if (fold.ribbon > 0) top += fold.ribbon + FULL_SIZES.gap;
  }
  if (fold.mode !== "full" || fold.cpuBars === 0) return bands;
  top += FULL_SIZES.beforeCpu - FULL_SIZES.gap;
  const shown = busiestThreads(rank, threads, fold.cpuBars);
  const label = threads.length > shown.length ? `CPU +${threads.length - shown.length}` : "CPU";
  for (const [index, thread] of shown.entries()) {
    const band = {
      ...emptyBand,
      form: "bar",
      lane: thread.lane,
      top,
      height: CPU_BAR_HEIGHT,
    } as const;
    bands.push({ ...band, label: index === 0 ? label : "" });
    top += CPU_BAR_HEIGHT + 1;
  }
  return bands;
}

/** The threads with most events, in the scene's order. */
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
  const height = Math.max(2, Math.min(12, Math.floor(availableHeight / shown.length)));
  return shown.map((thread, index) => ({
    lane: thread.lane,
    top: fold.pad + index * (height + 1),
    height,
    form: "bar",
    label: index === 0 && fold.mode === "full" ? "CPU" : "",
    track: null,
  }));
}

type PitchKey = keyof typeof LANE_PITCHES;

function pitchKeyOf(role: SceneTrack["role"]): PitchKey {
  return role === "other" ? "thread" : role;
}

function trackHeight(track: SceneTrack, thinCount = 0): number {
  const size = pitchKeyOf(track.role);
  const height =
    LANE_PITCHES[size] * Math.max(1, track.lanes) -
    (LANE_PITCHES[size] - THIN_LANE_HEIGHT) * thinCount;
  return Math.max(height + GAPS_BELOW[size], NAMED_LANE_HEIGHT);
}

function countThin(track: SceneTrack, emptyLanes: ReadonlySet<number>): number {
  let thin = 0;
  const end = track.lane0 + track.lanes;
  for (let lane = track.lane0; lane < end; lane += 1) if (emptyLanes.has(lane)) thin += 1;
  return thin;
}

/** Bands of an opened rank's track: one per depth, then one per spill lane. */
function trackBands(track: SceneTrack, name: string, emptyLanes: ReadonlySet<number>): Band[] {
  const size = pitchKeyOf(track.role);
  const pitch = LANE_PITCHES[size];
  const form: BandForm =
    size === "counter" ? "counter" : size === "thread" || size === "annotation" ? "pale" : "solid";
  const spillsFrom = size === "counter" ? track.lanes : Math.max(1, track.nested);
  let below = 1;
  return Array.from({ length: track.lanes }, (_, depth) => {
    const lane = track.lane0 + depth;
    const isThin = emptyLanes.has(lane);
    const top = below;
    below += isThin ? THIN_LANE_HEIGHT : pitch;
    const full = size === "stream" && track.lanes === 1 ? pitch : pitch - 1;
    return {
      lane,
      top,
      height: isThin ? THIN_LANE_HEIGHT - 1 : full,
      // The ground of this form makes a thin line visible.
      form: isThin ? "solid" : form,
      label: depth === 0 ? name : depth >= spillsFrom ? `+${depth - spillsFrom + 1}` : "",
      track,
      over: depth === 0 ? overlayLanes(track) : undefined,
    };
  });
}

// Similar ranks folded into one row: the groups, and the position of their badge.

/** Width of the badge in the gutter, CSS px. */
export const BADGE_WIDTH = 14;
/** Tolerance left and right of the badge, CSS px. */
const BADGE_HIT_MARGIN = 5;

/** Left edge of the badge: next to an opened rank, arrows come first. */
export function badgeLeft({ mode }: FoldSizes): number {
  return mode === "line" ? 24 : 11;
}

/** Where a press hits the badge. */
export function badgeHitArea(fold: FoldSizes): { left: number; right: number } {
  const left = badgeLeft(fold);
  return {
    left: fold.mode === "line" ? left - 2 : 0,
    right: left + BADGE_WIDTH + BADGE_HIT_MARGIN,
  };
}

/** Ranks shown in the row of `rank`: its own first, then those that it represents. */
function membersOf(
  groups: RankGroups | null | undefined,
  rank: number,
  isShown: (rank: number) => boolean,
): readonly number[] {
  const group = groups?.groups.get(rank);
  return group === undefined
    ? [rank]
    : group.filter((member) => member === rank || !isShown(member));
}
