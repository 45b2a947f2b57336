/** A request that follows the view: sent at intervals while the view moves; the newest one wins. */

import type { Answer, Operation, Requests, Source } from "../protocol/source";

export class Latest<Op extends Operation, T> {
  /** The last reply; it may be to an earlier request. */
  value: T | null = null;
  private wanted = "";
  private asked = "";
  private failed = false;
  private timer = 0;
  private inFlight: AbortController | null = null;

  /** `decode` also gets the request that was answered. */
  constructor(
    private readonly source: Source,
    private readonly op: Op,
    private readonly waitMs: number,
    private readonly decode: (reply: Answer<Op>, request: Requests[Op]) => T,
    private readonly onValue: (value: T | null) => void,
  ) {}

  /** Send `request` soon, unless it equals the last one. */
  ask(request: Requests[Op]): void {
    const key = JSON.stringify(request);
    if (key === this.wanted) return;
    this.wanted = key;
    // The timer is not restarted, so that replies keep coming while the view moves.
    if (this.timer !== 0) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.send();
    }, this.waitMs);
  }

  /** Allow a failed request to be sent again unchanged. */
  retry(): void {
    if (!this.failed) return;
    this.failed = false;
    this.wanted = this.asked = "";
  }

  /** Discard the reply and send nothing. */
  clear(): void {
    this.wanted = "";
    this.asked = "";
    clearTimeout(this.timer);
    this.timer = 0;
    this.inFlight?.abort();
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
    if (this.inFlight !== null || this.wanted === this.asked) return;
    const key = this.wanted;
    const request = JSON.parse(key) as Requests[Op];
    const aborter = new AbortController();
    this.inFlight = aborter;
    this.asked = key;
    this.failed = false;
    const done = () => {
      if (this.inFlight !== aborter) return false;
      this.inFlight = null;
      return true;
    };
    this.source.ask(this.op, request, aborter.signal).then(
      (reply) => {
        if (!done()) return;
        this.value = this.decode(reply, request);
        this.onValue(this.value);
        this.send();
      },
      () => {
        // A failure keeps the last value; the next request tries again.
        if (!done()) return;
        this.failed = true;
        if (this.wanted !== this.asked) this.send();
      },
    );
  }
}
