import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RequestError } from "../protocol/source";
import { askWithRetries, RETRY_DELAYS_MS } from "./kernel";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const stopped = (): Promise<never> =>
  Promise.reject(new RequestError({ code: "interrupted", message: "stopped" }));

test("an interrupted request is repeated, with a growing pause, until it succeeds", async () => {
  const ask = vi.fn<() => Promise<string>>(stopped);
  const answer = askWithRetries("stats", ask);
  expect(ask).toHaveBeenCalledTimes(1);
  const [first, second] = RETRY_DELAYS_MS as unknown as [number, number];
  const asked = async (after: number): Promise<number> => {
    await vi.advanceTimersByTimeAsync(after);
    return ask.mock.calls.length;
  };
  expect([await asked(first - 1), await asked(1)]).toEqual([1, 2]);
  ask.mockResolvedValue("here");
  expect(await asked(first)).toBe(2);
  await vi.advanceTimersByTimeAsync(second - first);
  expect(await answer).toBe("here");
  expect(ask).toHaveBeenCalledTimes(3);
});

test("a request that is interrupted every time fails", async () => {
  const ask = vi.fn(stopped);
  const rejection = expect(askWithRetries("stats", ask)).rejects.toThrow("stopped");
  await vi.runAllTimersAsync();
  await rejection;
  expect(ask).toHaveBeenCalledTimes(RETRY_DELAYS_MS.length + 1);
});

test("any other failure is reported immediately", async () => {
  const ask = vi.fn(() => Promise.reject(new Error("interrupted")));
  await expect(askWithRetries("stats", ask)).rejects.toThrow("interrupted");
  expect(ask).toHaveBeenCalledTimes(1);
});

test("an aborted request is not repeated", async () => {
  const ask = vi.fn(stopped);
  const end = new AbortController();
  const rejection = expect(askWithRetries("stats", ask, end.signal)).rejects.toThrow("abandoned");
  await vi.advanceTimersByTimeAsync(0);
  end.abort();
  await rejection;
  await vi.runAllTimersAsync();
  expect(ask).toHaveBeenCalledTimes(1);
});
