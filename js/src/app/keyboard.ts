/**
 * Keys while the widget has the focus. What is typed here stays here: hosts would add cells or
 * delete them. Keys that belong to the host or the browser go on their way.
 */

import { isTextEntry } from "./dom";
import { type Match, match } from "./keymap";

export interface KeyboardParts {
  root: HTMLElement;
  signal: AbortSignal;
  /** True if the key was used. */
  press(match: Match, id: string): boolean;
  release(id: string): void;
  releaseAll(): void;
  setSpace(held: boolean): void;
  anyKey(): void;
  /** The focus came in, or left. */
  focus(inside: boolean): void;
}

export function listenToKeys(parts: KeyboardParts): void {
  const { root, signal } = parts;
  root.addEventListener("keydown", (event) => onDown(parts, event), { signal });
  root.addEventListener("keyup", (event) => onUp(parts, event), { signal });
  const stop = (): void => {
    parts.releaseAll();
    parts.setSpace(false);
  };
  const stays = ({ relatedTarget: other }: FocusEvent): boolean =>
    other instanceof Node && root.contains(other);
  const enter = (event: FocusEvent): void => {
    if (!stays(event)) parts.focus(true);
  };
  const leave = (event: FocusEvent): void => {
    if (stays(event)) return;
    stop();
    parts.focus(false);
  };
  root.addEventListener("focusin", enter, { signal });
  root.addEventListener("focusout", leave, { signal });
  // A key let go in another window is never heard of.
  window.addEventListener("blur", stop, { signal });
}

/** Keys that notebooks act on in command mode, beside letters and digits. */
const CELL_KEYS: ReadonlySet<string> = new Set(["Enter", "Delete", "Backspace", "Insert"]);

/** Buttons, links and scroll areas use these keys themselves. */
function belongsToControl(event: KeyboardEvent): boolean {
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLButtonElement || target instanceof HTMLInputElement) {
    if (event.key === " " || event.key === "Enter") return true;
    return target instanceof HTMLInputElement && event.key.startsWith("Arrow");
  }
  return target.classList.contains("hta-scroll") && /^(Arrow|Page|Home|End)/.test(event.key);
}

function onDown(parts: KeyboardParts, event: KeyboardEvent): void {
  if (event.isComposing) return;
  const plainKey = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isTextEntry(event.target)) {
    // Only Escape acts from a text field; letters are text, and no host may take them for more.
    if (event.key === "Escape") use(parts, event);
    else if (plainKey || /^[azcvxy]$/i.test(event.key)) event.stopPropagation();
    return;
  }
  parts.anyKey();
  if (event.key === "Tab") {
    event.stopPropagation();
    return;
  }
  if (belongsToControl(event)) {
    event.stopPropagation();
    return;
  }
  if (event.key === " " && plainKey) {
    parts.setSpace(true);
    event.preventDefault();
    event.stopPropagation();
    return;
  }
  if (use(parts, event)) return;
  // Unused keys must not reach the notebook either: there, D D deletes the cell.
  if (plainKey && (event.key.length === 1 || CELL_KEYS.has(event.key))) event.stopPropagation();
}

function use(parts: KeyboardParts, event: KeyboardEvent): boolean {
  const found = match(event);
  if (found === null || !parts.press(found, event.code)) return false;
  event.preventDefault();
  event.stopPropagation();
  return true;
}

function onUp(parts: KeyboardParts, event: KeyboardEvent): void {
  if (event.key === " ") parts.setSpace(false);
  if (/^(Control|Meta|Alt)/.test(event.key)) parts.releaseAll();
  parts.release(event.code);
  if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
}
