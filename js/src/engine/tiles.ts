/** Answer `tiles`. */

import { FLAGS } from "../facts/limits";
import { MAX_LEVEL, NO_CODE, TILE_CELLS } from "../protocol/decode";
import type { Reply, Requests } from "../protocol/source";
import {
  CounterSeries,
  type CounterTile,
  buildCounterTiles,
  classesOfTile,
  type IndexedLane,
  buildLaneTiles,
  MAX_TILES,
  type TileSlice,
  type CellTile,
  type TileRange,
} from "./cells";
import { type NameTable, type PackedArray, packReply } from "./columns";
import type { PageJob } from "./job";
import { type RankData, RankOverview } from "./overview";
import type { RankTrace } from "./rank";

interface CollectedTiles {
  tiles: { lane: number; tile: CellTile; classes?: Uint8Array; sliceClass?: Uint8Array }[];
  counters: { lane: number; tile: CounterTile }[];
  /** For each rank, the class of every event; null if classes were not requested. */
  classes: ReadonlyMap<number, Uint8Array | null> | null;
}

/** The members of a job that are needed to make tiles. */
export type TileJob = Pick<
  PageJob,
  "names" | "overlayAt" | "rankOfLane" | "loadRank" | "loadCollectives" | "classLoader"
>;

/** Answer `tiles`: the tiles of all requested lanes, packed. */
export async function tilesReply(job: TileJob, request: Requests["tiles"]): Promise<Reply> {
  const { level, parts } = request;
  if (!(level >= 0 && level <= MAX_LEVEL)) {
    throw new Error(`level ${level} is not within 0 … ${MAX_LEVEL}`);
  }
  const lanes = parts.flatMap((part) => part.lanes);
  const lanesOfEvents = lanes.filter((lane) => job.overlayAt(lane) === null);
  const numbers = new Set(lanesOfEvents.map((lane) => job.rankOfLane(lane)));
  const ranks = new Map<number, RankData>();
  await Promise.all([...numbers].map(async (rank) => ranks.set(rank, await job.loadRank(rank))));
  const collected: CollectedTiles = {
    tiles: [],
    counters: [],
    classes: await loadClasses(job, request, ranks),
  };
  for (const { first, last, ...part } of parts) {
    const range: TileRange = { level, first, last };
    for (const lane of part.lanes) {
      const rank = job.rankOfLane(lane);
      const overlay = job.overlayAt(lane);
      if (overlay === null) {
        collectTiles(collected, ranks.get(rank)!, lane, range);
      } else {
        const { index, slice } = (await job.loadCollectives()).overlayLane(rank, overlay);
        for (const tile of buildLaneTiles(index, range, slice)) {
          collected.tiles.push({ lane, tile });
        }
      }
      if (collected.tiles.length + collected.counters.length > MAX_TILES) {
        throw new Error(`more than ${MAX_TILES} tiles in one answer; request fewer at a time`);
      }
    }
  }
  return packTiles(level, collected, job.names);
}

async function loadClasses(
  job: TileJob,
  request: Requests["tiles"],
  ranks: ReadonlyMap<number, RankData>,
): Promise<CollectedTiles["classes"]> {
  if (request.classed !== true) return null;
  const loadClassesOfRank = job.classLoader;
  const classes = new Map<number, Uint8Array | null>();
  for (const [number, rank] of ranks) {
    if (rank instanceof RankOverview) continue;
    const events = rank.events.start.length;
    const ofRank =
      loadClassesOfRank === null ? rank.boundClasses() : loadClassesOfRank(number, events);
    classes.set(number, await ofRank);
  }
  return classes;
}

function collectTiles(
  collected: CollectedTiles,
  rank: RankData,
  lane: number,
  requested: TileRange,
): void {
  if (rank instanceof RankOverview) {
    for (const tile of rank.tiles(lane, requested)) collected.tiles.push({ lane, tile });
    for (const tile of rank.counterTiles(lane, requested)) collected.counters.push({ lane, tile });
    return;
  }
  const index = rank.laneIndex(lane);
  if (index instanceof CounterSeries) {
    for (const tile of buildCounterTiles(index, requested)) collected.counters.push({ lane, tile });
    return;
  }
  const slice = sliceReader(rank, lane, index);
  const classOfRow = collected.classes?.get(rank.number) ?? null;
  const byClass = classOfRow === null ? null : rank.classLane(lane, classOfRow);
  for (const tile of buildLaneTiles(index, requested, slice)) {
    collected.tiles.push({
      lane,
      tile,
      ...(byClass !== null && {
        classes: classesOfTile(byClass, requested.level, tile.index),
        sliceClass: Uint8Array.from(tile.slices, ({ id }) => classOfRow![id]!),
      }),
    });
  }
}

/** Return the classes of cells and slices. Counters and overviews have no classes. */
function classColumns({ tiles, classes }: CollectedTiles): Record<string, Uint8Array> {
  if (classes === null) return {};
  const cells = new Uint8Array(tiles.length * TILE_CELLS).fill(NO_CODE);
  tiles.forEach((entry, i) => cells.set(entry.classes ?? [], i * TILE_CELLS));
  const slices = tiles.flatMap(({ tile, sliceClass }) =>
    Array.from(sliceClass ?? new Uint8Array(tile.slices.length).fill(NO_CODE)),
  );
  return { class: cells, slice_class: Uint8Array.from(slices) };
}

/** Return a function that returns the slice of the event at a position in the lane. */
function sliceReader(
  rank: RankTrace,
  lane: number,
  index: IndexedLane,
): (position: number) => TileSlice {
  const content = rank.laneContent(lane);
  const rows = rank.tableOfContent(content);
  const spilled = "spilled" in content && content.spilled ? FLAGS.slice.spilled : 0;
  return (position) => {
    const row = index.rows[position]!;
    const [name, , kind] = rank.typeOf(rows, row);
    return {
      start: rows.start[row]!,
      dur: rows.dur[row]!,
      id: row,
      name: rank.names.shortKey(name),
      kind,
      flags: spilled | (index.overlapsEarlier(position) ? FLAGS.slice.trimmed : 0),
    };
  };
}

function packTiles(level: number, collected: CollectedTiles, names: NameTable): Reply {
  const { tiles, counters } = collected;
  const first = new Uint32Array(tiles.length + 1);
  tiles.forEach(({ tile }, i) => {
    first[i + 1] = first[i]! + tile.slices.length;
  });
  const slices = tiles.flatMap(({ tile }) => tile.slices);
  const usedNames: Record<string, string> = {};
  for (const { name } of slices) usedNames[String(name)] ??= names.shortOfKey(name);
  return packReply(
    { level, names: usedNames },
    {
      tile_lane: Uint32Array.from(tiles, ({ lane }) => lane),
      tile_index: Float64Array.from(tiles, ({ tile }) => tile.index),
      busy: concatCells(Uint16Array, tiles, ({ busy }) => busy),
      count: concatCells(Uint16Array, tiles, ({ count }) => count),
      kind: concatCells(Uint8Array, tiles, ({ kind }) => kind),
      mask: concatCells(Uint8Array, tiles, ({ mask }) => mask),
      slice_first: first,
      slice_start: Float64Array.from(slices, ({ start }) => start),
      slice_dur: Float64Array.from(slices, ({ dur }) => dur),
      slice_id: Uint32Array.from(slices, ({ id }) => id),
      slice_name: Uint32Array.from(slices, ({ name }) => name),
      slice_kind: Uint8Array.from(slices, (slice) => slice.kind),
      slice_flags: Uint8Array.from(slices, ({ flags }) => flags),
      counter_lane: Uint32Array.from(counters, ({ lane }) => lane),
      counter_index: Float64Array.from(counters, ({ tile }) => tile.index),
      counter_min: concatCells(Float32Array, counters, (tile) => tile.min),
      counter_max: concatCells(Float32Array, counters, (tile) => tile.max),
      ...classColumns(collected),
    },
  );
}

/** Concatenate the cells of all tiles. */
function concatCells<Tile, Cells extends PackedArray>(
  arrayType: new (length: number) => Cells,
  tiles: readonly { tile: Tile }[],
  cellsOf: (tile: Tile) => Cells,
): Cells {
  const cells = new arrayType(tiles.length * TILE_CELLS);
  tiles.forEach(({ tile }, i) => cells.set(cellsOf(tile), i * TILE_CELLS));
  return cells;
}
