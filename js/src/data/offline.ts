/** Fetches the job's data from the kernel while that lives, so that the page can do without it. */

import type { Reply, Source } from "../contract";
import { type Blocks, canGunzip, readBlock } from "../page/bytes";
import type { PageDocument } from "../page/document";
import { download } from "../page/download";
import { PageSource } from "../page/source";
import { askAgain, sleep } from "./again";
import { HybridSource } from "./hybrid_source";
import { KernelSource, type MessageModel } from "./kernel_source";

/** Nothing is fetched before this: the page draws first. */
export const REST_MS = 1000;
/** How long to wait between two looks at whether the kernel is done; longer each time. */
export const LOOK_MS = 400;
export const MOST_LOOK_MS = 3000;

export interface Progress {
  state: "waiting" | "preparing" | "fetching" | "ready" | "failed";
  /** Bytes that have come, and of how many; 0 while that is not known. */
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

  /** `open` makes the source of what the kernel sent. */
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

  /** What the page holds; null as long as that is nothing. */
  page = (): Promise<Source | null> => Promise.resolve(this.made);

  onProgress(listener: (progress: Progress) => void, signal: AbortSignal): void {
    this.listeners.add(listener);
    signal.addEventListener("abort", () => this.listeners.delete(listener), { once: true });
  }

  /** Fetch as soon as there is nothing better to do; anew where the job is another one. */
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

  /** What the kernel says when it is done. */
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

/** The source of a live view: the kernel, and the page's own copy where the kernel is not there. */
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
  return { source: new HybridSource(kernel, offline.page, signal), offline };
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

/** Until the browser has nothing better to do, or a second has passed. */
function idle(signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  // Safari has no such callback.
  if (typeof requestIdleCallback !== "function") return sleep(50, signal);
  return new Promise((resolve) => requestIdleCallback(() => resolve(), { timeout: 1000 }));
}
