import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { BUSY_AFTER_MS, KernelSource, type MessageModel } from "./kernel";

interface Message {
  rpc: string;
  op: string;
  [key: string]: unknown;
}

/** A model whose views share its messages, like those of anywidget. */
class Model implements MessageModel {
  readonly sent: Message[] = [];
  readonly listeners = new Map<string, Set<(content: unknown, buffers: DataView[]) => void>>();
  broken = false;

  send(content: unknown): void {
    if (this.broken) throw new Error("Cannot send");
    this.sent.push(content as Message);
  }
  on(event: string, listener: (content: unknown, buffers: DataView[]) => void): void {
    const known = this.listeners.get(event) ?? new Set();
    this.listeners.set(event, known.add(listener));
  }
  off(event: string, listener: (content: unknown, buffers: DataView[]) => void): void {
    this.listeners.get(event)?.delete(listener);
  }
  get heard(): number {
    return [...this.listeners.values()].reduce((sum, { size }) => sum + size, 0);
  }
  trigger(event: string, content?: unknown, buffers: DataView[] = []): void {
    for (const listener of [...(this.listeners.get(event) ?? [])]) listener(content, buffers);
  }
  answer(content: unknown, buffers: DataView[] = []): void {
    this.trigger("msg:custom", content, buffers);
  }
  reply(index: number, reply: object, buffers: DataView[] = []): void {
    this.answer({ rpc: this.sent[index]!.rpc, ok: true, reply }, buffers);
  }
}

let model: Model;
let owner: AbortController;
let source: KernelSource;

beforeEach(() => {
  vi.useFakeTimers();
  model = new Model();
  owner = new AbortController();
  source = new KernelSource(model, owner.signal);
});
afterEach(() => {
  owner.abort();
  vi.useRealTimers();
});

const ask = (op = "tiles", signal?: AbortSignal) => source.ask(op as "tiles", {} as never, signal);
/** Send a request and ignore the reply. */
const send = (): void => void ask().catch(() => undefined);

describe("asking", () => {
  test("a reply resolves its own request", async () => {
    const first = source.ask("stats", { start: 0, end: 1 });
    const second = source.ask("minimap", { bins: 3 });
    expect(model.sent.map(({ op }) => op)).toEqual(["stats", "minimap"]);
    model.reply(1, { two: 2 });
    model.reply(0, { one: 1 });
    expect((await first).reply).toEqual({ one: 1 });
    expect((await second).reply).toEqual({ two: 2 });
  });

  test("returns only the bytes of the view, at any offset in their buffer", async () => {
    const asked = ask();
    const bytes = Uint8Array.from([9, 9, 1, 2, 3, 9]);
    model.reply(0, {}, [new DataView(bytes.buffer, 2, 3)]);
    expect([...new Uint8Array((await asked).buffer!)]).toEqual([1, 2, 3]);
  });

  test("an error carries the kernel's words and code", async () => {
    const asked = ask("event");
    const error = { code: "no_answer", message: "no event 7", remedy: "Ask for another." };
    model.answer({ rpc: model.sent[0]!.rpc, ok: false, error });
    const message = "no event 7 Ask for another.";
    await expect(asked).rejects.toMatchObject({ code: "no_answer", message });
  });

  test("a file that exists is replaced if the same path is requested again", async () => {
    const write = (path: string) => source.ask("export", { path }).catch(() => undefined);
    const refuse = async (path: string, code: string): Promise<unknown> => {
      const asked = write(path);
      const { rpc, overwrite } = model.sent.at(-1)!;
      model.answer({ rpc, ok: false, error: { code, message: "in any language" } });
      await asked;
      return overwrite;
    };
    expect(await refuse("a", "no_answer")).toBeUndefined();
    expect(await refuse("a", "file_exists")).toBeUndefined();
    expect(await refuse("b", "file_exists")).toBeUndefined();
    expect(await refuse("b", "file_exists")).toBe(true);
  });

  test("messages that are not replies, and replies to others, are ignored", () => {
    send();
    for (const content of [null, 7, "x", {}, { rpc: "other.1", ok: true, reply: {} }]) {
      expect(() => model.answer(content)).not.toThrow();
    }
  });
});

test("two views of one model do not receive each other's replies", async () => {
  const other = new KernelSource(model, owner.signal);
  const mine = source.ask("headline", {});
  const theirs = other.ask("headline", {});
  expect(model.sent[0]!.rpc).not.toBe(model.sent[1]!.rpc);
  model.reply(1, { who: "theirs" });
  model.reply(0, { who: "mine" });
  expect((await mine).reply.who).toBe("mine");
  expect((await theirs).reply.who).toBe("theirs");
});

describe("abandoning", () => {
  test("a question by its signal", async () => {
    const aborter = new AbortController();
    const asked = ask("find", aborter.signal);
    aborter.abort();
    await expect(asked).rejects.toMatchObject({ name: "AbortError" });
    expect(() => model.reply(0, {})).not.toThrow();
  });

  test("the view aborts all its requests and removes its listener", async () => {
    const asked = ask("find");
    owner.abort();
    await expect(asked).rejects.toMatchObject({ name: "AbortError" });
    expect(model.heard).toBe(0);
    await expect(ask("find")).rejects.toMatchObject({ name: "AbortError" });
    expect(model.sent).toHaveLength(1);
  });
});

describe("a kernel that does not answer", () => {
  test("is busy after a while, also after further requests, and live with the next answer", () => {
    send();
    vi.advanceTimersByTime(BUSY_AFTER_MS - 1);
    expect(source.status).toBe("live");
    vi.advanceTimersByTime(1);
    expect(source.status).toBe("busy");
    send();
    expect(source.status).toBe("busy");
    model.reply(0, {});
    expect(source.status).toBe("live");
  });

  test("is not busy after requests sent one after the other", () => {
    for (let i = 0; i < 10; i += 1) {
      send();
      vi.advanceTimersByTime(BUSY_AFTER_MS - 100);
      model.reply(i, {});
    }
    expect(source.status).toBe("live");
  });

  test("answers to another view show that it is free", () => {
    send();
    vi.advanceTimersByTime(BUSY_AFTER_MS);
    model.answer({ rpc: "elsewhere.1", ok: true, reply: {} });
    expect(source.status).toBe("live");
  });

  test("without requests its state is unknown: it is not called busy", () => {
    vi.advanceTimersByTime(10 * BUSY_AFTER_MS);
    expect(source.status).toBe("live");
  });
});

describe("a kernel that is gone", () => {
  const LOST = "The kernel that made this view is gone";

  test.each(["comm_live_update", "comm:close"])(
    "fails all requests after the event %s",
    async (event) => {
      const asked = ask();
      model.trigger(event);
      await expect(asked).rejects.toThrow(LOST);
      await expect(ask()).rejects.toThrow(LOST);
      vi.advanceTimersByTime(10 * BUSY_AFTER_MS);
      expect(source.status).toBe("none");
    },
  );

  test("is detected if sending fails", async () => {
    model.broken = true;
    await expect(ask()).rejects.toThrow(LOST);
    expect(source.status).toBe("none");
  });

  test("is detected by the notebook's own state, while it counts as busy", async () => {
    const kernel = { status: "busy" };
    const known = Object.assign(new Model(), { widget_manager: { kernel } });
    const watching = new KernelSource(known, owner.signal);
    const asked = watching.ask("tiles", {} as never);
    vi.advanceTimersByTime(10 * BUSY_AFTER_MS);
    expect(watching.status).toBe("busy");
    kernel.status = "dead";
    vi.advanceTimersByTime(2 * BUSY_AFTER_MS);
    await expect(asked).rejects.toThrow(LOST);
    expect(watching.status).toBe("none");
  });

  test("counts as live again once a reply arrives", async () => {
    model.trigger("comm_live_update");
    await expect(ask()).rejects.toThrow(LOST);
    model.reply(0, {});
    expect(source.status).toBe("live");
  });
});
