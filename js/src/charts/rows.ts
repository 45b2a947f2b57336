/** Lay out and draw charts that have one row per rank, name or step. */

import type { Brush, Chosen } from "../protocol/source";
import { fitted, labelledRows, shortened, textWidth } from "../ui/text";
import type { Theme } from "../ui/theme";
import type {
  Box,
  Drawing,
  Hit,
  Key,
  Mark,
  Picked,
  RowsContent,
  SideColumn,
  Spot,
} from "./content";
import { isSame, stillOnly, toggled } from "./gestures";
import { FAINT, paintBox, paintDot, paintWhisker, type Pen, type Style, Words } from "./paint";

/** Distance within which the pointer hits a mark. px. */
const REACH = 7;

type Dimension = "ranks" | "names" | "kinds";

export class RowsDrawing implements Drawing {
  private plan!: Plan;

  constructor(
    readonly content: RowsContent,
    private readonly dimension: Dimension,
    private readonly theme: Theme,
  ) {}

  layout(width: number): number {
    this.plan = planRows(this.content, width, this.theme);
    return this.plan.height;
  }

  paint(pen: Pen, chosen: Chosen): void {
    const { plan, content, theme } = this;
    paintBox(pen, [0, 0, plan.width, plan.height], { fill: theme.bg });
    plan.words.paintLines(pen);
    const row = content.data.row as Float64Array;
    const full = this.full(chosen);
    const chosenItems = full === null ? null : new Set(full);
    for (const mark of content.marks) {
      pen.globalAlpha = chosenItems === null ? 1 : FAINT;
      row.forEach((_, at) => {
        if (chosenItems?.has(at) !== true) this.paintMark(pen, mark, at);
      });
      pen.globalAlpha = 1;
      for (const at of full ?? []) this.paintMark(pen, mark, at);
    }
    for (const [style, ...box] of plan.keys) paintBox(pen, box, { scale: 4, ...style });
    const strong = full === null ? null : new Set(full.map((at) => row[at]));
    const words = new Words();
    inBars(plan, words, (each) => strong?.has(each) === false);
    words.paint(pen);
    plan.words.paint(pen);
  }

  private paintMark(pen: Pen, mark: Mark, at: number): void {
    const { plan } = this;
    const { data } = this.content;
    const value = (of: string | number): number =>
      typeof of === "number" ? of : (data[of]![at] as number);
    const [left, right] = [plan.x(value(mark.left)), plan.x(value(mark.right))];
    const style = mark.style(at);
    if (style === undefined || !Number.isFinite(left) || !Number.isFinite(right)) return;
    const middle = plan.middle(value("row"));
    const half = (plan.filled * plan.pitch) / 2;
    if (mark.shape === "line")
      paintWhisker(pen, [left, middle, right, middle], style.fill, this.theme);
    else if (mark.shape === "dot") {
      const turned = mark.marker !== undefined && data[mark.marker]![at] === "triangle";
      paintDot(pen, [left, middle], {
        size: value(mark.size ?? 8),
        fill: style.fill,
        ground: this.theme.bg,
        ...(turned ? { angle: value(mark.angle!) } : {}),
      });
    } else if (right > left) {
      // Without space between rows, only outlines would be visible.
      const shown = plan.filled === 1 ? { ...style, line: undefined } : style;
      paintBox(pen, [left, middle - half, right, middle + half], shown);
    }
  }

  spot(x: number, y: number): Spot | null {
    const row = this.rowAt(y);
    const spot = row === null ? null : this.spotOf(row);
    return spot && { ...spot, tip: this.hitAt(x, y)?.tip ?? spot.tip };
  }

  step(from: number | null, key: string): number | null {
    const { rows } = this.plan;
    if (rows === 0) return null;
    if (key === "Home") return 0;
    if (key === "End") return rows - 1;
    if (key === "ArrowDown") return from === null ? 0 : Math.min(rows - 1, from + 1);
    if (key === "ArrowUp") return from === null ? rows - 1 : Math.max(0, from - 1);
    return from;
  }

  spotOf(index: number): Spot | null {
    const { rows, top, pitch, width } = this.plan;
    if (index >= rows) return null;
    const box = { left: 0, top: top + index * pitch, width, height: pitch };
    return { index, box, tip: this.content.tip(index) };
  }

  click(x: number, y: number, more: boolean, chosen: Chosen): Brush {
    const row = this.rowAt(y);
    if (row === null) return this.nothing();
    const hit = this.hitAt(x, y);
    const keys = hit?.keys ?? this.content.keys[row] ?? [];
    return this.choose(keys, more, chosen, hit?.window ?? null);
  }

  press(index: number, more: boolean, chosen: Chosen): Brush {
    return this.choose(this.content.keys[index] ?? [], more, chosen);
  }

  drag(from: Picked, to: Picked, more: boolean, chosen: Chosen): Brush | null {
    const keys = this.met(from, to);
    if (keys === null || keys.length === 0) return null;
    const before = more ? (chosen[this.dimension] ?? []) : [];
    return { [this.dimension]: [...new Set<Key>([...before, ...keys])] };
  }

  dragBox(from: Picked, to: Picked): Box | null {
    if (this.content.within !== undefined) {
      const [left, top] = [Math.min(from.x, to.x), Math.min(from.y, to.y)];
      return { left, top, width: Math.abs(to.x - from.x), height: Math.abs(to.y - from.y) };
    }
    const rows = this.between(from.y, to.y);
    if (rows === null) return null;
    const { top, pitch, width } = this.plan;
    const height = (rows[1] - rows[0] + 1) * pitch;
    return { left: 0, top: top + rows[0] * pitch, width, height };
  }

  private met(from: Picked, to: Picked): readonly Key[] | null {
    const { content } = this;
    if (content.within !== undefined) {
      const [x0, x1] = [this.at(Math.min(from.x, to.x)), this.at(Math.max(from.x, to.x))];
      const [y0, y1] = [this.rowOf(Math.min(from.y, to.y)), this.rowOf(Math.max(from.y, to.y))];
      return content.within(x0, x1, y0, y1);
    }
    const rows = this.between(from.y, to.y);
    return rows === null ? null : content.keys.slice(rows[0], rows[1] + 1).flat();
  }

  nothing(): Brush {
    return { [this.dimension]: null, ...(this.content.windows === true ? { window: null } : {}) };
  }

  private choose(
    keys: readonly Key[],
    more: boolean,
    chosen: Chosen,
    window: [number, number] | null = null,
  ): Brush {
    const before: readonly Key[] | null = chosen[this.dimension];
    if (keys.length === 0 && window === null) return this.nothing();
    if (more) {
      return { [this.dimension]: toggled(before, keys), ...(window ? { window } : {}) };
    }
    if (stillOnly(before, keys) && (window === null || isSame(chosen.window, window))) {
      return this.nothing();
    }
    return {
      [this.dimension]: [...new Set(keys)],
      ...(this.content.windows === true ? { window } : {}),
    };
  }

  /** The chosen items; null if all are. */
  private full(chosen: Chosen): readonly number[] | null {
    const { content } = this;
    if (content.chosenMarks !== undefined) return content.chosenMarks(chosen);
    const keys: readonly Key[] | null = chosen[this.dimension];
    if (keys === null) return null;
    const wanted = new Set(keys);
    const rows = content.keys.map(
      (each) => each.length > 0 && each.every((key) => wanted.has(key)),
    );
    const row = content.data.row as Float64Array;
    return Array.from(row.keys()).filter((at) => rows[Math.round(row[at]!)]);
  }

  private at(x: number): number {
    const { xStart, xEnd } = this.content;
    return xStart + ((x - this.plan.gutter) / this.plan.across) * (xEnd - xStart);
  }

  protected hitAt(x: number, y: number): Hit | null {
    const { across, pitch } = this.plan;
    const reach = (REACH / across) * (this.content.xEnd - this.content.xStart);
    return this.content.hit?.(this.at(x), this.rowOf(y), reach, REACH / pitch) ?? null;
  }

  private rowOf(y: number): number {
    return (y - this.plan.top) / this.plan.pitch - 0.5;
  }

  private rowAt(y: number): number | null {
    const row = Math.floor((y - this.plan.top) / this.plan.pitch);
    return row >= 0 && row < this.plan.rows ? row : null;
  }

  private between(y0: number, y1: number): [number, number] | null {
    const { rows, top, pitch } = this.plan;
    const row = (y: number): number => Math.floor((y - top) / pitch);
    const [low, high] = [row(Math.min(y0, y1)), row(Math.max(y0, y1))];
    if (high < 0 || low >= rows) return null;
    return [Math.max(0, low), Math.min(rows - 1, high)];
  }
}

// Layout of a chart of rows, and its texts. CSS px, relative to the chart.

/** More rows than this are closer together, so that all of them are seen at once. */
const ROOMY = 24;
const TALLEST = 512;
const PITCH = 20;
/** A number is printed in a bar from this width on. */
const LEAST_INSIDE = 34;
/** Texts nearer than this touch. */
export const LINE = 14;

/** Title, subtitle and legend, which are laid out first. */
interface Head {
  content: RowsContent;
  theme: Theme;
  width: number;
  words: Words;
  /** Swatches of the legend. */
  keys: (readonly [style: Style, left: number, top: number, right: number, bottom: number])[];
}

interface Plan extends Head {
  height: number;
  rows: number;
  /** Left edge of the scale, and px from its start to its end. */
  gutter: number;
  across: number;
  top: number;
  pitch: number;
  /** Share of a row's height that its bar takes. */
  filled: number;
  /** Rows with a name and texts. */
  labelled: ReadonlySet<number>;
  /** Position of a value. */
  x(at: number): number;
  /** Middle of a row. */
  middle(row: number): number;
}

export function pitchOf(rows: number, wanted = PITCH): number {
  if (rows <= ROOMY || rows * wanted <= TALLEST) return wanted;
  return Math.max(2, Math.min(wanted, Math.floor(TALLEST / rows)));
}

/** Title, definition and legend; returns their height. */
function drawHead({ content, theme, width, words, keys }: Head): number {
  let y = words.title(content.title, [0, 0], width, theme);
  if (content.subtitle !== "") y = words.subtitle(content.subtitle, [0, y], width, theme);
  if (content.legend !== undefined && content.legend.length > 0) {
    y += 6;
    let x = 0;
    for (const [style, text] of content.legend) {
      const needs = 14 + textWidth(text);
      if (x > 0 && x + needs > width) {
        x = 0;
        y += 16;
      }
      keys.push([style, x, y + 2, x + 10, y + 12]);
      words.text(x + 14, y + 7, text, theme.ink2);
      x += needs + 12;
    }
    y += 16;
  }
  return y;
}

function planRows(content: RowsContent, width: number, theme: Theme): Plan {
  const head: Head = { content, theme, width, words: new Words(), keys: [] };
  const rows = content.names.length;
  const pitch = pitchOf(rows, content.pitch);
  let y = drawHead(head);
  const shown = content.columns.filter((each) => width >= (each.least ?? 0));
  const headed = content.ticks.length > 0 || shown.some((each) => each.head !== "");
  if (headed || content.head !== "") y += 6 + 14;
  const headY = y - 7;
  const top = y + 4;
  const gutter = gutterOf(content, width);
  const side = shown.map(columnWidth);
  const sideWidth = side.reduce((sum, each) => sum + each + 14, 0);
  const { xStart } = content;
  const span = content.xEnd - xStart;
  const ends = (content.ends ?? []).reduce((most, each) => {
    const reach = (each.at - xStart) / span;
    return Math.max(most, reach > 0.3 ? textWidth(each.text) + 8 : 0);
  }, 0);
  const across = Math.max(40, width - gutter - sideWidth - ends - (ends + sideWidth > 0 ? 0 : 1));
  const plan: Plan = {
    ...head,
    height: Math.ceil(top + rows * pitch + 4),
    rows,
    gutter,
    across,
    top,
    pitch,
    filled: pitch < 8 ? 1 : 0.8,
    labelled: labelledRows(rows, everyNth(pitch), content.late, content.facts),
    x: (at) => gutter + ((at - xStart) / span) * across,
    middle: (row) => top + (row + 0.5) * pitch,
  };
  rowNames(plan);
  scale(plan, headY, width - sideWidth);
  sideColumns(plan, shown, side, headY);
  return plan;
}

function gutterOf(content: RowsContent, width: number): number {
  const all = [...content.names, ...(content.seconds ?? []), content.head];
  const most = all.reduce((wide, name) => Math.max(wide, textWidth(name, "bold")), 0);
  return Math.ceil(Math.min(most + 10, Math.max(72, width * 0.42)));
}

function columnWidth(column: SideColumn): number {
  return column.texts.reduce(
    (wide, text) =>
      Math.max(wide, textWidth(text, (column.late ?? column.strong) ? "bold" : "normal")),
    textWidth(column.head),
  );
}

/** Interval of labelled rows, if rows are close together. */
export function everyNth(pitch: number): number {
  return [1, 2, 4, 8, 16, 32, 64].find((each) => each * pitch >= LINE) ?? 128;
}

function rowNames(plan: Plan): void {
  const { content, theme } = plan;
  const room = plan.gutter - 8;
  const names = fitted(content.names, room);
  names.forEach((name, row) => {
    const late = content.late?.has(row) === true;
    if (!plan.labelled.has(row)) return;
    const second = plan.pitch >= 30 ? content.seconds?.[row] : undefined;
    const y = plan.middle(row) - (second === undefined ? 0 : 7);
    const bold = late || content.facts?.has(row) === true || second !== undefined;
    const color = late ? theme.late : bold ? theme.ink : theme.ink2;
    const text = bold ? shortened(name, room, "bold") : name;
    plan.words.text(plan.gutter - 8, y, text, color, { align: "right", bold });
    if (second !== undefined) {
      plan.words.text(plan.gutter - 8, y + LINE, second, theme.ink3, { align: "right" });
    }
  });
}

function scale(plan: Plan, headY: number, end: number): void {
  const { content, theme, gutter, top, words } = plan;
  const bottom = top + plan.rows * plan.pitch;
  if (content.ruled === true) {
    for (let row = 1; row < plan.rows; row += 1) {
      const y = Math.round(top + row * plan.pitch);
      words.line(0, y, plan.width, y, theme.rule);
    }
  }
  if (content.head !== "") {
    words.text(gutter - 8, headY, content.head, theme.ink3, { align: "right" });
  }
  // Zero first: on scales that have both signs its label must stay.
  const order = [...content.ticks].sort((a, b) => Math.abs(a[0]) - Math.abs(b[0]));
  const taken: [number, number][] =
    content.head === "" ? [] : [[gutter - 8 - textWidth(content.head), gutter - 8]];
  for (const [at, text] of order) {
    const px = Math.round(plan.x(at));
    const isZero = at === 0 && content.zeroLine === true;
    words.line(px, top, px, bottom, isZero ? theme.ruleStrong : theme.rule);
    const half = textWidth(text) / 2;
    let left = px - half;
    if (at === content.xStart) left = px;
    left = Math.max(0, Math.min(left, end - 2 * half));
    const right = left + 2 * half;
    if (taken.some(([low, high]) => left < high + 10 && right > low - 10)) continue;
    if (Math.abs(left + half - px) > half + 2) continue;
    taken.push([left, right]);
    words.text(left, headY, text, theme.ink3);
  }
}

function sideColumns(
  plan: Plan,
  columns: readonly SideColumn[],
  widths: readonly number[],
  headY: number,
): void {
  const { theme } = plan;
  let right = plan.width - 1;
  for (let at = columns.length - 1; at >= 0; at -= 1) {
    const column = columns[at]!;
    plan.words.text(right, headY, column.head, theme.ink3, { align: "right" });
    column.texts.forEach((text, row) => {
      if (!plan.labelled.has(row)) return;
      const late = column.late?.has(row) === true;
      const bold = late || column.strong?.has(row) === true;
      const color = late ? theme.late : bold ? theme.ink : theme.ink2;
      plan.words.text(right, plan.middle(row), text, color, { align: "right", bold });
    });
    right -= widths[at]! + 14;
  }
}

/** Draw texts in bars and at their ends. On faint bars, the colours of texts are invisible. */
function inBars(plan: Plan, words: Words, faint: (row: number) => boolean): void {
  if (plan.pitch < LINE) return;
  const { content, theme, x } = plan;
  for (const { row, left, right, text: full, color, plate, atEnd, cut } of content.inside?.() ??
    []) {
    const size = x(right) - x(left);
    // Names are cut, shares never: `4.…` would be another number.
    const text = cut === true && !full.endsWith("%") ? shortened(full, size - 8) : full;
    const wide = textWidth(text);
    if (size < Math.max(LEAST_INSIDE, wide + 8)) continue;
    const y = plan.middle(row);
    if (plate !== undefined) {
      const ground = faint(row) ? theme.bg : plate;
      words.plate(x(left) + 1.5, y - 7, x(left) + wide + 7, y + 7, ground);
    }
    const ink = faint(row) ? theme.ink2 : color;
    if (atEnd === true) words.text(x(right) - 4, y, text, ink, { align: "right" });
    else words.text(x(left) + 4, y, text, ink);
  }
  for (const { row, at, text } of content.ends ?? []) {
    const marked = content.late?.has(row) === true || content.facts?.has(row) === true;
    words.text(x(at) + 6, plan.middle(row), text, marked ? theme.ink : theme.ink2);
  }
}

// A chart whose cells are time ranges: a click or a drag selects a window.

type Window = [number, number];

export class WindowDrawing extends RowsDrawing {
  constructor(content: RowsContent, theme: Theme) {
    super(content, "ranks", theme);
  }

  override click(x: number, y: number, _more: boolean, chosen: Chosen): Brush {
    const window = this.windowAt({ x, y });
    return { window: isSame(chosen.window, window) ? null : window };
  }

  override press(index: number, more: boolean, chosen: Chosen): Brush {
    const spot = this.spotOf(index);
    if (spot === null) return this.nothing();
    const { left, top, width, height } = spot.box;
    return this.click(left + width / 2, top + height / 2, more, chosen);
  }

  override drag(from: Picked, to: Picked): Brush | null {
    const [one, other] = [this.windowAt(from), this.windowAt({ x: to.x, y: from.y })];
    if (one === null || other === null) return null;
    return { window: [Math.min(one[0], other[0]), Math.max(one[1], other[1])] };
  }

  override dragBox(from: Picked, to: Picked): Box | null {
    const spot = this.spot(from.x, from.y);
    if (spot === null) return null;
    const { top, height } = spot.box;
    return { left: Math.min(from.x, to.x), top, width: Math.abs(to.x - from.x), height };
  }

  override nothing(): Brush {
    return { window: null };
  }

  private windowAt({ x, y }: Picked): Window | null {
    return this.hitAt(x, y)?.window ?? null;
  }
}
