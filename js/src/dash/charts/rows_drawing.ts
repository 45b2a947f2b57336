/** Draws a chart of rows: lays out its content and hands the sheet its columns. */

import type { Theme } from "../../draw/theme";
import type { Brush, Chosen } from "../types";
import type { Column, Sheet } from "./bokeh";
import type { Hit, Key, RowsContent } from "./content";
import type { Box, Drawing, Picked, Spot } from "./drawing";
import { inBars, type Plan, planRows } from "./rows_layout";
import { type Scale, Words } from "./words";
import { stillOnly, toggled } from "./choice";

/** Marks are met from this far. px. */
const REACH = 7;

/** As `charts/rows.py` has it. */
const FAINT = 0.3;

interface Glyph {
  height?: { value?: number };
  line_alpha?: { value: number };
}

interface Mark {
  glyph: Glyph;
  nonselection_glyph: Glyph | null;
}

export type Dimension = "ranks" | "names" | "kinds";

export class RowsDrawing implements Drawing {
  private plan: Plan | null = null;
  private scale: Scale | null = null;
  private told = "";
  private filled = 0;

  constructor(
    readonly content: RowsContent,
    private readonly dimension: Dimension,
    private readonly theme: Theme,
  ) {}

  get title(): string {
    return this.content.title;
  }

  get finding(): string {
    return this.content.finding;
  }

  layout(width: number): number {
    this.plan = planRows(this.content, width, this.theme);
    return this.plan.height;
  }

  draw(sheet: Sheet, chosen: Chosen): void {
    const plan = this.plan;
    if (plan === null) return;
    const { content } = this;
    const perUnit = plan.across / (content.xEnd - content.xStart);
    const left = content.xStart - plan.gutter / perUnit;
    // Bokeh draws half a pixel off, for crisp lines; areas that touch would show seams.
    const above = -0.5 - (plan.top - (plan.filled === 1 ? 0.5 : 0)) / plan.pitch;
    const scale: Scale = {
      x: (px: number) => left + px / perUnit,
      y: (px: number) => above + px / plan.pitch,
    };
    sheet.range("x", left, scale.x(plan.width));
    sheet.range("y", scale.y(plan.height), above);
    sheet.fill("rows", content.data);
    this.scale = scale;
    const rules = plan.words.ruleColumns(scale);
    // Keys are in px: where the scale is another one, they are elsewhere on it.
    const told = JSON.stringify([rules, plan.keys, left, perUnit, above, plan.pitch]);
    if (told !== this.told) {
      sheet.fill("rules", rules);
      this.keys(sheet, scale);
      this.told = told;
    }
    if (plan.filled !== this.filled) {
      for (let at = 0; sheet.model(`mark${at}`) !== null; at += 1) {
        const mark = sheet.model(`mark${at}`) as Mark;
        for (const glyph of [mark.glyph, mark.nonselection_glyph]) {
          if (glyph?.height?.value !== 0.8 && glyph?.height?.value !== 1) continue;
          // Rows that are close together have no space between them.
          glyph.height = { value: plan.filled };
          // There outlines would be all that is seen.
          glyph.line_alpha = { value: plan.filled === 1 ? 0 : glyph === mark.glyph ? 1 : FAINT };
        }
      }
      this.filled = plan.filled;
    }
    this.mark(sheet, chosen);
  }

  /** Takes over what the sheet of an earlier content already has. */
  follow(other: Drawing): void {
    if (!(other instanceof RowsDrawing)) return;
    this.told = other.told;
    this.filled = other.filled;
  }

  mark(sheet: Sheet, chosen: Chosen): void {
    const source = sheet.source("rows");
    const { plan, scale } = this;
    if (source === null || plan === null || scale === null) return;
    const full = this.full(chosen);
    source.selected.indices = full;
    const row = this.content.data.row as readonly number[] | undefined;
    const strong = full.length === 0 ? null : new Set(full.map((at) => row?.[at]));
    const words = new Words();
    inBars(plan, this.content, this.theme, words, (each) => strong?.has(each) === false);
    sheet.fill("words", Words.columns(scale, plan.words, words));
    sheet.fill("plates", words.plateColumns(scale));
  }

  spot(x: number, y: number): Spot | null {
    const row = this.rowAt(y);
    const plan = this.plan;
    if (row === null || plan === null) return null;
    const hit = this.hitAt(x, y);
    return {
      index: row,
      box: { left: 0, top: plan.top + row * plan.pitch, width: plan.width, height: plan.pitch },
      tip: hit?.tip ?? this.content.tip(row, this.at(x)),
    };
  }

  step(from: number | null, key: string): number | null {
    const rows = this.plan?.rows ?? 0;
    if (rows === 0) return null;
    if (key === "Home") return 0;
    if (key === "End") return rows - 1;
    if (key === "ArrowDown") return from === null ? 0 : Math.min(rows - 1, from + 1);
    if (key === "ArrowUp") return from === null ? rows - 1 : Math.max(0, from - 1);
    return from;
  }

  spotOf(index: number): Spot | null {
    const plan = this.plan;
    if (plan === null || index >= plan.rows) return null;
    const top = plan.top + index * plan.pitch;
    const box = { left: 0, top, width: plan.width, height: plan.pitch };
    return { index, box, tip: this.content.tip(index, this.content.xStart) };
  }

  click(x: number, y: number, more: boolean, chosen: Chosen): Brush {
    const row = this.rowAt(y);
    if (row === null) return this.nothing();
    const hit = this.hitAt(x, y);
    if (hit !== null) return this.choose(hit.ranks, more, chosen, hit.window);
    return this.choose(this.content.keys[row] ?? [], more, chosen);
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
    const plan = this.plan;
    if (rows === null || plan === null) return null;
    const height = (rows[1] - rows[0] + 1) * plan.pitch;
    return { left: 0, top: plan.top + rows[0] * plan.pitch, width: plan.width, height };
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
    const hits = this.content.hit !== undefined;
    return { [this.dimension]: null, ...(hits ? { window: null } : {}) };
  }

  private choose(
    keys: readonly Key[],
    more: boolean,
    chosen: Chosen,
    window: [number, number] | null = null,
  ): Brush {
    const before: readonly Key[] | null = chosen[this.dimension];
    const hits = this.content.hit !== undefined;
    if (more) {
      return { [this.dimension]: toggled(before, keys), ...(window ? { window } : {}) };
    }
    const same =
      stillOnly(before, keys) &&
      (window === null || (chosen.window?.[0] === window[0] && chosen.window?.[1] === window[1]));
    if (same) return this.nothing();
    return { [this.dimension]: [...new Set(keys)], ...(hits ? { window } : {}) };
  }

  private full(chosen: Chosen): number[] {
    const own = this.content.chosenMarks?.(chosen);
    if (own !== undefined) {
      if (own === null) return [];
      return own.length > 0 ? own : [(this.content.data.row ?? []).length];
    }
    const keys: readonly Key[] | null = chosen[this.dimension];
    if (keys === null) return [];
    const wanted = new Set(keys);
    const rows = this.content.keys.map(
      (each) => each.length > 0 && each.every((key) => wanted.has(key)),
    );
    const at = (this.content.data.row ?? []) as readonly number[];
    const found: number[] = [];
    at.forEach((row, index) => {
      if (rows[row] === true) found.push(index);
    });
    // An index beyond the rows: nothing of what is chosen is here, so all is faint.
    return found.length > 0 ? found : [at.length];
  }

  private keys(sheet: Sheet, scale: { x(px: number): number; y(px: number): number }): void {
    for (let at = 0; sheet.model(`mark${at}`) !== null; at += 1) {
      const mine = this.plan?.keys.filter(([mark]) => mark === at) ?? [];
      const columns: Record<string, Column> = {
        left: mine.map((each) => scale.x(each[1])),
        top: mine.map((each) => scale.y(each[2])),
        right: mine.map((each) => scale.x(each[3])),
        bottom: mine.map((each) => scale.y(each[4])),
      };
      sheet.fill(`key${at}`, columns);
    }
  }

  private at(x: number): number {
    const plan = this.plan;
    if (plan === null) return 0;
    const { xStart, xEnd } = this.content;
    return xStart + ((x - plan.gutter) / plan.across) * (xEnd - xStart);
  }

  protected hitAt(x: number, y: number): Hit | null {
    const plan = this.plan;
    if (plan === null || this.content.hit === undefined) return null;
    const reach = (REACH / plan.across) * (this.content.xEnd - this.content.xStart);
    return this.content.hit(this.at(x), this.rowOf(y), reach, REACH / plan.pitch);
  }

  private rowOf(y: number): number {
    const plan = this.plan;
    return plan === null ? 0 : (y - plan.top) / plan.pitch - 0.5;
  }

  private rowAt(y: number): number | null {
    const plan = this.plan;
    if (plan === null) return null;
    const row = Math.floor((y - plan.top) / plan.pitch);
    return row >= 0 && row < plan.rows ? row : null;
  }

  private between(y0: number, y1: number): [number, number] | null {
    const plan = this.plan;
    if (plan === null || plan.rows === 0) return null;
    const row = (y: number): number => Math.floor((y - plan.top) / plan.pitch);
    const [low, high] = [row(Math.min(y0, y1)), row(Math.max(y0, y1))];
    if (high < 0 || low >= plan.rows) return null;
    return [Math.max(0, low), Math.min(plan.rows - 1, high)];
  }
}
