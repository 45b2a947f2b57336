/** Buttons, keys and swatches: the small things that every panel is made of. */

import type { Kind } from "../contract";
import { type Child, h } from "./dom";
import { type IconName, icon } from "./icons";
import type { Words } from "./words";

/** The name that a key has on this keyboard: Macs say ⌘ where others say Ctrl. */
export function keyName(key: string): string {
  return /Mac|iP(hone|ad)/.test(navigator.userAgent) ? key.replace("Ctrl", "⌘") : key;
}

export function kbd(text: string): HTMLElement {
  return h("kbd", { class: "hta-key" }, keyName(text));
}

export interface ButtonLook {
  /** Shown text; an icon button has only a name. */
  text?: string;
  icon?: IconName;
  /** What it is called: spoken, and shown as tooltip. */
  name?: string;
  /** The key that does the same. */
  key?: string;
  /** Show the key on the button, not only in the tooltip. */
  showKey?: boolean;
  class?: string;
  press: (event: MouseEvent) => void;
}

export function button(look: ButtonLook): HTMLButtonElement {
  const name = look.name ?? look.text ?? "";
  const node = h(
    "button",
    {
      type: "button",
      class: `hta-button${look.text === undefined ? " hta-button-icon" : ""} ${look.class ?? ""}`,
      title:
        look.key === undefined
          ? look.text === name
            ? null
            : name
          : `${name} (${keyName(look.key)})`,
      "aria-label": look.text === name && !look.showKey ? null : name,
      "aria-keyshortcuts": look.key === undefined ? null : ariaKeys(look.key),
      on: { click: look.press },
    },
    look.icon !== undefined && icon(look.icon),
    look.text !== undefined && h("span", { class: "hta-button-text" }, look.text),
    look.showKey && look.key !== undefined && kbd(look.key),
  );
  return node;
}

export function undoButton(press: () => void): HTMLButtonElement {
  return button({ icon: "undo", name: "Undo", key: "Ctrl+Z", press });
}

export function redoButton(press: () => void): HTMLButtonElement {
  return button({ icon: "redo", name: "Redo", key: "Ctrl+Shift+Z", press });
}

/** `Ctrl+Z` as the attribute wants it. */
function ariaKeys(key: string): string {
  return key.replace("Ctrl", "Control").replace("⌫", "Backspace");
}

/** Text that acts: a link inside a sentence. */
export function link(text: string, press: () => void, title?: string): HTMLButtonElement {
  return h("button", { type: "button", class: "hta-link", title, on: { click: press } }, text);
}

export function swatch(kind: Kind): HTMLElement {
  return h("span", { class: "hta-swatch", "data-kind": kind, "aria-hidden": "true" });
}

/** A sentence as nodes. */
export function sentence(words: Words): Child[] {
  return words.map((piece) => {
    if (typeof piece === "string") return piece;
    if ("strong" in piece) return h("b", {}, piece.strong);
    return kbd(piece.key);
  });
}

/** What a kind is called on screen. */
export function kindName(kind: Kind): string {
  return kind === "cpu" ? "CPU" : kind;
}

export function checkbox(
  text: string,
  hint: string,
  checked = false,
): { el: HTMLElement; input: HTMLInputElement } {
  const input = h("input", { type: "checkbox" });
  input.checked = checked;
  const el = h("label", { class: "hta-check", title: hint }, input, h("span", {}, text));
  return { el, input };
}
