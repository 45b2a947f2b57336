/** How high the timeline is among its neighbours. */

import type { TimelineApp } from "../app/app";
import type { Board } from "./board";

export const LEAST_PX = 220;
const MOST_PX = 560;
/** Rows grow no more than this. */
const STRETCH = 1.35;
/** A room that is free anyhow is of use up to this height: a rank opens into its tracks there. */
const ROOMY_PX = 440;

export interface FitWays {
  timeline: TimelineApp;
  board: Board;
  /** As the user of Python wants it; null for what fits. */
  given(): number | null;
  heightOf(id: string): number;
  /** While something is selected, rows come and go: what is looked at should stay in its place. */
  isCalm(): boolean;
}

export class TimelineFit {
  private fitted = false;

  constructor(private readonly ways: FitWays) {}

  /** As given; else what its ranks need, and what the columns beside it leave. */
  fit(anew = false): void {
    const { timeline, given, isCalm } = this.ways;
    if (!anew && this.fitted && !isCalm()) return;
    this.fitted = true;
    const needed = Math.min(Math.max(timeline.naturalHeight, LEAST_PX), MOST_PX);
    const most = Math.max(needed * STRETCH, ROOMY_PX);
    timeline.height = given() ?? Math.max(needed, Math.min(this.room(), most));
  }

  /** The height of the timeline at which its column is as high as those beside it. */
  private room(): number {
    const { board, timeline, heightOf } = this.ways;
    const columns = board.columnsBeside("timeline");
    if (columns === null) return 0;
    const height = (ids: readonly string[]): number =>
      ids.reduce((sum, id) => sum + heightOf(id), 0);
    const own = height(columns.own) - timeline.height;
    return Math.max(...columns.others.map(height)) - own;
  }
}
