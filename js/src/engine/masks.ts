/** Events of a rank that a selection includes, regardless of its window. */

import { compileQuery } from "../expressions/evaluate";
import { readClauses } from "../protocol/selection";
import type { SelectionJson } from "../protocol/source";
import type { Names, Pacer } from "./columns";
import { Lru } from "./lru";
import type { Rank } from "./rank";
import { eventColumns, trackTest } from "./search";

/** Max number of cached masks per rank. */
const KEPT_MASKS = 6;
const STRIDE = 1 << 12;

/** Columns that are the same for all events of a type. */
const OF_TYPES = new Set(["name", "category", "kind", "rank"]);

type Mask = Uint8Array | null;
type Test = (row: number) => boolean;

export class Masks {
  private readonly known = new Map<number, Lru<string, Promise<Mask>>>();

  constructor(private readonly names: Names) {}

  /** Cache key of a selection's mask. */
  static key({ tracks, ids, query }: SelectionJson): string {
    return tracks === null && ids === null && query === null
      ? ""
      : JSON.stringify([tracks, ids, query]);
  }

  /** 1 by row for each event that the selection includes; null if it includes all. */
  of(rank: Rank, selection: SelectionJson, pacer: Pacer): Promise<Mask> {
    const key = Masks.key(selection);
    if (key === "") return Promise.resolve(null);
    const known = this.known.get(rank.number) ?? new Lru<string, Promise<Mask>>(KEPT_MASKS);
    this.known.set(rank.number, known);
    const mask = known.get(key, () => this.make(rank, selection, pacer));
    mask.catch(() => known.delete(key));
    return mask;
  }

  private async make(rank: Rank, selection: SelectionJson, pacer: Pacer): Promise<Mask> {
    const { tracks, ids, query } = selection;
    const { type, lane } = rank.events;
    const mask = new Uint8Array(type.length);
    const { types, rows } = this.tests(rank, query);
    const onTrack = trackTest(rank, tracks);
    if (ids !== null) {
      for (const [number, row] of ids) {
        if (number === rank.number && row >= 0 && row < mask.length) mask[row] = 1;
      }
    }
    if (ids === null && onTrack === null && rows === null) {
      for (let row = 0; row < mask.length; row += 1) mask[row] = types[type[row]!]!;
      return mask;
    }
    for (let row = 0; row < mask.length; row += 1) {
      if (row % STRIDE === 0) await pacer.rest();
      if (ids !== null && mask[row] === 0) continue;
      const has =
        types[type[row]!] === 1 &&
        (onTrack === null || onTrack(lane[row]!)) &&
        (rows === null || rows(row));
      mask[row] = has ? 1 : 0;
    }
    return mask;
  }

  /** Tests of a query: by type, and by single event. */
  private tests(rank: Rank, query: string | null): { types: Uint8Array; rows: Test | null } {
    const { header } = rank;
    const types = new Uint8Array(header.types.length).fill(1);
    if (query === null) return { types, rows: null };
    const { rest, names, kinds } = readClauses(query);
    const [nameSet, kindSet] = [new Set(names), new Set(kinds)];
    header.types.forEach(([name, , kind], at) => {
      if (names !== null && !nameSet.has(this.names.full(name))) types[at] = 0;
      if (kinds !== null && !kindSet.has(this.names.kind(kind))) types[at] = 0;
    });
    if (rest === null) return { types, rows: null };
    const used = new Set<string>();
    const columns = eventColumns(rank, this.names);
    const test = compileQuery(rest, (name) => {
      used.add(name);
      return columns(name);
    });
    if ([...used].some((name) => !OF_TYPES.has(name))) return { types, rows: test };
    const first = new Int32Array(types.length).fill(-1);
    const { type } = rank.events;
    for (let row = type.length - 1; row >= 0; row -= 1) first[type[row]!] = row;
    for (let at = 0; at < types.length; at += 1) {
      if (types[at] === 1 && first[at]! >= 0 && !test(first[at]!)) types[at] = 0;
    }
    return { types, rows: null };
  }
}
