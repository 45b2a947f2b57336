import { describe, expect, test } from "vitest";
import { recordedScene } from "../../test/recorded";
import { LaneIndex } from "./scene";
import {
  EVERYTHING,
  nearlySame,
  roomAround,
  rowsChoice,
  selectionSpan,
  toggledEvent,
  windowSelection,
} from "./selection";
import type { Brief, RowInfo, Scene } from "./source";

const scene = recordedScene();

function row(rank: number, track: number | null, open = false): RowInfo {
  const tracks = scene.ranks[rank]?.tracks ?? [];
  return {
    rank,
    track: track === null ? null : (tracks[track] ?? null),
    top: 0,
    height: 20,
    open,
    pinned: false,
  };
}

const brief = (rank: number, id: number): Brief => ({
  rank,
  table: "events",
  id,
  lane: 0,
  name: "k",
  short: "k",
  kind: "compute",
  start: 5,
  dur: 7,
});

describe("rows", () => {
  test("folded ranks are taken whole", () => {
    expect(rowsChoice([row(0, null), row(1, null)], scene)).toEqual({
      ranks: [0, 1],
      tracks: null,
    });
  });

  test("selecting all ranks sets no restriction", () => {
    const rows = [row(0, null), row(1, null), row(2, null)];
    expect(rowsChoice(rows, scene)).toEqual({ ranks: null, tracks: null });
  });

  test("tracks of an opened rank are named, its head is not counted", () => {
    const choice = rowsChoice([row(1, null, true), row(1, 0), row(1, 1)], scene);
    const keys = scene.ranks[1]?.tracks.slice(0, 2).map((track) => track.key);
    expect(choice).toEqual({ ranks: [1], tracks: keys });
  });

  test("a folded rank among tracks selects whole ranks, as a selection cannot pair them", () => {
    expect(rowsChoice([row(0, null), row(1, 0)], scene)).toEqual({ ranks: [0, 1], tracks: null });
  });

  test("every track of a rank is the rank", () => {
    const rows = (scene.ranks[2]?.tracks ?? []).map((_, at) => row(2, at));
    expect(rowsChoice(rows, scene)).toEqual({ ranks: [2], tracks: null });
  });

  test("the head of an opened rank alone is the rank", () => {
    expect(rowsChoice([row(1, null, true)], scene)).toEqual({ ranks: [1], tracks: null });
  });
});

describe("windows", () => {
  test("are whole nanoseconds and never empty", () => {
    const rows = { ranks: null, tracks: null };
    expect(windowSelection([10.4, 20.6], rows)).toMatchObject({ start_ns: 10, end_ns: 21 });
    expect(windowSelection([10, 10], rows)).toMatchObject({ start_ns: 10, end_ns: 11 });
  });

  test("open ends are the job's", () => {
    expect(selectionSpan(null, scene)).toBeNull();
    expect(selectionSpan({ ...EVERYTHING, query: "x" }, scene)).toBeNull();
    expect(selectionSpan({ ...EVERYTHING, start_ns: 5 }, scene)).toEqual([5, scene.range[1]]);
  });

  test("room around an event of no length is not empty", () => {
    const [start, end] = roomAround(1000, 0);
    expect(end - start).toBeGreaterThan(100);
    expect(start).toBeLessThan(1000);
  });

  test("nearly the same is one in a hundred", () => {
    expect(nearlySame([0, 1000], [5, 1005])).toBe(true);
    expect(nearlySame([0, 1000], [0, 1100])).toBe(false);
  });
});

describe("sets of events", () => {
  test("the event that was selected before is included", () => {
    expect(toggledEvent(null, [0, 1], brief(0, 2))?.ids).toEqual([
      [0, 1],
      [0, 2],
    ]);
  });

  test("a second click removes an event, the last one clears", () => {
    const two = toggledEvent(null, [0, 1], brief(0, 2));
    const one = toggledEvent(two, null, brief(0, 1));
    expect(one?.ids).toEqual([[0, 2]]);
    expect(toggledEvent(one, null, brief(0, 2))).toBeNull();
  });

  test("the same id on another rank is another event", () => {
    expect(toggledEvent(null, [0, 1], brief(1, 1))?.ids).toHaveLength(2);
  });
});

describe("lanes", () => {
  const index = new LaneIndex(scene);

  test("every lane of the scene is found in its rank", () => {
    for (const rank of scene.ranks) {
      for (const track of rank.tracks) {
        for (let depth = 0; depth < track.lanes; depth += 1) {
          const place = index.at(track.lane0 + depth);
          expect(place?.rank.rank).toBe(rank.rank);
          expect(place?.track?.key).toBe(track.key);
          expect(place?.depth).toBe(depth);
        }
      }
      for (const summary of rank.summary) {
        expect(index.at(summary.lane)).toMatchObject({ track: null, summary });
      }
    }
  });

  test("lanes beyond the scene are nowhere", () => {
    expect(index.at(-1)).toBeNull();
    expect(index.at(scene.lanes)).toBeNull();
  });

  test("the table of a slice follows from its track", () => {
    const track = { ...scene.ranks[0]!.tracks[0]!, lane0: 0, lanes: 1 };
    const of = (role: typeof track.role): string => {
      const rank = { ...scene.ranks[0]!, summary: [], tracks: [{ ...track, role }] };
      const one: Scene = { ...scene, ranks: [rank] };
      const slice = {
        lane: 0,
        id: 0,
        name: "",
        kind: "other" as const,
        start: 0,
        dur: 0,
        flags: 0,
      };
      return new LaneIndex(one).table(slice);
    };
    expect([of("thread"), of("async"), of("instant")]).toEqual(["events", "asyncs", "instants"]);
  });
});
