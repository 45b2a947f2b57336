import { describe, expect, test } from "vitest";
import { recordedScene } from "../../test/recorded";
import { LaneIndex } from "./scene";
import {
  FULL_SELECTION,
  areSpansNearlyEqual,
  padSpan,
  selectionOfRows,
  selectionSpan,
  toggleEvent,
  windowSelection,
} from "./selection";
import type { Brief, RowInfo } from "./source";

const scene = recordedScene();

function row(rank: number, track: number | null, open = false): RowInfo {
  const found = track === null ? null : (scene.ranks[rank]?.tracks[track] ?? null);
  return { rank, track: found, top: 0, height: 20, open, pinned: false };
}

const EVENT = { table: "events", lane: 0, name: "k", short: "k", kind: "compute" } as const;
const brief = (rank: number, id: number): Brief => ({ ...EVENT, rank, id, start: 5, dur: 7 });

const keys = scene.ranks[1]!.tracks.slice(0, 2).map(({ key }) => key);

test.each<[string, RowInfo[], number[] | null, string[] | null]>([
  ["folded ranks are taken whole", [row(0, null), row(1, null)], [0, 1], null],
  ["all ranks are no restriction", [0, 1, 2].map((rank) => row(rank, null)), null, null],
  ["tracks of an opened rank", [row(1, null, true), row(1, 0), row(1, 1)], [1], keys],
  // A selection applies its tracks to all of its ranks.
  ["a folded rank among tracks", [row(0, null), row(1, 0)], [0, 1], null],
  ["every track of a rank", scene.ranks[2]!.tracks.map((_, at) => row(2, at)), [2], null],
  ["the head of an opened rank alone", [row(1, null, true)], [1], null],
])("rows: %s", (_, rows, ranks, tracks) => {
  expect(selectionOfRows(rows, scene)).toEqual({ ranks, tracks });
});

describe("windows", () => {
  test("are whole nanoseconds and never empty", () => {
    const rows = { ranks: null, tracks: null };
    expect(windowSelection([10.4, 20.6], rows)).toMatchObject({ start_ns: 10, end_ns: 21 });
    expect(windowSelection([10, 10], rows)).toMatchObject({ start_ns: 10, end_ns: 11 });
  });

  test("open ends are those of the job", () => {
    expect(selectionSpan(null, scene)).toBeNull();
    expect(selectionSpan({ ...FULL_SELECTION, query: "x" }, scene)).toBeNull();
    expect(selectionSpan({ ...FULL_SELECTION, start_ns: 5 }, scene)).toEqual([5, scene.range[1]]);
  });

  test("the window around an event of no length is not empty", () => {
    const [start, end] = padSpan(1000, 0);
    expect(end - start).toBeGreaterThan(100);
    expect(start).toBeLessThan(1000);
  });

  test("windows are nearly equal if they differ by at most a hundredth", () => {
    expect(areSpansNearlyEqual([0, 1000], [5, 1005])).toBe(true);
    expect(areSpansNearlyEqual([0, 1000], [0, 1100])).toBe(false);
  });
});

describe("sets of events", () => {
  test("the event that was selected before is included", () => {
    expect(toggleEvent(null, [0, 1], brief(0, 2))?.ids).toEqual([
      [0, 1],
      [0, 2],
    ]);
  });

  test("a second click removes an event; removing the last one clears the set", () => {
    const two = toggleEvent(null, [0, 1], brief(0, 2));
    const one = toggleEvent(two, null, brief(0, 1));
    expect(one?.ids).toEqual([[0, 2]]);
    expect(toggleEvent(one, null, brief(0, 2))).toBeNull();
  });

  test("the same id on another rank is another event", () => {
    expect(toggleEvent(null, [0, 1], brief(1, 1))?.ids).toHaveLength(2);
  });
});

describe("lanes", () => {
  const index = new LaneIndex(scene);

  test("every lane of the scene is found in its rank", () => {
    for (const rank of scene.ranks) {
      for (const track of rank.tracks) {
        for (let depth = 0; depth < track.lanes; depth += 1) {
          const { rank: found, track: own, depth: at } = index.locate(track.lane0 + depth)!;
          expect([found.rank, own?.key, at]).toEqual([rank.rank, track.key, depth]);
        }
      }
      for (const summary of rank.summary) {
        expect(index.locate(summary.lane)).toMatchObject({ track: null, summary });
      }
    }
  });

  test("lanes outside the scene belong to no rank", () => {
    expect(index.locate(-1)).toBeNull();
    expect(index.locate(scene.lanes)).toBeNull();
  });

  test("the table of a slice follows from its track", () => {
    const track = { ...scene.ranks[0]!.tracks[0]!, lane0: 0, lanes: 1 };
    const of = (role: typeof track.role): string => {
      const rank = { ...scene.ranks[0]!, summary: [], tracks: [{ ...track, role }] };
      return new LaneIndex({ ...scene, ranks: [rank] }).tableOf({ ...brief(0, 0), flags: 0 });
    };
    expect([of("thread"), of("async"), of("instant")]).toEqual(["events", "asyncs", "instants"]);
  });
});
