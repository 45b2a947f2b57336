/** Paint the parts of a frame that have changed. */

import type { Classes, ClassParts, Overlay, Scene, Span, ThemeName } from "../protocol/source";
import { LABEL_FROM_PX } from "../ui/text";
import { FONT, type Theme, THEMES } from "../ui/theme";
import type { Camera, Geometry } from "./camera";
import { drawGutter, type GutterScene } from "./gutter";
import {
  drawAxis,
  drawMinimap,
  drawStepLines,
  drawStrip,
  type HeadScene,
  MinimapPicture,
} from "./head";
import type { LaneWindow } from "./lane_window";
import {
  drawBeyond,
  drawLane,
  drawNoData,
  drawRibbon,
  isCoarse,
  type LanePlace,
  type LanesScene,
  type ShadeOfName,
  type LatenessByRank,
  latenessByRank,
  type StatsByRank,
  statsByRank,
} from "./lanes";
import { drawMargin, type MarginScene } from "./margin";
import { drawOverlay, NO_OVERLAY, type OverlayScene } from "./overlay";
import { classPaints, hueOf, type Paints, paintsOf, partsAt, shadeOf } from "./paints";
import { Pen } from "./pen";
import { type LaneRaster, Raster } from "./raster";
import type { LaneSpot, RowsView, Sightings } from "./rows_view";
import type { StageData, WholeRows } from "./tile_loader";

/** Lanes lower than this have no labels: the letters would touch both edges. */
const LABEL_FROM_HEIGHT = 12;

export interface Frame {
  head: HeadScene;
  gutter: GutterScene;
  lanes: LanesScene;
  margin: MarginScene;
  overlay: OverlayScene;
}

export class Painter {
  readonly base = document.createElement("canvas");
  readonly over = document.createElement("canvas");
  private readonly baseCtx: CanvasRenderingContext2D;
  private readonly overCtx: CanvasRenderingContext2D;
  private pen: Pen;
  private overPen: Pen;
  private raster: Raster | null = null;

  constructor() {
    for (const canvas of [this.base, this.over]) {
      Object.assign(canvas.style, { position: "absolute", left: "0", top: "0", display: "block" });
    }
    this.over.style.pointerEvents = "none";
    this.baseCtx = context(this.base, { alpha: false });
    this.overCtx = context(this.over, {});
    this.pen = new Pen(this.baseCtx, 1);
    this.overPen = new Pen(this.overCtx, 1);
  }

  resize({ width, height, dpr, lanesX, lanesWidth, rowsTop, rowsHeight }: Geometry): void {
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.max(1, Math.round(width * dpr));
      canvas.height = Math.max(1, Math.round(height * dpr));
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    this.pen = new Pen(this.baseCtx, dpr);
    this.overPen = new Pen(this.overCtx, dpr);
    const left = Math.round(lanesX * dpr);
    const top = Math.round(rowsTop * dpr);
    const across = Math.round((lanesX + lanesWidth) * dpr) - left;
    const down = Math.round((rowsTop + rowsHeight) * dpr) - top;
    this.raster = across > 0 && down > 0 ? new Raster(across, down) : null;
  }

  /** Paint what has changed; returns the number of lanes. */
  paint(frame: Frame, dirty: Dirty): number {
    const { pen, raster } = this;
    const { geometry } = frame.head;
    if (dirty.overlay) this.overCtx.clearRect(0, 0, geometry.width, geometry.height);
    const left = Math.round(geometry.lanesX * geometry.dpr);
    const top = Math.round(geometry.rowsTop * geometry.dpr);
    const put = (): void => {
      if (raster !== null) this.baseCtx.putImageData(raster.image, left, top);
    };
    return paintParts(frame, dirty, pen, this.overPen, raster, put);
  }
}

/** Paint a whole frame with other pens, for a picture. */
export function paintFrame(frame: Frame, pen: Pen, overPen: Pen, raster: LaneRaster): void {
  paintParts(frame, EVERYTHING, pen, overPen, raster, () => {});
}

/** `put` copies the raster to the canvas. */
function paintParts(
  frame: Frame,
  dirty: Dirty,
  pen: Pen,
  overPen: Pen,
  raster: LaneRaster | null,
  put: () => void,
): number {
  let painted = 0;
  if (dirty.head) {
    drawMinimap(pen, frame.head);
    drawStrip(pen, frame.head);
  }
  if (dirty.gutter) drawGutter(pen, frame.gutter);
  if (dirty.lanes || dirty.head) {
    const ticks = drawAxis(pen, frame.head);
    if (raster !== null) painted = paintLanes(pen, raster, put, frame, ticks);
  }
  if (dirty.margin || dirty.head) drawMargin(pen, frame.margin);
  drawStickyEdge(pen, frame.gutter);
  if (dirty.overlay) drawOverlay(overPen, frame.overlay);
  return painted;
}

function paintLanes(
  pen: Pen,
  raster: LaneRaster,
  put: () => void,
  { lanes, head }: Frame,
  ticks: readonly number[],
): number {
  const { geometry, theme, sight, view } = lanes;
  const { lanesX, lanesWidth, rowsTop, rowsHeight } = geometry;
  rasterise(raster, lanes);
  put();
  pen.clipped(lanesX, rowsTop, lanesWidth, rowsHeight, () => {
    const grid = `${theme.ruleStrong}30`;
    const bottom = sight.bottom;
    for (const time of ticks) {
      if (time <= view[0]) continue;
      const x = lanesX + ((time - view[0]) / (view[1] - view[0])) * lanesWidth;
      pen.vertical(x, rowsTop, bottom, grid);
    }
    drawStepLines(pen, head, bottom);
    drawNoData(pen, lanes);
    for (const spot of sight.spots) label(pen, lanes, spot);
  });
  return sight.spots.length;
}

function rasterise(raster: LaneRaster, lanes: LanesScene): void {
  const { geometry, paints, sight, view, job } = lanes;
  const { dpr, rowsTop } = geometry;
  const px = (y: number) => Math.round((y - rowsTop) * dpr);
  raster.clip(0, raster.height);
  raster.clear(paints.bg);
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
    hue: lanes.hue,
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
      const window = lanes.window(band.lane);
      if (window === null) continue;
      place.form = band.form;
      place.y0 = px(bandY);
      place.y1 = Math.max(place.y0 + 1, px(bandY + band.height));
      place.valueRange = band.track?.range ?? null;
      const { over } = band;
      const known = over !== undefined && lanes.lateness !== null;
      drawLane(raster, place, window, paints, lanes.shade, {
        wait: known ? lanes.window(over.wait) : null,
        late: known ? lanes.window(over.late) : null,
        named: late,
      });
    }
  }
}

/** Names on the rectangles of a lane that have room for them. */
function label(pen: Pen, lanes: LanesScene, spot: LaneSpot): void {
  const { band, y, top, bottom } = spot;
  if (band.height < LABEL_FROM_HEIGHT || band.form === "bar" || band.form === "counter") return;
  // A name that is partly scrolled away would be cut.
  if (bottom - top < band.height - 2) return;
  const lane = lanes.window(band.lane);
  if (lane === null || lane.slices === 0) return;
  const { geometry, view, paints, theme, shade } = lanes;
  const { lanesX, lanesWidth } = geometry;
  const perPx = (view[1] - view[0]) / lanesWidth;
  const least = LABEL_FROM_PX * perPx;
  const fitter = pen.fitter(FONT.label);
  const baseline = Math.round(y + band.height / 2 + 4);
  const waits =
    band.over === undefined || lanes.lateness === null ? null : lanes.window(band.over.wait);
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
    const label = fitter.fit(lanes.nameOf(name), x1 - x0 - 8);
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
function drawStickyEdge(pen: Pen, { geometry, layout, theme }: GutterScene): void {
  if (layout.sticky === 0) return;
  pen.horizontal(geometry.rowsTop + layout.stickyHeight - 1, 0, geometry.width, theme.ruleStrong);
}

function context(
  canvas: HTMLCanvasElement,
  settings: CanvasRenderingContext2DSettings,
): CanvasRenderingContext2D {
  const ctx = canvas.getContext("2d", settings);
  if (ctx === null) throw new Error("This browser gives no 2D canvas.");
  return ctx;
}

// State behind a timeline's picture, independent of the viewport: colours, figures, minimap.

/** Viewport of a picture. */
export interface Sight {
  geometry: Geometry;
  camera: Camera;
  rows: RowsView;
  /** Whether figures of this view may still arrive. */
  isLive: boolean;
}

export class StagePicture {
  byName = false;
  lateness: LatenessByRank | null = null;
  overlay: Overlay = NO_OVERLAY;
  private stats: StatsByRank | null = null;
  private minimap: MinimapPicture | null = null;
  private classes: Classes | null = null;
  private parts: ClassParts | null = null;
  private shades: number[] = [];
  private hues: number[] = [];
  private own: Theme;
  private paints: Paints;

  constructor(
    private scene: Scene,
    private data: StageData,
    theme: ThemeName,
  ) {
    this.own = THEMES[theme];
    this.paints = this.paintsNow();
  }

  get theme(): Theme {
    return this.own;
  }

  /** Reset all results for a new scene. */
  setScene(scene: Scene, data: StageData): void {
    this.scene = scene;
    this.data = data;
    this.shades = [];
    this.hues = [];
    this.stats = null;
    this.lateness = null;
    this.minimap = null;
    this.paints = this.paintsNow();
  }

  setTheme(theme: Theme, geometry: Geometry): void {
    this.own = theme;
    this.paints = this.paintsNow();
    this.takeMinimap(geometry);
  }

  setClasses(classes: Classes | null, parts: ClassParts | null, geometry: Geometry): void {
    this.classes = classes;
    this.parts = parts;
    this.paints = this.paintsNow();
    this.takeMinimap(geometry);
  }

  /** Set the overlay; true if lanes must be redrawn. */
  setOverlay(overlay: Overlay): boolean {
    const changed = overlay.dimmed !== this.overlay.dimmed;
    this.overlay = overlay;
    if (changed) this.paints = this.paintsNow();
    return changed;
  }

  takeStats(): void {
    const { value: stats } = this.data.stats;
    this.stats = stats === null ? null : statsByRank(stats);
  }

  takeLateness(): void {
    const { value: lateness } = this.data.lateness;
    this.lateness = lateness === null ? null : latenessByRank(lateness);
  }

  takeMinimap(geometry: Geometry): void {
    this.minimap = this.minimapIn(this.own, geometry);
  }

  /** Input of a painter; `of` overrides the visible part. */
  frame(sight: Sight, theme = this.own, of: Partial<Whole> = {}): Frame {
    const { scene, stats, data, overlay, lateness } = this;
    const { camera, rows } = sight;
    const geometry = of.geometry ?? sight.geometry;
    const windows = of.windows ?? data.windows;
    const names = of.names ?? data.store.names;
    const ribbon = of.ribbon === undefined ? data.ribbon.value : of.ribbon;
    const own = of.windows === undefined;
    const paints = own ? this.paints : this.paintsIn(theme);
    const minimap = own ? this.minimap : this.minimapIn(theme, sight.geometry);
    const seen = of.sight ?? rows.sight;
    const view = of.view ?? camera.view;
    const { job } = camera;
    const { placed } = seen;
    const shown = data.stats.value;
    const stale =
      !sight.isLive &&
      shown !== null &&
      (shown.start !== Math.floor(view[0]) || shown.end !== Math.ceil(view[1]));
    return {
      head: { geometry, theme, scene, job, view, minimap, ribbon, lateness },
      gutter: {
        geometry,
        theme,
        layout: rows.layout,
        placed,
        stats: stale ? null : stats,
        lateness: stale ? null : lateness,
        hits: overlay.search === "" ? null : (overlay.hits ?? null),
      },
      lanes: {
        geometry,
        theme,
        paints,
        keys: this.classes?.keys(theme.name) ?? null,
        scene,
        job,
        view,
        sight: seen,
        lateness,
        ribbon,
        shade: this.byName && !paints.byClass ? (key) => this.shade(key, names) : null,
        hue: this.huesIn(view, names),
        window: (lane) => windows.get(lane),
        nameOf: (key) => names.get(key) ?? "",
      },
      margin: { geometry, theme, placed, stats, lateness, stale },
      overlay: {
        geometry,
        theme,
        view,
        sight: seen,
        overlay,
        searched: data.searched.value,
        chosen: data.chosen.value,
      },
    };
  }

  private paintsNow(): Paints {
    return this.paintsIn(this.own);
  }

  private paintsIn(theme: Theme): Paints {
    const { kinds } = this.scene;
    return this.classes === null
      ? paintsOf(theme, kinds, this.overlay.dimmed)
      : classPaints(theme, kinds, this.classes);
  }

  private minimapIn(theme: Theme, geometry: Geometry): MinimapPicture | null {
    const { lanesWidth, minimapHeight, dpr } = geometry;
    const { value: minimap } = this.data.minimap;
    if (minimap === null || lanesWidth <= 0) return null;
    const [width, height] = [Math.round(lanesWidth * dpr), Math.round(minimapHeight * dpr)];
    const looks = this.classes?.looks(theme.name);
    const byClass = looks && this.parts ? partsAt(this.parts, looks, theme) : null;
    return new MinimapPicture(minimap, theme, width, height, byClass);
  }

  /** In views shorter than a step, host calls are coloured by name. */
  private huesIn(view: Span, names: ReadonlyMap<number, string>): ShadeOfName | null {
    if (!this.byName && view[1] - view[0] >= stepLength(this.scene)) return null;
    return (key) => (this.hues[key] ??= hueOf(names.get(key) ?? ""));
  }

  private shade(key: number, names: ReadonlyMap<number, string>): number {
    this.shades[key] ??= shadeOf(names.get(key) ?? "");
    return this.shades[key];
  }
}

/** The median step; without steps the whole job. */
function stepLength({ steps, range }: Scene): number {
  const lengths = steps.map(({ dur }) => dur).sort((a, b) => a - b);
  return lengths[lengths.length >> 1] ?? range[1] - range[0];
}

// Draws when something has changed, at most once for each frame of the browser.

interface Dirty {
  head: boolean;
  gutter: boolean;
  lanes: boolean;
  margin: boolean;
  overlay: boolean;
}

const NOTHING: Dirty = { head: false, gutter: false, lanes: false, margin: false, overlay: false };
export const EVERYTHING: Dirty = {
  head: true,
  gutter: true,
  lanes: true,
  margin: true,
  overlay: true,
};

export class FrameLoop {
  private dirty: Dirty = { ...EVERYTHING };
  private frame = 0;
  private stopped = false;

  constructor(private readonly draw: (now: number) => void) {}

  /** Mark these parts to be redrawn. */
  touch(parts: Partial<Dirty>): void {
    for (const part of Object.keys(parts) as (keyof Dirty)[]) {
      // Keep parts that are already marked.
      this.dirty[part] ||= parts[part] === true;
    }
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
  take(): Dirty {
    const { dirty } = this;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.dirty = { ...NOTHING };
    return dirty;
  }

  stop(): void {
    this.stopped = true;
    cancelAnimationFrame(this.frame);
  }
}

export interface Whole extends WholeRows {
  geometry: Geometry;
  sight: Sightings;
  view: Span;
}
