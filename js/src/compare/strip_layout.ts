/** Where slots of steps lie in the strip: pure numbers. */

import { type Frame, number, rowsOf, text } from "./frames";

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

/** More slots than this are not drawn side by side. */
export const MOST_SLOTS = 12;
const GAP_PX = 5;

/** `Step #1009` of `ProfilerStep#1009`. */
export function stepLabel(label: string): string {
  return label.replace(/^ProfilerStep#(\d+)$/, "Step #$1");
}

/** The slots whose steps are given, side by side in the width there is. */
export function placeSlots(frame: Frame, chosen: readonly number[], width: number): Slot[] {
  const all = rowsOf(frame);
  const rows = chosen.map((slot) => all[slot]).filter((row) => row !== undefined);
  const slots = rows.map((row): Slot => {
    const start: [number, number] = [number(row, "before_start_ns"), number(row, "after_start_ns")];
    const length: [number, number] = [
      number(row, "before_end_ns") - start[0],
      number(row, "after_end_ns") - start[1],
    ];
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
