/** Rows of the timeline: which ranks are open, pinned, filtered or folded. */

import { batch, computed, signal } from "@preact/signals";
import { isSameJson } from "../connection/store";
import { LinearRegExp } from "../expressions/regular";
import { getOrMake } from "../protocol/maps";
import type { RankGroups, Clusters, RowInfo, SelectionJson } from "../protocol/source";
import { onSignal } from "../ui/react";
import { type TimelineContext, LatestRequest } from "./context";
import { foldedText } from "./text";
import type { AppOptions, TimelineApp } from "./view";

/** The name of a row in the shared list of pins. */
export function pinName(row: Pick<RowInfo, "rank" | "track">): string {
  return row.track === null ? String(row.rank) : `${row.rank}/${row.track.key}`;
}

/** Reason that a filter is invalid, or null. */
export function filterError(text: string): string | null {
  try {
    new LinearRegExp(text, { ignoreCase: true });
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

export class RowsController {
  /** The rows as they are drawn. */
  readonly stateSignal = signal<readonly RowInfo[]>([]);
  /** Text of the filter while it is typed; the last valid one filters. */
  readonly filterText = signal("");
  /** Groups of similar ranks folded into rows; null if none are folded. */
  readonly rankGroups = signal<RankGroups | null>(null);
  /** Lanes without events in view keep their height. */
  readonly keepEmptyLanes = signal(false);
  /** Tracks whose stacks of Python frames are unfolded. */
  private readonly openStacks = signal<ReadonlySet<string>>(new Set());
  private readonly open;
  /** Ranks that were chosen elsewhere; null shows all. */
  private readonly onlyRanks = signal<ReadonlySet<number> | null>(null);
  private readonly validFilter = signal("");
  private openedAlone: number | null = null;

  constructor(private readonly ctx: TimelineContext) {
    const { stage, shared, scene } = ctx;
    const onlyRanks = scene.ranks.length === 1 ? [scene.ranks[0]!.rank] : [];
    this.open = signal<ReadonlySet<number>>(new Set(onlyRanks));
    const pinned = computed(() => shared.stateSignal.value.pinned);
    const syncRows = (): void => void (this.stateSignal.value = stage.rows());
    onSignal(
      () => ({
        open: this.open.value,
        pinned: pinned.value,
        filter: this.filter,
        rankGroups: this.rankGroups.value,
        onlyRanks: this.onlyRanks.value,
        keepEmptyLanes: this.keepEmptyLanes.value,
        openStacks: this.openStacks.value,
      }),
      (state) => {
        stage.setRows(state);
        syncRows();
      },
      ctx.signal,
    );
    stage.onRowsChange(syncRows);
  }

  get filter(): string {
    return this.validFilter.value;
  }

  /** Number of lanes that are thin because they are empty in view. */
  get thinLaneCount(): number {
    return this.stateSignal.value.reduce((sum, { thinLanes = 0 }) => sum + thinLanes, 0);
  }

  /** Give empty lanes their full height, or make them thin. */
  toggleEmptyLanes(): void {
    this.keepEmptyLanes.value = !this.keepEmptyLanes.value;
  }

  /** Unfold the stacks of Python frames of a track, or fold them. */
  toggleStacks(row: Pick<RowInfo, "rank" | "track">): void {
    this.openStacks.value = toggleMember(this.openStacks.value, pinName(row));
  }

  /** Unfold all stacks of the rows, or fold them if none is folded; false if there are none. */
  toggleAllStacks(): boolean {
    const rows = this.stateSignal.value.filter(({ stacks }) => stacks !== undefined);
    const isFolded = rows.some(({ stacks }) => stacks === "folded");
    this.openStacks.value = new Set(isFolded ? rows.map(pinName) : []);
    return rows.length > 0;
  }

  /** Ranks that have a row, or are folded into one; null for all of the job. */
  get shownRanks(): readonly number[] | null {
    const only = this.onlyRanks.value;
    const ranks = this.stateSignal.value.flatMap(({ rank, memberRanks = [rank] }) => memberRanks);
    const shown = new Set(ranks.filter((rank) => only?.has(rank) !== false));
    if (shown.size === 0 || shown.size >= this.ctx.scene.ranks.length) return null;
    return [...shown].sort((a, b) => a - b);
  }

  /** Show only these ranks. */
  showOnly(ranks: readonly number[] | null): void {
    const { onlyRanks } = this;
    if (isSameJson(ranks, onlyRanks.value && [...onlyRanks.value])) return;
    const open = new Set(this.open.value);
    if (this.openedAlone !== null) open.delete(this.openedAlone);
    // A single rank has room to show its tracks.
    const alone = ranks?.length === 1 ? ranks[0]! : null;
    this.openedAlone = alone === null || this.open.value.has(alone) ? null : alone;
    if (alone !== null) open.add(alone);
    batch(() => {
      onlyRanks.value = ranks && new Set(ranks);
      this.open.value = open;
    });
  }

  isOpen(rank: number): boolean {
    return this.stateSignal.value.some((row) => row.rank === rank && row.open);
  }

  toggle(rank: number): void {
    this.open.value = toggleMember(this.open.value, rank);
  }

  /** Open all ranks, or close all if all are open. */
  toggleAll(): void {
    const { open, rankGroups: groups } = this;
    const ranks = this.ctx.scene.ranks
      .map(({ rank }) => rank)
      .filter((rank) => groups.value?.hidden.has(rank) !== true);
    open.value = new Set(ranks.every((rank) => open.value.has(rank)) ? [] : ranks);
  }

  setFilter(text: string): void {
    this.filterText.value = text;
    if (text === this.filter || filterError(text) !== null) return;
    this.validFilter.value = text;
  }

  togglePin(row: Pick<RowInfo, "rank" | "track">): boolean {
    const name = pinName(row);
    const pinned = this.ctx.shared.state.pinned;
    const on = !pinned.includes(name);
    this.ctx.shared.set({
      pinned: on ? [...pinned, name] : pinned.filter((pinnedName) => pinnedName !== name),
    });
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
    const rank = lanes.locate(lane)?.rank.rank;
    if (rank === undefined || this.open.value.has(rank)) return false;
    this.toggle(rank);
    return stage.reveal(lane);
  }

  /** Scroll to the row of a rank: to its communication if it has any. */
  showRank(rank: number): void {
    const summary = this.ctx.lanes.findRank(rank)?.summary ?? [];
    const lane = summary.find(({ role }) => role === "comm") ?? summary[0];
    if (lane !== undefined) this.ctx.stage.reveal(lane.lane);
  }

  /** Drop ranks that are missing from the new scene. */
  reset(): void {
    const sceneRanks = new Set(this.ctx.scene.ranks.map((rank) => rank.rank));
    this.open.value = new Set([...this.open.value].filter((rank) => sceneRanks.has(rank)));
  }
}

// Folding of similar ranks into one row: the request for it, and the rows that it hides.

/** Min number of ranks for folding. */
const MIN_RANKS = 3;
/** Larger jobs are folded unless the user or Python chose otherwise. */
const MAX_UNFOLDED = 16;
/** Max number of selected ranks of a partly selected group that are shown. */
const MAX_KEPT_OPEN = 8;

/** Folded groups: those that are not unfolded, less the ranks that must be visible. */
export function rankGroupsOf(
  { clusters, outliers }: Clusters,
  unfolded: ReadonlySet<number>,
  keptOpen: ReadonlySet<number>,
): RankGroups {
  const groupsOfSeveral = clusters.filter(({ ranks }) => ranks.length > 1);
  const hidden = new Map<number, number>();
  for (const { representative, ranks } of groupsOfSeveral) {
    if (unfolded.has(representative)) continue;
    for (const rank of ranks) {
      if (rank !== representative && !keptOpen.has(rank)) hidden.set(rank, representative);
    }
  }
  const reasons = [
    ...outliers,
    ...clusters.map(({ representative: rank, why }) => ({ rank, why })),
  ].filter(({ why }) => why !== "");
  return {
    groups: new Map(groupsOfSeveral.map(({ representative, ranks }) => [representative, ranks])),
    unfolded,
    hidden,
    reasons: new Map(reasons.map(({ rank, why }) => [rank, why])),
  };
}

/** Selected ranks of partly selected groups. */
export function partlyNamedGroups(
  { clusters }: Clusters,
  selection: SelectionJson | null,
): readonly number[] {
  const named = selection?.ranks ?? selection?.ids?.map(([rank]) => rank) ?? null;
  if (named === null) return [];
  const requested = new Set(named);
  return clusters.flatMap(({ ranks }) => {
    const someNamed = ranks.filter((rank) => requested.has(rank));
    return someNamed.length < ranks.length && someNamed.length <= MAX_KEPT_OPEN ? someNamed : [];
  });
}

export interface FoldingState {
  /** A kernel supports folding; a saved page has to report it first. */
  isOffered: boolean;
  isOn: boolean;
  /** The ranks that share a row. */
  groups: readonly (readonly number[])[];
}

export class FoldingController {
  private readonly isEnabled;
  private readonly clusters = signal<Clusters | null>(null);
  private readonly isUnavailable = signal(false);
  private readonly unfolded = signal<ReadonlySet<number>>(new Set());
  private readonly newest: LatestRequest;
  /** Rank of the selected event, which has a row of its own, so that the event is visible. */
  private readonly keptOpen = computed(() => this.app.picking.stateSignal.value.key?.rank ?? null);
  private readonly rankGroups = computed((): RankGroups | null => {
    const clusters = this.clusters.value;
    if (!this.isEnabled.value || clusters === null) return null;
    const selected = partlyNamedGroups(clusters, this.app.picking.selectionSignal.value);
    const shownAlone = this.keptOpen.value === null ? selected : [this.keptOpen.value, ...selected];
    return rankGroupsOf(clusters, this.unfolded.value, new Set(shownAlone));
  });
  readonly stateSignal = computed((): FoldingState => {
    const { scene, source } = this.app.ctx;
    const isKnown = this.clusters.value !== null || source.status !== "none";
    return {
      isOffered: scene.ranks.length >= MIN_RANKS && !this.isUnavailable.value && isKnown,
      isOn: this.isEnabled.value,
      groups: this.groups,
    };
  });

  constructor(
    private readonly app: Pick<TimelineApp, "ctx" | "rows" | "picking">,
    private readonly options: Pick<AppOptions, "folded" | "saveFolded">,
  ) {
    const { ctx, rows } = app;
    this.isEnabled = signal(options.folded ?? ctx.scene.ranks.length > MAX_UNFOLDED);
    this.newest = new LatestRequest(ctx.signal);
    // Finding similar ranks takes longer than the requests of the first picture.
    ctx.source.onReply((op) => {
      if (op === "stats") this.ready();
    });
    onSignal(this.rankGroups, (rankGroups) => (rows.rankGroups.value = rankGroups), ctx.signal);
  }

  /** Whether the reply had no groups of similar ranks. */
  get foldsNothing(): boolean {
    return this.clusters.value?.clusters.every(({ ranks }) => ranks.length < 2) ?? false;
  }

  /** Reason why there is nothing to fold, if the analysis gives one. */
  get note(): string {
    return this.clusters.value?.note ?? "";
  }

  /** Number of ranks shown while some are folded, or a note that the request is running. */
  get rankCountText(): string {
    if (this.isEnabled.value && this.newest.isPending.value) return " Finding similar ranks …";
    const hidden = this.rankGroups.value?.hidden.size ?? 0;
    const all = this.app.ctx.scene.ranks.length;
    return hidden === 0 ? "" : foldedText({ shown: all - hidden, all });
  }

  private get groups(): number[][] {
    const groups = new Map<number, number[]>();
    for (const [rank, representative] of this.rankGroups.value?.hidden ?? []) {
      getOrMake(groups, representative, () => [representative]).push(rank);
    }
    return [...groups.values()];
  }

  /** Fold similar ranks, or show all. */
  set(on: boolean, byHand = true): void {
    if (on === this.isEnabled.value) return;
    batch(() => {
      this.isEnabled.value = on;
      this.unfolded.value = new Set();
    });
    if (byHand) this.options.saveFolded?.(on);
    if (on) this.ask();
  }

  /** Show the ranks that a row represents, or fold them again. False if the row does not exist. */
  toggleGroup(rank: number): boolean {
    if (this.rankGroups.value === null) return false;
    const group = this.clusters.value?.clusters.find(({ ranks }) => ranks.includes(rank));
    if (group === undefined || group.ranks.length < 2) return false;
    this.unfolded.value = toggleMember(this.unfolded.value, group.representative);
    return true;
  }

  /** Reset for a new scene. */
  reset(): void {
    this.newest.cancel();
    batch(() => {
      this.clusters.value = null;
      this.isUnavailable.value = false;
      this.unfolded.value = new Set();
    });
  }

  /** Called after the first replies: find similar ranks if they are to be folded. */
  ready(): void {
    // Without a kernel, folding is offered only if the page has the reply.
    if (this.isEnabled.value || this.app.ctx.source.status === "none") this.ask();
  }

  private ask(): void {
    const { ctx } = this.app;
    const isKnown = this.clusters.value !== null || this.newest.isPending.value;
    if (isKnown || this.isUnavailable.value || ctx.scene.ranks.length < MIN_RANKS) return;
    this.newest.ask(
      (signal) => ctx.source.ask("clusters", {}, signal),
      ({ reply }) => (this.clusters.value = reply),
      (error) => {
        this.isUnavailable.value = true;
        // A page without data on similar ranks only does not offer to fold them.
        if (ctx.source.status !== "none") ctx.fail("Similar ranks cannot be found", error);
      },
    );
  }
}

/** The set with a member more, or without it. */
function toggleMember<T>(set: ReadonlySet<T>, member: T): ReadonlySet<T> {
  const next = new Set(set);
  if (!next.delete(member)) next.add(member);
  return next;
}
