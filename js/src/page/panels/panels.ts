/** Answers `panels` and `heatmap` from what the page holds of a job. */

import type { Reply, SelectionJson } from "../../contract";
import { withoutOwn } from "../../dash/catalog";
import type { PanelFrame } from "../../dash/types";
import type { PhasesHeader } from "../document";
import type { Job } from "../job";
import { Overview } from "../overview";
import { Pacer } from "../pacer";
import { readSelection } from "../selection";
import { busyTimes, spanOf } from "./busy_times";
import { kernelDurations, kernels, operators } from "./frames_by_name";
import { breakdown, idleCauses, kernelTypes, overlapRows, queues, steps } from "./frames_by_rank";
import { binEdges, heatmap, heatmapNote, type Metric, METRICS } from "./heatmap";
import { Masks } from "./masks";
import { matchedKinds } from "./notes";
import { ofAllTimes, type Part } from "./part";
import { PanelRank } from "./panel_rank";
import { summary } from "./summary";

const TOP = 200;
const TOP_DURATIONS = 12;
const MOST_BINS = 4096;
/** Frames of all panels for a few selections. */
const KEPT_FRAMES = 48;
const NO_PHASES: PhasesHeader = { names: [], labels: [] };

type Request = Record<string, unknown>;
type Make = (parts: Part[], top: number | null) => PanelFrame;

/** Parts of the ranks that the page holds, and the chosen ones of which it lacks events. */
interface Chosen {
  parts: Part[];
  missing: number[];
}

export class Panels {
  private readonly masks: Masks;
  private readonly made = new Map<number, Promise<PanelRank | null>>();
  private readonly frames: Record<string, Make>;
  /** A brush leaves the panels as they are that write what it brushes. */
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

  async panels(request: Request): Promise<Reply> {
    const selection = readSelection(request.selection);
    const top = request.top === null || request.top === undefined ? null : Number(request.top);
    const panels: Record<string, PanelFrame> = {};
    const pacer = new Pacer();
    for (const id of request.panels as string[]) {
      const make = this.frames[id];
      if (make === undefined) {
        const known = Object.keys(this.frames).join(", ");
        throw new Error(`there is no panel ${JSON.stringify(id)}; the panels are ${known}`);
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

  async heatmap(request: Request): Promise<Reply> {
    const metric = String(request.metric) as Metric;
    const [start, end, bins] = [request.start, request.end, request.bins].map(Number) as [
      number,
      number,
      number,
    ];
    if (!METRICS.includes(metric)) {
      throw new Error(`no metric ${JSON.stringify(metric)}; they are ${METRICS.join(", ")}`);
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
    // What events do outside of the window of an export says nothing of the job.
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

  /** Null where the page has an overview of the rank only. */
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

/** Say of which chosen ranks the page lacks events. */
function withMissing(frame: PanelFrame, missing: readonly number[]): PanelFrame {
  if (missing.length === 0) return frame;
  const known = (frame.attrs.missing_ranks ?? []) as number[];
  const all = [...known, ...missing].sort((a, b) => a - b);
  return { ...frame, attrs: { ...frame.attrs, missing_ranks: all, left_out: missing } };
}
