/** All ranks of a saved page; each is unpacked at first use. */

import { getOrMake } from "../protocol/maps";
import type { Source } from "../protocol/source";
import type { Lane } from "./cells";
import { Collectives } from "./collectives";
import { type Blocks, Columns, countUpTo, Names, readBlock } from "./columns";
import {
  blockOf,
  type FullHeader,
  type OverlayHeader,
  type OverviewHeader,
  type PageDocument,
} from "./document";
import { type AnyRank, Overview } from "./overview";
import { Masks } from "./masks";
import { PanelRank } from "./panel_rank";
import { Args, Rank } from "./rank";

/** Version of documents that this script reads. */
const VERSION = 3;

/** Returns a class for each of the `events` events of a rank; null if the classes are unknown. */
export type ClassesOf = (rank: number, events: number) => Promise<Uint8Array | null>;

export class Job {
  readonly names: Names;
  readonly masks: Masks;
  /** Source of the classes of a rank's events, if there is one; see `classed` in tiles. */
  classes: ClassesOf | null = null;
  private readonly headers: (FullHeader | OverviewHeader)[];
  private readonly firstLanes: number[];
  private readonly ranks = new Map<number, Promise<AnyRank>>();
  private readonly works = new Map<number, PanelRank>();
  private readonly argsOfRanks = new Map<number, Args>();
  private matched: Promise<Collectives> | null = null;

  constructor(
    readonly page: PageDocument,
    private readonly blocks: Blocks,
  ) {
    if (page.version !== VERSION) {
      throw new Error(
        `This page's data are of version ${String(page.version)}, its script reads version ` +
          `${VERSION}. Save the page again, or restart the kernel.`,
      );
    }
    this.names = new Names(page);
    this.masks = new Masks(this.names);
    this.headers = page.ranks;
    this.firstLanes = this.headers.map(({ lane0 }) => lane0);
  }

  get numbers(): number[] {
    return this.headers.map(({ rank }) => rank);
  }

  /** The number of the rank that a lane belongs to. */
  rankOfLane(lane: number): number {
    return this.headerOfLane(lane).rank;
  }

  /** Overlay header of a lane of waits or late arrivals; null for all other lanes. */
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

  rank(number: number): Promise<AnyRank> {
    return getOrMake(this.ranks, number, () => this.unpack(number));
  }

  all(): Promise<AnyRank[]> {
    return Promise.all(this.numbers.map((number) => this.rank(number)));
  }

  /** A rank with its device work; null if the page has only an overview of it. */
  async work(number: number): Promise<PanelRank | null> {
    const collectives = await this.collectives();
    const rank = await this.rank(number);
    if (rank instanceof Overview) return null;
    return getOrMake(this.works, number, () => new PanelRank(rank, this.names, collectives));
  }

  args(rank: Rank): Args {
    return getOrMake(this.argsOfRanks, rank.number, () => new Args(rank, this.blocks));
  }

  collectives(): Promise<Collectives> {
    const { page, blocks, numbers, names } = this;
    this.matched ??= Collectives.read(page.collectives, blocks, numbers, names);
    return this.matched;
  }

  /** A lane of waits or late arrivals; null for all others. */
  async overlayLane(lane: number): Promise<Lane | null> {
    const overlay = this.overlayAt(lane);
    if (overlay === null) return null;
    return (await this.collectives()).lane(this.rankOfLane(lane), overlay).index;
  }

  /** Ranks whose events are all in the page. */
  async full(): Promise<Rank[]> {
    const full = this.headers.filter(({ detail }) => detail === "full");
    return (await Promise.all(full.map(({ rank }) => this.rank(rank)))) as Rank[];
  }

  private async unpack(number: number): Promise<AnyRank> {
    const header = this.headers.find(({ rank }) => rank === number);
    if (header === undefined) throw new Error(`no rank ${number}`);
    const columns = new Columns(await readBlock(this.blocks, blockOf(number)), header.columns);
    return header.detail === "full"
      ? new Rank(header, columns, this.names)
      : new Overview(header, columns, this.names);
  }
}

// Access of a view to its replies in a saved page: the only part that widgets use.

/** The trait that only models of a saved page have: the name of their embedded data. */
export const EMBEDDED = "_embedded";

// Each module of a page has its own copy of this file; the registry is shared through the page.
const REGISTRY = Symbol.for("hta_widgets.page_sources");

type Registry = Map<string, Source>;

function registry(): Registry {
  const scope = globalThis as { [REGISTRY]?: Registry };
  scope[REGISTRY] ??= new Map<string, Source>();
  return scope[REGISTRY];
}

/** Offer a source under the name that models carry in `_embedded`. */
export function offerPageSource(name: string, source: Source): void {
  registry().set(name, source);
}

/** Source of a model's embedded data; null if a kernel replies. */
export function findPageSource(model: { get(key: string): unknown }): Source | null {
  const name = model.get(EMBEDDED);
  return typeof name === "string" ? (registry().get(name) ?? null) : null;
}
