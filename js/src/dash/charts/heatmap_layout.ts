/** Where the parts of the heatmap lie, below the timeline's scale. CSS px. */

import type { ThemeName } from "../../contract";
import { formatAxis, formatDuration } from "../../draw/format";
import { SIZE, type Theme } from "../../draw/theme";
import type { HeatmapContent } from "./heatmap_content";
import { fitted, textWidth, wrapped } from "./measure";
import { labelledRows } from "./row_labels";
import { Words } from "./words";

const PITCH = 16;
const TALLEST = 512;
const STRIP = 22;
/** Cells narrower than this cannot be told apart. px. */
const LEAST_CELL = 5;
/** Room for what the colours mean, and the width of one of them. px. */
const KEY = 148;
const SWATCH = 12;
const INSET = 12;
/** Texts nearer than this touch. px. */
const LEAST_LINE = 14;
/** How many bins to ask for, for a chart of this width. */
export function heatmapBins(width: number): number {
  const { left, right } = sides(width);
  return Math.max(8, Math.floor((width - left - right) / LEAST_CELL));
}

/** The timeline's gutter and margin: one x axis for both. */
function sides(width: number): { left: number; right: number } {
  return {
    left: width < SIZE.gutterFrom ? SIZE.gutterNarrow : SIZE.gutter,
    right: width < SIZE.marginFrom ? 0 : SIZE.margin,
  };
}

export interface HeatmapPlan {
  width: number;
  height: number;
  left: number;
  across: number;
  top: number;
  pitch: number;
  words: Words;
  bars: readonly (readonly [left: number, top: number, right: number, bottom: number])[];
}

/** From none to all: as in `charts/theme.py`, where that for waits is the timeline's, too. */
export const BUSY_RAMP: Readonly<Record<ThemeName, readonly string[]>> = {
  light: ["#f1f3f6", "#cfe1f2", "#94c0e4", "#4f97d0", "#1f6fb2", "#0d4a80", "#062b50"],
  dark: ["#1d232d", "#173a5e", "#1f5b95", "#3580cc", "#62a6ee", "#9ccafa", "#d9ecff"],
};

export function rampOf(content: HeatmapContent, theme: Theme): readonly string[] {
  return content.ramp === "busy" ? BUSY_RAMP[theme.name] : theme.waitRamp;
}

export function planHeatmap(content: HeatmapContent, width: number, theme: Theme): HeatmapPlan {
  const words = new Words();
  const { left, right } = sides(width);
  const across = Math.max(40, width - left - right);
  const rows = content.ranks.length;
  const pitch = rows * PITCH <= TALLEST ? PITCH : Math.max(2, Math.floor(TALLEST / rows));
  let y = 0;
  const titled = INSET + textWidth(content.title, "bold", 13) + 16;
  const shared = width >= SIZE.marginFrom;
  if (shared || titled + KEY < width) key(words, width - Math.max(right, INSET), content, theme);
  for (const line of wrapped(content.title, width - 2 * INSET, "bold", 13)) {
    words.text(INSET, y + 9, line, theme.ink, { bold: true, size: 13 });
    y += 18;
  }
  // With a margin, title and definition share a line, as in the timeline's toolbar.
  const from = shared ? Math.max(left, titled) : INSET;
  if (shared) y = 2;
  for (const line of wrapped(content.subtitle, width - from - (shared ? right + KEY : INSET))) {
    words.text(from, y + 7, line, theme.ink3);
    y += 14;
  }
  y += 6;
  const strip = y + STRIP;
  words.text(left - 8, y + STRIP - 7, "mean of ranks", theme.ink3, { align: "right" });
  const wide = across / content.bins;
  const bars: [number, number, number, number][] = [];
  content.mean.forEach((each, bin) => {
    const tall = Math.min(1, each) * (STRIP - 2);
    const from = left + bin * wide;
    if (tall > 0) bars.push([from, strip - tall, from + Math.max(1, wide - 1), strip]);
  });
  const top = strip + 4;
  const every = [1, 2, 4, 8, 16, 32].find((each) => each * pitch >= LEAST_LINE) ?? 64;
  const names = fitted(content.names, left - 16);
  const labelled = labelledRows(rows, every, content.late, content.facts);
  const most = Math.max(...content.total);
  const totals = content.total.map(formatDuration);
  const longest = totals.reduce((high, text) => Math.max(high, textWidth(text, "bold")), 0);
  const span = right - 16 - longest - 6;
  const beside = Math.max(0, Math.ceil((LEAST_LINE - pitch) / 2 / pitch));
  if (right > 0) words.text(left + across + 10, strip - 7, "total", theme.ink3);
  names.forEach((name, row) => {
    const late = content.late.has(row);
    const bold = late || content.facts.has(row);
    const color = late ? theme.late : bold ? theme.ink : theme.ink2;
    const middle = top + (row + 0.5) * pitch;
    if (right > 0) {
      const from = left + across + 10;
      const long = (of: number): number => (most > 0 ? (content.total[of]! / most) * span : 0);
      const size = long(row);
      const half = Math.max(0.5, pitch * 0.34);
      if (size > 0) bars.push([from, middle - half, from + size, middle + half]);
      if (labelled.has(row)) {
        // Of thin rows, the neighbours' bars pass beside the text as well.
        let clear = size;
        for (let of = Math.max(0, row - beside); of <= Math.min(rows - 1, row + beside); of += 1) {
          clear = Math.max(clear, long(of));
        }
        words.text(from + clear + 5, middle, totals[row]!, color, { bold });
      }
    }
    if (labelled.has(row)) {
      words.text(left - 8, middle, name, color, { align: "right", bold });
    }
    if (pitch >= 12 && row > 0) {
      words.plate(left, top + row * pitch - 0.5, left + across, top + row * pitch + 0.5, theme.bg);
    }
  });
  const bottom = top + rows * pitch;
  const span_ns = content.end - content.start;
  const step = niceStep(span_ns, Math.max(2, Math.min(7, Math.floor(across / 110))));
  let free = -Infinity;
  for (let at = Math.ceil(content.start / step) * step; at <= content.end; at += step) {
    const x = Math.round(left + ((at - content.start) / span_ns) * across);
    const text = formatAxis(at, step);
    const half = textWidth(text) / 2;
    const from = Math.max(left - half, Math.min(x - half, width - 2 * half));
    words.line(x, bottom, x, bottom + 4, theme.ruleStrong);
    if (from < free || Math.abs(from + half - x) > half) continue;
    words.text(from, bottom + 12, text, theme.ink3);
    free = from + 2 * half + 12;
  }
  return { width, height: Math.ceil(bottom + 22), left, across, top, pitch, words, bars };
}

/** What the colours mean, ending at `right`. */
function key(words: Words, right: number, content: HeatmapContent, theme: Theme): void {
  const ramp = rampOf(content, theme);
  words.text(right, 9, "100\u2009%", theme.ink3, { align: "right" });
  const end = right - textWidth("100\u2009%") - 5;
  const start = end - ramp.length * SWATCH;
  ramp.forEach((color, at) => {
    words.plate(start + at * SWATCH, 4, start + (at + 1) * SWATCH, 14, color);
  });
  words.text(start - 5, 9, "0", theme.ink3, { align: "right" });
}

function niceStep(span: number, most: number): number {
  const rough = span / most;
  const scale = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((each) => each * scale).find((each) => each >= rough)!;
}
