/** What a saved page answers of a comparison: its frames and pairs, and both runs' own data. */

import type { Reply, Source } from "../contract";
import { Columns, type ColumnSpec } from "../page/columns";
import type { Frame } from "./frames";

export interface PairsHeader {
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
  node: Float64Array;
  device: Uint8Array;
  place: [Map<string, number>, Map<string, number>];
}

const MOST_EVENTS = 20_000;
/** A frame of one step; those of one step are in a block of their own. */
const OF_STEP = /^(?:waterfall:\w+|names):(\d+)$/;

type Held = Record<string, unknown>;

export class PairSource implements Source {
  readonly status = "none";
  private pairs: Promise<Pairs> | null = null;
  private readonly steps = new Map<number, Promise<Held>>();

  constructor(
    private readonly frames: Held,
    private readonly header: PairsHeader | null,
    /** The bytes of the pairs, unpacked when they are first needed. */
    private readonly read: () => Promise<Uint8Array>,
    private readonly sides: readonly [Source | null, Source | null],
    /** The frames of one step, unpacked when it is chosen. */
    private readonly readStep: (step: number) => Promise<Held>,
  ) {}

  onStatus(): void {}

  async ask(op: string, request: Request, signal?: AbortSignal): Promise<Reply> {
    if (request.side !== undefined) {
      const side = this.sides[Number(request.side) === 0 ? 0 : 1];
      if (side === null) throw new Error("This page holds no events.");
      return side.ask(op, request, signal);
    }
    if (op === "frame") return this.frame(String(request.name));
    const pairs = await this.load();
    signal?.throwIfAborted();
    if (op === "partner") return this.partner(pairs, request);
    if (op === "ties") return this.ties(pairs, request);
    if (op === "path_events") return this.events(pairs, Number(request.node));
    throw new Error("A saved page has no kernel to write files. Use the notebook, or hta-widgets.");
  }

  private async frame(name: string): Promise<Reply> {
    const step = OF_STEP.exec(name)?.[1];
    const held = step === undefined ? this.frames : await this.step(Number(step));
    const frame = held[name];
    if (frame === undefined) throw new Error(`This page does not hold ${name}.`);
    return { reply: frame as Record<string, unknown>, buffer: null };
  }

  private step(step: number): Promise<Held> {
    let held = this.steps.get(step);
    if (held === undefined) {
      held = this.readStep(step).then((frames) => this.withMembers(frames, `names:${step}`));
      this.steps.set(step, held);
    }
    return held;
  }

  /** Which full names are behind a short one is said once, of all steps. */
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
      const columns = new Columns(bytes, this.header?.columns ?? {});
      const both = (name: string, less: number): [Float64Array, Float64Array] => [
        columns.f64(`${name}0`).map((value) => value - less),
        columns.f64(`${name}1`).map((value) => value - less),
      ];
      const [rank, id] = [both("rank", 1), both("id", 1)];
      const place = ([0, 1] as const).map(
        (side) =>
          new Map(Array.from(id[side], (event, row) => [`${rank[side][row]}/${event}`, row])),
      ) as Pairs["place"];
      return {
        rank,
        id,
        start: both("start", 0),
        dur: both("dur", 0),
        status: columns.u8("status"),
        node: columns.f64("node").map((value) => value - 1),
        device: columns.u8("device"),
        place,
      };
    });
    return this.pairs;
  }

  private partner(pairs: Pairs, { of, rank, id }: Request): Reply {
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
      node: pairs.node[row],
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

  private events(pairs: Pairs, node: number): Reply {
    const events: [number, number][][] = [[], []];
    pairs.node.forEach((one, row) => {
      if (one !== node) return;
      for (const side of [0, 1] as const) {
        const id = pairs.id[side][row]!;
        const found = events[side]!;
        if (id >= 0 && found.length < MOST_EVENTS) found.push([pairs.rank[side][row]!, id]);
      }
    });
    return { reply: { events }, buffer: null };
  }
}
