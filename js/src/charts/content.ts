/** The content of a chart before layout: rows, bars, marks, keys and tooltips. */

import type { Brush, ChartSelection, PanelFrame } from "../protocol/source";
import { ranksOfAttribute } from "../ui/text";
import type { Theme } from "../ui/theme";
import type { DrawContext, MarkStyle } from "./paint";

export type SelectionKey = number | string;

export interface TooltipContent {
  heading: string;
  lines: readonly (readonly [what: string, value: string])[];
}

/** Text in a bar, drawn if it fits. */
export interface BarText {
  row: number;
  left: number;
  right: number;
  text: string;
  color: string;
  /** Aligned to the right end of the bar. */
  isAtEnd?: boolean;
  /** Truncated if it does not fit. */
  isTruncatable?: boolean;
  /** Colour of a plate below the text, over a hatch. */
  plate?: string | undefined;
}

export interface SideColumn {
  head: string;
  texts: readonly string[];
  /** Min width of the chart at which the text is shown. */
  minWidthPx?: number | undefined;
  /** Rows whose text has the colour of late ranks. */
  lateRows?: ReadonlySet<number> | undefined;
  /** Rows whose text is bold. */
  boldRows?: ReadonlySet<number> | undefined;
}

/** Marks of one kind, one per item; `left` and `right` are the columns of the positions of their ends. */
export interface ChartMark {
  shape: "bar" | "line" | "dot";
  left: string | number;
  right: string;
  size?: string | number | undefined;
  /** Column of angles: dots with an angle are triangles. */
  marker?: string | undefined;
  angle?: string | undefined;
  /** Undefined if the item has no such mark. */
  style(item: number): MarkStyle | undefined;
}

export interface RowsContent {
  title: string;
  subtitle: string;
  /** Text for screen readers. */
  finding: string;
  names: readonly string[];
  /** Second lines of the names, shown if rows are tall. */
  secondLines?: readonly string[] | undefined;
  /** Selection keys of each row, in the panel's dimension. */
  keys: readonly (readonly SelectionKey[])[];
  lateRows?: ReadonlySet<number> | undefined;
  /** Rows of ranks that the headline names: their labels are bold, in the text colour. */
  factRows?: ReadonlySet<number> | undefined;
  /** Columns that marks name, with an element for each item. */
  data: Record<string, Float64Array | readonly unknown[]>;
  marks: readonly ChartMark[];
  xStart: number;
  xEnd: number;
  ticks: readonly (readonly [at: number, text: string])[];
  hasRoundTicks?: boolean;
  zeroLine?: boolean | undefined;
  /** Whether lines separate the rows. */
  hasRules?: boolean | undefined;
  head: string;
  columns: readonly SideColumn[];
  /** Texts in bars, computed if rows are high enough. */
  barTexts?(): BarText[];
  /** Texts at the ends of bars. */
  endTexts?: readonly { row: number; at: number; text: string }[] | undefined;
  legend?: readonly (readonly [style: MarkStyle, text: string])[] | undefined;
  /** Height of a row, unless the chart would be too high. */
  rowPitchPx?: number | undefined;
  tooltip(row: number): TooltipContent;
  /** Whether marks select windows. */
  windows?: boolean | undefined;
  /** The mark at a spot, for marks with a tooltip or selection of their own; `y` counts rows. */
  hitTest?(x: number, y: number, reachX: number, reachY: number): MarkHit | null;
  /** The keys that a rectangle selects, if they differ from its rows' keys. */
  keysWithin?: ((x0: number, x1: number, y0: number, y1: number) => SelectionKey[]) | undefined;
  /** Chosen marks of the source; null if all are. Default: the chosen rows' marks. */
  selectedMarks?: ((chosen: ChartSelection) => number[] | null) | undefined;
  /** The numbers for the chart's table, if they are not the frame's. */
  table?: PanelFrame | undefined;
}

export interface MarkHit {
  tooltip: TooltipContent;
  /** Keys to select instead of the row's. */
  keys: SelectionKey[] | null;
  window: [number, number] | null;
}

/** The ranks that the headline names as late: only these are red, in every panel. */
export function lateRanks(frame: PanelFrame): number[] {
  return ranksOfAttribute(frame, "late_ranks");
}

/** The ranks that the headline states as a fact: bold, in the text colour, in every panel. */
export function factRanks(frame: PanelFrame): number[] {
  return ranksOfAttribute(frame, "fact_ranks");
}

/** The rows of late and of fact ranks. */
export function markedRows(
  frame: PanelFrame,
  ranks: Iterable<number>,
): { lateRows: Set<number>; factRows: Set<number> } {
  const rowsOf = (flaggedRanks: readonly number[]): Set<number> =>
    new Set(Array.from(ranks).flatMap((rank, row) => (flaggedRanks.includes(rank) ? [row] : [])));
  return { lateRows: rowsOf(lateRanks(frame)), factRows: rowsOf(factRanks(frame)) };
}

/** Style of a row's texts: red for late ranks, bold for all that the headline names. */
export function rowLabelStyle(
  { lateRows, factRows }: Pick<RowsContent, "lateRows" | "factRows">,
  row: number,
  theme: Theme,
): { color: string; bold: boolean } {
  if (lateRows?.has(row) === true) return { color: theme.late, bold: true };
  return factRows?.has(row) === true
    ? { color: theme.ink, bold: true }
    : { color: theme.ink2, bold: false };
}

// Interface between a chart and the frame around it. px are CSS px, relative to the chart.

export interface ChartBox {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface ChartPoint {
  x: number;
  y: number;
}

export type DragSpan = readonly [from: ChartPoint, to: ChartPoint];

export function dragRectangle([from, to]: DragSpan): ChartBox {
  const [left, top] = [Math.min(from.x, to.x), Math.min(from.y, to.y)];
  return { left, top, width: Math.abs(to.x - from.x), height: Math.abs(to.y - from.y) };
}

/** The item under the pointer, or with the keyboard focus. */
export interface HoverTarget {
  index: number;
  box: ChartBox;
  tooltip: TooltipContent;
}

export interface Drawing {
  readonly content: Pick<RowsContent, "title" | "finding" | "table">;
  /** Lay out the chart for a width, before all other calls. Return the height. */
  layout(width: number): number;
  /** Paint the chart; items that are not chosen are faint. */
  paint(pen: DrawContext, selection: ChartSelection): void;
  targetAt(x: number, y: number): HoverTarget | null;
  targetOf(index: number): HoverTarget | null;
  /** The item to which a key moves the focus. */
  nextTarget(from: number | null, key: string): number | null;
  click(x: number, y: number, additive: boolean, selection: ChartSelection): Brush;
  press(index: number, additive: boolean, selection: ChartSelection): Brush;
  /** Null if the drag selects nothing. */
  drag(span: DragSpan, additive: boolean, selection: ChartSelection): Brush | null;
  dragBox(span: DragSpan): ChartBox | null;
  /** The brush that selects nothing: null for each dimension that this chart writes. */
  emptyBrush(): Brush;
}
