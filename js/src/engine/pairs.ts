/** Answer the requests of a saved comparison. */

import { indicesWhere } from "../expressions/numbers";
import { CLASSES } from "../facts/event_classes";
import { getOrMake } from "../protocol/maps";
import type {
  Answer,
  ClassCounts,
  PanelFrame,
  Operation,
  PairEvents,
  Partner,
  Requests,
  CellValue,
} from "../protocol/source";
import { type Blocks, ColumnReader, readBlock } from "./columns";
import type { ColumnSpec, PageDocument } from "./document";
import { download } from "./export";
import { type LocalSource, PageSource } from "./source";

type PairsHeader = ClassCounts & { columns: Record<string, ColumnSpec>; statuses: string[] };

/** One run's events, by row; -1 in rows without an event of the run. */
interface RunEvents {
  rank: Float64Array;
  id: Float64Array;
  rowOf: Map<string, number>;
}

interface EventPairs {
  sides: readonly [RunEvents, RunEvents];
  status: Uint8Array;
  class: Uint8Array;
  changes: Float64Array[];
  node: Float64Array;
}

const MAX_EVENTS = 20_000;
const NOT_COMPARED = CLASSES.indexOf("not_compared");
/** Frames for a single step. They share a block. */
const OF_STEP = /^(?:waterfall:\w+|names):(\d+)$/;
/** Frames for a single rank pair. */
const OF_PAIR = /@(\d+)$/;

type FramesByName = Record<string, PanelFrame>;
type PairHandlers = {
  readonly [Op in Operation]?: (request: Requests[Op]) => Promise<Answer<Op>["reply"]>;
};

export class PairSource implements LocalSource {
  readonly status = "none";
  /** Frames of steps and rank pairs lack the rows that are not drawn in a page. */
  readonly isComplete = false;
  private pairs: Promise<EventPairs> | null = null;
  private readonly parts = new Map<string, Promise<FramesByName>>();
  private readonly handlers = {
    frame: ({ name }: Requests["frame"]) => this.frame(name),
    frames: async ({ names }: Requests["frames"]) => ({ frames: await this.framesOf(names) }),
    classes: () => {
      const { counts = [], pair_counts = [] } = this.header ?? {};
      return Promise.resolve({ counts, pair_counts });
    },
    partner: async (request: Requests["partner"]) =>
      partnerReply(await this.loadPairs(), request, this.header),
    path_events: async ({ node, pair }: Requests["path_events"]) => {
      const pairs = await this.pairsOfAllRanks(pair);
      return eventsWhere(pairs, (row) => pairs.node[row] === node);
    },
    change_events: async ({ row, pair }: Requests["change_events"]) => {
      const pairs = await this.pairsOfAllRanks(pair);
      const rows = new Set(pairs.changes[row] ?? []);
      return eventsWhere(pairs, (eventRow) => rows.has(eventRow));
    },
  };

  constructor(
    private readonly frames: FramesByName,
    private readonly header: PairsHeader | null,
    /** Returns the bytes of the pairs, which are unpacked on first use. */
    private readonly read: () => Promise<Uint8Array>,
    private readonly sides: readonly [LocalSource | null, LocalSource | null],
    /** Returns the frames of a step or rank pair, which are unpacked when it is selected. */
    private readonly readPart: (block: string) => Promise<FramesByName>,
  ) {}

  canAnswer<Op extends Operation>(op: Op, request: Requests[Op]): boolean {
    return this.sideOf(request)?.canAnswer(op, request) === true;
  }

  /** Return the requested run's source; null if it has no events, undefined if none requested. */
  private sideOf(request: Requests[Operation]): LocalSource | null | undefined {
    if (!("side" in request) || request.side === undefined) return undefined;
    return this.sides[request.side === 0 ? 0 : 1];
  }

  async ask<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal?: AbortSignal,
  ): Promise<Answer<Op>> {
    const side = this.sideOf(request);
    if (side !== undefined) {
      if (side === null) throw new Error("This page holds no events.");
      return side.ask(op, request, signal);
    }
    const handlers: PairHandlers = this.handlers;
    const handler = handlers[op];
    if (handler === undefined) {
      throw new Error(
        "A saved page has no kernel to write files. Use the notebook, or hta-widgets.",
      );
    }
    return { reply: await handler(request), buffer: null };
  }

  private async frame(name: string): Promise<PanelFrame> {
    const { [name]: frame } = await this.framesBeside(name);
    if (frame === undefined) throw new Error(`This page does not hold ${name}.`);
    return frame;
  }

  private framesBeside(name: string): Promise<FramesByName> {
    const [step, pair] = [OF_STEP.exec(name)?.[1], OF_PAIR.exec(name)?.[1]];
    if (pair !== undefined) return this.loadPart(`pair-${pair}`, `names@${pair}`);
    if (step !== undefined) return this.loadPart(`step-${step}`, `names:${step}`);
    return Promise.resolve(this.frames);
  }

  private async framesOf(names: readonly string[]): Promise<Record<string, PanelFrame>> {
    const results = await Promise.allSettled(names.map((name) => this.frame(name)));
    const frames: FramesByName = {};
    results.forEach((result, index) => {
      if (result.status === "fulfilled") frames[names[index]!] = result.value;
    });
    return frames;
  }

  private loadPart(block: string, name: string): Promise<FramesByName> {
    return getOrMake(this.parts, block, () =>
      this.readPart(block).then((frames) => this.withMembers(frames, name)),
    );
  }

  /** Return the class of each event of a rank; null if the rank is not compared. */
  async classesOf(side: 0 | 1, rank: number, events: number): Promise<Uint8Array | null> {
    const pairs = await this.loadPairs();
    const { id, rank: ranks } = pairs.sides[side];
    const rows = indicesWhere(id.length, (row) => id[row]! >= 0 && ranks[row] === rank);
    const codes = new Uint8Array(events).fill(NOT_COMPARED);
    for (const row of rows) codes[id[row]!] = pairs.class[row]!;
    return rows.length > 0 ? codes : null;
  }

  /** Add the full names behind each short name. They are stored once for all steps. */
  private withMembers(frames: FramesByName, name: string): FramesByName {
    const [allNames, stepFrame] = [this.frames.names, frames[name]];
    if (allNames === undefined || stepFrame === undefined) return frames;
    const membersOfName = new Map(
      (allNames.columns.name ?? []).map((eventName, row) => [
        eventName,
        allNames.columns.members?.[row],
      ]),
    );
    // No other column contains lists.
    const members = (stepFrame.columns.name ?? []).map(
      (eventName) => membersOfName.get(eventName) ?? [eventName],
    ) as unknown as CellValue[];
    return { ...frames, [name]: { ...stepFrame, columns: { ...stepFrame.columns, members } } };
  }

  private loadPairs(): Promise<EventPairs> {
    this.pairs ??= this.read().then((bytes) => readPairs(bytes, this.header?.columns ?? {}));
    return this.pairs;
  }

  private async pairsOfAllRanks(pair: number | null | undefined): Promise<EventPairs> {
    if (typeof pair === "number") {
      throw new Error("Listing these events for a single pair of ranks needs a kernel.");
    }
    return this.loadPairs();
  }
}

function readPairs(bytes: Uint8Array, specs: PairsHeader["columns"]): EventPairs {
  const columns = new ColumnReader(bytes, specs);
  const readIndices = (name: string): Float64Array => columns.f64(name).map((value) => value - 1);
  const sideOf = (side: 0 | 1): RunEvents => {
    const [rank, id] = [readIndices(`rank${side}`), readIndices(`id${side}`)];
    return {
      rank,
      id,
      rowOf: new Map(Array.from(id, (event, row) => [`${rank[row]}/${event}`, row])),
    };
  };
  const changeNames = Object.keys(specs)
    .filter((name) => /^change\d+$/.test(name))
    .sort((a, b) => Number(a.slice(6)) - Number(b.slice(6)));
  return {
    sides: [sideOf(0), sideOf(1)],
    status: columns.u8("status"),
    class: columns.u8("class"),
    changes: changeNames.map((name) => columns.f64(name)),
    node: readIndices("node"),
  };
}

function partnerReply(
  pairs: EventPairs,
  { of, rank, id, pair }: Requests["partner"],
  header: PairsHeader | null,
): Partner {
  const [before, after] = pairs.sides;
  const [run, otherRun] = of === 0 ? [before, after] : [after, before];
  const row = run.rowOf.get(`${rank}/${id}`);
  if (row === undefined) return { status: null, rank: -1, id: -1, node: -1 };
  return {
    status: header?.statuses[pairs.status[row]!] ?? null,
    rank: otherRun.rank[row]!,
    id: otherRun.id[row]!,
    // In the tree of a single rank pair, nodes are numbered differently.
    node: typeof pair === "number" ? -1 : pairs.node[row]!,
  };
}

function eventsWhere({ sides }: EventPairs, predicate: (row: number) => boolean): PairEvents {
  return {
    events: sides.map(({ rank, id }) => {
      const rows = indicesWhere(id.length, (row) => id[row]! >= 0 && predicate(row));
      return Array.from(rows.subarray(0, MAX_EVENTS), (row) => [rank[row]!, id[row]!]);
    }),
  };
}

// Open a comparison from a saved page, or from data sent by a kernel.

/** Header of the page of a comparison. */
export interface DiffDocument {
  widget: "diff";
  traits: Record<string, unknown>;
  pairs?: PairsHeader;
}

/** Each run has its own blocks, whose names begin with the name of the run. */
export async function openDiffPage(blocks: Blocks) {
  const readJson = async (name: string): Promise<unknown> =>
    JSON.parse(new TextDecoder().decode(await readBlock(blocks, name)));
  const page = (await readJson("document")) as DiffDocument;
  const runs = await Promise.all(
    ["before", "after"].map(async (side) => {
      const document = (await readJson(`${side}-document`)) as PageDocument;
      const sideName = (name: string): string => `${side}-${name}`;
      const runBlocks: Blocks = {
        text: (name) => blocks.text(sideName(name)),
        ...(blocks.bytes && { bytes: (name: string) => blocks.bytes!(sideName(name)) }),
      };
      return { document, source: new PageSource(document, runBlocks, download) };
    }),
  );
  const source = new PairSource(
    (await readJson("frames")) as FramesByName,
    page.pairs ?? null,
    () => readBlock(blocks, "pairs"),
    [runs[0]!.source, runs[1]!.source],
    async (block) => (await readJson(block)) as FramesByName,
  );
  if (page.pairs !== undefined) {
    for (const side of [0, 1] as const) {
      const { job } = runs[side]!.source;
      job.classLoader = (rank, events) => source.classesOf(side, rank, events);
    }
  }
  return {
    traits: page.traits,
    scenes: runs.map(({ document }) => document.scene),
    states: runs.map(({ document }) => document.state as Record<string, unknown>),
    source,
  };
}
