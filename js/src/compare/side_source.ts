/** One side of a comparison, as a timeline asks of it. */

import type { Reply, Source } from "../contract";

export class SideSource implements Source {
  constructor(
    private readonly whole: Source,
    private readonly side: 0 | 1,
  ) {}

  get status(): Source["status"] {
    return this.whole.status;
  }

  onStatus(listener: (status: Source["status"]) => void, signal: AbortSignal): void {
    this.whole.onStatus(listener, signal);
  }

  ask(op: string, request: Record<string, unknown>, signal?: AbortSignal): Promise<Reply> {
    return this.whole.ask(op, { ...request, side: this.side }, signal);
  }
}
