/**
 * Evaluates expressions of chart definitions over columns, and fills texts with `{holes}`: as
 * Python's `charts/language.py`.
 */

import { type Expression, parseExpression } from "../expressions/parse";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatDurationDelta,
  formatShare,
  formatShareDelta,
  formatValue,
  plural,
} from "../ui/formats";
import { median, sum } from "../expressions/numbers";
import { extremes, toldApart } from "../ui/text";

export type Cell = number | string | boolean | readonly (number | string)[];
/** One value, or one for each item of the frame or row of the chart; sets are those of `in`. */
export type Value = Cell | Cell[] | ReadonlySet<Cell>;
export type Scope = Map<string, Value>;

/** Lists are cells of columns only. */
export const isRows = (value: Value): value is Cell[] => Array.isArray(value);

export const number = (cell: Cell | undefined): number =>
  typeof cell === "number" ? cell : typeof cell === "boolean" ? Number(cell) : NaN;

/** As many values as there are rows. */
export function rowsOf(value: Value, rows: number): readonly Cell[] {
  return isRows(value) ? value : new Array<Cell>(rows).fill(value as Cell);
}

export const numbersOf = (value: Value, rows = 1): number[] => rowsOf(value, rows).map(number);

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
  share: formatShare,
  delta: formatShareDelta,
  count: formatCount,
  value: formatValue,
  size: formatBytes,
  length: queueLength,
  tenths: (value) => value.toFixed(1),
  hundredths: (value) => value.toFixed(2),
};

type Work = (...cells: Cell[]) => Cell;

const signed =
  (work: (a: number, b: number) => Cell): Work =>
  (a, b) =>
    work(number(a), number(b));

const SIGNS: Readonly<Record<string, Work>> = {
  "+": signed((a, b) => a + b),
  "-": signed((a, b) => a - b),
  "*": signed((a, b) => a * b),
  "/": signed((a, b) => a / b),
  "%": signed((a, b) => ((a % b) + b) % b),
  "<": signed((a, b) => a < b),
  "<=": signed((a, b) => a <= b),
  ">": signed((a, b) => a > b),
  ">=": signed((a, b) => a >= b),
  "==": (a, b) => a === b,
  "!=": (a, b) => a !== b,
  and: (a, b) => Boolean(a) && Boolean(b),
  or: (a, b) => Boolean(a) || Boolean(b),
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

const isKnown = (cell: Cell): boolean =>
  typeof cell === "string" ? cell !== "" : Number.isFinite(number(cell));

/** Functions of values, cell by cell. */
const CELLS: Readonly<Record<string, Work>> = {
  abs: (a) => Math.abs(number(a)),
  ceil: (a) => Math.ceil(number(a)),
  floor: (a) => Math.floor(number(a)),
  known: isKnown,
  default: (a, other) => (Number.isFinite(number(a)) ? a : other),
  clip: (a, low, high) => Math.min(Math.max(number(a), number(low)), number(high)),
  ratio: (a, b) => (number(b) > 0 ? number(a) / number(b) : 0),
  max: signed(Math.max),
  min: signed(Math.min),
  part: (text, separator, place) => String(text).split(String(separator))[number(place)] ?? "",
  split: (text, separator) => (text === "" ? [] : String(text).split(String(separator))),
  kinds_of: (label) => kindWords(String(label)),
  numbers: (list) => (list as readonly Cell[]).map(Number),
};

/** Functions of columns that give a column, or one value. */
const WHOLE: Readonly<Record<string, (...values: Value[]) => Value>> = {
  codes: (...columns) => codes(columns as Cell[][]),
  once: (keys) => {
    const met = new Set<Cell>();
    return (keys as Cell[]).map((key) => met.size < met.add(key).size);
  },
  order: (values) => {
    const all = numbersOf(values);
    const place = new Map([...new Set(all)].sort((a, b) => a - b).map((one, at) => [one, at]));
    return all.map((one) => place.get(one)!);
  },
  told_apart: (short, name) => toldApart(short as string[], name as string[]),
  extremes: (names, values, how) =>
    extremes(names as string[], numbersOf(values), FORMATS[how as string]!),
  listed: (texts, between = ", ") =>
    (texts as string[]).filter((one) => one !== "").join(between as string),
};

const finite = (values: readonly Cell[]): number[] => values.map(number).filter(Number.isFinite);
const extreme = (values: number[], further: (a: number, b: number) => number): number =>
  values.length === 0 ? NaN : values.reduce(further);

/** Functions of columns, of all or of each group. */
const COLUMNS: Readonly<Record<string, (values: Cell[]) => Cell>> = {
  sum: (all) => sum(finite(all)),
  mean: (all) => sum(finite(all)) / finite(all).length,
  median: (all) => median(all as number[]),
  max: (all) => extreme(finite(all), (a, b) => Math.max(a, b)),
  min: (all) => extreme(finite(all), (a, b) => Math.min(a, b)),
  any: (all) => all.some(Boolean),
  all: (all) => all.every(Boolean),
  count: (all) => all.length,
  distinct: (all) => new Set(all).size,
  first: (all) => all[0] ?? "",
};

/** The number of each item's combination of values, in the order they first occur. */
export function codes(columns: readonly (readonly Cell[])[]): number[] {
  let keys: number[] = columns[0]!.map(() => 0);
  for (const column of columns) {
    const own = new Map<Cell, number>();
    const numbered = column.map((cell) => {
      const known = own.get(cell);
      if (known === undefined) own.set(cell, own.size);
      return known ?? own.size - 1;
    });
    const joined = new Map<number, number>();
    keys = keys.map((key, at) => {
      const pair = key * own.size + numbered[at]!;
      const known = joined.get(pair);
      if (known === undefined) joined.set(pair, joined.size);
      return known ?? joined.size - 1;
    });
  }
  return keys;
}

function ofGroups(name: string, given: Value[], named: Readonly<Record<string, Value>>): Value {
  const values = given[0] as Cell[];
  const { where = true } = named;
  const counts = isRows(where) ? (at: number) => Boolean(where[at]) : () => Boolean(where);
  const keys = (named.by ?? named.each) as number[] | undefined;
  const groups = keys === undefined ? 1 : keys.reduce((most, key) => Math.max(most, key + 1), 0);
  const members = Array.from({ length: groups }, (): number[] => []);
  for (let at = 0; at < values.length; at += 1) if (counts(at)) members[keys?.[at] ?? 0]!.push(at);
  if (name === "pick" || name === "is_most") {
    const scores = numbersOf(given.at(-1)!);
    const most = members.map((all) =>
      all.reduce(
        (best, at) =>
          Number.isFinite(scores[at]) && !(scores[at]! <= (scores[best] ?? -Infinity)) ? at : best,
        -1,
      ),
    );
    if (name === "is_most") {
      const found = new Set(most);
      return values.map((_, at) => found.has(at));
    }
    return spread(most.map((at) => values[at] ?? (typeof values[0] === "string" ? "" : NaN)));
  }
  return spread(members.map((all) => COLUMNS[name]!(all.map((at) => values[at]!))));

  function spread(found: Cell[]): Value {
    if (named.each !== undefined) return keys!.map((key) => found[key]!);
    return keys === undefined ? found[0]! : found;
  }
}

/** Applies to cells; one value goes with every row. */
function lift(work: Work, values: readonly Value[]): Value {
  const rows = values.find(isRows)?.length;
  if (rows === undefined) return work(...(values as Cell[]));
  const [a, b] = values.map((value) => rowsOf(value, rows));
  if (values.length === 1) return a!.map((cell) => work(cell));
  if (values.length === 2) return a!.map((cell, at) => work(cell, b![at]!));
  const all = values.map((value) => rowsOf(value, rows));
  return a!.map((_, at) => work(...all.map((column) => column[at]!)));
}

function unknown(what: string, name: string, known: Iterable<string>): Error {
  return new Error(`no ${what} is named ${name}: there are ${[...known].join(", ")}`);
}

const parsed = new Map<string, Expression>();

/** The value of an expression. */
export function evaluate(code: string | number, scope: Scope): Value {
  if (typeof code === "number") return code;
  let node = parsed.get(code);
  if (node === undefined) parsed.set(code, (node = parseExpression(code)));
  return run(node, scope);
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
    case "not":
      return lift((cell) => !cell, [run(node.of, scope)]);
    case "negative":
      return lift((cell) => -number(cell), [run(node.of, scope)]);
    case "both": {
      const [first, ...rest] = node.parts.map((part) => run(part, scope));
      return rest.reduce((all, part) => lift(SIGNS[node.word]!, [all, part]), first!);
    }
    case "compare": {
      const [[sign, of]] = node.rest as [readonly [string, Expression]];
      const [left, right] = [run(node.first, scope), run(of, scope)];
      if (sign !== "in") return lift(SIGNS[sign]!, [left, right]);
      return lift((cell) => (right as ReadonlySet<Cell>).has(cell), [left]);
    }
    case "arithmetic":
      return lift(SIGNS[node.sign]!, [run(node.left, scope), run(node.right, scope)]);
    case "at": {
      const of = run(node.of, scope) as Cell[];
      return lift((index) => of[number(index)]!, [run(node.index, scope)]);
    }
    case "if": {
      const test = run(node.test, scope);
      // One value decides what is evaluated, as in Python.
      if (!isRows(test)) return run(test ? node.yes : node.no, scope);
      return lift(
        (is, yes, no) => (is ? yes : no),
        [test, run(node.yes, scope), run(node.no, scope)],
      );
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
  if (isOfColumn && !(given.length > 1 && name in CELLS)) {
    const named = Object.entries(node.named).map(([key, of]) => [key, run(of, scope)] as const);
    return ofGroups(name, given, Object.fromEntries(named));
  }
  const cells = CELLS[name];
  if (cells === undefined) {
    throw unknown("function", name, Object.keys({ ...CELLS, ...WHOLE, ...COLUMNS }));
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

/** A text with its holes filled, for each row if a hole has rows; "" if a hole is empty. */
export function fill(template: string, scope: Scope): string | string[] {
  const pieces: string[] = [];
  const holes: Value[] = [];
  let last = 0;
  for (const found of template.matchAll(HOLE)) {
    const [, code, how = ""] = FORMAT.exec(found[1]!)!;
    pieces.push(template.slice(last, found.index));
    last = found.index + found[0].length;
    holes.push(lift((cell) => words(cell, how), [evaluate(code!, scope)]));
  }
  const end = template.slice(last);
  if (holes.length === 0) return end;
  return lift(
    (...texts) =>
      texts.includes("") ? "" : texts.map((one, at) => pieces[at]! + String(one)).join("") + end,
    holes,
  ) as string | string[];
}
