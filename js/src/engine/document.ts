/** Types of a saved page's document, as `hta_widgets/export/pages/format.py` writes it. */

import type { CallFigures, ClockFacts, Scene, SharedState, Clusters } from "../protocol/source";

/** Positions in `names`, in `categories`, and the code of the kind. */
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
  /** The file's own label. */
  label: string;
  /** Name of the counter in the file; empty for other tracks. */
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

/** A lane of waits or of late arrivals, of one track or (-1) of all. */
export interface OverlayHeader {
  role: "wait" | "late";
  /** Position in `tracks`. */
  track: number;
}

/** `embedded`: the page has all args; `absent`: the file has none; `left out`: they did not fit. */
type ArgsState = "embedded" | "absent" | "left out" | "unreadable";

interface RankHeader {
  rank: number;
  detail: "full" | "overview";
  range: [number, number];
  /** Exports only: from the first to the last work of the rank's device in the whole job. */
  work?: [number, number] | null;
  /** Instants between windows of the recording, if it has several. */
  marks?: number[];
  /** From the first to the last device work; in exports, `work` within the window also counts. */
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

/** Figures that many calls share; the times and rates of each call are columns. */
type SharedFigures = Omit<
  CallFigures,
  "call" | "kernels" | "device_ns" | "tflop_per_s" | "gb_per_s" | "roofline_share"
>;

export interface FullHeader extends RankHeader {
  detail: "full";
  /** Positions in `types` of collectives on the host: communication that is not device work. */
  host_collectives: number[];
  /** Positions in `types` of operators of the host. */
  operators: number[];
  /** Threads that launch work: position in `tracks`, and the number of changes of activity. */
  activities: [track: number, changes: number][];
  /** Figures that calls of operators share; pages of earlier versions have none. */
  signatures?: SharedFigures[];
  /** Steps whose ranges an export cut at its window. */
  clipped_steps: number[];
  /** Steps that hosts leave before most of the device's work: start and length on the device. */
  device_steps: [step: number, start: number, dur: number][];
  flow_kinds: string[];
  /** Samples of each counter track, in the order of the tracks. */
  counters: number[];
  args: { state: ArgsState; reason: string; blocks: number; columns: Record<string, ColumnSpec> };
}

export interface OverviewHeader extends RankHeader {
  detail: "overview";
  /** Cells of 2^level ns, starting at `first`. */
  level: number;
  first: number;
  cells: number;
  lanes_kept: { lane: number; kinds: number[]; counter: boolean }[];
  /** Number of events, asyncs and instants of each type, for counts of search hits. */
  counts: number[];
  has_device: boolean;
  /** First start and last end of device work. */
  device_range: [number, number];
}

/** Matched collectives: entries of all ranks, one rank after the other, in a block of their own. */
export interface CollectivesHeader {
  /** Reason that there are none, or a note about them. */
  note: string;
  /** How the clocks of the page's times were fitted; see `ClockFacts`. */
  clock?: ClockFacts | null;
  /** Empty if there is no communication. */
  columns: Record<string, ColumnSpec>;
  /** Ranks that make the rest of the job wait; absent if no collectives are matched. */
  late?: number[];
  /** Entries of each rank. */
  counts?: number[];
  /** Number of each rank's communication events without a match; absent for a rank alone. */
  unmatched?: number[];
  /** Sorted by code points, like `groups`. */
  names?: string[];
  groups?: string[];
}

/** Phases that occur once in most steps, in order: names in the files, and labels. */
export interface PhasesHeader {
  names: string[];
  labels: string[];
}

export interface PageDocument {
  version: number;
  /** Widget that the page shows; pages of earlier versions show a timeline. */
  widget?: "timeline" | "dashboard";
  scene: Scene;
  state: Partial<SharedState>;
  origin_ns: string | null;
  names: string[];
  /** Distinct short names, and the short name of each name. */
  shorts: string[];
  short_of: number[];
  categories: string[];
  ranks: (FullHeader | OverviewHeader)[];
  collectives: CollectivesHeader;
  /** Missing in pages of earlier versions. */
  phases?: PhasesHeader;
  /** Reply to `clusters`; null if there are too few ranks, or if the computation failed. */
  alike: Clusters | null;
}

/** Name of one of the blocks with the texts of a rank's arguments. */
export function argsBlockName(rank: number, block: number): string {
  return `args-${rank}-${block}`;
}

/** Message for a request that needs individual events of a rank embedded as an overview. */
export function notEmbeddedMessage(rank: number): string {
  return (
    `Rank ${rank} is embedded as an overview only: this page does not hold its individual events. ` +
    "Save it again with a larger max_mb, or select in this rank before saving."
  );
}

/** `[offset, length, bytes of an item, flags]`. */
export type ColumnSpec = readonly [offset: number, length: number, width: number, flags: number];
