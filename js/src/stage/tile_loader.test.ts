import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { recordedJob, recordedScene } from "../../test/recorded";
import { Watched } from "../../test/watched";
import { tilesReply } from "../engine/tiles";
import { decodeTiles } from "../protocol/decode";
import type { Requests, Source } from "../protocol/source";
import { IDLE_MS, RETRY_MS, TileLoader } from "./tile_loader";
import { planVisible, type TileViewport, type TileBlock, TileStore } from "./tile_store";

const scene = recordedScene();
/** A source that replies immediately, independent of fake timers. */
const tiles = {
  ask: (_op: string, request: Requests["tiles"]) => tilesReply(recordedJob, request),
} as Source;
let source: Watched;
let store: TileStore;
let loader: TileLoader;
let told: number;
/** The last viewport shown. */
let seen: TileViewport;

const sight = (start: number, span: number): TileViewport => ({
  view: [start, start + span],
  nsPerPx: span / 800,
  lanes: [0, 1],
  nearbyLanes: [2],
  range: scene.range,
});
/** Return whether tiles are still missing in the viewport. */
const pending = () => planVisible(store, seen) !== null;
const levels = () => source.asked.map(({ request }) => request.level as number);
const zipped = (buffer: ArrayBuffer) => new Uint8Array(gzipSync(buffer)).buffer;
const settle = () => vi.advanceTimersByTimeAsync(0);
function show(now: TileViewport): void {
  seen = now;
  loader.show(now);
}
/** Show a viewport and wait for the first requests. */
async function shown(...of: Parameters<typeof sight>): Promise<void> {
  show(sight(...of));
  await settle();
}

beforeEach(() => {
  vi.useFakeTimers();
  source = new Watched(tiles);
  store = new TileStore(scene.lanes);
  told = 0;
  loader = new TileLoader(source, store, () => (told += 1));
});
afterEach(() => {
  loader.destroy();
  vi.useRealTimers();
});

test("requests the visible tiles immediately, and reports when they are there", async () => {
  show(sight(0, 5e7));
  expect(source.asked).toHaveLength(1);
  expect(pending()).toBe(true);
  await settle();
  expect(pending()).toBe(false);
  expect(told).toBe(1);
});

test("while a request is pending, no other is sent; then the newest view's is", async () => {
  source.held = [];
  show(sight(0, 5e7));
  show(sight(0, 1e6));
  show(sight(0, 1e4));
  expect(levels()).toEqual([15]);
  source.release();
  await settle();
  expect(levels().slice(0, 2)).toEqual([15, 3]);
});

test("requests the parts that a reply left out, and does not treat them as empty", async () => {
  const askAll = source.ask.bind(source);
  vi.spyOn(source, "ask").mockImplementationOnce(async (_op, request) => {
    const asked = request as Requests["tiles"];
    const [part] = asked.parts;
    const parts = [{ ...part!, lanes: [0] }];
    const { reply, buffer } = await askAll("tiles", { ...asked, parts });
    return { reply: { ...reply, left: [{ ...part!, lanes: [1] }] }, buffer };
  });
  await shown(0, 5e7);
  const parts = source.asked.map(({ request }) => request.parts as { lanes: number[] }[]);
  expect(parts.map(([part]) => part!.lanes)).toEqual([[0], [1]]);
  expect(pending()).toBe(false);
  expect(told).toBe(2);
});

test("decompresses replies", async () => {
  vi.useRealTimers();
  const askPlain = source.ask.bind(source);
  vi.spyOn(source, "ask").mockImplementationOnce(async (op, request) => {
    const { reply, buffer } = await askPlain(op, request);
    return { reply: { ...reply, gzip: true }, buffer: zipped(buffer!) };
  });
  show(sight(0, 5e7));
  await vi.waitFor(() => expect(told).toBe(1));
  const plain = new TileStore(scene.lanes);
  const asked = source.asked[0]!.request as { level: number; parts: TileBlock[] };
  plain.add(asked.parts, decodeTiles(await askPlain("tiles", asked)));
  const [{ first, last }] = asked.parts as [TileBlock];
  for (let index = first; index < last; index += 1) {
    expect(store.get(0, asked.level, index)).toEqual(plain.get(0, asked.level, index));
  }
  expect(store.sizeBytes).toBe(plain.sizeBytes);
  expect(store.sizeBytes).toBeGreaterThan(1000);
});

test("prefetches only while the view rests, not from a busy kernel, and then stops", async () => {
  await shown(2e7, 1e7);
  expect(source.asked).toHaveLength(1);
  source.become("busy");
  await vi.advanceTimersByTimeAsync(10 * IDLE_MS);
  expect(source.asked).toHaveLength(1);
  source.become("live");
  show(sight(2e7, 1e7));
  await vi.advanceTimersByTimeAsync(IDLE_MS);
  expect(source.asked.length).toBeGreaterThan(1);
  await vi.advanceTimersByTimeAsync(100 * IDLE_MS);
  const asked = source.asked.length;
  await vi.advanceTimersByTimeAsync(100 * IDLE_MS);
  expect(source.asked).toHaveLength(asked);
});

test("after a failure it waits, retries, then waits for another view", async () => {
  const ask = vi.spyOn(source, "ask").mockRejectedValue(new Error("out of memory"));
  await shown(0, 5e7);
  expect(told).toBe(1);
  expect(pending()).toBe(true);
  for (let i = 0; i < 20; i += 1) show(sight(i, 5e7));
  expect(ask).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(RETRY_MS);
  expect(ask).toHaveBeenCalledTimes(2);
  ask.mockRestore();
  await vi.advanceTimersByTimeAsync(RETRY_MS);
  await shown(0, 5e7);
  expect(pending()).toBe(false);
});

test("once destroyed, it ignores replies and sends no request", async () => {
  source.held = [];
  show(sight(0, 5e7));
  loader.destroy();
  source.release();
  await vi.advanceTimersByTimeAsync(1000);
  expect(told).toBe(0);
  expect(source.asked).toHaveLength(1);
  expect(store.sizeBytes).toBe(0);
});
