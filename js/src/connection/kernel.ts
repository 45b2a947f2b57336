/** Send requests to the kernel as custom messages of the widget. */

import { signal } from "@preact/signals";
import {
  type Answer,
  type ErrorReply,
  hasErrorCode,
  type Reply,
  RequestError,
  type Source,
  WRITE_OPERATIONS,
} from "../protocol/source";

type MessageListener = (content: unknown, buffers: DataView[]) => void;

/** The members of an anywidget model that this module uses. */
export interface MessageModel {
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[]): void;
  on(event: string, listener: MessageListener): void;
  off(event: string, listener: MessageListener): void;
  /** The notebook's widget manager, which may expose the kernel. */
  readonly widget_manager?: unknown;
}

/**
 * Events that a model emits when its kernel restarts or the connection closes. Shutting down a
 * kernel causes no event, but sending then fails.
 */
const END_EVENTS = ["comm_live_update", "comm:close"] as const;

/** A kernel that has not answered for this long is shown as busy. */
export const BUSY_AFTER_MS = 700;
/** Interval at which a busy kernel is checked for a shutdown. */
const CHECK_INTERVAL_MS = 1000;

type Status = Source["status"];

/** Make a token that is unique, because views of one model receive each other's replies. */
function makeViewToken(): string {
  const randoms = new Uint32Array(2);
  // Unlike randomUUID, getRandomValues is available over plain HTTP.
  globalThis.crypto.getRandomValues(randoms);
  return Array.from(randoms, (random) => random.toString(36)).join("");
}

export function abortError(): Error {
  return new DOMException("The request was abandoned.", "AbortError");
}

/** The name of the program that replies, in user texts, and how to start it again. */
export interface HostTerms {
  /** Subject of a sentence, capitalized. */
  who: string;
  badge: string;
  /** Completes the sentence "detail follows when …". */
  free: string;
  again: string;
}

export const NOTEBOOK_TERMS: HostTerms = {
  who: "The kernel",
  badge: "Kernel",
  free: "the cell ends",
  again: "Run its cell again.",
};

function termsOf(manager: unknown): HostTerms {
  if (manager === null || typeof manager !== "object" || !("words" in manager))
    return NOTEBOOK_TERMS;
  return { ...NOTEBOOK_TERMS, ...(manager.words as Partial<HostTerms> | null) };
}

/** Return the bytes of a view, excluding the rest of a larger buffer. */
function bytesOf(view: DataView | undefined): ArrayBuffer | null {
  if (view === undefined) return null;
  const { buffer, byteOffset, byteLength } = view;
  if (byteOffset === 0 && byteLength === buffer.byteLength) return buffer as ArrayBuffer;
  return buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
}

const UNKNOWN_ERROR: ErrorReply = { code: "no_answer", message: "The kernel gave no reason." };

export class KernelSource implements Source {
  private readonly token = makeViewToken();
  private readonly pending = new Map<
    string,
    { path: string | null; resolve(reply: Reply): void; reject(error: Error): void }
  >();
  private requestCount = 0;
  /** The file that the kernel refused to overwrite. Repeating the request overwrites it. */
  private refusedPath: string | null = null;
  private readonly statusSignal = signal<Status>("live");
  private busyTimer: ReturnType<typeof setTimeout> | undefined;
  private readonly hasEnded: () => boolean;
  readonly terms: HostTerms;

  constructor(
    private readonly model: MessageModel,
    private readonly signal: AbortSignal,
  ) {
    const onMessage = (content: unknown, buffers: DataView[]) => this.onMessage(content, buffers);
    const failAll = (): void => this.failAll();
    this.hasEnded = makeEndCheck(model.widget_manager);
    this.terms = termsOf(model.widget_manager);
    model.on("msg:custom", onMessage);
    for (const endEvent of END_EVENTS) model.on(endEvent, failAll);
    signal.addEventListener(
      "abort",
      () => {
        model.off("msg:custom", onMessage);
        for (const endEvent of END_EVENTS) model.off(endEvent, failAll);
        clearTimeout(this.busyTimer);
        for (const { reject } of this.pending.values()) reject(abortError());
        this.pending.clear();
      },
      { once: true },
    );
  }

  get status(): Status {
    return this.statusSignal.value;
  }

  readonly ask: Source["ask"] = (op, request, signal) => {
    if (this.signal.aborted || signal?.aborted) return Promise.reject(abortError());
    const path = "path" in request ? request.path : null;
    const isOverwrite = path !== null && path === this.refusedPath;
    if (path !== null) this.refusedPath = null;
    this.requestCount += 1;
    const rpc = `${this.token}.${this.requestCount}`;
    const answer = new Promise<Reply>((resolve, reject) => {
      this.pending.set(rpc, { path, resolve, reject });
    });
    const onAbort = (): void => {
      this.pending.get(rpc)?.reject(abortError());
      this.pending.delete(rpc);
      this.restartTimer();
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    const ignoreAbort = (): void => signal?.removeEventListener("abort", onAbort);
    void answer.then(ignoreAbort, ignoreAbort);
    this.send({ ...request, ...(isOverwrite && { overwrite: true }), rpc, op });
    return answer as Promise<Answer<typeof op>>;
  };

  private send(message: { op: string; rpc: string }): void {
    try {
      this.model.send(message);
    } catch {
      this.failAll();
      return;
    }
    // The request is sent anyway, because a reply would show that the kernel is alive.
    if (this.statusSignal.peek() === "none") this.failAll();
    else if (this.busyTimer === undefined) this.restartTimer();
  }

  /** Check whether the kernel has ended, even if no request is pending. */
  checkAlive(): void {
    if (this.statusSignal.peek() !== "none" && this.hasEnded()) this.failAll();
  }

  /** Reject all pending requests, because the kernel has ended. */
  private failAll(): void {
    clearTimeout(this.busyTimer);
    this.busyTimer = undefined;
    // The status is set first, because failure handlers may read it.
    this.statusSignal.value = "none";
    const { pending } = this;
    const failed = [...pending.values()];
    pending.clear();
    const { who, again } = this.terms;
    const message = `${who} that made this view is gone.`;
    for (const { reject } of failed)
      reject(new RequestError({ code: "connection_lost", message, remedy: again }));
  }

  private onMessage(content: unknown, buffers: DataView[]): void {
    if (content === null || typeof content !== "object" || !("rpc" in content)) return;
    const { rpc, ok, reply, error } = content as {
      rpc: string;
      ok: boolean;
      reply?: Record<string, unknown>;
      error?: ErrorReply;
    };
    // A reply to another view also shows that the kernel is responsive.
    this.statusSignal.value = "live";
    const request = this.pending.get(rpc);
    this.pending.delete(rpc);
    this.restartTimer();
    if (request === undefined) return;
    if (ok) {
      request.resolve({ reply: reply ?? {}, buffer: bytesOf(buffers[0]) });
      return;
    }
    const requestError = new RequestError(error ?? UNKNOWN_ERROR);
    if (hasErrorCode(requestError, "file_exists")) this.refusedPath = request.path;
    request.reject(requestError);
  }

  private restartTimer(): void {
    clearTimeout(this.busyTimer);
    this.busyTimer = undefined;
    if (this.pending.size === 0) {
      // Without pending requests, the kernel counts as live unless it has ended.
      if (this.statusSignal.peek() !== "none") this.statusSignal.value = "live";
      return;
    }
    this.busyTimer = setTimeout(() => this.onSilence(), BUSY_AFTER_MS);
  }

  /** Handle missing replies, which indicate that the kernel is busy or has ended. */
  private onSilence(): void {
    if (this.hasEnded()) {
      this.failAll();
      return;
    }
    this.statusSignal.value = "busy";
    this.busyTimer = setTimeout(() => this.onSilence(), CHECK_INTERVAL_MS);
  }
}

// Ask the notebook whether its kernel has ended, because a kernel sends nothing on shutdown.

const ENDED_STATES = new Set<unknown>(["dead", "terminating"]);

/** Return a check for whether the kernel has ended. It is always false if this is unknown. */
function makeEndCheck(manager: unknown): () => boolean {
  const kernel = kernelOf(manager);
  if (kernel === null) return () => false;
  return () =>
    ENDED_STATES.has(kernel.status) || kernel.isDisposed === true || kernelOf(manager) === null;
}

/** Return the kernel, which only the widget manager of JupyterLab exposes. */
function kernelOf(manager: unknown): { status?: unknown; isDisposed?: unknown } | null {
  if (manager === null || typeof manager !== "object" || !("kernel" in manager)) return null;
  const { kernel } = manager;
  return typeof kernel === "object" ? kernel : null;
}

// Retry requests, because interrupting a cell also interrupts the kernel's current request.

/** Pause before each retry. If the last retry is interrupted, the request fails. */
export const RETRY_DELAYS_MS: readonly number[] = [300, 600, 1200, 2400, 4800];

/** Return the reply, retrying if the kernel was interrupted. Writes are not retried. */
export async function askWithRetries<T>(
  op: string,
  ask: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  if (WRITE_OPERATIONS.has(op)) return ask();
  for (const delayMs of RETRY_DELAYS_MS) {
    try {
      return await ask();
    } catch (error) {
      if (!hasErrorCode(error, "interrupted")) throw error;
    }
    await sleep(delayMs, signal);
  }
  return ask();
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(abortError());
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    if (signal?.aborted) onAbort();
    else signal?.addEventListener("abort", onAbort, { once: true });
  });
}
