import { h } from "preact";
import type { Collective } from "../protocol/source";
import { describe, expect, test, vi } from "vitest";
import { plain as spaced } from "../../test/plain";
import { recordedScene } from "../../test/recorded";
import type { Brief, Lateness, Stats } from "../protocol/source";
import type { RichText } from "../ui/text";
import { renderElement as drawn } from "../ui/dom";
import { CollectivePanel } from "./panels/event";
import { eventText, lastRankOf, lateText, countText, plainText, viewText, waitsText } from "./text";

const text = (words: RichText | string | null): string =>
  spaced(typeof words === "string" ? words : plainText(words ?? []));

/** Three ranks: 0 waits 5 ms, 1 waits 4 ms; 2 is last, 4.5 ms after the median of the others. */
const call: Collective = {
  number: 13,
  of: 2100,
  name: "allreduce",
  group: "0",
  size: 26_255_360,
  algbw: 22.2,
  busbw: null,
  last_rank: 2,
  late: 4.5e6,
  ranks: [
    { rank: 0, id: 10, arrival: 0, wait: 5e6, transfer: 1.2e6 },
    { rank: 1, id: 11, arrival: 1e6, wait: 4e6, transfer: 1.3e6 },
    { rank: 2, id: 12, arrival: 5e6, wait: 0, transfer: 1.25e6 },
  ],
};
const together: Collective = {
  ...call,
  last_rank: -1,
  late: 0,
  ranks: call.ranks.map((member) => ({ ...member, arrival: 0, wait: 0 })),
};

describe("one collective", () => {
  test("names the last rank, if there is one", () => {
    expect(lastRankOf(call)?.id).toBe(12);
    expect(lastRankOf(together)).toBeNull();
    expect(lastRankOf({ ...call, last_rank: 9 })).toBeNull();
  });

  test("as text", () => {
    expect(text(countText(call))).toBe("Collective 13 of 2 100");
    expect(text(waitsText(call))).toBe("2 ranks waited 4.00–5.00 ms, transfer 1.25 ms");
    expect(text(waitsText(together))).toBe("no rank waited, transfer 1.25 ms");
  });
});

describe("the status line of an event", () => {
  const event = (rank: number): Brief => ({
    rank, table: "events", id: 10 + rank, lane: 0, name: "n", short: "AllReduce",
    kind: "communication", start: 0, dur: 6.2e6,
  }); // prettier-ignore
  const sentence = (rank: number, collective: Collective | null) =>
    text(eventText(event(rank), "stream 40", [0, 1e7], collective));

  test("names the share of waiting and the rank waited for, or the delay of the last rank", () => {
    expect(sentence(0, call)).toBe(
      "Collective 13 of 2 100, AllReduce on rank 0, stream 40: 6.20 ms, " +
        "including 5.00 ms waiting for rank 2.",
    );
    expect(sentence(2, call)).toMatch(/6\.20 ms, arrived 4\.50 ms after the median rank\.$/);
    expect(sentence(1, together)).toMatch(/6\.20 ms, without waiting\.$/);
  });

  test("describes an event outside this collective as any other event", () => {
    expect(sentence(0, null)).toBe(
      "AllReduce on rank 0, stream 40: 6.20 ms. View 0.0–10.0 ms (10.0 ms).",
    );
    expect(sentence(7, call)).toContain("View 0.0–10.0 ms");
  });
});

describe("the status line of a view", () => {
  const lateness = (changes: Partial<Lateness> = {}): Lateness => ({
    start: 0,
    end: 1e9,
    ranks: [0, 1, 2],
    collectives: [20, 20, 20],
    last: [0, 0, 20],
    wait: [160e6, 140e6, 0],
    exposed_wait: [100e6, 90e6, 0],
    imposed: [0, 0, 290e6],
    wait_for_late: [150e6, 130e6, 0],
    late: [2],
    note: "",
    clock: null,
    ...changes,
  });

  const ofEachRank = (value: number) => [value, value, value];
  const stats: Stats = {
    ...{ start: 0, end: 1e9, ranks: [0, 1, 2], data: ofEachRank(1e9), span: ofEachRank(5e8) },
    ...{ compute: ofEachRank(1e8), communication: ofEachRank(45e6), exposed: ofEachRank(25e6) },
    ...{ memory: ofEachRank(0), unrecorded: ofEachRank(0), idle: ofEachRank(375e6), kinds: {} },
  };

  // 190 of 1500 ms of the device spans are waiting; hidden waits of 300 ms cost nothing.
  test.each([
    [{}, "2 ranks wait for rank 2: 13 % of each GPU span."],
    [{ wait_for_late: [150e6, 19e6, 0] }, "1 rank waits for rank 2: 13 % of each GPU span."],
    [{ exposed_wait: [100e6, 19e6, 0] }, "1 rank waits for rank 2: 7.9 % of each GPU span."],
  ])("of lateness %o: %s", (changes, wanted) => {
    expect(text(lateText(lateness(changes), stats, "each GPU span"))).toBe(` ${wanted}`);
  });

  test.each([
    ["no worker stands out", lateness({ late: [] })],
    ["several do", lateness({ late: [1, 2] })],
    ["nobody waits", lateness({ wait_for_late: [0, 0, 9] })],
    ["it is not known", null],
  ])("%s: nothing is said", (_, given) => {
    expect(lateText(given, stats, "each GPU span")).toBeNull();
  });

  test("waits come before the time shares", () => {
    const scene = recordedScene();
    const said = text(viewText(scene.range, scene, stats, lateness()));
    expect(said).toMatch(
      /^Whole job, [\d.]+ ms\. 2 ranks wait for rank 2: 13 % .*\. GPUs compute 20 %/,
    );
  });
});

describe("the panel of a collective", () => {
  const made = (collective: Collective, ownRank = 0) => {
    const go = vi.fn();
    const el = drawn(h(CollectivePanel, { collective: collective, ownRank: ownRank, goTo: go }));
    const rows = [...el.querySelectorAll<HTMLElement>(".hta-call")];
    const parts = (row: HTMLElement) =>
      [...row.querySelectorAll<HTMLElement>(".hta-call-part")].map(({ className, style }) => [
        className.replace("hta-call-part hta-", ""),
        Math.round(parseFloat(style.left)),
        Math.round(parseFloat(style.width)),
      ]);
    return { el, go, rows, parts };
  };

  test("each rank has its wait and transfer on one scale, the last rank its delay", () => {
    const { el, rows, parts } = made(call);
    // The last end is 6.3 ms after the first arrival.
    expect(parts(rows[0]!)).toEqual([["wait", 0, 79], ["transfer", 79, 19]]); // prettier-ignore
    expect(parts(rows[1]!)).toEqual([["wait", 16, 63], ["transfer", 79, 21]]); // prettier-ignore
    expect(parts(rows[2]!)).toEqual([["late", 8, 71], ["transfer", 79, 20]]); // prettier-ignore
    expect(text(el.textContent ?? "")).toContain("allreduce on 3 ranks");
    const figures = rows.map((row) => text(row.querySelector(".hta-call-figure")!.textContent));
    expect(figures).toEqual(["5.00 ms", "4.00 ms", "last"]);
    const marked = (name: string) => rows.map((row) => row.classList.contains(name));
    expect(marked("hta-own")).toEqual([true, false, false]);
    expect(marked("hta-late")).toEqual([false, false, true]);
  });

  test("no rank is last if several arrive together", () => {
    const { rows } = made(together);
    expect(rows.some((row) => row.classList.contains("hta-late"))).toBe(false);
    expect(rows[2]!.textContent).toContain("no wait");
  });

  test("in large groups the first and last ranks are shown, and the selected event's rank", () => {
    const ranks = Array.from({ length: 100 }, (_, rank) => ({
      rank, id: rank, arrival: rank * 10, wait: 990 - rank * 10, transfer: 50,
    })); // prettier-ignore
    const { el, rows } = made({ ...call, last_rank: 99, late: 500, ranks }, 40);
    const shown = rows.map((row) =>
      Number(/rank (\d+)/.exec(row.querySelector("button, a")!.textContent)?.[1]),
    );
    expect(shown).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 40, 92, 93, 94, 95, 96, 97, 98, 99]);
    expect(el.textContent).toContain("83 ranks between them not shown");
  });

  test("a click shows the call on that rank; names are text", () => {
    const { el, rows, go } = made({ ...call, name: "<img src=x>" });
    expect(el.querySelector("img")).toBeNull();
    expect(el.textContent).toContain("<img src=x>");
    rows[1]!.querySelector<HTMLElement>("button, a")!.click();
    expect(go).toHaveBeenCalledWith(1, 11);
  });
});
