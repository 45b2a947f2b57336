/** The rows at the current scroll position: visible rows, nearby rows, and their lanes. */

import { sum } from "../expressions/numbers";
import { hasDevice, hasLateness } from "../protocol/scene";
import type { Brief, RowInfo, RowState, Scene, SceneRank } from "../protocol/source";
import type { Band } from "./bands";
import { type StageGeometry, computeGeometry } from "./camera";
import { interleaveRows, type RowPairing } from "./paired_rows";
import {
  type RowLayout,
  layoutRows,
  type PlacedRow,
  placeRows,
  rowsBelow,
  type StageRow,
  makeRowInfo,
} from "./rows";

export class RowsView {
  state: RowState = { open: new Set(), pinned: [], filter: "" };
  layout: RowLayout;
  visible = new VisibleLanes([]);
  /** Visible lanes from top to bottom. */
  lanes: readonly number[] = [];
  /** Lanes drawn over the visible lanes. */
  overlayLanes: readonly number[] = [];
  /** Lanes that would become visible if the rows were scrolled by one screen. */
  nearbyLanes: readonly number[] = [];
  scroll = 0;
  /** Visible ranks that have a ribbon of late arrivals. */
  ribbonRanks: readonly number[] = [];
  private emptyLanes: ReadonlySet<number> = new Set();
  /** The rows of another stage that are drawn in the same place. */
  pairing: (RowPairing & { other: RowsView }) | null = null;

  constructor(
    private scene: Scene,
    private geometry: StageGeometry,
  ) {
    this.layout = layoutRows(scene, this.state, geometry.rowsHeight, geometry.lateRow);
  }

  /** Update the layout. The rank at the top keeps its position. */
  update(scene: Scene, geometry: StageGeometry): void {
    const before = this.layout;
    if (scene !== this.scene) {
      this.scroll = 0;
      this.emptyLanes = new Set();
    }
    this.scene = scene;
    this.geometry = geometry;
    this.layout = this.fittingLayout();
    const { pairing } = this;
    if (pairing?.isBehind === true) interleaveRows(this.layout, pairing.other.layout, pairing);
    else if (pairing !== null) interleaveRows(pairing.other.layout, this.layout, pairing);
    this.placeAt(anchoredScroll(before, this.layout, this.scroll));
  }

  /** Return the layout that fits all rows with the fewest thin lanes, at the bottom. */
  private fittingLayout(): RowLayout {
    const { state, geometry } = this;
    const lanes = state.keepEmptyLanes === true ? [] : [...this.emptyLanes].sort((a, b) => a - b);
    const layoutWith = (fullLanes: number): RowLayout =>
      this.layoutIn(geometry.rowsHeight, state, new Set(lanes.slice(fullLanes)));
    let [low, high] = [0, lanes.length];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (layoutWith(middle).fits) low = middle;
      else high = middle - 1;
    }
    return layoutWith(low);
  }

  /** Lay out the rows within a height, which paired stages share equally. */
  private layoutIn(height: number, state: RowState, thinLanes?: ReadonlySet<number>): RowLayout {
    const share = this.pairing === null ? 1 : 2;
    return layoutRows(this.scene, state, height / share, this.geometry.lateRow, thinLanes);
  }

  /** Scroll to a position. Return false if nothing changes. */
  scrollTo(scroll: number): boolean {
    if (this.clampedScroll(scroll) === this.scroll) return false;
    this.placeAt(scroll);
    return true;
  }

  /** Scroll this view and its paired view. */
  private placeAt(scroll: number): void {
    for (const view of this.views) view.place(scroll);
  }

  /** Return the scroll position that reveals `lane`; null if the lane is in no row. */
  scrollFor(lane: number): number | null {
    return scrollToReveal(this.layout, this.geometry.rowsHeight, this.scroll, lane);
  }

  rowInfos(): RowInfo[] {
    const { layout, geometry, scroll } = this;
    // An open rank's head may be fixed at the top instead of being at its position in the layout.
    const shown = new Map(this.visible.placed.map(({ row, y }) => [row, y]));
    return layout.rows.map((row, i) => {
      const y = geometry.rowsTop + row.top - (i < layout.stickyCount ? 0 : scroll);
      return makeRowInfo(row, shown.get(row) ?? y);
    });
  }

  /** This view and, if any, its paired view. */
  private get views(): RowsView[] {
    return this.pairing === null ? [this] : [this, this.pairing.other];
  }

  /** Height of all rows without stretching, including paired rows. */
  get naturalHeight(): number {
    return sum(this.views.map(({ scene, state }) => layoutRows(scene, state, 0).height));
  }

  /** Return the height of all rows, at most `maxHeight`, ignoring filter and selected ranks. */
  heightIn(maxHeight: number): number {
    const heights = this.views.map(
      (view) => view.layoutIn(maxHeight, { ...view.state, filter: "", onlyRanks: null }).height,
    );
    return sum(heights);
  }

  /**
   * Find the empty lanes of open ranks. `isEmpty` returns null for a lane that is not loaded.
   * Scroll so that `fixedLane` keeps its position. Return whether the layout has changed.
   */
  updateEmptyLanes(
    isEmpty: (lane: number, rank: SceneRank) => boolean | null,
    fixedLane: number | null,
  ): boolean {
    const emptyLanes = new Set<number>();
    for (const { rank, track } of this.layout.rows) {
      // Counters and lanes under waits are never thin.
      if (track === null || track.role === "counter") continue;
      const firstLane = track.lane0 + (track.wait === undefined ? 0 : 1);
      for (let lane = firstLane; lane < track.lane0 + track.lanes; lane += 1) {
        if (isEmpty(lane, rank) ?? this.emptyLanes.has(lane)) emptyLanes.add(lane);
      }
    }
    const hasSame = [...emptyLanes].every((lane) => this.emptyLanes.has(lane));
    if (hasSame && emptyLanes.size === this.emptyLanes.size) return false;
    const before = fixedLane === null ? null : this.visible.findLane(fixedLane);
    this.emptyLanes = emptyLanes;
    this.update(this.scene, this.geometry);
    const after = fixedLane === null ? null : this.visible.findLane(fixedLane);
    if (before !== null && after !== null) this.scrollTo(this.scroll + after.y - before.y);
    return true;
  }

  private clampedScroll(scroll: number): number {
    return clampScroll(this.layout, this.geometry.rowsHeight, scroll);
  }

  private place(scroll: number): void {
    const { layout, geometry } = this;
    const { rowsTop, rowsHeight } = geometry;
    this.scroll = this.clampedScroll(scroll);
    this.visible = new VisibleLanes(placeRows(layout, this.scroll, rowsTop, rowsHeight));
    this.ribbonRanks = this.visible.placed.flatMap(({ row }) =>
      row.ribbon() === null ? [] : [row.rank.rank],
    );
    this.lanes = this.visible.lanes.map(({ band }) => band.lane);
    this.overlayLanes = this.visible.lanes.flatMap(({ band: { over } }) =>
      over === undefined ? [] : [over.wait, over.late],
    );
    const visibleLanes = new Set(this.lanes);
    this.nearbyLanes = [this.scroll + rowsHeight, this.scroll - rowsHeight]
      .flatMap((nearbyScroll) => placeRows(layout, nearbyScroll, rowsTop, rowsHeight))
      .flatMap(({ row }) => row.bands().map(({ lane }) => lane))
      .filter((lane) => !visibleLanes.has(lane));
  }
}

// The visible lanes and their positions.

export interface VisibleLane {
  band: Band;
  placed: PlacedRow;
  /** Offset in the stage before clipping, in CSS px. */
  y: number;
  /** The visible part of the lane. */
  top: number;
  bottom: number;
}

export class VisibleLanes {
  readonly lanes: VisibleLane[] = [];
  private readonly byLane = new Map<number, VisibleLane>();
  private readonly heads = new Map<number, PlacedRow>();

  /** Bottom of the last row. */
  readonly bottom: number;

  constructor(readonly placed: readonly PlacedRow[]) {
    this.bottom = Math.max(
      0,
      ...placed.map(({ row, y, clipBottom }) => Math.min(y + row.height, clipBottom)),
    );
    for (const placedRow of placed) {
      const { row, clipTop, clipBottom } = placedRow;
      if (row.track === null) this.heads.set(row.rank.rank, placedRow);
      for (const band of row.bands()) {
        const y = placedRow.y + band.top;
        const top = Math.max(y, clipTop);
        const bottom = Math.min(y + band.height, clipBottom);
        if (bottom <= top) continue;
        const visibleLane = { band, placed: placedRow, y, top, bottom };
        this.lanes.push(visibleLane);
        this.byLane.set(band.lane, visibleLane);
      }
    }
  }

  findLane(lane: number): VisibleLane | null {
    return this.byLane.get(lane) ?? null;
  }

  /** Return the row of a folded rank, or the head of an open rank. */
  findHead(rank: number): PlacedRow | null {
    return this.heads.get(rank) ?? null;
  }

  /** Return the band of the row into which an event's lane is folded. */
  findSummaryLane({ rank, lane, kind }: Brief): VisibleLane | null {
    const row = this.findHead(rank)?.row;
    if (row === undefined) return null;
    const { tracks, summary } = row.rank;
    const track = tracks.find(({ lane0, lanes }) => lane >= lane0 && lane < lane0 + lanes);
    const deviceRole = kind === "communication" ? "comm" : "gpu";
    const summaryLane = summary.find(({ role, label }) => {
      if (track?.role === "stream") return kind !== "sync" && role === deviceRole;
      return track?.role === "thread" && role === "cpu" && label === track.label;
    });
    return summaryLane === undefined ? null : this.findLane(summaryLane.lane);
  }

  /** Return the row at `y`; if rows overlap, the row in front. */
  rowAt(y: number): PlacedRow | null {
    for (let i = this.placed.length - 1; i >= 0; i -= 1) {
      const row = this.placed[i]!;
      const top = Math.max(row.y, row.clipTop);
      const bottom = Math.min(row.y + row.row.height, row.clipBottom);
      if (y >= top && y < bottom) return row;
    }
    return null;
  }

  /** Return the lane at `y`, or the row's nearest lane within 2 px. */
  laneAt(y: number): VisibleLane | null {
    const row = this.rowAt(y);
    let best: VisibleLane | null = null;
    let distance = 2 + 1e-9;
    for (const visibleLane of this.lanes) {
      if (visibleLane.placed !== row) continue;
      const distancePx = Math.max(visibleLane.top - y, y - visibleLane.bottom, 0);
      if (distancePx < distance || (distancePx === 0 && best === null)) {
        best = visibleLane;
        distance = distancePx;
      }
    }
    return best;
  }
}

// The scroll position, and how it is adjusted when rows change.

/** Margin around a lane that is scrolled into view. */
const REVEAL_PAD = 8;

export function clampScroll(layout: RowLayout, viewportHeight: number, scroll: number): number {
  return Math.min(Math.max(0, scroll), Math.max(0, layout.height - viewportHeight));
}

function firstRowOf({ rows, stickyCount }: RowLayout, { rank }: SceneRank): StageRow | undefined {
  return rows.find((row, i) => i >= stickyCount && row.rank.rank === rank);
}

/** Return the scroll position at which the topmost rank of `before` keeps its place in `after`. */
export function anchoredScroll(before: RowLayout, after: RowLayout, scroll: number): number {
  const [topRow] = rowsBelow(before, scroll + before.stickyHeight);
  if (topRow === undefined || scroll === 0) return scroll;
  const rowBefore = firstRowOf(before, topRow.rank)!;
  const rowAfter = firstRowOf(after, topRow.rank);
  if (rowAfter === undefined) return scroll;
  return scroll + rowAfter.top - rowBefore.top - after.stickyHeight + before.stickyHeight;
}

function showsLane(row: StageRow, lane: number): boolean {
  const { track, rank } = row;
  if (track !== null) return lane >= track.lane0 && lane < track.lane0 + track.lanes;
  return (
    rank.summary.some((summary) => summary.lane === lane) &&
    row.bands().some((band) => band.lane === lane)
  );
}

/** Return the scroll position that reveals `lane`; null if the lane is in no row. */
export function scrollToReveal(
  layout: RowLayout,
  viewportHeight: number,
  scroll: number,
  lane: number,
): number | null {
  const index = layout.rows.findIndex((row) => showsLane(row, lane));
  const row = layout.rows[index];
  if (row === undefined) return null;
  if (index < layout.stickyCount) return scroll;
  const band = row.bands().find((candidate) => candidate.lane === lane);
  if (band === undefined) return null;
  const top = row.top + band.top;
  const bottom = top + band.height;
  // An open rank's head covers rows that scroll under it.
  const cover = layout.stickyHeight + (row.track === null ? 0 : layout.foldSizes.height);
  if (top - cover - REVEAL_PAD < scroll)
    return clampScroll(layout, viewportHeight, top - cover - REVEAL_PAD);
  if (bottom + REVEAL_PAD > scroll + viewportHeight)
    return clampScroll(layout, viewportHeight, bottom + REVEAL_PAD - viewportHeight);
  return scroll;
}

/** Return the positions of the stage's parts, including the rows above the lanes. */
export function stageGeometry(
  scene: Scene,
  width: number,
  height: number,
  dpr: number,
  rulers = 1,
): StageGeometry {
  const hasLateRow = hasLateness(scene);
  const rows = [scene.steps.length > 0, scene.phases.length > 0, hasLateRow].filter(Boolean).length;
  // The margin contains only device times.
  const hasMargin = scene.ranks.some(hasDevice);
  return computeGeometry(width, height, dpr, rows, hasLateRow, rulers, hasMargin);
}
