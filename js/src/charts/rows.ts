/** Layout and drawing of charts that have one row per rank, name or step. */

import { sum } from "../expressions/numbers";
import type { Brush, ChartSelection } from "../protocol/source";
import { fitNames, labeledRows, shortenMiddle, textWidth } from "../ui/text";
import type { Theme } from "../ui/theme";
import {
  type ChartBox,
  dragRectangle,
  type Drawing,
  type DragSpan,
  type MarkHit,
  rowLabelStyle,
  type SelectionKey,
  type ChartMark,
  type ChartPoint,
  type RowsContent,
  type SideColumn,
  type HoverTarget,
} from "./content";
import { isSameWindow, isExactly, toggleKeys } from "./gestures";
import {
  type BoxEdges,
  UNSELECTED_OPACITY,
  paintBox,
  paintDot,
  paintWhisker,
  type DrawContext,
  type MarkStyle,
  TextLayer,
} from "./paint";

/** The pointer hits a mark within this distance, in px. */
const HIT_RADIUS_PX = 7;

export class RowsDrawing implements Drawing {
  private plan!: RowsPlan;

  constructor(
    readonly content: RowsContent,
    private readonly dimension: "ranks" | "names" | "kinds",
    private readonly theme: Theme,
  ) {}

  layout(width: number): number {
    this.plan = planRows(this.content, width, this.theme);
    return this.plan.height;
  }

  paint(pen: DrawContext, selection: ChartSelection): void {
    const { plan, content, theme } = this;
    paintBox(pen, [0, 0, plan.width, plan.height], { fill: theme.bg });
    plan.textLayer.paintLines(pen);
    const row = content.data.row as Float64Array;
    const items = Array.from(row.keys());
    const selectedItems = this.selectedItems(selection);
    const opaqueItems = new Set(selectedItems ?? items);
    const faintItems = items.filter((item) => !opaqueItems.has(item));
    for (const mark of content.marks) {
      pen.globalAlpha = UNSELECTED_OPACITY;
      for (const item of faintItems) this.paintMark(pen, mark, item);
      pen.globalAlpha = 1;
      for (const item of opaqueItems) this.paintMark(pen, mark, item);
    }
    for (const [style, ...box] of plan.keys) paintBox(pen, box, { scale: 4, ...style });
    const selectedRows = selectedItems && new Set(selectedItems.map((item) => row[item]));
    const barTexts = new TextLayer();
    addBarTexts(plan, barTexts, (barRow) => selectedRows?.has(barRow) === false);
    barTexts.paint(pen);
    plan.textLayer.paint(pen);
  }

  private paintMark(pen: DrawContext, mark: ChartMark, item: number): void {
    const { plan } = this;
    const { data } = this.content;
    const value = (place: string | number): number =>
      typeof place === "number" ? place : (data[place]![item] as number);
    const [left, right] = [plan.x(value(mark.left)), plan.x(value(mark.right))];
    const style = mark.style(item);
    if (style === undefined || !Number.isFinite(left) || !Number.isFinite(right)) return;
    const middle = plan.rowMiddle(value("row"));
    const half = (plan.fillShare * plan.rowPitch) / 2;
    if (mark.shape === "line")
      paintWhisker(pen, [left, middle, right, middle], style.fill, this.theme);
    else if (mark.shape === "dot") {
      const isTriangle = mark.marker !== undefined && data[mark.marker]![item] === "triangle";
      paintDot(pen, [left, middle], {
        size: value(mark.size ?? 8),
        fill: style.fill,
        background: this.theme.bg,
        ...(isTriangle ? { angle: value(mark.angle!) } : {}),
      });
    } else if (right > left) {
      // Without space between rows, the outlines would cover the bars.
      const markStyle = plan.fillShare === 1 ? { ...style, outline: undefined } : style;
      paintBox(pen, [left, middle - half, right, middle + half], markStyle);
    }
  }

  targetAt(x: number, y: number): HoverTarget | null {
    const row = this.rowAt(y);
    const spot = row === null ? null : this.targetOf(row);
    return spot && { ...spot, tooltip: this.hitAt(x, y)?.tooltip ?? spot.tooltip };
  }

  nextTarget(from: number | null, key: string): number | null {
    const { rows } = this.plan;
    if (rows === 0) return null;
    if (key === "Home") return 0;
    if (key === "End") return rows - 1;
    if (key === "ArrowDown") return from === null ? 0 : Math.min(rows - 1, from + 1);
    if (key === "ArrowUp") return from === null ? rows - 1 : Math.max(0, from - 1);
    return from;
  }

  targetOf(index: number): HoverTarget | null {
    const { rows, top, rowPitch, width } = this.plan;
    if (index >= rows) return null;
    const box = { left: 0, top: top + index * rowPitch, width, height: rowPitch };
    return { index, box, tooltip: this.content.tooltip(index) };
  }

  click(x: number, y: number, additive: boolean, selection: ChartSelection): Brush {
    const row = this.rowAt(y);
    if (row === null) return this.emptyBrush();
    const hit = this.hitAt(x, y);
    const keys = hit?.keys ?? this.content.keys[row] ?? [];
    return this.brushFor(keys, additive, selection, hit?.window ?? null);
  }

  press(index: number, additive: boolean, selection: ChartSelection): Brush {
    return this.brushFor(this.content.keys[index] ?? [], additive, selection);
  }

  drag(span: DragSpan, additive: boolean, selection: ChartSelection): Brush | null {
    const keys = this.keysIn(span);
    if (keys === null || keys.length === 0) return null;
    const currentKeys = additive ? (selection[this.dimension] ?? []) : [];
    return { [this.dimension]: [...new Set<SelectionKey>([...currentKeys, ...keys])] };
  }

  dragBox(span: DragSpan): ChartBox | null {
    if (this.content.keysWithin !== undefined) return dragRectangle(span);
    const rows = this.rowRange(span);
    if (rows === null) return null;
    const { top, rowPitch, width } = this.plan;
    const height = (rows[1] - rows[0] + 1) * rowPitch;
    return { left: 0, top: top + rows[0] * rowPitch, width, height };
  }

  private keysIn(span: DragSpan): readonly SelectionKey[] | null {
    const { content } = this;
    if (content.keysWithin !== undefined) {
      const { left, top, width, height } = dragRectangle(span);
      return content.keysWithin(
        this.scalePoint(left, top),
        this.scalePoint(left + width, top + height),
      );
    }
    const rows = this.rowRange(span);
    return rows === null ? null : content.keys.slice(rows[0], rows[1] + 1).flat();
  }

  emptyBrush(): Brush {
    return { [this.dimension]: null, ...(this.content.windows === true ? { window: null } : {}) };
  }

  private brushFor(
    keys: readonly SelectionKey[],
    additive: boolean,
    selection: ChartSelection,
    window: [number, number] | null = null,
  ): Brush {
    const current: readonly SelectionKey[] | null = selection[this.dimension];
    if (keys.length === 0 && window === null) return this.emptyBrush();
    if (additive) {
      const toggled = { [this.dimension]: toggleKeys(current, keys) };
      return window === null ? toggled : { ...toggled, window };
    }
    if (isExactly(current, keys) && (window === null || isSameWindow(selection.window, window))) {
      return this.emptyBrush();
    }
    const chosen = { [this.dimension]: [...new Set(keys)] };
    return this.content.windows === true ? { ...chosen, window } : chosen;
  }

  private selectedItems(selection: ChartSelection): readonly number[] | null {
    const { content } = this;
    if (content.selectedMarks !== undefined) return content.selectedMarks(selection);
    const keys: readonly SelectionKey[] | null = selection[this.dimension];
    if (keys === null) return null;
    const selectedKeys = new Set(keys);
    const rows = content.keys.map(
      (rowKeys) => rowKeys.length > 0 && rowKeys.every((key) => selectedKeys.has(key)),
    );
    const row = content.data.row as Float64Array;
    return Array.from(row.keys()).filter((item) => rows[Math.round(row[item]!)]);
  }

  /** Convert a position in px to a scale value and a row. 0 is the middle of the first row. */
  private scalePoint(px: number, py: number): ChartPoint {
    const { xStart, xEnd } = this.content;
    const { namesWidth, plotWidth, top, rowPitch } = this.plan;
    const x = xStart + ((px - namesWidth) / plotWidth) * (xEnd - xStart);
    return { x, y: (py - top) / rowPitch - 0.5 };
  }

  protected hitAt(px: number, py: number): MarkHit | null {
    const { content, plan } = this;
    const reach = {
      x: (HIT_RADIUS_PX / plan.plotWidth) * (content.xEnd - content.xStart),
      y: HIT_RADIUS_PX / plan.rowPitch,
    };
    return content.hitTest?.(this.scalePoint(px, py), reach) ?? null;
  }

  private rowAt(y: number): number | null {
    const row = Math.floor((y - this.plan.top) / this.plan.rowPitch);
    return row >= 0 && row < this.plan.rows ? row : null;
  }

  private rowRange([from, to]: DragSpan): [number, number] | null {
    const { rows, top, rowPitch } = this.plan;
    const row = (y: number): number => Math.floor((y - top) / rowPitch);
    const [low, high] = [row(Math.min(from.y, to.y)), row(Math.max(from.y, to.y))];
    if (high < 0 || low >= rows) return null;
    return [Math.max(0, low), Math.min(rows - 1, high)];
  }
}

// Layout and texts of a chart with rows. In CSS px, relative to the chart.

/** Maximum number of rows at full height. More rows are made lower so that all are visible. */
const ROOMY_ROWS = 24;
const MAX_HEIGHT_PX = 512;
const ROW_PITCH_PX = 20;
/** Minimum width of a bar that contains a number. */
const MIN_BAR_TEXT_PX = 34;
/** Texts closer together than this overlap. */
export const LINE_HEIGHT_PX = 14;

/** The title, subtitle and legend, which are laid out first. */
interface ChartHead {
  content: RowsContent;
  theme: Theme;
  width: number;
  textLayer: TextLayer;
  /** Color squares of the legend. */
  keys: (readonly [style: MarkStyle, ...box: BoxEdges])[];
}

interface RowsPlan extends ChartHead {
  height: number;
  rows: number;
  /** Left edge of the scale, and the scale's length in px. */
  namesWidth: number;
  plotWidth: number;
  top: number;
  rowPitch: number;
  /** A bar's share of the row height. */
  fillShare: number;
  labeledRows: ReadonlySet<number>;
  x(value: number): number;
  rowMiddle(row: number): number;
}

export function computeRowPitch(rows: number, wishedPitch = ROW_PITCH_PX): number {
  if (rows <= ROOMY_ROWS || rows * wishedPitch <= MAX_HEIGHT_PX) return wishedPitch;
  return Math.max(2, Math.min(wishedPitch, Math.floor(MAX_HEIGHT_PX / rows)));
}

/** Lay out title, subtitle and legend. Return their height. */
function layoutHead({ content, theme, width, textLayer, keys }: ChartHead): number {
  let y = textLayer.title(content.title, [0, 0], width, theme);
  if (content.subtitle !== "") y = textLayer.subtitle(content.subtitle, [0, y], width, theme);
  if (content.legend !== undefined && content.legend.length > 0) {
    const texts = content.legend.map(([, text]) => text);
    const legend = textLayer.legend(texts, y + 6, width, theme);
    content.legend.forEach(([style], index) => keys.push([style, ...legend.swatches[index]!]));
    y = legend.bottom;
  }
  return y;
}

function planRows(content: RowsContent, width: number, theme: Theme): RowsPlan {
  const head: ChartHead = { content, theme, width, textLayer: new TextLayer(), keys: [] };
  const rows = content.names.length;
  const rowPitch = computeRowPitch(rows, content.rowPitchPx);
  const shownColumns = content.columns.filter((column) => width >= (column.minWidthPx ?? 0));
  const sideWidths = shownColumns.map(columnWidth);
  const sideWidth = sum(sideWidths);
  const heads = [content.head, ...shownColumns.map((column) => column.head)];
  const hasHeads = content.ticks.length > 0 || heads.some((text) => text !== "");
  const headsBottom = layoutHead(head) + (hasHeads ? 6 + LINE_HEIGHT_PX : 0);
  const headY = headsBottom - LINE_HEIGHT_PX / 2;
  const top = headsBottom + 4;
  const namesWidth = gutterWidth(content, width);
  const rightWidth = endTextsWidth(content) + sideWidth;
  const plotWidth = Math.max(40, width - namesWidth - (rightWidth > 0 ? rightWidth : 1));
  const interval = computeLabelInterval(rowPitch);
  const { xStart, xEnd } = content;
  const plan: RowsPlan = {
    ...head,
    height: Math.ceil(top + rows * rowPitch + 4),
    rows,
    namesWidth,
    plotWidth,
    top,
    rowPitch,
    fillShare: rowPitch < 8 ? 1 : 0.8,
    labeledRows: labeledRows(rows, interval, content.lateRows, content.factRows),
    x: (value) => namesWidth + ((value - xStart) / (xEnd - xStart)) * plotWidth,
    rowMiddle: (row) => top + (row + 0.5) * rowPitch,
  };
  addRowNames(plan);
  addScale(plan, headY, width - sideWidth);
  addSideColumns(plan, shownColumns, sideWidths, headY);
  return plan;
}

/** Return the space for the texts to the right of long bars. Other texts fit in the plot. */
function endTextsWidth({ endTexts = [], xStart, xEnd }: RowsContent): number {
  const longBars = endTexts.filter(({ at }) => (at - xStart) / (xEnd - xStart) > 0.3);
  return longBars.reduce((max, { text }) => Math.max(max, textWidth(text) + 8), 0);
}

function gutterWidth(content: RowsContent, width: number): number {
  const texts = [...content.names, ...(content.secondLines ?? []), content.head];
  const maxWidth = texts.reduce((widest, name) => Math.max(widest, textWidth(name, "bold")), 0);
  return Math.ceil(Math.min(maxWidth + 10, Math.max(72, width * 0.46)));
}

/** Return the width of a column, including the gap to its left. */
function columnWidth(column: SideColumn): number {
  const weight = (column.lateRows ?? column.boldRows) ? "bold" : "normal";
  const widths = column.texts.map((text) => textWidth(text, weight));
  return widths.reduce((max, width) => Math.max(max, width), textWidth(column.head)) + 14;
}

/** Return n if only every nth row has room for a label. */
export function computeLabelInterval(pitch: number): number {
  return [1, 2, 4, 8, 16, 32, 64].find((interval) => interval * pitch >= LINE_HEIGHT_PX) ?? 128;
}

function addRowNames(plan: RowsPlan): void {
  const { content, theme } = plan;
  const maxWidth = plan.namesWidth - 8;
  const names = fitNames(content.names, maxWidth);
  names.forEach((name, row) => {
    if (!plan.labeledRows.has(row)) return;
    const second = plan.rowPitch >= 30 ? content.secondLines?.[row] : undefined;
    const y = plan.rowMiddle(row) - (second === undefined ? 0 : 7);
    const style = rowLabelStyle(content, row, theme);
    const bold = style.bold || second !== undefined;
    const color = bold && !style.bold ? theme.ink : style.color;
    const text = bold ? shortenMiddle(name, maxWidth, "bold") : name;
    plan.textLayer.text(plan.namesWidth - 8, y, text, color, { align: "right", bold });
    if (second === undefined) return;
    const secondY = y + LINE_HEIGHT_PX;
    plan.textLayer.text(plan.namesWidth - 8, secondY, second, theme.ink3, { align: "right" });
  });
}

/** Add lines between rows and at the ticks, and the texts above them, which end at `right`. */
function addScale(plan: RowsPlan, headY: number, right: number): void {
  const { content, theme, namesWidth, top, textLayer } = plan;
  const bottom = top + plan.rows * plan.rowPitch;
  if (content.hasRules === true) {
    for (let row = 1; row < plan.rows; row += 1) {
      const y = Math.round(top + row * plan.rowPitch);
      textLayer.line(0, y, plan.width, y, theme.rule);
    }
  }
  for (const [value] of content.ticks) {
    const x = Math.round(plan.x(value));
    const isZero = value === 0 && content.zeroLine === true;
    textLayer.line(x, top, x, bottom, isZero ? theme.ruleStrong : theme.rule);
  }
  textLayer.text(namesWidth - 8, headY, content.head, theme.ink3, { align: "right" });
  for (const { left, text } of fittingTexts(tickTexts(plan, right), content))
    textLayer.text(left, headY, text, theme.ink3);
}

/** Return the tick labels that are close to their tick and do not overlap the names' header. */
function tickTexts({ content, namesWidth, x }: RowsPlan, maxRight: number): TickText[] {
  const { head, ticks, xStart } = content;
  const headLeft = namesWidth - 8 - textWidth(head);
  // Zero comes first, because its label must stay on scales with both signs.
  const order = [...ticks].sort(([a], [b]) => Math.abs(a) - Math.abs(b));
  return order.flatMap(([value, text]) => {
    const tickX = Math.round(x(value));
    const width = textWidth(text);
    const wishedLeft = value === xStart ? tickX : tickX - width / 2;
    const left = Math.max(0, Math.min(wishedLeft, maxRight - width));
    const right = left + width;
    const hitsHead = head !== "" && left < namesWidth + 2 && right > headLeft - 10;
    const isOff = Math.abs((left + right) / 2 - tickX) > width / 2 + 2;
    return hitsHead || isOff ? [] : [{ value, text, left, right }];
  });
}

interface TickText {
  value: number;
  text: string;
  left: number;
  right: number;
}

/** Return the tick labels that fit: of round values, all or every 2nd, 5th or 10th. */
function fittingTexts(texts: readonly TickText[], { ticks, hasRoundTicks }: RowsContent) {
  const [first, second] = ticks;
  if (hasRoundTicks === true && second !== undefined) {
    const step = second[0] - first![0];
    for (const interval of [1, 2, 5, 10]) {
      const chosen = texts.filter(({ value }) => Math.round(value / step) % interval === 0);
      if (chosen.length > 0 && withoutOverlaps(chosen).length === chosen.length) return chosen;
    }
  }
  return withoutOverlaps(texts);
}

function withoutOverlaps(texts: readonly TickText[]): TickText[] {
  const shown: TickText[] = [];
  for (const text of texts) {
    if (shown.every(({ left, right }) => text.left >= right + 10 || text.right <= left - 10))
      shown.push(text);
  }
  return shown;
}

function addSideColumns(
  plan: RowsPlan,
  columns: readonly SideColumn[],
  widths: readonly number[],
  headY: number,
): void {
  const { theme } = plan;
  let right = plan.width - 1;
  for (let index = columns.length - 1; index >= 0; index -= 1) {
    const column = columns[index]!;
    plan.textLayer.text(right, headY, column.head, theme.ink3, { align: "right" });
    column.texts.forEach((text, row) => {
      if (!plan.labeledRows.has(row)) return;
      const marked = { lateRows: column.lateRows, factRows: column.boldRows };
      const { color, bold } = rowLabelStyle(marked, row, theme);
      plan.textLayer.text(right, plan.rowMiddle(row), text, color, { align: "right", bold });
    });
    right -= widths[index]!;
  }
}

/** Draw the texts in and next to bars. On faint bars, they have the normal text color. */
function addBarTexts(
  plan: RowsPlan,
  textLayer: TextLayer,
  isFaint: (row: number) => boolean,
): void {
  if (plan.rowPitch < LINE_HEIGHT_PX) return;
  const { content, theme, x } = plan;
  for (const barText of content.barTexts?.() ?? []) {
    const { row, left, right, color, plate, isAtEnd, isTruncatable } = barText;
    const size = x(right) - x(left);
    // Names may be truncated. Shares may not, because `4.…` could be read as another number.
    const canCut = isTruncatable === true && !barText.text.endsWith("%");
    const text = canCut ? shortenMiddle(barText.text, size - 8) : barText.text;
    const labelWidth = textWidth(text);
    if (size < Math.max(MIN_BAR_TEXT_PX, labelWidth + 8)) continue;
    const y = plan.rowMiddle(row);
    if (plate !== undefined) {
      const background = isFaint(row) ? theme.bg : plate;
      textLayer.plate([x(left) + 1.5, y - 7, x(left) + labelWidth + 7, y + 7], background);
    }
    const textColor = isFaint(row) ? theme.ink2 : color;
    if (isAtEnd === true) textLayer.text(x(right) - 4, y, text, textColor, { align: "right" });
    else textLayer.text(x(left) + 4, y, text, textColor);
  }
  for (const { row, at, text } of content.endTexts ?? []) {
    const color = rowLabelStyle(content, row, theme).bold ? theme.ink : theme.ink2;
    textLayer.text(x(at) + 6, plan.rowMiddle(row), text, color);
  }
}

// A chart whose cells are time ranges: a click or drag selects a window.

export class WindowDrawing extends RowsDrawing {
  constructor(content: RowsContent, theme: Theme) {
    super(content, "ranks", theme);
  }

  override click(x: number, y: number, _more: boolean, selection: ChartSelection): Brush {
    const window = this.windowAt({ x, y });
    return { window: isSameWindow(selection.window, window) ? null : window };
  }

  override press(index: number, additive: boolean, selection: ChartSelection): Brush {
    const spot = this.targetOf(index);
    if (spot === null) return this.emptyBrush();
    const { left, top, width, height } = spot.box;
    return this.click(left + width / 2, top + height / 2, additive, selection);
  }

  override drag([from, to]: DragSpan): Brush | null {
    const [startWindow, endWindow] = [this.windowAt(from), this.windowAt({ x: to.x, y: from.y })];
    if (startWindow === null || endWindow === null) return null;
    return {
      window: [Math.min(startWindow[0], endWindow[0]), Math.max(startWindow[1], endWindow[1])],
    };
  }

  override dragBox([from, to]: DragSpan): ChartBox | null {
    const spot = this.targetAt(from.x, from.y);
    if (spot === null) return null;
    const { top, height } = spot.box;
    return { left: Math.min(from.x, to.x), top, width: Math.abs(to.x - from.x), height };
  }

  override emptyBrush(): Brush {
    return { window: null };
  }

  private windowAt({ x, y }: ChartPoint): [number, number] | null {
    return this.hitAt(x, y)?.window ?? null;
  }
}
