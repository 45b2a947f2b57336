/** Which lanes are in sight, and where. */

import type { Brief } from "../contract";
import type { Band } from "./bands";
import type { PlacedRow } from "./rows";

export interface LaneSpot {
  band: Band;
  placed: PlacedRow;
  /** In the stage, CSS px, before clipping. */
  y: number;
  /** What of it is visible. */
  top: number;
  bottom: number;
}

export class Sightings {
  readonly spots: LaneSpot[] = [];
  private readonly byLane = new Map<number, LaneSpot>();
  private readonly heads = new Map<number, PlacedRow>();

  /** Where the last row ends. */
  readonly bottom: number;

  constructor(readonly placed: readonly PlacedRow[]) {
    let bottom = 0;
    for (const row of placed) {
      bottom = Math.max(bottom, Math.min(row.y + row.row.height, row.clipBottom));
      if (row.row.track === null) this.heads.set(row.row.rank.rank, row);
      for (const band of row.row.bands()) {
        const y = row.y + band.top;
        const top = Math.max(y, row.clipTop);
        const bottom = Math.min(y + band.height, row.clipBottom);
        if (bottom <= top) continue;
        const spot = { band, placed: row, y, top, bottom };
        this.spots.push(spot);
        this.byLane.set(band.lane, spot);
      }
    }
    this.bottom = bottom;
  }

  lane(lane: number): LaneSpot | null {
    return this.byLane.get(lane) ?? null;
  }

  /** The row of a rank that is folded, or the head of one that is open. */
  head(rank: number): PlacedRow | null {
    return this.heads.get(rank) ?? null;
  }

  /** The band that stands for an event whose own lane is folded away. */
  standIn({ rank, lane, kind }: Brief): LaneSpot | null {
    const row = this.head(rank)?.row;
    if (row === undefined) return null;
    const { tracks, summary } = row.rank;
    const track = tracks.find(({ lane0, lanes }) => lane >= lane0 && lane < lane0 + lanes);
    if (track === undefined) return null;
    const role = track.role === "stream" ? (kind === "communication" ? "comm" : "gpu") : "cpu";
    if (role === "cpu" && track.role !== "thread") return null;
    const stand = summary.find(
      (one) => one.role === role && (role !== "cpu" || one.label === track.label),
    );
    return stand === undefined ? null : this.lane(stand.lane);
  }

  /** The row at a height; rows in front win. */
  rowAt(y: number): PlacedRow | null {
    for (let i = this.placed.length - 1; i >= 0; i -= 1) {
      const row = this.placed[i]!;
      const top = Math.max(row.y, row.clipTop);
      const bottom = Math.min(row.y + row.row.height, row.clipBottom);
      if (y >= top && y < bottom) return row;
    }
    return null;
  }

  /** The lane at a height, or the nearest one of the row within `reach`. */
  spotAt(y: number, reach = 2): LaneSpot | null {
    const row = this.rowAt(y);
    let best: LaneSpot | null = null;
    let distance = reach + 1e-9;
    for (const spot of this.spots) {
      if (spot.placed !== row) continue;
      const away = y < spot.top ? spot.top - y : y >= spot.bottom ? y - spot.bottom : 0;
      if (away < distance || (away === 0 && best === null)) {
        best = spot;
        distance = away;
      }
    }
    return best;
  }
}
