import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { HostSocket } from "./socket";
import { type WireMessage, pack, unpack } from "./wire";

/** A WebSocket that tests can open, close and answer. */
class Fake {
  static all: Fake[] = [];
  binaryType = "";
  onmessage: ((event: { data: ArrayBuffer }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  readonly sent: WireMessage[] = [];
  constructor(readonly url: string) {
    Fake.all.push(this);
  }
  send(frame: ArrayBuffer): void {
    this.sent.push(unpack(frame).message);
  }
  hear(message: WireMessage): void {
    this.onmessage?.({ data: pack(message) });
  }
}

const custom = (content: object): WireMessage => ({
  ...{ type: "comm_msg", comm: "m" },
  data: { method: "custom", content },
});
const request = (rpc: string, op = "stats") => custom({ rpc, op });
const broken = (at = 0): void => Fake.all[at]!.onclose?.({ code: 1006 });
function dialled(): void {
  vi.advanceTimersByTime(500);
  Fake.all[1]!.hear({ type: "hello" });
}

let received: WireMessage[];
let ways: { onMessage: (message: WireMessage) => void; onLost: () => void; onEnded: () => void };
let socket: HostSocket;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "performance"] });
  vi.stubGlobal("WebSocket", Fake);
  Fake.all = [];
  received = [];
  ways = { onMessage: (message) => received.push(message), onLost: vi.fn(), onEnded: vi.fn() };
  socket = new HostSocket("ws://127.0.0.1:1/ws", ways);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("what is posted before the host greets waits", () => {
  socket.post({ type: "open", id: 1 });
  expect(Fake.all[0]!.sent).toEqual([]);
  Fake.all[0]!.hear({ type: "hello" });
  expect(Fake.all[0]!.sent).toEqual([{ type: "open", id: 1 }]);
  expect(received).toEqual([{ type: "hello" }]);
});

test("a connection that broke is dialled, and requests without a reply are sent again", () => {
  Fake.all[0]!.hear({ type: "hello" });
  socket.post(request("a"));
  socket.post(request("b"));
  Fake.all[0]!.hear(custom({ rpc: "a", ok: true, reply: {} }));
  broken();
  expect(ways.onLost).toHaveBeenCalledTimes(1);
  socket.post(request("c"));
  dialled();
  expect(Fake.all[1]!.sent).toEqual([request("b"), request("c")]);
  expect(ways.onEnded).not.toHaveBeenCalled();
});

test("a file is not written twice: its request fails", () => {
  Fake.all[0]!.hear({ type: "hello" });
  socket.post(request("w", "export"));
  broken();
  dialled();
  expect(Fake.all[1]!.sent).toEqual([]);
  expect(received.at(-1)).toMatchObject({ comm: "m", data: { content: { rpc: "w", ok: false } } });
});

test("after ten seconds without an answer the host has ended", () => {
  Fake.all[0]!.hear({ type: "hello" });
  broken();
  for (let at = 1; at <= 20; at += 1) {
    vi.advanceTimersByTime(500);
    expect(Fake.all).toHaveLength(1 + at);
    expect(ways.onEnded).not.toHaveBeenCalled();
    broken(at);
  }
  vi.advanceTimersByTime(500);
  broken(21);
  expect(ways.onEnded).toHaveBeenCalledTimes(1);
});

test("a host that ends in good order is not dialled", () => {
  Fake.all[0]!.hear({ type: "hello" });
  Fake.all[0]!.onclose?.({ code: 1001 });
  vi.advanceTimersByTime(20_000);
  expect(ways.onEnded).toHaveBeenCalledTimes(1);
  expect(Fake.all).toHaveLength(1);
});
