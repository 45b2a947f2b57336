/**
 * Evaluate the expressions of chart definitions over columns and fill in text templates, with the
 * same results as `charts/language.py`.
 */

import { ARITHMETIC } from "../expressions/evaluate";
import {
  allIndices,
  gather,
  indicesWhere,
  median,
  type RowGroups,
  sortByGroup,
} from "../expressions/numbers";
import { type Expression, parseExpression } from "../expressions/parse";
import { getOrMake } from "../protocol/maps";
import {
  formatBinarySize,
  formatBytes,
  formatCount,
  formatDuration,
  formatDurationDelta,
  formatShare,
  formatShareDelta,
  formatSizeRange,
  formatTime,
  formatValue,
  plural,
} from "../ui/formats";
import { extremesText, disambiguate, kindName } from "../ui/text";

export type ScalarValue = number | string | boolean | readonly (number | string)[];
/**
 * A column with one element per frame item or chart row. Numbers and flags are typed arrays,
 * because charts have up to about 10 000 items. Strings and lists are plain arrays.
 */
export type ColumnData = Float64Array | ScalarValue[];
/** A single value or a column. Sets occur only on the right side of `in`. */
export type ScopeValue = ScalarValue | ColumnData | ReadonlySet<ScalarValue>;
export type EvaluationScope = Map<string, ScopeValue>;

/** Test for a column. Other lists occur only in the cells of a column. */
export const isColumn = (value: ScopeValue): value is ColumnData =>
  value instanceof Float64Array || Array.isArray(value);

export const toNumber = (cell: ScopeValue | undefined): number =>
  typeof cell === "number" || typeof cell === "boolean" ? Number(cell) : NaN;

/** Return a column; a single value is repeated in every row. */
export function toColumn(value: ScopeValue, rows: number): ColumnData {
  return isColumn(value) ? value : new Array<ScalarValue>(rows).fill(value as ScalarValue);
}

/** Compute a number for each row. `Float64Array.from` with a function takes ten times as long. */
function mapNumbers(rows: number, compute: (row: number) => number): Float64Array {
  const numbers = new Float64Array(rows);
  for (let row = 0; row < rows; row += 1) numbers[row] = compute(row);
  return numbers;
}

export function toNumbers(value: ScopeValue, rows = 1): Float64Array {
  if (value instanceof Float64Array) return value;
  if (isColumn(value)) return mapNumbers(value.length, (row) => toNumber(value[row]));
  return new Float64Array(rows).fill(toNumber(value));
}

function compactColumn(cells: ScalarValue[]): ColumnData {
  const [first] = cells;
  return typeof first === "number" || typeof first === "boolean" ? toNumbers(cells) : cells;
}

/** Convert a frame's column for expressions: unknown numbers become NaN, unknown strings "". */
export function columnFromFrame(values: ArrayLike<number | string | boolean | null>): ColumnData {
  let firstKnown = 0;
  while (firstKnown < values.length && values[firstKnown] === null) firstKnown += 1;
  if (typeof values[firstKnown] !== "string") {
    return mapNumbers(values.length, (row) => (values[row] === null ? NaN : Number(values[row])));
  }
  return Array.from(values, (value) => (value === null ? "" : String(value)));
}

export function takeRows(values: ColumnData, indices: Int32Array): ColumnData {
  if (values instanceof Float64Array) return gather(values, indices);
  const result = new Array<ScalarValue>(indices.length);
  for (let row = 0; row < indices.length; row += 1) result[row] = values[indices[row]!]!;
  return result;
}

/** Format a mean queue length with two digits, enough to compare short queues. */
function queueLength(mean: number): string {
  if (!Number.isFinite(mean)) return formatValue(NaN);
  if (mean > 0 && mean < 0.01) return "<0.01";
  const digits = mean > 0 ? Math.max(0, 1 - Math.floor(Math.log10(mean))) : 0;
  return formatValue(Number(mean.toFixed(digits)));
}

const FORMATS: Readonly<Record<string, (value: number) => string>> = {
  duration: formatDuration,
  duration_delta: formatDurationDelta,
  time: formatTime,
  share: formatShare,
  delta: formatShareDelta,
  count: formatCount,
  value: formatValue,
  size: formatBytes,
  binary_size: formatBinarySize,
  length: queueLength,
  tenths: (value) => value.toFixed(1),
  hundredths: (value) => value.toFixed(2),
};

type CellFunction = (...cells: ScalarValue[]) => ScalarValue;
type NumberFunction = (a: number, b: number, c: number) => number;

const COMPARISONS: Readonly<Record<string, NumberFunction>> = {
  "<": (a, b) => (a < b ? 1 : 0),
  "<=": (a, b) => (a <= b ? 1 : 0),
  ">": (a, b) => (a > b ? 1 : 0),
  ">=": (a, b) => (a >= b ? 1 : 0),
  "==": (a, b) => (a === b ? 1 : 0),
  "!=": (a, b) => (a !== b ? 1 : 0),
  and: (a, b) => (a && b ? 1 : 0),
  or: (a, b) => (a || b ? 1 : 0),
};

const KINDS: Readonly<Record<string, string>> = {
  COMPUTATION: "compute",
  COMMUNICATION: "communication",
  MEMORY: "memory",
};

/** `communication + memory` for `COMMUNICATION overlapping MEMORY`. */
function kindsOf(kernelType: string): string {
  const names = kernelType.split(" overlapping ");
  return names.map((name) => KINDS[name.trim().toUpperCase()] ?? "other").join(" + ");
}

/** `communication + copies` for `communication + memory`. */
function kindNames(kinds: string): string {
  return kinds.split(" + ").map(kindName).join(" + ");
}

/** `communication + copies` for `COMMUNICATION overlapping MEMORY`. */
export function kindLabel(kernelType: string): string {
  return kindNames(kindsOf(kernelType));
}

const NUMBER_FUNCTIONS: Readonly<Record<string, NumberFunction>> = {
  abs: Math.abs,
  ceil: Math.ceil,
  floor: Math.floor,
  default: (a, other) => (Number.isFinite(a) ? a : other),
  clip: (a, low, high) => Math.min(Math.max(a, low), high),
  ratio: (a, b) => (b > 0 ? a / b : 0),
  max: (a, b) => Math.max(a, b),
  min: (a, b) => Math.min(a, b),
};

/** Functions applied to each cell. */
const CELL_FUNCTIONS: Readonly<Record<string, CellFunction>> = {
  known: (cell) => (typeof cell === "string" ? cell !== "" : Number.isFinite(toNumber(cell))),
  part: (text, separator, place) => String(text).split(String(separator))[toNumber(place)] ?? "",
  split: (text, separator) => (text === "" ? [] : String(text).split(String(separator))),
  removeprefix: (text, prefix) =>
    String(text).startsWith(String(prefix))
      ? String(text).slice(String(prefix).length)
      : String(text),
  kinds_of: (kernelType) => kindsOf(String(kernelType)),
  kind_names: (kinds) => kindNames(String(kinds)),
  numbers: (list) => (list as readonly ScalarValue[]).map(Number),
  size_range: (low, high) => formatSizeRange(toNumber(low), toNumber(high)),
};

/** Functions that take whole columns and return a column or a single value. */
const COLUMN_FUNCTIONS: Readonly<Record<string, (...values: ScopeValue[]) => ScopeValue>> = {
  codes: (...columns) => combineCodes(columns as ColumnData[]),
  once: (keys) => {
    const [column, seen] = [keys as ColumnData, new Set<ScalarValue>()];
    return mapNumbers(column.length, (row) => {
      const isFirst = !seen.has(column[row]!);
      seen.add(column[row]!);
      return Number(isFirst);
    });
  },
  order: (values) => rankValues(values as ColumnData),
  disambiguate: (short, name) => disambiguate(short as string[], name as string[]),
  extremes: (names, values, format) =>
    extremesText(names as string[], toNumbers(values), FORMATS[format as string]!),
  listed: (texts, between = ", ") =>
    (texts as string[]).filter((text) => text !== "").join(between as string),
};

/** Return the value that marks a column's unknown cells. */
export const unknownValue = (column: ColumnData): number | string =>
  column instanceof Float64Array ? NaN : "";

type GroupRows = Int32Array;

function makeFold(initial: number, combine: (a: number, b: number) => number) {
  return (values: ColumnData, members: GroupRows): number => {
    const numbers = toNumbers(values);
    let accumulated = NaN;
    for (const index of members) {
      const value = numbers[index]!;
      if (Number.isFinite(value))
        accumulated = Number.isNaN(accumulated)
          ? combine(initial, value)
          : combine(accumulated, value);
    }
    return accumulated;
  };
}

const sumKnown = makeFold(0, (a, b) => a + b);
const countKnown = (values: ColumnData, members: GroupRows): number =>
  members.reduce((count, index) => count + (Number.isFinite(toNumber(values[index])) ? 1 : 0), 0);

/** Functions that reduce a column to one value, over all rows or per group. */
const AGGREGATES: Readonly<
  Record<string, (values: ColumnData, members: GroupRows) => ScalarValue>
> = {
  sum: (values, members) => sumKnown(values, members) || 0,
  mean: (values, members) => sumKnown(values, members) / countKnown(values, members),
  median: (values, members) => median(takeRows(values, members) as Float64Array),
  max: makeFold(-Infinity, Math.max),
  min: makeFold(Infinity, Math.min),
  any: (values, members) => members.some((index) => Boolean(values[index])),
  all: (values, members) => members.every((index) => Boolean(values[index])),
  count: (_, members) => members.length,
  distinct: (values, members) => new Set(takeRows(values, members)).size,
  first: (values, members) => values[members[0] ?? -1] ?? unknownValue(values),
  lists: (values, members) => Array.from(members, (index) => values[index] as number | string),
};

/** Number the distinct values in the order of their first occurrence. */
function encodeDistinct(column: ColumnData): { codes: Float64Array; distinct: ScalarValue[] } {
  const codeByValue = new Map<ScalarValue, number>();
  const codes = mapNumbers(column.length, (row) =>
    getOrMake(codeByValue, column[row]!, () => codeByValue.size),
  );
  return { codes, distinct: [...codeByValue.keys()] };
}

/** Number the distinct combinations of values in the order of their first occurrence. */
export function combineCodes(columns: readonly ColumnData[]): Float64Array {
  let { codes: keys } = encodeDistinct(columns[0]!);
  for (const column of columns.slice(1)) {
    const { codes: columnCodes, distinct } = encodeDistinct(column);
    keys = encodeDistinct(
      keys.map((key, index) => key * distinct.length + columnCodes[index]!),
    ).codes;
  }
  return keys;
}

/** Return each value's index among the sorted distinct values. Unknown values come last. */
function rankValues(column: ColumnData): Float64Array {
  const { codes, distinct } = encodeDistinct(column);
  const sorted = compactColumn([...distinct]).sort();
  const place = new Map<ScalarValue, number>();
  sorted.forEach((cell: ScalarValue, position: number) => place.set(cell, position));
  const places = mapNumbers(distinct.length, (row) => place.get(distinct[row]!)!);
  return codes.map((code) => places[code]!);
}

/** Return the row order, sorted by several columns, the first column first. */
export function sortedOrder(columns: readonly ColumnData[]): Int32Array {
  let rows = allIndices(columns[0]!.length);
  for (const column of [...columns].reverse()) rows = groupRows(rankValues(column), rows).order;
  return rows;
}

export function indicesOfTrue(flags: ColumnData): Int32Array {
  return indicesWhere(flags.length, (row) => Boolean(flags[row]));
}

function groupRows(keys: Float64Array, rows: Int32Array): RowGroups {
  const groups = keys.reduce((most, key) => Math.max(most, key + 1), 0);
  return sortByGroup(rows, groups, (row) => keys[row]!);
}

const groupCache = new WeakMap<Float64Array, RowGroups>();

/** Group the rows that satisfy a condition by key. Groups of all rows are cached. */
function groupRowsWhere(keys: Float64Array, where: ScopeValue): RowGroups {
  if (where === true)
    return getOrMake(groupCache, keys, () => groupRows(keys, allIndices(keys.length)));
  return groupRows(keys, indicesOfTrue(toColumn(where, keys.length)));
}

/** Return each group's row with the highest score; -1 if the group has no known score. */
function bestRows(values: ScopeValue, groups: readonly GroupRows[]): number[] {
  const scores = toNumbers(values);
  return groups.map((group) => {
    let best = -1;
    for (const row of group) {
      if (Number.isFinite(scores[row]) && !(scores[row]! <= scores[best]!)) best = row;
    }
    return best;
  });
}

/** Group the rows that satisfy a condition by key. Without keys, return one group. */
function rowsByGroup(keys: Float64Array | undefined, where: ScopeValue, rows: number): GroupRows[] {
  const { order, first } = groupRowsWhere(keys ?? new Float64Array(rows), where);
  const groupCount = Math.max(first.length - 1, keys === undefined ? 1 : 0);
  return Array.from({ length: groupCount }, (_, group) =>
    order.subarray(first[group], first[group + 1]),
  );
}

/**
 * Reduce a column to one value, or to one value per group of the keys `by`. With `each` instead of
 * `by`, every row gets the value of its group.
 */
export function evaluateAggregate(
  name: string,
  operands: readonly ScopeValue[],
  { where = true, by, each }: Readonly<Record<string, ScopeValue>>,
): ScopeValue {
  const [column, scores = column] = operands as ColumnData[] as [ColumnData, ColumnData?];
  const keys = (by ?? each) as Float64Array | undefined;
  const groups = rowsByGroup(keys, where, column.length);
  if (name === "is_most") {
    const bestOfGroups = new Set(bestRows(column, groups));
    return mapNumbers(column.length, (row) => Number(bestOfGroups.has(row)));
  }
  const results =
    name === "pick"
      ? bestRows(scores, groups).map((row) => column[row] ?? unknownValue(column))
      : groups.map((group) => AGGREGATES[name]!(column, group));
  if (keys === undefined) return results[0]!;
  const valueOfGroup = compactColumn(results);
  return each === undefined ? valueOfGroup : takeRows(valueOfGroup, Int32Array.from(keys));
}

/** Apply a function to each cell. Single values are repeated in every row. */
function mapCells(apply: CellFunction, values: readonly ScopeValue[]): ScopeValue {
  const rows = values.find(isColumn)?.length;
  if (rows === undefined) return apply(...(values as ScalarValue[]));
  const [a, b, c] = values.map((value) => toColumn(value, rows));
  const results = new Array<ScalarValue>(rows);
  for (let row = 0; row < rows; row += 1)
    results[row] = apply(a![row]!, b?.[row] ?? "", c?.[row] ?? "");
  return compactColumn(results);
}

/** Apply a function of numbers to each cell. Single values are repeated in every row. */
function applyNumbers(apply: NumberFunction, values: readonly ScopeValue[]): ScopeValue {
  const rows = values.find(isColumn)?.length;
  const [a, b, c] = values.map((value) => toNumbers(value, rows));
  if (rows === undefined) return apply(a![0]!, b?.[0] ?? 0, c?.[0] ?? 0);
  if (b === undefined) return mapNumbers(rows, (row) => apply(a![row]!, 0, 0));
  if (c === undefined) return mapNumbers(rows, (row) => apply(a![row]!, b[row]!, 0));
  return mapNumbers(rows, (row) => apply(a![row]!, b[row]!, c[row]!));
}

const isText = (value: ScopeValue): boolean =>
  typeof value === "string" || (Array.isArray(value) && typeof value[0] === "string");

/** Evaluate `and`, `or` or a comparison. Strings support only `==`, `!=` and `in`. */
function evaluateComparison(sign: string, left: ScopeValue, right: ScopeValue): ScopeValue {
  if (sign === "in")
    return mapCells((cell) => (right as ReadonlySet<ScalarValue>).has(cell), [left]);
  if (isText(left) || isText(right))
    return mapCells((a, b) => (a === b) === (sign === "=="), [left, right]);
  const results = applyNumbers(COMPARISONS[sign]!, [left, right]);
  return isColumn(results) ? results : results !== 0;
}

function evaluateConditional(test: ColumnData, yes: ScopeValue, no: ScopeValue): ScopeValue {
  const rows = test.length;
  if (!isText(yes) && !isText(no)) {
    const [whenTrue, whenFalse] = [toNumbers(yes, rows), toNumbers(no, rows)];
    return mapNumbers(rows, (row) => (test[row] ? whenTrue[row]! : whenFalse[row]!));
  }
  const [whenTrue, whenFalse] = [toColumn(yes, rows), toColumn(no, rows)];
  return Array.from({ length: rows }, (_, row) => (test[row] ? whenTrue[row]! : whenFalse[row]!));
}

function unknownNameError(noun: string, name: string, all: Iterable<string>): Error {
  return new Error(`no ${noun} is named ${name}: there are ${[...all].join(", ")}`);
}

const expressionCache = new Map<string, Expression>();

export function evaluate(code: string | number, scope: EvaluationScope): ScopeValue {
  if (typeof code === "number") return code;
  const expression = getOrMake(expressionCache, code, () => parseExpression(code));
  return evaluateNode(expression, scope);
}

function evaluateNode(node: Expression, scope: EvaluationScope): ScopeValue {
  const valueOf = (child: Expression): ScopeValue => evaluateNode(child, scope);
  switch (node.type) {
    case "literal":
      return node.value as ScalarValue;
    case "name": {
      const value = scope.get(node.name);
      if (value === undefined) throw unknownNameError("value", node.name, scope.keys());
      return value;
    }
    case "not": {
      const value = valueOf(node.operand);
      return isColumn(value) ? applyNumbers((a) => (a ? 0 : 1), [value]) : !value;
    }
    case "negative":
      return applyNumbers((a) => -a, [valueOf(node.operand)]);
    case "both":
      return node.operands
        .map(valueOf)
        .reduce((left, right) => evaluateComparison(node.operator, left, right));
    case "compare": {
      const [[sign, second]] = node.rest as [readonly [string, Expression]];
      return evaluateComparison(sign, valueOf(node.first), valueOf(second));
    }
    case "arithmetic":
      return applyNumbers(ARITHMETIC[node.operator]!, [valueOf(node.left), valueOf(node.right)]);
    case "at":
      return elementsAt(valueOf(node.operand) as ColumnData, valueOf(node.index));
    case "if": {
      const test = valueOf(node.test);
      // If the condition is a single value, only one branch is evaluated, as in Python.
      if (!isColumn(test)) return valueOf(test ? node.consequent : node.alternate);
      return evaluateConditional(test, valueOf(node.consequent), valueOf(node.alternate));
    }
    case "function":
      return evaluateCall(node, scope);
    default:
      throw new Error(`definitions do not support ${node.type}`);
  }
}

/** Return the element at an index, or a column of elements for a column of indices. */
function elementsAt(column: ColumnData, index: ScopeValue): ScopeValue {
  if (isColumn(index)) return takeRows(column, Int32Array.from(toNumbers(index)));
  return column[toNumber(index)]!;
}

function evaluateCall(
  node: Extract<Expression, { type: "function" }>,
  scope: EvaluationScope,
): ScopeValue {
  const { name } = node;
  if (name === "text" && node.args[0]?.type === "literal") {
    return fillTemplate(String(node.args[0].value), scope);
  }
  const args = node.args.map((argument) => evaluateNode(argument, scope));
  const columnFunction = COLUMN_FUNCTIONS[name];
  if (columnFunction !== undefined) return columnFunction(...args);
  const isAggregate = name in AGGREGATES || name === "pick" || name === "is_most";
  // Given several arguments, `max` and `min` compare the values within each row.
  if (isAggregate && !(args.length > 1 && name in NUMBER_FUNCTIONS)) {
    const named: Record<string, ScopeValue> = {};
    for (const [key, value] of Object.entries(node.kwargs)) named[key] = evaluateNode(value, scope);
    return evaluateAggregate(name, args, named);
  }
  if (name in NUMBER_FUNCTIONS) return applyNumbers(NUMBER_FUNCTIONS[name]!, args);
  const cellFunction = CELL_FUNCTIONS[name];
  if (cellFunction === undefined) {
    throw unknownNameError(
      "function",
      name,
      Object.keys({ ...NUMBER_FUNCTIONS, ...CELL_FUNCTIONS, ...COLUMN_FUNCTIONS, ...AGGREGATES }),
    );
  }
  return mapCells(cellFunction, args);
}

/** Format a value. An unknown value becomes "" if the placeholder has no format. */
function formatPlaceholder(value: ScalarValue, format: string): string {
  if (format in FORMATS) return FORMATS[format]!(toNumber(value));
  if (typeof value === "number" && !Number.isFinite(value)) return "";
  return format === "" ? String(value) : plural(toNumber(value), format);
}

const PLACEHOLDER = /\{((?:'[^']*'|[^{}'])*)\}/g;
const FORMAT = /^([\s\S]*?)(?::([\w ]+))?$/;

interface Template {
  pieces: string[];
  placeholders: { code: string; format: string }[];
}

const templates = new Map<string, Template>();

function parseTemplate(text: string): Template {
  const template: Template = { pieces: [], placeholders: [] };
  let last = 0;
  for (const placeholder of text.matchAll(PLACEHOLDER)) {
    const [, code, format = ""] = FORMAT.exec(placeholder[1]!)!;
    template.pieces.push(text.slice(last, placeholder.index));
    template.placeholders.push({ code: code!, format });
    last = placeholder.index + placeholder[0].length;
  }
  template.pieces.push(text.slice(last));
  return template;
}

interface FilledText {
  /** Number of rows; undefined if every placeholder is a single value. */
  rows: number | undefined;
  /** Return a row's text; "" if one of its placeholders is empty. */
  at(row: number): string;
}

/** Evaluate a text's placeholders. The method `at` of the result fills them in for a row. */
export function makeFiller(text: string, scope: EvaluationScope): FilledText {
  const { pieces, placeholders } = getOrMake(templates, text, () => parseTemplate(text));
  const values = placeholders.map(({ code }) => evaluate(code, scope));
  return {
    rows: values.find(isColumn)?.length,
    at: (row) => {
      let filled = pieces[0]!;
      for (const [index, value] of values.entries()) {
        const insertion = formatPlaceholder(
          isColumn(value) ? value[row]! : (value as ScalarValue),
          placeholders[index]!.format,
        );
        if (insertion === "") return "";
        filled += insertion + pieces[index + 1]!;
      }
      return filled;
    },
  };
}

/** Fill in a text's placeholders, for each row if any placeholder is a column, otherwise once. */
export function fillTemplate(text: string, scope: EvaluationScope): string | string[] {
  const { rows, at } = makeFiller(text, scope);
  return rows === undefined ? at(0) : Array.from({ length: rows }, (_, row) => at(row));
}
