/** Buttons, icons, swatches, keys and other small controls. */

import type { Brief, Chosen, Kind, PanelFrame } from "../protocol/source";
import { type Child, h, svg } from "./dom";
import type { Words } from "./text";
import { applyTheme } from "./theme";

/** The name that a key has on this keyboard: Macs say ⌘ where others say Ctrl. */
function keyName(key: string): string {
  return /Mac|iP(hone|ad)/.test(navigator.userAgent) ? key.replace("Ctrl", "⌘") : key;
}

export function kbd(text: string): HTMLElement {
  return h("kbd", { class: "hta-key" }, keyName(text));
}

interface ButtonLook {
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

// Small line icons in the colour of their text; drawn here, because fonts differ.

const PATHS = {
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.4 10.4 14 14",
  undo: "M6 3 2.5 6.5 6 10M2.5 6.5H10a3.5 3.5 0 0 1 0 7H6.5",
  redo: "M10 3l3.5 3.5L10 10M13.5 6.5H6a3.5 3.5 0 0 0 0 7h3.5",
  filter: "M2.5 3.5h11L9.5 8.5v4l-3 1.5V8.5z",
  close: "M4 4l8 8M12 4l-8 8",
  up: "M4 10l4-4 4 4",
  down: "M4 6l4 4 4-4",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  check: "M3 8.5 6.5 12 13 4.5",
  color:
    "M8 2.5v11M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 4.8l4.6 3M8 8.2l5 2.2M8 11.4l2.6 1.2",
  fold: "M2.5 8h11M8 1.5v4M6 3.8 8 5.8l2-2M8 14.5v-4M6 12.2 8 10.2l2 2",
  pin: "M6 2.5h4M6.7 2.5 6.2 7 4 9.5h8L9.8 7l-.5-4.5M8 9.5v4.5",
  full: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  warn: "M8 2.2 14.4 13.5H1.6zM8 6.2v3.6M8 11.4v.6",
} as const;

type IconName = keyof typeof PATHS;

export function icon(name: IconName): SVGSVGElement {
  return svg(
    "svg",
    { class: "hta-icon", viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" },
    svg("path", { d: PATHS[name] }),
  );
}

// Copying text, also where the page may not use the clipboard API (plain http).

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

// Pieces that several panels have.

/** Copies a text and says so. */
export type Copy = (text: string, what: string) => void;

export function closeButton(close: () => void, words = "selected"): HTMLElement {
  return h(
    "span",
    { class: "hta-close" },
    h("span", { class: "hta-note" }, words),
    h(
      "button",
      {
        type: "button",
        class: "hta-close-button",
        title: "Close (Esc)",
        "aria-label": "Close",
        on: { click: close },
      },
      kbd("Esc"),
    ),
  );
}

/** Switch between the event and the window while both are selected. */
export function tabs(current: "event" | "area", show: (id: "event" | "area") => void): HTMLElement {
  const tab = (id: "event" | "area", text: string): HTMLElement =>
    h(
      "button",
      {
        type: "button",
        class: "hta-tab",
        role: "tab",
        "aria-selected": String(id === current),
        on: { click: () => show(id) },
      },
      text,
    );
  return h(
    "span",
    { class: "hta-tabs", role: "tablist" },
    tab("event", "Event"),
    tab("area", "Selection"),
  );
}

export interface Fact {
  name: string;
  value: Child[];
  title?: string;
  /** Of several pieces in one line, the link is cut first. */
  look?: "line" | "wrapped";
}

export function facts(rows: readonly Fact[]): HTMLElement {
  return h(
    "dl",
    { class: "hta-factlist" },
    ...rows.map((row) =>
      h(
        "div",
        { class: "hta-fact" },
        h("dt", {}, row.name),
        h("dd", { title: row.title, class: row.look && `hta-${row.look}` }, ...row.value),
      ),
    ),
  );
}

export function eventLink(brief: Brief, go: (brief: Brief) => void): HTMLButtonElement {
  return link(brief.short, () => go(brief), `${brief.name}\nGo to it`);
}

export function copyButton(copy: Copy, text: () => string, what: string): HTMLButtonElement {
  return button({
    icon: "copy",
    name: `Copy ${what}`,
    class: "hta-copy",
    press: () => copy(text(), what),
  });
}

/** A failed request, in the place of what it should have brought. */
export function failure(title: string, error: Error, retry: () => void): HTMLElement {
  return h(
    "div",
    { class: "hta-failure", role: "alert" },
    h("b", {}, title),
    h("div", { class: "hta-failure-text" }, error.message),
    button({ text: "Try again", press: retry }),
  );
}

/** The widget's place where the widget cannot be: what failed, and why. */
export function brokenPanel(title: string, error: Error): HTMLElement {
  const panel = h(
    "div",
    { class: "hta-broken", role: "alert" },
    h("b", {}, title),
    h("div", { class: "hta-broken-text" }, error.message),
  );
  applyTheme(panel, "light");
  return panel;
}

/** What a panel shows inside its frame. */
export interface Content {
  readonly el: HTMLElement;
  /** It says itself what it is: a chart's title is part of its picture. */
  readonly hasTitle: boolean;
  show(frame: PanelFrame, chosen: Chosen): void;
}
