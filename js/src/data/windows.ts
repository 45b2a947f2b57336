/** The lane windows of the lanes in sight, kept while they may come back. */

import type { Span } from "../contract";
import { LaneWindow } from "./lane_window";
import { levelOf, tilesOf } from "./tile_plan";
import type { TileStore } from "./tile_store";

/** Windows kept beyond those in sight. */
const SPARE = 256;

export class LaneWindows {
  pending = false;
  private readonly windows = new Map<number, LaneWindow>();

  constructor(private readonly store: TileStore) {}

  get(lane: number): LaneWindow | null {
    return this.windows.get(lane) ?? null;
  }

  /** Bring the windows of `lanes` up to date with the view and the tiles that are there. */
  update(lanes: readonly number[], view: Span, resolution: number, range: Span): void {
    const level = levelOf(resolution);
    const { first, last } = tilesOf(view, level, range);
    this.store.tick();
    this.pending = false;
    for (const lane of lanes) {
      let window = this.windows.get(lane);
      if (window === undefined) {
        window = new LaneWindow(lane);
        this.windows.set(lane, window);
      }
      window.update(this.store, level, first, last);
      if (window.pending) this.pending = true;
    }
    if (this.windows.size > lanes.length + SPARE) this.prune(new Set(lanes));
  }

  private prune(keep: ReadonlySet<number>): void {
    for (const lane of this.windows.keys()) if (!keep.has(lane)) this.windows.delete(lane);
  }
}
