/** Which rows there are and how high: folded ranks, heads of opened ranks, tracks. */

import type { RowInfo, RowState, Scene, SceneRank, SceneTrack } from "../contract";
import { formatCount, rangesText } from "../draw/format";
import { standsFor } from "./alike";
import {
  type Band,
  type Fold,
  foldedBands,
  foldOf,
  ribbonOf,
  trackBands,
  trackHeight,
} from "./bands";

export interface Row {
  rank: SceneRank;
  /** Null for a folded rank or the head of an opened one. */
  track: SceneTrack | null;
  /** Name in the gutter. */
  name: string;
  /** What the gutter may say instead where there is less room; only of rows that stand for others. */
  briefly: readonly string[];
  /** The ranks that the row stands for, its own included. */
  like: readonly number[];
  badge: "fold" | "unfold" | null;
  /** Why the rank has a row of its own where like ranks are folded, "" for no reason. */
  why: string;
  open: boolean;
  pinned: boolean;
  /** From the top of the rows, before scrolling. */
  top: number;
  height: number;
  bands(): readonly Band[];
  /** Where it says how late the rank comes to collectives, from its top. */
  ribbon(): { top: number; height: number } | null;
}

export interface Layout {
  rows: readonly Row[];
  /** Rows before this one stay in sight while the others scroll. */
  sticky: number;
  stickyHeight: number;
  height: number;
  fold: Fold;
}

/** Pinned rows that would take more than this share of the room scroll like the others. */
const STICKY_SHARE = 0.6;
const FEW_RANKS = 2;

export function rankKey(rank: SceneRank): string {
  return String(rank.rank);
}

export function trackKey(rank: SceneRank, track: SceneTrack): string {
  return `${rank.rank}/${track.key}`;
}

/** The filter as a test; text that is no expression is searched as it stands. */
export function rowTest(filter: string): ((text: string) => boolean) | null {
  if (filter === "") return null;
  let expression: RegExp;
  try {
    expression = new RegExp(filter, "i");
  } catch {
    const text = filter.toLowerCase();
    return (candidate) => candidate.toLowerCase().includes(text);
  }
  return (candidate) => expression.test(candidate);
}

/** Tracks that have anything to show, in the scene's order. */
function tracksOf(rank: SceneRank): SceneTrack[] {
  return rank.tracks.filter((track) => track.events > 0 && track.lanes > 0);
}

interface Shown {
  rank: SceneRank;
  /** Null: the rank stays folded. */
  tracks: SceneTrack[] | null;
}

/** A rank without a row of its own is shown where it is asked for: by the filter, or by a pin. */
function isFoldedAway(rank: SceneRank, state: RowState, named: boolean): boolean {
  const stands = state.alike?.hidden.get(rank.rank);
  if (stands === undefined || named || state.pinned.includes(rankKey(rank))) return false;
  return state.only?.has(stands) !== false;
}

/** Others were chosen elsewhere. */
function isLeftOut(rank: SceneRank, state: RowState): boolean {
  return state.only?.has(rank.rank) === false && !state.pinned.includes(rankKey(rank));
}

function shownRanks(scene: Scene, state: RowState): Shown[] {
  const test = rowTest(state.filter);
  const shown: Shown[] = [];
  for (const rank of scene.ranks) {
    if (isLeftOut(rank, state)) continue;
    const tracks = tracksOf(rank);
    const open = state.open.has(rank.rank) && tracks.length > 0;
    const named =
      test !== null &&
      (test(`rank ${rank.rank}`) || test(rank.label) || (rank.host !== null && test(rank.host)));
    if (isFoldedAway(rank, state, named)) continue;
    if (named || test === null) {
      shown.push({ rank, tracks: open ? tracks : null });
      continue;
    }
    const matching = tracks.filter((track) => test(track.process) || test(track.label));
    if (matching.length > 0) shown.push({ rank, tracks: matching });
  }
  return shown;
}

/** What the gutter calls a track. */
export function trackName(rank: SceneRank, track: SceneTrack): string {
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

/** What a row that stands for several ranks is called, from long to short. */
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
  const [name = own, ...briefly] = like.length > 1 ? groupNames(rank.rank, like) : [];
  const bands = memo(() => foldedBands(rank, fold));
  const unfolded = alike?.unfolded.has(rank.rank) === true;
  return {
    rank,
    track: null,
    name,
    briefly,
    like,
    badge: unfolded ? "fold" : like.length > 1 ? "unfold" : null,
    why: alike?.why.get(rank.rank) ?? "",
    open,
    pinned,
    top: 0,
    height: fold.height,
    bands,
    ribbon: memo(() => ribbonOf(rank, fold, bands())),
  };
}

function trackRow(rank: SceneRank, track: SceneTrack, pinned: boolean): Row {
  const name = pinned ? `rank ${rank.rank} · ${track.label}` : trackName(rank, track);
  return {
    rank,
    track,
    name,
    briefly: [],
    like: [rank.rank],
    badge: null,
    why: "",
    open: true,
    pinned,
    top: 0,
    height: trackHeight(track),
    bands: memo(() => trackBands(track, name)),
    ribbon: () => null,
  };
}

/** The rows of `scene` in `state`; `room` is the height that they may fill without scrolling. */
export function layoutRows(scene: Scene, state: RowState, room: number, ribbons = false): Layout {
  const shown = shownRanks(scene, state);
  const pins = new Map(state.pinned.map((key, order) => [key, order]));
  const anyOpen = shown.some(({ tracks }) => tracks !== null);
  const loose = anyOpen ? 0 : pinnedTracksHeight(shown, pins);
  const fold = foldOf(scene.ranks, shown.length, room - loose, anyOpen, ribbons);

  const first: { order: number; rows: Row[] }[] = [];
  const rest: Row[] = [];
  const ranks = new Set(shown.map(({ rank }) => rank.rank));
  const isShown = (rank: number): boolean => ranks.has(rank) || state.only?.has(rank) === false;
  for (const { rank, tracks } of shown) {
    const order = pins.get(rankKey(rank));
    const like = standsFor(state.alike, rank.rank, isShown);
    const open = tracks !== null;
    const rows = [headRow(rank, open, order !== undefined, fold, state.alike, like)];
    for (const track of tracksOf(rank)) {
      const trackOrder = pins.get(trackKey(rank, track));
      if (trackOrder !== undefined) {
        first.push({ order: trackOrder, rows: [trackRow(rank, track, true)] });
      } else if (tracks?.includes(track)) {
        rows.push({ ...trackRow(rank, track, false), pinned: order !== undefined });
      }
    }
    if (order !== undefined) first.push({ order, rows });
    else rest.push(...rows);
  }
  // A track stays pinned where its rank is folded away.
  for (const rank of state.alike === undefined || state.pinned.length === 0 ? [] : scene.ranks) {
    if (ranks.has(rank.rank) || state.alike?.hidden.has(rank.rank) !== true) continue;
    for (const track of tracksOf(rank)) {
      const order = pins.get(trackKey(rank, track));
      if (order !== undefined) first.push({ order, rows: [trackRow(rank, track, true)] });
    }
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

function pinnedTracksHeight(shown: readonly Shown[], pins: ReadonlyMap<string, number>): number {
  let height = 0;
  for (const { rank } of shown) {
    for (const track of tracksOf(rank)) {
      if (pins.has(trackKey(rank, track))) height += trackHeight(track);
    }
  }
  return height;
}

/** Height that the rows would like to have: all of them, none stretched. */
export function naturalHeight(scene: Scene, state: RowState): number {
  return layoutRows(scene, state, 0).height;
}

/**
 * The ranks to open at first: one rank alone looks lost when it is folded, two where both fit into
 * `room`. More stay folded, so that they can be compared.
 */
export function defaultOpen(scene: Scene, room: number): ReadonlySet<number> {
  const ranks = scene.ranks.map(({ rank }) => rank);
  if (ranks.length === 0 || ranks.length > FEW_RANKS) return new Set();
  const open = new Set(ranks);
  if (ranks.length === 1) return open;
  const height = naturalHeight(scene, { open, pinned: [], filter: "" });
  return height <= room ? open : new Set();
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
 * The rows in sight, from back to front: rows that scroll, then the head of the opened rank whose
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
  const from = Math.max(sticky, rowAt(layout, scroll + stickyHeight));
  const head = stickyHead(layout, from, scroll + stickyHeight);
  const clipTop = head === null ? edge : Math.min(bottom, edge + head.height + head.shift);
  for (let i = from; i < rows.length; i += 1) {
    const row = rows[i]!;
    const y = rowsTop + row.top - scroll;
    if (y >= bottom) break;
    if (row === head?.row) continue;
    placed.push({ row, y, clipTop, clipBottom: bottom });
  }
  if (head !== null) {
    placed.push({ row: head.row, y: edge + head.shift, clipTop: edge, clipBottom: clipTop });
  }
  for (let i = 0; i < sticky; i += 1) {
    const row = rows[i]!;
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

/** The first row that ends below `y`; rows before scrolling. */
function rowAt(layout: Layout, y: number): number {
  const { rows } = layout;
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const row = rows[middle]!;
    if (row.top + row.height > y) high = middle;
    else low = middle + 1;
  }
  return low;
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
  };
}
