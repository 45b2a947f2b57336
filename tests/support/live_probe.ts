/** A widget without a user interface: sends requests like a live view and shows who answers. */

import { liveSource } from "../../js/src/connection/answering";
import type { MessageModel } from "../../js/src/connection/kernel";

interface Props {
  model: MessageModel;
  el: HTMLElement;
  signal: AbortSignal;
}

export default {
  render({ model, el, signal }: Props): void {
    const { source, offline } = liveSource(model, signal);
    Object.assign(globalThis, {
      liveProbe: {
        ask: async (op: string, request: Record<string, unknown>) => {
          const begin = performance.now();
          const { reply } = await source.ask(op, request);
          const ms = performance.now() - begin;
          return { reply, ms };
        },
        fetch: () => offline.start(),
        state: () => ({
          status: source.status,
          holds: source.pageExtent,
        }),
      },
    });
    el.textContent = "live probe";
  },
};
