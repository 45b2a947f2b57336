/** Content, layout and drawing of the heatmap of ranks over time. */

import { sum } from "../expressions/numbers";
import { noteFor } from "../facts/notes";
import { type Metric, METRICS } from "../facts/panels";
import { fillDeviceWord } from "../protocol/scene";
import type { Brush, ChartSelection, PanelFrame } from "../protocol/source";
import { formatAxis, formatDuration, formatShare } from "../ui/formats";
import { fitNames, labeledRows, frameNote, joinSentences, niceStep, textWidth } from "../ui/text";
import { interpolateStops, SIZE, type Theme } from "../ui/theme";
import {
  type ChartBox,
  type Drawing,
  markedRows,
  rowLabelStyle,
  type DragSpan,
  type HoverTarget,
  type TooltipContent,
} from "./content";
import { buildFoldedScope, buildScope, chartTexts, deviceWord, tooltipFiller } from "./defined";
import { type Definition, HEATMAP } from "./definition";
import { foldedLines, FOLDED_NOTE } from "./folding";
import { isSameWindow, isExactly, toggleKeys } from "./gestures";
import type { EvaluationScope } from "./language";
import { type BoxEdges, strokeFrame, paintBox, type DrawContext, TextLayer } from "./paint";
import { computeLabelInterval, computeRowPitch, LINE_HEIGHT_PX } from "./rows";

const SHADE_COUNT = 128;

/** Convert the reply to a `heatmap` request to a frame: one row per rank, bins in `value_ns`. */
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
      total_ns: ranks.map((_, row) => sum(values.subarray(row * bins, (row + 1) * bins))),
      value_ns: values as unknown as readonly number[],
    },
    attrs: { ...reply.attrs, start, end, bins, metric },
  };
}

interface HeatmapCells {
  /** Start of each bin, followed by the end of the last bin. */
  edges: readonly number[];
  /** For each cell, the share of its time that is covered. Row-major. */
  share: Float64Array;
  /** Sum of each row's values, in ns. */
  total: number[];
  /** Mean share of all ranks in each bin. */
  mean: number[];
}

interface HeatmapContent extends HeatmapCells {
  title: string;
  subtitle: string;
  finding: string;
  /** The ranks that each row shows. */
  ranks: readonly (readonly number[])[];
  names: string[];
  start: number;
  end: number;
  bins: number;
  ramp: "busy" | "waiting";
  tooltip(row: number, bin: number): TooltipContent;
  lateRows: Set<number>;
  factRows: Set<number>;
}

export function buildHeatmapContent(
  frame: PanelFrame,
  definition = HEATMAP,
): HeatmapContent | string {
  const cells = readCells(frame);
  if (cells === null) return frameNote(frame) || noteFor("nothing");
  const { ranks, value, edges, share, mean } = cells;
  const bins = edges.length - 1;
  const { ramp, kinds } = METRICS[frame.attrs.metric as Metric];
  const totals = totalsFrame(frame, cells, deviceWord(definition, frame));
  const rankScope = buildScope(definition, totals);
  const texts = chartTexts({ ...definition, unmatched: kinds }, frame, rankScope);
  const scope = buildFoldedScope(definition, totals, rankScope);
  const isFolded = scope !== rankScope;
  const members = scope.get("members") as number[][];
  const indexOfRank = new Map(ranks.map((rank, index) => [rank, index]));
  const membersOfRow = members.map((group) => group.map((rank) => indexOfRank.get(rank)!));
  const meanOfMembers = (values: Float64Array): Float64Array =>
    isFolded ? meanOfRows(values, membersOfRow, bins) : values;
  const [rowShare, rowValue] = [meanOfMembers(share), meanOfMembers(value)];
  return {
    ...texts,
    subtitle: isFolded ? joinSentences(texts.subtitle, FOLDED_NOTE) : texts.subtitle,
    ranks: members,
    names: scope.get("names") as string[],
    start: edges[0]!,
    end: edges[bins]!,
    bins,
    edges,
    ramp: ramp as "busy" | "waiting",
    share: rowShare,
    mean,
    total: Array.from(scope.get("total_ns") as Float64Array),
    tooltip: (row, bin) => {
      const index = row * bins + bin;
      const [start_ns, end_ns] = [edges[bin]!, edges[bin + 1]!];
      const cell = { start_ns, end_ns, share: rowShare[index]!, value_ns: rowValue[index]! };
      const shares = membersOfRow[row]!.map((member) => share[member * bins + bin]!);
      return cellTooltip(definition, scope, row, cell, shares);
    },
    ...markedRows(
      frame,
      members.map(([firstRank]) => firstRank!),
    ),
  };
}

/** Return a frame with the total of each rank and the attributes for the texts of the chart. */
function totalsFrame(
  { attrs }: PanelFrame,
  { ranks, edges, total }: RankCells,
  device: string,
): PanelFrame {
  const { label, note } = METRICS[attrs.metric as Metric];
  const bins = edges.length - 1;
  return {
    rows: ranks.length,
    columns: { rank: ranks, total_ns: total },
    attrs: {
      ...attrs,
      label: fillDeviceWord(label, device),
      about: note,
      cell_ns: (edges[bins]! - edges[0]!) / bins,
      // The timeline's legend also divides by the summed spans of all ranks.
      spans_ns: sum((attrs.span_ns ?? []) as number[]),
    },
  };
}

/** Return a cell's tooltip, with the range of shares if the cell combines several ranks. */
function cellTooltip(
  definition: Definition,
  scope: EvaluationScope,
  row: number,
  cell: Readonly<Record<string, number>>,
  shares: readonly number[],
): TooltipContent {
  const cellScope = new Map([...scope, ...Object.entries(cell)]);
  const { heading, lines } = tooltipFiller(definition.tooltip, cellScope)(row);
  if (shares.length === 1) return { heading, lines };
  const [low, high] = [Math.min(...shares), Math.max(...shares)].map(formatShare);
  const range = ["share, min to max", `${low} – ${high}`] as const;
  return { heading, lines: [...lines, range, ...foldedLines(scope, HEATMAP.fold!, row)] };
}

/** The cells of all ranks, with one row per rank. `value` holds the time of each cell in ns. */
type RankCells = HeatmapCells & { ranks: readonly number[]; value: Float64Array };

/** Return the cells of a frame; null if it has no ranks or no time. */
function readCells({ columns, attrs }: PanelFrame): RankCells | null {
  const ranks = [...new Set((columns.rank ?? []) as readonly number[])];
  const value = new Float64Array((columns.value_ns ?? []) as readonly number[]);
  const bins = ranks.length === 0 ? 0 : Math.floor(value.length / ranks.length);
  // Frames from the Python analysis have one row per cell, with the cell's start and end.
  const { start_ns: starts, end_ns: ends } = columns;
  const start = Number(starts === undefined ? attrs.start : starts[0]);
  const end = Number(ends === undefined ? attrs.end : ends[bins - 1]);
  if (bins === 0 || !(end > start)) return null;
  const edges = Array.from(
    { length: bins + 1 },
    (_, bin) => start + Math.floor(((end - start) * bin) / bins),
  );
  const share = value.map((ns, cell) => {
    const binNs = edges[(cell % bins) + 1]! - edges[cell % bins]!;
    return binNs > 0 ? ns / binNs : 0;
  });
  const total = ranks.map((_, row) => sum(value.subarray(row * bins, (row + 1) * bins)));
  const allRanks = ranks.map((_, row) => row);
  return {
    ranks,
    edges,
    value,
    share,
    total,
    mean: Array.from(meanOfRows(share, [allRanks], bins)),
  };
}

/** Return the mean of the values in each bin, for each list of ranks. */
function meanOfRows(
  values: Float64Array,
  groups: readonly (readonly number[])[],
  bins: number,
): Float64Array {
  const means = new Float64Array(groups.length * bins);
  groups.forEach((members, row) => {
    for (let bin = 0; bin < bins; bin += 1) {
      const total = sum(members.map((member) => values[member * bins + bin]!));
      means[row * bins + bin] = total / members.length;
    }
  });
  return means;
}

// Draw the activity of each rank over time. Rectangles select windows and ranks.

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

  paint(pen: DrawContext, selection: ChartSelection): void {
    const { plan, content, theme } = this;
    const rows = content.ranks.length;
    const [right, bottom] = [plan.left + plan.plotWidth, plan.top + rows * plan.rowPitch];
    paintBox(pen, [0, 0, plan.width, plan.height], { fill: theme.bg });
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.cellImage(), plan.left, plan.top, plan.plotWidth, bottom - plan.top);
    plan.textLayer.paintLines(pen);
    for (const box of plan.bars) paintBox(pen, box, { fill: theme[content.ramp][4]! });
    const { veiled, framed } = this.selectionBoxes(selection);
    pen.globalAlpha = 0.6;
    for (const box of veiled) paintBox(pen, box, { fill: theme.bg });
    pen.globalAlpha = 1;
    plan.textLayer.paint(pen);
    for (const [left, top, end, below] of framed) {
      strokeFrame(pen, [left - 2, top - 2, end + 2, below + 2], theme.bg, 4);
      strokeFrame(pen, [left - 1, top - 1, end + 1, below + 1], theme.brushLine, 2);
    }
    for (const row of [...content.lateRows, ...content.factRows]) {
      const top = plan.top + row * plan.rowPitch;
      const color = content.lateRows.has(row) ? theme.late : theme.ink;
      strokeFrame(pen, [plan.left - 1, top - 1, right + 1, top + plan.rowPitch + 1], color, 1.5);
    }
  }

  /** Return the boxes around the selected cells, and the boxes that veil all other cells. */
  private selectionBoxes({ window, ranks: chosen }: ChartSelection) {
    const [veiled, framed]: [BoxEdges[], BoxEdges[]] = [[], []];
    if (window === null && chosen === null) return { veiled, framed };
    const { plan, content } = this;
    const { start, end: endNs, ranks } = content;
    const right = plan.left + plan.plotWidth;
    const xOf = (ns: number): number =>
      plan.left + Math.max(0, Math.min(1, (ns - start) / (endNs - start))) * plan.plotWidth;
    const [from, to] = window === null ? [plan.left, right] : [xOf(window[0]), xOf(window[1])];
    const isChosen = (rank: number): boolean => chosen?.includes(rank) ?? true;
    let veiledTo = plan.top;
    for (const [first, end] of runsOfTrue(ranks.map((members) => members.every(isChosen)))) {
      const [top, bottom] = [plan.top + first * plan.rowPitch, plan.top + end * plan.rowPitch];
      if (top > veiledTo) veiled.push([plan.left, veiledTo, right, top]);
      if (from > plan.left) veiled.push([plan.left, top, from, bottom]);
      if (to < right) veiled.push([to, top, right, bottom]);
      if (to > from) framed.push([from - 1, top - 1, to + 1, bottom + 1]);
      veiledTo = bottom;
    }
    const bottom = plan.top + ranks.length * plan.rowPitch;
    if (veiledTo < bottom) veiled.push([plan.left, veiledTo, right, bottom]);
    return { veiled, framed };
  }

  private cellImage(): HTMLCanvasElement {
    if (this.cells !== null) return this.cells;
    const { bins, ranks, share, ramp } = this.content;
    const shades = Array.from({ length: SHADE_COUNT }, (_, index) => {
      const color = interpolateStops(this.theme[ramp], index / (SHADE_COUNT - 1));
      const [red, green, blue] = [1, 3, 5].map((from) => parseInt(color.slice(from, from + 2), 16));
      return (0xff << 24) | (blue! << 16) | (green! << 8) | red!;
    });
    const cells = document.createElement("canvas");
    [cells.width, cells.height] = [bins, ranks.length];
    const image = new ImageData(bins, ranks.length);
    const pixels = new Uint32Array(image.data.buffer);
    share.forEach((part, index) => {
      const shade = Math.max(0, Math.min(SHADE_COUNT - 1, Math.floor(part * SHADE_COUNT)));
      pixels[index] = shades[shade]!;
    });
    cells.getContext("2d")?.putImageData(image, 0, 0);
    this.cells = cells;
    return cells;
  }

  targetAt(x: number, y: number): HoverTarget | null {
    const cell = this.cellAt(x, y);
    return cell === null ? null : this.targetOf(cell);
  }

  targetOf(index: number): HoverTarget | null {
    const { plan, content } = this;
    const [row, bin] = [Math.floor(index / content.bins), index % content.bins];
    if (row >= content.ranks.length) return null;
    const cellWidth = plan.plotWidth / content.bins;
    const left = plan.left + bin * cellWidth;
    const box = {
      left,
      top: plan.top + row * plan.rowPitch,
      width: cellWidth,
      height: plan.rowPitch,
    };
    return { index, box, tooltip: content.tooltip(row, bin) };
  }

  nextTarget(from: number | null, key: string): number | null {
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
    const nextRow = Math.max(0, Math.min(ranks.length - 1, row + down!));
    return nextRow * bins + Math.max(0, Math.min(bins - 1, bin + right!));
  }

  click(x: number, y: number, additive: boolean, selection: ChartSelection): Brush {
    const { plan } = this;
    const row = this.rowAt(y);
    if (row === null) return this.emptyBrush();
    // A click on a row's name or total selects the row's ranks and no window.
    if (x < plan.left || x > plan.left + plan.plotWidth) {
      const ranks = [...this.content.ranks[row]!];
      if (additive) return { ranks: toggleKeys(selection.ranks, ranks) };
      return selection.window === null && isExactly(selection.ranks, ranks)
        ? this.emptyBrush()
        : { ranks, window: null };
    }
    const cell = this.cellAt(x, y);
    return cell === null ? this.emptyBrush() : this.press(cell, additive, selection);
  }

  press(index: number, additive: boolean, selection: ChartSelection): Brush {
    const { bins, ranks } = this.content;
    const [row, bin] = [Math.floor(index / bins), index % bins];
    const window = this.binWindow(bin, bin);
    const pressedRanks = [...ranks[row]!];
    if (additive) return { ranks: toggleKeys(selection.ranks, pressedRanks) };
    return isSameWindow(selection.window, window) && isExactly(selection.ranks, pressedRanks)
      ? this.emptyBrush()
      : { ranks: pressedRanks, window };
  }

  drag(span: DragSpan, additive: boolean, selection: ChartSelection): Brush | null {
    const range = this.cellRange(span);
    if (range === null) return null;
    const { ranks } = this.content;
    const draggedRanks = ranks.slice(range.first, range.last + 1).flat();
    const window = this.binWindow(range.low, range.high);
    if (additive && selection.ranks !== null) {
      const allRanks = new Set([...selection.ranks, ...draggedRanks]);
      return { ranks: [...allRanks].sort((a, b) => a - b), window };
    }
    const isEveryRow = range.last - range.first + 1 === ranks.length;
    return { ranks: isEveryRow ? null : draggedRanks, window };
  }

  dragBox(span: DragSpan): ChartBox | null {
    const { plan } = this;
    const range = this.cellRange(span);
    if (range === null) return null;
    const cellWidth = plan.plotWidth / this.content.bins;
    return {
      left: plan.left + range.low * cellWidth,
      top: plan.top + range.first * plan.rowPitch,
      width: (range.high - range.low + 1) * cellWidth,
      height: (range.last - range.first + 1) * plan.rowPitch,
    };
  }

  emptyBrush(): Brush {
    return { ranks: null, window: null };
  }

  private binWindow(low: number, high: number): [number, number] {
    const { edges } = this.content;
    return [edges[low]!, edges[high + 1]!];
  }

  private rowAt(y: number): number | null {
    const row = Math.floor((y - this.plan.top) / this.plan.rowPitch);
    return row >= 0 && row < this.content.ranks.length ? row : null;
  }

  private cellAt(x: number, y: number): number | null {
    const { left, plotWidth } = this.plan;
    const row = this.rowAt(y);
    if (row === null || x < left || x >= left + plotWidth) return null;
    return row * this.content.bins + Math.floor(((x - left) / plotWidth) * this.content.bins);
  }

  /** Return the rows and bins that a drag covers; null if the drag is outside the cells. */
  private cellRange([from, to]: DragSpan) {
    const { plan } = this;
    const { bins, ranks } = this.content;
    const bin = (x: number): number => Math.floor(((x - plan.left) / plan.plotWidth) * bins);
    const row = (y: number): number => Math.floor((y - plan.top) / plan.rowPitch);
    const clamp = (cell: number, max: number): number => Math.max(0, Math.min(max - 1, cell));
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

/** Return the ranges of consecutive rows whose flag is set. The ends are exclusive. */
function runsOfTrue(flags: readonly boolean[]): [number, number][] {
  const runs: [number, number][] = [];
  flags.forEach((flag, row) => {
    if (!flag) return;
    const lastRun = runs.at(-1);
    if (lastRun?.[1] === row) lastRun[1] = row + 1;
    else runs.push([row, row + 1]);
  });
  return runs;
}

// Layout of the heatmap, aligned with the scale of the timeline above it. In CSS px.

const ROW_PITCH_PX = 16;
/** Height of the bars that show the mean share. */
const STRIP_HEIGHT_PX = 22;
/** Height of the ticks and time labels below the cells. */
const TIME_AXIS_PX = 22;
/** Minimum width of distinguishable cells, in px. */
const MIN_CELL_PX = 5;
/** Widths of the color key and of each of its colors, in px. */
const COLOR_KEY_PX = 148;
const SWATCH_PX = 12;
const INSET_PX = 12;
/** Space to the right of the color key, for the panel's buttons. */
const MENU_PX = 36;

/** Return the number of bins to request for a chart of this width. */
export function heatmapBins(width: number): number {
  const { left, right } = sideWidths(width);
  return Math.max(8, Math.floor((width - left - right) / MIN_CELL_PX));
}

/** The widths of the timeline's gutter and margin, so that the x axes are aligned. */
function sideWidths(width: number): { left: number; right: number } {
  return {
    left: width < SIZE.gutterFrom ? SIZE.gutterNarrow : SIZE.gutter,
    right: width < SIZE.marginFrom ? 0 : SIZE.margin,
  };
}

interface HeatmapPlan {
  width: number;
  height: number;
  left: number;
  plotWidth: number;
  top: number;
  rowPitch: number;
  textLayer: TextLayer;
  bars: BoxEdges[];
}

export function planHeatmap(content: HeatmapContent, width: number, theme: Theme): HeatmapPlan {
  const textLayer = new TextLayer();
  const { left, right } = sideWidths(width);
  const plotWidth = Math.max(40, width - left - right);
  const rows = content.ranks.length;
  const rowPitch = computeRowPitch(rows, ROW_PITCH_PX);
  const stripBottom = addHead(textLayer, content, width, theme) + 6 + STRIP_HEIGHT_PX;
  textLayer.text(left - 8, stripBottom - 7, "mean of ranks", theme.ink3, { align: "right" });
  const bars = meanBars(content, left, plotWidth, stripBottom);
  const top = stripBottom + 4;
  const bottom = top + rows * rowPitch;
  const height = Math.ceil(bottom + TIME_AXIS_PX);
  const plan: HeatmapPlan = { width, height, left, plotWidth, top, rowPitch, textLayer, bars };
  const interval = computeLabelInterval(rowPitch);
  const labeled = labeledRows(rows, interval, content.lateRows, content.factRows);
  addRowNames(plan, content, labeled, theme);
  if (right > 0) addRowTotals(plan, content, labeled, right, theme);
  drawTimeAxis(textLayer, content, { left, width, plotWidth, bottom }, theme);
  return plan;
}

/** Add the title, the subtitle and, if it fits, the color key. Return the position below them. */
function addHead(
  textLayer: TextLayer,
  { title, subtitle, ramp }: HeatmapContent,
  width: number,
  theme: Theme,
): number {
  const { left, right } = sideWidths(width);
  const titleEnd = INSET_PX + textWidth(title, "bold", 13) + 16;
  const hasMargin = width >= SIZE.marginFrom;
  if (hasMargin || titleEnd + COLOR_KEY_PX + MENU_PX < width)
    drawColorKey(textLayer, width - right - MENU_PX, theme[ramp], theme.ink3);
  const titleBottom = textLayer.title(title, [INSET_PX, 0], width - 2 * INSET_PX, theme);
  if (!hasMargin)
    return textLayer.subtitle(subtitle, [INSET_PX, titleBottom], width - 2 * INSET_PX, theme);
  // The title and the definition share a line, as in the timeline's toolbar.
  const subtitleLeft = Math.max(left, titleEnd);
  const subtitleWidth = width - subtitleLeft - right - MENU_PX - COLOR_KEY_PX;
  return textLayer.subtitle(subtitle, [subtitleLeft, 2], subtitleWidth, theme);
}

const rowMiddle = ({ top, rowPitch }: HeatmapPlan, row: number): number =>
  top + (row + 0.5) * rowPitch;

/** Add the row names, and lines between rows that are tall enough. */
function addRowNames(
  plan: HeatmapPlan,
  content: HeatmapContent,
  labeled: ReadonlySet<number>,
  theme: Theme,
): void {
  const { left, plotWidth, top, rowPitch, textLayer } = plan;
  fitNames(content.names, left - 16).forEach((name, row) => {
    if (labeled.has(row)) {
      const { color, bold } = rowLabelStyle(content, row, theme);
      textLayer.text(left - 8, rowMiddle(plan, row), name, color, { align: "right", bold });
    }
    if (rowPitch < 12 || row === 0) return;
    const y = top + row * rowPitch;
    textLayer.plate([left, y - 0.5, left + plotWidth, y + 0.5], theme.bg);
  });
}

/** Add the row totals to the margin on the right: bars followed by texts. */
function addRowTotals(
  plan: HeatmapPlan,
  content: HeatmapContent,
  labeled: ReadonlySet<number>,
  marginPx: number,
  theme: Theme,
): void {
  const { left, plotWidth, top, rowPitch, textLayer } = plan;
  const barX = left + plotWidth + 10;
  textLayer.text(barX, top - 11, "in view", theme.ink3);
  const texts = content.total.map(formatDuration);
  const maxTextPx = texts.reduce((max, text) => Math.max(max, textWidth(text, "bold")), 0);
  const maxBarPx = marginPx - 22 - maxTextPx;
  const maxTotal = Math.max(...content.total);
  const barPx = content.total.map((total) => (maxTotal > 0 ? (total / maxTotal) * maxBarPx : 0));
  const halfHeight = Math.max(0.5, rowPitch * 0.34);
  // If rows are thin, a text also overlaps the bars of adjacent rows.
  const overlappedRows = Math.max(0, Math.ceil((LINE_HEIGHT_PX - rowPitch) / 2 / rowPitch));
  barPx.forEach((px, row) => {
    const middle = rowMiddle(plan, row);
    if (px > 0) plan.bars.push([barX, middle - halfHeight, barX + px, middle + halfHeight]);
    if (!labeled.has(row)) return;
    const nearBars = barPx.slice(Math.max(0, row - overlappedRows), row + overlappedRows + 1);
    const { color, bold } = rowLabelStyle(content, row, theme);
    textLayer.text(barX + Math.max(...nearBars) + 5, middle, texts[row]!, color, { bold });
  });
}

/** Return a bar for the mean share in each bin, with its lower edge at `bottom`. */
function meanBars(
  { mean, bins }: HeatmapContent,
  left: number,
  plotWidth: number,
  bottom: number,
): BoxEdges[] {
  const barWidth = plotWidth / bins;
  return mean.flatMap((share, bin): BoxEdges[] => {
    const height = Math.min(1, share) * (STRIP_HEIGHT_PX - 2);
    const from = left + bin * barWidth;
    return height > 0 ? [[from, bottom - height, from + Math.max(1, barWidth - 1), bottom]] : [];
  });
}

/** Draw ticks below the cells, with time labels where they do not overlap. */
function drawTimeAxis(
  textLayer: TextLayer,
  content: HeatmapContent,
  plot: { left: number; width: number; plotWidth: number; bottom: number },
  theme: Theme,
): void {
  const { left, width, plotWidth, bottom } = plot;
  const spanNs = content.end - content.start;
  const step = niceStep(spanNs / Math.max(2, Math.min(7, Math.floor(plotWidth / 110))));
  let freeX = -Infinity;
  for (let time = Math.ceil(content.start / step) * step; time <= content.end; time += step) {
    const x = Math.round(left + ((time - content.start) / spanNs) * plotWidth);
    const text = formatAxis(time, step, content.end);
    const half = textWidth(text) / 2;
    const from = Math.max(left - half, Math.min(x - half, width - 2 * half));
    textLayer.line(x, bottom, x, bottom + 4, theme.ruleStrong);
    if (from < freeX || Math.abs(from + half - x) > half) continue;
    textLayer.text(from, bottom + 12, text, theme.ink3);
    freeX = from + 2 * half + 12;
  }
}

/** Draw the color key from 0 to 100 % in the first line, with its right end at `right`. */
function drawColorKey(
  textLayer: TextLayer,
  right: number,
  colors: readonly string[],
  ink: string,
): void {
  const [top, middle, bottom] = [4, 9, 14];
  const highest = "100\u202f%";
  textLayer.text(right, middle, highest, ink, { align: "right" });
  const start = right - textWidth(highest) - 5 - colors.length * SWATCH_PX;
  colors.forEach((color, index) => {
    const left = start + index * SWATCH_PX;
    textLayer.plate([left, top, left + SWATCH_PX, bottom], color);
  });
  textLayer.text(start - 5, middle, "0", ink, { align: "right" });
}
