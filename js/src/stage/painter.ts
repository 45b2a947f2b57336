/**
 * Paint the regions of a frame that have changed, on two canvases.
 *
 * The base canvas has the head, names, lanes (copied from a raster in memory) and totals. The
 * overlay has selection, search matches and hover, so that moving the pointer repaints no lanes.
 */

import type { Band } from "./bands";
import { type StageGeometry, xAtTime } from "./camera";
import { drawGutter } from "./gutter";
import type { StageFrame } from "./frame";
import { drawAxis, drawMinimap, drawStepLines, drawStrip } from "./head";
import type { LaneWindow } from "./lane_window";
import { drawLabels, nameShader } from "./labels";
import { drawNoData, isCoarse, LanePainter, type RowPlacement } from "./lanes";
import { drawMargin } from "./margin";
import { drawOverlay } from "./overlay";
import { CanvasPen } from "./pen";
import { type LaneRaster, PixelRaster } from "./raster";
import type { PlacedRow } from "./rows";
import { THEMES } from "../ui/theme";

export class Painter {
  readonly baseCanvas = document.createElement("canvas");
  readonly overlayCanvas = document.createElement("canvas");
  private pen = makePen(this.baseCanvas, { alpha: false });
  private overPen = makePen(this.overlayCanvas, {});
  private raster: PixelRaster | null = null;

  constructor() {
    for (const canvas of [this.baseCanvas, this.overlayCanvas]) {
      Object.assign(canvas.style, { position: "absolute", left: "0", top: "0", display: "block" });
    }
    this.overlayCanvas.style.pointerEvents = "none";
  }

  resize(geometry: StageGeometry): void {
    const { width, height, dpr } = geometry;
    for (const canvas of [this.baseCanvas, this.overlayCanvas]) {
      canvas.width = Math.max(1, Math.round(width * dpr));
      canvas.height = Math.max(1, Math.round(height * dpr));
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    this.pen = new CanvasPen(this.pen.ctx, dpr);
    this.overPen = new CanvasPen(this.overPen.ctx, dpr);
    const { across, down } = lanesBox(geometry);
    this.raster = across > 0 && down > 0 ? new PixelRaster(across, down) : null;
  }

  /** Repaint the changed regions. Return the number of lanes drawn. */
  paint(frame: StageFrame, dirty: ReadonlySet<StageRegion>): number {
    const { pen, overPen, raster } = this;
    const { width, height } = frame.geometry;
    // The overlay contains the names of dimmed events.
    const regions = dirty.has("lanes") ? new Set([...dirty, "overlay" as const]) : dirty;
    if (regions.has("overlay")) overPen.ctx.clearRect(0, 0, width, height);
    const { left, top } = lanesBox(frame.geometry);
    return paintRegions(frame, regions, pen, overPen, raster, () => {
      if (raster !== null) pen.ctx.putImageData(raster.image, left, top);
    });
  }
}

/** Return the position of the lanes on the canvas, in device px. */
export function lanesBox({ dpr, lanesX, lanesWidth, rowsTop, rowsHeight }: StageGeometry) {
  const [left, top] = [Math.round(lanesX * dpr), Math.round(rowsTop * dpr)];
  const across = Math.round((lanesX + lanesWidth) * dpr) - left;
  const down = Math.round((rowsTop + rowsHeight) * dpr) - top;
  return { left, top, across, down };
}

/** Paint regions of a frame. `put` copies the raster to the canvas. Return the number of lanes. */
export function paintRegions(
  frame: StageFrame,
  dirty: ReadonlySet<StageRegion>,
  pen: CanvasPen,
  overPen: CanvasPen,
  raster: LaneRaster | null,
  put?: () => void,
): number {
  let lanesPainted = 0;
  const head = dirty.has("head");
  if (head) {
    drawMinimap(pen, frame);
    drawStrip(pen, frame);
  }
  if (dirty.has("gutter")) drawGutter(pen, frame);
  if (dirty.has("lanes") || head) {
    const ticks = drawAxis(pen, frame);
    if (raster !== null) {
      rasterize(raster, frame);
      put?.();
      drawOnLanes(pen, frame, ticks);
      lanesPainted = frame.visible.lanes.length;
    }
  }
  if (dirty.has("margin") || head) drawMargin(pen, frame);
  drawStickyEdge(pen, frame);
  if (dirty.has("overlay")) drawOverlay(overPen, frame);
  return lanesPainted;
}

function drawOnLanes(pen: CanvasPen, frame: StageFrame, ticks: readonly number[]): void {
  const { geometry, theme, visible, rulers } = frame;
  const { view: axisView } = rulers[0]!;
  const { lanesX, lanesWidth, rowsTop, rowsHeight } = geometry;
  pen.withClip(lanesX, rowsTop, lanesWidth, rowsHeight, () => {
    const { bottom } = visible;
    for (const time of ticks) {
      if (time <= axisView[0]) continue;
      pen.verticalLine(xAtTime(geometry, axisView, time), rowsTop, bottom, `${theme.ruleStrong}30`);
    }
    drawStepLines(pen, frame, bottom);
    drawNoData(pen, frame);
    for (const visibleLane of visible.lanes) drawLabels(pen, frame, visibleLane);
  });
}

function rasterize(raster: LaneRaster, frame: StageFrame): void {
  const { geometry, paints, visible, view, job, windows } = frame;
  const { dpr, rowsTop } = geometry;
  const { width, height } = raster;
  const { hashes } = windows.store;
  const toPx = (y: number): number => Math.round((y - rowsTop) * dpr);
  const drawRule = (y: number): void =>
    raster.fillRect(0, y, width, y + Math.max(1, Math.round(dpr)), paints.rule);
  raster.clip(0, height);
  raster.fillRect(0, 0, width, height, paints.bg);
  drawRule(toPx(visible.bottom));
  const painter = new LanePainter(raster, paints);
  const scale = {
    dpr,
    start: view[0],
    nsPerPx: (view[1] - view[0]) / width,
    jobStart: job[0],
    jobEnd: job[1],
    hue: frame.byName ? (name: number) => hashes[name]! % THEMES.light.hostHues.length : null,
  };
  for (const placed of visible.placed) {
    const { row, y, clipTop, clipBottom } = placed;
    raster.clip(toPx(clipTop), toPx(clipBottom));
    const isLate = frame.lateness?.late.has(row.rank.rank) ?? false;
    const ground = isLate ? paints.lateGround : paints.bg;
    raster.fillRect(0, toPx(y), width, toPx(y + row.height), ground);
    if (row.track === null && row.isJoined !== true) drawRule(toPx(y));
    rasterizeRow(painter, frame, placed, scale, toPx);
  }
}

type TimeScale = Omit<RowPlacement, "y0" | "y1" | "dataStart" | "dataEnd" | "coarse">;

/** Paint a row's missing data, ribbon and lanes. `toPx` converts heights to device px. */
function rasterizeRow(
  painter: LanePainter,
  frame: StageFrame,
  placed: PlacedRow,
  scale: TimeScale,
  toPx: (y: number) => number,
): void {
  const { row, y } = placed;
  const { rank, range } = row.rank;
  const [dataStart, dataEnd] = range;
  const rankScale = { ...scale, dataStart, dataEnd, coarse: isCoarse(row.rank, scale.nsPerPx) };
  const placeBetween = (top: number, bottom: number): RowPlacement => {
    return { ...rankScale, y0: toPx(top), y1: toPx(bottom) };
  };
  const bands = row.bands();
  const last = bands.at(-1);
  if (last !== undefined) {
    painter.drawNoDataHatch(placeBetween(y + bands[0]!.top, y + last.top + last.height));
  }
  const ribbon = row.ribbon();
  if (ribbon !== null) {
    const top = y + ribbon.top;
    painter.drawRibbon(placeBetween(top, top + ribbon.height), frame.ribbon, rank);
  }
  const isLate = frame.lateness?.late.has(rank) ?? false;
  for (const { band, y: top, placed: laneRow } of frame.visible.lanes) {
    if (laneRow !== placed) continue;
    const place = placeBetween(top, top + band.height);
    // Even the lowest lane must be visible.
    place.y1 = Math.max(place.y0 + 1, place.y1);
    rasterizeLane(painter, frame, band, place, isLate);
  }
}

function rasterizeLane(
  painter: LanePainter,
  frame: StageFrame,
  band: Band,
  place: RowPlacement,
  isNamed: boolean,
): void {
  const { windows, lateness } = frame;
  const window = windows.get(band.lane);
  if (window === null) return;
  const { form, over, track, stackLanes } = band;
  // In a folded stack, inner frames are drawn over their enclosing frames.
  const isOver = stackLanes !== undefined && band.lane !== stackLanes[0];
  const overlayOf = (lane: number | undefined): LaneWindow | null =>
    lane === undefined || lateness === null ? null : windows.get(lane);
  painter.drawLane(
    { ...place, form, isOver, valueRange: track?.range ?? null },
    window,
    nameShader(frame),
    { wait: overlayOf(over?.wait), late: overlayOf(over?.late), isNamed },
  );
}

function drawStickyEdge(pen: CanvasPen, { geometry, layout, theme }: StageFrame): void {
  if (layout.stickyCount === 0) return;
  pen.horizontalLine(
    geometry.rowsTop + layout.stickyHeight - 1,
    0,
    geometry.width,
    theme.ruleStrong,
  );
}

function makePen(canvas: HTMLCanvasElement, settings: CanvasRenderingContext2DSettings): CanvasPen {
  const ctx = canvas.getContext("2d", settings);
  if (ctx === null) throw new Error("This browser does not provide a 2D canvas.");
  return new CanvasPen(ctx, 1);
}

/** Parts of the stage that are drawn separately. */
export type StageRegion = "head" | "gutter" | "lanes" | "margin" | "overlay";
export const ALL_REGIONS: readonly StageRegion[] = ["head", "gutter", "lanes", "margin", "overlay"];

/** Draws after changes, at most once per animation frame. */
export class FrameLoop {
  private dirty = new Set(ALL_REGIONS);
  private frame = 0;
  private isStopped = false;

  constructor(private readonly draw: (now: number) => void) {}

  /** Request a redraw of these parts. */
  invalidate(...regions: readonly StageRegion[]): void {
    for (const region of regions) this.dirty.add(region);
    this.schedule();
  }

  /** Request a frame, even if no part has changed yet. */
  schedule(): void {
    if (this.frame !== 0 || this.isStopped) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      this.draw(now);
    });
  }

  /** Return the parts to redraw and cancel the pending frame, because the caller draws now. */
  takeDirty(): ReadonlySet<StageRegion> {
    const { dirty } = this;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.dirty = new Set();
    return dirty;
  }

  stop(): void {
    this.isStopped = true;
    cancelAnimationFrame(this.frame);
  }
}
