/** Read the packed integer columns, names and JSON blocks of a saved page. */

import { FLAGS } from "../facts/limits";
import { ARRAY_TYPES } from "../protocol/decode";
import type { Reply, Kind } from "../protocol/source";
import type { ColumnSpec, PageDocument } from "./document";

export const { delta: DELTA, zigzag: ZIGZAG, float: FLOAT } = FLAGS.column;

type NumberArray = Float64Array | Int32Array | Uint16Array | Uint8Array;

/** Reads columns stored as byte planes: the lowest byte of every item, then the next byte, … */
export class ColumnReader {
  constructor(
    private readonly bytes: Uint8Array,
    private readonly specs: Readonly<Record<string, ColumnSpec>>,
  ) {}

  has(name: string): boolean {
    return name in this.specs;
  }

  length(name: string): number {
    return this.specs[name]?.[1] ?? 0;
  }

  /** Read a column of integers below 2^53. */
  f64(name: string): Float64Array {
    return this.read(name, new Float64Array(this.length(name)));
  }

  i32(name: string): Int32Array {
    return this.read(name, new Int32Array(this.length(name)));
  }

  u8(name: string): Uint8Array {
    return this.read(name, new Uint8Array(this.length(name)));
  }

  /** Read a column of floating-point numbers. */
  floats(name: string): Float64Array {
    const spec = this.specs[name];
    if (spec === undefined) return new Float64Array(0);
    const [offset, length, width] = spec;
    const bytes = new Uint8Array(length * width);
    // The first bytes of all values come first, then the second bytes, and so on.
    for (let plane = 0; plane < width; plane += 1) {
      const from = offset + plane * length;
      for (let i = 0; i < length; i += 1) bytes[i * width + plane] = this.bytes[from + i]!;
    }
    if (width === 8) return new Float64Array(bytes.buffer);
    return Float64Array.from(new Float32Array(bytes.buffer));
  }

  private read<T extends NumberArray>(name: string, out: T): T {
    const spec = this.specs[name];
    if (spec === undefined) return out;
    const [offset, length, width, flags] = spec;
    if (offset + length * width > this.bytes.length) {
      throw new Error(`The column "${name}" of this page is truncated. Save the page again.`);
    }
    const values = out instanceof Float64Array ? out : new Float64Array(length);
    for (let plane = 0; plane < width; plane += 1) {
      const bytes = this.bytes.subarray(offset + plane * length, offset + (plane + 1) * length);
      const weight = 256 ** plane;
      for (let i = 0; i < length; i += 1) values[i]! += bytes[i]! * weight;
    }
    if ((flags & ZIGZAG) !== 0) values.forEach((value, i) => (values[i] = fromZigzag(value)));
    if ((flags & DELTA) !== 0) {
      for (let i = 1; i < length; i += 1) values[i]! += values[i - 1]!;
    }
    if (values !== out) out.set(values);
    return out;
  }
}

/** Decode an integer from 0, 1, 2, 3, …, which stand for 0, -1, 1, -2, … */
export function fromZigzag(code: number): number {
  return code % 2 === 0 ? code / 2 : -(code + 1) / 2;
}

// Decode text in a page, base64 and gzip, with the browser's functions.

/** Method of recent browsers that the DOM types do not declare. */
interface Base64Reader {
  fromBase64?(text: string): Uint8Array;
}

export function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as Base64Reader).fromBase64;
  if (native !== undefined) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export function canGunzip(): boolean {
  return typeof DecompressionStream === "function";
}

export async function gunzip(bytes: Uint8Array): Promise<Uint8Array> {
  const { body } = new Response(bytes as Uint8Array<ArrayBuffer>);
  const stream = body!.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The named blocks of a page, each a gzip stream; null if a block is missing. */
export interface Blocks {
  text(name: string): string | null;
  /** Return the block as bytes. Defined only if blocks are stored as bytes. */
  bytes?(name: string): Uint8Array | null;
}

export async function readBlock(blocks: Blocks, name: string): Promise<Uint8Array> {
  const bytes = blocks.bytes?.(name) ?? null;
  const text = bytes === null ? blocks.text(name) : null;
  if (bytes === null && text === null) {
    throw new Error(`This page is incomplete: block "${name}" is missing. Save the page again.`);
  }
  try {
    return await gunzip(bytes ?? fromBase64(text!.trim()));
  } catch {
    throw new Error(`This page is damaged: block "${name}" cannot be read. Save the page again.`);
  }
}

// The job's names: full names, short names, and the keys of short names in replies.

export class NameTable {
  constructor(private readonly page: PageDocument) {}

  get all(): readonly string[] {
    return this.page.names;
  }

  full(name: number): string {
    return this.page.names[name] ?? "";
  }

  short(name: number): string {
    return this.page.shorts[this.shortKey(name)] ?? "";
  }

  /** Return the key of a name's short form. Names with the same short form share it. */
  shortKey(name: number): number {
    return this.page.short_of[name] ?? 0;
  }

  shortOfKey(key: number): string {
    return this.page.shorts[key] ?? "";
  }

  category(category: number): string {
    return this.page.categories[category] ?? "";
  }

  kind(code: number): Kind {
    return this.page.scene.kinds[code] ?? "other";
  }
}

// Pack columns of numbers into one buffer, in the kernel's format.

const DTYPES = new Map<unknown, string>(
  Object.entries(ARRAY_TYPES).map(([dtype, arrayType]) => [arrayType, dtype]),
);

const ALIGNMENT = 8;

export type PackedArray =
  Uint8Array | Uint16Array | Uint32Array | Int32Array | Float32Array | Float64Array;

/** Return a reply whose columns are packed into one buffer. */
export function packReply(
  reply: Record<string, unknown>,
  columns: Record<string, PackedArray>,
): Reply {
  const header: Record<string, [string, number, number]> = {};
  let size = 0;
  for (const [name, values] of Object.entries(columns)) {
    const offset = Math.ceil(size / ALIGNMENT) * ALIGNMENT;
    header[name] = [DTYPES.get(values.constructor) ?? "", offset, values.length];
    size = offset + values.byteLength;
  }
  const bytes = new Uint8Array(size);
  for (const [name, values] of Object.entries(columns)) {
    const bytesOfColumn = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    bytes.set(bytesOfColumn, header[name]![1]);
  }
  return { reply: { ...reply, columns: header }, buffer: bytes.buffer };
}

// Searches in sorted columns.

type SortedNumbers = ArrayLike<number>;

/** Return how many `values` are below `limit`. The result is between `low` and `high`. */
export function countBelow(
  values: SortedNumbers,
  limit: number,
  low = 0,
  high = values.length,
): number {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return how many `values` are at most `limit`. */
export function countUpTo(values: SortedNumbers, limit: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Like `countBelow`, but fast if the result is slightly above `from`. */
export function gallopBelow(values: SortedNumbers, limit: number, from: number): number {
  let step = 1;
  let low = from;
  let high = from;
  while (high < values.length && values[high]! < limit) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  return countBelow(values, limit, low, Math.min(high, values.length));
}

// Run long work in slices, so that the page can paint and handle events in between.

const MAX_SLICE_MS = 12;

/** Resolve after the page has handled its pending events. */
export function yieldToPage(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

export class Pacer {
  private sliceStart = performance.now();

  /** Yield to the page if the current slice has taken too long. */
  async yieldIfDue(): Promise<void> {
    if (performance.now() - this.sliceStart <= MAX_SLICE_MS) return;
    await yieldToPage();
    this.sliceStart = performance.now();
  }
}

// Format JSON for display, with numbers and nesting exactly as in the file.

/** A value as compact JSON and as text for display. */
export interface JsonText {
  json: string;
  /** Strings without quotes; other values as compact JSON. */
  text: string;
  /** Keys and values of an object in file order, including repeated keys; null for other values. */
  pairs: [key: string, value: JsonText][] | null;
}

const NUMBER = /-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity)|NaN/y;
const WORD = /true|false|null/y;
const SPACE = /[ \t\r\n]*/y;
const STRING_BODY = /[^"\\]*(?:\\[^][^"\\]*)*/y;
const ESCAPE = /\\(?:u([\da-f]{4})|([^]))/gi;
const ESCAPED: Record<string, string> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const MAX_DEPTH = 500;

/** Read one JSON value. NaN and control characters in strings are accepted. */
export function readJson(source: string): JsonText {
  const reader = new JsonReader(source);
  const value = reader.value(0);
  reader.end();
  return value;
}

class JsonReader {
  private position = 0;

  constructor(private readonly source: string) {}

  value(depth: number): JsonText {
    if (depth > MAX_DEPTH) this.fail("is nested too deeply");
    this.space();
    const first = this.source[this.position];
    if (first === "{") return this.object(depth);
    if (first === "[") return this.array(depth);
    if (first === '"') {
      const text = this.string();
      return { json: JSON.stringify(text), text, pairs: null };
    }
    const word = this.match(NUMBER) ?? this.match(WORD) ?? this.fail("is not valid JSON");
    return { json: word, text: word, pairs: null };
  }

  end(): void {
    this.space();
    if (this.position < this.source.length) this.fail("continues after the value");
  }

  private object(depth: number): JsonText {
    const pairs: [string, JsonText][] = [];
    this.parseItems("}", () => {
      const key = this.string();
      this.expect(":");
      pairs.push([key, this.value(depth + 1)]);
    });
    const inner = pairs.map(([key, { json }]) => `${JSON.stringify(key)}:${json}`).join(",");
    return { json: `{${inner}}`, text: `{${inner}}`, pairs };
  }

  private array(depth: number): JsonText {
    const items: string[] = [];
    this.parseItems("]", () => items.push(this.value(depth + 1).json));
    const json = `[${items.join(",")}]`;
    return { json, text: json, pairs: null };
  }

  /** Parse items up to the closing bracket. */
  private parseItems(close: string, parseItem: () => void): void {
    this.position += 1;
    this.space();
    if (this.take(close)) return;
    do {
      this.space();
      parseItem();
      this.space();
    } while (this.take(","));
    this.expect(close);
  }

  private string(): string {
    this.expect('"');
    const escaped = this.match(STRING_BODY) ?? "";
    if (!this.take('"')) this.fail("ends within a string");
    return escaped.replace(ESCAPE, (_, hex: string | undefined, letter: string) =>
      hex === undefined
        ? (ESCAPED[letter] ?? letter)
        : String.fromCharCode(Number.parseInt(hex, 16)),
    );
  }

  private take(character: string): boolean {
    if (this.source[this.position] !== character) return false;
    this.position += 1;
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
    pattern.lastIndex = this.position;
    const match = pattern.exec(this.source);
    if (match === null) return null;
    this.position = pattern.lastIndex;
    return match[0];
  }

  private fail(problem: string): never {
    throw new Error(`The text of the arguments ${problem}, at character ${this.position}.`);
  }
}
