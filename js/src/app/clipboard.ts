/** Copying text, also where the page may not use the clipboard API (plain http). */

import { h } from "./dom";
import type { Words } from "./words";

/** Copy a text; returns what is to be said of that. */
export async function copyWords(text: string, what: string, inside: HTMLElement): Promise<Words> {
  const done = await copyText(text, inside);
  return [done ? `Copied ${what}.` : "The browser does not allow copying here."];
}

async function copyText(text: string, inside: HTMLElement): Promise<boolean> {
  try {
    if (navigator.clipboard !== undefined && window.isSecureContext) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // Refused: the older way may still be allowed.
  }
  return copyBySelection(text, inside);
}

function copyBySelection(text: string, inside: HTMLElement): boolean {
  const root = inside.getRootNode();
  const before = root instanceof ShadowRoot || root instanceof Document ? root.activeElement : null;
  const field = h("textarea", { class: "hta-hidden", "aria-hidden": "true", tabindex: -1 });
  field.value = text;
  inside.append(field);
  field.select();
  const copied = copySelected();
  field.remove();
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  return copied;
}

function copySelected(): boolean {
  try {
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only way on plain http
    return document.execCommand("copy");
  } catch {
    return false;
  }
}
