/** Where slots of steps lie in the strip: pure numbers. */

import { type Frame, number, type Row, rowsOf, text } from "./frames";

/** What the strip draws. */
export interface StripData {
  labels: readonly [string, string];
  slots: Frame;
  lanes: Frame;
  /** Total of the steps, before and after. */
  totals: readonly [number, number];
  /** The median of the steps' changes; null where it is not known. */
  median: number | null;
  /** Whose lanes these are: a pair of ranks, or a mean over pairs. */
  whose: string;
}

export interface Slot {
  slot: number;
  label: string;
  /** Start and length of the step in both runs, own times. */
  start: [number, number];
  length: [number, number];
  x: number;
  width: number;
  /** How far the step reaches into its slot on both sides, px. */
  reach: [number, number];
  diff: number;
  share: number;
}

/** Kinds of time, by their number in the frame, and how high they are drawn. */
export const LANES = [
  { name: "compute", kind: "compute", height: 28 },
  { name: "NCCL", kind: "communication", height: 14 },
  { name: "copies", kind: "memory", height: 12 },
] as const;

/** Between two lanes, px. */
export const GAP = 2;

/** One kind of time of one run. */
export interface Lane {
  name: string;
  kind: (typeof LANES)[number]["kind"];
  height: number;
  /** Its number in the frame. */
  place: number;
}

/** The kinds that there are; all where there is nothing. `words` are what formats call them. */
export function lanesOf(frame: Frame | null, words: Record<string, string>): Lane[] {
  const there = new Set(frame?.columns.lane ?? []);
  const all = LANES.map((lane, place) => ({
    ...lane,
    name: words[lane.kind] ?? lane.name,
    place,
  }));
  const some = all.filter(({ place }) => there.has(place));
  if (some.length === 0 || some.length === all.length) return all;
  // As high together as all would be, which is what the words beside them need.
  const room = heightOf(all) - some.length * GAP;
  const high = some.reduce((sum, { height }) => sum + height, 0);
  return some.map((lane) => ({ ...lane, height: Math.round((lane.height * room) / high) }));
}

export function heightOf(lanes: readonly Lane[]): number {
  return lanes.reduce((sum, { height }) => sum + height + GAP, 0);
}

/** More slots than this are not drawn side by side. */
export const MOST_SLOTS = 12;
const GAP_PX = 5;

/** `Step #1009` of `ProfilerStep#1009`. */
export function stepLabel(label: string): string {
  return label.replace(/^ProfilerStep#(\d+)$/, "Step #$1");
}

/** How long a pair of steps takes: means over ranks where they are known, else from end to end. */
export function lengthsOf(row: Row): [number, number] {
  const of = (side: "before" | "after"): number => {
    const mean = row[`${side}_ns`];
    if (typeof mean === "number") return mean;
    return number(row, `${side}_end_ns`) - number(row, `${side}_start_ns`);
  };
  return [of("before"), of("after")];
}

/** Slots with the lengths that the table of steps has: several ranks start and end apart. */
export function withLengths(slots: Frame, steps: Frame): Frame {
  const { before_ns, after_ns, diff_ns } = steps.columns;
  if (steps.rows !== slots.rows || !before_ns || !after_ns || !diff_ns) return slots;
  return { ...slots, columns: { ...slots.columns, before_ns, after_ns, delta_ns: diff_ns } };
}

/** The slots whose steps are given, side by side in the width there is. */
export function placeSlots(frame: Frame, chosen: readonly number[], width: number): Slot[] {
  const all = rowsOf(frame);
  const rows = chosen.map((slot) => all[slot]).filter((row) => row !== undefined);
  const slots = rows.map((row): Slot => {
    const start: [number, number] = [number(row, "before_start_ns"), number(row, "after_start_ns")];
    const length = lengthsOf(row);
    const [one, other] = [
      stepLabel(text(row, "before_label")),
      stepLabel(text(row, "after_label")),
    ];
    return {
      slot: number(row, "slot"),
      label: one === other ? one : `${one} → ${other}`,
      start,
      length,
      x: 0,
      width: 0,
      reach: [0, 0],
      diff: length[1] - length[0],
      share: length[0] > 0 ? (length[1] - length[0]) / length[0] : Infinity,
    };
  });
  const total = slots.reduce((sum, { length }) => sum + Math.max(...length, 1), 0);
  const room = Math.max(width - GAP_PX * Math.max(slots.length - 1, 0), 1);
  let x = 0;
  for (const one of slots) {
    const scale = room / total;
    one.x = x;
    one.width = Math.max(...one.length, 1) * scale;
    one.reach = [one.length[0] * scale, one.length[1] * scale];
    x += one.width + GAP_PX;
  }
  return slots;
}

/** The step of median change: where there are too many to draw, this one stands for them. */
export function medianSlot(frame: Frame): number {
  const order = rowsOf(frame)
    .map((row) => ({ slot: number(row, "slot"), diff: number(row, "delta_ns") }))
    .sort((a, b) => a.diff - b.diff);
  return order[order.length >> 1]?.slot ?? 0;
}

/** Corners of the band between the end before and the end after, for a band so high. */
export function bandPoints({ reach }: Slot, height: number): [number, number][] {
  const [top, bottom] = reach;
  const most = Math.max(top, bottom);
  return [
    [top, 0],
    [most, 0],
    [most, height],
    [bottom, height],
  ];
}
