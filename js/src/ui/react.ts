/** Effects that follow signals outside of components: canvases, sizes, texts of other parts. */

import { effect, untracked } from "@preact/signals";

/** Call `act` now, and whenever a signal that `read` reads has changed. */
export function react<T>(read: () => T, act: (now: T) => void, ended: AbortSignal): void {
  const end = effect(() => {
    const now = read();
    untracked(() => act(now));
  });
  ended.addEventListener("abort", end, { once: true });
}
