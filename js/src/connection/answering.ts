/**
 * Route a view's requests to the kernel or to the data in the page.
 *
 * At first, a live view uses only the kernel. `OfflineData` then fetches the job's data and opens
 * it as a `LocalSource`, the engine of saved pages. From then on, `HybridSource` prefers this
 * engine, so that the view stays fast while the kernel is busy and still works after it has ended.
 * The stage and the widgets around it use an `ObservedSource`, which shares replies between them.
 */

import { type Signal, signal } from "@preact/signals";
import { type Blocks, canGunzip, readBlock } from "../engine/columns";
import type { PageDocument } from "../engine/document";
import { download } from "../engine/export";
import { LruCache } from "../engine/lru";
import { type LocalSource, PageSource } from "../engine/source";
import { isPending } from "../protocol/decode";
import {
  asError,
  hasErrorCode,
  isAbort,
  type Operation,
  type Reply,
  type Source,
  type Span,
  type Answer,
} from "../protocol/source";
import {
  abortError,
  askWithRetries,
  type HostTerms,
  KernelSource,
  type MessageModel,
  NOTEBOOK_TERMS,
  sleep,
} from "./kernel";

/**
 * Answers a request in the page if the reply would equal the kernel's (`LocalSource.canAnswer`).
 * The kernel answers all other requests, and requests that fail in the page. After the kernel has
 * ended, the page answers all requests, even with only a part of the job.
 */
export class HybridSource implements Source {
  /** Source over the data that the page has fetched; null until it is available. */
  readonly page = signal<LocalSource | null>(null);

  constructor(
    private readonly kernel: Source & { checkAlive(): void },
    readonly terms: HostTerms = NOTEBOOK_TERMS,
  ) {}

  get status(): Source["status"] {
    return this.kernel.status;
  }

  /** Return how much of the job the page has fetched. */
  get pageExtent(): "all" | "part" | "nothing" {
    const page = this.page.value;
    if (page === null) return "nothing";
    return page.isComplete ? "all" : "part";
  }

  ask: Source["ask"] = (op, request, signal) =>
    askWithRetries(op, () => this.route(op, request, signal), signal);

  /** Operations that failed in the page. Each one is logged only once. */
  private readonly loggedOps = new Set<Operation>();

  private readonly route: Source["ask"] = async (op, request, signal) => {
    signal?.throwIfAborted();
    const page = this.page.peek();
    if (page?.canAnswer(op, request) !== true) return this.askKernel(op, request, signal);
    this.kernel.checkAlive();
    let pageError: unknown;
    try {
      const answer = await page.ask(op, request, signal);
      pageError = panelErrors(answer);
      if (pageError === undefined) return answer;
    } catch (error) {
      if (isAbort(error)) throw error;
      pageError = error;
    }
    const answer = await this.askKernel(op, request, signal);
    // If a request fails in the page but not in the kernel, the fault is in the page's engine.
    if (panelErrors(answer) === undefined && !this.loggedOps.has(op)) {
      this.loggedOps.add(op);
      console.error(`The page could not answer ${op}; the kernel answered instead.`, pageError);
    }
    return answer;
  };

  /** Ask the kernel. If it has ended, ask the page, which may have fetched its data by now. */
  private readonly askKernel: Source["ask"] = async (op, request, signal) => {
    try {
      return await this.kernel.ask(op, request, signal);
    } catch (kernelError) {
      const page = this.page.peek();
      if (isAbort(kernelError) || this.status !== "none" || page === null) throw kernelError;
      return page.ask(op, request, signal).catch((pageError: unknown) => {
        throw hasErrorCode(pageError, "unknown_op") ? kernelError : pageError;
      });
    }
  };
}

function panelErrors({ reply }: { reply: object }): unknown {
  return "errors" in reply ? reply.errors : undefined;
}

// Fetch a job's data while the kernel runs, so that the page still works without it.

/** Delay before data is fetched, so that the page draws first. */
const FETCH_DELAY_MS = 1000;
/** First delay before asking again whether the kernel has prepared the data. Later delays grow. */
const POLL_MS = 400;
const MAX_POLL_MS = 3000;

export interface Progress {
  state: "waiting" | "preparing" | "fetching" | "ready" | "failed";
  /** Number of bytes received, and the total to receive (0 until it is known). */
  receivedBytes: number;
  totalBytes: number;
  /** Why fetching failed. */
  message: string;
}

interface OfflineReply {
  state: "preparing" | "ready" | "failed";
  message?: string;
  bytes?: number;
  chunks?: number;
  blocks?: Record<string, [offset: number, length: number]>;
}

const NOT_STARTED: Progress = { state: "waiting", receivedBytes: 0, totalBytes: 0, message: "" };

export class OfflineData {
  readonly progress = signal(NOT_STARTED);
  private attempt = new AbortController();

  /** `openSource` turns the received data into the value of `page`. */
  constructor(
    private readonly kernel: Source,
    private readonly page: Signal<LocalSource | null>,
    private readonly signal: AbortSignal,
    private readonly openSource: (blocks: Blocks) => Promise<LocalSource> = openPageSource,
  ) {
    signal.addEventListener("abort", () => this.attempt.abort(), { once: true });
  }

  /** Fetch the data when the page is idle. Start over if the job changes. */
  start(): void {
    this.attempt.abort();
    if (this.signal.aborted) return;
    this.attempt = new AbortController();
    this.page.value = null;
    this.progress.value = NOT_STARTED;
    const { signal } = this.attempt;
    this.fetch(signal).catch((error: unknown) => {
      if (signal.aborted) return;
      const { message } = asError(error);
      this.progress.value = { ...this.progress.peek(), state: "failed", message };
    });
  }

  private async fetch(signal: AbortSignal): Promise<void> {
    if (!canGunzip()) throw new Error("This browser cannot unpack data: no DecompressionStream.");
    await sleep(FETCH_DELAY_MS, signal);
    await whenIdle(signal);
    const { bytes: totalBytes = 0, chunks = 0, blocks = {} } = await this.waitUntilReady(signal);
    const content = new Uint8Array(totalBytes);
    let receivedBytes = 0;
    for (let chunk = 0; chunk < chunks; chunk += 1) {
      this.progress.value = { ...NOT_STARTED, state: "fetching", receivedBytes, totalBytes };
      const { buffer } = await this.askOffline({ chunk }, signal);
      const chunkBytes = new Uint8Array(buffer ?? new ArrayBuffer(0));
      content.set(chunkBytes, receivedBytes);
      receivedBytes += chunkBytes.length;
      await whenIdle(signal);
    }
    if (receivedBytes !== totalBytes)
      throw new Error(`The kernel sent ${receivedBytes} bytes of ${totalBytes}.`);
    const source = await this.openSource(blocksIn(content, blocks));
    signal.throwIfAborted();
    this.page.value = source;
    this.progress.value = { ...NOT_STARTED, state: "ready", receivedBytes, totalBytes };
  }

  /** Ask until the kernel has prepared the data, and return that reply. */
  private async waitUntilReady(signal: AbortSignal): Promise<OfflineReply> {
    for (let delayMs = POLL_MS; ; delayMs = Math.min(delayMs * 1.5, MAX_POLL_MS)) {
      const reply = (await this.askOffline({}, signal)).reply as unknown as OfflineReply;
      if (reply.state === "failed") throw new Error(reply.message ?? "The kernel gave no reason.");
      if (reply.state === "ready") return reply;
      this.progress.value = { ...NOT_STARTED, state: "preparing" };
      await sleep(delayMs, signal);
    }
  }

  private askOffline(request: Record<string, unknown>, signal: AbortSignal): Promise<Reply> {
    return askWithRetries("offline", () => this.kernel.ask("offline", request, signal), signal);
  }
}

/** The source of a live view: the kernel, and the data that the page fetches from it. */
export interface LiveSource {
  source: HybridSource;
  offline: OfflineData;
}

/** Make the source of a live view. Fetching begins with `offline.start()`. */
export function liveSource(
  model: MessageModel,
  signal: AbortSignal,
  openSource?: (blocks: Blocks) => Promise<LocalSource>,
): LiveSource {
  const kernel = new KernelSource(model, signal);
  const source = new HybridSource(kernel, kernel.terms);
  return { source, offline: new OfflineData(kernel, source.page, signal, openSource) };
}

async function openPageSource(blocks: Blocks): Promise<LocalSource> {
  const text = new TextDecoder().decode(await readBlock(blocks, "document"));
  const source = new PageSource(JSON.parse(text) as PageDocument, blocks, download);
  await source.prepare();
  return source;
}

function blocksIn(content: Uint8Array, ranges: Record<string, [number, number]>): Blocks {
  return {
    text: () => null,
    bytes: (name) => {
      const range = ranges[name];
      return range === undefined ? null : content.subarray(range[0], range[0] + range[1]);
    },
  };
}

/** Wait until the browser is idle, but at most one second. */
function whenIdle(signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  // Safari does not support `requestIdleCallback`.
  if (typeof requestIdleCallback !== "function") return sleep(50, signal);
  return new Promise((resolve) => requestIdleCallback(() => resolve(), { timeout: 1000 }));
}

// A source shared by the stage and everything around it. Equal requests are sent only once.

const MAX_CACHED = 16;
/** Slow operations, for which the kernel sends several incomplete replies. */
const INCREMENTAL_OPS = new Set([
  "stats",
  "minimap",
  "lateness",
  "collective",
  "efficiency",
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

type ReplyListener = (op: string, request: Record<string, unknown>, reply: Reply) => void;

/**
 * A source that sends equal requests for the same window only once. For example, the stage and the
 * toolbar both show the shares of the view.
 */
export class ObservedSource implements Source {
  private readonly memo = new LruCache<string, Promise<Answer<"stats">>>(MAX_CACHED);
  private readonly replyListeners: ReplyListener[] = [];
  private readonly failureListeners: ((op: string, error: Error) => void)[] = [];

  constructor(private readonly inner: Source) {}

  get status(): Source["status"] {
    return this.inner.status;
  }

  /** Receive every reply, including replies to other callers. */
  onReply(listener: ReplyListener): void {
    this.replyListeners.push(listener);
  }

  /** Receive every failure except aborts. */
  onFailure(listener: (op: string, error: Error) => void): void {
    this.failureListeners.push(listener);
  }

  /** Discard all replies after the scene has changed. */
  clearCache(): void {
    this.memo.clear();
  }

  readonly ask: Source["ask"] = (op, request, signal) => {
    if (op !== "stats") return this.askAndNotify(op, request, signal);
    const key = JSON.stringify(request);
    // The request is shared, so no single caller may abort it.
    const answer = this.memo.get(
      key,
      () => this.askAndNotify(op, request, undefined) as Promise<Answer<"stats">>,
    ) as Promise<Answer<typeof op>>;
    answer.catch(() => this.memo.delete(key));
    return signal === undefined ? answer : abortable(answer, signal);
  };

  /** Repeat the request while replies are incomplete, and return the final reply. */
  private readonly askUntilComplete: Source["ask"] = async (op, request, signal) => {
    if (!INCREMENTAL_OPS.has(op)) return this.inner.ask(op, request, signal);
    for (;;) {
      const reply = await this.inner.ask(op, { ...request, within_ms: REPLY_BUDGET_MS }, signal);
      if (!isPending(reply)) return reply;
    }
  };

  private readonly askAndNotify: Source["ask"] = async (op, request, signal) => {
    try {
      const reply = await this.askUntilComplete(op, request, signal);
      for (const listener of this.replyListeners) listener(op, request, reply);
      return reply;
    } catch (error) {
      if (!isAbort(error)) {
        for (const listener of this.failureListeners) listener(op, asError(error));
      }
      throw error;
    }
  };
}

/** Return the window in whole ns, as the stage does, so that equal views make equal requests. */
export function wholeNsWindow(span: Span): { start: number; end: number } {
  const start = Math.floor(span[0]);
  return { start, end: Math.max(Math.ceil(span[1]), start + 1) };
}

function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(abortError());
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    void promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/**
 * Longest time that the kernel may spend on one reply, and the size limit of a reply. The page then
 * requests the remainder, unless the view has moved.
 */
export const REPLY_BUDGET_MS = 30;
