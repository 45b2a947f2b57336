/** One source for the stage and everything around it: equal questions are asked once. */

import { asError, isAbort } from "../contract";
import type { Reply, Source, Span } from "../contract";
import { WITHIN_MS } from "../data/tile_loader";
import { isPending } from "../protocol/decode";

const KEPT = 16;
/** What may take long to answer: it is made little by little. */
const GRADUAL = new Set([
  "stats",
  "minimap",
  "lateness",
  "collective",
  "ribbon",
  "clusters",
  "search",
  "find",
  "marks",
  "totals",
  "heatmap",
  "headline",
  "table",
]);

/**
 * A source that answers the same question about the same window once. The stage and the toolbar
 * both ask for the shares of the view; the caller who asks first starts the request.
 */
export class ObservedSource implements Source {
  private readonly memo = new Map<string, Promise<Reply>>();
  private readonly watchers: ((
    op: string,
    request: Record<string, unknown>,
    reply: Reply,
  ) => void)[] = [];
  private readonly failures: ((op: string, error: Error) => void)[] = [];

  constructor(private readonly inner: Source) {}

  get status(): Source["status"] {
    return this.inner.status;
  }

  onStatus(listener: (status: Source["status"]) => void, signal: AbortSignal): void {
    this.inner.onStatus(listener, signal);
  }

  /** Hear every answer, whoever asked. */
  onReply(listener: (op: string, request: Record<string, unknown>, reply: Reply) => void): void {
    this.watchers.push(listener);
  }

  /** Hear every failure that is not an abort. */
  onFailure(listener: (op: string, error: Error) => void): void {
    this.failures.push(listener);
  }

  /** Forget what was answered: the scene has changed. */
  forget(): void {
    this.memo.clear();
  }

  ask(op: string, request: Record<string, unknown>, signal?: AbortSignal): Promise<Reply> {
    if (op !== "stats") return this.watched(op, request, signal);
    const key = JSON.stringify(request);
    let answer = this.memo.get(key);
    if (answer === undefined) {
      // Shared by several callers: no one of them may abort it for the others.
      answer = this.watched(op, request, undefined);
      this.memo.set(key, answer);
      answer.catch(() => this.memo.delete(key));
      for (const old of this.memo.keys()) {
        if (this.memo.size <= KEPT) break;
        this.memo.delete(old);
      }
    }
    return signal === undefined ? answer : abortable(answer, signal);
  }

  /** The answer, after as many that only say that more time is needed. */
  private async whole(
    op: string,
    request: Record<string, unknown>,
    signal: AbortSignal | undefined,
  ): Promise<Reply> {
    if (!GRADUAL.has(op)) return this.inner.ask(op, request, signal);
    for (;;) {
      const reply = await this.inner.ask(op, { ...request, within_ms: WITHIN_MS }, signal);
      if (!isPending(reply)) return reply;
    }
  }

  private async watched(
    op: string,
    request: Record<string, unknown>,
    signal: AbortSignal | undefined,
  ): Promise<Reply> {
    try {
      const reply = await this.whole(op, request, signal);
      for (const watcher of this.watchers) watcher(op, request, reply);
      return reply;
    } catch (error) {
      if (!isAbort(error)) {
        for (const failure of this.failures) failure(op, asError(error));
      }
      throw error;
    }
  }
}

/** The window in whole ns, as the stage asks for it: equal views ask equal questions. */
export function wholeSpan(span: Span): { start: number; end: number } {
  const start = Math.floor(span[0]);
  return { start, end: Math.max(Math.ceil(span[1]), start + 1) };
}

function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(new DOMException("no longer wanted", "AbortError"));
    if (signal.aborted) {
      stop();
      return;
    }
    signal.addEventListener("abort", stop, { once: true });
    promise.then(
      (value) => {
        signal.removeEventListener("abort", stop);
        resolve(value);
      },
      (error: unknown) => {
        signal.removeEventListener("abort", stop);
        reject(asError(error));
      },
    );
  });
}
