// Written by scripts/protocol.py from operations.py and replies.py.

import type { Kind, PanelFrame, SelectionJson } from "./protocol/values";

/** A range of tiles in some lanes, from `first` up to but excluding `last`. */
export interface Part {
  lanes: readonly number[];
  first: number;
  last: number;
}

/** With `within_ms`, the answer may be pending. */
export type Timed = {
  within_ms?: number;
};

/** Requests by operation. */
export interface Requests {
  /** The tiles of some lanes, for drawing. */
  tiles: Timed & {
    level: number;
    parts: readonly Part[];
    most_bytes?: number | null;
    classed?: boolean;
    compact?: boolean;
    gzip?: boolean;
  };
  /** The device time in a window, by kind and rank. */
  stats: Timed & {
    start: number;
    end: number;
    ranks?: readonly number[] | null;
  };
  /** The device time of the whole job, in bins. */
  minimap: Timed & {
    bins: number;
  };
  /** All details of an event. */
  event: Timed & {
    rank: number;
    id: number;
    table?: "events" | "asyncs" | "instants";
  };
  /** The events of a lane in a window. */
  cell: Timed & {
    start: number;
    end: number;
    lane: number;
  };
  /** The reason why a rank's device or one of its lanes is idle at a given time. */
  gap: Timed & {
    rank: number;
    time: number;
    lane?: number | null;
  };
  /** The call that launched an event, and the work launched during the event. */
  launches: Timed & {
    rank: number;
    id: number;
  };
  /** The number of events that match the search text. */
  search: Timed & {
    text: string;
  };
  /** The next event that matches the search text. */
  find: Timed & {
    text: string;
    from?: Record<string, unknown> | null;
    direction?: number;
  };
  /** The bins of each lane with events that match the search text or a selection. */
  marks: Timed & {
    start: number;
    end: number;
    bins: number;
    lanes: readonly number[];
    text?: string;
    selection?: SelectionJson | null;
  };
  /** The number and total duration of selected events, by kind and name. */
  totals: Timed & {
    selection?: SelectionJson | null;
  };
  /** The previous or next event in the same lane. */
  neighbor: Timed & {
    rank: number;
    id: number;
    table?: "events" | "asyncs" | "instants";
    direction?: number;
  };
  /** The event edge in a lane that is nearest to a given time. */
  snap: Timed & {
    lane: number;
    time: number;
    tolerance: number;
  };
  /** The waiting time and late arrivals of each rank in a window. */
  lateness: Timed & {
    start: number;
    end: number;
  };
  /** A collective call, with its events on all ranks. */
  collective: Timed & {
    rank: number;
    id: number;
  };
  /** The FLOPs, bytes and rates of the operator call to which an event belongs. */
  efficiency: Timed & {
    rank: number;
    id: number;
  };
  /** The lateness of each rank at collectives, in bins. */
  ribbon: Timed & {
    start: number;
    end: number;
    bins: number;
    ranks?: readonly number[] | null;
  };
  /** Groups of ranks that behave similarly. */
  clusters: Timed;
  /** Write a selection to a trace file. */
  export: Timed & {
    path: string;
    overwrite?: boolean;
    selection?: SelectionJson | null;
    clip?: boolean;
    launches?: boolean;
    counters?: boolean;
    scrub?: boolean;
  };
  /** Write a page. */
  save_html: Timed & {
    path: string;
    overwrite?: boolean;
    max_mb?: number;
  };
  /** The data that the page needs to work without a kernel, in chunks. */
  offline: Timed & {
    chunk?: number | null;
  };
  /** Frames of dashboard panels. */
  panels: Timed & {
    panels: readonly string[];
    selection?: SelectionJson | null;
    top?: number | null;
  };
  /** A metric of each rank, in bins. */
  heatmap: Timed & {
    start: number;
    end: number;
    metric: string;
    bins: number;
    selection?: SelectionJson | null;
  };
  /** The headline. After the reply, the trait `_headline` contains it. */
  headline: Timed;
  /** The table of a panel as a file. */
  table: Timed & {
    panel: string;
    format: "csv" | "parquet";
  };
  /** Write the table of a panel to a file. */
  export_table: Timed & {
    path: string;
    name: string;
    overwrite?: boolean;
  };
  /** A frame of a comparison. */
  frame: Timed & {
    name: string;
  };
  /** Several frames of a comparison. */
  frames: Timed & {
    names: readonly string[];
  };
  /** The event in the other run that is matched with an event. */
  partner: Timed & {
    of: 0 | 1;
    rank: number;
    id: number;
    pair?: number | null;
  };
  /** The events of a call path. */
  path_events: Timed & {
    node: number;
    pair?: number | null;
  };
  /** The events of a change. */
  change_events: Timed & {
    row: number;
    pair?: number | null;
  };
  /** The number of events in each change class. */
  classes: Timed;
  /** Write both runs to a single trace file. */
  export_pair: Timed & {
    path: string;
    overwrite?: boolean;
  };
}

/**
 * The reply to a failed request.
 *
 * `code` is meant for programs, `message` and `remedy` for users. `detail` is the end of the stack
 * trace of an `internal_error`.
 */
export type ErrorReply = {
  code:
    | "connection_lost"
    | "file_exists"
    | "interrupted"
    | "internal_error"
    | "invalid_request"
    | "no_answer"
    | "unknown_op";
  message: string;
  remedy?: string;
  detail?: string;
};

/** The summary of an event. */
export type Brief = {
  rank: number;
  table: "events" | "asyncs" | "instants";
  id: number;
  lane: number;
  name: string;
  short: string;
  kind: Kind;
  start: number;
  dur: number;
};

/** An event and where it is drawn. `track` is a track key; `correlation` is -1 if unknown. */
export type DetailedEvent = {
  rank: number;
  table: "events" | "asyncs" | "instants";
  id: number;
  lane: number;
  name: string;
  short: string;
  kind: Kind;
  start: number;
  dur: number;
  category: string | null;
  process: string | null;
  track: string | null;
  depth: number | null;
  stream: number | null;
  step: number | null;
  correlation: number | null;
};

/** An arrow from or to an event; `delay` lasts from the source's end to the target's start. */
export type Flow = {
  kind: string;
  direction: "out" | "in";
  brief: Brief;
  delay: number;
};

/** Durations of the events with the same name and category on one rank. */
export type SameName = {
  count: number;
  sum: number;
  mean: number;
  median: number;
  min: number;
  max: number;
  edges: readonly number[];
  counts: readonly number[];
  scale: "linear" | "log";
};

/**
 * Events around the call that launched a device event. Lists start with the innermost.
 *
 * `modules` are of type `nn.Module`, `frames` are Python functions, and `shapes` are the input
 * shapes of the innermost operator, as written in the file. If the call belongs to a backward
 * pass, `forward` is the corresponding operator of the forward pass.
 */
export type LaunchedBy = {
  operators: readonly Brief[];
  modules: readonly Brief[];
  frames: readonly Brief[];
  shapes: string;
  forward: Brief | null;
};

/**
 * Device events launched by calls within a host event, at any depth.
 *
 * `dur` is their total duration, `delay` the median time from the start of a call to the start of
 * its event. `ids` is null if there are too many for a selection.
 */
export type LaunchedKernels = {
  count: number;
  dur: number;
  delay: number;
  ids: readonly number[] | null;
};

/**
 * The reply to `launches`: a device event's launch call, or a host event's device events.
 *
 * `kernels` is empty if there are too many to draw; `count` is their total number.
 */
export type Launches = {
  call: Brief | null;
  kernels: readonly Brief[];
  count: number;
};

/** The reply to `event`. `parents` are ordered from innermost to outermost. */
export type EventDetail = {
  event: DetailedEvent;
  parents: readonly Brief[];
  args: readonly [string, string][];
  args_error: string | null;
  flows: readonly Flow[];
  launched_by: LaunchedBy | null;
  kernels: LaunchedKernels | null;
  same: SameName | null;
};

/**
 * Figures for the operator call that an event belongs to, including all of its kernels.
 *
 * The fields are columns of `analysis.operator_efficiency`, for a single call. `device_ns` is the
 * total time of the call's kernels. Unknown figures are null, and `reason` states why.
 */
export type CallFigures = {
  call: Brief;
  kernels: number;
  device_ns: number;
  flops: number | null;
  least_bytes: number | null;
  tflop_per_s: number | null;
  gb_per_s: number | null;
  roofline_share: number | null;
  bound: string;
  above_peak: boolean;
  recompute: boolean;
  precision: string;
  certainty: string;
  reason: string;
  device: string;
  peak_source: string;
  peak_certainty: string;
};

/** The reply to `efficiency`: null if the event has no figures or the job lacks shapes. */
export type EfficiencyReply = {
  figures: CallFigures | null;
};

/** The reply to `cell`. `min` and `max` are set for counters; `count` is null if unknown. */
export type Cell = {
  count: number | null;
  busy: number;
  longest: Brief | null;
  kinds: Partial<Record<Kind, number>>;
  min?: number | null;
  max?: number | null;
};

/** Events of one name in a gap. `time` excludes nested events; `longest` has the most time. */
export type HostTime = {
  longest: Brief;
  count: number;
  time: number;
};

/**
 * An interval in which all streams of a device are idle.
 *
 * `causes` has the times by cause, as in analysis.device_idle_gaps, and `ends` is the work that
 * ends the gap. `host` has the names with the most time on the thread that launched `ends`, or on
 * the busiest thread if the launching thread has no events. The lists are in descending order of
 * time. `host_time` is the total over all names.
 */
export type Gap = {
  rank: number;
  start: number;
  end: number;
  causes: readonly CauseTime[];
  ends: Brief;
  launch: Brief | null;
  host: readonly HostTime[];
  host_time: number;
};

/** The time in a gap due to one cause. */
export type CauseTime = {
  cause: string;
  time: number;
};

/** An interval without work on a lane. `running` is the work on other lanes, by name. */
export type LaneGap = {
  start: number;
  end: number;
  running: readonly HostTime[];
};

/**
 * The reply to `gap`: null while the device works, before its first work and after its last.
 *
 * `lane_gap` is the gap on a single lane, if the request names a lane.
 */
export type GapReply = {
  gap: Gap | null;
  lane_gap: LaneGap | null;
};

/**
 * The reply to `search`: match counts of the ranks that have matches.
 *
 * `left_out` has the event counts of the ranks that are not in the page.
 */
export type MatchCount = {
  total: number;
  names: number;
  ranks: readonly [number, number][];
  error: string | null;
  left_out?: readonly [number, number][];
};

/** The reply to `find`. `index` is counted from 1. */
export type Match = {
  brief: Brief | null;
  index: number;
  total: number;
  wrapped: boolean;
  error: string | null;
};

/** The reply to `neighbor`. */
export type Neighbor = {
  brief: Brief | null;
};

/** The reply to `snap`. */
export type Snap = {
  time: number | null;
};

/** Statistics of the events of one kind. */
export type Sums = {
  kind: Kind;
  count: number;
  sum: number;
  mean: number;
  min: number;
  max: number;
  device: number;
  host: number;
};

/** Statistics of the events of one kind and name. */
export type NameSums = {
  kind: Kind;
  count: number;
  sum: number;
  mean: number;
  min: number;
  max: number;
  device: number;
  host: number;
  name: string;
  short: string;
};

/** The reply to `totals`. `names` has the names with the most time, out of `names_total`. */
export type Totals = {
  events: number;
  kinds: readonly Sums[];
  names: readonly NameSums[];
  names_total: number;
  left_out?: readonly number[];
};

/**
 * The reply to `stats`: times in a window, with one entry per rank.
 *
 * `data` is the part of the window in which the rank has data. `span` extends from its first to
 * its last device work in the window, excluding pauses between recording windows. `compute`,
 * `exposed`, `memory`, `unrecorded` and `idle` add up to `span`; in `unrecorded` time, the device
 * was probably busy with work missing from the file. `kinds` has shares of the total span of all
 * ranks, and is empty without device work.
 */
export type Stats = {
  start: number;
  end: number;
  ranks: readonly number[];
  compute: readonly number[];
  communication: readonly number[];
  exposed: readonly number[];
  memory: readonly number[];
  data: readonly number[];
  span: readonly number[];
  idle: readonly number[];
  unrecorded: readonly number[];
  kinds: Partial<Record<Kind, number>>;
  approximate?: readonly number[];
};

/**
 * The clock in use, and how well the clocks of ranks agree. See `analysis.clock_offsets`.
 *
 * `apart_ns` is the largest difference between the recorded clocks of ranks that take part in
 * common collectives. `residual_ns` is the largest deviation of a rank on the fitted clock,
 * defined as the median distance of the ends of its collectives from the ends on other ranks.
 * `is_off` is true if the recorded clocks deviate clearly more than the fitted ones. `drift_ns` is
 * the largest distance between two ranks due to drift on the fitted clock. It is absent if the
 * drift is not clear.
 */
export type ClockFacts = {
  is_fitted: boolean;
  apart_ns: number;
  residual_ns: number;
  is_off: boolean;
  drift_ns?: number;
};

/**
 * The reply to `lateness`: sums over the matched collectives in a window, by rank.
 *
 * `last` counts collectives in which the rank alone came last. `wait` is the union of its waits,
 * `exposed_wait` the part not covered by compute, and `imposed` the wait of all other ranks for
 * it. `wait_for_late` is the union of its waits at collectives in which a rank in `late` alone
 * came last.
 */
export type Lateness = {
  start: number;
  end: number;
  ranks: readonly number[];
  collectives: readonly number[];
  last: readonly number[];
  wait: readonly number[];
  exposed_wait: readonly number[];
  imposed: readonly number[];
  wait_for_late: readonly number[];
  late: readonly number[];
  note: string;
  clock: ClockFacts | null;
  approximate?: readonly number[];
};

/** A rank's part in a collective. `arrival` is relative to the first arrival on any rank. */
export type Member = {
  rank: number;
  id: number;
  arrival: number;
  wait: number;
  transfer: number;
};

/**
 * The same call on all participating ranks.
 *
 * `number` is counted from 1, up to the number of matched collectives, `of`. `size` is -1 if the
 * file does not state it, `last_rank` is -1 if several ranks came last at the same time. `late` is
 * relative to the median arrival of the other ranks.
 */
export type Collective = {
  number: number;
  of: number;
  name: string;
  group: string;
  size: number;
  algbw: number | null;
  busbw: number | null;
  last_rank: number;
  late: number;
  ranks: readonly Member[];
};

/** The reply to `collective`: null if the event is not matched. */
export type CollectiveOf = {
  collective: Collective | null;
};

/** Similar ranks, and the rank that represents them. */
export type SimilarRanks = {
  representative: number;
  ranks: readonly number[];
  why: string;
};

/** A rank that is not similar to the other ranks. */
export type Outlier = {
  rank: number;
  why: string;
};

/** The reply to `clusters`. */
export type Clusters = {
  clusters: readonly SimilarRanks[];
  outliers: readonly Outlier[];
  note: string;
};

/** The reply to `panels`. `left` has panels that were not ready in time; request them next. */
export type Panels = {
  panels: Record<string, PanelFrame>;
  errors?: Record<string, ErrorReply>;
  left?: readonly string[];
};

/** The reply to `heatmap`. Its buffer has float64 values by rank and bin. */
export type Heatmap = {
  ranks: readonly number[];
  start: number;
  end: number;
  bins: number;
  exact: boolean;
  attrs: Record<string, unknown>;
};

/** The reply to `frames`. */
export type Frames = {
  frames: Record<string, PanelFrame>;
};

/** The reply to `partner`: an event's status, partner and call path; -1 if it has none. */
export type Partner = {
  status: string | null;
  rank: number;
  id: number;
  node: number;
};

/** The reply to `path_events` and `change_events`: (rank, id) pairs, before and after. */
export type PairEvents = {
  events: readonly (readonly [number, number][])[];
};

/** The reply to `classes`: event counts per run and class, and per pair of ranks. */
export type ClassCounts = {
  counts: readonly (readonly number[])[];
  pair_counts: readonly (readonly (readonly number[])[])[];
};

/** The reply to `save_html`, `export_pair` and `export_table`. */
export type Written = {
  path: string;
  bytes?: number;
  events?: number;
};

/** The reply to `export`. `dropped` counts arrows to events that are not in the file. */
export type Exported = {
  path: string;
  bytes: number;
  events: number;
  flows: number;
  dropped: number;
};

/** Replies by operation. */
export interface Replies {
  stats: Stats;
  event: EventDetail;
  efficiency: EfficiencyReply;
  cell: Cell;
  gap: GapReply;
  launches: Launches;
  search: MatchCount;
  find: Match;
  totals: Totals;
  neighbor: Neighbor;
  snap: Snap;
  lateness: Lateness;
  collective: CollectiveOf;
  clusters: Clusters;
  panels: Panels;
  heatmap: Heatmap;
  frame: PanelFrame;
  frames: Frames;
  partner: Partner;
  path_events: PairEvents;
  change_events: PairEvents;
  classes: ClassCounts;
  save_html: Written;
  export_pair: Written;
  export_table: Written;
  export: Exported;
}
