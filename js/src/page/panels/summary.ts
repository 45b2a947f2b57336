/** What a selection holds, in a few numbers. */

import type { PanelFrame } from "../../dash/types";
import { busyTimes, workOf } from "./busy_times";
import { type Part, overlaps } from "./part";
import { countBelow } from "../sorted";

interface Members {
  count: number;
  start: number;
  end: number;
}

export function summary(parts: readonly Part[]): PanelFrame {
  let [events, device, ranks] = [0, 0, 0];
  let [start, end] = [Infinity, -Infinity];
  const calls = new Set<number>();
  for (const part of parts) {
    const found = part.rank.once("members", part, members);
    events += found.count;
    device += workOf(busyTimes(part));
    if (found.count > 0) ranks += 1;
    start = Math.min(start, found.start);
    end = Math.max(end, found.end);
    addCalls(part, calls);
  }
  const known = ranks > 0;
  return {
    rows: 1,
    columns: {
      events: [events],
      device_events: [device],
      collectives: [calls.size],
      ranks: [ranks],
      start_ns: [known ? start : null],
      end_ns: [known ? end : null],
    },
    attrs: known ? {} : { note: "no events are selected" },
  };
}

function members(part: Part): Members {
  const { rank, mask, low, high } = part;
  if (mask === null) {
    const [start, end] = rank.events.extent(part);
    return { count: rank.events.within(part), start, end };
  }
  const { start, dur } = rank.rank.events;
  const found: Members = { count: 0, start: Infinity, end: -Infinity };
  const last = low === high ? 0 : countBelow(start, high);
  for (let row = 0; row < last; row += 1) {
    if (mask[row] === 0) continue;
    const from = start[row]!;
    const to = from + dur[row]!;
    if (!overlaps(from, to, low)) continue;
    found.count += 1;
    if (from < found.start) found.start = from;
    if (to > found.end) found.end = to;
  }
  if (found.start < low) found.start = low;
  if (found.end > high) found.end = high;
  return found;
}

/** The collectives of which the part has an event. */
function addCalls({ rank, mask, low, high }: Part, calls: Set<number>): void {
  const { id, start, dur, call } = rank.matched;
  if (low === high) return;
  // Sorted by start: all from there on start too late.
  const last = countBelow(start, high);
  for (let i = 0; i < last; i += 1) {
    if (mask !== null && mask[id[i]!] === 0) continue;
    if (overlaps(start[i]!, start[i]! + dur[i]!, low)) calls.add(call[i]!);
  }
}
