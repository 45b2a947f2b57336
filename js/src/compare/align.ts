/** Convert times between two runs by the chosen alignment. */

import type { Frame, Span } from "../protocol/source";
import { number, rowsOf } from "./frames";

export type Base = "steps" | "first_step" | "collectives" | "absolute" | "scaled";

interface Piece {
  own: Span;
  common: Span;
}

/** The pieces of both runs, before and after, ascending. */
export function piecesOf(segments: Frame): [Piece[], Piece[]] {
  const found: [Piece[], Piece[]] = [[], []];
  for (const row of rowsOf(segments)) {
    found[row.side === "before" ? 0 : 1].push({
      own: [number(row, "own_start_ns"), number(row, "own_end_ns")],
      common: [number(row, "common_start_ns"), number(row, "common_end_ns")],
    });
  }
  return found;
}

/** The last piece that starts at or before a time, or else the first piece. */
function pieceAt(pieces: readonly Piece[], time: number, axis: "own" | "common"): Piece | null {
  let low = 0;
  let high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pieces[middle]![axis][0] <= time) low = middle;
    else high = middle - 1;
  }
  return pieces[low] ?? null;
}

function stretched(time: number, from: Span, to: Span): number {
  const length = from[1] - from[0];
  const goes = to[1] - to[0];
  if (time <= from[0] || length === 0) return to[0] + (time - from[0]);
  if (time >= from[1]) return to[1] + (time - from[1]);
  return to[0] + ((time - from[0]) * goes) / length;
}

export function toCommon(pieces: readonly Piece[], time: number): number {
  const piece = pieceAt(pieces, time, "own");
  return piece === null ? time : stretched(time, piece.own, piece.common);
}

/** Times on the run's own axis; for a gap, the instant before it. */
export function toOwn(pieces: readonly Piece[], time: number): number {
  const piece = pieceAt(pieces, time, "common");
  if (piece === null) return time;
  const isLast = piece === pieces.at(-1);
  const at = isLast ? time : Math.min(time, Math.max(piece.common[1], piece.common[0]));
  return stretched(at, piece.common, piece.own);
}

export interface Line {
  base: Base;
  pieces: [Piece[], Piece[]];
  ranges: [Span, Span];
  /** Times of a pair of events to align instead of the slots, before and after. */
  anchor?: readonly [number, number] | null;
}

/**
 * The window of the other run: as long, and shifted like the slot in its middle, so that a
 * millisecond is as wide on both sides. Near the whole run it becomes the other whole run.
 */
export function partnerView(line: Line, from: 0 | 1, view: Span): Span {
  const to = from === 0 ? 1 : 0;
  const mine = line.pieces[from];
  const theirs = line.pieces[to];
  if (line.base === "scaled") {
    const edge = (time: number): number => toOwn(theirs, toCommon(mine, time));
    return [edge(view[0]), edge(view[1])];
  }
  const middle = (view[0] + view[1]) / 2;
  const one = pieceAt(mine, middle, "own");
  const slot = one === null ? 0 : mine.indexOf(one);
  const other = theirs[Math.min(slot, theirs.length - 1)];
  const { anchor = null } = line;
  const shift =
    anchor !== null
      ? anchor[to] - anchor[from]
      : one === null || other === undefined
        ? 0
        : other.own[0] - other.common[0] - (one.own[0] - one.common[0]);
  const moved: Span = [view[0] + shift, view[1] + shift];
  const [a, b] = [line.ranges[from], line.ranges[to]];
  if (line.base === "absolute") {
    // The whole run corresponds to the whole other run, whatever their lengths.
    if (view[0] > a[0] || view[1] < a[1]) return moved;
    return [Math.min(moved[0], b[0]), Math.max(moved[1], b[1])];
  }
  const whole = Math.max(a[1] - a[0], 1);
  const share = (view[1] - view[0]) / whole;
  const alone = Math.min(0.5, 1 / Math.max(mine.length - 1, 1));
  const blend = Math.min(1, Math.max(0, (share - alone) / Math.max(0.98 - alone, 0.1)));
  const spread = (time: number): number => b[0] + ((time - a[0]) / whole) * (b[1] - b[0]);
  return [
    moved[0] + (spread(view[0]) - moved[0]) * blend,
    moved[1] + (spread(view[1]) - moved[1]) * blend,
  ];
}
