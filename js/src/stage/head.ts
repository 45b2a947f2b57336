/** Draw the area above the rows: minimap, axis, steps and phases. */

import type { Minimap } from "../protocol/decode";
import { timeOfBin } from "../protocol/ribbon";
import type { Kind, SceneStep, Span } from "../protocol/source";
import { formatAxis, formatDuration, wholeRunName } from "../ui/formats";
import { sum } from "../expressions/numbers";
import { niceStep } from "../ui/text";
import { FONT, interpolateStops, SIZE, type Theme } from "../ui/theme";
import { xAtTime } from "./camera";
import { MARK_PX, delayStrength } from "./lanes";
import { mix, pack, type classSharesAt, rgb } from "./paints";
import type { Ruler, StageFrame } from "./frame";
import type { CanvasPen } from "./pen";
import { PixelRaster } from "./raster";

/** Minimum distance between the starts of steps for drawing lines there through the rows. */
const STEP_LINES_FROM_PX = 16;

/** Minimum height of a non-empty bar, as a share. The frame of the view would hide lower bars. */
const MIN_BAR_SHARE = 1 / 10;

/** Draw the bars of the minimap. `parts`: shares of the busy time per color; null: per kind. */
export function drawMinimapImage(
  data: Minimap,
  theme: Theme,
  pixelWidth: number,
  pixelHeight: number,
  parts: ReturnType<typeof classSharesAt> | null,
): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  const [width, height] = [Math.max(1, pixelWidth), Math.max(1, pixelHeight)];
  Object.assign(canvas, { width, height });
  const raster = new PixelRaster(width, height);
  const lane = rgb(theme.lane);
  raster.fillRect(0, 0, width, height, pack(lane));
  const isHost = data.shares.every(([name]) => name !== "exposed");
  const layers = data.shares.map(([name, values]): [number, Float32Array] => {
    const color = rgb(theme.kind[name === "exposed" ? "communication" : (name as Kind)]);
    return [pack(isHost ? mix(color, lane, 0.6) : color), values];
  });
  for (let x = 0; x < width; x += 1) {
    const from = Math.floor((x * data.bins) / width);
    const to = Math.max(from + 1, Math.floor(((x + 1) * data.bins) / width));
    let bar = layers.map(([color, values]): ColorShare => {
      return [color, sum(values.subarray(from, to)) / (to - from)];
    });
    if (parts !== null) {
      const busyShare = totalShare(bar);
      const time = data.start + ((x + 0.5) / width) * (data.end - data.start);
      bar = parts(time).map(([color, share]) => [color, share * busyShare]);
    }
    fillBar(raster, x, bar);
  }
  canvas.getContext("2d")?.putImageData(raster.image, 0, 0);
  return canvas;
}

type ColorShare = [color: number, share: number];

function totalShare(bar: readonly ColorShare[]): number {
  return sum(bar.map(([, share]) => share));
}

/** Fill a column of the minimap from the bottom. The parts of a small bar keep their proportions. */
function fillBar(raster: PixelRaster, x: number, bar: readonly ColorShare[]): void {
  const { height } = raster;
  const busyShare = totalShare(bar);
  if (busyShare === 0) return;
  const scale = (height - 2) * Math.max(1, MIN_BAR_SHARE / busyShare);
  let base = height;
  let reached = 0;
  for (const [color, share] of bar) {
    reached += share;
    const top = Math.max(0, height - Math.round(reached * scale));
    raster.fillRect(x, top, x + 1, base, color);
    base = Math.min(base, top);
  }
}

/** Draw the job's name and length, and the minimap with the view's frame on it. */
export function drawMinimap(pen: CanvasPen, frame: StageFrame): void {
  const { geometry, theme, job } = frame;
  pen.fillRect(0, 0, geometry.width, geometry.axisTop - 1, theme.bg);
  pen.horizontalLine(geometry.axisTop - 1, 0, geometry.width, theme.rule);
  const length = formatDuration(job[1] - job[0]);
  const right = geometry.gutter - 10;
  pen.drawText(length, right, 20, FONT.label, theme.ink2, "right");
  const maxWidth = right - pen.textWidth(length, FONT.label) - 20;
  pen.drawFirstFit([wholeRunName(frame.scene)], 12, 20, maxWidth, FONT.label, theme.ink3);
  if (geometry.lanesWidth > 0) drawMinimapBars(pen, frame);
}

function drawMinimapBars(pen: CanvasPen, frame: StageFrame): void {
  const { geometry, theme, job, view, minimap } = frame;
  const { lanesX, lanesWidth, minimapTop, minimapHeight } = geometry;
  pen.fillRect(lanesX, minimapTop, lanesWidth, minimapHeight, theme.lane);
  if (minimap !== null) pen.ctx.drawImage(minimap, lanesX, minimapTop, lanesWidth, minimapHeight);
  const xOfTime = (time: number) => {
    const share = (time - job[0]) / (job[1] - job[0]);
    return lanesX + Math.min(1, Math.max(0, share)) * lanesWidth;
  };
  const x0 = xOfTime(view[0]);
  const x1 = xOfTime(view[1]);
  const veil = `${theme.bg}b8`;
  pen.fillRect(lanesX, minimapTop, x0 - lanesX, minimapHeight, veil);
  pen.fillRect(x1, minimapTop, lanesX + lanesWidth - x1, minimapHeight, veil);
  const width = Math.max(x1 - x0, 3);
  const left = Math.min(x0, lanesX + lanesWidth - width);
  pen.strokeFrame(left, minimapTop, width, minimapHeight, theme.brushLine, 1.5);
  // Handles at both edges, if there is space.
  if (width < 20) return;
  const middle = minimapTop + minimapHeight / 2;
  pen.fillRect(left, middle - 6, 3, 12, theme.brushLine);
  pen.fillRect(left + width - 3, middle - 6, 3, 12, theme.brushLine);
}

/** Draw the rulers. Return the times of the first ruler's ticks. */
export function drawAxis(pen: CanvasPen, frame: StageFrame): number[] {
  const { geometry, theme, rulers } = frame;
  const { axisTop, axisHeight, lanesX, lanesWidth } = geometry;
  const bottom = axisTop + axisHeight;
  pen.fillRect(0, axisTop, geometry.width, axisHeight, theme.bg);
  const ticks = rulers.map((ruler, index) => {
    const rulerBottom = bottom - (rulers.length - 1 - index) * SIZE.steps;
    return drawRuler(pen, frame, ruler, rulerBottom);
  });
  pen.verticalLine(lanesX - 1, axisTop, bottom, theme.rule);
  if (geometry.margin > 0) pen.verticalLine(lanesX + lanesWidth, axisTop, bottom, theme.rule);
  return ticks[0]!;
}

function drawRuler(
  pen: CanvasPen,
  { geometry, theme }: StageFrame,
  { view, name }: Ruler,
  bottom: number,
): number[] {
  const { lanesX, lanesWidth, gutter } = geometry;
  pen.drawTruncated(name, 12, bottom - 7, gutter - 20, FONT.label, theme.ink3);
  const { times, step } = timeTicks(view[0], view[1], lanesWidth, (label) =>
    pen.textWidth(label, FONT.label),
  );
  const end = lanesX + lanesWidth;
  for (const time of times) {
    const x = xAtTime(geometry, view, time);
    pen.verticalLine(x, bottom - 4, bottom, theme.ruleStrong);
    const label = formatAxis(time, step, maxAbs(...view));
    if (x + 4 + pen.textWidth(label, FONT.label) > end) continue;
    pen.drawText(label, x + 4, bottom - 7, FONT.label, theme.ink2);
  }
  return times;
}

export function drawStrip(pen: CanvasPen, frame: StageFrame): void {
  const { geometry, theme, scene, rulers } = frame;
  const isPaired = rulers.length > 1;
  const { stripTop, stripHeight, rowsTop, lanesX, lanesWidth, gutter } = geometry;
  pen.fillRect(0, stripTop, geometry.width, rowsTop - stripTop, theme.bg);
  if (geometry.stripRows === 0) return;
  const rows: [name: string, draw: (pen: CanvasPen, frame: StageFrame, y: number) => void][] = [];
  if (scene.steps.length > 0) {
    const ofMedian = scene.ranks.length > 1 && !geometry.narrow && !isPaired;
    rows.push([ofMedian ? "steps, median rank" : "steps", drawSteps]);
  }
  if (scene.phases.length > 0) rows.push(["phases", drawPhases]);
  if (geometry.lateRow) {
    rows.push([geometry.narrow ? "comes last" : "who comes last", drawJobRibbon]);
  }
  // For two paired stages, these rows belong to the stage behind.
  const side = isPaired && !geometry.narrow ? `, ${rulers[0]!.name}` : "";
  const yOf = (row: number): number => stripTop + row * SIZE.steps;
  for (const [row, [name]] of rows.entries()) {
    pen.drawTruncated(name + side, 12, yOf(row) + TEXT_Y_PX, gutter - 20, FONT.label, theme.ink3);
  }
  pen.withClip(lanesX, stripTop, lanesWidth, stripHeight, () => {
    for (const [row, [, draw]] of rows.entries()) draw(pen, frame, yOf(row));
  });
  pen.verticalLine(lanesX - 1, stripTop, rowsTop, theme.rule);
  if (geometry.margin > 0) pen.verticalLine(lanesX + lanesWidth, stripTop, rowsTop, theme.rule);
}

function rangesInView(ranges: readonly SceneStep[], view: Span): SceneStep[] {
  return ranges.filter(({ start, dur }) => start < view[1] && start + dur > view[0]);
}

const STEP_HEIGHT_PX = 15;
const EDGE_WIDTH_PX = 2;
/** Distance from a text to the end of its step, and from its baseline to the top of the row. */
const INSET_PX = 6;
const TEXT_Y_PX = 11;

function drawSteps(pen: CanvasPen, frame: StageFrame, y: number): void {
  const { geometry, theme, scene, view } = frame;
  const tint = interpolateStops([theme.bg, theme.kind.annotation], theme.annotationTint);
  const left = geometry.lanesX;
  const right = left + geometry.lanesWidth;
  const textY = y + TEXT_Y_PX;
  let lastEdge = Number.NEGATIVE_INFINITY;
  for (const step of rangesInView(scene.steps, view)) {
    const x0 = xAtTime(geometry, view, step.start);
    const x1 = Math.min(xAtTime(geometry, view, step.start + step.dur), right);
    const from = Math.max(x0, left);
    pen.fillRect(from, y, Math.max(x1 - from - (x1 < right ? 1 : 0), 1), STEP_HEIGHT_PX, tint);
    if (x0 - lastEdge >= 2 * EDGE_WIDTH_PX) {
      pen.fillRect(x0, y, EDGE_WIDTH_PX, STEP_HEIGHT_PX, theme.kind.annotation);
      lastEdge = x0;
    }
    const startsBefore = x0 < left;
    const endsAfter = step.start + step.dur > view[1];
    const name = startsBefore ? `‹ ${step.name}` : step.name;
    // The number identifies the step, so the word before it is dropped first.
    const names = [name, name.replace(/[^#]*#/, "#")];
    const [textX, maxWidth] = [from + INSET_PX, x1 - from - 10];
    const width = pen.drawFirstFit(names, textX, textY, maxWidth, FONT.labelStrong, theme.ink);
    if (width === 0) continue;
    const end = endsAfter ? "›" : formatDuration(step.dur);
    // If a step starts before the view, its duration could be mistaken for its visible part's.
    const isClear = !startsBefore || endsAfter;
    if (isClear && pen.textWidth(end, FONT.label) <= x1 - from - width - 4 * INSET_PX) {
      pen.drawText(end, x1 - INSET_PX, textY, FONT.label, theme.ink2, "right");
    }
  }
}

function drawPhases(pen: CanvasPen, frame: StageFrame, y: number): void {
  const { geometry, theme, scene, view } = frame;
  const left = geometry.lanesX;
  const right = left + geometry.lanesWidth;
  let labelEnd = Number.NEGATIVE_INFINITY;
  for (const phase of rangesInView(scene.phases, view)) {
    const x0 = xAtTime(geometry, view, phase.start);
    const x1 = Math.min(xAtTime(geometry, view, phase.start + phase.dur), right);
    if (x1 - labelEnd < 3) continue;
    if (x0 >= left) pen.verticalLine(x0, y, y + 14, theme.ruleStrong);
    const from = Math.max(x0, left, labelEnd);
    const name = x0 < left ? `‹ ${phase.name}` : phase.name;
    if (x1 - from >= 26)
      pen.drawTruncated(name, from + 5, y + TEXT_Y_PX, x1 - from - 9, FONT.label, theme.ink2);
    labelEnd = x1;
  }
}

export function drawStepLines(pen: CanvasPen, frame: StageFrame, bottom: number): void {
  const { geometry, theme, scene, view } = frame;
  let last = Number.NEGATIVE_INFINITY;
  for (const { start } of scene.steps) {
    if (start <= view[0] || start >= view[1]) continue;
    const x = xAtTime(geometry, view, start);
    if (x - last < STEP_LINES_FROM_PX) continue;
    pen.dashedLine(x, geometry.rowsTop, bottom, theme.kind.annotation);
    last = x;
  }
}

const TICK_HEIGHT = 13;
/** Minimum width of a gap to contain a name, in CSS px. */
const MIN_NAME_PX = 5;
/** Minimum strength of a tick, so that even the shortest wait is visible. */
const MIN_STRENGTH = 0.18;

/** The tick of a last arrival, and the gaps before and after it. */
interface ArrivalTick {
  index: number;
  rank: number;
  waitNs: number;
  gapStart: number;
  x: number;
  width: number;
  gapEnd: number;
  color: string;
}

/** Draw the job's row: a tick and a name at each last arrival, red for late ranks. */
function drawJobRibbon(pen: CanvasPen, frame: StageFrame, y: number): void {
  const { geometry, theme, view, ribbon, lateness } = frame;
  const { lanesX, lanesWidth } = geometry;
  if (ribbon === null) return;
  if (ribbon.collectiveCount === 0) {
    const [text, textX] = ["no collectives matched", lanesX + INSET_PX];
    pen.drawTruncated(text, textX, y + TEXT_Y_PX, lanesWidth, FONT.label, theme.ink3);
    return;
  }
  const { bin: bins, ns, rank: ranks } = ribbon.jobArrivals;
  const xs = Array.from(bins, (bin) => xAtTime(geometry, view, timeOfBin(ribbon, bin)));
  const end = lanesX + lanesWidth;
  const ticks = xs.map((x, index): ArrivalTick => {
    const gapEnd = Math.min(xs[index + 1] ?? end, end);
    return {
      index,
      rank: ranks[index]!,
      waitNs: ns[index]!,
      gapStart: Math.max(index > 0 ? xs[index - 1]! + MARK_PX : lanesX, lanesX),
      x,
      width: Math.min(MARK_PX, Math.max(gapEnd - x, pen.hairline)),
      gapEnd,
      color: lateness?.late.has(ranks[index]!) === true ? theme.late : theme.ink3,
    };
  });
  const drawn = ticks.filter(({ waitNs, x }) => waitNs > 0 && x >= lanesX - MARK_PX && x <= end);
  for (const { waitNs, x, width, color } of drawn) {
    const strength = MIN_STRENGTH + (1 - MIN_STRENGTH) * delayStrength(waitNs, ribbon.jobMaxNs);
    pen.fillRect(x, y + 1, width, TICK_HEIGHT, interpolateStops([theme.bg, color], strength));
  }
  nameTicks(pen, drawn, y + TEXT_Y_PX);
}

/** Draw rank names before or after their ticks, longest waits first. A gap holds one name. */
function nameTicks(pen: CanvasPen, ticks: readonly ArrivalTick[], textY: number): void {
  const usedGaps = new Set<number>();
  const byWait = [...ticks].sort((a, b) => b.waitNs - a.waitNs || a.index - b.index);
  for (const { index, rank, gapStart, x, width, gapEnd, color } of byWait) {
    if (rank < 0) continue;
    const texts = [`rank ${rank}`, String(rank)];
    const [before, after] = [x - 2, x + width + 2];
    const places = [
      { gap: index, edge: after, maxWidth: gapEnd - after - 4, align: "left" },
      { gap: index - 1, edge: before, maxWidth: before - gapStart - 4, align: "right" },
    ] as const;
    const used = places.find(
      ({ gap, edge, maxWidth, align }) =>
        !usedGaps.has(gap) &&
        maxWidth >= MIN_NAME_PX &&
        pen.drawFirstFit(texts, edge, textY, maxWidth, FONT.label, color, align) > 0,
    );
    if (used !== undefined) usedGaps.add(used.gap);
  }
}

function maxAbs(start: number, end: number): number {
  return Math.max(Math.abs(start), Math.abs(end));
}

const MAX_TICKS = 9;
const MIN_STEP_NS = 1e-3;

/** Return at most `MAX_TICKS` ticks at round times whose labels of width `widthOf` do not touch. */
export function timeTicks(
  start: number,
  end: number,
  width: number,
  widthOf: (label: string) => number,
): { step: number; times: number[] } {
  const span = end - start;
  if (!(span > 0) || width <= 0) return { step: 1, times: [] };
  let step = Math.max(niceStep(span / MAX_TICKS), MIN_STEP_NS);
  const max = maxAbs(start, end);
  for (let tries = 0; tries < 6; tries += 1) {
    const label = formatAxis(max, step, max);
    if ((step / span) * width >= widthOf(label) + 20) break;
    step = niceStep(step * 1.5);
  }
  const times: number[] = [];
  const first = Math.ceil(start / step - 1e-9);
  const last = Math.floor(end / step + 1e-9);
  // Repeated addition would accumulate rounding errors.
  for (let index = first; index <= last; index += 1) times.push(index * step);
  return { step, times };
}
