import { expect, test } from "vitest";
import { seededRandom } from "../../test/random";
import { matchNames } from "./evaluate";
import { LinearRegExp } from "./regular";

test("random patterns match the same texts as JavaScript's expressions", () => {
  const draw = seededRandom(7);
  const pick = (from: readonly string[]): string => from[draw(from.length)]!;
  const pattern = (depth: number): string => {
    const kind = depth === 0 ? 0 : draw(5);
    if (kind === 1) return pattern(depth - 1) + pattern(depth - 1);
    if (kind === 2) return `(?:${pattern(depth - 1)}|${pattern(depth - 1)})`;
    if (kind === 3)
      return `(${pattern(depth - 1)})${pick(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])}`;
    return pick(["a", "b", ".", "[ab]", "[^a]", "\\b", "\\B", "^", "$", "\\w", "\\s", "", "\\d"]);
  };
  let matched = 0;
  for (let count = 0; count < 3000; count += 1) {
    const source = pattern(4);
    const [linear, reference] = [new LinearRegExp(source), new RegExp(source, "u")];
    for (let k = 0; k < 5; k += 1) {
      const text = Array.from({ length: draw(7) }, () => pick(Array.from("aab b1\n"))).join("");
      expect([source, text, linear.test(text)]).toEqual([source, text, reference.test(text)]);
      matched += linear.test(text) ? 1 : 0;
    }
  }
  expect(matched).toBeGreaterThan(3000);
  expect(matched).toBeLessThan(14_000);
});

test("a pattern that would backtrack endlessly has a result", () => {
  const names = Array.from({ length: 200 }, (_, at) => "a".repeat(5000) + (at % 2 ? "!" : ""));
  const { matching, error } = matchNames("/(a+)+$/", names);
  expect(error).toBeNull();
  expect(matching.reduce((sum, flag) => sum + flag)).toBe(100);
});

test("a pattern that needs too much work is aborted", () => {
  const draw = seededRandom(3);
  const letters = () => Array.from({ length: 200 }, () => "ab"[draw(2)]).join("");
  const names = Array.from({ length: 2000 }, letters);
  const { matching, error } = matchNames("/(a.{0,40}){0,40}c/", names);
  expect(error).toMatch(/takes too long/);
  expect(matching.every((flag) => flag === 0)).toBe(true);
});

test.each(["[[:constructor:]]", "[[:words:]]", "[[:^alpha:]]"])("%s is no class", (source) => {
  expect(() => new LinearRegExp(source)).toThrow("invalid class");
});
