/** The WebSocket of a page to its host; it reconnects after a sleep or a broken tunnel. */

import { WRITES } from "../protocol/source";
import { type Bytes, type Message, pack, unpack } from "./wire";

/** A host that cannot be reached for this long has ended. */
const GRACE_MS = 10_000;
const DIAL_EVERY_MS = 500;
/** Code with which a host closes the connection when it ends normally. */
const GOING_AWAY = 1001;

interface Content {
  rpc?: string;
  op?: string;
}

interface Ways {
  receive(message: Message, buffers: readonly DataView[]): void;
  /** The connection broke and is being restored. */
  lost(): void;
  ended(): void;
}

export class HostSocket {
  private socket: WebSocket | null = null;
  private live = false;
  private lostAt: number | null = null;
  private readonly waiting: ArrayBuffer[] = [];
  /** Requests without a reply, which a broken connection loses. */
  private readonly open = new Map<string, { message: Message; buffers: readonly Bytes[] }>();

  constructor(
    private readonly url: string,
    private readonly ways: Ways,
  ) {
    this.dial();
  }

  post(message: Message, buffers: readonly Bytes[] = []): void {
    const { rpc } = contentOf(message);
    if (rpc !== undefined) this.open.set(rpc, { message, buffers });
    const frame = pack(message, buffers);
    if (this.live) this.socket?.send(frame);
    // Once connected, all requests without a reply are sent again anyway.
    else if (rpc === undefined) this.waiting.push(frame);
  }

  private dial(): void {
    const socket = new WebSocket(this.url);
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
      const { message, buffers } = unpack(data);
      const { rpc } = contentOf(message);
      if (rpc !== undefined) this.open.delete(rpc);
      this.ways.receive(message, buffers);
      if (message.type === "hello") this.greet();
    };
    socket.onclose = ({ code }) => {
      this.live = false;
      this.lostAt ??= performance.now();
      if (code === GOING_AWAY || performance.now() - this.lostAt > GRACE_MS) {
        this.ways.ended();
        return;
      }
      this.ways.lost();
      setTimeout(() => this.dial(), DIAL_EVERY_MS);
    };
    this.socket = socket;
  }

  private greet(): void {
    this.live = true;
    this.lostAt = null;
    for (const frame of this.waiting.splice(0)) this.socket?.send(frame);
    for (const [rpc, { message, buffers }] of [...this.open]) {
      if (WRITES.has(contentOf(message).op ?? "")) {
        this.open.delete(rpc);
        this.ways.receive(refusal(message, rpc), []);
      } else this.post(message, buffers);
    }
  }
}

function contentOf({ data }: Message): Content {
  return (data as { content?: Content } | undefined)?.content ?? {};
}

/** Error reply to a request that may or may not have been carried out. */
function refusal({ comm }: Message, rpc: string): Message {
  const error = { message: "The connection broke while this was written. Write it again." };
  const content = { rpc, ok: false, error };
  return { type: "comm_msg", comm, data: { method: "custom", content } };
}
