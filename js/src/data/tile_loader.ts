/** Asks for tiles: one request at a time, always for what is in sight now. */

import type { Source } from "../contract";
import { decodeTiles } from "../protocol/decode";
import { planAhead, planVisible, type Sight, type TileRequest } from "./tile_plan";
import type { TileStore } from "./tile_store";

/** Stillness before tiles are fetched that are not in sight. */
export const IDLE_MS = 90;
/** No request for this long after a failure; then once more, and again when the view changes. */
export const RETRY_MS = 1500;

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
      const reply = await this.source.ask("tiles", { level, parts }, this.aborter.signal);
      if (this.aborter.signal.aborted) return;
      this.store.add(parts, decodeTiles(reply));
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
