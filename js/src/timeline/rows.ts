/** Rows of the timeline: which ranks are open, pinned, filtered or folded. */

import { batch, computed, signal } from "@preact/signals";
import { same } from "../connection/store";
import { Regular } from "../expressions/regular";
import { getOrMake } from "../protocol/maps";
import type { Alike, Clusters, RowInfo, SelectionJson } from "../protocol/source";
import { react } from "../ui/react";
import { type Context, Newest } from "./context";
import { foldedWords } from "./text";
import type { AppOptions, TimelineApp } from "./view";

/** The name of a row in the shared list of pins. */
export function pinName(row: Pick<RowInfo, "rank" | "track">): string {
  return row.track === null ? String(row.rank) : `${row.rank}/${row.track.key}`;
}

/** Reason that a filter is invalid, or null. */
export function filterError(text: string): string | null {
  try {
    new Regular(text, { ignoreCase: true });
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

export class Rows {
  /** The rows as they are drawn. */
  readonly now = signal<readonly RowInfo[]>([]);
  /** Text of the filter while it is typed; the last valid one filters. */
  readonly typed = signal("");
  /** Groups of similar ranks folded into rows; null if none are folded. */
  readonly alike = signal<Alike | null>(null);
  /** Lanes without events in view keep their height. */
  readonly roomy = signal(false);
  private readonly open;
  /** Ranks that were chosen elsewhere; null shows all. */
  private readonly only = signal<ReadonlySet<number> | null>(null);
  private readonly valid = signal("");
  private openedAlone: number | null = null;

  constructor(private readonly ctx: Context) {
    const { stage, shared, scene } = ctx;
    const only = scene.ranks.length === 1 ? [scene.ranks[0]!.rank] : [];
    this.open = signal<ReadonlySet<number>>(new Set(only));
    const pinned = computed(() => shared.now.value.pinned);
    const follow = (): void => void (this.now.value = stage.rows());
    react(
      () => ({
        open: this.open.value,
        pinned: pinned.value,
        filter: this.filter,
        alike: this.alike.value,
        only: this.only.value,
        roomy: this.roomy.value,
      }),
      (state) => {
        stage.setRows(state);
        follow();
      },
      ctx.signal,
    );
    stage.onRows(follow);
  }

  get filter(): string {
    return this.valid.value;
  }

  /** Number of lanes that are thin because they are empty in view. */
  get thin(): number {
    return this.now.value.reduce((sum, { thin = 0 }) => sum + thin, 0);
  }

  /** Give empty lanes their full height, or make them thin. */
  toggleRoomy(): void {
    this.roomy.value = !this.roomy.value;
  }

  /** Ranks that have a row, or are folded into one; null for all of the job. */
  get shown(): readonly number[] | null {
    const only = this.only.value;
    const ranks = this.now.value.flatMap(({ rank, like = [rank] }) => like);
    const shown = new Set(ranks.filter((rank) => only?.has(rank) !== false));
    if (shown.size === 0 || shown.size >= this.ctx.scene.ranks.length) return null;
    return [...shown].sort((a, b) => a - b);
  }

  /** Show only these ranks. */
  showOnly(ranks: readonly number[] | null): void {
    const { only } = this;
    if (same(ranks, only.value && [...only.value])) return;
    const open = new Set(this.open.value);
    if (this.openedAlone !== null) open.delete(this.openedAlone);
    // A single rank has room to show its tracks.
    const alone = ranks?.length === 1 ? ranks[0]! : null;
    this.openedAlone = alone === null || this.open.value.has(alone) ? null : alone;
    if (alone !== null) open.add(alone);
    batch(() => {
      only.value = ranks && new Set(ranks);
      this.open.value = open;
    });
  }

  isOpen(rank: number): boolean {
    return this.now.value.some((row) => row.rank === rank && row.open);
  }

  toggle(rank: number): void {
    this.open.value = toggled(this.open.value, rank);
  }

  /** Open all ranks, or close all if all are open. */
  toggleAll(): void {
    const { open, alike } = this;
    const ranks = this.ctx.scene.ranks
      .map(({ rank }) => rank)
      .filter((rank) => alike.value?.hidden.has(rank) !== true);
    open.value = new Set(ranks.every((rank) => open.value.has(rank)) ? [] : ranks);
  }

  setFilter(text: string): void {
    this.typed.value = text;
    if (text === this.filter || filterError(text) !== null) return;
    this.valid.value = text;
  }

  togglePin(row: Pick<RowInfo, "rank" | "track">): boolean {
    const name = pinName(row);
    const pinned = this.ctx.shared.state.pinned;
    const on = !pinned.includes(name);
    this.ctx.shared.set({ pinned: on ? [...pinned, name] : pinned.filter((one) => one !== name) });
    return on;
  }

  /**
   * Bring a lane into view. A folded rank is opened only if its folded row does not draw the lane's
   * events. False if the filter hides it.
   */
  show(lane: number): boolean {
    const { stage, lanes } = this.ctx;
    if (stage.reveal(lane)) return true;
    const folded = this.ctx.foldedLane(lane);
    if (folded !== null && stage.reveal(folded)) return true;
    const rank = lanes.at(lane)?.rank.rank;
    if (rank === undefined || this.open.value.has(rank)) return false;
    this.toggle(rank);
    return stage.reveal(lane);
  }

  /** Scroll to the row of a rank: to its communication if it has any. */
  showRank(rank: number): void {
    const summary = this.ctx.lanes.rank(rank)?.summary ?? [];
    const lane = summary.find(({ role }) => role === "comm") ?? summary[0];
    if (lane !== undefined) this.ctx.stage.reveal(lane.lane);
  }

  /** Drop ranks that the new scene lacks. */
  renew(): void {
    const known = new Set(this.ctx.scene.ranks.map((rank) => rank.rank));
    this.open.value = new Set([...this.open.value].filter((rank) => known.has(rank)));
  }
}

// Folding of similar ranks into one row: the request for it, and the rows that it hides.

/** Min number of ranks for folding. */
const LEAST_RANKS = 3;
/** Larger jobs are folded unless the user or Python chose otherwise. */
const MOST_UNFOLDED = 16;
/** Max number of selected ranks of a partly selected group that are shown. */
const MOST_HELD = 8;

/** Folded groups: those that are not unfolded, less the ranks that must be visible. */
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

/** Selected ranks of partly selected groups. */
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

export interface FoldingNow {
  /** A kernel supports folding; a saved page has to report it first. */
  isOffered: boolean;
  isOn: boolean;
  /** The ranks that share a row. */
  groups: readonly (readonly number[])[];
}

export class Folding {
  private readonly on;
  private readonly clusters = signal<Clusters | null>(null);
  private readonly refused = signal(false);
  private readonly unfolded = signal<ReadonlySet<number>>(new Set());
  private readonly newest: Newest;
  /** Rank of the selected event, which has a row of its own, so that the event is visible. */
  private readonly held = computed(() => this.app.picking.now.value.key?.rank ?? null);
  private readonly alike = computed((): Alike | null => {
    const clusters = this.clusters.value;
    if (!this.on.value || clusters === null) return null;
    const selected = partlyNamed(clusters, this.app.picking.chosen.value);
    const held = this.held.value === null ? selected : [this.held.value, ...selected];
    return alikeOf(clusters, this.unfolded.value, new Set(held));
  });
  readonly now = computed((): FoldingNow => {
    const { scene, source } = this.app.ctx;
    const isKnown = this.clusters.value !== null || source.status !== "none";
    return {
      isOffered: scene.ranks.length >= LEAST_RANKS && !this.refused.value && isKnown,
      isOn: this.on.value,
      groups: this.groups,
    };
  });

  constructor(
    private readonly app: Pick<TimelineApp, "ctx" | "rows" | "picking">,
    private readonly options: Pick<AppOptions, "folded" | "keepFolded">,
  ) {
    const { ctx, rows } = app;
    this.on = signal(options.folded ?? ctx.scene.ranks.length > MOST_UNFOLDED);
    this.newest = new Newest(ctx.signal);
    // Finding similar ranks takes longer than the requests of the first picture.
    ctx.source.onReply((op) => {
      if (op === "stats") this.ready();
    });
    react(this.alike, (alike) => (rows.alike.value = alike), ctx.signal);
  }

  /** Whether the reply had no groups of similar ranks. */
  get isVain(): boolean {
    return this.clusters.value?.clusters.every(({ ranks }) => ranks.length < 2) ?? false;
  }

  /** Reason why there is nothing to fold, if the analysis gives one. */
  get note(): string {
    return this.clusters.value?.note ?? "";
  }

  /** Number of ranks shown while some are folded, or a note that the request is running. */
  get words(): string {
    if (this.on.value && this.newest.isPending.value) return " Finding similar ranks …";
    const hidden = this.alike.value?.hidden.size ?? 0;
    const all = this.app.ctx.scene.ranks.length;
    return hidden === 0 ? "" : foldedWords({ shown: all - hidden, all });
  }

  private get groups(): number[][] {
    const groups = new Map<number, number[]>();
    for (const [rank, stands] of this.alike.value?.hidden ?? []) {
      getOrMake(groups, stands, () => [stands]).push(rank);
    }
    return [...groups.values()];
  }

  /** Fold similar ranks, or show all. */
  set(on: boolean, byHand = true): void {
    if (on === this.on.value) return;
    batch(() => {
      this.on.value = on;
      this.unfolded.value = new Set();
    });
    if (byHand) this.options.keepFolded?.(on);
    if (on) this.ask();
  }

  /** Show the ranks that a row represents, or fold them again. False if the row does not exist. */
  toggleGroup(rank: number): boolean {
    if (this.alike.value === null) return false;
    const group = this.clusters.value?.clusters.find(({ ranks }) => ranks.includes(rank));
    if (group === undefined || group.ranks.length < 2) return false;
    this.unfolded.value = toggled(this.unfolded.value, group.representative);
    return true;
  }

  /** Reset for a new scene. */
  renew(): void {
    this.newest.cancel();
    batch(() => {
      this.clusters.value = null;
      this.refused.value = false;
      this.unfolded.value = new Set();
    });
  }

  /** Called after the first replies: find similar ranks if they are to be folded. */
  ready(): void {
    // Without a kernel, folding is offered only if the page has the reply.
    if (this.on.value || this.app.ctx.source.status === "none") this.ask();
  }

  private ask(): void {
    const { ctx } = this.app;
    const isKnown = this.clusters.value !== null || this.newest.isPending.value;
    if (isKnown || this.refused.value || ctx.scene.ranks.length < LEAST_RANKS) return;
    this.newest.ask(
      (signal) => ctx.source.ask("clusters", {}, signal),
      ({ reply }) => (this.clusters.value = reply),
      (error) => {
        this.refused.value = true;
        // A page without data on similar ranks only does not offer to fold them.
        if (ctx.source.status !== "none") ctx.fail("Similar ranks cannot be found", error);
      },
    );
  }
}

/** The set with a member more, or without it. */
export function toggled<T>(set: ReadonlySet<T>, member: T): ReadonlySet<T> {
  const next = new Set(set);
  if (!next.delete(member)) next.add(member);
  return next;
}
