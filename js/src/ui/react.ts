/** Run effects of signals outside components, on canvases, sizes and texts of other parts. */

import { effect, untracked } from "@preact/signals";

/** Call `run` now and after each change in `read`, a signal or a function that reads signals. */
export function onSignal<T>(
  read: { readonly value: T } | (() => T),
  run: (now: T) => void,
  abortSignal: AbortSignal,
): void {
  const end = effect(() => {
    const now = typeof read === "function" ? read() : read.value;
    untracked(() => run(now));
  });
  abortSignal.addEventListener("abort", end, { once: true });
}
