/** Draw lanes: background, cells, events, counters, waits, missing data. */

import { NO_CODE, TILE_CELLS } from "../protocol/decode";
import { type Ribbon, timeOfBin } from "../protocol/ribbon";
import type { SceneRank } from "../protocol/source";
import { FONT } from "../ui/theme";
import type { BandForm } from "./bands";
import { xAtTime } from "./camera";
import {
  cellsOfPixel,
  type LaneWindow,
  pixelMapping,
  type Residual,
  residualCells,
  SLOT_STATE,
} from "./lane_window";
import { SHADES, type StagePaints, STEPS } from "./paints";
import type { StageFrame } from "./frame";
import type { CanvasPen } from "./pen";
import type { Hatch, LaneRaster } from "./raster";
import type { PlacedRow } from "./rows";
import { levelOf } from "./tile_store";

/** A row's position in device px, and its time scale. x = 0 is the left edge of the lanes. */
export interface RowPlacement {
  y0: number;
  y1: number;
  dpr: number;
  /** Time at x = 0, and ns per device px. */
  start: number;
  nsPerPx: number;
  /** When this rank has data, and when any rank has data. */
  dataStart: number;
  dataEnd: number;
  jobStart: number;
  jobEnd: number;
  /** Whether the page has less detail of this rank than the view could show. */
  coarse: boolean;
  /** Hue of host calls by name; null if they have a single color. */
  hue?: NameShader | null;
}

export interface LanePlacement extends RowPlacement {
  form: BandForm;
  /** Whether the lane is drawn over another lane, without a background. */
  isOver?: boolean;
  /** For counters only. */
  valueRange: readonly [number, number] | null;
}

/** Minimum width of a rectangle. Shorter events are drawn as columns. */
const RECT_PX = 2;

const HATCH_PITCH = 5;

/** Size of a dotted line's dots and of the space between them, in CSS px. */
const DOT_PX = 2;

/** Overlays drawn over or under the events of a communication lane. */
interface OverlayWindows {
  wait: LaneWindow | null;
  late: LaneWindow | null;
  /** Whether this rank makes the rest of the job wait. */
  isNamed: boolean;
}

const NO_OVERLAY_WINDOWS: OverlayWindows = { wait: null, late: null, isNamed: false };

// Ribbons of lateness: one mark per arrival at a collective. Later arrivals have stronger marks.

/** Width of a mark in CSS px, unless the next mark starts before its end. */
export const MARK_PX = 2;

/** Return the strength of a delay: a square root, as delays vary by orders of magnitude. */
export function delayStrength(ns: number, max: number): number {
  return max <= 0 ? 0 : Math.sqrt(Math.min(1, Math.max(0, ns / max)));
}

/** Return the index into a ramp. Index 0, the color of the lane, is used only if the share is 0. */
export function rampIndex(share: number, steps: number): number {
  return share <= 0 ? 0 : Math.max(1, Math.ceil(share * (steps - 1)));
}

export type NameShader = (name: number) => number;

export class LanePainter {
  constructor(
    private readonly raster: LaneRaster,
    private readonly paints: StagePaints,
  ) {}

  drawLane(
    place: LanePlacement,
    lane: LaneWindow,
    shade: NameShader | null,
    { wait, late, isNamed }: OverlayWindows = NO_OVERLAY_WINDOWS,
  ): void {
    const { byClass } = this.paints;
    if (place.isOver !== true) this.drawGround(place);
    if (place.y1 <= place.y0) return;
    // Delays are drawn below the events, because other calls may run during a delay.
    if (late !== null && !byClass) this.drawLate(place, late, isNamed);
    if (lane.empty) return;
    if (place.form === "counter") {
      this.drawCounter(place, lane);
      return;
    }
    this.drawColumns(place, lane);
    this.drawRects(place, lane, shade);
    if (wait !== null && !byClass) this.drawWaits(place, wait);
  }

  /** Return the device pixel of a time, clipped to the lanes. */
  private xOf(place: RowPlacement, time: number): number {
    const x = Math.round((time - place.start) / place.nsPerPx);
    return Math.min(this.raster.width, Math.max(0, x));
  }

  private drawGround(place: LanePlacement): void {
    const [from, to] = [this.xOf(place, place.dataStart), this.xOf(place, place.dataEnd)];
    if (place.coarse) this.hatchMissing(place, from, to);
    else this.raster.fillRect(from, place.y0, to, place.y1, this.paints.ground[place.form]);
  }

  private hatchMissing(place: RowPlacement, from: number, to: number): void {
    const { hatchGround: ground, hatchLine: line } = this.paints;
    this.raster.hatchRect(from, place.y0, to, place.y1, hatchOf(place, ground, line));
  }

  /** Hatch the times with data only on other ranks: this rank may not be idle then. */
  drawNoDataHatch(place: RowPlacement): void {
    const { jobStart, dataStart, dataEnd, jobEnd } = place;
    this.hatchMissing(place, this.xOf(place, jobStart), this.xOf(place, dataStart));
    this.hatchMissing(place, this.xOf(place, dataEnd), this.xOf(place, jobEnd));
  }

  /** Draw a column for each pixel with events that are too short for a rectangle. */
  private drawColumns(place: LanePlacement, lane: LaneWindow): void {
    const { raster, paints } = this;
    const cells = residualCells(lane, RECT_PX * place.nsPerPx);
    const codes = paints.byClass ? lane.classes : lane.kind;
    const height = place.y1 - place.y0;
    const hairlinePx = Math.min(height, hairline(place));
    const exact = paints.columns[place.form];
    const pending = paints.pendingColumns[place.form];
    const mapping = pixelMapping(lane, place, raster.width);
    for (let x = mapping.first; x < mapping.last; x += 1) {
      const pixel = cellsOfPixel(mapping, x);
      const { covered, code, isMarked } = this.columnOf(pixel, cells, codes);
      if (code === NO_CODE) continue;
      const minSize = isMarked ? hairlinePx : 0;
      const size = Math.min(Math.max((covered / mapping.cellsPerPx) * height, minSize), height);
      if (size * STEPS < 0.5) continue;
      const slot = Math.floor(pixel.first / TILE_CELLS);
      const ramp = lane.slots[slot] === SLOT_STATE.exact && !place.coarse ? exact : pending;
      raster.fillColumn(x, place.y1, size, ramp, code * (STEPS + 1), STEPS);
    }
  }

  /**
   * Return how much of a pixel is covered, in cells; the kind or class with the most weight
   * (`NO_CODE` without events); and whether the pixel must be visible: it contains a cell's middle.
   */
  private columnOf(pixel: ReturnType<typeof cellsOfPixel>, cells: Residual, codes: Uint8Array) {
    const { x, from, to, first, last } = pixel;
    const { share, counts } = cells;
    const { byClass, columnWeights, unknownClass } = this.paints;
    const isLastPixel = x === this.raster.width - 1;
    let covered = 0;
    let maxWeight = -1;
    let code: number = NO_CODE;
    let isMarked = false;
    for (let k = first; k <= last; k += 1) {
      if (counts[k]! <= 0) continue;
      // A cell marks only the pixel at its middle, so that a single event is never 2 px wide.
      const isSampled = (k + 0.5 >= from || x === 0) && (k + 0.5 < to || isLastPixel);
      if (isSampled) isMarked = true;
      const part = share[k]! * (Math.min(to, k + 1) - Math.max(from, k));
      if (part > 0) covered += part;
      const weight = part * (columnWeights[codes[k]!] ?? 1);
      if (weight > maxWeight && (isSampled || part > 0)) {
        maxWeight = weight;
        code = codes[k]!;
      }
    }
    if (code === NO_CODE && byClass && maxWeight >= 0) code = unknownClass;
    return { covered, code, isMarked };
  }

  private drawRects(place: LanePlacement, lane: LaneWindow, shade: NameShader | null): void {
    const { raster, paints } = this;
    const { sliceStart, sliceName } = lane;
    const codes = paints.byClass ? lane.sliceClass : lane.sliceKind;
    const { y0, y1, dpr, start, form } = place;
    const hueOf = (form === "pale" && place.hue) || null;
    const gap = hairline(place);
    this.forEachSlice(place, lane, (x0, x1, slice) => {
      const right = x1 - x0 >= 3 * dpr ? x1 - gap : x1;
      const code = codes[slice]!;
      const kind = paints.byClass && code === NO_CODE ? paints.unknownClass : code;
      const color = kind * SHADES + (shade === null ? 0 : shade(sliceName[slice]!));
      const solid = paints.solid[color]!;
      if (right < x1) raster.fillRect(right, y0, x1, y1, paints.ground[form]);
      if (paints.hatched[kind] === 1) {
        const hatch = hatchOf(place, paints.hatchedGround[kind]!, solid);
        raster.hatchRect(x0, y0, right, y1, { ...hatch, thickness: 2 * gap });
        raster.fillRect(x0, y0, Math.min(x0 + gap, right), y1, solid);
      } else if (form !== "pale" && paints.isPale[kind] === 0) {
        raster.fillRect(x0, y0, right, y1, solid);
      } else {
        const hue = hueOf !== null && kind === paints.host ? hueOf(sliceName[slice]!) : null;
        const line = hue === null ? solid : paints.hostEdge[hue]!;
        const tint = hue === null ? paints.tint[color]! : paints.hostTint[hue]!;
        // The edge marks an event's start, so an event that begins before the view has no edge.
        const isStartVisible = sliceStart[slice]! >= start;
        const edge = isStartVisible ? edgeWidth(x1 - x0, paints.edgePx[kind]!, dpr) : 0;
        raster.fillRect(x0, y0, Math.min(x0 + edge, right), y1, line);
        raster.fillRect(x0 + edge, y0, right, y1, tint);
      }
    });
  }

  private drawCounter(place: LanePlacement, lane: LaneWindow): void {
    const { raster, paints } = this;
    const [low, high] = place.valueRange ?? [0, 1];
    const base = Math.min(0, low);
    const pxPerUnit = high > base ? (place.y1 - place.y0 - 1) / (high - base) : 0;
    const line = hairline(place);
    const mapping = pixelMapping(lane, place, raster.width);
    for (let x = mapping.first; x < mapping.last; x += 1) {
      const { first, last } = cellsOfPixel(mapping, x);
      let [min, max] = [Infinity, -Infinity];
      for (let k = first; k <= last; k += 1) {
        if (lane.min[k]! < min) min = lane.min[k]!;
        if (lane.max[k]! > max) max = lane.max[k]!;
      }
      if (max < min) continue;
      const top = place.y1 - line - Math.round((max - base) * pxPerUnit);
      const bottom = place.y1 - Math.round((min - base) * pxPerUnit);
      raster.fillRect(x, bottom, x + 1, place.y1, paints.counterFill);
      raster.fillRect(x, top + line, x + 1, Math.max(bottom, top + line), paints.counterRange);
      raster.fillRect(x, top, x + 1, top + line, paints.counterLine);
    }
  }

  /** Draw waits over their events. The height of a short wait is its share of the pixel's time. */
  drawWaits(place: LanePlacement, lane: LaneWindow): void {
    if (lane.empty) return;
    const { y0, y1 } = place;
    const { waitFill, waitLine } = this.paints;
    const hatch = hatchOf(place, waitFill, waitLine);
    this.forEachColumn(place, lane, (x, share) =>
      this.raster.hatchRect(x, y1 - Math.round(share * (y1 - y0)), x + 1, y1, hatch),
    );
    this.forEachSlice(place, lane, (x0, x1) => {
      this.raster.hatchRect(x0, y0, x1, y1, hatch);
      this.strokeBox(x0, x1, place, waitLine);
    });
  }

  /** Draw the delay before each late kernel as a dotted line, red if `isNamed`. */
  drawLate(place: LanePlacement, lane: LaneWindow, isNamed: boolean): void {
    if (lane.empty) return;
    const { raster } = this;
    const color = isNamed ? this.paints.lateLine : this.paints.lastLine;
    const dot = Math.max(1, Math.round(DOT_PX * place.dpr));
    const top = Math.round((place.y0 + place.y1 - dot) / 2);
    this.forEachColumn(place, lane, (x) => raster.fillRect(x, top, x + 1, top + dot, color));
    const pitch = 2 * dot;
    this.forEachSlice(place, lane, (x0, x1) => {
      // All dots are on one grid. Otherwise, dots of overlapping delays would form a solid line.
      const first = x1 - x0 < pitch ? x0 : Math.floor(x0 / pitch) * pitch;
      for (let x = first; x < x1; x += pitch)
        raster.fillRect(Math.max(x, x0), top, Math.min(x + dot, x1), top + dot, color);
    });
  }

  private strokeBox(x0: number, x1: number, place: LanePlacement, color: number): void {
    const { raster } = this;
    const { y0, y1 } = place;
    const line = hairline(place);
    raster.fillRect(x0, y0, x1, y0 + line, color);
    raster.fillRect(x0, y1 - line, x1, y1, color);
    raster.fillRect(x0, y0, x0 + line, y1, color);
    raster.fillRect(x1 - line, y0, x1, y1, color);
  }

  /** Call `draw` for each visible slice that is wide enough for a rectangle. */
  private forEachSlice(
    { start, nsPerPx }: LanePlacement,
    { slices, sliceStart, sliceDur }: LaneWindow,
    draw: (x0: number, x1: number, slice: number) => void,
  ): void {
    const { width } = this.raster;
    const end = start + width * nsPerPx;
    for (let slice = 0; slice < slices; slice += 1) {
      const from = sliceStart[slice]!;
      const dur = sliceDur[slice]!;
      if (from >= end) break;
      if (dur < RECT_PX * nsPerPx || from + dur <= start) continue;
      const x0 = Math.max(-2, Math.round((from - start) / nsPerPx));
      const x1 = Math.min(width + 2, Math.round((from + dur - start) / nsPerPx));
      draw(x0, x1, slice);
    }
  }

  /** Call `draw` for each pixel with events too short for a rectangle, and their covered share. */
  private forEachColumn(
    place: LanePlacement,
    lane: LaneWindow,
    draw: (x: number, share: number) => void,
  ): void {
    const { share, counts } = residualCells(lane, RECT_PX * place.nsPerPx);
    const mapping = pixelMapping(lane, place, this.raster.width);
    for (let x = mapping.first; x < mapping.last; x += 1) {
      const { from, to, first, last } = cellsOfPixel(mapping, x);
      let covered = 0;
      for (let k = first; k <= last; k += 1) {
        if (counts[k]! <= 0 || share[k]! <= 0) continue;
        covered += share[k]! * (Math.min(to, k + 1) - Math.max(from, k));
      }
      if (covered > 0) draw(x, Math.min(1, covered / mapping.cellsPerPx));
    }
  }

  drawRibbon(place: RowPlacement, ribbon: Ribbon | null, rank: number): void {
    const { raster, paints } = this;
    const { y0, y1, dpr, start, nsPerPx } = place;
    const [from, to] = [this.xOf(place, place.dataStart), this.xOf(place, place.dataEnd)];
    raster.fillRect(from, y0, to, y1, paints.ribbon[0]!);
    const arrivals = ribbon?.rangeOfRank.get(rank);
    if (ribbon === null || arrivals === undefined) return;
    const width = Math.max(1, Math.round(MARK_PX * dpr));
    let next = raster.width;
    // From right to left, because each mark ends where the next one starts.
    for (let arrival = arrivals.last - 1; arrival >= arrivals.first; arrival -= 1) {
      const x = Math.floor(
        (timeOfBin(ribbon, ribbon.rankArrivals.bin[arrival]!) - start) / nsPerPx,
      );
      if (x >= raster.width) continue;
      if (x + width <= 0) break;
      const share = delayStrength(ribbon.rankArrivals.ns[arrival]!, ribbon.maxNs);
      if (share > 0) {
        const color = paints.ribbon[rampIndex(share, paints.ribbon.length)]!;
        raster.fillRect(x, y0, Math.max(x + 1, Math.min(x + width, next)), y1, color);
      }
      next = x;
    }
  }
}

function hairline({ dpr }: RowPlacement): number {
  return Math.max(1, Math.round(dpr));
}

function hatchOf(place: RowPlacement, ground: number, line: number): Hatch {
  const pitch = Math.round(HATCH_PITCH * place.dpr);
  return { ground, line, pitch, thickness: hairline(place) };
}

/** Return the width of the dark left edge, which is thinner on narrow marks. */
function edgeWidth(width: number, cssPx: number, dpr: number): number {
  if (width <= 8 * dpr) return Math.max(1, Math.round(dpr));
  return Math.max(1, Math.round(cssPx * dpr));
}

// Captions of hatched areas: no data of this rank, or less detail in the page than the view needs.

const NO_DATA = "no data";
const COARSE_CAPTION = "detail not embedded";
/** Minimum height of rows with captions. */
const CAPTION_FROM_PX = 18;
const PLATE_PX = 15;

/** Return whether a view at `nsPerPx` ns per device px needs more detail than the page has. */
export function isCoarse(rank: SceneRank, nsPerPx: number): boolean {
  return rank.overview_level !== undefined && levelOf(nsPerPx) < rank.overview_level;
}

/** Draw captions where a rank has no data or a saved page has too little detail. */
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
    const lanesArea = isCoarse(rank, nsPerPx) ? captionArea(placed, start, end) : null;
    // At the right end, the plate hides the fewest events.
    if (lanesArea !== null) drawPlate(pen, frame, lanesArea, COARSE_CAPTION, 1);
  }
}

interface CaptionArea {
  x0: number;
  x1: number;
  top: number;
  height: number;
}

/** Return a row's lanes between two x; null if too narrow or partly scrolled away. */
function captionArea(placed: PlacedRow, x0: number, x1: number): CaptionArea | null {
  const bands = placed.row.bands();
  const [first, last] = [bands[0], bands.at(-1)];
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

/** Draw text on a plate at this share of the area's width. */
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
