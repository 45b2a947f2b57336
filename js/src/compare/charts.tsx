/** The panels of a comparison that show frames: steps, waterfall, changes, names, operator tree. */

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { type Frame, isAbort } from "../protocol/source";
import { formatDuration, plural } from "../ui/formats";
import { type Choice, type Context, NO_CHOICE } from "./context";
import { type Row, rowsOf, shareWords, text } from "./frames";
import type { Link } from "./link";
import { Icicle, type OfRanks } from "./operator_tree";
import { type Headline, medianShare, Part, WORTH_TELLING } from "./pane";
import { lengthsOf, stepLabel, Strip, type StripData, withLengths } from "./steps";
import { Changes, Names } from "./tables";
import { Waterfall } from "./waterfall";

/** A table of rows that can be chosen: as many as fit, more on request. */
class Rows<Shown> extends Part<Shown> {
  readonly room;

  constructor(
    ctx: Context,
    title: string,
    name: "names" | "changes",
    private readonly make: (shown: Shown, room: number) => VNode,
  ) {
    super(ctx, title, { class: `hta-diff-pane hta-diff-${name}` });
    this.room = signal(SHEET[name]);
  }

  protected draw(shown: Shown): VNode {
    return this.make(shown, this.room.value);
  }
}

export class Charts {
  readonly strip: Strip;
  readonly waterfall: Waterfall;
  readonly changes: Rows<OfRanks>;
  readonly names: Rows<Frame>;
  readonly icicle: Icicle;

  constructor(
    private readonly ctx: Context,
    private readonly headline: Headline,
    private readonly link: Link,
  ) {
    const { about, theme, choice } = ctx;
    const { source, signal: ended } = ctx.options;
    this.strip = new Strip(ctx, (slot) => this.choose(slot));
    this.waterfall = new Waterfall(ctx, (level) => ctx.framed(this.chosen(`waterfall:${level}`)));
    this.changes = new Rows(ctx, "What changed", "changes", ({ frame, whose, of }, room) => (
      <Changes
        frame={frame}
        whose={whose}
        theme={theme.value}
        room={room}
        chosen={choice.value.change}
        hasSteps={about.steps > 0}
        choose={(row, name) => {
          const turn = this.mark({ change: row });
          if (row === null) link.markNames(null, turn);
          else {
            const asked = source.ask("change_events", { row, pair: of }, ended);
            void link.markEvents(asked, name, "event", turn);
          }
        }}
      />
    ));
    this.names = new Rows(ctx, "Names", "names", (frame, room) => (
      <Names
        frame={frame}
        theme={theme.value}
        room={room}
        chosen={choice.value.name}
        choose={(name, members) => link.markNames(members, this.mark({ name }))}
      />
    ));
    this.icicle = new Icicle(ctx, (node, top, name) => {
      const asked = source.ask("path_events", { node, pair: ctx.treeOf }, ended);
      void link.markEvents(asked, name, "call", this.mark({ node, top }));
    });
  }

  /** Arrange the panels; in columns, `timelines` are in the column of the strip and the tree. */
  arrange(room: Room, timelines: HTMLElement): void {
    const { strip, icicle, waterfall, names, changes } = this;
    for (const { el, width } of [strip, icicle]) width.value = el.clientWidth;
    if (room === "sheet" || measured(names).row === 0) {
      names.room.value = SHEET.names;
      changes.room.value = SHEET.changes;
      return;
    }
    const high = heightOf(waterfall.el);
    if (room === "columns") {
      const left = [strip.el, timelines, icicle.el];
      const beside = left.reduce((sum, el) => sum + heightOf(el), 0);
      const [own, theirs] = [measured(names), measured(changes)];
      const rest = theirs.height - theirs.shown * theirs.row;
      const free = rowsFor(beside - high - rest, own);
      changes.room.value = parted(free).changes;
      const there = changes.shown.value?.frame.rows ?? 0;
      names.room.value = within(free - Math.min(changes.room.value, there));
      return;
    }
    names.room.value = within(rowsFor(high, measured(names)));
    const fit = room === "row" ? rowsFor(high, measured(changes)) : SHEET.changes;
    changes.room.value = Math.max(LEAST.changes, fit);
  }

  /** Load the steps, sums and names first, then changes, findings and tree. */
  async load(): Promise<void> {
    const { ctx } = this;
    const { about, frames, findings } = ctx;
    const ofPair = (name: string): string => this.ofPair(name);
    const lanes = about.has_device ? ["lanes"] : [];
    const first = ["waterfall:kind", "steps", "slots:steps", ...lanes].map(ofPair);
    const second = [this.chosen("names"), ...["changes", findings, "icicle"].map(ofPair)];
    // One reply, drawn together; for large runs each frame is drawn when it arrives.
    if (about.is_small) frames.askFor([...first, ...second]);
    else frames.askAhead(first);
    if (!(await this.strip.load(() => this.steps()))) return;
    frames.askAhead(second);
    await Promise.all([
      this.loadChosen(),
      this.changes.load(() => this.framedOfPair("changes")),
      this.headline.load(async () => {
        const found = await this.framedOfPair(findings);
        const kinds = found.of === null ? "waterfall:kind" : this.ofPair("waterfall:kind");
        return { ...found, totals: totalsOf(await ctx.framed(kinds)) };
      }),
      this.icicle.load(() => this.framedOfPair("icicle")),
    ]);
  }

  /** Steps, rows and nodes of other ranks have other numbers. */
  forget(): void {
    this.ctx.choice.value = { ...NO_CHOICE, name: this.ctx.choice.value.name };
  }

  /** The content of the strip; null without device work, whose lanes it shows. */
  private async steps(): Promise<StripData | null> {
    const { ctx } = this;
    const totals = totalsOf(await ctx.framed(this.ofPair("waterfall:kind")));
    const median = medianShare(await ctx.framed(this.ofPair("steps")));
    if (!ctx.about.has_device) return null;
    const slots = await this.slots();
    const lanes = await ctx.framed(this.ofPair("lanes"));
    const labels = ctx.inOrder(ctx.about.labels);
    return { labels, slots, lanes, totals, median, whose: this.whose() };
  }

  /** Frame of the chosen pair of ranks; of all ranks if a page without a kernel has only that. */
  private async framedOfPair(name: string): Promise<OfRanks> {
    const { ctx } = this;
    const pair = ctx.pair.value;
    if (pair !== null) {
      try {
        const frame = await ctx.framed(this.ofPair(name));
        return { frame, of: pair, whose: `on ${this.whose()}` };
      } catch (error) {
        if (isAbort(error)) throw error;
      }
    }
    const frame = await ctx.framed(name);
    // Calls of ranks without a partner are not matched.
    const isOfPairs = ctx.about.by_rank_means && ["changes", "icicle"].includes(name);
    if (isOfPairs) return { frame, of: null, whose: this.whose(null) };
    return { frame, of: null, whose: pair === null ? "" : "of all ranks" };
  }

  private ofPair(name: string): string {
    const pair = this.ctx.pair.value;
    return pair === null ? name : `${name}@${pair}`;
  }

  private chosen(name: string): string {
    const { step } = this.ctx.choice.value;
    return this.ofPair(step === null ? name : `${name}:${step}`);
  }

  private whose(pair = this.ctx.pair.value): string {
    const { rank_pairs: pairs } = this.ctx.about;
    const one = pairs[pair ?? (pairs.length === 1 ? 0 : -1)];
    if (one !== undefined) {
      const [before, after] = this.ctx.inOrder(one);
      return before === after ? `rank ${before}` : `rank ${before} → ${after}`;
    }
    return `mean of ${plural(pairs.length, "pair")} of ranks`;
  }

  private choose(step: number | null): void {
    const { ctx } = this;
    const turn = this.turning();
    ctx.choice.value = { ...ctx.choice.value, step };
    const show = async (): Promise<void> => {
      const row = step === null ? null : (rowsOf(await this.slots())[step] ?? null);
      this.link.showStep(row, turn);
      ctx.said.value = row === null ? null : stepWords(row);
    };
    Promise.all([this.loadChosen(), show()]).catch((error: unknown) => ctx.fail(error));
  }

  /** Choose what the timelines mark, one thing at a time; `turning` for its history. */
  private mark(what: Partial<Choice>): () => void {
    const turn = this.turning();
    const { choice } = this.ctx;
    choice.value = { ...choice.value, change: null, name: null, node: -1, ...what };
    return turn;
  }

  /** Return a function that undoes and redoes the next choice. */
  private turning(): () => void {
    const { pair, choice, said } = this.ctx;
    let other = { pair: pair.value, choice: choice.value };
    return () => {
      const now = { pair: pair.value, choice: choice.value };
      choice.value = other.choice;
      if (other.pair !== now.pair) this.forget();
      if (choice.value.step !== now.choice.step) {
        this.loadChosen().catch((error: unknown) => this.ctx.fail(error));
      }
      said.value = null;
      other = now;
    };
  }

  private async slots(): Promise<Frame> {
    const slots = await this.ctx.framed(this.ofPair("slots:steps"));
    return withLengths(slots, await this.ctx.framed(this.ofPair("steps")));
  }

  /** Load what depends on the chosen step. */
  private async loadChosen(): Promise<void> {
    const { ctx } = this;
    const { step } = ctx.choice.value;
    const pair = ctx.pair.value;
    const falls = async () => {
      const row = step === null ? undefined : rowsOf(await this.slots())[step];
      const what = [
        row ? `in ${stepLabel(text(row, "after_label"))}` : "",
        pair === null ? "" : `on ${this.whose()}`,
      ];
      const steps = await ctx.framed(this.ofPair("steps")).catch(() => null);
      return {
        kinds: await ctx.framed(this.chosen("waterfall:kind")),
        what: what.filter((word) => word !== "").join(" "),
        spread: steps === null ? "" : spreadWords(steps),
      };
    };
    await Promise.all([
      this.waterfall.load(falls),
      this.names.load(() => ctx.framed(this.chosen("names"))),
    ]);
  }
}

function totalsOf({ attrs }: Frame): [number, number] {
  return [Number(attrs.before_ns), Number(attrs.after_ns)];
}

/** Length of a pair of steps, before and after. */
function stepWords(row: Row): string {
  const [before, after] = lengthsOf(row);
  return (
    `${stepLabel(text(row, "after_label"))}: ${formatDuration(before)} → ` +
    `${formatDuration(after)}, ${shareWords(after - before, before)}. Click it again for all steps.`
  );
}

/** `6 steps of 77.5 ± 3.1 ms → 124 ± 20 ms, p 0.003`; "" for a single step. */
export function spreadWords({ rows, columns, attrs }: Frame): string {
  const spread = [Number(attrs.before_std_ns ?? NaN), Number(attrs.after_std_ns ?? NaN)];
  if (rows < 2 || attrs.p_value === null || spread.some((one) => !Number.isFinite(one))) return "";
  const mean = (name: string): number =>
    (columns[name] ?? []).reduce<number>((sum, one) => sum + Number(one), 0) / rows;
  const side = (name: string, std: number): string =>
    `${formatDuration(Math.round(mean(name)))} ± ${formatDuration(Math.round(std))}`;
  const p = Number(attrs.p_value);
  const chance = p < 0.0001 ? "p < 0.0001" : `p ${p.toFixed(p < 0.01 ? 4 : 2)}`;
  const [before, after] = [mean("before_ns"), mean("after_ns")];
  const slight = Math.abs(after - before) < WORTH_TELLING * Math.max(before, after);
  const significant = slight ? "hardly chance, but less than 1\u202f%" : "more than chance";
  const verdict = attrs.is_significant === true ? significant : "may be chance";
  return (
    `A step of ${rows}: ${side("before_ns", spread[0]!)} → ${side("after_ns", spread[1]!)}, ` +
    `mean ± standard deviation; ${verdict} (${chance}).`
  );
}

// Arrangement of panels, and the initial rows of tables at which adjacent columns are equally high.

/**
 * Arrangement of panels: one column; names next to the waterfall; changes and names next to it; or
 * a column of these three next to a column of the others.
 */
export type Room = "sheet" | "pair" | "row" | "columns";

const SHEET = { names: 10, changes: 6 };
/** Max initial rows of changes. There are few changes, and they take precedence over names. */
const MOST_CHANGES = 10;
const LEAST = { names: 8, changes: 6 };
const MOST_NAMES = 60;

/** Number of rows for a height of `wanted` px, if `shown` rows make it `height` px high. */
export function rowsFor(
  wanted: number,
  { height, shown, row }: { height: number; shown: number; row: number },
): number {
  return row > 0 ? Math.floor((wanted - (height - shown * row)) / row) : shown;
}

/** Divide rows among names and changes; changes take precedence. */
export function parted(free: number): { names: number; changes: number } {
  const missing = Math.max(0, LEAST.names - (free - MOST_CHANGES));
  const changes = Math.max(LEAST.changes, MOST_CHANGES - missing);
  return { names: within(free - changes), changes };
}

function within(names: number): number {
  return Math.min(MOST_NAMES, Math.max(LEAST.names, names));
}

/** Height of an element's content, even if the element is stretched. */
function heightOf(el: HTMLElement): number {
  const { top } = el.getBoundingClientRect();
  const { paddingBottom } = getComputedStyle(el);
  const ends = Array.from(el.children, (child) => child.getBoundingClientRect().bottom);
  return Math.max(top, ...ends) - top + (Number.parseFloat(paddingBottom) || 0);
}

/** Height of a table, its number of rows, and the height of one. */
function measured({ el }: { el: HTMLElement }): { height: number; shown: number; row: number } {
  const rows = el.querySelectorAll<HTMLElement>(".hta-name-row");
  const row = rows[0]?.getBoundingClientRect().height ?? 0;
  return { height: heightOf(el), shown: rows.length, row };
}
