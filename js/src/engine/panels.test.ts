import { describe, expect, test } from "vitest";
import {
  binEdges,
  BusyIndex,
  busyTimes,
  Counted,
  exactly,
  overlap,
  type Part,
  reachOf,
  spanOf,
  type Work,
} from "./busy";
import { Pacer } from "./columns";
import { Gaps, idle, Launched } from "./idle";
import { byCodePoints } from "./panel_names";
import { PanelRank } from "./panel_rank";

type Event = [start: number, end: number, kind: number, callStart?: number, callEnd?: number];

/** Work by start; with a call given, the call launches the work. */
function workOf(events: readonly Event[]): Work {
  const column = (of: (event: Event) => number): Float64Array => Float64Array.from(events, of);
  const end = column(([, to]) => to);
  return {
    row: Int32Array.from(events.keys()),
    start: column(([from]) => from),
    end,
    reach: reachOf(end),
    kind: Uint8Array.from(events, ([, , kind]) => kind),
    kernel: new Int32Array(events.length),
    call: Int32Array.from(events, ([, , , call], i) => (call === undefined ? -1 : 1000 + i)),
    callStart: column(([, , , call]) => call ?? Infinity),
    callEnd: column(([, , , , returned]) => returned ?? Infinity),
    stream: new Int32Array(events.length).fill(7),
  };
}

/** Build a rank that has only this device work, launched by no recorded calls. */
async function rankOf(events: readonly Event[]): Promise<PanelRank> {
  const none = { type: [], start: [], dur: [], lane: [] };
  const own = { number: 0, events: none, header: { types: [] } };
  const rank = { ...own, trackAt: () => null, streams: () => [] };
  const made = new PanelRank(rank as never, null as never, null as never);
  made.work = workOf(events);
  made.busy = await BusyIndex.of(made.work, new Pacer());
  made.gaps = new Gaps(part(made, -Infinity, Infinity));
  return made;
}

const EVENTS: Event[] = [
  [0, 10, 0, -5, -4],
  [5, 20, 1, -3, -2],
  [30, 40, 0, 22, 25],
  [30, 30, 2],
  [45, 45, 2],
  [50, 60, 2, 41, 42],
  [55, 58, 1],
  [70, 70, 0],
];

function part(rank: PanelRank, low: number, high: number, rows: number[] | null = null): Part {
  const mask = rows === null ? null : Uint8Array.from(EVENTS, (_, i) => Number(rows.includes(i)));
  return { rank, mask, low, high, key: rows === null ? "" : String(rows) };
}

const ALL = EVENTS.map((_, i) => i);
const WINDOWS: [number, number][] = [
  [-Infinity, Infinity],
  [0, 70],
  [0, 71],
  [7, 33],
  [10, 30],
  [20, 30],
  [20, 31],
  [30, 30],
  [30, 31],
  [41, 44],
  [44, 58],
  [45, 46],
  [56, Infinity],
  [-Infinity, 5],
  [60, 71],
];

describe.each(WINDOWS)("the window from %d to %d", (low, high) => {
  test("is the same looked up as walked through", async () => {
    const rank = await rankOf(EVENTS);
    expect(busyTimes(part(rank, low, high))).toEqual(busyTimes(part(rank, low, high, ALL)));
    expect(idle(part(rank, low, high))).toEqual(idle(part(rank, low, high, ALL)));
  });

  test("has the events that overlap it", () => {
    const [start, end] = [0, 1].map((k) => Float64Array.from(EVENTS, (one) => one[k]!));
    const counted = new Counted(start!, end!, reachOf(end!));
    const inside = EVENTS.filter(
      ([from, to]) => low < high && from < high && (to > low || from >= low),
    );
    const of = part(null as never, low, high);
    expect(counted.within(of)).toBe(inside.length);
    const first = Math.min(...inside.map(([from]) => Math.max(from, low)));
    const last = Math.max(...inside.map(([, to]) => Math.min(to, high)));
    expect(counted.extent(of)).toEqual([first, last]);
  });
});

test("gaps are attributed to the work that their end waited for", async () => {
  const rank = await rankOf(EVENTS);
  // 20 … 30: called at 22, for 3; 40 … 50: called at 41, for 1; 60 … 70: no call.
  const { time, gaps } = idle(part(rank, -Infinity, Infinity));
  expect([...time]).toEqual([0, 0, 0, 0, 2 + 1, 3 + 1, 5 + 8, 0, 0, 0, 10]);
  expect([...gaps]).toEqual([0, 0, 0, 0, 2, 2, 2, 0, 0, 0, 1]);
});

test("a window within a gap is idle, with the cause of the whole gap", async () => {
  const rank = await rankOf(EVENTS);
  const gap = part(rank, 43, 48);
  expect(spanOf(gap)).toEqual([43, 48]);
  expect([...idle(gap).time]).toEqual([0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0]);
  expect([...idle(part(rank, 21, 24)).time]).toEqual([0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0]);
  expect(spanOf(part(rank, 71, 90))).toBeNull();
  expect(spanOf(part(rank, -9, 0))).toBeNull();
});

/** The same numbers in each run, below `most`. */
function seeded(seed: number): (most: number) => number {
  let state = seed;
  return (most) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * most);
  };
}

test("times of adjacent windows add up to the time of both", async () => {
  for (let seed = 0; seed < 60; seed += 1) {
    const random = seeded(seed);
    const events = Array.from({ length: 1 + random(12) }, (): Event => {
      const start = 5 + random(60);
      const called = random(start);
      const known: Event = [start, start + random(15), random(3), called, called + random(9)];
      return random(4) > 0 ? known : (known.slice(0, 3) as unknown as Event);
    }).sort((a, b) => a[0] - b[0]);
    const rank = await rankOf(events);
    const times = (low: number, high: number, mask: Uint8Array | null): number[] => {
      const one = { rank, mask, low, high, key: mask === null ? "" : "some" };
      const [start, end] = spanOf(one) ?? [0, 0];
      return [end - start, ...busyTimes(one).unions, ...idle(one).time, overlap(one).both];
    };
    const some = Uint8Array.from(events, () => random(2));
    for (let tries = 0; tries < 20; tries += 1) {
      const [low, middle, high] = [random(90), random(90), random(90)].sort((a, b) => a - b);
      for (const mask of [null, some]) {
        const [left, right] = [times(low!, middle!, mask), times(middle!, high!, mask)];
        const both = times(low!, high!, mask);
        expect(left.map((time, at) => time + right[at]!)).toEqual(both);
        // Idle time is the span less busy time, and every part of it has a cause.
        const idleTime = both.slice(9, 20).reduce((sum, time) => sum + time, 0);
        expect(idleTime).toBe(both[0]! - both[8]!);
      }
    }
  }
});

test("times of each set of kinds, and of no more", async () => {
  const { unions } = busyTimes(part(await rankOf(EVENTS), -Infinity, Infinity));
  expect([...exactly(unions)]).toEqual([0, 5 + 10, 10, 5, 7, 0, 3, 0]);
});

describe("queues", () => {
  // Two wait from 1 on, one from 3 to 6; at 6 another one enters before that one leaves.
  const work = workOf([
    [3, 5, 0, 0, 1],
    [6, 8, 0, 1, 2],
    [9, 10, 0, 6, 7],
    [11, 12, 0],
  ]);
  const of = async (low: number, high: number, mask: Uint8Array | null): Promise<unknown> =>
    (await Launched.of(work, new Pacer())).within({
      rank: null as never,
      mask,
      low,
      high,
      key: "",
    });

  test("over all time", async () => {
    const area = 1 * 1 + 2 * 2 + 1 * 3 + 1 * 3;
    expect(await of(-Infinity, Infinity, null)).toEqual({
      queues: [{ stream: 7, count: 6, max: 2, mean: area / 9, span: 9 }],
      launched: 3,
    });
  });

  test.each<[number, number]>([
    [-Infinity, Infinity],
    [0, 3],
    [2, 7],
    [6, 6],
    [6, 7],
    [9, 20],
    [20, 30],
  ])("from %d to %d, looked up as walked through", async (low, high) => {
    expect(await of(low, high, null)).toEqual(await of(low, high, new Uint8Array(4).fill(1)));
  });

  test("of chosen work alone", async () => {
    expect(await of(-Infinity, Infinity, Uint8Array.of(0, 1, 0, 1))).toEqual({
      queues: [{ stream: 7, count: 2, max: 1, mean: 1, span: 5 }],
      launched: 1,
    });
  });
});

test("bins share a window to the last nanosecond", () => {
  expect([...binEdges(10, 20, 3)]).toEqual([10, 13, 16, 20]);
  expect([...binEdges(0, 2, 4)]).toEqual([0, 0, 1, 1, 2]);
  const [start, end, bins] = [3, 2 ** 52 + 12_345, 4096];
  const exact = Array.from({ length: bins + 1 }, (_, k) =>
    Number(BigInt(start) + (BigInt(end - start) * BigInt(k)) / BigInt(bins)),
  );
  expect([...binEdges(start, end, bins)]).toEqual(exact);
});

test("names in the order of Python", () => {
  const names = ["b", "a", "\u{1f642}", "\uffee", "ab", "", "\u{10000}"];
  expect(names.sort(byCodePoints)).toEqual([
    "",
    "a",
    "ab",
    "b",
    "\uffee",
    "\u{10000}",
    "\u{1f642}",
  ]);
});
