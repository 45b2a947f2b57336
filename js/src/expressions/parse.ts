/** Parse a query as Python does: operators, precedence, literals, method calls on columns. */

export type Value = number | string | boolean | null | readonly Value[];

export type Expression =
  | { type: "literal"; value: Value }
  | { type: "list"; items: Expression[] }
  | { type: "name"; name: string }
  | { type: "not"; of: Expression }
  | { type: "negative"; of: Expression }
  | { type: "both"; word: "and" | "or"; parts: Expression[] }
  | { type: "compare"; first: Expression; rest: (readonly [sign: string, of: Expression])[] }
  | { type: "arithmetic"; sign: string; left: Expression; right: Expression }
  | {
      type: "call";
      of: Expression;
      /** Whether it is a method of `.str`. */
      strings: boolean;
      method: string;
      given: Expression[];
      named: Record<string, Expression>;
    }
  // In definitions of charts only.
  | { type: "if"; test: Expression; yes: Expression; no: Expression }
  | { type: "at"; of: Expression; index: Expression }
  | {
      type: "function";
      name: string;
      given: Expression[];
      named: Record<string, Expression>;
    };

interface Token {
  sort: "number" | "string" | "name" | "sign" | "end";
  text: string;
  value: Value;
}

const TOKEN =
  /\s*(?:(\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([rR]?)("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|`([^`]+)`|([A-Za-z_]\w*)|(\*\*|\/\/|==|!=|<=|>=|[-+*/%<>&|~()[\],.=]))/sy;

const COMPARING = new Set(["==", "!=", "<", "<=", ">", ">=", "in", "not in"]);
const WORDS: Record<string, Value> = { True: true, False: false, None: null };
const ESCAPES: Record<string, string> = {
  n: "\n",
  r: "\r",
  t: "\t",
  "0": "\0",
  a: "\x07",
  b: "\b",
  f: "\f",
  v: "\v",
};

export function parseQuery(query: string): Expression {
  return parsed(query, false);
}

/** Parse an expression of a chart's definition, which may call functions as well. */
export function parseExpression(text: string): Expression {
  return parsed(text, true);
}

function parsed(text: string, calls: boolean): Expression {
  const parser = new Parser(tokens(text), calls);
  const found = parser.whole();
  parser.expect("end", "");
  return found;
}

function tokens(query: string): Token[] {
  const found: Token[] = [];
  let at = 0;
  while (query.slice(at).trim() !== "") {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(query);
    if (match === null)
      throw new Error(`${JSON.stringify(query.slice(at).trim())} is not known here`);
    at = TOKEN.lastIndex;
    const [, digits, raw, quoted, quotedName, name, sign] = match;
    if (digits !== undefined) {
      found.push({ sort: "number", text: digits, value: Number(digits.replaceAll("_", "")) });
    } else if (quoted !== undefined) {
      const inner = quoted.slice(1, -1);
      found.push({ sort: "string", text: quoted, value: raw === "" ? unescaped(inner) : inner });
    } else if (name !== undefined || quotedName !== undefined) {
      found.push({ sort: "name", text: (name ?? quotedName)!, value: null });
    } else {
      found.push({ sort: "sign", text: sign!, value: null });
    }
  }
  return [...found, { sort: "end", text: "", value: null }];
}

function unescaped(text: string): string {
  return text.replace(
    /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|\n|([\s\S]))/g,
    (whole, x?: string, u?: string, long?: string, letter?: string) => {
      const code = x ?? u ?? long;
      if (code !== undefined) return String.fromCodePoint(Number.parseInt(code, 16));
      if (letter === undefined) return "";
      if ("\\'\"".includes(letter)) return letter;
      // As in Python, an escape without a meaning is kept unchanged.
      return ESCAPES[letter] ?? whole;
    },
  );
}

class Parser {
  private at = 0;

  constructor(
    private readonly tokens: Token[],
    private readonly calls: boolean,
  ) {}

  whole(): Expression {
    const yes = this.either();
    if (!this.calls || !this.take("name", "if")) return yes;
    const test = this.either();
    this.expect("name", "else");
    return { type: "if", test, yes, no: this.whole() };
  }

  private either(): Expression {
    return this.both("or", "|", () => this.all());
  }

  private all(): Expression {
    return this.both("and", "&", () => this.negated());
  }

  /** pandas gives `&` and `|` the precedence of `and` and `or`. */
  private both(word: "and" | "or", sign: string, part: () => Expression): Expression {
    const parts = [part()];
    while (this.take("name", word) || this.take("sign", sign)) parts.push(part());
    return parts.length === 1 ? parts[0]! : { type: "both", word, parts };
  }

  private negated(): Expression {
    return this.take("name", "not") ? { type: "not", of: this.negated() } : this.comparison();
  }

  private comparison(): Expression {
    const first = this.sum();
    const rest: (readonly [string, Expression])[] = [];
    for (let sign = this.comparing(); sign !== null; sign = this.comparing()) {
      rest.push([sign, this.sum()]);
    }
    return rest.length === 0 ? first : { type: "compare", first, rest };
  }

  private comparing(): string | null {
    const { text } = this.tokens[this.at]!;
    if (text === "not" && this.tokens[this.at + 1]!.text === "in") {
      this.at += 2;
      return "not in";
    }
    if (!COMPARING.has(text) || this.tokens[this.at]!.sort === "string") return null;
    this.at += 1;
    return text;
  }

  private sum(): Expression {
    return this.arithmetic(["+", "-"], () => this.product());
  }

  private product(): Expression {
    return this.arithmetic(["*", "/", "//", "%"], () => this.signed());
  }

  private arithmetic(signs: string[], operand: () => Expression): Expression {
    let left = operand();
    for (;;) {
      const sign = signs.find((one) => this.take("sign", one));
      if (sign === undefined) return left;
      left = { type: "arithmetic", sign, left, right: operand() };
    }
  }

  private signed(): Expression {
    if (this.take("sign", "-")) return { type: "negative", of: this.signed() };
    if (this.take("sign", "+")) return this.signed();
    if (this.take("sign", "~")) return { type: "not", of: this.signed() };
    const base = this.postfix();
    if (!this.take("sign", "**")) return base;
    return { type: "arithmetic", sign: "**", left: base, right: this.signed() };
  }

  private postfix(): Expression {
    let of = this.atom();
    while (this.calls && this.take("sign", "[")) {
      of = { type: "at", of, index: this.whole() };
      this.expect("sign", "]");
    }
    while (this.take("sign", ".")) {
      let method = this.expect("name").text;
      const strings = method === "str";
      if (strings) {
        this.expect("sign", ".");
        method = this.expect("name").text;
      }
      this.expect("sign", "(");
      of = { type: "call", of, strings, method, ...this.callArguments() };
    }
    return of;
  }

  private callArguments(): { given: Expression[]; named: Record<string, Expression> } {
    const given: Expression[] = [];
    const named: Record<string, Expression> = {};
    while (!this.take("sign", ")")) {
      const [name, next] = [this.tokens[this.at]!, this.tokens[this.at + 1]!];
      if (name.sort === "name" && next.text === "=") {
        this.at += 2;
        named[name.text] = this.whole();
      } else {
        given.push(this.whole());
      }
      if (!this.take("sign", ",")) {
        this.expect("sign", ")");
        break;
      }
    }
    return { given, named };
  }

  private atom(): Expression {
    const token = this.tokens[this.at]!;
    this.at += 1;
    if (token.sort === "number" || token.sort === "string") {
      return { type: "literal", value: token.value };
    }
    if (token.sort === "name") {
      if (token.text in WORDS) return { type: "literal", value: WORDS[token.text]! };
      if (this.calls && this.take("sign", "(")) {
        return { type: "function", name: token.text, ...this.callArguments() };
      }
      return { type: "name", name: token.text };
    }
    if (token.text === "(" || token.text === "[") return this.bracketed(token.text);
    throw new Error(token.sort === "end" ? "it ends too early" : `"${token.text}" is out of place`);
  }

  private bracketed(open: string): Expression {
    const close = open === "(" ? ")" : "]";
    const items: Expression[] = [];
    let list = open === "[";
    while (!this.take("sign", close)) {
      items.push(this.whole());
      if (!this.take("sign", ",")) {
        this.expect("sign", close);
        break;
      }
      list = true;
    }
    return list || items.length !== 1 ? { type: "list", items } : items[0]!;
  }

  private take(sort: Token["sort"], text: string): boolean {
    const token = this.tokens[this.at]!;
    if (token.sort !== sort || token.text !== text) return false;
    this.at += 1;
    return true;
  }

  expect(sort: Token["sort"], text?: string): Token {
    const token = this.tokens[this.at]!;
    if (token.sort === sort && (text === undefined || token.text === text)) {
      this.at += 1;
      return token;
    }
    throw new Error(
      token.sort === "end"
        ? `it ends where ${text ?? "a name"} is due`
        : `"${token.text}" is out of place`,
    );
  }
}
