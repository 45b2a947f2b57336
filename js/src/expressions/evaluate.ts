/**
 * The part of pandas' query language that a page without a kernel can evaluate: comparisons, `in`,
 * `and`, `or`, `not`, arithmetic and the usual string tests on the columns of events.
 */

import { type Expression, parseQuery, type Value } from "./parse";
import { Regular } from "./regular";

/** Values of a column by row; null for one that events do not have. */
export type ColumnOf = (name: string) => ((row: number) => Value) | null;

type Evaluate = (row: number) => Value;

const NO_COLUMNS = "Trace.events has the columns.";

/**
 * The test of a query. Parsing and testing throw Errors that name operations a page cannot perform.
 */
export function compileQuery(query: string, columnOf: ColumnOf): (row: number) => boolean {
  const explained = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const what = `The query ${JSON.stringify(query)} cannot be evaluated without a kernel`;
      throw new Error(`${what}: ${reason}`, { cause: error });
    }
  };
  const evaluate = explained(() => compile(parseQuery(query), columnOf));
  return (row) => explained(() => truth(evaluate(row)));
}

function compile(node: Expression, columnOf: ColumnOf): Evaluate {
  switch (node.type) {
    case "literal":
      return () => node.value;
    case "list": {
      const items = node.items.map((item) => compile(item, columnOf));
      return (row) => items.map((item) => item(row));
    }
    case "name": {
      const column = columnOf(node.name);
      if (column === null) throw new Error(`events have no column ${node.name}. ${NO_COLUMNS}`);
      return column;
    }
    case "not": {
      const of = compile(node.of, columnOf);
      return (row) => !truth(of(row));
    }
    case "negative": {
      const of = compile(node.of, columnOf);
      return (row) => -number(of(row));
    }
    case "both": {
      const parts = node.parts.map((part) => compile(part, columnOf));
      return node.word === "and"
        ? (row) => parts.every((part) => truth(part(row)))
        : (row) => parts.some((part) => truth(part(row)));
    }
    case "compare": {
      const operands = [node.first, ...node.rest.map(([, of]) => of)];
      const values = operands.map((operand) => compile(operand, columnOf));
      const tests = node.rest.map(([sign]) => COMPARISONS[sign]!);
      return (row) => tests.every((test, i) => test(values[i]!(row), values[i + 1]!(row)));
    }
    case "arithmetic": {
      const [left, right] = [compile(node.left, columnOf), compile(node.right, columnOf)];
      const work = ARITHMETIC[node.sign]!;
      return (row) => work(number(left(row)), number(right(row)));
    }
    case "call":
      return call(node, columnOf);
    default:
      throw new Error(`${node.type} is not known here`);
  }
}

const ARITHMETIC: Record<string, (a: number, b: number) => number> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "//": (a, b) => Math.floor(a / b),
  "%": (a, b) => ((a % b) + b) % b,
  "**": (a, b) => a ** b,
};

const COMPARISONS: Record<string, (a: Value, b: Value) => boolean> = {
  "==": equal,
  "!=": (a, b) => !equal(a, b),
  "<": (a, b) => number(a) < number(b),
  "<=": (a, b) => number(a) <= number(b),
  ">": (a, b) => number(a) > number(b),
  ">=": (a, b) => number(a) >= number(b),
  in: isIn,
  "not in": (a, b) => !isIn(a, b),
};

/** Follows pandas: a column equals a list if it equals one of its items. */
function equal(a: Value, b: Value): boolean {
  if (Array.isArray(b)) return isIn(a, b as readonly Value[]);
  if (Array.isArray(a)) return isIn(b, a as readonly Value[]);
  return plain(a) === plain(b);
}

function plain(value: Value): Value {
  return typeof value === "boolean" ? Number(value) : value;
}

function isIn(value: Value, list: Value): boolean {
  const items = Array.isArray(list) ? (list as readonly Value[]) : [list];
  return items.some((item) => plain(item) === plain(value));
}

function truth(value: Value): boolean {
  if (typeof value === "boolean") return value;
  throw new Error("it is not a condition");
}

function number(value: Value): number {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  throw new Error("only numbers can be compared and calculated with");
}

type Call = Extract<Expression, { type: "call" }>;

function call(node: Call, columnOf: ColumnOf): Evaluate {
  const of = compile(node.of, columnOf);
  const constant = (at: number, name: string): Value | undefined => {
    const found = node.named[name] ?? node.given[at];
    if (found === undefined) return undefined;
    // Arguments do not depend on the row: evaluate them for an arbitrary one.
    return compile(found, () => null)(0);
  };
  if (!node.strings) return plainCall(node.method, of, constant);
  const test = stringTest(node.method, constant);
  const known = new Map<string, Value>();
  return (row) => {
    const value = of(row);
    if (typeof value !== "string") throw new Error(`.str.${node.method} needs a column of text`);
    let result = known.get(value);
    if (result === undefined) {
      result = test(value);
      known.set(value, result);
    }
    return result;
  };
}

type Constant = (at: number, name: string) => Value | undefined;

function stringTest(method: string, constant: Constant): (text: string) => Value {
  const pattern = constant(0, "pat");
  const text = typeof pattern === "string" ? pattern : "";
  switch (method) {
    case "contains":
    case "match":
    case "fullmatch": {
      const ignoreCase = constant(1, "case") === false;
      if (constant(4, "regex") === false && method === "contains") {
        const needle = ignoreCase ? text.toLowerCase() : text;
        return (name) => (ignoreCase ? name.toLowerCase() : name).includes(needle);
      }
      const regular = new Regular(text, { ignoreCase, at: method });
      return (name) => regular.test(name);
    }
    case "startswith":
      return (name) => name.startsWith(text);
    case "endswith":
      return (name) => name.endsWith(text);
    case "lower":
      return (name) => name.toLowerCase();
    case "upper":
      return (name) => name.toUpperCase();
    case "len":
      return (name) => Array.from(name).length;
    default:
      throw new Error(`.str.${method}() is not known here`);
  }
}

function plainCall(method: string, of: Evaluate, constant: Constant): Evaluate {
  switch (method) {
    case "isin": {
      const list = constant(0, "values") ?? [];
      return (row) => isIn(of(row), list);
    }
    case "between": {
      const low = number(constant(0, "left") ?? null);
      const high = number(constant(1, "right") ?? null);
      return (row) => number(of(row)) >= low && number(of(row)) <= high;
    }
    case "abs":
      return (row) => Math.abs(number(of(row)));
    default:
      throw new Error(`.${method}() is not known here`);
  }
}

// Names that match a search text.

const EXPRESSION = /^\/(.*)\/(i?)$/s;

/** Matching names, and the error in the search text, if any. */
export interface Matches {
  matching: Uint8Array;
  error: string | null;
}

/** Names that match a search text: plain text, or `/expression/`, `/expression/i`. */
export function matchNames(text: string, names: readonly string[]): Matches {
  const expression = EXPRESSION.exec(text);
  const found = (test: (name: string) => boolean): Matches => ({
    matching: Uint8Array.from(names, (name) => (test(name) ? 1 : 0)),
    error: null,
  });
  if (expression === null || text === "/") {
    const needle = text.toLowerCase();
    return found((name) => needle !== "" && name.toLowerCase().includes(needle));
  }
  const [, source = "", flags] = expression;
  if (source === "") return found(() => false);
  try {
    const pattern = new Regular(source, { ignoreCase: flags === "i" });
    return found((name) => pattern.test(name));
  } catch (error) {
    // For single characters, JavaScript's message repeats the expression before the reason.
    const reason = String(error).split(": ").at(-1) ?? "";
    return { matching: new Uint8Array(names.length), error: `not a regular expression: ${reason}` };
  }
}
