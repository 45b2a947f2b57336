/** All rows of a view at once, those out of sight as well: for a picture of them. */

import type { Scene, Source, Span } from "../contract";
import { decodeTiles } from "../protocol/decode";
import { decodeRibbon, type Ribbon } from "../protocol/ribbon";
import { levelOf, missing } from "./tile_plan";
import { TileStore } from "./tile_store";
import { LaneWindows } from "./windows";

export interface WholeRows {
  windows: LaneWindows;
  names: ReadonlyMap<number, string>;
  ribbon: Ribbon | null;
}

export interface Wanted {
  lanes: readonly number[];
  view: Span;
  /** ns per device px. */
  resolution: number;
  /** With the class of each event. */
  classed: boolean;
  /** Ranks whose late arrivals are shown, and in how many bins; null for none. */
  ribbons: { ranks: readonly number[]; bins: number } | null;
}

export async function loadWhole(source: Source, scene: Scene, wanted: Wanted): Promise<WholeRows> {
  const { lanes, view, resolution, classed, ribbons } = wanted;
  // A store of its own, without a limit: none of it may be dropped before it is drawn.
  const store = new TileStore(scene.lanes, Number.POSITIVE_INFINITY);
  store.classed = classed;
  const level = levelOf(resolution);
  for (;;) {
    const request = missing(store, lanes, level, view, scene.range);
    if (request === null) break;
    const { parts } = request;
    store.add(
      parts,
      decodeTiles(await source.ask("tiles", { level, parts, ...(classed ? { classed } : {}) })),
    );
  }
  const windows = new LaneWindows(store);
  windows.update(lanes, view, resolution, scene.range);
  let ribbon: Ribbon | null = null;
  if (ribbons !== null) {
    const asked = { start: Math.floor(view[0]), end: Math.ceil(view[1]), bins: ribbons.bins };
    const reply = await source.ask("ribbon", { ...asked, ranks: ribbons.ranks });
    ribbon = decodeRibbon(reply, asked);
  }
  return { windows, names: store.names, ribbon };
}
