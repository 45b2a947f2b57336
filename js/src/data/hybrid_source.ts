/** Asks the kernel, and the page's own data where the kernel is silent or gone. */

import { asError, isAbort } from "../contract";
import type { Reply, Source } from "../contract";
import { askAgain } from "./again";

/** For a kernel that has not answered for this long, the page answers. */
export const SILENT_AFTER_MS = 400;
/** A silent kernel is asked again after this long: its answer to the last question may be lost. */
export const PROBE_EVERY_MS = 3000;

/** Who answers: the kernel; the page; nobody, because the kernel is busy and the page lacks data. */
export type Answering = "kernel" | "page" | "busy";

/** What only a kernel does; twice would be once too often. */
const KERNEL_ONLY = new Set(["export", "offline"]);
/** Kernel and page number names each in their own way, and one store of tiles takes both. */
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

  /** As sources say it: "none" where the page answers. */
  get status(): Status {
    return this.gone ? "none" : AS_STATUS[this.current];
  }

  get answering(): Answering {
    return this.current;
  }

  /** There is no kernel any more. */
  get gone(): boolean {
    return this.kernel.status === "none";
  }

  onStatus(listener: (status: Status) => void, signal: AbortSignal): void {
    heard(this.listeners, listener, signal);
  }

  /** The kernel answers again, after the page did: what a page lacks may be asked anew. */
  onReturn(listener: () => void, signal: AbortSignal): void {
    heard(this.returned, listener, signal);
  }

  ask(op: string, request: Record<string, unknown>, signal?: AbortSignal): Promise<Reply> {
    return askAgain(op, () => this.once(op, request, signal), signal);
  }

  private async once(
    op: string,
    request: Record<string, unknown>,
    signal: AbortSignal | undefined,
  ): Promise<Reply> {
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

  /** Ask the kernel, and after a while the page as well: who answers first has answered. */
  private race(
    op: string,
    request: Record<string, unknown>,
    signal: AbortSignal | undefined,
    patience: number,
  ): Promise<Reply> {
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
          // What the page cannot answer, the kernel will.
          () => undefined,
        );
      };
      const timer = setTimeout(late, patience);
      settled.signal.addEventListener("abort", () => clearTimeout(timer));
      signal?.addEventListener(
        "abort",
        () =>
          settle(() => {
            // The one question that a silent kernel is left with stays.
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

  private async withoutKernel(
    op: string,
    request: Record<string, unknown>,
    signal: AbortSignal | undefined,
  ): Promise<Reply> {
    const reply = await this.fromPage(op, request, signal);
    // The kernel says best that it is gone.
    return reply ?? this.kernel.ask(op, request, signal);
  }

  /** The page's answer; null where it holds nothing, or knows no such question. */
  private async fromPage(
    op: string,
    request: Record<string, unknown>,
    signal: AbortSignal | undefined,
  ): Promise<Reply | null> {
    const page = await this.page();
    if (page === null) return null;
    signal?.throwIfAborted();
    const reply = await page.ask(op, request, signal).catch(unlessUnknown);
    if (reply === null) return null;
    if (this.silent || this.gone) this.become("page");
    return op === "tiles" ? withOwnKeys(reply) : reply;
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
    // The page goes on answering: not for a busy kernel now, but for none.
    else if (this.gone) this.become("page", true);
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

/** The page's keys of names, where no key of the kernel's can be. */
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

/** A page does not write files, nor does it draw what only Python draws. */
function unlessUnknown(error: unknown): null {
  if (error instanceof Error && error.message.startsWith("unknown op ")) return null;
  throw error;
}

function unlessAborted(error: unknown): null {
  if (isAbort(error)) throw error;
  return null;
}
