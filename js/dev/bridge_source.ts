/** Asks a tile engine behind a loopback HTTP bridge (js/dev/bridge.py). */

import type { Reply, Scene, Source } from "../src/protocol/source";

export class BridgeSource implements Source {
  readonly status = "live";

  constructor(private readonly url: string) {}

  onStatus(): void {}

  async scene(): Promise<Scene> {
    const answer = await fetch(`${this.url}/scene`);
    return (await answer.json()) as Scene;
  }

  async ask(op: string, request: Record<string, unknown>, signal?: AbortSignal): Promise<Reply> {
    const answer = await fetch(`${this.url}/ask`, {
      method: "POST",
      body: JSON.stringify({ ...request, op }),
      signal: signal ?? null,
    });
    const bytes = await answer.arrayBuffer();
    // [length of the JSON, u32][JSON][padding to 8][buffer]
    const size = new DataView(bytes).getUint32(0, true);
    const text = new TextDecoder().decode(new Uint8Array(bytes, 4, size));
    const json = JSON.parse(text) as Record<string, unknown>;
    if (!answer.ok) throw new Error(json.message as string);
    const from = Math.ceil((4 + size) / 8) * 8;
    return { reply: json, buffer: from < bytes.byteLength ? bytes.slice(from) : null };
  }
}
