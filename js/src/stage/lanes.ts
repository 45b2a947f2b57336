/** Draw lanes: ground, cells, events, counters, waits, missing data. */

import { type Ribbon, timeOfBin } from "../protocol/ribbon";
import type { SceneRank } from "../protocol/source";
import { FONT } from "../ui/theme";
import type { BandForm } from "./bands";
import { xAtTime } from "./camera";
import { type LaneWindow, pixelMapping, residualCells, SLOT_STATE } from "./lane_window";
import { type StagePaints, STEPS } from "./paints";
import type { StageFrame } from "./frame";
import type { CanvasPen } from "./pen";
import type { LaneRaster } from "./raster";
import type { PlacedRow } from "./rows";
import { levelOf } from "./tile_store";

/** All in device px; x from the left edge of the lanes. */
export interface LanePlacement extends RowPlacement {
  form: BandForm;
  /** Whether the page holds less detail of the rank than this view can show. */
  coarse: boolean;
  /** Whether the lane is drawn over another one, without a ground. */
  isOver?: boolean;
  /** Span in which any rank has data. */
  jobStart: number;
  jobEnd: number;
  /** Counters only. */
  valueRange: readonly [number, number] | null;
  /** Hue of host calls by name; null for one colour. */
  hue?: NameShader | null;
}

/** Rectangles begin at this width; shorter events are columns. */
const RECT_PX = 2;

const HATCH_PITCH = 5;

/** Overlays drawn over or under the events of a communication lane. */
interface OverlayWindows {
  wait: LaneWindow | null;
  late: LaneWindow | null;
  /** Whether this rank holds up the others. */
  isNamed: boolean;
}

const NO_OVERLAY_WINDOWS: OverlayWindows = { wait: null, late: null, isNamed: false };

export type NameShader = (name: number) => number;

export function drawLane(
  raster: LaneRaster,
  place: LanePlacement,
  lane: LaneWindow,
  paints: StagePaints,
  shade: NameShader | null,
  overlays: OverlayWindows = NO_OVERLAY_WINDOWS,
): void {
  if (place.isOver !== true) drawGround(raster, place, paints);
  if (place.y1 <= place.y0) return;
  // Below the lane's events: other calls may run during the wait.
  if (overlays.late !== null && !paints.byClass) {
    drawLate(raster, place, overlays.late, paints, overlays.isNamed);
  }
  if (lane.empty) return;
  if (place.form === "counter") {
    drawCounter(raster, place, lane, paints);
    return;
  }
  const minNs = RECT_PX * place.nsPerPx;
  drawColumns(raster, place, lane, paints, minNs);
  drawRects(raster, place, lane, paints, minNs, shade);
  if (overlays.wait !== null && !paints.byClass) drawWaits(raster, place, overlays.wait, paints);
}

/** Left and right end of the rank's data, in px. */
function dataExtent(raster: LaneRaster, place: LanePlacement): [number, number] {
  const xOf = (time: number) => Math.round((time - place.start) / place.nsPerPx);
  const from = Math.min(raster.width, Math.max(0, xOf(place.dataStart)));
  return [from, Math.max(from, Math.min(raster.width, xOf(place.dataEnd)))];
}

function drawGround(raster: LaneRaster, place: LanePlacement, paints: StagePaints): void {
  const [from, to] = dataExtent(raster, place);
  if (place.coarse) hatchPlacement(raster, place, paints, from, to);
  else raster.fillRect(from, place.y0, to, place.y1, paints.ground[place.form]);
}

function hatchPlacement(
  raster: LaneRaster,
  place: LanePlacement,
  paints: StagePaints,
  from: number,
  to: number,
): void {
  const pitch = Math.round(HATCH_PITCH * place.dpr);
  const thick = Math.max(1, Math.round(place.dpr));
  raster.hatchRect(
    from,
    place.y0,
    to,
    place.y1,
    paints.hatchGround,
    paints.hatchLine,
    pitch,
    thick,
  );
}

/** Hatch times at which other ranks have data and this one has none: they are not idle. */
export function drawNoDataHatch(
  raster: LaneRaster,
  place: LanePlacement,
  paints: StagePaints,
): void {
  const xOf = (time: number) => Math.round((time - place.start) / place.nsPerPx);
  const [from, to] = dataExtent(raster, place);
  const first = Math.max(0, xOf(place.jobStart));
  const last = Math.min(raster.width, xOf(place.jobEnd));
  hatchPlacement(raster, place, paints, first, from);
  hatchPlacement(raster, place, paints, to, last);
}

function drawColumns(
  raster: LaneRaster,
  place: LanePlacement,
  lane: LaneWindow,
  paints: StagePaints,
  minNs: number,
): void {
  const { share, counts } = residualCells(lane, minNs);
  const { cells, perPx, origin, first, last } = pixelMapping(lane, place, raster.width);
  const exact = paints.columns[place.form];
  const pending = paints.pendingColumns[place.form];
  const high = place.y1 - place.y0;
  const min = Math.min(high, Math.max(1, Math.round(place.dpr)));
  const { slots } = lane;
  const kind = paints.byClass ? lane.classes : lane.kind;
  for (let x = first; x < last; x += 1) {
    const from = origin + x * perPx;
    const to = from + perPx;
    const a = Math.max(0, Math.floor(from));
    const b = Math.min(cells - 1, Math.ceil(to) - 1);
    let covered = 0;
    let maxShare = -1;
    let hue = 255;
    let marked = false;
    for (let k = a; k <= b; k += 1) {
      if (counts[k]! <= 0) continue;
      // A cell marks the one pixel that holds its middle: a lone event is never two pixels wide.
      const isSampled = (k + 0.5 >= from || x === 0) && (k + 0.5 < to || x === raster.width - 1);
      if (isSampled) marked = true;
      const part = share[k]! * (Math.min(to, k + 1) - Math.max(from, k));
      if (part > 0) covered += part;
      if (part > maxShare && (isSampled || part > 0)) {
        maxShare = part;
        hue = kind[k]!;
      }
    }
    if (hue === 255) {
      if (!paints.byClass || maxShare < 0) continue;
      hue = paints.unknownClass;
    }
    let size = (covered / perPx) * high;
    if (marked && size < min) size = min;
    else if (size > high) size = high;
    if (size * STEPS < 0.5) continue;
    const ramp = slots[a >> 8] === SLOT_STATE.exact && !place.coarse ? exact : pending;
    raster.fillColumn(x, place.y1, size, ramp, hue * (STEPS + 1), STEPS);
  }
}

function drawRects(
  raster: LaneRaster,
  place: LanePlacement,
  lane: LaneWindow,
  paints: StagePaints,
  minNs: number,
  shade: NameShader | null,
): void {
  const { sliceStart, sliceDur, sliceName } = lane;
  const codes = paints.byClass ? lane.sliceClass : lane.sliceKind;
  const { y0, y1, dpr, start, nsPerPx, form } = place;
  const pitch = Math.round(HATCH_PITCH * dpr);
  const { width } = raster;
  const hueOf = (form === "pale" && place.hue) || null;
  const gap = Math.max(1, Math.round(dpr));
  const end = start + width * nsPerPx;
  for (let i = 0; i < lane.slices; i += 1) {
    const dur = sliceDur[i]!;
    const from = sliceStart[i]!;
    if (from >= end) break;
    if (dur < minNs || from + dur <= start) continue;
    const x0 = Math.max(-2, Math.round((from - start) / nsPerPx));
    const x1 = Math.min(width + 2, Math.round((from + dur - start) / nsPerPx));
    const right = x1 - x0 >= 3 * dpr ? x1 - gap : x1;
    const sliceCode = codes[i]!;
    const kind = paints.byClass && sliceCode === 255 ? paints.unknownClass : sliceCode;
    const code = kind * 3 + (shade === null ? 0 : shade(sliceName[i]!));
    if (right < x1) raster.fillRect(right, y0, x1, y1, paints.ground[form]);
    if (paints.hatched[kind] === 1) {
      raster.hatchRect(
        x0,
        y0,
        right,
        y1,
        paints.hatchedGround[kind]!,
        paints.solid[code]!,
        pitch,
        2 * gap,
      );
      raster.fillRect(x0, y0, Math.min(x0 + gap, right), y1, paints.solid[code]!);
      continue;
    }
    if (form !== "pale" && paints.isPale[kind] === 0) {
      raster.fillRect(x0, y0, right, y1, paints.solid[code]!);
      continue;
    }
    const edge = edgeWidth(x1 - x0, paints.edgePx[kind]!, dpr);
    const hue = hueOf !== null && kind === paints.host ? hueOf(sliceName[i]!) : -1;
    const line = hue < 0 ? paints.solid[code]! : paints.hostEdge[hue]!;
    const tint = hue < 0 ? paints.tint[code]! : paints.hostTint[hue]!;
    if (from >= start) {
      raster.fillRect(x0, y0, Math.min(x0 + edge, right), y1, line);
      raster.fillRect(x0 + edge, y0, right, y1, tint);
    } else {
      raster.fillRect(x0, y0, right, y1, tint);
    }
  }
}

/** The dark left edge, thinner on marks that it would fill. */
function edgeWidth(width: number, cssPx: number, dpr: number): number {
  if (width <= 8 * dpr) return Math.max(1, Math.round(dpr));
  return Math.max(1, Math.round(cssPx * dpr));
}

function drawCounter(
  raster: LaneRaster,
  place: LanePlacement,
  lane: LaneWindow,
  paints: StagePaints,
): void {
  const [low, high] = place.valueRange ?? [0, 1];
  const floor = Math.min(0, low);
  const scale = high > floor ? (place.y1 - place.y0 - 1) / (high - floor) : 0;
  const { cells, perPx, origin, first, last } = pixelMapping(lane, place, raster.width);
  const line = Math.max(1, Math.round(place.dpr));
  for (let x = first; x < last; x += 1) {
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
    raster.fillRect(x, bottom, x + 1, place.y1, paints.counterFill);
    raster.fillRect(x, top + line, x + 1, Math.max(bottom, top + line), paints.counterRange);
    raster.fillRect(x, top, x + 1, top + line, paints.counterLine);
  }
}

// Draw the waits of collectives: hatched over their rectangles, dotted before the last one.

/** Length and thickness of the dots of a line, and the space between them, CSS px. */
const DOT_PX = 2;

/** Draw a wait: its height is its share of the pixel's time, as for the event it is part of. */
export function drawWaits(
  raster: LaneRaster,
  place: LanePlacement,
  lane: LaneWindow,
  paints: StagePaints,
): void {
  if (lane.empty) return;
  const { y0, y1, dpr } = place;
  const pitch = Math.round(HATCH_PITCH * dpr);
  const thick = Math.max(1, Math.round(dpr));
  forEachColumn(raster, place, lane, (x, share) => {
    const size = Math.round(share * (y1 - y0));
    raster.hatchRect(x, y1 - size, x + 1, y1, paints.waitFill, paints.waitLine, pitch, thick);
  });
  forEachSlice(raster, place, lane, (x0, x1) => {
    raster.hatchRect(x0, y0, x1, y1, paints.waitFill, paints.waitLine, pitch, thick);
    strokeBox(raster, x0, x1, place, paints.waitLine);
  });
}

/**
 * Draw the time before a late kernel as a dotted line, from when the others had arrived to its
 * start; red if the rank `isNamed`. A rectangle would look like a kernel.
 */
export function drawLate(
  raster: LaneRaster,
  place: LanePlacement,
  lane: LaneWindow,
  paints: StagePaints,
  isNamed: boolean,
): void {
  if (lane.empty) return;
  const colour = isNamed ? paints.lateLine : paints.lastLine;
  const dot = Math.max(1, Math.round(DOT_PX * place.dpr));
  const top = Math.round((place.y0 + place.y1 - dot) / 2);
  forEachColumn(raster, place, lane, (x) => raster.fillRect(x, top, x + 1, top + dot, colour));
  forEachSlice(raster, place, lane, (x0, x1) => {
    for (let x = x0; x < x1; x += 2 * dot)
      raster.fillRect(x, top, Math.min(x + dot, x1), top + dot, colour);
  });
}

function strokeBox(
  raster: LaneRaster,
  x0: number,
  x1: number,
  place: LanePlacement,
  colour: number,
): void {
  const { y0, y1, dpr } = place;
  const line = Math.max(1, Math.round(dpr));
  raster.fillRect(x0, y0, x1, y0 + line, colour);
  raster.fillRect(x0, y1 - line, x1, y1, colour);
  raster.fillRect(x0, y0, x0 + line, y1, colour);
  raster.fillRect(x1 - line, y0, x1, y1, colour);
}

/** Rectangles of at least two pixels. */
function forEachSlice(
  raster: LaneRaster,
  { start, nsPerPx }: LanePlacement,
  { slices, sliceStart, sliceDur }: LaneWindow,
  draw: (x0: number, x1: number) => void,
): void {
  const end = start + raster.width * nsPerPx;
  for (let i = 0; i < slices; i += 1) {
    const from = sliceStart[i]!;
    const dur = sliceDur[i]!;
    if (from >= end) break;
    if (dur < RECT_PX * nsPerPx || from + dur <= start) continue;
    const x0 = Math.max(-2, Math.round((from - start) / nsPerPx));
    const x1 = Math.min(raster.width + 2, Math.round((from + dur - start) / nsPerPx));
    if (x1 > x0) draw(x0, x1);
  }
}

/**
 * Call `draw` for each pixel with the share covered by events too short for a rectangle, if not 0.
 */
function forEachColumn(
  raster: LaneRaster,
  place: LanePlacement,
  lane: LaneWindow,
  draw: (x: number, share: number) => void,
): void {
  const { share, counts } = residualCells(lane, RECT_PX * place.nsPerPx);
  const { cells, perPx, origin, first, last } = pixelMapping(lane, place, raster.width);
  for (let x = first; x < last; x += 1) {
    const from = origin + x * perPx;
    const to = from + perPx;
    const a = Math.max(0, Math.floor(from));
    const b = Math.min(cells - 1, Math.ceil(to) - 1);
    let covered = 0;
    for (let k = a; k <= b; k += 1) {
      if (counts[k]! <= 0 || share[k]! <= 0) continue;
      covered += share[k]! * (Math.min(to, k + 1) - Math.max(from, k));
    }
    if (covered > 0) draw(x, Math.min(1, covered / perPx));
  }
}

// Ribbons of lateness: a mark at each arrival at a collective; later arrivals are stronger.

/** Width of a mark if the next one leaves room, CSS px. */
export const MARK_PX = 2;

/** Strength of a lateness: its root, since values differ by orders of magnitude. */
export function delayStrength(ns: number, max: number): number {
  return max <= 0 ? 0 : Math.sqrt(Math.min(1, Math.max(0, ns / max)));
}

/** The entry of a ramp for a strength; the first one, the lane's own colour, only for 0. */
export function rampIndex(share: number, steps: number): number {
  return share <= 0 ? 0 : Math.max(1, Math.ceil(share * (steps - 1)));
}

/** A rank's row: place in device px, from the left edge of the lanes. */
interface RowPlacement {
  y0: number;
  y1: number;
  dpr: number;
  /** Time at x = 0 and ns per device px. */
  start: number;
  nsPerPx: number;
  /** Start of the rank's data. */
  dataStart: number;
  dataEnd: number;
}

/** Ground and marks of one rank's ribbon. */
export function drawRibbon(
  raster: LaneRaster,
  place: RowPlacement,
  ribbon: Ribbon | null,
  rank: number,
  paints: StagePaints,
): void {
  const { y0, y1, dpr, start, nsPerPx } = place;
  const x = (time: number) => Math.round((time - start) / nsPerPx);
  const [from, to] = [x(place.dataStart), x(place.dataEnd)];
  raster.fillRect(Math.max(0, from), y0, Math.min(raster.width, to), y1, paints.ribbon[0]!);
  const part = ribbon?.rangeOfRank.get(rank);
  if (ribbon === null || part === undefined) return;
  const width = Math.max(1, Math.round(MARK_PX * dpr));
  let next = raster.width;
  // From the right: each mark ends at the next one.
  for (let arrival = part.last - 1; arrival >= part.first; arrival -= 1) {
    const x = Math.floor((timeOfBin(ribbon, ribbon.rankArrivals.bin[arrival]!) - start) / nsPerPx);
    if (x >= raster.width) continue;
    if (x + width <= 0) break;
    const share = delayStrength(ribbon.rankArrivals.ns[arrival]!, ribbon.maxNs);
    if (share > 0) {
      const colour = paints.ribbon[rampIndex(share, paints.ribbon.length)]!;
      raster.fillRect(x, y0, Math.max(x + 1, Math.min(x + width, next)), y1, colour);
    }
    next = x;
  }
}

// Captions of the hatch: no data of the rank here, or less detail in the page than the view needs.

const NO_DATA = "no data";
const COARSE_CAPTION = "detail not embedded";
/** Lower rows show the hatch only. */
const CAPTION_FROM_PX = 18;
const PLATE_PX = 15;

/** Whether a view at `nsPerPx` ns per device px needs more detail than a saved page holds. */
export function isCoarse(rank: SceneRank, nsPerPx: number): boolean {
  return rank.overview_level !== undefined && levelOf(nsPerPx) < rank.overview_level;
}

export function drawNoData(pen: CanvasPen, frame: StageFrame): void {
  const { geometry, view, job, visible } = frame;
  const { lanesX, lanesWidth, dpr } = geometry;
  const nsPerPx = (view[1] - view[0]) / (lanesWidth * dpr);
  const xOfTime = (time: number) =>
    Math.min(Math.max(xAtTime(geometry, view, time), lanesX), lanesX + lanesWidth);
  for (const placed of visible.placed) {
    const { rank, track } = placed.row;
    if (track !== null) continue;
    const [start, end] = [xOfTime(rank.range[0]), xOfTime(rank.range[1])];
    drawNoDataCaption(pen, frame, placed, xOfTime(job[0]), start, false);
    drawNoDataCaption(pen, frame, placed, end, xOfTime(job[1]), rank.truncated !== null);
    const area = isCoarse(rank, nsPerPx) ? captionArea(placed, start, end) : null;
    // At the end, it hides the fewest events.
    if (area !== null) drawPlate(pen, frame, area, COARSE_CAPTION, 1);
  }
}

interface CaptionArea {
  x0: number;
  x1: number;
  top: number;
  height: number;
}

/** The lanes of a row between two x; null if there is no room, or if a part is scrolled away. */
function captionArea(placed: PlacedRow, x0: number, x1: number): CaptionArea | null {
  const bands = placed.row.bands();
  const first = bands[0];
  const last = bands[bands.length - 1];
  if (x1 - x0 < 2 || first === undefined || last === undefined) return null;
  const top = placed.y + first.top;
  const height = last.top + last.height - first.top;
  return top < placed.clipTop || top + height > placed.clipBottom ? null : { x0, x1, top, height };
}

function drawNoDataCaption(
  pen: CanvasPen,
  frame: StageFrame,
  placed: PlacedRow,
  x0: number,
  x1: number,
  isCut: boolean,
): void {
  const area = captionArea(placed, x0, x1);
  if (area === null) return;
  if (isCut) pen.strokeFrame(x0, area.top, x1 - x0, area.height, frame.theme.ruleStrong, 1);
  drawPlate(pen, frame, area, NO_DATA, 0.5);
}

/** Draw text on a plate, at this share of the area's width. */
function drawPlate(
  pen: CanvasPen,
  { theme }: StageFrame,
  { x0, x1, top, height }: CaptionArea,
  text: string,
  share: number,
): void {
  const width = pen.textWidth(text, FONT.label) + 10;
  if (height < CAPTION_FROM_PX || x1 - x0 < width + 8) return;
  const left = x0 + 4 + (x1 - x0 - width - 8) * share;
  const plate = top + Math.round((height - PLATE_PX) / 2);
  pen.fillRect(left, plate, width, PLATE_PX, theme.bg);
  pen.drawText(text, left + 5, plate + 11, FONT.label, theme.ink2);
}

// Ranks of MPI traces, which have no device events.

/** Whether a rank's rows show only MPI calls; its other time is work, not idleness. */
export function isMpi({ summary }: Pick<SceneRank, "summary">): boolean {
  const rows = summary.filter(({ role }) => role !== "cpu");
  return rows.length > 0 && rows.every(({ label }) => label === "MPI");
}
