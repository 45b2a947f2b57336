/** Arguments of events: verbatim JSON text in packed blocks, unpacked when someone asks. */

import type { TableName } from "../contract";
import { type Blocks, readBlock } from "./bytes";
import { Columns } from "./columns";
import type { FullHeader } from "./document";
import { argsBlockOf } from "./job";
import { readJson } from "./json_text";
import { countUpTo } from "./sorted";

/** Where a text lies: in which block, from where to where. */
type Entry = readonly [block: number, start: number, end: number];

interface Directory {
  /** By place, which is a row, counted through the three tables: its first text + 1, or 0. */
  firstOf: Int32Array;
  /** Of events that two records made: all their texts, in order. */
  several: Map<number, number[]>;
  /** By text: where it ends in its block, and its length. */
  ends: Float64Array;
  sizes: Int32Array;
  /** First text of each block, and at last how many there are. */
  firstOfBlock: number[];
}

const KEPT_BLOCKS = 8;

export class Args {
  private directory: Promise<Directory> | null = null;
  private readonly texts = new Map<number, Promise<Uint8Array>>();

  constructor(
    private readonly header: FullHeader,
    private readonly blocks: Blocks,
    private readonly lengths: Readonly<Record<TableName, number>>,
  ) {}

  /** Why there are none to be had; null where there are, or where the file has none. */
  get missing(): string | null {
    const { state, reason } = this.header.args;
    if (state === "left out") {
      return "Arguments are not embedded in this page: they did not fit. Save it with a larger max_mb.";
    }
    return state === "unreadable"
      ? `Arguments could not be read when this page was saved: ${reason}`
      : null;
  }

  /** The texts of a row's args, as the file has them. */
  async texts_of(table: TableName, row: number): Promise<string[]> {
    if (this.header.args.state !== "embedded") return [];
    this.directory ??= this.readDirectory();
    const directory = await this.directory;
    const place = this.place(table, row);
    const first = directory.firstOf[place] ?? 0;
    const texts = directory.several.get(place) ?? (first > 0 ? [first - 1] : []);
    return Promise.all(texts.map((text) => this.text(entryOf(directory, text))));
  }

  /** Key and display text of each of a row's args. */
  async display(table: TableName, row: number): Promise<[key: string, text: string][]> {
    const pairs: [string, string][] = [];
    for (const source of await this.texts_of(table, row)) {
      const value = readJson(source);
      if (value.text === "null" && value.json === "null") continue;
      if (value.pairs === null) pairs.push(["args", value.text]);
      else for (const [key, { text }] of value.pairs) pairs.push([key, text]);
    }
    return pairs;
  }

  private place(table: TableName, row: number): number {
    if (table === "events") return row;
    return this.lengths.events + row + (table === "instants" ? this.lengths.asyncs : 0);
  }

  private async text([block, start, end]: Entry): Promise<string> {
    const bytes = await this.unpacked(block);
    return new TextDecoder().decode(bytes.subarray(start, end));
  }

  private unpacked(block: number): Promise<Uint8Array> {
    const found =
      this.texts.get(block) ?? readBlock(this.blocks, argsBlockOf(this.header.rank, block));
    this.texts.delete(block);
    this.texts.set(block, found);
    for (const old of this.texts.keys()) {
      if (this.texts.size <= KEPT_BLOCKS) break;
      this.texts.delete(old);
    }
    return found;
  }

  private async readDirectory(): Promise<Directory> {
    const { rank, args } = this.header;
    const bytes = await readBlock(this.blocks, `${argsBlockOf(rank, 0)}-directory`);
    const columns = new Columns(bytes, args.columns);
    const [places, sizes] = [columns.i32("row"), columns.i32("size")];
    const { events, asyncs, instants } = this.lengths;
    const firstOf = new Int32Array(events + asyncs + instants);
    const several = new Map<number, number[]>();
    places.forEach((place, text) => {
      const first = firstOf[place]!;
      if (first === 0) firstOf[place] = text + 1;
      else several.set(place, [...(several.get(place) ?? [first - 1]), text]);
    });
    // An event's end may stand before its beginning.
    for (const place of columns.i32("swapped")) several.get(place)?.reverse();
    const firstOfBlock = [0];
    const ends = new Float64Array(sizes.length);
    for (const count of columns.i32("block")) {
      const from = firstOfBlock.at(-1)!;
      let end = 0;
      for (let text = from; text < from + count; text += 1) {
        end += sizes[text]!;
        ends[text] = end;
      }
      firstOfBlock.push(from + count);
    }
    return { firstOf, several, ends, sizes, firstOfBlock };
  }
}

function entryOf({ firstOfBlock, ends, sizes }: Directory, text: number): Entry {
  const end = ends[text]!;
  return [countUpTo(firstOfBlock, text) - 1, end - sizes[text]!, end];
}
