/** Whether the two timelines lie one above the other or beside each other. */

import { fill, h } from "../app/dom";

export type Arrange = "stacked" | "beside";

/** Narrower than this, both beside each other would leave no room for their lanes. */
export const BESIDE_FROM_PX = 900;

const CHOICES: readonly (readonly [Arrange, string])[] = [
  ["stacked", "Timelines one above the other"],
  ["beside", "Timelines beside each other"],
];

/** Where they lie in so much room, and why where that is not what was chosen. */
export function arrangedIn(width: number, chosen: Arrange): { beside: boolean; why: string } {
  if (chosen === "stacked") return { beside: false, why: "" };
  if (width >= BESIDE_FROM_PX) return { beside: true, why: "" };
  return { beside: false, why: `stacked: beside each other needs ${BESIDE_FROM_PX} px` };
}

export class ArrangeChoice {
  readonly el: HTMLElement;
  private readonly buttons: HTMLButtonElement[];
  private readonly why = h("span", { class: "hta-note", "aria-live": "polite" });

  constructor(choose: (arrange: Arrange) => void) {
    this.buttons = CHOICES.map(([arrange, about]) =>
      h(
        "button",
        {
          type: "button",
          title: about,
          "data-arrange": arrange,
          on: { click: () => choose(arrange) },
        },
        arrange,
      ),
    );
    this.el = h(
      "div",
      { class: "hta-diff-arrange" },
      this.why,
      h("span", { class: "hta-note" }, "Timelines"),
      h(
        "span",
        { class: "hta-diff-choice", role: "group", "aria-label": "Timelines" },
        ...this.buttons,
      ),
    );
  }

  show(chosen: Arrange, why: string): void {
    for (const one of this.buttons) {
      one.setAttribute("aria-pressed", String(one.dataset.arrange === chosen));
    }
    fill(this.why, why);
  }
}
