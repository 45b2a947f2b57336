// Written by scripts/protocol.py from hta_widgets/live/operations.py.

import type { SelectionJson } from "./protocol/source";

/** Tiles of some lanes: `first` to `last` (exclusive). */
export interface Part {
  lanes: readonly number[];
  first: number;
  last: number;
}

/** Requests by operation; with `within_ms` the answer may be pending. */
export interface Requests {
  /** Tiles of lanes, to draw them. */
  tiles: {
    level: number;
    parts: readonly Part[];
    most_bytes?: number | null;
    classed?: boolean;
    compact?: boolean;
    gzip?: boolean;
    within_ms?: number;
  };
  /** Device time of a window, by kind and rank. */
  stats: {
    start: number;
    end: number;
    ranks?: readonly number[] | null;
    within_ms?: number;
  };
  /** Device time of the whole job, in bins. */
  minimap: {
    bins: number;
    within_ms?: number;
  };
  /** All details of one event. */
  event: {
    rank: number;
    id: number;
    table?: "events" | "asyncs" | "instants";
    within_ms?: number;
  };
  /** The events of a lane in a window. */
  cell: {
    start: number;
    end: number;
    lane: number;
    within_ms?: number;
  };
  /** Count the events that match a text. */
  search: {
    text: string;
    within_ms?: number;
  };
  /** The next event that matches a text. */
  find: {
    text: string;
    from?: Record<string, unknown> | null;
    direction?: number;
    within_ms?: number;
  };
  /** Starts of events that match a text or a selection, in bins. */
  marks: {
    start: number;
    end: number;
    bins: number;
    lanes: readonly number[];
    text?: string;
    selection?: SelectionJson | null;
    within_ms?: number;
  };
  /** Counts and durations of a selection, by kind and name. */
  totals: {
    selection?: SelectionJson | null;
    within_ms?: number;
  };
  /** The event before or after another in its lane. */
  neighbor: {
    rank: number;
    id: number;
    table?: "events" | "asyncs" | "instants";
    direction?: number;
    within_ms?: number;
  };
  /** The nearest edge of an event in a lane. */
  snap: {
    lane: number;
    time: number;
    tolerance: number;
    within_ms?: number;
  };
  /** Waits and late arrivals of a window, by rank. */
  lateness: {
    start: number;
    end: number;
    within_ms?: number;
  };
  /** One call of a collective, on all ranks. */
  collective: {
    rank: number;
    id: number;
    within_ms?: number;
  };
  /** Lateness of each rank at collectives, in bins. */
  ribbon: {
    start: number;
    end: number;
    bins: number;
    ranks?: readonly number[] | null;
    within_ms?: number;
  };
  /** Groups of similar ranks. */
  clusters: {
    within_ms?: number;
  };
  /** Write a selection as a trace. */
  export: {
    path: string;
    overwrite?: boolean;
    selection?: SelectionJson | null;
    clip?: boolean;
    counters?: boolean;
    scrub?: boolean;
    within_ms?: number;
  };
  /** Write a page. */
  save_html: {
    path: string;
    overwrite?: boolean;
    max_mb?: number;
    within_ms?: number;
  };
  /** Data with which the page works without a kernel, in chunks. */
  offline: {
    chunk?: number | null;
    within_ms?: number;
  };
  /** Frames of a dashboard's panels. */
  panels: {
    panels: readonly string[];
    selection?: SelectionJson | null;
    top?: number | null;
    within_ms?: number;
  };
  /** One metric of each rank, in bins. */
  heatmap: {
    start: number;
    end: number;
    metric: string;
    bins: number;
    selection?: SelectionJson | null;
    within_ms?: number;
  };
  /** The headline; the trait `_headline` holds it after the reply. */
  headline: {
    within_ms?: number;
  };
  /** Bokeh items of panels. */
  figures: {
    panels: readonly string[];
    within_ms?: number;
  };
  /** A panel's table as a file. */
  table: {
    panel: string;
    format: "csv" | "parquet";
    within_ms?: number;
  };
  /** Write a panel's table. */
  export_table: {
    path: string;
    name: string;
    overwrite?: boolean;
    within_ms?: number;
  };
  /** One table of a comparison. */
  frame: {
    name: string;
    within_ms?: number;
  };
  /** Several tables of a comparison. */
  frames: {
    names: readonly string[];
    within_ms?: number;
  };
  /** The counterpart of an event in the other run. */
  partner: {
    of: 0 | 1;
    rank: number;
    id: number;
    pair?: number | null;
    within_ms?: number;
  };
  /** The longest pairs of device work in a window. */
  ties: {
    start: number;
    end: number;
    of: 0 | 1;
    most: number;
    within_ms?: number;
  };
  /** The calls of one path. */
  path_events: {
    node: number;
    pair?: number | null;
    within_ms?: number;
  };
  /** The calls of one change. */
  change_events: {
    row: number;
    pair?: number | null;
    within_ms?: number;
  };
  /** Count the events that were added, removed, changed and so on. */
  classes: {
    within_ms?: number;
  };
  /** Write both runs as one trace. */
  export_pair: {
    path: string;
    overwrite?: boolean;
    within_ms?: number;
  };
}
