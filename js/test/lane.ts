/** Lanes of given events, as the page's engine returns them; for tests. */

import { Collectives } from "../src/engine/collectives";
import { ColumnReader, NameTable } from "../src/engine/columns";
import type { FullHeader, PageDocument } from "../src/engine/document";
import { RankAnalysis } from "../src/engine/panel_rank";
import { RankTrace } from "../src/engine/rank";
import { type TileJob, tilesReply } from "../src/engine/tiles";
import { decodeTiles } from "../src/protocol/decode";
import type { Span } from "../src/protocol/source";
import type { LanePlacement } from "../src/stage/lanes";
import { LaneWindow } from "../src/stage/lane_window";
import { levelOf, tileRange, TileStore } from "../src/stage/tile_store";

/** The kind is a code: 0 compute, 1 communication, 2 memory, 3 sync, 4 cpu. */
export type GivenEvent = readonly [start: number, dur: number, kind: number];

const NAMES = new NameTable({
  names: ["kernel"],
  shorts: ["kernel"],
  short_of: [0],
} as unknown as PageDocument);

/** Columns of given values, without encoding. */
function plainColumns(values: Record<string, number[]>): ColumnReader {
  class Plain extends ColumnReader {
    override has = (name: string): boolean => name in values;
    override f64 = (name: string): Float64Array => Float64Array.from(values[name] ?? []);
    override i32 = (name: string): Int32Array => Int32Array.from(values[name] ?? []);
    override u8 = (name: string): Uint8Array => Uint8Array.from(values[name] ?? []);
  }
  return new Plain(new Uint8Array(0), {});
}

/** A rank with one stream, whose lane is 0. */
export function rankOf(events: readonly GivenEvent[], rank = 0, range: Span = [0, 0]): RankTrace {
  const header = {
    rank,
    range,
    lane0: 0,
    lanes: 1,
    types: [0, 1, 2, 3, 4, 5, 6].map((kind) => [0, 0, kind]),
    tracks: [{ key: "s", role: "stream", lane0: 0, lanes: 1, nested: 1, stream: 7 }],
    summary: [],
    host_collectives: [],
    flow_kinds: [],
  } as unknown as FullHeader;
  const columns = plainColumns({
    events_start: events.map(([start]) => start),
    events_dur: events.map(([, dur]) => dur),
    events_type: events.map(([, , kind]) => kind),
    events_lane: events.map(() => 0),
    stream: events.map(() => 7),
  });
  return new RankTrace(header, columns, NAMES);
}

/** A rank with its device work, without collectives. */
export function workOf(rank: RankTrace): RankAnalysis {
  const none = new ColumnReader(new Uint8Array(0), {});
  const matched = new Collectives({ note: "", columns: {} }, none, [rank.number], NAMES);
  return new RankAnalysis(rank, matched);
}

/** A lane of events as the stage keeps it for a view, or with tiles of another level. */
export async function shownLane(
  events: readonly GivenEvent[],
  {
    view,
    width,
    job: jobSpan = view,
    loaded,
    classes,
  }: { view: Span; width: number; job?: Span; loaded?: number; classes?: readonly number[] },
): Promise<LaneWindow> {
  const rank = rankOf(events);
  const job: TileJob = {
    names: NAMES,
    overlayAt: () => null,
    rankOfLane: () => 0,
    loadRank: async () => rank,
    loadCollectives: () => Promise.reject(new Error("no collectives")),
    classLoader: classes === undefined ? null : async () => Uint8Array.from(classes),
  };
  const right = levelOf((view[1] - view[0]) / width);
  const level = loaded ?? right;
  const parts = [{ lanes: [0], ...tileRange(view, level, jobSpan) }];
  const store = new TileStore(1);
  store.add(
    parts,
    decodeTiles(await tilesReply(job, { level, parts, classed: classes !== undefined })),
  );
  const shown = new LaneWindow(0);
  const { first, last } = tileRange(view, right, jobSpan);
  shown.update(store, right, first, last);
  return shown;
}

/** The place of a lane in its job; the view is the whole job by default. */
export function placeOf(
  { view, width, job = view }: { view: Span; width: number; job?: Span },
  more: Partial<LanePlacement> & { y1: number },
): LanePlacement {
  return {
    form: "solid",
    y0: 0,
    dpr: 1,
    start: view[0],
    nsPerPx: (view[1] - view[0]) / width,
    dataStart: job[0],
    dataEnd: job[1],
    coarse: false,
    jobStart: job[0],
    jobEnd: job[1],
    valueRange: null,
    ...more,
  };
}
