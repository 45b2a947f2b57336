/** Route the requests of a view to its kernel, or to the data of the job that the page fetched. */

import { type Signal, signal } from "@preact/signals";
import { type Blocks, canGunzip, readBlock } from "../engine/columns";
import type { PageDocument } from "../engine/document";
import { download } from "../engine/export";
import { Lru } from "../engine/lru";
import { type HeldSource, PageSource } from "../engine/source";
import { isPending } from "../protocol/decode";
import {
  asError,
  isAbort,
  type Operation,
  type Reply,
  type Requests,
  type Source,
  type Span,
  type Answer,
} from "../protocol/source";
import {
  askAgain,
  type HostWords,
  KernelSource,
  type MessageModel,
  NOTEBOOK,
  sleep,
} from "./kernel";

/**
 * Replies come from the page once it has fetched the whole job, otherwise from the kernel. Requests
 * that the page cannot answer go to the kernel; without one, the page's partial data is used.
 */
export class HybridSource implements Source {
  /** What the page holds, and answers from. */
  readonly held = signal<HeldSource | null>(null);

  constructor(
    private readonly kernel: Source & { look?(): void },
    readonly words: HostWords = NOTEBOOK,
  ) {}

  get status(): Source["status"] {
    return this.kernel.status;
  }

  /** Whether the page holds all of the job, a part or nothing. */
  get holds(): "all" | "part" | "nothing" {
    const held = this.held.value;
    return held === null ? "nothing" : held.isWhole ? "all" : "part";
  }

  ask: Source["ask"] = (op, request, signal) =>
    askAgain(op, () => this.once(op, request, signal), signal);

  private async once<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal: AbortSignal | undefined,
  ): Promise<Answer<Op>> {
    signal?.throwIfAborted();
    const held = this.held.peek();
    if (held?.holds(op, request) === true) {
      this.kernel.look?.();
      try {
        return await held.ask(op, request, signal);
      } catch (error) {
        if (isAbort(error)) throw error;
      }
    }
    try {
      return await this.kernel.ask(op, request, signal);
    } catch (error) {
      const now = this.held.peek();
      if (isAbort(error) || this.status !== "none" || now === null) throw error;
      return now.ask(op, request, signal).catch((why: unknown) => {
        throw asError(why).message.startsWith("unknown op ") ? error : why;
      });
    }
  }
}

// Fetches the job's data from the kernel while it runs, so that the page works without it.

/** Delay before data is fetched: the page draws first. */
const REST_MS = 1000;
/** Delay between two checks whether the kernel is done; it grows each time. */
const LOOK_MS = 400;
const MOST_LOOK_MS = 3000;

export interface Progress {
  state: "waiting" | "preparing" | "fetching" | "ready" | "failed";
  /** Bytes received, and their total; 0 while it is unknown. */
  bytes: number;
  of: number;
  /** Why it failed. */
  message: string;
}

interface Said {
  state: "preparing" | "ready" | "failed";
  message?: string;
  bytes?: number;
  chunks?: number;
  blocks?: Record<string, [offset: number, length: number]>;
}

const NOTHING: Progress = { state: "waiting", bytes: 0, of: 0, message: "" };

export class OfflineData {
  readonly progress = signal(NOTHING);
  private round = new AbortController();

  /** `open` makes the source that is `held` from the data that the kernel sent. */
  constructor(
    private readonly kernel: Source,
    private readonly held: Signal<HeldSource | null>,
    private readonly signal: AbortSignal,
    private readonly open: (held: Blocks) => Promise<HeldSource> = openJob,
  ) {
    signal.addEventListener("abort", () => this.round.abort(), { once: true });
  }

  /** Fetch when the page is idle; start again if the job changes. */
  start(): void {
    this.round.abort();
    if (this.signal.aborted) return;
    this.round = new AbortController();
    this.held.value = null;
    this.progress.value = NOTHING;
    const { signal } = this.round;
    this.fetch(signal).catch((error: unknown) => {
      if (signal.aborted) return;
      const { message } = asError(error);
      this.progress.value = { ...this.progress.peek(), state: "failed", message };
    });
  }

  private async fetch(signal: AbortSignal): Promise<void> {
    if (!canGunzip()) throw new Error("This browser cannot unpack data: no DecompressionStream.");
    await sleep(REST_MS, signal);
    await idle(signal);
    const { bytes = 0, chunks = 0, blocks = {} } = await this.readiness(signal);
    const content = new Uint8Array(bytes);
    let at = 0;
    for (let chunk = 0; chunk < chunks; chunk += 1) {
      this.progress.value = { state: "fetching", bytes: at, of: bytes, message: "" };
      const { buffer } = await this.ask({ chunk }, signal);
      const part = new Uint8Array(buffer ?? new ArrayBuffer(0));
      content.set(part, at);
      at += part.length;
      await idle(signal);
    }
    if (at !== bytes) throw new Error(`The kernel sent ${at} bytes of ${bytes}.`);
    const held = await this.open(heldIn(content, blocks));
    signal.throwIfAborted();
    this.held.value = held;
    this.progress.value = { state: "ready", bytes, of: bytes, message: "" };
  }

  /** The kernel's reply once it is done. */
  private async readiness(signal: AbortSignal): Promise<Said> {
    for (let wait = LOOK_MS; ; wait = Math.min(wait * 1.5, MOST_LOOK_MS)) {
      const said = (await this.ask({}, signal)).reply as unknown as Said;
      if (said.state === "failed") throw new Error(said.message ?? "The kernel gave no reason.");
      if (said.state === "ready") return said;
      this.progress.value = { ...NOTHING, state: "preparing" };
      await sleep(wait, signal);
    }
  }

  private ask(request: Record<string, unknown>, signal: AbortSignal): Promise<Reply> {
    return askAgain("offline", () => this.kernel.ask("offline", request, signal), signal);
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
  open?: (held: Blocks) => Promise<HeldSource>,
): LiveSource {
  const kernel = new KernelSource(model, signal);
  const source = new HybridSource(kernel, kernel.words);
  return { source, offline: new OfflineData(kernel, source.held, signal, open) };
}

async function openJob(held: Blocks): Promise<HeldSource> {
  const text = new TextDecoder().decode(await readBlock(held, "document"));
  const source = new PageSource(JSON.parse(text) as PageDocument, held, download);
  await source.prepare();
  return source;
}

function heldIn(content: Uint8Array, places: Record<string, [number, number]>): Blocks {
  return {
    text: () => null,
    bytes: (name) => {
      const place = places[name];
      return place === undefined ? null : content.subarray(place[0], place[0] + place[1]);
    },
  };
}

/** Wait until the browser is idle, or for one second at most. */
function idle(signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  // Safari does not support this callback.
  if (typeof requestIdleCallback !== "function") return sleep(50, signal);
  return new Promise((resolve) => requestIdleCallback(() => resolve(), { timeout: 1000 }));
}

// One source for the stage and everything around it: identical requests are sent once.

const KEPT = 16;
/** Operations that may take long; they are computed incrementally. */
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

type Watcher = (op: string, request: Record<string, unknown>, reply: Reply) => void;

/**
 * A source that sends identical requests for the same window once. The stage and the toolbar both
 * need the shares of the view; the first caller starts the request.
 */
export class ObservedSource implements Source {
  private readonly memo = new Lru<string, Promise<Answer<"stats">>>(KEPT);
  private readonly watchers: Watcher[] = [];
  private readonly failures: ((op: string, error: Error) => void)[] = [];

  constructor(private readonly inner: Source) {}

  get status(): Source["status"] {
    return this.inner.status;
  }

  /** Receive every reply, also to other callers. */
  onReply(listener: Watcher): void {
    this.watchers.push(listener);
  }

  /** Receive every failure that is not an abort. */
  onFailure(listener: (op: string, error: Error) => void): void {
    this.failures.push(listener);
  }

  /** Discard all replies: the scene has changed. */
  forget(): void {
    this.memo.clear();
  }

  ask<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal?: AbortSignal,
  ): Promise<Answer<Op>> {
    if (op !== "stats") return this.watched(op, request, signal);
    const key = JSON.stringify(request);
    // Shared by several callers; none may abort it for the others.
    const answer = this.memo.get(
      key,
      () => this.watched(op, request, undefined) as Promise<Answer<"stats">>,
    ) as Promise<Answer<Op>>;
    answer.catch(() => this.memo.delete(key));
    return signal === undefined ? answer : abortable(answer, signal);
  }

  /** The final reply, after repeating the request while replies are incomplete. */
  private async whole<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal: AbortSignal | undefined,
  ): Promise<Answer<Op>> {
    if (!GRADUAL.has(op)) return this.inner.ask(op, request, signal);
    for (;;) {
      const reply = await this.inner.ask(op, { ...request, within_ms: WITHIN_MS }, signal);
      if (!isPending(reply)) return reply;
    }
  }

  private async watched<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal: AbortSignal | undefined,
  ): Promise<Answer<Op>> {
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

/** The window in whole ns, as the stage requests it: equal views send equal requests. */
export function wholeSpan(span: Span): { start: number; end: number } {
  const start = Math.floor(span[0]);
  return { start, end: Math.max(Math.ceil(span[1]), start + 1) };
}

function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(new DOMException("no longer wanted", "AbortError"));
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    void promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

/**
 * Max time that the kernel may spend on one reply, and the max size of that reply. The remainder is
 * requested next, unless the view has moved by then.
 */
export const WITHIN_MS = 30;
