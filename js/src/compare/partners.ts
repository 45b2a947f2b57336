/** Looks up what an event is on the other side. */

import type { Brief, Source } from "../contract";
import { other } from "./coupling";
import { type Frames, rowsOf, text } from "./frames";
import type { Pair } from "./pair_lines";

type Side = 0 | 1;

export interface PartnerWays {
  source: Source;
  sides: readonly [Source, Source];
  frames: Frames;
  signal: AbortSignal;
  swapped(): boolean;
  /** Of which pair of ranks the tree is that has the nodes; null for all. */
  treeOf(): number | null;
}

export class Partners {
  constructor(private readonly ways: PartnerWays) {}

  async of(side: Side, event: Brief): Promise<Pair & { node: number }> {
    const { source, signal } = this.ways;
    const asked = { of: side, rank: event.rank, id: event.id, pair: this.ways.treeOf() };
    const { reply } = await source.ask("partner", asked, signal);
    const to = other(side);
    const id = Number(reply.id);
    const partner =
      id < 0 ? await this.stepOf(side, event) : await this.event(to, Number(reply.rank), id);
    const pair: [Brief | null, Brief | null] = side === 0 ? [event, partner] : [partner, event];
    const known = reply.status as string | null;
    const status = known === null && partner !== null ? "same" : known;
    const opposite: Record<string, string> = { added: "removed", removed: "added" };
    return {
      events: this.ways.swapped() ? [pair[1], pair[0]] : pair,
      status: this.ways.swapped() && status !== null ? (opposite[status] ?? status) : status,
      node: Number(reply.node),
    };
  }

  /** Steps are no calls: they belong together as their slots do. */
  private async stepOf(side: Side, event: Brief): Promise<Brief | null> {
    if (!event.name.startsWith("ProfilerStep#")) return null;
    const [mine, theirs] = side === 0 ? ["before", "after"] : ["after", "before"];
    const slots = await this.ways.frames.get("slots:steps");
    const row = rowsOf(slots).find((one) => one[`${mine}_label`] === event.name);
    if (row === undefined) return null;
    const start = Number(row[`${theirs}_start_ns`]);
    const name = text(row, `${theirs}_label`);
    const dur = Number(row[`${theirs}_end_ns`]) - start;
    return { ...event, name, short: name, lane: -1, start, dur };
  }

  async event(side: Side, rank: number, id: number): Promise<Brief> {
    const { reply } = await this.ways.sides[side].ask("event", { rank, table: "events", id });
    return reply.event as Brief;
  }
}
