/**
 * Answer the requests `panels` and `heatmap` from the data in the page.
 *
 * `builders` has a function for each panel. It receives a `RankSelection` for each rank of the
 * page: the rank, and the events that are selected if the panel's own dimensions are ignored.
 */

import { gather, indicesWhere } from "../expressions/numbers";
import { LIMITS } from "../facts/limits";
import { noteFor } from "../facts/notes";
import { isMetric, METRICS, withoutOwnDimensions } from "../facts/panels";
import { getOrMake } from "../protocol/maps";
import {
  type Answer,
  asError,
  type ErrorReply,
  type GapReply,
  isAbort,
  type PanelFrame,
  type Requests,
  type SelectionJson,
} from "../protocol/source";
import { normalizeSelection } from "../protocol/selection";
import { callTreeFrame } from "./call_tree";
import { Pacer } from "./columns";
import {
  binEdges,
  deviceSpan,
  deviceSpansOf,
  heatmapValues,
  recordedTime,
  workCount,
} from "./device";
import type { PhasesHeader } from "./document";
import { countByKind, heatmapNote, matchedKinds, rankNumbersOf } from "./frames";
import { gapAt, laneGapAt } from "./gaps";
import { gapIndexOf, unrecordedWork } from "./idle";
import type { PageJob } from "./job";
import { checkBins, checkWindow } from "./lookups";
import { LruCache } from "./lru";
import { MaskCache } from "./masks";
import { operatorSums } from "./operators";
import { kernelDurationsFrame, kernelsFrame, operatorsFrame } from "./panel_names";
import {
  isSelected,
  matchedInWindow,
  memo,
  withOpenWindow,
  type RankAnalysis,
  type RankSelection,
} from "./panel_rank";
import {
  breakdownFrame,
  idleFrame,
  kernelTypesFrame,
  overlapFrame,
  queuesFrame,
} from "./panel_rows";
import { queueFigures } from "./queues";
import { IntervalSet } from "./spans";
import { stepsFrame } from "./steps";

/** Functions that build the indices of a rank, which is the slowest part. */
const INDEX_BUILDERS = [deviceSpansOf, eventIntervals, queueFigures, gapIndexOf, operatorSums];
const { table_rows: TOP, duration_names: TOP_DURATIONS } = LIMITS;
/** Number of cached frames: all panels for a few selections. */
const MAX_FRAMES = 48;
const NO_PHASES: PhasesHeader = { names: [], labels: [] };

type FrameBuilder = (selections: RankSelection[], top: number | null) => PanelFrame;

export class PanelEngine {
  private readonly analyses = new Map<number, Promise<RankAnalysis | null>>();
  private readonly builders: Record<string, FrameBuilder>;
  /** Keyed by panel and by the part of the selection that affects it. */
  private readonly frameCache = new LruCache<string, Promise<PanelFrame>>(MAX_FRAMES);

  constructor(private readonly job: PageJob) {
    const { names, page } = job;
    this.builders = {
      breakdown: breakdownFrame,
      overlap: overlapFrame,
      idle: idleFrame,
      queue: queuesFrame,
      kernel_types: kernelTypesFrame,
      kernel_durations: (selections, top) =>
        kernelDurationsFrame(selections, names, Math.min(top ?? TOP_DURATIONS, TOP_DURATIONS)),
      kernels: (selections, top) => kernelsFrame(selections, names, top ?? TOP),
      operators: (selections, top) => operatorsFrame(selections, names, top ?? TOP),
      call_tree: (selections) => callTreeFrame(selections, names, "host"),
      call_tree_device: (selections) => callTreeFrame(selections, names, "device"),
      steps: (selections) => stepsFrame(selections, page.phases ?? NO_PHASES),
      summary: summaryFrame,
    };
  }

  canBuild(panels: readonly string[]): boolean {
    return panels.every((id) => id in this.builders);
  }

  async panels(request: Requests["panels"]): Promise<Answer<"panels">["reply"]> {
    const selection = normalizeSelection(request.selection);
    const panels: Record<string, PanelFrame> = {};
    const errors: Record<string, ErrorReply> = {};
    const pacer = new Pacer();
    for (const id of request.panels) {
      try {
        panels[id] = await this.frame(id, selection, request.top ?? null, pacer);
      } catch (error) {
        if (isAbort(error)) throw error;
        errors[id] = { code: "no_answer", message: asError(error).message };
      }
      await pacer.yieldIfDue();
    }
    return Object.keys(errors).length > 0 ? { panels, errors } : { panels };
  }

  private frame(
    id: string,
    selection: SelectionJson,
    top: number | null,
    pacer: Pacer,
  ): Promise<PanelFrame> {
    const buildFrame = this.builders[id];
    if (buildFrame === undefined) {
      const panelNames = Object.keys(this.builders).join(", ");
      throw new Error(`no panel ${JSON.stringify(id)}; the panels are ${panelNames}`);
    }
    const panelSelection = withoutOwnDimensions(id, selection);
    return this.frameCache.get(JSON.stringify([id, top, panelSelection]), async () => {
      const { selections, missing } = await this.selectRanks(panelSelection, pacer);
      const frame = buildFrame(selections, top);
      return { ...frame, attrs: { ...frame.attrs, ...leftOutAttribute(missing) } };
    });
  }

  async heatmap(request: Requests["heatmap"]): Promise<Answer<"heatmap">> {
    const { start, end, metric, bins } = request;
    if (!isMetric(metric)) {
      throw new Error(
        `unknown metric ${JSON.stringify(metric)}; expected ${Object.keys(METRICS).join(", ")}`,
      );
    }
    checkWindow({ start, end });
    checkBins(bins, LIMITS.heatmap_bins);
    const selection = withoutOwnDimensions("heatmap", normalizeSelection(request.selection));
    const { selections: windowed, missing } = await this.selectRanks(selection, new Pacer());
    const selections = windowed.map(withOpenWindow);
    const values = heatmapValues(selections, metric, binEdges(start, end, bins), unrecordedWork);
    const note = heatmapNote(selections, metric, values);
    const attrs = {
      matched: matchedKinds(countByKind(selections)),
      span_ns: selections.map((rankSelection) => {
        const [first, last] = deviceSpan(rankSelection) ?? [0, 0];
        return recordedTime(rankSelection, Math.max(first, start), Math.min(last, end));
      }),
      ...(note !== "" && { note }),
      ...leftOutAttribute(missing),
    };
    const reply = { ranks: rankNumbersOf(selections), start, end, bins, exact: true, attrs };
    return { reply, buffer: values.buffer as ArrayBuffer };
  }

  /** Answer `gap`: why a device is idle at an instant. Null for ranks without individual events. */
  async gap({ rank, time, lane = null }: Requests["gap"]): Promise<GapReply> {
    await this.job.loadRank(rank);
    const analysis = await this.analysisOf(rank, new Pacer());
    if (analysis === null) return { gap: null, lane_gap: null };
    const laneGap = lane === null ? null : laneGapAt(analysis.trace, lane, time);
    return { gap: gapAt(analysis, time), lane_gap: laneGap };
  }

  /** Return selections of the page's ranks, and the selected ranks whose events it lacks. */
  private async selectRanks(selection: SelectionJson, pacer: Pacer) {
    const { start_ns: from, end_ns: to, ranks } = selection;
    const { scene } = this.job.page;
    // Outside its window, an export contains only some of the events.
    const [first, last] = scene.part ? scene.range : [-Infinity, Infinity];
    const low = Math.max(from ?? -Infinity, first);
    const high = Math.max(Math.min(to ?? Infinity, last), low);
    const selections: RankSelection[] = [];
    const missing: number[] = [];
    for (const number of this.job.rankNumbers) {
      if (ranks !== null && !ranks.includes(number)) continue;
      const analysis = await this.analysisOf(number, pacer);
      if (analysis === null) {
        missing.push(number);
        continue;
      }
      const mask = await this.job.masks.maskOf(analysis.trace, selection, pacer);
      selections.push({ analysis, mask, low, high, key: MaskCache.key(selection) });
    }
    return { selections, missing };
  }

  /** Build the indices of all ranks, yielding to the page in between. */
  async prepare(): Promise<void> {
    const pacer = new Pacer();
    for (const number of this.job.rankNumbers) await this.analysisOf(number, pacer);
  }

  /** Return the analysis of a rank; null if the page has only an overview of it. */
  private analysisOf(number: number, pacer: Pacer): Promise<RankAnalysis | null> {
    return getOrMake(this.analyses, number, () => this.buildAnalysis(number, pacer));
  }

  private async buildAnalysis(number: number, pacer: Pacer): Promise<RankAnalysis | null> {
    const analysis = await this.job.loadAnalysis(number);
    if (analysis === null) return null;
    for (const buildIndex of INDEX_BUILDERS) {
      await pacer.yieldIfDue();
      buildIndex(analysis.fullSelection);
    }
    return analysis;
  }
}

/** Return the attribute that lists the selected ranks whose events are not in the page. */
function leftOutAttribute(missing: readonly number[]): { left_out?: readonly number[] } {
  return missing.length > 0 ? { left_out: missing } : {};
}

// Key figures of a selection.

function summaryFrame(selections: readonly RankSelection[]): PanelFrame {
  let [events, device, ranks] = [0, 0, 0];
  let [start, end] = [Infinity, -Infinity];
  const calls = new Set<number>();
  for (const selection of selections) {
    const spans = eventIntervals(selection);
    const count = spans.count(selection.low, selection.high);
    const [first, last] = spans.extentWithin(selection.low, selection.high);
    events += count;
    device += workCount(selection);
    if (count > 0) ranks += 1;
    start = Math.min(start, first);
    end = Math.max(end, last);
    for (const i of matchedInWindow(selection))
      calls.add(selection.analysis.collectiveEntries.call[i]!);
  }
  const hasEvents = ranks > 0;
  return {
    rows: 1,
    columns: {
      events: [events],
      device_events: [device],
      collectives: [calls.size],
      ranks: [ranks],
      start_ns: [hasEvents ? start : null],
      end_ns: [hasEvents ? end : null],
    },
    attrs: hasEvents ? {} : { note: noteFor("no_events") },
  };
}

/** Return the intervals of the selected events, not limited to the window. */
function eventIntervals(selection: RankSelection): IntervalSet {
  return memo("events", withOpenWindow(selection), (full) => {
    const { start, dur } = full.analysis.trace.events;
    if (full.mask === null) return IntervalSet.of(start, dur);
    const rows = indicesWhere(start.length, (row) => isSelected(full, row));
    return IntervalSet.of(gather(start, rows), gather(dur, rows));
  });
}
