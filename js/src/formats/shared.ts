/** Rows, columns and bar styles that charts of formats share. */

import type { Column } from "../charts/bokeh";
import type { RowsContent } from "../charts/content";
import type { PanelFrame, SelectionJson, Value } from "../protocol/source";
import { formatAxis } from "../ui/formats";
import { niceTicks } from "../ui/text";

/** In the order of the sheet's marks. */
export const INKS = [
  "compute",
  "communication",
  "queue",
  "wait",
  "memory",
  "sync",
  "other",
  "cpu",
  "late",
] as const;

type Ink = (typeof INKS)[number];

interface StackPart {
  ink: Ink;
  words: string;
  values: readonly number[];
}

interface Stack {
  data: Record<string, Column>;
  legend: [mark: number, text: string][];
  /** The right end of each bar. */
  ends: number[];
}

/** Every column of the sheet, NaN where nothing is drawn. */
export function columnsOf(
  rows: readonly number[],
  known: Record<string, Column>,
): Record<string, Column> {
  const none = rows.map(() => NaN);
  const data: Record<string, Column> = { row: rows };
  for (const ink of INKS) {
    for (const side of ["left", "right"]) data[`${side}_${ink}`] = none;
  }
  const rest = { left_cell: none, right_cell: none, fill: rows.map(() => "#000000") };
  return { ...data, ...rest, low: none, high: none, ...known };
}

/** Parts of bars behind each other. */
export function stack(count: number, parts: readonly StackPart[]): Stack {
  const known: Record<string, Column> = {};
  let left = new Array<number>(count).fill(0);
  for (const { ink, values } of parts) {
    const size = values.map((value) => (Number.isFinite(value) ? value : 0));
    const right = left.map((at, row) => at + size[row]!);
    // A zero-width bar would still draw its outline.
    const shown = (edges: readonly number[]): number[] =>
      edges.map((at, row) => (size[row]! > 0 ? at : NaN));
    known[`left_${ink}`] = shown(left);
    known[`right_${ink}`] = shown(right);
    left = right;
  }
  const rows = Array.from({ length: count }, (_, row) => row);
  return {
    data: columnsOf(rows, known),
    legend: parts
      .filter(({ values }) => values.some((value) => value > 0))
      .map(({ ink, words }) => [INKS.indexOf(ink), words]),
    ends: left,
  };
}

function timeTicks(most: number, least = 0): [number, string][] {
  const ticks = niceTicks(most, 3, least);
  const step = ticks.length > 1 ? ticks[1]! - ticks[0]! : Math.max(most, 1);
  return ticks.map((at) => [at, formatAxis(at, step)]);
}

/** An axis of time from 0 on, with some room behind the longest bar. */
export function timeAxis(
  most: number,
  room = 1.02,
): Pick<RowsContent, "xStart" | "xEnd" | "ticks"> {
  return { xStart: 0, xEnd: most * room || 1, ticks: timeTicks(most) };
}

/** A colour between stops, at a share of the way. */
export function shade(stops: readonly string[], share: number): string {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const part = at - low;
  const channel = (stop: string, from: number): number => parseInt(stop.slice(from, from + 2), 16);
  const mixed = [1, 3, 5].map((from) =>
    Math.round(channel(stops[low]!, from) * (1 - part) + channel(stops[low + 1]!, from) * part)
      .toString(16)
      .padStart(2, "0"),
  );
  return `#${mixed.join("")}`;
}

/** Ink for text on a ground. */
export function textOn(ground: string): string {
  const [red, green, blue] = [1, 3, 5].map(
    (from) => (parseInt(ground.slice(from, from + 2), 16) / 255) ** 2.2,
  ) as [number, number, number];
  const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return light > 0.3 ? "#12171e" : "#ffffff";
}

// Rows of tables that a page holds: read by column, put into groups, made into frames.

/** What the page was given of a job's files; null where there are too many rows. */
export type Tables = Record<string, PanelFrame | null | undefined>;

export function ints(table: PanelFrame, name: string): readonly number[] {
  return (table.columns[name] ?? []) as readonly number[];
}

export function strings(table: PanelFrame, name: string): readonly string[] {
  return (table.columns[name] ?? []) as readonly string[];
}

/** What is read by each of several names, in their order. */
export function eachOf<const Names extends readonly string[], T>(
  names: Names,
  read: (name: string) => T,
): { [Place in keyof Names]: T } {
  return names.map((name) => read(name)) as { [Place in keyof Names]: T };
}

/** Whether an event overlaps a window: as a selection's members do. */
export function overlapping({
  start_ns: from,
  end_ns: to,
}: SelectionJson): (start: number, dur: number) => boolean {
  if (from === null && to === null) return () => true;
  const low = from ?? -Infinity;
  const high = to ?? Infinity;
  if (low === high) return () => false;
  return (start, dur) => start < high && (start + dur > low || start >= low);
}

/** Columns that are filled row by row. */
export class Columns {
  private readonly columns: Record<string, Value[]> = {};
  rows = 0;

  constructor(names: readonly string[]) {
    for (const name of names) this.columns[name] = [];
  }

  add(row: Record<string, Value>): void {
    for (const [name, values] of Object.entries(this.columns)) values.push(row[name] ?? null);
    this.rows += 1;
  }

  frame(attrs: Record<string, unknown> = {}): PanelFrame {
    return { rows: this.rows, columns: this.columns, attrs };
  }
}

/** Values by a key made of parts, in the order in which they are met. */
export class Groups<T> {
  private readonly found = new Map<string, T>();

  constructor(private readonly make: (parts: readonly (string | number)[]) => T) {}

  at(...parts: (string | number)[]): T {
    const key = parts.join("\0");
    let group = this.found.get(key);
    if (group === undefined) {
      group = this.make(parts);
      this.found.set(key, group);
    }
    return group;
  }

  get(...parts: (string | number)[]): T | undefined {
    return this.found.get(parts.join("\0"));
  }

  values(): T[] {
    return [...this.found.values()];
  }
}

type Comparison<T> = (a: T, b: T) => number;

/** By the first comparison that tells two apart. */
export function ordered<T>(values: readonly T[], ...by: readonly Comparison<T>[]): T[] {
  return [...values].sort((a, b) => {
    for (const compare of by) {
      const found = compare(a, b);
      if (found !== 0) return found;
    }
    return 0;
  });
}

/** As Python orders texts. */
export function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** How long any of some spans lasts. */
export function unionLength(spans: readonly (readonly [start: number, end: number])[]): number {
  const sorted = [...spans].sort((a, b) => a[0] - b[0]);
  let total = 0;
  let reached = -Infinity;
  for (const [start, end] of sorted) {
    if (end <= reached) continue;
    total += end - Math.max(start, reached);
    reached = end;
  }
  return total;
}
