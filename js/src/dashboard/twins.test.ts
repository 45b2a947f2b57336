/** Texts that equal Python's: query clauses, and descriptions of selections. */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type Clauses, parseClauses, formatClauses } from "../protocol/selection";
import type { SelectionJson } from "../protocol/source";
import { phrasesOf } from "./phrases";

/** Read the file at run time: bundlers reject its lone surrogates. */
function vectors(name: string): unknown {
  return JSON.parse(readFileSync(`tests/vectors/${name}.json`, "utf8"));
}

const clauses = vectors("clauses") as {
  read: (Clauses & { query: string | null })[];
  write: (Partial<Clauses> & { query: string | null; becomes: string | null })[];
};
const words = vectors("words") as {
  selection: SelectionJson | null;
  words: string;
  short?: Record<string, string>;
}[];

describe("clauses", () => {
  test.each(clauses.read)("$query is taken apart as in Python", ({ query, ...parts }) => {
    expect(parseClauses(query)).toEqual(parts);
  });

  test.each(clauses.write)("$query becomes $becomes", ({ query, becomes, ...parts }) => {
    expect(formatClauses({ ...parseClauses(query), ...parts })).toBe(becomes);
  });
});

test.each(words)("a selection in words: $words", ({ selection, words: said, short }) => {
  const phrases = phrasesOf(selection, (name) => short?.[name] ?? name);
  expect(phrases.map(({ text }) => text).join(", ") || "whole job").toBe(said);
});
