/**
 * What of a lane's cells is left for the events that are too short to be rectangles. Cells count
 * every event; a rectangle shows its own time exactly, so that time is taken out of its cells.
 */

export interface SliceColumns {
  readonly sliceStart: Float64Array;
  readonly sliceDur: Float64Array;
}

/**
 * Take slices `first … last - 1` that last at least `leastNs` out of `share` (0..1 of each cell)
 * and `count`. The cells begin at `origin` and are `cell` ns wide; slices are sorted by start.
 */
export function takeOut(
  share: Float32Array,
  count: Int32Array,
  cells: number,
  origin: number,
  cell: number,
  slices: SliceColumns,
  first: number,
  last: number,
  leastNs: number,
): void {
  const { sliceStart, sliceDur } = slices;
  // Slices of a summary lane may overlap, its cells hold their union: no time goes twice.
  let reached = Number.NEGATIVE_INFINITY;
  for (let i = first; i < last; i += 1) {
    const dur = sliceDur[i]!;
    if (dur < leastNs) continue;
    const from = (sliceStart[i]! - origin) / cell;
    const to = from + dur / cell;
    if (to <= 0) continue;
    if (from >= cells) break;
    const a = Math.max(0, Math.floor(from));
    const b = Math.min(cells, Math.ceil(to));
    const fresh = Math.max(from, reached);
    for (let k = a; k < b; k += 1) {
      count[k] = count[k]! - 1;
      const covered = Math.min(to, k + 1) - Math.max(fresh, k);
      if (covered > 0) share[k] = share[k]! - covered;
    }
    if (to > reached) reached = to;
  }
}
