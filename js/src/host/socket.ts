/** The WebSocket between a page and its host. It reconnects after sleep or a broken tunnel. */

import { type ErrorReply, WRITE_OPERATIONS } from "../protocol/source";
import { type BinaryData, type WireMessage, pack, unpack } from "./wire";

/** A host that is unreachable for this long is considered ended. */
const RECONNECT_WITHIN_MS = 10_000;
const RECONNECT_DELAY_MS = 500;
/** The code with which a host closes the connection when it shuts down normally. */
const GOING_AWAY_CODE = 1001;

interface SocketContent {
  rpc?: string;
  op?: string;
}

interface SocketCallbacks {
  onMessage(message: WireMessage, buffers: readonly DataView[]): void;
  /** Called when the connection has been lost and is being restored. */
  onLost(): void;
  onEnded(): void;
}

export class HostSocket {
  private socket: WebSocket | null = null;
  private live = false;
  private lostAt: number | null = null;
  private readonly queue: ArrayBuffer[] = [];
  /** Requests without a reply. Replies may get lost if the connection breaks. */
  private readonly open = new Map<
    string,
    { message: WireMessage; buffers: readonly BinaryData[] }
  >();

  constructor(
    private readonly url: string,
    private readonly callbacks: SocketCallbacks,
  ) {
    this.connect();
  }

  post(message: WireMessage, buffers: readonly BinaryData[] = []): void {
    const { rpc } = socketContent(message);
    if (rpc !== undefined) this.open.set(rpc, { message, buffers });
    const frame = pack(message, buffers);
    if (this.live) this.socket?.send(frame);
    // Unanswered requests need not be queued, because they are sent again once connected.
    else if (rpc === undefined) this.queue.push(frame);
  }

  private connect(): void {
    const socket = new WebSocket(this.url);
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
      const { message, buffers } = unpack(data);
      const { rpc } = socketContent(message);
      if (rpc !== undefined) this.open.delete(rpc);
      this.callbacks.onMessage(message, buffers);
      if (message.type === "hello") this.onConnected();
    };
    socket.onclose = ({ code }) => {
      this.live = false;
      this.lostAt ??= performance.now();
      if (code === GOING_AWAY_CODE || performance.now() - this.lostAt > RECONNECT_WITHIN_MS) {
        this.callbacks.onEnded();
        return;
      }
      this.callbacks.onLost();
      setTimeout(() => this.connect(), RECONNECT_DELAY_MS);
    };
    this.socket = socket;
  }

  private onConnected(): void {
    this.live = true;
    this.lostAt = null;
    for (const frame of this.queue.splice(0)) this.socket?.send(frame);
    for (const [rpc, { message, buffers }] of [...this.open]) {
      if (WRITE_OPERATIONS.has(socketContent(message).op ?? "")) {
        this.open.delete(rpc);
        this.callbacks.onMessage(refusalMessage(message, rpc), []);
      } else this.post(message, buffers);
    }
  }
}

function socketContent({ data }: WireMessage): SocketContent {
  return (data as { content?: SocketContent } | undefined)?.content ?? {};
}

/** Return the error for a request that may or may not have been carried out. */
function refusalMessage({ comm }: WireMessage, rpc: string): WireMessage {
  const error: ErrorReply = {
    code: "connection_lost",
    message: "The connection broke while this was written.",
    remedy: "Write it again.",
  };
  const content = { rpc, ok: false, error };
  return { type: "comm_msg", comm, data: { method: "custom", content } };
}
