/** Request and cache the frames of a comparison, swap their sides, and format differences. */

import { classStyle } from "../facts/event_classes";
import type { Brief, CellValue, PanelFrame, Source, ThemeName } from "../protocol/source";
import { formatCount, formatDurationDelta, formatShareDelta } from "../ui/formats";
import { THEMES } from "../ui/theme";

export type FrameRow = Record<string, unknown>;
export type Side = 0 | 1;
/** One value per side: before and after, or above and below. */
export type BySide<T> = readonly [T, T];

export interface PairedEvents {
  /** In display order. Null on a side without a partner. */
  events: BySide<Brief | null>;
  status: string | null;
}

export const SIDES = [0, 1] as const;

export function otherSide(side: Side): Side {
  return side === 0 ? 1 : 0;
}

/** Facts about the comparison, available before any frame is loaded. */
export interface DiffFacts {
  labels: [string, string];
  facts: string;
  cautions: { kind: string; text: string }[];
  /** Sentence about different hardware or rank counts; "" if they are the same. */
  conditions: string;
  rank_pairs: [number, number][];
  by_rank_means: boolean;
  steps: number;
  matched: string;
  all_matched: boolean;
  /** The names of time kinds, as replaced by the runs' formats. */
  kind_words: Record<string, string>;
  has_events: boolean;
  has_device: boolean;
  /** Whether the kernel computes frames fast enough that one reply can hold them all. */
  is_small: boolean;
  tables: string[];
  /** If a saved page lacks steps: the steps that can be selected, and a note about the rest. */
  held_steps?: number[];
  held_words?: string;
  /** For a page without a kernel, the rank pairs that can be selected. */
  held_pairs?: number[];
}

export function rowsOf(frame: PanelFrame): FrameRow[] {
  const names = Object.keys(frame.columns);
  return Array.from({ length: frame.rows }, (_, row) =>
    Object.fromEntries(names.map((name) => [name, frame.columns[name]?.[row]])),
  );
}

export function numberAt(row: FrameRow, name: string): number {
  const value = row[name];
  return typeof value === "number" ? value : 0;
}

export function textAt(row: FrameRow, name: string): string {
  const value = row[name];
  return typeof value === "string" ? value : "";
}

export const shortName = (row: FrameRow): string => textAt(row, "short") || textAt(row, "name");

/** The changes that are exchanged when the sides are swapped. Other changes stay the same. */
export const OPPOSITE: Readonly<Record<string, string>> = {
  added: "removed",
  removed: "added",
  slower: "faster",
  faster: "slower",
};

/** Return the frame as if the runs were exchanged. Attributes keep their values and swap names. */
export function swapSides(frame: PanelFrame): PanelFrame {
  const columns = Object.entries(frame.columns).map(([name, values]) => {
    const swapped = values.map((value) => swapValue(name, value));
    return [swapName(name), swapped] as const;
  });
  const attrs = Object.entries(frame.attrs).map(([name, value]) => [swapName(name), value]);
  const swappedAttrs = Object.fromEntries(attrs) as PanelFrame["attrs"];
  return { rows: frame.rows, columns: Object.fromEntries(columns), attrs: swappedAttrs };
}

function swapName(name: string): string {
  return name.replace(/^(before|after)_/, (_, side) => (side === "before" ? "after_" : "before_"));
}

/** Return a value of column `name` after the sides are swapped. */
function swapValue(name: string, value: CellValue): CellValue {
  if (swapName(name) !== name) return value;
  if (/(^|_)(diff|delta)(_|$)/.test(name)) return typeof value === "number" ? 0 - value : value;
  if (name === "change" || name === "status") return OPPOSITE[String(value)] ?? value;
  if (name === "side") return value === 0 || value === 1 ? 1 - value : value;
  return value;
}

/** Columns and attributes that are sums over the compared steps. */
const SUMS = ["before_ns", "after_ns", "diff_ns", "before_count", "after_count"];

/** Divide a frame's sums (`waterfall`, `names`) by the number of steps, as findings do. */
export function perStep(frame: PanelFrame): PanelFrame {
  const steps = Number(frame.attrs.steps ?? 1);
  const mean = <T>(value: T): T | number => (typeof value === "number" ? value / steps : value);
  const columns = { ...frame.columns };
  const attrs = { ...frame.attrs };
  for (const name of SUMS) {
    if (columns[name]) columns[name] = columns[name].map(mean);
    if (name in attrs) attrs[name] = mean(attrs[name]);
  }
  return { ...frame, columns, attrs };
}

export class FrameCache {
  private readonly cached = new Map<string, Promise<PanelFrame>>();

  constructor(
    private readonly source: Source,
    private readonly signal: AbortSignal,
  ) {}

  get(name: string): Promise<PanelFrame> {
    return this.cached.get(name) ?? this.put(name, this.fetchAlone(name));
  }

  /** Send requests early, so that the kernel works while replies are drawn. */
  prefetch(names: readonly string[]): void {
    for (const name of names) void this.get(name).catch(() => undefined);
  }

  /** Request several frames at once. Frames missing from the reply are requested separately. */
  fetchFrames(names: readonly string[]): void {
    const unknown = names.filter((name) => !this.cached.has(name));
    const requested = this.source
      .ask("frames", { names: unknown }, this.signal)
      .then(({ reply }) => reply.frames)
      .catch((): Record<string, PanelFrame> => ({}));
    for (const name of unknown) {
      void this.put(
        name,
        requested.then((frames) => frames[name] ?? this.fetchAlone(name)),
      );
    }
  }

  private async fetchAlone(name: string): Promise<PanelFrame> {
    const { reply } = await this.source.ask("frame", { name }, this.signal);
    return reply;
  }

  private put(name: string, frame: Promise<PanelFrame>): Promise<PanelFrame> {
    this.cached.set(name, frame);
    // Failed frames are removed from the cache, so that the request can be repeated.
    frame.catch(() => this.cached.delete(name));
    return frame;
  }
}

/** Minimum number of characters in a common end of two names for it to be removed. */
const MIN_CUT_END = 12;
/** Minimum length of a name after a common part is removed. */
const MIN_LABEL = 3;

/** Remove the common beginning of two names, and their common end if it is long. */
export function shortLabels(labels: readonly [string, string]): [string, string] {
  const [before, after] = labels;
  if (before === after) return [before, after];
  const isEnough = (names: readonly string[]) => names.every(({ length }) => length >= MIN_LABEL);
  const start = commonWords(before, after);
  const withoutStart = labels.map((label) => label.slice(start)) as [string, string];
  const [first, second] = isEnough(withoutStart) ? withoutStart : labels;
  const reverse = (text: string): string => Array.from(text).reverse().join("");
  const end = commonWords(reverse(first), reverse(second));
  const withoutEnd = [first, second].map((name) => name.slice(0, name.length - end));
  if (end < MIN_CUT_END || !isEnough(withoutEnd)) return [first, second];
  return [`${withoutEnd[0]!}…`, `${withoutEnd[1]!}…`];
}

/** Return the length of the whole words and separators with which both names begin. */
function commonWords(first: string, second: string): number {
  let length = 0;
  while (length < first.length && first[length] === second[length]) length += 1;
  return first.slice(0, length).search(/[^-_/. ]*$/);
}

/** Return the short names to show with "before" and "after"; "" for a name equal to that word. */
export function namesBesideSides(labels: readonly [string, string]): [string, string] {
  const [before, after] = shortLabels(labels);
  return [before === "before" ? "" : before, after === "after" ? "" : after];
}

/** Return one side of a comparison as the source of a timeline. */
export function sideSource(source: Source, side: Side): Source {
  return {
    get status() {
      return source.status;
    },
    ask: (op, request, signal) => source.ask(op, { ...request, side }, signal),
  };
}

// Differences as colors and words: green means faster, magenta slower, gray unchanged.

/** Largest change that is drawn as unchanged, as a share of the time before. */
const EQUAL_SHARE = 0.02;

/** Smallest change in each step of the color scale, as a share of the time before. */
const STEP_SHARES = [0, 0.4, 0.85];

/** Return the color of a change, given as a share of the time before. */
export function deltaColor(share: number, theme: ThemeName): string {
  const size = Math.abs(share);
  const step = size <= EQUAL_SHARE ? 0 : STEP_SHARES.filter((min) => size >= min).length;
  return THEMES[theme].delta[share > 0 ? 3 + step : 3 - step]!;
}

/** Return the color of changes that may be due to chance. */
export function neutralColor(theme: ThemeName): string {
  return classStyle("same", theme).color;
}

/** Return the middle color of the scale, for bars whose length shows the amount. */
export function barColor(diff: number, theme: ThemeName): string {
  return THEMES[theme].delta[diff > 0 ? 5 : 1]!;
}

/** Return a text such as `+60 %`; "" if the time before is 0. */
export function shareText(diff: number, before: number): string {
  return before > 0 ? formatShareDelta(diff / before) : "";
}

export function deltaText(diff: number): string {
  return formatDurationDelta(Math.round(diff));
}

function timesText(count: number): string {
  return Number.isInteger(count) || Math.abs(count) >= 100
    ? formatCount(count)
    : count.toFixed(1).replace(/\.0$/, "");
}

/** Return `18 → 4 645`, `new 218` or `gone 6`; a single number if the counts are equal. */
export function countsText(before: number, after: number): string {
  if (before === 0 && after > 0) return `new ${timesText(after)}`;
  if (after === 0 && before > 0) return `gone ${timesText(before)}`;
  return before === after ? timesText(before) : `${timesText(before)} → ${timesText(after)}`;
}
