/**
 * The cells and slices of a lane in the visible tiles, ready to draw.
 *
 * The tiles of the required level are copied side by side, each into its slot. While one is
 * missing, a coarser tile is stretched over the slot: its slices are exact, and its other covered
 * time is spread evenly over the finer cells. `pending` is true while any slot has no tile of the
 * required level.
 */

import { countUpTo } from "../engine/columns";
import { MAX_LEVEL, MAX_U16, NO_CODE, TILE_CELLS } from "../protocol/decode";
import { getOrMake } from "../protocol/maps";
import type { Span } from "../protocol/source";
import { EMPTY_TILE, levelOf, type Tile, tileRange, type TileStore } from "./tile_store";

export const SLOT_STATE = {
  missing: 0,
  exact: 1,
  /** Cells of a coarser level, without the time of its slices. */
  stretched: 2,
} as const;

/** Tiles that are up to this many levels finer are merged. */
const MERGE_LEVELS = 2;

/** Result of `loadRemainder`: busy share and event count of each cell without the tile's slices. */
const remainingShare = new Float32Array(TILE_CELLS);
const remainingCount = new Int32Array(TILE_CELLS);

/**
 * Set `remainingShare` and `remainingCount`. The slices of a coarse tile are drawn as rectangles,
 * so they must be subtracted before its cells are split into finer ones.
 */
function loadRemainder(tile: Tile, firstCell: number, cell: number): void {
  for (let k = 0; k < TILE_CELLS; k += 1) {
    remainingShare[k] = tile.busy[k]! / MAX_U16;
    remainingCount[k] = tile.count[k]!;
  }
  const origin = firstCell * cell;
  subtractSlices(remainingShare, remainingCount, origin, cell, tile, tile.sliceStart.length, 0);
}

export class LaneWindow {
  level = -1;
  first = 0;
  last = 0;
  busy = new Uint16Array(0);
  count = new Uint16Array(0);
  kind = new Uint8Array(0);
  /** Classes by cell and by slice, for coloring by class; `NO_CODE` where they are unknown. */
  classes = new Uint8Array(0);
  sliceClass = new Uint8Array(0);
  min = new Float32Array(0);
  max = new Float32Array(0);
  /** For each slot: exact, missing or stretched. */
  slots = new Uint8Array(0);
  /** For each slot, the level of its tile. */
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
  private version = -1;
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

  /** Load tiles `first` to `last - 1` of `level` from the store. Cheap if nothing has changed. */
  update(store: TileStore, level: number, first: number, last: number): void {
    const version = store.versions[this.lane] ?? 0;
    if (
      level === this.level &&
      first === this.first &&
      last === this.last &&
      version === this.version
    ) {
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
    this.version = version;
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
    // Tiles may lack classes, and only tiles of counters have values.
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

  /** Merge groups of `factor` cells of a tile into cells of the window, from `firstCell` on. */
  private mergeCells(tile: Tile, firstCell: number, factor: number): void {
    const isCounter = tile.min.length > 0;
    for (let cell = 0; cell < TILE_CELLS / factor; cell += 1) {
      let busy = 0;
      let count = 0;
      let maxBusy = -1;
      let min = Number.POSITIVE_INFINITY;
      let max = Number.NEGATIVE_INFINITY;
      for (let k = cell * factor; k < (cell + 1) * factor; k += 1) {
        busy += tile.busy[k]!;
        count += tile.count[k]!;
        if (tile.count[k]! > 0 && tile.busy[k]! > maxBusy) {
          maxBusy = tile.busy[k]!;
          this.kind[firstCell + cell] = tile.kind[k]!;
          this.classes[firstCell + cell] = tile.classes[k] ?? NO_CODE;
        }
        if (isCounter && tile.min[k]! < min) min = tile.min[k]!;
        if (isCounter && tile.max[k]! > max) max = tile.max[k]!;
      }
      this.busy[firstCell + cell] = busy / factor;
      this.count[firstCell + cell] = Math.min(count, MAX_U16);
      if (max >= min) {
        this.min[firstCell + cell] = min;
        this.max[firstCell + cell] = max;
      }
    }
  }

  /** Fill a slot from the finest coarser tile that is loaded. Return whether there is one. */
  private stretch(store: TileStore, slot: number, index: number): boolean {
    for (let levelsUp = 1; this.level + levelsUp <= MAX_LEVEL; levelsUp += 1) {
      const factor = 2 ** levelsUp;
      const coarseIndex = Math.floor(index / factor);
      const tile = store.get(this.lane, this.level + levelsUp, coarseIndex);
      if (tile === undefined) continue;
      this.setTile(slot, EMPTY_TILE);
      if (tile === EMPTY_TILE) return true;
      this.slots[slot] = SLOT_STATE.stretched;
      this.levels[slot] = this.level + levelsUp;
      const isCounter = tile.min.length > 0;
      const firstCell = slot * TILE_CELLS;
      const origin = (index - coarseIndex * factor) * TILE_CELLS;
      loadRemainder(tile, coarseIndex * TILE_CELLS, this.cell * factor);
      for (let cell = 0; cell < TILE_CELLS; cell += 1) {
        const coarseCell = Math.floor((origin + cell) / factor);
        this.busy[firstCell + cell] = Math.max(
          0,
          Math.round(remainingShare[coarseCell]! * MAX_U16),
        );
        this.count[firstCell + cell] = Math.max(0, remainingCount[coarseCell]!);
        this.kind[firstCell + cell] = tile.kind[coarseCell]!;
        this.classes[firstCell + cell] = tile.classes[coarseCell] ?? NO_CODE;
        if (!isCounter) continue;
        this.min[firstCell + cell] = tile.min[coarseCell]!;
        this.max[firstCell + cell] = tile.max[coarseCell]!;
      }
      this.addSlices(tile);
      return true;
    }
    return false;
  }

  /** Add the slices of a tile. A slice that crosses a border is in both tiles but is added once. */
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
      const firstSlice = this.slices;
      this.sliceStart[firstSlice] = tile.sliceStart[i]!;
      this.sliceDur[firstSlice] = tile.sliceDur[i]!;
      this.sliceId[firstSlice] = tile.sliceId[i]!;
      this.sliceName[firstSlice] = tile.sliceName[i]!;
      this.sliceKind[firstSlice] = tile.sliceKind[i]!;
      this.sliceFlags[firstSlice] = tile.sliceFlags[i]!;
      this.sliceClass[firstSlice] = tile.sliceClass[i] ?? NO_CODE;
      this.slices += 1;
    }
  }

  private hasSlice(id: number, start: number, before: number): boolean {
    if (start > this.sliceStart[before - 1]!) return false;
    for (let i = before - 1; i >= 0; i -= 1) {
      if (this.sliceId[i] === id && this.sliceStart[i] === start) return true;
    }
    return false;
  }

  private sortSlices(): void {
    const n = this.slices;
    let sorted = true;
    for (let i = 1; i < n && sorted; i += 1)
      sorted = this.sliceStart[i - 1]! <= this.sliceStart[i]!;
    if (sorted) return;
    const order = Array.from({ length: n }, (_, i) => i).sort(
      (a, b) => this.sliceStart[a]! - this.sliceStart[b]! || this.sliceDur[b]! - this.sliceDur[a]!,
    );
    this.sliceStart = Float64Array.from(order, (i) => this.sliceStart[i]!);
    this.sliceDur = Float64Array.from(order, (i) => this.sliceDur[i]!);
    this.sliceId = Uint32Array.from(order, (i) => this.sliceId[i]!);
    this.sliceName = Uint32Array.from(order, (i) => this.sliceName[i]!);
    this.sliceKind = Uint8Array.from(order, (i) => this.sliceKind[i]!);
    this.sliceFlags = Uint8Array.from(order, (i) => this.sliceFlags[i]!);
    this.sliceClass = Uint8Array.from(order, (i) => this.sliceClass[i]!);
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
    this.sliceStart = growArray(this.sliceStart, new Float64Array(size));
    this.sliceDur = growArray(this.sliceDur, new Float64Array(size));
    this.sliceId = growArray(this.sliceId, new Uint32Array(size));
    this.sliceName = growArray(this.sliceName, new Uint32Array(size));
    this.sliceKind = growArray(this.sliceKind, new Uint8Array(size));
    this.sliceFlags = growArray(this.sliceFlags, new Uint8Array(size));
    this.sliceClass = growArray(this.sliceClass, new Uint8Array(size));
  }
}

function growArray<T extends { set(source: T): void }>(from: T, to: T): T {
  to.set(from);
  return to;
}

// Cells include all events. The time of long events, drawn as rectangles, is subtracted.

/**
 * Subtract slices of at least `minNs` from `share` (0..1 per cell) and from `count`. The cells
 * start at `origin` and are `cell` ns wide. Only the first `length` slices are used; they are
 * sorted by start.
 */
export function subtractSlices(
  share: Float32Array,
  count: Int32Array,
  origin: number,
  cell: number,
  slices: { sliceStart: Float64Array; sliceDur: Float64Array },
  length: number,
  minNs: number,
): void {
  const { sliceStart, sliceDur } = slices;
  const cells = share.length;
  // Slices in a summary lane may overlap, but its cells count their union: subtract once.
  let reached = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < length; i += 1) {
    const dur = sliceDur[i]!;
    if (dur < minNs) continue;
    const from = (sliceStart[i]! - origin) / cell;
    const to = from + dur / cell;
    if (to <= 0) continue;
    if (from >= cells) break;
    const lastCell = Math.min(cells, Math.ceil(to));
    const uncoveredFrom = Math.max(from, reached);
    for (let k = Math.max(0, Math.floor(from)); k < lastCell; k += 1) {
      count[k]! -= 1;
      const covered = Math.min(to, k + 1) - Math.max(uncoveredFrom, k);
      if (covered > 0) share[k]! -= covered;
    }
    if (to > reached) reached = to;
  }
}

// What remains in the cells is drawn as columns beside the rectangles of long events.

let share = new Float32Array(0);
let counts = new Int32Array(0);

/** Map pixels to the cells of a lane. `start` is the time at x = 0, `nsPerPx` the scale. */
export function pixelMapping(
  lane: LaneWindow,
  { start, nsPerPx }: { start: number; nsPerPx: number },
  width: number,
) {
  const cells = (lane.last - lane.first) * TILE_CELLS;
  /** Number of cells per pixel. */
  const perPx = nsPerPx / lane.cell;
  /** Fractional index of the cell at x = 0. */
  const origin = (start - lane.start) / lane.cell;
  /** First pixel that has cells, and the pixel after the last one. */
  const first = Math.max(0, Math.floor(-origin / perPx));
  const last = Math.min(width, Math.ceil((cells - origin) / perPx));
  return { cells, perPx, origin, first, last };
}

/** Return busy share and count per cell without slices of at least `minNs`. Arrays are reused. */
export function residualCells(lane: LaneWindow, minNs: number) {
  const tiles = lane.last - lane.first;
  const cells = tiles * TILE_CELLS;
  if (share.length < cells) {
    share = new Float32Array(cells);
    counts = new Int32Array(cells);
  }
  readCells(lane, 0, cells);
  if (lane.slices === 0) return { share, counts };
  const { start, cell, slices } = lane;
  subtractSlices(share.subarray(0, cells), counts, start, cell, lane, slices, minNs);
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

/** Number of windows to cache in addition to the visible ones. */
const SPARE_WINDOWS = 256;

/** The windows of the visible lanes, and of lanes that may scroll back into view. */
export class LaneWindows {
  /** Whether a visible lane has a pending tile. */
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
