/** The lower edge of a timeline's rows: dragged, or moved by keys, it sets their height. */

import type { Stage } from "../protocol/source";
import { aria, h } from "../ui/dom";

/** Same as in the widgets' trait. */
const LEAST_PX = 120;
const STEP_PX = 24;

export class HeightEdge {
  private readonly el: HTMLElement;
  private asked = LEAST_PX;
  private own = LEAST_PX;
  /** Start of a drag, and the height then. */
  private from: { y: number; height: number } | null = null;

  constructor(
    private readonly frame: HTMLElement,
    private readonly stage: Stage,
    signal: AbortSignal,
    private readonly keep: (height: number) => void,
  ) {
    this.el = h("div", {
      class: "hta-height",
      role: "separator",
      tabindex: 0,
      title: "Drag: height of the rows. Arrow keys as well; Home: least; End: all rows",
      "aria-orientation": "horizontal",
      "aria-label": "Height of the rows",
      "aria-valuemin": LEAST_PX,
    });
    frame.append(this.el);
    const on = <K extends keyof HTMLElementEventMap>(
      type: K,
      listener: (event: HTMLElementEventMap[K]) => void,
    ): void => this.el.addEventListener(type, listener, { signal });
    on("pointerdown", (event) => this.down(event));
    on("pointermove", ({ clientY }) => {
      if (this.from !== null) this.most = this.from.height + clientY - this.from.y;
    });
    on("pointerup", () => this.drop());
    on("pointercancel", () => this.drop());
    on("keydown", (event) => this.press(event));
  }

  /** Height of the drawing: less than requested if the rows need less. */
  get height(): number {
    return this.own;
  }

  set most(height: number) {
    this.asked = Math.max(height, LEAST_PX);
    this.fit();
  }

  /** Limit the height to that of the rows. */
  fit(): void {
    this.own = Math.max(this.stage.contentHeight(this.asked), LEAST_PX);
    this.frame.style.height = `${this.own}px`;
    aria(this.el, "valuenow", Math.round(this.own));
    aria(this.el, "valuemax", Math.round(Math.max(this.stage.contentHeight(), this.own)));
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    event.preventDefault();
    this.el.focus({ preventScroll: true });
    this.el.setPointerCapture(event.pointerId);
    this.from = { y: event.clientY, height: this.own };
  }

  private drop(): void {
    if (this.from === null) return;
    this.from = null;
    this.keep(Math.round(this.asked));
  }

  private press(event: KeyboardEvent): void {
    const to: Record<string, number> = {
      ArrowUp: this.own - STEP_PX,
      ArrowDown: this.own + STEP_PX,
      Home: LEAST_PX,
      End: this.stage.contentHeight(),
    };
    const height = to[event.key];
    if (height === undefined) return;
    event.preventDefault();
    this.most = height;
    this.keep(Math.round(this.asked));
  }
}
