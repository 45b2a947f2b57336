/** Selections as values: windows, ranks, names, sets of events. */

import type {
  Brief,
  Brush,
  Chosen,
  RowInfo,
  Scene,
  SelectionJson,
  Slice,
  Span,
  TableName,
} from "./source";

/** Names one event of the job. */
export interface EventKey {
  rank: number;
  table: TableName;
  id: number;
}

export const EVERYTHING: SelectionJson = {
  start_ns: null,
  end_ns: null,
  ranks: null,
  tracks: null,
  query: null,
  ids: null,
};

/** A selection as a request or a host states it; missing parts mean "all". */
export function readSelection(given: Partial<SelectionJson> | null | undefined): SelectionJson {
  const parts = Object.keys(EVERYTHING) as (keyof SelectionJson)[];
  return Object.fromEntries(parts.map((part) => [part, given?.[part] ?? null])) as never;
}

/** Fields of an event that its rectangle provides. */
export function briefOf(slice: Slice, rank: number, table: TableName): Brief {
  const { id, lane, name, kind, start, dur } = slice;
  return { rank, table, id, lane, name, short: name, kind, start, dur };
}

export interface RowChoice {
  ranks: number[] | null;
  tracks: string[] | null;
}

/**
 * Selection of a range of rows. A selection names ranks and track keys but not pairs of them, so a
 * folded rank among opened tracks includes the tracks as a whole.
 */
export function rowsChoice(rows: readonly RowInfo[], scene: Scene): RowChoice {
  const ranks = [...new Set(rows.flatMap((row) => row.like ?? [row.rank]))].sort((a, b) => a - b);
  const every = ranks.length === scene.ranks.length;
  // An opened rank's own head has no lanes: it counts only if no other row is included.
  const drawn = rows.filter((row) => row.track !== null || !row.open);
  const heads = drawn.length === 0;
  const whole = heads || drawn.some((row) => row.track === null);
  const tracks = whole
    ? null
    : [...new Set(drawn.map((row) => row.track?.key ?? ""))].filter((key) => key !== "");
  const all = tracks !== null && coversAll(tracks, ranks, scene);
  return { ranks: every ? null : ranks, tracks: all ? null : tracks };
}

function coversAll(tracks: readonly string[], ranks: readonly number[], scene: Scene): boolean {
  const chosen = new Set(tracks);
  return scene.ranks
    .filter((rank) => ranks.includes(rank.rank))
    .every((rank) => rank.tracks.every((track) => chosen.has(track.key)));
}

export function windowSelection(span: Span, rows: RowChoice): SelectionJson {
  const [start, end] = rounded(span);
  return { ...EVERYTHING, start_ns: start, end_ns: end, ...rows };
}

/** A window in whole ns, which is not empty. */
function rounded([start, end]: Span): [number, number] {
  const from = Math.round(start);
  return [from, Math.max(Math.round(end), from + 1)];
}

/** Selection of the linked panels, without the dimensions that a timeline selects itself. */
export function withoutOwn(
  selection: SelectionJson | null,
  ranksFrom: string,
): SelectionJson | null {
  if (selection === null) return null;
  const ranks = ranksFrom === "timeline" ? null : selection.ranks;
  if (ranks === null && selection.query === null) return null;
  return { ...EVERYTHING, ranks, query: selection.query };
}

/** The window of a selection; open ends are taken from the job. Null if it has no window. */
export function selectionSpan(
  selection: SelectionJson | null,
  scene: Scene,
): [number, number] | null {
  if (selection === null) return null;
  if (selection.start_ns === null && selection.end_ns === null) return null;
  return [selection.start_ns ?? scene.range[0], selection.end_ns ?? scene.range[1]];
}

/** Add an event to a set of events, or remove it. */
export function toggledEvent(
  selection: SelectionJson | null,
  before: [number, number] | null,
  event: Brief,
): SelectionJson | null {
  const known = selection?.ids ?? (before === null ? [] : [before]);
  const ids = known.filter(([rank, id]) => rank !== event.rank || id !== event.id);
  if (ids.length === known.length) ids.push([event.rank, event.id]);
  return ids.length === 0 ? null : { ...EVERYTHING, ids };
}

/** Time of an event, with a margin around it. */
export function roomAround(start: number, dur: number, share = 0.2): Span {
  const room = Math.max(dur * share, dur === 0 ? 500 : 30);
  return [Math.floor(start - room), Math.ceil(start + dur + room)];
}

/** Whether two windows are equal within 1 %. */
export function nearlySame(a: Span, b: Span): boolean {
  const slack = Math.max(b[1] - b[0], a[1] - a[0], 1) / 100;
  return Math.abs(a[0] - b[0]) <= slack && Math.abs(a[1] - b[1]) <= slack;
}

// Names and kinds in a query, separate from its other conditions. Charts choose names and kinds by
// conjuncts of exactly the form `name in ['a', 'b']`, quoted as Python's `repr` does.
// `hta_widgets/trace/query.py` does the same; both are tested with `tests/vectors/clauses.json`.

/** A query split into clauses; null for a dimension without a clause. */
export interface Clauses {
  /** Remaining conditions, without parentheses around them. */
  rest: string | null;
  names: string[] | null;
  kinds: string[] | null;
}

const ESCAPED = String.raw`\\(?:[\\'"nrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})`;
const TEXT = String.raw`'(?:[^'\\\n]|${ESCAPED})*'|"(?:[^"\\\n]|${ESCAPED})*"`;
const CLAUSE = new RegExp(
  String.raw`^(name|kind) in \[((?:(?:${TEXT})(?:, (?:${TEXT}))*)?)\]$`,
  "u",
);
const TEXTS = new RegExp(TEXT, "gu");
const ESCAPE = /\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)/gu;
const PLAIN: Record<string, string> = { n: "\n", r: "\r", t: "\t" };

/** Tokens of a query, as needed to find its conjuncts. */
const TOKEN =
  /(?<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)|(?<word>[\p{L}\p{N}_]+)|(?<open>[([{])|(?<close>[)\]}])|(?<other>.)/gsu;

interface Token {
  text: string;
  start: number;
  end: number;
  /** 1 after an opening bracket, −1 after a closing one. */
  step: number;
  isOther: boolean;
}

function tokens(query: string): Token[] {
  return [...query.matchAll(TOKEN)].map((match) => ({
    text: match[0],
    start: match.index,
    end: match.index + match[0].length,
    step: match.groups?.open !== undefined ? 1 : match.groups?.close !== undefined ? -1 : 0,
    isOther: match.groups?.other !== undefined,
  }));
}

/**
 * Split a query. Other spellings, and `or` outside of parentheses, are kept as a whole in `rest`.
 */
export function readClauses(query: string | null): Clauses {
  const found: Clauses = { rest: null, names: null, kinds: null };
  if (query === null || query.trim() === "") return found;
  const rest: string[] = [];
  let any = false;
  for (const part of conjuncts(query.trim())) {
    const clause = CLAUSE.exec(part);
    if (clause === null) {
      rest.push(part);
      continue;
    }
    any = true;
    const values = [...(clause[2] ?? "").matchAll(TEXTS)].map(([text]) => unquoted(text));
    const key = clause[1] === "name" ? "names" : "kinds";
    found[key] = found[key]?.filter((one) => values.includes(one)) ?? values;
  }
  const only = rest.length === 1 ? rest[0]! : "";
  found.rest =
    any && isWrapped(only)
      ? only.slice(1, -1).trim()
      : rest.length === 0
        ? null
        : rest.join(" and ");
  return found;
}

export function writeClauses({ rest, names, kinds }: Clauses): string | null {
  const clauses: string[] = [];
  if (names !== null) clauses.push(`name in ${pythonList(names)}`);
  if (kinds !== null) clauses.push(`kind in ${pythonList(kinds)}`);
  if (rest === null) return clauses.length === 0 ? null : clauses.join(" and ");
  return clauses.length === 0 ? rest : [`(${rest})`, ...clauses].join(" and ");
}

/** Value of a quoted text; null if it is not quoted as `repr` does. */
export function readText(literal: string): string | null {
  return new RegExp(`^(?:${TEXT})$`, "u").test(literal) ? unquoted(literal) : null;
}

function unquoted(text: string): string {
  return text.slice(1, -1).replace(ESCAPE, (_whole, code: string) => {
    if (code.length > 1) return String.fromCodePoint(parseInt(code.slice(1), 16));
    return PLAIN[code] ?? code;
  });
}

/** Operands of the top-level `and`; the whole query if it is not a conjunction. */
export function conjuncts(query: string): string[] {
  const parts: string[] = [];
  let begin = 0;
  let depth = 0;
  for (const token of tokens(query)) {
    depth += token.step;
    if (depth < 0 || (token.isOther && `'"\`#`.includes(token.text))) return [query];
    // pandas gives the bar the precedence of the word.
    if (depth === 0 && (token.text === "|" || token.text === "or")) return [query];
    if (depth === 0 && token.text === "and") {
      parts.push(query.slice(begin, token.start).trim());
      begin = token.end;
    }
  }
  parts.push(query.slice(begin).trim());
  return depth === 0 && parts.every((part) => part !== "") ? parts : [query];
}

/** Return whether one pair of parentheses encloses the whole text. */
function isWrapped(text: string): boolean {
  if (!text.startsWith("(") || !text.endsWith(")")) return false;
  let depth = 0;
  return tokens(text).every(({ step, start }) => {
    depth += step;
    return depth > 0 || start >= text.length - 1;
  });
}

function pythonList(texts: readonly string[]): string {
  return `[${texts.map(pythonRepr).join(", ")}]`;
}

const SHORT: Record<string, string> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A string literal as Python's `repr` writes it. */
function pythonRepr(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let out = "";
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    const short = SHORT[character];
    if (short !== undefined) out += short;
    else if (character === quote) out += `\\${quote}`;
    else if (character === " " || /[\p{L}\p{M}\p{N}\p{S}\p{P}]/u.test(character)) out += character;
    else if (code <= 0xff) out += `\\x${code.toString(16).padStart(2, "0")}`;
    else if (code <= 0xffff) out += `\\u${code.toString(16).padStart(4, "0")}`;
    else out += `\\U${code.toString(16).padStart(8, "0")}`;
  }
  return `${quote}${out}${quote}`;
}

// A selection by dimension, and how a brush changes it.

const NONE_CHOSEN: Chosen = { ranks: null, names: null, kinds: null, window: null };

export function chosenOf(selection: SelectionJson | null, scene: Scene): Chosen {
  if (selection === null) return NONE_CHOSEN;
  const { names, kinds } = readClauses(selection.query);
  return { ranks: selection.ranks, names, kinds, window: selectionSpan(selection, scene) };
}

/** Apply a brush to a selection; null selects everything. */
export function brushed(
  before: SelectionJson | null,
  brush: Brush,
  allRanks: number,
): SelectionJson | null {
  const selection: SelectionJson = { ...EVERYTHING, ...before };
  if (brush.ranks !== undefined) {
    const ranks = [...new Set(brush.ranks ?? [])].sort((a, b) => a - b);
    selection.ranks = ranks.length === 0 || ranks.length === allRanks ? null : ranks;
  }
  if (brush.window !== undefined) {
    const [start, end] = brush.window === null ? [null, null] : rounded(brush.window);
    selection.start_ns = start;
    selection.end_ns = end;
  }
  if (brush.names !== undefined || brush.kinds !== undefined) {
    const clauses = readClauses(selection.query);
    if (brush.names !== undefined) clauses.names = someOf(brush.names);
    if (brush.kinds !== undefined) clauses.kinds = someOf(brush.kinds);
    selection.query = writeClauses(clauses);
  }
  return orNothing(selection);
}

/** Dimensions of a selection that can be cleared separately. */
export type Part = "window" | "ranks" | "tracks" | "ids" | "names" | "kinds" | "rest";

/** A selection without a dimension; null if nothing else restricts it. */
export function without(selection: SelectionJson | null, part: Part): SelectionJson | null {
  if (selection === null) return null;
  const left: SelectionJson = { ...selection };
  if (part === "window") left.start_ns = left.end_ns = null;
  else if (part === "ranks" || part === "tracks" || part === "ids") left[part] = null;
  else {
    const clauses = readClauses(left.query);
    if (clauses[part] !== null) left.query = writeClauses({ ...clauses, [part]: null });
  }
  return orNothing(left);
}

/** Toggle by a click: choose only this one, or clear it; with a key held, add or remove it. */
export function picked<T>(chosen: readonly T[] | null, one: T, add: boolean): T[] | null {
  const before = chosen ?? [];
  const has = before.includes(one);
  if (!add) return has && before.length === 1 ? null : [one];
  const next = has ? before.filter((other) => other !== one) : [...before, one];
  return next.length === 0 ? null : next;
}

function someOf(values: readonly string[] | null): string[] | null {
  return values === null || values.length === 0 ? null : [...new Set(values)];
}

/** Null instead of a selection that restricts nothing. */
export function orNothing(selection: SelectionJson): SelectionJson | null {
  return Object.values(selection).every((part) => part === null) ? null : selection;
}
