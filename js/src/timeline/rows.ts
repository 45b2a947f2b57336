/** A timeline's rows: which ranks are open, pinned or filtered. */

import { batch, computed, signal } from "@preact/signals";
import { isSameJson } from "../connection/store";
import { LinearRegExp } from "../expressions/regular";
import type { RankGroups, RowInfo } from "../protocol/source";
import { onSignal } from "../ui/react";
import type { TimelineContext } from "./context";

/** Return a row's name in the shared list of pins. */
export function pinName(row: Pick<RowInfo, "rank" | "track">): string {
  return row.track === null ? String(row.rank) : `${row.rank}/${row.track.key}`;
}

/** Return why a filter is invalid, or null. */
export function filterError(text: string): string | null {
  try {
    new LinearRegExp(text, { ignoreCase: true });
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

export class RowsController {
  /** The rows as drawn. */
  readonly stateSignal = signal<readonly RowInfo[]>([]);
  /** The filter as typed. The last valid text filters the rows. */
  readonly filterText = signal("");
  /** Groups of similar ranks that share rows; null if none are folded. */
  readonly rankGroups = signal<RankGroups | null>(null);
  /** Whether lanes without events in view keep their full height. */
  readonly keepEmptyLanes = signal(false);
  /** Tracks whose stacks of Python frames are unfolded. */
  private readonly openStacks = signal<ReadonlySet<string>>(new Set());
  private readonly open;
  /** Ranks selected elsewhere; null shows all ranks. */
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

  /** Number of lanes that are thin because they are empty in the view. */
  get thinLaneCount(): number {
    return this.stateSignal.value.reduce((sum, { thinLanes = 0 }) => sum + thinLanes, 0);
  }

  toggleEmptyLanes(): void {
    this.keepEmptyLanes.value = !this.keepEmptyLanes.value;
  }

  toggleStacks(row: Pick<RowInfo, "rank" | "track">): void {
    this.openStacks.value = toggleMember(this.openStacks.value, pinName(row));
  }

  /** Unfold all Python stacks, or fold them if all are unfolded. Return false if there are none. */
  toggleAllStacks(): boolean {
    const rows = this.stateSignal.value.filter(({ stacks }) => stacks !== undefined);
    const isFolded = rows.some(({ stacks }) => stacks === "folded");
    this.openStacks.value = new Set(isFolded ? rows.map(pinName) : []);
    return rows.length > 0;
  }

  /** The ranks that have or share a row; null if these are all or none of the job's ranks. */
  get shownRanks(): readonly number[] | null {
    const only = this.onlyRanks.value;
    const ranks = this.stateSignal.value.flatMap(({ rank, memberRanks = [rank] }) => memberRanks);
    const shown = new Set(ranks.filter((rank) => only?.has(rank) !== false));
    if (shown.size === 0 || shown.size >= this.ctx.scene.ranks.length) return null;
    return [...shown].sort((a, b) => a - b);
  }

  showOnly(ranks: readonly number[] | null): void {
    const { onlyRanks } = this;
    if (isSameJson(ranks, onlyRanks.value && [...onlyRanks.value])) return;
    const open = new Set(this.open.value);
    if (this.openedAlone !== null) open.delete(this.openedAlone);
    // If only one rank is displayed, there is enough space for its tracks.
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

  /** Open all ranks, or close all ranks if they are all open. */
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

  /** Pin a row, or unpin it. Return whether it is now pinned. */
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
   * Bring a lane into view. Open a folded rank only if its folded row does not show the lane's
   * events. Return false if the filter hides the lane.
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

  /** Scroll to a rank's communication lane or, without one, to its first summary lane. */
  showRank(rank: number): void {
    const summary = this.ctx.lanes.findRank(rank)?.summary ?? [];
    const lane = summary.find(({ role }) => role === "comm") ?? summary[0];
    if (lane !== undefined) this.ctx.stage.reveal(lane.lane);
  }

  /** Drop ranks that do not exist in the new scene. */
  reset(): void {
    const sceneRanks = new Set(this.ctx.scene.ranks.map((rank) => rank.rank));
    this.open.value = new Set([...this.open.value].filter((rank) => sceneRanks.has(rank)));
  }
}

/** Return the set with the member added or, if it is already in the set, removed. */
export function toggleMember<T>(set: ReadonlySet<T>, member: T): ReadonlySet<T> {
  const next = new Set(set);
  if (!next.delete(member)) next.add(member);
  return next;
}
