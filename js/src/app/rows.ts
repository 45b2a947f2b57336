/** Which ranks are open, which rows are pinned, which are filtered away. */

import type { Alike, RowInfo } from "../contract";
import { type Context, Emitter } from "./context";
import { same } from "./history";

/** The name of a row in the shared list of pins. */
export function pinName(row: Pick<RowInfo, "rank" | "track">): string {
  return row.track === null ? String(row.rank) : `${row.rank}/${row.track.key}`;
}

/** Why a filter cannot be used, or null. */
export function filterError(text: string): string | null {
  try {
    new RegExp(text, "i");
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

export class Rows {
  readonly changed = new Emitter();
  open: ReadonlySet<number>;
  filter = "";
  /** Like ranks folded into one row; null for all in rows of their own. */
  alike: Alike | null = null;
  /** Ranks that were chosen elsewhere; null shows all. */
  only: ReadonlySet<number> | null = null;
  private openedAlone: number | null = null;

  constructor(private readonly ctx: Context) {
    const only = ctx.scene.ranks.length === 1 ? ctx.scene.ranks[0] : undefined;
    this.open = new Set(only === undefined ? [] : [only.rank]);
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

  /** Hand the state to the stage. */
  push(): void {
    this.ctx.stage.setRows({
      open: this.open,
      pinned: this.ctx.shared.state.pinned,
      filter: this.filter,
      alike: this.alike,
      only: this.only,
    });
    this.changed.emit();
  }

  fold(alike: Alike | null): void {
    if (alike === null && this.alike === null) return;
    this.alike = alike;
    this.push();
  }

  /** Show these ranks alone. */
  showOnly(ranks: readonly number[] | null): void {
    if (same(ranks, this.only === null ? null : [...this.only])) return;
    this.only = ranks === null ? null : new Set(ranks);
    const open = new Set(this.open);
    if (this.openedAlone !== null) open.delete(this.openedAlone);
    // One rank alone has the room to show its tracks.
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
    if (text === this.filter || filterError(text) !== null) return;
    this.filter = text;
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
   * Bring a lane into sight. A folded rank is opened only where its folded row does not draw the
   * lane's events. False if the filter hides it.
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

  /** Bring the row of a rank into sight, by its communication where it has any. */
  showRank(rank: number): void {
    const summary = this.ctx.lanes.rank(rank)?.summary ?? [];
    const lane = summary.find(({ role }) => role === "comm") ?? summary[0];
    if (lane !== undefined) this.ctx.stage.reveal(lane.lane);
  }

  /** After another scene: forget ranks that are gone. */
  renew(): void {
    const known = new Set(this.ctx.scene.ranks.map((rank) => rank.rank));
    this.open = new Set([...this.open].filter((rank) => known.has(rank)));
    this.push();
  }
}
