/** Answer the requests `panels` and `heatmap` from the page's data. */

import { isMetric, METRICS, withoutOwn } from "../facts/panels";
import type { PanelFrame, Reply, Requests, SelectionJson } from "../protocol/source";
import {
  binEdges,
  busyTimes,
  heatmap,
  heatmapNote,
  ofAllTimes,
  overlaps,
  type Part,
  spanOf,
  workOf,
} from "./busy";
import { countBelow, Pacer } from "./columns";
import type { PhasesHeader } from "./document";
import type { Job } from "./job";
import { Overview } from "./overview";
import { kernelDurations, kernels, operators } from "./panel_names";
import { Masks, matchedKinds, PanelRank } from "./panel_rank";
import { breakdown, idleCauses, kernelTypes, overlapRows, queues, steps } from "./panel_rows";
import { readSelection } from "./search";

const TOP = 200;
const TOP_DURATIONS = 12;
const MOST_BINS = 4096;
/** Frames of all panels for a few selections. */
const KEPT_FRAMES = 48;
const NO_PHASES: PhasesHeader = { names: [], labels: [] };

type Make = (parts: Part[], top: number | null) => PanelFrame;

/** Parts of the ranks that the page holds, and the chosen ranks whose events it lacks. */
interface Chosen {
  parts: Part[];
  missing: number[];
}

export class Panels {
  private readonly masks: Masks;
  private readonly made = new Map<number, Promise<PanelRank | null>>();
  private readonly frames: Record<string, Make>;
  /** Cached frames: a brush does not change the panels that write its dimension. */
  private readonly known = new Map<string, PanelFrame>();

  constructor(private readonly job: Job) {
    this.masks = new Masks(job.names);
    const { names, page } = job;
    this.frames = {
      breakdown,
      overlap: overlapRows,
      idle: idleCauses,
      queue: queues,
      kernel_types: kernelTypes,
      kernel_durations: (parts, top) =>
        kernelDurations(parts, names, Math.min(top ?? TOP_DURATIONS, TOP_DURATIONS)),
      kernels: (parts, top) => kernels(parts, names, top ?? TOP),
      operators: (parts, top) => operators(parts, names, top ?? TOP),
      steps: (parts) => steps(parts, page.phases ?? NO_PHASES),
      summary,
    };
  }

  async panels(request: Requests["panels"]): Promise<Reply> {
    const selection = readSelection(request.selection);
    const top = request.top ?? null;
    const panels: Record<string, PanelFrame> = {};
    const pacer = new Pacer();
    for (const id of request.panels) {
      const make = this.frames[id];
      if (make === undefined) {
        const known = Object.keys(this.frames).join(", ");
        throw new Error(`no panel ${JSON.stringify(id)}; the panels are ${known}`);
      }
      const own = withoutOwn(id, selection);
      const key = JSON.stringify([id, top, own]);
      let frame = this.known.get(key);
      if (frame === undefined) {
        const { parts, missing } = await this.chosen(own, pacer);
        frame = withMissing(make(parts, top), missing);
      }
      this.keep(key, frame);
      panels[id] = frame;
      await pacer.rest();
    }
    return { reply: { panels }, buffer: null };
  }

  private keep(key: string, frame: PanelFrame): void {
    this.known.delete(key);
    this.known.set(key, frame);
    for (const old of this.known.keys()) {
      if (this.known.size <= KEPT_FRAMES) break;
      this.known.delete(old);
    }
  }

  async heatmap({ start, end, metric, bins, ...request }: Requests["heatmap"]): Promise<Reply> {
    if (!isMetric(metric)) {
      throw new Error(
        `no metric ${JSON.stringify(metric)}; they are ${Object.keys(METRICS).join(", ")}`,
      );
    }
    if (!(end > start)) {
      throw new Error(`a window must end after it starts, not ${start} to ${end}`);
    }
    if (!(bins >= 1 && bins <= MOST_BINS)) {
      throw new Error(`bins must be within 1 … ${MOST_BINS}, not ${bins}`);
    }
    const selection = withoutOwn("heatmap", readSelection(request.selection));
    const chosen = await this.chosen(selection, new Pacer());
    const parts = chosen.parts.map(ofAllTimes);
    const values = heatmap(parts, metric, binEdges(start, end, bins));
    const counts = [0, 0, 0];
    for (const part of parts) {
      busyTimes(part).counts.forEach((count, kind) => (counts[kind] = counts[kind]! + count));
    }
    const note = heatmapNote(parts, metric, values);
    const attrs: Record<string, unknown> = {
      matched: matchedKinds(counts),
      span_ns: parts.map((part) => {
        const [first, last] = spanOf(part) ?? [0, 0];
        return Math.max(Math.min(last, end) - Math.max(first, start), 0);
      }),
    };
    if (note !== "") attrs.note = note;
    if (chosen.missing.length > 0) {
      Object.assign(attrs, { missing_ranks: chosen.missing, left_out: chosen.missing });
    }
    const ranks = parts.map(({ rank }) => rank.number);
    const reply = { ranks, start, end, bins, exact: true, attrs };
    return { reply, buffer: values.buffer as ArrayBuffer };
  }

  private async chosen(selection: SelectionJson, pacer: Pacer): Promise<Chosen> {
    const { start_ns: from, end_ns: to, ranks } = selection;
    const { scene } = this.job.page;
    // Events outside the window of an export do not represent the job.
    const [first, last] = scene.part ? scene.range : [-Infinity, Infinity];
    const low = Math.max(from ?? -Infinity, first);
    const high = Math.max(Math.min(to ?? Infinity, last), low);
    const parts: Part[] = [];
    const missing: number[] = [];
    for (const number of this.job.numbers) {
      if (ranks !== null && !ranks.includes(number)) continue;
      const rank = await this.rank(number);
      if (rank === null) {
        missing.push(number);
        continue;
      }
      await rank.ready(pacer);
      const mask = await this.masks.of(rank.rank, selection, pacer);
      parts.push({
        rank,
        mask,
        low,
        high,
        key: Masks.key(selection),
      });
    }
    return { parts, missing };
  }

  /** Null if the page has only an overview of the rank. */
  private rank(number: number): Promise<PanelRank | null> {
    let rank = this.made.get(number);
    if (rank === undefined) {
      rank = this.unpacked(number);
      this.made.set(number, rank);
    }
    return rank;
  }

  private async unpacked(number: number): Promise<PanelRank | null> {
    const collectives = await this.job.collectives();
    const rank = await this.job.rank(number);
    return rank instanceof Overview ? null : new PanelRank(rank, this.job.names, collectives);
  }
}

/** Add a note that names the chosen ranks whose events the page lacks. */
function withMissing(frame: PanelFrame, missing: readonly number[]): PanelFrame {
  if (missing.length === 0) return frame;
  const known = (frame.attrs.missing_ranks ?? []) as number[];
  const all = [...known, ...missing].sort((a, b) => a - b);
  return { ...frame, attrs: { ...frame.attrs, missing_ranks: all, left_out: missing } };
}

// Key figures of a selection.

interface Members {
  count: number;
  start: number;
  end: number;
}

function summary(parts: readonly Part[]): PanelFrame {
  let [events, device, ranks] = [0, 0, 0];
  let [start, end] = [Infinity, -Infinity];
  const calls = new Set<number>();
  for (const part of parts) {
    const found = part.rank.once("members", part, members);
    events += found.count;
    device += workOf(busyTimes(part));
    if (found.count > 0) ranks += 1;
    start = Math.min(start, found.start);
    end = Math.max(end, found.end);
    addCalls(part, calls);
  }
  const known = ranks > 0;
  return {
    rows: 1,
    columns: {
      events: [events],
      device_events: [device],
      collectives: [calls.size],
      ranks: [ranks],
      start_ns: [known ? start : null],
      end_ns: [known ? end : null],
    },
    attrs: known ? {} : { note: "no events are selected" },
  };
}

function members(part: Part): Members {
  const { rank, mask, low, high } = part;
  if (mask === null) {
    const [start, end] = rank.events.extent(part);
    return { count: rank.events.within(part), start, end };
  }
  const { start, dur } = rank.rank.events;
  const found: Members = { count: 0, start: Infinity, end: -Infinity };
  const last = low === high ? 0 : countBelow(start, high);
  for (let row = 0; row < last; row += 1) {
    if (mask[row] === 0) continue;
    const from = start[row]!;
    const to = from + dur[row]!;
    if (!overlaps(from, to, low)) continue;
    found.count += 1;
    if (from < found.start) found.start = from;
    if (to > found.end) found.end = to;
  }
  if (found.start < low) found.start = low;
  if (found.end > high) found.end = high;
  return found;
}

/** Add the collectives that have an event in the part. */
function addCalls({ rank, mask, low, high }: Part, calls: Set<number>): void {
  const { id, start, dur, call } = rank.matched;
  if (low === high) return;
  // Sorted by start: all from there on start too late.
  const last = countBelow(start, high);
  for (let i = 0; i < last; i += 1) {
    if (mask !== null && mask[id[i]!] === 0) continue;
    if (overlaps(start[i]!, start[i]! + dur[i]!, low)) calls.add(call[i]!);
  }
}
