/** Find the item under a point. */

import { countUpTo } from "../engine/columns";
import { TILE_CELLS } from "../protocol/decode";
import { arrivalAt, jobArrivalAt } from "../protocol/ribbon";
import type { Hit, Kind, Slice } from "../protocol/source";
import { SIZE } from "../ui/theme";
import { timeAtX } from "./camera";
import { type LaneWindow, SLOT } from "./lane_window";
import type { Frame } from "./painter";
import { badgeSpot, rowInfo } from "./rows";
import type { LaneSpot } from "./rows_view";

/** A point on a narrower mark hits its cell. */
const SLICE_FROM_PX = 2;
const MARK_REACH_PX = 4;

function regionOf({ geometry }: Frame, x: number, y: number): Hit["region"] {
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

export function hitAt(scene: Frame, x: number, y: number): Hit {
  const { geometry, view, job, sight } = scene;
  const region = regionOf(scene, x, y);
  const time =
    region === "minimap"
      ? job[0] + ((x - geometry.lanesX) / geometry.lanesWidth) * (job[1] - job[0])
      : timeAtX(geometry, view, x);
  const hit: Hit = { region, time, row: null, lane: null, slice: null, cell: null, step: null };
  if (region === "strip") {
    const { steps, phases } = scene.scene;
    if (geometry.lateRow && y >= geometry.stripTop + (geometry.stripRows - 1) * SIZE.steps) {
      const { ribbon } = scene;
      hit.arrival = ribbon === null ? null : jobArrivalAt(ribbon, time, reach(scene));
      return hit;
    }
    const inSteps = y < geometry.stripTop + 16 && steps.length > 0;
    hit.step =
      (inSteps ? steps : phases).find((s) => s.start <= time && time < s.start + s.dur) ?? null;
    return hit;
  }
  if (region !== "lanes" && region !== "gutter" && region !== "margin") return hit;
  const placed = sight.rowAt(y);
  if (placed !== null) hit.row = rowInfo(placed.row, placed.y);
  if (region === "gutter" && hit.row?.badge !== undefined) {
    const { left, right } = badgeSpot(scene.layout.fold);
    hit.badge = x >= left && x < right;
  }
  if (region !== "lanes") return hit;
  const strip = placed?.row.ribbon() ?? null;
  if (placed !== null && strip !== null && scene.ribbon !== null) {
    const from = y - placed.y - strip.top;
    if (from >= 0 && from < strip.height) {
      hit.arrival = arrivalAt(scene.ribbon, placed.row.rank.rank, time, reach(scene));
      return hit;
    }
  }
  const spot = sight.spotAt(y);
  if (spot === null) return hit;
  hit.lane = spot.band.lane;
  const lane = scene.windows.get(spot.band.lane);
  if (lane === null || lane.empty) return hit;
  hit.slice = withWait(scene, spot, sliceAt(scene, lane, x));
  if (hit.slice === null) hit.cell = cellAt(scene, lane, spot, time);
  return hit;
}

/** Distance in ns within which a point hits a mark of a ribbon. */
function reach(scene: Frame): number {
  return MARK_REACH_PX * nsPerPx(scene);
}

function nsPerPx({ geometry, view }: Frame): number {
  return (view[1] - view[0]) / geometry.lanesWidth;
}

/** The rectangle at `x`; the one in front if several overlap. */
function sliceAt(scene: Frame, lane: LaneWindow, x: number): Slice | null {
  const perDevicePx = nsPerPx(scene) / scene.geometry.dpr;
  const least = SLICE_FROM_PX * perDevicePx;
  const px = Math.floor((x - scene.geometry.lanesX) * scene.geometry.dpr);
  const start = scene.view[0];
  const time = timeAtX(scene.geometry, scene.view, x);
  // Sorted by start: a slice that begins a pixel further right cannot contain the point.
  let i = begunBy(lane, time + perDevicePx) - 1;
  for (let looked = 0; i >= 0 && looked < 4096; i -= 1, looked += 1) {
    const from = lane.sliceStart[i]!;
    const dur = lane.sliceDur[i]!;
    if (dur < least) continue;
    const x0 = Math.round((from - start) / perDevicePx);
    const x1 = Math.round((from + dur - start) / perDevicePx);
    if (px >= x0 && px < x1) return sliceOf(scene, lane, i);
  }
  return null;
}

/** Add to a collective the part of it that is hatched as waiting, if that is loaded. */
function withWait(scene: Frame, { band: { over } }: LaneSpot, slice: Slice | null): Slice | null {
  const waits = over === undefined ? null : scene.windows.get(over.wait);
  if (slice === null || waits === null) return slice;
  const end = slice.start + slice.dur;
  let wait = 0;
  for (let i = begunBy(waits, end) - 1; i >= 0; i -= 1) {
    const from = waits.sliceStart[i]!;
    const to = Math.min(from + waits.sliceDur[i]!, end);
    wait += Math.max(0, to - Math.max(from, slice.start));
    // Waits of a lane hardly overlap: at most one that began before the slice can reach into it.
    if (from <= slice.start) break;
  }
  return wait > 0 ? { ...slice, wait } : slice;
}

function sliceOf({ scene, windows }: Frame, lane: LaneWindow, i: number): Slice {
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

/** Loaded slices of a lane that overlap the view, by start. */
export function slicesIn(scene: Frame, lane: LaneWindow): Slice[] {
  const out: Slice[] = [];
  for (let i = 0; i < lane.slices; i += 1) {
    if (lane.sliceStart[i]! >= scene.view[1]) break;
    if (lane.sliceStart[i]! + lane.sliceDur[i]! > scene.view[0]) out.push(sliceOf(scene, lane, i));
  }
  return out;
}

/** The cell at `time`, or the busiest of those that share its pixel. */
function cellAt(scene: Frame, lane: LaneWindow, spot: LaneSpot, time: number): Hit["cell"] {
  if (spot.band.form === "counter") return null;
  const half = nsPerPx(scene) / scene.geometry.dpr / 2;
  let best: Hit["cell"] = null;
  for (const at of [time, time - half, time + half]) {
    const cell = exactCell(scene, lane, at);
    if (cell !== null && (best === null || cell.busy > best.busy)) best = cell;
  }
  return best;
}

function exactCell(scene: Frame, lane: LaneWindow, time: number): Hit["cell"] {
  const index = Math.floor(time / lane.cell) - lane.first * TILE_CELLS;
  const slot = Math.floor(index / TILE_CELLS);
  if (slot < 0 || slot >= lane.last - lane.first || lane.slots[slot] === SLOT.missing) return null;
  const level = lane.levels[slot]!;
  const width = 2 ** level;
  const cell = Math.floor(time / width);
  const tile = scene.windows.store.get(lane.lane, level, Math.floor(cell / TILE_CELLS));
  // Merged from finer tiles: the window has the sums.
  const local = cell - Math.floor(cell / TILE_CELLS) * TILE_CELLS;
  const count = tile?.count[local] ?? lane.count[index]!;
  if (count === 0) return null;
  const kind: Kind | undefined = scene.scene.kinds[tile?.kind[local] ?? lane.kind[index]!];
  return {
    start: cell * width,
    end: (cell + 1) * width,
    busy: (tile?.busy[local] ?? lane.busy[index]!) / 65535,
    count,
    kind: kind ?? null,
  };
}

/** Number of slices that begin until `time`. */
function begunBy({ sliceStart, slices }: LaneWindow, time: number): number {
  return countUpTo(sliceStart.subarray(0, slices), time);
}
