/**
 * The names and kinds that a query asks for, apart from whatever else it says.
 *
 * Charts choose names and kinds by conjuncts of exactly the form `name in ['a', 'b']`, quoted as
 * Python's `repr` does. `hta_widgets/trace/query.py` does the same; both are tested with
 * `tests/vectors/clauses.json`.
 */

/** A query taken apart; null where it does not ask for any. */
export interface Clauses {
  /** What is neither of the following, without parentheses around it. */
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

/** What a query is made of, as far as it matters for where it falls apart. */
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

/** A query that says the same in another form, or has `or` outside of parentheses, is left whole. */
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

/** What a quoted text stands for; null where it is not quoted as `repr` does. */
export function readText(literal: string): string | null {
  return new RegExp(`^(?:${TEXT})$`, "u").test(literal) ? unquoted(literal) : null;
}

function unquoted(text: string): string {
  return text.slice(1, -1).replace(ESCAPE, (_whole, code: string) => {
    if (code.length > 1) return String.fromCodePoint(parseInt(code.slice(1), 16));
    return PLAIN[code] ?? code;
  });
}

/** What `and` joins; the whole query where it is no conjunction. */
export function conjuncts(query: string): string[] {
  const parts: string[] = [];
  let begin = 0;
  let depth = 0;
  for (const token of tokens(query)) {
    depth += token.step;
    if (depth < 0 || (token.isOther && `'"\`#`.includes(token.text))) return [query];
    // To pandas the bar is as weak as the word.
    if (depth === 0 && (token.text === "|" || token.text === "or")) return [query];
    if (depth === 0 && token.text === "and") {
      parts.push(query.slice(begin, token.start).trim());
      begin = token.end;
    }
  }
  parts.push(query.slice(begin).trim());
  return depth === 0 && parts.every((part) => part !== "") ? parts : [query];
}

/** Does one pair of parentheses enclose all of it? */
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
export function pythonRepr(text: string): string {
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
