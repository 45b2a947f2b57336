import { describe, expect, test } from "vitest";
import type { TilesReply } from "../protocol/decode";
import { LaneWindow, SLOT_STATE } from "./lane_window";
import {
  EMPTY_TILE,
  levelOf,
  missingTiles,
  planAhead,
  planVisible,
  type TileViewport,
  tileRange,
  TileStore,
} from "./tile_store";

interface GivenEvent {
  lane: number;
  index: number;
  busy?: (cell: number) => number;
  count?: (cell: number) => number;
  slices?: [id: number, start: number, dur: number][];
}

function reply(level: number, tiles: GivenEvent[], classed = false): TilesReply {
  const n = tiles.length;
  const cells = (of: (t: GivenEvent, c: number) => number) =>
    Uint16Array.from({ length: 256 * n }, (_, i) => of(tiles[i >> 8]!, i & 255));
  const slices = tiles.map((tile) => tile.slices ?? []);
  const all = slices.flat();
  const first = [0, ...slices.map((_, i) => slices.slice(0, i + 1).flat().length)];
  return {
    level,
    tileLane: Uint32Array.from(tiles, ({ lane }) => lane),
    tileIndex: Float64Array.from(tiles, ({ index }) => index),
    busy: cells((t, c) => t.busy?.(c) ?? 0),
    count: cells((t, c) => t.count?.(c) ?? 1),
    kind: new Uint8Array(256 * n),
    sliceFirst: Uint32Array.from(first),
    sliceStart: Float64Array.from(all, ([, start]) => start),
    sliceDur: Float64Array.from(all, ([, , dur]) => dur),
    sliceId: Uint32Array.from(all, ([id]) => id),
    sliceName: new Uint32Array(all.length).fill(7),
    sliceKind: new Uint8Array(all.length),
    sliceFlags: new Uint8Array(all.length),
    counterLane: new Uint32Array(0),
    counterIndex: new Float64Array(0),
    counterMin: new Float32Array(0),
    counterMax: new Float32Array(0),
    names: { "7": "add" },
    classes: new Uint8Array(classed ? 256 * n : 0).fill(2),
    sliceClass: new Uint8Array(classed ? all.length : 0),
  };
}

type Slices = NonNullable<GivenEvent["slices"]>;
const part = (lanes: number[], first: number, last: number) => ({ lanes, first, last });

describe("the store", () => {
  test("requested parts that are missing from the reply are empty", () => {
    const store = new TileStore(4);
    store.add([part([1, 2], 0, 3)], reply(5, [{ lane: 1, index: 1 }]));
    expect(store.get(1, 5, 1)).not.toBe(EMPTY_TILE);
    expect(store.get(1, 5, 0)).toBe(EMPTY_TILE);
    expect(store.get(2, 5, 2)).toBe(EMPTY_TILE);
    expect(store.get(2, 5, 3)).toBeUndefined();
    expect(store.get(1, 4, 1)).toBeUndefined();
    expect([...store.names.values()]).toEqual(["add"]);
  });

  test("names have the store's own keys, because kernel and page number them differently", () => {
    const store = new TileStore(2);
    const named = (lane: number, names: Record<string, string>): string => {
      const answer = reply(5, [{ lane, index: 0, slices: [[1, 0, 10]] }]);
      store.add([part([lane], 0, 1)], { ...answer, sliceName: Uint32Array.of(7), names });
      return store.names.get(store.get(lane, 5, 0)!.sliceName[0]!)!;
    };
    expect([named(0, { "7": "add" }), named(1, { "7": "mm", "8": "add" })]).toEqual(["add", "mm"]);
    expect(store.names.get(store.get(0, 5, 0)!.sliceName[0]!)).toBe("add");
  });

  test("keeps copies, so that a reply can be released, and versions of its lanes", () => {
    const store = new TileStore(2);
    const answer = reply(0, [{ lane: 1, index: 0, busy: () => 9 }]);
    store.add([part([1], 0, 1)], answer);
    answer.busy.fill(0);
    expect(store.get(1, 0, 0)?.busy[0]).toBe(9);
    expect([...store.versions]).toEqual([0, 1]);
  });

  test("drops the longest unused tiles when it is full", () => {
    const store = new TileStore(1, 40_000);
    for (let index = 0; index < 40; index += 1) {
      store.add([part([0], index, index + 1)], reply(0, [{ lane: 0, index }]));
      store.tick();
      store.get(0, 0, 0);
    }
    expect(store.sizeBytes).toBeLessThanOrEqual(40_000);
    expect(store.has(0, 0, 0)).toBe(true);
    expect(store.has(0, 0, 39)).toBe(true);
    expect(store.has(0, 0, 1)).toBe(false);
  });
});

describe("the plan", () => {
  const sight = (change: Partial<TileViewport> = {}): TileViewport => ({
    view: [0, 1024],
    nsPerPx: 1.5,
    lanes: [0, 1],
    nearbyLanes: [5],
    range: [0, 1e6],
    ...change,
  });

  test("cells are at most as wide as a pixel", () => {
    expect([0.01, 1, 1.99, 2, 1000, 2 ** 60].map(levelOf)).toEqual([0, 0, 0, 1, 9, 52]);
  });

  test("tiles touch the view and are within the job", () => {
    expect(tileRange([0, 256], 0, [0, 1e6])).toEqual({ first: 0, last: 1 });
    expect(tileRange([255, 257], 0, [0, 1e6])).toEqual({ first: 0, last: 2 });
    expect(tileRange([-500, 300], 0, [0, 1e6])).toEqual({ first: 0, last: 2 });
    // The very end of the job is in the tile that begins there.
    expect(tileRange([0, 9999], 0, [0, 256])).toEqual({ first: 0, last: 2 });
    expect(tileRange([2000, 3000], 0, [0, 256])).toEqual({ first: 7, last: 7 });
  });

  const target = { lanes: [0, 1, 2], level: 0, window: [0, 1024] } as const;

  test("requests missing tiles in rectangles", () => {
    const store = new TileStore(8);
    store.add([part([0], 0, 2)], reply(0, []));
    const request = missingTiles(store, target, [0, 1e6])!;
    expect(request.parts).toEqual([part([0], 2, 4), part([1, 2], 0, 4)]);
    expect(request.tiles).toBe(10);
  });

  test("a request is limited in size, the top lanes come first", () => {
    const request = missingTiles(new TileStore(8), target, [0, 1e6], 6)!;
    expect(request.parts).toEqual([part([0], 0, 4), part([1], 0, 2)]);
  });

  test("visible tiles come first, then likely ones", () => {
    const store = new TileStore(8);
    const asked: [number, number[]][] = [];
    const answer = (request: ReturnType<typeof planVisible>) => {
      asked.push([request!.level, request!.parts.flatMap(({ lanes }) => lanes)]);
      store.add(request!.parts, reply(request!.level, []));
    };
    const shown = sight({ view: [2048, 4096], nsPerPx: 3 });
    answer(planVisible(store, shown));
    expect(planVisible(store, shown)).toBeNull();
    for (let i = 0; i < 20; i += 1) {
      const request = planAhead(store, shown);
      if (request === null) break;
      answer(request);
    }
    expect(planAhead(store, shown)).toBeNull();
    const levels = asked.map(([level]) => level);
    expect(levels.slice(0, 2)).toEqual([1, 1]);
    expect(levels).toContain(0);
    expect(levels).toContain(2);
    expect(asked.some(([, lanes]) => lanes.includes(5))).toBe(true);
  });
});

describe("a window over a lane", () => {
  const windowOf = (store: TileStore, level: number, first: number, last: number) => {
    const window = new LaneWindow(0);
    window.update(store, level, first, last);
    return window;
  };

  test("uses exact tiles unchanged", () => {
    const store = new TileStore(1);
    store.add([part([0], 0, 2)], reply(3, [{ lane: 0, index: 1, busy: (c) => c }]));
    const window = windowOf(store, 3, 0, 2);
    expect(window.pending).toBe(false);
    expect([...window.slots]).toEqual([SLOT_STATE.exact, SLOT_STATE.exact]);
    expect(window.busy[255]).toBe(0);
    expect(window.busy[256 + 200]).toBe(200);
    expect(window.start).toBe(0);
  });

  test("merges finer tiles: busy is the exact mean", () => {
    const store = new TileStore(1);
    const busy = (c: number) => (c % 2 === 0 ? 100 : 300);
    const tiles = [0, 1].map((index) => ({ lane: 0, index, busy }));
    store.add([part([0], 0, 2)], reply(2, tiles));
    const window = windowOf(store, 3, 0, 1);
    expect(window.slots[0]).toBe(SLOT_STATE.exact);
    expect(window.busy.slice(0, 256).every((value) => value === 200)).toBe(true);
    expect(window.pending).toBe(true);
  });

  test("stretches the nearest coarser tile, and marks it", () => {
    const store = new TileStore(1);
    const busy = (c: number) => (c < 64 ? 0 : 65535);
    store.add([part([0], 0, 1)], reply(9, [{ lane: 0, index: 0, busy: () => 1 }]));
    store.add([part([0], 0, 1)], reply(5, [{ lane: 0, index: 0, busy }]));
    const window = windowOf(store, 4, 0, 2);
    expect([...window.slots]).toEqual([SLOT_STATE.stretched, SLOT_STATE.stretched]);
    expect([window.busy[127], window.busy[128], window.busy[300]]).toEqual([0, 65535, 65535]);
    expect(window.pending).toBe(true);
  });

  test("stretched cells do not smear the time of their slices", () => {
    const store = new TileStore(1);
    // One event covers the right half of cell 0 and all of cells 1 and 2 (cells of 16 ns).
    const tile: GivenEvent = {
      lane: 0,
      index: 0,
      busy: (c) => (c === 0 ? 32768 : c < 3 ? 65535 : 0),
      count: (c) => (c < 3 ? 1 : 0),
      slices: [[0, 8, 40]],
    };
    store.add([part([0], 0, 1)], reply(4, [tile]));
    const window = windowOf(store, 2, 0, 1);
    expect(window.slices).toBe(1);
    expect(window.busy.slice(0, 16).every((value) => value <= 1)).toBe(true);
    expect(window.count.slice(0, 16).every((value) => value === 0)).toBe(true);
  });

  test("tiles without classes are drawn until tiles with classes arrive", () => {
    const store = new TileStore(1);
    const slices: Slices = [[4, 10, 20]];
    const parts = [part([0], 0, 2)];
    store.add(parts, reply(0, [{ lane: 0, index: 0, slices }]));
    expect(store.has(0, 0, 0)).toBe(true);
    const drawn = windowOf(store, 0, 0, 1);
    expect(drawn.pending).toBe(false);
    store.classed = true;
    // Replies to pending requests are drawn.
    drawn.update(store, 0, 0, 1);
    expect(drawn.pending).toBe(true);
    // An empty tile does not need classes.
    expect([store.has(0, 0, 0), store.has(0, 0, 1)]).toEqual([false, true]);
    // This reply was in flight when classes were requested.
    store.add(parts, reply(0, [{ lane: 0, index: 0, slices }]));
    expect(store.has(0, 0, 0)).toBe(false);
    const before = windowOf(store, 0, 0, 1);
    expect([before.classes[0], before.sliceClass[0], before.slices]).toEqual([255, 255, 1]);
    expect(before.pending).toBe(true);
    store.add(parts, reply(0, [{ lane: 0, index: 0, slices }], true));
    const after = windowOf(store, 0, 0, 1);
    expect([after.classes[0], after.sliceClass[0], after.pending]).toEqual([2, 0, false]);
  });

  test("a slice across tiles is there once", () => {
    const store = new TileStore(1);
    const slices: Slices[] = [[[3, 10, 5], [4, 250, 20]], [[4, 250, 20], [5, 300, 9]]]; // prettier-ignore
    const tiles = slices.map((tileSlices, index) => ({ lane: 0, index, slices: tileSlices }));
    store.add([part([0], 0, 2)], reply(0, tiles));
    const window = windowOf(store, 0, 0, 2);
    expect([...window.sliceId.slice(0, window.slices)]).toEqual([3, 4, 5]);
  });

  test("is rebuilt only when its tiles change", () => {
    const store = new TileStore(2);
    store.add([part([0], 0, 1)], reply(0, [{ lane: 0, index: 0, busy: () => 5 }]));
    const window = windowOf(store, 0, 0, 1);
    window.busy[0] = 77;
    window.update(store, 0, 0, 1);
    expect(window.busy[0]).toBe(77);
    store.add([part([1], 0, 1)], reply(0, []));
    window.update(store, 0, 0, 1);
    expect(window.busy[0]).toBe(77);
    store.add([part([0], 1, 2)], reply(0, []));
    window.update(store, 0, 0, 1);
    expect(window.busy[0]).toBe(5);
  });

  test("missing tiles are pending, not empty", () => {
    const window = windowOf(new TileStore(1), 4, 0, 1);
    expect(window.slots[0]).toBe(SLOT_STATE.missing);
    expect(window.pending).toBe(true);
  });
});
