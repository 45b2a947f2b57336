/** Keys while the focus is in the dashboard but not in its timeline, which has keys of its own. */

import { isTextEntry } from "../app/dom";
import { match } from "../app/keymap";

export interface DashKeys {
  undo(): void;
  redo(): void;
  clear(): void;
  isEmpty(): boolean;
  help(): void;
}

/** `isAlone`: the page is the dashboard's, so that keys are its own before anything has the focus. */
export function listenToDashKeys(
  root: HTMLElement,
  signal: AbortSignal,
  keys: DashKeys,
  isAlone = false,
): void {
  const act = (event: KeyboardEvent): boolean => {
    const command = match(event)?.command;
    if (command === "leave") {
      const ask = new Event("hta-escape", { cancelable: true });
      root.dispatchEvent(ask);
      if (ask.defaultPrevented) return true;
      if (keys.isEmpty()) return false;
      keys.clear();
      return true;
    }
    if (command === "undo" && (event.ctrlKey || event.metaKey)) keys.undo();
    else if (command === "redo") keys.redo();
    else if (command === "help") keys.help();
    else return false;
    return true;
  };
  if (isAlone) {
    document.addEventListener(
      "keydown",
      (event) => {
        if (event.target === document.body && !event.defaultPrevented && act(event)) {
          event.preventDefault();
        }
      },
      { signal },
    );
  }
  root.addEventListener(
    "keydown",
    (event) => {
      if (event.isComposing || event.defaultPrevented) return;
      const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
      const typing = isTextEntry(event.target);
      if ((!typing || event.key === "Escape") && act(event)) {
        event.preventDefault();
        event.stopPropagation();
        return;
      }
      // Notebooks act on letters in command mode: D D deletes the cell.
      if (plain && (typing || event.key.length === 1 || event.key === "Enter")) {
        event.stopPropagation();
      }
    },
    { signal },
  );
}
