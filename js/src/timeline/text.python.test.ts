import { execFileSync, spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { FULL_SELECTION } from "../protocol/selection";
import type { Brief, SelectionJson } from "../protocol/source";
import { eventCode, exportCode, nameFilter, pythonInt, pythonString, selectionCode } from "./text";

const AWKWARD = [
  `it's "quoted"`,
  "back\\slash \\n",
  "new\nline\r\ttab",
  "\"\"\" triple '''",
  "µ · é 日本 𝛼",
  "\u0000\u001b\u007f\u00a0\u2028\u202e",
  "lone \ud800 surrogate",
  "{braces} %s #hash",
  "<img src=x onerror=alert(1)>",
  "trailing\\",
];

const python = spawnSync("python3", ["--version"]).status === 0;

/** Return strings that Python reads from sources, as UTF-16 code units to keep surrogates. */
function evaluated(sources: readonly string[]): string[] {
  const program =
    "import ast, json, sys\n" +
    "print(json.dumps([ast.literal_eval(s) for s in json.load(sys.stdin)]))";
  const out = execFileSync("python3", ["-c", program], { input: JSON.stringify(sources) });
  return JSON.parse(out.toString()) as string[];
}

describe("Python text", () => {
  test.skipIf(!python)("strings mean the same in Python", () => {
    expect(evaluated(AWKWARD.map(pythonString))).toEqual(AWKWARD);
  });

  test("strings are one line and keep readable characters", () => {
    expect(pythonString("GPU 0 · stream 7")).toBe('"GPU 0 · stream 7"');
    for (const text of AWKWARD) expect(pythonString(text)).not.toMatch(/[\n\r\u2028\u202e]/);
  });

  test("integers are grouped", () => {
    const texts = [451_975_123, -1234, 999, 2 ** 53 - 1].map(pythonInt).join(" ");
    expect(texts).toBe("451_975_123 -1_234 999 9_007_199_254_740_991");
  });

  test.each([
    [null, "traces.select()"],
    [
      { start_ns: 1000, end_ns: 25_000, ranks: [0, 5], tracks: ["GPU 0 · stream 7"] },
      'traces.select(start_ns=1_000, end_ns=25_000, ranks=[0, 5], tracks=["GPU 0 · stream 7"])',
    ],
    [{ end_ns: 5 }, 'traces.with_clock("fitted").select(end_ns=5)', "fitted"],
    [{ ranks: [1] }, "traces.select(ranks=[1])", "fitted"],
    [{ ids: [[0, 12]] }, "traces.select(ids={(0, 12)})"],
    [{ query: "depth > 1", launches: true }, 'traces.select("depth > 1", launches=True)'],
  ] as [Partial<SelectionJson> | null, string, "fitted"?][])(
    "a selection of %o is %s",
    (part, code, clock) => {
      expect(selectionCode(part && { ...FULL_SELECTION, ...part }, clock)).toBe(code);
    },
  );

  test.skipIf(!python)("everything that is copied is valid Python", () => {
    const about = { rank: 5, id: 77, lane: 1, name: "k", short: "k", start: 0, dur: 1 };
    const event = (table: Brief["table"]) => eventCode({ ...about, table, kind: "compute" });
    const sources = [event("events"), event("asyncs")];
    for (const text of AWKWARD) {
      sources.push(selectionCode({ ...FULL_SELECTION, query: nameFilter(text), tracks: [text] }));
      sources.push(
        exportCode({
          path: text,
          selection: null,
          clip: true,
          launches: true,
          counters: false,
          scrub: true,
        }),
      );
    }
    const program = "import ast, json, sys\nfor s in json.load(sys.stdin): ast.parse(s)";
    execFileSync("python3", ["-c", program], { input: JSON.stringify(sources) });
  });

  test.skipIf(!python)("a query for a name is valid Python inside a Python string", () => {
    const queries = evaluated(AWKWARD.map((text) => pythonString(nameFilter(text))));
    const names = evaluated(queries.map((query) => query.replace(/^name == /, "")));
    expect(names).toEqual(AWKWARD);
  });

  test("an export lists its options that are not defaults", () => {
    const selection = { ...FULL_SELECTION, start_ns: 0, end_ns: 10 };
    const options = { clip: false, launches: true, counters: true, scrub: false };
    expect(exportCode({ path: "w.json.gz", selection, ...options })).toBe(
      'hw.export_trace(traces, "w.json.gz", traces.select(start_ns=0, end_ns=10), keep_launches=True, counters=True)',
    );
  });
});
