/**
 * Evaluates expressions of chart definitions over columns, and fills texts with `{holes}`: as
 * Python's `charts/language.py`.
 */

import { median } from "../expressions/numbers";
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
import { extremes, toldApart } from "../ui/text";

export type Cell = number | string | boolean | readonly (number | string)[];
/**
 * One element for each item of the frame or row of the chart. Numbers and flags are typed, as
 * charts have some 10 000 items; texts and lists are not.
 */
export type Rows = Float64Array | Cell[];
/** One value, or rows; sets are the right side of `in`. */
export type Value = Cell | Rows | ReadonlySet<Cell>;
export type Scope = Map<string, Value>;

/** Lists are cells of columns only. */
export const isRows = (value: Value): value is Rows =>
  value instanceof Float64Array || Array.isArray(value);

export const number = (cell: Value | undefined): number =>
  typeof cell === "number" ? cell : typeof cell === "boolean" ? Number(cell) : NaN;

/** Repeat a single value for every row. */
export function rowsOf(value: Value, rows: number): Rows {
  return isRows(value) ? value : new Array<Cell>(rows).fill(value as Cell);
}

/** Loops: `Float64Array.from` with a function takes ten times as long. */
function numbersBy(rows: number, work: (row: number) => number): Float64Array {
  const found = new Float64Array(rows);
  for (let row = 0; row < rows; row += 1) found[row] = work(row);
  return found;
}

export function numbersOf(value: Value, rows = 1): Float64Array {
  if (value instanceof Float64Array) return value;
  if (isRows(value)) return numbersBy(value.length, (row) => number(value[row]));
  return new Float64Array(rows).fill(number(value));
}

/** Numbers and flags as typed rows. */
function typed(cells: Cell[]): Rows {
  const [first] = cells;
  return typeof first === "number" || typeof first === "boolean" ? numbersOf(cells) : cells;
}

/** A column as it is in frames; unknown numbers are NaN, unknown texts empty. */
export function columnOf(values: ArrayLike<number | string | boolean | null>): Rows {
  let known = 0;
  while (known < values.length && values[known] === null) known += 1;
  if (typeof values[known] !== "string") {
    return numbersBy(values.length, (row) => (values[row] === null ? NaN : Number(values[row])));
  }
  return Array.from(values, (value) => (value === null ? "" : String(value)));
}

/** Some rows, in their order. */
export function taken(rows: Rows, at: Int32Array): Rows {
  if (rows instanceof Float64Array) return numbersBy(at.length, (row) => rows[at[row]!]!);
  const found = new Array<Cell>(at.length);
  for (let row = 0; row < at.length; row += 1) found[row] = rows[at[row]!]!;
  return found;
}

/** Two digits are enough to compare short queues. */
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

type Work = (...cells: Cell[]) => Cell;
type Sum = (a: number, b: number, c: number) => number;

const SIGNS: Readonly<Record<string, Sum>> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "%": (a, b) => ((a % b) + b) % b,
};
const TESTS: Readonly<Record<string, Sum>> = {
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

/** `compute + communication` for `COMPUTATION overlapping COMMUNICATION`. */
export function kindWords(label: string): string {
  const names = label.split(" overlapping ");
  return names.map((name) => KINDS[name.trim().toUpperCase()] ?? "other").join(" + ");
}

/** Functions of numbers. */
const NUMBERS: Readonly<Record<string, Sum>> = {
  abs: Math.abs,
  ceil: Math.ceil,
  floor: Math.floor,
  default: (a, other) => (Number.isFinite(a) ? a : other),
  clip: (a, low, high) => Math.min(Math.max(a, low), high),
  ratio: (a, b) => (b > 0 ? a / b : 0),
  max: (a, b) => Math.max(a, b),
  min: (a, b) => Math.min(a, b),
};

/** Functions of values, cell by cell. */
const CELLS: Readonly<Record<string, Work>> = {
  known: (cell) => (typeof cell === "string" ? cell !== "" : Number.isFinite(number(cell))),
  part: (text, separator, place) => String(text).split(String(separator))[number(place)] ?? "",
  split: (text, separator) => (text === "" ? [] : String(text).split(String(separator))),
  removeprefix: (text, prefix) =>
    String(text).startsWith(String(prefix))
      ? String(text).slice(String(prefix).length)
      : String(text),
  kinds_of: (label) => kindWords(String(label)),
  numbers: (list) => (list as readonly Cell[]).map(Number),
  size_range: (low, high) => formatSizeRange(number(low), number(high)),
};

/** Functions of columns that give a column, or one value. */
const WHOLE: Readonly<Record<string, (...values: Value[]) => Value>> = {
  codes: (...columns) => codes(columns as Rows[]),
  once: (keys) => {
    const met = new Set<Cell>();
    const rows = keys as Rows;
    return numbersBy(rows.length, (row) => (met.size < met.add(rows[row]!).size ? 1 : 0));
  },
  order: (values) => order(values as Rows),
  told_apart: (short, name) => toldApart(short as string[], name as string[]),
  extremes: (names, values, how) =>
    extremes(names as string[], numbersOf(values), FORMATS[how as string]!),
  listed: (texts, between = ", ") =>
    (texts as string[]).filter((one) => one !== "").join(between as string),
};

/** The rows of a group. */
type Members = Int32Array;

function folded(from: number, work: (a: number, b: number) => number) {
  return (values: Rows, members: Members): number => {
    const numbers = numbersOf(values);
    let all = NaN;
    for (const at of members) {
      const each = numbers[at]!;
      if (Number.isFinite(each)) all = Number.isNaN(all) ? work(from, each) : work(all, each);
    }
    return all;
  };
}

const total = folded(0, (a, b) => a + b);
const known = (values: Rows, members: Members): number =>
  members.reduce((all, at) => all + (Number.isFinite(number(values[at])) ? 1 : 0), 0);

/** Functions that reduce a column to one value, for all rows or for each group. */
const COLUMNS: Readonly<Record<string, (values: Rows, members: Members) => Cell>> = {
  sum: (values, members) => total(values, members) || 0,
  mean: (values, members) => total(values, members) / known(values, members),
  median: (values, members) => median(taken(values, members) as Float64Array),
  max: folded(-Infinity, Math.max),
  min: folded(Infinity, Math.min),
  any: (values, members) => members.some((at) => Boolean(values[at])),
  all: (values, members) => members.every((at) => Boolean(values[at])),
  count: (_, members) => members.length,
  distinct: (values, members) => new Set(taken(values, members)).size,
  first: (values, members) =>
    members.length > 0 ? values[members[0]!]! : values instanceof Float64Array ? NaN : "",
  lists: (values, members) => Array.from(members, (at) => values[at] as number | string),
};

/** The number of each distinct value, in the order in which they first occur. */
function numbered(column: Rows): { codes: Float64Array; distinct: Cell[] } {
  const own = new Map<Cell, number>();
  const found = numbersBy(column.length, (row) => getOrMake(own, column[row]!, () => own.size));
  return { codes: found, distinct: [...own.keys()] };
}

/** The number of each item's combination of values, in the order they first occur. */
export function codes(columns: readonly Rows[]): Float64Array {
  let { codes: keys } = numbered(columns[0]!);
  for (const column of columns.slice(1)) {
    const { codes: own, distinct } = numbered(column);
    keys = numbered(keys.map((key, at) => key * distinct.length + own[at]!)).codes;
  }
  return keys;
}

/** Position of each value among the sorted distinct values; unknown values come last. */
function order(column: Rows): Float64Array {
  const { codes: own, distinct } = numbered(column);
  const sorted = typed([...distinct]).sort();
  const place = new Map<Cell, number>();
  sorted.forEach((cell: Cell, at: number) => place.set(cell, at));
  const places = numbersBy(distinct.length, (row) => place.get(distinct[row]!)!);
  return own.map((code) => places[code]!);
}

/** The order of rows by several columns, the first one first. */
export function ordered(columns: readonly Rows[]): Int32Array {
  let rows = rowsWhere(new Float64Array(columns[0]!.length).fill(1));
  for (const column of [...columns].reverse()) {
    const { members } = groupsOf(order(column), rows);
    rows = members;
  }
  return rows;
}

/** The rows whose flag is set. */
export function rowsWhere(flags: Rows): Int32Array {
  const found = new Int32Array(flags.length);
  let count = 0;
  for (let row = 0; row < flags.length; row += 1) if (flags[row]) found[count++] = row;
  return found.subarray(0, count);
}

interface Groups {
  /** Start of each group, and the end of the last one. */
  starts: Int32Array;
  members: Members;
}

/** Rows by the number of their group, in their order. */
function groupsOf(keys: Float64Array, rows: Int32Array): Groups {
  let groups = 0;
  for (let row = 0; row < keys.length; row += 1) groups = Math.max(groups, keys[row]! + 1);
  const starts = new Int32Array(groups + 1);
  for (let at = 0; at < rows.length; at += 1) starts[keys[rows[at]!]! + 1]! += 1;
  for (let at = 1; at < starts.length; at += 1) starts[at]! += starts[at - 1]!;
  const next = starts.slice();
  const members = new Int32Array(rows.length);
  for (let at = 0; at < rows.length; at += 1) members[next[keys[rows[at]!]!]!++] = rows[at]!;
  return { starts, members };
}

/** Cached groups, as definitions use the same ones repeatedly. */
const grouped = new WeakMap<Float64Array, Groups>();

function ofGroups(name: string, given: Value[], named: Readonly<Record<string, Value>>): Value {
  const values = given[0] as Rows;
  const { where = true } = named;
  const keys = (named.by ?? named.each) as Float64Array | undefined;
  const all = keys ?? new Float64Array(values.length);
  let groups = grouped.get(all);
  if (groups === undefined || where !== true) {
    groups = groupsOf(all, rowsWhere(rowsOf(where, values.length)));
    if (where === true) grouped.set(all, groups);
  }
  const { starts, members } = groups;
  const each = <T>(work: (own: Members) => T): T[] =>
    Array.from({ length: Math.max(starts.length - 1, keys === undefined ? 1 : 0) }, (_, group) =>
      work(members.subarray(starts[group], starts[group + 1])),
    );
  if (name !== "pick" && name !== "is_most") {
    return spread(each((own) => COLUMNS[name]!(values, own)));
  }
  const scores = numbersOf(given.at(-1)!);
  const most = each((own) =>
    own.reduce(
      (best, at) =>
        Number.isFinite(scores[at]) && !(scores[at]! <= (scores[best] ?? -Infinity)) ? at : best,
      -1,
    ),
  );
  if (name === "is_most") {
    const found = new Float64Array(values.length);
    for (const at of most) if (at >= 0) found[at] = 1;
    return found;
  }
  return spread(most.map((at) => values[at] ?? (values instanceof Float64Array ? NaN : "")));

  function spread(found: Cell[]): Value {
    if (keys === undefined) return found[0]!;
    const rows = typed(found);
    return named.each === undefined ? rows : taken(rows, Int32Array.from(keys));
  }
}

/** Apply a function cell by cell; single values are used for every row. */
function lift(work: Work, values: readonly Value[]): Value {
  const rows = values.find(isRows)?.length;
  if (rows === undefined) return work(...(values as Cell[]));
  const [a, b, c] = values.map((value) => rowsOf(value, rows));
  const found = new Array<Cell>(rows);
  for (let row = 0; row < rows; row += 1)
    found[row] = work(a![row]!, b?.[row] ?? "", c?.[row] ?? "");
  return typed(found);
}

/** As `lift`, for numbers. */
function summed(work: Sum, values: readonly Value[]): Value {
  const rows = values.find(isRows)?.length;
  const [a, b, c] = values.map((value) => numbersOf(value, rows));
  if (rows === undefined) return work(a![0]!, b?.[0] ?? 0, c?.[0] ?? 0);
  if (b === undefined) return numbersBy(rows, (row) => work(a![row]!, 0, 0));
  if (c === undefined) return numbersBy(rows, (row) => work(a![row]!, b[row]!, 0));
  return numbersBy(rows, (row) => work(a![row]!, b[row]!, c[row]!));
}

const isText = (value: Value): boolean =>
  typeof value === "string" || (Array.isArray(value) && typeof value[0] === "string");

/** Evaluate a comparison, or a combination of two. */
function tested(sign: string, values: readonly Value[]): Value {
  if (values.some(isText)) return lift((a, b) => (a === b) === (sign === "=="), values);
  const found = summed(TESTS[sign]!, values);
  return isRows(found) ? found : found !== 0;
}

function chosen(test: Rows, yes: Value, no: Value): Value {
  const rows = test.length;
  if (!isText(yes) && !isText(no)) {
    const [one, other] = [numbersOf(yes, rows), numbersOf(no, rows)];
    return numbersBy(rows, (row) => (test[row] ? one[row]! : other[row]!));
  }
  const [one, other] = [rowsOf(yes, rows), rowsOf(no, rows)];
  return Array.from({ length: rows }, (_, row) => (test[row] ? one[row]! : other[row]!));
}

function unknown(what: string, name: string, all: Iterable<string>): Error {
  return new Error(`no ${what} is named ${name}: there are ${[...all].join(", ")}`);
}

const parsed = new Map<string, Expression>();

/** The value of an expression. */
export function evaluate(code: string | number, scope: Scope): Value {
  if (typeof code === "number") return code;
  const expression = getOrMake(parsed, code, () => parseExpression(code));
  return run(expression, scope);
}

function run(node: Expression, scope: Scope): Value {
  switch (node.type) {
    case "literal":
      return node.value as Cell;
    case "name": {
      const value = scope.get(node.name);
      if (value === undefined) throw unknown("value", node.name, scope.keys());
      return value;
    }
    case "not": {
      const value = run(node.of, scope);
      return isRows(value) ? summed((a) => (a ? 0 : 1), [value]) : !value;
    }
    case "negative":
      return summed((a) => -a, [run(node.of, scope)]);
    case "both":
      return node.parts
        .map((part) => run(part, scope))
        .reduce((all, part) => tested(node.word, [all, part]));
    case "compare": {
      const [[sign, of]] = node.rest as [readonly [string, Expression]];
      const [left, right] = [run(node.first, scope), run(of, scope)];
      if (sign !== "in") return tested(sign, [left, right]);
      return lift((cell) => (right as ReadonlySet<Cell>).has(cell), [left]);
    }
    case "arithmetic":
      return summed(SIGNS[node.sign]!, [run(node.left, scope), run(node.right, scope)]);
    case "at": {
      const [of, index] = [run(node.of, scope) as Rows, run(node.index, scope)];
      return isRows(index) ? taken(of, Int32Array.from(numbersOf(index))) : of[number(index)]!;
    }
    case "if": {
      const test = run(node.test, scope);
      // A single condition decides which branch is evaluated, as in Python.
      if (!isRows(test)) return run(test ? node.yes : node.no, scope);
      return chosen(test, run(node.yes, scope), run(node.no, scope));
    }
    case "function":
      return call(node, scope);
    default:
      throw new Error(`a definition has no ${node.type}`);
  }
}

function call(node: Extract<Expression, { type: "function" }>, scope: Scope): Value {
  const { name } = node;
  if (name === "text" && node.given[0]?.type === "literal") {
    return fill(String(node.given[0].value), scope);
  }
  const given = node.given.map((one) => run(one, scope));
  const whole = WHOLE[name];
  if (whole !== undefined) return whole(...given);
  const isOfColumn = name in COLUMNS || name === "pick" || name === "is_most";
  if (isOfColumn && !(given.length > 1 && name in NUMBERS)) {
    const named = Object.entries(node.named).map(([key, of]) => [key, run(of, scope)] as const);
    return ofGroups(name, given, Object.fromEntries(named));
  }
  if (name in NUMBERS) return summed(NUMBERS[name]!, given);
  const cells = CELLS[name];
  if (cells === undefined) {
    throw unknown("function", name, Object.keys({ ...NUMBERS, ...CELLS, ...WHOLE, ...COLUMNS }));
  }
  return lift(cells, given);
}

/** A value as text; "" if it is not known and no format is given. */
function words(value: Cell, how: string): string {
  if (how in FORMATS) return FORMATS[how]!(number(value));
  if (typeof value === "number" && !Number.isFinite(value)) return "";
  return how === "" ? String(value) : plural(number(value), how);
}

const HOLE = /\{((?:'[^']*'|[^{}'])*)\}/g;
const FORMAT = /^([\s\S]*?)(?::([\w ]+))?$/;

interface Template {
  pieces: string[];
  holes: { code: string; how: string }[];
}

const templates = new Map<string, Template>();

function templateOf(text: string): Template {
  const found: Template = { pieces: [], holes: [] };
  let last = 0;
  for (const hole of text.matchAll(HOLE)) {
    const [, code, how = ""] = FORMAT.exec(hole[1]!)!;
    found.pieces.push(text.slice(last, hole.index));
    found.holes.push({ code: code!, how });
    last = hole.index + hole[0].length;
  }
  found.pieces.push(text.slice(last));
  return found;
}

interface Filled {
  /** Undefined if no hole has rows. */
  rows: number | undefined;
  /** The text of a row; "" if a hole is empty. */
  at(row: number): string;
}

/** A text, filled row by row on request. */
export function filler(text: string, scope: Scope): Filled {
  const { pieces, holes } = getOrMake(templates, text, () => templateOf(text));
  const values = holes.map(({ code }) => evaluate(code, scope));
  return {
    rows: values.find(isRows)?.length,
    at: (row) => {
      let found = pieces[0]!;
      for (const [hole, value] of values.entries()) {
        const filled = words(isRows(value) ? value[row]! : (value as Cell), holes[hole]!.how);
        if (filled === "") return "";
        found += filled + pieces[hole + 1]!;
      }
      return found;
    },
  };
}

/** A text, for each row if a hole has rows. */
export function fill(text: string, scope: Scope): string | string[] {
  const { rows, at } = filler(text, scope);
  return rows === undefined ? at(0) : Array.from({ length: rows }, (_, row) => at(row));
}
