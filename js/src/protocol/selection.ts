/** Selections as values: windows, ranks, names, sets of events. */

import type {
  Brief,
  Brush,
  ChartSelection,
  RowInfo,
  Scene,
  SelectionJson,
  Slice,
  Span,
  TableName,
} from "./source";

/** Identifies an event within the job. */
export interface EventKey {
  rank: number;
  table: TableName;
  id: number;
}

export const FULL_SELECTION: SelectionJson = {
  start_ns: null,
  end_ns: null,
  ranks: null,
  tracks: null,
  query: null,
  ids: null,
};

/** Complete a selection from a request or host. Missing dimensions are not restricted. */
export function normalizeSelection(
  partial: Partial<SelectionJson> | null | undefined,
): SelectionJson {
  const { start_ns = null, end_ns = null, ranks = null, tracks = null } = partial ?? {};
  const { query = null, ids = null, launches } = partial ?? {};
  const selection = { start_ns, end_ns, ranks, tracks, query, ids };
  return launches === true ? { ...selection, launches } : selection;
}

/** Return an event's summary from its slice, which has only the short name. */
export function briefFromSlice(slice: Slice, rank: number, table: TableName): Brief {
  const { id, lane, name, kind, start, dur } = slice;
  return { rank, table, id, lane, name, short: name, kind, start, dur };
}

export interface RowSelection {
  ranks: number[] | null;
  tracks: string[] | null;
}

/**
 * Return the selection for a range of rows. A selection holds ranks and track keys separately, not
 * as pairs. If the range contains a folded rank, all tracks of all its ranks are selected.
 */
export function selectionOfRows(rows: readonly RowInfo[], scene: Scene): RowSelection {
  const ranks = [...new Set(rows.flatMap((row) => row.memberRanks ?? [row.rank]))].sort(
    (a, b) => a - b,
  );
  const coversAllRanks = ranks.length === scene.ranks.length;
  // The head of an opened rank has no lanes. It counts only if no other row is included.
  const rowsWithLanes = rows.filter((row) => row.track !== null || !row.open);
  const onlyHeads = rowsWithLanes.length === 0;
  const wholeRanks = onlyHeads || rowsWithLanes.some((row) => row.track === null);
  const tracks = wholeRanks
    ? null
    : [...new Set(rowsWithLanes.map((row) => row.track?.key ?? ""))].filter((key) => key !== "");
  const allTracks = tracks !== null && coversAllTracks(tracks, ranks, scene);
  return { ranks: coversAllRanks ? null : ranks, tracks: allTracks ? null : tracks };
}

function coversAllTracks(
  tracks: readonly string[],
  ranks: readonly number[],
  scene: Scene,
): boolean {
  const selected = new Set(tracks);
  return scene.ranks
    .filter((rank) => ranks.includes(rank.rank))
    .every((rank) => rank.tracks.every((track) => selected.has(track.key)));
}

export function windowSelection(span: Span, rows: RowSelection): SelectionJson {
  const [start, end] = roundWindow(span);
  return { ...FULL_SELECTION, start_ns: start, end_ns: end, ...rows };
}

/** Round a window to whole ns, at least 1 ns long. */
function roundWindow([start, end]: Span): [number, number] {
  const from = Math.round(start);
  return [from, Math.max(Math.round(end), from + 1)];
}

/** Return the part of a selection made in linked panels, excluding the part made in a timeline. */
export function withoutTimelineParts(
  selection: SelectionJson | null,
  ranksFrom: string,
): SelectionJson | null {
  if (selection === null) return null;
  const ranks = ranksFrom === "timeline" ? null : selection.ranks;
  if (ranks === null && selection.query === null) return null;
  const { query, launches } = selection;
  return { ...FULL_SELECTION, ranks, query, ...(launches && query !== null ? { launches } : {}) };
}

/** Return a selection's window; null if it has none. Open ends become the ends of the job. */
export function selectionSpan(
  selection: SelectionJson | null,
  scene: Scene,
): [number, number] | null {
  if (selection === null) return null;
  if (selection.start_ns === null && selection.end_ns === null) return null;
  return [selection.start_ns ?? scene.range[0], selection.end_ns ?? scene.range[1]];
}

/** Add an event to a set of events, or remove it. */
export function toggleEvent(
  selection: SelectionJson | null,
  selectedEvent: [number, number] | null,
  event: Brief,
): SelectionJson | null {
  const currentIds = selection?.ids ?? (selectedEvent === null ? [] : [selectedEvent]);
  const ids = currentIds.filter(([rank, id]) => rank !== event.rank || id !== event.id);
  if (ids.length === currentIds.length) ids.push([event.rank, event.id]);
  return ids.length === 0 ? null : { ...FULL_SELECTION, ids };
}

/** Return the time of an event with a margin around it. */
export function padSpan(start: number, dur: number, marginShare = 0.2): Span {
  const marginNs = Math.max(dur * marginShare, dur === 0 ? 500 : 30);
  return [Math.floor(start - marginNs), Math.ceil(start + dur + marginNs)];
}

/** Return whether two windows are equal within 1 %. */
export function areSpansNearlyEqual(a: Span, b: Span): boolean {
  const slack = Math.max(b[1] - b[0], a[1] - a[0], 1) / 100;
  return Math.abs(a[0] - b[0]) <= slack && Math.abs(a[1] - b[1]) <= slack;
}

// Separate the names and kinds in a query from its other conditions. Charts select names and kinds
// with conjuncts of the exact form `name in ['a', 'b']`, quoted like Python's `repr`.
// `hta_widgets/trace/query.py` does the same. `tests/vectors/clauses.json` tests both files.

/** A query split into clauses; null for a dimension without a clause. */
export interface Clauses {
  /** The other conditions, without enclosing parentheses. */
  rest: string | null;
  names: string[] | null;
  kinds: string[] | null;
}

const ESCAPE_PATTERN = String.raw`\\(?:[\\'"nrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})`;
const STRING_PATTERN = String.raw`'(?:[^'\\\n]|${ESCAPE_PATTERN})*'|"(?:[^"\\\n]|${ESCAPE_PATTERN})*"`;
const CLAUSE = new RegExp(
  String.raw`^(name|kind) in \[((?:(?:${STRING_PATTERN})(?:, (?:${STRING_PATTERN}))*)?)\]$`,
  "u",
);
const STRING_LITERALS = new RegExp(STRING_PATTERN, "gu");
const ESCAPE = /\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)/gu;
const CONTROL_CHARACTERS: Record<string, string> = { n: "\n", r: "\r", t: "\t" };

/** Tokens of a query, in the detail needed to find its conjuncts. */
const TOKEN =
  /(?<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)|(?<word>[\p{L}\p{N}_]+)|(?<open>[([{])|(?<close>[)\]}])|(?<other>.)/gsu;

interface ClauseToken {
  text: string;
  start: number;
  end: number;
  /** Change in nesting depth: 1 for an opening bracket, −1 for a closing bracket. */
  nesting: number;
  isOther: boolean;
}

function tokenizeClauses(query: string): ClauseToken[] {
  return [...query.matchAll(TOKEN)].map((match) => ({
    text: match[0],
    start: match.index,
    end: match.index + match[0].length,
    nesting: Number(match.groups?.open !== undefined) - Number(match.groups?.close !== undefined),
    isOther: match.groups?.other !== undefined,
  }));
}

/** Split a query. Other conditions, and queries with a top-level `or`, go into `rest`. */
export function parseClauses(query: string | null): Clauses {
  const clauses: Clauses = { rest: null, names: null, kinds: null };
  if (query === null || query.trim() === "") return clauses;
  const others: string[] = [];
  for (const part of splitConjuncts(query.trim())) {
    const clause = CLAUSE.exec(part);
    if (clause === null) {
      others.push(part);
      continue;
    }
    const values = [...(clause[2] ?? "").matchAll(STRING_LITERALS)].map(([text]) => unquote(text));
    const key = clause[1] === "name" ? "names" : "kinds";
    clauses[key] = clauses[key]?.filter((value) => values.includes(value)) ?? values;
  }
  if (others.length === 0) return clauses;
  const rest = others.join(" and ");
  const hasClause = clauses.names !== null || clauses.kinds !== null;
  const unwrap = hasClause && others.length === 1 && isWrapped(rest);
  return { ...clauses, rest: unwrap ? rest.slice(1, -1).trim() : rest };
}

export function formatClauses({ rest, names, kinds }: Clauses): string | null {
  const clauses: string[] = [];
  if (names !== null) clauses.push(`name in ${toPythonList(names)}`);
  if (kinds !== null) clauses.push(`kind in ${toPythonList(kinds)}`);
  if (rest === null) return clauses.length === 0 ? null : clauses.join(" and ");
  return clauses.length === 0 ? rest : [`(${rest})`, ...clauses].join(" and ");
}

/** Return a string literal's value; null if the literal is not in the form of Python's `repr`. */
export function parseStringLiteral(literal: string): string | null {
  return new RegExp(`^(?:${STRING_PATTERN})$`, "u").test(literal) ? unquote(literal) : null;
}

function unquote(text: string): string {
  return text.slice(1, -1).replace(ESCAPE, (_whole, code: string) => {
    if (code.length > 1) return String.fromCodePoint(parseInt(code.slice(1), 16));
    return CONTROL_CHARACTERS[code] ?? code;
  });
}

/** Return the operands of the top-level `and`; without one, the whole query. */
export function splitConjuncts(query: string): string[] {
  const parts: string[] = [];
  let begin = 0;
  let depth = 0;
  for (const token of tokenizeClauses(query)) {
    depth += token.nesting;
    if (depth < 0 || (token.isOther && `'"\`#`.includes(token.text))) return [query];
    // pandas gives `|` the precedence of `or`.
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
  return tokenizeClauses(text).every(({ nesting, start }) => {
    depth += nesting;
    return depth > 0 || start >= text.length - 1;
  });
}

function toPythonList(texts: readonly string[]): string {
  return `[${texts.map(toPythonRepr).join(", ")}]`;
}

const SHORT_ESCAPES: Record<string, string> = {
  "\\": "\\\\",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};

/** Return a string literal as Python's `repr` writes it. */
function toPythonRepr(text: string): string {
  return toPythonString(text, text.includes("'") && !text.includes('"') ? '"' : "'");
}

/** Return a Python string literal. Control characters, odd spaces and surrogates are escaped. */
export function toPythonString(text: string, quote: string): string {
  let out = "";
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    const short = SHORT_ESCAPES[character];
    if (short !== undefined) out += short;
    else if (character === quote) out += `\\${quote}`;
    else if (character === " " || /[\p{L}\p{M}\p{N}\p{S}\p{P}]/u.test(character)) out += character;
    else if (code <= 0xff) out += `\\x${code.toString(16).padStart(2, "0")}`;
    else if (code <= 0xffff) out += `\\u${code.toString(16).padStart(4, "0")}`;
    else out += `\\U${code.toString(16).padStart(8, "0")}`;
  }
  return `${quote}${out}${quote}`;
}

// Apply brushes to a selection, and edit its dimensions separately.

const ALL_ITEMS: ChartSelection = { ranks: null, names: null, kinds: null, window: null };

export function chartSelectionOf(selection: SelectionJson | null, scene: Scene): ChartSelection {
  if (selection === null) return ALL_ITEMS;
  const { names, kinds } = parseClauses(selection.query);
  return { ranks: selection.ranks, names, kinds, window: selectionSpan(selection, scene) };
}

/** Apply a brush to a selection; null selects everything. */
export function applyBrush(
  current: SelectionJson | null,
  brush: Brush,
  rankCount: number,
): SelectionJson | null {
  const selection: SelectionJson = { ...FULL_SELECTION, ...current };
  if (brush.names !== undefined) {
    delete selection.launches;
    if (brush.launches === true) selection.launches = true;
  }
  if (brush.ranks !== undefined) {
    const ranks = [...new Set(brush.ranks ?? [])].sort((a, b) => a - b);
    selection.ranks = ranks.length === 0 || ranks.length === rankCount ? null : ranks;
  }
  if (brush.window !== undefined) {
    const [start, end] = brush.window === null ? [null, null] : roundWindow(brush.window);
    selection.start_ns = start;
    selection.end_ns = end;
  }
  if (brush.names !== undefined || brush.kinds !== undefined) {
    const clauses = parseClauses(selection.query);
    if (brush.names !== undefined) clauses.names = uniqueOrNull(brush.names);
    if (brush.kinds !== undefined) clauses.kinds = uniqueOrNull(brush.kinds);
    selection.query = formatClauses(clauses);
  }
  return nullIfUnrestricted(selection);
}

/** The dimensions of a selection that can be cleared separately. */
export type SelectionDimension = "window" | "ranks" | "tracks" | "ids" | "names" | "kinds" | "rest";

/** Return a selection without one dimension; null if nothing else restricts it. */
export function withoutDimension(
  selection: SelectionJson | null,
  dimension: SelectionDimension,
): SelectionJson | null {
  if (selection === null) return null;
  const remaining: SelectionJson = { ...selection };
  if (dimension === "window") remaining.start_ns = remaining.end_ns = null;
  else if (dimension === "ranks" || dimension === "tracks" || dimension === "ids")
    remaining[dimension] = null;
  else {
    const clauses = parseClauses(remaining.query);
    if (clauses[dimension] !== null)
      remaining.query = formatClauses({ ...clauses, [dimension]: null });
  }
  return nullIfUnrestricted(remaining);
}

/** Select only `item`; if it is the only one selected, deselect it. With `add`, toggle it. */
export function togglePick<T>(selected: readonly T[] | null, item: T, add: boolean): T[] | null {
  const current = selected ?? [];
  const has = current.includes(item);
  if (!add) return has && current.length === 1 ? null : [item];
  const next = has ? current.filter((other) => other !== item) : [...current, item];
  return next.length === 0 ? null : next;
}

function uniqueOrNull(values: readonly string[] | null): string[] | null {
  return values === null || values.length === 0 ? null : [...new Set(values)];
}

/** Return the selection; null if it does not restrict anything. */
export function nullIfUnrestricted(selection: SelectionJson): SelectionJson | null {
  const { launches, ...parts } = selection;
  if (Object.values(parts).every((value) => value === null)) return null;
  const { query, ids, tracks } = parts;
  return launches && (query ?? ids ?? tracks) === null ? parts : selection;
}
