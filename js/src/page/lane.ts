/** One lane, indexed: what its cells cover, count and show at any zoom. */

import { type Cover, pieceAt, Spans } from "./spans";
import { countBelow } from "./sorted";

const BLOCK = 64;
export const NO_KIND = 255;

/** One of the kinds of a lane of several; its count follows from its `spans`, or by difference. */
interface Part {
  kind: number;
  spans: Spans;
}

/** Exact contents of neighbouring cells. */
export interface Cells {
  covered: Float64Array;
  count: Float64Array;
  kind: Uint8Array;
  mask: Uint8Array;
}

export interface Events {
  /** In lane order: by start, then longest first. */
  starts: Float64Array;
  durs: Float64Array;
  kinds: Uint8Array;
  /** Row in the table of each; null for a lane without slices. */
  rows: Int32Array | null;
}

export class Lane {
  readonly spans: Spans;
  /** Kind of all events; with several kinds, a part for each, by code. */
  private readonly kind: number;
  private readonly parts: readonly Part[] | null;
  /** Kind of each point, ordered as the points, at one instant the lowest first. */
  private readonly kindOfPoint: Uint8Array;
  /** Row in the table of each event with a length. */
  readonly rows: Int32Array;
  readonly durs: Float64Array;
  /** Longest duration of each block of 64 of `durs`. */
  private readonly longest: Float64Array;

  constructor({ starts, durs, kinds, rows }: Events) {
    this.spans = Spans.of(starts, durs);
    const long = this.spans.begins.length;
    this.rows = new Int32Array(rows === null ? 0 : long);
    this.durs = new Float64Array(rows === null ? 0 : long);
    if (rows !== null) {
      for (let i = 0, at = 0; i < durs.length; i += 1) {
        if (!(durs[i]! > 0)) continue;
        this.rows[at] = rows[i]!;
        this.durs[at] = durs[i]!;
        at += 1;
      }
    }
    this.longest = blockMaxima(this.durs);
    const used = usedKinds(kinds);
    this.kind = used[0] ?? NO_KIND;
    this.parts = used.length < 2 ? null : used.map((kind) => partOf(kind, starts, durs, kinds));
    this.kindOfPoint = used.length < 2 ? new Uint8Array(0) : kindsOfPoints(starts, durs, kinds);
  }

  /** Contents of the cells between neighbouring edges. */
  measure(edges: Float64Array): Cells {
    const { covered, count } = this.spans.measure(edges);
    const cells = count.length;
    const kind = new Uint8Array(cells).fill(NO_KIND);
    const mask = new Uint8Array(cells);
    if (this.parts === null) {
      for (let k = 0; k < cells; k += 1) {
        if (count[k]! === 0) continue;
        kind[k] = this.kind;
        mask[k] = 1 << this.kind;
      }
      return { covered, count, kind, mask };
    }
    const most = new Float64Array(cells);
    for (const part of this.parts) {
      const of = part.spans.measure(edges);
      for (let k = 0; k < cells; k += 1) {
        if (of.count[k]! === 0) continue;
        mask[k] = mask[k]! | (1 << part.kind);
        if (of.covered[k]! > most[k]!) {
          most[k] = of.covered[k]!;
          kind[k] = part.kind;
        }
      }
    }
    for (let k = 0; k < cells; k += 1) {
      if (count[k]! > 0 && most[k]! === 0) {
        kind[k] = this.kindOfPoint[countBelow(this.spans.points, edges[k]!)]!;
      }
    }
    return { covered, count, kind, mask };
  }

  /** Time that each kind covers in a window, of kinds that have an event there. */
  kindTimes(start: number, end: number): [kind: number, ns: number][] {
    const edges = Float64Array.of(start, end);
    const parts = this.parts ?? [{ kind: this.kind, spans: this.spans }];
    return parts
      .map(({ kind, spans }) => ({ kind, of: spans.measure(edges) }))
      .filter(({ of }) => of.count[0]! > 0)
      .map(({ kind, of }) => [kind, of.covered[0]!]);
  }

  /** Positions in `rows` of events of that length that overlap a window, in order. */
  longEvents(start: number, end: number, atLeast: number): number[] {
    const { begins, cover } = this.spans;
    if (this.rows.length === 0 || end <= start) return [];
    // All that overlaps the window began at or after the piece of the union that is open there.
    const first = countBelow(begins, cover.starts[pieceAt(cover, start)]!);
    const last = countBelow(begins, end);
    const found: number[] = [];
    for (let block = Math.floor(first / BLOCK); block * BLOCK < last; block += 1) {
      if (this.longest[block]! < atLeast) continue;
      const to = Math.min((block + 1) * BLOCK, last);
      for (let at = Math.max(block * BLOCK, first); at < to; at += 1) {
        if (this.durs[at]! >= atLeast && begins[at]! + this.durs[at]! > start) found.push(at);
      }
    }
    return found;
  }

  /** Does the event at this position begin before an earlier one ended? */
  overlapped(at: number): boolean {
    if (this.spans.disjoint) return false;
    const { begins, cover } = this.spans;
    return countBelow(begins, cover.starts[pieceAt(cover, begins[at]!)]!) !== at;
  }

  get bytes(): number {
    const parts = this.parts?.reduce((sum, { spans }) => sum + spans.bytes, 0) ?? 0;
    return this.spans.bytes + parts + this.rows.byteLength + this.durs.byteLength;
  }
}

function usedKinds(kinds: Uint8Array): number[] {
  const seen = new Set<number>();
  for (const kind of kinds) seen.add(kind);
  return [...seen].sort((a, b) => a - b);
}

function partOf(kind: number, starts: Float64Array, durs: Float64Array, kinds: Uint8Array): Part {
  const ours = (_: number, i: number): boolean => kinds[i] === kind;
  return { kind, spans: Spans.of(starts.filter(ours), durs.filter(ours)) };
}

function kindsOfPoints(starts: Float64Array, durs: Float64Array, kinds: Uint8Array): Uint8Array {
  const points: number[] = [];
  for (let i = 0; i < durs.length; i += 1) if (!(durs[i]! > 0)) points.push(i);
  points.sort((a, b) => starts[a]! - starts[b]! || kinds[a]! - kinds[b]!);
  return Uint8Array.from(points, (i) => kinds[i]!);
}

function blockMaxima(durs: Float64Array): Float64Array {
  const out = new Float64Array(Math.ceil(durs.length / BLOCK));
  for (let i = 0; i < durs.length; i += 1) {
    const block = Math.floor(i / BLOCK);
    if (durs[i]! > out[block]!) out[block] = durs[i]!;
  }
  return out;
}

/** Union of intervals given in order of their starts, as a cover alone. */
export function coverOf(starts: Float64Array, durs: Float64Array): Cover {
  return Spans.of(starts, durs).cover;
}
