import { expect, test } from "vitest";
import vectors from "../../../tests/vectors/definitions.json";
import { type Cell, evaluate, fill, type Scope, type Value } from "./language";

interface Case {
  columns: Record<string, (Cell | null)[]>;
  code?: string;
  text?: string;
  is: Value;
}

const CASES = vectors.cases as unknown as Case[];
/** Thin spaces as plain ones. */
const plain = (value: Value): Value =>
  JSON.parse(JSON.stringify(value).replaceAll("\u2009", " ")) as Value;

test.each(CASES.map((one) => [one.code ?? one.text!, one] as const))("%s", (_, one) => {
  const columns = Object.entries(one.columns).map(
    ([name, values]) => [name, values.map((value) => value ?? NaN)] as const,
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
