/** All keys and gestures on one sheet over the lanes. */

import { closeButton, kbd } from "../../ui/controls";
import { focused, h, put } from "../../ui/dom";
import { HELP, type HelpGroup, type HelpLine } from "../keys";

export class HelpSheet {
  readonly el: HTMLElement;

  constructor(
    private readonly place: HTMLElement,
    private readonly giveFocus: () => void,
    more: readonly HelpGroup[] = [],
  ) {
    this.el = h(
      "div",
      { class: "hta-help", role: "dialog", "aria-label": "Keys and gestures", tabindex: -1 },
      h(
        "div",
        { class: "hta-head" },
        h("h3", {}, "Keys and gestures"),
        h(
          "span",
          { class: "hta-note hta-grow" },
          "They work while the timeline has the focus: click it, or Tab to it.",
        ),
        closeButton(() => this.close(), ""),
      ),
      h(
        "div",
        { class: "hta-help-groups" },
        ...[...more, ...HELP].map((group) =>
          h(
            "section",
            {},
            h("h4", {}, group.title),
            h(
              "dl",
              {},
              ...group.lines.map((line) =>
                h(
                  "div",
                  { class: "hta-help-line" },
                  h("dt", {}, chords(line)),
                  h("dd", {}, line.text),
                ),
              ),
            ),
          ),
        ),
      ),
    );
  }

  get isOpen(): boolean {
    return this.el.isConnected;
  }

  toggle(): void {
    if (this.isOpen) this.close();
    else this.open();
  }

  open(): void {
    this.place.append(this.el);
    this.el.focus({ preventScroll: true });
  }

  close(): boolean {
    if (!this.isOpen) return false;
    const had = this.el.contains(focused(this.el));
    this.el.remove();
    if (had) this.giveFocus();
    return true;
  }
}

function chords(line: HelpLine): HTMLElement {
  const el = h("span", {});
  const chorded = line.keys.some((chord) => chord.length > 1);
  line.keys.forEach((chord, at) => {
    if (at > 0) put(el, chorded ? h("span", { class: "hta-note" }, " / ") : " ");
    const keys = h("span", { class: "hta-chord" });
    chord.forEach((key, index) => put(keys, index > 0 && "\u2009", kbd(key)));
    put(el, keys);
  });
  return el;
}
