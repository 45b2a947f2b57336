/** Asks for tiles: one request at a time, always for what is in sight now. */

import type { Reply, Source } from "../contract";
import { canGunzip, gunzip } from "../page/bytes";
import { decodeTiles } from "../protocol/decode";
import { planAhead, planVisible, type Sight, type TileRequest } from "./tile_plan";
import type { TilePart, TileStore } from "./tile_store";

/** Stillness before tiles are fetched that are not in sight. */
export const IDLE_MS = 90;
/** No request for this long after a failure; then once more, and again when the view changes. */
export const RETRY_MS = 1500;

/**
 * How long the kernel may take for one answer, to this or anything else that may take longer, and
 * how large it may be: what is left is asked for next, unless the view is elsewhere by then.
 */
export const WITHIN_MS = 30;
export const MOST_BYTES = 800_000;

export class TileLoader {
  /** The last failure, null after a success. */
  error: Error | null = null;
  private sight: Sight | null = null;
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

  /** Called with every change of what is shown. */
  show(sight: Sight): void {
    this.sight = sight;
    this.failures = 0;
    this.pump();
  }

  /** Nobody looks: what is under way may come, nothing else is asked for. */
  rest(): void {
    this.sight = null;
    clearTimeout(this.idleTimer);
  }

  /** Does the picture lack tiles? */
  get pending(): boolean {
    return this.sight !== null && planVisible(this.store, this.sight) !== null;
  }

  destroy(): void {
    this.aborter.abort();
    clearTimeout(this.idleTimer);
    clearTimeout(this.retryTimer);
  }

  private pump(): void {
    clearTimeout(this.idleTimer);
    if (this.inFlight || this.retryTimer !== 0) return;
    if (this.sight === null || this.aborter.signal.aborted) return;
    const visible = planVisible(this.store, this.sight);
    if (visible !== null) {
      void this.fetch(visible);
      return;
    }
    this.idleTimer = window.setTimeout(() => {
      if (this.inFlight || this.sight === null || this.source.status === "busy") return;
      const ahead = planAhead(this.store, this.sight);
      if (ahead !== null) void this.fetch(ahead);
    }, IDLE_MS);
  }

  private async fetch(request: TileRequest): Promise<void> {
    this.inFlight = true;
    const { level, parts } = request;
    try {
      const asked = {
        level,
        parts,
        within_ms: WITHIN_MS,
        most_bytes: MOST_BYTES,
        compact: true,
        gzip: canGunzip(),
        ...(this.store.classed ? { classed: true } : {}),
      };
      const reply = await unpacked(await this.source.ask("tiles", asked, this.aborter.signal));
      if (this.aborter.signal.aborted) return;
      this.store.add(answered(parts, reply.reply.left), decodeTiles(reply));
      this.error = null;
      this.failures = 0;
      this.inFlight = false;
      this.onTiles();
      this.pump();
    } catch (error) {
      this.inFlight = false;
      if (this.aborter.signal.aborted) return;
      this.error = error instanceof Error ? error : new Error(String(error));
      this.failures += 1;
      this.onTiles();
      this.retryTimer = window.setTimeout(() => {
        this.retryTimer = 0;
        if (this.failures <= 1) this.pump();
      }, RETRY_MS);
    }
  }
}

async function unpacked(reply: Reply): Promise<Reply> {
  if (reply.reply.gzip !== true || reply.buffer === null) return reply;
  const { buffer } = await gunzip(new Uint8Array(reply.buffer));
  return { reply: reply.reply, buffer: buffer as ArrayBuffer };
}

/** What was asked for less what is left, which comes in the same order. */
function answered(parts: readonly TilePart[], left: unknown): readonly TilePart[] {
  if (!Array.isArray(left)) return parts;
  const of = (part: TilePart) => `${part.first}:${part.last}`;
  const open = new Map((left as TilePart[]).map((part) => [of(part), new Set(part.lanes)]));
  return parts.map((part) => {
    const missing = open.get(of(part));
    if (missing === undefined) return part;
    return { ...part, lanes: part.lanes.filter((lane) => !missing.has(lane)) };
  });
}
