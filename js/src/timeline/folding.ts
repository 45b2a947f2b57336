/** Fold similar ranks into one row: request the groups, and hide their rows. */

import { batch, computed, signal } from "@preact/signals";
import { getOrMake } from "../protocol/maps";
import type { Clusters, RankGroups, SelectionJson } from "../protocol/source";
import { onSignal } from "../ui/react";
import { LatestRequest, type TimelineContext } from "./context";
import { type RowsController, toggleMember } from "./rows";
import type { EventSelection } from "./selected_event";
import { foldedText } from "./text";

const MIN_RANKS = 3;
/** If there are more ranks, similar ones are folded unless the user or Python decided otherwise. */
const MAX_UNFOLDED = 16;
/** If more ranks of a group are selected, they do not get their own rows. */
const MAX_KEPT_OPEN = 8;

/** Return the groups of similar ranks. Ranks of unfolded groups or in `keptOpen` stay visible. */
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

/** Return the selected ranks that get their own rows, if they are few and not a whole group. */
export function ranksShownAlone(
  { clusters }: Clusters,
  selection: SelectionJson | null,
): readonly number[] {
  const selected = new Set(selection?.ranks ?? selection?.ids?.map(([rank]) => rank) ?? []);
  return clusters.flatMap(({ ranks }) => {
    const members = ranks.filter((rank) => selected.has(rank));
    return members.length < ranks.length && members.length <= MAX_KEPT_OPEN ? members : [];
  });
}

export interface FoldingState {
  /** Whether ranks can be folded. In a saved page, this is not known before the first reply. */
  isOffered: boolean;
  isOn: boolean;
  /** Whether similar ranks are to be folded but are not known yet. */
  isPending: boolean;
  /** The ranks that share a row. */
  groups: readonly (readonly number[])[];
}

export interface FoldingOptions {
  /** Whether to fold similar ranks. If null or missing, they are folded if there are many ranks. */
  folded?: boolean | null;
  /** Called when the user has folded or unfolded ranks. */
  saveFolded?: (folded: boolean) => void;
}

export class FoldingController {
  private readonly isEnabled;
  private readonly clusters = signal<Clusters | null>(null);
  private readonly isUnavailable = signal(false);
  private readonly unfolded = signal<ReadonlySet<number>>(new Set());
  private readonly newest: LatestRequest;
  /** Rank of the selected event. It has its own row to make the event visible. */
  private readonly keptOpen = computed(() => this.app.picking.stateSignal.value.key?.rank ?? null);
  private readonly rankGroups = computed((): RankGroups | null => {
    const clusters = this.clusters.value;
    if (!this.isEnabled.value || clusters === null) return null;
    const selected = ranksShownAlone(clusters, this.app.picking.selectionSignal.value);
    const keptOpen = this.keptOpen.value === null ? selected : [this.keptOpen.value, ...selected];
    return rankGroupsOf(clusters, this.unfolded.value, new Set(keptOpen));
  });
  readonly stateSignal = computed((): FoldingState => {
    const { scene, source } = this.app.ctx;
    const isPending = this.clusters.value === null;
    const isKnown = !isPending || source.status !== "none";
    const isOffered = scene.ranks.length >= MIN_RANKS && !this.isUnavailable.value && isKnown;
    return {
      isOffered,
      isOn: this.isEnabled.value,
      isPending: isOffered && isPending && this.isEnabled.value,
      groups: this.groups,
    };
  });

  constructor(
    private readonly app: { ctx: TimelineContext; rows: RowsController; picking: EventSelection },
    private readonly options: FoldingOptions,
  ) {
    const { ctx, rows } = app;
    this.isEnabled = signal(options.folded ?? ctx.scene.ranks.length > MAX_UNFOLDED);
    this.newest = new LatestRequest(ctx.signal);
    // Finding similar ranks takes longer than the requests for the first picture.
    ctx.source.onReply((op) => {
      if (op === "stats") this.ready();
    });
    onSignal(this.rankGroups, (rankGroups) => (rows.rankGroups.value = rankGroups), ctx.signal);
  }

  /** Whether the reply contains no groups of similar ranks. */
  get foldsNothing(): boolean {
    return this.clusters.value?.clusters.every(({ ranks }) => ranks.length < 2) ?? false;
  }

  /** Why there is nothing to fold, if the analysis gives a reason. */
  get note(): string {
    return this.clusters.value?.note ?? "";
  }

  /** The number of displayed ranks, or a note that the request is running; "" if all are. */
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

  set(on: boolean, byHand = true): void {
    if (on === this.isEnabled.value) return;
    batch(() => {
      this.isEnabled.value = on;
      this.unfolded.value = new Set();
    });
    if (byHand) this.options.saveFolded?.(on);
    if (on) this.ask();
  }

  /** Unfold the ranks represented by a row, or fold them again. Return false if there are none. */
  toggleGroup(rank: number): boolean {
    if (this.rankGroups.value === null) return false;
    const group = this.clusters.value?.clusters.find(({ ranks }) => ranks.includes(rank));
    if (group === undefined || group.ranks.length < 2) return false;
    this.unfolded.value = toggleMember(this.unfolded.value, group.representative);
    return true;
  }

  reset(): void {
    this.newest.cancel();
    batch(() => {
      this.clusters.value = null;
      this.isUnavailable.value = false;
      this.unfolded.value = new Set();
    });
  }

  /** Find similar ranks if they are to be folded. Called after the first replies. */
  ready(): void {
    // Without a kernel, folding is offered only if the page contains the reply.
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
        // A page without data about similar ranks offers no folding.
        if (ctx.source.status !== "none") ctx.fail("Similar ranks cannot be found", error);
      },
    );
  }
}
