/** Which events a selection has. */

import type { SelectionJson } from "../contract";
import type { Names } from "./names";
import { type ColumnOf, compileQuery } from "./query";
import type { Rank } from "./rank";
import { countBelow } from "./sorted";

const FIELDS = ["start_ns", "end_ns", "ranks", "tracks", "query", "ids"] as const;

/** A selection as a request states it; missing parts mean "all". */
export function readSelection(value: unknown): SelectionJson {
  const given = (value ?? {}) as Partial<SelectionJson>;
  const out: Record<string, unknown> = {};
  for (const field of FIELDS) out[field] = given[field] ?? null;
  return out as unknown as SelectionJson;
}

/** Rows of the member events of a rank, ascending. */
export function membersOf(rank: Rank, selection: SelectionJson, names: Names): Int32Array {
  const { start_ns: from, end_ns: to, ranks, ids, query } = selection;
  if (ranks !== null && !ranks.includes(rank.number)) return new Int32Array(0);
  const { start, dur } = rank.events;
  const tests: ((row: number) => boolean)[] = [];
  // Sorted by start: all from here on start too late.
  const last = to === null ? start.length : countBelow(start, to);
  if (from !== null) {
    const begun = countBelow(start, from);
    tests.push((row) => row >= begun || start[row]! + dur[row]! > from);
  }
  const onTrack = trackTest(rank, selection.tracks);
  if (onTrack !== null) tests.push((row) => onTrack(rank.events.lane[row]!));
  if (ids !== null) {
    const chosen = new Set(ids.filter(([number]) => number === rank.number).map(([, id]) => id));
    tests.push((row) => chosen.has(row));
  }
  if (query !== null) tests.push(compileQuery(query, eventColumns(rank, names)));
  const rows: number[] = [];
  for (let row = 0; row < last; row += 1) if (tests.every((test) => test(row))) rows.push(row);
  return Int32Array.from(rows);
}

/** Whether a lane is of the chosen tracks; null where all are. */
export function trackTest(
  rank: Rank,
  tracks: readonly unknown[] | null,
): ((lane: number) => boolean) | null {
  if (tracks === null) return null;
  const keys = new Set(
    tracks.flatMap((one) => {
      if (typeof one === "string") return [one];
      const [number, key] = one as [number, string];
      return number === rank.number ? [key] : [];
    }),
  );
  const { lane0, lanes } = rank.header;
  const wanted = Uint8Array.from({ length: lanes }, (_, at) => {
    const key = rank.trackAt(lane0 + at)?.key;
    return key !== undefined && keys.has(key) ? 1 : 0;
  });
  return (lane) => wanted[lane - lane0] === 1;
}

/** The columns of `Trace.events`, for queries. */
export function eventColumns(rank: Rank, names: Names): ColumnOf {
  const { events } = rank;
  const { start, dur, lane } = events;
  return (name) => {
    switch (name) {
      case "rank":
        return () => rank.number;
      case "id":
      case "index":
        return (row) => row;
      case "start_ns":
        return (row) => start[row]!;
      case "dur_ns":
        return (row) => dur[row]!;
      case "name":
        return (row) => names.full(rank.typeOf(events, row)[0]);
      case "category":
        return (row) => names.category(rank.typeOf(events, row)[1]);
      case "kind":
        return (row) => names.kind(rank.kindOf(events, row));
      case "track":
        return (row) => rank.trackAt(lane[row]!)?.key ?? "";
      case "pid":
        return (row) => rank.trackAt(lane[row]!)?.pid ?? "";
      case "tid":
        return (row) => rank.trackAt(lane[row]!)?.tid ?? "";
      case "depth":
        return (row) => lane[row]! - (rank.trackAt(lane[row]!)?.lane0 ?? 0);
      case "phase": {
        const paired = rank.paired();
        return (row) => (paired.has(row) ? "B" : "X");
      }
      case "parent":
        return valuesOf(rank.parents());
      case "stream":
        return valuesOf(rank.streams());
      case "correlation":
        return valuesOf(rank.correlations());
      case "prelaunched": {
        const early = rank.prelaunched();
        return (row) => early[row] === 1;
      }
      case "step":
        return valuesOf(rank.steps());
      default:
        return null;
    }
  };
}

function valuesOf(values: ArrayLike<number>): (row: number) => number {
  return (row) => values[row]!;
}
