/** What must be said over the lanes: nothing in this window, nothing matches, a failed request. */

import { type Child, fill, h } from "./dom";
import { button } from "./controls";
import { icon } from "./icons";

export interface Way {
  text: string;
  key?: string;
  press: () => void;
}

/** A card in the middle of the lanes: a sentence and ways out. Lanes stay usable around it. */
export class Card {
  readonly el: HTMLElement;
  private shown = "";

  constructor() {
    this.el = h("div", { class: "hta-card", hidden: true, role: "status" });
  }

  show(id: string, title: string, text: string, ways: readonly Way[]): void {
    const key = `${id}\n${title}\n${text}`;
    if (key === this.shown) return;
    this.shown = key;
    const buttons = ways.map((way) =>
      button({
        text: way.text,
        press: way.press,
        ...(way.key === undefined ? {} : { key: way.key, showKey: true }),
      }),
    );
    fill(
      this.el,
      h("b", {}, title),
      h("p", {}, text),
      h("div", { class: "hta-field-row" }, ...buttons),
    );
    this.el.hidden = false;
  }

  hide(): void {
    this.shown = "";
    this.el.hidden = true;
  }
}

/** A strip under the toolbar for requests that failed: text here, not only in the console. */
export class ErrorStrip {
  readonly el: HTMLElement;

  constructor() {
    this.el = h("div", { class: "hta-error-strip", role: "alert", hidden: true });
  }

  show(title: string, text: string, ways: readonly Way[]): void {
    const buttons: Child[] = ways.map((way) => button({ text: way.text, press: way.press }));
    fill(
      this.el,
      icon("warn"),
      h("b", {}, title),
      h("span", { class: "hta-error-message", title: text }, text),
      ...buttons,
      button({ icon: "close", name: "Dismiss", press: () => this.hide() }),
    );
    this.el.hidden = false;
  }

  hide(): void {
    this.el.hidden = true;
  }
}

/** The widget's place where the widget cannot be: what failed, and why. */
export function brokenPanel(title: string, error: Error): HTMLElement {
  return h(
    "div",
    { class: "hta-broken", role: "alert" },
    h("b", {}, title),
    h("div", { class: "hta-broken-text" }, error.message),
  );
}
