/** Asking again: who stops a cell also stops what the kernel was asked by the page just then. */

import type { Reply, Source } from "../contract";

/** What `hta_widgets/live/operations.py` says of a question that was stopped. */
export const INTERRUPTED = "Interrupted.";
/** How long to wait before each further try; what is stopped after the last one has failed. */
export const PAUSES_MS: readonly number[] = [300, 600, 1200, 2400, 4800];

/** Twice would be once too often. */
const WRITES = new Set(["export", "export_pair", "export_table", "save_html"]);

/** A kernel that is asked again what was stopped. */
export class AskingAgain implements Source {
  constructor(private readonly inner: Source) {}

  get status(): Source["status"] {
    return this.inner.status;
  }

  onStatus(listener: (status: Source["status"]) => void, signal: AbortSignal): void {
    this.inner.onStatus(listener, signal);
  }

  ask(op: string, request: Record<string, unknown>, signal?: AbortSignal): Promise<Reply> {
    return askAgain(op, () => this.inner.ask(op, request, signal), signal);
  }
}

/** The answer, after as many tries as it takes; a failure of any other kind is told at once. */
export async function askAgain<T>(
  op: string,
  ask: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  if (WRITES.has(op)) return ask();
  for (const pause of PAUSES_MS) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Error) || error.message !== INTERRUPTED) throw error;
    }
    await sleep(pause, signal);
  }
  return ask();
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(new DOMException("no longer wanted", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
