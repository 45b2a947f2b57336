/** Answer the kernel's requests from the page's data; see docs/protocol.md. */

import type { Answer, Operation, Reply, Requests, Source } from "../protocol/source";
import { readSelection } from "../protocol/selection";
import { lateness, RankLateness } from "./collectives";
import { type Blocks, laterOn } from "./columns";
import { details, launches, overviewDetails } from "./details";
import { COMPUTE, deviceOf, WAIT } from "./device";
import { notEmbedded, type PageDocument } from "./document";
import { exportSelection, type Save } from "./export";
import { type ClassesOf, Job } from "./job";
import { cell, laneCell, marks, type Members, neighbor, snap } from "./lookups";
import { Overview } from "./overview";
import type { PanelRank } from "./panel_rank";
import { Panels } from "./panels";
import type { Rank, Rows } from "./rank";
import { type Place, Search, TABLES, totals } from "./search";
import { DeviceTime, minimap, stats } from "./stats";
import { timeOf } from "./sweep";
import { answerTiles } from "./tiles";

type Answers = { readonly [Op in Operation]?: (request: Requests[Op]) => Promise<Answer<Op>> };

/** A source over data in the page. */
export interface HeldSource extends Source {
  /** Whether it holds all of the job, or only a part of it. */
  readonly isWhole: boolean;
  /** Whether its reply equals that of a kernel. */
  holds<Op extends Operation>(op: Op, request: Requests[Op]): boolean;
}

export class PageSource implements HeldSource {
  readonly status = "none";
  private readonly job: Job;
  private readonly search: Search;
  private readonly panels: Panels;
  private deviceTimes: Promise<DeviceTime[]> | null = null;
  private lateRanks: Promise<RankLateness[]> | null = null;
  private readonly answers: Answers;

  constructor(page: PageDocument, blocks: Blocks, save: Save) {
    this.job = new Job(page, blocks);
    this.search = new Search(this.job);
    this.panels = new Panels(this.job);
    this.answers = {
      tiles: (request) => answerTiles(this.job, request),
      stats: async ({ start, end, ranks }) =>
        stats(await this.devices(), start, end, ranks ?? null),
      minimap: async ({ bins }) => minimap(await this.devices(), page.scene, bins),
      event: (request) => this.event(request),
      cell: (request) => this.cell(request),
      gap: async (request) => json(await this.panels.gap(request)),
      search: async ({ text }) => json(await this.search.summary(text)),
      find: async ({ text, from = null, direction = 1 }) =>
        json(await this.search.step(text, from as Place | null, direction)),
      marks: (request) => this.marks(request),
      totals: (request) => this.totals(request),
      neighbor: (request) => this.neighbor(request),
      launches: (request) => this.launches(request),
      snap: (request) => this.snap(request),
      lateness: (request) => this.late(request),
      collective: (request) => this.collective(request),
      ribbon: async (request) => (await this.job.collectives()).ribbon.within(request),
      clusters: () => this.clusters(),
      panels: (request) => this.panels.panels(request),
      heatmap: (request) => this.panels.heatmap(request),
      export: (request) => exportSelection(this.job, request, save),
    };
  }

  /** Set the source of event classes, which a comparison has. */
  classify(classes: ClassesOf): void {
    this.job.classes = classes;
  }

  get isWhole(): boolean {
    return this.job.page.scene.embedded?.level === "all";
  }

  /** Exclude files, which the kernel writes, and arguments that did not fit. */
  holds(op: Operation): boolean {
    const { ranks_args: some = [], ranks_full: all = [] } = this.job.page.scene.embedded ?? {};
    const isHere = op !== "event" || some.length === all.length;
    return this.isWhole && isHere && op !== "export" && op in this.answers;
  }

  /** Build the indices for the first replies of panels. */
  async prepare(): Promise<void> {
    if (this.isWhole) await this.panels.prepare();
  }

  async ask<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal?: AbortSignal,
  ): Promise<Answer<Op>> {
    const answer: Answers[Op] = this.answers[op];
    if (answer === undefined) {
      throw new Error(`unknown op ${op}; the ops are ${Object.keys(this.answers).join(", ")}`);
    }
    // Reply later, as a kernel would: the page paints its frame first.
    await laterOn();
    signal?.throwIfAborted();
    const reply = await answer(request);
    signal?.throwIfAborted();
    return reply;
  }

  private devices(): Promise<DeviceTime[]> {
    this.deviceTimes ??= this.works().then((ranks) => ranks.map((rank) => new DeviceTime(rank)));
    return this.deviceTimes;
  }

  /** All ranks; those with single events have their device work. */
  private works(): Promise<(PanelRank | Overview)[]> {
    return Promise.all(
      this.job.numbers.map(async (number) => {
        const rank = await this.job.rank(number);
        return rank instanceof Overview ? rank : (await this.job.work(number))!;
      }),
    );
  }

  private async event(request: Requests["event"]): Promise<Answer<"event">> {
    const rank = await this.job.rank(request.rank);
    const table = request.table ?? "events";
    if (rank instanceof Overview) {
      return json(overviewDetails(rank, table, request.id, this.job.names));
    }
    const rows = rank.table(table);
    const row = rank.checkedRow(rows, request.id);
    return json(await details(rank, rows, row, this.job.names, this.job.args(rank)));
  }

  private async cell({ lane, start, end }: Requests["cell"]): Promise<Answer<"cell">> {
    const over = await this.job.overlayLane(lane);
    if (over !== null) return json(laneCell(over, this.job.names, start, end));
    const rank = await this.job.rank(this.job.rankOfLane(lane));
    return json(cell(rank, this.job.names, lane, start, end));
  }

  private async marks(request: Requests["marks"]): Promise<Reply> {
    if (request.selection !== null && request.selection !== undefined) {
      const selection = readSelection(request.selection);
      const ranks = await this.job.full();
      const members = ranks.map(async (rank): Promise<Members> => {
        const chosen = await this.job.masks.members(rank, selection);
        return { rank, rows: rank.events, chosen };
      });
      return marks(request, await Promise.all(members), null);
    }
    const hits = await this.search.hits(request.text ?? "");
    const members = hits.ranks
      .filter(({ count }) => count > 0)
      .flatMap((one) =>
        TABLES.map((table): Members => {
          const rows: Rows = one.rank.table(table);
          return { rank: one.rank, rows, chosen: one.rows(table) };
        }),
      );
    return marks(request, members, hits.error);
  }

  private async totals(request: Requests["totals"]): Promise<Answer<"totals">> {
    const selection = readSelection(request.selection);
    const numbers = selection.ranks ?? this.job.numbers;
    const ranks: Rank[] = [];
    const leftOut: number[] = [];
    for (const rank of await Promise.all(numbers.map((number) => this.job.rank(number)))) {
      if (rank instanceof Overview) leftOut.push(rank.number);
      else ranks.push(rank);
    }
    if (ranks.length === 0 && leftOut.length > 0) throw new Error(notEmbedded(leftOut[0]!));
    const reply = await totals(this.job, ranks, selection);
    return json(leftOut.length > 0 ? { ...reply, left_out: leftOut } : reply);
  }

  private async neighbor(request: Requests["neighbor"]): Promise<Answer<"neighbor">> {
    const rank = await this.single(request.rank);
    const rows = rank.table(request.table ?? "events");
    const row = rank.checkedRow(rows, request.id);
    return json({ brief: neighbor(rank, rows, row, request.direction ?? 1) });
  }

  private async launches({ rank: at, id }: Requests["launches"]): Promise<Answer<"launches">> {
    const rank = await this.job.rank(at);
    if (rank instanceof Overview) return json({ call: null, kernels: [], count: 0 });
    return json(launches(rank, rank.checkedRow(rank.events, id)));
  }

  private async snap({ lane, time, tolerance }: Requests["snap"]): Promise<Answer<"snap">> {
    const over = await this.job.overlayLane(lane);
    if (over !== null) return json({ time: snap(over, time, tolerance) });
    const rank = await this.job.rank(this.job.rankOfLane(lane));
    // Single events are unknown, so there is no edge to snap to.
    if (rank instanceof Overview) return json({ time: null });
    return json({ time: snap(rank.lane(lane), time, tolerance) });
  }

  private async late({ start, end }: Requests["lateness"]): Promise<Answer<"lateness">> {
    this.lateRanks ??= this.ranksLate();
    return json(lateness(await this.lateRanks, start, end, await this.job.collectives()));
  }

  private async ranksLate(): Promise<RankLateness[]> {
    const collectives = await this.job.collectives();
    const { numbers } = this.job;
    if (!collectives.any) {
      return numbers.map((rank) => new RankLateness(rank, collectives.part(rank), () => 0, false));
    }
    return (await this.works()).map((rank) => {
      const part = collectives.part(rank.number);
      if (rank instanceof Overview) {
        const before = rank.deviceBefore("exposed_wait");
        return new RankLateness(rank.number, part, (from, to) => before(to) - before(from), true);
      }
      const { sweep } = deviceOf(rank.all);
      const exposed = (from: number, to: number): number =>
        timeOf(sweep.within(from, to), WAIT, COMPUTE);
      return new RankLateness(rank.number, part, exposed, false);
    });
  }

  private async collective(request: Requests["collective"]): Promise<Answer<"collective">> {
    const rank = await this.job.rank(request.rank);
    // An overview does not list its events, so the id cannot be checked; no collective has it.
    const id = rank instanceof Overview ? request.id : rank.checkedRow(rank.events, request.id);
    return json({ collective: (await this.job.collectives()).collective(request.rank, id) });
  }

  private async clusters(): Promise<Answer<"clusters">> {
    const { alike } = this.job.page;
    if (alike === null) throw new Error("This page has no groups of similar ranks.");
    return Promise.resolve(json(alike));
  }

  /** A rank whose single events are in the page. */
  private async single(number: number): Promise<Rank> {
    const rank = await this.job.rank(number);
    if (rank instanceof Overview) throw new Error(notEmbedded(number));
    return rank;
  }
}

function json<Body extends object>(reply: Body): Reply<Body> {
  return { reply, buffer: null };
}
