/** JSON as text for display: numbers and nesting exactly as the file has them. */

/** A value and how it is written compactly; strings are also known bare. */
export interface JsonText {
  /** Compact JSON. */
  json: string;
  /** Strings bare, all else as compact JSON. */
  text: string;
  /** Of objects: keys and values in the file's order, repeated keys included. */
  pairs: [key: string, value: JsonText][] | null;
}

const NUMBER = /-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity)|NaN/y;
const WORD = /true|false|null/y;
const SPACE = /[ \t\r\n]*/y;
const ESCAPED: Record<string, string> = {
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};
const DEEPEST = 500;

/** Read one JSON value; control characters in strings and NaN are taken as they are. */
export function readJson(source: string): JsonText {
  const reader = new Reader(source);
  const value = reader.value(0);
  reader.end();
  return value;
}

class Reader {
  private at = 0;

  constructor(private readonly source: string) {}

  value(depth: number): JsonText {
    if (depth > DEEPEST) this.fail("is nested too deeply");
    this.space();
    const first = this.source[this.at];
    if (first === "{") return this.object(depth);
    if (first === "[") return this.array(depth);
    if (first === '"') {
      const text = this.string();
      return { json: JSON.stringify(text), text, pairs: null };
    }
    const word = this.match(NUMBER) ?? this.match(WORD) ?? this.fail("holds something unknown");
    return { json: word, text: word, pairs: null };
  }

  end(): void {
    this.space();
    if (this.at < this.source.length) this.fail("goes on after its end");
  }

  private object(depth: number): JsonText {
    const pairs: [string, JsonText][] = [];
    this.items("}", () => {
      const key = this.string();
      this.expect(":");
      pairs.push([key, this.value(depth + 1)]);
    });
    const inner = pairs.map(([key, { json }]) => `${JSON.stringify(key)}:${json}`).join(",");
    return { json: `{${inner}}`, text: `{${inner}}`, pairs };
  }

  private array(depth: number): JsonText {
    const items: string[] = [];
    this.items("]", () => items.push(this.value(depth + 1).json));
    const json = `[${items.join(",")}]`;
    return { json, text: json, pairs: null };
  }

  /** Items between brackets, the first of which is at hand. */
  private items(close: string, one: () => void): void {
    this.at += 1;
    this.space();
    if (this.take(close)) return;
    do {
      this.space();
      one();
      this.space();
    } while (this.take(","));
    this.expect(close);
  }

  private string(): string {
    this.expect('"');
    let out = "";
    for (;;) {
      const from = this.at;
      while (this.at < this.source.length && !'"\\'.includes(this.source[this.at]!)) this.at += 1;
      out += this.source.slice(from, this.at);
      const stop = this.source[this.at];
      this.at += 1;
      if (stop === '"') return out;
      if (stop === undefined) this.fail("ends within a string");
      const letter = this.source[this.at] ?? "";
      this.at += 1;
      if (letter === "u") {
        out += String.fromCharCode(Number.parseInt(this.source.slice(this.at, this.at + 4), 16));
        this.at += 4;
      } else {
        out += ESCAPED[letter] ?? letter;
      }
    }
  }

  private take(character: string): boolean {
    if (this.source[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  private expect(character: string): void {
    this.space();
    if (!this.take(character)) this.fail(`lacks "${character}"`);
  }

  private space(): void {
    this.match(SPACE);
  }

  private match(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.source);
    if (found === null) return null;
    this.at = pattern.lastIndex;
    return found[0];
  }

  private fail(what: string): never {
    throw new Error(`The text of the arguments ${what}, at character ${this.at}.`);
  }
}
