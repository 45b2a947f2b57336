import { describe, expect, test } from "vitest";
import { seededRandom } from "../../test/random";
import { CAUSES, type Cause } from "../facts/panels";
import { binEdges, deviceTimesOf, overlapTimes, deviceSpan } from "./device";
import { idleByCause } from "./idle";
import { compareCodePoints } from "./panel_names";
import { RankAnalysis, type RankSelection } from "./panel_rank";
import { queueFigures } from "./queues";
import { Sweep, timeInStates } from "./sweep";

type Event = [start: number, end: number, kind: number, callStart?: number, callEnd?: number];
const CPU = 4;

/** Build a rank with only this device work, ordered by start, and its launch calls. */
function rankOf(events: readonly Event[]): RankAnalysis {
  const rows: { start: number; end: number; kind: number; of: number }[] = [];
  events.forEach(([start, end, kind, callStart, callEnd], of) => {
    rows.push({ start, end, kind, of });
    if (callStart !== undefined) rows.push({ start: callStart, end: callEnd!, kind: CPU, of });
  });
  rows.sort((a, b) => a.start - b.start);
  const launches = rows.map(({ kind, of }) =>
    kind === CPU ? -1 : rows.findIndex((row) => row.kind === CPU && row.of === of),
  );
  const rank = {
    number: 0,
    events: {
      type: Int32Array.from(rows, ({ kind }) => kind),
      start: Float64Array.from(rows, ({ start }) => start),
      dur: Float64Array.from(rows, ({ start, end }) => end - start),
      lane: new Int32Array(rows.length),
    },
    header: { types: [0, 1, 2, 3, 4].map((kind) => [0, 0, kind]), host_collectives: [] },
    trackAt: () => null,
    streams: () => rows.map(({ kind }) => (kind === CPU ? -1 : 7)),
    launches: () => launches,
    behindWaits: () => [],
    activities: () => new Map([[null, new Sweep(new Float64Array(0), new Uint8Array(0))]]),
  };
  const matched = { id: [], start: new Float64Array(0), wait: new Float64Array(0) };
  return new RankAnalysis(
    rank as never,
    { entriesOfRank: () => matched, unmatchedOf: () => new Int32Array(0) } as never,
  );
}

/** Return a window of a rank with all or some of its events. */
function part(
  analysis: RankAnalysis,
  low: number,
  high: number,
  chosen: number[] | null = null,
): RankSelection {
  if (chosen === null) return { ...analysis.fullSelection, low, high };
  const mask = new Uint8Array(analysis.trace.events.start.length);
  for (const at of chosen) mask[analysis.work.row[at]!] = 1;
  return { analysis, mask, low, high, key: String(chosen) };
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

/** Return values for all causes, 0 by default. */
function causes(values: Partial<Record<Cause, number>>): number[] {
  return CAUSES.map((cause) => values[cause] ?? 0);
}

test("gaps are attributed to the work that their end waited for", () => {
  const rank = rankOf(EVENTS);
  // 20 to 30: call at 22, taking 3; 40 to 50: call at 41, taking 1; 60 to 70: no call.
  const { time, gaps } = idleByCause(part(rank, -Infinity, Infinity));
  expect([...time]).toEqual(
    causes({ host_nothing: 2 + 1, launch_call: 3 + 1, launch_latency: 5 + 8, unknown: 10 }),
  );
  expect([...gaps]).toEqual(
    causes({ host_nothing: 2, launch_call: 2, launch_latency: 2, unknown: 1 }),
  );
});

test("a window within a gap is idle, with the cause of the whole gap", () => {
  const rank = rankOf(EVENTS);
  const gap = part(rank, 43, 48);
  expect(deviceSpan(gap)).toEqual([43, 48]);
  expect([...idleByCause(gap).time]).toEqual(causes({ launch_latency: 5 }));
  const times = [...idleByCause(part(rank, 21, 24)).time];
  expect(times).toEqual(causes({ host_nothing: 1, launch_call: 2 }));
  expect(deviceSpan(part(rank, 71, 90))).toBeNull();
  expect(deviceSpan(part(rank, -9, 0))).toBeNull();
});

test("times of adjacent windows add up to the time of both", () => {
  for (let seed = 0; seed < 24; seed += 1) {
    const random = seededRandom(seed);
    const events = Array.from({ length: 1 + random(12) }, (): Event => {
      const start = 5 + random(60);
      const called = random(start);
      const known: Event = [start, start + random(15), random(3), called, called + random(9)];
      return random(4) > 0 ? known : (known.slice(0, 3) as unknown as Event);
    }).sort((a, b) => a[0] - b[0]);
    const rank = rankOf(events);
    const some = [...events.keys()].filter(() => random(2) > 0);
    const times = (low: number, high: number, chosen: number[] | null): number[] => {
      const selection = part(rank, low, high, chosen);
      const [start, end] = deviceSpan(selection) ?? [0, 0];
      const { times: states } = deviceTimesOf(selection);
      const sums = [1, 2, 3, 4, 5, 6, 7].map((any) => timeInStates(states, any));
      return [end - start, ...sums, ...idleByCause(selection).time, overlapTimes(selection).both];
    };
    for (let tries = 0; tries < 12; tries += 1) {
      const [low, middle, high] = [random(90), random(90), random(90)].sort((a, b) => a - b);
      for (const chosen of [null, some]) {
        const [left, right] = [times(low!, middle!, chosen), times(middle!, high!, chosen)];
        const both = times(low!, high!, chosen);
        expect(left.map((time, at) => time + right[at]!)).toEqual(both);
        // Idle time is the span minus busy time, and all of it has a cause.
        const idleTime = both.slice(8, 8 + CAUSES.length).reduce((sum, time) => sum + time, 0);
        expect(idleTime).toBe(both[0]! - both[7]!);
      }
    }
  }
});

test("times of each set of kinds, and of no other kinds", () => {
  const { counts, times } = deviceTimesOf(part(rankOf(EVENTS), -Infinity, Infinity));
  expect(counts).toEqual([3, 2, 3]);
  expect([...times]).toEqual([0, 5 + 10, 10, 5, 7, 0, 3]);
});

describe("queues", () => {
  // Two kernels wait from 1 on, one from 3 to 6; at 6, another one enters before this one leaves.
  const rank = rankOf([
    [3, 5, 0, 0, 1],
    [6, 8, 0, 1, 2],
    [9, 10, 0, 6, 7],
    [11, 12, 0],
  ]);
  const area = 1 * 1 + 2 * 2 + 1 * 3 + 1 * 3;

  test.each([
    [-Infinity, Infinity, { count: 6, max: 2, mean: area / 9, span: 9 }],
    [2, 7, { count: 3, max: 2, mean: (2 * 1 + 1 * 3 + 1 * 1) / 5, span: 5 }],
    [6, 6, { count: 0, max: null, mean: null, span: 0 }],
    [6, 7, { count: 2, max: 2, mean: 1, span: 1 }],
    [20, 30, { count: 0, max: null, mean: null, span: 0 }],
  ])("from %d to %d", (low, high, wanted) => {
    const queues = [{ stream: 7, launched: 3, ...wanted }];
    expect(queueFigures(part(rank, low, high))).toEqual(queues);
    expect(queueFigures(part(rank, low, high, [0, 1, 2, 3]))).toEqual(queues);
  });

  test("of selected work only", () => {
    expect(queueFigures(part(rank, -Infinity, Infinity, [1, 3]))).toEqual([
      { stream: 7, count: 2, max: 1, mean: 1, span: 5, launched: 1 },
    ]);
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
  expect(names.sort(compareCodePoints).join()).toBe(",a,ab,b,\uffee,\u{10000},\u{1f642}");
});
