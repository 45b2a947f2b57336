import { effect, signal } from "@preact/signals";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { LocalSource } from "../engine/source";
import { type ErrorReply, RequestError, type Source } from "../protocol/source";
import { HybridSource } from "./answering";
import { RETRY_DELAYS_MS } from "./kernel";

interface Question {
  op: string;
  signal: AbortSignal | undefined;
  answer(reply?: Record<string, unknown>): void;
  fail(message: string, code?: ErrorReply["code"]): void;
}

/** A source whose replies the test resolves by hand. */
class Kernel implements Source {
  readonly now = signal<Source["status"]>("live");
  readonly asked: Question[] = [];
  readonly checkAlive = vi.fn();

  get status(): Source["status"] {
    return this.now.value;
  }
  ask(op: string, _request: Record<string, unknown>, signal?: AbortSignal): Promise<never> {
    if (this.status === "none") return Promise.reject(new Error("gone"));
    return new Promise((resolve, reject) => {
      const answer = (reply = {}): void => resolve({ reply, buffer: null } as never);
      const fail: Question["fail"] = (message, code = "no_answer") =>
        reject(new RequestError({ code, message }));
      signal?.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
      this.asked.push({ op, signal, answer, fail });
    });
  }
}

let kernel: Kernel;
let page: { ask: ReturnType<typeof vi.fn>; isComplete: boolean } & LocalSource;
let source: HybridSource;

beforeEach(() => {
  kernel = new Kernel();
  page = {
    status: "none",
    isComplete: true,
    canAnswer: (op: string) => page.isComplete && op === "stats",
    ask: vi.fn((op: string) =>
      Promise.resolve({ reply: { from: "page", op }, buffer: null } as never),
    ),
  };
  source = new HybridSource(kernel);
});
afterEach(() => {
  vi.useRealTimers();
});

const FROM_PAGE = { from: "page", op: "stats" };

describe("without data in the page", () => {
  test("the kernel answers, however late", async () => {
    const asked = source.ask("stats", {} as never);
    kernel.now.value = "busy";
    expect([source.pageExtent, source.status]).toEqual(["nothing", "busy"]);
    kernel.asked[0]!.answer({ from: "kernel" });
    expect((await asked).reply).toEqual({ from: "kernel" });
  });

  test("interrupted requests are sent again, except those that write", async () => {
    vi.useFakeTimers();
    const asked = source.ask("table", {} as never);
    const written = expect(source.ask("export_pair", {} as never)).rejects.toThrow("stopped");
    for (const question of kernel.asked) question.fail("stopped", "interrupted");
    await written;
    await vi.advanceTimersByTimeAsync(RETRY_DELAYS_MS[0]!);
    expect(kernel.asked.map(({ op }) => op)).toEqual(["table", "export_pair", "table"]);
    kernel.asked[2]!.answer({ from: "kernel" });
    expect((await asked).reply).toEqual({ from: "kernel" });
  });

  test("a kernel that is gone is named in the error", async () => {
    kernel.now.value = "none";
    await expect(source.ask("stats", {} as never)).rejects.toThrow("gone");
    expect(source.status).toBe("none");
  });
});

describe("a page that holds all of the job", () => {
  beforeEach(() => (source.page.value = page));

  test("answers alone", async () => {
    expect((await source.ask("stats", {} as never)).reply).toEqual(FROM_PAGE);
    expect(kernel.asked).toEqual([]);
    expect(source.pageExtent).toBe("all");
  });

  test("leaves files to the kernel, even if that takes long", async () => {
    const asked = source.ask("export", {} as never);
    await Promise.resolve();
    kernel.asked[0]!.answer({ path: "x" });
    expect((await asked).reply).toEqual({ path: "x" });
    expect(page.ask).not.toHaveBeenCalled();
  });

  test("leaves to the kernel what it cannot answer", async () => {
    page.ask.mockRejectedValue(new Error("no panel of this name"));
    const asked = source.ask("stats", {} as never);
    await vi.waitFor(() => expect(kernel.asked).toHaveLength(1));
    kernel.asked[0]!.fail("no event 7");
    await expect(asked).rejects.toThrow("no event 7");
  });

  test.each([
    ["has all panels", { panels: {} }, 1],
    ["cannot compute it either", { panels: {}, errors: { queue: { code: "no_answer" } } }, 0],
  ])("leaves a request of which a panel failed to the kernel, which %s", async (_, reply, logs) => {
    page.canAnswer = () => true;
    page.ask.mockResolvedValue({
      reply: { panels: {}, errors: { queue: { code: "no_answer", message: "fault" } } },
      buffer: null,
    });
    const asked = source.ask("panels", {} as never);
    await vi.waitFor(() => expect(kernel.asked).toHaveLength(1));
    kernel.asked[0]!.answer(reply);
    expect((await asked).reply).toEqual(reply);
    const logged = vi.mocked(console.error);
    expect(logged).toHaveBeenCalledTimes(logs);
    logged.mockClear();
  });

  test("logs once for each operation that only the kernel could answer", async () => {
    page.ask.mockRejectedValue(new Error("a fault of the engine"));
    for (const at of [0, 1]) {
      const asked = source.ask("stats", {} as never);
      await vi.waitFor(() => expect(kernel.asked).toHaveLength(at + 1));
      kernel.asked[at]!.answer({ from: "kernel" });
      expect((await asked).reply).toEqual({ from: "kernel" });
    }
    const logged = vi.mocked(console.error);
    expect(logged).toHaveBeenCalledExactlyOnceWith(
      "The page could not answer stats; the kernel answered instead.",
      new Error("a fault of the engine"),
    );
    logged.mockClear();
  });

  test("no longer answers when the job changes", async () => {
    source.page.value = null;
    const asked = source.ask("stats", {} as never);
    kernel.asked[0]!.answer({ from: "kernel" });
    expect((await asked).reply).toEqual({ from: "kernel" });
  });

  test("answers what a kernel that is gone would have written", async () => {
    kernel.now.value = "none";
    expect((await source.ask("export", {} as never)).reply).toEqual({ from: "page", op: "export" });
  });

  test("notices a kernel that ended unasked", async () => {
    await source.ask("stats", {} as never);
    expect(kernel.checkAlive).toHaveBeenCalled();
  });
});

describe("a page that holds a part of the job", () => {
  beforeEach(() => {
    page.isComplete = false;
    source.page.value = page;
  });

  test("leaves all to the kernel", async () => {
    const asked = source.ask("stats", {} as never);
    kernel.asked[0]!.answer({ from: "kernel" });
    expect((await asked).reply).toEqual({ from: "kernel" });
    expect([source.pageExtent, page.ask.mock.calls]).toEqual(["part", []]);
  });

  test("answers for a kernel that ends meanwhile", async () => {
    const asked = source.ask("stats", {} as never);
    kernel.now.value = "none";
    kernel.asked[0]!.fail("gone");
    expect((await asked).reply).toEqual(FROM_PAGE);
  });

  test("names the kernel where only that could answer", async () => {
    page.ask.mockRejectedValue(new RequestError({ code: "unknown_op", message: "" }));
    kernel.now.value = "none";
    await expect(source.ask("save_html", {} as never)).rejects.toThrow("gone");
  });
});

test("views receive the kernel's state and the page's data", () => {
  const heard: string[] = [];
  const end = effect(() => void heard.push(`${source.status} ${source.pageExtent}`));
  kernel.now.value = "busy";
  source.page.value = page;
  kernel.now.value = "none";
  expect(heard).toEqual(["live nothing", "busy nothing", "busy all", "none all"]);
  end();
});

test("abandoning withdraws the request from the kernel", async () => {
  const aborter = new AbortController();
  const asked = source.ask("find", {} as never, aborter.signal);
  aborter.abort();
  await expect(asked).rejects.toMatchObject({ name: "AbortError" });
  expect(kernel.asked[0]!.signal?.aborted).toBe(true);
  await expect(source.ask("find", {} as never, aborter.signal)).rejects.toMatchObject({
    name: "AbortError",
  });
  expect(kernel.asked).toHaveLength(1);
});
