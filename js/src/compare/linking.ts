/** What is pointed at, picked or marked on one side, shown on the other. */

import type { TimelineApp } from "../app/app";
import type { SelectionJson, Slice, Source } from "../contract";
import { writeClauses } from "../dash/clauses";
import { plural } from "../draw/format";
import { briefOf, EVERYTHING } from "../app/selection";
import { type Coupling, other, type Patch } from "./coupling";
import type { Icicle } from "./icicle";
import type { Line } from "./maps";
import type { PairLines, Tie } from "./pair_lines";
import type { Partners } from "./partners";

type Side = 0 | 1;
/** What narrows a selection; null for nothing. */
type Mark = Partial<SelectionJson> | null;

export interface LinkingWays {
  source: Source;
  signal: AbortSignal;
  partners: Partners;
  lines: PairLines;
  icicle: Icicle;
  /** Before and after; null of runs without events. */
  apps(): readonly [TimelineApp, TimelineApp] | null;
  coupling(): Coupling | null;
  line(): Line | null;
  swapped(): boolean;
  /** The ranks that are shown of a side; null for all. */
  ranksOf(side: Side): number[] | null;
  /** Change both sides as one entry of the history; `turn` as in `PairHistory.one`. */
  choose(patches: readonly [Patch, Patch], turn: () => void): void;
  coupled(): boolean;
  say(words: string | null): void;
  fail(error: unknown): void;
}

/** A pointer that rests so long is answered. */
const HOVER_MS = 40;
const MOST_TIES = 120;

export class Linking {
  private hovering = "";

  constructor(private readonly ways: LinkingWays) {}

  async hover(side: Side, slice: Slice | null): Promise<void> {
    const apps = this.ways.apps();
    const to = other(side);
    const key = slice === null ? "" : `${side}/${slice.lane}/${slice.id}`;
    this.hovering = key;
    const rank = slice === null ? null : (apps?.[side].led.rankOf(slice.lane) ?? null);
    if (slice === null || rank === null) {
      apps?.[to].led.outline(null);
      this.ways.lines.hover(null);
      return;
    }
    await new Promise((done) => setTimeout(done, HOVER_MS));
    if (this.hovering !== key) return;
    try {
      const pair = await this.ways.partners.of(side, briefOf(slice, rank, "events"));
      if (this.hovering !== key) return;
      const partner = pair.events[this.ways.swapped() ? other(to) : to];
      const isEvent = partner !== null && partner.lane >= 0;
      apps?.[to].led.outline(isEvent ? partner : null, apps[side].led.isSummary(slice.lane));
      this.ways.lines.hover(pair);
    } catch {
      // Waits and other lanes that hold no events have no partners.
      if (this.hovering === key) this.ways.lines.hover(null);
    }
  }

  async pick(side: Side, event: readonly [number, number] | null): Promise<void> {
    const to = other(side);
    const coupled = this.ways.coupled();
    if (event === null) {
      this.ways.lines.select(null);
      if (this.ways.line() !== null) this.ways.line()!.anchor = null;
      if (!coupled) return;
      this.ways.coupling()?.write(to, "selected_event", null);
      this.ways.coupling()?.align();
      return;
    }
    try {
      const brief = await this.ways.partners.event(side, event[0], event[1]);
      const pair = await this.ways.partners.of(side, brief);
      this.ways.lines.select(pair);
      this.ways.icicle.reveal(pair.node);
      const partner = pair.events[this.ways.swapped() ? other(to) : to];
      if (!coupled) return;
      const isEvent = partner !== null && partner.lane >= 0;
      this.ways
        .coupling()
        ?.write(to, "selected_event", isEvent ? [partner.rank, partner.id] : null);
      if (this.ways.line() !== null && isEvent) {
        this.ways.line()!.anchor =
          side === 0 ? [brief.start, partner.start] : [partner.start, brief.start];
        this.ways.coupling()?.align();
      }
    } catch (error) {
      this.ways.fail(error);
    }
  }

  async loadTies(): Promise<void> {
    const apps = this.ways.apps();
    if (!this.ways.lines.wantsTies || apps === null) {
      this.ways.lines.setTies([]);
      return;
    }
    const side = this.ways.swapped() ? 1 : 0;
    const [start, end] = apps[side].led.view;
    const request = { of: side, start: Math.floor(start), end: Math.ceil(end), most: MOST_TIES };
    const { reply } = await this.ways.source.ask("ties", request, this.ways.signal);
    const ties = reply.ties as Tie[];
    this.ways.lines.setTies(
      this.ways.swapped() ? ties.map(([a, b, c, d]) => [c, d, a, b] as const) : ties,
    );
    this.ways.say(
      `Lines join the ${ties.length} longest of ${plural(Number(reply.of), "piece")} of device work in view.`,
    );
  }

  lanes(): [number, number] {
    const app = this.ways.apps()?.[this.ways.swapped() ? 1 : 0];
    if (app === undefined) return [0, 0];
    const [start, end] = app.led.view;
    return [app.led.xOf(start), app.led.xOf(end)];
  }

  markNames(names: string[] | null, turn: () => void): void {
    const query = names === null ? null : writeClauses({ rest: null, names, kinds: null });
    this.choose(query === null ? [null, null] : [{ query }, { query }], turn);
    this.ways.say(
      names === null
        ? null
        : `Marked on both timelines: ${names.length === 1 ? shortened(names[0]!) : plural(names.length, "name")}.`,
    );
  }

  /** The calls of a node of the tree; `pair`: of the tree of one pair of ranks. */
  async markNode(node: number, name: string, pair: number | null, turn: () => void): Promise<void> {
    try {
      const asked = { node, pair };
      const { reply } = await this.ways.source.ask("path_events", asked, this.ways.signal);
      this.markEvents(reply.events as [number, number][][], name, "call", turn);
    } catch (error) {
      this.ways.fail(error);
    }
  }

  /** The events of a row of changes; null for none. */
  async markChange(
    row: number | null,
    name: string,
    pair: number | null,
    turn: () => void,
  ): Promise<void> {
    if (row === null) {
      this.choose([null, null], turn);
      this.ways.say(null);
      return;
    }
    try {
      const asked = { row, pair };
      const { reply } = await this.ways.source.ask("change_events", asked, this.ways.signal);
      this.markEvents(reply.events as [number, number][][], name, "event", turn);
    } catch (error) {
      this.ways.fail(error);
    }
  }

  /** Nothing is marked any more. */
  clear(): void {
    for (const side of [0, 1] as const) {
      this.ways.coupling()?.write(side, "selection", this.marked(side, null));
    }
  }

  private markEvents(
    events: [number, number][][],
    name: string,
    what: string,
    turn: () => void,
  ): void {
    const [one, two] = events;
    this.choose([{ ids: one ?? [] }, { ids: two ?? [] }], turn);
    const counts = this.ways.swapped() ? [two, one] : [one, two];
    this.ways.say(
      `Marked: ${name}, ${plural(counts[0]?.length ?? 0, what)} before and ` +
        `${plural(counts[1]?.length ?? 0, what)} after.`,
    );
  }

  private choose(marks: readonly [Mark, Mark], turn: () => void): void {
    const patch = (side: Side): Patch => ({ selection: this.marked(side, marks[side]) });
    this.ways.choose([patch(0), patch(1)], turn);
  }

  /** The selection of what is marked, on the ranks that are shown. */
  private marked(side: Side, mark: Mark): SelectionJson | null {
    const ranks = this.ways.ranksOf(side);
    return mark === null && ranks === null ? null : { ...EVERYTHING, ranks, ...mark };
  }
}

/** A name of C++ may be longer than the page is wide. */
function shortened(name: string): string {
  return name.length > 80 ? `${name.slice(0, 79)}…` : name;
}
