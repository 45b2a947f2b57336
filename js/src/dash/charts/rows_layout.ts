/** Where the parts of a chart of rows lie, and its words. CSS px, relative to the chart. */

import type { Theme } from "../../draw/theme";
import type { RowsContent, SideColumn } from "./content";
import { fitted, shortened, textWidth, wrapped } from "./measure";
import { labelledRows } from "./row_labels";
import { Words } from "./words";

/** More rows than this are closer together, so that all of them are seen at once. */
const ROOMY = 24;
const TALLEST = 512;
const PITCH = 20;
/** A number is printed in a bar from this width on. */
const LEAST_INSIDE = 34;
const LINE = 14;

export interface Plan {
  width: number;
  height: number;
  rows: number;
  /** Left edge of the scale, and px from its start to its end. */
  gutter: number;
  across: number;
  top: number;
  pitch: number;
  /** Part of a row's height that its bar has. */
  filled: number;
  words: Words;
  /** Swatches of the legend: mark, left, top, right, bottom. */
  keys: (readonly [mark: number, left: number, top: number, right: number, bottom: number])[];
}

export function pitchOf(rows: number, wanted = PITCH): number {
  if (rows <= ROOMY || rows * wanted <= TALLEST) return wanted;
  return Math.max(2, Math.min(wanted, Math.floor(TALLEST / rows)));
}

/** Title, what it means, and the legend; returns the height that they take. */
export function head(
  words: Words,
  keys: Plan["keys"],
  width: number,
  theme: Theme,
  content: Pick<RowsContent, "title" | "subtitle" | "legend">,
): number {
  let y = 0;
  for (const line of wrapped(content.title, width, "bold", 13)) {
    words.text(0, y + 9, line, theme.ink, { bold: true, size: 13 });
    y += 18;
  }
  if (content.subtitle !== "") {
    for (const line of wrapped(content.subtitle, width)) {
      words.text(0, y + 7, line, theme.ink3);
      y += LINE;
    }
  }
  if (content.legend !== undefined && content.legend.length > 0) {
    y += 6;
    let x = 0;
    for (const [mark, text] of content.legend) {
      const needs = 14 + textWidth(text);
      if (x > 0 && x + needs > width) {
        x = 0;
        y += 16;
      }
      keys.push([mark, x, y + 2, x + 10, y + 12]);
      words.text(x + 14, y + 7, text, theme.ink2);
      x += needs + 12;
    }
    y += 16;
  }
  return y;
}

export function planRows(content: RowsContent, width: number, theme: Theme): Plan {
  const words = new Words();
  const keys: Plan["keys"] = [];
  const rows = content.names.length;
  const pitch = pitchOf(rows, content.pitch);
  let y = head(words, keys, width, theme, content);
  const shown = content.columns.filter((each) => width >= (each.least ?? 0));
  const headed = content.ticks.length > 0 || shown.some((each) => each.head !== "");
  if (headed || content.head !== "") y += 6 + 14;
  const headY = y - 7;
  const top = y + 4;
  const gutter = gutterOf(content, width);
  const side = shown.map((each) => columnWidth(each));
  const sideWidth = side.reduce((sum, each) => sum + each + 14, 0);
  const ends = (content.ends ?? []).reduce((most, each) => {
    const reach = (each.at - content.xStart) / (content.xEnd - content.xStart);
    return Math.max(most, reach > 0.3 ? textWidth(each.text) + 8 : 0);
  }, 0);
  const across = Math.max(40, width - gutter - sideWidth - ends - (ends + sideWidth > 0 ? 0 : 1));
  const plan: Plan = {
    width,
    height: Math.ceil(top + rows * pitch + 4),
    rows,
    gutter,
    across,
    top,
    pitch,
    filled: pitch < 8 ? 1 : 0.8,
    words,
    keys,
  };
  const labelled = labelledRows(rows, everyNth(pitch), content.late, content.facts);
  rowNames(plan, content, theme, labelled);
  scale(plan, content, theme, headY, width - sideWidth);
  sideColumns(plan, theme, shown, side, headY, labelled);
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

/** Of rows that are close together, every how manyth has a name. */
function everyNth(pitch: number): number {
  return [1, 2, 4, 8, 16, 32, 64].find((each) => each * pitch >= LINE) ?? 128;
}

function middle(plan: Plan, row: number): number {
  return plan.top + (row + 0.5) * plan.pitch;
}

function rowNames(
  plan: Plan,
  content: RowsContent,
  theme: Theme,
  labelled: ReadonlySet<number>,
): void {
  const room = plan.gutter - 8;
  const names = fitted(content.names, room);
  names.forEach((name, row) => {
    const late = content.late?.has(row) === true;
    if (!labelled.has(row)) return;
    const second = plan.pitch >= 30 ? content.seconds?.[row] : undefined;
    const y = middle(plan, row) - (second === undefined ? 0 : 7);
    const bold = late || content.facts?.has(row) === true || second !== undefined;
    const color = late ? theme.late : bold ? theme.ink : theme.ink2;
    const text = bold ? shortened(name, room, "bold") : name;
    plan.words.text(plan.gutter - 8, y, text, color, { align: "right", bold });
    if (second !== undefined) {
      plan.words.text(plan.gutter - 8, y + LINE, second, theme.ink3, { align: "right" });
    }
  });
}

function scale(plan: Plan, content: RowsContent, theme: Theme, headY: number, end: number): void {
  const { gutter, across, top, words } = plan;
  const bottom = top + plan.rows * plan.pitch;
  const x = (at: number): number =>
    gutter + ((at - content.xStart) / (content.xEnd - content.xStart)) * across;
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
    const px = Math.round(x(at));
    words.line(
      px,
      top,
      px,
      bottom,
      at === 0 && content.zeroLine === true ? theme.ruleStrong : theme.rule,
    );
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
  theme: Theme,
  columns: readonly SideColumn[],
  widths: readonly number[],
  headY: number,
  labelled: ReadonlySet<number>,
): void {
  let right = plan.width - 1;
  for (let at = columns.length - 1; at >= 0; at -= 1) {
    const column = columns[at]!;
    plan.words.text(right, headY, column.head, theme.ink3, { align: "right" });
    column.texts.forEach((text, row) => {
      if (!labelled.has(row)) return;
      const late = column.late?.has(row) === true;
      const bold = late || column.strong?.has(row) === true;
      const color = late ? theme.late : bold ? theme.ink : theme.ink2;
      plan.words.text(right, middle(plan, row), text, color, { align: "right", bold });
    });
    right -= widths[at]! + 14;
  }
}

/** Numbers in bars and at their ends; ink for bars would not be seen on faint ones. */
export function inBars(
  plan: Plan,
  content: RowsContent,
  theme: Theme,
  words: Words,
  faint: (row: number) => boolean,
): void {
  if (plan.pitch < LINE) return;
  const perUnit = plan.across / (content.xEnd - content.xStart);
  const x = (at: number): number => plan.gutter + (at - content.xStart) * perUnit;
  for (const { row, left, right, text, color, plate, atEnd } of content.inside ?? []) {
    const size = (right - left) * perUnit;
    const wide = textWidth(text);
    if (size < Math.max(LEAST_INSIDE, wide + 8)) continue;
    const y = middle(plan, row);
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
    words.text(x(at) + 6, middle(plan, row), text, marked ? theme.ink : theme.ink2);
  }
}
