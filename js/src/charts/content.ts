/** The content of a chart before layout: rows, bars, marks, keys and tooltips. */

import type { Brush, Chosen, PanelFrame } from "../protocol/source";
import { ranksIn } from "../ui/text";
import type { Pen, Style } from "./paint";

export type Key = number | string;

export interface Tip {
  heading: string;
  lines: readonly (readonly [what: string, value: string])[];
}

/** A text in a bar, drawn where it has room. */
export interface Inside {
  row: number;
  left: number;
  right: number;
  text: string;
  color: string;
  /** At its right end: what is not there begins where bars that are there end. */
  atEnd?: boolean;
  /** Shortened where it has no room. */
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
  least?: number;
  /** Rows whose text is in the colour of who is late. */
  late?: ReadonlySet<number>;
  /** Rows whose text is bold. */
  strong?: ReadonlySet<number>;
}

/** Marks of all items, from one column of the data to another. */
export interface Mark {
  shape: "bar" | "line" | "dot";
  left: string | number;
  right: string;
  size?: string | number;
  /** Dots where this column has an angle are triangles. */
  marker?: string;
  angle?: string;
  /** Undefined where an item has no such mark. */
  style(at: number): Style | undefined;
}

export interface RowsContent {
  title: string;
  subtitle: string;
  /** For those who do not see the chart. */
  finding: string;
  names: readonly string[];
  /** Second lines of the names, where rows are tall. */
  seconds?: readonly string[];
  /** What each row stands for in the panel's dimension. */
  keys: readonly (readonly Key[])[];
  late?: ReadonlySet<number>;
  /** Rows of ranks that the headline states as a fact: their names are bold, in ink. */
  facts?: ReadonlySet<number>;
  /** Columns that marks name, with an element for each item. */
  data: Record<string, Float64Array | readonly unknown[]>;
  marks: readonly Mark[];
  xStart: number;
  xEnd: number;
  ticks: readonly (readonly [at: number, text: string])[];
  zeroLine?: boolean;
  /** Lines between rows. */
  ruled?: boolean;
  head: string;
  columns: readonly SideColumn[];
  /** Texts in bars, made where rows are high enough for them. */
  inside?(): Inside[];
  ends?: readonly End[];
  legend?: readonly (readonly [style: Style, text: string])[];
  /** Height of a row where there is room for it. */
  pitch?: number;
  tip(row: number): Tip;
  /** Whether marks select windows. */
  windows?: boolean;
  /** The mark at a spot, where marks tell or select more than their row; `y` counts rows. */
  hit?(x: number, y: number, reachX: number, reachY: number): Hit | null;
  /** What a rectangle selects, where that is not the rows it meets. */
  within?(x0: number, x1: number, y0: number, y1: number): Key[];
  /** Marks of the source that are chosen; null where all are. By default those of chosen rows. */
  chosenMarks?(chosen: Chosen): number[] | null;
}

export interface Hit {
  tip: Tip;
  /** What is selected instead of its row's keys. */
  keys: Key[] | null;
  window: [number, number] | null;
}

/** A column as numbers; what is not known is NaN. */
export function numbers(frame: PanelFrame, name: string): number[] {
  const column = frame.columns[name];
  if (column === undefined) return new Array<number>(frame.rows).fill(NaN);
  return Array.from(column, (value) => (typeof value === "number" ? value : NaN));
}

export function texts(frame: PanelFrame, name: string): string[] {
  return Array.from(frame.columns[name] ?? [], (value) => (value === null ? "" : String(value)));
}

/** The ranks that the headline says the others wait for: red in every panel, and no others are. */
export function lateRanks(frame: PanelFrame): number[] {
  return ranksIn(frame, "late_ranks");
}

/** The ranks that the headline states as a fact: marked in ink in every panel. */
export function factRanks(frame: PanelFrame): number[] {
  return ranksIn(frame, "fact_ranks");
}

/** The rows of both. */
export function markedRows(
  frame: PanelFrame,
  ranks: Iterable<number>,
): { late: Set<number>; facts: Set<number> } {
  const rowsOf = (marked: readonly number[]): Set<number> =>
    new Set(Array.from(ranks).flatMap((rank, row) => (marked.includes(rank) ? [row] : [])));
  return { late: rowsOf(lateRanks(frame)), facts: rowsOf(factRanks(frame)) };
}

// What the frame around a chart asks of it. px are CSS px, relative to the chart.

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

/** What lies under the pointer, or has the focus of the keys. */
export interface Spot {
  index: number;
  box: Box;
  tip: Tip;
}

export interface Drawing {
  readonly title: string;
  readonly finding: string;
  /** Lays out for a width; returns the height. */
  layout(width: number): number;
  /** Paints all, faint what is not chosen. */
  paint(pen: Pen, chosen: Chosen): void;
  spot(x: number, y: number): Spot | null;
  spotOf(index: number): Spot | null;
  /** Which spot a key goes to. */
  step(from: number | null, key: string): number | null;
  click(x: number, y: number, more: boolean, chosen: Chosen): Brush;
  press(index: number, more: boolean, chosen: Chosen): Brush;
  /** Null where the drag met nothing. */
  drag(from: Picked, to: Picked, more: boolean, chosen: Chosen): Brush | null;
  dragBox(from: Picked, to: Picked): Box | null;
  /** The brush that clears what this chart writes. */
  nothing(): Brush;
}
