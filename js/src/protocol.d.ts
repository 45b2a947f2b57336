// Written by scripts/protocol.py from hta_widgets/live/operations.py.

/** Tiles of some lanes: `first` to `last` (exclusive). */
export interface Part {
  lanes: number[];
  first: number;
  last: number;
}

/** Requests by the name of their operation. */
export interface Requests {
  /** Tiles of lanes, to draw them. */
  tiles: {
    level: number;
    parts: Part[];
    most_bytes?: number | null;
    classed?: boolean;
    compact?: boolean;
    gzip?: boolean;
  };
  /** Device time of a window, by kind and rank. */
  stats: {
    start: number;
    end: number;
    ranks?: number[] | null;
  };
  /** Device time of the whole job, in bins. */
  minimap: {
    bins: number;
  };
  /** All about one event. */
  event: {
    rank: number;
    id: number;
    table?: "events" | "asyncs" | "instants";
  };
  /** The events of a lane in a window. */
  cell: {
    start: number;
    end: number;
    lane: number;
  };
  /** Count the events that match a text. */
  search: {
    text: string;
  };
  /** The next event that matches a text. */
  find: {
    text: string;
    from?: Record<string, unknown> | null;
    direction?: number;
  };
  /** Starts of events that match a text or a selection, in bins. */
  marks: {
    start: number;
    end: number;
    bins: number;
    lanes: number[];
    text?: string;
    selection?: Record<string, unknown> | null;
  };
  /** Counts and durations of a selection, by kind and name. */
  totals: {
    selection?: Record<string, unknown> | null;
  };
  /** The event before or after another in its lane. */
  neighbor: {
    rank: number;
    id: number;
    table?: "events" | "asyncs" | "instants";
    direction?: number;
  };
  /** The nearest edge of an event in a lane. */
  snap: {
    lane: number;
    time: number;
    tolerance: number;
  };
  /** Waits and late arrivals of a window, by rank. */
  lateness: {
    start: number;
    end: number;
  };
  /** One call of a collective, on all ranks. */
  collective: {
    rank: number;
    id: number;
  };
  /** Lateness of each rank at collectives, in bins. */
  ribbon: {
    start: number;
    end: number;
    bins: number;
    ranks?: number[] | null;
  };
  /** Groups of similar ranks. */
  clusters: object;
  /** Write a selection as a trace. */
  export: {
    path: string;
    selection?: Record<string, unknown> | null;
    clip?: boolean;
    counters?: boolean;
    scrub?: boolean;
  };
  /** Write a page. */
  save_html: {
    path: string;
    max_mb?: number;
  };
  /** Data with which the page works without a kernel, in chunks. */
  offline: {
    chunk?: number | null;
  };
  /** Frames of a dashboard's panels. */
  panels: {
    panels: string[];
    selection?: Record<string, unknown> | null;
    top?: number | null;
  };
  /** One metric of each rank, in bins. */
  heatmap: {
    start: number;
    end: number;
    metric: string;
    bins: number;
    selection?: Record<string, unknown> | null;
  };
  /** The headline; the trait `_headline` holds it after the reply. */
  headline: object;
  /** Bokeh items of panels. */
  figures: {
    panels: string[];
  };
  /** A panel's table as a file. */
  table: {
    panel: string;
    format: "csv" | "parquet";
  };
  /** Write a panel's table. */
  export_table: {
    name: string;
    path: string;
  };
  /** One table of a comparison. */
  frame: {
    name: string;
  };
  /** Several tables of a comparison. */
  frames: {
    names: string[];
  };
  /** The counterpart of an event in the other run. */
  partner: {
    of: 0 | 1;
    rank: number;
    id: number;
    pair?: number | null;
  };
  /** The longest pairs of device work in a window. */
  ties: {
    start: number;
    end: number;
    of: 0 | 1;
    most: number;
  };
  /** The calls of one path. */
  path_events: {
    node: number;
    pair?: number | null;
  };
  /** The calls of one change. */
  change_events: {
    row: number;
    pair?: number | null;
  };
  /** Count the events that were added, removed, changed and so on. */
  classes: object;
  /** Write both runs as one trace. */
  export_pair: {
    path: string;
  };
}
