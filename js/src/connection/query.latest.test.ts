import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Source } from "../protocol/source";
import { ThrottledQuery } from "./query";

class Slow implements Source {
  readonly status = "live";
  readonly asked: {
    request: Record<string, unknown>;
    answer(value: number): void;
    fail(): void;
  }[] = [];

  ask(_op: string, request: Record<string, unknown>, signal?: AbortSignal): Promise<never> {
    return new Promise((resolve, reject) => {
      signal?.addEventListener("abort", () => reject(new Error("aborted")));
      this.asked.push({
        request,
        answer: (value) => resolve({ reply: { value }, buffer: null } as never),
        fail: () => reject(new Error("no")),
      });
    });
  }
}

let source: Slow;
let values: (number | null)[];
let latest: ThrottledQuery<"headline", number>;

beforeEach(() => {
  vi.useFakeTimers();
  source = new Slow();
  values = [];
  latest = new ThrottledQuery(
    source,
    "headline",
    100,
    ({ reply }) => reply.value as number,
    (value) => values.push(value),
  );
});
afterEach(() => {
  latest.destroy();
  vi.useRealTimers();
});

const settle = () => vi.advanceTimersByTimeAsync(0);
/** Make a request, and let it be sent if it is due. */
function ask(request: object): void {
  latest.ask(request);
  vi.advanceTimersByTime(100);
}
/** Answer the last request, or make it fail if there is no value. */
async function answer(value: number | null): Promise<void> {
  const last = source.asked.at(-1)!;
  if (value === null) last.fail();
  else last.answer(value);
  await settle();
}

test("sends one request when changes stop, and only the last one", () => {
  for (let start = 0; start < 5; start += 1) latest.ask({ start } as never);
  expect(source.asked).toHaveLength(0);
  vi.advanceTimersByTime(100);
  expect(source.asked.map(({ request }) => request)).toEqual([{ start: 4 }]);
});

test("keeps sending while the view moves", () => {
  for (let i = 0; i < 30; i += 1) {
    latest.ask({ start: i } as never);
    vi.advanceTimersByTime(10);
    source.asked.at(-1)?.answer(i);
  }
  expect(source.asked.length).toBeGreaterThanOrEqual(1);
});

test("one request at a time; the newest follows", async () => {
  ask({ start: 1 });
  latest.ask({ start: 2 } as never);
  ask({ start: 3 });
  expect(source.asked).toHaveLength(1);
  await answer(10);
  expect(values).toEqual([10]);
  expect(source.asked[1]!.request).toEqual({ start: 3 });
  await answer(30);
  expect(latest.value).toBe(30);
});

test("the same request is not sent twice", async () => {
  ask({ start: 1 });
  await answer(1);
  latest.ask({ start: 1 } as never);
  vi.advanceTimersByTime(1000);
  expect(source.asked).toHaveLength(1);
});

test("a failure keeps the last reply, and the next request is sent", async () => {
  ask({ start: 1 });
  await answer(1);
  ask({ start: 2 });
  await answer(null);
  expect(latest.value).toBe(1);
  ask({ start: 3 });
  expect(source.asked[2]!.request).toEqual({ start: 3 });
});

test("after clear(), it forgets the answer and ignores a pending one", async () => {
  ask({ start: 1 });
  await answer(1);
  ask({ start: 2 });
  latest.clear();
  await answer(2);
  expect(values).toEqual([1, null]);
  expect(latest.value).toBeNull();
});

test("a failed request is repeated after retry()", async () => {
  ask({ bins: 1 });
  await answer(null);
  ask({ bins: 1 });
  expect(source.asked).toHaveLength(1);
  latest.retry();
  ask({ bins: 1 });
  await answer(7);
  expect(latest.value).toBe(7);
  // A successful request is not repeated.
  latest.retry();
  ask({ bins: 1 });
  expect(source.asked).toHaveLength(2);
});
