/** Answer the requests `panels` and `heatmap` from the page's data. */

import { noteFor } from "../facts/notes";
import { isMetric, METRICS, withoutOwn } from "../facts/panels";
import { getOrMake } from "../protocol/maps";
import type { Answer, GapReply, PanelFrame, Requests, SelectionJson } from "../protocol/source";
import { readSelection } from "../protocol/selection";
import { callTree } from "./call_tree";
import { Pacer, picked, positions } from "./columns";
import { binEdges, deviceOf, heatmap, spanOf, workOf } from "./device";
import type { PhasesHeader } from "./document";
import { countsOf, heatmapNote, matchedKinds } from "./frames";
import { gapAt } from "./gaps";
import { gapsOf } from "./idle";
import type { Job } from "./job";
import { checkBins, checkWindow } from "./lookups";
import { Lru } from "./lru";
import { Masks } from "./masks";
import { operatorSums } from "./operators";
import { kernelDurations, kernels, operators } from "./panel_names";
import { isChosen, matchedIn, ofAllTimes, type PanelRank, type Part } from "./panel_rank";
import { breakdown, idleCauses, kernelTypes, overlapRows, queues } from "./panel_rows";
import { queuesIn } from "./queues";
import { Spans } from "./spans";
import { steps } from "./steps";

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
  private readonly made = new Map<number, Promise<PanelRank | null>>();
  private readonly frames: Record<string, Make>;
  /** Cached frames: a brush does not change the panels that write its dimension. */
  private readonly known = new Lru<string, Promise<PanelFrame>>(KEPT_FRAMES);

  constructor(private readonly job: Job) {
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
      call_tree: (parts) => callTree(parts, names, "host"),
      call_tree_device: (parts) => callTree(parts, names, "device"),
      steps: (parts) => steps(parts, page.phases ?? NO_PHASES),
      summary,
    };
  }

  async panels(request: Requests["panels"]): Promise<Answer<"panels">> {
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
      panels[id] = await this.known.get(key, async () => {
        const { parts, missing } = await this.chosen(own, pacer);
        return withMissing(make(parts, top), missing);
      });
      await pacer.rest();
    }
    return { reply: { panels }, buffer: null };
  }

  async heatmap({
    start,
    end,
    metric,
    bins,
    ...request
  }: Requests["heatmap"]): Promise<Answer<"heatmap">> {
    if (!isMetric(metric)) {
      throw new Error(
        `no metric ${JSON.stringify(metric)}; they are ${Object.keys(METRICS).join(", ")}`,
      );
    }
    checkWindow({ start, end });
    checkBins(bins, MOST_BINS);
    const selection = withoutOwn("heatmap", readSelection(request.selection));
    const chosen = await this.chosen(selection, new Pacer());
    const parts = chosen.parts.map(ofAllTimes);
    const values = heatmap(parts, metric, binEdges(start, end, bins));
    const note = heatmapNote(parts, metric, values);
    const attrs: Record<string, unknown> = {
      matched: matchedKinds(countsOf(parts)),
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

  /** Causes of a device's idle time at an instant; null also for a rank without single events. */
  async gap({ rank, time }: Requests["gap"]): Promise<GapReply> {
    await this.job.rank(rank);
    const panel = await this.rank(rank, new Pacer());
    return { gap: panel === null ? null : gapAt(panel, time) };
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
      const rank = await this.rank(number, pacer);
      if (rank === null) {
        missing.push(number);
        continue;
      }
      const mask = await this.job.masks.of(rank.rank, selection, pacer);
      parts.push({ rank, mask, low, high, key: Masks.key(selection) });
    }
    return { parts, missing };
  }

  /** Build the indices of all ranks, yielding to the page in between. */
  async prepare(): Promise<void> {
    const pacer = new Pacer();
    for (const number of this.job.numbers) await this.rank(number, pacer);
  }

  /** Null if the page has only an overview of the rank. */
  private rank(number: number, pacer: Pacer): Promise<PanelRank | null> {
    return getOrMake(this.made, number, () => this.unpacked(number, pacer));
  }

  /** A rank with its indices, which take the longest to build. */
  private async unpacked(number: number, pacer: Pacer): Promise<PanelRank | null> {
    const made = await this.job.work(number);
    if (made === null) return null;
    for (const index of [deviceOf, eventsOf, queuesIn, gapsOf, operatorSums]) {
      await pacer.rest();
      index(made.all);
    }
    return made;
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

function summary(parts: readonly Part[]): PanelFrame {
  let [events, device, ranks] = [0, 0, 0];
  let [start, end] = [Infinity, -Infinity];
  const calls = new Set<number>();
  for (const part of parts) {
    const spans = eventsOf(part);
    const count = spans.count(part.low, part.high);
    const [first, last] = spans.extentWithin(part.low, part.high);
    events += count;
    device += workOf(part);
    if (count > 0) ranks += 1;
    start = Math.min(start, first);
    end = Math.max(end, last);
    for (const i of matchedIn(part)) calls.add(part.rank.matched.call[i]!);
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
    attrs: known ? {} : { note: noteFor("no_events") },
  };
}

/** Intervals of the chosen events, regardless of the window. */
function eventsOf(part: Part): Spans {
  return part.rank.once("events", ofAllTimes(part), (all) => {
    const { start, dur } = all.rank.rank.events;
    if (all.mask === null) return Spans.of(start, dur);
    const at = positions(start.length, (row) => isChosen(all, row));
    return Spans.of(picked(start, at), picked(dur, at));
  });
}
