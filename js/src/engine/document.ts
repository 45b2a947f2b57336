/** Types of a saved page's document, which is written by `hta_widgets/export/pages/format.py`. */

import type { CallFigures, ClockFacts, Scene, SharedState, Clusters } from "../protocol/source";

/** Positions in `names` and `categories`, and the code of the kind. */
export type EventType = readonly [name: number, category: number, kind: number];

export interface TrackHeader {
  key: string;
  process: string;
  role: "thread" | "stream" | "annotation" | "counter" | "async" | "instant" | "other";
  lane0: number;
  lanes: number;
  nested: number;
  pid: string;
  tid: string;
  /** The label in the file. */
  label: string;
  /** Name of the counter in the file; "" for other tracks. */
  counter_name: string;
  counter_series: string;
}

export interface SummaryHeader {
  lane: number;
  role: "gpu" | "comm" | "cpu";
  /** Positions in `tracks`. */
  tracks: number[];
  /** Whether a `cpu` lane includes annotations. */
  annotations: boolean;
}

/** A lane of waits or late arrivals on one track (-1: on all tracks). */
export interface OverlayHeader {
  role: "wait" | "late";
  /** Position in `tracks`. */
  track: number;
}

/** `embedded`: all args are in the page; `absent`: the file has none; `left out`: too large. */
type ArgsState = "embedded" | "absent" | "left out" | "unreadable";

interface RankHeader {
  rank: number;
  detail: "full" | "overview";
  range: [number, number];
  /** In exports: start and end of the rank's device work in the whole job. */
  work?: [number, number] | null;
  /** Times between recording windows, if there are several windows. */
  marks?: number[];
  /** Start and end of device work. In exports, this includes the part of `work` in the window. */
  device_range?: [number, number];
  lane0: number;
  lanes: number;
  types: EventType[];
  tracks: TrackHeader[];
  summary: SummaryHeader[];
  /** Contents of the rank's last lanes. */
  overlays: OverlayHeader[];
  columns: Record<string, ColumnSpec>;
}

/** Figures shared by many calls. The times and rates of each call are stored as columns. */
type SharedFigures = Omit<
  CallFigures,
  "call" | "kernels" | "device_ns" | "tflop_per_s" | "gb_per_s" | "roofline_share"
>;

export interface FullHeader extends RankHeader {
  detail: "full";
  /** Positions in `types` of host collectives, which are communication but not device work. */
  host_collectives: number[];
  /** Positions in `types` of host operators. */
  operators: number[];
  /** Threads that launch work: position in `tracks`, and number of activity changes. */
  activities: [track: number, changes: number][];
  /** Figures shared by operator calls; missing in pages from earlier versions. */
  signatures?: SharedFigures[];
  /** Steps that were cut off at the window of an export. */
  clipped_steps: number[];
  /** Steps that end on the host before most of their device work, with their device times. */
  device_steps: [step: number, start: number, dur: number][];
  flow_kinds: string[];
  /** Number of samples of each counter track, in track order. */
  counters: number[];
  args: { state: ArgsState; reason: string; blocks: number; columns: Record<string, ColumnSpec> };
}

export interface OverviewHeader extends RankHeader {
  detail: "overview";
  /** Cells of 2^level ns. The first one has the index `first`. */
  level: number;
  first: number;
  cells: number;
  lanes_kept: { lane: number; kinds: number[]; counter: boolean }[];
  /** Number of events, asyncs and instants of each type, to count search hits. */
  counts: number[];
  has_device: boolean;
  /** First start and last end of device work. */
  device_range: [number, number];
}

/** The matched collectives. Their entries are stored rank by rank in a separate block. */
export interface CollectivesHeader {
  /** Why there are no entries, or a note about them. */
  note: string;
  /** The alignment of the ranks' clocks; see `ClockFacts`. */
  clock?: ClockFacts | null;
  /** Empty if there is no communication. */
  columns: Record<string, ColumnSpec>;
  /** Ranks for which the rest of the job waits; missing if no collectives are matched. */
  late?: number[];
  /** Number of entries of each rank. */
  counts?: number[];
  /** For each rank, the number of unmatched communication events; missing if there is one rank. */
  unmatched?: number[];
  /** Sorted by code points, like `groups`. */
  names?: string[];
  groups?: string[];
}

/** Phases that occur once in most steps, in order: their names in the files, and their labels. */
export interface PhasesHeader {
  names: string[];
  labels: string[];
}

export interface PageDocument {
  version: number;
  /** The widget that the page shows. Missing in pages from earlier versions: a timeline. */
  widget?: "timeline" | "dashboard";
  scene: Scene;
  state: Partial<SharedState>;
  origin_ns: string | null;
  names: string[];
  /** Distinct short names, and the index of each name's short name. */
  shorts: string[];
  short_of: number[];
  categories: string[];
  ranks: (FullHeader | OverviewHeader)[];
  collectives: CollectivesHeader;
  /** Missing in pages from earlier versions. */
  phases?: PhasesHeader;
  /** Reply to `clusters`; null if there are too few ranks or the computation failed. */
  alike: Clusters | null;
}

/** Return the name of a block with the texts of a rank's arguments. */
export function argsBlockName(rank: number, block: number): string {
  return `args-${rank}-${block}`;
}

/** Return the message for a request that needs individual events of an overview rank. */
export function notEmbeddedMessage(rank: number): string {
  return (
    `Rank ${rank} is embedded as an overview only: this page does not hold its individual events. ` +
    "Save it again with a larger max_mb, or select in this rank before saving."
  );
}

/** `[offset, length, bytes per item, flags]`. */
export type ColumnSpec = readonly [offset: number, length: number, width: number, flags: number];
