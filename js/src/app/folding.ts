/** Folds ranks that look alike into one row: what is asked for it, and which rows it hides. */

import { isAbort } from "../contract";
import type { Alike, Reply, SelectionJson } from "../contract";
import { type Context, Emitter } from "./context";
import type { Rows } from "./rows";
import { foldedWords } from "./words";

/** Ranks that are alike, with the one that stands for them. */
export interface Group {
  representative: number;
  ranks: number[];
  /** What tells them from most others, "" for nothing. */
  why: string;
}

export interface Clusters {
  clusters: Group[];
  outliers: { rank: number; why: string }[];
  note: string;
}

/** Fewer ranks are seen at one look. */
export const LEAST_RANKS = 3;
/** More ranks are folded unless the user or Python says otherwise. */
export const MOST_UNFOLDED = 16;
/** So many ranks of a group that a selection names are shown, if it does not name the whole group. */
const MOST_HELD = 8;

export function readClusters({ reply }: Reply): Clusters {
  const { clusters, outliers, note } = reply as unknown as Partial<Clusters>;
  if (!Array.isArray(clusters) || !Array.isArray(outliers)) {
    throw new Error('the answer to "clusters" has no clusters');
  }
  return { clusters, outliers, note: typeof note === "string" ? note : "" };
}

/** What is folded: groups that are not unfolded, less the ranks that must be seen. */
export function alikeOf(
  { clusters, outliers }: Clusters,
  unfolded: ReadonlySet<number>,
  held: ReadonlySet<number>,
): Alike {
  const several = clusters.filter(({ ranks }) => ranks.length > 1);
  const hidden = new Map<number, number>();
  for (const { representative, ranks } of several) {
    if (unfolded.has(representative)) continue;
    for (const rank of ranks) {
      if (rank !== representative && !held.has(rank)) hidden.set(rank, representative);
    }
  }
  const reasons = [
    ...outliers,
    ...clusters.map(({ representative: rank, why }) => ({ rank, why })),
  ].filter(({ why }) => why !== "");
  return {
    groups: new Map(several.map(({ representative, ranks }) => [representative, ranks])),
    unfolded,
    hidden,
    why: new Map(reasons.map(({ rank, why }) => [rank, why])),
  };
}

/** Ranks that a selection names of groups that it does not name whole: the row would say too much. */
export function partlyNamed(
  { clusters }: Clusters,
  selection: SelectionJson | null,
): readonly number[] {
  const named = selection?.ranks ?? selection?.ids?.map(([rank]) => rank) ?? null;
  if (named === null) return [];
  const asked = new Set(named);
  return clusters.flatMap(({ ranks }) => {
    const some = ranks.filter((rank) => asked.has(rank));
    return some.length < ranks.length && some.length <= MOST_HELD ? some : [];
  });
}

export class Folding {
  /** Whether it is folded, or can be, has changed. */
  readonly changed = new Emitter();
  on: boolean;
  private clusters: Clusters | null = null;
  private refused = false;
  private unfolded: ReadonlySet<number> = new Set();
  private event: number | null = null;
  private selection: SelectionJson | null = null;
  private asked: AbortController | null = null;

  constructor(
    private readonly ctx: Context,
    private readonly rows: Rows,
    folded: boolean | null,
    /** Tell whoever keeps the setting. */
    private readonly keep: (folded: boolean) => void,
    private readonly failed: (error: unknown) => void,
  ) {
    this.on = folded ?? ctx.scene.ranks.length > MOST_UNFOLDED;
    ctx.signal.addEventListener("abort", () => this.asked?.abort(), { once: true });
    // Which ranks are alike takes longer to say than what the first picture needs.
    ctx.source.onReply((op) => {
      if (op === "stats") this.ready();
    });
  }

  /** Can it be asked for? A kernel knows; a saved page has to say so first. */
  get offered(): boolean {
    const { scene, source } = this.ctx;
    if (scene.ranks.length < LEAST_RANKS || this.refused) return false;
    return this.clusters !== null || source.status !== "none";
  }

  /** Nothing is alike: the answer was that every rank is on its own. */
  get isVain(): boolean {
    return this.clusters?.clusters.every(({ ranks }) => ranks.length < 2) ?? false;
  }

  /** Why there is nothing to fold, where the analysis says so. */
  get note(): string {
    return this.clusters?.note ?? "";
  }

  /** How many ranks are shown where some are folded away, or that this is being found out. */
  get words(): string {
    if (this.on && this.asked !== null) return " Looking for ranks that are alike …";
    const hidden = this.rows.alike?.hidden.size ?? 0;
    const all = this.ctx.scene.ranks.length;
    return hidden === 0 ? "" : foldedWords({ shown: all - hidden, all });
  }

  /** Fold like ranks, or show all. */
  set(on: boolean, byHand = true): void {
    if (on === this.on) return;
    this.on = on;
    this.unfolded = new Set();
    if (byHand) this.keep(on);
    if (on) this.ask();
    this.apply();
  }

  /** Show the ranks that a row stands for, or fold them again. False where there is no such row. */
  toggleGroup(rank: number): boolean {
    const { alike } = this.rows;
    if (alike === null) return false;
    const stands = alike.groups.has(rank) ? rank : this.representativeOf(rank);
    if (stands === null) return false;
    const unfolded = new Set(this.unfolded);
    if (!unfolded.delete(stands)) unfolded.add(stands);
    this.unfolded = unfolded;
    this.apply();
    return true;
  }

  /** The rank of the selected event has a row of its own, or the event could not be seen. */
  hold(event: number | null, selection: SelectionJson | null): void {
    if (event === this.event && selection === this.selection) return;
    this.event = event;
    this.selection = selection;
    if (this.on && this.clusters !== null) this.apply();
  }

  /** After another scene. */
  renew(): void {
    this.asked?.abort();
    this.asked = null;
    this.clusters = null;
    this.refused = false;
    this.unfolded = new Set();
    this.apply();
  }

  private representativeOf(rank: number): number | null {
    const group = this.clusters?.clusters.find(({ ranks }) => ranks.includes(rank));
    return group === undefined || group.ranks.length < 2 ? null : group.representative;
  }

  private ready(): void {
    // Without a kernel the offer hangs on the answer.
    if (this.on || this.ctx.source.status === "none") this.ask();
  }

  private ask(): void {
    const { scene, source } = this.ctx;
    const known = this.clusters !== null || this.asked !== null || this.refused;
    if (known || scene.ranks.length < LEAST_RANKS) return;
    const asked = new AbortController();
    this.asked = asked;
    this.changed.emit();
    source
      .ask("clusters", {}, asked.signal)
      .then((reply) => {
        if (asked.signal.aborted) return;
        this.clusters = readClusters(reply);
      })
      .catch((error: unknown) => {
        if (asked.signal.aborted || isAbort(error)) return;
        this.refused = true;
        // A page that cannot say which ranks are alike does not offer to fold them, that is all.
        if (source.status !== "none") this.failed(error);
      })
      .finally(() => {
        if (asked.signal.aborted) return;
        this.asked = null;
        this.apply();
      });
  }

  private apply(): void {
    const { clusters } = this;
    const held = new Set(this.event === null ? [] : [this.event]);
    if (clusters !== null) for (const one of partlyNamed(clusters, this.selection)) held.add(one);
    this.rows.fold(this.on && clusters !== null ? alikeOf(clusters, this.unfolded, held) : null);
    this.changed.emit();
  }
}
