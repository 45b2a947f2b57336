import { expect, test } from "vitest";
import vectors from "../../../tests/vectors/definitions.json";
import {
  type ScalarValue,
  columnFromFrame,
  evaluate,
  fillTemplate,
  type EvaluationScope,
  type ScopeValue,
} from "./language";

interface Case {
  columns: Record<string, (ScalarValue | null)[]>;
  code?: string;
  text?: string;
  is: ScopeValue;
}

const CASES = vectors.cases as unknown as Case[];
/** Replace thin spaces with plain ones and flags with the numbers stored in columns. */
const plain = (value: ScopeValue): unknown => {
  if (value instanceof Float64Array) return Array.from(value);
  const cells = Array.isArray(value)
    ? value.map((cell) => (cell === Boolean(cell) ? +cell : cell))
    : value;
  return JSON.parse(JSON.stringify(cells).replaceAll("\u202f", " "));
};

test.each(CASES.map((example) => [example.code ?? example.text!, example] as const))(
  "%s",
  (_, example) => {
    const columns = Object.entries(example.columns).map(
      ([name, values]) =>
        [name, columnFromFrame(values as (number | string | boolean | null)[])] as const,
    );
    const scope: EvaluationScope = new Map<string, ScopeValue>([
      ...columns,
      ["late_ranks", new Set([3])],
    ]);
    const value =
      example.code === undefined
        ? fillTemplate(example.text!, scope)
        : evaluate(example.code, scope);
    expect(plain(value)).toEqual(plain(example.is));
  },
);

test("errors name the unknown word and the known ones", () => {
  const scope: EvaluationScope = new Map([["length", 1]]);
  expect(() => evaluate("lenght + 1", scope)).toThrow("lenght: there are length");
  expect(() => evaluate("men(length)", scope)).toThrow(/men: there are .*median/);
});
