import { expect, test } from "vitest";
import { plain } from "../../test/plain";
import { recordedScene } from "../../test/recorded";
import type { SceneRank, Lateness, Stats } from "../protocol/source";
import { rankFact, withoutUnit } from "./gutter";
import { latenessByRank, statsByRank } from "./frame";

const [rank] = recordedScene().ranks as [SceneRank];
const stats = (change: Partial<Stats> = {}) =>
  statsByRank({
    start: 0,
    end: 1e9,
    ranks: [rank.rank],
    compute: [2e8],
    communication: [1.5e8],
    exposed: [1.48e8],
    memory: [0],
    idle: [6.6e8],
    unrecorded: [0],
    data: [2e9],
    span: [1e9],
    kinds: {},
    ...change,
  });
const lateness = (changes: Partial<Lateness>) =>
  latenessByRank({
    start: 0,
    end: 1e9,
    ranks: [rank.rank],
    collectives: [21],
    last: [0],
    wait: [148e6],
    exposed_wait: [120e6],
    imposed: [0],
    wait_for_late: [0],
    late: [],
    note: "",
    clock: null,
    ...changes,
  });
const cpuTracks = rank.summary.filter(({ role }) => role === "cpu");
const host: SceneRank = { ...rank, host: null, summary: cpuTracks };

/** Return the style and texts of the figure shown for a rank. */
function fact(
  shown: ReturnType<typeof stats> | null = stats(),
  late?: ReturnType<typeof lateness>,
  of = rank,
  hasMargin = true,
): string {
  const { tone, texts } = rankFact(of, shown, hasMargin, late);
  return `${tone}: ${texts.map(plain).join(" | ")}`;
}

test("exposed time, or busy time without it; the idle share where no margin has the shares", () => {
  expect(fact()).toBe("plain: exposed 148 ms");
  expect(fact(stats({ exposed: [0] }))).toBe("plain: busy 340 ms");
  expect(fact(stats(), undefined, rank, false)).toBe("plain: idle 66 %");
});

test("a file that ends early comes first; no data, no figures and no device are not idle", () => {
  const cut: SceneRank = { ...rank, truncated: "gzip stream cut", range: [0, 4.4e8] };
  expect(fact(stats(), undefined, cut)).toBe("warn: ends at 440.000 ms | ends early");
  expect(fact(stats({ data: [0], idle: [0] }))).toBe("plain: no data here");
  expect([fact(null), fact(stats({ ranks: [99] }))]).toEqual(["plain: ", "plain: "]);
  expect(fact(null, undefined, host)).toBe("plain: CPU only");
  expect(fact(null, undefined, { ...host, host: "node-3" })).toBe("plain: node-3");
  const empty: SceneRank = { ...host, host: "node-3", summary: [], tracks: [] };
  expect(fact(null, undefined, empty)).toBe("plain: no events");
});

test("waits come before exposed time, and the rank that others wait for is named", () => {
  const waits = "plain: waits 120 ms";
  expect(fact(stats(), lateness({}))).toBe(waits);
  expect(fact(stats(), lateness({ exposed_wait: [0] }))).toBe("plain: exposed 148 ms");
  expect(fact(stats(), lateness({ last: [21], late: [rank.rank] }))).toMatch(
    /^late: last in 21 of 21/,
  );
  // A rank that usually comes last but delays no other rank is not red.
  const last = (last: number, collectives = 20) =>
    fact(stats(), lateness({ last: [last], collectives: [collectives] }));
  expect(last(17)).toMatch(/^plain: last 85 %/);
  expect([last(10), last(3, 3)]).toEqual([waits, waits]);
  const other = lateness({ last: [17], collectives: [20], late: [99] });
  expect(fact(stats(), other)).toBe(waits);
});

test.each([
  ["GPU 0 memory (bytes) reserved", "bytes", "GPU 0 memory reserved"],
  ["GPU 0 memory (bytes)", "bytes", "GPU 0 memory"],
  ["Queue Length[7]", "", "Queue Length[7]"],
  ["power (W)", undefined, "power (W)"],
])("a counter %s in %s is named %s beside its values", (name, unit, expected) => {
  expect(withoutUnit(name, unit)).toBe(expected);
});
