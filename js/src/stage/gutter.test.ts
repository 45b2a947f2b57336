import { describe, expect, test } from "vitest";
import { recordedScene } from "../../test/recorded";
import type { SceneRank, Lateness, Stats } from "../protocol/source";
import { factOf } from "./gutter";
import { latenessByRank, statsByRank } from "./lanes";

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
    data: [2e9],
    span: [1e9],
    kinds: {},
    ...change,
  });
const plain = ({ texts }: { texts: string[] }) => texts.map((text) => text.replace(/\u202f/g, " "));

describe("the one fact of a rank", () => {
  test("exposed communication if the margin has the shares", () => {
    expect(plain(factOf(rank, stats(), true))).toEqual(["exposed 148 ms"]);
  });
  test("the idle share if there is no margin", () => {
    expect(plain(factOf(rank, stats(), false))).toEqual(["idle 66 %"]);
  });
  test("busy time if nothing is exposed", () => {
    expect(plain(factOf(rank, stats({ exposed: [0] }), true))[0]).toBe("busy 340 ms");
  });
  test("a file that ends early has priority", () => {
    const cut: SceneRank = { ...rank, truncated: "gzip stream cut", range: [0, 4.4e8] };
    const fact = factOf(cut, stats(), true);
    expect(plain(fact)).toEqual(["ends at 440.000 ms", "ends early"]);
    expect(fact.look).toBe("warn");
  });
  test("no data in the view is not idle", () => {
    expect(plain(factOf(rank, stats({ data: [0], idle: [0] }), true))).toEqual(["no data here"]);
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
  test("the wait of a rank has priority over its exposed communication", () => {
    const fact = factOf(rank, stats(), true, lateness({}));
    expect(plain(fact)).toEqual(["waits 148 ms in all", "waits 148 ms"]);
    expect(plain(factOf(rank, stats(), true, lateness({ wait: [0] })))[0]).toMatch(/^exposed/);
  });
  test("the rank that the others wait for is named by how often it came last", () => {
    const fact = factOf(rank, stats(), true, lateness({ last: [21], late: [rank.rank] }));
    expect(fact.look).toBe("late");
    expect(fact.texts[0]).toBe("last in 21 of 21");
  });
  test("a rank that mostly comes last but delays no other rank is not red", () => {
    const texts = (last: number, collectives = 20) => {
      const fact = factOf(
        rank,
        stats(),
        true,
        lateness({ last: [last], collectives: [collectives] }),
      );
      expect(fact.look).toBe("plain");
      return plain(fact)[0];
    };
    expect(texts(17)).toBe("last 85 %");
    expect(texts(10)).toBe("waits 148 ms in all");
    expect(texts(3, 3)).toBe("waits 148 ms in all");
  });
  test("unknown figures are omitted", () => {
    expect(factOf(rank, null, true).texts).toEqual([]);
    expect(factOf(rank, stats({ ranks: [99] }), true).texts).toEqual([]);
  });
  test("a rank without device events", () => {
    const host: SceneRank = { ...rank, summary: rank.summary.filter(({ role }) => role === "cpu") };
    expect(plain(factOf(host, null, true))).toEqual(["CPU only"]);
    expect(plain(factOf({ ...host, host: "node-3" }, null, true))).toEqual(["node-3"]);
  });
});
