/** The content of a chart before layout: rows, bars, marks, legend entries and tooltips. */

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
  /** Align the text to the right end of the bar. */
  isAtEnd?: boolean;
  isTruncatable?: boolean;
  /** Background color that keeps the text readable on a hatched bar. */
  plate?: string | undefined;
}

export interface SideColumn {
  head: string;
  texts: readonly string[];
  /** Minimum chart width at which the text is shown. */
  minWidthPx?: number | undefined;
  /** Rows whose text is drawn in the color for late ranks. */
  lateRows?: ReadonlySet<number> | undefined;
  boldRows?: ReadonlySet<number> | undefined;
}

/** A kind of mark, drawn for each item. `left` and `right` name the columns of the mark's ends. */
export interface ChartMark {
  shape: "bar" | "line" | "dot";
  left: string | number;
  right: string;
  size?: string | number | undefined;
  /** Column of marker names. A `triangle` is rotated by the column `angle`; others are dots. */
  marker?: string | undefined;
  angle?: string | undefined;
  /** Return an item's style; undefined if the mark is not drawn for the item. */
  style(item: number): MarkStyle | undefined;
}

export interface RowsContent {
  title: string;
  subtitle: string;
  /** Summary of the chart for screen readers. */
  finding: string;
  names: readonly string[];
  /** Second line of each row's name, shown if rows are tall enough. */
  secondLines?: readonly string[] | undefined;
  /** For each row, the keys in the panel's dimension that it selects. */
  keys: readonly (readonly SelectionKey[])[];
  lateRows?: ReadonlySet<number> | undefined;
  /** Rows of ranks that the headline names without calling them late. Their labels are bold. */
  factRows?: ReadonlySet<number> | undefined;
  /** The columns that marks refer to, with one element per item. */
  data: Record<string, Float64Array | readonly unknown[]>;
  marks: readonly ChartMark[];
  xStart: number;
  xEnd: number;
  ticks: readonly (readonly [at: number, text: string])[];
  hasRoundTicks?: boolean;
  zeroLine?: boolean | undefined;
  /** Whether lines are drawn between the rows. */
  hasRules?: boolean | undefined;
  head: string;
  columns: readonly SideColumn[];
  /** Return the texts in bars. Called only if rows are tall enough. */
  barTexts?(): BarText[];
  /** Texts to the right of bars. */
  endTexts?: readonly { row: number; at: number; text: string }[] | undefined;
  legend?: readonly (readonly [style: MarkStyle, text: string])[] | undefined;
  /** Preferred row height. Rows are lower if the chart would otherwise be too tall. */
  rowPitchPx?: number | undefined;
  tooltip(row: number): TooltipContent;
  /** Whether marks select time windows. */
  windows?: boolean | undefined;
  /**
   * Return the mark at a point, if marks have their own tooltip or selection. `reach` is the
   * maximum distance to the mark. Here and below, `x` is a value on the scale and `y` counts rows.
   */
  hitTest?(point: ChartPoint, reach: ChartPoint): MarkHit | null;
  /** Return the keys that a rectangle selects, if they differ from its rows' keys. */
  keysWithin?: ((low: ChartPoint, high: ChartPoint) => SelectionKey[]) | undefined;
  /** Return the selected marks; null for all. Default: the marks of the selected rows. */
  selectedMarks?: ((chosen: ChartSelection) => number[] | null) | undefined;
  /** Data for the chart's table, if it differs from the frame. */
  table?: PanelFrame | undefined;
}

export interface MarkHit {
  tooltip: TooltipContent;
  /** Keys to select instead of the row's keys. */
  keys: SelectionKey[] | null;
  window: [number, number] | null;
}

/** Return the ranks that the headline calls late. Only these are red, in every panel. */
export function lateRanks(frame: PanelFrame): number[] {
  return ranksOfAttribute(frame, "late_ranks");
}

/** Return the ranks that the headline names without calling them late. They are bold. */
export function factRanks(frame: PanelFrame): number[] {
  return ranksOfAttribute(frame, "fact_ranks");
}

/** Return the rows of the ranks that the headline names. */
export function markedRows(
  frame: PanelFrame,
  ranks: Iterable<number>,
): { lateRows: Set<number>; factRows: Set<number> } {
  const rowsOf = (flaggedRanks: readonly number[]): Set<number> =>
    new Set(Array.from(ranks).flatMap((rank, row) => (flaggedRanks.includes(rank) ? [row] : [])));
  return { lateRows: rowsOf(lateRanks(frame)), factRows: rowsOf(factRanks(frame)) };
}

/** Return the style of a row's texts: red for late ranks, bold for all ranks in the headline. */
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

// The interface between a chart and the code around it. Positions are CSS px from its top left.

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

/** The item under the pointer or with keyboard focus. */
export interface HoverTarget {
  index: number;
  box: ChartBox;
  tooltip: TooltipContent;
}

export interface Drawing {
  readonly content: Pick<RowsContent, "title" | "finding" | "table">;
  /** Lay out the chart for a width and return its height. Must be called first. */
  layout(width: number): number;
  /** Paint the chart. Items that are not selected are faint. */
  paint(pen: DrawContext, selection: ChartSelection): void;
  targetAt(x: number, y: number): HoverTarget | null;
  targetOf(index: number): HoverTarget | null;
  /** Return the item to which a key press moves the focus. */
  nextTarget(from: number | null, key: string): number | null;
  click(x: number, y: number, additive: boolean, selection: ChartSelection): Brush;
  press(index: number, additive: boolean, selection: ChartSelection): Brush;
  /** Return the brush that results from a drag; null if it selects nothing. */
  drag(span: DragSpan, additive: boolean, selection: ChartSelection): Brush | null;
  dragBox(span: DragSpan): ChartBox | null;
  /** Return a brush that clears the selection in every dimension that this chart can select. */
  emptyBrush(): Brush;
}
