import { describe, expect, test } from "vitest";
import vectors from "../../../tests/vectors/lateness.json";
import {
  delayPieces,
  latenessReply,
  type CollectiveEvents,
  type EventPieces,
  RankLateness,
  waitUnion,
  waitPieces,
  waitsWithoutTransfers,
} from "./collectives";
import { IntervalUnion } from "./spans";
import { Sweep, timeInStates } from "./sweep";

type Piece = [start: number, dur: number, id: number];
type Field = "start" | "dur" | "wait" | "late" | "imposed" | "last_alone";

interface RankCase {
  rank: number;
  compute: [start: number, end: number][];
  entries: Record<Field, number>[];
  waits: Piece[];
  folded: Piece[];
  lates: Piece[];
}

interface LatenessCase {
  name: string;
  late: number[];
  ranks: RankCase[];
  windows: ({ start: number; end: number } & Record<string, number[]>)[];
}

const cases = (vectors as unknown as { cases: LatenessCase[] }).cases;

function partOf({ entries }: RankCase): CollectiveEvents {
  const column = (name: Field) => Float64Array.from(entries, (entry) => entry[name]);
  return {
    start: column("start"),
    dur: column("dur"),
    wait: column("wait"),
    late: column("late"),
    imposed: column("imposed"),
    lastRank: Int32Array.from(entries, (entry) => entry.last_alone),
  };
}

function coverOf(pieces: readonly (readonly [number, number])[]): IntervalUnion {
  return IntervalUnion.of(
    Float64Array.from(pieces, ([start]) => start),
    Float64Array.from(pieces, ([, end]) => end),
  );
}

const listed = ({ start, dur, entry }: EventPieces) =>
  Array.from(start, (time, i) => [time, dur[i], entry[i]]);

describe.each(cases)("$name", ({ late, ranks, windows }) => {
  test.each(ranks)("lanes of rank $rank", (rank) => {
    const part = partOf(rank);
    expect(listed(waitPieces(part))).toEqual(rank.waits);
    expect(listed(waitsWithoutTransfers(part))).toEqual(rank.folded);
    expect(listed(delayPieces(part))).toEqual(rank.lates);
  });

  const figures = ranks.map((rank) => {
    const part = partOf(rank);
    const sweep = Sweep.of([waitUnion(part), coverOf(rank.compute)]);
    const exposed = (from: number, to: number): number =>
      timeInStates(sweep.timesWithin(from, to), 1, 2);
    return new RankLateness(rank.rank, part, { within: exposed, isApproximate: false });
  });

  test.each(windows)("$start … $end", ({ start, end, ...wanted }) => {
    expect(latenessReply(figures, start, end, { late, note: "a note" })).toEqual({
      start,
      end,
      ranks: ranks.map(({ rank }) => rank),
      ...wanted,
      note: "a note",
      clock: null,
    });
  });
});

test("ranks whose exposed waits are means are named, and speak in whole nanoseconds", () => {
  const part = partOf(cases[0]!.ranks[0]!);
  const coarse = new RankLateness(4, part, {
    within: (from, to) => (to - from) / 3,
    isApproximate: true,
  });
  expect(latenessReply([coarse], 0, 100, { note: "" })).toMatchObject({
    exposed_wait: [33],
    approximate: [4],
  });
});

test("a window must have a length", () => {
  expect(() => latenessReply([], 5, 5, { note: "" })).toThrow("must end after it starts");
});

describe("the part of one cover beyond another", () => {
  const left = (a: [number, number][], b: [number, number][]) => {
    const remaining: number[][] = [];
    coverOf(a).forEachDifference(coverOf(b), (...part) => remaining.push(part));
    return remaining;
  };

  test("nothing removed, everything removed, split into pieces", () => {
    expect(left([[0, 10]], [])).toEqual([[0, 10, 0]]);
    expect(left([], [[0, 10]])).toEqual([]);
    expect(left([[3, 5]], [[0, 10]])).toEqual([]);
    expect(left([[0, 30]], [[5, 10], [10, 12], [20, 40]])).toEqual([[0, 5, 0], [12, 20, 0]]); // prettier-ignore
  });

  test("several intervals may split one piece, touching ends remove nothing", () => {
    expect(left([[0, 10], [12, 20], [25, 30]], [[8, 27]])).toEqual([[0, 8, 0], [27, 30, 2]]); // prettier-ignore
    expect(left([[0, 10]], [[10, 20]])).toEqual([[0, 10, 0]]);
    expect(left([[10, 20]], [[0, 10]])).toEqual([[10, 20, 0]]);
  });
});
