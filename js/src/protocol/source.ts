/** Types shared by the parts of the page. Times are integer nanoseconds since the origin. */

import type {
  Brief,
  ErrorReply,
  EventDetail,
  Flow,
  Replies,
  Requests,
  Sums,
  Totals,
} from "../protocol.d";
import type { Kind, PanelFrame, SelectionJson } from "./values";

export type * from "../protocol.d";
export type * from "./values";

/** A half-open time window. */
export type Span = readonly [start: number, end: number];

export type TableName = Brief["table"];

export interface ReadProblem {
  kind: string;
  count: number;
  detail: string;
  rank: number | null;
  file: string | null;
}

export interface SceneTrack {
  /** Unique within the rank; equals the value in the `track` column of events. */
  key: string;
  process: string;
  label: string;
  role: "thread" | "stream" | "annotation" | "counter" | "async" | "instant" | "other";
  lane0: number;
  lanes: number;
  /** Number of lanes for nested events. The lanes after them hold partly overlapping events. */
  nested: number;
  events: number;
  /** Whether the track contains only communication kernels. */
  communication: boolean;
  /** For counters, the range of the values. */
  range?: [number, number];
  unit?: string;
  /** For communication tracks in multi-rank jobs: lanes drawn over this lane. */
  wait?: number;
  late?: number;
  /** First depth and number of depths of each stack of Python frames that one row can show. */
  stacks?: readonly (readonly [number, number])[];
}

export interface SceneRank {
  rank: number;
  label: string;
  host: string | null;
  file: string;
  events: number;
  /** First start and last end. Time outside has no data, so it does not count as idle. */
  range: [number, number];
  /** Why the data is incomplete, if the file ends early. */
  truncated: string | null;
  /** Word for the rank's devices, such as `NPU`, if they are not GPUs. */
  device?: string;
  /**
   * For ranks without individual events in saved pages. Cells finer than 2^this ns are not
   * embedded, and tiles of finer levels spread the values evenly.
   */
  overview_level?: number;
  problems: number;
  /** Lanes of the folded row. `gpu` and `comm` occur only if the rank has such events. */
  summary: {
    lane: number;
    role: "gpu" | "comm" | "cpu";
    label: string;
    /** For `comm` in multi-rank jobs: lanes drawn over this lane. */
    wait?: number;
    late?: number;
  }[];
  tracks: SceneTrack[];
}

export interface SceneStep {
  name: string;
  start: number;
  dur: number;
}

export interface Scene {
  version: 1;
  title: string;
  events: number;
  /** First start and last end over all ranks; the window, if the job is an export. */
  range: [number, number];
  /** About the original job, as recorded in the files of an export. */
  part?: { job_ranks: number; all_time: boolean; all_events: boolean; cut_events: number } | null;
  /** Set if the ranks' clocks were aligned using their collectives. */
  clock?: "fitted";
  kinds: Kind[];
  /** `5 of 8 ranks` if the files of some ranks are missing; otherwise "". */
  ranks_of_job?: string;
  /** Why events cannot be colored by what limits them; "" if they can. */
  without_bounds?: string;
  /** Event kinds on ranks without device work. */
  host_kinds?: Kind[];
  ranks: SceneRank[];
  lanes: number;
  steps: SceneStep[];
  phases: SceneStep[];
  truth: { level: "ok" | "warn"; text: string; problems: ReadProblem[] };
  /** The part of the job that a saved page contains. */
  embedded?: {
    level: "all" | "partial";
    text: string;
    /** Ranks with all their events, and the subset that also has arguments. */
    ranks_full: number[];
    ranks_args: number[];
  };
}

/** The part that the figures cover: the whole job, the timeline's window, or the selection. */
export type FigureScope = "job" | "view" | "selection";

/** The property by which a timeline colors events. */
export type TimelineColor = "kind" | "name" | "bound";

/** The state shared by all views of a job. */
export interface SharedState {
  view: [number, number] | null;
  selection: SelectionJson | null;
  selected_event: [number, number] | null;
  search: string;
  color: TimelineColor;
  pinned: string[];
  /** The panel that set the selected ranks; "" if Python set them or none are set. */
  ranks_from: string;
  scope: FigureScope;
}

export interface Reply<Body extends object = Record<string, unknown>> {
  reply: Body;
  buffer: ArrayBuffer | null;
}

export type Answer<Op extends Operation> = Reply<
  Op extends keyof Replies ? Replies[Op] : Record<string, unknown>
>;

export type Operation = keyof Requests;

/** Operations that write files. They must not be repeated. */
export const WRITE_OPERATIONS = new Set(["export", "export_pair", "export_table", "save_html"]);

/** Answers requests: the kernel, or data embedded in the page. */
export interface Source {
  /** Return the reply, or reject with an Error whose message can be shown to users. */
  ask<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal?: AbortSignal,
  ): Promise<Answer<Op>>;
  /**
   * "live" if a kernel answers, "busy" if it has not answered for a while, "none" without a kernel.
   * Effects that read the status run again when it changes.
   */
  readonly status: "live" | "busy" | "none";
}

export type ThemeName = "light" | "dark";

/** A drawn event rectangle. */
export interface Slice {
  lane: number;
  id: number;
  name: string;
  kind: Kind;
  start: number;
  dur: number;
  flags: number;
  /** For matched collectives, how long the rank waits for the other ranks. */
  wait?: number;
}

/** A row of the layout: the head of a rank, a track, or a folded rank. */
export interface RowInfo {
  rank: number;
  /** Null for a folded rank, and for the head of an opened rank. */
  track: SceneTrack | null;
  /** Offset from the top of the stage at the current scroll position, in CSS px. */
  top: number;
  height: number;
  open: boolean;
  pinned: boolean;
  /** For a row of several ranks, all of these ranks, including `rank`. */
  memberRanks?: readonly number[];
  /** What a click on the badge does: fold or unfold similar ranks. Missing without a badge. */
  badge?: "fold" | "unfold";
  /** Number of lanes without events in view, which are drawn as thin lines. */
  thinLanes?: number;
  /** Whether each stack of Python frames has a single row; missing if there are no stacks. */
  stacks?: "folded" | "open";
}

/** Groups of similar ranks. In each group, the row of one rank represents the whole group. */
export interface RankGroups {
  /** The ranks of each group in ascending order, keyed by the rank that represents the group. */
  readonly groups: ReadonlyMap<number, readonly number[]>;
  /** The ranks whose group is currently unfolded, although they represent it. */
  readonly unfolded: ReadonlySet<number>;
  /** For each rank without a row, the rank that represents it. */
  readonly hidden: ReadonlyMap<number, number>;
  /** Why a rank is not folded together with most others, in words. */
  readonly reasons: ReadonlyMap<number, string>;
}

/** The item under a point of the canvas. */
export interface StageHit {
  region: "gutter" | "lanes" | "margin" | "axis" | "minimap" | "strip" | "none";
  time: number;
  row: RowInfo | null;
  lane: number | null;
  slice: Slice | null;
  /** The cell at a point outside rectangles: its exact window, and its values in the tile. */
  cell: { start: number; end: number; busy: number; count: number; kind: Kind | null } | null;
  /** The line from the arrival of the other ranks to the start of a late kernel. */
  late?: Slice | null;
  step: SceneStep | null;
  /** On the ribbon of late arrivals, the mark at this point. */
  arrival?: Arrival | null;
  /** Whether the point is on the badge of a row that shows several ranks. */
  badge?: boolean;
  /** Whether the point is on the name of a stack of Python frames. */
  stack?: boolean;
}

/** Everything that is drawn above the lanes. */
export interface Overlay {
  hover: { lane: number; start: number; dur: number } | null;
  selected: Brief | null;
  flows: { kind: string; from: Brief; to: Brief }[];
  /** Arrows of the event under the pointer. */
  launches: { from: Brief; to: Brief }[];
  /** Time and rank of the last arrival at the selected collective. */
  collective: { time: number; rank: number } | null;
  selection: SelectionJson | null;
  /** The box of the current drag: a time range, and the rows it covers, if any. */
  brush: { start: number; end: number; ranks: number[] | null; tracks: string[] | null } | null;
  ruler: { start: number; end: number; y: number } | null;
  /** Vertical marks set with M. The next mark replaces all marks that are not `kept`. */
  timeMarks: { start: number; end: number; kept: boolean }[];
  /** The search text whose matches are marked above the lanes; "" if there is none. */
  search: string;
  /** Number of search matches per rank, if known. */
  hits?: ReadonlyMap<number, number>;
  /** Kinds switched off in the legend. They are drawn pale but still included in figures. */
  dimmed: ReadonlySet<Kind>;
  /** Window of the figures per rank, with its name. Default: the view. */
  figures?: FigureWindow | null;
}

export interface FigureWindow {
  span: Span;
  /** `whole job` or `selection`. */
  label: string;
}

export interface RowState {
  /** Ranks that are opened to show their tracks. */
  open: ReadonlySet<number>;
  /** "5" for a rank, "5/GPU 0 · stream 7" for a track. */
  pinned: readonly string[];
  /** Regular expression for "rank 5", process, label and host; "" shows all rows. */
  filter: string;
  /** Groups of similar ranks that share a row; missing if none are folded. */
  rankGroups?: RankGroups | null;
  /** The ranks that have rows, in addition to pinned ranks; null or undefined for all. */
  onlyRanks?: ReadonlySet<number> | null;
  /** Whether lanes without events in view keep their full height. */
  keepEmptyLanes?: boolean;
  /** Tracks with unfolded stacks of Python frames, in the same form as `pinned`. */
  openStacks?: ReadonlySet<string>;
}

/** Texts around a picture. */
export interface SvgCaption {
  title: string;
  /** Description of what the picture shows. */
  summary: string;
  /** A sentence above everything else; "" if there is none. */
  headline: string;
}

export interface FrameStats {
  lanes: number;
  pending: boolean;
}

/** A request that failed with a reply. Callers compare `code`; users read the message. */
export class RequestError extends Error {
  readonly code: ErrorReply["code"];

  constructor({ code, message, remedy = "" }: ErrorReply) {
    super(`${message} ${remedy}`.trim());
    this.code = code;
  }
}

export function hasErrorCode(error: unknown, code: ErrorReply["code"]): boolean {
  return error instanceof RequestError && error.code === code;
}

export function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}

export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

// The reply to an `event` request.

/** Return an event's arrows, each from its start to its end. */
export function flowArrows(detail: EventDetail): { kind: string; from: Brief; to: Brief }[] {
  return detail.flows.map((flow) =>
    flow.direction === "out"
      ? { kind: flow.kind, from: detail.event, to: flow.brief }
      : { kind: flow.kind, from: flow.brief, to: detail.event },
  );
}

/** Return a flow's label as seen from this event. */
export function flowLabel(flow: Pick<Flow, "kind" | "direction">): string {
  const into = flow.direction === "in";
  if (flow.kind === "launch") return into ? "Launched by" : "Launches";
  if (flow.kind === "fwdbwd") return into ? "Forward" : "Backward";
  return into ? `From (${flow.kind})` : `To (${flow.kind})`;
}

// The reply to a `totals` request, and how its tables are sorted.

export type TotalsColumn = "name" | "count" | "sum" | "mean" | "min" | "max";

/** Device work first and enclosing events such as steps last; within each, longest first. */
export const BY_WORK = "work";

export interface TotalsOrder {
  column: TotalsColumn | typeof BY_WORK;
  descending: boolean;
}

/** Return the order after a click on a column header. Numbers are in descending order at first. */
export function nextOrder(order: TotalsOrder, column: TotalsColumn): TotalsOrder {
  if (order.column === column) return { column, descending: !order.descending };
  return { column, descending: column !== "name" };
}

export function sortTotals<T extends Sums>(
  rows: readonly T[],
  order: TotalsOrder,
  label: (row: T) => string,
): T[] {
  const sign = order.descending ? -1 : 1;
  const { column } = order;
  const compareLabels = (a: T, b: T): number => label(a).localeCompare(label(b));
  const compare = (a: T, b: T): number => {
    if (column === "name") return compareLabels(a, b);
    if (column === BY_WORK) return kindPriority(b.kind) - kindPriority(a.kind) || a.sum - b.sum;
    return a[column] - b[column];
  };
  // Rows that compare equal keep the same order on every click.
  return [...rows].sort((a, b) => sign * compare(a, b) || compareLabels(a, b));
}

const DEVICE_KINDS: readonly Kind[] = ["compute", "communication", "memory"];
const ENCLOSING_KINDS: readonly Kind[] = ["annotation", "other"];

function kindPriority(kind: Kind): number {
  if (DEVICE_KINDS.includes(kind)) return 0;
  return ENCLOSING_KINDS.includes(kind) ? 2 : 1;
}

/**
 * Return the kinds that summarize a selection: device kinds, which do not nest, or host kinds if
 * there is no device. Sums over nested events count time more than once and would come first.
 */
export function mainKinds(totals: Totals): Sums[] {
  const device = totals.kinds.filter((row) => DEVICE_KINDS.includes(row.kind) && row.sum > 0);
  const rows = device.length > 0 ? device : totals.kinds.filter((row) => row.sum > 0);
  return [...rows].sort((a, b) => b.sum - a.sum).slice(0, 2);
}

// Changes of the selection by charts, and the part they mark.

/** A change of the selection by a view. Null clears a dimension; missing dimensions are kept. */
export interface Brush {
  ranks?: number[] | null;
  names?: string[] | null;
  kinds?: string[] | null;
  window?: [number, number] | null;
  /** Whether `names` are operators, so that the work they launched is also selected. */
  launches?: boolean;
}

/** The current selection in each dimension; null selects everything. */
export interface ChartSelection {
  ranks: readonly number[] | null;
  names: readonly string[] | null;
  kinds: readonly string[] | null;
  window: [number, number] | null;
}

/** A drawn chart. It shows a whole frame and marks the selected part. */
export interface ChartPanel {
  readonly el: HTMLElement;
  show(frame: PanelFrame, selection: ChartSelection): void;
  toPng(): Promise<Blob>;
  toSvg(): Promise<Blob>;
  destroy(): void;
}

export interface ClassStyle {
  color: string;
  /** Whether it is drawn as diagonal lines in the color on a pale background. */
  hatched: boolean;
  /** Whether it is paler than other classes. */
  faint?: boolean;
}

export interface ClassPalette {
  legend(theme: ThemeName): readonly { name: string; styles: readonly ClassStyle[] }[];
  /** Styles per class. The last style is for events whose class is unknown. */
  styles(theme: ThemeName): readonly ClassStyle[];
}

export interface ClassShares {
  /** The window that is divided into parts, in ns since the origin. */
  start: number;
  end: number;
  /** The share (0 … 1) of each class in each part of the window. The first class is lowest. */
  shares: readonly (readonly [code: number, share: readonly number[]])[];
}

/** The values of a mark on a ribbon. */
export interface Arrival {
  /** Name and number of the collective, and the total number of collectives. */
  name: string;
  call: number;
  of: number;
  /** The late rank and its event. The rank is -1 if several ranks came last at the same time. */
  rank: number;
  id: number;
  /** Delay after the median rank in ns; in the job's row, the mean wait of the other ranks. */
  ns: number;
  ofJob: boolean;
}
