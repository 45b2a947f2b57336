/** The rows at the current scroll position: visible ones, nearby ones, their lanes. */

import { hasLateness } from "../protocol/scene";
import type { Brief, RowInfo, RowState, Scene, SceneRank, SceneTrack } from "../protocol/source";
import { type Geometry, geometryOf } from "./camera";
import {
  type Band,
  type Layout,
  layoutRows,
  naturalHeight,
  type PlacedRow,
  placeRows,
  type Row,
  rowInfo,
} from "./rows";

export class RowsView {
  state: RowState = { open: new Set(), pinned: [], filter: "" };
  layout: Layout;
  sight = new Sightings([]);
  /** Visible lanes, from the top. */
  lanes: readonly number[] = [];
  /** Lanes drawn over the visible ones. */
  over: readonly number[] = [];
  /** Lanes that scrolling by one screen would make visible. */
  nearby: readonly number[] = [];
  scroll = 0;
  /** Visible ranks with a ribbon of late arrivals. */
  ribbons: readonly number[] = [];
  /** Lanes of opened ranks without events in view. */
  private bare: ReadonlySet<number> = new Set();

  constructor(
    private scene: Scene,
    private geometry: Geometry,
  ) {
    this.layout = layoutRows(scene, this.state, geometry.rowsHeight, geometry.lateRow);
  }

  /** Update the layout; the rank at the top keeps its position. */
  update(scene: Scene, geometry: Geometry): void {
    const before = this.layout;
    if (scene !== this.scene) this.scroll = 0;
    if (scene !== this.scene) this.bare = new Set();
    this.scene = scene;
    this.geometry = geometry;
    const bare = this.state.roomy === true ? undefined : this.bare;
    this.layout = layoutRows(scene, this.state, geometry.rowsHeight, geometry.lateRow, bare);
    this.scroll = anchored(before, this.layout, this.scroll);
    this.place();
  }

  /** Scroll to a position; returns false if it is the current one. */
  scrollTo(scroll: number): boolean {
    const before = this.scroll;
    this.scroll = this.clamped(scroll);
    if (this.scroll === before) return false;
    this.place();
    return true;
  }

  /** The scroll that brings `lane` into view; null if no row shows it. */
  scrollFor(lane: number): number | null {
    return scrollTo(this.layout, this.geometry.rowsHeight, this.scroll, lane);
  }

  infos(): RowInfo[] {
    const { layout, geometry, scroll } = this;
    // The head of an opened rank sticks to the top, away from its place in the list.
    const shown = new Map(this.sight.placed.map(({ row, y }) => [row, y]));
    return layout.rows.map((row, i) => {
      const y = geometry.rowsTop + row.top - (i < layout.sticky ? 0 : scroll);
      return rowInfo(row, shown.get(row) ?? y);
    });
  }

  get naturalHeight(): number {
    return naturalHeight(this.scene, this.state);
  }

  /** Height of all rows in this room, including those hidden by a filter or a choice of ranks. */
  heightIn(room: number): number {
    const state = { ...this.state, filter: "", only: null };
    return layoutRows(this.scene, state, room, this.geometry.lateRow).height;
  }

  /**
   * Find the empty lanes of opened ranks; null for a lane that is not loaded. The lane
   * `kept` stays where it is, if rows scroll. False if nothing has changed.
   */
  shrink(isEmpty: (lane: number, rank: SceneRank) => boolean | null, kept: number | null): boolean {
    const bare = new Set<number>();
    for (const { rank, track } of this.layout.rows) {
      if (track === null) continue;
      for (let lane = track.lane0; lane < track.lane0 + track.lanes; lane += 1) {
        if (canBeThin(track, lane) && (isEmpty(lane, rank) ?? this.bare.has(lane))) bare.add(lane);
      }
    }
    if (bare.size === this.bare.size && [...bare].every((lane) => this.bare.has(lane)))
      return false;
    const before = kept === null ? null : this.sight.lane(kept);
    this.bare = bare;
    this.update(this.scene, this.geometry);
    const after = kept === null ? null : this.sight.lane(kept);
    if (before !== null && after !== null) this.scrollTo(this.scroll + after.y - before.y);
    return true;
  }

  private clamped(scroll: number): number {
    return clampScroll(this.layout, this.geometry.rowsHeight, scroll);
  }

  private place(): void {
    const { layout, geometry } = this;
    const { rowsTop, rowsHeight } = geometry;
    this.scroll = this.clamped(this.scroll);
    this.sight = new Sightings(placeRows(layout, this.scroll, rowsTop, rowsHeight));
    this.ribbons = this.sight.placed.flatMap(({ row }) =>
      row.ribbon() === null ? [] : [row.rank.rank],
    );
    this.lanes = this.sight.spots.map(({ band }) => band.lane);
    this.over = this.sight.spots.flatMap(({ band: { over } }) =>
      over === undefined ? [] : [over.wait, over.late],
    );
    const seen = new Set(this.lanes);
    const nearby: number[] = [];
    for (const scroll of [this.scroll + rowsHeight, this.scroll - rowsHeight]) {
      for (const { row } of placeRows(layout, scroll, rowsTop, rowsHeight)) {
        for (const { lane } of row.bands()) if (!seen.has(lane)) nearby.push(lane);
      }
    }
    this.nearby = nearby;
  }
}

/** Whether a lane may be thin; not one whose waits are drawn over it. */
function canBeThin(track: SceneTrack, lane: number): boolean {
  return track.role !== "counter" && (lane > track.lane0 || track.wait === undefined);
}

// Visible lanes and their positions.

export interface LaneSpot {
  band: Band;
  placed: PlacedRow;
  /** Offset in the stage, CSS px, before clipping. */
  y: number;
  /** Visible part of the lane. */
  top: number;
  bottom: number;
}

export class Sightings {
  readonly spots: LaneSpot[] = [];
  private readonly byLane = new Map<number, LaneSpot>();
  private readonly heads = new Map<number, PlacedRow>();

  /** End of the last row. */
  readonly bottom: number;

  constructor(readonly placed: readonly PlacedRow[]) {
    let bottom = 0;
    for (const row of placed) {
      bottom = Math.max(bottom, Math.min(row.y + row.row.height, row.clipBottom));
      if (row.row.track === null) this.heads.set(row.row.rank.rank, row);
      for (const band of row.row.bands()) {
        const y = row.y + band.top;
        const top = Math.max(y, row.clipTop);
        const bottom = Math.min(y + band.height, row.clipBottom);
        if (bottom <= top) continue;
        const spot = { band, placed: row, y, top, bottom };
        this.spots.push(spot);
        this.byLane.set(band.lane, spot);
      }
    }
    this.bottom = bottom;
  }

  lane(lane: number): LaneSpot | null {
    return this.byLane.get(lane) ?? null;
  }

  /** The row of a rank that is folded, or the head of one that is open. */
  head(rank: number): PlacedRow | null {
    return this.heads.get(rank) ?? null;
  }

  /** The band that represents an event whose own lane is folded away. */
  standIn({ rank, lane, kind }: Brief): LaneSpot | null {
    const row = this.head(rank)?.row;
    if (row === undefined) return null;
    const { tracks, summary } = row.rank;
    const track = tracks.find(({ lane0, lanes }) => lane >= lane0 && lane < lane0 + lanes);
    if (track === undefined) return null;
    const role = track.role === "stream" ? (kind === "communication" ? "comm" : "gpu") : "cpu";
    if (role === "cpu" && track.role !== "thread") return null;
    const stand = summary.find(
      (one) => one.role === role && (role !== "cpu" || one.label === track.label),
    );
    return stand === undefined ? null : this.lane(stand.lane);
  }

  /** The row at a height; rows in front win. */
  rowAt(y: number): PlacedRow | null {
    for (let i = this.placed.length - 1; i >= 0; i -= 1) {
      const row = this.placed[i]!;
      const top = Math.max(row.y, row.clipTop);
      const bottom = Math.min(row.y + row.row.height, row.clipBottom);
      if (y >= top && y < bottom) return row;
    }
    return null;
  }

  /** The lane at a height, or the nearest one of the row within 2 px. */
  spotAt(y: number): LaneSpot | null {
    const row = this.rowAt(y);
    let best: LaneSpot | null = null;
    let distance = 2 + 1e-9;
    for (const spot of this.spots) {
      if (spot.placed !== row) continue;
      const away = y < spot.top ? spot.top - y : y >= spot.bottom ? y - spot.bottom : 0;
      if (away < distance || (away === 0 && best === null)) {
        best = spot;
        distance = away;
      }
    }
    return best;
  }
}

// Scroll position of the rows, and its adjustment to changes of the rows.

/** Margin around a lane that is scrolled into view. */
const REVEAL_PAD = 8;

export function clampScroll(layout: Layout, room: number, scroll: number): number {
  return Math.min(Math.max(0, scroll), Math.max(0, layout.height - room));
}

/** The rank's first scrolling row; null if it has only sticky rows. */
function headOf(layout: Layout, rank: SceneRank): Row | null {
  return layout.rows.find((row, i) => i >= layout.sticky && row.rank.rank === rank.rank) ?? null;
}

/** The scroll that keeps the rank at the top of `before` at the same height in `after`. */
export function anchored(before: Layout, after: Layout, scroll: number): number {
  const top = scroll + before.stickyHeight;
  const at = before.rows.find((row, i) => i >= before.sticky && row.top + row.height > top);
  if (at === undefined || scroll === 0) return scroll;
  const was = headOf(before, at.rank);
  const is = headOf(after, at.rank);
  if (was === null || is === null) return scroll;
  return scroll + is.top - was.top - after.stickyHeight + before.stickyHeight;
}

function holds(row: Row, lane: number): boolean {
  const { track, rank } = row;
  if (track !== null) return lane >= track.lane0 && lane < track.lane0 + track.lanes;
  return (
    rank.summary.some((summary) => summary.lane === lane) &&
    row.bands().some((b) => b.lane === lane)
  );
}

/** The scroll that brings `lane` into view; null if no row shows it. */
export function scrollTo(
  layout: Layout,
  room: number,
  scroll: number,
  lane: number,
): number | null {
  const index = layout.rows.findIndex((row) => holds(row, lane));
  const row = layout.rows[index];
  if (row === undefined) return null;
  if (index < layout.sticky) return scroll;
  const band = row.bands().find((one) => one.lane === lane);
  if (band === undefined) return null;
  const top = row.top + band.top;
  const bottom = top + band.height;
  // An opened rank's head covers rows that scroll under it.
  const cover = layout.stickyHeight + (row.track === null ? 0 : layout.fold.height);
  if (top - cover - REVEAL_PAD < scroll) return clampScroll(layout, room, top - cover - REVEAL_PAD);
  if (bottom + REVEAL_PAD > scroll + room)
    return clampScroll(layout, room, bottom + REVEAL_PAD - room);
  return scroll;
}

// Rows that a scene needs above its lanes, and the resulting positions.

export function placesOf(
  scene: Scene,
  width: number,
  height: number,
  dpr: number,
  slim = false,
): Geometry {
  const late = hasLateness(scene);
  const rows = [scene.steps.length > 0, scene.phases.length > 0, late].filter(Boolean).length;
  return geometryOf(width, height, dpr, rows, late, slim);
}
