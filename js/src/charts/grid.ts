/** The heatmap of ranks over time: content, layout and drawing. */

import { sum } from "../expressions/numbers";
import { noteFor } from "../facts/notes";
import { type Metric, METRICS } from "../facts/panels";
import type { Brush, Chosen, PanelFrame } from "../protocol/source";
import { formatAxis, formatDuration, formatShare } from "../ui/formats";
import { fitted, labelledRows, noteOf, sentences, textWidth } from "../ui/text";
import { shade, SIZE, type Theme } from "../ui/theme";
import { type Box, type Drawing, markedRows, type Picked, type Spot, type Tip } from "./content";
import { foldedScope, scopeOf, spoken, tipsOf } from "./defined";
import { HEATMAP } from "./definition";
import { foldedLines, TOGETHER } from "./folding";
import { isSame, stillOnly, toggled } from "./gestures";
import { type Box as Box4, frame, paintBox, type Pen, Words } from "./paint";
import { everyNth, LINE } from "./rows";

const SHADES = 128;

/** The reply to the op `heatmap` as a frame: one row per rank, with its bins in `value_ns`. */
export function heatmapFrame(
  reply: { ranks: readonly number[]; start: number; end: number; bins: number; attrs?: object },
  values: Float64Array,
  metric: string,
): PanelFrame {
  const { ranks, start, end, bins } = reply;
  return {
    rows: ranks.length,
    columns: {
      rank: ranks,
      total_ns: ranks.map((_, row) =>
        values.subarray(row * bins, (row + 1) * bins).reduce((sum, ns) => sum + ns, 0),
      ),
      value_ns: values as unknown as readonly number[],
    },
    attrs: { ...reply.attrs, start, end, bins, metric },
  };
}

interface HeatmapContent {
  title: string;
  subtitle: string;
  finding: string;
  /** The ranks of each row. */
  ranks: readonly (readonly number[])[];
  names: string[];
  start: number;
  end: number;
  bins: number;
  /** Start of each bin, and end of the last one. */
  edges: readonly number[];
  ramp: "busy" | "waiting";
  /** Row by row. */
  share: Float64Array;
  mean: number[];
  total: number[];
  tip(row: number, bin: number): Tip;
  late: Set<number>;
  facts: Set<number>;
}

/** Content of the heatmap before layout. */
export function heatmapContent(frame: PanelFrame): HeatmapContent | string {
  const ranks = [...new Set((frame.columns.rank ?? []) as readonly number[])];
  const value = (frame.columns.value_ns ?? []) as unknown as ArrayLike<number>;
  const bins = ranks.length === 0 ? 0 : Math.floor(value.length / ranks.length);
  // Frames of Python's analysis have one row per cell, and its edges.
  const starts = frame.columns.start_ns;
  const start = Number(starts === undefined ? frame.attrs.start : (starts[0] ?? 0));
  const end = Number(
    frame.columns.end_ns === undefined ? frame.attrs.end : (frame.columns.end_ns[bins - 1] ?? 0),
  );
  if (bins === 0 || !(end > start)) return noteOf(frame) || noteFor("nothing");
  const { label, note, ramp, kinds } = METRICS[frame.attrs.metric as Metric];
  const edges = Array.from(
    { length: bins + 1 },
    (_, at) => start + Math.floor(((end - start) * at) / bins),
  );
  const share = new Float64Array(ranks.length * bins);
  const total = ranks.map(() => 0);
  const sums = new Array<number>(bins).fill(0);
  for (let row = 0; row < ranks.length; row += 1) {
    for (let bin = 0; bin < bins; bin += 1) {
      const size = edges[bin + 1]! - edges[bin]!;
      const ns = value[row * bins + bin]!;
      const part = size > 0 ? ns / size : 0;
      share[row * bins + bin] = part;
      total[row]! += ns;
      sums[bin]! += part;
    }
  }
  const spans = (frame.attrs.span_ns ?? []) as number[];
  // Shares refer to the sum of the spans of all ranks, as in the legend of the timeline.
  const attrs = { label, about: note, cell_ns: (end - start) / bins, spans_ns: sum(spans) };
  const columns = { rank: ranks, total_ns: total };
  const own = { rows: ranks.length, columns, attrs: { ...frame.attrs, ...attrs } };
  const scope = scopeOf(HEATMAP, own);
  const words = spoken({ ...HEATMAP, unmatched: kinds }, frame, scope);
  const drawn = foldedScope(HEATMAP, own, scope);
  const isFolded = drawn !== scope;
  const rows = drawn.get("members") as number[][];
  const at = new Map(ranks.map((rank, row) => [rank, row]));
  const of = rows.map((members) => members.map((rank) => at.get(rank)!));
  const [drawnShare, drawnValue] = isFolded
    ? [meanRows(share, of, bins), meanRows(value, of, bins)]
    : [share, value];
  return {
    ...words,
    subtitle: isFolded ? sentences(words.subtitle, TOGETHER) : words.subtitle,
    ranks: rows,
    names: drawn.get("names") as string[],
    start,
    end,
    bins,
    edges,
    ramp: ramp as "busy" | "waiting",
    share: drawnShare,
    mean: sums.map((each) => each / ranks.length),
    total: Array.from(drawn.get("total_ns") as Float64Array),
    tip: (row, bin) => {
      const cell = new Map(drawn)
        .set("start_ns", edges[bin]!)
        .set("end_ns", edges[bin + 1]!)
        .set("share", drawnShare[row * bins + bin]!)
        .set("value_ns", drawnValue[row * bins + bin]!);
      const { heading, lines } = tipsOf(HEATMAP.tip, cell)(row);
      if (!isFolded || of[row]!.length === 1) return { heading, lines };
      const shares = of[row]!.map((one) => share[one * bins + bin]!);
      const [low, high] = [Math.min(...shares), Math.max(...shares)].map(formatShare);
      const range = ["share, least to most", `${low} – ${high}`] as const;
      return { heading, lines: [...lines, range, ...foldedLines(drawn, FOLD, row)] };
    },
    ...markedRows(
      frame,
      rows.map((members) => members[0]!),
    ),
  };
}

const FOLD = HEATMAP.fold!;

/** The mean of each group of rows, bin by bin. */
function meanRows(
  values: ArrayLike<number>,
  rows: readonly (readonly number[])[],
  bins: number,
): Float64Array {
  const found = new Float64Array(rows.length * bins);
  rows.forEach((members, row) => {
    for (let bin = 0; bin < bins; bin += 1) {
      const all = members.reduce((total, one) => total + values[one * bins + bin]!, 0);
      found[row * bins + bin] = all / members.length;
    }
  });
  return found;
}

// Draws each rank's activity over time; rectangles select windows and ranks.

export class HeatmapDrawing implements Drawing {
  private plan!: HeatmapPlan;
  private cells: HTMLCanvasElement | null = null;

  constructor(
    readonly content: HeatmapContent,
    private readonly theme: Theme,
  ) {}

  layout(width: number): number {
    this.plan = planHeatmap(this.content, width, this.theme);
    return this.plan.height;
  }

  paint(pen: Pen, chosen: Chosen): void {
    const { plan, content, theme } = this;
    const rows = content.ranks.length;
    const [right, bottom] = [plan.left + plan.across, plan.top + rows * plan.pitch];
    paintBox(pen, [0, 0, plan.width, plan.height], { fill: theme.bg });
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.picture(), plan.left, plan.top, plan.across, bottom - plan.top);
    plan.words.paintLines(pen);
    for (const box of plan.bars) paintBox(pen, box, { fill: theme[content.ramp][4]! });
    const x = (ns: number): number => {
      const at = (ns - content.start) / (content.end - content.start);
      return plan.left + Math.max(0, Math.min(1, at)) * plan.across;
    };
    const [from, to] = (chosen.window === null ? [plan.left, right] : chosen.window.map(x)) as [
      number,
      number,
    ];
    const framed: Box4[] = [];
    const veiled: Box4[] = [];
    if (chosen.window !== null || chosen.ranks !== null) {
      const runs = runsOf(
        content.ranks.map((own) => own.every((rank) => chosen.ranks?.includes(rank) ?? true)),
      );
      let y = plan.top;
      for (const [first, last] of runs) {
        const [top, end] = [plan.top + first * plan.pitch, plan.top + last * plan.pitch];
        if (top > y) veiled.push([plan.left, y, right, top]);
        if (from > plan.left) veiled.push([plan.left, top, from, end]);
        if (to < right) veiled.push([to, top, right, end]);
        if (to > from) framed.push([from - 1, top - 1, to + 1, end + 1]);
        y = end;
      }
      if (y < bottom) veiled.push([plan.left, y, right, bottom]);
    }
    pen.globalAlpha = 0.6;
    for (const box of veiled) paintBox(pen, box, { fill: theme.bg });
    pen.globalAlpha = 1;
    plan.words.paint(pen);
    for (const [left, top, end, below] of framed) {
      frame(pen, [left - 2, top - 2, end + 2, below + 2], theme.bg, 4);
      frame(pen, [left - 1, top - 1, end + 1, below + 1], theme.brushLine, 2);
    }
    for (const row of [...content.late, ...content.facts]) {
      const top = plan.top + row * plan.pitch;
      const color = content.late.has(row) ? theme.late : theme.ink;
      frame(pen, [plan.left - 1, top - 1, right + 1, top + plan.pitch + 1], color, 1.5);
    }
  }

  /** The cells, a pixel each. */
  private picture(): HTMLCanvasElement {
    if (this.cells !== null) return this.cells;
    const { bins, ranks, share, ramp } = this.content;
    const shades = Array.from({ length: SHADES }, (_, at) => {
      const color = shade(this.theme[ramp], at / (SHADES - 1));
      const [red, green, blue] = [1, 3, 5].map((from) => parseInt(color.slice(from, from + 2), 16));
      return (0xff << 24) | (blue! << 16) | (green! << 8) | red!;
    });
    const cells = document.createElement("canvas");
    [cells.width, cells.height] = [bins, ranks.length];
    const image = new ImageData(bins, ranks.length);
    const px = new Uint32Array(image.data.buffer);
    share.forEach((part, at) => {
      px[at] = shades[Math.max(0, Math.min(SHADES - 1, Math.floor(part * SHADES)))]!;
    });
    cells.getContext("2d")?.putImageData(image, 0, 0);
    this.cells = cells;
    return cells;
  }

  spot(x: number, y: number): Spot | null {
    const cell = this.cell(x, y);
    return cell === null ? null : this.spotOf(cell);
  }

  spotOf(index: number): Spot | null {
    const { plan, content } = this;
    const [row, bin] = [Math.floor(index / content.bins), index % content.bins];
    if (row >= content.ranks.length) return null;
    const wide = plan.across / content.bins;
    const left = plan.left + bin * wide;
    const box = { left, top: plan.top + row * plan.pitch, width: wide, height: plan.pitch };
    return { index, box, tip: content.tip(row, bin) };
  }

  step(from: number | null, key: string): number | null {
    const { bins, ranks } = this.content;
    if (from === null) return key.startsWith("Arrow") || key === "Home" ? 0 : null;
    const [row, bin] = [Math.floor(from / bins), from % bins];
    const [down, right] = {
      ArrowDown: [1, 0],
      ArrowUp: [-1, 0],
      ArrowRight: [0, 1],
      ArrowLeft: [0, -1],
      Home: [0, -bin],
      End: [0, bins - 1 - bin],
    }[key] ?? [0, 0];
    const rows = Math.max(0, Math.min(ranks.length - 1, row + down!));
    return rows * bins + Math.max(0, Math.min(bins - 1, bin + right!));
  }

  click(x: number, y: number, more: boolean, chosen: Chosen): Brush {
    const { plan } = this;
    const row = this.rowAt(y);
    if (row === null) return this.nothing();
    // A click on a name or total selects the ranks of the row, without a window.
    if (x < plan.left || x > plan.left + plan.across) {
      const ranks = [...this.content.ranks[row]!];
      if (more) return { ranks: toggled(chosen.ranks, ranks) };
      return chosen.window === null && stillOnly(chosen.ranks, ranks)
        ? this.nothing()
        : { ranks, window: null };
    }
    const cell = this.cell(x, y);
    return cell === null ? this.nothing() : this.press(cell, more, chosen);
  }

  press(index: number, more: boolean, chosen: Chosen): Brush {
    const { bins, ranks } = this.content;
    const [row, bin] = [Math.floor(index / bins), index % bins];
    const window = this.window(bin, bin);
    const one = [...ranks[row]!];
    if (more) return { ranks: toggled(chosen.ranks, one) };
    return isSame(chosen.window, window) && stillOnly(chosen.ranks, one)
      ? this.nothing()
      : { ranks: one, window };
  }

  drag(from: Picked, to: Picked, more: boolean, chosen: Chosen): Brush | null {
    const met = this.met(from, to);
    if (met === null) return null;
    const { ranks } = this.content;
    const inside = ranks.slice(met.first, met.last + 1).flat();
    const window = this.window(met.low, met.high);
    const all = met.last - met.first + 1 === ranks.length;
    if (more && chosen.ranks !== null) {
      return { ranks: [...new Set([...chosen.ranks, ...inside])].sort((a, b) => a - b), window };
    }
    return { ranks: all ? null : inside, window };
  }

  dragBox(from: Picked, to: Picked): Box | null {
    const { plan } = this;
    const met = this.met(from, to);
    if (met === null) return null;
    const wide = plan.across / this.content.bins;
    return {
      left: plan.left + met.low * wide,
      top: plan.top + met.first * plan.pitch,
      width: (met.high - met.low + 1) * wide,
      height: (met.last - met.first + 1) * plan.pitch,
    };
  }

  nothing(): Brush {
    return { ranks: null, window: null };
  }

  /** The window of a range of bins. */
  private window(low: number, high: number): [number, number] {
    const { edges } = this.content;
    return [edges[low]!, edges[high + 1]!];
  }

  private rowAt(y: number): number | null {
    const row = Math.floor((y - this.plan.top) / this.plan.pitch);
    return row >= 0 && row < this.content.ranks.length ? row : null;
  }

  private cell(x: number, y: number): number | null {
    const { left, across } = this.plan;
    const row = this.rowAt(y);
    if (row === null || x < left || x >= left + across) return null;
    return row * this.content.bins + Math.floor(((x - left) / across) * this.content.bins);
  }

  private met(
    from: Picked,
    to: Picked,
  ): { first: number; last: number; low: number; high: number } | null {
    const { plan } = this;
    const { bins, ranks } = this.content;
    const bin = (x: number): number => Math.floor(((x - plan.left) / plan.across) * bins);
    const row = (y: number): number => Math.floor((y - plan.top) / plan.pitch);
    const clamp = (at: number, most: number): number => Math.max(0, Math.min(most - 1, at));
    const [low, high] = [bin(Math.min(from.x, to.x)), bin(Math.max(from.x, to.x))];
    const [first, last] = [row(Math.min(from.y, to.y)), row(Math.max(from.y, to.y))];
    if (high < 0 || low >= bins || last < 0 || first >= ranks.length) return null;
    return {
      first: clamp(first, ranks.length),
      last: clamp(last, ranks.length),
      low: clamp(low, bins),
      high: clamp(high, bins),
    };
  }
}

/** Ranges of consecutive wanted rows, ends exclusive. */
function runsOf(wanted: readonly boolean[]): [number, number][] {
  const runs: [number, number][] = [];
  wanted.forEach((is, row) => {
    const open = runs.at(-1);
    if (!is) return;
    if (open !== undefined && open[1] === row) open[1] = row + 1;
    else runs.push([row, row + 1]);
  });
  return runs;
}

// Layout of the heatmap, below the timeline's scale. CSS px.

const PITCH = 16;
const TALLEST = 512;
const STRIP = 22;
/** Cells narrower than this cannot be distinguished. px. */
const LEAST_CELL = 5;
/** Width of the colour key, and of one of its colours. px. */
const KEY = 148;
const SWATCH = 12;
const INSET = 12;
/** Number of bins to request for a chart of this width. */
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

interface HeatmapPlan {
  width: number;
  height: number;
  left: number;
  across: number;
  top: number;
  pitch: number;
  words: Words;
  bars: readonly Box4[];
}

export function planHeatmap(content: HeatmapContent, width: number, theme: Theme): HeatmapPlan {
  const words = new Words();
  const { left, right } = sides(width);
  const across = Math.max(40, width - left - right);
  const rows = content.ranks.length;
  const pitch = rows * PITCH <= TALLEST ? PITCH : Math.max(2, Math.floor(TALLEST / rows));
  const titled = INSET + textWidth(content.title, "bold", 13) + 16;
  const shared = width >= SIZE.marginFrom;
  if (shared || titled + KEY < width) key(words, width - Math.max(right, INSET), content, theme);
  let y = words.title(content.title, [INSET, 0], width - 2 * INSET, theme);
  // With a margin, title and definition share a line, as in the timeline's toolbar.
  const from = shared ? Math.max(left, titled) : INSET;
  const room = width - from - (shared ? right + KEY : INSET);
  y = words.subtitle(content.subtitle, [from, shared ? 2 : y], room, theme) + 6;
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
  const names = fitted(content.names, left - 16);
  const labelled = labelledRows(rows, everyNth(pitch), content.late, content.facts);
  const most = Math.max(...content.total);
  const totals = content.total.map(formatDuration);
  const longest = totals.reduce((high, text) => Math.max(high, textWidth(text, "bold")), 0);
  const span = right - 16 - longest - 6;
  const beside = Math.max(0, Math.ceil((LINE - pitch) / 2 / pitch));
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
        // In thin rows, the text also overlaps the neighbours' bars.
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
    const text = formatAxis(at, step, content.end);
    const half = textWidth(text) / 2;
    const from = Math.max(left - half, Math.min(x - half, width - 2 * half));
    words.line(x, bottom, x, bottom + 4, theme.ruleStrong);
    if (from < free || Math.abs(from + half - x) > half) continue;
    words.text(from, bottom + 12, text, theme.ink3);
    free = from + 2 * half + 12;
  }
  return { width, height: Math.ceil(bottom + 22), left, across, top, pitch, words, bars };
}

/** Draw the colour key, ending at `right`. */
function key(words: Words, right: number, content: HeatmapContent, theme: Theme): void {
  const ramp = theme[content.ramp];
  words.text(right, 9, "100\u202f%", theme.ink3, { align: "right" });
  const end = right - textWidth("100\u202f%") - 5;
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
