/** Undo and redo from anywhere in a comparison: both timelines have one history. */

import { isTextEntry } from "../app/dom";
import { match } from "../app/keymap";

export function listenToDiffKeys(
  root: HTMLElement,
  signal: AbortSignal,
  walk: (way: "undo" | "redo") => void,
): void {
  // Before a timeline takes it for its own.
  root.addEventListener(
    "keydown",
    (event) => {
      if (event.isComposing || event.defaultPrevented || isTextEntry(event.target)) return;
      const command = match(event)?.command;
      if (command !== "undo" && command !== "redo") return;
      event.preventDefault();
      event.stopPropagation();
      walk(command);
    },
    { signal, capture: true },
  );
}
