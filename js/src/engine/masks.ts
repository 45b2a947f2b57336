/** The events of a rank that a selection includes. */

import { indicesWhere } from "../expressions/numbers";
import { type ColumnLookup, compileQuery } from "../expressions/evaluate";
import { parseClauses } from "../protocol/selection";
import type { SelectionJson } from "../protocol/source";
import { getOrMake } from "../protocol/maps";
import { countBelow, Pacer } from "./columns";
import { LruCache } from "./lru";
import { DEVICE_KIND_COUNT, type RankTrace } from "./rank";
import { overlaps } from "./spans";

/** Number of masks cached per rank. */
const MAX_MASKS = 6;
/** The clock is checked once per this many rows. */
const ROWS_PER_CHECK = 4096;

/** Columns whose value is the same for all events of a type. */
const TYPE_COLUMNS = new Set(["name", "category", "kind", "rank"]);

type Mask = Uint8Array | null;
type RowTest = (row: number) => boolean;

/** A query as two tests: a fast one for event types, and one for individual events. */
interface EventTest {
  /** For each type: 1 if its events may match. */
  readonly ofType: Uint8Array;
  /** Null if all events of the matching types match. */
  readonly ofRow: RowTest | null;
}

export class MaskCache {
  private readonly cacheOfRank = new Map<number, LruCache<string, Promise<Mask>>>();

  /** Return the cache key of a selection's mask. */
  static key({ tracks, ids, query, launches }: SelectionJson): string {
    return tracks === null && ids === null && query === null
      ? ""
      : JSON.stringify([tracks, ids, query, launches === true]);
  }

  /** Return the rows of the selected events, ascending. */
  async memberRows(rank: RankTrace, selection: SelectionJson): Promise<Int32Array> {
    const { start_ns: from, end_ns: to, ranks } = selection;
    if (ranks !== null && !ranks.includes(rank.number)) return new Int32Array(0);
    const mask = await this.maskOf(rank, selection, new Pacer());
    const { start, dur } = rank.events;
    // Events are sorted by start.
    const startedBeforeEnd = countBelow(start, to ?? Infinity);
    return indicesWhere(
      startedBeforeEnd,
      (row) =>
        (mask === null || mask[row] === 1) &&
        overlaps(start[row]!, start[row]! + dur[row]!, from ?? -Infinity),
    );
  }

  /** Return 1 for each selected row, ignoring the window; null if all rows are selected. */
  maskOf(rank: RankTrace, selection: SelectionJson, pacer: Pacer): Promise<Mask> {
    const key = MaskCache.key(selection);
    if (key === "") return Promise.resolve(null);
    const cache = getOrMake(this.cacheOfRank, rank.number, () => new LruCache(MAX_MASKS));
    return cache.get(key, async () => {
      const mask = await this.computeMask(rank, selection, pacer);
      return selection.launches === true ? withLaunches(rank, mask) : mask;
    });
  }

  private async computeMask(
    rank: RankTrace,
    selection: SelectionJson,
    pacer: Pacer,
  ): Promise<Uint8Array> {
    const { tracks, ids, query } = selection;
    const { type, lane } = rank.events;
    const mask = new Uint8Array(type.length).fill(ids === null ? 1 : 0);
    const { ofType, ofRow } = compileEventTest(rank, query);
    const onTrack = compileTrackTest(rank, tracks);
    if (ids === null && onTrack === null && ofRow === null) {
      return mask.map((_, row) => ofType[type[row]!]!);
    }
    for (const [number, row] of ids ?? []) {
      if (number === rank.number && row >= 0 && row < mask.length) mask[row] = 1;
    }
    for (let row = 0; row < mask.length; row += 1) {
      if (row % ROWS_PER_CHECK === 0) await pacer.yieldIfDue();
      if (mask[row] === 0) continue;
      const isMember =
        ofType[type[row]!] === 1 &&
        (onTrack === null || onTrack(lane[row]!)) &&
        (ofRow === null || ofRow(row));
      mask[row] = isMember ? 1 : 0;
    }
    return mask;
  }
}

function compileEventTest(rank: RankTrace, query: string | null): EventTest {
  const { rest, names, kinds } = parseClauses(query);
  const ofType = testTypes(rank, names, kinds);
  if (rest === null) return { ofType, ofRow: null };
  const usedColumns = new Set<string>();
  const columns = eventColumns(rank);
  const ofRow = compileQuery(rest, (name) => {
    usedColumns.add(name);
    return columns(name);
  });
  if ([...usedColumns].some((name) => !TYPE_COLUMNS.has(name))) return { ofType, ofRow };
  dropFailingTypes(ofType, rank.events.type, ofRow);
  return { ofType, ofRow: null };
}

/** Return 1 for each type with a name in `names` and a kind in `kinds`; null allows all. */
function testTypes(
  rank: RankTrace,
  names: readonly string[] | null,
  kinds: readonly string[] | null,
): Uint8Array {
  const [nameSet, kindSet] = [names && new Set(names), kinds && new Set(kinds)];
  return Uint8Array.from(rank.header.types, ([name, , kind]) => {
    const hasName = nameSet === null || nameSet.has(rank.names.full(name));
    return hasName && (kindSet === null || kindSet.has(rank.names.kind(kind))) ? 1 : 0;
  });
}

/** Clear types that fail a test whose result is the same for all events of a type. */
function dropFailingTypes(ofType: Uint8Array, typeOfRow: Int32Array, test: RowTest): void {
  const isTested = new Uint8Array(ofType.length);
  typeOfRow.forEach((type, row) => {
    if (ofType[type] === 0 || isTested[type] === 1) return;
    isTested[type] = 1;
    if (!test(row)) ofType[type] = 0;
  });
}

/** Add the device work launched by selected operators or by operators nested in them. */
function withLaunches(rank: RankTrace, mask: Uint8Array): Uint8Array {
  const { row, parent, ofWork } = rank.operators();
  const streams = rank.streams();
  const isChosen = new Uint8Array(row.length);
  row.forEach((operatorRow, index) => {
    // Enclosing operators precede the operators inside them.
    isChosen[index] = mask[operatorRow]! | (isChosen[parent[index]!] ?? 0);
  });
  return mask.map((isMember, eventRow) => {
    const isWork =
      streams[eventRow]! >= 0 && rank.kindOf(rank.events, eventRow) < DEVICE_KIND_COUNT;
    return isMember | (isWork ? (isChosen[ofWork[eventRow]!] ?? 0) : 0);
  });
}

/** Return a test for lanes of the selected tracks; null if all are selected. */
function compileTrackTest(
  rank: RankTrace,
  tracks: readonly unknown[] | null,
): ((lane: number) => boolean) | null {
  if (tracks === null) return null;
  const keys = new Set(
    tracks.flatMap((track) => {
      if (typeof track === "string") return [track];
      const [number, key] = track as [number, string];
      return number === rank.number ? [key] : [];
    }),
  );
  return rank.trackFilter(({ key }) => keys.has(key));
}

function eventColumns(rank: RankTrace): ColumnLookup {
  const { events, names } = rank;
  const { start, dur, lane } = events;
  const columns: Record<string, () => ReturnType<ColumnLookup>> = {
    rank: () => () => rank.number,
    id: () => (row) => row,
    index: () => (row) => row,
    start_ns: () => columnGetter(start),
    dur_ns: () => columnGetter(dur),
    name: () => (row) => names.full(rank.typeOf(events, row)[0]),
    category: () => (row) => names.category(rank.typeOf(events, row)[1]),
    kind: () => (row) => names.kind(rank.kindOf(events, row)),
    track: () => (row) => rank.trackAt(lane[row]!)?.key ?? "",
    pid: () => (row) => rank.trackAt(lane[row]!)?.pid ?? "",
    tid: () => (row) => rank.trackAt(lane[row]!)?.tid ?? "",
    depth: () => (row) => lane[row]! - (rank.trackAt(lane[row]!)?.lane0 ?? 0),
    phase: () => {
      const paired = rank.pairedRows();
      return (row) => (paired.has(row) ? "B" : "X");
    },
    parent: () => columnGetter(rank.parents()),
    stream: () => columnGetter(rank.streams()),
    correlation: () => columnGetter(rank.correlations()),
    prelaunched: () => {
      const early = rank.prelaunchedMask();
      return (row) => early[row] === 1;
    },
    step: () => columnGetter(rank.steps()),
  };
  return (name) => (Object.hasOwn(columns, name) ? columns[name]!() : null);
}

function columnGetter(values: ArrayLike<number>): (row: number) => number {
  return (row) => values[row]!;
}
