/** Write a selection to a trace file in the browser. */

import type { Exported, Requests, Scene, SelectionJson } from "../protocol/source";
import { normalizeSelection } from "../protocol/selection";
import { type JsonText, type NameTable, readJson } from "./columns";
import { notEmbeddedMessage } from "./document";
import type { PageJob } from "./job";
import { RankOverview } from "./overview";
import type { ArgsReader, RankTrace } from "./rank";

/** Offer a file to the user. */
export type SaveFile = (name: string, file: Blob) => void;

export async function exportSelection(
  job: PageJob,
  request: Requests["export"],
  save: SaveFile,
): Promise<Exported> {
  if (request.scrub === true) {
    throw new Error(
      "A saved page cannot tell which texts contain host names, users or paths. " +
        'Leave "scrub" off, or export from Python.',
    );
  }
  const selection = normalizeSelection(request.selection);
  const parts = await collectParts(job, selection, request);
  if (parts.length === 0) {
    throw new Error("Nothing to export: the selection holds no events of this page.");
  }
  const options: FileOptions = { clip: request.clip === true, counters: request.counters === true };
  const file = new TraceWriter(parts, selection, options, job.names, job.page.scene);
  const { text, written } = await file.write(job.page.origin_ns);
  const name = fileName(request.path);
  const blob = await toBlob(text, name);
  save(name, blob);
  return { path: name, ...written, bytes: blob.size };
}

async function collectParts(
  job: PageJob,
  selection: SelectionJson,
  request: Requests["export"],
): Promise<RankExport[]> {
  const parts: RankExport[] = [];
  for (const number of selection.ranks ?? job.rankNumbers) {
    const rank = await job.loadRank(number);
    if (rank instanceof RankOverview) throw new Error(notEmbeddedMessage(number));
    const selected = await job.masks.memberRows(rank, selection);
    if (selected.length === 0) continue;
    const members = request.launches === true ? withLaunches(rank, selected, request) : selected;
    const args = job.argsOf(rank);
    // A trace without its arguments would appear to be complete.
    if (args.missing !== null) throw new Error(`Rank ${number}: ${args.missing}`);
    parts.push({ rank, args, rows: rowsWithParents(rank, members) });
  }
  return parts;
}

/** Return the file name of a path: browsers save to their downloads folder. */
function fileName(path: string): string {
  const name = path.split(/[/\\]/).at(-1) ?? "";
  if (name === "") return "window.json";
  return /\.json(\.gz)?$/i.test(name) ? name : `${name}.json`;
}

async function toBlob(text: string, name: string): Promise<Blob> {
  const plain = new Blob([text], { type: "application/json" });
  if (!name.toLowerCase().endsWith(".gz")) return plain;
  const stream = plain.stream().pipeThrough(new CompressionStream("gzip"));
  return new Blob([await new Response(stream).arrayBuffer()], { type: "application/gzip" });
}

// Write events as Chrome trace JSON, using only the data in the page.

/** Key of the fields that this package adds to a file, and the offset between the ranks' ids. */
const MARKER = "hta_widgets";
const PID_STRIDE = 100_000;
const ID_STRIDE = 10 ** 12;
const ID_ARGS = ["correlation", "External id", "external id", "wait_on_cuda_event_record_corr_id"];

interface FileOptions {
  clip: boolean;
  counters: boolean;
}

interface RankExport {
  rank: RankTrace;
  args: ArgsReader;
  /** Selected events and the events that enclose them, ascending. */
  rows: number[];
}

interface WriteCounts {
  events: number;
  flows: number;
  dropped: number;
}

/** Add the calls that launched the events. If events are cut, add only calls in the window. */
function withLaunches(
  rank: RankTrace,
  members: Int32Array,
  { clip, selection }: Requests["export"],
): number[] {
  const { start_ns: low, end_ns: high } = normalizeSelection(clip === true ? selection : null);
  const { start, dur } = rank.events;
  const calls = rank.launches();
  const isInside = (call: number): boolean =>
    call >= 0 &&
    (high === null || start[call]! < high) &&
    (low === null || start[call]! + dur[call]! > low);
  return [...members, ...Array.from(members, (row) => calls[row]!).filter(isInside)];
}

/** Add the events that enclose the selected ones. Return the rows in ascending order. */
function rowsWithParents(rank: RankTrace, members: Iterable<number>): number[] {
  const selected = new Set<number>(members);
  const parents = rank.parents();
  for (const row of members) {
    let ancestor = parents[row]!;
    while (ancestor >= 0 && !selected.has(ancestor)) {
      selected.add(ancestor);
      ancestor = parents[ancestor]!;
    }
  }
  return [...selected].sort((a, b) => a - b);
}

/** Format a time as an exact number of µs. */
export function formatMicros(ns: number): string {
  const microseconds = Math.floor(Math.abs(ns) / 1000);
  const remainder = Math.abs(ns) % 1000;
  const fraction = remainder === 0 ? "" : `.${String(remainder).padStart(3, "0")}`;
  const digits = `${microseconds}${fraction}`;
  return ns < 0 ? `-${digits}` : digits;
}

class TraceWriter {
  private readonly records: string[] = [];
  private readonly written: WriteCounts = { events: 0, flows: 0, dropped: 0 };
  /** Whether the file contains several ranks. */
  private readonly isMerged: boolean;
  /** Whether the selection has limits other than ranks and window. */
  private readonly byEvent: boolean;
  private flowId = 0;

  constructor(
    private readonly parts: readonly RankExport[],
    private readonly selection: SelectionJson,
    private readonly options: FileOptions,
    private readonly names: NameTable,
    private readonly scene: Scene,
  ) {
    const { query, ids, tracks } = selection;
    this.isMerged = parts.length > 1;
    this.byEvent = query !== null || ids !== null || tracks !== null;
  }

  async write(originNs: string | null): Promise<{ text: string; written: WriteCounts }> {
    for (const part of this.parts) {
      const pids = this.writeMetadata(part.rank);
      await this.writeEvents(part, pids);
      this.writeFlows(part, pids);
      this.writeCounters(part, pids);
    }
    const head = this.headFields(originNs).join(",\n");
    const text = `{\n${head},\n"traceEvents": [\n${this.records.join(",\n")}\n]\n}\n`;
    return { text, written: this.written };
  }

  private headFields(originNs: string | null): string[] {
    const fields = ['"schemaVersion": 1', '"displayTimeUnit": "ms"'];
    if (originNs !== null) fields.push(`"baseTimeNanoseconds": ${originNs}`);
    const markers = this.parts.map((part) => this.partMarker(part, BigInt(originNs ?? 0)));
    const ranks = this.parts.map(({ rank }) => rank.number);
    if (!this.isMerged) {
      return [markers[0]!, `"distributedInfo": {"rank": ${ranks[0]!}}`, ...fields].filter(Boolean);
    }
    const rankRecords = ranks.map(
      (rank, index) =>
        `{"rank": ${rank}, "file": "rank-${rank}", "shift_ns": 0, "metadata": {${markers[index]!}}}`,
    );
    const merged = `{"merged": 1, "ranks": [${rankRecords.join(", ")}]}`;
    return [`${jsonString(MARKER)}: ${merged}`, ...fields];
  }

  /** Return the field that states which part of the rank and job is in the file; "" if all is. */
  private partMarker({ rank, rows }: RankExport, originNs: bigint): string {
    const { start_ns: from, end_ns: to } = this.selection;
    const { range, ranks } = this.scene;
    const part = this.scene.part ?? null;
    const isWholeJob = part === null && this.parts.length === ranks.length;
    if (isWholeJob && !this.byEvent && from === null && to === null) return "";
    const { start, dur } = rank.events;
    const work = rank.header.work ?? rank.workExtent();
    const [first, last] = rank.header.range;
    const [minLow, maxHigh] = part === null ? [first, last] : range;
    const window = this.exportWindow({ rank, rows });
    const [low, high] = [Math.max(window[0], minLow), Math.min(window[1], maxHigh)];
    const cut = rows.filter((row) => start[row]! < low || start[row]! + dur[row]! > high).length;
    const allTime = low <= first && high >= last && part?.all_time !== false;
    const timeText = (time: number): string => String(originNs + BigInt(time));
    const fields = [
      `"start_ns": ${timeText(low)}, "end_ns": ${timeText(high)}`,
      `"work_start_ns": ${work === null ? 0 : timeText(work[0])}`,
      `"work_end_ns": ${work === null ? 0 : timeText(work[1])}`,
      `"cut_events": ${cut}, "all_events": ${String(!this.byEvent && part?.all_events !== false)}`,
      `"all_time": ${String(allTime)}`,
      `"job_ranks": ${Math.max(ranks.length, part?.job_ranks ?? 0)}`,
    ];
    return `${jsonString(MARKER)}: {"part": {${fields.join(", ")}}}`;
  }

  /** Write the names of processes and threads. Return the id of each process in the file. */
  private writeMetadata(rank: RankTrace): Map<string, string> {
    const pids = new Map<string, string>();
    const tracks = rank.header.tracks.filter(
      ({ role }) => !["counter", "async", "instant"].includes(role),
    );
    for (const track of tracks) {
      if (pids.has(track.pid)) continue;
      const rawPid = idLiteral(track.pid);
      const pid = this.isMerged ? String(rank.number * PID_STRIDE + pids.size + 1) : rawPid;
      pids.set(track.pid, pid);
      if (this.isMerged)
        this.writeMetaRecord(MARKER, pid, "0", `{"rank": ${rank.number}, "pid": ${rawPid}}`);
      const name = this.isMerged ? `rank ${rank.number} · ${track.process}` : track.process;
      const original = `, ${jsonString(MARKER)}: {"name": ${jsonString(track.process)}}`;
      const args = `{"name": ${jsonString(name)}${this.isMerged ? original : ""}}`;
      this.writeMetaRecord("process_name", pid, "0", args);
    }
    for (const track of tracks) {
      if (track.role === "annotation") continue;
      const name = `{"name": ${jsonString(track.label)}}`;
      this.writeMetaRecord("thread_name", pids.get(track.pid)!, idLiteral(track.tid), name);
    }
    return pids;
  }

  private writeMetaRecord(name: string, pid: string, tid: string, args: string): void {
    this.records.push(
      `{"name": ${jsonString(name)}, "ph": "M", "pid": ${pid}, "tid": ${tid}, "args": ${args}}`,
    );
  }

  private async writeEvents(
    { rank, args, rows }: RankExport,
    pids: Map<string, string>,
  ): Promise<void> {
    const { start, dur, lane } = rank.events;
    for (const row of rows) {
      const [name, category] = rank.typeOf(rank.events, row);
      const track = rank.trackAt(lane[row]!)!;
      const [from, to] = this.clipToSelection(start[row]!, start[row]! + dur[row]!);
      const texts = await args.textsOf("events", row);
      const originalTimes = this.originalTimes(start[row]!, dur[row]!, from, to);
      const argsJson = this.formatArgs(texts, rank, originalTimes);
      const argsField = argsJson === "" ? "" : `, "args": ${argsJson}`;
      this.records.push(
        `{"ph": "X", "cat": ${jsonString(this.names.category(category))}, ` +
          `"name": ${jsonString(this.names.full(name))}, ` +
          `"pid": ${pids.get(track.pid)!}, "tid": ${idLiteral(track.tid)}, ` +
          `"ts": ${formatMicros(from)}, "dur": ${formatMicros(to - from)}${argsField}}`,
      );
      this.written.events += 1;
    }
  }

  private clipToSelection(start: number, end: number): [number, number] {
    if (!this.options.clip) return [start, end];
    const { start_ns: low, end_ns: high } = this.selection;
    return [low === null ? start : Math.max(start, low), high === null ? end : Math.min(end, high)];
  }

  private originalTimes(start: number, dur: number, from: number, to: number): string {
    const fields: string[] = [];
    if (from !== start) fields.push(`"ts": ${formatMicros(start)}`);
    if (to - from !== dur) fields.push(`"dur": ${formatMicros(dur)}`);
    return fields.length === 0 ? "" : `{${fields.join(", ")}}`;
  }

  /** Return the args as text, exactly as in the original file if nothing in it must change. */
  private formatArgs(texts: readonly string[], rank: RankTrace, originalTimes: string): string {
    if (texts.length === 1 && originalTimes === "" && !this.isMerged) return texts[0]!;
    const pairs: [string, JsonText][] = [];
    for (const text of texts) {
      const value = readJson(text);
      if (value.pairs === null) pairs.push(["args", value]);
      else pairs.push(...value.pairs);
    }
    const fields = pairs.map(([key, { json }]) => {
      const scoped = this.isMerged && ID_ARGS.includes(key) ? scopedId(json, rank.number) : json;
      return `${jsonString(key)}: ${scoped}`;
    });
    if (originalTimes !== "") fields.push(`"hta_clipped": ${originalTimes}`);
    return fields.length === 0 ? "" : `{${fields.join(", ")}}`;
  }

  /** Write the original file's arrows if both of their ends are in the file. */
  private writeFlows({ rank, rows }: RankExport, pids: Map<string, string>): void {
    const { kind, source, target, stated } = rank.flows();
    const { start, dur, lane } = rank.events;
    const selected = new Set(rows);
    kind.forEach((code, flow) => {
      if (stated[flow] === 0) return;
      const [tail, head] = [source[flow]!, target[flow]!];
      const endsInFile = Number(selected.has(tail)) + Number(selected.has(head));
      if (endsInFile < 2) {
        this.written.dropped += endsInFile;
        return;
      }
      this.flowId += 1;
      const kindName = rank.header.flow_kinds[code] ?? "flow";
      const name = jsonString(kindName === "launch" ? "ac2g" : kindName);
      const timesOf = (row: number) => this.clipToSelection(start[row]!, start[row]! + dur[row]!);
      const writeEnd = (phase: string, row: number, time: number): void => {
        const track = rank.trackAt(lane[row]!)!;
        this.records.push(
          `{"ph": ${phase}, "id": ${this.flowId}, "cat": ${name}, "name": ${name}, ` +
            `"pid": ${pids.get(track.pid)!}, "tid": ${idLiteral(track.tid)}, "ts": ${formatMicros(time)}}`,
        );
      };
      // The clipped end of an enclosing event that ends before the window would precede its start.
      writeEnd('"s"', tail, Math.min(...timesOf(tail)));
      writeEnd('"f", "bp": "e"', head, timesOf(head)[0]);
      this.written.flows += 1;
    });
  }

  private writeCounters({ rank, rows }: RankExport, pids: Map<string, string>): void {
    const window = this.exportWindow({ rank, rows });
    for (const track of rank.header.tracks) {
      if (track.role !== "counter") continue;
      const { times, values } = rank.counterSeries(track);
      times.forEach((time, sample) => {
        if (time < window[0] || time >= window[1]) return;
        if (!this.options.counters) {
          this.written.dropped += 1;
          return;
        }
        const pid = pids.get(track.pid) ?? idLiteral(track.pid);
        // Files have no gaps: a missing value (NaN) is written as 0.
        const value = String(values[sample] || 0);
        this.records.push(
          `{"ph": "C", "name": ${jsonString(track.counter_name)}, "pid": ${pid}, "ts": ${formatMicros(time)}, ` +
            `"args": {${jsonString(track.counter_series)}: ${value}}}`,
        );
      });
    }
  }

  /** Return the window of the selection. Open ends become the ends of the selected events. */
  private exportWindow({ rank, rows }: Pick<RankExport, "rank" | "rows">): [number, number] {
    const { start, dur } = rank.events;
    const { start_ns: low, end_ns: high } = this.selection;
    const last = (): number => rows.reduce((end, row) => Math.max(end, start[row]! + dur[row]!), 0);
    return [
      low ?? (this.byEvent ? start[rows[0]!]! : -Infinity),
      high ?? (this.byEvent ? last() + 1 : Infinity),
    ];
  }
}

function jsonString(text: string): string {
  return JSON.stringify(text);
}

/** Return the id of a process or thread as JSON: a number if it consists of digits. */
function idLiteral(id: string): string {
  return /^\d+$/.test(id) ? id : jsonString(id);
}

/** Return an id that is unique across the ranks of the file. */
function scopedId(json: string, rank: number): string {
  if (json.startsWith("-") || json === "null") return json;
  if (/^\d{1,12}$/.test(json) && (rank + 1) * ID_STRIDE < 2 ** 53) {
    return String(rank * ID_STRIDE + Number(json));
  }
  return jsonString(`${rank}:${json}`);
}

/** Let the browser save a file. */
export function download(name: string, file: Blob): void {
  // A host that stores files elsewhere handles this event.
  const offer = new CustomEvent("hta-save", { detail: { name, file }, cancelable: true });
  if (!document.dispatchEvent(offer)) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // The download starts during the click, so the URL can be revoked later.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
