/** Write a selection as a trace file in the browser. */

import type { Answer, Requests, Scene, SelectionJson } from "../protocol/source";
import { readSelection } from "../protocol/selection";
import { type JsonText, type Names, readJson } from "./columns";
import { notEmbedded, type TrackHeader } from "./document";
import type { Job } from "./job";
import { Overview } from "./overview";
import type { Args, Rank } from "./rank";

/** Offers a file to the user. */
export type Save = (name: string, file: Blob) => void;

/** Answer `export`. */
export async function exportSelection(
  job: Job,
  request: Requests["export"],
  save: Save,
): Promise<Answer<"export">> {
  if (request.scrub === true) {
    throw new Error(
      "A saved page does not know which texts name hosts, users or paths. " +
        'Leave "scrub" off, or export from Python.',
    );
  }
  const selection = readSelection(request.selection);
  const parts = await partsOf(job, selection);
  if (parts.length === 0) {
    throw new Error("Nothing to export: the selection holds no events of this page.");
  }
  const options: FileOptions = { clip: request.clip === true, counters: request.counters === true };
  const file = new TraceFile(parts, selection, options, job.names, job.page.scene);
  const { text, written } = await file.write(job.page.origin_ns);
  const name = fileName(request.path);
  const blob = await asFile(text, name);
  save(name, blob);
  return { reply: { path: name, ...written, bytes: blob.size }, buffer: null };
}

async function partsOf(job: Job, selection: SelectionJson): Promise<RankPart[]> {
  const parts: RankPart[] = [];
  for (const number of selection.ranks ?? job.numbers) {
    const rank = await job.rank(number);
    if (rank instanceof Overview) throw new Error(notEmbedded(number));
    const members = await job.masks.members(rank, selection);
    if (members.length === 0) continue;
    const args = job.args(rank);
    // A trace without arguments would look complete although it is not.
    if (args.missing !== null) throw new Error(`Rank ${number}: ${args.missing}`);
    parts.push({ rank, args, rows: withParents(rank, members) });
  }
  return parts;
}

/** Reduce a path to its name: a browser saves to its own folder. */
function fileName(path: string): string {
  const name = path.split(/[/\\]/).at(-1) ?? "";
  if (name === "") return "window.json";
  return /\.json(\.gz)?$/i.test(name) ? name : `${name}.json`;
}

async function asFile(text: string, name: string): Promise<Blob> {
  const plain = new Blob([text], { type: "application/json" });
  if (!name.toLowerCase().endsWith(".gz")) return plain;
  const stream = plain.stream().pipeThrough(new CompressionStream("gzip"));
  return new Blob([await new Response(stream).arrayBuffer()], { type: "application/gzip" });
}

// Write member events as Chrome trace JSON, from the data in the page.

/** The mark, and the ranges of ids, of files that hold several ranks. */
const MARK = "hta_widgets";
const PID_STRIDE = 100_000;
const ID_STRIDE = 10 ** 12;
const ID_ARGS = ["correlation", "External id", "external id", "wait_on_cuda_event_record_corr_id"];

interface FileOptions {
  clip: boolean;
  counters: boolean;
}

interface RankPart {
  rank: Rank;
  args: Args;
  /** Members and the events that enclose them, ascending. */
  rows: number[];
}

interface Written {
  events: number;
  flows: number;
  dropped: number;
}

/** Events of a rank and those that enclose them, ascending. */
function withParents(rank: Rank, members: Int32Array): number[] {
  const chosen = new Set<number>(members);
  const parents = rank.parents();
  for (const row of members) {
    for (let at = parents[row]!; at >= 0 && !chosen.has(at); at = parents[at]!) chosen.add(at);
  }
  return [...chosen].sort((a, b) => a - b);
}

/** A time in µs, exactly. */
export function micros(ns: number): string {
  const whole = Math.floor(Math.abs(ns) / 1000);
  const rest = Math.abs(ns) % 1000;
  const digits = rest === 0 ? String(whole) : `${whole}.${String(rest).padStart(3, "0")}`;
  return ns < 0 ? `-${digits}` : digits;
}

class TraceFile {
  private readonly records: string[] = [];
  private readonly written: Written = { events: 0, flows: 0, dropped: 0 };
  private readonly several: boolean;
  private flowId = 0;

  constructor(
    private readonly parts: readonly RankPart[],
    private readonly selection: SelectionJson,
    private readonly options: FileOptions,
    private readonly names: Names,
    private readonly scene: Scene,
  ) {
    this.several = parts.length > 1;
  }

  async write(originNs: string | null): Promise<{ text: string; written: Written }> {
    const marks = this.parts.map((part) => this.mark(part, BigInt(originNs ?? 0)));
    for (const part of this.parts) {
      const pids = this.describe(part.rank);
      await this.events(part, pids);
      this.flows(part, pids);
      this.counters(part, pids);
    }
    const head: string[] = [];
    const ranks = this.parts.map(({ rank }) => rank.number);
    if (this.several) {
      const told = ranks.map((rank, at) => {
        const metadata = marks[at] === "" ? "" : `${quoted(MARK)}: ${marks[at]!}`;
        return `{"rank": ${rank}, "file": "rank-${rank}", "shift_ns": 0, "metadata": {${metadata}}}`;
      });
      head.push(`${quoted(MARK)}: {"merged": 1, "ranks": [${told.join(", ")}]}`);
    } else {
      if (marks[0] !== "") head.push(`${quoted(MARK)}: ${marks[0]!}`);
      head.push(`"distributedInfo": {"rank": ${ranks[0]!}}`);
    }
    head.push('"schemaVersion": 1', '"displayTimeUnit": "ms"');
    if (originNs !== null) head.push(`"baseTimeNanoseconds": ${originNs}`);
    const text = `{\n${head.join(",\n")},\n"traceEvents": [\n${this.records.join(",\n")}\n]\n}\n`;
    return { text, written: this.written };
  }

  /**
   * Mark that describes which part of the rank's job the file holds; empty if it holds all of it.
   */
  private mark({ rank, rows }: RankPart, origin: bigint): string {
    const { query, ids, tracks, start_ns: from, end_ns: to } = this.selection;
    const { part, range, ranks } = this.scene;
    const byEvent = query !== null || ids !== null || tracks !== null;
    const whole = (part ?? null) === null && this.parts.length === ranks.length;
    if (whole && !byEvent && from === null && to === null) return "";
    const { start, dur } = rank.events;
    const work = rank.header.work ?? rank.workEdges();
    let [low, high] = this.window({ rank, rows });
    const limits = (part ?? null) === null ? rank.header.range : range;
    [low, high] = [Math.max(low, limits[0]), Math.min(high, limits[1])];
    const cut = rows.filter((row) => start[row]! < low || start[row]! + dur[row]! > high).length;
    const [first, last] = rank.header.range;
    const allTime = low <= first && high >= last && part?.all_time !== false;
    const at = (time: number): string => String(origin + BigInt(time));
    const said = [
      `"start_ns": ${at(low)}, "end_ns": ${at(high)}`,
      `"work_start_ns": ${work === null ? 0 : at(work[0])}`,
      `"work_end_ns": ${work === null ? 0 : at(work[1])}`,
      `"cut_events": ${cut}, "all_events": ${String(!byEvent && part?.all_events !== false)}`,
      `"all_time": ${String(allTime)}`,
      `"job_ranks": ${Math.max(ranks.length, part?.job_ranks ?? 0)}`,
    ];
    return `{"part": {${said.join(", ")}}}`;
  }

  /** Names of processes and threads; returns the number of each process in the file. */
  private describe(rank: Rank): Map<string, string> {
    const pids = new Map<string, string>();
    const tracks = rank.header.tracks.filter(isOfEvents);
    for (const track of tracks) {
      if (pids.has(track.pid)) continue;
      const own = bare(track.pid);
      const pid = this.several ? String(rank.number * PID_STRIDE + pids.size + 1) : own;
      pids.set(track.pid, pid);
      if (this.several) this.meta(MARK, pid, "0", `{"rank": ${rank.number}, "pid": ${own}}`);
      const name = this.several ? `rank ${rank.number} · ${track.process}` : track.process;
      const kept = this.several ? `, ${quoted(MARK)}: {"name": ${quoted(track.process)}}` : "";
      this.meta("process_name", pid, "0", `{"name": ${quoted(name)}${kept}}`);
    }
    for (const track of tracks) {
      if (track.role === "annotation") continue;
      this.meta(
        "thread_name",
        pids.get(track.pid)!,
        bare(track.tid),
        `{"name": ${quoted(track.label)}}`,
      );
    }
    return pids;
  }

  private meta(name: string, pid: string, tid: string, args: string): void {
    this.records.push(
      `{"name": ${quoted(name)}, "ph": "M", "pid": ${pid}, "tid": ${tid}, "args": ${args}}`,
    );
  }

  private async events({ rank, args, rows }: RankPart, pids: Map<string, string>): Promise<void> {
    const { start, dur, lane } = rank.events;
    for (const row of rows) {
      const [name, category] = rank.typeOf(rank.events, row);
      const track = rank.trackAt(lane[row]!)!;
      const [from, to] = this.clipped(start[row]!, start[row]! + dur[row]!);
      const texts = await args.texts_of("events", row);
      const was = this.was(start[row]!, dur[row]!, from, to);
      const own = this.args(texts, rank, was);
      this.records.push(
        `{"ph": "X", "cat": ${quoted(this.names.category(category))}, ` +
          `"name": ${quoted(this.names.full(name))}, ` +
          `"pid": ${pids.get(track.pid)!}, "tid": ${bare(track.tid)}, ` +
          `"ts": ${micros(from)}, "dur": ${micros(to - from)}${own === "" ? "" : `, "args": ${own}`}}`,
      );
      this.written.events += 1;
    }
  }

  private clipped(start: number, end: number): [number, number] {
    if (!this.options.clip) return [start, end];
    const { start_ns: low, end_ns: high } = this.selection;
    return [low === null ? start : Math.max(start, low), high === null ? end : Math.min(end, high)];
  }

  /** Original start and duration of a cut event, as JSON. */
  private was(start: number, dur: number, from: number, to: number): string {
    const said: string[] = [];
    if (from !== start) said.push(`"ts": ${micros(start)}`);
    if (to - from !== dur) said.push(`"dur": ${micros(dur)}`);
    return said.length === 0 ? "" : `{${said.join(", ")}}`;
  }

  /** The file's own text of the args, unless it needs changes. */
  private args(texts: readonly string[], rank: Rank, was: string): string {
    if (texts.length === 1 && was === "" && !this.several) return texts[0]!;
    const pairs: [string, JsonText][] = [];
    for (const text of texts) {
      const value = readJson(text);
      if (value.pairs === null) pairs.push(["args", value]);
      else pairs.push(...value.pairs);
    }
    const written = pairs.map(([key, { json }]) => {
      const scoped = this.several && ID_ARGS.includes(key) ? scopedId(json, rank.number) : json;
      return `${quoted(key)}: ${scoped}`;
    });
    if (was !== "") written.push(`"hta_clipped": ${was}`);
    return written.length === 0 ? "" : `{${written.join(", ")}}`;
  }

  /** Arrows recorded in the file whose ends are both written. */
  private flows({ rank, rows }: RankPart, pids: Map<string, string>): void {
    const { kind, source, target, stated } = rank.flows();
    const { start, dur, lane } = rank.events;
    const chosen = new Set(rows);
    kind.forEach((code, at) => {
      if (stated[at] === 0) return;
      const [tail, head] = [source[at]!, target[at]!];
      const ends = Number(chosen.has(tail)) + Number(chosen.has(head));
      if (ends < 2) {
        this.written.dropped += ends;
        return;
      }
      this.flowId += 1;
      const name = rank.header.flow_kinds[code] ?? "flow";
      const category = name === "launch" ? "ac2g" : name;
      const [from, to] = this.clipped(start[tail]!, start[tail]! + dur[tail]!);
      const write = (phase: string, row: number, time: number): void => {
        const track = rank.trackAt(lane[row]!)!;
        this.records.push(
          `{"ph": ${phase}, "id": ${this.flowId}, "cat": ${quoted(category)}, "name": ${quoted(category)}, ` +
            `"pid": ${pids.get(track.pid)!}, "tid": ${bare(track.tid)}, "ts": ${micros(time)}}`,
        );
      };
      write('"s"', tail, Math.min(from, to));
      write('"f", "bp": "e"', head, this.clipped(start[head]!, start[head]! + dur[head]!)[0]);
      this.written.flows += 1;
    });
  }

  private counters({ rank, rows }: RankPart, pids: Map<string, string>): void {
    const window = this.window({ rank, rows });
    for (const track of rank.header.tracks) {
      if (track.role !== "counter") continue;
      const { times, values } = rank.counterOf(track);
      times.forEach((time, at) => {
        if (time < window[0] || time >= window[1]) return;
        if (!this.options.counters) {
          this.written.dropped += 1;
          return;
        }
        const pid = pids.get(track.pid) ?? bare(track.pid);
        this.records.push(
          `{"ph": "C", "name": ${quoted(track.counter_name)}, "pid": ${pid}, "ts": ${micros(time)}, ` +
            `"args": {${quoted(track.counter_series)}: ${String(values[at]!)}}}`,
        );
      });
    }
  }

  /** The selection's window; a side that it leaves open ends with the selected events. */
  private window({ rank, rows }: Pick<RankPart, "rank" | "rows">): [number, number] {
    const { start, dur } = rank.events;
    const { start_ns: low, end_ns: high, query, ids, tracks } = this.selection;
    const byEvent = query !== null || ids !== null || tracks !== null;
    const last = (): number => rows.reduce((end, row) => Math.max(end, start[row]! + dur[row]!), 0);
    return [
      low ?? (byEvent ? start[rows[0]!]! : Number.NEGATIVE_INFINITY),
      high ?? (byEvent ? last() + 1 : Number.POSITIVE_INFINITY),
    ];
  }
}

function isOfEvents({ role }: TrackHeader): boolean {
  return role !== "counter" && role !== "async" && role !== "instant";
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

/** Ids of processes and threads; written as numbers if the file may have had numbers. */
function bare(id: string): string {
  return /^\d+$/.test(id) ? id : quoted(id);
}

/** An id that is unique among the ranks of the file. */
function scopedId(json: string, rank: number): string {
  if (json.startsWith("-") || json === "null") return json;
  if (/^\d{1,12}$/.test(json) && (rank + 1) * ID_STRIDE < 2 ** 53) {
    return String(rank * ID_STRIDE + Number(json));
  }
  return quoted(`${rank}:${json}`);
}

// Offers a file to the user's browser.

export function download(name: string, file: Blob): void {
  // A host that keeps files elsewhere takes them from this event.
  const offer = new CustomEvent("hta-save", { detail: { name, file }, cancelable: true });
  if (!document.dispatchEvent(offer)) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // The download begins while the click is handled; the URL can be revoked later.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
