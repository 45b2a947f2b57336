import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { compileQuery } from "../expressions/evaluate";
import type { QueryValue } from "../expressions/parse";
import { ColumnReader, DELTA, FLOAT, fromBase64, readBlock, readJson, ZIGZAG } from "./columns";
import { formatMicros } from "./export";
import { durationFigures } from "./search";

describe("columns", () => {
  test("planes, differences and signs", () => {
    // 3, -2, 70000 as differences are 3, -5, 70002, and zigzag-encoded 6, 9, 140004.
    const bytes = Uint8Array.of(6, 9, 0xe4, 0, 0, 0x22, 0, 0, 2);
    const columns = new ColumnReader(bytes, { a: [0, 3, 3, DELTA | ZIGZAG] });
    expect(Array.from(columns.i32("a"))).toEqual([3, -2, 70_000]);
    expect(Array.from(columns.f64("missing"))).toEqual([]);
  });

  test("numbers up to 2^53", () => {
    const wide = Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f);
    expect(new ColumnReader(wide, { a: [0, 1, 7, 0] }).f64("a")[0]).toBe(Number.MAX_SAFE_INTEGER);
  });

  test("floating point numbers in planes", () => {
    const values = Float64Array.of(0.1, -2.5);
    const bytes = new Uint8Array(values.buffer);
    const planes = new Uint8Array(16);
    for (let i = 0; i < 2; i += 1)
      for (let k = 0; k < 8; k += 1) planes[k * 2 + i] = bytes[i * 8 + k]!;
    expect(Array.from(new ColumnReader(planes, { a: [0, 2, 8, FLOAT] }).floats("a"))).toEqual([
      0.1, -2.5,
    ]);
  });

  test("a truncated column raises an error that names it", () => {
    const columns = new ColumnReader(new Uint8Array(2), { a: [0, 3, 1, 0] });
    expect(() => columns.f64("a")).toThrow('The column "a" of this page is truncated');
  });
});

describe("blocks", () => {
  const text = gzipSync("größe").toString("base64");

  test("are unpacked", async () => {
    const bytes = await readBlock({ text: () => `\n${text}\n` }, "x");
    expect(new TextDecoder().decode(bytes)).toBe("größe");
  });

  test("broken blocks raise an error that names the problem", async () => {
    await expect(readBlock({ text: () => null }, "x")).rejects.toThrow('block "x" is missing');
    await expect(readBlock({ text: () => text.slice(0, 24) }, "x")).rejects.toThrow("is damaged");
  });

  test("base64 without the browser's decoder", () => {
    expect(Array.from(fromBase64("AP+A"))).toEqual([0, 255, 128]);
  });
});

describe("JSON as text", () => {
  test.each([
    ['{"a": 1.50, "b":[1e400, -0],"a":"x"}', '{"a":1.50,"b":[1e400,-0],"a":"x"}'],
    ["123456789012345678901234567890", "123456789012345678901234567890"],
    ['"a\\u00e9\\n\\"\\/"', '"aé\\n\\"/"'],
    ['{"n": NaN, "i": [-Infinity, Infinity]}', '{"n":NaN,"i":[-Infinity,Infinity]}'],
    ["{ }", "{}"],
    ["[ ]", "[]"],
    ['"a\tb"', '"a\\tb"'],
    [" true ", "true"],
    ["null", "null"],
  ])("%s", (source, compact) => expect(readJson(source).json).toBe(compact));

  test("strings are bare as text, and pairs keep their order", () => {
    expect(readJson('"a b"').text).toBe("a b");
    const { pairs } = readJson('{"z": "1", "a": {"b": 2}}');
    expect(pairs!.map(([key, value]) => [key, value.text])).toEqual([
      ["z", "1"],
      ["a", '{"b":2}'],
    ]);
  });

  test.each(["", "{", '{"a"}', "[1,]", '"a', "1 2", "{'a':1}", "[".repeat(2000)])(
    "is not JSON: %s",
    (source) => expect(() => readJson(source)).toThrow("The text of the arguments"),
  );
});

describe("queries", () => {
  const rows: Record<string, QueryValue>[] = [
    { name: "ncclAllReduce", kind: "communication", dur_ns: 2_000_000, rank: 0, depth: 1 },
    { name: "aten::mm", kind: "cpu", dur_ns: 500, rank: 0, depth: 0 },
    { name: 'gemm "x"', kind: "compute", dur_ns: 10_000, rank: 1, depth: 3 },
  ];
  const columnOf = (name: string): ((row: number) => QueryValue) | null =>
    Object.hasOwn(rows[0]!, name) ? (row) => rows[row]![name]! : null;
  const matchingRows = (query: string): number[] => {
    const test = compileQuery(query, columnOf);
    return rows.flatMap((_, row) => (test(row) ? [row] : []));
  };

  test.each([
    ["kind == 'communication'", [0]],
    ["name.str.contains('nccl') and dur_ns > 1_000_000", [0]],
    ["name.str.contains('NCCL', case=False)", [0]],
    ["name.str.contains('::', regex=False)", [1]],
    ["name.str.startswith('aten') | name.str.endswith('\"x\"')", [1, 2]],
    ["not kind == 'cpu'", [0, 2]],
    ["~(kind == 'cpu') & rank == 0", [0]],
    ["kind in ['cpu', 'compute']", [1, 2]],
    ["kind not in ('cpu', 'compute')", [0]],
    ["kind == ['cpu', 'compute']", [1, 2]],
    ["kind.isin(['cpu'])", [1]],
    ["100 < dur_ns <= 10_000", [1, 2]],
    ["dur_ns.between(500, 10000)", [1, 2]],
    ["dur_ns.between(500, 10_000, inclusive='right')", [2]],
    ["dur_ns.between(500, 10_000, 'neither')", []],
    ["name.str.contains('NCCL', flags=2)", [0]],
    ["dur_ns / 1000 >= 10", [0, 2]],
    ["dur_ns // 3 == 166 or dur_ns % 7 == -3 + 7", [1, 2]],
    ["-depth ** 2 == -9", [2]],
    ["name.str.len() == 8", [1, 2]],
    ["`rank` == 1", [2]],
    [String.raw`name == "gemm \"x\""`, [2]],
    [String.raw`name.str.contains(r"^a\w+::")`, [1]],
    ["True", [0, 1, 2]],
  ])("%s", (query, wanted) => expect(matchingRows(query)).toEqual(wanted));

  test.each([
    ["colour == 'red'", "events have no column colour"],
    ["kind ==", "it ends too early"],
    ["kind = 'cpu'", '"=" is out of place'],
    ["dur_ns", "it is not a condition"],
    ["kind > 'cpu'", "only numbers can be used in comparisons"],
    ["name.str.zfill(3) == 'a'", ".str.zfill() is not supported"],
    ["dur_ns.rank() > 1", ".rank() is not supported"],
    ["name.str.contains('(')", "missing )"],
    ["dur_ns @ 3", '"@ 3" is not supported'],
    ["dur_ns.str.len() > 1", "needs a column of strings"],
    ["name.str.startswith(('nccl', 'gemm'))", "needs a string to search for"],
    ["name.str.contains(5)", "needs a string to search for"],
    ["name.str.contains('x', bogus=1)", "takes pat, case, flags, na, regex"],
    ["name.str.lower('x') == 'a'", "takes no arguments"],
    ["name.isin('aten::mm')", ".isin() needs a list"],
    ["constructor == 1", "events have no column constructor"],
  ])("%s is refused", (query, reason) => {
    expect(() => matchingRows(query)).toThrow(reason);
    expect(() => matchingRows(query)).toThrow("cannot be evaluated without a kernel");
  });
});

test("times of records are exact", () => {
  const texts = [0, 1, 999, 1000, 1234567, -1500].map(formatMicros);
  expect(texts.join(" ")).toBe("0 0.001 0.999 1 1234.567 -1.500");
});

test("durations of one name", () => {
  expect(durationFigures(Float64Array.of(4, 1, 3, 2))).toMatchObject({
    ...{ count: 4, sum: 10, mean: 2.5, median: 2.5, min: 1, max: 4 },
    edges: [1, 2, 3, 4],
    // The last bin includes its upper edge.
    counts: [1, 1, 2],
    scale: "linear",
  });
  const long = durationFigures(Float64Array.of(10, 1000));
  expect(long.scale).toBe("log");
  expect((long.counts as number[]).reduce((a, b) => a + b)).toBe(2);
});
