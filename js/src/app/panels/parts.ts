/** Pieces that several panels have. */

import type { Brief } from "../../contract";
import { button, kbd, link } from "../controls";
import { type Child, h } from "../dom";

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
