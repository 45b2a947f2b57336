/** Rows of the timeline: which ranks are open, pinned, filtered or folded. */

import { signal } from "@preact/signals";
import { same } from "../connection/store";
import { Regular } from "../expressions/regular";
import { getOrMake } from "../protocol/maps";
import {
  type Alike,
  isAbort,
  type RowInfo,
  type SelectionJson,
  type Clusters,
} from "../protocol/source";
import { type Context, Emitter } from "./context";
import { foldedWords } from "./text";

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
  readonly changed = new Emitter();
  /** The rows as they are drawn. */
  readonly now = signal<readonly RowInfo[]>([]);
  /** Text of the filter while it is typed; the last valid one filters. */
  readonly typed = signal("");
  open: ReadonlySet<number>;
  /** Groups of similar ranks folded into rows; null if none are folded. */
  alike: Alike | null = null;
  /** Ranks that were chosen elsewhere; null shows all. */
  only: ReadonlySet<number> | null = null;
  /** Lanes without events in view keep their height. */
  roomy = false;
  private readonly valid = signal("");
  private openedAlone: number | null = null;

  constructor(private readonly ctx: Context) {
    const only = ctx.scene.ranks.length === 1 ? ctx.scene.ranks[0] : undefined;
    this.open = new Set(only === undefined ? [] : [only.rank]);
    this.push();
    ctx.stage.onRows(() => this.tell());
  }

  get filter(): string {
    return this.valid.value;
  }

  /** Number of lanes that are thin because they are empty in view. */
  get thin(): number {
    return this.ctx.stage.rows().reduce((sum, { thin = 0 }) => sum + thin, 0);
  }

  /** Give empty lanes their full height, or make them thin. */
  toggleRoomy(): void {
    this.roomy = !this.roomy;
    this.push();
  }

  /** Ranks that have a row, or are folded into one; null for all of the job. */
  get shown(): readonly number[] | null {
    const { stage, scene } = this.ctx;
    const shown = new Set<number>();
    for (const { rank, like = [rank] } of stage.rows()) {
      for (const one of like) if (this.only?.has(one) !== false) shown.add(one);
    }
    if (shown.size === 0 || shown.size >= scene.ranks.length) return null;
    return [...shown].sort((a, b) => a - b);
  }

  /** Pass the state to the stage. */
  push(): void {
    this.ctx.stage.setRows({
      open: this.open,
      pinned: this.ctx.shared.state.pinned,
      filter: this.filter,
      alike: this.alike,
      only: this.only,
      roomy: this.roomy,
    });
    this.tell();
  }

  private tell(): void {
    this.now.value = this.ctx.stage.rows();
    this.changed.emit();
  }

  /** Ranks that share a row, for charts next to the timeline. */
  get folded(): readonly (readonly number[])[] {
    const rows = new Map<number, number[]>();
    for (const [rank, stands] of this.alike?.hidden ?? []) {
      getOrMake(rows, stands, () => [stands]).push(rank);
    }
    return [...rows.values()];
  }

  fold(alike: Alike | null): void {
    if (alike === null && this.alike === null) return;
    this.alike = alike;
    this.push();
  }

  /** Show only these ranks. */
  showOnly(ranks: readonly number[] | null): void {
    if (same(ranks, this.only === null ? null : [...this.only])) return;
    this.only = ranks === null ? null : new Set(ranks);
    const open = new Set(this.open);
    if (this.openedAlone !== null) open.delete(this.openedAlone);
    // A single rank has room to show its tracks.
    const alone = ranks?.length === 1 ? ranks[0]! : null;
    this.openedAlone = alone === null || this.open.has(alone) ? null : alone;
    if (alone !== null) open.add(alone);
    this.open = open;
    this.push();
  }

  toggle(rank: number): void {
    const open = new Set(this.open);
    if (!open.delete(rank)) open.add(rank);
    this.open = open;
    this.push();
  }

  /** Open all ranks, or close all if all are open. */
  toggleAll(): void {
    const ranks = this.ctx.scene.ranks
      .map(({ rank }) => rank)
      .filter((rank) => this.alike?.hidden.has(rank) !== true);
    this.open = ranks.every((rank) => this.open.has(rank)) ? new Set() : new Set(ranks);
    this.push();
  }

  setFilter(text: string): void {
    this.typed.value = text;
    if (text === this.filter || filterError(text) !== null) return;
    this.valid.value = text;
    this.push();
  }

  togglePin(row: Pick<RowInfo, "rank" | "track">): boolean {
    const name = pinName(row);
    const pinned = this.ctx.shared.state.pinned;
    const on = !pinned.includes(name);
    this.ctx.shared.set({ pinned: on ? [...pinned, name] : pinned.filter((one) => one !== name) });
    this.push();
    return on;
  }

  /**
   * Bring a lane into view. A folded rank is opened only if its folded row does not draw the lane's
   * events. False if the filter hides it.
   */
  show(lane: number): boolean {
    const { stage, lanes } = this.ctx;
    if (stage.reveal(lane)) return true;
    const place = lanes.at(lane);
    if (place === null) return false;
    const folded = place.rank.summary.find((summary) =>
      place.track?.role === "stream"
        ? summary.role === (place.track.communication ? "comm" : "gpu")
        : false,
    );
    if (folded !== undefined && stage.reveal(folded.lane)) return true;
    if (!this.open.has(place.rank.rank)) {
      this.toggle(place.rank.rank);
      return stage.reveal(lane);
    }
    return false;
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
    this.open = new Set([...this.open].filter((rank) => known.has(rank)));
    this.push();
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

export class Folding {
  /** Emitted when folding, or its availability, has changed. */
  readonly changed = new Emitter();
  readonly state = signal({ isOffered: false, isOn: false });
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
    /** Store the setting. */
    private readonly keep: (folded: boolean) => void,
    private readonly failed: (error: unknown) => void,
  ) {
    this.on = folded ?? ctx.scene.ranks.length > MOST_UNFOLDED;
    ctx.signal.addEventListener("abort", () => this.asked?.abort(), { once: true });
    // Finding similar ranks takes longer than the requests of the first picture.
    ctx.source.onReply((op) => {
      if (op === "stats") this.ready();
    });
    this.tell();
  }

  /** Whether folding is available. A kernel supports it; a saved page has to report it first. */
  get offered(): boolean {
    const { scene, source } = this.ctx;
    if (scene.ranks.length < LEAST_RANKS || this.refused) return false;
    return this.clusters !== null || source.status !== "none";
  }

  /** Whether the reply had no groups of similar ranks. */
  get isVain(): boolean {
    return this.clusters?.clusters.every(({ ranks }) => ranks.length < 2) ?? false;
  }

  /** Reason why there is nothing to fold, if the analysis gives one. */
  get note(): string {
    return this.clusters?.note ?? "";
  }

  /** Number of ranks shown while some are folded, or a note that the request is running. */
  get words(): string {
    if (this.on && this.asked !== null) return " Finding similar ranks …";
    const hidden = this.rows.alike?.hidden.size ?? 0;
    const all = this.ctx.scene.ranks.length;
    return hidden === 0 ? "" : foldedWords({ shown: all - hidden, all });
  }

  /** Fold similar ranks, or show all. */
  set(on: boolean, byHand = true): void {
    if (on === this.on) return;
    this.on = on;
    this.unfolded = new Set();
    if (byHand) this.keep(on);
    if (on) this.ask();
    this.apply();
  }

  /** Show the ranks that a row represents, or fold them again. False if the row does not exist. */
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

  /** Show the rank of the selected event in a row of its own, so that the event is visible. */
  hold(event: number | null, selection: SelectionJson | null): void {
    if (event === this.event && selection === this.selection) return;
    this.event = event;
    this.selection = selection;
    if (this.on && this.clusters !== null) this.apply();
  }

  /** Reset for a new scene. */
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

  /** Called after the first replies: find similar ranks if they are to be folded. */
  ready(): void {
    // Without a kernel, folding is offered only if the page has the reply.
    if (this.on || this.ctx.source.status === "none") this.ask();
  }

  private ask(): void {
    const { scene, source } = this.ctx;
    const known = this.clusters !== null || this.asked !== null || this.refused;
    if (known || scene.ranks.length < LEAST_RANKS) return;
    const asked = new AbortController();
    this.asked = asked;
    this.tell();
    source
      .ask("clusters", {}, asked.signal)
      .then((reply) => {
        if (asked.signal.aborted) return;
        this.clusters = reply.reply;
      })
      .catch((error: unknown) => {
        if (asked.signal.aborted || isAbort(error)) return;
        this.refused = true;
        // A page without data on similar ranks only does not offer to fold them.
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
    this.tell();
  }

  private tell(): void {
    this.state.value = { isOffered: this.offered, isOn: this.on };
    this.changed.emit();
  }
}
