/** The panels of a comparison: steps, waterfall, changes, names and operator tree. */

import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { sum } from "../expressions/numbers";
import { deviceOf } from "../protocol/scene";
import { type PanelFrame, isAbort } from "../protocol/source";
import { formatDuration, formatPValue, plural } from "../ui/formats";
import { type DiffChoice, type DiffContext, NO_CHOICE } from "./context";
import { type FrameRow, rowsOf, shareText, textAt } from "./frames";
import type { TimelineLink } from "./link";
import { Icicle, type FrameOfRanks } from "./operator_tree";
import { type Headline, DiffPanel } from "./pane";
import { lengthsOf, stepLabel, Strip, type StripData, withLengths } from "./steps";
import { ChangesTable, NamesTable } from "./tables";
import { Waterfall } from "./waterfall";

/** A table with selectable rows. Shows as many rows as fit; a button shows more. */
class TablePanel<Shown> extends DiffPanel<Shown> {
  readonly maxRows;

  constructor(
    ctx: DiffContext,
    title: string,
    name: "names" | "changes",
    private readonly make: (shown: Shown, maxRows: number) => VNode,
  ) {
    super(ctx, title, { class: `hta-diff-pane hta-diff-${name}` });
    this.maxRows = signal(SHEET_ROWS[name]);
  }

  protected draw(shown: Shown): VNode {
    return this.make(shown, this.maxRows.value);
  }
}

export class DiffCharts {
  readonly strip: Strip;
  readonly waterfall: Waterfall;
  readonly changes: TablePanel<FrameOfRanks>;
  readonly names: TablePanel<PanelFrame>;
  readonly icicle: Icicle;

  constructor(
    private readonly ctx: DiffContext,
    private readonly headline: Headline,
    private readonly timelineLink: TimelineLink,
  ) {
    const { about, theme, choice } = ctx;
    const { source, signal: abortSignal } = ctx.options;
    this.strip = new Strip(ctx, (slot) => this.chooseStep(slot));
    this.waterfall = new Waterfall(ctx, (level) =>
      ctx.loadFrame(this.chosenFrameName(`waterfall:${level}`)),
    );
    this.changes = new TablePanel(
      ctx,
      "What changed",
      "changes",
      ({ frame, ranksText, pair }, maxRows) => (
        <ChangesTable
          frame={frame}
          ranksText={ranksText}
          theme={theme.value}
          maxRows={maxRows}
          chosen={choice.value.change}
          hasSteps={about.steps > 0}
          choose={(row, name) => this.chooseChange(row, name, pair)}
        />
      ),
    );
    this.names = new TablePanel(ctx, "Names", "names", (frame, maxRows) => (
      <NamesTable
        frame={frame}
        theme={theme.value}
        device={deviceOf(ctx.options.scenes[0])}
        maxRows={maxRows}
        chosen={choice.value.name}
        choose={(name, members) => timelineLink.markNames(members, this.mark({ name }))}
      />
    ));
    this.icicle = new Icicle(ctx, (node, top, name) => {
      const requested = source.ask("path_events", { node, pair: ctx.treeOf }, abortSignal);
      timelineLink.markEvents(requested, name, "call", this.mark({ node, top }));
    });
  }

  /** Show as many table rows as fit next to `timelines` in the layout. */
  fitTables(layout: DiffLayout, timelines: HTMLElement): void {
    const { strip, icicle, waterfall, names, changes } = this;
    for (const { el, width } of [strip, icicle]) width.value = el.clientWidth;
    if (layout === "sheet" || measureTable(names).row === 0) {
      names.maxRows.value = SHEET_ROWS.names;
      changes.maxRows.value = SHEET_ROWS.changes;
      return;
    }
    const [namesSize, changesSize] = [measureTable(names), measureTable(changes)];
    if (layout === "pair") {
      names.maxRows.value = clampNameRows(rowsForHeight(contentHeight(waterfall.el), namesSize));
      changes.maxRows.value = clampChangeRows(rowsForHeight(contentHeight(strip.el), changesSize));
      return;
    }
    const others = [strip, icicle].reduce((sum, { el }) => sum + contentHeight(el), 0);
    const height = others + contentHeight(timelines) - contentHeight(waterfall.el);
    const tableChrome = changesSize.height - changesSize.shown * changesSize.row;
    const freeRows = rowsForHeight(height - tableChrome, namesSize);
    const rows = splitRows(freeRows, changes.shown.value?.frame.rows ?? 0);
    [names.maxRows.value, changes.maxRows.value] = [rows.names, rows.changes];
  }

  /** Load the frames of steps, totals and names, then changes, findings and the tree. */
  async load(): Promise<void> {
    const { ctx } = this;
    const { about, frames, findings } = ctx;
    const ofPair = (name: string): string => this.ofPair(name);
    const lanes = about.has_device ? ["lanes"] : [];
    const first = ["waterfall:kind", "steps", "slots:steps", ...lanes].map(ofPair);
    const second = [this.chosenFrameName("names"), ...["changes", findings, "icicle"].map(ofPair)];
    // Small runs request one reply and draw it at once; large runs draw each frame on arrival.
    if (about.is_small) frames.fetchFrames([...first, ...second]);
    else frames.prefetch(first);
    if (!(await this.strip.load(() => this.loadStripData()))) return;
    frames.prefetch(second);
    await Promise.all([
      this.loadChosen(),
      this.changes.load(() => this.framedOfPair("changes")),
      this.headline.load(async () => {
        const framed = await this.framedOfPair(findings);
        const kinds = framed.pair === null ? "waterfall:kind" : this.ofPair("waterfall:kind");
        const totals = totalTimesOf(await ctx.loadFrame(kinds));
        const steps = framed.pair === null ? "steps" : this.ofPair("steps");
        return { ...framed, totals, isChange: isBeyondChance(await ctx.loadFrame(steps)) };
      }),
      this.icicle.load(() => this.framedOfPair("icicle")),
    ]);
  }

  /** Keep only the selected name, because step, row and node numbers differ between ranks. */
  clearChoice(): void {
    this.ctx.choice.value = { ...NO_CHOICE, name: this.ctx.choice.value.name };
  }

  /** Return the content of the step strip; null if there is no device work to draw. */
  private async loadStripData(): Promise<StripData | null> {
    const { ctx } = this;
    const totals = totalTimesOf(await ctx.loadFrame(this.ofPair("waterfall:kind")));
    const steps = await ctx.loadFrame(this.ofPair("steps"));
    if (!ctx.about.has_device) return null;
    const slots = await this.loadSlotFrame();
    const lanes = await ctx.loadFrame(this.ofPair("lanes"));
    const labels = ctx.inOrder(ctx.about.labels);
    const isChange = isBeyondChance(steps);
    return { labels, slots, lanes, totals, isChange, ranksText: this.ranksText() };
  }

  /** Return a frame for the selected rank pair, or for all ranks if a saved page has no others. */
  private async framedOfPair(name: string): Promise<FrameOfRanks> {
    const { ctx } = this;
    const pair = ctx.pair.value;
    if (pair !== null) {
      try {
        const frame = await ctx.loadFrame(this.ofPair(name));
        return { frame, pair, ranksText: `on ${this.ranksText()}` };
      } catch (error) {
        if (isAbort(error)) throw error;
      }
    }
    const frame = await ctx.loadFrame(name);
    // Calls of unpaired ranks are not matched, so these frames cover only pairs.
    const isOfPairs = ctx.about.by_rank_means && ["changes", "icicle"].includes(name);
    if (isOfPairs) return { frame, pair: null, ranksText: this.ranksText(null) };
    return { frame, pair: null, ranksText: pair === null ? "" : "of all ranks" };
  }

  private ofPair(name: string): string {
    const pair = this.ctx.pair.value;
    return pair === null ? name : `${name}@${pair}`;
  }

  private chosenFrameName(name: string): string {
    const { step } = this.ctx.choice.value;
    return this.ofPair(step === null ? name : `${name}:${step}`);
  }

  private ranksText(pair = this.ctx.pair.value): string {
    const { rank_pairs: pairs } = this.ctx.about;
    const rankPair = pairs.length === 1 ? pairs[0] : pairs[pair ?? NaN];
    if (rankPair === undefined) return `mean of ${plural(pairs.length, "pair")} of ranks`;
    const [before, after] = this.ctx.inOrder(rankPair);
    return before === after ? `rank ${before}` : `rank ${before} → ${after}`;
  }

  /** Mark a change's events on both timelines; null marks nothing. */
  private chooseChange(row: number | null, name: string, pair: number | null): void {
    const swapChoice = this.mark({ change: row });
    if (row === null) {
      this.timelineLink.markNames(null, swapChoice);
      return;
    }
    const { source, signal: abortSignal } = this.ctx.options;
    const requested = source.ask("change_events", { row, pair }, abortSignal);
    this.timelineLink.markEvents(requested, name, "event", swapChoice);
  }

  private chooseStep(step: number | null): void {
    const { ctx } = this;
    const swapChoice = this.makeChoiceSwap();
    ctx.choice.value = { ...ctx.choice.value, step };
    const showStep = async (): Promise<void> => {
      const row = step === null ? null : (rowsOf(await this.loadSlotFrame())[step] ?? null);
      this.timelineLink.showStep(row, swapChoice);
      ctx.statusText.value = row === null ? null : stepText(row);
    };
    Promise.all([this.loadChosen(), showStep()]).catch((error: unknown) => ctx.fail(error));
  }

  /** Set the single thing that the timelines mark. Return a function that swaps the choice. */
  private mark(marked: Partial<DiffChoice>): () => void {
    const swapChoice = this.makeChoiceSwap();
    const { choice } = this.ctx;
    choice.value = { ...choice.value, change: null, name: null, node: -1, ...marked };
    return swapChoice;
  }

  /** Return a function that alternately undoes and redoes the next choice. */
  private makeChoiceSwap(): () => void {
    const { pair, choice, statusText } = this.ctx;
    let previous = { pair: pair.value, choice: choice.value };
    return () => {
      const now = { pair: pair.value, choice: choice.value };
      choice.value = previous.choice;
      if (previous.pair !== now.pair) this.clearChoice();
      if (choice.value.step !== now.choice.step) {
        this.loadChosen().catch((error: unknown) => this.ctx.fail(error));
      }
      statusText.value = null;
      previous = now;
    };
  }

  private async loadSlotFrame(): Promise<PanelFrame> {
    const slots = await this.ctx.loadFrame(this.ofPair("slots:steps"));
    return withLengths(slots, await this.ctx.loadFrame(this.ofPair("steps")));
  }

  /** Load the data that depends on the selected step. */
  private async loadChosen(): Promise<void> {
    await Promise.all([
      this.waterfall.load(() => this.loadWaterfallData()),
      this.names.load(() => this.ctx.loadFrame(this.chosenFrameName("names"))),
    ]);
  }

  private async loadWaterfallData() {
    const { ctx } = this;
    const { step } = ctx.choice.value;
    const ranksText = ctx.pair.value === null ? "" : `on ${this.ranksText()}`;
    const row = step === null ? undefined : rowsOf(await this.loadSlotFrame())[step];
    const stepText = row === undefined ? "" : `in ${stepLabel(textAt(row, "after_label"))}`;
    const steps = await ctx.loadFrame(this.ofPair("steps")).catch(() => null);
    return {
      kinds: await ctx.loadFrame(this.chosenFrameName("waterfall:kind")),
      what: [stepText, ranksText].filter((text) => text !== "").join(" "),
      spread: steps === null ? "" : spreadText(steps),
    };
  }
}

function totalTimesOf({ attrs }: PanelFrame): [number, number] {
  return [Number(attrs.before_ns), Number(attrs.after_ns)];
}

/** Return whether the steps changed more than chance explains. */
function isBeyondChance({ attrs }: PanelFrame): boolean {
  return attrs.may_be_chance === false;
}

function stepText(row: FrameRow): string {
  const [before, after] = lengthsOf(row);
  return (
    `${stepLabel(textAt(row, "after_label"))}: ${formatDuration(before)} → ` +
    `${formatDuration(after)}, ${shareText(after - before, before)}. Click it again for all steps.`
  );
}

/** Return `A step: 77.5 ms ± 3.1 ms → 124 ms ± 20 ms, … (p 0.003).`; "" for a single step. */
export function spreadText({ rows, columns, attrs }: PanelFrame): string {
  const [beforeStd, afterStd] = [attrs.before_std_ns, attrs.after_std_ns];
  if (rows < 2 || attrs.p_value === null) return "";
  if (typeof beforeStd !== "number" || typeof afterStd !== "number") return "";
  const sideText = (name: string, stdNs: number): string => {
    const meanNs = sum((columns[name] ?? []) as number[]) / rows;
    return `${formatDuration(Math.round(meanNs))} ± ${formatDuration(Math.round(stdNs))}`;
  };
  return (
    `A step: ${sideText("before_ns", beforeStd)} → ${sideText("after_ns", afterStd)}, ` +
    `mean ± standard deviation of ${plural(rows, "step")} (${formatPValue(Number(attrs.p_value))}).`
  );
}

// The placement of the panels, and the number of rows that makes adjacent columns equally high.

/**
 * Arrangement of the panels. `sheet`: one column. `pair`: changes next to the steps, names next to
 * the waterfall. `columns`: changes, waterfall and names in one column, other panels in another.
 */
export type DiffLayout = "sheet" | "pair" | "columns";

const SHEET_ROWS = { names: 10, changes: 6 };
/** Rows of changes shown at first. Changes are few, and take precedence over names. */
const MAX_CHANGES = 10;
const MIN_ROWS = { names: 8, changes: 6 };
const MAX_NAMES = 60;

/** Return how many rows fill `wished` px, if a table of `shown` rows is `height` px high. */
export function rowsForHeight(
  wished: number,
  { height, shown, row }: { height: number; shown: number; row: number },
): number {
  return row > 0 ? Math.floor((wished - (height - shown * row)) / row) : shown;
}

/** Divide the rows that fit between changes and names. Changes take precedence. */
export function splitRows(
  freeRows: number,
  changeCount = Infinity,
): { names: number; changes: number } {
  const missing = Math.max(0, MIN_ROWS.names - (freeRows - MAX_CHANGES));
  const changes = clampChangeRows(MAX_CHANGES - missing);
  return { names: clampNameRows(freeRows - Math.min(changes, changeCount)), changes };
}

function clampChangeRows(changes: number): number {
  return Math.min(MAX_CHANGES, Math.max(MIN_ROWS.changes, changes));
}

function clampNameRows(names: number): number {
  return Math.min(MAX_NAMES, Math.max(MIN_ROWS.names, names));
}

/** Return the height of an element's content, even if the element is stretched. */
function contentHeight(el: HTMLElement): number {
  const { top } = el.getBoundingClientRect();
  const { paddingBottom } = getComputedStyle(el);
  const ends = Array.from(el.children, (child) => child.getBoundingClientRect().bottom);
  return Math.max(top, ...ends) - top + (Number.parseFloat(paddingBottom) || 0);
}

function measureTable({ el }: { el: HTMLElement }): { height: number; shown: number; row: number } {
  const rows = el.querySelectorAll<HTMLElement>(".hta-name-row");
  const row = rows[0]?.getBoundingClientRect().height ?? 0;
  return { height: contentHeight(el), shown: rows.length, row };
}
