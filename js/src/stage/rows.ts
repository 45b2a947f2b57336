/** Lay out rows: folded ranks, and the heads and tracks of open ranks. */

import { rankRuns } from "../facts/rank_text";
import { sum } from "../expressions/numbers";
import { LinearRegExp } from "../expressions/regular";
import type {
  RankGroups,
  RowInfo,
  RowState,
  Scene,
  SceneRank,
  SceneTrack,
} from "../protocol/source";
import { deviceOf } from "../protocol/scene";
import { formatCount } from "../ui/formats";
import {
  type Band,
  computeFoldSizes,
  countThin,
  foldedBands,
  type FoldSizes,
  ribbonExtent,
  type StackSpan,
  trackBands,
  trackHeight,
} from "./bands";

export interface StageRow {
  rank: SceneRank;
  /** Null for a folded rank or the head of an open rank. */
  track: SceneTrack | null;
  /** Name in the gutter. */
  name: string;
  /** Shorter names for a narrow gutter, from long to short. */
  shortNames: readonly string[];
  /** In paired rows: the name to draw (null: `name`), and whether the row above is its partner. */
  pairName?: string | null;
  isJoined?: boolean;
  /** The ranks that the row represents, including `rank`. */
  memberRanks: readonly number[];
  badge: "fold" | "unfold" | null;
  /** Number of lanes without events in view, drawn as thin lines. */
  thinLanes: number;
  /** Whether each Python stack has a single row; null if there are no stacks. */
  stacks: "folded" | "open" | null;
  /** Why the rank has its own row while similar ranks are folded; "" if that is not the case. */
  reason: string;
  open: boolean;
  pinned: boolean;
  /** Distance from the top of the rows, ignoring scrolling. */
  top: number;
  height: number;
  bands(): readonly Band[];
  /** Return the position of the ribbon of late arrivals, from the top of the row. */
  ribbon(): { top: number; height: number } | null;
}

export interface RowLayout {
  rows: readonly StageRow[];
  /** Number of rows at the top that do not scroll. */
  stickyCount: number;
  stickyHeight: number;
  height: number;
  /** Whether all rows fit without scrolling. */
  fits: boolean;
  foldSizes: FoldSizes;
}

/** Maximum share of the height for pinned rows. If they need more, they scroll like other rows. */
const STICKY_SHARE = 0.6;

function rankKey(rank: SceneRank): string {
  return String(rank.rank);
}

function trackKey(rank: SceneRank, track: SceneTrack): string {
  return `${rank.rank}/${track.key}`;
}

/** Return a filter's test. A filter that is not a regular expression is matched literally. */
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
      // The test takes too long.
      return false;
    }
  };
}

function tracksOf(rank: SceneRank): SceneTrack[] {
  return rank.tracks.filter((track) => track.events > 0 && track.lanes > 0);
}

/** Return whether this rank, neither found nor pinned, is represented by a similar rank's row. */
function isFoldedAway(rank: SceneRank, state: RowState, isFound: boolean): boolean {
  const representative = state.rankGroups?.hidden.get(rank.rank);
  if (representative === undefined || isFound || state.pinned.includes(rankKey(rank))) return false;
  return state.onlyRanks?.has(representative) !== false;
}

/** Return the tracks below the head of each rank with a row; null if the rank is folded. */
function shownRanks(scene: Scene, state: RowState): Map<number, SceneTrack[] | null> {
  const test = compileRowFilter(state.filter);
  const shown = new Map<number, SceneTrack[] | null>();
  for (const rank of scene.ranks) {
    const isExcluded = state.onlyRanks?.has(rank.rank) === false;
    if (isExcluded && !state.pinned.includes(rankKey(rank))) continue;
    const tracks = tracksOf(rank);
    const open = state.open.has(rank.rank) && tracks.length > 0;
    const isFound =
      test !== null &&
      (test(`rank ${rank.rank}`) || test(rank.label) || (rank.host !== null && test(rank.host)));
    if (isFoldedAway(rank, state, isFound)) continue;
    if (isFound || test === null) {
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

/** Return a track's name: its device, `CPU` or its process, followed by its label. */
function trackName(rank: SceneRank, track: SceneTrack): string {
  if (track.role === "stream") {
    const devices = new Set(
      rank.tracks.filter(({ role }) => role === "stream").map(({ process }) => process),
    );
    const device = devices.size > 1 ? track.process : deviceOf({ ranks: [rank] });
    return `${device}  ${track.label}${track.communication ? " · communication" : ""}`;
  }
  if (track.role === "thread") return `CPU  ${track.label}`;
  if (track.role === "instant" || track.role === "async") {
    const process = track.process.replace(/^process\b/, "").trim();
    return process === "" ? track.label : `${process}  ${track.label}`;
  }
  return track.label;
}

function memoize<T>(make: () => T): () => T {
  let value: T | undefined;
  return () => {
    value ??= make();
    return value;
  };
}

/** Return names for a row of several ranks, from long to short. */
function groupNames(rank: number, memberRanks: readonly number[]): string[] {
  const count = formatCount(memberRanks.length);
  const runs = rankRuns(memberRanks);
  const shortNames = [`${count} ranks like ${rank}`, `${count} like ${rank}`, `${count} ranks`];
  return runs.length > 4 ? shortNames : [`ranks ${runs.join(", ")}`, ...shortNames];
}

function headRow(
  rank: SceneRank,
  { state: { rankGroups }, foldSizes: fold }: RowPlan,
  memberRanks: readonly number[],
  { open, pinned }: { open: boolean; pinned: boolean },
): StageRow {
  const rankName = rank.label === "" ? `rank ${rank.rank}` : rank.label;
  const shortName = rankName.startsWith("worker ") ? [rankName.replace("worker ", "w")] : [];
  const [name = rankName, ...shortNames] =
    memberRanks.length > 1 ? groupNames(rank.rank, memberRanks) : [rankName, ...shortName];
  const bands = memoize(() => foldedBands(rank, fold));
  const unfolded = rankGroups?.unfolded.has(rank.rank) === true;
  const groupBadge = memberRanks.length > 1 ? "unfold" : null;
  return {
    rank,
    track: null,
    name,
    shortNames,
    memberRanks,
    badge: unfolded ? "fold" : groupBadge,
    thinLanes: 0,
    stacks: null,
    reason: rankGroups?.reasons.get(rank.rank) ?? "",
    open,
    pinned,
    top: 0,
    height: fold.height,
    bands,
    ribbon: memoize(() => ribbonExtent(rank, fold, bands())),
  };
}

function trackRow(
  rank: SceneRank,
  track: SceneTrack,
  { state, emptyLanes }: RowPlan,
  { pinned, isBelowHead }: { pinned: boolean; isBelowHead: boolean },
): StageRow {
  const folded = foldedStacks(rank, track, state);
  const stacks = folded.length > 0 ? "folded" : "open";
  const name = isBelowHead ? trackName(rank, track) : `rank ${rank.rank} · ${track.label}`;
  return {
    rank,
    track,
    name,
    shortNames: [],
    memberRanks: [rank.rank],
    badge: null,
    thinLanes: countThin(track, folded, emptyLanes),
    stacks: track.stacks === undefined ? null : stacks,
    reason: "",
    open: true,
    pinned,
    top: 0,
    height: trackHeight(track, folded, emptyLanes),
    bands: memoize(() => trackBands(track, name, folded, emptyLanes)),
    ribbon: () => null,
  };
}

/** Return the stacks of a track that are drawn in a single row. */
function foldedStacks(rank: SceneRank, track: SceneTrack, state: RowState): readonly StackSpan[] {
  return state.openStacks?.has(trackKey(rank, track)) === true ? [] : (track.stacks ?? []);
}

const NO_LANES: ReadonlySet<number> = new Set();

/**
 * Lay out the rows of `scene` in `state`. `availableHeight` is the height that they may fill
 * without scrolling. `emptyLanes` are track lanes that have no events in view.
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
  const ranksWithRows = scene.ranks.filter(({ rank }) => visibleRanks.has(rank));
  const tracksHeight = anyOpen ? 0 : pinnedTracksHeight(ranksWithRows, pins, state);
  const ranksHeight = availableHeight - tracksHeight;
  const foldedCount = visibleRanks.size;
  const foldSizes = computeFoldSizes(scene.ranks, foldedCount, ranksHeight, anyOpen, ribbons);
  const plan = { scene, state, visibleRanks, pins, foldSizes, emptyLanes };
  const { pinned, unpinned } = collectRows(plan);
  const rows = [...pinned, ...unpinned];
  let height = 0;
  for (const row of rows) {
    row.top = height;
    height += row.height;
  }
  const pinnedHeight = unpinned[0]?.top ?? height;
  const isSticky = pinnedHeight <= availableHeight * STICKY_SHARE;
  return {
    rows,
    stickyCount: isSticky ? pinned.length : 0,
    stickyHeight: isSticky ? pinnedHeight : 0,
    height,
    fits: height <= availableHeight,
    foldSizes,
  };
}

interface RowPlan {
  scene: Scene;
  state: RowState;
  visibleRanks: ReadonlyMap<number, SceneTrack[] | null>;
  /** Position of each pin, keyed by the pin's key. */
  pins: ReadonlyMap<string, number>;
  foldSizes: FoldSizes;
  emptyLanes: ReadonlySet<number>;
}

/** Return the pinned rows in pin order, and all other rows in scene order. */
function collectRows(plan: RowPlan): { pinned: StageRow[]; unpinned: StageRow[] } {
  const { scene, state, visibleRanks, pins } = plan;
  const { rankGroups } = state;
  const pinned: { order: number; rows: StageRow[] }[] = [];
  const unpinned: StageRow[] = [];
  for (const rank of scene.ranks) {
    const tracks = visibleRanks.get(rank.rank);
    // A pinned track remains even if its rank is folded away.
    const isFolded = rankGroups?.hidden.has(rank.rank) === true;
    if (tracks === undefined && !isFolded) continue;
    for (const track of tracksOf(rank)) {
      const order = pins.get(trackKey(rank, track));
      if (order === undefined) continue;
      const row = trackRow(rank, track, plan, { pinned: true, isBelowHead: false });
      pinned.push({ order, rows: [row] });
    }
    if (tracks === undefined) continue;
    const order = pins.get(rankKey(rank));
    const rows = rowsOfRank(rank, tracks, plan, order !== undefined);
    if (order === undefined) unpinned.push(...rows);
    else pinned.push({ order, rows });
  }
  pinned.sort((a, b) => a.order - b.order);
  return { pinned: pinned.flatMap(({ rows }) => rows), unpinned };
}

/** Return a rank's head, followed by its tracks without their own pins. */
function rowsOfRank(
  rank: SceneRank,
  tracks: readonly SceneTrack[] | null,
  plan: RowPlan,
  pinned: boolean,
): StageRow[] {
  const { state, visibleRanks, pins } = plan;
  const hasRow = (number: number): boolean =>
    visibleRanks.has(number) || state.onlyRanks?.has(number) === false;
  const members = membersOf(state.rankGroups, rank.rank, hasRow);
  const tracksBelow = (tracks ?? []).filter((track) => !pins.has(trackKey(rank, track)));
  return [
    headRow(rank, plan, members, { open: tracks !== null, pinned }),
    ...tracksBelow.map((track) => trackRow(rank, track, plan, { pinned, isBelowHead: true })),
  ];
}

function pinnedTracksHeight(
  ranks: readonly SceneRank[],
  pins: ReadonlyMap<string, number>,
  state: RowState,
): number {
  const heights = ranks.flatMap((rank) =>
    tracksOf(rank)
      .filter((track) => pins.has(trackKey(rank, track)))
      .map((track) => trackHeight(track, foldedStacks(rank, track, state))),
  );
  return sum(heights);
}

export interface PlacedRow {
  row: StageRow;
  /** Top in the stage, after scrolling. */
  y: number;
  /** The part of the stage in which the row may draw. */
  clipTop: number;
  clipBottom: number;
}

/**
 * Return the visible rows from back to front: scrolling rows, then the head of the open rank whose
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
  const stickyBottom = Math.min(bottom, rowsTop + stickyHeight);
  const placed: PlacedRow[] = [];
  const scrolling = rowsBelow(layout, scroll + stickyHeight);
  const head = stickyHead(layout, scrolling, scroll + stickyHeight);
  const headY = stickyBottom + (head?.shift ?? 0);
  const clipTop = head === null ? stickyBottom : Math.min(bottom, headY + head.row.height);
  for (const row of scrolling) {
    const y = rowsTop + row.top - scroll;
    if (y >= bottom) break;
    if (row !== head?.row) placed.push({ row, y, clipTop, clipBottom: bottom });
  }
  if (head !== null) {
    placed.push({ row: head.row, y: headY, clipTop: stickyBottom, clipBottom: clipTop });
  }
  for (const row of rows.slice(0, stickyCount)) {
    placed.push({ row, y: rowsTop + row.top, clipTop: rowsTop, clipBottom: stickyBottom });
  }
  return placed;
}

/** Return the scrolling rows that extend below `top`. */
export function rowsBelow({ rows, stickyCount }: RowLayout, top: number): readonly StageRow[] {
  const first = rows.findIndex((row, i) => i >= stickyCount && row.top + row.height > top);
  return first < 0 ? [] : rows.slice(first);
}

/**
 * Return the head that stays above the tracks at `top` (the first of `scrolling`) and its shift:
 * how far the next rank pushes it up. Null if no head does.
 */
function stickyHead(
  { rows, stickyCount }: RowLayout,
  scrolling: readonly StageRow[],
  top: number,
): { row: StageRow; shift: number } | null {
  const [first] = scrolling;
  if (first === undefined) return null;
  const row = rows
    .slice(stickyCount, rows.indexOf(first) + 1)
    .filter(isHead)
    .at(-1);
  if (row === undefined || !row.open || row.top >= top) return null;
  // In paired rows, the head would cover rows of the other stage.
  if (row.pairName !== undefined) return null;
  const nextHead = scrolling.slice(1).find(isHead);
  const last = rows.at(-1)!;
  const tracksBottom = nextHead?.top ?? last.top + last.height;
  return { row, shift: Math.min(0, tracksBottom - top - row.height) };
}

function isHead({ track }: StageRow): boolean {
  return track === null;
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
    ...(row.stacks !== null && { stacks: row.stacks }),
  };
}

// Similar ranks folded into a row: the members of a group, and the position of the badge.

export const BADGE_WIDTH = 14;
/** Tolerance to the left and right of the badge, in CSS px. */
const BADGE_HIT_MARGIN = 5;

/** Return the badge's left edge. While a rank is open, rows have arrows to its left. */
export function badgeLeft({ mode }: FoldSizes): number {
  return mode === "line" ? 24 : 11;
}

/** Return the left and right edges of the area in which a press hits the badge. */
export function badgeHitArea(fold: FoldSizes): { left: number; right: number } {
  const left = badgeLeft(fold);
  return {
    left: fold.mode === "line" ? left - 2 : 0,
    right: left + BADGE_WIDTH + BADGE_HIT_MARGIN,
  };
}

/** Return the ranks in the row of `rank`: `rank` itself, then similar ranks without a row. */
function membersOf(
  groups: RankGroups | null | undefined,
  rank: number,
  hasRow: (rank: number) => boolean,
): readonly number[] {
  const group = groups?.groups.get(rank) ?? [rank];
  return group.filter((member) => member === rank || !hasRow(member));
}
