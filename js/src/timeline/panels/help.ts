/** All keys and gestures on one sheet. */

import { closeButton, kbd } from "../../ui/controls";
import { h, put } from "../../ui/dom";
import { Sheet } from "../../ui/menu";
import { HELP, type HelpGroup, type HelpLine } from "../keys";

export class HelpSheet {
  private readonly sheet: Sheet;

  constructor(root: () => HTMLElement, signal: AbortSignal, more: readonly HelpGroup[] = []) {
    const el = h(
      "div",
      { class: "hta-help" },
      h(
        "div",
        { class: "hta-head" },
        h("h3", {}, "Keys and gestures"),
        h(
          "span",
          { class: "hta-note hta-grow" },
          "They work while the timeline has the focus: click it, or Tab to it.",
        ),
        closeButton(() => this.sheet.close(), ""),
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
    this.sheet = new Sheet(root, "Keys and gestures", el, signal);
  }

  toggle(anchor: HTMLElement): void {
    this.sheet.toggle(anchor);
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
