/** Paint the parts of a frame that have changed. */

import type { Ribbon } from "../protocol/ribbon";
import type { Classes, Overlay, Scene, Span } from "../protocol/source";
import { LABEL_FROM_PX } from "../ui/text";
import { FONT, type Theme } from "../ui/theme";
import { type Geometry, xAtTime } from "./camera";
import { drawGutter } from "./gutter";
import { drawAxis, drawMinimap, drawStepLines, drawStrip } from "./head";
import type { LaneWindow } from "./lane_window";
import {
  drawBeyond,
  drawLane,
  drawNoData,
  drawRibbon,
  isCoarse,
  type LanePlace,
  type LatenessByRank,
  type ShadeOfName,
  type StatsByRank,
} from "./lanes";
import { drawMargin } from "./margin";
import { drawOverlay } from "./overlay";
import { hueOf, type Paints, shadeOf } from "./paints";
import { Pen } from "./pen";
import { type LaneRaster, Raster } from "./raster";
import type { Layout } from "./rows";
import type { LaneSpot, Sightings } from "./rows_view";
import type { LaneWindows, PlacedMarks } from "./tile_loader";

/** Lanes lower than this have no labels: the letters would touch both edges. */
const LABEL_FROM_HEIGHT = 12;

/** Everything that a picture shows, apart from its canvases. */
export interface Frame {
  geometry: Geometry;
  theme: Theme;
  paints: Paints;
  /** Classes by which events are coloured; null: by kind or name. */
  classes: Classes | null;
  scene: Scene;
  job: Span;
  view: Span;
  layout: Layout;
  sight: Sightings;
  windows: LaneWindows;
  stats: StatsByRank | null;
  /** Whether the figures are of an earlier view. */
  isStale: boolean;
  lateness: LatenessByRank | null;
  ribbon: Ribbon | null;
  minimap: HTMLCanvasElement | null;
  /** Whether events have shades by name, and host calls hues. */
  byName: boolean;
  hasHues: boolean;
  overlay: Overlay;
  searched: PlacedMarks | null;
  chosen: PlacedMarks | null;
}

export class Painter {
  readonly base = document.createElement("canvas");
  readonly over = document.createElement("canvas");
  private pen = penOn(this.base, { alpha: false });
  private overPen = penOn(this.over, {});
  private raster: Raster | null = null;

  constructor() {
    for (const canvas of [this.base, this.over]) {
      Object.assign(canvas.style, { position: "absolute", left: "0", top: "0", display: "block" });
    }
    this.over.style.pointerEvents = "none";
  }

  resize(geometry: Geometry): void {
    const { width, height, dpr } = geometry;
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.max(1, Math.round(width * dpr));
      canvas.height = Math.max(1, Math.round(height * dpr));
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    this.pen = new Pen(this.pen.ctx, dpr);
    this.overPen = new Pen(this.overPen.ctx, dpr);
    const { across, down } = lanesBox(geometry);
    this.raster = across > 0 && down > 0 ? new Raster(across, down) : null;
  }

  /** Paint what has changed; returns the number of lanes. */
  paint(frame: Frame, dirty: ReadonlySet<Part>): number {
    const { pen, overPen, raster } = this;
    const { width, height } = frame.geometry;
    if (dirty.has("overlay")) overPen.ctx.clearRect(0, 0, width, height);
    const { left, top } = lanesBox(frame.geometry);
    return paintParts(frame, dirty, pen, overPen, raster, () => {
      if (raster !== null) pen.ctx.putImageData(raster.image, left, top);
    });
  }
}

/** The lanes' place on the canvas, in device px. */
export function lanesBox({ dpr, lanesX, lanesWidth, rowsTop, rowsHeight }: Geometry) {
  const [left, top] = [Math.round(lanesX * dpr), Math.round(rowsTop * dpr)];
  const across = Math.round((lanesX + lanesWidth) * dpr) - left;
  const down = Math.round((rowsTop + rowsHeight) * dpr) - top;
  return { left, top, across, down };
}

/** Paint parts of a frame; `put` copies the raster to the canvas. Returns the number of lanes. */
export function paintParts(
  frame: Frame,
  dirty: ReadonlySet<Part>,
  pen: Pen,
  overPen: Pen,
  raster: LaneRaster | null,
  put?: () => void,
): number {
  let painted = 0;
  const head = dirty.has("head");
  if (head) {
    drawMinimap(pen, frame);
    drawStrip(pen, frame);
  }
  if (dirty.has("gutter")) drawGutter(pen, frame);
  if (dirty.has("lanes") || head) {
    const ticks = drawAxis(pen, frame);
    if (raster !== null) {
      rasterise(raster, frame);
      put?.();
      drawOnLanes(pen, frame, ticks);
      painted = frame.sight.spots.length;
    }
  }
  if (dirty.has("margin") || head) drawMargin(pen, frame);
  drawStickyEdge(pen, frame);
  if (dirty.has("overlay")) drawOverlay(overPen, frame);
  return painted;
}

/** Draw lines, captions and labels over the rasterised lanes. */
function drawOnLanes(pen: Pen, frame: Frame, ticks: readonly number[]): void {
  const { geometry, theme, sight, view } = frame;
  const { lanesX, lanesWidth, rowsTop, rowsHeight } = geometry;
  pen.clipped(lanesX, rowsTop, lanesWidth, rowsHeight, () => {
    const { bottom } = sight;
    for (const time of ticks) {
      if (time <= view[0]) continue;
      pen.vertical(xAtTime(geometry, view, time), rowsTop, bottom, `${theme.ruleStrong}30`);
    }
    drawStepLines(pen, frame, bottom);
    drawNoData(pen, frame);
    const shade = shadeIn(frame);
    for (const spot of sight.spots) label(pen, frame, spot, shade);
  });
}

function shadeIn({ byName, paints, windows }: Frame): ShadeOfName | null {
  const { hashes } = windows.store;
  return byName && !paints.byClass ? (name) => shadeOf(hashes[name]!) : null;
}

function rasterise(raster: LaneRaster, lanes: Frame): void {
  const { geometry, paints, sight, view, job, windows } = lanes;
  const { dpr, rowsTop } = geometry;
  const { hashes } = windows.store;
  const shade = shadeIn(lanes);
  const px = (y: number) => Math.round((y - rowsTop) * dpr);
  raster.clip(0, raster.height);
  raster.rect(0, 0, raster.width, raster.height, paints.bg);
  const place: LanePlace = {
    form: "solid",
    y0: 0,
    y1: 0,
    dpr,
    start: view[0],
    resolution: (view[1] - view[0]) / raster.width,
    dataStart: 0,
    dataEnd: 0,
    coarse: false,
    jobStart: job[0],
    jobEnd: job[1],
    valueRange: null,
    hue: lanes.hasHues ? (name) => hueOf(hashes[name]!) : null,
  };
  const line = Math.max(1, Math.round(dpr));
  raster.rect(0, px(sight.bottom), raster.width, px(sight.bottom) + line, paints.rule);
  let at = 0;
  for (const placed of sight.placed) {
    const { row, y, clipTop, clipBottom } = placed;
    raster.clip(px(clipTop), px(clipBottom));
    const top = px(y);
    const late = lanes.lateness?.late.has(row.rank.rank) ?? false;
    raster.rect(0, top, raster.width, px(y + row.height), late ? paints.lateGround : paints.bg);
    if (row.track === null) raster.rect(0, top, raster.width, top + line, paints.rule);
    [place.dataStart, place.dataEnd] = row.rank.range;
    place.coarse = isCoarse(row.rank, place.resolution);
    const bands = row.bands();
    const last = bands[bands.length - 1];
    if (last !== undefined) {
      place.y0 = px(y + bands[0]!.top);
      place.y1 = px(y + last.top + last.height);
      drawBeyond(raster, place, paints);
    }
    const ribbon = row.ribbon();
    if (ribbon !== null) {
      place.y0 = px(y + ribbon.top);
      place.y1 = px(y + ribbon.top + ribbon.height);
      drawRibbon(raster, place, lanes.ribbon, row.rank.rank, paints);
    }
    for (; at < sight.spots.length && sight.spots[at]!.placed === placed; at += 1) {
      const { band, y: bandY } = sight.spots[at]!;
      const window = lanes.windows.get(band.lane);
      if (window === null) continue;
      place.form = band.form;
      place.y0 = px(bandY);
      place.y1 = Math.max(place.y0 + 1, px(bandY + band.height));
      place.valueRange = band.track?.range ?? null;
      const { over } = band;
      const known = over !== undefined && lanes.lateness !== null;
      drawLane(raster, place, window, paints, shade, {
        wait: known ? lanes.windows.get(over.wait) : null,
        late: known ? lanes.windows.get(over.late) : null,
        named: late,
      });
    }
  }
}

/** Names on the rectangles of a lane that have room for them. */
function label(pen: Pen, lanes: Frame, spot: LaneSpot, shade: ShadeOfName | null): void {
  const { band, y, top, bottom } = spot;
  if (band.height < LABEL_FROM_HEIGHT || band.form === "bar" || band.form === "counter") return;
  // A name that is partly scrolled away would be cut.
  if (bottom - top < band.height - 2) return;
  const lane = lanes.windows.get(band.lane);
  if (lane === null || lane.slices === 0) return;
  const { geometry, view, paints, theme } = lanes;
  const { lanesX, lanesWidth } = geometry;
  const perPx = (view[1] - view[0]) / lanesWidth;
  const least = LABEL_FROM_PX * perPx;
  const fitter = pen.fitter(FONT.label);
  const baseline = Math.round(y + band.height / 2 + 4);
  const waits =
    band.over === undefined || lanes.lateness === null ? null : lanes.windows.get(band.over.wait);
  for (let i = 0; i < lane.slices; i += 1) {
    const dur = lane.sliceDur[i]!;
    const start = lane.sliceStart[i]!;
    if (start >= view[1]) break;
    if (dur < least || start + dur <= view[0]) continue;
    const seen = widestInSight(lane, i, view);
    // Letters over the hatch of a wait would be hard to read.
    const [from, to] = waits === null ? seen : besideWaits(waits, seen);
    const x0 = lanesX + (from - view[0]) / perPx;
    const x1 = lanesX + (to - view[0]) / perPx;
    if (x1 - x0 < LABEL_FROM_PX) continue;
    const found = paints.byClass ? lane.sliceClass[i]! : lane.sliceKind[i]!;
    const kind = paints.byClass && found === 255 ? paints.unknownClass : found;
    const pale = band.form === "pale" || paints.isPale[kind] === 1;
    const name = lane.sliceName[i]!;
    const label = fitter.fit(lanes.windows.store.names.get(name) ?? "", x1 - x0 - 8);
    if (label === "") continue;
    const colour = pale ? theme.ink : paints.textOn[kind * 3 + (shade === null ? 0 : shade(name))]!;
    // Letters over lines would be hard to read.
    if (paints.hatched[kind] === 1) {
      const wide = fitter.width(label) + 4;
      pen.rect(x0 + 2, baseline - 10, Math.min(wide, x1 - x0 - 4), 13, theme.bg);
    }
    pen.text(label, x0 + (pale ? 5 : 4), baseline, FONT.label, colour);
  }
}

/** The longest part of a span that no wait covers. */
function besideWaits(waits: LaneWindow, [from, to]: Span): Span {
  const { sliceStart, sliceDur } = waits;
  let low = 0;
  let high = waits.slices;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sliceStart[middle]! + sliceDur[middle]! <= from) low = middle + 1;
    else high = middle;
  }
  return widestFree(waits, low, [from, to]);
}

/**
 * The longest visible part of a slice that no later slice covers: events of several streams
 * overlap in a summary lane.
 */
function widestInSight(lane: LaneWindow, index: number, view: Span): Span {
  const start = lane.sliceStart[index]!;
  const end = Math.min(start + lane.sliceDur[index]!, view[1]);
  return widestFree(lane, index + 1, [Math.max(start, view[0]), end]);
}

/** The longest part of a span that no slice from `first` on covers. */
function widestFree(
  { slices, sliceStart, sliceDur }: LaneWindow,
  first: number,
  [from, to]: Span,
): Span {
  let cursor = from;
  let widest: Span = [from, from];
  for (let at = first; at < slices && sliceStart[at]! < to; at += 1) {
    const start = sliceStart[at]!;
    if (start - cursor > widest[1] - widest[0]) widest = [cursor, start];
    cursor = Math.max(cursor, start + sliceDur[at]!);
  }
  return to - cursor > widest[1] - widest[0] ? [cursor, to] : widest;
}

/** Draw the edge between the pinned rows and those that scroll under them. */
function drawStickyEdge(pen: Pen, { geometry, layout, theme }: Frame): void {
  if (layout.sticky === 0) return;
  pen.horizontal(geometry.rowsTop + layout.stickyHeight - 1, 0, geometry.width, theme.ruleStrong);
}

function penOn(canvas: HTMLCanvasElement, settings: CanvasRenderingContext2DSettings): Pen {
  const ctx = canvas.getContext("2d", settings);
  if (ctx === null) throw new Error("This browser gives no 2D canvas.");
  return new Pen(ctx, 1);
}

// Draws when something has changed, at most once for each frame of the browser.

/** Parts of the stage that are drawn separately. */
export type Part = "head" | "gutter" | "lanes" | "margin" | "overlay";
export const EVERYTHING: readonly Part[] = ["head", "gutter", "lanes", "margin", "overlay"];

export class FrameLoop {
  private dirty = new Set(EVERYTHING);
  private frame = 0;
  private stopped = false;

  constructor(private readonly draw: (now: number) => void) {}

  /** Mark these parts to be redrawn. */
  touch(...parts: readonly Part[]): void {
    for (const part of parts) this.dirty.add(part);
    this.schedule();
  }

  /** Request a frame, even if no part has changed yet. */
  schedule(): void {
    if (this.frame !== 0 || this.stopped) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      this.draw(now);
    });
  }

  /** Return the changes since the last call and cancel the pending frame: the caller draws now. */
  take(): ReadonlySet<Part> {
    const { dirty } = this;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.dirty = new Set();
    return dirty;
  }

  stop(): void {
    this.stopped = true;
    cancelAnimationFrame(this.frame);
  }
}
