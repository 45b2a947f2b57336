/** Draws one lane into the raster: ground, columns of cells, rectangles, counters. */

import { type LaneWindow, SLOT } from "../data/lane_window";
import type { Form } from "../layout/bands";
import { TILE_CELLS } from "../protocol/decode";
import { drawLate, drawWaits } from "./lateness";
import { type Paints, STEPS } from "./paints";
import type { RowPlace } from "./ribbon";
import type { LaneRaster } from "./svg/raster";
import { pixelsOf, residual } from "./residual";

/** All in device px; x from the left edge of the lanes. */
export interface LanePlace extends RowPlace {
  form: Form;
  /** Whether the page holds less detail of the rank than would be seen here. */
  coarse: boolean;
  /** Where anybody has data. */
  jobStart: number;
  jobEnd: number;
  /** Counters only. */
  valueRange: readonly [number, number] | null;
}

/** Rectangles begin at this width; shorter events are columns. */
const RECT_PX = 2;

const HATCH_PITCH = 5;

/** Counts what is drawn, for the frame's figures. */
export interface LaneCounts {
  rects: number;
}

/** What is drawn over, or under, the events of a lane of communication. */
export interface OverWindows {
  wait: LaneWindow | null;
  late: LaneWindow | null;
  /** Whether this is a rank that the others wait for. */
  named: boolean;
}

const NOTHING_OVER: OverWindows = { wait: null, late: null, named: false };

export type ShadeOfName = (name: number) => number;

export function drawLane(
  raster: LaneRaster,
  place: LanePlace,
  lane: LaneWindow,
  paints: Paints,
  shade: ShadeOfName | null,
  counted: LaneCounts,
  over: OverWindows = NOTHING_OVER,
): void {
  drawGround(raster, place, paints);
  if (place.y1 <= place.y0) return;
  // Under the lane's events: other calls may go on while this one is being waited for.
  if (over.late !== null && !paints.byClass) {
    drawLate(raster, place, over.late, paints, over.named);
  }
  if (lane.empty) return;
  if (place.form === "counter") {
    drawCounter(raster, place, lane, paints);
    return;
  }
  const leastNs = RECT_PX * place.resolution;
  drawColumns(raster, place, lane, paints, leastNs);
  counted.rects += drawRects(raster, place, lane, paints, leastNs, shade);
  if (over.wait !== null && !paints.byClass) drawWaits(raster, place, over.wait, paints);
}

/** Left and right end of the rank's data, in px. */
function dataExtent(raster: LaneRaster, place: LanePlace): [number, number] {
  const xOf = (time: number) => Math.round((time - place.start) / place.resolution);
  const from = Math.min(raster.width, Math.max(0, xOf(place.dataStart)));
  return [from, Math.max(from, Math.min(raster.width, xOf(place.dataEnd)))];
}

function drawGround(raster: LaneRaster, place: LanePlace, paints: Paints): void {
  const [from, to] = dataExtent(raster, place);
  if (place.coarse) hatch(raster, place, paints, from, to);
  else raster.rect(from, place.y0, to, place.y1, paints.ground[place.form]);
}

function hatch(
  raster: LaneRaster,
  place: LanePlace,
  paints: Paints,
  from: number,
  to: number,
): void {
  const pitch = Math.round(HATCH_PITCH * place.dpr);
  const thick = Math.max(1, Math.round(place.dpr));
  raster.hatch(from, place.y0, to, place.y1, paints.hatchGround, paints.hatchLine, pitch, thick);
}

/** Hatch where others have data and this rank has none: not the same as idle. */
export function drawBeyond(raster: LaneRaster, place: LanePlace, paints: Paints): void {
  const xOf = (time: number) => Math.round((time - place.start) / place.resolution);
  const [from, to] = dataExtent(raster, place);
  const first = Math.max(0, xOf(place.jobStart));
  const last = Math.min(raster.width, xOf(place.jobEnd));
  hatch(raster, place, paints, first, from);
  hatch(raster, place, paints, to, last);
}

function drawColumns(
  raster: LaneRaster,
  place: LanePlace,
  lane: LaneWindow,
  paints: Paints,
  leastNs: number,
): void {
  const { share, counts } = residual(lane, leastNs);
  const { cells, perPx, origin, first, last } = pixelsOf(lane, place, raster.width);
  const exact = paints.columns[place.form];
  const pending = paints.pendingColumns[place.form];
  const high = place.y1 - place.y0;
  const least = Math.min(high, Math.max(1, Math.round(place.dpr)));
  const { slots } = lane;
  const kind = paints.byClass ? lane.classes : lane.kind;
  for (let x = first; x < last; x += 1) {
    const from = origin + x * perPx;
    const to = from + perPx;
    const a = Math.max(0, Math.floor(from));
    const b = Math.min(cells - 1, Math.ceil(to) - 1);
    let covered = 0;
    let most = -1;
    let hue = 255;
    let marked = false;
    for (let k = a; k <= b; k += 1) {
      if (counts[k]! <= 0) continue;
      // A cell marks the one pixel that holds its middle: a lone event is never two pixels wide.
      const mine = (k + 0.5 >= from || x === 0) && (k + 0.5 < to || x === raster.width - 1);
      if (mine) marked = true;
      const part = share[k]! * (Math.min(to, k + 1) - Math.max(from, k));
      if (part > 0) covered += part;
      if (part > most && (mine || part > 0)) {
        most = part;
        hue = kind[k]!;
      }
    }
    if (hue === 255) {
      if (!paints.byClass || most < 0) continue;
      hue = paints.unknownClass;
    }
    let size = (covered / perPx) * high;
    if (marked && size < least) size = least;
    else if (size > high) size = high;
    if (size * STEPS < 0.5) continue;
    const ramp = slots[a >> 8] === SLOT.exact && !place.coarse ? exact : pending;
    raster.column(x, place.y1, size, ramp, hue * (STEPS + 1), STEPS);
  }
}

function drawRects(
  raster: LaneRaster,
  place: LanePlace,
  lane: LaneWindow,
  paints: Paints,
  leastNs: number,
  shade: ShadeOfName | null,
): number {
  const { sliceStart, sliceDur, sliceName } = lane;
  const codes = paints.byClass ? lane.sliceClass : lane.sliceKind;
  const { y0, y1, dpr, start, resolution, form } = place;
  const pitch = Math.round(HATCH_PITCH * dpr);
  const { width } = raster;
  const gap = Math.max(1, Math.round(dpr));
  const end = start + width * resolution;
  let rects = 0;
  for (let i = 0; i < lane.slices; i += 1) {
    const dur = sliceDur[i]!;
    const from = sliceStart[i]!;
    if (from >= end) break;
    if (dur < leastNs || from + dur <= start) continue;
    const x0 = Math.max(-2, Math.round((from - start) / resolution));
    const x1 = Math.min(width + 2, Math.round((from + dur - start) / resolution));
    const right = x1 - x0 >= 3 * dpr ? x1 - gap : x1;
    const found = codes[i]!;
    const kind = paints.byClass && found === 255 ? paints.unknownClass : found;
    const code = kind * 3 + (shade === null ? 0 : shade(sliceName[i]!));
    rects += 1;
    if (right < x1) raster.rect(right, y0, x1, y1, paints.ground[form]);
    if (paints.hatched[kind] === 1) {
      raster.hatch(
        x0,
        y0,
        right,
        y1,
        paints.hatchedGround[kind]!,
        paints.solid[code]!,
        pitch,
        2 * gap,
      );
      raster.rect(x0, y0, Math.min(x0 + gap, right), y1, paints.solid[code]!);
      continue;
    }
    if (form !== "pale" && paints.isPale[kind] === 0) {
      raster.rect(x0, y0, right, y1, paints.solid[code]!);
      continue;
    }
    const edge = edgeWidth(x1 - x0, paints.edgePx[kind]!, dpr);
    if (from >= start) {
      raster.rect(x0, y0, Math.min(x0 + edge, right), y1, paints.edge[code]!);
      raster.rect(x0 + edge, y0, right, y1, paints.tint[code]!);
    } else {
      raster.rect(x0, y0, right, y1, paints.tint[code]!);
    }
  }
  return rects;
}

/** The dark left edge, thinner on marks that it would fill. */
function edgeWidth(width: number, cssPx: number, dpr: number): number {
  if (width <= 8 * dpr) return Math.max(1, Math.round(dpr));
  return Math.max(1, Math.round(cssPx * dpr));
}

function drawCounter(raster: LaneRaster, place: LanePlace, lane: LaneWindow, paints: Paints): void {
  const [low, high] = place.valueRange ?? [0, 1];
  const floor = Math.min(0, low);
  const scale = high > floor ? (place.y1 - place.y0 - 1) / (high - floor) : 0;
  const perPx = place.resolution / lane.cell;
  const origin = (place.start - lane.start) / lane.cell;
  const cells = (lane.last - lane.first) * TILE_CELLS;
  const line = Math.max(1, Math.round(place.dpr));
  for (let x = 0; x < raster.width; x += 1) {
    const from = origin + x * perPx;
    const a = Math.max(0, Math.floor(from));
    const b = Math.min(cells - 1, Math.ceil(from + perPx) - 1);
    let min = Number.POSITIVE_INFINITY;
    let max = Number.NEGATIVE_INFINITY;
    for (let k = a; k <= b; k += 1) {
      if (lane.min[k]! < min) min = lane.min[k]!;
      if (lane.max[k]! > max) max = lane.max[k]!;
    }
    if (max < min) continue;
    const top = place.y1 - line - Math.round((max - floor) * scale);
    const bottom = place.y1 - Math.round((min - floor) * scale);
    raster.rect(x, bottom, x + 1, place.y1, paints.counterFill);
    raster.rect(x, top, x + 1, Math.max(bottom, top + line), paints.counterLine);
  }
}
