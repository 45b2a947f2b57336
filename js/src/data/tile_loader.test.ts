import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { fakeJob } from "../../dev/fake_job";
import { FakeSource } from "../../dev/fake_source";
import { IDLE_MS, RETRY_MS, TileLoader } from "./tile_loader";
import type { Sight } from "./tile_plan";
import { TileStore } from "./tile_store";

const job = fakeJob(2, 1, 0.05);
let source: FakeSource;
let store: TileStore;
let loader: TileLoader;
let told: number;

const sight = (start: number, span: number): Sight => ({
  view: [start, start + span],
  resolution: span / 800,
  lanes: [0, 1],
  nearby: [2],
  range: job.scene.range,
});
const levels = () => source.asked.map(({ request }) => request.level as number);
const settle = () => vi.advanceTimersByTimeAsync(0);

beforeEach(() => {
  vi.useFakeTimers();
  source = new FakeSource(job);
  store = new TileStore(job.scene.lanes);
  told = 0;
  loader = new TileLoader(source, store, () => (told += 1));
});
afterEach(() => {
  loader.destroy();
  vi.useRealTimers();
});

test("asks at once for what is in sight, and says when it is there", async () => {
  loader.show(sight(0, 1e8));
  expect(source.asked).toHaveLength(1);
  expect(loader.pending).toBe(true);
  await settle();
  expect(loader.pending).toBe(false);
  expect(told).toBe(1);
});

test("while one request is out no other goes; then the newest view's", async () => {
  source.held = [];
  loader.show(sight(0, 1e8));
  loader.show(sight(0, 1e6));
  loader.show(sight(0, 1e4));
  expect(levels()).toEqual([16]);
  source.release();
  await settle();
  expect(levels().slice(0, 2)).toEqual([16, 3]);
});

test("asks ahead only when things rest, and not of a busy kernel", async () => {
  loader.show(sight(5e7, 1e7));
  await settle();
  expect(source.asked).toHaveLength(1);
  source.status = "busy";
  await vi.advanceTimersByTimeAsync(10 * IDLE_MS);
  expect(source.asked).toHaveLength(1);
  source.status = "live";
  loader.show(sight(5e7, 1e7));
  await vi.advanceTimersByTimeAsync(IDLE_MS);
  expect(source.asked.length).toBeGreaterThan(1);
});

test("comes to rest when everything is there", async () => {
  loader.show(sight(5e7, 1e7));
  await vi.advanceTimersByTimeAsync(100 * IDLE_MS);
  const asked = source.asked.length;
  await vi.advanceTimersByTimeAsync(100 * IDLE_MS);
  expect(source.asked).toHaveLength(asked);
});

test("after a failure it waits, tries once more, then waits for another view", async () => {
  const ask = vi.spyOn(source, "ask").mockRejectedValue(new Error("out of memory"));
  loader.show(sight(0, 1e8));
  await settle();
  expect(loader.error?.message).toBe("out of memory");
  for (let i = 0; i < 20; i += 1) loader.show(sight(i, 1e8));
  expect(ask).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(RETRY_MS);
  expect(ask).toHaveBeenCalledTimes(2);
  ask.mockRestore();
  await vi.advanceTimersByTimeAsync(RETRY_MS);
  loader.show(sight(0, 1e8));
  await settle();
  expect(loader.error).toBeNull();
  expect(loader.pending).toBe(false);
});

test("destroyed, it takes no answer and asks nothing", async () => {
  source.held = [];
  loader.show(sight(0, 1e8));
  loader.destroy();
  source.release();
  await vi.advanceTimersByTimeAsync(1000);
  expect(told).toBe(0);
  expect(source.asked).toHaveLength(1);
  expect(store.size).toBe(0);
});
