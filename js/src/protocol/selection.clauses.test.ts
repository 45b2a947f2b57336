import { describe, expect, test } from "vitest";
import text from "../../../tests/vectors/clauses.json?raw";
import { readClauses, writeClauses } from "./selection";

interface Write {
  query: string | null;
  names?: string[] | null;
  kinds?: string[] | null;
  becomes: string | null;
}

interface Read {
  query: string | null;
  rest: string | null;
  names: string[] | null;
  kinds: string[] | null;
}

const vectors = JSON.parse(text) as { read: Read[]; write: Write[] };

describe("a query is taken apart", () => {
  test.each(vectors.read)("$query", ({ query, rest, names, kinds }) => {
    expect(readClauses(query)).toEqual({ rest, names, kinds });
  });
});

describe("names and kinds are replaced", () => {
  test.each(vectors.write)("$becomes", ({ query, becomes, ...given }) => {
    const found = readClauses(query);
    const { names = found.names, kinds = found.kinds } = given;
    expect(writeClauses({ ...found, names, kinds })).toBe(becomes);
  });
});
