/** Convert times between two runs by the chosen alignment. */

import type { PanelFrame, Span } from "../protocol/source";
import { numberAt, rowsOf } from "./frames";

export type AlignmentBase = "steps" | "first_step" | "collectives" | "absolute" | "scaled";

interface AlignedSegment {
  own: Span;
  common: Span;
}

/** The pieces of both runs, before and after, ascending. */
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

/** The last piece that starts at or before a time, or else the first piece. */
function segmentAt(
  pieces: readonly AlignedSegment[],
  time: number,
  axis: "own" | "common",
): AlignedSegment | null {
  let low = 0;
  let high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pieces[middle]![axis][0] <= time) low = middle;
    else high = middle - 1;
  }
  return pieces[low] ?? null;
}

function stretchTime(time: number, from: Span, to: Span): number {
  const length = from[1] - from[0];
  const targetLength = to[1] - to[0];
  if (time <= from[0] || length === 0) return to[0] + (time - from[0]);
  if (time >= from[1]) return to[1] + (time - from[1]);
  return to[0] + ((time - from[0]) * targetLength) / length;
}

export function toCommon(pieces: readonly AlignedSegment[], time: number): number {
  const piece = segmentAt(pieces, time, "own");
  return piece === null ? time : stretchTime(time, piece.own, piece.common);
}

/** Times on the run's own axis; for a gap, the instant before it. */
export function toOwnTime(pieces: readonly AlignedSegment[], time: number): number {
  const piece = segmentAt(pieces, time, "common");
  if (piece === null) return time;
  const isLast = piece === pieces.at(-1);
  const at = isLast ? time : Math.min(time, Math.max(piece.common[1], piece.common[0]));
  return stretchTime(at, piece.common, piece.own);
}

export interface Alignment {
  base: AlignmentBase;
  segments: [AlignedSegment[], AlignedSegment[]];
  ranges: [Span, Span];
  /** Times of a pair of events to align instead of the slots, before and after. */
  anchor?: readonly [number, number] | null;
}

/**
 * The window of the other run: as long, and shifted like the slot in its middle, so that a
 * millisecond is as wide on both sides. Near the whole run it becomes the other whole run.
 */
export function partnerView(alignment: Alignment, from: 0 | 1, view: Span): Span {
  const to = from === 0 ? 1 : 0;
  const ownSegments = alignment.segments[from];
  const partnerSegments = alignment.segments[to];
  if (alignment.base === "scaled") {
    const edge = (time: number): number => toOwnTime(partnerSegments, toCommon(ownSegments, time));
    return [edge(view[0]), edge(view[1])];
  }
  const middle = (view[0] + view[1]) / 2;
  const segment = segmentAt(ownSegments, middle, "own");
  const slot = segment === null ? 0 : ownSegments.indexOf(segment);
  const other = partnerSegments[Math.min(slot, partnerSegments.length - 1)];
  const { anchor = null } = alignment;
  const shift =
    anchor !== null
      ? anchor[to] - anchor[from]
      : segment === null || other === undefined
        ? 0
        : other.own[0] - other.common[0] - (segment.own[0] - segment.common[0]);
  const moved: Span = [view[0] + shift, view[1] + shift];
  const [a, b] = [alignment.ranges[from], alignment.ranges[to]];
  if (alignment.base === "absolute") {
    // The whole run corresponds to the whole other run, whatever their lengths.
    if (view[0] > a[0] || view[1] < a[1]) return moved;
    return [Math.min(moved[0], b[0]), Math.max(moved[1], b[1])];
  }
  const spanLength = Math.max(a[1] - a[0], 1);
  const share = (view[1] - view[0]) / spanLength;
  const lastResortShare = Math.min(0.5, 1 / Math.max(ownSegments.length - 1, 1));
  const blend = Math.min(
    1,
    Math.max(0, (share - lastResortShare) / Math.max(0.98 - lastResortShare, 0.1)),
  );
  const spread = (time: number): number => b[0] + ((time - a[0]) / spanLength) * (b[1] - b[0]);
  return [
    moved[0] + (spread(view[0]) - moved[0]) * blend,
    moved[1] + (spread(view[1]) - moved[1]) * blend,
  ];
}
