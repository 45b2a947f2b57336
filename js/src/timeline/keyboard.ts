/**
 * Handle keys while the widget has the focus. Keys that the widget uses do not propagate, because a
 * notebook would add or delete cells. All other keys reach the host and the browser.
 *
 * The project's own pages (`data-hta-page`) are not notebooks. On them, keys apply to the timeline
 * under the pointer, or to the first timeline, even if it has no focus.
 */

import { isTextEntry } from "../ui/dom";
import type { Commands } from "./commands";
import type { TimelineContext } from "./context";
import { matchKey } from "./keys";
import type { PointerInput } from "./pointer";
import type { StatusLine } from "./status";

interface KeyboardParts {
  readonly ctx: TimelineContext;
  readonly commands: Commands;
  readonly pointer: PointerInput;
  readonly status: StatusLine;
}

export function listenToKeys(parts: KeyboardParts): void {
  const { ctx, commands, pointer, status } = parts;
  const { root, signal } = ctx;
  root.addEventListener("keydown", (event) => onDown(parts, event), { signal });
  root.addEventListener("keyup", (event) => onUp(parts, event), { signal });
  const stop = (): void => {
    commands.motion.releaseAll();
    pointer.isSpaceDown = false;
  };
  const isWithinRoot = ({ relatedTarget: other }: FocusEvent): boolean =>
    other instanceof Node && root.contains(other);
  const enter = (event: FocusEvent): void => {
    if (!isWithinRoot(event)) status.isHinting.value = true;
  };
  const leave = (event: FocusEvent): void => {
    if (isWithinRoot(event)) return;
    stop();
    status.isHinting.value = false;
  };
  root.addEventListener("focusin", enter, { signal });
  root.addEventListener("focusout", leave, { signal });
  // There is no keyup event if the key is released in another window.
  window.addEventListener("blur", stop, { signal });
  // In the capture phase, because a dashboard stops the propagation of characters.
  const options = { signal, capture: true };
  const isForThis = (event: KeyboardEvent): boolean => isKeyFor(ctx, event);
  document.addEventListener(
    "keydown",
    (event) => isForThis(event) && onDown(parts, event),
    options,
  );
  document.addEventListener("keyup", (event) => isForThis(event) && onUp(parts, event), options);
}

/** Return whether a key in one of the project's pages applies to this timeline without focus. */
function isKeyFor({ root, stage }: TimelineContext, event: KeyboardEvent): boolean {
  const { target } = event;
  const page = root.closest("[data-hta-page]");
  if (page === null || !(target instanceof Element)) return false;
  if (root.contains(target) || isTextEntry(target)) return false;
  // The focus is on an element around the view.
  if (target.contains(root)) {
    const hovered = target.querySelector(".hta-stage:hover");
    return (hovered ?? target.querySelector(".hta-stage")) === stage.el;
  }
  // Another part of the page has the focus and receives all keys except characters.
  const isCharacter = event.key.length === 1 && event.key !== " ";
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
  const isHovered = stage.el.matches(":hover") && page.contains(target);
  return isHovered && isCharacter && isPlain;
}

/** Keys that notebooks use in command mode, besides letters and digits. */
const GRID_CELL_KEYS: ReadonlySet<string> = new Set(["Enter", "Delete", "Backspace", "Insert"]);

/** Return whether the focused control uses this key. */
function belongsToControl(event: KeyboardEvent): boolean {
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLButtonElement || target instanceof HTMLInputElement) {
    if (event.key === " " || event.key === "Enter") return true;
    return target instanceof HTMLInputElement && event.key.startsWith("Arrow");
  }
  if (target.role === "separator" && /^(Arrow|Home|End)/.test(event.key)) return true;
  return target.classList.contains("hta-scroll") && /^(Arrow|Page|Home|End)/.test(event.key);
}

function onDown(parts: KeyboardParts, event: KeyboardEvent): void {
  if (event.isComposing) return;
  const plainKey = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isTextEntry(event.target)) {
    // In a text field, only Escape is a shortcut. Letters must not reach the host.
    if (event.key === "Escape") dispatchKey(parts, event);
    else if (plainKey || /^[azcvxy]$/i.test(event.key)) event.stopPropagation();
    return;
  }
  parts.status.isHinting.value = false;
  if (event.key === "Tab" || belongsToControl(event)) {
    event.stopPropagation();
    return;
  }
  if (event.key === " " && plainKey) {
    parts.pointer.isSpaceDown = true;
    event.preventDefault();
    event.stopPropagation();
    return;
  }
  if (dispatchKey(parts, event)) return;
  // Unused keys must not reach the notebook either, where D D deletes the cell.
  if (plainKey && (event.key.length === 1 || GRID_CELL_KEYS.has(event.key)))
    event.stopPropagation();
}

function dispatchKey(parts: KeyboardParts, event: KeyboardEvent): boolean {
  const match = matchKey(event);
  if (match === null || !parts.commands.press(match, event.code)) return false;
  event.preventDefault();
  event.stopPropagation();
  return true;
}

function onUp({ commands, pointer }: KeyboardParts, event: KeyboardEvent): void {
  if (event.key === " ") pointer.isSpaceDown = false;
  if (/^(Control|Meta|Alt)/.test(event.key)) commands.motion.releaseAll();
  commands.motion.release(event.code);
  if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
}
