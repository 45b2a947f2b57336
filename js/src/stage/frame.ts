/** The content of one picture of the stage. All parts of the stage are drawn from it. */

import type { Marks } from "../protocol/decode";
import type { Ribbon } from "../protocol/ribbon";
import type { ClassPalette, Lateness, Overlay, Scene, Span, Stats } from "../protocol/source";
import type { Theme } from "../ui/theme";
import type { StageGeometry } from "./camera";
import type { LaneWindows } from "./lane_window";
import type { StagePaints } from "./paints";
import type { RowLayout } from "./rows";
import type { VisibleLanes } from "./rows_view";

export interface StageFrame {
  geometry: StageGeometry;
  theme: Theme;
  paints: StagePaints;
  /** Classes that determine the colors of events; null if kind or name determines them. */
  classes: ClassPalette | null;
  scene: Scene;
  job: Span;
  view: Span;
  /** The rulers. For two paired stages, the first ruler belongs to the stage behind. */
  rulers: readonly Ruler[];
  layout: RowLayout;
  visible: VisibleLanes;
  windows: LaneWindows;
  stats: StatsByRank | null;
  /** Whether the figures belong to an earlier view. */
  isStale: boolean;
  lateness: LatenessByRank | null;
  ribbon: Ribbon | null;
  minimap: HTMLCanvasElement | null;
  /** Whether names determine the shades of events and the hues of host calls. */
  byName: boolean;
  overlay: Overlay;
  searchMarks: PlacedMarks | null;
  selectionMarks: PlacedMarks | null;
}

/** The time axis of a view, and the name of its run or clock. */
export interface Ruler {
  view: Span;
  name: string;
}

/** Marks, and the window, number of bins and lanes for which they were requested. */
export interface PlacedMarks {
  marks: Marks;
  start: number;
  end: number;
  bins: number;
  lanes: readonly number[];
}

// Figures of a window, and the index of each rank in them.

export interface StatsByRank {
  stats: Stats;
  at: ReadonlyMap<number, number>;
}

export interface LatenessByRank {
  lateness: Lateness;
  at: ReadonlyMap<number, number>;
  late: ReadonlySet<number>;
}

function indexByRank(ranks: readonly number[]): ReadonlyMap<number, number> {
  return new Map(ranks.map((rank, index) => [rank, index]));
}

export function statsByRank(stats: Stats): StatsByRank {
  return { stats, at: indexByRank(stats.ranks) };
}

export function latenessByRank(lateness: Lateness): LatenessByRank {
  return { lateness, at: indexByRank(lateness.ranks), late: new Set(lateness.late) };
}
