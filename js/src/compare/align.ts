/** Convert times between the two runs of a comparison, according to the selected alignment. */

import type { PanelFrame, Span } from "../protocol/source";
import { type BySide, numberAt, otherSide, rowsOf, type Side } from "./frames";

export type AlignmentBase = "steps" | "first_step" | "collectives" | "absolute" | "scaled";

interface AlignedSegment {
  own: Span;
  common: Span;
}

/** Return the segments of the runs before and after, in ascending order. */
export function alignedSegments(frame: PanelFrame): [AlignedSegment[], AlignedSegment[]] {
  const segmentsBySide: [AlignedSegment[], AlignedSegment[]] = [[], []];
  for (const row of rowsOf(frame)) {
    segmentsBySide[row.side === "before" ? 0 : 1].push({
      own: [numberAt(row, "own_start_ns"), numberAt(row, "own_end_ns")],
      common: [numberAt(row, "common_start_ns"), numberAt(row, "common_end_ns")],
    });
  }
  return segmentsBySide;
}

/** Return the last segment that starts at or before a time; the first if there is none. */
function segmentAt(
  segments: readonly AlignedSegment[],
  time: number,
  axis: "own" | "common",
): AlignedSegment | null {
  const next = segments.findIndex((segment) => segment[axis][0] > time);
  return segments.at(next < 0 ? -1 : Math.max(next - 1, 0)) ?? null;
}

/** Map a time from one span to another. Times outside keep their distance from the nearer end. */
function stretchTime(time: number, from: Span, to: Span): number {
  const length = from[1] - from[0];
  const targetLength = to[1] - to[0];
  if (time <= from[0] || length === 0) return to[0] + (time - from[0]);
  if (time >= from[1]) return to[1] + (time - from[1]);
  return to[0] + ((time - from[0]) * targetLength) / length;
}

export function toCommon(segments: readonly AlignedSegment[], time: number): number {
  const segment = segmentAt(segments, time, "own");
  return segment === null ? time : stretchTime(time, segment.own, segment.common);
}

/** Return the time on the run's own axis. Times in a gap map to the end before it. */
export function toOwnTime(segments: readonly AlignedSegment[], time: number): number {
  const segment = segmentAt(segments, time, "common");
  if (segment === null) return time;
  const isLast = segment === segments.at(-1);
  const commonTime = isLast ? time : Math.min(time, Math.max(segment.common[1], segment.common[0]));
  return stretchTime(commonTime, segment.common, segment.own);
}

export interface Alignment {
  base: AlignmentBase;
  segments: [AlignedSegment[], AlignedSegment[]];
  /** The windows that show all of the run before and all of the run after. */
  wholes: [Span, Span];
}

/** Return the shift from times before to times after that aligns the starts of two segments. */
function shiftBetween(before?: AlignedSegment, after?: AlignedSegment): number {
  if (before === undefined || after === undefined) return 0;
  return after.own[0] - after.common[0] - (before.own[0] - before.common[0]);
}

/** Align two runs, given their time ranges. Views of whole runs align the first slot. */
export function makeAlignment(
  base: AlignmentBase,
  frame: PanelFrame,
  [before, after]: BySide<Span>,
): Alignment {
  const segments = alignedSegments(frame);
  if (base === "scaled") return { base, segments, wholes: [before, after] };
  const shift = shiftBetween(segments[0][0], segments[1][0]);
  const start = Math.min(before[0], after[0] - shift);
  const end = Math.max(before[1], after[1] - shift);
  return { base, segments, wholes: [[start, end], [start + shift, end + shift]] }; // prettier-ignore
}

/**
 * Return the window of the other run. The windows have the same length unless the runs are scaled,
 * so that a millisecond is equally wide on both sides. The window is shifted like the slot at its
 * middle; a window of nearly the whole run is shifted like the first slot. If `anchor` is set, its
 * two times (before and after) are aligned instead of the slots.
 */
export function partnerView(
  { base, segments, wholes }: Alignment,
  from: Side,
  view: Span,
  anchor: BySide<number> | null = null,
): Span {
  const to = otherSide(from);
  if (base === "scaled") {
    const edge = (time: number): number => toOwnTime(segments[to], toCommon(segments[from], time));
    return [edge(view[0]), edge(view[1])];
  }
  const segment = segmentAt(segments[from], (view[0] + view[1]) / 2, "own");
  const slot = segment === null ? 0 : segments[from].indexOf(segment);
  const partner = segments[to][Math.min(slot, segments[to].length - 1)];
  const slotShift =
    anchor === null ? shiftBetween(segment ?? undefined, partner) : anchor[to] - anchor[from];
  const wholeShift = wholes[to][0] - wholes[from][0];
  // As the view grows from one slot to nearly the whole run, the shift changes gradually.
  const viewShare = (view[1] - view[0]) / Math.max(wholes[0][1] - wholes[0][0], 1);
  const slotShare = Math.min(0.5, 1 / Math.max(segments[from].length - 1, 1));
  const wholeWeight = (viewShare - slotShare) / Math.max(0.98 - slotShare, 0.1);
  const shift = slotShift + (wholeShift - slotShift) * Math.min(1, Math.max(0, wholeWeight));
  return [view[0] + shift, view[1] + shift];
}
