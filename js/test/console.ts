/** A logged error fails the test, unless the test expects it and clears the mock. */

import { afterEach, beforeEach, expect, type MockInstance, vi } from "vitest";

let logged: MockInstance<typeof console.error>;

beforeEach(() => void (logged = vi.spyOn(console, "error")));
afterEach(() => {
  const calls = [...logged.mock.calls];
  logged.mockRestore();
  expect(calls, "console.error").toEqual([]);
});
