/** Effects of signals outside of components: on canvases, sizes and texts of other parts. */

import { effect, untracked } from "@preact/signals";

/** Call `act` now and after each change of `of`: a signal, or a function that reads signals. */
export function react<T>(
  of: { readonly value: T } | (() => T),
  act: (now: T) => void,
  ended: AbortSignal,
): void {
  const end = effect(() => {
    const now = typeof of === "function" ? of() : of.value;
    untracked(() => act(now));
  });
  ended.addEventListener("abort", end, { once: true });
}
