/** Draw the area above the rows: minimap, axis, steps and phases. */

import type { Minimap } from "../protocol/decode";
import { timeOfBin } from "../protocol/ribbon";
import type { SceneStep, Span } from "../protocol/source";
import { formatAxis, formatDuration, wholeName } from "../ui/formats";
import { FONT, shade, SIZE, type Theme } from "../ui/theme";
import { xAtTime } from "./camera";
import { MARK_PX, strength } from "./lanes";
import { mix, pack, type partsAt, rgb } from "./paints";
import type { Frame } from "./painter";
import type { Pen } from "./pen";

/** Steps closer together than this get no lines through the rows. */
const STEP_LINES_FROM_PX = 16;

/** The minimap's bars as a bitmap; `parts` are colours and shares of busy time, null: by kind. */
export function minimapPicture(
  data: Minimap,
  theme: Theme,
  across: number,
  down: number,
  parts: ReturnType<typeof partsAt> | null,
): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  const [width, height] = [Math.max(1, across), Math.max(1, down)];
  Object.assign(canvas, { width, height });
  const image = new ImageData(width, height);
  const px = new Uint32Array(image.data.buffer);
  const lane = rgb(theme.lane);
  px.fill(pack(lane));
  const layers: [Float32Array, number][] = [
    [data.compute, pack(rgb(theme.kind.compute))],
    [data.exposed, pack(rgb(theme.kind.communication))],
    [data.memory, pack(rgb(theme.kind.memory))],
  ];
  if (data.cpu !== null) layers.push([data.cpu, pack(mix(rgb(theme.kind.cpu), lane, 0.6))]);
  for (let x = 0; x < width; x += 1) {
    const from = Math.floor((x * data.bins) / width);
    const to = Math.max(from + 1, Math.floor(((x + 1) * data.bins) / width));
    let stack = layers.map(([values, colour]): [number, number] => {
      let value = 0;
      for (let bin = from; bin < to; bin += 1) value += values[bin] ?? 0;
      return [colour, value / (to - from)];
    });
    if (parts !== null) {
      const busy = stack.reduce((all, [, value]) => all + value, 0);
      const time = data.start + ((x + 0.5) / width) * (data.end - data.start);
      stack = parts(time).map(([colour, share]) => [colour, share * busy]);
    }
    let base = height;
    let sum = 0;
    for (const [colour, value] of stack) {
      sum += value;
      const top = Math.max(0, height - Math.round(sum * (height - 2)));
      for (let y = top; y < base; y += 1) px[y * width + x] = colour;
      base = Math.min(base, top);
    }
  }
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}

export function drawMinimap(pen: Pen, head: Frame): void {
  const { geometry, theme, job, view, minimap } = head;
  const { lanesX, lanesWidth, minimapTop, minimapHeight, gutter } = geometry;
  pen.rect(0, 0, geometry.width, geometry.axisTop - 1, theme.bg);
  pen.horizontal(geometry.axisTop - 1, 0, geometry.width, theme.rule);
  const length = formatDuration(job[1] - job[0]);
  const right = gutter - 10;
  const used = pen.width(length, FONT.label);
  pen.text(length, right, 20, FONT.label, theme.ink2, "right");
  const name = wholeName(head.scene);
  const room = right - used - 20;
  if (pen.width(name, FONT.label) <= room) pen.text(name, 12, 20, FONT.label, theme.ink3);
  if (lanesWidth <= 0) return;
  pen.rect(lanesX, minimapTop, lanesWidth, minimapHeight, theme.lane);
  if (minimap !== null) {
    pen.ctx.drawImage(minimap, lanesX, minimapTop, lanesWidth, minimapHeight);
  }
  const at = (time: number) => {
    const share = (time - job[0]) / (job[1] - job[0]);
    return lanesX + Math.min(1, Math.max(0, share)) * lanesWidth;
  };
  const x0 = at(view[0]);
  const x1 = at(view[1]);
  const veil = `${theme.bg}b8`;
  pen.rect(lanesX, minimapTop, x0 - lanesX, minimapHeight, veil);
  pen.rect(x1, minimapTop, lanesX + lanesWidth - x1, minimapHeight, veil);
  const width = Math.max(x1 - x0, 3);
  const left = Math.min(x0, lanesX + lanesWidth - width);
  pen.frame(left, minimapTop, width, minimapHeight, theme.brushLine, 1.5);
  if (width < 20) return;
  const middle = minimapTop + minimapHeight / 2;
  pen.rect(left, middle - 6, 3, 12, theme.brushLine);
  pen.rect(left + width - 3, middle - 6, 3, 12, theme.brushLine);
}

/** Draws the axis and returns the times of its ticks. */
export function drawAxis(pen: Pen, head: Frame): number[] {
  const { geometry, theme, view } = head;
  const { axisTop, axisHeight, lanesX, lanesWidth } = geometry;
  const bottom = axisTop + axisHeight;
  pen.rect(0, axisTop, geometry.width, axisHeight, theme.bg);
  const { times, step } = timeTicks(view[0], view[1], lanesWidth, (label) =>
    pen.width(label, FONT.label),
  );
  const end = lanesX + lanesWidth;
  for (const time of times) {
    const x = xAtTime(geometry, view, time);
    pen.vertical(x, bottom - 4, bottom, theme.ruleStrong);
    const label = formatAxis(time, step, largest(...view));
    if (x + 4 + pen.width(label, FONT.label) > end) continue;
    pen.text(label, x + 4, bottom - 7, FONT.label, theme.ink2);
  }
  pen.vertical(lanesX - 1, axisTop, bottom, theme.rule);
  if (geometry.margin > 0) pen.vertical(end, axisTop, bottom, theme.rule);
  return times;
}

export function drawStrip(pen: Pen, head: Frame): void {
  const { geometry, theme, scene } = head;
  const { stripTop, stripHeight, rowsTop, lanesX, lanesWidth, gutter } = geometry;
  pen.rect(0, stripTop, geometry.width, rowsTop - stripTop, theme.bg);
  if (geometry.stripRows === 0) return;
  const rows: [name: string, draw: (pen: Pen, frame: Frame, y: number) => void][] = [];
  if (scene.steps.length > 0) {
    const ofMedian = scene.ranks.length > 1 && !geometry.narrow;
    rows.push([ofMedian ? "steps, median rank" : "steps", drawSteps]);
  }
  if (scene.phases.length > 0) rows.push(["phases", drawPhases]);
  if (geometry.lateRow) {
    rows.push([geometry.narrow ? "comes last" : "who comes last", drawJobRibbon]);
  }
  const yOf = (row: number): number => stripTop + row * SIZE.steps;
  for (const [row, [name]] of rows.entries()) {
    pen.fitted(name, 12, yOf(row) + 11, gutter - 20, FONT.label, theme.ink3);
  }
  pen.clipped(lanesX, stripTop, lanesWidth, stripHeight, () => {
    for (const [row, [, draw]] of rows.entries()) draw(pen, head, yOf(row));
  });
  pen.vertical(lanesX - 1, stripTop, rowsTop, theme.rule);
  if (geometry.margin === 0) return;
  const x = lanesX + lanesWidth;
  pen.vertical(x, stripTop, rowsTop, theme.rule);
}

function inView(steps: readonly SceneStep[], view: Span): SceneStep[] {
  return steps.filter(({ start, dur }) => start < view[1] && start + dur > view[0]);
}

function drawSteps(pen: Pen, head: Frame, y: number): void {
  const { geometry, theme, scene, view } = head;
  const tint = shade([theme.bg, theme.kind.annotation], theme.annotationTint);
  const left = geometry.lanesX;
  const right = left + geometry.lanesWidth;
  let lastEdge = Number.NEGATIVE_INFINITY;
  for (const step of inView(scene.steps, view)) {
    const x0 = xAtTime(geometry, view, step.start);
    const x1 = Math.min(xAtTime(geometry, view, step.start + step.dur), right);
    const from = Math.max(x0, left);
    pen.rect(from, y, Math.max(x1 - from - (x1 < right ? 1 : 0), 1), 15, tint);
    if (x0 - lastEdge >= 4) {
      pen.rect(x0, y, 2, 15, theme.kind.annotation);
      lastEdge = x0;
    }
    const begun = x0 < left;
    const goesOn = step.start + step.dur > view[1];
    const name = begun ? `‹ ${step.name}` : step.name;
    // The number identifies the step: drop the word first.
    const forms = [name, name.replace(/[^#]*#/, "#")];
    const used = pen.firstFit(forms, from + 6, y + 11, x1 - from - 10, FONT.labelStrong, theme.ink);
    if (used === 0) continue;
    const end = goesOn ? "›" : formatDuration(step.dur);
    // The duration is at the end of the step. If only a part is in view, it could be read as that
    // part's.
    if ((!begun || goesOn) && pen.width(end, FONT.label) <= x1 - from - used - 24) {
      pen.text(end, x1 - 6, y + 11, FONT.label, theme.ink2, "right");
    }
  }
}

function drawPhases(pen: Pen, head: Frame, y: number): void {
  const { geometry, theme, scene, view } = head;
  const left = geometry.lanesX;
  const right = left + geometry.lanesWidth;
  let reached = Number.NEGATIVE_INFINITY;
  for (const phase of inView(scene.phases, view)) {
    const x0 = xAtTime(geometry, view, phase.start);
    const x1 = Math.min(xAtTime(geometry, view, phase.start + phase.dur), right);
    if (x1 - reached < 3) continue;
    if (x0 >= left) pen.vertical(x0, y, y + 14, theme.ruleStrong);
    const from = Math.max(x0, left, reached);
    const name = x0 < left ? `‹ ${phase.name}` : phase.name;
    if (x1 - from >= 26) pen.fitted(name, from + 5, y + 11, x1 - from - 9, FONT.label, theme.ink2);
    reached = x1;
  }
}

/** Vertical lines at the start of each step, through all rows. */
export function drawStepLines(pen: Pen, head: Frame, bottom: number): void {
  const { geometry, theme, scene, view } = head;
  let last = Number.NEGATIVE_INFINITY;
  for (const { start } of scene.steps) {
    if (start <= view[0] || start >= view[1]) continue;
    const x = xAtTime(geometry, view, start);
    if (x - last < STEP_LINES_FROM_PX) continue;
    pen.dashed(x, geometry.rowsTop, bottom, theme.kind.annotation);
    last = x;
  }
}

const TICK_HEIGHT = 13;
/** A name needs more than this, CSS px. */
const LEAST_ROOM = 5;
/** Min strength of a tick, so that the shortest wait is visible. */
const WEAKEST = 0.18;

/** Draw the job's row: a tick and a name at each last arrival; red if others wait for that rank. */
function drawJobRibbon(pen: Pen, scene: Frame, y: number): void {
  const { geometry, theme, view, ribbon, lateness } = scene;
  const { lanesX, lanesWidth } = geometry;
  if (ribbon === null) return;
  if (ribbon.of === 0) {
    pen.fitted("no collectives matched", lanesX + 6, y + 11, lanesWidth, FONT.label, theme.ink3);
    return;
  }
  const xs = Array.from(ribbon.job.bin, (bin) => xAtTime(geometry, view, timeOfBin(ribbon, bin)));
  const end = lanesX + lanesWidth;
  const inkOf = (rank: number) => (lateness?.late.has(rank) === true ? theme.late : theme.ink3);
  const drawn = xs.flatMap((x, at) =>
    ribbon.job.ns[at]! <= 0 || x < lanesX - MARK_PX || x > end ? [] : [at],
  );
  const widthOf = (at: number) =>
    Math.min(MARK_PX, Math.max(Math.min(xs[at + 1] ?? end, end) - xs[at]!, pen.hairline));
  for (const at of drawn) {
    const share = WEAKEST + (1 - WEAKEST) * strength(ribbon.job.ns[at]!, ribbon.jobMost);
    const ink = shade([theme.bg, inkOf(ribbon.job.rank[at]!)], share);
    pen.rect(xs[at]!, y + 1, widthOf(at), TICK_HEIGHT, ink);
  }
  // Label the most expensive arrivals first, before or after the tick; use each gap only once.
  const used = new Set<number>();
  for (const at of drawn.sort((a, b) => ribbon.job.ns[b]! - ribbon.job.ns[a]! || a - b)) {
    const rank = ribbon.job.rank[at]!;
    if (rank < 0) continue;
    const x = xs[at]!;
    const words = [`rank ${rank}`, String(rank)];
    const behind = x + widthOf(at) + 2;
    const before = at > 0 ? xs[at - 1]! + MARK_PX : lanesX;
    for (const [gap, edge, room, align] of [
      [at, behind, Math.min(xs[at + 1] ?? end, end) - behind - 4, "left"],
      [at - 1, x - 2, x - 2 - Math.max(before, lanesX) - 4, "right"],
    ] as const) {
      if (used.has(gap) || room < LEAST_ROOM) continue;
      if (pen.firstFit(words, edge, y + 11, room, FONT.label, inkOf(rank), align) === 0) continue;
      used.add(gap);
      break;
    }
  }
}

function largest(start: number, end: number): number {
  return Math.max(Math.abs(start), Math.abs(end));
}

/** The smallest step of 1, 2 or 5 times a power of ten that is at least `least`. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least) + 1e-12);
  for (const factor of [1, 2, 5]) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/**
 * Ticks at round times: nine at most, fewer if labels would touch. `widthOf` measures a label
 * in the unit of `width`.
 */
export function timeTicks(
  start: number,
  end: number,
  width: number,
  widthOf: (label: string) => number,
): { step: number; times: number[] } {
  const span = end - start;
  if (!(span > 0) || width <= 0) return { step: 1, times: [] };
  let step = Math.max(niceStep(span / 9), 1e-3);
  for (let tries = 0; tries < 6; tries += 1) {
    const label = formatAxis(largest(start, end), step, largest(start, end));
    if ((step / span) * width >= widthOf(label) + 20) break;
    step = niceStep(step * 1.5);
  }
  const times: number[] = [];
  const first = Math.ceil(start / step - 1e-9);
  const last = Math.floor(end / step + 1e-9);
  // Multiples, not a running sum: sums of 0.1 drift.
  for (let index = first; index <= last; index += 1) times.push(index * step);
  return { step, times };
}
