/** Draws what collectives wait: hatched over their rectangles, and outlined before the last one. */

import type { LaneWindow } from "../data/lane_window";
import type { LanePlace } from "./lanes";
import type { Paints } from "./paints";
import type { LaneRaster } from "./svg/raster";
import { pixelsOf, residual } from "./residual";

const HATCH_PITCH = 5;
/** Narrower ones are columns of cells. */
const RECT_PX = 2;
/** Narrower ones are an outline alone. */
const FILLED_FROM_PX = 4;

/** Waiting: as high as the share of the pixel's time that it takes, like the event it is part of. */
export function drawWaits(
  raster: LaneRaster,
  place: LanePlace,
  lane: LaneWindow,
  paints: Paints,
): void {
  if (lane.empty) return;
  const { y0, y1, dpr } = place;
  const pitch = Math.round(HATCH_PITCH * dpr);
  const thick = Math.max(1, Math.round(dpr));
  eachColumn(raster, place, lane, (x, share) => {
    const size = Math.round(share * (y1 - y0));
    raster.hatch(x, y1 - size, x + 1, y1, paints.waitFill, paints.waitLine, pitch, thick);
  });
  eachSlice(raster, place, lane, (x0, x1) => {
    raster.hatch(x0, y0, x1, y1, paints.waitFill, paints.waitLine, pitch, thick);
    frame(raster, x0, x1, place, paints.waitLine);
  });
}

/** Late: the time in which the others were there and this rank was not; red where it is `named`. */
export function drawLate(
  raster: LaneRaster,
  place: LanePlace,
  lane: LaneWindow,
  paints: Paints,
  named: boolean,
): void {
  if (lane.empty) return;
  const { y0, y1, dpr } = place;
  const line = named ? paints.lateLine : paints.lastLine;
  const fill = named ? paints.lateFill : paints.lastFill;
  eachColumn(raster, place, lane, (x, share) => {
    raster.rect(x, y1 - Math.round(share * (y1 - y0)), x + 1, y1, line);
  });
  eachSlice(raster, place, lane, (x0, x1) => {
    if (x1 - x0 >= FILLED_FROM_PX * dpr) raster.rect(x0, y0, x1, y1, fill);
    frame(raster, x0, x1, place, line);
  });
}

function frame(raster: LaneRaster, x0: number, x1: number, place: LanePlace, colour: number): void {
  const { y0, y1, dpr } = place;
  const line = Math.max(1, Math.round(dpr));
  raster.rect(x0, y0, x1, y0 + line, colour);
  raster.rect(x0, y1 - line, x1, y1, colour);
  raster.rect(x0, y0, x0 + line, y1, colour);
  raster.rect(x1 - line, y0, x1, y1, colour);
}

/** Rectangles of at least two pixels. */
function eachSlice(
  raster: LaneRaster,
  { start, resolution }: LanePlace,
  { slices, sliceStart, sliceDur }: LaneWindow,
  draw: (x0: number, x1: number) => void,
): void {
  const end = start + raster.width * resolution;
  for (let i = 0; i < slices; i += 1) {
    const from = sliceStart[i]!;
    const dur = sliceDur[i]!;
    if (from >= end) break;
    if (dur < RECT_PX * resolution || from + dur <= start) continue;
    const x0 = Math.max(-2, Math.round((from - start) / resolution));
    const x1 = Math.min(raster.width + 2, Math.round((from + dur - start) / resolution));
    if (x1 > x0) draw(x0, x1);
  }
}

/** Share of each pixel that is covered by what is too short for a rectangle, where there is any. */
function eachColumn(
  raster: LaneRaster,
  place: LanePlace,
  lane: LaneWindow,
  draw: (x: number, share: number) => void,
): void {
  const { share, counts } = residual(lane, RECT_PX * place.resolution);
  const { cells, perPx, origin, first, last } = pixelsOf(lane, place, raster.width);
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
