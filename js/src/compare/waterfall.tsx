/** The waterfall of the step time's difference, by kind and by cause. */

import { batch, signal } from "@preact/signals";
import { causeWords } from "../charts/defined";
import { sum } from "../expressions/numbers";
import { asError, type Frame, isAbort } from "../protocol/source";
import { Choice, Failure } from "../ui/controls";
import { formatDuration } from "../ui/formats";
import { THEMES } from "../ui/theme";
import type { Context } from "./context";
import { barColour, deltaWords, number, type Row, rowsOf, shareWords, text } from "./frames";
import { Part } from "./pane";

type Level = "operator" | "kernel" | "cause";

const LEVELS = (["operator", "kernel", "cause"] as const).map(
  (level) => [level, `by ${level}`] as const,
);

interface Bar {
  kind: string;
  label: string;
  before: number;
  after: number;
  diff: number;
  /** Ends of the bar, ns from zero. */
  from: number;
  to: number;
  depth: number;
}

const WORDS: Record<string, string> = {
  compute: "compute",
  communication: "exposed NCCL",
  memory: "exposed copies",
  idle: "GPU idle",
  cpu: "host",
};
const ORDER = ["compute", "communication", "memory", "cpu", "idle"];
const MOST_PARTS = 8;

/** Kinds by size, without those that neither run has. */
export function waterfallBars(kinds: Frame, words: Record<string, string> = WORDS): Bar[] {
  const label = (row: Row): string => words[text(row, "kind")] ?? text(row, "kind");
  const bars = barsOf(rowsOf(kinds), label, Number(kinds.attrs.before_ns ?? 0), 0);
  return bars.filter(({ before, after }) => before !== 0 || after !== 0);
}

/** The parts of a kind: the largest differences, and one sum of the rest. */
export function partBars(parts: Frame, { kind, from }: Bar): Bar[] {
  const rows = rowsOf(parts).filter((row) => text(row, "kind") === kind);
  const rest = rows.length > MOST_PARTS + 1 ? rows.splice(MOST_PARTS) : [];
  if (rest.length > 0) {
    const [before_ns, after_ns] = ["before_ns", "after_ns"].map((name) =>
      sum(rest.map((row) => number(row, name))),
    ) as [number, number];
    const short = `${rest.length} more`;
    rows.push({ kind, short, before_ns, after_ns, diff_ns: after_ns - before_ns });
  }
  const label = (row: Row): string =>
    text(row, "short") || text(row, "name") || causeWords(text(row, "cause")) || "without a launch";
  return barsOf(rows, label, from, 1);
}

/** Bars that each start at the end of the one before. */
function barsOf(
  rows: readonly Row[],
  label: (row: Row) => string,
  start: number,
  depth: number,
): Bar[] {
  let to = start;
  return rows.map((row) => {
    const [before, after] = [number(row, "before_ns"), number(row, "after_ns")];
    const diff = number(row, "diff_ns");
    const from = to;
    to += diff;
    return { kind: text(row, "kind"), label: label(row), before, after, diff, from, to, depth };
  });
}

/** Scale of the changes: their own if they would be invisible at that of the totals. */
function fallScale(ends: readonly number[], most: number): { low: number; high: number } {
  const [least, largest] = [Math.min(...ends), Math.max(...ends)];
  const spread = largest - least;
  if (spread === 0 || spread > most / 4) return { low: 0, high: most };
  return { low: least - spread * 0.05, high: largest + spread * 0.05 };
}

interface Falls {
  kinds: Frame;
  /** Text on the step and the ranks. */
  what: string;
  /** Text on the spread of the steps, and whether their difference exceeds it. */
  spread: string;
}

export class Waterfall extends Part<Falls> {
  private readonly open = signal<string | null>(null);
  private readonly level = signal<Level>("operator");
  /** The parts of the open kind, or why they are missing; null until they are loaded. */
  private readonly parts = signal<Frame | Error | null>(null);
  private readonly words: Record<string, string>;

  constructor(
    ctx: Context,
    private readonly ask: (level: Level) => Promise<Frame>,
  ) {
    super(ctx, "Where the time goes", { class: "hta-diff-pane hta-diff-waterfall" });
    this.words = { ...WORDS, ...ctx.about.kind_words };
  }

  override show(shown: Falls): void {
    const [largest] = rowsOf(shown.kinds);
    const matters = largest !== undefined && number(largest, "diff_ns") !== 0;
    const first = this.shown.value === null && matters ? text(largest, "kind") : this.open.value;
    super.show(shown);
    this.set(first, this.level.value);
  }

  /** Open a kind, divided by `level`, or close all. */
  private set(open: string | null, level: Level): void {
    batch(() => {
      this.open.value = open;
      this.level.value = level;
      this.parts.value = null;
    });
    if (open !== null) void this.loadParts();
  }

  private async loadParts(): Promise<void> {
    const level = this.open.value === "idle" ? "cause" : this.level.value;
    try {
      this.parts.value = await this.ask(level);
    } catch (error) {
      if (!isAbort(error)) this.parts.value = asError(error);
    }
  }

  protected draw({ kinds, what, spread }: Falls) {
    const open = this.open.value;
    const parts = this.parts.value;
    const isLoaded = parts !== null && !(parts instanceof Error);
    const before = Number(kinds.attrs.before_ns ?? 0);
    const after = Number(kinds.attrs.after_ns ?? 0);
    const bars = waterfallBars(kinds, this.words).flatMap((bar) =>
      bar.kind === open && isLoaded ? [bar, ...partBars(parts, bar)] : [bar],
    );
    const ends = [before, after, ...bars.flatMap(({ from, to }) => [from, to])];
    const most = Math.max(1, ...ends);
    const { low, high } = fallScale(ends, most);
    const enlarged = most / (high - low);
    const diff = after - before;
    const title =
      diff === 0
        ? `Where the time goes ${what}`
        : `Where the ${formatDuration(Math.abs(diff))} ${diff > 0 ? "come from" : "less come from"} ${what}`;
    return (
      <>
        <div class="hta-diff-head">
          <h3>{title.trim()}</h3>
          <Choice
            name="Split by"
            options={LEVELS}
            chosen={this.level.value}
            choose={(level) => this.set(open, level)}
          />
        </div>
        <p class="hta-about">
          {(Object.keys(this.ctx.about.kind_words).length > 0
            ? "every moment counted once. "
            : "every moment of the steps counted once: compute, else NCCL, else copies, else idle. ") +
            (enlarged > 1 ? `Changes are drawn ${enlarged.toFixed(0)} times as wide. ` : "") +
            "Click a kind to see what it is made of."}
        </p>
        {spread !== "" && <p class="hta-diff-spread">{spread}</p>}
        <div class="hta-diff-bars">
          {this.whole("before", kinds, before, most)}
          {bars.map((bar) => this.bar(bar, low, high))}
          {this.whole("after", kinds, after, most)}
        </div>
        {parts instanceof Error && (
          <Failure
            title="The parts could not be drawn"
            error={parts}
            retry={() => this.set(open, this.level.value)}
          />
        )}
      </>
    );
  }

  private whole(side: "before" | "after", kinds: Frame, total: number, most: number) {
    const rows = rowsOf(kinds).sort(
      (a, b) => ORDER.indexOf(text(a, "kind")) - ORDER.indexOf(text(b, "kind")),
    );
    return (
      <div class="hta-diff-bar hta-diff-whole">
        <b class="hta-diff-bar-name">{side}</b>
        <span class="hta-diff-bar-value">{formatDuration(total)}</span>
        <div class="hta-diff-track">
          <div class="hta-diff-stack">
            {rows.map((row) => {
              const [kind, ns] = [text(row, "kind"), number(row, `${side}_ns`)];
              return (
                <i
                  title={`${this.words[kind] ?? ""} ${formatDuration(ns)}`}
                  style={{
                    width: percent(Math.max(ns, 0) / most),
                    background: this.kindColour(kind),
                  }}
                />
              );
            })}
          </div>
        </div>
      </div>
    );
  }

  private kindColour(kind: string): string {
    const theme = THEMES[this.ctx.theme.value];
    return kind === "idle" ? theme.idle : (theme.kind[kind as "compute"] ?? theme.idle);
  }

  private bar(bar: Bar, low: number, high: number) {
    const { kind, label, before, diff, from, to, depth } = bar;
    const isOpen = this.open.value === kind && depth === 0;
    const place = (ns: number): string => percent((ns - low) / (high - low));
    return (
      <div key={`${kind} ${label}`} class="hta-diff-bar" data-kind={kind} data-depth={depth}>
        {depth === 0 ? (
          <button
            type="button"
            class="hta-diff-bar-name hta-diff-bar-open"
            aria-expanded={isOpen}
            onClick={() => this.set(isOpen ? null : kind, this.level.value)}
          >
            <span class="hta-diff-arrow">{isOpen ? "▾" : "▸"}</span>
            <i class="hta-diff-swatch" style={{ background: this.kindColour(kind) }} />
            {label}
          </button>
        ) : (
          <span class="hta-diff-bar-name hta-diff-part" title={label}>
            {label}
          </span>
        )}
        <span class="hta-diff-bar-value">
          <b>{deltaWords(diff)}</b>
          {` ${shareWords(diff, before)}`}
        </span>
        <div class="hta-diff-track">
          <i class="hta-diff-edge" style={{ left: place(from) }} />
          <i
            class="hta-diff-fall"
            title={`${label}: ${formatDuration(before)} → ${formatDuration(bar.after)}`}
            style={{
              left: place(Math.min(from, to)),
              width: percent(Math.abs(diff) / (high - low)),
              background: barColour(diff, this.ctx.theme.value),
              opacity: depth === 0 ? "1" : "0.72",
            }}
          />
        </div>
      </div>
    );
  }
}

const percent = (share: number): string => `${(share * 100).toFixed(3)}%`;
