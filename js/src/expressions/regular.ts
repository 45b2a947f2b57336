/**
 * Regular expressions in RE2's syntax, matched in linear time, as the kernel does: patterns of
 * users must not freeze the page, as JavaScript's own expressions could.
 *
 * A pattern becomes a graph of nodes; all nodes that a text can have reached are followed at the
 * same time. Sets of nodes and transitions between them are cached. Single characters are tested
 * with JavaScript's expressions.
 */

type Flags = Readonly<Record<"i" | "m" | "s", boolean>>;

type Part =
  | { type: "char"; test: (char: string) => boolean }
  | { type: "assert"; holds: Assertion }
  | { type: "all" | "any"; parts: Part[] }
  | { type: "repeat"; part: Part; least: number; most: number };

/** Tests the characters before and after a position; null at the ends of the text. */
type Assertion = (before: string | null, after: string | null) => boolean;

type Node =
  | { test: (char: string) => boolean; next: number }
  | { holds: Assertion; next: number }
  | { both: [number, number] };

const MAX_REPEAT = 1000;
const MAX_DEPTH = 500;
const MAX_NODES = 5000;
const MAX_STATES = 2000;
/** Nodes that one pattern may visit in all texts; more would take more than a second or two. */
const MAX_VISITS = 3_000_000;
const END = 0;
const HAS_MATCHED = "matched";

const POSIX: Readonly<Record<string, string>> = {
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
};
const BLANKS = "\\t\\n\\f\\r ";
const CONTROLS: Readonly<Record<string, string>> = {
  a: "\x07",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

const isWord = (char: string | null): boolean => char !== null && /\w/.test(char);
const atStart: Assertion = (before) => before === null;
const atEnd: Assertion = (_, after) => after === null;
const atLineStart: Assertion = (before) => before === null || before === "\n";
const atLineEnd: Assertion = (_, after) => after === null || after === "\n";
const atWord: Assertion = (before, after) => isWord(before) !== isWord(after);
const notAtWord: Assertion = (before, after) => isWord(before) === isWord(after);

class Parser {
  private readonly chars: string[];
  private at = 0;
  private depth = 0;

  constructor(source: string) {
    this.chars = Array.from(source);
    if (this.chars.length > MAX_NODES) throw new Error("the pattern is too large");
  }

  parse(flags: Flags): Part {
    const part = this.choice(flags);
    if (this.at < this.chars.length) throw new Error("unexpected )");
    return part;
  }

  private take(text: string): boolean {
    const found = this.chars.slice(this.at, this.at + text.length).join("") === text;
    if (found) this.at += text.length;
    return found;
  }

  /** Consume the match of an expression at this position; null if there is none. */
  private takeMatch(expression: RegExp): RegExpExecArray | null {
    const match = expression.exec(this.chars.slice(this.at, this.at + 100).join(""));
    if (match !== null) this.at += Array.from(match[0]).length;
    return match;
  }

  private choice(given: Flags): Part {
    if ((this.depth += 1) > MAX_DEPTH) throw new Error("groups are nested too deeply");
    let flags = given;
    const choices: Part[][] = [[]];
    while (this.at < this.chars.length && this.chars[this.at] !== ")") {
      if (this.take("|")) {
        choices.push([]);
        continue;
      }
      const set = this.takeMatch(/^\(\?([ims]*)(?:-([ims]+))?\)/);
      if (set !== null) {
        flags = changed(flags, set);
        continue;
      }
      choices.at(-1)!.push(this.repeated(this.single(flags)));
    }
    this.depth -= 1;
    return { type: "any", parts: choices.map((parts) => ({ type: "all", parts })) };
  }

  private repeated(part: Part): Part {
    const match = this.takeMatch(/^(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/);
    if (match === null) return part;
    const [text, low, comma, high] = match;
    let [least, most] = [text.startsWith("+") ? 1 : 0, text.startsWith("?") ? 1 : Infinity];
    if (low !== undefined) {
      least = Number(low);
      most = comma === "" ? least : high === "" ? Infinity : Number(high);
      if (least > MAX_REPEAT || (most !== Infinity && most > MAX_REPEAT) || most < least) {
        throw new Error(`invalid repetition ${text}`);
      }
    }
    if (this.takeMatch(/^(?:[*+?]|\{\d+,?\d*\})/) !== null) throw new Error("repeated repetition");
    return { type: "repeat", part, least, most };
  }

  private single(flags: Flags): Part {
    const char = this.chars[this.at]!;
    this.at += 1;
    switch (char) {
      case "(":
        return this.group(flags);
      case "[":
        return one(this.charClass(), flags);
      case "\\":
        return this.escape(flags);
      case ".":
        return { type: "char", test: flags.s ? () => true : (found) => found !== "\n" };
      case "^":
        return { type: "assert", holds: flags.m ? atLineStart : atStart };
      case "$":
        return { type: "assert", holds: flags.m ? atLineEnd : atEnd };
      case "*":
      case "+":
      case "?":
        throw new Error(`nothing to repeat before ${char}`);
      default:
        return one(literal(char), flags);
    }
  }

  private group(flags: Flags): Part {
    let inner = flags;
    const set = this.takeMatch(/^\?([ims]*)(?:-([ims]+))?:/);
    if (set !== null) inner = changed(flags, set);
    else if (this.chars[this.at] === "?" && this.takeMatch(/^\?P?<\w+>/) === null) {
      throw new Error("groups that look around or refer to others are not supported");
    }
    const part = this.choice(inner);
    if (!this.take(")")) throw new Error("missing )");
    return part;
  }

  private escape(flags: Flags): Part {
    const char = this.chars[this.at];
    if (char === "A" || char === "z" || char === "b" || char === "B") {
      this.at += 1;
      const holds = { A: atStart, z: atEnd, b: atWord, B: notAtWord }[char];
      return { type: "assert", holds };
    }
    if (this.take("Q")) {
      const parts: Part[] = [];
      while (this.at < this.chars.length && !this.take("\\E")) {
        parts.push(one(literal(this.chars[this.at]!), flags));
        this.at += 1;
      }
      return { type: "all", parts };
    }
    if (this.take("S")) return one(`[^${BLANKS}]`, flags);
    return one(`[${this.escaped()}]`, flags);
  }

  /** Translate an escape sequence into a JavaScript character class. */
  private escaped(): string {
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
    const char = this.chars[this.at] ?? "";
    this.at += 1;
    if (/[dDwW]/.test(char)) return `\\${char}`;
    if (char === "s") return BLANKS;
    if (char === "S") return "\\S";
    const control = CONTROLS[char];
    if (control !== undefined) return literal(control);
    if (char === "" || /[0-9A-Za-z]/.test(char)) throw new Error(`invalid escape \\${char}`);
    return literal(char);
  }

  /** Translate a character class into JavaScript's syntax. */
  private charClass(): string {
    let text = this.take("^") ? "[^" : "[";
    for (let first = true; first || this.chars[this.at] !== "]"; first = false) {
      const named = this.takeMatch(/^\[:(\^?)(\w+):\]/);
      if (named !== null) {
        const chars = POSIX[named[2]!];
        if (chars === undefined || named[1] !== "") throw new Error(`invalid class ${named[0]}`);
        text += chars;
        continue;
      }
      const char = this.chars[this.at];
      if (char === undefined) throw new Error("missing ]");
      this.at += 1;
      text += char === "\\" ? this.escaped() : literal(char);
      if (this.chars[this.at] === "-" && this.chars[this.at + 1] !== "]") {
        this.at += 1;
        text += "-";
      }
    }
    this.at += 1;
    return `${text}]`;
  }
}

function changed(flags: Flags, [, on = "", off = ""]: RegExpExecArray): Flags {
  const value = (name: keyof Flags): boolean =>
    (flags[name] || on.includes(name)) && !off.includes(name);
  return { i: value("i"), m: value("m"), s: value("s") };
}

function literal(char: string): string {
  return `\\u{${char.codePointAt(0)!.toString(16)}}`;
}

/** A part that matches one character by a JavaScript class or code. */
function one(source: string, flags: Flags): Part {
  const expression = new RegExp(`^${source}$`, flags.i ? "iu" : "u");
  return { type: "char", test: (char) => expression.test(char) };
}

/** Nodes of a pattern; the first is the end. */
function graph(whole: Part): { nodes: Node[]; start: number } {
  const nodes: Node[] = [{ both: [END, END] }];
  const add = (node: Node): number => {
    if (nodes.push(node) > MAX_NODES) throw new Error("the pattern is too large");
    return nodes.length - 1;
  };
  let steps = 0;
  const emit = (part: Part, next: number): number => {
    // Repeated empty groups add no nodes.
    if ((steps += 1) > MAX_NODES * 4) throw new Error("the pattern is too large");
    switch (part.type) {
      case "char":
        return add({ test: part.test, next });
      case "assert":
        return add({ holds: part.holds, next });
      case "all":
        return part.parts.reduceRight((after, inner) => emit(inner, after), next);
      case "any": {
        const starts = part.parts.map((inner) => emit(inner, next));
        return starts.reduceRight((rest, start) => add({ both: [start, rest] }));
      }
      case "repeat": {
        let entry = next;
        if (part.most === Infinity) {
          const loop: [number, number] = [END, next];
          entry = add({ both: loop });
          loop[0] = emit(part.part, entry);
        }
        const more = part.most === Infinity ? 0 : part.most - part.least;
        for (let k = 0; k < more; k += 1) entry = add({ both: [emit(part.part, entry), next] });
        for (let k = 0; k < part.least; k += 1) entry = emit(part.part, entry);
        return entry;
      }
    }
  };
  const start = emit(whole, END);
  return { nodes, start };
}

/** Nodes that a text can have reached, before the next character is known. */
interface State {
  places: readonly number[];
  before: string | null;
  next: Map<string, State | typeof HAS_MATCHED | null>;
}

interface Options {
  ignoreCase?: boolean;
  /** Required position of a match, named after the methods of pandas. */
  at?: "contains" | "match" | "fullmatch";
}

/** A compiled pattern, which tests texts for a match. */
export class Regular {
  private readonly nodes: Node[];
  private readonly start: number;
  private states = new Map<string, State>();
  private visits = 0;

  /** Throws an Error if the pattern is invalid. */
  constructor(source: string, { ignoreCase = false, at = "contains" }: Options = {}) {
    const flags = { i: ignoreCase, m: false, s: false };
    const part = new Parser(source).parse(flags);
    // Add assertions to the parsed pattern: in its text, a parenthesis could end a group around it.
    const parts: Part[] = [part];
    if (at !== "contains") parts.unshift({ type: "assert", holds: atStart });
    if (at === "fullmatch") parts.push({ type: "assert", holds: atEnd });
    ({ nodes: this.nodes, start: this.start } = graph({ type: "all", parts }));
  }

  /** Throws an Error if the texts so far took too long. */
  test(text: string): boolean {
    let state = this.state([], null);
    for (const char of text) {
      const next = this.after(state, char);
      if (next === HAS_MATCHED) return true;
      state = next!;
    }
    return this.after(state, "") === HAS_MATCHED;
  }

  /** The state after a character; `""` is the end of the text. */
  private after(state: State, char: string): State | typeof HAS_MATCHED | null {
    let next = state.next.get(char);
    if (next === undefined) {
      next = this.computed(state, char);
      state.next.set(char, next);
    }
    return next;
  }

  private computed({ places, before }: State, char: string): State | typeof HAS_MATCHED | null {
    const after = char === "" ? null : char;
    const reached = new Set<number>();
    const open = [this.start, ...places];
    const found = new Set<number>();
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      if (reached.has(at)) continue;
      if (at === END) return HAS_MATCHED;
      reached.add(at);
      const node = this.nodes[at]!;
      if ("both" in node) open.push(...node.both);
      else if ("holds" in node) {
        if (node.holds(before, after)) open.push(node.next);
      } else if (after !== null && node.test(after)) found.add(node.next);
    }
    this.visits += reached.size;
    if (this.visits > MAX_VISITS) throw new Error("matching takes too long; make it simpler");
    return after === null
      ? null
      : this.state(
          [...found].sort((a, b) => a - b),
          after,
        );
  }

  private state(places: number[], before: string | null): State {
    const kind = before === null || before === "\n" ? before : isWord(before) ? "a" : " ";
    const key = `${kind ?? ""}:${places.join()}`;
    let state = this.states.get(key);
    if (state === undefined) {
      if (this.states.size >= MAX_STATES) this.states = new Map();
      state = { places, before: kind, next: new Map() };
      this.states.set(key, state);
    }
    return state;
  }
}
