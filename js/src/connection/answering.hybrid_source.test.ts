import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Reply, Source } from "../protocol/source";
import { HybridSource, PROBE_EVERY_MS, SILENT_AFTER_MS } from "./answering";
import { INTERRUPTED, PAUSES_MS } from "./kernel";

interface Question {
  op: string;
  signal: AbortSignal | undefined;
  answer(reply?: Record<string, unknown>): void;
  fail(message: string): void;
}

/** Source whose replies the test triggers. */
class Kernel implements Source {
  status: Source["status"] = "live";
  readonly asked: Question[] = [];
  private readonly listeners = new Set<(status: Source["status"]) => void>();

  onStatus(listener: (status: Source["status"]) => void, signal: AbortSignal): void {
    this.listeners.add(listener);
    signal.addEventListener("abort", () => this.listeners.delete(listener));
  }
  get watched(): number {
    return this.listeners.size;
  }
  turn(status: Source["status"]): void {
    this.status = status;
    for (const listener of this.listeners) listener(status);
  }
  ask(op: string, _request: Record<string, unknown>, signal?: AbortSignal): Promise<never> {
    if (this.status === "none") return Promise.reject(new Error("gone"));
    return new Promise((resolve, reject) => {
      const answer = (reply = {}): void => resolve({ reply, buffer: null } as never);
      const fail = (message: string): void => reject(new Error(message));
      signal?.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
      this.asked.push({ op, signal, answer, fail });
    });
  }
}

let kernel: Kernel;
let page: { ask: ReturnType<typeof vi.fn> } & Source;
let held: boolean;
let owner: AbortController;
let source: HybridSource;

beforeEach(() => {
  vi.useFakeTimers();
  kernel = new Kernel();
  held = true;
  owner = new AbortController();
  page = {
    status: "none",
    onStatus() {},
    ask: vi.fn((op: string) =>
      Promise.resolve({ reply: { from: "page", op }, buffer: null } as never),
    ),
  };
  source = new HybridSource(kernel, () => Promise.resolve(held ? page : null), owner.signal);
});
afterEach(() => {
  owner.abort();
  vi.useRealTimers();
});

const FROM_PAGE = { from: "page", op: "stats" };

async function silence(): Promise<Reply> {
  const asked = source.ask("stats", {} as never);
  await vi.advanceTimersByTimeAsync(SILENT_AFTER_MS);
  return asked;
}

describe("a kernel that answers", () => {
  test("is the only source used", async () => {
    const asked = source.ask("stats", {} as never);
    await vi.advanceTimersByTimeAsync(SILENT_AFTER_MS - 1);
    kernel.asked[0]!.answer({ from: "kernel" });
    expect((await asked).reply).toEqual({ from: "kernel" });
    await vi.advanceTimersByTimeAsync(10 * SILENT_AFTER_MS);
    expect(page.ask).not.toHaveBeenCalled();
    expect([source.answering, source.status]).toEqual(["kernel", "live"]);
  });

  test("gets interrupted requests again, except those that write", async () => {
    const asked = source.ask("table", {} as never);
    const written = expect(source.ask("export_pair", {} as never)).rejects.toThrow(INTERRUPTED);
    for (const question of kernel.asked) question.fail(INTERRUPTED);
    await written;
    await vi.advanceTimersByTimeAsync(PAUSES_MS[0]!);
    expect(kernel.asked.map(({ op }) => op)).toEqual(["table", "export_pair", "table"]);
    kernel.asked[2]!.answer({ from: "kernel" });
    expect((await asked).reply).toEqual({ from: "kernel" });
    expect(source.answering).toBe("kernel");
  });

  test("and that ends before the repeated request is replaced by the page", async () => {
    const asked = source.ask("stats", {} as never);
    kernel.asked[0]!.fail(INTERRUPTED);
    await vi.advanceTimersByTimeAsync(0);
    kernel.turn("none");
    await vi.advanceTimersByTimeAsync(PAUSES_MS[0]!);
    expect((await asked).reply).toEqual(FROM_PAGE);
    expect(kernel.asked).toHaveLength(1);
  });

  test("fails with the kernel's own message", async () => {
    const asked = source.ask("event", {} as never);
    kernel.asked[0]!.fail("no event 7");
    await expect(asked).rejects.toThrow("no event 7");
    expect(page.ask).not.toHaveBeenCalled();
  });
});

describe("a silent kernel", () => {
  test("is stood in for by the page, and keeps one question", async () => {
    const heard: string[] = [];
    source.onStatus((status) => heard.push(status), owner.signal);
    expect((await silence()).reply).toEqual(FROM_PAGE);
    for (let i = 0; i < 5; i += 1)
      expect((await source.ask("stats", {} as never)).reply).toEqual(FROM_PAGE);
    expect(kernel.asked).toHaveLength(1);
    expect([source.answering, heard]).toEqual(["page", ["none"]]);
  });

  test("shows by its late answer that it is back", async () => {
    const back = vi.fn();
    source.onReturn(back, owner.signal);
    await silence();
    kernel.asked[0]!.answer();
    await vi.advanceTimersByTimeAsync(0);
    expect([source.answering, source.status]).toEqual(["kernel", "live"]);
    expect(back).toHaveBeenCalledTimes(1);
    const asked = source.ask("stats", {} as never);
    kernel.asked[1]!.answer({ from: "kernel" });
    expect((await asked).reply).toEqual({ from: "kernel" });
  });

  test("is probed at intervals, because replies may be lost", async () => {
    await silence();
    await vi.advanceTimersByTimeAsync(PROBE_EVERY_MS);
    const asked = source.ask("stats", {} as never);
    await vi.advanceTimersByTimeAsync(0);
    expect((await asked).reply).toEqual(FROM_PAGE);
    expect(kernel.asked).toHaveLength(2);
    kernel.asked[1]!.answer();
    await vi.advanceTimersByTimeAsync(0);
    expect(source.answering).toBe("kernel");
  });

  test("is awaited if the page holds nothing", async () => {
    held = false;
    const asked = source.ask("stats", {} as never);
    await vi.advanceTimersByTimeAsync(10 * SILENT_AFTER_MS);
    kernel.turn("busy");
    expect([source.answering, source.status]).toEqual(["busy", "busy"]);
    kernel.asked[0]!.answer({ from: "kernel" });
    expect((await asked).reply).toEqual({ from: "kernel" });
    expect(source.answering).toBe("kernel");
  });

  test("is awaited if the page cannot reply", async () => {
    await silence();
    page.ask.mockRejectedValue(new Error("Rank 0 is embedded as an overview only"));
    const asked = source.ask("event", {} as never);
    await vi.advanceTimersByTimeAsync(SILENT_AFTER_MS);
    kernel.asked[1]!.answer({ from: "kernel" });
    expect((await asked).reply).toEqual({ from: "kernel" });
  });

  test("writes files itself, even if that takes long", async () => {
    const asked = source.ask("export", {} as never);
    await vi.advanceTimersByTimeAsync(100 * SILENT_AFTER_MS);
    expect(page.ask).not.toHaveBeenCalled();
    kernel.asked[0]!.answer({ path: "x" });
    expect((await asked).reply).toEqual({ path: "x" });
  });
});

describe("a kernel that is gone", () => {
  test("that was silent before is reported as gone, not as busy", async () => {
    await silence();
    expect([source.answering, source.gone]).toEqual(["page", false]);
    const heard = vi.fn();
    source.onStatus(heard, owner.signal);
    kernel.turn("none");
    expect(heard).toHaveBeenCalledWith("none");
    expect([source.answering, source.gone]).toEqual(["page", true]);
  });

  test("is not waited for", async () => {
    kernel.turn("none");
    expect((await source.ask("stats", {} as never)).reply).toEqual(FROM_PAGE);
    expect((await source.ask("export", {} as never)).reply).toEqual({ from: "page", op: "export" });
    expect([source.answering, source.status, source.gone]).toEqual(["page", "none", true]);
  });

  test("leaves its pending requests to the page", async () => {
    const asked = source.ask("stats", {} as never);
    kernel.status = "none";
    kernel.asked[0]!.fail("gone");
    expect((await asked).reply).toEqual(FROM_PAGE);
  });

  test("is missed where only it could answer", async () => {
    page.ask.mockRejectedValue(new Error("unknown op save_html; the ops are tiles"));
    kernel.turn("none");
    await expect(source.ask("save_html", {} as never)).rejects.toThrow("gone");
  });

  test("is named in the error if the page holds nothing", async () => {
    held = false;
    kernel.turn("none");
    await expect(source.ask("stats", {} as never)).rejects.toThrow("gone");
    expect(source.status).toBe("none");
  });
});

describe("abandoning", () => {
  test("withdraws the request from the kernel", async () => {
    const one = new AbortController();
    const asked = source.ask("find", {} as never, one.signal);
    one.abort();
    await expect(asked).rejects.toMatchObject({ name: "AbortError" });
    expect(kernel.asked[0]!.signal?.aborted).toBe(true);
    await expect(source.ask("find", {} as never, one.signal)).rejects.toMatchObject({
      name: "AbortError",
    });
    expect(kernel.asked).toHaveLength(1);
  });

  test("leaves a silent kernel its one question", async () => {
    held = false;
    const one = new AbortController();
    const asked = source.ask("find", {} as never, one.signal);
    await vi.advanceTimersByTimeAsync(SILENT_AFTER_MS);
    one.abort();
    await expect(asked).rejects.toMatchObject({ name: "AbortError" });
    expect(kernel.asked[0]!.signal?.aborted).toBe(false);
  });

  test("of the whole view ends the watch over the kernel", () => {
    owner.abort();
    expect(kernel.watched).toBe(0);
  });
});

test("names of the page's tiles have keys that the kernel never gives", async () => {
  const buffer = new ArrayBuffer(16);
  new Uint32Array(buffer, 8, 2).set([3, 4]);
  const reply = { names: { 3: "add", 4: "mm" }, columns: { slice_name: ["u32", 8, 2] } };
  page.ask.mockResolvedValue({ reply, buffer });
  kernel.turn("none");
  const answer = await source.ask("tiles", {} as never);
  const keys = [...new Uint32Array(answer.buffer!, 8, 2)];
  expect(keys.map((key) => (answer.reply.names as Record<string, string>)[key])).toEqual([
    "add",
    "mm",
  ]);
  expect(Math.min(...keys)).toBeGreaterThanOrEqual(2 ** 30);
});
