/**
 * The part of pandas' query language that a page without a kernel can evaluate: comparisons, `in`,
 * `and`, `or`, `not`, arithmetic and the usual string tests on the columns of events.
 */

import { type Expression, parseQuery, type QueryValue } from "./parse";
import { LinearRegExp } from "./regular";

/** Values of a column by row; null for one that events do not have. */
export type ColumnLookup = (name: string) => ((row: number) => QueryValue) | null;

type RowEvaluator = (row: number) => QueryValue;

const NO_COLUMNS = "Trace.events has the columns.";

/**
 * The test of a query. Parsing and testing throw Errors that name operations a page cannot perform.
 */
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

/** Follows pandas: a column equals a list if it equals one of its items. */
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
  throw new Error("only numbers can be compared and calculated with");
}

type CallExpression = Extract<Expression, { type: "call" }>;

function compileCall(node: CallExpression, columnOf: ColumnLookup): RowEvaluator {
  const operand = compileNode(node.operand, columnOf);
  const constantArgument = (index: number, name: string): QueryValue | undefined => {
    const argument = node.kwargs[name] ?? node.args[index];
    if (argument === undefined) return undefined;
    // Arguments do not depend on the row: evaluate them for an arbitrary one.
    return compileNode(argument, () => null)(0);
  };
  if (!node.isStringMethod) return compilePlainCall(node.method, operand, constantArgument);
  const test = compileStringMethod(node.method, constantArgument);
  const results = new Map<string, QueryValue>();
  return (row) => {
    const value = operand(row);
    if (typeof value !== "string") throw new Error(`.str.${node.method} needs a column of text`);
    let result = results.get(value);
    if (result === undefined) {
      result = test(value);
      results.set(value, result);
    }
    return result;
  };
}

type ConstantArgument = (index: number, name: string) => QueryValue | undefined;

function compileStringMethod(
  method: string,
  constant: ConstantArgument,
): (text: string) => QueryValue {
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
      const regular = new LinearRegExp(text, { ignoreCase, anchor: method });
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

function compilePlainCall(
  method: string,
  operand: RowEvaluator,
  constant: ConstantArgument,
): RowEvaluator {
  switch (method) {
    case "isin": {
      const list = constant(0, "values") ?? [];
      return (row) => isIn(operand(row), list);
    }
    case "between": {
      const low = toNumber(constant(0, "left") ?? null);
      const high = toNumber(constant(1, "right") ?? null);
      return (row) => toNumber(operand(row)) >= low && toNumber(operand(row)) <= high;
    }
    case "abs":
      return (row) => Math.abs(toNumber(operand(row)));
    default:
      throw new Error(`.${method}() is not known here`);
  }
}

// Names that match a search text.

const REGEX_SEARCH = /^\/(.*)\/(i?)$/s;

/** Matching names, and the error in the search text, if any. */
interface NameMatches {
  matching: Uint8Array;
  error: string | null;
}

/** Names that match a search text: plain text, or `/expression/`, `/expression/i`. */
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
    // For single characters, JavaScript's message repeats the expression before the reason.
    const reason = String(error).split(": ").at(-1) ?? "";
    return { matching: new Uint8Array(names.length), error: `not a regular expression: ${reason}` };
  }
}
