/**
 * One rank of which the page holds an overview: what its lanes cover on a grid of cells, and the
 * events that are at least two cells long. Exact from the grid's level on; below it, what is not
 * one of those events is spread over its cell.
 */

import type { Brief, Kind, TableName } from "../contract";
import {
  CELLS,
  clipped,
  type CounterTileOut,
  cutCounterTiles,
  cutTiles,
  quantised,
  type TileOut,
} from "./cells";
import type { Columns } from "./columns";
import type { OverviewHeader } from "./document";
import { gridCells, GridLane, type GridSlice, noCells, type Part, prefix, within } from "./grid";
import { type Cells, NO_KIND } from "./lane";
import type { Names } from "./names";

const MAX_COUNT = 65_535;

export class Overview {
  readonly number: number;
  readonly level: number;
  private readonly cell: number;
  private readonly lanes = new Map<number, GridLane>();
  private readonly counters = new Map<number, { low: Float32Array; high: Float32Array }>();

  constructor(
    readonly header: OverviewHeader,
    private readonly columns: Columns,
    private readonly names: Names,
  ) {
    this.number = header.rank;
    this.level = header.level;
    this.cell = 2 ** header.level;
    this.readLanes();
  }

  private readLanes(): void {
    const { header, columns } = this;
    const read = (name: string): Float64Array => columns.f64(name);
    const [covered, count, starts] = [read("covered"), read("count"), read("starts")];
    const [low, high] = [columns.floats("low"), columns.floats("high")];
    let at = 0;
    let counterAt = 0;
    const part = (kind: number): Part => {
      const own = (values: Float64Array): Float64Array => values.subarray(at, at + header.cells);
      const [ownStarts, ownCount] = [own(starts), own(count)];
      const open = ownCount.map((events, k) => events - ownStarts[k]!);
      const made: Part = { kind, covered: prefix(own(covered)), starts: prefix(ownStarts), open };
      at += header.cells;
      return made;
    };
    for (const lane of header.lanes_kept) {
      if (lane.counter) {
        const to = counterAt + header.cells;
        this.counters.set(lane.lane, {
          low: Float32Array.from(low.subarray(counterAt, to)),
          high: Float32Array.from(high.subarray(counterAt, to)),
        });
        counterAt = to;
        continue;
      }
      const whole = part(lane.kinds[0] ?? NO_KIND);
      const kinds = lane.kinds.length < 2 ? [whole] : lane.kinds.map(part);
      this.lanes.set(lane.lane, new GridLane(header, whole, kinds));
    }
    this.readInstants();
    this.readSlices();
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
        name: this.names.key(name),
        kind,
        flags: flags[i]!,
        type: type[i]!,
      });
    });
  }

  // --- tiles ---

  tiles(lane: number, level: number, first: number, last: number): TileOut[] {
    const grid = this.lanes.get(lane);
    if (grid === undefined) return [];
    const [from, to] = clipped(this.extent(), level, first, last);
    if (to <= from) return [];
    const cells = grid.measure(level, from * CELLS, (to - from) * CELLS);
    const columns = {
      busy: Uint16Array.from(cells.covered, (covered) => quantised(covered, level)),
      count: Uint16Array.from(cells.count, (events) => Math.min(events, MAX_COUNT)),
      kind: cells.kind,
      mask: cells.mask,
    };
    const shown = grid.slices.filter(({ dur }) => dur >= 2 * 2 ** level);
    return cutTiles(columns, shown, level, from);
  }

  counterTiles(lane: number, level: number, first: number, last: number): CounterTileOut[] {
    const grid = this.counters.get(lane);
    if (grid === undefined) return [];
    const [from, to] = clipped(this.extent(), level, first, last);
    if (to <= from) return [];
    const length = (to - from) * CELLS;
    const low = new Float32Array(length).fill(Number.NaN);
    const high = new Float32Array(length).fill(Number.NaN);
    for (let k = 0; k < length; k += 1) {
      const [a, b] = gridCells(this.header, level, from * CELLS + k);
      for (let at = a; at < b; at += 1) {
        if (!(grid.low[at]! >= low[k]!) && !Number.isNaN(grid.low[at]!)) low[k] = grid.low[at]!;
        if (!(grid.high[at]! <= high[k]!) && !Number.isNaN(grid.high[at]!))
          high[k] = grid.high[at]!;
      }
    }
    return cutCounterTiles(low, high, from);
  }

  private extent(): [number, number] {
    const { first, cells } = this.header;
    return [first * this.cell, (first + cells) * this.cell];
  }

  // --- one cell, one event ---

  /** Exact contents of a window; null where the grid's edges are not the window's. */
  window(lane: number, start: number, end: number): OverviewWindow | null {
    const grid = this.lanes.get(lane);
    if (grid === undefined || start % this.cell !== 0 || end % this.cell !== 0) return null;
    const { first, cells } = this.header;
    const [a, b] = [
      within(start / this.cell - first, cells),
      within(end / this.cell - first, cells),
    ];
    const out = noCells(1);
    if (b > a) grid.fill(a, b, out, 0);
    const inside = grid.slices.filter((one) => one.start < end && one.start + one.dur > start);
    const longest = inside.reduce<GridSlice | null>(
      (most, one) => (most === null || one.dur > most.dur ? one : most),
      null,
    );
    return {
      cells: out,
      kinds: grid.kinds
        .filter((part) => b > a && part.starts[b]! - part.starts[a]! + part.open[a]! > 0)
        .map((part) => [part.kind, part.covered[b]! - part.covered[a]!]),
      longest: longest === null ? null : this.brief(lane, longest),
    };
  }

  /** Smallest and largest value of a counter in a window of whole cells; null for others. */
  held(lane: number, start: number, end: number): [low: number, high: number] | null {
    const grid = this.counters.get(lane);
    if (grid === undefined || start % this.cell !== 0 || end % this.cell !== 0) return null;
    const { first, cells } = this.header;
    const a = within(start / this.cell - first, cells);
    const b = within(end / this.cell - first, cells);
    const known = (values: Float32Array): number[] =>
      [...values.subarray(a, b)].filter((value) => !Number.isNaN(value));
    return [Math.min(...known(grid.low)), Math.max(...known(grid.high))];
  }

  /** A long event; null where the page does not hold it. */
  find(table: TableName, id: number): { brief: Brief; category: number } | null {
    // An event lies on its own lane and on a summary lane: its own comes later and says where it is.
    let found: { brief: Brief; category: number } | null = null;
    for (const [lane, grid] of this.lanes) {
      if (this.tableOf(lane) !== table) continue;
      const slice = grid.slices.find((one) => one.id === id);
      if (slice === undefined) continue;
      found = { brief: this.brief(lane, slice), category: this.header.types[slice.type]![1] };
    }
    return found;
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
      kind: this.names.kind(kind) as Kind,
      start: slice.start,
      dur: slice.dur,
    };
  }

  private tableOf(lane: number): TableName {
    const on = this.header.tracks.find((one) => lane >= one.lane0 && lane < one.lane0 + one.lanes);
    return on?.role === "async" ? "asyncs" : on?.role === "instant" ? "instants" : "events";
  }

  // --- covered time between the grid's edges: evenly spread within a cell ---

  /** Of one of the device's unions. */
  deviceBefore(name: string): (time: number) => number {
    return this.interpolated(prefix(this.columns.f64(`device_${name}`)));
  }

  laneBefore(lane: number): (time: number) => number {
    return this.interpolated(this.lanes.get(lane)?.whole.covered ?? null);
  }

  private interpolated(sums: Float64Array | null): (time: number) => number {
    const { first, cells } = this.header;
    return (time) => {
      if (sums === null || cells === 0) return 0;
      const at = within(time / this.cell - first, cells);
      const low = Math.min(Math.floor(at), cells - 1);
      return sums[low]! + (at - low) * (sums[low + 1]! - sums[low]!);
    };
  }
}

export interface OverviewWindow {
  cells: Cells;
  kinds: [kind: number, ns: number][];
  longest: Brief | null;
}
