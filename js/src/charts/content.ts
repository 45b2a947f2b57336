/** The content of a chart before layout: rows, bars, marks, keys and tooltips. */

import type { Brush, Chosen, PanelFrame } from "../protocol/source";
import { ranksIn } from "../ui/text";
import type { Pen, Style } from "./paint";

export type Key = number | string;

export interface Tip {
  heading: string;
  lines: readonly (readonly [what: string, value: string])[];
}

/** A text in a bar, drawn if it fits. */
export interface Inside {
  row: number;
  left: number;
  right: number;
  text: string;
  color: string;
  /** Aligned to the right end of the bar. */
  atEnd?: boolean;
  /** Truncated if it does not fit. */
  cut?: boolean;
  /** Colour of a plate below the text, over a hatch. */
  plate?: string | undefined;
}

/** A text at the end of a bar. */
interface End {
  row: number;
  at: number;
  text: string;
}

export interface SideColumn {
  head: string;
  texts: readonly string[];
  /** Shown from this width on. */
  least?: number | undefined;
  /** Rows whose text has the colour for late. */
  late?: ReadonlySet<number> | undefined;
  /** Rows whose text is bold. */
  strong?: ReadonlySet<number> | undefined;
}

/** Marks of one kind, one per item; `left` and `right` are the columns of the positions of their ends. */
export interface Mark {
  shape: "bar" | "line" | "dot";
  left: string | number;
  right: string;
  size?: string | number | undefined;
  /** Column of angles: dots with an angle are triangles. */
  marker?: string | undefined;
  angle?: string | undefined;
  /** Undefined if the item has no such mark. */
  style(at: number): Style | undefined;
}

export interface RowsContent {
  title: string;
  subtitle: string;
  /** Text for screen readers. */
  finding: string;
  names: readonly string[];
  /** Second lines of the names, shown if rows are tall. */
  seconds?: readonly string[] | undefined;
  /** Selection keys of each row, in the panel's dimension. */
  keys: readonly (readonly Key[])[];
  late?: ReadonlySet<number> | undefined;
  /** Rows of ranks that the headline states as a fact: their names are bold, in ink. */
  facts?: ReadonlySet<number> | undefined;
  /** Columns that marks name, with an element for each item. */
  data: Record<string, Float64Array | readonly unknown[]>;
  marks: readonly Mark[];
  xStart: number;
  xEnd: number;
  ticks: readonly (readonly [at: number, text: string])[];
  zeroLine?: boolean | undefined;
  /** Whether lines separate the rows. */
  ruled?: boolean | undefined;
  head: string;
  columns: readonly SideColumn[];
  /** Texts in bars, computed if rows are high enough. */
  inside?(): Inside[];
  ends?: readonly End[] | undefined;
  legend?: readonly (readonly [style: Style, text: string])[] | undefined;
  /** Height of a row if there is room for it. */
  pitch?: number | undefined;
  tip(row: number): Tip;
  /** Whether marks select windows. */
  windows?: boolean | undefined;
  /** The mark at a spot, for marks with a tooltip or selection of their own; `y` counts rows. */
  hit?(x: number, y: number, reachX: number, reachY: number): Hit | null;
  /** The keys that a rectangle selects, if they differ from its rows' keys. */
  within?: ((x0: number, x1: number, y0: number, y1: number) => Key[]) | undefined;
  /** Chosen marks of the source; null if all are. Default: the chosen rows' marks. */
  chosenMarks?: ((chosen: Chosen) => number[] | null) | undefined;
  /** The numbers for the chart's table, if they are not the frame's. */
  table?: PanelFrame | undefined;
}

export interface Hit {
  tip: Tip;
  /** Keys to select instead of the row's. */
  keys: Key[] | null;
  window: [number, number] | null;
}

/** The ranks that the headline names as late: only these are red, in every panel. */
export function lateRanks(frame: PanelFrame): number[] {
  return ranksIn(frame, "late_ranks");
}

/** The ranks that the headline states as a fact: marked in ink in every panel. */
export function factRanks(frame: PanelFrame): number[] {
  return ranksIn(frame, "fact_ranks");
}

/** The rows of late and of fact ranks. */
export function markedRows(
  frame: PanelFrame,
  ranks: Iterable<number>,
): { late: Set<number>; facts: Set<number> } {
  const rowsOf = (marked: readonly number[]): Set<number> =>
    new Set(Array.from(ranks).flatMap((rank, row) => (marked.includes(rank) ? [row] : [])));
  return { late: rowsOf(lateRanks(frame)), facts: rowsOf(factRanks(frame)) };
}

// Interface between a chart and the frame around it. px are CSS px, relative to the chart.

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Picked {
  x: number;
  y: number;
}

/** The item under the pointer, or with the keyboard focus. */
export interface Spot {
  index: number;
  box: Box;
  tip: Tip;
}

export interface Drawing {
  readonly content: Pick<RowsContent, "title" | "finding" | "table">;
  /** Lays out for a width, before anything else; returns the height. */
  layout(width: number): number;
  /** Paints the chart; items that are not chosen are faint. */
  paint(pen: Pen, chosen: Chosen): void;
  spot(x: number, y: number): Spot | null;
  spotOf(index: number): Spot | null;
  /** The spot to which a key moves the focus. */
  step(from: number | null, key: string): number | null;
  click(x: number, y: number, more: boolean, chosen: Chosen): Brush;
  press(index: number, more: boolean, chosen: Chosen): Brush;
  /** Null if the drag selects nothing. */
  drag(from: Picked, to: Picked, more: boolean, chosen: Chosen): Brush | null;
  dragBox(from: Picked, to: Picked): Box | null;
  /** The brush that clears what this chart writes. */
  nothing(): Brush;
}
