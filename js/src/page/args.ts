/** Arguments of events: verbatim JSON text in packed blocks, unpacked when someone asks. */

import type { TableName } from "../contract";
import { type Blocks, readBlock } from "./bytes";
import { Columns } from "./columns";
import type { FullHeader } from "./document";
import { argsBlockOf } from "./job";
import { readJson } from "./json_text";

/** Rows of the three tables lie one behind the other. */
type Entry = readonly [block: number, start: number, end: number];

interface Directory {
  /** Of most rows one text; of an event that two records made, two. */
  entries: Map<number, Entry[]>;
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
    const entries = (await this.directory).entries.get(this.place(table, row)) ?? [];
    return Promise.all(entries.map((entry) => this.text(entry)));
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
    const [rows, sizes] = [columns.i32("row"), columns.i32("size")];
    const counts = columns.i32("block");
    const entries = new Map<number, Entry[]>();
    let at = 0;
    counts.forEach((count, block) => {
      let start = 0;
      for (let i = 0; i < count; i += 1, at += 1) {
        const entry: Entry = [block, start, start + sizes[at]!];
        start = entry[2];
        const known = entries.get(rows[at]!);
        if (known === undefined) entries.set(rows[at]!, [entry]);
        else known.push(entry);
      }
    });
    // An event's end may stand before its beginning.
    for (const row of columns.i32("swapped")) entries.get(row)?.reverse();
    return { entries };
  }
}
