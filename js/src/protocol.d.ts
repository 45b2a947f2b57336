// Written by scripts/protocol.py from operations.py and replies.py.

import type { Kind, PanelFrame, SelectionJson } from "./protocol/values";

/** A range of tiles, from `first` up to but excluding `last`, in some lanes. */
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
 * The reply to a request that failed.
 *
 * `code` is the part that programs compare. `message` and `remedy` are sentences for users.
 * `detail` is the end of the stack trace of an `internal_error`.
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

/** A summary of an event. */
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

/** An event and its place; `track` is the track's key, `correlation` is -1 without one. */
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

/** An arrow of an event; `delay` is from the end of the source to the start of the target. */
export type Flow = {
  kind: string;
  direction: "out" | "in";
  brief: Brief;
  delay: number;
};

/** Durations of the events of one name and category on one rank. */
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
 * Events around the call that launched a device event; each list innermost first.
 *
 * `modules` are `nn.Module`s and `frames` Python functions. `shapes` describe the innermost
 * operator's inputs, as the file has them. `forward` is the operator of the forward pass, if the
 * call belongs to the backward pass.
 */
export type LaunchedBy = {
  operators: readonly Brief[];
  modules: readonly Brief[];
  frames: readonly Brief[];
  shapes: string;
  forward: Brief | null;
};

/**
 * Device events launched by the calls in a host event, at any depth.
 *
 * `dur` is the sum of their durations, and `delay` the median time from the start of a call to the
 * start of its event. `ids` is null if there are more events than a selection may name.
 */
export type LaunchedKernels = {
  count: number;
  dur: number;
  delay: number;
  ids: readonly number[] | null;
};

/**
 * The reply to `launches`: a device event's call, or the device events of a host event.
 *
 * `kernels` is empty if there are more than can be drawn; `count` is the number of all.
 */
export type Launches = {
  call: Brief | null;
  kernels: readonly Brief[];
  count: number;
};

/** The reply to `event`; the first of `parents` is the innermost. */
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
 * The figures of the operator call that an event belongs to, with all its kernels.
 *
 * The columns of `analysis.operator_efficiency` for one call: `device_ns` is the time of its
 * kernels. Unknown figures are null, with a `reason`.
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

/** The reply to `efficiency`; null for an event without figures, or a job without shapes. */
export type EfficiencyReply = {
  figures: CallFigures | null;
};

/** The reply to `cell`; `min` and `max` are a counter's, `count` is null if unknown. */
export type Cell = {
  count: number | null;
  busy: number;
  longest: Brief | null;
  kinds: Partial<Record<Kind, number>>;
  min?: number | null;
  max?: number | null;
};

/** Events of one name during a gap; `time` excludes nested events, `longest` has the most. */
export type HostTime = {
  longest: Brief;
  count: number;
  time: number;
};

/**
 * An interval in which no stream of a rank's device works.
 *
 * `causes` has the times of analysis.device_idle_gaps by cause, and `host` the names with the most
 * time on the thread that launches `ends`, or on the busiest one if that thread has no events;
 * both longest first. `host_time` is the sum over all names. `ends` is the work that ends the gap.
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

/** The part of a gap with one cause. */
export type CauseTime = {
  cause: string;
  time: number;
};

/** A lane's interval without device work; `running` is the work of other lanes, by name. */
export type LaneGap = {
  start: number;
  end: number;
  running: readonly HostTime[];
};

/**
 * The reply to `gap`; null while the device works, and before and after all of its work.
 *
 * `lane_gap` is the same for a lane alone, if the request names one.
 */
export type GapReply = {
  gap: Gap | null;
  lane_gap: LaneGap | null;
};

/**
 * The reply to `search`: the number of matches of each rank that has any.
 *
 * `left_out` has the number of events of each rank that is not in the page.
 */
export type MatchCount = {
  total: number;
  names: number;
  ranks: readonly [number, number][];
  error: string | null;
  left_out?: readonly [number, number][];
};

/** The reply to `find`; `index` counts from 1. */
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

/** Durations of the events of one kind. */
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

/** Durations of the events of one kind and name. */
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

/** The reply to `totals`; `names` has the names with the most time, of `names_total` names. */
export type Totals = {
  events: number;
  kinds: readonly Sums[];
  names: readonly NameSums[];
  names_total: number;
  left_out?: readonly number[];
};

/**
 * The reply to `stats`: the times of a window, one entry per rank.
 *
 * `data` is the part of the window inside the rank's range, `span` the part from its first device
 * work to its last, without the time between windows of a recording. `compute`, `exposed`,
 * `memory`, `unrecorded` and `idle` add up to `span`; `unrecorded` is time in which the device was
 * probably busy with work that is not in the file. `kinds` has shares of the spans of all ranks;
 * it is empty without device work.
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
 * The clock that is drawn, and how well ranks' clocks agree; see `analysis.clock_offsets`.
 *
 * `apart_ns` is the largest difference between the recorded clocks of ranks that collectives
 * connect. `residual_ns` is the largest deviation of a rank on the fitted clock: the median
 * distance of the ends of its collectives from the ends of the others. `is_off` is true if
 * recorded clocks deviate clearly more than the fitted one. `drift_ns` is the maximum distance
 * that drift causes between two ranks on the fitted clock; absent without a clear drift.
 */
export type ClockFacts = {
  is_fitted: boolean;
  apart_ns: number;
  residual_ns: number;
  is_off: boolean;
  drift_ns?: number;
};

/**
 * The reply to `lateness`: sums over the matched collectives of a window, by rank.
 *
 * `last` counts collectives at which the rank alone came last. `wait` is the union of its waits,
 * `exposed_wait` the part that no compute covers, `imposed` the wait of all others for it.
 * `wait_for_late` is the union of its waits at collectives at which one of `late` alone came last.
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

/** One rank's part in a collective; `arrival` is relative to the first rank's arrival. */
export type Member = {
  rank: number;
  id: number;
  arrival: number;
  wait: number;
  transfer: number;
};

/**
 * The same call on all ranks that take part.
 *
 * `number` counts from 1, `of` is the number of matched collectives. `size` is -1 if the file does
 * not have it, `last_rank` is -1 if several ranks came last together. `late` is relative to the
 * median arrival of the others.
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

/** The reply to `collective`; null for an event that is not matched. */
export type CollectiveOf = {
  collective: Collective | null;
};

/** A group of similar ranks; one represents the others. */
export type SimilarRanks = {
  representative: number;
  ranks: readonly number[];
  why: string;
};

/** A rank that differs from the others. */
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

/** The reply to `panels`; `left` has the panels that took too long: request them next. */
export type Panels = {
  panels: Record<string, PanelFrame>;
  errors?: Record<string, ErrorReply>;
  left?: readonly string[];
};

/** The reply to `heatmap`; its buffer has float64 values by rank and bin. */
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

/** The reply to `partner`: an event's status, its partner or -1, and its call path or -1. */
export type Partner = {
  status: string | null;
  rank: number;
  id: number;
  node: number;
};

/** The reply to `path_events` and `change_events`: (rank, id) before and after. */
export type PairEvents = {
  events: readonly (readonly [number, number][])[];
};

/** The reply to `classes`: events of each class by run, and the same by pair of ranks. */
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

/** The reply to `export`; `dropped` counts arrows whose other end is not in the file. */
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
