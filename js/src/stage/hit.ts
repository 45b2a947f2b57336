/** Find the item under a point. */

import { MAX_U16, TILE_CELLS } from "../protocol/decode";
import { arrivalAt, jobArrivalAt } from "../protocol/ribbon";
import type { StageHit, Slice } from "../protocol/source";
import { SIZE } from "../ui/theme";
import { timeAtX } from "./camera";
import { type LaneWindow, SLOT_STATE } from "./lane_window";
import type { StageFrame } from "./frame";
import { badgeHitArea, makeRowInfo, type PlacedRow } from "./rows";
import type { VisibleLane } from "./rows_view";

/** Minimum width of an event that a point can hit. For narrower events, the cell is hit. */
const MIN_SLICE_PX = 2;
const MARK_HIT_PX = 4;
/** Maximum number of slices to test, so that moving the pointer over a long lane stays fast. */
const MAX_SLICES_TRIED = 4096;

function regionOf({ geometry }: StageFrame, x: number, y: number): StageHit["region"] {
  const { width, height, lanesX, lanesWidth, rowsTop, stripTop, axisTop } = geometry;
  if (x < 0 || y < 0 || x >= width || y >= height) return "none";
  if (y >= rowsTop) {
    if (x < lanesX) return "gutter";
    return x < lanesX + lanesWidth ? "lanes" : "margin";
  }
  if (x < lanesX || x >= lanesX + lanesWidth) return "none";
  if (y < axisTop - 1) return "minimap";
  return y < stripTop ? "axis" : "strip";
}

/** Describe what is at a point: region, time, row, lane, and the mark or event drawn there. */
export function hitTest(frame: StageFrame, x: number, y: number): StageHit {
  const { geometry, view, job } = frame;
  const region = regionOf(frame, x, y);
  const time =
    region === "minimap"
      ? job[0] + ((x - geometry.lanesX) / geometry.lanesWidth) * (job[1] - job[0])
      : timeAtX(geometry, view, x);
  const nothing = { row: null, lane: null, slice: null, cell: null, step: null };
  const hit: StageHit = { region, time, ...nothing };
  if (region === "strip") hitStrip(hit, frame, y);
  if (region !== "lanes" && region !== "gutter" && region !== "margin") return hit;
  const placed = frame.visible.rowAt(y);
  if (placed !== null) hit.row = makeRowInfo(placed.row, placed.y);
  if (region === "gutter") hitGutter(hit, frame, x, y);
  if (region !== "lanes") return hit;
  const lane = frame.visible.laneAt(y);
  if (placed !== null && frame.ribbon !== null && isOnRibbon(placed, y)) {
    hit.arrival = arrivalAt(frame.ribbon, placed.row.rank.rank, time, hitToleranceNs(frame));
  } else if (lane !== null) hitLane(hit, frame, lane, x);
  return hit;
}

function isOnRibbon({ row, y: rowTop }: PlacedRow, y: number): boolean {
  const ribbon = row.ribbon();
  const ribbonY = y - rowTop - (ribbon?.top ?? 0);
  return ribbon !== null && ribbonY >= 0 && ribbonY < ribbon.height;
}

function hitStrip(hit: StageHit, frame: StageFrame, y: number): void {
  const { geometry, ribbon, scene } = frame;
  const { time } = hit;
  if (geometry.lateRow && y >= geometry.stripTop + (geometry.stripRows - 1) * SIZE.steps) {
    hit.arrival = ribbon === null ? null : jobArrivalAt(ribbon, time, hitToleranceNs(frame));
    return;
  }
  const inSteps = y < geometry.stripTop + SIZE.steps && scene.steps.length > 0;
  const ranges = inSteps ? scene.steps : scene.phases;
  hit.step = ranges.find(({ start, dur }) => start <= time && time < start + dur) ?? null;
}

/** Record whether a point is on the badge of a row or on the name of a Python stack. */
function hitGutter(hit: StageHit, frame: StageFrame, x: number, y: number): void {
  if (hit.row?.badge !== undefined) {
    const { left, right } = badgeHitArea(frame.layout.foldSizes);
    hit.badge = x >= left && x < right;
  }
  if (frame.visible.laneAt(y)?.band.frames !== undefined) hit.stack = true;
}

function hitLane(hit: StageHit, frame: StageFrame, visibleLane: VisibleLane, x: number): void {
  const { band } = visibleLane;
  // In a folded stack, inner frames are drawn in front.
  for (const number of [...(band.stackLanes ?? [band.lane])].reverse()) {
    hit.lane = number;
    const lane = frame.windows.get(number);
    if (lane === null || lane.empty) continue;
    hit.slice = withWait(frame, visibleLane, sliceAt(frame, lane, x));
    if (hit.slice === null) hit.cell = cellAt(frame, lane, visibleLane, hit.time);
    if (hit.slice !== null || hit.cell !== null) break;
  }
  if (hit.slice === null && band.over !== undefined && frame.lateness !== null) {
    const lateLines = frame.windows.get(band.over.late);
    if (lateLines !== null && !lateLines.empty) hit.late = sliceAt(frame, lateLines, x);
  }
}

function hitToleranceNs(frame: StageFrame): number {
  return MARK_HIT_PX * nsPerPx(frame);
}

function nsPerPx({ geometry, view }: StageFrame): number {
  return (view[1] - view[0]) / geometry.lanesWidth;
}

/** Return the rectangle at `x`; if rectangles overlap, the one in front. */
function sliceAt(frame: StageFrame, lane: LaneWindow, x: number): Slice | null {
  const { geometry, view } = frame;
  const nsPerDevicePx = nsPerPx(frame) / geometry.dpr;
  const px = Math.floor((x - geometry.lanesX) * geometry.dpr);
  const pxOf = (time: number): number => Math.round((time - view[0]) / nsPerDevicePx);
  // Slices are sorted by start. A slice that starts a pixel further right cannot contain the point.
  const last = lane.countStarted(timeAtX(geometry, view, x) + nsPerDevicePx) - 1;
  for (let i = last; i >= 0 && i > last - MAX_SLICES_TRIED; i -= 1) {
    const from = lane.sliceStart[i]!;
    const dur = lane.sliceDur[i]!;
    if (dur < MIN_SLICE_PX * nsPerDevicePx) continue;
    if (px >= pxOf(from) && px < pxOf(from + dur)) return makeSlice(frame, lane, i);
  }
  return null;
}

/** Add to a collective how much of it is hatched as waiting, if its waits are loaded. */
function withWait(
  frame: StageFrame,
  { band: { over } }: VisibleLane,
  slice: Slice | null,
): Slice | null {
  const waits = over === undefined ? null : frame.windows.get(over.wait);
  if (slice === null || waits === null) return slice;
  const end = slice.start + slice.dur;
  let wait = 0;
  for (let i = waits.countStarted(end) - 1; i >= 0; i -= 1) {
    const from = waits.sliceStart[i]!;
    const to = Math.min(from + waits.sliceDur[i]!, end);
    wait += Math.max(0, to - Math.max(from, slice.start));
    // Waits in a lane hardly overlap, so at most one starts before the slice and ends in it.
    if (from <= slice.start) break;
  }
  return wait > 0 ? { ...slice, wait } : slice;
}

function makeSlice({ scene, windows }: StageFrame, lane: LaneWindow, i: number): Slice {
  return {
    lane: lane.lane,
    id: lane.sliceId[i]!,
    name: windows.store.names.get(lane.sliceName[i]!) ?? "",
    kind: scene.kinds[lane.sliceKind[i]!] ?? "other",
    start: lane.sliceStart[i]!,
    dur: lane.sliceDur[i]!,
    flags: lane.sliceFlags[i]!,
  };
}

/** Return the loaded slices of a lane that overlap the view, by start. */
export function slicesInWindow(frame: StageFrame, lane: LaneWindow): Slice[] {
  const out: Slice[] = [];
  for (let i = 0; i < lane.slices; i += 1) {
    if (lane.sliceStart[i]! >= frame.view[1]) break;
    if (lane.sliceStart[i]! + lane.sliceDur[i]! > frame.view[0])
      out.push(makeSlice(frame, lane, i));
  }
  return out;
}

/** Return the busiest of the cells that share a pixel with `time`. */
function cellAt(
  frame: StageFrame,
  lane: LaneWindow,
  visibleLane: VisibleLane,
  time: number,
): StageHit["cell"] {
  if (visibleLane.band.form === "counter") return null;
  const halfPxNs = nsPerPx(frame) / frame.geometry.dpr / 2;
  let best: StageHit["cell"] = null;
  for (const nearbyTime of [time, time - halfPxNs, time + halfPxNs]) {
    const cell = exactCellAt(frame, lane, nearbyTime);
    if (cell !== null && (best === null || cell.busy > best.busy)) best = cell;
  }
  return best;
}

function exactCellAt(frame: StageFrame, lane: LaneWindow, time: number): StageHit["cell"] {
  const index = Math.floor(time / lane.cell) - lane.first * TILE_CELLS;
  const slot = Math.floor(index / TILE_CELLS);
  if (slot < 0 || slot >= lane.last - lane.first || lane.slots[slot] === SLOT_STATE.missing)
    return null;
  const level = lane.levels[slot]!;
  const width = 2 ** level;
  const cell = Math.floor(time / width);
  const tileIndex = Math.floor(cell / TILE_CELLS);
  const tile = frame.windows.store.get(lane.lane, level, tileIndex);
  // For a cell merged from finer tiles, the window holds the sum.
  const cellOfTile = cell - tileIndex * TILE_CELLS;
  const count = tile?.count[cellOfTile] ?? lane.count[index]!;
  if (count === 0) return null;
  return {
    start: cell * width,
    end: (cell + 1) * width,
    busy: (tile?.busy[cellOfTile] ?? lane.busy[index]!) / MAX_U16,
    count,
    kind: frame.scene.kinds[tile?.kind[cellOfTile] ?? lane.kind[index]!] ?? null,
  };
}
