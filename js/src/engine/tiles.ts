/** Answer the request `tiles`. */

import type { Reply, Requests } from "../protocol/source";
import {
  CELLS,
  Counter,
  type CounterTileOut,
  counterTiles,
  type Lane,
  laneTiles,
  mainKinds,
  MAX_LEVEL,
  MAX_TILES,
  type SliceOut,
  type TileOut,
  type TileRange,
} from "./cells";
import { type Names, type Packed, packed } from "./columns";
import type { Job } from "./job";
import { type AnyRank, Overview } from "./overview";
import type { Rank } from "./rank";

const TRIMMED = 1;
const SPILLED = 2;

interface Found {
  tiles: { lane: number; tile: TileOut; classes?: Uint8Array; sliceClass?: Uint8Array }[];
  counters: { lane: number; tile: CounterTileOut }[];
  /** Class of every event by rank; null if classes were not requested. */
  classes: ReadonlyMap<number, Uint8Array | null> | null;
}

export async function answerTiles(job: Job, request: Requests["tiles"]): Promise<Reply> {
  const { level, parts } = request;
  if (!(level >= 0 && level <= MAX_LEVEL)) {
    throw new Error(`level ${level} is not within 0 … ${MAX_LEVEL}`);
  }
  const lanes = parts.flatMap((part) => part.lanes);
  const numbers = new Set(
    lanes.filter((lane) => job.overlayAt(lane) === null).map((lane) => job.rankOfLane(lane)),
  );
  const ranks = new Map<number, AnyRank>();
  await Promise.all([...numbers].map(async (rank) => ranks.set(rank, await job.rank(rank))));
  const found: Found = {
    tiles: [],
    counters: [],
    classes: await classesAsked(job, request, ranks),
  };
  for (const { first, last, ...part } of parts) {
    const range: TileRange = { level, first, last };
    for (const lane of part.lanes) {
      const rank = job.rankOfLane(lane);
      const overlay = job.overlayAt(lane);
      if (overlay === null) {
        collect(found, ranks.get(rank)!, job.names, lane, range);
      } else {
        const { index, slice } = (await job.collectives()).lane(rank, overlay);
        for (const tile of laneTiles(index, range, slice)) {
          found.tiles.push({ lane, tile });
        }
      }
      if (found.tiles.length + found.counters.length > MAX_TILES) {
        throw new Error(`more than ${MAX_TILES} tiles in one answer; ask for fewer at once`);
      }
    }
  }
  return inOneBuffer(level, found, job.names);
}

async function classesAsked(
  job: Job,
  request: Requests["tiles"],
  ranks: ReadonlyMap<number, AnyRank>,
): Promise<Found["classes"]> {
  const of = job.classes;
  if (request.classed !== true || of === null) return null;
  const found = new Map<number, Uint8Array | null>();
  for (const [number, rank] of ranks) {
    const known = rank instanceof Overview ? null : await of(number, rank.events.start.length);
    found.set(number, known);
  }
  return found;
}

function collect(found: Found, rank: AnyRank, names: Names, lane: number, asked: TileRange): void {
  if (rank instanceof Overview) {
    for (const tile of rank.tiles(lane, asked)) found.tiles.push({ lane, tile });
    for (const tile of rank.counterTiles(lane, asked)) found.counters.push({ lane, tile });
    return;
  }
  const index = rank.lane(lane);
  if (index instanceof Counter) {
    for (const tile of counterTiles(index, asked)) found.counters.push({ lane, tile });
    return;
  }
  const slice = sliceOf(rank, lane, index, names);
  const known = found.classes?.get(rank.number) ?? null;
  const byClass = known === null ? null : rank.classedLane(lane, known);
  for (const tile of laneTiles(index, asked, slice)) {
    found.tiles.push({
      lane,
      tile,
      ...(byClass !== null && {
        classes: mainKinds(byClass, asked.level, tile.index),
        sliceClass: Uint8Array.from(tile.slices, ({ id }) => known![id]!),
      }),
    });
  }
}

/** Unknown classes: of overviews, overlays, and tables other than events. */
const NO_CLASSES = new Uint8Array(CELLS).fill(255);

function classColumns({ tiles, classes }: Found): Record<string, Uint8Array> {
  if (classes === null) return {};
  const cells = new Uint8Array(tiles.length * CELLS);
  tiles.forEach((one, i) => cells.set(one.classes ?? NO_CLASSES, i * CELLS));
  const slices = tiles.flatMap(({ tile, sliceClass }) =>
    Array.from(sliceClass ?? new Uint8Array(tile.slices.length).fill(255)),
  );
  return { class: cells, slice_class: Uint8Array.from(slices) };
}

function sliceOf(rank: Rank, lane: number, index: Lane, names: Names): (at: number) => SliceOut {
  const ref = rank.ref(lane);
  const rows = rank.tableOf(ref);
  const spilled = "spilled" in ref && ref.spilled ? SPILLED : 0;
  return (at) => {
    const row = index.rows[at]!;
    const [name, , kind] = rank.typeOf(rows, row);
    return {
      start: rows.start[row]!,
      dur: rows.dur[row]!,
      id: row,
      name: names.key(name),
      kind,
      flags: spilled | (index.overlapped(at) ? TRIMMED : 0),
    };
  };
}

function inOneBuffer(level: number, found: Found, names: Names): Reply {
  const { tiles, counters } = found;
  const first = new Uint32Array(tiles.length + 1);
  tiles.forEach(({ tile }, i) => {
    first[i + 1] = first[i]! + tile.slices.length;
  });
  const slices = tiles.flatMap(({ tile }) => tile.slices);
  const shown: Record<string, string> = {};
  for (const { name } of slices) shown[String(name)] ??= names.shortOfKey(name);
  return packed(
    { level, names: shown },
    {
      tile_lane: Uint32Array.from(tiles, ({ lane }) => lane),
      tile_index: Float64Array.from(tiles, ({ tile }) => tile.index),
      busy: joined(new Uint16Array(tiles.length * CELLS), tiles, ({ busy }) => busy),
      count: joined(new Uint16Array(tiles.length * CELLS), tiles, ({ count }) => count),
      kind: joined(new Uint8Array(tiles.length * CELLS), tiles, ({ kind }) => kind),
      mask: joined(new Uint8Array(tiles.length * CELLS), tiles, ({ mask }) => mask),
      slice_first: first,
      slice_start: Float64Array.from(slices, ({ start }) => start),
      slice_dur: Float64Array.from(slices, ({ dur }) => dur),
      slice_id: Uint32Array.from(slices, ({ id }) => id),
      slice_name: Uint32Array.from(slices, ({ name }) => name),
      slice_kind: Uint8Array.from(slices, (slice) => slice.kind),
      slice_flags: Uint8Array.from(slices, ({ flags }) => flags),
      counter_lane: Uint32Array.from(counters, ({ lane }) => lane),
      counter_index: Float64Array.from(counters, ({ tile }) => tile.index),
      counter_min: joined(new Float32Array(counters.length * CELLS), counters, (of) => of.smallest),
      counter_max: joined(new Float32Array(counters.length * CELLS), counters, (of) => of.largest),
      ...classColumns(found),
    },
  );
}

/** Cells of all tiles, one tile after the other. */
function joined<Tile, Cells extends Packed>(
  into: Cells,
  tiles: readonly { tile: Tile }[],
  cellsOf: (tile: Tile) => Cells,
): Cells {
  tiles.forEach(({ tile }, i) => into.set(cellsOf(tile), i * CELLS));
  return into;
}
