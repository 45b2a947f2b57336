import { expect, test } from "vitest";
import vectors from "../../../tests/vectors/definitions.json";
import { type Cell, columnOf, evaluate, fill, type Scope, type Value } from "./language";

interface Case {
  columns: Record<string, (Cell | null)[]>;
  code?: string;
  text?: string;
  is: Value;
}

const CASES = vectors.cases as unknown as Case[];
/** Thin spaces as plain ones, flags as the numbers that they are in columns. */
const plain = (value: Value): unknown => {
  if (value instanceof Float64Array) return Array.from(value);
  const cells = Array.isArray(value)
    ? value.map((one) => (one === Boolean(one) ? +one : one))
    : value;
  return JSON.parse(JSON.stringify(cells).replaceAll("\u202f", " "));
};

test.each(CASES.map((one) => [one.code ?? one.text!, one] as const))("%s", (_, one) => {
  const columns = Object.entries(one.columns).map(
    ([name, values]) => [name, columnOf(values as (number | string | boolean | null)[])] as const,
  );
  const scope: Scope = new Map<string, Value>([...columns, ["late_ranks", new Set([3])]]);
  const found = one.code === undefined ? fill(one.text!, scope) : evaluate(one.code, scope);
  expect(plain(found)).toEqual(plain(one.is));
});

test("what is not known is named with what is", () => {
  const scope: Scope = new Map([["length", 1]]);
  expect(() => evaluate("lenght + 1", scope)).toThrow("lenght: there are length");
  expect(() => evaluate("men(length)", scope)).toThrow(/men: there are .*median/);
});
