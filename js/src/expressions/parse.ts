/** Parse queries as Python does: operators, precedence, literals, method calls on columns. */

export type QueryValue = number | string | boolean | null | readonly QueryValue[];

export type Expression =
  | { type: "literal"; value: QueryValue }
  | { type: "list"; items: Expression[] }
  | { type: "name"; name: string }
  | { type: "not"; operand: Expression }
  | { type: "negative"; operand: Expression }
  | { type: "both"; operator: "and" | "or"; operands: Expression[] }
  | { type: "compare"; first: Expression; rest: (readonly [sign: string, of: Expression])[] }
  | { type: "arithmetic"; operator: string; left: Expression; right: Expression }
  | {
      type: "call";
      operand: Expression;
      /** Whether the method is a `.str` method. */
      isStringMethod: boolean;
      method: string;
      args: Expression[];
      kwargs: Record<string, Expression>;
    }
  // Only in chart definitions.
  | { type: "if"; test: Expression; consequent: Expression; alternate: Expression }
  | { type: "at"; operand: Expression; index: Expression }
  | { type: "function"; name: string; args: Expression[]; kwargs: Record<string, Expression> };

interface QueryToken {
  kind: "number" | "string" | "name" | "sign" | "end";
  text: string;
  value: QueryValue;
}

const TOKEN =
  /\s*(?:(\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([rR]?)("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|`([^`]+)`|([A-Za-z_]\w*)|(\*\*|\/\/|==|!=|<=|>=|[-+*/%<>&|~()[\],.=]))/sy;

const COMPARISON_OPERATORS = new Set(["==", "!=", "<", "<=", ">", ">=", "in", "not in"]);
const KEYWORD_VALUES: ReadonlyMap<string, QueryValue> = new Map([
  ["True", true],
  ["False", false],
  ["None", null],
]);
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
  return parseWith(query, false);
}

/** Parse an expression of a chart definition. Unlike a query, it may call functions. */
export function parseExpression(text: string): Expression {
  return parseWith(text, true);
}

function parseWith(text: string, allowCalls: boolean): Expression {
  const parser = new QueryParser(tokenize(text), allowCalls);
  const expression = parser.parseConditional();
  parser.expect("end", "");
  return expression;
}

function tokenize(query: string): QueryToken[] {
  const result: QueryToken[] = [];
  let position = 0;
  while (query.slice(position).trim() !== "") {
    TOKEN.lastIndex = position;
    const match = TOKEN.exec(query);
    if (match === null)
      throw new Error(`${JSON.stringify(query.slice(position).trim())} is not supported`);
    position = TOKEN.lastIndex;
    const [, digits, raw, quoted, quotedName, name, sign] = match;
    if (digits !== undefined) {
      result.push({ kind: "number", text: digits, value: Number(digits.replaceAll("_", "")) });
    } else if (quoted !== undefined) {
      const inner = quoted.slice(1, -1);
      result.push({
        kind: "string",
        text: quoted,
        value: raw === "" ? unescapeString(inner) : inner,
      });
    } else if (name !== undefined || quotedName !== undefined) {
      result.push({ kind: "name", text: (name ?? quotedName)!, value: null });
    } else {
      result.push({ kind: "sign", text: sign!, value: null });
    }
  }
  return [...result, { kind: "end", text: "", value: null }];
}

function unescapeString(text: string): string {
  return text.replace(
    /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|\n|([\s\S]))/g,
    (match, x?: string, u?: string, long?: string, letter?: string) => {
      const code = x ?? u ?? long;
      if (code !== undefined) return String.fromCodePoint(Number.parseInt(code, 16));
      if (letter === undefined) return "";
      if ("\\'\"".includes(letter)) return letter;
      // As in Python, an unknown escape sequence is kept unchanged.
      return ESCAPES[letter] ?? match;
    },
  );
}

class QueryParser {
  private position = 0;

  constructor(
    private readonly tokens: QueryToken[],
    private readonly allowCalls: boolean,
  ) {}

  parseConditional(): Expression {
    const consequent = this.parseOr();
    if (!this.allowCalls || !this.take("name", "if")) return consequent;
    const test = this.parseOr();
    this.expect("name", "else");
    return { type: "if", test, consequent, alternate: this.parseConditional() };
  }

  private parseOr(): Expression {
    return this.parseLogical("or", "|", () => this.parseAnd());
  }

  private parseAnd(): Expression {
    return this.parseLogical("and", "&", () => this.parseNot());
  }

  /** pandas gives `&` and `|` the precedence of `and` and `or`. */
  private parseLogical(
    operator: "and" | "or",
    sign: string,
    parseOperand: () => Expression,
  ): Expression {
    const operands = [parseOperand()];
    while (this.take("name", operator) || this.take("sign", sign)) operands.push(parseOperand());
    return operands.length === 1 ? operands[0]! : { type: "both", operator, operands };
  }

  private parseNot(): Expression {
    return this.take("name", "not")
      ? { type: "not", operand: this.parseNot() }
      : this.parseComparison();
  }

  private parseComparison(): Expression {
    const first = this.parseSum();
    const comparisons: (readonly [string, Expression])[] = [];
    for (let sign = this.takeComparison(); sign !== null; sign = this.takeComparison()) {
      comparisons.push([sign, this.parseSum()]);
    }
    return comparisons.length === 0 ? first : { type: "compare", first, rest: comparisons };
  }

  private takeComparison(): string | null {
    const { text } = this.tokens[this.position]!;
    if (text === "not" && this.tokens[this.position + 1]!.text === "in") {
      this.position += 2;
      return "not in";
    }
    if (!COMPARISON_OPERATORS.has(text) || this.tokens[this.position]!.kind === "string")
      return null;
    this.position += 1;
    return text;
  }

  private parseSum(): Expression {
    return this.parseBinary(["+", "-"], () => this.parseProduct());
  }

  private parseProduct(): Expression {
    return this.parseBinary(["*", "/", "//", "%"], () => this.parseUnary());
  }

  private parseBinary(operators: string[], parseOperand: () => Expression): Expression {
    let left = parseOperand();
    for (;;) {
      const operator = operators.find((candidate) => this.take("sign", candidate));
      if (operator === undefined) return left;
      left = { type: "arithmetic", operator, left, right: parseOperand() };
    }
  }

  private parseUnary(): Expression {
    if (this.take("sign", "-")) return { type: "negative", operand: this.parseUnary() };
    if (this.take("sign", "+")) return this.parseUnary();
    if (this.take("sign", "~")) return { type: "not", operand: this.parseUnary() };
    const base = this.parsePostfix();
    if (!this.take("sign", "**")) return base;
    return { type: "arithmetic", operator: "**", left: base, right: this.parseUnary() };
  }

  private parsePostfix(): Expression {
    let operand = this.parseAtom();
    while (this.allowCalls && this.take("sign", "[")) {
      operand = { type: "at", operand, index: this.parseConditional() };
      this.expect("sign", "]");
    }
    while (this.take("sign", ".")) {
      let method = this.expect("name").text;
      const isStringMethod = method === "str";
      if (isStringMethod) {
        this.expect("sign", ".");
        method = this.expect("name").text;
      }
      this.expect("sign", "(");
      operand = { type: "call", operand, isStringMethod, method, ...this.parseArguments() };
    }
    return operand;
  }

  private parseArguments(): { args: Expression[]; kwargs: Record<string, Expression> } {
    const args: Expression[] = [];
    const kwargs: Record<string, Expression> = {};
    while (!this.take("sign", ")")) {
      const [name, next] = [this.tokens[this.position]!, this.tokens[this.position + 1]!];
      if (name.kind === "name" && next.text === "=") {
        this.position += 2;
        kwargs[name.text] = this.parseConditional();
      } else {
        args.push(this.parseConditional());
      }
      if (!this.take("sign", ",")) {
        this.expect("sign", ")");
        break;
      }
    }
    return { args, kwargs };
  }

  private parseAtom(): Expression {
    const token = this.tokens[this.position]!;
    this.position += 1;
    if (token.kind === "number" || token.kind === "string") {
      return { type: "literal", value: token.value };
    }
    if (token.kind === "name") {
      const value = KEYWORD_VALUES.get(token.text);
      if (value !== undefined) return { type: "literal", value };
      if (this.allowCalls && this.take("sign", "(")) {
        return { type: "function", name: token.text, ...this.parseArguments() };
      }
      return { type: "name", name: token.text };
    }
    if (token.text === "(" || token.text === "[") return this.parseBracketed(token.text);
    throw new Error(token.kind === "end" ? "it ends too early" : `"${token.text}" is out of place`);
  }

  private parseBracketed(open: string): Expression {
    const close = open === "(" ? ")" : "]";
    const items: Expression[] = [];
    let list = open === "[";
    while (!this.take("sign", close)) {
      items.push(this.parseConditional());
      if (!this.take("sign", ",")) {
        this.expect("sign", close);
        break;
      }
      list = true;
    }
    return list || items.length !== 1 ? { type: "list", items } : items[0]!;
  }

  private take(kind: QueryToken["kind"], text: string): boolean {
    const token = this.tokens[this.position]!;
    if (token.kind !== kind || token.text !== text) return false;
    this.position += 1;
    return true;
  }

  expect(kind: QueryToken["kind"], text?: string): QueryToken {
    const token = this.tokens[this.position]!;
    if (token.kind === kind && (text === undefined || token.text === text)) {
      this.position += 1;
      return token;
    }
    throw new Error(
      token.kind === "end"
        ? `it ends where ${text ?? "a name"} is expected`
        : `"${token.text}" is out of place`,
    );
  }
}
