/** A rank for which the page has only an overview on a grid of cells. */

import { NO_CODE, TILE_CELLS } from "../protocol/decode";
import type { Brief, TableName } from "../protocol/source";
import {
  type Cells,
  buildCellTiles,
  type CounterTile,
  type TileSlice,
  type CellTile,
  type TileRange,
  buildValueTiles,
} from "./cells";
import type { ColumnReader, NameTable } from "./columns";
import type { OverviewHeader, TrackHeader } from "./document";
import type { RankTrace } from "./rank";

export class RankOverview {
  readonly number: number;
  private readonly cellNs: number;
  private readonly lanes = new Map<number, GridLane>();
  private readonly counters = new Map<number, { low: Float32Array; high: Float32Array }>();

  constructor(
    readonly header: OverviewHeader,
    private readonly columns: ColumnReader,
    readonly names: NameTable,
  ) {
    this.number = header.rank;
    this.cellNs = 2 ** header.level;
    this.readLanes();
    this.readInstants();
    this.readSlices();
  }

  private readLanes(): void {
    const { header, columns } = this;
    const read = (name: string): Float64Array => columns.f64(name);
    const [covered, counts, starts] = [read("covered"), read("count"), read("starts")];
    const [low, high] = [columns.floats("low"), columns.floats("high")];
    // The columns contain all cells of a lane and, if it has several kinds, all cells of each kind.
    let from = 0;
    const readNextSums = (kind: number): GridSums => {
      const cellsOf = (values: Float64Array): Float64Array =>
        values.subarray(from, from + header.cells);
      const laneStarts = cellsOf(starts);
      const sums = {
        kind,
        covered: prefixSums(cellsOf(covered)),
        starts: prefixSums(laneStarts),
        open: cellsOf(counts).map((events, k) => events - laneStarts[k]!),
      };
      from += header.cells;
      return sums;
    };
    let counterFrom = 0;
    for (const { lane, kinds, counter } of header.lanes_kept) {
      if (counter) {
        const to = counterFrom + header.cells;
        this.counters.set(lane, {
          low: new Float32Array(low.subarray(counterFrom, to)),
          high: new Float32Array(high.subarray(counterFrom, to)),
        });
        counterFrom = to;
        continue;
      }
      const total = readNextSums(kinds[0] ?? NO_CODE);
      const sumsByKind = kinds.length < 2 ? [total] : kinds.map(readNextSums);
      this.lanes.set(lane, new GridLane(header, total, sumsByKind));
    }
  }

  private readInstants(): void {
    const [lanes, cells] = [this.columns.i32("instant_lane"), this.columns.i32("instant_cell")];
    const kinds = this.columns.u8("instant_kind");
    lanes.forEach((lane, i) => {
      this.lanes.get(this.header.lanes_kept[lane]!.lane)?.instants.set(cells[i]!, kinds[i]!);
    });
  }

  private readSlices(): void {
    const { columns, header } = this;
    const [start, dur] = [columns.f64("slice_start"), columns.f64("slice_dur")];
    const [id, type] = [columns.i32("slice_id"), columns.i32("slice_type")];
    const flags = columns.u8("slice_flags");
    columns.i32("slice_lane").forEach((lane, i) => {
      const [name, , kind] = header.types[type[i]!]!;
      this.lanes.get(header.lanes_kept[lane]!.lane)?.slices.push({
        start: start[i]!,
        dur: dur[i]!,
        id: id[i]!,
        name: this.names.shortKey(name),
        kind,
        flags: flags[i]!,
        type: type[i]!,
      });
    });
  }

  tiles(lane: number, requested: TileRange): CellTile[] {
    const grid = this.lanes.get(lane);
    if (grid === undefined) return [];
    return buildCellTiles(this.extent(), requested, ({ level, first, last }) => ({
      cells: grid.measure(level, first * TILE_CELLS, (last - first) * TILE_CELLS),
      slices: grid.slices.filter(({ dur }) => dur >= 2 * 2 ** level),
    }));
  }

  counterTiles(lane: number, requested: TileRange): CounterTile[] {
    const grid = this.counters.get(lane);
    if (grid === undefined) return [];
    return buildValueTiles(this.extent(), requested, ({ level, first, last }) => {
      const length = (last - first) * TILE_CELLS;
      const min = new Float32Array(length).fill(Number.NaN);
      const max = new Float32Array(length).fill(Number.NaN);
      for (let k = 0; k < length; k += 1) {
        const [from, to] = gridRange(this.header, level, first * TILE_CELLS + k);
        for (let cell = from; cell < to; cell += 1) {
          const [low, high] = [grid.low[cell]!, grid.high[cell]!];
          if (!(low >= min[k]!) && !Number.isNaN(low)) min[k] = low;
          if (!(high <= max[k]!) && !Number.isNaN(high)) max[k] = high;
        }
      }
      return { min, max };
    });
  }

  private extent(): [number, number] {
    const { first, cells } = this.header;
    return [first * this.cellNs, (first + cells) * this.cellNs];
  }

  /** Return the grid cells of a window (end exclusive); null if its edges are off the grid. */
  private cellRange(start: number, end: number): [from: number, to: number] | null {
    if (start % this.cellNs !== 0 || end % this.cellNs !== 0) return null;
    const { first, cells } = this.header;
    return [
      clampToGrid(start / this.cellNs - first, cells),
      clampToGrid(end / this.cellNs - first, cells),
    ];
  }

  /** Return the exact contents of a window; null if its edges are off the grid. */
  windowContents(lane: number, start: number, end: number) {
    const [grid, range] = [this.lanes.get(lane), this.cellRange(start, end)];
    if (grid === undefined || range === null) return null;
    const [from, to] = range;
    const cells = emptyCells(1);
    // The window may lie outside the grid.
    if (to > from) grid.mergeCells(from, to, cells, 0);
    const kinds = grid.kinds.filter((sums) => to > from && countEvents(sums, from, to) > 0);
    let longest: GridSlice | null = null;
    for (const slice of grid.slices) {
      const isInside = slice.start < end && slice.start + slice.dur > start;
      if (isInside && slice.dur > (longest?.dur ?? 0)) longest = slice;
    }
    return {
      cells,
      kinds: kinds.map(({ kind, covered }): [kind: number, ns: number] => [
        kind,
        covered[to]! - covered[from]!,
      ]),
      longest: longest === null ? null : this.brief(lane, longest),
    };
  }

  /**
   * Return a counter's smallest and largest value in a window (infinite if it has no values). Null
   * if the window's edges are off the grid.
   */
  counterExtremes(lane: number, start: number, end: number): [low: number, high: number] | null {
    const [grid, range] = [this.counters.get(lane), this.cellRange(start, end)];
    if (grid === undefined || range === null) return null;
    let [low, high] = [Infinity, -Infinity];
    for (let cell = range[0]; cell < range[1]; cell += 1) {
      if (grid.low[cell]! < low) low = grid.low[cell]!;
      if (grid.high[cell]! > high) high = grid.high[cell]!;
    }
    return [low, high];
  }

  trackAt(lane: number): TrackHeader | null {
    const hasLane = ({ lane0, lanes }: TrackHeader) => lane >= lane0 && lane < lane0 + lanes;
    return this.header.tracks.find(hasLane) ?? null;
  }

  /** Return a long event; null if it is not in the page. */
  findEvent(table: TableName, id: number): { brief: Brief; category: number } | null {
    // An event is in its own lane and in a summary lane. The later entry, its own lane, is used.
    let event: { brief: Brief; category: number } | null = null;
    for (const [lane, grid] of this.lanes) {
      if (this.tableOf(lane) !== table) continue;
      const slice = grid.slices.find((candidate) => candidate.id === id);
      if (slice === undefined) continue;
      event = { brief: this.brief(lane, slice), category: this.header.types[slice.type]![1] };
    }
    return event;
  }

  private brief(lane: number, slice: GridSlice): Brief {
    const [name, , kind] = this.header.types[slice.type]!;
    return {
      rank: this.number,
      table: this.tableOf(lane),
      id: slice.id,
      lane,
      name: this.names.full(name),
      short: this.names.short(name),
      kind: this.names.kind(kind),
      start: slice.start,
      dur: slice.dur,
    };
  }

  private tableOf(lane: number): TableName {
    const role = this.trackAt(lane)?.role;
    if (role === "async") return "asyncs";
    return role === "instant" ? "instants" : "events";
  }

  /** Return a function that gives the time before an instant covered by a union of device work. */
  deviceTimeBefore(name: string): (time: number) => number {
    return this.interpolate(prefixSums(this.columns.f64(`device_${name}`)));
  }

  /** Return covered time and main kind between edges. Time is spread evenly within a cell. */
  interpolatedCells(lane: number, edges: Float64Array): Omit<Cells, "mask"> {
    const cells = emptyCells(edges.length - 1);
    const { total, kinds = [] } = this.lanes.get(lane) ?? {};
    const timesOf = ({ covered }: GridSums): Float64Array => {
      const before = edges.map(this.interpolate(covered));
      return before.subarray(1).map((time, k) => time - before[k]!);
    };
    const timeOfMainKind = new Float64Array(edges.length - 1);
    for (const sums of kinds) {
      timesOf(sums).forEach((time, k) => {
        if (time <= timeOfMainKind[k]!) return;
        timeOfMainKind[k] = time;
        cells.kind[k] = sums.kind;
      });
    }
    return { ...cells, covered: total === undefined ? timeOfMainKind : timesOf(total) };
  }

  /** Return a function that gives the sum before an instant, evenly spread within each cell. */
  private interpolate(sums: Float64Array): (time: number) => number {
    const { first, cells } = this.header;
    return (time) => {
      if (cells === 0) return 0;
      const position = clampToGrid(time / this.cellNs - first, cells);
      const low = Math.min(Math.floor(position), cells - 1);
      return sums[low]! + (position - low) * (sums[low + 1]! - sums[low]!);
    };
  }
}

// An overview's lane: how much of each grid cell is covered by events.

interface GridSlice extends TileSlice {
  /** Position in the types of the rank. */
  type: number;
}

/** A grid of cells that are 2^level ns wide and start at index `first`. */
interface Grid {
  level: number;
  first: number;
  cells: number;
}

/** The events of one kind on the grid. */
interface GridSums {
  kind: number;
  /** Covered time before each edge of the grid. */
  covered: Float64Array;
  /** Number of events that start before each edge of the grid. */
  starts: Float64Array;
  /** Number of events that cross the start of each cell. */
  open: Float64Array;
}

function countEvents({ starts, open }: GridSums, from: number, to: number): number {
  return starts[to]! - starts[from]! + open[from]!;
}

class GridLane {
  /** Kind of a cell's first zero-length event, if it does not have the lowest code. */
  readonly instants = new Map<number, number>();
  /** Events that span at least two cells, by start. */
  readonly slices: GridSlice[] = [];
  private shares: Float64Array | null = null;

  /** `total`: sums of all events; `kinds`: sums per kind, ascending. */
  constructor(
    private readonly grid: Grid,
    readonly total: GridSums,
    readonly kinds: readonly GridSums[],
  ) {}

  /** Return the contents of `cells` cells of a level, starting at index `first`. */
  measure(level: number, first: number, cells: number): Cells {
    const out = emptyCells(cells);
    for (let k = 0; k < cells; k += 1) {
      const [from, to] = gridRange(this.grid, level, first + k);
      if (to > from) this.mergeCells(from, to, out, k);
    }
    if (level < this.grid.level) this.spreadEvenly(level, first, out);
    return out;
  }

  /** Merge the grid cells `from` to `to` (exclusive) into cell `k` of `out`. */
  mergeCells(from: number, to: number, out: Cells, k: number): void {
    let maxCovered = 0;
    for (const sums of this.kinds) {
      const count = countEvents(sums, from, to);
      if (count === 0) continue;
      out.count[k]! += count;
      out.mask[k]! |= 1 << sums.kind;
      const covered = sums.covered[to]! - sums.covered[from]!;
      if (covered > maxCovered) {
        maxCovered = covered;
        out.kind[k] = sums.kind;
      }
    }
    out.covered[k] = this.total.covered[to]! - this.total.covered[from]!;
    if (maxCovered === 0 && out.count[k]! > 0) out.kind[k] = this.firstKind(from, to);
  }

  /** Return the kind of the first event in cells that contain only zero-length events. */
  private firstKind(from: number, to: number): number {
    for (let cell = from; cell < to; cell += 1) {
      const instantKind = this.instants.get(cell);
      if (instantKind !== undefined) return instantKind;
      const withStart = this.kinds.find(({ starts }) => starts[cell + 1]! > starts[cell]!);
      if (withStart !== undefined) return withStart.kind;
    }
    return NO_CODE;
  }

  /** Fill cells finer than the grid: place long events exactly and spread other time evenly. */
  private spreadEvenly(level: number, first: number, out: Cells): void {
    const width = 2 ** level;
    const long = new Float64Array(out.covered.length);
    this.addSlices(long, first * width, width, out.kind);
    const filled = this.filledShares();
    for (let k = 0; k < out.covered.length; k += 1) {
      const [from, to] = gridRange(this.grid, level, first + k);
      if (to <= from) continue;
      out.covered[k] = long[k]! + Math.floor(filled[from]! * (width - long[k]!));
      if (out.covered[k]! > 0) continue;
      out.count[k] = 0;
      out.mask[k] = 0;
      out.kind[k] = NO_CODE;
    }
  }

  /** Return the share of each grid cell that is covered by events other than long events. */
  private filledShares(): Float64Array {
    if (this.shares !== null) return this.shares;
    const { level, first, cells } = this.grid;
    const width = 2 ** level;
    const long = new Float64Array(cells);
    this.addSlices(long, first * width, width, null);
    const { covered } = this.total;
    this.shares = long.map((ns, k) => {
      const restNs = covered[k + 1]! - covered[k]! - ns;
      return restNs > 0 ? Math.min(restNs / (width - ns), 1) : 0;
    });
    return this.shares;
  }

  /**
   * Add the union of long events to the cells, the first of which begins at `origin`. A cell takes
   * the kind of a long event that covers most of it.
   */
  private addSlices(
    covered: Float64Array,
    origin: number,
    width: number,
    kind: Uint8Array | null,
  ): void {
    let reached = Number.NEGATIVE_INFINITY;
    for (const slice of this.slices) {
      const end = slice.start + slice.dur;
      // Only the part that follows earlier slices and is within the cells.
      const from = Math.max(slice.start, reached, origin);
      const to = Math.min(end, origin + covered.length * width);
      reached = Math.max(reached, end);
      if (from >= to) continue;
      const last = Math.ceil((to - origin) / width) - 1;
      for (let k = Math.floor((from - origin) / width); k <= last; k += 1) {
        const start = origin + k * width;
        const ns = Math.min(to, start + width) - Math.max(from, start);
        covered[k]! += ns;
        if (kind !== null && 2 * ns > width) kind[k] = slice.kind;
      }
    }
  }
}

function emptyCells(cells: number): Cells {
  return {
    covered: new Float64Array(cells),
    count: new Float64Array(cells),
    kind: new Uint8Array(cells).fill(NO_CODE),
    mask: new Uint8Array(cells),
  };
}

/** Return the grid cells in a cell of another level, or the cell around it; may be empty. */
function gridRange(grid: Grid, level: number, cell: number): [from: number, to: number] {
  const factor = 2 ** (level - grid.level);
  const from = Math.floor(cell * factor) - grid.first;
  const to = Math.max(Math.floor((cell + 1) * factor) - grid.first, from + 1);
  return [clampToGrid(from, grid.cells), clampToGrid(to, grid.cells)];
}

function clampToGrid(position: number, cells: number): number {
  return Math.min(Math.max(position, 0), cells);
}

/** Return the sum before each value, followed by the total. */
function prefixSums(values: Float64Array): Float64Array {
  const out = new Float64Array(values.length + 1);
  for (let i = 0; i < values.length; i += 1) out[i + 1] = out[i]! + values[i]!;
  return out;
}

export type RankData = RankTrace | RankOverview;
