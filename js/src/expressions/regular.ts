/**
 * Match regular expressions in RE2 syntax in linear time, as the kernel does. JavaScript's own
 * expressions backtrack, and some patterns would freeze the page.
 *
 * A pattern is compiled to a graph of nodes (an NFA). Matching follows all nodes that the text can
 * have reached at once. A state is a set of such nodes. States and their transitions are cached.
 * JavaScript's expressions are used to test single characters.
 */

import { getOrMake } from "../protocol/maps";

type Flags = Readonly<Record<"i" | "m" | "s", boolean>>;

type PatternNode =
  | { type: "char"; test: (char: string) => boolean }
  | { type: "assert"; holds: Assertion }
  | { type: "all" | "any"; children: PatternNode[] }
  | { type: "repeat"; child: PatternNode; min: number; max: number };

/** Tests the characters before and after a position (null at the ends of the text). */
type Assertion = (before: string | null, after: string | null) => boolean;

type NfaNode =
  | { test: (char: string) => boolean; next: number }
  | { holds: Assertion; next: number }
  | { branches: [number, number] };

const MAX_REPEAT = 1000;
const MAX_DEPTH = 500;
const MAX_NODES = 5000;
const MAX_STATES = 2000;
/** Maximum number of nodes that a pattern visits over all texts. Reaching it takes 1 to 2 s. */
const MAX_VISITS = 3_000_000;
const END = 0;
const HAS_MATCHED = "matched";

/** POSIX character classes by name. */
const POSIX_CLASSES = {
  alnum: "0-9A-Za-z",
  alpha: "A-Za-z",
  ascii: "\\x00-\\x7f",
  blank: "\\t ",
  cntrl: "\\x00-\\x1f\\x7f",
  digit: "0-9",
  lower: "a-z",
  print: " -~",
  punct: "!-\\/:-@\\[-`{-~",
  space: "\\t\\n\\v\\f\\r ",
  upper: "A-Z",
  word: "0-9A-Za-z_",
  xdigit: "0-9A-Fa-f",
} as const;
const BLANKS = "\\t\\n\\f\\r ";
const CONTROLS: Record<string, string> = { a: "\x07", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" };

const isWord = (char: string | null): boolean => char !== null && /\w/.test(char);
const atStart: Assertion = (before) => before === null;
const atEnd: Assertion = (_, after) => after === null;
const atLineStart: Assertion = (before) => before === null || before === "\n";
const atLineEnd: Assertion = (_, after) => after === null || after === "\n";
const atWord: Assertion = (before, after) => isWord(before) !== isWord(after);
const notAtWord: Assertion = (before, after) => isWord(before) === isWord(after);

class PatternParser {
  private readonly chars: string[];
  private position = 0;
  private depth = 0;

  constructor(source: string) {
    this.chars = Array.from(source);
    if (this.chars.length > MAX_NODES) throw new Error("the pattern is too large");
  }

  parse(flags: Flags): PatternNode {
    const part = this.parseAlternation(flags);
    if (this.position < this.chars.length) throw new Error("unexpected )");
    return part;
  }

  private take(text: string): boolean {
    const matches = this.chars.slice(this.position, this.position + text.length).join("") === text;
    if (matches) this.position += text.length;
    return matches;
  }

  private takeMatch(expression: RegExp): RegExpExecArray | null {
    const match = expression.exec(this.chars.slice(this.position, this.position + 100).join(""));
    if (match !== null) this.position += Array.from(match[0]).length;
    return match;
  }

  private parseAlternation(outerFlags: Flags): PatternNode {
    this.depth += 1;
    if (this.depth > MAX_DEPTH) throw new Error("groups are nested too deeply");
    let flags = outerFlags;
    const choices: PatternNode[][] = [[]];
    while (this.position < this.chars.length && this.chars[this.position] !== ")") {
      if (this.take("|")) {
        choices.push([]);
        continue;
      }
      const set = this.takeMatch(/^\(\?([ims]*)(?:-([ims]+))?\)/);
      if (set !== null) {
        flags = applyFlags(flags, set);
        continue;
      }
      choices.at(-1)!.push(this.parseQuantified(this.parseAtom(flags)));
    }
    this.depth -= 1;
    return { type: "any", children: choices.map((children) => ({ type: "all", children })) };
  }

  private parseQuantified(child: PatternNode): PatternNode {
    const match = this.takeMatch(/^(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/);
    if (match === null) return child;
    const [min, max] = repetitionOf(match);
    if (this.takeMatch(/^(?:[*+?]|\{\d+,?\d*\})/) !== null) throw new Error("repeated repetition");
    return { type: "repeat", child, min, max };
  }

  private parseAtom(flags: Flags): PatternNode {
    const char = this.chars[this.position]!;
    this.position += 1;
    switch (char) {
      case "(":
        return this.parseGroup(flags);
      case "[":
        return charNode(this.parseCharClass(), flags);
      case "\\":
        return this.parseEscape(flags);
      case ".":
        return { type: "char", test: flags.s ? () => true : (candidate) => candidate !== "\n" };
      case "^":
        return { type: "assert", holds: flags.m ? atLineStart : atStart };
      case "$":
        return { type: "assert", holds: flags.m ? atLineEnd : atEnd };
      case "*":
      case "+":
      case "?":
        throw new Error(`nothing to repeat before ${char}`);
      default:
        return charNode(codePointEscape(char), flags);
    }
  }

  private parseGroup(flags: Flags): PatternNode {
    let inner = flags;
    const set = this.takeMatch(/^\?([ims]*)(?:-([ims]+))?:/);
    if (set !== null) inner = applyFlags(flags, set);
    else if (this.chars[this.position] === "?" && this.takeMatch(/^\?P?<\w+>/) === null) {
      throw new Error("lookaround and backreferences are not supported");
    }
    const part = this.parseAlternation(inner);
    if (!this.take(")")) throw new Error("missing )");
    return part;
  }

  private parseEscape(flags: Flags): PatternNode {
    const char = this.chars[this.position];
    if (char === "A" || char === "z" || char === "b" || char === "B") {
      this.position += 1;
      const holds = { A: atStart, z: atEnd, b: atWord, B: notAtWord }[char];
      return { type: "assert", holds };
    }
    if (this.take("Q")) {
      const children: PatternNode[] = [];
      while (this.position < this.chars.length && !this.take("\\E")) {
        children.push(charNode(codePointEscape(this.chars[this.position]!), flags));
        this.position += 1;
      }
      return { type: "all", children };
    }
    if (this.take("S")) return charNode(`[^${BLANKS}]`, flags);
    return charNode(`[${this.parseCharEscape()}]`, flags);
  }

  private parseCharEscape(): string {
    const property = this.takeMatch(/^[pP](?:\{(\^?)(\w+)\}|([A-Z]))/);
    if (property !== null) {
      const [text, not, name, letter] = property;
      const negated = text.startsWith("P") !== (not === "^");
      const value = name ?? letter!;
      const script = value.length > 2 && value !== "Any" ? "Script=" : "";
      return `\\${negated ? "P" : "p"}{${script}${value}}`;
    }
    const code = this.takeMatch(/^x(?:\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{2}))/);
    if (code !== null) return `\\u{${code[1] ?? code[2]!}}`;
    const char = this.chars[this.position] ?? "";
    this.position += 1;
    if (/[dDwWS]/.test(char)) return `\\${char}`;
    if (char === "s") return BLANKS;
    const control = CONTROLS[char];
    if (control !== undefined) return codePointEscape(control);
    if (char === "" || /[0-9A-Za-z]/.test(char)) throw new Error(`invalid escape \\${char}`);
    return codePointEscape(char);
  }

  private parseCharClass(): string {
    let text = this.take("^") ? "[^" : "[";
    for (let first = true; first || this.chars[this.position] !== "]"; first = false) {
      const named = this.takeMatch(/^\[:(\^?)(\w+):\]/);
      if (named !== null) {
        const className = named[2]!;
        if (!Object.hasOwn(POSIX_CLASSES, className) || named[1] !== "") {
          throw new Error(`invalid class ${named[0]}`);
        }
        text += POSIX_CLASSES[className as keyof typeof POSIX_CLASSES];
        continue;
      }
      const char = this.chars[this.position];
      if (char === undefined) throw new Error("missing ]");
      this.position += 1;
      text += char === "\\" ? this.parseCharEscape() : codePointEscape(char);
      if (this.chars[this.position] === "-" && this.chars[this.position + 1] !== "]") {
        this.position += 1;
        text += "-";
      }
    }
    this.position += 1;
    return `${text}]`;
  }
}

/** Return the minimum and maximum number of repetitions of a quantifier such as `*` or `{2,5}`. */
function repetitionOf([text, low, comma, high]: RegExpExecArray): [min: number, max: number] {
  if (text.startsWith("*")) return [0, Infinity];
  if (text.startsWith("+")) return [1, Infinity];
  if (text.startsWith("?")) return [0, 1];
  const min = Number(low);
  const maxInBraces = high === "" ? Infinity : Number(high);
  const max = comma === "" ? min : maxInBraces;
  const largest = max === Infinity ? min : max;
  if (largest > MAX_REPEAT || max < min) throw new Error(`invalid repetition ${text}`);
  return [min, max];
}

/** Return the flags after an inline group such as `(?i-s)`. */
function applyFlags(flags: Flags, [, on = "", off = ""]: RegExpExecArray): Flags {
  const value = (name: keyof Flags): boolean =>
    (flags[name] || on.includes(name)) && !off.includes(name);
  return { i: value("i"), m: value("m"), s: value("s") };
}

function codePointEscape(char: string): string {
  return `\\u{${char.codePointAt(0)!.toString(16)}}`;
}

/** Return a node that matches one character, given a class or escape in JavaScript syntax. */
function charNode(source: string, flags: Flags): PatternNode {
  const expression = new RegExp(`^${source}$`, flags.i ? "iu" : "u");
  return { type: "char", test: (char) => expression.test(char) };
}

/** Build the nodes of a pattern. The first node is the end. */
function buildNfa(pattern: PatternNode): { nodes: NfaNode[]; start: number } {
  const nodes: NfaNode[] = [{ branches: [END, END] }];
  const add = (node: NfaNode): number => {
    if (nodes.push(node) > MAX_NODES) throw new Error("the pattern is too large");
    return nodes.length - 1;
  };
  let steps = 0;
  const emit = (part: PatternNode, next: number): number => {
    // The number of steps is limited too, because repeated empty groups add no nodes.
    if ((steps += 1) > MAX_NODES * 4) throw new Error("the pattern is too large");
    switch (part.type) {
      case "char":
        return add({ test: part.test, next });
      case "assert":
        return add({ holds: part.holds, next });
      case "all":
        return part.children.reduceRight((after, inner) => emit(inner, after), next);
      case "any": {
        const starts = part.children.map((inner) => emit(inner, next));
        return starts.reduceRight((rest, start) => add({ branches: [start, rest] }));
      }
      case "repeat": {
        let entry = next;
        if (part.max === Infinity) {
          const loop: [number, number] = [END, next];
          entry = add({ branches: loop });
          loop[0] = emit(part.child, entry);
        }
        const more = part.max === Infinity ? 0 : part.max - part.min;
        for (let k = 0; k < more; k += 1)
          entry = add({ branches: [emit(part.child, entry), next] });
        for (let k = 0; k < part.min; k += 1) entry = emit(part.child, entry);
        return entry;
      }
    }
  };
  const start = emit(pattern, END);
  return { nodes, start };
}

/** The nodes that a text can have reached, and the next state for each character. */
interface NfaState {
  nodes: readonly number[];
  before: string | null;
  next: Map<string, NfaState | typeof HAS_MATCHED | null>;
}

interface Options {
  ignoreCase?: boolean;
  /** The required place of a match, as in the pandas methods of the same name. */
  anchor?: "contains" | "match" | "fullmatch";
}

/** A compiled pattern. */
export class LinearRegExp {
  private readonly nodes: NfaNode[];
  private readonly start: number;
  private states = new Map<string, NfaState>();
  private visits = 0;

  /** Throws an Error if the pattern is invalid. */
  constructor(source: string, { ignoreCase = false, anchor = "contains" }: Options = {}) {
    const flags = { i: ignoreCase, m: false, s: false };
    const part = new PatternParser(source).parse(flags);
    // Anchors are added after parsing because a `)` or `|` in the text could end a group around it.
    const children: PatternNode[] = [part];
    if (anchor !== "contains") children.unshift({ type: "assert", holds: atStart });
    if (anchor === "fullmatch") children.push({ type: "assert", holds: atEnd });
    ({ nodes: this.nodes, start: this.start } = buildNfa({ type: "all", children }));
  }

  /** Return whether a text matches. Throws an Error if matching has taken too long in total. */
  test(text: string): boolean {
    let state = this.getState([], null);
    for (const char of text) {
      const next = this.nextState(state, char);
      if (next === HAS_MATCHED) return true;
      state = next!;
    }
    return this.nextState(state, "") === HAS_MATCHED;
  }

  /** Return the state after a character. `""` is the end of the text, which has no next state. */
  private nextState(state: NfaState, char: string): NfaState | typeof HAS_MATCHED | null {
    return getOrMake(state.next, char, () => this.computeNext(state, char));
  }

  private computeNext(
    { nodes, before }: NfaState,
    char: string,
  ): NfaState | typeof HAS_MATCHED | null {
    const after = char === "" ? null : char;
    const reached = new Set<number>();
    const stack = [this.start, ...nodes];
    const targets = new Set<number>();
    for (let state = stack.pop(); state !== undefined; state = stack.pop()) {
      if (reached.has(state)) continue;
      if (state === END) return HAS_MATCHED;
      reached.add(state);
      const node = this.nodes[state]!;
      if ("branches" in node) stack.push(...node.branches);
      else if ("holds" in node) {
        if (node.holds(before, after)) stack.push(node.next);
      } else if (after !== null && node.test(after)) targets.add(node.next);
    }
    this.visits += reached.size;
    if (this.visits > MAX_VISITS) throw new Error("matching takes too long; make it simpler");
    if (after === null) return null;
    const nodesAfter = [...targets].sort((a, b) => a - b);
    return this.getState(nodesAfter, after);
  }

  private getState(nodes: number[], before: string | null): NfaState {
    // Assertions only distinguish the start of the text, line ends, word characters and others.
    const inLine = isWord(before) ? "a" : " ";
    const kind = before === null || before === "\n" ? before : inLine;
    if (this.states.size >= MAX_STATES) this.states = new Map();
    const key = `${kind ?? ""}:${nodes.join()}`;
    return getOrMake(this.states, key, () => ({ nodes, before: kind, next: new Map() }));
  }
}
