/**
 * Request tiles, one request at a time, for the currently visible lanes and level.
 *
 * Each request is planned after the previous reply, so tiles that have scrolled out of view are
 * never requested. When the view is complete and at rest, the tiles around it are requested.
 */

import { LIMITS } from "../facts/limits";
import { REPLY_BUDGET_MS } from "../connection/answering";
import { ThrottledQuery } from "../connection/query";
import { canGunzip, gunzip } from "../engine/columns";
import { decodeMarks, decodeMinimap, decodeTiles, type Minimap } from "../protocol/decode";
import { decodeRibbon, type Ribbon } from "../protocol/ribbon";
import { hasDevice, hasLateness } from "../protocol/scene";
import type {
  Answer,
  Operation,
  Overlay,
  Reply,
  Requests,
  Scene,
  Source,
  Span,
} from "../protocol/source";
import {
  latenessByRank,
  type LatenessByRank,
  type PlacedMarks,
  statsByRank,
  type StatsByRank,
} from "./frame";
import { LaneWindows } from "./lane_window";
import {
  planAhead,
  planVisible,
  type TileViewport,
  type TileBlock,
  type TileRequest,
  TileStore,
} from "./tile_store";

/** Tiles outside the view are requested after the view has not changed for this long, in ms. */
export const IDLE_MS = 90;
/** Delay before a failed request is repeated once. For later repeats, the view must change. */
export const RETRY_MS = 1500;
const MAX_REPLY_BYTES = 800_000;

export class TileLoader {
  private viewport: TileViewport | null = null;
  private inFlight = false;
  private failures = 0;
  private retryTimer = 0;
  private idleTimer = 0;
  private readonly aborter = new AbortController();

  constructor(
    private readonly source: Source,
    private readonly store: TileStore,
    private readonly onTiles: () => void,
  ) {}

  /** Load the tiles of the visible part. Requests for the previous view are dropped. */
  show(viewport: TileViewport): void {
    this.viewport = viewport;
    this.failures = 0;
    this.pump();
  }

  /** Send no requests until the next `show`. */
  pause(): void {
    this.viewport = null;
    clearTimeout(this.idleTimer);
  }

  destroy(): void {
    this.aborter.abort();
    clearTimeout(this.idleTimer);
    clearTimeout(this.retryTimer);
  }

  private pump(): void {
    clearTimeout(this.idleTimer);
    if (this.inFlight || this.retryTimer !== 0) return;
    if (this.viewport === null || this.aborter.signal.aborted) return;
    const visible = planVisible(this.store, this.viewport);
    if (visible !== null) {
      void this.fetch(visible);
      return;
    }
    this.idleTimer = window.setTimeout(() => {
      if (this.inFlight || this.viewport === null || this.source.status === "busy") return;
      const ahead = planAhead(this.store, this.viewport);
      if (ahead !== null) void this.fetch(ahead);
    }, IDLE_MS);
  }

  private async fetch(request: TileRequest): Promise<void> {
    this.inFlight = true;
    const { level, parts } = request;
    try {
      const requested = {
        level,
        parts,
        within_ms: REPLY_BUDGET_MS,
        most_bytes: MAX_REPLY_BYTES,
        compact: true,
        gzip: canGunzip(),
        ...(this.store.classed ? { classed: true } : {}),
      };
      const reply = await unpackReply(
        await this.source.ask("tiles", requested, this.aborter.signal),
      );
      if (this.aborter.signal.aborted) return;
      this.store.add(withoutLeftOut(parts, reply.reply.left), decodeTiles(reply));
      this.failures = 0;
      this.inFlight = false;
      this.onTiles();
      this.pump();
    } catch {
      this.inFlight = false;
      if (this.aborter.signal.aborted) return;
      this.failures += 1;
      this.onTiles();
      this.retryTimer = window.setTimeout(() => {
        this.retryTimer = 0;
        if (this.failures <= 1) this.pump();
      }, RETRY_MS);
    }
  }
}

async function unpackReply(reply: Reply): Promise<Reply> {
  if (reply.reply.gzip !== true || reply.buffer === null) return reply;
  const { buffer } = await gunzip(new Uint8Array(reply.buffer));
  return { reply: reply.reply, buffer: buffer as ArrayBuffer };
}

function withoutLeftOut(parts: readonly TileBlock[], left: unknown): readonly TileBlock[] {
  if (!Array.isArray(left)) return parts;
  const keyOf = (part: TileBlock) => `${part.first}:${part.last}`;
  const leftOut = new Map((left as TileBlock[]).map((part) => [keyOf(part), part.lanes]));
  return parts.map((part) => {
    const leftOutLanes = new Set(leftOut.get(keyOf(part)));
    return { ...part, lanes: part.lanes.filter((lane) => !leftOutLanes.has(lane)) };
  });
}

// All requests of the stage: tiles, totals of the view, minimap, marks.

const STATS_WAIT_MS = 90;
const MARKS_WAIT_MS = 90;
const MINIMAP_WAIT_MS = 20;

export type DataPart = "tiles" | "stats" | "minimap" | "marks" | "lateness" | "ribbon";

/** What the stage is about to draw. */
interface PictureRequest {
  viewport: TileViewport;
  /** Lanes drawn over the visible lanes. */
  overlayLanes: readonly number[];
  /** The view at the end of an animation. */
  target: Span;
  /** Width of the lanes in CSS px. */
  width: number;
  overlay: Overlay;
  /** The bins and ranks of the ribbons; null if no ribbon is drawn. */
  ribbons: { bins: number; ranks: readonly number[] } | null;
}

export class StageData {
  readonly store: TileStore;
  readonly windows: LaneWindows;
  private readonly loader: TileLoader;
  readonly stats: ThrottledQuery<"stats", StatsByRank>;
  readonly minimap: ThrottledQuery<"minimap", Minimap>;
  readonly searchMarks: ThrottledQuery<"marks", PlacedMarks>;
  readonly selectionMarks: ThrottledQuery<"marks", PlacedMarks>;
  /** Null until the collectives are matched. */
  readonly lateness: ThrottledQuery<"lateness", LatenessByRank>;
  /** Late arrivals at collectives; null until they are loaded. */
  readonly ribbon: ThrottledQuery<"ribbon", Ribbon>;
  private readonly queries: Pick<ThrottledQuery<never, never>, "retry" | "destroy">[] = [];
  private readonly hasDevice: boolean;
  private readonly hasCollectives: boolean;

  constructor(scene: Scene, source: Source, onChange: (part: DataPart) => void) {
    this.store = new TileStore(scene.lanes);
    this.windows = new LaneWindows(this.store);
    this.loader = new TileLoader(source, this.store, () => onChange("tiles"));
    this.hasDevice = scene.ranks.some(hasDevice);
    this.hasCollectives = hasLateness(scene);
    const makeQuery = <Op extends Operation & DataPart, T>(
      op: Op,
      waitMs: number,
      decode: (reply: Answer<Op>, request: Requests[Op]) => T,
    ) => {
      const query = new ThrottledQuery(source, op, waitMs, decode, () => onChange(op));
      this.queries.push(query);
      return query;
    };
    this.stats = makeQuery("stats", STATS_WAIT_MS, ({ reply }) => statsByRank(reply));
    this.lateness = makeQuery("lateness", STATS_WAIT_MS, ({ reply }) => latenessByRank(reply));
    this.ribbon = makeQuery("ribbon", STATS_WAIT_MS, decodeRibbon);
    this.minimap = makeQuery("minimap", MINIMAP_WAIT_MS, decodeMinimap);
    const marks = () =>
      makeQuery("marks", MARKS_WAIT_MS, (reply, { start, end, bins, lanes }) => {
        return { marks: decodeMarks(reply), start, end, bins, lanes };
      });
    this.searchMarks = marks();
    this.selectionMarks = marks();
  }

  show({ viewport, overlayLanes, target, width, overlay, ribbons }: PictureRequest): void {
    const lateness = this.lateness.value;
    const lanes = lateness === null ? viewport.lanes : [...viewport.lanes, ...overlayLanes];
    // Tiles are loaded only for the end of an animation, not for its frames.
    const zoom = (target[1] - target[0]) / (viewport.view[1] - viewport.view[0]);
    this.loader.show({ ...viewport, lanes, view: target, nsPerPx: viewport.nsPerPx * zoom });
    const window = { start: Math.floor(viewport.view[0]), end: Math.ceil(viewport.view[1]) };
    const [start, end] = overlay.figures?.span ?? [window.start, window.end];
    if (this.hasDevice) this.stats.ask({ start, end });
    // Matching collectives is slow at first, so everything that does not depend on it comes first.
    if (this.hasCollectives && (this.stats.value !== null || lateness !== null)) {
      this.lateness.ask({ start, end });
    }
    if (ribbons !== null && lateness !== null) {
      const ranks = [...ribbons.ranks].sort((a, b) => a - b);
      this.ribbon.ask({ ...window, bins: Math.min(LIMITS.heatmap_bins, ribbons.bins), ranks });
    }
    const bins = Math.max(1, Math.min(LIMITS.heatmap_bins, Math.round(width)));
    this.minimap.ask({ bins });
    const marks = { ...window, bins, lanes: [...viewport.lanes].sort((a, b) => a - b) };
    if (overlay.search === "") this.searchMarks.clear();
    else this.searchMarks.ask({ text: overlay.search, ...marks });
    const { selection } = overlay;
    // A selection that does not restrict events is drawn as an area.
    if (selection !== null && (selection.query !== null || selection.ids !== null)) {
      this.selectionMarks.ask({ selection, ...marks });
    } else {
      this.selectionMarks.clear();
    }
  }

  /** Make the next `show` repeat failed requests. */
  retry(): void {
    for (const query of this.queries) query.retry();
  }

  pause(): void {
    this.loader.pause();
  }

  destroy(): void {
    this.loader.destroy();
    for (const query of this.queries) query.destroy();
  }
}
