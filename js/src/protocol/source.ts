/** Types that the parts of the page share. Times are integer nanoseconds since the origin. */

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

/** Half-open window of time. */
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
  /** Unique within the rank; the value of the events' `track` column. */
  key: string;
  process: string;
  label: string;
  role: "thread" | "stream" | "annotation" | "counter" | "async" | "instant" | "other";
  lane0: number;
  lanes: number;
  /** Number of lanes for nested events; the lanes after them are for other overlapping events. */
  nested: number;
  events: number;
  /** True if the track has communication kernels only. */
  communication: boolean;
  /** Counters only: the range of the values. */
  range?: [number, number];
  unit?: string;
  /** Communication tracks of jobs with several ranks: lanes drawn over this one. */
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
  /** First start and last end. Times outside have no data, and are not known to be idle. */
  range: [number, number];
  /** Set if the file ends early. */
  truncated: string | null;
  /** The word for its devices, such as `NPU`, if they are not GPUs. */
  device?: string;
  /**
   * Only in saved pages, for ranks without individual events: cells finer than 2^this ns are not
   * embedded, and tiles of finer levels spread the values evenly.
   */
  overview_level?: number;
  problems: number;
  /** Lanes of the folded row. `gpu` and `comm` only if the rank has such events. */
  summary: {
    lane: number;
    role: "gpu" | "comm" | "cpu";
    label: string;
    /** `comm` of jobs with several ranks: lanes drawn over this one. */
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
  /** First start and last end of all ranks; for an export, its window. */
  range: [number, number];
  /** Description of the original job, recorded in the files of an export. */
  part?: { job_ranks: number; all_time: boolean; all_events: boolean; cut_events: number } | null;
  /** Set if times are on the clock that is fitted from the collectives of the ranks. */
  clock?: "fitted";
  kinds: Kind[];
  /** `5 of 8 ranks` if the files of some ranks are missing; else empty. */
  ranks_of_job?: string;
  /** Why events cannot be coloured by what limits them; "" if they can. */
  without_bounds?: string;
  /** Kinds of events of ranks without device work. */
  host_kinds?: Kind[];
  ranks: SceneRank[];
  lanes: number;
  steps: SceneStep[];
  phases: SceneStep[];
  truth: { level: "ok" | "warn"; text: string; problems: ReadProblem[] };
  /** Only in saved pages: the part of the job that is in the page. */
  embedded?: {
    level: "all" | "partial";
    text: string;
    /** Ranks with all their events, and those with arguments as well. */
    ranks_full: number[];
    ranks_args: number[];
  };
}

/** The scope of figures: the whole job, the timeline's window, or the selection. */
export type FigureScope = "job" | "view" | "selection";

/** The property that colours the events of a timeline. */
export type TimelineColor = "kind" | "name" | "bound";

/** State that all views of a job share. */
export interface SharedState {
  view: [number, number] | null;
  selection: SelectionJson | null;
  selected_event: [number, number] | null;
  search: string;
  color: TimelineColor;
  pinned: string[];
  /** The panel that chose the selection's ranks; "" if Python did, or if none are chosen. */
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

/** Operations that write files; they must not be repeated. */
export const WRITE_OPERATIONS = new Set(["export", "export_pair", "export_table", "save_html"]);

/** Handler of requests: the kernel, or data embedded in the page. */
export interface Source {
  /** Return the reply; reject with an Error whose message can be shown to users. */
  ask<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal?: AbortSignal,
  ): Promise<Answer<Op>>;
  /**
   * "live" if a kernel answers, "busy" if it has not answered for a while, "none" without a kernel.
   * Effects can depend on it.
   */
  readonly status: "live" | "busy" | "none";
}

export type ThemeName = "light" | "dark";

/** One drawn event rectangle. */
export interface Slice {
  lane: number;
  id: number;
  name: string;
  kind: Kind;
  start: number;
  dur: number;
  flags: number;
  /** Matched collectives only: the part in which the rank waits for others. */
  wait?: number;
}

/** One line of the layout: a rank's head, a track, or a folded rank. */
export interface RowInfo {
  rank: number;
  /** Null for a folded rank and for the head of an opened one. */
  track: SceneTrack | null;
  /** Offset in the stage, CSS px, at the current scroll position. */
  top: number;
  height: number;
  open: boolean;
  pinned: boolean;
  /** All ranks of a row that represents several, including `rank`. */
  memberRanks?: readonly number[];
  /** Effect of a click on the badge: fold similar ranks, or unfold them. Absent for no badge. */
  badge?: "fold" | "unfold";
  /** Lanes without events in view, drawn as thin lines. */
  thinLanes?: number;
  /** Whether stacks of Python frames have one row each; absent: there are none. */
  stacks?: "folded" | "open";
}

/** Groups of similar ranks. One rank of each group has a row and represents the rest of the group. */
export interface RankGroups {
  /** Ranks of a group, ascending, by the rank that represents them. */
  readonly groups: ReadonlyMap<number, readonly number[]>;
  /** Groups that are not folded, by the rank that represents them. */
  readonly unfolded: ReadonlySet<number>;
  /** Ranks without a row, with the rank that represents each. */
  readonly hidden: ReadonlyMap<number, number>;
  /** Why a rank is not folded with most others, in words. */
  readonly reasons: ReadonlyMap<number, string>;
}

/** Item under a point of the canvas. */
export interface StageHit {
  region: "gutter" | "lanes" | "margin" | "axis" | "minimap" | "strip" | "none";
  time: number;
  row: RowInfo | null;
  lane: number | null;
  slice: Slice | null;
  /** Cell at a point outside of rectangles: its exact window, and its values in the tile. */
  cell: { start: number; end: number; busy: number; count: number; kind: Kind | null } | null;
  /** The line from the arrival of the other ranks to the start of a late kernel. */
  late?: Slice | null;
  step: SceneStep | null;
  /** On a ribbon of late arrivals: the mark there. */
  arrival?: Arrival | null;
  /** The point is on the badge of a row that represents several ranks. */
  badge?: boolean;
  /** The point is on the name of a stack of Python frames. */
  stack?: boolean;
}

/** Everything drawn on top of the lanes. */
export interface Overlay {
  hover: { lane: number; start: number; dur: number } | null;
  selected: Brief | null;
  flows: { kind: string; from: Brief; to: Brief }[];
  /** Arrows of the event under the pointer. */
  launches: { from: Brief; to: Brief }[];
  /** Last arrival at the selected collective: its time and its rank. */
  collective: { time: number; rank: number } | null;
  selection: SelectionJson | null;
  /** Box of the current drag: a time range, and optionally rows. */
  brush: { start: number; end: number; ranks: number[] | null; tracks: string[] | null } | null;
  ruler: { start: number; end: number; y: number } | null;
  /** Vertical marks set with M; the next mark replaces those that are not `kept`. */
  timeMarks: { start: number; end: number; kept: boolean }[];
  /** Search text whose hits are marked above the lanes; "" for none. */
  search: string;
  /** Hits of the search by rank, if known. */
  hits?: ReadonlyMap<number, number>;
  /** Kinds that the user switched off in the legend. They are drawn pale; numbers still include them. */
  dimmed: ReadonlySet<Kind>;
  /** Window of the figures per rank, and its name; absent: the view. */
  figures?: FigureWindow | null;
}

export interface FigureWindow {
  span: Span;
  /** `whole job`, `selection`. */
  label: string;
}

export interface RowState {
  /** Ranks that are opened into their tracks. */
  open: ReadonlySet<number>;
  /** "5" for a rank, "5/GPU 0 · stream 7" for a track. */
  pinned: readonly string[];
  /** Regular expression over "rank 5", process, label and host; "" shows all. */
  filter: string;
  /** Groups of similar ranks folded into one row; absent: none are folded. */
  rankGroups?: RankGroups | null;
  /** Ranks that have rows, as pinned ranks do; null or undefined: all. */
  onlyRanks?: ReadonlySet<number> | null;
  /** Whether lanes without events in view have their full height. */
  keepEmptyLanes?: boolean;
  /** Tracks whose stacks of Python frames are unfolded, as in `pinned`. */
  openStacks?: ReadonlySet<string>;
}

/** Texts around a picture. */
export interface SvgCaption {
  title: string;
  /** Description of the picture's content. */
  summary: string;
  /** A sentence above all; "" for none. */
  headline: string;
}

export interface FrameStats {
  lanes: number;
  pending: boolean;
}

/** A request that failed with a reply; callers compare `code`, and users read the message. */
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

// The reply of op `event`.

/** Arrows of an event, from where they start to where they end. */
export function flowArrows(detail: EventDetail): { kind: string; from: Brief; to: Brief }[] {
  return detail.flows.map((flow) =>
    flow.direction === "out"
      ? { kind: flow.kind, from: detail.event, to: flow.brief }
      : { kind: flow.kind, from: flow.brief, to: detail.event },
  );
}

/** Label of a flow, seen from this event. */
export function flowLabel(flow: Pick<Flow, "kind" | "direction">): string {
  const into = flow.direction === "in";
  if (flow.kind === "launch") return into ? "Launched by" : "Launches";
  if (flow.kind === "fwdbwd") return into ? "Forward" : "Backward";
  return into ? `From (${flow.kind})` : `To (${flow.kind})`;
}

// The reply of op `totals`, and how its tables are sorted.

export type TotalsColumn = "name" | "count" | "sum" | "mean" | "min" | "max";

/** Order with device work first and enclosing events such as steps last; the longest first. */
export const BY_WORK = "work";

export interface TotalsOrder {
  column: TotalsColumn | typeof BY_WORK;
  descending: boolean;
}

/** The next order after a click on a column's head: numbers start with the largest. */
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
  // Equal rows keep one order at every click.
  return [...rows].sort((a, b) => sign * compare(a, b) || compareLabels(a, b));
}

const DEVICE_KINDS: readonly Kind[] = ["compute", "communication", "memory"];
const ENCLOSING_KINDS: readonly Kind[] = ["annotation", "other"];

function kindPriority(kind: Kind): number {
  if (DEVICE_KINDS.includes(kind)) return 0;
  return ENCLOSING_KINDS.includes(kind) ? 2 : 1;
}

/**
 * Kinds that sum up a selection: device kinds, which do not nest, or host kinds if there is no
 * device. Sums of nested events count time more than once and would come first.
 */
export function mainKinds(totals: Totals): Sums[] {
  const device = totals.kinds.filter((row) => DEVICE_KINDS.includes(row.kind) && row.sum > 0);
  const rows = device.length > 0 ? device : totals.kinds.filter((row) => row.sum > 0);
  return [...rows].sort((a, b) => b.sum - a.sum).slice(0, 2);
}

// Brushes and selections of charts.

/** Selection requested by a view, by dimension: null clears one, a missing one is kept. */
export interface Brush {
  ranks?: number[] | null;
  names?: string[] | null;
  kinds?: string[] | null;
  window?: [number, number] | null;
  /** Whether `names` name operators, whose launched work is chosen too. */
  launches?: boolean;
}

/** Current selection by dimension; null selects everything. */
export interface ChartSelection {
  ranks: readonly number[] | null;
  names: readonly string[] | null;
  kinds: readonly string[] | null;
  window: [number, number] | null;
}

/** A drawn chart. It shows a whole frame and marks the chosen part. */
export interface ChartPanel {
  readonly el: HTMLElement;
  show(frame: PanelFrame, selection: ChartSelection): void;
  toPng(): Promise<Blob>;
  toSvg(): Promise<Blob>;
  destroy(): void;
}

export interface ClassStyle {
  color: string;
  /** Drawn as diagonal lines of the colour over a pale ground. */
  hatched: boolean;
  /** Whether it is paler than the other classes. */
  faint?: boolean;
}

export interface ClassPalette {
  legend(theme: ThemeName): readonly { name: string; styles: readonly ClassStyle[] }[];
  /** By class; the last one is for events whose class is unknown. */
  styles(theme: ThemeName): readonly ClassStyle[];
}

export interface ClassShares {
  /** Window that is divided into parts, ns since the origin. */
  start: number;
  end: number;
  /** By class, 0 … 1 in equal parts of that time; the first class is drawn on the ground. */
  shares: readonly (readonly [code: number, share: readonly number[]])[];
}

/** Values of a ribbon's mark. */
export interface Arrival {
  /** Name and number of the collective, and the number of all collectives. */
  name: string;
  call: number;
  of: number;
  /** The late rank and its event; the rank is -1 if several came last at the same time. */
  rank: number;
  id: number;
  /** Delay in ns after the median rank; in the job's row, the mean wait of the others. */
  ns: number;
  ofJob: boolean;
}
