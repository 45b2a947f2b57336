/** What a selection holds, in a few numbers. */

import type { PanelFrame } from "../../dash/types";
import { busyTimes, workOf } from "./busy_times";
import { type Part, overlaps } from "./part";
import { waiting } from "./waits";
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
    for (const entry of waiting(part).entry) calls.add(part.rank.matched.call[entry]!);
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

function members({ rank, mask, low, high }: Part): Members {
  const { start, dur } = rank.rank.events;
  const found: Members = { count: 0, start: Infinity, end: -Infinity };
  const last = low === high ? 0 : countBelow(start, high);
  for (let row = 0; row < last; row += 1) {
    const from = start[row]!;
    const to = from + dur[row]!;
    if (!overlaps(from, to, low)) continue;
    if (mask !== null && mask[row] === 0) continue;
    found.count += 1;
    if (from < found.start) found.start = from;
    if (to > found.end) found.end = to;
  }
  if (found.start < low) found.start = low;
  if (found.end > high) found.end = high;
  return found;
}
