/** A widget without a face: lets tests ask as a live view does, and see who answers. */

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
    const returns: number[] = [];
    source.onReturn(() => returns.push(performance.now()), signal);
    offline.start();
    Object.assign(globalThis, {
      liveProbe: {
        ask: async (op: string, request: Record<string, unknown>) => {
          const begin = performance.now();
          const { reply } = await source.ask(op, request);
          const ms = performance.now() - begin;
          return { reply, ms, answering: source.answering, gone: source.gone };
        },
        state: () => ({
          answering: source.answering,
          gone: source.gone,
          returns: returns.length,
          offline: offline.progress,
        }),
      },
    });
    el.textContent = "live probe";
  },
};
