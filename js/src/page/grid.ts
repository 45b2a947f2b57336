/** One lane of an overview: what its events cover on a grid of cells. */

import type { SliceOut } from "./cells";
import { type Cells, NO_KIND } from "./lane";

export interface GridSlice extends SliceOut {
  /** Position in the rank's types. */
  type: number;
}

/** Where the cells of a grid lie: 2^level ns wide, from `first` on. */
export interface Grid {
  level: number;
  first: number;
  cells: number;
}

/** Sums of one set of events before each edge of the grid. */
export interface Part {
  kind: number;
  covered: Float64Array;
  starts: Float64Array;
  /** Events that run across the start of each cell. */
  open: Float64Array;
}

export class GridLane {
  /** Kind of the first instant, of cells where the lowest code would be wrong. */
  readonly instants = new Map<number, number>();
  /** Events at least two cells long, by start. */
  readonly slices: GridSlice[] = [];
  private shares: Float64Array | null = null;

  /** `kinds`: a part for each kind, ascending. */
  constructor(
    private readonly grid: Grid,
    readonly whole: Part,
    readonly kinds: readonly Part[],
  ) {}

  /** `cells` cells of a level, from `first` on. */
  measure(level: number, first: number, cells: number): Cells {
    const out = noCells(cells);
    for (let k = 0; k < cells; k += 1) {
      const [a, b] = gridCells(this.grid, level, first + k);
      if (b > a) this.fill(a, b, out, k);
    }
    if (level < this.grid.level) this.spread(level, first, out);
    return out;
  }

  /** What the grid says of its cells `a … b - 1` as one. */
  fill(a: number, b: number, out: Cells, k: number): void {
    let most = 0;
    for (const part of this.kinds) {
      const count = part.starts[b]! - part.starts[a]! + part.open[a]!;
      if (count === 0) continue;
      out.count[k] = out.count[k]! + count;
      out.mask[k] = out.mask[k]! | (1 << part.kind);
      const covered = part.covered[b]! - part.covered[a]!;
      if (covered > most) {
        most = covered;
        out.kind[k] = part.kind;
      }
    }
    out.covered[k] = this.whole.covered[b]! - this.whole.covered[a]!;
    if (most === 0 && out.count[k]! > 0) out.kind[k] = this.firstInstant(a, b);
  }

  private firstInstant(a: number, b: number): number {
    for (let cell = a; cell < b; cell += 1) {
      const known = this.instants.get(cell);
      if (known !== undefined) return known;
      const there = this.kinds.find(({ starts }) => starts[cell + 1]! > starts[cell]!);
      if (there !== undefined) return there.kind;
    }
    return NO_KIND;
  }

  /** Cells finer than the grid: long events where they are, the rest evenly between them. */
  private spread(level: number, first: number, out: Cells): void {
    const width = 2 ** level;
    const long = new Float64Array(out.covered.length);
    this.addSlices(long, first * width, width, out.kind);
    const filled = this.filled();
    for (let k = 0; k < out.covered.length; k += 1) {
      const [a, b] = gridCells(this.grid, level, first + k);
      if (b <= a) continue;
      out.covered[k] = long[k]! + Math.floor(filled[a]! * (width - long[k]!));
      if (out.covered[k]! > 0) continue;
      out.count[k] = 0;
      out.mask[k] = 0;
      out.kind[k] = NO_KIND;
    }
  }

  /** Of each cell of the grid the share that is covered where no long event is. */
  private filled(): Float64Array {
    if (this.shares !== null) return this.shares;
    const { level, first, cells } = this.grid;
    const width = 2 ** level;
    const long = new Float64Array(cells);
    this.addSlices(long, first * width, width, null);
    const { covered } = this.whole;
    return (this.shares = long.map((ns, k) => {
      const rest = covered[k + 1]! - covered[k]! - ns;
      return rest > 0 ? Math.min(rest / (width - ns), 1) : 0;
    }));
  }

  /** Add what the long events cover together; cells that one of them fills take its kind. */
  private addSlices(
    covered: Float64Array,
    origin: number,
    width: number,
    kind: Uint8Array | null,
  ): void {
    let reached = Number.NEGATIVE_INFINITY;
    for (const slice of this.slices) {
      const end = slice.start + slice.dur;
      const from = Math.max(slice.start, reached, origin);
      const to = Math.min(end, origin + covered.length * width);
      reached = Math.max(reached, end);
      for (let k = Math.floor((from - origin) / width); from < to && k < covered.length; k += 1) {
        const start = origin + k * width;
        if (start >= to) break;
        const ns = Math.min(to, start + width) - Math.max(from, start);
        covered[k] = covered[k]! + ns;
        if (kind !== null && 2 * ns > width) kind[k] = slice.kind;
      }
    }
  }
}

export function noCells(cells: number): Cells {
  return {
    covered: new Float64Array(cells),
    count: new Float64Array(cells),
    kind: new Uint8Array(cells).fill(NO_KIND),
    mask: new Uint8Array(cells),
  };
}

/** Cells of the grid that a cell of some level takes in, or lies in; an empty range outside. */
export function gridCells(grid: Grid, level: number, cell: number): [from: number, to: number] {
  const factor = 2 ** (level - grid.level);
  const from = Math.floor(cell * factor) - grid.first;
  const to = Math.max(Math.floor((cell + 1) * factor) - grid.first, from + 1);
  return [within(from, grid.cells), within(to, grid.cells)];
}

/** A position of the grid's edges: those before it and after it are its ends. */
export function within(at: number, cells: number): number {
  return Math.min(Math.max(at, 0), cells);
}

/** Sums before each value, and at last of all. */
export function prefix(values: Float64Array): Float64Array {
  const out = new Float64Array(values.length + 1);
  for (let i = 0; i < values.length; i += 1) out[i + 1] = out[i]! + values[i]!;
  return out;
}
