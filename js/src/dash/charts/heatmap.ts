/** Draws what each rank does when; rectangles of it are windows and ranks. */

import { formatDuration, formatShare, formatTime } from "../../draw/format";
import type { Theme } from "../../draw/theme";
import type { Brush, Chosen } from "../types";
import type { Column, Sheet } from "./bokeh";
import { stillOnly, toggled } from "./choice";
import type { Tip } from "./content";
import type { Box, Drawing, Picked, Spot } from "./drawing";
import { edge, type HeatmapContent } from "./heatmap_content";
import { type HeatmapPlan, planHeatmap, rampOf } from "./heatmap_layout";
import type { Scale } from "./words";

export class HeatmapDrawing implements Drawing {
  private plan: HeatmapPlan | null = null;

  constructor(
    readonly content: HeatmapContent,
    private readonly theme: Theme,
  ) {}

  get title(): string {
    return this.content.title;
  }

  get finding(): string {
    return this.content.finding;
  }

  layout(width: number): number {
    this.plan = planHeatmap(this.content, width, this.theme);
    return this.plan.height;
  }

  draw(sheet: Sheet, chosen: Chosen): void {
    const { plan, content } = this;
    if (plan === null) return;
    const scale = this.scale(plan);
    sheet.range("x", scale.x(0), scale.x(plan.width));
    sheet.range("y", scale.y(plan.height), scale.y(0));
    const { start, end, bins, ranks, ramp } = content;
    for (const name of ["busy", "waiting"] as const) {
      const source = sheet.source(`cells_${name}`);
      if (source === null) continue;
      const mine = name === ramp;
      if (!mine && source.data.x?.length === 0) continue;
      const kept = (source.data.image?.[0] ?? this.kind) as Matrix;
      this.kind = kept;
      const picture = new (kept.constructor as MatrixKind)(content.share, [ranks.length, bins]);
      source.data = mine
        ? { image: [picture], x: [start], y: [-0.5], dw: [end - start], dh: [ranks.length] }
        : { image: [], x: [], y: [], dw: [], dh: [] };
    }
    sheet.fill("bars", boxes(plan.bars, scale, rampOf(content, this.theme)[4]!));
    sheet.fill("words", plan.words.wordColumns(scale));
    sheet.fill("rules", plan.words.ruleColumns(scale));
    sheet.fill("plates", plan.words.plateColumns(scale));
    this.mark(sheet, chosen);
  }

  follow(other: Drawing): void {
    if (other instanceof HeatmapDrawing) this.kind = other.kind;
  }

  mark(sheet: Sheet, chosen: Chosen): void {
    const { plan, content } = this;
    if (plan === null) return;
    const scale = this.scale(plan);
    const right = plan.left + plan.across;
    const rows = content.ranks.length;
    const bottom = plan.top + rows * plan.pitch;
    const x = (ns: number): number => {
      const at = (ns - content.start) / (content.end - content.start);
      return plan.left + Math.max(0, Math.min(1, at)) * plan.across;
    };
    const [from, to] = chosen.window === null ? [plan.left, right] : chosen.window.map(x);
    const runs = runsOf(content.ranks.map((rank) => chosen.ranks?.includes(rank) ?? true));
    const some = chosen.window !== null || chosen.ranks !== null;
    const framed: [number, number, number, number][] = [];
    const veiled: [number, number, number, number][] = [];
    if (some) {
      let y = plan.top;
      for (const [first, last] of runs) {
        const [top, end] = [plan.top + first * plan.pitch, plan.top + last * plan.pitch];
        if (top > y) veiled.push([plan.left, y, right, top]);
        if (from! > plan.left) veiled.push([plan.left, top, from!, end]);
        if (to! < right) veiled.push([to!, top, right, end]);
        if (to! > from!) framed.push([from! - 1, top - 1, to! + 1, end + 1]);
        y = end;
      }
      if (y < bottom) veiled.push([plan.left, y, right, bottom]);
    }
    sheet.fill("veils", boxes(veiled, scale, this.theme.bg));
    sheet.fill("halo", boxes(framed, scale, this.theme.bg));
    sheet.fill("frames", boxes(framed, scale, this.theme.brushLine));
    const marked = [...content.late, ...content.facts];
    const outlines = marked.map((row): [number, number, number, number] => {
      const top = plan.top + row * plan.pitch;
      return [plan.left, top, right, top + plan.pitch];
    });
    const { late, ink } = this.theme;
    const color = marked.map((row) => (content.late.has(row) ? late : ink));
    sheet.fill("late", { ...boxes(outlines, scale, ink), color });
  }

  spot(x: number, y: number): Spot | null {
    const cell = this.cell(x, y);
    return cell === null ? null : this.spotOf(cell);
  }

  spotOf(index: number): Spot | null {
    const { plan, content } = this;
    if (plan === null) return null;
    const [row, bin] = [Math.floor(index / content.bins), index % content.bins];
    if (row >= content.ranks.length) return null;
    const wide = plan.across / content.bins;
    const left = plan.left + bin * wide;
    const box = { left, top: plan.top + row * plan.pitch, width: wide, height: plan.pitch };
    return { index, box, tip: this.tip(row, bin) };
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
    const row = this.rowAt(y);
    const plan = this.plan;
    if (row === null || plan === null) return this.nothing();
    // Names and totals are of the rank alone.
    if (x < plan.left || x > plan.left + plan.across) {
      const ranks = [this.content.ranks[row]!];
      if (more) return { ranks: toggled(chosen.ranks, ranks) };
      return chosen.window === null && stillOnly(chosen.ranks, ranks)
        ? this.nothing()
        : { ranks, window: null };
    }
    const cell = this.cell(x, y);
    return cell === null ? this.nothing() : this.press(cell, more, chosen);
  }

  press(index: number, more: boolean, chosen: Chosen): Brush {
    const { bins, ranks, start, end } = this.content;
    const [row, bin] = [Math.floor(index / bins), index % bins];
    const window: [number, number] = [edge(start, end, bins, bin), edge(start, end, bins, bin + 1)];
    const one = [ranks[row]!];
    if (more) return { ranks: toggled(chosen.ranks, one) };
    const same = chosen.window?.[0] === window[0] && chosen.window?.[1] === window[1];
    return same && stillOnly(chosen.ranks, one) ? this.nothing() : { ranks: one, window };
  }

  drag(from: Picked, to: Picked, more: boolean, chosen: Chosen): Brush | null {
    const met = this.met(from, to);
    if (met === null) return null;
    const { ranks, start, end, bins } = this.content;
    const inside = ranks.slice(met.first, met.last + 1);
    const window: [number, number] = [
      edge(start, end, bins, met.low),
      edge(start, end, bins, met.high + 1),
    ];
    const all = inside.length === ranks.length;
    if (more && chosen.ranks !== null) {
      return { ranks: [...new Set([...chosen.ranks, ...inside])].sort((a, b) => a - b), window };
    }
    return { ranks: all ? null : inside, window };
  }

  dragBox(from: Picked, to: Picked): Box | null {
    const met = this.met(from, to);
    const plan = this.plan;
    if (met === null || plan === null) return null;
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

  /** BokehJS's kind of arrays of two dimensions, which only its figures have. */
  private kind: Matrix | null = null;

  private scale(plan: HeatmapPlan): Scale {
    const { start, end } = this.content;
    // Bokeh draws half a pixel off, for crisp lines; here areas must meet the timeline's.
    return {
      x: (px) => start + ((px - plan.left + 0.5) / plan.across) * (end - start),
      y: (px) => (px - plan.top + 0.5) / plan.pitch - 0.5,
    };
  }

  private tip(row: number, bin: number): Tip {
    const { start, end, bins, share, value, names } = this.content;
    const at = row * bins + bin;
    const [from, to] = [edge(start, end, bins, bin), edge(start, end, bins, bin + 1)];
    return {
      heading: `${names[row]!} · ${formatTime(from)} to ${formatTime(to)}`,
      lines: [
        ["share", formatShare(share[at]!)],
        ["time", formatDuration(value[at]!)],
        ["total of the rank", formatDuration(this.content.total[row]!)],
      ],
    };
  }

  private rowAt(y: number): number | null {
    const plan = this.plan;
    if (plan === null) return null;
    const row = Math.floor((y - plan.top) / plan.pitch);
    return row >= 0 && row < this.content.ranks.length ? row : null;
  }

  private cell(x: number, y: number): number | null {
    const plan = this.plan;
    const row = this.rowAt(y);
    if (plan === null || row === null || x < plan.left || x >= plan.left + plan.across) return null;
    return (
      row * this.content.bins + Math.floor(((x - plan.left) / plan.across) * this.content.bins)
    );
  }

  private met(
    from: Picked,
    to: Picked,
  ): { first: number; last: number; low: number; high: number } | null {
    const plan = this.plan;
    if (plan === null) return null;
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

interface Matrix {
  readonly constructor: unknown;
}

type MatrixKind = new (values: Float64Array, shape: [number, number]) => Matrix;

function boxes(
  all: readonly (readonly [left: number, top: number, right: number, bottom: number])[],
  scale: Scale,
  color: string,
): Record<string, Column> {
  return {
    left: all.map((each) => scale.x(each[0])),
    top: all.map((each) => scale.y(each[1])),
    right: all.map((each) => scale.x(each[2])),
    bottom: all.map((each) => scale.y(each[3])),
    color: all.map(() => color),
  };
}

/** Runs of rows that are wanted: from the first to after the last. */
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
