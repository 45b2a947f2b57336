/** A request that follows the view, sent at intervals while it moves. The newest reply is used. */

import type { Answer, Operation, Requests, Source } from "../protocol/source";

export class ThrottledQuery<Op extends Operation, T> {
  /** The last reply, which may belong to an earlier request. */
  value: T | null = null;
  private wantedKey = "";
  private sentKey = "";
  private hasFailed = false;
  private timer = 0;
  private inFlight: AbortController | null = null;

  /** `decode` also receives the request that was answered. */
  constructor(
    private readonly source: Source,
    private readonly op: Op,
    private readonly waitMs: number,
    private readonly decode: (reply: Answer<Op>, request: Requests[Op]) => T,
    private readonly onValue: (value: T | null) => void,
  ) {}

  /** Send `request` soon, unless it equals the previous request. */
  ask(request: Requests[Op]): void {
    const key = JSON.stringify(request);
    if (key === this.wantedKey) return;
    this.wantedKey = key;
    // The timer is not restarted, so that replies keep arriving while the view moves.
    if (this.timer !== 0) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.send();
    }, this.waitMs);
  }

  /** Allow a failed request to be sent again unchanged. */
  retry(): void {
    if (!this.hasFailed) return;
    this.hasFailed = false;
    this.wantedKey = this.sentKey = "";
  }

  /** Discard the last reply and cancel the pending request. */
  clear(): void {
    this.destroy();
    this.wantedKey = this.sentKey = "";
    this.timer = 0;
    this.inFlight = null;
    if (this.value === null) return;
    this.value = null;
    this.onValue(null);
  }

  destroy(): void {
    clearTimeout(this.timer);
    this.inFlight?.abort();
  }

  private send(): void {
    if (this.inFlight !== null || this.wantedKey === this.sentKey) return;
    const key = this.wantedKey;
    const request = JSON.parse(key) as Requests[Op];
    const aborter = new AbortController();
    this.inFlight = aborter;
    this.sentKey = key;
    this.hasFailed = false;
    const finish = () => {
      if (this.inFlight !== aborter) return false;
      this.inFlight = null;
      return true;
    };
    this.source.ask(this.op, request, aborter.signal).then(
      (reply) => {
        if (!finish()) return;
        this.value = this.decode(reply, request);
        this.onValue(this.value);
        this.send();
      },
      () => {
        // The last value is kept after a failure, and the next request tries again.
        if (!finish()) return;
        this.hasFailed = true;
        if (this.wantedKey !== this.sentKey) this.send();
      },
    );
  }
}
