/**
 * Route the requests of a view to the kernel or to the data in the page.
 *
 * A live view starts with the kernel alone. `OfflineData` then fetches the job's data from it and
 * opens them as a `LocalSource`, the engine that also answers in saved pages. From then on
 * `HybridSource` prefers the page: moving and selecting stay fast while the kernel is busy, and go on
 * after it ends. `ObservedSource` is for the stage and the widgets around it, which share replies.
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
  type Requests,
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
 * The page answers where its reply equals that of the kernel (`LocalSource.canAnswer`). The kernel
 * answers all other requests, and those that fail in the page. After the kernel has ended, the page
 * answers all requests, from a part of the job if it has no more.
 */
export class HybridSource implements Source {
  /** Source over the data that the page has fetched; null before. */
  readonly page = signal<LocalSource | null>(null);

  constructor(
    private readonly kernel: Source & { checkAlive(): void },
    readonly terms: HostTerms = NOTEBOOK_TERMS,
  ) {}

  get status(): Source["status"] {
    return this.kernel.status;
  }

  /** The part of the job whose data the page has. */
  get pageExtent(): "all" | "part" | "nothing" {
    const page = this.page.value;
    if (page === null) return "nothing";
    return page.isComplete ? "all" : "part";
  }

  ask: Source["ask"] = (op, request, signal) =>
    askWithRetries(op, () => this.route(op, request, signal), signal);

  /** Operations that failed in the page and are logged; each is logged once. */
  private readonly loggedOps = new Set<Operation>();

  private async route<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal: AbortSignal | undefined,
  ): Promise<Answer<Op>> {
    signal?.throwIfAborted();
    let pageError: unknown;
    const page = this.page.peek();
    if (page?.canAnswer(op, request) === true) {
      this.kernel.checkAlive();
      try {
        const answer = await page.ask(op, request, signal);
        pageError = panelErrors(answer);
        if (pageError === undefined) return answer;
      } catch (error) {
        if (isAbort(error)) throw error;
        pageError = error;
      }
    }
    try {
      const answer = await this.kernel.ask(op, request, signal);
      // The page's engine should answer every request that the kernel can.
      const isKernelBetter = pageError !== undefined && panelErrors(answer) === undefined;
      if (isKernelBetter && !this.loggedOps.has(op)) {
        this.loggedOps.add(op);
        console.error(`The page could not answer ${op}; the kernel did.`, pageError);
      }
      return answer;
    } catch (error) {
      // The kernel's answer may have taken longer than fetching its data.
      const pageNow = this.page.peek();
      if (isAbort(error) || this.status !== "none" || pageNow === null) throw error;
      return pageNow.ask(op, request, signal).catch((reason: unknown) => {
        throw hasErrorCode(reason, "unknown_op") ? error : reason;
      });
    }
  }
}

function panelErrors({ reply }: { reply: object }): unknown {
  return "errors" in reply ? reply.errors : undefined;
}

// Fetch the job's data while the kernel runs, so that the page works after the kernel has ended.

/** Delay before data is fetched: the page draws first. */
const FETCH_DELAY_MS = 1000;
/** First delay between two checks whether the kernel has prepared the data; it grows. */
const POLL_MS = 400;
const MAX_POLL_MS = 3000;

export interface Progress {
  state: "waiting" | "preparing" | "fetching" | "ready" | "failed";
  /** Bytes received, and their total; 0 while it is unknown. */
  receivedBytes: number;
  totalBytes: number;
  /** Why it failed. */
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

  /** `openSource` makes the value of `page` from the data that the kernel sent. */
  constructor(
    private readonly kernel: Source,
    private readonly page: Signal<LocalSource | null>,
    private readonly signal: AbortSignal,
    private readonly openSource: (blocks: Blocks) => Promise<LocalSource> = openPageSource,
  ) {
    signal.addEventListener("abort", () => this.attempt.abort(), { once: true });
  }

  /** Fetch when the page is idle; start again if the job changes. */
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

  /** The kernel's reply once it is done. */
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

/** Source of a live view: the kernel, and the data that the page fetches. */
export interface LiveSource {
  source: HybridSource;
  offline: OfflineData;
}

/** Fetching begins with `offline.start()`. */
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

/** Wait until the browser is idle, or for one second at most. */
function whenIdle(signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  // Safari does not support this callback.
  if (typeof requestIdleCallback !== "function") return sleep(50, signal);
  return new Promise((resolve) => requestIdleCallback(() => resolve(), { timeout: 1000 }));
}

// One source for the stage and everything around it: identical requests are sent once.

const MAX_CACHED = 16;
/** Operations that may take long; they are computed incrementally. */
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
 * A source that sends identical requests for the same window once. The stage and the toolbar both
 * need the shares of the view; the first caller starts the request.
 */
export class ObservedSource implements Source {
  private readonly memo = new LruCache<string, Promise<Answer<"stats">>>(MAX_CACHED);
  private readonly replyListeners: ReplyListener[] = [];
  private readonly failureListeners: ((op: string, error: Error) => void)[] = [];

  constructor(private readonly inner: Source) {}

  get status(): Source["status"] {
    return this.inner.status;
  }

  /** Receive every reply, also to other callers. */
  onReply(listener: ReplyListener): void {
    this.replyListeners.push(listener);
  }

  /** Receive every failure that is not an abort. */
  onFailure(listener: (op: string, error: Error) => void): void {
    this.failureListeners.push(listener);
  }

  /** Discard all replies: the scene has changed. */
  clearCache(): void {
    this.memo.clear();
  }

  ask<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal?: AbortSignal,
  ): Promise<Answer<Op>> {
    if (op !== "stats") return this.askAndNotify(op, request, signal);
    const key = JSON.stringify(request);
    // Shared by several callers, so no single caller may abort it.
    const answer = this.memo.get(
      key,
      () => this.askAndNotify(op, request, undefined) as Promise<Answer<"stats">>,
    ) as Promise<Answer<Op>>;
    answer.catch(() => this.memo.delete(key));
    return signal === undefined ? answer : abortable(answer, signal);
  }

  /** The final reply, after repeating the request while replies are incomplete. */
  private async askUntilComplete<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal: AbortSignal | undefined,
  ): Promise<Answer<Op>> {
    if (!INCREMENTAL_OPS.has(op)) return this.inner.ask(op, request, signal);
    for (;;) {
      const reply = await this.inner.ask(op, { ...request, within_ms: REPLY_BUDGET_MS }, signal);
      if (!isPending(reply)) return reply;
    }
  }

  private async askAndNotify<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal: AbortSignal | undefined,
  ): Promise<Answer<Op>> {
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
  }
}

/** The window in whole ns, as the stage requests it: equal views send equal requests. */
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
 * Max time that the kernel may spend on one reply, and the max size of that reply. The remainder is
 * requested next, unless the view has moved by then.
 */
export const REPLY_BUDGET_MS = 30;
