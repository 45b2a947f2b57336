/** Choose the source of a reply: the kernel, or the data that the page holds. */

import { type Blocks, canGunzip, readBlock } from "../engine/columns";
import type { PageDocument } from "../engine/document";
import { download } from "../engine/export";
import { Lru } from "../engine/lru";
import { PageSource } from "../engine/source";
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

/** For a kernel that has not answered for this long, the page answers. */
export const SILENT_AFTER_MS = 400;
/** Interval between requests to a silent kernel: the reply to the last one may be lost. */
export const PROBE_EVERY_MS = 3000;

/**
 * Current source of replies: kernel or page; "busy" if the kernel is busy and the page lacks data.
 */
type Answering = "kernel" | "page" | "busy";

/** Operations that only a kernel performs; these must not be repeated. */
const KERNEL_ONLY = new Set(["export", "offline"]);
/**
 * Offset of the page's name keys: kernel and page number names separately, but share a tile store.
 */
const PAGE_KEYS = 2 ** 30;

type Status = Source["status"];

const OF_STATUS: Record<Status, Answering> = { live: "kernel", busy: "busy", none: "busy" };
const AS_STATUS: Record<Answering, Status> = { kernel: "live", page: "none", busy: "busy" };

export class HybridSource implements Source {
  private current: Answering = "kernel";
  /** The kernel owes an answer for longer than it may. */
  private silent = false;
  /** The question that is left with a silent kernel, so that its return shows. */
  private probe: { at: number } | null = null;
  private readonly listeners = new Set<(status: Status) => void>();
  private readonly returned = new Set<() => void>();

  /**
   * `page` gives the source of the page's data, or null as long as there is none. `signal` ends
   * the watch over the kernel.
   */
  constructor(
    private readonly kernel: Source,
    private readonly page: () => Promise<Source | null>,
    signal: AbortSignal = new AbortController().signal,
    readonly words: HostWords = NOTEBOOK,
  ) {
    kernel.onStatus(() => this.follow(), signal);
    signal.addEventListener(
      "abort",
      () => {
        this.listeners.clear();
        this.returned.clear();
      },
      { once: true },
    );
  }

  /** Status as of any source; "none" while the page replies. */
  get status(): Status {
    return this.gone ? "none" : AS_STATUS[this.current];
  }

  get answering(): Answering {
    return this.current;
  }

  /** Whether the kernel has ended. */
  get gone(): boolean {
    return this.kernel.status === "none";
  }

  onStatus(listener: (status: Status) => void, signal: AbortSignal): void {
    heard(this.listeners, listener, signal);
  }

  /** Listen for the kernel's return after the page has replied: retry what the page lacked. */
  onReturn(listener: () => void, signal: AbortSignal): void {
    heard(this.returned, listener, signal);
  }

  ask<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal?: AbortSignal,
  ): Promise<Answer<Op>> {
    return askAgain(op, () => this.once(op, request, signal), signal);
  }

  private async once<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal: AbortSignal | undefined,
  ): Promise<Answer<Op>> {
    signal?.throwIfAborted();
    if (this.gone) return this.withoutKernel(op, request, signal);
    if (KERNEL_ONLY.has(op)) return this.kernel.ask(op, request, signal);
    if (!this.silent) return this.race(op, request, signal, SILENT_AFTER_MS);
    if (this.probe !== null && Date.now() - this.probe.at < PROBE_EVERY_MS) {
      const answer = await this.fromPage(op, request, signal).catch(unlessAborted);
      if (answer !== null) return answer;
      signal?.throwIfAborted();
    }
    return this.race(op, request, signal, 0);
  }

  /** Send a request to the kernel, and after a delay also to the page; the first reply is used. */
  private race<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal: AbortSignal | undefined,
    patience: number,
  ): Promise<Answer<Op>> {
    const kernels = new AbortController();
    const probe = { at: Date.now() };
    return new Promise((resolve, reject) => {
      const settled = new AbortController();
      const settle = (then: () => void): void => {
        if (settled.signal.aborted) return;
        settled.abort();
        then();
      };
      const late = (): void => {
        this.fall(probe);
        this.fromPage(op, request, signal).then(
          (reply) => {
            // Nothing in the page yet: the kernel's answer is awaited.
            if (reply === null) return;
            settle(() => {
              resolve(reply);
              if (this.probe !== probe) kernels.abort();
            });
          },
          // The kernel will send what the page cannot.
          () => undefined,
        );
      };
      const timer = setTimeout(late, patience);
      settled.signal.addEventListener("abort", () => clearTimeout(timer));
      signal?.addEventListener(
        "abort",
        () =>
          settle(() => {
            // Keep the only request that is pending at a silent kernel.
            if (this.probe !== probe) kernels.abort();
            reject(abandoned());
          }),
        { once: true, signal: settled.signal },
      );
      this.kernel.ask(op, request, kernels.signal).then(
        (reply) => {
          this.rise();
          settle(() => resolve(reply));
        },
        (error: unknown) => {
          if (this.gone) {
            settle(() => void this.withoutKernel(op, request, signal).then(resolve, reject));
            return;
          }
          if (!isAbort(error)) this.rise();
          settle(() => reject(asError(error)));
        },
      );
    });
  }

  private async withoutKernel<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal: AbortSignal | undefined,
  ): Promise<Answer<Op>> {
    const reply = await this.fromPage(op, request, signal);
    // The kernel's own error states that it is gone.
    return reply ?? this.kernel.ask(op, request, signal);
  }

  /** The page's reply; null if it holds nothing, or does not support the operation. */
  private async fromPage<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal: AbortSignal | undefined,
  ): Promise<Answer<Op> | null> {
    const page = await this.page();
    if (page === null) return null;
    signal?.throwIfAborted();
    const reply = await page.ask(op, request, signal).catch(unlessUnknown);
    if (reply === null) return null;
    if (this.silent || this.gone) this.become("page");
    return op === "tiles" ? (withOwnKeys(reply) as Answer<Op>) : reply;
  }

  /** The kernel is silent, as one question shows. */
  private fall(probe: { at: number }): void {
    this.silent = true;
    if (this.probe === null || probe.at - this.probe.at >= PROBE_EVERY_MS) this.probe = probe;
  }

  /** The kernel has answered. */
  private rise(): void {
    this.silent = false;
    this.probe = null;
    this.become("kernel");
  }

  /** The kernel's own source has news. */
  private follow(): void {
    // "live" there may mean as well that all questions were abandoned.
    if (this.kernel.status === "live") {
      if (this.probe === null) this.become("kernel");
      return;
    }
    if (this.gone) {
      this.silent = false;
      this.probe = null;
    }
    if (this.current !== "page") this.become(OF_STATUS[this.kernel.status], this.gone);
    // The page continues to reply: the kernel is no longer busy but gone.
    else if (this.gone) this.become("page", true);
    if (this.gone) void this.standIn();
  }

  /** The kernel is gone: if the page holds data, it answers from now on. */
  private async standIn(): Promise<void> {
    if ((await this.page()) !== null && this.gone) this.become("page");
  }

  private become(answering: Answering, anyway = false): void {
    if (answering === this.current && !anyway) return;
    const back = this.current === "page" && answering === "kernel";
    this.current = answering;
    const { status } = this;
    for (const listener of [...this.listeners]) listener(status);
    if (back) for (const listener of [...this.returned]) listener();
  }
}

/** Move the page's keys of names to a range that the kernel does not use. */
function withOwnKeys({ reply, buffer }: Reply): Reply {
  const names: Record<string, unknown> = {};
  for (const [key, name] of Object.entries((reply.names ?? {}) as Record<string, unknown>)) {
    names[Number(key) + PAGE_KEYS] = name;
  }
  const columns = reply.columns as Record<string, [string, number, number]> | undefined;
  const [, offset = 0, length = 0] = columns?.slice_name ?? [];
  if (buffer !== null && length > 0) {
    const keys = new Uint32Array(buffer, offset, length);
    for (let i = 0; i < length; i += 1) keys[i] = keys[i]! + PAGE_KEYS;
  }
  return { reply: { ...reply, names }, buffer };
}

function heard<T>(listeners: Set<T>, listener: T, signal: AbortSignal): void {
  if (signal.aborted) return;
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener), { once: true });
}

function abandoned(): Error {
  return new DOMException("The request was abandoned.", "AbortError");
}

/** A page cannot write files, or draw charts that only Python draws. */
function unlessUnknown(error: unknown): null {
  if (error instanceof Error && error.message.startsWith("unknown op ")) return null;
  throw error;
}

function unlessAborted(error: unknown): null {
  if (isAbort(error)) throw error;
  return null;
}

// Fetches the job's data from the kernel while that lives, so that the page can do without it.

/** Nothing is fetched before this: the page draws first. */
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
  private current = NOTHING;
  private made: Source | null = null;
  private round = new AbortController();
  private readonly listeners = new Set<(progress: Progress) => void>();

  /** `open` makes a source from the data that the kernel sent. */
  constructor(
    private readonly kernel: Source,
    private readonly signal: AbortSignal,
    private readonly open: (held: Blocks) => Promise<Source> = openJob,
  ) {
    signal.addEventListener(
      "abort",
      () => {
        this.round.abort();
        this.listeners.clear();
      },
      { once: true },
    );
  }

  get progress(): Progress {
    return this.current;
  }

  /** Source over the data fetched so far; null if there is none. */
  page = (): Promise<Source | null> => Promise.resolve(this.made);

  onProgress(listener: (progress: Progress) => void, signal: AbortSignal): void {
    this.listeners.add(listener);
    signal.addEventListener("abort", () => this.listeners.delete(listener), { once: true });
  }

  /** Fetch when the page is idle; start again if the job changes. */
  start(): void {
    this.round.abort();
    if (this.signal.aborted) return;
    this.round = new AbortController();
    this.made = null;
    this.tell(NOTHING);
    const { signal } = this.round;
    this.fetch(signal).catch((error: unknown) => {
      if (signal.aborted) return;
      const message = error instanceof Error ? error.message : String(error);
      this.tell({ ...this.current, state: "failed", message });
    });
  }

  private async fetch(signal: AbortSignal): Promise<void> {
    if (!canGunzip()) throw new Error("This browser cannot unpack data: no DecompressionStream.");
    await sleep(REST_MS, signal);
    await idle(signal);
    const said = await this.readiness(signal);
    const { bytes = 0, chunks = 0, blocks = {} } = said;
    const content = new Uint8Array(bytes);
    let at = 0;
    for (let chunk = 0; chunk < chunks; chunk += 1) {
      this.tell({ state: "fetching", bytes: at, of: bytes, message: "" });
      const { buffer } = await this.ask({ chunk }, signal);
      const part = new Uint8Array(buffer ?? new ArrayBuffer(0));
      content.set(part, at);
      at += part.length;
      await idle(signal);
    }
    if (at !== bytes) throw new Error(`The kernel sent ${at} bytes of ${bytes}.`);
    const made = await this.open(heldIn(content, blocks));
    signal.throwIfAborted();
    this.made = made;
    this.tell({ state: "ready", bytes, of: bytes, message: "" });
  }

  /** The kernel's reply once it is done. */
  private async readiness(signal: AbortSignal): Promise<Said> {
    for (let wait = LOOK_MS; ; wait = Math.min(wait * 1.5, MOST_LOOK_MS)) {
      const said = (await this.ask({}, signal)).reply as unknown as Said;
      if (said.state === "failed") throw new Error(said.message ?? "The kernel gave no reason.");
      if (said.state === "ready") return said;
      this.tell({ state: "preparing", bytes: 0, of: 0, message: "" });
      await sleep(wait, signal);
    }
  }

  private ask(request: Record<string, unknown>, signal: AbortSignal): Promise<Reply> {
    return askAgain("offline", () => this.kernel.ask("offline", request, signal), signal);
  }

  private tell(progress: Progress): void {
    this.current = progress;
    for (const listener of [...this.listeners]) listener(progress);
  }
}

/** Source of a live view: the kernel, with the page's own copy as a fallback. */
export interface LiveSource {
  source: HybridSource;
  offline: OfflineData;
}

/** The fetching begins with `offline.start()`. */
export function liveSource(
  model: MessageModel,
  signal: AbortSignal,
  open: (held: Blocks) => Promise<Source> = openJob,
): LiveSource {
  const kernel = new KernelSource(model, signal);
  const offline = new OfflineData(kernel, signal, open);
  return { source: new HybridSource(kernel, offline.page, signal, kernel.words), offline };
}

async function openJob(held: Blocks): Promise<Source> {
  const text = new TextDecoder().decode(await readBlock(held, "document"));
  return new PageSource(JSON.parse(text) as PageDocument, held, download);
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

/**
 * A source that sends identical requests for the same window once. The stage and the toolbar both
 * need the shares of the view; the first caller starts the request.
 */
export class ObservedSource implements Source {
  private readonly memo = new Lru<string, Promise<Answer<"stats">>>(KEPT);
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

  /** Receive every reply, also to other callers. */
  onReply(listener: (op: string, request: Record<string, unknown>, reply: Reply) => void): void {
    this.watchers.push(listener);
  }

  /** Hear every failure that is not an abort. */
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
    // Shared by several callers: no one of them may abort it for the others.
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

/**
 * Max time that the kernel may spend on one reply, and the max size of that reply. The remainder is
 * requested next, unless the view has moved by then.
 */
export const WITHIN_MS = 30;
