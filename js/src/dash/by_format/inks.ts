/** The marks of these charts: all are one sheet (`charts/rows.py`), and get its columns here. */

import { formatAxis } from "../../draw/format";
import type { Column } from "../charts/bokeh";
import type { RowsContent } from "../charts/content";
import { niceTicks } from "../charts/phrases";

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

export type Ink = (typeof INKS)[number];

export interface StackPart {
  ink: Ink;
  words: string;
  values: readonly number[];
}

export interface Stack {
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
    // Outlines of nothing would be seen.
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

export function timeTicks(most: number, least = 0): [number, string][] {
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
