import { gzipSync } from "node:zlib";
import { type Signal, signal } from "@preact/signals";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { LocalSource } from "../engine/source";
import type { Source } from "../protocol/source";
import { onSignal } from "../ui/react";
import { OfflineData, type Progress } from "./answering";

const DOCUMENT = {
  version: 3,
  scene: { range: [0, 10], kinds: [], ranks: [], lanes: 0 },
  names: [],
  shorts: [],
  short_of: [],
  categories: [],
  ranks: [],
  collectives: { note: "nothing", columns: {} },
  alike: { clusters: [], outliers: [], note: "few" },
};
const CONTENT = new Uint8Array(gzipSync(JSON.stringify(DOCUMENT)));
const CHUNK = 100;
const CHUNKS = Math.ceil(CONTENT.length / CHUNK);

class Kernel implements Source {
  readonly status = "live";
  readonly asked: unknown[] = [];
  looks = 2;
  failure = "";

  async ask(op: string, request: Record<string, unknown>): Promise<never> {
    this.asked.push(request.chunk ?? op);
    const answer = (reply: object, buffer: unknown = null) => ({ reply, buffer }) as never;
    if (request.chunk !== undefined) {
      const from = Number(request.chunk) * CHUNK;
      return answer({}, CONTENT.slice(from, from + CHUNK).buffer);
    }
    this.looks -= 1;
    if (this.looks >= 0) return answer({ state: "preparing" });
    if (this.failure !== "") return answer({ state: "failed", message: this.failure });
    const blocks = { document: [0, CONTENT.length] };
    return answer({ state: "ready", bytes: CONTENT.length, chunks: CHUNKS, blocks });
  }
}

let kernel: Kernel;
let owner: AbortController;
let offline: OfflineData;
let page: Signal<LocalSource | null>;
let told: Progress[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  kernel = new Kernel();
  owner = new AbortController();
  page = signal(null);
  offline = new OfflineData(kernel, page, owner.signal);
  told = [];
  onSignal(offline.progress, (progress) => told.push(progress), owner.signal);
});
afterEach(() => {
  owner.abort();
  vi.useRealTimers();
});

async function settled(): Promise<void> {
  await vi.waitFor(
    async () => {
      await vi.advanceTimersByTimeAsync(1000);
      expect(["ready", "failed"]).toContain(offline.progress.value.state);
    },
    { timeout: 3000, interval: 1 },
  );
}

test("chunks of data from the kernel give the same replies as a page", async () => {
  offline.start();
  expect(page.value).toBeNull();
  await settled();
  expect(offline.progress.value).toMatchObject({ state: "ready", receivedBytes: CONTENT.length });
  expect(kernel.asked).toEqual([...Array(3).fill("offline"), ...Array(CHUNKS).keys()]);
  const bytes = told.map((progress) => progress.receivedBytes);
  expect(bytes).toEqual([...bytes].sort((a, b) => a - b));
  expect((await page.value!.ask("clusters", {})).reply).toEqual(DOCUMENT.alike);
});

test("no request is sent before the page has had time to draw, nor once the view is gone", async () => {
  offline.start();
  await vi.advanceTimersByTimeAsync(900);
  expect(kernel.asked).toEqual([]);
  owner.abort();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(kernel.asked).toEqual([]);
});

test("no data is held if the kernel cannot make any", async () => {
  const message = "the files are gone";
  kernel.failure = message;
  offline.start();
  await settled();
  expect(offline.progress.value).toMatchObject({ state: "failed", message });
  expect(page.value).toBeNull();
});
