/** Answers of a saved comparison. */

import { type ClassCounts, CLASSES } from "../facts/event_classes";
import type { Frame, Operation, Reply, Requests, Scene, Source, Answer } from "../protocol/source";
import { type Blocks, Columns, readBlock } from "./columns";
import type { ColumnSpec, PageDocument } from "./document";
import { download } from "./export";
import { PageSource } from "./source";

interface PairsHeader extends ClassCounts {
  columns: Record<string, ColumnSpec>;
  statuses: string[];
}

type Request = Record<string, unknown>;

interface Pairs {
  rank: [Float64Array, Float64Array];
  id: [Float64Array, Float64Array];
  start: [Float64Array, Float64Array];
  dur: [Float64Array, Float64Array];
  status: Uint8Array;
  class: Uint8Array;
  /** Rows of each change. */
  changes: Float64Array[];
  node: Float64Array;
  device: Uint8Array;
  place: [Map<string, number>, Map<string, number>];
}

const MOST_EVENTS = 20_000;
const NOT_COMPARED = CLASSES.indexOf("not_compared");
/** A frame of one step; the frames of a step share a block. */
const OF_STEP = /^(?:waterfall:\w+|names):(\d+)$/;
/** A frame of one pair of ranks. */
const OF_PAIR = /@(\d+)$/;

type Held = Record<string, unknown>;

export class PairSource implements Source {
  readonly status = "none";
  private pairs: Promise<Pairs> | null = null;
  private readonly steps = new Map<string, Promise<Held>>();

  constructor(
    private readonly frames: Held,
    private readonly header: PairsHeader | null,
    /** The bytes of the pairs, unpacked when they are first needed. */
    private readonly read: () => Promise<Uint8Array>,
    private readonly sides: readonly [Source | null, Source | null],
    /** The frames of one step or pair of ranks, unpacked when it is chosen. */
    private readonly readPart: (block: string) => Promise<Held>,
  ) {}

  onStatus(): void {}

  async ask<Op extends Operation>(
    op: Op,
    asked: Requests[Op],
    signal?: AbortSignal,
  ): Promise<Answer<Op>> {
    const request = asked as Record<string, unknown>;
    if (request.side === undefined) return (await this.own(op, request, signal)) as Answer<Op>;
    const side = this.sides[Number(request.side) === 0 ? 0 : 1];
    if (side === null) throw new Error("This page holds no events.");
    return side.ask(op, asked, signal);
  }

  private async own(op: Operation, request: Request, signal?: AbortSignal): Promise<Reply> {
    if (op === "frame") return this.frame(String(request.name));
    if (op === "frames") return this.several(request.names as string[]);
    if (op === "classes") {
      const { counts = [], pair_counts = [] } = this.header ?? {};
      return { reply: { counts, pair_counts }, buffer: null };
    }
    const pairs = await this.load();
    signal?.throwIfAborted();
    if (op === "partner") return this.partner(pairs, request);
    if (typeof request.pair === "number") {
      throw new Error("Which events that is about on one pair of ranks needs a kernel to say.");
    }
    if (op === "ties") return this.ties(pairs, request);
    if (op === "path_events") {
      const node = Number(request.node);
      return this.events(pairs, (row) => pairs.node[row] === node);
    }
    if (op === "change_events") {
      const rows = new Set(pairs.changes[Number(request.row)] ?? []);
      return this.events(pairs, (row) => rows.has(row));
    }
    throw new Error("A saved page has no kernel to write files. Use the notebook, or hta-widgets.");
  }

  private async frame(name: string): Promise<Reply> {
    const [step, pair] = [OF_STEP.exec(name)?.[1], OF_PAIR.exec(name)?.[1]];
    const held =
      pair !== undefined
        ? await this.part(`pair-${pair}`, `names@${pair}`)
        : step !== undefined
          ? await this.part(`step-${step}`, `names:${step}`)
          : this.frames;
    const frame = held[name];
    if (frame === undefined) throw new Error(`This page does not hold ${name}.`);
    return { reply: frame as Record<string, unknown>, buffer: null };
  }

  /** Those that are here. */
  private async several(names: readonly string[]): Promise<Reply> {
    const found = await Promise.allSettled(names.map((name) => this.frame(name)));
    const frames: Held = {};
    found.forEach((one, at) => {
      if (one.status === "fulfilled") frames[names[at]!] = one.value.reply;
    });
    return { reply: { frames }, buffer: null };
  }

  private part(block: string, names: string): Promise<Held> {
    let held = this.steps.get(block);
    if (held === undefined) {
      held = this.readPart(block).then((frames) => this.withMembers(frames, names));
      this.steps.set(block, held);
    }
    return held;
  }

  /** The class of each event of a rank; null if the rank is not compared. */
  async classesOf(side: 0 | 1, rank: number, events: number): Promise<Uint8Array | null> {
    const pairs = await this.load();
    const codes = new Uint8Array(events).fill(NOT_COMPARED);
    let there = false;
    pairs.id[side].forEach((id, row) => {
      if (id < 0 || pairs.rank[side][row] !== rank) return;
      there = true;
      codes[id] = pairs.class[row]!;
    });
    return there ? codes : null;
  }

  /** Add the full names behind each short name; they are stored once for all steps. */
  private withMembers(frames: Held, name: string): Held {
    const [whole, own] = [this.frames.names, frames[name]] as (Frame | undefined)[];
    if (whole === undefined || own === undefined) return frames;
    const behind = new Map(
      (whole.columns.name ?? []).map((one, row) => [one, whole.columns.members?.[row]]),
    );
    const members = (own.columns.name ?? []).map((one) => behind.get(one) ?? [one]);
    return { ...frames, [name]: { ...own, columns: { ...own.columns, members } } };
  }

  private load(): Promise<Pairs> {
    this.pairs ??= this.read().then((bytes) => {
      const specs = this.header?.columns ?? {};
      const columns = new Columns(bytes, specs);
      const changes = Object.keys(specs)
        .filter((name) => /^change\d+$/.test(name))
        .sort((a, b) => Number(a.slice(6)) - Number(b.slice(6)));
      const both = (name: string, less: number): [Float64Array, Float64Array] => [
        columns.f64(`${name}0`).map((value) => value - less),
        columns.f64(`${name}1`).map((value) => value - less),
      ];
      const device = columns.u8("device");
      // Only device work has its times here.
      const ofDevice = (name: string): [Float64Array, Float64Array] => {
        const spread = (values: Float64Array): Float64Array => {
          const all = new Float64Array(device.length);
          let at = 0;
          for (let row = 0; row < all.length; row += 1)
            if (device[row] === 1) all[row] = values[at++]!;
          return all;
        };
        return [spread(columns.f64(`${name}0`)), spread(columns.f64(`${name}1`))];
      };
      const [rank, id] = [both("rank", 1), both("id", 1)];
      const place = ([0, 1] as const).map(
        (side) =>
          new Map(Array.from(id[side], (event, row) => [`${rank[side][row]}/${event}`, row])),
      ) as Pairs["place"];
      return {
        rank,
        id,
        start: ofDevice("start"),
        dur: ofDevice("dur"),
        status: columns.u8("status"),
        class: columns.u8("class"),
        changes: changes.map((name) => columns.f64(name)),
        node: columns.f64("node").map((value) => value - 1),
        device,
        place,
      };
    });
    return this.pairs;
  }

  private partner(pairs: Pairs, { of, rank, id, pair }: Request): Reply {
    const side = Number(of) === 0 ? 0 : 1;
    const other = side === 0 ? 1 : 0;
    const row = pairs.place[side].get(`${String(rank)}/${String(id)}`);
    if (row === undefined) {
      return { reply: { status: null, rank: -1, id: -1, node: -1 }, buffer: null };
    }
    const reply = {
      status: this.header?.statuses[pairs.status[row]!] ?? null,
      rank: pairs.rank[other][row],
      id: pairs.id[other][row],
      // The nodes of one pair of ranks have other numbers.
      node: typeof pair === "number" ? -1 : pairs.node[row],
    };
    return { reply, buffer: null };
  }

  private ties(pairs: Pairs, { of, start, end, most }: Request): Reply {
    const side = Number(of) === 0 ? 0 : 1;
    const [from, to] = [Number(start), Number(end)];
    const rows: number[] = [];
    let there = 0;
    for (let row = 0; row < pairs.device.length; row += 1) {
      if (pairs.device[row] !== 1 || pairs.id[side][row]! < 0) continue;
      const at = pairs.start[side][row]!;
      if (at >= to || at + pairs.dur[side][row]! <= from) continue;
      there += 1;
      if (pairs.id[side === 0 ? 1 : 0][row]! >= 0) rows.push(row);
    }
    const long = (row: number): number => Math.max(pairs.dur[0][row]!, pairs.dur[1][row]!);
    rows.sort((a, b) => long(b) - long(a) || a - b);
    const ties = rows
      .slice(0, Number(most))
      .map((row) => [
        pairs.start[0][row]!,
        pairs.dur[0][row]!,
        pairs.start[1][row]!,
        pairs.dur[1][row]!,
      ]);
    return { reply: { of: there, ties }, buffer: null };
  }

  private events(pairs: Pairs, wanted: (row: number) => boolean): Reply {
    const events: [number, number][][] = [[], []];
    pairs.status.forEach((_, row) => {
      if (!wanted(row)) return;
      for (const side of [0, 1] as const) {
        const id = pairs.id[side][row]!;
        const found = events[side]!;
        if (id >= 0 && found.length < MOST_EVENTS) found.push([pairs.rank[side][row]!, id]);
      }
    });
    return { reply: { events }, buffer: null };
  }
}

// Open the comparison held by a page: a saved file, or data that a kernel sent earlier.

/** Header of the page of two runs. */
export interface DiffDocument {
  widget: "diff";
  traits: Record<string, unknown>;
  pairs?: PairsHeader;
}

interface Opened {
  traits: Record<string, unknown>;
  scenes: Scene[];
  states: Record<string, unknown>[];
  source: Source;
}

/** Each run has its own blocks, with the run's name as a prefix. */
export async function openHeld(blocks: Blocks): Promise<Opened> {
  const readJson = async (name: string): Promise<unknown> =>
    JSON.parse(new TextDecoder().decode(await readBlock(blocks, name)));
  const page = (await readJson("document")) as DiffDocument;
  const runs = await Promise.all(
    ["before", "after"].map(async (side) => {
      const own = (await readJson(`${side}-document`)) as PageDocument;
      const named = (name: string): string => `${side}-${name}`;
      const held: Blocks = {
        text: (name) => blocks.text(named(name)),
        ...(blocks.bytes && { bytes: (name: string) => blocks.bytes!(named(name)) }),
      };
      return { own, source: new PageSource(own, held, download) };
    }),
  );
  const source = new PairSource(
    (await readJson("frames")) as Record<string, unknown>,
    page.pairs ?? null,
    () => readBlock(blocks, "pairs"),
    [runs[0]!.source, runs[1]!.source],
    async (block) => (await readJson(block)) as Record<string, unknown>,
  );
  if (page.pairs !== undefined) {
    for (const side of [0, 1] as const) {
      runs[side]!.source.classify((rank, events) => source.classesOf(side, rank, events));
    }
  }
  return {
    traits: page.traits,
    scenes: runs.map(({ own }) => own.scene),
    states: runs.map(({ own }) => own.state as Record<string, unknown>),
    source,
  };
}
