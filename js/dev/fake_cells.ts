/** Cells of made-up lanes, by going through all their events. */

import type { FakeEvent, FakeLane } from "./fake_job";

export const CELLS = 256;

function firstEnding(events: readonly FakeEvent[], time: number): number {
  // Lanes of nested events are not sorted by end: start well before.
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (events[middle]!.start + 400e6 <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function cellsOf(lane: FakeLane, index: number, cell: number) {
  const from = index * CELLS * cell;
  const to = from + CELLS * cell;
  const busy = new Float64Array(CELLS);
  const count = new Uint16Array(CELLS);
  const kind = new Uint8Array(CELLS).fill(255);
  const mask = new Uint8Array(CELLS);
  const byKind = new Float64Array(CELLS * 8).fill(-1);
  const slices: [FakeEvent, number][] = [];
  let any = false;
  let reached = Number.NEGATIVE_INFINITY;
  for (let i = firstEnding(lane.events, from); i < lane.events.length; i += 1) {
    const event = lane.events[i]!;
    const { start, dur } = event;
    if (start >= to) break;
    const end = start + dur;
    if (dur === 0 ? start < from : end <= from) {
      reached = Math.max(reached, end);
      continue;
    }
    any = true;
    if (lane.slices && dur >= 2 * cell) slices.push([event, i]);
    const a = Math.max(0, Math.floor((start - from) / cell));
    const b = Math.min(CELLS - 1, dur === 0 ? a : Math.ceil((end - from) / cell) - 1);
    for (let k = a; k <= b; k += 1) {
      const left = from + k * cell;
      count[k] = Math.min(65535, count[k]! + 1);
      mask[k] = mask[k]! | (1 << event.kind);
      busy[k] = busy[k]! + Math.max(0, Math.min(end, left + cell) - Math.max(start, left, reached));
      const time = Math.min(end, left + cell) - Math.max(start, left);
      const at = k * 8 + event.kind;
      byKind[at] = Math.max(0, byKind[at]!) + time;
    }
    reached = Math.max(reached, end);
  }
  if (!any) return null;
  const share = new Uint16Array(CELLS);
  for (let k = 0; k < CELLS; k += 1) {
    const exact = busy[k]! / cell;
    share[k] =
      exact <= 0 ? 0 : exact >= 1 ? 65535 : Math.min(65534, Math.max(1, Math.round(exact * 65535)));
    let most = -1;
    for (let code = 0; code < 8; code += 1) {
      if (byKind[k * 8 + code]! > most) {
        most = byKind[k * 8 + code]!;
        kind[k] = code;
      }
    }
  }
  return { cells: { busy: share, count, kind, mask }, slices };
}

export function counterCells(samples: [number, number][], index: number, cell: number) {
  const min = new Float32Array(CELLS).fill(Number.NaN);
  const max = new Float32Array(CELLS).fill(Number.NaN);
  let any = false;
  for (let k = 0; k < CELLS; k += 1) {
    const a = (index * CELLS + k) * cell;
    const inside = samples
      .filter(([time]) => time >= a && time < a + cell)
      .map(([, value]) => value);
    const before = samples.filter(([time]) => time < a).at(-1);
    if (before !== undefined) inside.push(before[1]);
    if (inside.length === 0) continue;
    any = true;
    min[k] = Math.min(...inside);
    max[k] = Math.max(...inside);
  }
  return any ? { min, max } : null;
}
