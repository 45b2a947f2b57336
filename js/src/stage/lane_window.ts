/**
 * The cells and slices of a lane in the visible tiles, ready to draw.
 *
 * The tiles of the required level are copied side by side, each into its slot. If a tile is
 * missing, a coarser tile is stretched over the slot: its slices are exact, and its other covered
 * time is spread evenly over the finer cells. `pending` is true while a slot lacks its tile of the
 * required level.
 */

import { countUpTo } from "../engine/columns";
import { allIndices, gather, type NumberColumn } from "../expressions/numbers";
import { MAX_LEVEL, MAX_U16, NO_CODE, TILE_CELLS } from "../protocol/decode";
import { getOrMake } from "../protocol/maps";
import type { Span } from "../protocol/source";
import { EMPTY_TILE, levelOf, type Tile, tileRange, type TileStore } from "./tile_store";

export const SLOT_STATE = {
  missing: 0,
  exact: 1,
  /** Cells of a coarser level, without the time of the tile's slices. */
  stretched: 2,
} as const;

/** Tiles up to this many levels finer are merged. */
const MERGE_LEVELS = 2;

export class LaneWindow {
  level = -1;
  first = 0;
  last = 0;
  busy = new Uint16Array(0);
  count = new Uint16Array(0);
  kind = new Uint8Array(0);
  /** Classes of cells and of slices, for coloring by class; `NO_CODE` where unknown. */
  classes = new Uint8Array(0);
  sliceClass = new Uint8Array(0);
  min = new Float32Array(0);
  max = new Float32Array(0);
  /** State of each slot: exact, missing or stretched. */
  slots = new Uint8Array(0);
  /** Level of each slot's tile. */
  levels = new Uint8Array(0);
  slices = 0;
  sliceStart = new Float64Array(0);
  sliceDur = new Float64Array(0);
  sliceId = new Uint32Array(0);
  sliceName = new Uint32Array(0);
  sliceKind = new Uint8Array(0);
  sliceFlags = new Uint8Array(0);
  /** Whether the tiles have no events. */
  empty = true;
  /** Whether a tile is missing or stretched. */
  pending = true;
  /** Identifies the loaded tiles. */
  private contents = "";
  private lastAddedTile: Tile | null = null;

  constructor(readonly lane: number) {}

  /** Width of a cell in ns. */
  get cell(): number {
    return 2 ** this.level;
  }

  /** Start of the first cell. */
  get start(): number {
    return this.first * TILE_CELLS * this.cell;
  }

  /** Return the number of slices that start at or before `time`. */
  countStarted(time: number): number {
    return countUpTo(this.sliceStart.subarray(0, this.slices), time);
  }

  /** Load tiles `first` to `last - 1` of `level` from the store. Fast if nothing has changed. */
  update(store: TileStore, level: number, first: number, last: number): void {
    const contents = [level, first, last, store.versions[this.lane]].join();
    if (contents === this.contents) {
      if (this.pending) return;
      for (let index = first; index < last; index += 1) {
        store.get(this.lane, level, index);
        // Classes may be required after the tile was loaded.
        if (!store.has(this.lane, level, index)) this.pending = true;
      }
      return;
    }
    this.level = level;
    this.first = first;
    this.last = last;
    this.contents = contents;
    this.slices = 0;
    this.lastAddedTile = null;
    this.empty = true;
    this.pending = false;
    const tiles = last - first;
    this.reserveCells(tiles * TILE_CELLS);
    if (this.slots.length < tiles) {
      this.slots = new Uint8Array(tiles);
      this.levels = new Uint8Array(tiles);
    }
    for (let slot = 0; slot < tiles; slot += 1) this.fill(store, slot);
    this.sortSlices();
  }

  private fill(store: TileStore, slot: number): void {
    const index = this.first + slot;
    const exact = store.get(this.lane, this.level, index);
    // A tile without the required classes is drawn until it is replaced.
    if (!store.has(this.lane, this.level, index)) this.pending = true;
    if (exact !== undefined) {
      this.setTile(slot, exact);
      return;
    }
    if (this.merge(store, slot, index) || this.stretch(store, slot, index)) return;
    this.setTile(slot, EMPTY_TILE);
    this.slots[slot] = SLOT_STATE.missing;
  }

  private setTile(slot: number, tile: Tile): void {
    const from = slot * TILE_CELLS;
    const to = from + TILE_CELLS;
    this.slots[slot] = SLOT_STATE.exact;
    this.levels[slot] = this.level;
    this.busy.set(tile.busy, from);
    this.count.set(tile.count, from);
    this.kind.set(tile.kind, from);
    // Some tiles lack classes. Only counter tiles have values.
    this.classes.fill(NO_CODE, from, to).set(tile.classes, from);
    this.min.fill(Number.NaN, from, to).set(tile.min, from);
    this.max.fill(Number.NaN, from, to).set(tile.max, from);
    this.addSlices(tile);
  }

  /** Fill a slot with finer tiles if all of them are loaded. Return whether they are. */
  private merge(store: TileStore, slot: number, index: number): boolean {
    for (let finer = 1; finer <= MERGE_LEVELS && this.level - finer >= 0; finer += 1) {
      const level = this.level - finer;
      const tiles = 2 ** finer;
      const indices = Array.from({ length: tiles }, (_, k) => index * tiles + k);
      if (!indices.every((finerIndex) => store.has(this.lane, level, finerIndex))) continue;
      this.setTile(slot, EMPTY_TILE);
      indices.forEach((finerIndex, k) => {
        const tile = store.get(this.lane, level, finerIndex)!;
        if (tile === EMPTY_TILE) return;
        this.mergeCells(tile, slot * TILE_CELLS + (k * TILE_CELLS) / tiles, tiles);
        this.addSlices(tile);
      });
      return true;
    }
    return false;
  }

  /** Merge each `factor` cells of a tile into one cell of the window, from `firstCell` on. */
  private mergeCells(tile: Tile, firstCell: number, factor: number): void {
    for (let fine = 0; fine < TILE_CELLS; fine += factor) {
      const cell = firstCell + fine / factor;
      let [busy, count, maxBusy] = [0, 0, -1];
      let [min, max] = [Infinity, -Infinity];
      for (let k = fine; k < fine + factor; k += 1) {
        busy += tile.busy[k]!;
        count += tile.count[k]!;
        if (tile.count[k]! > 0 && tile.busy[k]! > maxBusy) {
          maxBusy = tile.busy[k]!;
          this.kind[cell] = tile.kind[k]!;
          this.classes[cell] = tile.classes[k] ?? NO_CODE;
        }
        // Comparisons with missing values, which are NaN or undefined, are false.
        if (tile.min[k]! < min) min = tile.min[k]!;
        if (tile.max[k]! > max) max = tile.max[k]!;
      }
      this.busy[cell] = busy / factor;
      this.count[cell] = Math.min(count, MAX_U16);
      if (max < min) continue;
      this.min[cell] = min;
      this.max[cell] = max;
    }
  }

  /** Fill a slot from the finest loaded tile of a coarser level. Return whether there is one. */
  private stretch(store: TileStore, slot: number, index: number): boolean {
    for (let level = this.level + 1; level <= MAX_LEVEL; level += 1) {
      const coarseIndex = Math.floor(index / 2 ** (level - this.level));
      const tile = store.get(this.lane, level, coarseIndex);
      if (tile === undefined) continue;
      this.setTile(slot, EMPTY_TILE);
      if (tile === EMPTY_TILE) return true;
      this.slots[slot] = SLOT_STATE.stretched;
      this.levels[slot] = level;
      this.stretchCells(tile, coarseIndex, slot);
      this.addSlices(tile);
      return true;
    }
    return false;
  }

  /** Split a coarser tile's cells into the finer cells of a slot. */
  private stretchCells(tile: Tile, index: number, slot: number): void {
    const coarseCellNs = 2 ** this.levels[slot]!;
    const { share, counts } = cellsWithoutSlices(tile, index, coarseCellNs);
    for (let cell = slot * TILE_CELLS; cell < (slot + 1) * TILE_CELLS; cell += 1) {
      const start = this.start + cell * this.cell;
      const coarseCell = Math.floor(start / coarseCellNs) - index * TILE_CELLS;
      this.busy[cell] = Math.max(0, Math.round(share[coarseCell]! * MAX_U16));
      this.count[cell] = Math.max(0, counts[coarseCell]!);
      this.kind[cell] = tile.kind[coarseCell]!;
      this.classes[cell] = tile.classes[coarseCell] ?? NO_CODE;
      this.min[cell] = tile.min[coarseCell] ?? Number.NaN;
      this.max[cell] = tile.max[coarseCell] ?? Number.NaN;
    }
  }

  /** Add a tile's slices. A slice that crosses a border is in both tiles but is added once. */
  private addSlices(tile: Tile): void {
    if (tile !== EMPTY_TILE) this.empty = false;
    const added = tile.sliceStart.length;
    // A coarse tile may occupy several slots.
    if (added === 0 || tile === this.lastAddedTile) return;
    this.lastAddedTile = tile;
    this.reserveSlices(this.slices + added);
    const before = this.slices;
    for (let i = 0; i < added; i += 1) {
      if (before > 0 && this.hasSlice(tile.sliceId[i]!, tile.sliceStart[i]!, before)) continue;
      const slice = this.slices;
      this.sliceStart[slice] = tile.sliceStart[i]!;
      this.sliceDur[slice] = tile.sliceDur[i]!;
      this.sliceId[slice] = tile.sliceId[i]!;
      this.sliceName[slice] = tile.sliceName[i]!;
      this.sliceKind[slice] = tile.sliceKind[i]!;
      this.sliceFlags[slice] = tile.sliceFlags[i]!;
      this.sliceClass[slice] = tile.sliceClass[i] ?? NO_CODE;
      this.slices += 1;
    }
  }

  /** Return whether a slice is among the first `count` slices of the window. */
  private hasSlice(id: number, start: number, count: number): boolean {
    if (start > this.sliceStart[count - 1]!) return false;
    for (let i = count - 1; i >= 0; i -= 1) {
      if (this.sliceId[i] === id && this.sliceStart[i] === start) return true;
    }
    return false;
  }

  private sortSlices(): void {
    const starts = this.sliceStart.subarray(0, this.slices);
    if (starts.every((start, i) => i === 0 || starts[i - 1]! <= start)) return;
    const order = allIndices(this.slices).sort(
      (a, b) => this.sliceStart[a]! - this.sliceStart[b]! || this.sliceDur[b]! - this.sliceDur[a]!,
    );
    this.replaceSlices((column) => gather(column, order));
  }

  private reserveCells(cells: number): void {
    if (this.busy.length >= cells) return;
    this.busy = new Uint16Array(cells);
    this.count = new Uint16Array(cells);
    this.kind = new Uint8Array(cells);
    this.classes = new Uint8Array(cells);
    this.min = new Float32Array(cells);
    this.max = new Float32Array(cells);
  }

  private reserveSlices(requested: number): void {
    if (this.sliceStart.length >= requested) return;
    const size = Math.max(64, 2 ** Math.ceil(Math.log2(requested)));
    this.replaceSlices((column) => {
      const longer = new (column.constructor as new (length: number) => typeof column)(size);
      longer.set(column);
      return longer;
    });
  }

  private replaceSlices(replace: <T extends NumberColumn>(column: T) => T): void {
    this.sliceStart = replace(this.sliceStart);
    this.sliceDur = replace(this.sliceDur);
    this.sliceId = replace(this.sliceId);
    this.sliceName = replace(this.sliceName);
    this.sliceKind = replace(this.sliceKind);
    this.sliceFlags = replace(this.sliceFlags);
    this.sliceClass = replace(this.sliceClass);
  }
}

// Cells include all events. The time of long events is subtracted: they are drawn as rectangles.

/** Cells of `cell` ns. The first cell starts at `origin`. */
interface CellRow {
  origin: number;
  cell: number;
  /** For each cell, the covered share of its time (0..1) and the number of events. */
  share: Float32Array;
  counts: Int32Array;
}

/** Subtract slices of at least `minNs` from the cells. Slices are sorted by start. */
export function subtractSlices(
  { origin, cell, share, counts }: CellRow,
  { sliceStart, sliceDur }: Pick<Tile, "sliceStart" | "sliceDur">,
  minNs: number,
): void {
  const cells = share.length;
  // Slices in a summary lane may overlap, but its cells count their union, so subtract it once.
  let reached = -Infinity;
  for (let i = 0; i < sliceStart.length; i += 1) {
    const dur = sliceDur[i]!;
    if (dur < minNs) continue;
    const from = (sliceStart[i]! - origin) / cell;
    const to = from + dur / cell;
    if (to <= 0) continue;
    if (from >= cells) break;
    const endCell = Math.min(cells, Math.ceil(to));
    const uncoveredFrom = Math.max(from, reached);
    for (let k = Math.max(0, Math.floor(from)); k < endCell; k += 1) {
      counts[k]! -= 1;
      const covered = Math.min(to, k + 1) - Math.max(uncoveredFrom, k);
      if (covered > 0) share[k]! -= covered;
    }
    if (to > reached) reached = to;
  }
}

/** Return the cells of a tile without its slices, which are drawn as rectangles. */
function cellsWithoutSlices(tile: Tile, index: number, cell: number): CellRow {
  const share = Float32Array.from(tile.busy, (busy) => busy / MAX_U16);
  const origin = index * TILE_CELLS * cell;
  const row = { origin, cell, share, counts: new Int32Array(tile.count) };
  subtractSlices(row, tile, 0);
  return row;
}

// Cells without long events: drawn as columns between the rectangles of these events.

let share = new Float32Array(0);
let counts = new Int32Array(0);

/** Map pixels to a lane's cells. `start` is the time at x = 0; `nsPerPx` is the scale. */
export function pixelMapping(
  lane: LaneWindow,
  { start, nsPerPx }: { start: number; nsPerPx: number },
  width: number,
) {
  const cells = (lane.last - lane.first) * TILE_CELLS;
  const cellsPerPx = nsPerPx / lane.cell;
  /** Fractional index of the cell at x = 0. */
  const origin = (start - lane.start) / lane.cell;
  /** First pixel that has cells, and the pixel after the last one. */
  const first = Math.max(0, Math.floor(-origin / cellsPerPx));
  const last = Math.min(width, Math.ceil((cells - origin) / cellsPerPx));
  return { cells, cellsPerPx, origin, first, last };
}

/** Return the edges of a pixel in cells, and the first and last cell that it overlaps. */
export function cellsOfPixel(mapping: ReturnType<typeof pixelMapping>, x: number) {
  const from = mapping.origin + x * mapping.cellsPerPx;
  const to = from + mapping.cellsPerPx;
  const first = Math.max(0, Math.floor(from));
  return { x, from, to, first, last: Math.min(mapping.cells - 1, Math.ceil(to) - 1) };
}

export type Residual = Pick<CellRow, "share" | "counts">;

/** Return a lane's cells without slices of at least `minNs`. Arrays are reused. */
export function residualCells(lane: LaneWindow, minNs: number): Residual {
  const tiles = lane.last - lane.first;
  const cells = tiles * TILE_CELLS;
  if (share.length < cells) {
    share = new Float32Array(cells);
    counts = new Int32Array(cells);
  }
  readCells(lane, 0, cells);
  if (lane.slices === 0) return { share, counts };
  const { start: origin, cell, sliceDur } = lane;
  const sliceStart = lane.sliceStart.subarray(0, lane.slices);
  const row = { origin, cell, share: share.subarray(0, cells), counts };
  subtractSlices(row, { sliceStart, sliceDur }, minNs);
  // Stretched cells do not contain the time of slices.
  for (let slot = 0; slot < tiles; slot += 1) {
    if (lane.slots[slot] === SLOT_STATE.exact) continue;
    readCells(lane, slot * TILE_CELLS, (slot + 1) * TILE_CELLS);
  }
  return { share, counts };
}

function readCells({ busy, count }: LaneWindow, from: number, to: number): void {
  for (let k = from; k < to; k += 1) {
    share[k] = busy[k]! / MAX_U16;
    counts[k] = count[k]!;
  }
}

/** Number of windows cached in addition to the visible windows. */
const SPARE_WINDOWS = 256;

/** The windows of the visible lanes, and of lanes that may scroll back into view. */
export class LaneWindows {
  /** Whether a tile of a visible lane is pending. */
  pending = false;
  private readonly windows = new Map<number, LaneWindow>();

  constructor(readonly store: TileStore) {}

  get(lane: number): LaneWindow | null {
    return this.windows.get(lane) ?? null;
  }

  /** Update the windows of `lanes` from the view and the loaded tiles. */
  update(lanes: readonly number[], view: Span, nsPerPx: number, range: Span): void {
    const level = levelOf(nsPerPx);
    const { first, last } = tileRange(view, level, range);
    this.store.tick();
    this.pending = false;
    for (const lane of lanes) {
      const window = getOrMake(this.windows, lane, () => new LaneWindow(lane));
      window.update(this.store, level, first, last);
      if (window.pending) this.pending = true;
    }
    if (this.windows.size <= lanes.length + SPARE_WINDOWS) return;
    const visibleLanes = new Set(lanes);
    for (const lane of this.windows.keys()) if (!visibleLanes.has(lane)) this.windows.delete(lane);
  }
}
