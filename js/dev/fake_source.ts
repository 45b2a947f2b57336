/** Answers the stage's requests from the events of a made-up job, straight from the protocol. */

import type { Reply, Source } from "../src/protocol/source";
import { CELLS, cellsOf, counterCells } from "./fake_cells";
import type { FakeEvent, FakeJob, FakeLane } from "./fake_job";

export class Packer {
  private readonly parts: {
    name: string;
    dtype: string;
    array: ArrayBufferView & { length: number };
  }[] = [];

  add(name: string, dtype: string, array: ArrayBufferView & { length: number }): void {
    this.parts.push({ name, dtype, array });
  }

  pack(reply: Record<string, unknown>): Reply {
    const columns: Record<string, [string, number, number]> = {};
    let size = 0;
    for (const { name, dtype, array } of this.parts) {
      columns[name] = [dtype, size, array.length];
      size += Math.ceil(array.byteLength / 8) * 8;
    }
    const bytes = new Uint8Array(size);
    for (const { name, array } of this.parts) {
      const view = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      bytes.set(view, columns[name]![1]);
    }
    return { reply: { ...reply, columns }, buffer: bytes.buffer };
  }
}

interface Part {
  lanes: number[];
  first: number;
  last: number;
}

export class FakeSource implements Source {
  status: Source["status"] = "live";
  /** Requests by op, for tests. */
  readonly asked: { op: string; request: Record<string, unknown> }[] = [];
  /** Ms to wait before an answer. */
  delay = 0;
  /** Set to hold all answers back until `release` is called. */
  held: (() => void)[] | null = null;
  private readonly lanes = new Map<number, FakeLane>();
  private readonly names = new Map<string, number>();
  private readonly listeners = new Set<(status: Source["status"]) => void>();

  constructor(private readonly job: FakeJob) {
    for (const lane of job.lanes) this.lanes.set(lane.lane, lane);
  }

  onStatus(listener: (status: Source["status"]) => void, signal: AbortSignal): void {
    this.listeners.add(listener);
    signal.addEventListener("abort", () => this.listeners.delete(listener), { once: true });
  }

  /** Answer for another lane as well, or instead. */
  adopt(lane: FakeLane): void {
    this.lanes.set(lane.lane, lane);
  }

  get listenerCount(): number {
    return this.listeners.size;
  }

  become(status: Source["status"]): void {
    this.status = status;
    for (const listener of this.listeners) listener(status);
  }

  release(): void {
    const held = this.held ?? [];
    this.held = null;
    for (const go of held) go();
  }

  async ask(op: string, request: Record<string, unknown>, signal?: AbortSignal): Promise<Reply> {
    this.asked.push({ op, request });
    if (this.held !== null) await new Promise<void>((resolve) => this.held?.push(resolve));
    if (this.delay > 0) await new Promise((resolve) => setTimeout(resolve, this.delay));
    if (signal?.aborted) throw new DOMException("aborted", "AbortError");
    if (op === "tiles") return this.tiles(request.level as number, request.parts as Part[]);
    if (op === "stats") return this.stats(request.start as number, request.end as number);
    if (op === "minimap") return this.minimap(request.bins as number);
    if (op === "marks") return this.marks(request);
    throw new Error(`no such op: ${op}`);
  }

  private key(name: string): number {
    let key = this.names.get(name);
    if (key === undefined) {
      key = this.names.size;
      this.names.set(name, key);
    }
    return key;
  }

  private tiles(level: number, parts: Part[]): Reply {
    const cell = 2 ** level;
    const out = {
      lane: [] as number[],
      index: [] as number[],
      counterLane: [] as number[],
      counterIndex: [] as number[],
    };
    const cells: { busy: Uint16Array; count: Uint16Array; kind: Uint8Array; mask: Uint8Array }[] =
      [];
    const counters: { min: Float32Array; max: Float32Array }[] = [];
    const sliceFirst = [0];
    const slices: FakeEvent[] = [];
    const ids: number[] = [];
    for (const { lanes, first, last } of parts) {
      for (const id of lanes) {
        const lane = this.lanes.get(id)!;
        for (let index = first; index < last; index += 1) {
          if (lane.samples !== undefined) {
            const found = counterCells(lane.samples, index, cell);
            if (found === null) continue;
            out.counterLane.push(id);
            out.counterIndex.push(index);
            counters.push(found);
            continue;
          }
          const found = cellsOf(lane, index, cell);
          if (found === null) continue;
          out.lane.push(id);
          out.index.push(index);
          cells.push(found.cells);
          for (const [event, order] of found.slices) {
            slices.push(event);
            ids.push(order);
          }
          sliceFirst.push(slices.length);
        }
      }
    }
    const pack = new Packer();
    const join = <T extends Uint8Array | Uint16Array | Float32Array>(
      Type: new (length: number) => T,
      arrays: T[],
    ): T => {
      const whole = new Type(arrays.length * CELLS);
      for (const [i, array] of arrays.entries()) whole.set(array, i * CELLS);
      return whole;
    };
    pack.add("tile_lane", "u32", Uint32Array.from(out.lane));
    pack.add("tile_index", "f64", Float64Array.from(out.index));
    pack.add(
      "busy",
      "u16",
      join(
        Uint16Array,
        cells.map((c) => c.busy),
      ),
    );
    pack.add(
      "count",
      "u16",
      join(
        Uint16Array,
        cells.map((c) => c.count),
      ),
    );
    pack.add(
      "kind",
      "u8",
      join(
        Uint8Array,
        cells.map((c) => c.kind),
      ),
    );
    pack.add(
      "mask",
      "u8",
      join(
        Uint8Array,
        cells.map((c) => c.mask),
      ),
    );
    pack.add("slice_first", "u32", Uint32Array.from(sliceFirst));
    pack.add(
      "slice_start",
      "f64",
      Float64Array.from(slices, (e) => e.start),
    );
    pack.add(
      "slice_dur",
      "f64",
      Float64Array.from(slices, (e) => e.dur),
    );
    pack.add("slice_id", "u32", Uint32Array.from(ids));
    pack.add(
      "slice_name",
      "u32",
      Uint32Array.from(slices, (e) => this.key(e.name)),
    );
    pack.add(
      "slice_kind",
      "u8",
      Uint8Array.from(slices, (e) => e.kind),
    );
    pack.add("slice_flags", "u8", new Uint8Array(slices.length));
    pack.add("counter_lane", "u32", Uint32Array.from(out.counterLane));
    pack.add("counter_index", "f64", Float64Array.from(out.counterIndex));
    pack.add(
      "counter_min",
      "f32",
      join(
        Float32Array,
        counters.map((c) => c.min),
      ),
    );
    pack.add(
      "counter_max",
      "f32",
      join(
        Float32Array,
        counters.map((c) => c.max),
      ),
    );
    const names: Record<string, string> = {};
    for (const { name } of slices) names[this.key(name)] = name;
    return pack.pack({ level, names });
  }

  private covered(
    rank: number,
    role: string,
    kind: number | null,
    start: number,
    end: number,
  ): number {
    const summary = this.job.scene.ranks[rank]!.summary.find((lane) => lane.role === role);
    let sum = 0;
    for (const event of this.lanes.get(summary?.lane ?? -1)?.events ?? []) {
      if (kind !== null && event.kind !== kind) continue;
      sum += Math.max(0, Math.min(event.start + event.dur, end) - Math.max(event.start, start));
    }
    return sum;
  }

  private stats(start: number, end: number): Reply {
    const ranks = this.job.scene.ranks;
    const data = ranks.map(({ range }) =>
      Math.max(0, Math.min(range[1], end) - Math.max(range[0], start)),
    );
    const compute = ranks.map((_, i) => this.covered(i, "gpu", 0, start, end));
    const memory = ranks.map((_, i) => this.covered(i, "gpu", 2, start, end));
    const communication = ranks.map((_, i) => this.covered(i, "comm", null, start, end));
    const exposed = communication.map((ns, i) =>
      Math.max(0, Math.min(ns, data[i]! - compute[i]!) * 0.7),
    );
    const idle = data.map((ns, i) => Math.max(0, ns - compute[i]! - memory[i]! - exposed[i]!));
    return {
      reply: {
        ranks: ranks.map(({ rank }) => rank),
        compute,
        communication,
        exposed,
        memory,
        idle,
        data,
        span: data,
        kinds: {},
      },
      buffer: null,
    };
  }

  private minimap(bins: number): Reply {
    const [start, end] = this.job.scene.range;
    const width = (end - start) / bins;
    const sums = [new Float32Array(bins), new Float32Array(bins), new Float32Array(bins)];
    const ranks = this.job.scene.ranks;
    for (const { summary } of ranks) {
      for (const { lane, role } of summary) {
        if (role === "cpu") continue;
        for (const event of this.lanes.get(lane)!.events) {
          const into = sums[event.kind === 0 ? 0 : event.kind === 1 ? 1 : 2]!;
          const a = Math.floor((event.start - start) / width);
          const b = Math.floor((event.start + event.dur - start) / width);
          for (let bin = a; bin <= Math.min(b, bins - 1); bin += 1) {
            const from = start + bin * width;
            const part =
              Math.min(event.start + event.dur, from + width) - Math.max(event.start, from);
            into[bin] = into[bin]! + Math.max(0, part) / width / ranks.length;
          }
        }
      }
    }
    for (let i = 0; i < bins; i += 1) sums[1]![i] = Math.min(sums[1]![i]!, 1 - sums[0]![i]!);
    const pack = new Packer();
    for (const [i, name] of ["compute", "exposed", "memory"].entries())
      pack.add(name, "f32", sums[i]!);
    return pack.pack({ start, end, bins });
  }

  private marks(request: Record<string, unknown>): Reply {
    const { start, end, bins, lanes } = request as {
      start: number;
      end: number;
      bins: number;
      lanes: number[];
    };
    const text = ((request.text ?? "") as string).toLowerCase();
    const lane: number[] = [];
    const bin: number[] = [];
    for (const id of lanes) {
      const seen = new Set<number>();
      for (const event of this.lanes.get(id)?.events ?? []) {
        if (!event.name.toLowerCase().includes(text)) continue;
        if (event.start >= end || event.start + event.dur <= start) continue;
        seen.add(Math.max(0, Math.floor(((event.start - start) * bins) / (end - start))));
      }
      for (const at of [...seen].sort((a, b) => a - b)) {
        lane.push(id);
        bin.push(at);
      }
    }
    const pack = new Packer();
    pack.add("lane", "u32", Uint32Array.from(lane));
    pack.add("bin", "u32", Uint32Array.from(bin));
    return pack.pack({ in_view: lane.length, total: lane.length, error: null });
  }
}
