/** Send requests to the kernel over the widget's custom messages. */

import { signal } from "@preact/signals";
import {
  type Answer,
  type Operation,
  type Reply,
  type Requests,
  type Source,
  WRITES,
} from "../protocol/source";

type Hear = (content: unknown, buffers: DataView[]) => void;

/** Members of an anywidget model that are used here. */
export interface MessageModel {
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[]): void;
  on(event: string, listener: Hear): void;
  off(event: string, listener: Hear): void;
  /** The notebook's manager of widgets, which may know its kernel. */
  readonly widget_manager?: unknown;
}

/**
 * Events that models emit when their kernel restarts, or closes the connection. (A kernel that is
 * shut down emits none: sending fails then.)
 */
const ENDINGS = ["comm_live_update", "comm:close"] as const;

/** Time without an answer after which a kernel counts as busy. */
export const BUSY_AFTER_MS = 700;
/** Interval of checks whether a busy kernel was shut down. */
const LOOK_EVERY_MS = 1000;

interface Waiting {
  resolve(reply: Reply): void;
  reject(error: Error): void;
}

type Status = Source["status"];

/** Two views of one model receive each other's replies: tokens must not collide. */
function viewToken(): string {
  const words = new Uint32Array(2);
  // getRandomValues, unlike randomUUID, also exists on plain http.
  globalThis.crypto.getRandomValues(words);
  return Array.from(words, (word) => word.toString(36)).join("");
}

function aborted(): Error {
  return new DOMException("The request was abandoned.", "AbortError");
}

/** The host's terms for the program that replies, and for starting it again. */
export interface HostWords {
  /** The subject of a sentence, capitalised. */
  who: string;
  badge: string;
  /** When it answers again: "detail follows when …". */
  free: string;
  again: string;
}

export const NOTEBOOK: HostWords = {
  who: "The kernel",
  badge: "Kernel",
  free: "the cell ends",
  again: "Run its cell again.",
};

function wordsOf(manager: unknown): HostWords {
  if (manager === null || typeof manager !== "object" || !("words" in manager)) return NOTEBOOK;
  return { ...NOTEBOOK, ...(manager.words as Partial<HostWords> | null) };
}

/** Only the bytes of a view, which may be a part of a larger buffer. */
function bytesOf(view: DataView | undefined): ArrayBuffer | null {
  if (view === undefined) return null;
  const { buffer, byteOffset, byteLength } = view;
  if (byteOffset === 0 && byteLength === buffer.byteLength) return buffer as ArrayBuffer;
  return buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
}

export class KernelSource implements Source {
  private readonly token = viewToken();
  private readonly waiting = new Map<string, Waiting>();
  private asked = 0;
  /** The file that the kernel refused to replace; a repeated request replaces it. */
  private refused: string | null = null;
  private readonly current = signal<Status>("live");
  private busyTimer: ReturnType<typeof setTimeout> | undefined;
  private readonly hasEnded: () => boolean;
  readonly words: HostWords;

  constructor(
    private readonly model: MessageModel,
    private readonly signal: AbortSignal,
  ) {
    const hear = (content: unknown, buffers: DataView[]) => this.hear(content, buffers);
    const end = (): void => this.end();
    this.hasEnded = kernelWatch(model.widget_manager);
    this.words = wordsOf(model.widget_manager);
    model.on("msg:custom", hear);
    for (const ending of ENDINGS) model.on(ending, end);
    signal.addEventListener(
      "abort",
      () => {
        model.off("msg:custom", hear);
        for (const ending of ENDINGS) model.off(ending, end);
        clearTimeout(this.busyTimer);
        for (const { reject } of this.waiting.values()) reject(aborted());
        this.waiting.clear();
      },
      { once: true },
    );
  }

  get status(): Status {
    return this.current.value;
  }

  ask<Op extends Operation>(
    op: Op,
    request: Requests[Op],
    signal?: AbortSignal,
  ): Promise<Answer<Op>> {
    if (this.signal.aborted || signal?.aborted) return Promise.reject(aborted());
    const path = "path" in request ? request.path : null;
    const isAgain = path !== null && path === this.refused;
    if (path !== null) this.refused = null;
    this.asked += 1;
    const rpc = `${this.token}.${this.asked}`;
    return new Promise<Answer<Op>>((resolve, reject) => {
      const abandon = () => {
        this.waiting.delete(rpc);
        this.watch();
        reject(aborted());
      };
      signal?.addEventListener("abort", abandon, { once: true });
      const settle =
        <T>(then: (value: T) => void) =>
        (value: T) => {
          signal?.removeEventListener("abort", abandon);
          then(value);
        };
      const refuse = (error: Error): void => {
        if (error.message.endsWith(EXISTS)) this.refused = path;
        reject(error);
      };
      this.waiting.set(rpc, {
        resolve: settle((reply: Reply) => resolve(reply as Answer<Op>)),
        reject: settle(refuse),
      });
      try {
        this.model.send({ ...request, ...(isAgain && { overwrite: true }), rpc, op });
      } catch {
        this.end();
        return;
      }
      // Send anyway: a reply would show that the kernel is there.
      if (this.current.peek() === "none") this.end();
      else if (this.busyTimer === undefined) this.watch();
    });
  }

  /** Check whether the kernel has ended, while no request runs. */
  look(): void {
    if (this.current.peek() !== "none" && this.hasEnded()) this.end();
  }

  /** Fail all pending requests: the kernel is gone. */
  private end(): void {
    clearTimeout(this.busyTimer);
    this.busyTimer = undefined;
    // Set the status before the failures: their handlers may read it.
    this.current.value = "none";
    const { waiting } = this;
    const lost = [...waiting.values()];
    waiting.clear();
    const { who, again } = this.words;
    for (const { reject } of lost)
      reject(new Error(`${who} that made this view is gone. ${again}`));
  }

  private hear(content: unknown, buffers: DataView[]): void {
    if (content === null || typeof content !== "object" || !("rpc" in content)) return;
    const { rpc, ok, reply, error } = content as {
      rpc: string;
      ok: boolean;
      reply?: Record<string, unknown>;
      error?: { message?: string };
    };
    // A reply to another view also shows that the kernel is free.
    this.current.value = "live";
    const waiting = this.waiting.get(rpc);
    this.waiting.delete(rpc);
    this.watch();
    if (waiting === undefined) return;
    if (ok) waiting.resolve({ reply: reply ?? {}, buffer: bytesOf(buffers[0]) });
    else waiting.reject(new Error(error?.message ?? "The kernel gave no reason."));
  }

  /** Restart the timer while requests are pending; stop it otherwise. */
  private watch(): void {
    clearTimeout(this.busyTimer);
    this.busyTimer = undefined;
    if (this.waiting.size === 0) {
      // Without requests, the state of a kernel is unknown; but a kernel that is gone stays gone.
      if (this.current.peek() !== "none") this.current.value = "live";
      return;
    }
    this.busyTimer = setTimeout(() => this.lookAfter(), BUSY_AFTER_MS);
  }

  /** No reply for a while: the kernel is busy, or gone. */
  private lookAfter(): void {
    if (this.hasEnded()) {
      this.end();
      return;
    }
    this.current.value = "busy";
    this.busyTimer = setTimeout(() => this.lookAfter(), LOOK_EVERY_MS);
  }
}

// Detect through the notebook that its kernel has ended: kernels that are shut down send nothing.

interface KernelLike {
  readonly status?: unknown;
  readonly isDisposed?: unknown;
}

const ENDED = new Set<unknown>(["dead", "terminating"]);

/**
 * Returns a check whether the current kernel has ended; false if the notebook does not expose it.
 */
function kernelWatch(manager: unknown): () => boolean {
  const kernel = kernelOf(manager);
  if (kernel === null) return () => false;
  return () => ENDED.has(kernel.status) || kernel.isDisposed === true || kernelOf(manager) === null;
}

/** JupyterLab's managers of widgets name their kernel; others do not. */
function kernelOf(manager: unknown): KernelLike | null {
  if (manager === null || typeof manager !== "object" || !("kernel" in manager)) return null;
  const { kernel } = manager;
  return typeof kernel === "object" ? kernel : null;
}

// Retries: interrupting a cell also interrupts the request that the kernel is handling.

/** End of the message of `hta_widgets/options.py` about a file that exists. */
const EXISTS = "Write it again to replace it.";

/** Message of `hta_widgets/live/operations.py` for an interrupted request. */
export const INTERRUPTED = "Interrupted.";
/** Pauses before each retry; if the last retry is interrupted, the request fails. */
export const PAUSES_MS: readonly number[] = [300, 600, 1200, 2400, 4800];

/** The reply, after as many retries as needed; any other failure is reported immediately. */
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
