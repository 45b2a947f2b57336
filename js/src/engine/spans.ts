/** Sets of intervals that give the covered time before a given instant. */

import { gather, indicesWhere } from "../expressions/numbers";
import { countBelow, countUpTo, gallopBelow } from "./columns";

/** A union of intervals, as disjoint pieces in ascending order. */
export class IntervalUnion {
  /** `prefix` contains the covered time before each piece, then the total. */
  constructor(
    readonly starts: Float64Array,
    readonly prefix: Float64Array,
  ) {}

  /** Build the union of intervals, given their ascending starts and their ends. */
  static of(starts: Float64Array, ends: Float64Array): IntervalUnion {
    const pieces = new Float64Array(starts.length);
    const prefix = new Float64Array(starts.length + 1);
    let [count, covered, reached] = [0, 0, -Infinity];
    for (let i = 0; i < starts.length; i += 1) {
      const [start, end] = [starts[i]!, ends[i]!];
      if (start >= reached) {
        pieces[count] = start;
        prefix[count] = covered;
        count += 1;
        reached = start;
      }
      if (end > reached) {
        covered += end - reached;
        reached = end;
      }
    }
    prefix[count] = covered;
    return new IntervalUnion(shrink(pieces, count), shrink(prefix, count + 1));
  }

  coveredBefore(time: number): number {
    return this.coveredUpTo(countBelow(this.starts, time), time);
  }

  coveredWithin(start: number, end: number): number {
    return this.coveredBefore(end) - this.coveredBefore(start);
  }

  /** Return the time covered before `time`, given how many pieces start before it. */
  coveredUpTo(started: number, time: number): number {
    if (started === 0) return 0;
    // The last of these pieces may end after `time`.
    return Math.min(
      this.prefix[started]!,
      this.prefix[started - 1]! + time - this.starts[started - 1]!,
    );
  }

  endOf(piece: number): number {
    return this.starts[piece]! + this.prefix[piece + 1]! - this.prefix[piece]!;
  }

  /** Call `visit`, in order, with each part that this union covers and `other` does not. */
  forEachDifference(
    other: IntervalUnion,
    visit: (start: number, end: number, piece: number) => void,
  ): void {
    let index = 0;
    for (let piece = 0; piece < this.starts.length; piece += 1) {
      let from = this.starts[piece]!;
      const end = this.endOf(piece);
      while (index < other.starts.length && other.endOf(index) <= from) index += 1;
      for (let k = index; from < end; k += 1) {
        const next = other.starts[k] ?? Infinity;
        if (next > from) visit(from, Math.min(next, end), piece);
        if (next >= end) break;
        from = Math.max(from, other.endOf(k));
      }
    }
  }
}

/**
 * A set of intervals that may overlap, with its covered time and the number of intervals in a
 * window. `starts` and `ends` are the sorted starts and the sorted ends of the intervals with a
 * length. If no intervals overlap, both are null, and the intervals are the pieces of `cover`.
 * `points` contains the starts of zero-length intervals.
 */
export class IntervalSet {
  constructor(
    readonly cover: IntervalUnion,
    readonly starts: Float64Array | null,
    readonly ends: Float64Array | null,
    readonly points: Float64Array,
  ) {}

  /** Build a set of intervals, given their ascending starts and their durations. */
  static of(starts: Float64Array, durs: Float64Array): IntervalSet {
    const hasLength = (i: number): boolean => durs[i]! > 0;
    const pointIndices = indicesWhere(durs.length, (i) => !hasLength(i));
    const points = gather(starts, pointIndices);
    let [begins, lengths] = [starts, durs];
    if (points.length > 0) {
      const longIndices = indicesWhere(durs.length, hasLength);
      [begins, lengths] = [gather(starts, longIndices), gather(durs, longIndices)];
    }
    const ends = begins.map((start, i) => start + lengths[i]!);
    const cover = IntervalUnion.of(begins, ends);
    if (cover.starts.length === begins.length) return new IntervalSet(cover, null, null, points);
    return new IntervalSet(cover, begins, ends.sort(), points);
  }

  get isDisjoint(): boolean {
    return this.starts === null;
  }

  /** Sorted starts of the intervals with a length. */
  get begins(): Float64Array {
    return this.starts ?? this.cover.starts;
  }

  /** Return the interval ends near `time`: the last one before it, and the first at or after it. */
  endsAround(time: number): number[] {
    if (this.ends !== null) return neighbors(this.ends, time);
    const { starts } = this.cover;
    // The ends of disjoint pieces have the same order as their starts.
    const after = countBelow(starts, time);
    return [after - 2, after - 1, after]
      .filter((piece) => piece >= 0 && piece < starts.length)
      .map((piece) => this.cover.endOf(piece));
  }

  /** Return the number of intervals that overlap a window. */
  count(low: number, high: number): number {
    return low === high ? 0 : this.measure(Float64Array.of(low, high)).count[0]!;
  }

  /** Return first start and last end, cut at the window; Infinity and -Infinity if it is empty. */
  extentWithin(low: number, high: number): [start: number, end: number] {
    const { cover, points } = this;
    let [start, end] = [Infinity, -Infinity];
    if (low === high) return [start, end];
    const begun = countUpTo(cover.starts, low);
    const piece = begun > 0 && cover.endOf(begun - 1) > low ? begun - 1 : begun;
    const last = countBelow(cover.starts, high) - 1;
    if (piece <= last) {
      start = Math.max(cover.starts[piece]!, low);
      end = Math.min(cover.endOf(last), high);
    }
    const [point, lastPoint] = [countBelow(points, low), countBelow(points, high) - 1];
    if (point <= lastPoint) {
      start = Math.min(start, points[point]!);
      end = Math.max(end, points[lastPoint]!);
    }
    return [start, end];
  }

  /** Return the covered time and the number of overlapping intervals between adjacent edges. */
  measure(edges: Float64Array): { covered: Float64Array; count: Float64Array } {
    const cells = Math.max(edges.length - 1, 0);
    const covered = new Float64Array(cells);
    const count = new Float64Array(cells);
    if (cells === 0) return { covered, count };
    const { cover } = this;
    let started = countBelow(cover.starts, edges[0]!);
    let before = cover.coveredUpTo(started, edges[0]!);
    for (let k = 0; k < cells; k += 1) {
      const next = gallopBelow(cover.starts, edges[k + 1]!, started);
      const after = cover.coveredUpTo(next, edges[k + 1]!);
      covered[k] = after - before;
      // The last piece crosses an edge if the started pieces are not fully covered before it.
      count[k] = next - started + (cover.prefix[started]! > before ? 1 : 0);
      started = next;
      before = after;
    }
    if (this.starts !== null && this.ends !== null) this.countOverlapping(edges, count);
    if (this.points.length > 0) {
      let low = countBelow(this.points, edges[0]!);
      for (let k = 0; k < cells; k += 1) {
        const high = gallopBelow(this.points, edges[k + 1]!, low);
        count[k]! += high - low;
        low = high;
      }
    }
    return { covered, count };
  }

  private countOverlapping(edges: Float64Array, count: Float64Array): void {
    let begun = 0;
    let ended = 0;
    for (let k = 0; k < count.length; k += 1) {
      begun = gallopBelow(this.starts!, edges[k + 1]!, begun);
      // Ends are integers, so ends at or before an edge are below the edge plus 1.
      ended = gallopBelow(this.ends!, edges[k]! + 1, ended);
      count[k] = begun - ended;
    }
  }

  /** First start and last end; null if empty. A zero-length interval ends 1 ns after its start. */
  get extent(): [number, number] | null {
    const { cover, points } = this;
    let [low, high] = [Infinity, -Infinity];
    if (cover.starts.length > 0) {
      low = cover.starts[0]!;
      high = cover.endOf(cover.starts.length - 1);
    }
    if (points.length > 0) {
      low = Math.min(low, points[0]!);
      high = Math.max(high, points[points.length - 1]! + 1);
    }
    return low < high ? [low, high] : null;
  }
}

/** Return whether an event that starts before the end of the window overlaps the window. */
export function overlaps(start: number, end: number, low: number): boolean {
  return end > low || start >= low;
}

/** Return the last of the sorted `values` before `time`, and the first at or after it. */
export function neighbors(values: Float64Array, time: number): number[] {
  const index = countBelow(values, time);
  return Array.from(values.subarray(Math.max(index - 1, 0), index + 1));
}

/** Return the index of the last piece that starts at or before `time`; 0 if all start later. */
export function pieceAt(cover: IntervalUnion, time: number): number {
  return Math.max(countUpTo(cover.starts, time) - 1, 0);
}

function shrink(values: Float64Array, length: number): Float64Array {
  return values.length === length ? values : values.slice(0, length);
}

/** Return the length of a window, excluding its parts in disjoint gaps. */
export function timeOutside(
  gaps: readonly (readonly [start: number, end: number])[],
  low: number,
  high: number,
): number {
  return gaps.reduce(
    (time, [start, end]) => time - Math.max(Math.min(end, high) - Math.max(start, low), 0),
    Math.max(high - low, 0),
  );
}
