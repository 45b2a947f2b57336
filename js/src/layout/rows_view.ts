/** The rows as they are scrolled now: which are in sight, which lanes that makes, what is near. */

import type { RowInfo, RowState, Scene } from "../contract";
import type { Geometry } from "./geometry";
import { type Layout, layoutRows, naturalHeight, placeRows, rowInfo } from "./rows";
import { anchored, clampScroll, scrollTo } from "./scroll";
import { Sightings } from "./sight";

export class RowsView {
  state: RowState = { open: new Set(), pinned: [], filter: "" };
  layout: Layout;
  sight = new Sightings([]);
  /** Lanes in sight, from the top. */
  lanes: readonly number[] = [];
  /** Lanes that are drawn over those in sight. */
  over: readonly number[] = [];
  /** Lanes that scrolling by one screen would bring into sight. */
  nearby: readonly number[] = [];
  scroll = 0;
  /** Ranks in sight with a ribbon of late arrivals. */
  ribbons: readonly number[] = [];
  private geometry: Geometry;

  constructor(
    private scene: Scene,
    geometry: Geometry,
  ) {
    this.geometry = geometry;
    this.layout = layoutRows(scene, this.state, geometry.rowsHeight, geometry.lateRow);
  }

  /** Lay everything out anew; the rank at the top stays where it is. */
  update(scene: Scene, geometry: Geometry): void {
    const before = this.layout;
    if (scene !== this.scene) this.scroll = 0;
    this.scene = scene;
    this.geometry = geometry;
    this.layout = layoutRows(scene, this.state, geometry.rowsHeight, geometry.lateRow);
    this.scroll = anchored(before, this.layout, this.scroll);
    this.place();
  }

  /** False if that is where the rows are already. */
  scrollTo(scroll: number): boolean {
    const before = this.scroll;
    this.scroll = this.clamped(scroll);
    if (this.scroll === before) return false;
    this.place();
    return true;
  }

  /** The scroll that has `lane` in sight; null where no row shows it. */
  scrollFor(lane: number): number | null {
    return scrollTo(this.layout, this.geometry.rowsHeight, this.scroll, lane);
  }

  infos(): RowInfo[] {
    const { layout, geometry, scroll } = this;
    // The head of an opened rank sticks to the top: it is not where its place in the list says.
    const shown = new Map(this.sight.placed.map(({ row, y }) => [row, y]));
    return layout.rows.map((row, i) => {
      const y = geometry.rowsTop + row.top - (i < layout.sticky ? 0 : scroll);
      return rowInfo(row, shown.get(row) ?? y);
    });
  }

  get naturalHeight(): number {
    return naturalHeight(this.scene, this.state);
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
