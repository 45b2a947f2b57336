/** Replies of a saved comparison. */

import { CLASSES } from "../facts/event_classes";
import { getOrMake } from "../protocol/maps";
import type {
  Answer,
  ClassCounts,
  Frame,
  Operation,
  PairEvents,
  Partner,
  Requests,
  Scene,
  Ties,
  Value,
} from "../protocol/source";
import { type Blocks, Columns, positions, readBlock } from "./columns";
import type { ColumnSpec, PageDocument } from "./document";
import { download } from "./export";
import { type HeldSource, PageSource } from "./source";

type PairsHeader = ClassCounts & {
  columns: Record<string, ColumnSpec>;
  statuses: string[];
};

/** The events of one run, by row; -1 for none. */
interface Side {
  rank: Float64Array;
  id: Float64Array;
  /** Times are known for device work only. */
  start: Float64Array;
  dur: Float64Array;
  /** Row of each event. */
  rowOf: Map<string, number>;
}

interface Pairs {
  sides: readonly [Side, Side];
  status: Uint8Array;
  class: Uint8Array;
  /** Rows of each change. */
  changes: Float64Array[];
  node: Float64Array;
  device: Uint8Array;
}

const MOST_EVENTS = 20_000;
const NOT_COMPARED = CLASSES.indexOf("not_compared");
/** A frame of one step; the frames of a step share a block. */
const OF_STEP = /^(?:waterfall:\w+|names):(\d+)$/;
/** A frame of one pair of ranks. */
const OF_PAIR = /@(\d+)$/;

type Held = Record<string, Frame>;
type Answers = {
  readonly [Op in Operation]?: (request: Requests[Op]) => Promise<Answer<Op>["reply"]>;
};

export class PairSource implements HeldSource {
  readonly status = "none";
  /** Frames of steps and of pairs of ranks lack rows that a page does not draw. */
  readonly isWhole = false;
  private pairs: Promise<Pairs> | null = null;
  private readonly steps = new Map<string, Promise<Held>>();
  private readonly answers = {
    frame: ({ name }: Requests["frame"]) => this.frame(name),
    frames: async ({ names }: Requests["frames"]) => ({ frames: await this.several(names) }),
    classes: () => {
      const { counts = [], pair_counts = [] } = this.header ?? {};
      return Promise.resolve({ counts, pair_counts });
    },
    partner: async (request: Requests["partner"]) =>
      partner(await this.load(), request, this.header),
    ties: async (request: Requests["ties"]) => ties(await this.load(), request),
    path_events: async ({ node, pair }: Requests["path_events"]) => {
      const pairs = await this.ofAllRanks(pair);
      return eventsOf(pairs, (row) => pairs.node[row] === node);
    },
    change_events: async ({ row, pair }: Requests["change_events"]) => {
      const pairs = await this.ofAllRanks(pair);
      const rows = new Set(pairs.changes[row] ?? []);
      return eventsOf(pairs, (at) => rows.has(at));
    },
  };

  constructor(
    private readonly frames: Held,
    private readonly header: PairsHeader | null,
    /** The bytes of the pairs, unpacked when they are first needed. */
    private readonly read: () => Promise<Uint8Array>,
    private readonly sides: readonly [HeldSource | null, HeldSource | null],
    /** The frames of one step or pair of ranks, unpacked when it is chosen. */
    private readonly readPart: (block: string) => Promise<Held>,
  ) {}

  holds<Op extends Operation>(op: Op, request: Requests[Op]): boolean {
    return this.sideOf(request)?.holds(op, request) === true;
  }

  /** The run of a request; null: none, undefined: the comparison itself. */
  private sideOf(request: Requests[Operation]): HeldSource | null | undefined {
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
    const answers: Answers = this.answers;
    const answer = answers[op];
    if (answer === undefined) {
      throw new Error(
        "A saved page has no kernel to write files. Use the notebook, or hta-widgets.",
      );
    }
    return { reply: await answer(request), buffer: null };
  }

  private async frame(name: string): Promise<Frame> {
    const [step, pair] = [OF_STEP.exec(name)?.[1], OF_PAIR.exec(name)?.[1]];
    const held =
      pair !== undefined
        ? await this.part(`pair-${pair}`, `names@${pair}`)
        : step !== undefined
          ? await this.part(`step-${step}`, `names:${step}`)
          : this.frames;
    const frame = held[name];
    if (frame === undefined) throw new Error(`This page does not hold ${name}.`);
    return frame;
  }

  /** The requested frames that the page has. */
  private async several(names: readonly string[]): Promise<Record<string, Frame>> {
    const found = await Promise.allSettled(names.map((name) => this.frame(name)));
    const frames: Held = {};
    found.forEach((one, at) => {
      if (one.status === "fulfilled") frames[names[at]!] = one.value;
    });
    return frames;
  }

  private part(block: string, names: string): Promise<Held> {
    return getOrMake(this.steps, block, () =>
      this.readPart(block).then((frames) => this.withMembers(frames, names)),
    );
  }

  /** The class of each event of a rank; null if the rank is not compared. */
  async classesOf(side: 0 | 1, rank: number, events: number): Promise<Uint8Array | null> {
    const pairs = await this.load();
    const { id, rank: ranks } = pairs.sides[side];
    const rows = positions(id.length, (row) => id[row]! >= 0 && ranks[row] === rank);
    const codes = new Uint8Array(events).fill(NOT_COMPARED);
    for (const row of rows) codes[id[row]!] = pairs.class[row]!;
    return rows.length > 0 ? codes : null;
  }

  /** Add the full names behind each short name; they are stored once for all steps. */
  private withMembers(frames: Held, name: string): Held {
    const [whole, own] = [this.frames.names, frames[name]];
    if (whole === undefined || own === undefined) return frames;
    const behind = new Map(
      (whole.columns.name ?? []).map((one, row) => [one, whole.columns.members?.[row]]),
    );
    // The only column of lists.
    const members = (own.columns.name ?? []).map(
      (one) => behind.get(one) ?? [one],
    ) as unknown as Value[];
    return { ...frames, [name]: { ...own, columns: { ...own.columns, members } } };
  }

  private load(): Promise<Pairs> {
    this.pairs ??= this.read().then((bytes) => pairsOf(bytes, this.header?.columns ?? {}));
    return this.pairs;
  }

  private async ofAllRanks(pair: number | null | undefined): Promise<Pairs> {
    if (typeof pair === "number") {
      throw new Error("Listing these events for one pair of ranks needs a kernel.");
    }
    return this.load();
  }
}

function pairsOf(bytes: Uint8Array, specs: PairsHeader["columns"]): Pairs {
  const columns = new Columns(bytes, specs);
  const device = columns.u8("device");
  const stored = (name: string): Float64Array => columns.f64(name).map((value) => value - 1);
  /** By row, from values of device work only. */
  const spread = (values: Float64Array): Float64Array => {
    let at = 0;
    return Float64Array.from(device, (is) => (is === 1 ? values[at++]! : 0));
  };
  const sideOf = (side: 0 | 1): Side => {
    const [rank, id] = [stored(`rank${side}`), stored(`id${side}`)];
    return {
      rank,
      id,
      start: spread(columns.f64(`start${side}`)),
      dur: spread(columns.f64(`dur${side}`)),
      rowOf: new Map(Array.from(id, (event, row) => [`${rank[row]}/${event}`, row])),
    };
  };
  const changes = Object.keys(specs)
    .filter((name) => /^change\d+$/.test(name))
    .sort((a, b) => Number(a.slice(6)) - Number(b.slice(6)));
  return {
    sides: [sideOf(0), sideOf(1)],
    status: columns.u8("status"),
    class: columns.u8("class"),
    changes: changes.map((name) => columns.f64(name)),
    node: stored("node"),
    device,
  };
}

/** The run of a request's event, and the other one. */
function sidesOf({ sides: [before, after] }: Pairs, of: number): [own: Side, other: Side] {
  return of === 0 ? [before, after] : [after, before];
}

function partner(
  pairs: Pairs,
  { of, rank, id, pair }: Requests["partner"],
  header: PairsHeader | null,
): Partner {
  const [own, other] = sidesOf(pairs, of);
  const row = own.rowOf.get(`${rank}/${id}`);
  if (row === undefined) return { status: null, rank: -1, id: -1, node: -1 };
  return {
    status: header?.statuses[pairs.status[row]!] ?? null,
    rank: other.rank[row]!,
    id: other.id[row]!,
    // Nodes in the tree of one pair of ranks have other numbers.
    node: typeof pair === "number" ? -1 : pairs.node[row]!,
  };
}

/** The longest pairs of device work whose event in one run is in the view. */
function ties(pairs: Pairs, { of, start, end, most }: Requests["ties"]): Ties {
  const [own, other] = sidesOf(pairs, of);
  const shown = positions(
    pairs.device.length,
    (row) =>
      pairs.device[row] === 1 &&
      own.id[row]! >= 0 &&
      own.start[row]! < end &&
      own.start[row]! + own.dur[row]! > start,
  );
  const [before, after] = pairs.sides;
  const long = (row: number): number => Math.max(before.dur[row]!, after.dur[row]!);
  const longest = shown
    .filter((row) => other.id[row]! >= 0)
    .sort((a, b) => long(b) - long(a) || a - b)
    .slice(0, most);
  return {
    of: shown.length,
    ties: Array.from(longest, (row): Ties["ties"][number] => [
      before.start[row]!,
      before.dur[row]!,
      after.start[row]!,
      after.dur[row]!,
    ]),
  };
}

function eventsOf({ sides }: Pairs, wanted: (row: number) => boolean): PairEvents {
  return {
    events: sides.map(({ rank, id }) => {
      const rows = positions(id.length, (row) => id[row]! >= 0 && wanted(row));
      return Array.from(rows.subarray(0, MOST_EVENTS), (row) => [rank[row]!, id[row]!]);
    }),
  };
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
  source: HeldSource;
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
    (await readJson("frames")) as Held,
    page.pairs ?? null,
    () => readBlock(blocks, "pairs"),
    [runs[0]!.source, runs[1]!.source],
    async (block) => (await readJson(block)) as Held,
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
