/** The waterfall chart of the change in step time, by kind and by cause. */

import { batch, signal } from "@preact/signals";
import { causeLabel } from "../charts/stack";
import { sum } from "../expressions/numbers";
import { deviceOf } from "../protocol/scene";
import type { PanelFrame } from "../protocol/source";
import { LatestRequest } from "../timeline/context";
import { ChoiceButtons, FailureNote } from "../ui/controls";
import { formatDuration } from "../ui/formats";
import { THEMES } from "../ui/theme";
import type { DiffContext } from "./context";
import {
  barColor,
  deltaText,
  neutralColor,
  numberAt,
  type FrameRow,
  rowsOf,
  shareText,
  shortName,
  textAt,
} from "./frames";
import { DiffPanel } from "./pane";

type Level = "operator" | "kernel" | "cause";

const LEVELS = (["operator", "kernel", "cause"] as const).map(
  (level) => [level, `by ${level}`] as const,
);

interface WaterfallBar {
  kind: string;
  label: string;
  before: number;
  after: number;
  diff: number;
  /** Whether the difference is significant. */
  isChange: boolean;
  /** Ends of the bar in ns, relative to zero. */
  from: number;
  to: number;
  depth: number;
}

const LEVEL_LABELS: Record<string, string> = {
  compute: "compute",
  communication: "exposed communication",
  memory: "exposed copies",
  idle: "GPU idle",
  cpu: "host",
};
const KIND_ORDER = ["compute", "communication", "memory", "cpu", "idle"];
const MAX_PARTS = 8;
/** Smallest part with its own bar, as a share of the largest. Smaller parts are summed. */
const MIN_PART_SHARE = 0.001;

/** Return the kinds by size, excluding those absent from both runs. */
export function waterfallBars(
  kinds: PanelFrame,
  kindNames: Record<string, string> = LEVEL_LABELS,
): WaterfallBar[] {
  const label = (row: FrameRow): string => kindNames[textAt(row, "kind")] ?? textAt(row, "kind");
  const bars = barsOf(rowsOf(kinds), label, Number(kinds.attrs.before_ns ?? 0), 0);
  return bars.filter(({ before, after }) => before !== 0 || after !== 0);
}

/** Return a kind's parts: the largest differences, and one sum of all smaller ones. */
export function partBars(parts: PanelFrame, { kind, from }: WaterfallBar): WaterfallBar[] {
  const rows = rowsOf(parts).filter((row) => textAt(row, "kind") === kind);
  const sizes = rows.map((row) => Math.abs(numberAt(row, "diff_ns")));
  const minSize = Math.max(...sizes) * MIN_PART_SHARE;
  const visible = Math.min(sizes.filter((size) => size >= minSize).length, MAX_PARTS);
  const hidden = rows.length > visible + 1 ? rows.splice(visible) : [];
  if (hidden.length > 0) {
    const before_ns = sum(hidden.map((row) => numberAt(row, "before_ns")));
    const after_ns = sum(hidden.map((row) => numberAt(row, "after_ns")));
    const short = `${hidden.length} more`;
    rows.push({ kind, short, before_ns, after_ns, diff_ns: after_ns - before_ns });
  }
  const label = (row: FrameRow): string => {
    const name = shortName(row) || causeLabel(textAt(row, "cause"));
    return name || "without a launch";
  };
  return barsOf(rows, label, from, 1);
}

function barsOf(
  rows: readonly FrameRow[],
  label: (row: FrameRow) => string,
  start: number,
  depth: number,
): WaterfallBar[] {
  let to = start;
  return rows.map((row) => {
    const [before, after] = [numberAt(row, "before_ns"), numberAt(row, "after_ns")];
    const diff = numberAt(row, "diff_ns");
    const from = to;
    to += diff;
    const isChange = row.is_change === true;
    const kind = textAt(row, "kind");
    return { kind, label: label(row), before, after, diff, isChange, from, to, depth };
  });
}

/** Return the scale, from 0 or narrowed if the changes would be too small to see. */
function waterfallScale(ends: readonly number[], total: number): { low: number; high: number } {
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const spread = high - low;
  if (spread === 0 || spread > total / 4) return { low: 0, high: total };
  return { low: low - spread * 0.05, high: high + spread * 0.05 };
}

interface WaterfallData {
  kinds: PanelFrame;
  /** Text about the step and the ranks. */
  what: string;
  /** Text about the spread of the steps; "" if it is unknown. */
  spread: string;
}

export class Waterfall extends DiffPanel<WaterfallData> {
  private readonly open = signal<string | null>(null);
  private readonly level = signal<Level>("operator");
  /** The parts of the open kind, or an error; null until loaded. */
  private readonly parts = signal<PanelFrame | Error | null>(null);
  private readonly kindNames: Record<string, string>;
  private readonly newest = new LatestRequest(this.ctx.options.signal);

  constructor(
    ctx: DiffContext,
    private readonly ask: (level: Level) => Promise<PanelFrame>,
  ) {
    super(ctx, "Where the time goes", { class: "hta-diff-pane hta-diff-waterfall" });
    this.kindNames = {
      ...LEVEL_LABELS,
      idle: `${deviceOf(ctx.options.scenes[0])} idle`,
      ...ctx.about.kind_words,
    };
  }

  override show(shown: WaterfallData): void {
    const [largest] = rowsOf(shown.kinds);
    const isRelevant = largest !== undefined && numberAt(largest, "diff_ns") !== 0;
    const first =
      this.shown.value === null && isRelevant ? textAt(largest, "kind") : this.open.value;
    super.show(shown);
    this.split(first, this.level.value);
  }

  /** Open a kind, divided by `level`; null closes all kinds. */
  private split(open: string | null, level: Level): void {
    batch(() => {
      this.open.value = open;
      this.level.value = level;
      this.parts.value = null;
    });
    if (open === null) this.newest.cancel();
    else this.loadParts();
  }

  private loadParts(): void {
    const level = this.open.value === "idle" ? "cause" : this.level.value;
    const show = (parts: PanelFrame | Error): void => void (this.parts.value = parts);
    this.newest.ask(() => this.ask(level), show, show);
  }

  protected draw({ kinds, what, spread }: WaterfallData) {
    const open = this.open.value;
    const parts = this.parts.value;
    const isLoaded = parts !== null && !(parts instanceof Error);
    const before = Number(kinds.attrs.before_ns ?? 0);
    const after = Number(kinds.attrs.after_ns ?? 0);
    const bars = waterfallBars(kinds, this.kindNames).flatMap((bar) =>
      bar.kind === open && isLoaded ? [bar, ...partBars(parts, bar)] : [bar],
    );
    const ends = [before, after, ...bars.flatMap(({ from, to }) => [from, to])];
    const maximum = Math.max(1, ...ends);
    const { low, high } = waterfallScale(ends, maximum);
    return (
      <>
        <div class="hta-diff-head">
          <h3>{titleText(after - before, Number(kinds.attrs.steps ?? 1), what)}</h3>
          <ChoiceButtons
            name="Split by"
            options={LEVELS}
            chosen={this.level.value}
            choose={(level) => this.split(open, level)}
          />
        </div>
        <p class="hta-about">{this.aboutText(maximum / (high - low))}</p>
        {spread !== "" && <p class="hta-diff-spread">{spread}</p>}
        <div class="hta-diff-bars">
          {this.totalBar("before", kinds, before, maximum)}
          {bars.map((bar) => this.bar(bar, low, high))}
          {this.totalBar("after", kinds, after, maximum)}
        </div>
        {parts instanceof Error && (
          <FailureNote
            title="The parts could not be drawn"
            error={parts}
            retry={() => this.split(open, this.level.value)}
          />
        )}
      </>
    );
  }

  private aboutText(magnification: number): string {
    const isOrdered = Object.keys(this.ctx.about.kind_words).length === 0;
    const countingText = isOrdered
      ? "every moment of the steps counted once: compute, else communication, else copies, else idle. "
      : "every moment counted once. ";
    const scaleText =
      magnification > 1 ? `Changes are drawn ${magnification.toFixed(0)} times as wide. ` : "";
    return `${countingText}${scaleText}Click a kind to see what it is made of.`;
  }

  private totalBar(side: "before" | "after", kinds: PanelFrame, total: number, maxTotal: number) {
    const rows = rowsOf(kinds).sort(
      (a, b) => KIND_ORDER.indexOf(textAt(a, "kind")) - KIND_ORDER.indexOf(textAt(b, "kind")),
    );
    return (
      <div class="hta-diff-bar hta-diff-whole">
        <b class="hta-diff-bar-name">{side}</b>
        <span class="hta-diff-bar-value">{formatDuration(total)}</span>
        <div class="hta-diff-track">
          <div class="hta-diff-stack">
            {rows.map((row) => {
              const [kind, ns] = [textAt(row, "kind"), numberAt(row, `${side}_ns`)];
              return (
                <i
                  title={`${this.kindNames[kind] ?? ""} ${formatDuration(ns)}`}
                  style={{
                    width: percentCss(Math.max(ns, 0) / maxTotal),
                    background: this.kindColor(kind),
                  }}
                />
              );
            })}
          </div>
        </div>
      </div>
    );
  }

  private kindColor(kind: string): string {
    const theme = THEMES[this.ctx.theme.value];
    return kind === "idle" ? theme.idle : (theme.kind[kind as "compute"] ?? theme.idle);
  }

  private barName({ kind, label, depth }: WaterfallBar) {
    if (depth > 0) {
      return (
        <span class="hta-diff-bar-name hta-diff-part" title={label}>
          {label}
        </span>
      );
    }
    const isOpen = this.open.value === kind;
    return (
      <button
        type="button"
        class="hta-diff-bar-name hta-diff-bar-open"
        aria-expanded={isOpen}
        onClick={() => this.split(isOpen ? null : kind, this.level.value)}
      >
        <span class="hta-diff-arrow">{isOpen ? "▾" : "▸"}</span>
        <i class="hta-diff-swatch" style={{ background: this.kindColor(kind) }} />
        {label}
      </button>
    );
  }

  private bar(bar: WaterfallBar, low: number, high: number) {
    const { kind, label, before, after, diff, isChange, from, to, depth } = bar;
    const theme = this.ctx.theme.value;
    const place = (ns: number): string => percentCss((ns - low) / (high - low));
    return (
      <div key={`${kind} ${label}`} class="hta-diff-bar" data-kind={kind} data-depth={depth}>
        {this.barName(bar)}
        <span class="hta-diff-bar-value">
          <b>{deltaText(diff)}</b>
          {` ${shareText(diff, before)}`}
        </span>
        <div class="hta-diff-track">
          <i class="hta-diff-edge" style={{ left: place(from) }} />
          <i
            class="hta-diff-fall"
            title={`${label}: ${formatDuration(before)} → ${formatDuration(after)}`}
            style={{
              left: place(Math.min(from, to)),
              width: percentCss(Math.abs(diff) / (high - low)),
              background: isChange ? barColor(diff, theme) : neutralColor(theme),
              opacity: depth === 0 ? "1" : "0.72",
            }}
          />
        </div>
      </div>
    );
  }
}

const percentCss = (share: number): string => `${(share * 100).toFixed(3)}%`;

/** `scope`: text about the step and the ranks. */
function titleText(diff: number, steps: number, scope: string): string {
  const difference = `${formatDuration(Math.abs(diff))}${steps > 1 ? " a step" : ""}`;
  const changeText = `${difference} ${diff > 0 ? "come from" : "are saved"}`;
  return `Where the ${diff === 0 ? "time goes" : changeText} ${scope}`.trim();
}
