/** Answers everything a whole timeline asks, from a made-up job. */

import type { Brief, Kind, Reply, SelectionJson } from "../src/protocol/source";
import { type FakeEvent, type FakeJob, type FakeLane, KINDS } from "./fake_job";
import { FakeSource } from "./fake_source";

const STRIDE = 1_000_000;

interface Known {
  event: FakeEvent;
  lane: FakeLane;
  at: number;
}

/** A made-up job in which every event has an id of its own: `lane * STRIDE + place in the lane`. */
export class AppSource extends FakeSource {
  /** Makes requests of an op fail with this text. */
  readonly broken = new Map<string, string>();
  /** What is answered to `clusters`; nothing is known of that without it. */
  clusters: Record<string, unknown> | null = null;
  /** Replaces every name, to see what odd ones do. */
  rename: ((name: string) => string) | null = null;
  private readonly byLane = new Map<number, FakeLane>();
  private readonly eventLanes: FakeLane[];

  constructor(private readonly made: FakeJob) {
    super(made);
    for (const lane of made.lanes) this.byLane.set(lane.lane, lane);
    const summaries = new Set(made.scene.ranks.flatMap((rank) => rank.summary.map((s) => s.lane)));
    this.eventLanes = made.lanes.filter((lane) => !summaries.has(lane.lane) && !lane.samples);
  }

  override async ask(
    op: string,
    request: Record<string, unknown>,
    signal?: AbortSignal,
  ): Promise<Reply> {
    const broken = this.broken.get(op);
    if (broken !== undefined) {
      this.asked.push({ op, request });
      throw new Error(broken);
    }
    const own: Record<string, (request: never) => Record<string, unknown>> = {
      event: (r: { id: number }) => this.event(r.id),
      cell: (r: { lane: number; start: number; end: number }) => this.cell(r),
      search: (r: { text: string }) => this.search(r.text),
      find: (r: { text: string; from: Brief | null; direction: number }) => this.find(r),
      totals: (r: { selection: SelectionJson }) => this.totals(r.selection),
      neighbor: (r: { id: number; direction: number }) => this.neighbor(r),
      export: (r: { path: string }) => ({
        path: r.path,
        events: 1234,
        flows: 56,
        dropped: 0,
        bytes: 78_900,
      }),
    };
    if (op === "clusters" && this.clusters !== null) own.clusters = () => this.clusters ?? {};
    const answer = own[op];
    if (answer === undefined) {
      const reply = await super.ask(op, request, signal);
      if (op === "tiles") this.relabel(reply);
      if (op === "stats") {
        const mean = (key: string): number => {
          const [sum, span] = [key, "span"].map((one) =>
            (reply.reply[one] as number[]).reduce((all, value) => all + value, 0),
          );
          return (sum ?? 0) / Math.max(span ?? 1, 1);
        };
        reply.reply.kinds = {
          compute: mean("compute"),
          communication: mean("communication"),
          memory: mean("memory"),
        };
      }
      return reply;
    }
    this.asked.push({ op, request });
    if (this.held !== null) await new Promise<void>((resolve) => this.held?.push(resolve));
    if (signal?.aborted) throw new DOMException("aborted", "AbortError");
    return { reply: answer.call(this, request as never), buffer: null };
  }

  /** The first event whose name holds a text, as the page would name it. */
  first(text: string): Brief {
    const found = this.matches(text)[0];
    if (found === undefined) throw new Error(`no event is named ${text}`);
    return found;
  }

  private name(name: string): string {
    return this.rename === null ? name : this.rename(name);
  }

  private relabel(reply: Reply): void {
    if (this.rename !== null) {
      const names = reply.reply.names as Record<string, string>;
      for (const key of Object.keys(names)) names[key] = this.name(names[key] ?? "");
    }
    const columns = reply.reply.columns as Record<string, [string, number, number]>;
    const view = (name: string): Uint32Array => {
      const [, offset, length] = columns[name] ?? ["", 0, 0];
      return new Uint32Array(reply.buffer as ArrayBuffer, offset, length);
    };
    const [lanes, first, ids] = [view("tile_lane"), view("slice_first"), view("slice_id")];
    lanes.forEach((lane, tile) => {
      for (let at = first[tile] ?? 0; at < (first[tile + 1] ?? 0); at += 1) {
        ids[at] = lane * STRIDE + (ids[at] ?? 0);
      }
    });
  }

  private known(id: number): Known {
    const lane = this.byLane.get(Math.floor(id / STRIDE));
    const event = lane?.events[id % STRIDE];
    if (lane === undefined || event === undefined) throw new Error(`no event ${id}`);
    const own = this.eventLanes.find((one) => one.rank === lane.rank && one.events.includes(event));
    return { event, lane: own ?? lane, at: (own ?? lane).events.indexOf(event) };
  }

  private brief({ event, lane, at }: Known): Brief {
    const name = this.name(event.name);
    return {
      rank: lane.rank,
      table: "events",
      id: lane.lane * STRIDE + at,
      lane: lane.lane,
      name: event.kind === 0 ? `void at::native::${name}<float, 4>(int, float*)` : name,
      short: name,
      kind: KINDS[event.kind] as Kind,
      start: event.start,
      dur: event.dur,
    };
  }

  private track(lane: FakeLane) {
    return this.made.scene.ranks
      .find((rank) => rank.rank === lane.rank)
      ?.tracks.find((track) => lane.lane >= track.lane0 && lane.lane < track.lane0 + track.lanes);
  }

  private lanesOf(rank: number): FakeLane[] {
    return this.eventLanes.filter((lane) => lane.rank === rank);
  }

  private event(id: number): Record<string, unknown> {
    const known = this.known(id);
    const brief = this.brief(known);
    const track = this.track(known.lane);
    const parents = this.lanesOf(brief.rank)
      .filter((lane) => this.track(lane) === track && lane.lane < known.lane.lane)
      .flatMap((lane) =>
        lane.events
          .map((event, at) => ({ event, lane, at }))
          .filter(
            ({ event }) =>
              event.start <= brief.start && event.start + event.dur >= brief.start + brief.dur,
          ),
      )
      .map((one) => this.brief(one))
      .reverse();
    const durs = known.lane.events
      .filter((one) => one.name === known.event.name)
      .map((one) => one.dur)
      .sort((a, b) => a - b);
    return {
      event: {
        ...brief,
        category: brief.kind === "cpu" ? "cpu_op" : "kernel",
        process: track?.process ?? "",
        track: track?.key ?? "",
        depth: 0,
        stream: track?.stream ?? -1,
        step: 5,
        correlation: 44986,
      },
      parents,
      args: [
        ["Collective name", "allreduce"],
        ["In msg nelems", "6637568"],
        ["dtype", "Float"],
        ["Process Group Name", "0"],
        ["Process Group Ranks", "[0, 1, 2, 3, 4, 5, 6, 7]"],
        ["External id", "7985"],
        ["grid", "[8, 1, 1]"],
        ["block", "[544, 1, 1]"],
        ["est. achieved occupancy %", "27"],
        ["label", this.name("plain text")],
      ],
      args_error: null,
      flows: this.flows(known, brief),
      same: sameName(durs),
    };
  }

  private flows(known: Known, brief: Brief): Record<string, unknown>[] {
    const launches = this.lanesOf(brief.rank)
      .flatMap((lane) => lane.events.map((event, at) => ({ event, lane, at })))
      .filter(({ event }) => event.name === "cudaLaunchKernel");
    const kernels = brief.kind === "compute" || brief.kind === "communication";
    if (kernels) {
      const before = launches.filter(({ event }) => event.start + event.dur <= brief.start).at(-1);
      if (before === undefined) return [];
      const from = this.brief(before);
      const delay = brief.start - from.start - from.dur;
      return [{ kind: "launch", direction: "in", brief: from, delay }];
    }
    if (known.event.name !== "cudaLaunchKernel") return [];
    const stream = this.lanesOf(brief.rank).find((lane) => lane.events[0]?.kind === 0);
    const at = stream?.events.findIndex((event) => event.start > brief.start) ?? -1;
    const event = stream?.events[at];
    if (stream === undefined || event === undefined) return [];
    const to = this.brief({ event, lane: stream, at });
    return [
      { kind: "launch", direction: "out", brief: to, delay: to.start - brief.start - brief.dur },
    ];
  }

  private cell(request: { lane: number; start: number; end: number }): Record<string, unknown> {
    const { lane, start, end } = request;
    const from = this.byLane.get(lane);
    const inside = (from?.events ?? [])
      .map((event, at) => ({ event, lane: from as FakeLane, at }))
      .filter(({ event }) => event.start < end && event.start + event.dur > start);
    const busy = inside.reduce(
      (sum, { event }) =>
        sum + Math.min(event.start + event.dur, end) - Math.max(event.start, start),
      0,
    );
    const longest = inside.sort((a, b) => b.event.dur - a.event.dur)[0];
    return {
      count: inside.length,
      busy: Math.min(busy, end - start),
      longest: longest === undefined ? null : this.brief(longest),
      kinds: {},
    };
  }

  private matches(text: string): Brief[] {
    const wanted = text.toLowerCase();
    return this.eventLanes
      .flatMap((lane) =>
        lane.events
          .map((event, at) => ({ event, lane, at }))
          .filter(({ event }) => this.name(event.name).toLowerCase().includes(wanted))
          .map((known) => this.brief(known)),
      )
      .sort((a, b) => a.rank - b.rank || a.start - b.start);
  }

  private search(text: string): Record<string, unknown> {
    if (text.startsWith("/(")) {
      return { total: 0, names: 0, ranks: [], error: "missing ), unterminated subpattern" };
    }
    const hits = this.matches(text);
    const byRank = new Map<number, number>();
    for (const { rank } of hits) byRank.set(rank, (byRank.get(rank) ?? 0) + 1);
    return { total: hits.length, names: 1, ranks: [...byRank], error: null };
  }

  private find(request: {
    text: string;
    from: Pick<Brief, "rank" | "start"> | null;
    direction: number;
  }): Record<string, unknown> {
    const hits = this.matches(request.text);
    const { from, direction } = request;
    const later = (hit: Brief): boolean =>
      from === null || hit.rank > from.rank || (hit.rank === from.rank && hit.start > from.start);
    const earlier = (hit: Brief): boolean =>
      from === null || hit.rank < from.rank || (hit.rank === from.rank && hit.start < from.start);
    let index = direction > 0 ? hits.findIndex(later) : hits.filter(earlier).length - 1;
    const wrapped = index < 0;
    if (wrapped) index = direction > 0 ? 0 : hits.length - 1;
    return {
      brief: hits[index] ?? null,
      index: index + 1,
      total: hits.length,
      wrapped,
      error: null,
    };
  }

  private totals(selection: SelectionJson): Record<string, unknown> {
    const [start, end] = [selection.start_ns ?? -Infinity, selection.end_ns ?? Infinity];
    const wanted = selection.ids === null ? null : new Set(selection.ids.map(([, id]) => id));
    const named = /^name == "(.*?)"( and |$)/.exec(selection.query ?? "")?.[1];
    const groups = new Map<string, { brief: Brief; durs: number[] }>();
    let events = 0;
    for (const lane of this.eventLanes) {
      if (selection.ranks !== null && !selection.ranks.includes(lane.rank)) continue;
      const key = this.track(lane)?.key ?? "";
      if (selection.tracks !== null && !selection.tracks.includes(key)) continue;
      lane.events.forEach((event, at) => {
        if (event.start >= end || event.start + event.dur <= start) return;
        if (wanted !== null && !wanted.has(lane.lane * STRIDE + at)) return;
        const brief = this.brief({ event, lane, at });
        if (named !== undefined && brief.name !== named) return;
        events += 1;
        const group = groups.get(brief.name) ?? { brief, durs: [] };
        group.durs.push(event.dur);
        groups.set(brief.name, group);
      });
    }
    const names = [...groups.values()].map(({ brief, durs }) => ({ ...brief, ...sums(durs) }));
    const kinds = KINDS.flatMap((kind) => {
      const durs = [...groups.values()]
        .filter((one) => one.brief.kind === kind)
        .flatMap((o) => o.durs);
      return durs.length === 0 ? [] : [{ kind, ...sums(durs) }];
    });
    names.sort((a, b) => b.sum - a.sum);
    return { events, kinds, names: names.slice(0, 200), names_total: names.length };
  }

  private neighbor(request: { id: number; direction: number }): Record<string, unknown> {
    const { lane, at } = this.known(request.id);
    const event = lane.events[at + request.direction];
    return {
      brief: event === undefined ? null : this.brief({ event, lane, at: at + request.direction }),
    };
  }
}

function sums(durs: readonly number[]) {
  const sum = durs.reduce((all, dur) => all + dur, 0);
  const [min, max] = [Math.min(...durs), Math.max(...durs)];
  return { count: durs.length, sum, mean: sum / durs.length, min, max };
}

function sameName(durs: readonly number[]): Record<string, unknown> {
  const min = durs[0] ?? 0;
  const max = durs.at(-1) ?? 0;
  const bins = min === max ? 1 : Math.min(24, Math.max(4, durs.length));
  const edges = Array.from({ length: bins + 1 }, (_, bin) => min + ((max - min) * bin) / bins);
  const counts = new Array<number>(bins).fill(0);
  for (const dur of durs) {
    const bin = max === min ? 0 : Math.floor(((dur - min) / (max - min)) * bins);
    counts[Math.min(bin, bins - 1)] = (counts[Math.min(bin, bins - 1)] ?? 0) + 1;
  }
  return {
    ...sums(durs),
    median: durs[durs.length >> 1] ?? 0,
    edges,
    counts,
    scale: "linear",
  };
}
