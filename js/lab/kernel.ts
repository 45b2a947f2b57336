/** Run a widget host over the comm messages of a Jupyter kernel. */

import { importText, type Transport } from "../src/host/host";
import type { BinaryData, WireMessage } from "../src/host/wire";
import type { KernelConnection, Lab } from "./jupyterlab";

/** Kernel states in which its widgets are lost, including a restart. */
const ENDINGS: readonly string[] = ["dead", "restarting", "autorestarting", "terminating"];

interface KernelTransportCallbacks {
  receive(message: WireMessage, buffers: readonly DataView[]): void;
  ended(): void;
}

export class KernelTransport implements Transport {
  readonly load = importText;
  readonly css = (text: string): Promise<string> => Promise.resolve(text);

  constructor(
    private readonly lab: Lab,
    private readonly kernel: KernelConnection,
    callbacks: KernelTransportCallbacks,
  ) {
    kernel.statusChanged.connect((_, status) => {
      if (ENDINGS.includes(status)) callbacks.ended();
    });
    kernel.disposed.connect(() => callbacks.ended());
    kernel.iopubMessage.connect((_, { header, parent_header: parent, content, buffers = [] }) => {
      if (!header.msg_type.startsWith("comm_")) return;
      const data = content.data as { method?: string; state?: Record<string, unknown> };
      // A kernel sends changes back to the page that made them, which may have newer values.
      if (data.method === "echo_update" && parent.session === kernel.clientId) return;
      const isWhole = data.method === "update" && data.state?._esm !== undefined;
      const type = isWhole ? "comm_open" : header.msg_type;
      if (type === "comm_open" && data.state?._model_module !== "anywidget") return;
      callbacks.receive({ type, comm: content.comm_id, data }, buffers);
    });
  }

  post({ comm, data }: WireMessage, buffers: readonly BinaryData[]): void {
    const { clientId: session, username } = this.kernel;
    const message = this.lab.KernelMessage.createMessage({
      msgType: "comm_msg",
      channel: "shell",
      content: { comm_id: comm, data },
      metadata: {},
      buffers,
      session,
      username,
    });
    this.kernel.sendShellMessage(message, false, true);
  }
}
