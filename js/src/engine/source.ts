/**
 * Answer the kernel's requests from the data in the page; see docs/protocol-requests.md.
 *
 * Replies have the same types and values as the kernel's. `canAnswer` is false if a reply would
 * differ because the page holds less than the whole job. A live page then asks the kernel.
 */

import {
  type Answer,
  type Brief,
  type Cell,
  type EventDetail,
  type Launches,
  type Operation,
  type Reply,
  RequestError,
  type Requests,
  type Source,
  type Totals,
} from "../protocol/source";
import { normalizeSelection } from "../protocol/selection";
import { type ExposedWait, latenessReply, RankLateness } from "./collectives";
import { type Blocks, yieldToPage } from "./columns";
import { eventDetails, launchesReply, overviewDetails } from "./details";
import { COMPUTE, deviceSpansOf, WAIT } from "./device";
import { notEmbeddedMessage, type PageDocument } from "./document";
import { exportSelection, type SaveFile } from "./export";
import { PageJob } from "./job";
import {
  cellReply,
  laneCellReply,
  marksReply,
  type MarkedRows,
  neighborEvent,
  snapTime,
} from "./lookups";
import { RankOverview } from "./overview";
import type { RankAnalysis } from "./panel_rank";
import { PanelEngine } from "./panels";
import type { RankTrace, EventTable } from "./rank";
import { type SearchOrigin, EventSearch, TABLES, totalsReply } from "./search";
import { DeviceUsage, minimapReply, statsReply } from "./stats";
import { timeInStates } from "./sweep";
import { tilesReply } from "./tiles";

type Handlers<Result extends { [Op in Operation]: unknown }> = {
  readonly [Op in Operation]?: (request: Requests[Op]) => Result[Op] | Promise<Result[Op]>;
};
/** Handlers of operations that reply with plain JSON, and of operations that reply with buffers. */
type JsonHandlers = Handlers<{ [Op in Operation]: Answer<Op>["reply"] }>;
type BufferHandlers = Handlers<{ [Op in Operation]: Answer<Op> }>;

/** A source that answers requests from the data in the page. */
export interface LocalSource extends Source {
  /** Whether the page holds the whole job. */
  readonly isComplete: boolean;
  /** Return whether the reply would equal the kernel's reply. */
  canAnswer<Op extends Operation>(op: Op, request: Requests[Op]): boolean;
}

export class PageSource implements LocalSource {
  readonly status = "none";
  readonly job: PageJob;
  private readonly search: EventSearch;
  private readonly panels: PanelEngine;
  private devices: Promise<DeviceUsage[]> | null = null;
  private rankLateness: Promise<RankLateness[]> | null = null;
  private readonly jsonHandlers: JsonHandlers;
  private readonly bufferHandlers: BufferHandlers;

  constructor(page: PageDocument, blocks: Blocks, save: SaveFile) {
    this.job = new PageJob(page, blocks);
    this.search = new EventSearch(this.job);
    this.panels = new PanelEngine(this.job);
    this.jsonHandlers = {
      stats: async ({ start, end, ranks }) =>
        statsReply(await this.loadDevices(), start, end, ranks ?? null),
      event: (request) => this.eventReply(request),
      efficiency: async ({ rank: number, id }) => {
        const rank = await this.job.loadRank(number);
        const isFull = !(rank instanceof RankOverview);
        return { figures: isFull ? rank.callFigures(rank.checkRow(rank.events, id)) : null };
      },
      cell: (request) => this.cellReply(request),
      gap: (request) => this.panels.gap(request),
      search: ({ text }) => this.search.searchReply(text),
      find: ({ text, from = null, direction = 1 }) =>
        this.search.findReply(text, from as SearchOrigin | null, direction),
      totals: (request) => this.totalsReply(request),
      neighbor: (request) => this.neighborReply(request),
      launches: (request) => this.launchesReply(request),
      snap: async (request) => ({ time: await this.snap(request) }),
      lateness: async ({ start, end }) => {
        const ranks = await (this.rankLateness ??= this.loadLateness());
        return latenessReply(ranks, start, end, (await this.job.loadCollectives()).header);
      },
      collective: (request) => this.collectiveReply(request),
      clusters: () => {
        if (page.alike === null) throw new Error("This page has no groups of similar ranks.");
        return page.alike;
      },
      panels: (request) => this.panels.panels(request),
      export: (request) => exportSelection(this.job, request, save),
    };
    this.bufferHandlers = {
      tiles: (request) => tilesReply(this.job, request),
      minimap: async ({ bins }) => minimapReply(await this.loadDevices(), page.scene, bins),
      marks: (request) => this.marksReply(request),
      ribbon: async (request) => (await this.job.loadCollectives()).ribbon.ribbonReply(request),
      heatmap: (request) => this.panels.heatmap(request),
    };
  }

  get isComplete(): boolean {
    return this.job.page.scene.embedded?.level === "all";
  }

  canAnswer<Op extends Operation>(op: Op, request: Requests[Op]): boolean {
    const { embedded } = this.job.page.scene;
    // Only the kernel writes files.
    if (embedded?.level !== "all" || op === "export") return false;
    // Some ranks' arguments may not have fit in the page.
    if (op === "event" && embedded.ranks_args.length !== embedded.ranks_full.length) return false;
    // Whole-job panels are in the page only if they were shown when the page was saved.
    if (op === "panels") return this.panels.canBuild((request as Requests["panels"]).panels);
    return op in this.jsonHandlers || op in this.bufferHandlers;
  }

  /** Build the indices needed for the first panels. */
  async prepare(): Promise<void> {
    if (this.isComplete) await this.panels.prepare();
  }

  async ask<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal?: AbortSignal,
  ): Promise<Answer<Op>> {
    const { [op]: jsonHandler }: JsonHandlers = this.jsonHandlers;
    const { [op]: bufferHandler }: BufferHandlers = this.bufferHandlers;
    if (jsonHandler === undefined && bufferHandler === undefined) {
      const ops = Object.keys({ ...this.jsonHandlers, ...this.bufferHandlers }).join(", ");
      throw new RequestError({
        code: "unknown_op",
        message: `unknown op ${op}; the ops are ${ops}`,
      });
    }
    // Reply asynchronously, as a kernel would, so that the page paints first.
    await yieldToPage();
    signal?.throwIfAborted();
    const answer =
      jsonHandler === undefined
        ? await bufferHandler!(request)
        : { reply: await jsonHandler(request), buffer: null };
    signal?.throwIfAborted();
    return answer;
  }

  private loadDevices(): Promise<DeviceUsage[]> {
    this.devices ??= this.loadAnalyses().then((ranks) =>
      ranks.map((rank) => new DeviceUsage(rank)),
    );
    return this.devices;
  }

  /** Return all ranks. Ranks with individual events include their device work. */
  private loadAnalyses(): Promise<(RankAnalysis | RankOverview)[]> {
    return Promise.all(
      this.job.rankNumbers.map(async (number) => {
        const rank = await this.job.loadRank(number);
        return rank instanceof RankOverview ? rank : (await this.job.loadAnalysis(number))!;
      }),
    );
  }

  private async eventReply(request: Requests["event"]): Promise<EventDetail> {
    const rank = await this.job.loadRank(request.rank);
    const table = request.table ?? "events";
    if (rank instanceof RankOverview) {
      return overviewDetails(rank, table, request.id);
    }
    const rows = rank.tableByName(table);
    const row = rank.checkRow(rows, request.id);
    return eventDetails(rank, rows, row, this.job.argsOf(rank));
  }

  private async cellReply(request: Requests["cell"]): Promise<Cell> {
    const { lane } = request;
    const overlay = await this.job.loadOverlayLane(lane);
    if (overlay !== null) return laneCellReply(overlay, this.job.names, request);
    return cellReply(await this.job.loadRank(this.job.rankOfLane(lane)), request);
  }

  private async marksReply(request: Requests["marks"]): Promise<Reply> {
    if (request.selection !== null && request.selection !== undefined) {
      const selection = normalizeSelection(request.selection);
      const ranks = await this.job.loadFullRanks();
      const markedRows = ranks.map(async (rank): Promise<MarkedRows> => {
        const marked = await this.job.masks.memberRows(rank, selection);
        return { rank, rows: rank.events, marked };
      });
      return marksReply(request, await Promise.all(markedRows), null);
    }
    const hits = await this.search.hits(request.text ?? "");
    const markedRows = hits.ranks
      .filter(({ count }) => count > 0)
      .flatMap((rankHits) =>
        TABLES.map((table): MarkedRows => {
          const rows: EventTable = rankHits.rank.tableByName(table);
          return { rank: rankHits.rank, rows, marked: rankHits.matchingRows(table) };
        }),
      );
    return marksReply(request, markedRows, hits.error);
  }

  private async totalsReply(request: Requests["totals"]): Promise<Totals> {
    const selection = normalizeSelection(request.selection);
    const numbers = selection.ranks ?? this.job.rankNumbers;
    const ranks: RankTrace[] = [];
    const leftOut: number[] = [];
    for (const rank of await Promise.all(numbers.map((number) => this.job.loadRank(number)))) {
      if (rank instanceof RankOverview) leftOut.push(rank.number);
      else ranks.push(rank);
    }
    if (ranks.length === 0 && leftOut.length > 0) throw new Error(notEmbeddedMessage(leftOut[0]!));
    const reply = await totalsReply(this.job, ranks, selection);
    return leftOut.length > 0 ? { ...reply, left_out: leftOut } : reply;
  }

  private async neighborReply(request: Requests["neighbor"]): Promise<{ brief: Brief | null }> {
    const rank = await this.job.loadRank(request.rank);
    if (rank instanceof RankOverview) throw new Error(notEmbeddedMessage(request.rank));
    const rows = rank.tableByName(request.table ?? "events");
    const row = rank.checkRow(rows, request.id);
    return { brief: neighborEvent(rank, rows, row, request.direction ?? 1) };
  }

  private async launchesReply({ rank: number, id }: Requests["launches"]): Promise<Launches> {
    const rank = await this.job.loadRank(number);
    if (rank instanceof RankOverview) return { call: null, kernels: [], count: 0 };
    return launchesReply(rank, rank.checkRow(rank.events, id));
  }

  private async snap({ lane, time, tolerance }: Requests["snap"]): Promise<number | null> {
    const overlay = await this.job.loadOverlayLane(lane);
    if (overlay !== null) return snapTime(overlay, time, tolerance);
    const rank = await this.job.loadRank(this.job.rankOfLane(lane));
    // Overviews have no individual events, so there is no edge to snap to.
    return rank instanceof RankOverview ? null : snapTime(rank.laneIndex(lane), time, tolerance);
  }

  private async loadLateness(): Promise<RankLateness[]> {
    const collectives = await this.job.loadCollectives();
    const latenessOf = (rank: number, exposed: ExposedWait): RankLateness =>
      new RankLateness(rank, collectives.entriesOfRank(rank), exposed);
    // If no collectives are matched, no rank waits, and ranks need not be unpacked.
    if (!collectives.hasEntries) return this.job.rankNumbers.map((n) => latenessOf(n, NO_WAIT));
    const ranks = await this.loadAnalyses();
    return ranks.map((rank) => latenessOf(rank.number, exposedWaitOf(rank)));
  }

  private async collectiveReply(
    request: Requests["collective"],
  ): Promise<Answer<"collective">["reply"]> {
    const rank = await this.job.loadRank(request.rank);
    // An overview does not list its events, so an id cannot be checked.
    const id = rank instanceof RankOverview ? request.id : rank.checkRow(rank.events, request.id);
    const collectives = await this.job.loadCollectives();
    return { collective: collectives.collectiveReply(request.rank, id) };
  }
}

const NO_WAIT: ExposedWait = { within: () => 0, isApproximate: false };

function exposedWaitOf(rank: RankAnalysis | RankOverview): ExposedWait {
  if (rank instanceof RankOverview) {
    const timeBefore = rank.deviceTimeBefore("exposed_wait");
    return { within: (from, to) => timeBefore(to) - timeBefore(from), isApproximate: true };
  }
  const { sweep } = deviceSpansOf(rank.fullSelection);
  const within = (from: number, to: number): number =>
    timeInStates(sweep.timesWithin(from, to), WAIT, COMPUTE);
  return { within, isApproximate: false };
}
