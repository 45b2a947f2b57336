/** The ranks of a saved page. Each is unpacked when it is first used. */

import { getOrMake } from "../protocol/maps";
import type { Source } from "../protocol/source";
import type { IndexedLane } from "./cells";
import { Collectives } from "./collectives";
import { type Blocks, ColumnReader, countUpTo, NameTable, readBlock } from "./columns";
import {
  type FullHeader,
  type OverlayHeader,
  type OverviewHeader,
  type PageDocument,
} from "./document";
import { type RankData, RankOverview } from "./overview";
import { MaskCache } from "./masks";
import { RankAnalysis } from "./panel_rank";
import { ArgsReader, RankTrace } from "./rank";

/** The version of saved pages that this script can read. */
const VERSION = 3;

/** Return the class of each event of a rank; null if classes are unknown. */
export type EventClassLoader = (rank: number, events: number) => Promise<Uint8Array | null>;

export class PageJob {
  readonly names: NameTable;
  readonly masks = new MaskCache();
  /** In a comparison, provides the event classes; see `classed` in tiles. */
  classLoader: EventClassLoader | null = null;
  private readonly headers: (FullHeader | OverviewHeader)[];
  private readonly firstLanes: number[];
  private readonly ranks = new Map<number, Promise<RankData>>();
  private readonly analyses = new Map<number, RankAnalysis>();
  private readonly argsByRank = new Map<number, ArgsReader>();
  private collectivesPromise: Promise<Collectives> | null = null;

  constructor(
    readonly page: PageDocument,
    private readonly blocks: Blocks,
  ) {
    if (page.version !== VERSION) {
      throw new Error(
        `This page's data has version ${String(page.version)}, but its script reads version ` +
          `${VERSION}. Save the page again, or restart the kernel.`,
      );
    }
    this.names = new NameTable(page);
    this.headers = page.ranks;
    this.firstLanes = this.headers.map(({ lane0 }) => lane0);
  }

  get rankNumbers(): number[] {
    return this.headers.map(({ rank }) => rank);
  }

  rankOfLane(lane: number): number {
    return this.headerOfLane(lane).rank;
  }

  /** Return the header of a lane of waits or late arrivals; null for all other lanes. */
  overlayAt(lane: number): OverlayHeader | null {
    const { lane0, lanes, overlays } = this.headerOfLane(lane);
    return overlays[lane - (lane0 + lanes - overlays.length)] ?? null;
  }

  private headerOfLane(lane: number): FullHeader | OverviewHeader {
    const last = this.headers.at(-1);
    const lanes = last === undefined ? 0 : last.lane0 + last.lanes;
    if (!Number.isInteger(lane) || lane < 0 || lane >= lanes) {
      throw new Error(`no lane ${lane}; lanes go from 0 to ${lanes - 1}`);
    }
    return this.headers[countUpTo(this.firstLanes, lane) - 1]!;
  }

  loadRank(number: number): Promise<RankData> {
    return getOrMake(this.ranks, number, () => this.unpackRank(number));
  }

  loadRanks(): Promise<RankData[]> {
    return Promise.all(this.rankNumbers.map((number) => this.loadRank(number)));
  }

  /** Return a rank with its device work; null if the page has only an overview of it. */
  async loadAnalysis(number: number): Promise<RankAnalysis | null> {
    const collectives = await this.loadCollectives();
    const rank = await this.loadRank(number);
    if (rank instanceof RankOverview) return null;
    return getOrMake(this.analyses, number, () => new RankAnalysis(rank, collectives));
  }

  argsOf(rank: RankTrace): ArgsReader {
    return getOrMake(this.argsByRank, rank.number, () => new ArgsReader(rank, this.blocks));
  }

  loadCollectives(): Promise<Collectives> {
    const { page, blocks, rankNumbers, names } = this;
    this.collectivesPromise ??= Collectives.read(page.collectives, blocks, rankNumbers, names);
    return this.collectivesPromise;
  }

  /** Return a lane of waits or late arrivals; null for all other lanes. */
  async loadOverlayLane(lane: number): Promise<IndexedLane | null> {
    const overlay = this.overlayAt(lane);
    if (overlay === null) return null;
    return (await this.loadCollectives()).overlayLane(this.rankOfLane(lane), overlay).index;
  }

  /** Return the ranks whose individual events are in the page. */
  async loadFullRanks(): Promise<RankTrace[]> {
    const full = this.headers.filter(({ detail }) => detail === "full");
    const ranks = await Promise.all(full.map(({ rank }) => this.loadRank(rank)));
    return ranks.filter((rank) => rank instanceof RankTrace);
  }

  private async unpackRank(number: number): Promise<RankData> {
    const header = this.headers.find(({ rank }) => rank === number);
    if (header === undefined) throw new Error(`no rank ${number}`);
    const columns = new ColumnReader(
      await readBlock(this.blocks, `rank-${number}`),
      header.columns,
    );
    return header.detail === "full"
      ? new RankTrace(header, columns, this.names)
      : new RankOverview(header, columns, this.names);
  }
}

/** The trait that holds the name of the embedded data. Only models in saved pages have it. */
export const EMBEDDED = "_embedded";

// Each script of a page has its own copy of this module. All share a registry via a global symbol.
const REGISTRY = Symbol.for("hta_widgets.page_sources");

type Registry = Map<string, Source>;

function registry(): Registry {
  const scope = globalThis as { [REGISTRY]?: Registry };
  scope[REGISTRY] ??= new Map<string, Source>();
  return scope[REGISTRY];
}

/** Register a source under the name that models have in `_embedded`. */
export function offerPageSource(name: string, source: Source): void {
  registry().set(name, source);
}

/** Return the source of a model's embedded data; null if the kernel answers. */
export function findPageSource(model: { get(key: string): unknown }): Source | null {
  const name = model.get(EMBEDDED);
  return typeof name === "string" ? (registry().get(name) ?? null) : null;
}
