/** Content of a picture of the stage: the input of all parts of its drawing. */

import type { Marks } from "../protocol/decode";
import type { Ribbon } from "../protocol/ribbon";
import type { ClassPalette, Lateness, Overlay, Scene, Span, Stats } from "../protocol/source";
import type { Theme } from "../ui/theme";
import type { StageGeometry } from "./camera";
import type { LaneWindows } from "./lane_window";
import type { StagePaints } from "./paints";
import type { RowLayout } from "./rows";
import type { VisibleLanes } from "./rows_view";

/** Everything that a picture shows, apart from its canvases. */
export interface StageFrame {
  geometry: StageGeometry;
  theme: Theme;
  paints: StagePaints;
  /** Classes by which events are coloured; null if they are coloured by kind or name. */
  classes: ClassPalette | null;
  scene: Scene;
  job: Span;
  view: Span;
  /** Rulers: of two paired stages, first that of the stage behind. A single stage has one. */
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
  /** Whether events have shades, and calls of the host hues, by their names. */
  byName: boolean;
  overlay: Overlay;
  searchMarks: PlacedMarks | null;
  selectionMarks: PlacedMarks | null;
}

/** The times of a view along the lanes, and the name of the run or clock. */
export interface Ruler {
  view: Span;
  name: string;
}

/** Marks, and the window, number of bins and lanes that they were requested for. */
export interface PlacedMarks {
  marks: Marks;
  start: number;
  end: number;
  bins: number;
  lanes: readonly number[];
}

// Figures of a window, with the index of each rank's entry.

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
