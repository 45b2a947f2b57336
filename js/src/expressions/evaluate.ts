/**
 * Evaluate the part of pandas' query language that works without a kernel: comparisons, `in`,
 * `and`, `or`, `not`, arithmetic, and the common string methods on event columns.
 */

import { getOrMake } from "../protocol/maps";
import { type Expression, parseQuery, type QueryValue } from "./parse";
import { LinearRegExp } from "./regular";

/** Return a function from a row to a column's value; null if the column does not exist. */
export type ColumnLookup = (name: string) => ((row: number) => QueryValue) | null;

type RowEvaluator = (row: number) => QueryValue;

const NO_COLUMNS = "Trace.events lists the columns.";

/** Return a query's test. Both functions throw Errors that name unsupported operations. */
export function compileQuery(query: string, columnOf: ColumnLookup): (row: number) => boolean {
  const withQueryContext = <T>(run: () => T): T => {
    try {
      return run();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const failure = `The query ${JSON.stringify(query)} cannot be evaluated without a kernel`;
      throw new Error(`${failure}: ${reason}`, { cause: error });
    }
  };
  const evaluate = withQueryContext(() => compileNode(parseQuery(query), columnOf));
  return (row) => withQueryContext(() => toBoolean(evaluate(row)));
}

function compileNode(node: Expression, columnOf: ColumnLookup): RowEvaluator {
  switch (node.type) {
    case "literal":
      return () => node.value;
    case "list": {
      const items = node.items.map((item) => compileNode(item, columnOf));
      return (row) => items.map((item) => item(row));
    }
    case "name": {
      const column = columnOf(node.name);
      if (column === null) throw new Error(`events have no column ${node.name}. ${NO_COLUMNS}`);
      return column;
    }
    case "not": {
      const operand = compileNode(node.operand, columnOf);
      return (row) => !toBoolean(operand(row));
    }
    case "negative": {
      const operand = compileNode(node.operand, columnOf);
      return (row) => -toNumber(operand(row));
    }
    case "both": {
      const parts = node.operands.map((part) => compileNode(part, columnOf));
      return node.operator === "and"
        ? (row) => parts.every((part) => toBoolean(part(row)))
        : (row) => parts.some((part) => toBoolean(part(row)));
    }
    case "compare": {
      const operands = [node.first, ...node.rest.map(([, operand]) => operand)];
      const values = operands.map((operand) => compileNode(operand, columnOf));
      const tests = node.rest.map(([sign]) => COMPARISONS[sign]!);
      return (row) => tests.every((test, i) => test(values[i]!(row), values[i + 1]!(row)));
    }
    case "arithmetic": {
      const [left, right] = [compileNode(node.left, columnOf), compileNode(node.right, columnOf)];
      const operation = ARITHMETIC[node.operator]!;
      return (row) => operation(toNumber(left(row)), toNumber(right(row)));
    }
    case "call":
      return compileCall(node, columnOf);
    default:
      throw new Error(`${node.type} is not supported`);
  }
}

export const ARITHMETIC: Record<string, (a: number, b: number) => number> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "//": (a, b) => Math.floor(a / b),
  "%": (a, b) => ((a % b) + b) % b,
  "**": (a, b) => a ** b,
};

const COMPARISONS: Record<string, (a: QueryValue, b: QueryValue) => boolean> = {
  "==": isEqual,
  "!=": (a, b) => !isEqual(a, b),
  "<": (a, b) => toNumber(a) < toNumber(b),
  "<=": (a, b) => toNumber(a) <= toNumber(b),
  ">": (a, b) => toNumber(a) > toNumber(b),
  ">=": (a, b) => toNumber(a) >= toNumber(b),
  in: isIn,
  "not in": (a, b) => !isIn(a, b),
};

/** Compare as pandas does: a column equals a list if it equals any of its items. */
function isEqual(a: QueryValue, b: QueryValue): boolean {
  if (Array.isArray(b)) return isIn(a, b as readonly QueryValue[]);
  if (Array.isArray(a)) return isIn(b, a as readonly QueryValue[]);
  return toComparable(a) === toComparable(b);
}

function toComparable(value: QueryValue): QueryValue {
  return typeof value === "boolean" ? Number(value) : value;
}

function isIn(value: QueryValue, list: QueryValue): boolean {
  const items = Array.isArray(list) ? (list as readonly QueryValue[]) : [list];
  return items.some((item) => toComparable(item) === toComparable(value));
}

function toBoolean(value: QueryValue): boolean {
  if (typeof value === "boolean") return value;
  throw new Error("it is not a condition");
}

function toNumber(value: QueryValue): number {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  throw new Error("only numbers can be used in comparisons and arithmetic");
}

type CallExpression = Extract<Expression, { type: "call" }>;

/** Parameters of the supported methods, in pandas' order. */
const PARAMETERS: ReadonlyMap<string, readonly string[]> = new Map([
  [".str.contains", ["pat", "case", "flags", "na", "regex"]],
  [".str.match", ["pat", "case", "flags", "na"]],
  [".str.fullmatch", ["pat", "case", "flags", "na"]],
  [".str.startswith", ["pat", "na"]],
  [".str.endswith", ["pat", "na"]],
  [".str.lower", []],
  [".str.upper", []],
  [".str.len", []],
  [".isin", ["values"]],
  [".between", ["left", "right", "inclusive"]],
  [".abs", []],
]);

/** Values of a call's arguments, by parameter name. */
type Arguments = ReadonlyMap<string, QueryValue>;

function compileCall(node: CallExpression, columnOf: ColumnLookup): RowEvaluator {
  const operand = compileNode(node.operand, columnOf);
  const method = `${node.isStringMethod ? ".str" : ""}.${node.method}`;
  const values = readArguments(method, node);
  if (!node.isStringMethod) return compilePlainCall(method, operand, values);
  const test = compileStringMethod(method, values);
  const results = new Map<string, QueryValue>();
  return (row) => {
    const text = operand(row);
    if (typeof text !== "string") throw new Error(`${method} needs a column of strings`);
    return getOrMake(results, text, () => test(text));
  };
}

/** Evaluate the arguments of a call. Throw an error if the method has no such parameter. */
function readArguments(method: string, { args, kwargs }: CallExpression): Arguments {
  const parameters = PARAMETERS.get(method);
  if (parameters === undefined) throw new Error(`${method}() is not supported`);
  const positional = args.map((argument, index) => [parameters[index] ?? "", argument] as const);
  const values = new Map<string, QueryValue>();
  for (const [name, argument] of [...positional, ...Object.entries(kwargs)]) {
    if (!parameters.includes(name)) {
      throw new Error(`${method}() takes ${parameters.join(", ") || "no arguments"}`);
    }
    // Arguments do not depend on the row, so any row gives their value.
    values.set(name, compileNode(argument, () => null)(0));
  }
  return values;
}

/** Python's values of the regular expression flags, by letter. */
const REGEX_FLAGS = { i: 2, m: 8, s: 16 };

function compileStringMethod(method: string, values: Arguments): (text: string) => QueryValue {
  switch (method) {
    case ".str.lower":
      return (text) => text.toLowerCase();
    case ".str.upper":
      return (text) => text.toUpperCase();
    case ".str.len":
      return (text) => Array.from(text).length;
  }
  const pattern = values.get("pat");
  if (typeof pattern !== "string") throw new Error(`${method}() needs a string to search for`);
  if (method === ".str.startswith") return (text) => text.startsWith(pattern);
  if (method === ".str.endswith") return (text) => text.endsWith(pattern);
  const flags = toNumber(values.get("flags") ?? 0);
  const ignoreCase = values.get("case") === false || (flags & REGEX_FLAGS.i) !== 0;
  if (values.get("regex") === false) {
    const needle = ignoreCase ? pattern.toLowerCase() : pattern;
    return (text) => (ignoreCase ? text.toLowerCase() : text).includes(needle);
  }
  if ((flags & ~(REGEX_FLAGS.i | REGEX_FLAGS.m | REGEX_FLAGS.s)) !== 0) {
    throw new Error("only the flags re.I, re.M and re.S are supported");
  }
  const prefix = `${flags & REGEX_FLAGS.m ? "(?m)" : ""}${flags & REGEX_FLAGS.s ? "(?s)" : ""}`;
  const anchor = method.slice(".str.".length) as "contains" | "match" | "fullmatch";
  const expression = new LinearRegExp(prefix + pattern, { ignoreCase, anchor });
  return (text) => expression.test(text);
}

function compilePlainCall(method: string, operand: RowEvaluator, values: Arguments): RowEvaluator {
  if (method === ".abs") return (row) => Math.abs(toNumber(operand(row)));
  if (method === ".isin") {
    const list = values.get("values");
    if (!Array.isArray(list)) throw new Error(".isin() needs a list");
    return (row) => isIn(operand(row), list as readonly QueryValue[]);
  }
  const low = toNumber(values.get("left") ?? null);
  const high = toNumber(values.get("right") ?? null);
  const inclusive = values.get("inclusive") ?? "both";
  if (!["both", "left", "right", "neither"].includes(String(inclusive))) {
    throw new Error("inclusive must be both, left, right or neither");
  }
  const [hasLow, hasHigh] = ["left", "right"].map(
    (end) => inclusive === "both" || inclusive === end,
  );
  return (row) => {
    const value = toNumber(operand(row));
    return (hasLow ? value >= low : value > low) && (hasHigh ? value <= high : value < high);
  };
}

// Match names against a search text.

const REGEX_SEARCH = /^\/(.*)\/(i?)$/s;

/** The matching names, and the error in the search text, if any. */
interface NameMatches {
  matching: Uint8Array;
  error: string | null;
}

/** Match names against a search text: plain text, `/expression/` or `/expression/i`. */
export function matchNames(text: string, names: readonly string[]): NameMatches {
  const regexSearch = REGEX_SEARCH.exec(text);
  const matchesBy = (test: (name: string) => boolean): NameMatches => ({
    matching: Uint8Array.from(names, (name) => (test(name) ? 1 : 0)),
    error: null,
  });
  if (regexSearch === null || text === "/") {
    const needle = text.toLowerCase();
    return matchesBy((name) => needle !== "" && name.toLowerCase().includes(needle));
  }
  const [, source = "", flags] = regexSearch;
  if (source === "") return matchesBy(() => false);
  try {
    const pattern = new LinearRegExp(source, { ignoreCase: flags === "i" });
    return matchesBy((name) => pattern.test(name));
  } catch (error) {
    // For single characters, the JavaScript message repeats the expression before the reason.
    const reason = String(error).split(": ").at(-1) ?? "";
    return { matching: new Uint8Array(names.length), error: `not a regular expression: ${reason}` };
  }
}
