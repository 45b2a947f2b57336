import { describe, expect, test } from "vitest";
import vectors from "../../../tests/vectors/ribbon.json";
import { decodeRibbon } from "../protocol/ribbon";
import { type RankArrivals, RibbonIndex } from "./collectives";

interface Entry {
  start: number;
  call: number;
  id: number;
  wait: number;
  name: string;
}

interface RibbonCase {
  name: string;
  ranks: { rank: number; clock: number; entries: Entry[] }[];
  reply: { names: string[] };
  windows: {
    start: number;
    end: number;
    bins: number;
    ranks: number[] | null;
    columns: Record<string, number[]>;
  }[];
}

const cases = (vectors as unknown as { cases: RibbonCase[] }).cases;

const FORMATS = { u32: Uint32Array, i32: Int32Array, f64: Float64Array };

function arrivalsOf({ rank, clock, entries }: RibbonCase["ranks"][number], names: string[]) {
  const arrivals: RankArrivals = {
    rank,
    start: Float64Array.from(entries, ({ start }) => start),
    call: Int32Array.from(entries, ({ call }) => call),
    id: Int32Array.from(entries, ({ id }) => id),
    wait: Float64Array.from(entries, ({ wait }) => wait),
    clock: new Float64Array(entries.length).fill(clock),
    recordedName: Int32Array.from(entries, ({ name }) => names.indexOf(name)),
  };
  return arrivals;
}

describe.each(cases)("$name", ({ ranks, reply: wanted, windows }) => {
  const { names } = wanted;
  const ribbon = new RibbonIndex(
    ranks.map((rank) => arrivalsOf(rank, names)),
    names,
  );

  test.each(windows)("$start … $end, $bins bins of $ranks", ({ columns, ...request }) => {
    const answer = ribbon.ribbonReply(request);
    const { columns: header, ...reply } = answer.reply;
    expect(reply).toEqual(wanted);
    const decoded = Object.entries(
      header as Record<string, [keyof typeof FORMATS, number, number]>,
    ).map(([name, [format, offset, length]]) => [
      name,
      Array.from(new FORMATS[format](answer.buffer!, offset, length)),
    ]);
    expect(Object.fromEntries(decoded)).toEqual(columns);
    expect(Array.from(decodeRibbon(answer, request).jobArrivals.call)).toEqual(columns.job_call);
  });
});

test("invalid windows and bins are rejected", () => {
  const ribbon = new RibbonIndex([], []);
  const asked = (start: number, end: number, bins: number) =>
    ribbon.ribbonReply({ start, end, bins });
  expect(() => asked(5, 5, 1)).toThrow("a window must end after it starts, not 5 to 5");
  expect(() => asked(0, 5, 0)).toThrow("bins must be within 1 … 65536, not 0");
  expect(() => asked(0, 5, 1 << 17)).toThrow("bins must be within 1 … 65536");
});
